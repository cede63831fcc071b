package web

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
)

// TestMonthsKeepWhatThePageForgets: a workload that was settled too long ago to be kept by itself is in the sum of its month, once, also
// after a correction of it.
func TestMonthsKeepWhatThePageForgets(t *testing.T) {
	l := &memoryLedger{}
	now := time.Now().UTC()
	add := func(uid string, age time.Duration, revision int, saved float64) {
		end := now.Add(-age)
		l.add(t, ledger.KindSettled, uid, ledger.Settled{Of: ledger.Submitted{Policy: "team/clean"}, Method: "3", Revision: revision, Runs: 1, OnTime: true, To: end, KWh: 1, Grams: 10, SavedGrams: saved, Uncertainty: 0.2, Signal: "average"})
		l.entries[len(l.entries)-1].At = end
	}
	const day = 24 * time.Hour
	for i := range 12 {
		add(fmt.Sprint("old-", i), 390*day-time.Duration(i)*30*day, 0, 5)
	}
	add("new", time.Minute, 0, 7)
	s := &Server{Ledger: l}
	sum := func() (total Month, v Savings) {
		t.Helper()
		got, err := s.saved(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/savings", http.NoBody))
		if err != nil {
			t.Fatal(err)
		}
		v = got.(Savings)
		for i, m := range v.Months {
			if i > 0 && m.Name <= v.Months[i-1].Name {
				t.Errorf("%s after %s", m.Name, v.Months[i-1].Name)
			}
			total.Workloads, total.SavedGrams, total.SavedUncertain = total.Workloads+m.Workloads, total.SavedGrams+m.SavedGrams, total.SavedUncertain+m.SavedUncertain
		}
		return total, v
	}
	total, v := sum()
	if total.Workloads != 13 || total.SavedGrams != 67 || math.Abs(total.SavedUncertain-13.4) > 1e-9 || v.Of.All.Workloads > 4 || len(v.Recent) == 0 || v.Recent[0].Workload != "new" {
		t.Errorf("months: %+v; kept: %d; recent: %+v", total, v.Of.All.Workloads, v.Recent)
	}
	add("old-0", 0, 1, 4) // of one that the page keeps no more
	add("new", 0, 1, 8)
	if total, _ = sum(); total.Workloads != 13 || total.SavedGrams != 68 {
		t.Errorf("after corrections: %+v; want 13 workloads and 68 g", total)
	}
}

// TestMonthsOfSeveralSignalsDoNotAddUp: each signal has a row of its own; workloads that never ran are in none, and withheld emissions are
// in no sum.
func TestMonthsOfSeveralSignalsDoNotAddUp(t *testing.T) {
	m := months{}
	end := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	m.add(&ledger.Settled{Runs: 1, To: end, Grams: 1, Signal: "average"})
	m.add(&ledger.Settled{Runs: 1, To: end, Grams: 2, Signal: "marginal"})
	m.add(&ledger.Settled{Runs: 0, To: end, Grams: 4, Signal: "average"})
	m.add(&ledger.Settled{Runs: 1, To: end, Grams: 8, Signal: "average", Withheld: "hours without an intensity"})
	got := m.sorted()
	if len(got) != 2 || got[0].Name != "2026-11" || got[0].Grams != 1 || got[0].Workloads != 2 || got[0].Withheld != 1 || got[1].Grams != 2 {
		t.Errorf("%+v", got)
	}
}
