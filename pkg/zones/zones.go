// Package zones says which grid zone a region of a cloud lies in, and whose
// clock people in a zone live by.
//
// Sources: the places of the regions are those that the clouds publish (AWS
// "Regions and Availability Zones", Google Cloud "Regions and zones", Azure
// "Azure regions list"); the zone is that of Electricity Maps in which the place
// lies; clocks are those of the IANA time zone database. Where a region spans
// several zones, the one of the stated place is given.
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

// ErrRegion marks a region of a cloud that the table does not have.
var ErrRegion = errors.New("unknown cloud region")

//go:embed regions.csv
var regionsText string

//go:embed clocks.csv
var clocksText string

// Region is a region of a cloud and the grid zone it lies in.
type Region struct {
	Cloud string // aws, gcp or azure
	Name  string // e.g. eu-central-1
	Place string
	Zone  string // grid zone, names of Electricity Maps
}

type tables struct {
	regions []Region
	clocks  map[string]string
}

var load = sync.OnceValues(func() (t tables, err error) {
	rows, err := csv.NewReader(strings.NewReader(regionsText)).ReadAll()
	if err != nil {
		return t, fmt.Errorf("regions.csv: %w", err)
	}
	for _, row := range rows[1:] {
		t.regions = append(t.regions, Region{row[0], row[1], row[2], row[3]})
	}
	if rows, err = csv.NewReader(strings.NewReader(clocksText)).ReadAll(); err != nil {
		return t, fmt.Errorf("clocks.csv: %w", err)
	}
	t.clocks = map[string]string{}
	for _, row := range rows[1:] {
		t.clocks[row[0]] = row[1]
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
	cloud, region, ok := strings.Cut(strings.ToLower(name), "/")
	if !ok {
		return "", fmt.Errorf("%w: %q; accepted: cloud/region, e.g. aws/eu-central-1", ErrRegion, name)
	}
	for _, r := range t.regions {
		if r.Cloud == cloud && r.Name == region {
			return r.Zone, nil
		}
	}
	return "", fmt.Errorf("%w: %q; accepted: those of lull forecast regions", ErrRegion, name)
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
	l, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC, false
	}
	return l, true
}
