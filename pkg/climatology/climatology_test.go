package climatology_test

import (
	"errors"
	"testing"
	"time"

	"lull.dev/lull/pkg/climatology"
)

func TestEveryZoneCoversTheYear(t *testing.T) {
	zones := climatology.Zones()
	if len(zones) != 12 {
		t.Fatalf("%d zones: %v", len(zones), zones)
	}
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) // a leap year
	to := from.AddDate(1, 0, 0)
	for _, zone := range zones {
		s, err := climatology.Series(zone, from, to)
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() != 366*24 || len(s.Gaps(from, to)) != 0 || s.Source == "" || !s.Sample(0).Estimated {
			t.Errorf("%s: %d samples, gaps %v, source %q", zone, s.Len(), s.Gaps(from, to), s.Source)
		}
		for i := range s.Len() {
			if v := s.Sample(i).Value; v <= 0 || v > 1200 {
				t.Fatalf("%s at %v: %v", zone, s.Sample(i).From, v)
			}
		}
	}
}

// TestSolarZonesAreCleanAtNoon: the shape is what the zones are known for.
func TestSolarZonesAreCleanAtNoon(t *testing.T) {
	day := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	for zone, noon := range map[string]int{"DE": 11, "US-CAL-CISO": 20, "AU-SA": 3} {
		s, err := climatology.Series(zone, day, day.AddDate(0, 0, 1))
		if err != nil {
			t.Fatal(err)
		}
		night := (noon + 12) % 24
		if s.Sample(noon).Value >= s.Sample(night).Value {
			t.Errorf("%s: %v at noon, %v at night", zone, s.Sample(noon).Value, s.Sample(night).Value)
		}
	}
}

func TestUnknownZoneNamesWhatThereIs(t *testing.T) {
	if _, err := climatology.Series("MARS", time.Now(), time.Now()); !errors.Is(err, climatology.ErrZone) {
		t.Errorf("error %v, want ErrZone", err)
	}
}
