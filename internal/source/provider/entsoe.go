package provider

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"time"

	"lull.dev/lull/internal/source/fetch"
	"lull.dev/lull/pkg/carbon"
)

// EntsoE asks the ENTSO-E Transparency Platform for generation per type and
// computes the average life-cycle intensity; imports are ignored.
//
// The forecast: the platform has day-ahead forecasts of all generation (A71) and
// of wind and sun (A69), not of the rest of the mix. The rest is the difference,
// at the intensity that the rest had at the same hour of the last three days.
//
// Documentation: Transparency Platform RESTful API, User Guide.
type EntsoE struct {
	Endpoint string // e.g. https://web-api.tp.entsoe.eu
	Domain   string // EIC of the bidding zone, e.g. 10Y1001A1001A82H
	Zone     string
	Token    string
}

// entsoeFactors by psrType; waste (B17), other (B20) and storage have none.
var entsoeFactors = map[string]float64{
	"B01": factorBiopower, "B02": factorCoal, "B03": factorGas, "B04": factorGas, "B05": factorCoal, "B06": factorOil, "B07": factorOil,
	"B08": factorCoal, "B09": factorGeothermal, "B11": factorHydro, "B12": factorHydro, "B13": factorOcean, "B14": factorNuclear,
	"B16": factorSolar, "B18": factorWind, "B19": factorWind,
}

// weatherDriven are the types that A69 forecasts.
var weatherDriven = map[string]bool{"B16": true, "B18": true, "B19": true}

// Name implements Provider.
func (m EntsoE) Name() string { return "entsoE" }

// Forecasts implements Provider.
func (m EntsoE) Forecasts() bool { return true }

// Provenance implements Provider.
func (m EntsoE) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: m.Zone, Signal: carbon.Average, Factor: carbon.Lifecycle, Source: "ENTSO-E generation per type, IPCC 2011 factors, imports ignored"}
}

var entsoeQuota = fetch.Quota{Requests: 400, Per: time.Minute}

const (
	entsoeSpan = 7 * 24 * time.Hour
	// entsoeRest is how far back the rest of the mix is looked at.
	entsoeRest = 3 * 24 * time.Hour
)

// Fetch implements Provider.
func (m EntsoE) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	actual := mixes{}
	var errs []error
	since := q.Since
	if floor := q.Now.Add(-entsoeRest); since.After(floor) {
		since = floor
	}
	step := time.Hour
	for _, span := range spans(since.Truncate(time.Hour), q.Now, entsoeSpan) {
		if err := m.get(ctx, get, q, "A75", "A16", span[0], span[1], actual, &step); err != nil {
			errs = append(errs, fmt.Errorf("actual generation: %w", err))
			break
		}
	}
	past, err := actual.samples(entsoeFactors, step, m.Provenance())
	errs = append(errs, err)
	a := Answer{Past: past}
	if a.Forecast, err = m.forecast(ctx, get, q, actual); err != nil {
		errs = append(errs, fmt.Errorf("forecast: %w", err))
	}
	return a, errors.Join(errs...)
}

func (m EntsoE) forecast(ctx context.Context, get Getter, q Query, actual mixes) ([]carbon.Sample, error) {
	from := q.Now.Truncate(time.Hour)
	to := from.Add(min(q.Horizon, 48*time.Hour))
	total, weather := mixes{}, mixes{}
	step := time.Hour
	if err := m.get(ctx, get, q, "A71", "A01", from, to, total, &step); err != nil {
		return nil, fmt.Errorf("all generation: %w", err)
	}
	if err := m.get(ctx, get, q, "A69", "A01", from, to, weather, &step); err != nil {
		return nil, fmt.Errorf("wind and sun: %w", err)
	}
	rest := restByHour(actual, q.Now.Add(-entsoeRest))
	var points []point
	for at, x := range total {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		pt := point{at: at, where: "forecast of " + at.Format(time.RFC3339), estimated: true}
		grams, clean := 0.0, 0.0
		for kind, v := range weather[at] {
			grams += entsoeFactors[kind] * v
			clean += v
		}
		factor, known := rest[at.Hour()]
		if len(weather[at]) == 0 || !known || !(sum > 0) {
			pt.gap = true
		} else {
			// More wind and sun than generation in all: nothing else runs.
			pt.value = (grams + factor*max(0, sum-clean)) / max(sum, clean)
		}
		points = append(points, pt)
	}
	return samples(points, step, m.Provenance())
}

// restByHour is the mean intensity, by hour of the day, of what neither wind nor
// sun generated since a time.
func restByHour(actual mixes, since time.Time) map[int]float64 {
	sum, n := map[int]float64{}, map[int]float64{}
	for at, x := range actual {
		if at.Before(since) {
			continue
		}
		other := mix{}
		for kind, v := range x {
			if !weatherDriven[kind] {
				other[kind] = v
			}
		}
		if v, ok := other.intensity(entsoeFactors); ok {
			sum[at.Hour()] += v
			n[at.Hour()]++
		}
	}
	out := make(map[int]float64, len(sum))
	for hour := range sum {
		out[hour] = sum[hour] / n[hour]
	}
	return out
}

func (m EntsoE) get(ctx context.Context, get Getter, q Query, document, process string, from, to time.Time, into mixes, step *time.Duration) error {
	const layout = "200601021504"
	query := url.Values{
		"documentType": {document}, "processType": {process}, "in_Domain": {m.Domain},
		"periodStart": {from.UTC().Format(layout)}, "periodEnd": {to.UTC().Truncate(15 * time.Minute).Format(layout)},
	}
	res, err := get.Get(ctx, fetch.Request{
		URL: m.Endpoint + "/api?" + query.Encode(), Secret: url.Values{"securityToken": {m.Token}}, Fresh: q.Fresh, Quota: entsoeQuota,
	})
	if err != nil {
		return err
	}
	part := mixes{}
	d, err := decodeEntsoE(res.Body, part)
	if err != nil {
		return err
	}
	*step = d
	into.overlay(part)
	return nil
}

// entsoeDocument is the part of a GL_MarketDocument that is read, and of the
// Acknowledgement_MarketDocument that comes where there is no data.
type entsoeDocument struct {
	XMLName xml.Name
	Reason  []struct {
		Code string `xml:"code"`
		Text string `xml:"text"`
	} `xml:"Reason"`
	Series []struct {
		Type struct {
			PSR string `xml:"psrType"`
		} `xml:"MktPSRType"`
		// Out is set for consumption, e.g. of pumped storage.
		Out     string `xml:"outBiddingZone_Domain.mRID"`
		Unit    string `xml:"quantity_Measure_Unit.name"`
		Curve   string `xml:"curveType"`
		Periods []struct {
			Interval struct {
				Start string `xml:"start"`
				End   string `xml:"end"`
			} `xml:"timeInterval"`
			Resolution string `xml:"resolution"`
			Points     []struct {
				Position int     `xml:"position"`
				Quantity float64 `xml:"quantity"`
			} `xml:"Point"`
		} `xml:"Period"`
	} `xml:"TimeSeries"`
}

var entsoeSteps = map[string]time.Duration{"PT15M": 15 * time.Minute, "PT30M": 30 * time.Minute, "PT60M": time.Hour, "PT1H": time.Hour}

const (
	// entsoePeriod bounds the slots of a period, a month of quarter hours;
	// entsoeFilled those of all series together: a few bytes of curve type A03 can
	// stand for many.
	entsoePeriod = 31 * 96
	entsoeFilled = 200_000
)

// decodeEntsoE adds a document to an empty into and returns the finest resolution; series
// of coarser resolution are spread over its slots.
func decodeEntsoE(body []byte, into mixes) (time.Duration, error) {
	var in entsoeDocument
	if err := xml.Unmarshal(body, &in); err != nil {
		return 0, fmt.Errorf("%w: %w; accepted: a GL_MarketDocument", ErrWire, err)
	}
	switch in.XMLName.Local {
	case "GL_MarketDocument":
	case "Acknowledgement_MarketDocument":
		var texts []string
		for _, r := range in.Reason {
			texts = append(texts, clip(r.Code+" "+r.Text))
		}
		return 0, fmt.Errorf("%w: no data: %s", ErrWire, strings.Join(texts, "; "))
	default:
		return 0, fmt.Errorf("%w: %q; accepted: a GL_MarketDocument", ErrWire, clip(in.XMLName.Local))
	}
	finest, filled := time.Hour, 0
	for _, s := range in.Series {
		for _, p := range s.Periods {
			step, ok := entsoeSteps[p.Resolution]
			if !ok {
				return 0, fmt.Errorf("%w: resolution: %q; accepted: PT15M, PT30M, PT60M", ErrWire, clip(p.Resolution))
			}
			finest = min(finest, step)
		}
	}
	for i, s := range in.Series {
		if s.Unit != "" && s.Unit != "MAW" {
			return 0, fmt.Errorf("%w: TimeSeries[%d]: quantity_Measure_Unit.name: %q; accepted: MAW", ErrWire, i, clip(s.Unit))
		}
		if s.Out != "" {
			continue
		}
		for _, p := range s.Periods {
			start, err1 := parseTime(p.Interval.Start)
			end, err2 := parseTime(p.Interval.End)
			if err := errors.Join(err1, err2); err != nil {
				return 0, fmt.Errorf("TimeSeries[%d].Period.timeInterval: %w", i, err)
			}
			step := entsoeSteps[p.Resolution]
			n := int(end.Sub(start) / step)
			if n < 1 || n > entsoePeriod {
				return 0, fmt.Errorf("%w: TimeSeries[%d].Period: %d slots; accepted: 1 to %d", ErrWire, i, n, entsoePeriod)
			}
			if filled += n * int(step/finest); filled > entsoeFilled {
				return 0, fmt.Errorf("%w: more than %d values", ErrWire, entsoeFilled)
			}
			sort.SliceStable(p.Points, func(a, b int) bool { return p.Points[a].Position < p.Points[b].Position })
			for k, x := range p.Points {
				if x.Position < 1 || x.Position > n || !finite(x.Quantity) {
					return 0, fmt.Errorf("%w: TimeSeries[%d].Point: position %d, quantity %v; accepted: positions 1 to %d", ErrWire, i, x.Position, x.Quantity, n)
				}
				last := x.Position // of the slots that this value stands for
				if s.Curve == "A03" {
					// Points that repeat the one before are left out.
					last = n
					if k+1 < len(p.Points) {
						last = p.Points[k+1].Position - 1
					}
				}
				for position := x.Position; position <= last; position++ {
					at := start.Add(time.Duration(position-1) * step)
					for part := time.Duration(0); part < step; part += finest {
						into.add(at.Add(part), s.Type.PSR, x.Quantity)
					}
				}
			}
			if err := into.tooMany(); err != nil {
				return 0, err
			}
		}
	}
	return finest, nil
}
