package ledger

import (
	"slices"
	"testing"
)

// TestEnergyOfSeveralSources: the energy of a reading is counted once, however many sources it has.
func TestEnergyOfSeveralSources(t *testing.T) {
	for name, tc := range map[string]struct {
		readings    []Energy // an hour each
		measured    float64
		uncertainty float64
		sources     []string
	}{
		"a quarter by the model": {[]Energy{{KWh: 0.4, ModelKWh: 0.1, Source: "kepler+model"}}, 0.3, (0.3*0.15 + 0.1*0.4) / 0.4, []string{"kepler", "model"}},
		"measured beside it": {
			[]Energy{{KWh: 0.4, Source: "kepler"}, {KWh: 0.4, ModelKWh: 0.1, Source: "kepler+model"}},
			0.7, (0.7*0.15 + 0.1*0.4) / 0.8, []string{"kepler", "model"},
		},
		// The shares are not recorded: the least certain source counts.
		"two that measure":          {[]Energy{{KWh: 0.4, Source: "kepler+dcgm"}}, 0.4, 0.15, []string{"dcgm", "kepler"}},
		"as earlier versions wrote": {[]Energy{{KWh: 0.4, Source: "dcgm+model"}}, 0.4, 0.4, []string{"dcgm", "model"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := book{t, fresh(t)}
			s := NewSettler(b.l)
			b.offer(0, 4)
			b.hours(0, 100, 100, 100, 100)
			b.submit("w", 0)
			end := float64(len(tc.readings))
			b.ran("w", "w-1", 0, end)
			for i, e := range tc.readings {
				e.From, e.To, e.Zone = at(float64(i)), at(float64(i+1)), "z"
				b.add(KindEnergy, "energy/"+e.From.String(), "w", e)
			}
			b.finished("w", end)
			b.settle(s, 4, 1)
			got := b.settled()["w"]
			if !near(got.MeasuredKWh, tc.measured) || !near(got.Uncertainty, tc.uncertainty) || !slices.Equal(got.Sources, tc.sources) {
				t.Errorf("%v kWh measured, uncertainty %v, by %v; want %v, %v, %v", got.MeasuredKWh, got.Uncertainty, got.Sources, tc.measured, tc.uncertainty, tc.sources)
			}
		})
	}
}
