package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// EIA asks the hourly grid monitor (form EIA-930) of the US Energy Information
// Administration for generation by fuel and computes the average life-cycle
// intensity; imports are ignored. It has no forecast.
//
// Documentation: https://www.eia.gov/opendata.
type EIA struct {
	Endpoint   string // e.g. https://api.eia.gov
	Respondent string // a balancing authority, e.g. CISO
	Key        string
}

// eiaFactors by fuel type; "OTH", "UNK" and storage have none.
var eiaFactors = map[string]float64{
	"COL": factorCoal, "NG": factorGas, "OIL": factorOil, "NUC": factorNuclear, "SUN": factorSolar, "SNB": factorSolar,
	"WND": factorWind, "WNB": factorWind, "WAT": factorHydro, "GEO": factorGeothermal,
}

// Name implements Provider.
func (m EIA) Name() string { return "eia" }

// Identity implements Provider.
func (m EIA) Identity() []string { return []string{m.Endpoint} }

// Forecasts implements Provider.
func (m EIA) Forecasts() bool { return false }

// Provenance implements Provider.
func (m EIA) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: m.Respondent, Signal: carbon.Average, Factor: carbon.Lifecycle, Source: "EIA-930 generation by fuel, IPCC 2011 factors, imports ignored"}
}

// eiaSpan is the span of a request: with its hours and about ten fuels it fits into one page. eiaPage is the longest page
// that the service gives, eiaPages bounds how many are asked for.
const (
	eiaSpan  = 14 * 24 * time.Hour
	eiaPage  = 5000
	eiaPages = 40
)

// Fetch implements Provider.
func (m EIA) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	all := mixes{}
	bad, newest := askEach(ctx, q.past(q.Since, q.Now, eiaSpan), func(span carbon.Interval) error {
		return m.span(ctx, get, q, span, all)
	})
	slots := all.slots()
	fuels := q.Fuels.judge(slots, eiaFactors, q.Now)
	s, err := samples(mixPoints(slots, eiaFactors), time.Hour, m.Provenance())
	return Answer{Past: s, Bad: bad, Fuels: fuels}, errors.Join(newest, err)
}

// span adds all pages of a span to all. Rows are sorted by all that tells them apart, else those of one hour may come in
// another order on each page.
func (m EIA) span(ctx context.Context, get Getter, q Query, span carbon.Interval, all mixes) error {
	query := url.Values{
		"frequency": {"hourly"}, "data[0]": {"value"}, "facets[respondent][]": {m.Respondent},
		"start": {span.From.UTC().Format("2006-01-02T15")}, "end": {span.To.UTC().Format("2006-01-02T15")},
		"sort[0][column]": {"period"}, "sort[0][direction]": {"asc"}, "sort[1][column]": {"fueltype"}, "sort[1][direction]": {"asc"},
		"length": {strconv.Itoa(eiaPage)},
	}
	offset := 0
	var bad error // values, on any page
	for page := range eiaPages {
		query.Set("offset", strconv.Itoa(offset))
		res, err := get.Get(ctx, fetch.Request{
			URL: m.Endpoint + "/v2/electricity/rto/fuel-type-data/data/?" + query.Encode(), Secret: url.Values{"api_key": {m.Key}}, Fresh: q.Fresh,
		})
		rows, total := 0, 0
		if err == nil {
			rows, total, err = decodeEIA(res.Body, m.Respondent, all)
		}
		if err != nil {
			err = fmt.Errorf("page %d: %w", page+1, err)
		}
		if err != nil && rows == 0 {
			return err
		}
		if bad == nil {
			bad = err
		}
		if offset += rows; rows == 0 || offset >= total {
			return bad
		}
	}
	return fmt.Errorf("%w: more than %d pages", ErrWire, eiaPages)
}

// decodeEIA adds a page to all and returns its rows and how many there are in
// total. Numbers may be strings.
func decodeEIA(body []byte, respondent string, all mixes) (rows, total int, _ error) {
	var in struct {
		Response *struct {
			Total json.RawMessage `json:"total"`
			Data  []*struct {
				Period     string          `json:"period"`
				Respondent string          `json:"respondent"`
				FuelType   string          `json:"fueltype"`
				Value      json.RawMessage `json:"value"`
				Units      string          `json:"value-units"`
			} `json:"data"`
		} `json:"response"`
		Error json.RawMessage `json:"error"`
	}
	if err := decode(body, &in); err != nil {
		return 0, 0, err
	}
	if in.Response == nil {
		return 0, 0, fmt.Errorf("%w: no response (%s)", ErrWire, clip(string(in.Error)))
	}
	count, none, err := number(in.Response.Total)
	if err != nil {
		return 0, 0, fmt.Errorf("response.total: %w", err)
	}
	if none && len(in.Response.Data) >= eiaPage { // a full page: there may be more
		count = math.MaxInt32
	}
	var bad badValues
	for i, x := range in.Response.Data {
		if x == nil {
			continue
		}
		if x.Respondent != respondent {
			return 0, 0, fmt.Errorf("%w: data[%d].respondent: %q; accepted: %q, the one asked for", ErrWire, i, clip(x.Respondent), respondent)
		}
		if x.Units != "" && x.Units != "megawatthours" {
			return 0, 0, fmt.Errorf("%w: data[%d].value-units: %q; accepted: megawatthours", ErrWire, i, clip(x.Units))
		}
		at, err := parseTime(x.Period)
		if err != nil {
			bad.add(fmt.Errorf("data[%d].period: %w", i, err))
			continue
		}
		v, null, err := number(x.Value)
		if err != nil {
			bad.add(fmt.Errorf("data[%d].value: %w", i, err))
			all.setUnknown(at, time.Hour, x.FuelType)
			continue
		}
		if !null {
			all.set(at, time.Hour, x.FuelType, v)
		}
	}
	return len(in.Response.Data), int(min(max(count, 0), 1e9)), errors.Join(bad.err(), all.tooMany())
}
