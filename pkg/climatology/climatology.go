// Package climatology is the typical carbon intensity of a few grid zones by
// month and hour of the day: what to expect where nothing else is known, and
// the default series of the demo.
//
// Source: means over 2021 to 2023 of average, life-cycle, consumption-based
// intensities by Electricity Maps, as published with CarbonX (nesl/CarbonX,
// data/forecasting-data). A mean day is smoother than any real one, so savings
// on it are lower than on a trace. gen.go derives the table.
package climatology

import (
	_ "embed"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/zones"
)

//go:embed climatology.csv
var text string

// ErrZone marks a zone that the table does not have.
var ErrZone = errors.New("no climatology for zone")

// Source names where the table comes from.
const Source = "climatology 2021-2023 (means by month and hour, after Electricity Maps via CarbonX)"

// table is intensities by zone, month (1..12) and hour of the day (UTC).
type table map[string]*[13][24]units.CarbonIntensity

var load = sync.OnceValues(func() (table, error) {
	t := table{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i == 0 {
			continue
		}
		fields := strings.Split(line, ",")
		if len(fields) != 4 {
			return nil, fmt.Errorf("climatology.csv, line %d: %d fields, want 4", i+1, len(fields))
		}
		month, err1 := strconv.Atoi(fields[1])
		hour, err2 := strconv.Atoi(fields[2])
		value, err3 := strconv.ParseFloat(fields[3], 64)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("climatology.csv, line %d: %w", i+1, err)
		}
		if t[fields[0]] == nil {
			t[fields[0]] = &[13][24]units.CarbonIntensity{}
		}
		t[fields[0]][month][hour] = units.CarbonIntensity(value)
	}
	return t, nil
})

// Zones returns the zones of the table, sorted.
func Zones() []string {
	t, err := load()
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(t))
	for zone := range t {
		names = append(names, zone)
	}
	sort.Strings(names)
	return names
}

// Series returns the typical intensity of a zone for every hour of [from, to),
// from truncated to the hour. The samples are marked as estimated. Errors:
// ErrZone, which lists the zones there are.
func Series(zone string, from, to time.Time) (*carbon.Series, error) {
	t, err := load()
	if err != nil {
		return nil, err
	}
	rows, ok := t[zone]
	if !ok {
		return nil, fmt.Errorf("%w %q; accepted: %s%s", ErrZone, zone, strings.Join(Zones(), ", "), zones.Hint(zone))
	}
	var samples []carbon.Sample
	for at := from.UTC().Truncate(time.Hour); at.Before(to); at = at.Add(time.Hour) {
		samples = append(samples, carbon.Sample{From: at, To: at.Add(time.Hour), Value: rows[at.Month()][at.Hour()], Estimated: true})
	}
	return carbon.NewSeries(carbon.Provenance{Zone: zone, Signal: carbon.Average, Factor: carbon.Lifecycle, Source: Source}, samples)
}
