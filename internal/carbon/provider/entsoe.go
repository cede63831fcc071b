package provider

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// EntsoE asks the ENTSO-E Transparency Platform for generation per type and
// computes the average life-cycle intensity; imports are ignored.
//
// The forecast: the platform has day-ahead forecasts of all generation (A71) and
// of wind and sun (A69), not of the rest of the mix. The rest is the difference,
// at the intensity that the rest had at the same hour of the last three days
// that are known.
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

// Identity implements Provider.
func (m EntsoE) Identity() []string { return []string{m.Endpoint, m.Domain} }

// Forecasts implements Provider.
func (m EntsoE) Forecasts() bool { return true }

// Provenance implements Provider.
func (m EntsoE) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: m.Zone, Signal: carbon.Average, Factor: carbon.Lifecycle, Source: "ENTSO-E generation per type, IPCC 2011 factors, imports ignored"}
}

var entsoeQuota = fetch.Quota{Requests: 400, Per: time.Minute}

const (
	entsoeSpan = 7 * 24 * time.Hour
	// entsoeRest is over how much of the past the rest of the mix is taken, entsoeOldest how old that may be.
	entsoeRest   = 3 * 24 * time.Hour
	entsoeOldest = entsoeRest + entsoeSpan
)

// Fetch implements Provider.
func (m EntsoE) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	actual, bad, newest := m.actual(ctx, get, q)
	slots := actual.slots()
	a := Answer{Bad: bad, Fuels: q.Fuels.judge(slots, entsoeFactors, q.Now)}
	var errs []error
	var err error
	if a.Past, err = samples(mixPoints(slots, entsoeFactors), time.Hour, m.Provenance()); err != nil {
		errs = append(errs, err)
	}
	if a.Forecast, err = m.forecast(ctx, get, q, restByHour(slots, q.Now)); err != nil {
		errs = append(errs, fmt.Errorf("forecast: %w", err))
	}
	switch {
	case errors.Is(newest.Err, ErrNoData) && len(a.Forecast) > 0: // a gap like another
		a.Bad = append(a.Bad, newest)
	case newest.Err != nil:
		errs = append(errs, fmt.Errorf("actual generation: %w", newest.Err))
	}
	return a, errors.Join(errs...)
}

// actual asks for the generation of the past that is wanted, and of as much as the rest of the mix is taken from. If there
// is none of late, it asks for the time before.
func (m EntsoE) actual(ctx context.Context, get Getter, q Query) (actual mixes, bad []BadSpan, newest BadSpan) {
	actual = mixes{}
	ask := func(span carbon.Interval) error {
		return m.get(ctx, get, q, "A75", "A16", span.From, span.To, actual)
	}
	since := q.Since
	if floor := q.Now.Add(-entsoeRest); since.After(floor) {
		since = floor
	}
	since = since.Truncate(time.Hour)
	spans := q.past(since, q.Now, entsoeSpan)
	bad, newest.Err = askEach(ctx, spans, ask)
	newest.Interval = spans[0]
	if before := q.Now.Add(-entsoeOldest).Truncate(time.Hour); errors.Is(newest.Err, ErrNoData) && since.After(before) {
		if err := ask(carbon.Interval{From: before, To: since}); err != nil {
			bad = append(bad, BadSpan{carbon.Interval{From: before, To: since}, err})
		}
	}
	return actual, bad, newest
}

func (m EntsoE) forecast(ctx context.Context, get Getter, q Query, rest map[int]float64) ([]carbon.Sample, error) {
	from := q.Now.Truncate(time.Hour)
	to := from.Add(min(q.Horizon, 48*time.Hour))
	// Both are stated apart, each in its own steps. Of A71 the type says nothing.
	total, weather := mixes{}, mixes{}
	var errs []error // of values that cannot be read, if there are others
	for _, x := range []struct {
		document, what string
		into           mixes
	}{{"A71", "all generation", total}, {"A69", "wind and sun", weather}} {
		if err := m.get(ctx, get, q, x.document, "A01", from, to, x.into); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", x.what, err))
			if len(x.into) == 0 {
				return nil, errors.Join(errs...)
			}
		}
	}
	s, err := samples(entsoeForecast(total, weather, rest), time.Hour, m.Provenance())
	return s, errors.Join(append(errs, err)...)
}

// allGeneration marks the types of A71, which states none or those of A69.
const allGeneration = "all "

// entsoeForecast combines forecasts of all generation and of wind and sun, whatever their steps, with the intensity of
// the rest by hour of the day. A slot that lacks one of them, or a type that others have, is a gap.
func entsoeForecast(total, weather mixes, rest map[int]float64) []point {
	both := mixes{}
	both.overlay(weather)
	for kind, of := range total {
		both.overlay(mixes{allGeneration + kind: of})
	}
	var points []point
	for _, x := range both.slots() {
		pt := point{at: x.from, length: x.to.Sub(x.from), where: "forecast of " + x.from.Format(time.RFC3339), estimated: true}
		grams, clean := 0.0, 0.0
		for kind := range weather {
			v, there := x.mix[kind]
			pt.gap = pt.gap || !there
			grams += entsoeFactors[kind] * v
			clean += v
		}
		sum := 0.0
		for kind := range total {
			v, there := x.mix[allGeneration+kind]
			pt.gap = pt.gap || !there
			sum += v
		}
		factor, known := rest[x.from.Hour()]
		if len(weather) == 0 || !known || !(sum > 0) {
			pt.gap = true
		} else {
			// More wind and sun than generation in all: nothing else runs.
			pt.value = (grams + factor*max(0, sum-clean)) / max(sum, clean)
			pt.gap = pt.gap || !finite(pt.value)
		}
		points = append(points, pt)
	}
	return points
}

// restByHour is the mean intensity, by hour of the day, of what neither wind nor
// sun generated in the last three days that are known, if they are not too old.
func restByHour(actual []slotMix, now time.Time) map[int]float64 {
	since := now
	for _, x := range actual {
		if !x.incomplete {
			since = x.to.Add(-entsoeRest)
		}
	}
	if oldest := now.Add(-entsoeOldest); since.Before(oldest) {
		since = oldest
	}
	sum, hours := map[int]float64{}, map[int]float64{}
	for _, x := range actual {
		if x.incomplete || x.from.Before(since) {
			continue
		}
		other := maps.Clone(x.mix)
		for kind := range weatherDriven {
			delete(other, kind)
		}
		if v, ok := other.intensity(entsoeFactors); ok {
			length := x.to.Sub(x.from).Hours()
			sum[x.from.Hour()] += v * length
			hours[x.from.Hour()] += length
		}
	}
	out := make(map[int]float64, len(sum))
	for hour := range sum {
		out[hour] = sum[hour] / hours[hour]
	}
	return out
}

func (m EntsoE) get(ctx context.Context, get Getter, q Query, document, process string, from, to time.Time, into mixes) error {
	const layout = "200601021504"
	query := url.Values{
		"documentType": {document}, "processType": {process}, "in_Domain": {m.Domain},
		"periodStart": {from.UTC().Format(layout)}, "periodEnd": {to.UTC().Truncate(15 * time.Minute).Format(layout)},
	}
	res, err := get.Get(ctx, fetch.Request{
		URL: m.Endpoint + "/api?" + query.Encode(), Secret: url.Values{"securityToken": {m.Token}}, Fresh: q.Fresh, Quota: entsoeQuota,
	})
	var status *fetch.StatusError
	if errors.As(err, &status) { // "no data" may come as 400, as may what is wrong with the request
		if said := decodeEntsoE(status.Body, mixes{}); errors.Is(said, errAcknowledged) {
			return fmt.Errorf("%w: %w", err, said)
		}
	}
	if err != nil {
		return err
	}
	part := mixes{}
	err = decodeEntsoE(res.Body, part)
	into.overlay(part)
	return err
}

// errAcknowledged marks a document that says why there is no other one.
var errAcknowledged = errors.New("acknowledgement")

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
		Out     string         `xml:"outBiddingZone_Domain.mRID"`
		Unit    string         `xml:"quantity_Measure_Unit.name"`
		Curve   string         `xml:"curveType"`
		Periods []entsoePeriod `xml:"Period"`
	} `xml:"TimeSeries"`
}

type entsoePeriod struct {
	Interval struct {
		Start string `xml:"start"`
		End   string `xml:"end"`
	} `xml:"timeInterval"`
	Resolution string `xml:"resolution"`
	Points     []struct {
		Position int    `xml:"position"`
		Quantity string `xml:"quantity"`
	} `xml:"Point"`
}

var entsoeSteps = map[string]time.Duration{"PT15M": 15 * time.Minute, "PT30M": 30 * time.Minute, "PT60M": time.Hour, "PT1H": time.Hour}

const (
	// entsoeSlots bounds the slots of a period, a month of quarter hours;
	// entsoeFilled those of all series together: a few bytes of curve type A03 can
	// stand for many.
	entsoeSlots  = 31 * 96
	entsoeFilled = 200_000
)

// decodeEntsoE adds a document to an empty into. A document that is not as documented adds nothing; values that cannot be read
// are named in the error, beside which the others are added.
func decodeEntsoE(body []byte, into mixes) error {
	var in entsoeDocument
	if err := xml.Unmarshal(body, &in); err != nil {
		return fmt.Errorf("%w: %w; accepted: a GL_MarketDocument", ErrWire, err)
	}
	switch in.XMLName.Local {
	case "GL_MarketDocument":
	case "Acknowledgement_MarketDocument":
		var texts []string
		for _, r := range in.Reason {
			texts = append(texts, clip(r.Code+" "+r.Text))
		}
		said := strings.Join(texts, "; ")
		if len(in.Reason) > 0 && !strings.Contains(strings.ToLower(said), "no matching data") {
			return fmt.Errorf("%w: %w: %s", ErrWire, errAcknowledged, said)
		}
		return fmt.Errorf("%w: %w: %w: %s", ErrWire, errAcknowledged, ErrNoData, said)
	default:
		return fmt.Errorf("%w: %q; accepted: a GL_MarketDocument", ErrWire, clip(in.XMLName.Local))
	}
	filled := 0
	var bad badValues
	for i, s := range in.Series {
		if s.Unit != "" && s.Unit != "MAW" {
			clear(into)
			return fmt.Errorf("%w: TimeSeries[%d]: quantity_Measure_Unit.name: %q; accepted: MAW", ErrWire, i, clip(s.Unit))
		}
		if s.Out != "" {
			continue
		}
		for k := range s.Periods {
			n, err := s.Periods[k].read(s.Type.PSR, s.Curve, into)
			if err != nil && n > 0 {
				bad.add(fmt.Errorf("TimeSeries[%d].Period[%d]: %w", i, k, err))
				err = nil
			}
			if err != nil {
				clear(into)
				return fmt.Errorf("TimeSeries[%d].Period[%d]: %w", i, k, err)
			}
			if filled += n; filled > entsoeFilled {
				clear(into)
				return fmt.Errorf("%w: more than %d values", ErrWire, entsoeFilled)
			}
		}
	}
	return errors.Join(bad.err(), into.tooMany())
}

// read sets the quantities of a period of a type and returns how many slots it has. Quantities that cannot be read are not
// known, nor is any of the period if the resolution is not known or the positions are not its own. The error beside a number of
// slots names what it is; without one, it is not known which time the period is about.
func (p *entsoePeriod) read(kind, curve string, into mixes) (int, error) {
	start, err1 := parseTime(p.Interval.Start)
	end, err2 := parseTime(p.Interval.End)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("timeInterval: %w", err)
	}
	if !end.After(start) { // says nothing
		return 1, fmt.Errorf("%w: timeInterval: end %q; accepted: a time after start %q", ErrWire, clip(p.Interval.End), clip(p.Interval.Start))
	}
	step, ok := entsoeSteps[p.Resolution]
	if !ok {
		into.setUnknown(start, end.Sub(start), kind)
		return 1, fmt.Errorf("%w: resolution: %q; accepted: PT15M, PT30M, PT60M", ErrWire, clip(p.Resolution))
	}
	n := int(end.Sub(start) / step)
	if n < 1 || n > entsoeSlots {
		return 0, fmt.Errorf("%w: %d slots; accepted: 1 to %d", ErrWire, n, entsoeSlots)
	}
	var bad error
	sort.SliceStable(p.Points, func(a, b int) bool { return p.Points[a].Position < p.Points[b].Position })
	for _, x := range p.Points {
		if x.Position < 1 || x.Position > n {
			for position := range n {
				into.setUnknown(start.Add(time.Duration(position)*step), step, kind)
			}
			return n, fmt.Errorf("%w: Point: position %d; accepted: positions 1 to %d", ErrWire, x.Position, n)
		}
	}
	for k, x := range p.Points {
		text := strings.TrimSpace(x.Quantity)
		quantity, err := strconv.ParseFloat(text, 64)
		known := err == nil && finite(quantity)
		if !known && text != "" && bad == nil {
			bad = fmt.Errorf("%w: Point: position %d: quantity: %q; accepted: a number", ErrWire, x.Position, clip(text))
		}
		last := x.Position // of the slots that this value stands for
		if curve == "A03" {
			// Points that repeat the one before are left out.
			last = n
			if k+1 < len(p.Points) {
				last = p.Points[k+1].Position - 1
			}
		}
		for position := x.Position; position <= last; position++ {
			if at := start.Add(time.Duration(position-1) * step); known {
				into.set(at, step, kind, quantity)
			} else {
				into.setUnknown(at, step, kind)
			}
		}
	}
	return n, bad
}
