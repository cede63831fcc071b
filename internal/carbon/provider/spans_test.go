package provider_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
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

// TestFailedSpanIsAGap: a span of the past that fails is a gap; what is older and newer is read, and the forecast.
func TestFailedSpanIsAGap(t *testing.T) {
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
				gaps, fails := nth-1, nth == 1
				if p.Name() == "entsoE" && kind == "no data" && nth == 1 { // the forecast is there
					gaps, fails = 1, false
				}
				if (err != nil) != fails || len(a.Bad) != gaps {
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

// silent is a platform that has no actual generation since a time.
type silent struct {
	provider.Getter
	since time.Time
}

func (s silent) Get(ctx context.Context, r fetch.Request) (fetch.Response, error) {
	if _, text, ok := strings.Cut(r.URL, "periodStart="); ok && strings.Contains(r.URL, "documentType=A75") {
		from, _ := time.Parse("200601021504", text[:12])
		if !from.Before(s.since) {
			return fetch.Response{Body: []byte(acknowledgement)}, nil
		}
	}
	return s.Getter.Get(ctx, r)
}

// TestNothingOfLate: if a platform has no actual generation for days, the forecast still comes, with the rest of the mix as
// it was before; if that is too old, the answer says why there is none.
func TestNothingOfLate(t *testing.T) {
	b := newBench(t)
	p := provider.EntsoE{Endpoint: b.url, Domain: "10Y1001A1001A82H", Zone: "DE", Token: token}
	q := provider.Query{Now: b.now(), Since: b.now().Add(-6 * time.Hour).Truncate(time.Hour), Horizon: 48 * time.Hour}
	a, err := p.Fetch(context.Background(), silent{b.client, now.Add(-4 * 24 * time.Hour)}, q)
	if hours := check(t, a.Forecast, "DE", 0.01, 0.7); err != nil || hours < 23 || len(a.Bad) != 1 {
		t.Errorf("%.0f hours of forecast, bad spans %v, %v", hours, a.Bad, err)
	}
	a, err = p.Fetch(context.Background(), silent{b.client, now.Add(-40 * 24 * time.Hour)}, q)
	if !errors.Is(err, provider.ErrNoData) || len(a.Forecast) > 0 {
		t.Errorf("%d hours of forecast, %v", len(a.Forecast), err)
	}
}

// acknowledging answers each request of ENTSO-E with a status and an acknowledgement.
func acknowledging(t *testing.T, status int, text string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Acknowledgement_MarketDocument xmlns="urn:iec62325.351:tc57wg16:451-1:acknowledgementdocument:7:0"><mRID>%0200d</mRID><Reason><code>999</code><text>%s</text></Reason></Acknowledgement_MarketDocument>`, 1, text)
	}))
	defer server.Close()
	b := newBench(t)
	p := provider.EntsoE{Endpoint: server.URL, Domain: "10Y1001A1001A82H", Zone: "DE", Token: token}
	_, err := p.Fetch(context.Background(), b.client, provider.Query{Now: b.now(), Since: b.now().Add(-6 * time.Hour), Horizon: 6 * time.Hour})
	return err
}

// TestAcknowledgementGivesItsReason: the error has the reason of an acknowledgement, with any status. ErrNoData is only the one for which nothing matches.
func TestAcknowledgementGivesItsReason(t *testing.T) {
	const none, area = "No matching data found for Data item AGGREGATED_GENERATION_PER_TYPE", "Delivered Area EIC 10Y1001A1001A016 is not valid."
	for _, tc := range []struct {
		status int
		text   string
		noData bool
	}{{http.StatusOK, none, true}, {http.StatusBadRequest, none, true}, {http.StatusOK, area, false}, {http.StatusBadRequest, area, false}} {
		err := acknowledging(t, tc.status, tc.text)
		if err == nil || errors.Is(err, provider.ErrNoData) != tc.noData || !strings.Contains(err.Error(), "999 "+tc.text[:30]) {
			t.Errorf("%d, %s: %v", tc.status, tc.text, err)
		}
	}
}
