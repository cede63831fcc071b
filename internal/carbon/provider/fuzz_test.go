package provider

import (
	"errors"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
)

// checkSamples: a decoder gives valid samples in order, each with its
// provenance, or ErrWire, or both.
func checkSamples(t *testing.T, s []carbon.Sample, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrWire) {
		t.Fatalf("error of another kind: %v", err)
	}
	for i, x := range s {
		if !x.Value.Valid() || !x.To.After(x.From) || (i > 0 && x.From.Before(s[i-1].To)) || x.Of == nil {
			t.Fatalf("invalid sample %d: %+v", i, x)
		}
	}
}

func FuzzElectricityMaps(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decodeElectricityMaps(body, "DE", carbon.Provenance{Factor: carbon.Lifecycle})
		checkSamples(t, s, err)
	})
}

func FuzzWattTime(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decodeWattTime(body, "CAISO_NORTH", "co2_moer", carbon.Provenance{})
		checkSamples(t, s, err)
	})
}

func FuzzUKCarbonIntensity(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text), 0)
		f.Add([]byte(g.text), 3)
	}
	f.Fuzz(func(t *testing.T, body []byte, region int) {
		s, err := decodeUKCarbonIntensity(body, region, carbon.Provenance{})
		checkSamples(t, s, err)
	})
}

func FuzzEntsoE(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		into := mixes{}
		err := decodeEntsoE(body, into)
		if err != nil {
			checkSamples(t, nil, err)
			return
		}
		s, err := mixSamples(into, entsoeFactors)
		checkSamples(t, s, err)
		_, err = samples(entsoeForecast(into, into, restByHour(into.slots(), time.Date(2023, 8, 24, 0, 0, 0, 0, time.UTC))), time.Hour, carbon.Provenance{})
		checkSamples(t, nil, err)
	})
}

func FuzzEIA(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		into := mixes{}
		rows, total, err := decodeEIA(body, "CISO", into)
		if err != nil {
			checkSamples(t, nil, err)
			return
		}
		if rows < 0 || total < 0 {
			t.Fatalf("%d rows of %d", rows, total)
		}
		s, err := mixSamples(into, eiaFactors)
		checkSamples(t, s, err)
	})
}

func FuzzCarbonAware(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := DecodeCarbonAwareList(body, "eastus", carbon.Provenance{})
		checkSamples(t, s, err)
		s, err = decodeCarbonAwareForecast(body, "eastus", carbon.Provenance{})
		checkSamples(t, s, err)
	})
}

func FuzzPrometheus(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := decodePrometheusRange(body, carbon.Provenance{})
		checkSamples(t, s, err)
		s, err = decodePrometheusForecast(body, carbon.Provenance{})
		checkSamples(t, s, err)
		if _, err = decodePrometheusInstant(body); err != nil {
			checkSamples(t, nil, err)
		}
	})
}

func FuzzOpenMeteo(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, places := range []int{1, 2} {
			w, err := decodeOpenMeteo(body, places, []string{"", openMeteoLead}[places-1])
			if err != nil {
				checkSamples(t, nil, err)
				continue
			}
			if n := len(w.Irradiance); n == 0 || len(w.Wind) != n || len(w.Temperature) != n {
				t.Fatalf("%d, %d and %d values", n, len(w.Wind), len(w.Temperature))
			}
		}
	})
}
