package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// ElectricityMaps asks the API of Electricity Maps, v3 or v4: average intensity,
// flow-traced. Free keys have no forecast and one day of history; what a key does
// not include is left out with the error that the service gave.
//
// Documentation: https://portal.electricitymaps.com/docs/api.
type ElectricityMaps struct {
	Endpoint string // e.g. https://api.electricitymaps.com
	Version  string // v3 or v4
	Zone     string
	Factor   carbon.Factor
	// DisableEstimations asks for measured values only.
	DisableEstimations bool
	Token              string
}

// Name implements Provider.
func (m ElectricityMaps) Name() string { return "electricityMaps" }

// Identity implements Provider.
func (m ElectricityMaps) Identity() []string {
	return []string{m.Endpoint, strconv.FormatBool(m.DisableEstimations)}
}

// Forecasts implements Provider.
func (m ElectricityMaps) Forecasts() bool { return true }

// Provenance implements Provider.
func (m ElectricityMaps) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: m.Zone, Signal: carbon.Average, Factor: m.Factor, Source: "Electricity Maps " + m.Version}
}

const (
	// pastRange is the longest span of a request for hourly history.
	pastRange = 10 * 24 * time.Hour
	// shortHistory is how far back the history request reaches.
	shortHistory = 24 * time.Hour
)

// horizons are the forecast lengths that the service offers, in hours.
var horizons = []int{6, 24, 48, 72}

// Fetch implements Provider: the last day, or the latest value alone where no more is missing; the older history in spans
// of ten days; and the forecast.
func (m ElectricityMaps) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	var a Answer
	var errs []error
	past := func(path string, extra url.Values) error {
		body, err := m.get(ctx, get, q, path, extra)
		if err != nil {
			return err
		}
		s, err := decodeElectricityMaps(body, m.Zone, m.Provenance())
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		a.Past = Merge(s, a.Past)
		return err
	}
	path, recent := "latest", q.Now.Add(-shortHistory)
	if q.Now.Sub(q.Since) > 2*time.Hour {
		path = "history"
	}
	older := q.past(q.Since, recent, pastRange)
	// The newest span is the last day: an older one that fails is a gap.
	bad, err := askEach(ctx, append([]carbon.Interval{{From: recent, To: q.Now}}, older...), func(span carbon.Interval) error {
		if span.From.Equal(recent) {
			return past(path, nil)
		}
		return past("past-range", url.Values{"start": {stamp(span.From)}, "end": {stamp(span.To)}})
	})
	a.Bad, errs = bad, append(errs, err)
	hours := horizons[0]
	for _, h := range horizons {
		if hours < int(q.Horizon.Hours()) {
			hours = h
		}
	}
	body, err := m.get(ctx, get, q, "forecast", url.Values{"horizonHours": {strconv.Itoa(hours)}})
	if err == nil {
		a.Forecast, err = decodeElectricityMaps(body, m.Zone, m.Provenance())
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("forecast: %w", err))
	}
	return a, errors.Join(errs...)
}

func (m ElectricityMaps) get(ctx context.Context, get Getter, q Query, path string, extra url.Values) ([]byte, error) {
	query := url.Values{"zone": {m.Zone}, "emissionFactorType": {string(m.Factor)}}
	if m.DisableEstimations {
		query.Set("disableEstimations", "true")
	}
	// Otherwise an unknown zone silently becomes that of the caller's address.
	if m.Version == "v4" {
		query.Set("disableCallerLookup", "true")
	} else {
		query.Set("shouldUseFallbackCallerLookup", "false")
	}
	for k, v := range extra {
		query[k] = v
	}
	res, err := get.Get(ctx, fetch.Request{
		URL:    fmt.Sprintf("%s/%s/carbon-intensity/%s?%s", m.Endpoint, m.Version, path, query.Encode()),
		Header: http.Header{"auth-token": {m.Token}}, Fresh: q.Fresh,
	})
	return res.Body, err
}

// electricityMapsPoint accepts the spellings of both versions.
type electricityMapsPoint struct {
	CarbonIntensity wireNumber `json:"carbonIntensity"`
	Value           wireNumber `json:"value"`
	Datetime        string     `json:"datetime"`
	IsEstimated     bool       `json:"isEstimated"`
	Granularity     string     `json:"temporalGranularity"`
}

// electricityMapsSteps are the lengths of the granularities that have one.
var electricityMapsSteps = map[string]time.Duration{"5_minutes": 5 * time.Minute, "15_minutes": 15 * time.Minute, "hourly": time.Hour, "daily": 24 * time.Hour}

type electricityMapsAnswer struct {
	Zone               string `json:"zone"`
	EmissionFactorType string `json:"emissionFactorType"`
	Unit               string `json:"unit"`
	UpdatedAt          string `json:"updatedAt"`
	Disclaimer         string `json:"_disclaimer"`
	electricityMapsPoint
	History  []*electricityMapsPoint `json:"history"`
	Data     []*electricityMapsPoint `json:"data"`
	Forecast []*electricityMapsPoint `json:"forecast"`
}

// decodeElectricityMaps reads latest, history, past, past-range and forecast.
func decodeElectricityMaps(body []byte, zone string, p carbon.Provenance) ([]carbon.Sample, error) {
	var in electricityMapsAnswer
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	switch {
	// Answers with real values have a _disclaimer of ownership ("This data is the exclusive property of Electricity Maps ...":
	// https://carbon-aware-sdk.greensoftware.foundation/docs/architecture/decisions/electricity-maps-free), so the field alone says
	// nothing. No public document that was found (November 2026) states the text of the sandbox: "random" is from memory, not confirmed.
	case strings.Contains(strings.ToLower(in.Disclaimer), "random"):
		return nil, fmt.Errorf("%w: _disclaimer: %q; accepted: the key of a plan, as that of the sandbox gives random values", ErrWire, clip(in.Disclaimer))
	case in.Zone != zone:
		return nil, fmt.Errorf("%w: zone: %q; accepted: %q, the one asked for", ErrWire, clip(in.Zone), zone)
	case in.EmissionFactorType != "" && in.EmissionFactorType != string(p.Factor):
		return nil, fmt.Errorf("%w: emissionFactorType: %q; accepted: %q", ErrWire, clip(in.EmissionFactorType), p.Factor)
	case in.Unit != "" && in.Unit != "gCO2eq/kWh" && in.Unit != "gCO2eqPerkWh":
		return nil, fmt.Errorf("%w: unit: %q; accepted: gCO2eq/kWh", ErrWire, clip(in.Unit))
	}
	if in.UpdatedAt != "" && in.Forecast != nil {
		at, err := parseTime(in.UpdatedAt)
		if err != nil {
			return nil, fmt.Errorf("updatedAt: %w", err)
		}
		p.IssuedAt = at
	}
	field, list := "forecast", in.Forecast
	switch {
	case in.History != nil:
		field, list = "history", in.History
	case in.Data != nil:
		field, list = "data", in.Data
	case list == nil && in.Datetime != "":
		field, list = "latest", []*electricityMapsPoint{&in.electricityMapsPoint}
	case list == nil:
		return nil, fmt.Errorf("%w: neither datetime, history, data nor forecast", ErrWire)
	}
	points := make([]point, 0, len(list))
	for i, x := range list {
		if x == nil {
			continue
		}
		at, err := parseTime(x.Datetime)
		if err != nil {
			points = append(points, point{bad: fmt.Errorf("%s[%d].datetime: %w", field, i, err)})
			continue
		}
		length := electricityMapsSteps[x.Granularity]
		if x.Granularity == "" {
			length = electricityMapsSteps[in.Granularity]
		}
		pt := x.CarbonIntensity.or(x.Value).point(at, fmt.Sprintf("%s[%d].carbonIntensity", field, i))
		pt.length, pt.estimated = length, x.IsEstimated
		points = append(points, pt)
	}
	return samples(points, time.Hour, p)
}
