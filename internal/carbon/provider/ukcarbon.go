package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// UKCarbonIntensity asks the Carbon Intensity API of Great Britain's system
// operator (NESO): average, direct CO2, half hours, two days ahead, no key.
//
// Documentation: https://carbon-intensity.github.io/api-definitions.
type UKCarbonIntensity struct {
	Endpoint string // e.g. https://api.carbonintensity.org.uk
	Region   int    // 1 to 17, or 0 for the whole of Great Britain
}

// Name implements Provider.
func (m UKCarbonIntensity) Name() string { return "ukCarbonIntensity" }

// Identity implements Provider.
func (m UKCarbonIntensity) Identity() []string { return []string{m.Endpoint} }

// Forecasts implements Provider.
func (m UKCarbonIntensity) Forecasts() bool { return true }

// Provenance implements Provider.
func (m UKCarbonIntensity) Provenance() carbon.Provenance {
	zone, source := "GB", "UK Carbon Intensity (NESO)"
	if m.Region > 0 {
		zone = fmt.Sprintf("GB region %d", m.Region)
	}
	return carbon.Provenance{Zone: zone, Signal: carbon.Average, Factor: carbon.Direct, Source: source}
}

// ukSpan is the longest span of a request, two weeks.
const ukSpan = 14 * 24 * time.Hour

// Fetch implements Provider. Of half hours without an actual value the service's
// own estimate is taken, marked as such; the regions have estimates only.
func (m UKCarbonIntensity) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	var a Answer
	var errs []error
	bad, err := askEach(ctx, q.past(q.Since, q.Now, ukSpan), func(span carbon.Interval) error {
		s, err := m.get(ctx, get, q, ukTime(span.From)+"/"+ukTime(span.To))
		a.Past = Merge(s, a.Past)
		return err
	})
	a.Bad, errs = bad, append(errs, err)
	s, err := m.get(ctx, get, q, ukTime(q.Now)+"/fw48h")
	if err != nil {
		errs = append(errs, fmt.Errorf("forecast: %w", err))
	}
	a.Forecast = after(s, q.Now.Add(-30*time.Minute))
	return a, errors.Join(errs...)
}

// ukTime is a time as the paths have it. The half hour before now is asked for
// again until the next one begins, so that answers can be kept.
func ukTime(at time.Time) string {
	return url.PathEscape(at.UTC().Truncate(30 * time.Minute).Format("2006-01-02T15:04Z"))
}

func (m UKCarbonIntensity) get(ctx context.Context, get Getter, q Query, span string) ([]carbon.Sample, error) {
	target := fmt.Sprintf("%s/intensity/%s", m.Endpoint, span)
	if m.Region > 0 {
		target = fmt.Sprintf("%s/regional/intensity/%s/regionid/%d", m.Endpoint, span, m.Region)
	}
	res, err := get.Get(ctx, fetch.Request{URL: target, Fresh: q.Fresh})
	if err != nil {
		return nil, err
	}
	return decodeUKCarbonIntensity(res.Body, m.Region, m.Provenance())
}

type ukPoint struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Intensity struct {
		Forecast wireNumber `json:"forecast"`
		Actual   wireNumber `json:"actual"`
	} `json:"intensity"`
}

type ukRegion struct {
	RegionID int        `json:"regionid"`
	Data     []*ukPoint `json:"data"`
}

// decodeUKCarbonIntensity reads the national form, {"data": [points]}, and for a
// region {"data": {"regionid", "data": [points]}} or a list of such objects.
func decodeUKCarbonIntensity(body []byte, region int, p carbon.Provenance) ([]carbon.Sample, error) {
	var in struct {
		Data  json.RawMessage `json:"data"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if in.Error != nil {
		return nil, fmt.Errorf("%w: error: %q", ErrWire, clip(in.Error.Message))
	}
	if len(in.Data) == 0 { // {}, of times that it does not know yet
		return nil, fmt.Errorf("%w: %w: no data field", ErrWire, ErrNoData)
	}
	var list []*ukPoint
	if region == 0 {
		if err := decode(in.Data, &list); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	} else {
		var several []*ukRegion // the same one more than once, perhaps
		if err := decode(in.Data, &several); err != nil {
			several = []*ukRegion{{}}
			if err := decode(in.Data, several[0]); err != nil {
				return nil, fmt.Errorf("%w: data: neither a region nor a list of them (%w)", ErrWire, err)
			}
		}
		for _, x := range several {
			if x == nil {
				continue
			}
			if x.RegionID != region {
				return nil, fmt.Errorf("%w: regionid: %d; accepted: %d, the one asked for", ErrWire, x.RegionID, region)
			}
			list = append(list, x.Data...)
		}
	}
	points := make([]point, 0, len(list))
	for i, x := range list {
		if x != nil {
			points = append(points, x.point(i))
		}
	}
	return samples(points, 30*time.Minute, p)
}

// point is what entry i says: the actual value, else the forecast as an estimate.
func (x *ukPoint) point(i int) point {
	from, err := parseTime(x.From)
	if err != nil {
		return point{bad: fmt.Errorf("data[%d].from: %w", i, err)}
	}
	to, err := parseTime(x.To)
	if err != nil {
		return point{at: from, bad: fmt.Errorf("data[%d].to: %w", i, err)}
	}
	length := to.Sub(from)
	if length <= 0 || length > 24*time.Hour {
		return point{at: from, bad: fmt.Errorf("%w: data[%d].to: %q; accepted: a time after from %q, by a day at most", ErrWire, i, clip(x.To), clip(x.From))}
	}
	pt := x.Intensity.Actual.or(x.Intensity.Forecast).point(from, fmt.Sprintf("data[%d].intensity", i))
	pt.length, pt.estimated = length, !x.Intensity.Actual.there
	return pt
}
