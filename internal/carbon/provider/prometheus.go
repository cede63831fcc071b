package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// Prometheus runs a query that gives one series in gCO2eq/kWh, e.g. that of the
// grid-intensity exporter; and, if there is one, a query for a recorded forecast:
// an instant vector with a series for each slot, whose label forecast_time (RFC
// 3339 or Unix seconds) says when the slot begins.
//
// Documentation: https://prometheus.io/docs/prometheus/latest/querying/api.
type Prometheus struct {
	Endpoint, Query, ForecastQuery string
	Zone                           string
	Signal                         carbon.Signal
	Factor                         carbon.Factor
	Token                          string // bearer token, or empty
}

// ForecastLabel says when a slot of a recorded forecast begins.
const ForecastLabel = "forecast_time"

// Name implements Provider.
func (m Prometheus) Name() string { return "prometheus" }

// Identity implements Provider.
func (m Prometheus) Identity() []string { return []string{m.Endpoint, m.ForecastQuery} }

// Forecasts implements Provider.
func (m Prometheus) Forecasts() bool { return m.ForecastQuery != "" }

// Provenance implements Provider.
func (m Prometheus) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: m.Zone, Signal: m.Signal, Factor: m.Factor, Source: "Prometheus " + m.Query}
}

const (
	prometheusStep = 15 * time.Minute
	// prometheusSpan keeps below the 11,000 points of an answer.
	prometheusSpan = 10_000 * prometheusStep
)

// Fetch implements Provider.
func (m Prometheus) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	var a Answer
	var errs []error
	bad, err := askEach(ctx, q.past(q.Since.Truncate(prometheusStep), q.Now, prometheusSpan), func(span carbon.Interval) error {
		body, err := m.get(ctx, get, q, "query_range", url.Values{
			"query": {m.Query}, "start": {unix(span.From)}, "end": {unix(span.To.Truncate(prometheusStep))}, "step": {strconv.Itoa(int(prometheusStep.Seconds()))},
		})
		if err != nil {
			return err
		}
		s, err := decodePrometheusRange(body, m.Provenance())
		a.Past = Merge(s, a.Past)
		return err
	})
	if a.Bad = bad; err != nil {
		errs = append(errs, fmt.Errorf("query: %w", err))
	}
	if m.ForecastQuery != "" {
		body, err := m.get(ctx, get, q, "query", url.Values{"query": {m.ForecastQuery}, "time": {unix(q.Now.Truncate(prometheusStep))}})
		if err == nil {
			a.Forecast, err = decodePrometheusForecast(body, m.Provenance())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("forecastQuery: %w", err))
		}
	}
	return a, errors.Join(errs...)
}

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

func (m Prometheus) get(ctx context.Context, get Getter, q Query, path string, query url.Values) ([]byte, error) {
	r := fetch.Request{URL: m.Endpoint + "/api/v1/" + path + "?" + query.Encode(), Fresh: q.Fresh}
	if m.Token != "" {
		r.Header = http.Header{"Authorization": {"Bearer " + m.Token}}
	}
	res, err := get.Get(ctx, r)
	return res.Body, err
}

// Sample is one series of an instant vector; its value may be NaN or infinite.
type Sample struct {
	Labels map[string]string
	At     time.Time
	Value  float64
}

// Instant evaluates Query now. The answer is neither kept nor shared.
func (m Prometheus) Instant(ctx context.Context, get Getter) ([]Sample, error) {
	r := fetch.Request{URL: m.Endpoint + "/api/v1/query?" + url.Values{"query": {m.Query}}.Encode(), Private: true}
	if m.Token != "" {
		r.Header = http.Header{"Authorization": {"Bearer " + m.Token}}
	}
	res, err := get.Get(ctx, r)
	if err != nil {
		return nil, err
	}
	return decodePrometheusInstant(res.Body)
}

func decodePrometheusInstant(body []byte) ([]Sample, error) {
	in, err := decodePrometheus(body, "vector")
	if err != nil {
		return nil, err
	}
	out := make([]Sample, len(in.Data.Result))
	for i, x := range in.Data.Result {
		at, v, err := x.Value.parse()
		if err != nil {
			return nil, fmt.Errorf("result[%d].value: %w", i, err)
		}
		out[i] = Sample{Labels: x.Metric, At: at, Value: v}
	}
	return out, nil
}

// prometheusValue is [seconds, "value"].
type prometheusValue struct {
	pair  [2]json.RawMessage
	other string // what stands there, if it is no array
}

// UnmarshalJSON never fails: what is no array costs itself, and not the answer.
func (v *prometheusValue) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &v.pair) != nil {
		v.other = string(text)
	}
	return nil
}

func (v prometheusValue) parse() (at time.Time, value float64, _ error) {
	if v.other != "" {
		return at, 0, fmt.Errorf("%w: %s; accepted: [seconds, \"value\"]", ErrWire, clip(v.other))
	}
	seconds, _, err1 := number(v.pair[0])
	var text string
	err2 := json.Unmarshal(v.pair[1], &text)
	value, err3 := strconv.ParseFloat(text, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return at, 0, fmt.Errorf("%w: %w", ErrWire, err)
	}
	if seconds < 0 || seconds > 7e9 {
		return at, 0, fmt.Errorf("%w: time %v; accepted: Unix seconds", ErrWire, seconds)
	}
	return time.UnixMilli(int64(seconds * 1000)).UTC(), value, nil
}

// point is that value of a series of intensities. One that is null or not finite is a gap; one that cannot be read costs itself.
func (v prometheusValue) point(where string) point {
	if v.none(1) {
		v.pair[1] = json.RawMessage(`"NaN"`)
	}
	at, value, err := v.parse()
	if err == nil && v.none(0) {
		at, err = time.Time{}, fmt.Errorf("%w: time null; accepted: Unix seconds", ErrWire)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return point{at: at, value: value, gap: !finite(value), where: where, bad: err}
}

// none says that the time (0) or the value (1) is missing or null.
func (v prometheusValue) none(i int) bool {
	return v.other == "" && (len(v.pair[i]) == 0 || string(v.pair[i]) == "null")
}

type prometheusAnswer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string `json:"metric"`
			Values []prometheusValue `json:"values"`
			Value  prometheusValue   `json:"value"`
		} `json:"result"`
	} `json:"data"`
}

func decodePrometheus(body []byte, kind string) (prometheusAnswer, error) {
	var in prometheusAnswer
	if err := decode(body, &in); err != nil {
		return in, err
	}
	if in.Status != "success" {
		return in, fmt.Errorf("%w: status %q: %q", ErrWire, clip(in.Status), clip(in.Error))
	}
	if in.Data.ResultType != kind {
		return in, fmt.Errorf("%w: resultType: %q; accepted: %q", ErrWire, clip(in.Data.ResultType), kind)
	}
	return in, nil
}

func decodePrometheusRange(body []byte, p carbon.Provenance) ([]carbon.Sample, error) {
	in, err := decodePrometheus(body, "matrix")
	if err != nil {
		return nil, err
	}
	switch n := len(in.Data.Result); {
	case n == 0:
		return nil, nil
	case n > 1:
		return nil, fmt.Errorf("%w: %d series; accepted: a query that gives one", ErrWire, n)
	}
	list := in.Data.Result[0].Values
	points := make([]point, 0, len(list))
	for i, x := range list {
		if x.none(0) && x.none(1) {
			continue // it says nothing
		}
		pt := x.point(fmt.Sprintf("values[%d]", i))
		pt.length = prometheusStep
		points = append(points, pt)
	}
	return samples(points, prometheusStep, p)
}

func decodePrometheusForecast(body []byte, p carbon.Provenance) ([]carbon.Sample, error) {
	in, err := decodePrometheus(body, "vector")
	if err != nil {
		return nil, err
	}
	points := make([]point, len(in.Data.Result))
	for i, x := range in.Data.Result {
		label, ok := x.Metric[ForecastLabel]
		if !ok {
			points[i] = point{bad: fmt.Errorf("%w: result[%d]: no label %s", ErrWire, i, ForecastLabel)}
			continue
		}
		at, err := parseTime(label)
		if seconds, numeric := strconv.ParseInt(label, 10, 64); numeric == nil && seconds >= 0 && seconds < 7e9 {
			at, err = time.Unix(seconds, 0).UTC(), nil
		}
		if err != nil {
			points[i] = point{bad: fmt.Errorf("result[%d].metric.%s: %w", i, ForecastLabel, err)}
			continue
		}
		x.Value.pair[0] = json.RawMessage("0") // when the query was evaluated: the label counts
		points[i] = x.Value.point(fmt.Sprintf("result[%d].value", i))
		points[i].at = at
	}
	return samples(points, time.Hour, p)
}
