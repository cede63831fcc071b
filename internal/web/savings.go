package web

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
)

// Savings are what was settled lately, by the day.
type Savings struct {
	// Ledger says that there is one.
	Ledger bool `json:"ledger"`
	// Days is for how many days back workloads count, by when they were settled; Older is how many of
	// them are left out, as there are too many.
	Days  int            `json:"days"`
	Older int            `json:"older,omitempty"`
	Of    ledger.Summary `json:"of"`
	// Problem says why it cannot be summed.
	Problem string `json:"problem,omitempty"`
}

const (
	// savingsDays is how far back the page sums, mostSettled of how many workloads at most, the last ones:
	// they are kept in memory. Reports of the command line have all.
	savingsDays = 90
	mostSettled = 20_000
)

// settlement is what the page keeps of a workload that is settled.
type settlement struct {
	ledger.Settled
	at time.Time // when it was settled first
}

// saved sums the ledger. Complexity: that of what is new in it, and O(n log n) of what was settled where
// anything is.
func (s *Server) saved(r *http.Request) (any, error) {
	if s.Ledger == nil {
		return Savings{}, nil
	}
	s.savingsMu.Lock()
	defer s.savingsMu.Unlock()
	if s.settled == nil {
		s.settled, s.savings, s.unsummed = map[string]settlement{}, Savings{Ledger: true, Days: savingsDays}, true
	}
	since := time.Now().Add(-savingsDays * 24 * time.Hour)
	for e, err := range s.Ledger(r.Context(), ledger.Query{Kind: ledger.KindSettled, After: s.counted, Since: since}) {
		if err != nil {
			return nil, err
		}
		b, err := e.Settled()
		if err != nil {
			return nil, err
		}
		b.Sources, b.Of.Labels, b.Of.Request, b.Of.Curve, b.Of.Clusters = nil, nil, nil, nil, nil // in no sum of the page
		at := e.At
		if last, again := s.settled[e.Workload]; again {
			at = last.at
		}
		s.settled[e.Workload], s.counted, s.unsummed = settlement{b, at}, e.Seq, true
		if len(s.settled) > 2*mostSettled {
			s.bound(since)
		}
	}
	if s.unsummed {
		s.bound(since)
		s.sum()
		s.unsummed = false
	}
	return s.savings, nil
}

// bound forgets what is too old, and the oldest of too many.
func (s *Server) bound(since time.Time) {
	maps.DeleteFunc(s.settled, func(_ string, b settlement) bool { return b.at.Before(since) })
	over := len(s.settled) - mostSettled
	if over <= 0 {
		return
	}
	uids := slices.SortedFunc(maps.Keys(s.settled), func(a, b string) int {
		return cmp.Or(s.settled[a].at.Compare(s.settled[b].at), cmp.Compare(a, b))
	})
	for _, uid := range uids[:over] {
		delete(s.settled, uid)
	}
	s.savings.Older += over
}

func (s *Server) sum() {
	list := make([]ledger.Settlement, 0, len(s.settled))
	for uid, b := range s.settled {
		list = append(list, ledger.Settlement{Workload: uid, Settled: b.Settled})
	}
	var err error
	s.savings.Problem = ""
	if s.savings.Of, err = ledger.Summarize(list, ledger.Question{By: "policy", Top: 10}); err != nil {
		s.savings.Of, s.savings.Problem = ledger.Summary{}, err.Error()
	}
}
