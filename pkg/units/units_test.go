package units

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestEnergyAndEmissions(t *testing.T) {
	// 500 W for 90 minutes are 0.75 kWh; at 400 g/kWh they emit 300 g.
	e := Power(500).Over(90 * time.Minute)
	if e != 0.75 {
		t.Errorf("500 W over 90 min = %v kWh, want 0.75", float64(e))
	}
	if m := e.At(400); m != 300 {
		t.Errorf("0.75 kWh at 400 g/kWh = %v g, want 300", float64(m))
	}
}

func TestFromPoundsPerMegawattHour(t *testing.T) {
	// The factor 0.45359237 g/kWh per lb/MWh follows from the definition of the pound.
	if got := FromPoundsPerMegawattHour(1000); math.Abs(float64(got)-453.59237) > 1e-9 {
		t.Errorf("1000 lbs/MWh = %v, want 453.59237", float64(got))
	}
}

func TestStrings(t *testing.T) {
	for want, got := range map[string]string{
		"412 gCO2eq/kWh": CarbonIntensity(412).String(),
		"250 W":          Power(250).String(),
		"1.2 kW":         Power(1200).String(),
		"0 kWh":          Energy(0).String(),
		"12.5 Wh":        Energy(0.0125).String(),
		"3.5 MWh":        Energy(3500).String(),
		"12.3 gCO2eq":    Emissions(12.3).String(),
		"1.5 kgCO2eq":    Emissions(1500).String(),
		"2 tCO2eq":       Emissions(2e6).String(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestValid(t *testing.T) {
	for v, want := range map[CarbonIntensity]bool{
		0: true, MaxCarbonIntensity: true, MaxCarbonIntensity + 1: false, 1.7e308: false, -1: false,
		CarbonIntensity(math.Inf(1)): false, CarbonIntensity(math.NaN()): false,
	} {
		if v.Valid() != want {
			t.Errorf("%v.Valid() = %v, want %v", float64(v), v.Valid(), want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	good := map[string]time.Duration{
		"0s": 0, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"PT1H30M": 90 * time.Minute, "P1D": 24 * time.Hour, "P1DT6H": 30 * time.Hour,
		"P2W": 14 * 24 * time.Hour, "PT0.5S": 500 * time.Millisecond, "PT36H": 36 * time.Hour,
	}
	for text, want := range good {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "24", "-1h", "P", "PT", "P1DT", "P1Y", "P1M", "one hour", "PT1H30", "P-1D",
		"1 h", "NaN", "P99999999999999999999W", strings.Repeat("9", 80) + "h"} {
		_, err := ParseDuration(text)
		if !errors.Is(err, ErrDuration) {
			t.Errorf("ParseDuration(%q): error %v, want ErrDuration", text, err)
			continue
		}
		if len(text) > 0 && !strings.Contains(err.Error(), text[:min(len(text), 20)]) {
			t.Errorf("error %q does not name the value %q", err, text)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1h", "PT1H30M", "P1DT6H", "P", "PT", "-1h", "1e9h", "P1.5W", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			if !errors.Is(err, ErrDuration) {
				t.Fatalf("%q: error of another kind: %v", text, err)
			}
			return
		}
		if d < 0 {
			t.Fatalf("%q parsed as negative %v", text, d)
		}
		// What was accepted must survive a round trip through Go's form.
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q -> %v -> %v, %v", text, d, again, err)
		}
	})
}

// TestZeroHasNoMinus: what rounds to zero has no minus, in any unit.
func TestZeroHasNoMinus(t *testing.T) {
	for _, c := range []struct {
		verb string
		v    float64
		want string
	}{
		{"%.1f %%", -0.04, "0.0 %"}, {"%.1f %%", -0.06, "-0.1 %"}, {"%.1f", 0.04, "0.0"}, {"%.0f%%", math.Copysign(0, -1), "0%"},
		{"%+.1f", -0.04, "+0.0"}, {"%+.1f", 0.04, "+0.0"}, {"%+.1f", -0.06, "-0.1"}, {"%+g", math.Copysign(0, -1), "+0"},
		{"%.4g", -1e-9, "-1e-09"}, {"%.4g", math.Copysign(0, -1), "0"}, {"%.1f", math.Inf(-1), "-Inf"}, {"%.1f", math.NaN(), "NaN"},
	} {
		if got := Number(c.verb, c.v); got != c.want {
			t.Errorf("Number(%q, %v) = %q, want %q", c.verb, c.v, got, c.want)
		}
	}
	zero := math.Copysign(0, -1)
	for want, got := range map[string]string{
		"0 gCO2eq/kWh": CarbonIntensity(zero).String(), "0 W": Power(zero).String(), "0 kWh": Energy(zero).String(), "0 gCO2eq": Emissions(zero).String(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
