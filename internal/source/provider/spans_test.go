package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/source/fetch"
	"lull.dev/lull/internal/source/provider"
	"lull.dev/lull/pkg/carbon"
)

// spoiling spoils the nth request for the past and the ones after it.
type spoiling struct {
	provider.Getter
	nth, count int
	body       string // of the answer; an error if it is empty
	err        error
	asked      *int
}

func (s spoiling) Get(ctx context.Context, r fetch.Request) (fetch.Response, error) {
	past := false
	for _, part := range []string{"carbon-intensity/history", "carbon-intensity/past-range", "/v3/historical", "documentType=A75", "fuel-type-data", "bylocations", "query_range"} {
		past = past || strings.Contains(r.URL, part)
	}
	if past || strings.Contains(r.URL, "/intensity/2") && !strings.Contains(r.URL, "fw48h") {
		*s.asked++
		if *s.asked >= s.nth && *s.asked < s.nth+s.count {
			return fetch.Response{Body: []byte(s.body)}, s.err
		}
	}
	return s.Getter.Get(ctx, r)
}

const acknowledgement = `<Acknowledgement_MarketDocument><Reason><code>999</code><text>No matching data found</text></Reason></Acknowledgement_MarketDocument>`

// TestBadSpan: a span of the past that fails is a gap; what is older and newer is read, and the forecast.
func TestBadSpan(t *testing.T) {
	kinds := map[string]spoiling{
		"500": {err: errors.New("500 Internal Server Error")}, "404": {err: errors.New("404 Not Found")}, "null": {body: "null"}, "nothing": {body: " "},
		"no data": {body: acknowledgement},
	}
	each(t, func(t *testing.T, b bench, p provider.Provider, zone string, tolerance float64) {
		for kind, spoilt := range kinds {
			if kind == "null" && p.Name() == "carbonAwareSDK" {
				continue // a list that is null is an empty one
			}
			for _, nth := range []int{1, 2} {
				spoilt.Getter, spoilt.nth, spoilt.count, spoilt.asked = b.client, nth, 1, new(int)
				q := days40(b)
				if p.Name() == "prometheus" { // all that is wanted is one span
					q.Again = []carbon.Interval{{From: q.Since, To: q.Since.Add(24 * time.Hour)}}
					q.Since = q.Since.Add(24 * time.Hour)
				}
				name := fmt.Sprintf("%s, span %d", kind, nth)
				a, err := p.Fetch(context.Background(), spoilt, q)
				if (err != nil) != (nth == 1) || len(a.Bad) != nth-1 {
					t.Errorf("%s: error %v, bad spans %v", name, err, a.Bad)
				}
				if p.Forecasts() && nth == 2 && len(a.Forecast) == 0 {
					t.Errorf("%s: no forecast", name)
				}
				if len(a.Past) == 0 {
					t.Errorf("%s: nothing read", name)
					continue
				}
				gap := carbon.Interval{From: now.Add(-24 * time.Hour), To: now}
				if nth == 2 {
					gap = a.Bad[0].Interval
				}
				if hours := check(t, a.Past, zone, tolerance, 0); hours < 40*24-gap.To.Sub(gap.From).Hours()-3 && nth == 2 {
					t.Errorf("%s: %.0f hours beside a gap from %s to %s", name, hours, gap.From, gap.To)
				}
				if end := a.Past[len(a.Past)-1].To; nth == 2 && end.Before(now.Add(-90*time.Minute)) {
					t.Errorf("%s: nothing newer than %s", name, end)
				}
			}
		}
	})
}

// TestOutageEndsRequests: after three failures in succession, the other spans are left for another time.
func TestOutageEndsRequests(t *testing.T) {
	each(t, func(t *testing.T, b bench, p provider.Provider, _ string, _ float64) {
		q := days40(b)
		for week := 30; week > 0; week-- { // as single days, a week apart
			at := q.Since.Add(-time.Duration(week) * 7 * 24 * time.Hour)
			q.Again = append(q.Again, carbon.Interval{From: at, To: at.Add(24 * time.Hour)})
		}
		spoilt := spoiling{Getter: b.client, nth: 1, count: 1000, err: errors.New("500"), asked: new(int)}
		a, err := p.Fetch(context.Background(), spoilt, q)
		if err == nil || *spoilt.asked != 3 || len(a.Bad) < 30 {
			t.Errorf("%d requests, %d bad spans, %v", *spoilt.asked, len(a.Bad), err)
		}
		// An answer without data is no outage.
		spoilt.asked, spoilt.err, spoilt.body = new(int), nil, acknowledgement
		if a, _ = p.Fetch(context.Background(), spoilt, q); p.Name() == "entsoE" && *spoilt.asked < 36 {
			t.Errorf("%d requests for what has no data, %d bad spans", *spoilt.asked, len(a.Bad))
		}
		spoilt.asked, spoilt.err = new(int), fetch.ErrRefused
		if _, err = p.Fetch(context.Background(), spoilt, q); !errors.Is(err, fetch.ErrRefused) || *spoilt.asked > 2 { // WattTime logs in again
			t.Errorf("%d requests after a refusal: %v", *spoilt.asked, err)
		}
	})
}
