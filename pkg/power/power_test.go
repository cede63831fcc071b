package power

import (
	"errors"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

func TestLinearIsPiontekEquation9(t *testing.T) {
	m, err := NewLinear(212, 597)
	if err != nil {
		t.Fatal(err)
	}
	for u, want := range map[float64]units.Power{0: 212, 1: 597, 0.5: 404.5, -3: 212, 7: 597} {
		if got := m.At(u); math.Abs(float64(got-want)) > 1e-9 {
			t.Errorf("P(%v) = %v, want %v", u, got, want)
		}
	}
}

func TestModelsReject(t *testing.T) {
	for _, m := range [][2]units.Power{{-1, 5}, {6, 5}, {units.Power(math.NaN()), 5}, {1, units.Power(math.Inf(1))}} {
		if _, err := NewLinear(m[0], m[1]); !errors.Is(err, ErrModel) {
			t.Errorf("NewLinear(%v): %v, want ErrModel", m, err)
		}
	}
	for _, pue := range []float64{0.9, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewPerUnit(nil, pue); !errors.Is(err, ErrModel) {
			t.Errorf("NewPerUnit(pue %v): %v, want ErrModel", pue, err)
		}
	}
	if _, err := NewPerUnit(map[string]float64{"cpu": -1}, 1); !errors.Is(err, ErrModel) {
		t.Errorf("negative watts: %v, want ErrModel", err)
	}
}

func TestPerUnit(t *testing.T) {
	m, err := NewPerUnit(map[string]float64{"cpu": 4, "nvidia.com/gpu": 200}, 1.5)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Of(map[string]float64{"cpu": 8, "nvidia.com/gpu": 2, "memory": 1 << 34}); got != 648 {
		t.Errorf("power = %v, want (8*4 + 2*200) * 1.5 = 648", got)
	}
}

// TestPartsSumToTheWhole: cutting an interval anywhere changes nothing.
func TestPartsSumToTheWhole(t *testing.T) {
	start := time.Date(2023, 5, 1, 0, 0, 0, 0, time.UTC)
	var samples []carbon.Sample
	for h := range 48 {
		samples = append(samples, carbon.Sample{
			From: start.Add(time.Duration(h) * time.Hour), To: start.Add(time.Duration(h+1) * time.Hour),
			Value: units.CarbonIntensity(100 + 37*(h%7)),
		})
	}
	s, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	to := start.Add(31*time.Hour + 17*time.Minute)
	whole := PriceOver(250, s, start, to)
	if whole.Filled != 0 || whole.Unknown != 0 {
		t.Fatalf("%+v inside the series", whole)
	}
	var parts units.Emissions
	for at := start; at.Before(to); at = at.Add(23 * time.Minute) {
		end := at.Add(23 * time.Minute)
		if end.After(to) {
			end = to
		}
		parts += PriceOver(250, s, at, end).Emissions
	}
	if math.Abs(float64(parts-whole.Emissions)) > 1e-9*float64(whole.Emissions) {
		t.Errorf("parts %v, whole %v", parts, whole.Emissions)
	}
}

// TestPriceOverFills checks that hours without intensity are priced by carbon.FillRule,
// and that what the rule cannot reach is named.
func TestPriceOverFills(t *testing.T) {
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	s, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{{From: start, To: start.Add(time.Hour), Value: 400}})
	if err != nil {
		t.Fatal(err)
	}
	p := PriceOver(500, s, start.Add(24*time.Hour), start.Add(26*time.Hour))
	if p.Emissions != 200 || p.Filled != time.Hour || p.Unknown != time.Hour {
		t.Errorf("%+v, want 200 g in the hour that is filled, and one that is unknown", p)
	}
}
