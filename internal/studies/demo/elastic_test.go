package demo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
)

// TestPodsAreCountedOverTime: pods that come and go are counted and priced by how many run at a time.
func TestPodsAreCountedOverTime(t *testing.T) {
	t0 := time.Date(2022, 5, 10, 0, 0, 0, 0, time.UTC)
	at := func(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }
	runs := []run{{at(1), at(4)}, {at(2), at(3)}, {at(3), at(4)}, {at(6), at(7)}}
	want := []stair{{at(1), at(2), 1}, {at(2), at(4), 2}, {at(6), at(7), 1}}
	got := stairs(runs)
	if len(got) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("stair %d: %+v, want %+v", i, got[i], want[i])
		}
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: at(0), To: at(10), Value: 100}})
	if err != nil {
		t.Fatal(err)
	}
	s := spec{cpus: 4, elastic: &scaling{throughput: []float64{1, 1.5}, watts: []float64{100, 250}}}
	grams, energy, err := s.used(runs, power.PerUnit{PUE: 2}, series) // 2 x (100 + 2 x 250 + 100) Wh
	if err != nil || float64(energy) != 1.4 || float64(grams) != 140 {
		t.Errorf("%v, %v, %v, want 140 g, 1.4 kWh", float64(grams), float64(energy), err)
	}
	// A day later the series has ended: the same hours stand in. An hour of no day has no price.
	later := []run{{at(25), at(28)}, {at(26), at(27)}, {at(27), at(28)}, {at(30), at(31)}}
	if grams, energy, err = s.used(later, power.PerUnit{PUE: 2}, series); err != nil || float64(energy) != 1.4 || float64(grams) != 140 {
		t.Errorf("a day later: %v, %v, %v, want 140 g, 1.4 kWh", float64(grams), float64(energy), err)
	}
	if _, _, err = s.used([]run{{at(9), at(11)}}, power.PerUnit{PUE: 2}, series); !errors.Is(err, ErrDemo) || !strings.Contains(err.Error(), "withheld") {
		t.Errorf("without an intensity: %v", err)
	}
	if curve := (&scaling{throughput: []float64{2, 3, 3, 5}}).scale().Curve; curve[0] != 2 || curve[1] != 1 || curve[2] != 0 || curve[3] != 2 {
		t.Errorf("marginal capacities %v", curve)
	}
}
