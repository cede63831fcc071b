package zones

import (
	"errors"
	"testing"
)

// TestEveryRegionHasAZoneWithAClock: the two tables fit together.
func TestEveryRegionHasAZoneWithAClock(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Regions() {
		name := r.Cloud + "/" + r.Name
		if seen[name] {
			t.Errorf("%s stands twice in the table", name)
		}
		seen[name] = true
		if zone, err := OfRegion(name); err != nil || zone != r.Zone {
			t.Errorf("%s: %q, %v", name, zone, err)
		}
		if _, ok := Clock(r.Zone); !ok {
			t.Errorf("%s: zone %s has no clock", name, r.Zone)
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d regions", len(seen))
	}
}

func TestUnknown(t *testing.T) {
	for _, name := range []string{"", "eu-central-1", "aws/nowhere", "/"} {
		if _, err := OfRegion(name); !errors.Is(err, ErrRegion) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if l, ok := Clock("XX-1"); ok || l.String() != "UTC" {
		t.Errorf("clock of an unknown zone: %v %v", l, ok)
	}
	if l, ok := Clock("NO-NO2"); !ok || l.String() != "Europe/Oslo" {
		t.Errorf("clock of a part of a country: %v %v", l, ok)
	}
	if zone, err := OfRegion("AWS/eu-central-1"); err != nil || zone != "DE" {
		t.Errorf("%q, %v", zone, err)
	}
}
