package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/pkg/decide"
)

// readLedger is a ledger of entries, without intensities.
type readLedger func(ledger.Query) iter.Seq2[ledger.Entry, error]

func (f readLedger) Read(_ context.Context, q ledger.Query) iter.Seq2[ledger.Entry, error] {
	return f(q)
}

func (readLedger) Intensities(context.Context, string, time.Time, time.Time) ([]ledger.Intensity, error) {
	return nil, nil
}

// TestSavingsAreBounded: the page keeps the last workloads in memory, no more than maxSettled, asks the
// ledger for no older ones, and says so; what it sums goes on where the database fails in the middle.
func TestSavingsAreBounded(t *testing.T) {
	now := time.Now().UTC()
	entry := func(i int, age time.Duration) ledger.Entry {
		body, err := json.Marshal(ledger.Settled{Method: "3", KWh: 1, Grams: 100, Signal: "average", Runs: 1, Of: ledger.Submitted{Policy: "ns/p", Labels: map[string]string{"a": "b"}}})
		if err != nil {
			t.Fatal(err)
		}
		return ledger.Entry{Seq: int64(i + 1), At: now.Add(-age), Kind: ledger.KindSettled, Workload: fmt.Sprint(i), Body: body}
	}
	total, fails := 2*maxSettled+500, true
	s := &Server{Ledger: readLedger(func(q ledger.Query) iter.Seq2[ledger.Entry, error] {
		return q.Of(func(yield func(ledger.Entry, error) bool) {
			if !yield(entry(0, 100*24*time.Hour), nil) {
				return
			}
			for i := 1; i <= total; i++ {
				if i == total-5 && fails {
					yield(ledger.Entry{}, errors.New("gone"))
					return
				}
				if !yield(entry(i, time.Hour-time.Duration(i)*time.Millisecond), nil) {
					return
				}
			}
		})
	})}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/savings", nil)
	if _, err := s.saved(r); err == nil {
		t.Error("the database fails")
	}
	fails = false
	for range 2 {
		got, err := s.saved(r)
		if err != nil {
			t.Fatal(err)
		}
		v := got.(Savings)
		if v.Of.All.Workloads != maxSettled || len(s.settled) != maxSettled || v.Older != total-maxSettled || v.Days != savingsDays || v.Problem != "" {
			t.Errorf("%d workloads, %d kept, %d older: %s", v.Of.All.Workloads, len(s.settled), v.Older, v.Problem)
		}
		if b, there := s.settled[fmt.Sprint(total)]; !there || b.Of.Labels != nil {
			t.Errorf("the last one: %v %+v", there, b)
		}
	}
}

// TestUnreadableEntriesAreLeftOut: an entry that cannot be decoded is left out of the savings and of the story of its workload, which say so. It
// hides nothing else.
func TestUnreadableEntriesAreLeftOut(t *testing.T) {
	l := finishedJob(t)
	for i, body := range []string{`{"kWh":"much"}`, `{`} {
		l.entries = append(l.entries, ledger.Entry{Seq: int64(len(l.entries) + 1), At: noon, Kind: ledger.KindSettled, Workload: fmt.Sprint("uid-1", i%2), Body: json.RawMessage(body)})
	}
	l.entries = append(l.entries, ledger.Entry{Seq: int64(len(l.entries) + 1), At: noon, Kind: ledger.KindStarted, Workload: "uid-1", Body: json.RawMessage(`{"at":1}`)})
	s := &Server{Reader: readerOf(t, planOfJob("train", v1alpha1.PlanFinished, decide.CodeCleanNow, 0, 0)), Ledger: l}
	for range 2 {
		got, err := s.saved(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/savings", nil))
		if x, _ := got.(Savings); err != nil || x.Of.All.Workloads != 1 || x.Unreadable != 2 {
			t.Errorf("%v, %d workloads and %d unreadable entries; want 1, 2", err, x.Of.All.Workloads, x.Unreadable)
		}
	}
	if story, status := storyOf(t, s, "team/job-train"); status != http.StatusOK || story.Unreadable != 1 || len(story.Runs) != 2 {
		t.Errorf("status %d, %d unreadable entries, %d runs; want 200, 1, 2", status, story.Unreadable, len(story.Runs))
	}
}
