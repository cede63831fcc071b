package provider

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// mixSamples is how a provider of mixes makes samples, with nothing known before.
func mixSamples(m mixes, factors map[string]float64) ([]carbon.Sample, error) {
	slots := m.slots()
	Fuels{}.judge(slots, factors, time.Now())
	return samples(mixPoints(slots, factors), time.Hour, carbon.Provenance{})
}

// reporting is a zone whose fuels are reported late: each hours after the hour began.
type reporting struct {
	late map[string]float64 // by fuel; reported from the beginning if it is 0
	now  time.Time
	end  map[string]time.Time // the last hour of a fuel
}

func (r reporting) Get(_ context.Context, req fetch.Request) (fetch.Response, error) {
	var rows []string
	from, to := time.Time{}, time.Time{}
	for _, part := range strings.Split(req.URL, "&") {
		if text, ok := strings.CutPrefix(part, "start="); ok {
			from, _ = time.Parse("2006-01-02T15", text)
		}
		if text, ok := strings.CutPrefix(part, "end="); ok {
			to, _ = time.Parse("2006-01-02T15", text)
		}
	}
	for at := from; !at.After(to); at = at.Add(time.Hour) {
		for fuel, late := range r.late {
			if end, ends := r.end[fuel]; r.now.Sub(at).Hours() >= late && (!ends || !at.After(end)) {
				rows = append(rows, fmt.Sprintf(`{"period":%q,"respondent":"X","fueltype":%q,"value":1000}`, at.Format("2006-01-02T15"), fuel))
			}
		}
	}
	return fetch.Response{Body: []byte(fmt.Sprintf(`{"response":{"total":%d,"data":[%s]}}`, len(rows), strings.Join(rows, ",")))}, nil
}

// TestCompleteByHistory: which fuels an hour must have follows from what the zone reported before, not from one answer.
func TestCompleteByHistory(t *testing.T) {
	begin := time.Date(2026, 11, 22, 6, 10, 0, 0, time.UTC)
	zone := reporting{late: map[string]float64{"NG": 0, "WND": 8, "NUC": 8, "OIL": 30}, end: map[string]time.Time{"OIL": begin.AddDate(0, 0, -40)}}
	var fuels Fuels
	for hour := range 12 {
		zone.now = begin.Add(time.Duration(hour) * time.Hour)
		since := zone.now.Add(-6 * time.Hour)
		if hour == 0 {
			since = zone.now.AddDate(0, 0, -60)
		}
		a, err := EIA{Respondent: "X"}.Fetch(context.Background(), zone, Query{Since: since.Truncate(time.Hour), Now: zone.now, Fuels: fuels})
		if err != nil {
			t.Fatal(err)
		}
		fuels = a.Fuels
		if hour > 0 && len(a.Past) > 0 {
			t.Fatalf("%d hours after the first: unfinished hours are taken: %s", hour, intervals(a.Past, nil))
		}
	}
	// Once they are complete, they count.
	a, err := EIA{Respondent: "X"}.Fetch(context.Background(), zone, Query{Since: begin.Add(-4 * time.Hour).Truncate(time.Hour), Now: zone.now, Fuels: fuels})
	if got, want := intervals(a.Past, err), "02:00 60 165.7, 03:00 60 165.7, 04:00 60 165.7, 05:00 60 165.7, 06:00 60 165.7, 07:00 60 165.7, 08:00 60 165.7, 09:00 60 165.7"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFuelThatEndsIsNotMissedForEver: a fuel that a zone has no more is missed for some days, and then it is not.
func TestFuelThatEndsIsNotMissedForEver(t *testing.T) {
	begin := time.Date(2026, 11, 22, 6, 10, 0, 0, time.UTC)
	zone := reporting{late: map[string]float64{"NG": 0, "COL": 0}, end: map[string]time.Time{"COL": begin}}
	var fuels Fuels
	complete := map[int]bool{}
	for day := range 10 {
		zone.now = begin.AddDate(0, 0, day)
		since := zone.now.AddDate(0, 0, -4)
		if day == 0 {
			since = zone.now.AddDate(0, 0, -60)
		}
		for range 20 { // asked again, an hour counts once
			a, err := EIA{Respondent: "X"}.Fetch(context.Background(), zone, Query{Since: since.Truncate(time.Hour), Now: zone.now, Fuels: fuels})
			if err != nil {
				t.Fatal(err)
			}
			fuels = a.Fuels
			n := len(a.Past)
			complete[day] = n > 0 && a.Past[n-1].To.After(zone.now.Add(-2*time.Hour))
		}
	}
	if complete[3] || !complete[9] {
		t.Errorf("the newest hours are complete: %v; want not on day 3, and on day 9", complete)
	}
}

// TestIncompleteMixIsAGap: the newest slots of the very first answer, for which not all types have reported yet, are gaps
// and not clean.
func TestIncompleteMixIsAGap(t *testing.T) {
	all := mixes{}
	at := time.Now().Truncate(time.Hour).Add(-24 * time.Hour)
	for h := range 24 {
		all.set(at.Add(time.Duration(h)*time.Hour), time.Hour, "B19", 100)
		if h < 22 {
			all.set(at.Add(time.Duration(h)*time.Hour), time.Hour, "B05", 100)
		}
	}
	if s, err := mixSamples(all, entsoeFactors); err != nil || len(s) != 22 {
		t.Errorf("%d samples, %v; want the 22 complete ones", len(s), err)
	}
}
