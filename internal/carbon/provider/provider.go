// Package provider speaks the wire formats of those who publish carbon
// intensities and weather. Each file is one provider: what to ask, and a decoder
// from bytes to samples that never guesses: an unknown zone, unit or form is an
// error, a missing value is a gap.
package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// ErrWire marks an answer that is not what its provider documents.
var ErrWire = errors.New("unexpected answer")

// ErrConfig marks a provider that cannot be asked as configured.
var ErrConfig = errors.New("invalid source")

// Query is what a zone wants to know. All times are grid time.
type Query struct {
	Now time.Time
	// Since is where the history that is missing begins.
	Since time.Time
	// Again are parts of the past before Since that are asked for once more, in order of time.
	Again []carbon.Interval
	// Fuels is what is known of the zone's types of generation, from earlier answers.
	Fuels Fuels
	// Horizon is how far ahead a forecast is wanted.
	Horizon time.Duration
	// Fresh is how old a kept answer may be, in wall time.
	Fresh time.Duration
}

// Answer is what a provider knows. Part of it may be missing with an error that
// says why.
type Answer struct {
	// Past are measured or estimated intensities, in order of time.
	Past []carbon.Sample
	// Bad are the spans of the past that were asked for in vain, except the newest one: its error is that of Fetch.
	Bad []BadSpan
	// Fuels is that of the query with what this answer adds; nothing for a provider that states no types.
	Fuels Fuels
	// Forecast is in order of time; empty where the provider has none. IssuedAt
	// of its samples' provenance is when it was published.
	Forecast []carbon.Sample
}

// Getter gets documents; *fetch.Client is one.
type Getter interface {
	Get(ctx context.Context, r fetch.Request) (fetch.Response, error)
}

// Provider asks one service about one zone.
type Provider interface {
	// Name is that of the field in GridZone.spec.source.
	Name() string
	// Provenance is what all its samples have in common.
	Provenance() carbon.Provenance
	// Identity has all else that its values depend on, but no credential: zones share a feed if name, provenance and identity are equal.
	Identity() []string
	// Forecasts says whether the service publishes forecasts at all.
	Forecasts() bool
	// Fetch asks. An error may come with what could be had all the same.
	Fetch(ctx context.Context, get Getter, q Query) (Answer, error)
}

// Inheritor is a Provider that keeps something between requests, such as a token.
type Inheritor interface {
	Provider
	// Inherit takes that over from the provider that it replaces, if that is one of its kind with the same account.
	Inherit(old Provider)
}

// The addresses of the public services: those of GridZone.spec.source, if it states none, and of lull forecast.
const (
	ElectricityMapsEndpoint   = "https://api.electricitymaps.com"
	WattTimeEndpoint          = "https://api.watttime.org"
	UKCarbonIntensityEndpoint = "https://api.carbonintensity.org.uk"
	EntsoEEndpoint            = "https://web-api.tp.entsoe.eu"
	EIAEndpoint               = "https://api.eia.gov"
)

// maxPoints bounds the values of an answer: a year of five minutes.
const maxPoints = 110_000

// point is a value on the wire.
type point struct {
	at        time.Time
	length    time.Duration // as stated; 0 where the answer states none
	value     float64
	gap       bool // null
	estimated bool
	where     string // for errors
	bad       error  // why there is no value that can be read
}

// badValues are those of an answer that cannot be read: they cost themselves and no others.
type badValues struct {
	first error
	n     int
}

func (b *badValues) add(err error) {
	if b.n++; b.first == nil {
		b.first = err
	}
}

// err names the first one.
func (b *badValues) err() error {
	if b.n > 1 {
		return fmt.Errorf("%w (and %d more)", b.first, b.n-1)
	}
	return b.first
}

// samples turns points into samples that all come from p. A point is valid for the
// length that it states, else for that which carbon.Steps infers (only, for a single
// point), and in any case until the next one. Of points of one time a value stands over
// none, a measured value over an estimated one, else the later one: it is a revision.
// Values that cannot be read or that no grid has are left out and named in the error, beside
// which the others are returned.
//
// Complexity: O(n log n).
func samples(points []point, only time.Duration, p carbon.Provenance) ([]carbon.Sample, error) {
	if len(points) > maxPoints {
		return nil, fmt.Errorf("%w: %d values; accepted: at most %d", ErrWire, len(points), maxPoints)
	}
	var bad badValues
	readable := make([]point, 0, len(points))
	for _, pt := range points {
		if pt.bad != nil {
			bad.add(pt.bad)
			pt.gap = true
		}
		if pt.bad == nil || !pt.at.IsZero() {
			readable = append(readable, pt)
		}
	}
	points = readable
	sort.SliceStable(points, func(a, b int) bool { return points[a].at.Before(points[b].at) })
	distinct := points[:0]
	for _, pt := range points {
		if n := len(distinct); n > 0 && distinct[n-1].at.Equal(pt.at) {
			if !distinct[n-1].rank().StandsOver(pt.rank()) {
				distinct[n-1] = pt
			}
			continue
		}
		distinct = append(distinct, pt)
	}
	starts := make([]time.Time, len(distinct))
	for i, pt := range distinct {
		starts[i] = pt.at
	}
	inferred := carbon.Steps(starts, only)
	out := make([]carbon.Sample, 0, len(distinct))
	for i, pt := range distinct {
		v := units.CarbonIntensity(pt.value)
		switch {
		case pt.gap:
			continue
		case !v.Valid():
			bad.add(fmt.Errorf("%w: %s: %v; accepted: 0 to %v gCO2eq/kWh", ErrWire, pt.where, pt.value, float64(units.MaxCarbonIntensity)))
			continue
		}
		length := inferred[i]
		if pt.length > 0 {
			length = pt.length
		}
		end := pt.at.Add(length)
		if i+1 < len(distinct) && starts[i+1].Before(end) {
			end = starts[i+1]
		}
		out = append(out, carbon.Sample{From: pt.at, To: end, Value: v, Estimated: pt.estimated, Of: &p})
	}
	return out, bad.err()
}

// rank says how far to trust the point.
func (pt point) rank() carbon.Rank { return carbon.RankOf(pt.gap, pt.estimated) }

// decode reads one JSON value; form is a pointer to what is documented.
func decode(body []byte, form any) error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return fmt.Errorf("%w: %w: empty; accepted: JSON", ErrWire, ErrNoData)
	}
	if trimmed[0] == '<' {
		return fmt.Errorf("%w: %q; accepted: JSON", ErrWire, clip(string(trimmed)))
	}
	if err := json.Unmarshal(trimmed, form); err != nil {
		return fmt.Errorf("%w: %w", ErrWire, units.ReadError(err))
	}
	return nil
}

// parseTime reads a time in one of the layouts that providers use, UTC unless
// it says otherwise.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15"} {
		if at, err := time.Parse(layout, text); err == nil {
			if at.Year() < 1970 || at.Year() > 2200 {
				break
			}
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: time %q; accepted: RFC 3339 between 1970 and 2200", ErrWire, clip(text))
}

// stamp is the time of a request, to the minute.
func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

// clip shortens a text for an error.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "?")
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// finite reports whether v is a number.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// after returns the samples that begin at or after at.
func after(s []carbon.Sample, at time.Time) []carbon.Sample {
	return s[sort.Search(len(s), func(i int) bool { return !s[i].From.Before(at) }):]
}
