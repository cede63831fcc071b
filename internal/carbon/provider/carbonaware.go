package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// CarbonAwareSDK asks the WebAPI of the Green Software Foundation's Carbon Aware
// SDK, gCO2/kWh. What the numbers are (average or marginal, life-cycle or direct)
// depends on the SDK's own source, so the zone states it.
//
// Documentation: https://carbon-aware-sdk.greensoftware.foundation.
type CarbonAwareSDK struct {
	Endpoint, Location string
	Signal             carbon.Signal
	Factor             carbon.Factor
}

// Name implements Provider.
func (m CarbonAwareSDK) Name() string { return "carbonAwareSDK" }

// Identity implements Provider.
func (m CarbonAwareSDK) Identity() []string { return []string{m.Endpoint} }

// Forecasts implements Provider.
func (m CarbonAwareSDK) Forecasts() bool { return true }

// Provenance implements Provider.
func (m CarbonAwareSDK) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: m.Location, Signal: m.Signal, Factor: m.Factor, Source: "Carbon Aware SDK"}
}

// carbonAwareSpan is the longest span of a request. The SDK states no limit; one bad value costs a span.
const carbonAwareSpan = 14 * 24 * time.Hour

// Fetch implements Provider.
func (m CarbonAwareSDK) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	var a Answer
	var errs []error
	ask := func(path string, query url.Values) ([]byte, error) {
		res, err := get.Get(ctx, fetch.Request{URL: m.Endpoint + path + "?" + query.Encode(), Fresh: q.Fresh})
		return res.Body, err
	}
	bad, err := askEach(ctx, q.past(q.Since, q.Now, carbonAwareSpan), func(span carbon.Interval) error {
		body, err := ask("/emissions/bylocations", url.Values{"location": {m.Location}, "time": {stamp(span.From)}, "toTime": {stamp(span.To)}})
		if err != nil {
			return err
		}
		s, err := DecodeCarbonAwareList(body, m.Location, m.Provenance())
		a.Past = Merge(s, a.Past)
		return err
	})
	if a.Bad = bad; err != nil {
		errs = append(errs, fmt.Errorf("emissions: %w", err))
	}
	// Without a span the SDK gives all that its own source has.
	body, err := ask("/emissions/forecasts/current", url.Values{"location": {m.Location}})
	if err == nil {
		a.Forecast, err = decodeCarbonAwareForecast(body, m.Location, m.Provenance())
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("forecast: %w", err))
	}
	return a, errors.Join(errs...)
}

// carbonAwarePoint accepts the spellings of emissions and of forecasts.
type carbonAwarePoint struct {
	Location  string          `json:"location"`
	Time      string          `json:"time"`
	Timestamp string          `json:"timestamp"`
	Duration  json.RawMessage `json:"duration"`
	Value     wireNumber      `json:"value"`
	Rating    wireNumber      `json:"rating"`
}

// DecodeCarbonAwareList reads a list of emissions: of the WebAPI's
// /emissions/bylocations, and of the ConfigMap that the SDK's exporter writes
// (binaryData.data).
func DecodeCarbonAwareList(body []byte, location string, p carbon.Provenance) ([]carbon.Sample, error) {
	var in []*carbonAwarePoint
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	return carbonAwareSamples(in, location, p)
}

type carbonAwareForecast struct {
	GeneratedAt  string              `json:"generatedAt"`
	ForecastData []*carbonAwarePoint `json:"forecastData"`
}

func decodeCarbonAwareForecast(body []byte, location string, p carbon.Provenance) ([]carbon.Sample, error) {
	var in []*carbonAwareForecast
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	in = slices.DeleteFunc(in, func(x *carbonAwareForecast) bool { return x == nil })
	if len(in) == 0 {
		return nil, fmt.Errorf("%w: 0 forecasts; accepted: one, of the location asked for", ErrWire)
	}
	newest := in[0].ForecastData // of several, the last one issued
	for i, x := range in {
		if x.GeneratedAt == "" {
			continue
		}
		at, err := parseTime(x.GeneratedAt)
		if err != nil {
			return nil, fmt.Errorf("[%d].generatedAt: %w", i, err)
		}
		if !at.Before(p.IssuedAt) {
			p.IssuedAt, newest = at, x.ForecastData
		}
	}
	return carbonAwareSamples(newest, location, p)
}

func carbonAwareSamples(in []*carbonAwarePoint, location string, p carbon.Provenance) ([]carbon.Sample, error) {
	points := make([]point, 0, len(in))
	for i, x := range in {
		if x == nil {
			continue
		}
		// The SDK answers with the name that its own source has for the place, so
		// only an answer about nothing at all is refused.
		if x.Location == "" && location != "" {
			return nil, fmt.Errorf("%w: [%d].location: empty; accepted: a location", ErrWire, i)
		}
		text := x.Time
		if text == "" {
			text = x.Timestamp
		}
		at, err := parseTime(text)
		if err != nil {
			points = append(points, point{bad: fmt.Errorf("[%d].time: %w", i, err)})
			continue
		}
		pt := x.Value.or(x.Rating).point(at, fmt.Sprintf("[%d].value", i))
		pt.length = carbonAwareDuration(x.Duration)
		points = append(points, pt)
	}
	return samples(points, time.Hour, p)
}

// carbonAwareDuration reads minutes, or "hh:mm:ss"; 0 where it is neither.
func carbonAwareDuration(raw json.RawMessage) time.Duration {
	if minutes, err := strconv.ParseFloat(string(raw), 64); err == nil && minutes >= 1 && minutes <= 24*60 {
		return time.Duration(minutes * float64(time.Minute))
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return 0
	}
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0
	}
	d, err := time.ParseDuration(parts[0] + "h" + parts[1] + "m" + parts[2] + "s")
	if err != nil || d < time.Minute || d > 24*time.Hour {
		return 0
	}
	return d
}
