package web

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/pkg/decide"
)

// memoryLedger is a ledger in memory.
type memoryLedger struct {
	entries     []ledger.Entry
	intensities []ledger.Intensity
}

func (l *memoryLedger) add(t *testing.T, kind ledger.Kind, workload string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	l.entries = append(l.entries, ledger.Entry{Seq: int64(len(l.entries) + 1), At: time.Now(), Kind: kind, Workload: workload, Body: text})
}

func (l *memoryLedger) Read(_ context.Context, q ledger.Query) iter.Seq2[ledger.Entry, error] {
	return q.Of(func(yield func(ledger.Entry, error) bool) {
		for _, e := range l.entries {
			if !yield(e, nil) {
				return
			}
		}
	})
}

func (l *memoryLedger) Intensities(_ context.Context, zone string, from, to time.Time) (out []ledger.Intensity, _ error) {
	for _, x := range l.intensities {
		if x.Zone == zone && !x.From.Before(from) && x.From.Before(to) {
			out = append(out, x)
		}
	}
	return out, nil
}

// finishedJob is the ledger of a Job that was submitted at 6:00 and ran from 9:00 to 11:00 in two pods, with the published intensities of
// that morning.
func finishedJob(t *testing.T) *memoryLedger {
	t.Helper()
	l := &memoryLedger{}
	for hour := range 12 {
		from := noon.Add(time.Duration(hour-12) * time.Hour)
		l.intensities = append(l.intensities, ledger.Intensity{Zone: "de", From: from, To: from.Add(time.Hour), Value: float64(100 + hour)})
	}
	of := ledger.Submitted{Kind: "Job", Namespace: "team", Name: "train", Policy: "team/clean", At: noon.Add(-6 * time.Hour), Workers: 2, Deadline: noon}
	l.add(t, ledger.KindSubmitted, "uid-1", of)
	for _, pod := range []string{"pod-1", "pod-2"} {
		l.add(t, ledger.KindStarted, "uid-1", ledger.Started{Run: pod, At: noon.Add(-3 * time.Hour), Zone: "de", Node: "node", Workers: 1})
		l.add(t, ledger.KindEnded, "uid-1", ledger.Ended{Run: pod, At: noon.Add(-time.Hour), How: ledger.Observed})
	}
	l.add(t, ledger.KindSettled, "uid-1", ledger.Settled{
		Of: of, Method: "3", From: noon.Add(-3 * time.Hour), To: noon.Add(-time.Hour), Runs: 2, OnTime: true, KWh: 2, Grams: 200, SavedGrams: 100, Uncertainty: 0.1, Signal: "average",
		Counterfactual: ledger.Counterfactual{From: noon.Add(-6 * time.Hour), To: noon.Add(-4 * time.Hour), Grams: 300},
	})
	return l
}

func storyOf(t *testing.T, s *Server, path string) (out Story, status int) {
	t.Helper()
	s.Access = Loopback{}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/workloads/"+path, http.NoBody)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out, w.Code
}

// TestStoryHasRunsAndIntensities: those of the zone in which it ran, from its submission to its end, while the workload is there and after
// it has been deleted.
func TestStoryHasRunsAndIntensities(t *testing.T) {
	l := finishedJob(t)
	plan := planOfJob("train", v1alpha1.PlanFinished, decide.CodeCleanNow, 0, 0)
	for name, s := range map[string]*Server{"there": {Reader: readerOf(t, plan), Ledger: l}, "deleted": {Reader: readerOf(t), Ledger: l}} {
		story, status := storyOf(t, s, "team/job-train")
		if status != http.StatusOK || story.Deleted != (name == "deleted") || story.Plan.State != "Finished" || story.Plan.UID != "uid-1" {
			t.Errorf("%s: status %d, %+v", name, status, story.Plan)
		}
		end := noon.Add(-time.Hour)
		run := WorkloadRun{From: noon.Add(-3 * time.Hour), To: &end, Zone: "de", Node: "node", Workers: 1}
		if d := difference([]WorkloadRun{run, run}, story.Runs); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		var values []float64
		for _, z := range story.Intensities {
			for _, v := range z.Values {
				values = append(values, v.Value)
			}
		}
		if d := difference([]float64{106, 107, 108, 109, 110, 111}, values); d != "" {
			t.Errorf("%s: intensities from the submission at 6:00 to the end of the hour 11:00: %s", name, d)
		}
	}
}

// TestStoryOfOneThatWaits: the forecast goes on where the published intensities end.
func TestStoryOfOneThatWaits(t *testing.T) {
	l := finishedJob(t)
	l.entries = l.entries[:1]
	s := &Server{Reader: readerOf(t, zoneAtNoon(), policyClean(), planOfJob("train", v1alpha1.PlanWaiting, decide.CodeCleanerLater, 2*time.Hour, 9*time.Hour)), Ledger: l}
	story, status := storyOf(t, s, "team/job-train")
	if status != http.StatusOK || len(story.Intensities) != 1 {
		t.Fatalf("status %d, %d zones", status, len(story.Intensities))
	}
	values := story.Intensities[0].Values
	first := slices.IndexFunc(values, func(v Intensity) bool { return v.Forecast })
	if first != 6 || !values[0].From.Equal(noon.Add(-6*time.Hour)) || !values[first].From.Equal(noon) || !values[first-1].To.Equal(noon) || len(values) != 10 {
		t.Errorf("%d values, the first forecast is number %d: %+v", len(values), first, values)
	}
}

// TestStoryOfOneOfSeveral: a UID tells apart workloads of the same name; one that nobody knows is not found.
func TestStoryOfOneOfSeveral(t *testing.T) {
	l := finishedJob(t)
	s := &Server{Reader: readerOf(t), Ledger: l}
	l.add(t, ledger.KindSettled, "uid-2", ledger.Settled{Of: ledger.Submitted{Kind: "Job", Namespace: "team", Name: "train", At: noon}, Method: "3", Runs: 1})
	for path, want := range map[string]string{"team/job-train": "uid-2", "team/job-train?uid=uid-1": "uid-1", "team/job-train?uid=uid-2": "uid-2"} {
		if story, status := storyOf(t, s, path); status != http.StatusOK || story.Plan.UID != want {
			t.Errorf("%s: status %d, %q; want %s", path, status, story.Plan.UID, want)
		}
	}
	for _, path := range []string{"team/job-train?uid=uid-3", "other/job-train", "team/job-other"} {
		if _, status := storyOf(t, s, path); status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, status)
		}
	}
}
