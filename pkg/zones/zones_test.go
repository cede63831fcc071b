package zones

import (
	"errors"
	"os"
	"strings"
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
	if len(seen) < 200 {
		t.Errorf("%d regions", len(seen))
	}
}

// TestRegionsOfClouds checks regions of each cloud, and that unclear ones are not in the table.
func TestRegionsOfClouds(t *testing.T) {
	for name, want := range map[string]string{
		"aws/cn-north-1": "CN", "aws/cn-northwest-1": "CN", "aws/eusc-de-east-1": "DE", "aws/ap-southeast-6": "NZ",
		"azure/chinanorth3": "CN", "azure/usgovvirginia": "US-MIDA-PJM", "azure/denmarkeast": "DK-DK2", "azure/belgiumcentral": "BE",
		"gcp/asia-southeast3": "TH", "oci/us-ashburn-1": "US-MIDA-PJM", "oci/eu-jovanovac-1": "RS", "oci/sa-bogota-1": "CO",
		"ibm/us-south": "US-TEX-ERCO", "ibm/jp-osa": "JP-KN", "ibm/in-che": "IN-SO",
		"oci/us-phoenix-1": "", "oci/ap-batam-1": "", "azure/norwaywest": "",
	} {
		if zone, err := OfRegion(name); zone != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, zone, err, want)
		}
	}
}

// TestCloudsAreDocumented checks that the reference names the prefix of each cloud.
func TestCloudsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Regions() {
		if !strings.Contains(string(text), "`"+r.Cloud+"/") {
			t.Fatalf("docs/reference.md has no prefix %s/", r.Cloud)
		}
	}
}

// TestEveryCountryHasAZoneWithAClock: a timestamp without an offset is read by that clock.
func TestEveryCountryHasAZoneWithAClock(t *testing.T) {
	tables, err := load()
	if err != nil || len(tables.countries) < 80 {
		t.Fatalf("%d countries, %v", len(tables.countries), err)
	}
	for key, zone := range tables.countries {
		if key[0] != strings.ToUpper(key[0]) || len(key[0]) != 3 || key[1] != strings.ToLower(key[1]) {
			t.Errorf("%q: want a code of three capitals, and a part in lower case", key)
		}
		if _, ok := tables.clocks[zone]; !ok {
			t.Errorf("%q: zone %s has no clock", key, zone)
		}
	}
}

// TestPartOfACountryCountsForItself: a part of a country counts where it has a grid of its own, and there is no default.
func TestPartOfACountryCountsForItself(t *testing.T) {
	for _, c := range []struct{ country, part, zone string }{
		{"FRA", "île-de-france", "FR"}, {"fra", "", "FR"}, {"CAN", "Quebec", "CA-QC"}, {"USA", "vermont", "US-NE-ISNE"},
		{"CAN", "", ""}, {"USA", "texas", ""}, {"", "", ""}, {"XXX", "quebec", ""},
	} {
		if zone, err := OfCountry(c.country, c.part); zone != c.zone || errors.Is(err, ErrCountry) != (c.zone == "") {
			t.Errorf("%q, %q: %q, %v", c.country, c.part, zone, err)
		}
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
