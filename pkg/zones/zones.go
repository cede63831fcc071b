// Package zones says which grid zone a region of a cloud lies in, and whose
// clock people in a zone live by.
//
// Sources: the places of the regions are those that the clouds publish (AWS
// "Regions and Availability Zones", Google Cloud "Regions and zones", Azure
// "Azure regions list", Oracle Cloud "Regions and Availability Domains", IBM Cloud
// "Regions"), also of their parts for governments and in China; the zone is that of
// Electricity Maps in which the place lies, of which mainland China has one; clocks
// are those of the IANA time zone database. Where a region spans several zones, the
// one of the stated place is given. A region is left out if nobody publishes its place,
// or if several grids meet there: oci/ap-batam-1 (an island apart from the grid of ID),
// oci/us-phoenix-1, oci/us-luke-1, azure/usgovarizona, azure/norwaywest.
//
// countries.csv has the countries of which Electricity Maps has one zone, by ISO 3166-1
// alpha-3. Of Canada, Australia and the United States, whose countries have no one grid,
// it has the parts that lie in one zone.
package zones

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // clocks must not depend on what the machine has installed
)

// ErrRegion marks a region of a cloud that the table does not have, ErrCountry a country.
var (
	ErrRegion  = errors.New("unknown cloud region")
	ErrCountry = errors.New("no one grid zone for country")
)

//go:embed regions.csv
var regionsText string

//go:embed clocks.csv
var clocksText string

//go:embed countries.csv
var countriesText string

// Region is a region of a cloud and the grid zone it lies in.
type Region struct {
	Cloud string // aws, azure, gcp, ibm or oci
	Name  string // e.g. eu-central-1
	Place string
	Zone  string // grid zone, names of Electricity Maps
}

type tables struct {
	regions []Region
	clocks  map[string]string
	// ofRegion are zones by cloud and region, as aws/eu-central-1.
	ofRegion map[string]string
	// countries are zones by country and part of it, "" for the country as a whole.
	countries map[[2]string]string
	// zones are all that the tables name.
	zones map[string]bool
}

var load = sync.OnceValues(func() (t tables, err error) {
	rows, err := csv.NewReader(strings.NewReader(regionsText)).ReadAll()
	if err != nil {
		return t, fmt.Errorf("regions.csv: %w", err)
	}
	t.ofRegion, t.zones = map[string]string{}, map[string]bool{}
	for _, row := range rows[1:] {
		t.regions = append(t.regions, Region{row[0], row[1], row[2], row[3]})
		t.ofRegion[row[0]+"/"+row[1]] = row[3]
		t.zones[row[3]] = true
	}
	if rows, err = csv.NewReader(strings.NewReader(clocksText)).ReadAll(); err != nil {
		return t, fmt.Errorf("clocks.csv: %w", err)
	}
	t.clocks = map[string]string{}
	for _, row := range rows[1:] {
		t.clocks[row[0]] = row[1]
		t.zones[row[0]] = true
	}
	if rows, err = csv.NewReader(strings.NewReader(countriesText)).ReadAll(); err != nil {
		return t, fmt.Errorf("countries.csv: %w", err)
	}
	t.countries = map[[2]string]string{}
	for _, row := range rows[1:] {
		t.countries[[2]string{row[0], row[1]}] = row[2]
		t.zones[row[2]] = true
	}
	return t, nil
})

// Regions returns the whole table, sorted by cloud and name.
func Regions() []Region {
	t, err := load()
	if err != nil {
		return nil
	}
	out := append([]Region(nil), t.regions...)
	sort.Slice(out, func(a, b int) bool {
		return out[a].Cloud < out[b].Cloud || (out[a].Cloud == out[b].Cloud && out[a].Name < out[b].Name)
	})
	return out
}

// OfRegion returns the grid zone of a region, given as "aws/eu-central-1". There
// is no default: what the table does not have is ErrRegion.
func OfRegion(name string) (string, error) {
	t, err := load()
	if err != nil {
		return "", err
	}
	if !strings.Contains(name, "/") {
		return "", fmt.Errorf("%w: %q; accepted: cloud/region, e.g. aws/eu-central-1%s", ErrRegion, name, Hint(name))
	}
	if zone, ok := t.ofRegion[strings.ToLower(name)]; ok {
		return zone, nil
	}
	return "", fmt.Errorf("%w: %q; accepted: those of lull forecast regions", ErrRegion, name)
}

// OfCountry returns the grid zone of a country, given by its ISO 3166-1 alpha-3 code, and of a part of it, such as a
// province ("quebec"), which counts where the country has several grids. Upper and lower case are the same. There is no
// default: OfCountry returns ErrCountry for a country that the table does not have.
func OfCountry(alpha3, part string) (string, error) {
	t, err := load()
	if err != nil {
		return "", err
	}
	country := strings.ToUpper(alpha3)
	for _, key := range [][2]string{{country, strings.ToLower(part)}, {country, ""}} {
		if zone, ok := t.countries[key]; ok {
			return zone, nil
		}
	}
	return "", fmt.Errorf("%w: %q, part %q; accepted: a country with one grid, or a part of CAN, AUS or USA that has one", ErrCountry, alpha3, part)
}

// Clock returns the local time of a zone; UTC, and false, where it is not known.
func Clock(zone string) (*time.Location, bool) {
	t, err := load()
	if err != nil {
		return time.UTC, false
	}
	name, ok := t.clocks[zone]
	if !ok {
		// A part of a country that is not listed by itself: the country's clock.
		if country, _, cut := strings.Cut(zone, "-"); cut {
			name, ok = t.clocks[country]
		}
	}
	if !ok {
		return time.UTC, false
	}
	if l, ok := locations.Load(name); ok {
		return l.(*time.Location), true
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC, false
	}
	locations.Store(name, l)
	return l, true
}

// locations are the clocks that were loaded, *time.Location by their IANA name: to load one takes a while.
var locations sync.Map
