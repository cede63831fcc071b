package web

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/kube"
)

// Savings are what was settled lately.
type Savings struct {
	// Ledger says that there is one.
	Ledger bool `json:"ledger"`
	// Days is for how many days back workloads count in Of, by when they were settled; Older is how many of
	// them are left out, because there are too many.
	Days  int            `json:"days"`
	Older int            `json:"older,omitempty"`
	Of    ledger.Summary `json:"of"`
	// SavedUncertain is how far Of.All.SavedGrams may be off at 90 %.
	SavedUncertain float64 `json:"savedUncertainGCO2eq"`
	// Unreadable counts the entries of the ledger that cannot be decoded, and are in no figure.
	Unreadable int `json:"unreadable,omitempty"`
	// Problem says why they cannot be summed.
	Problem string `json:"problem,omitempty"`
	// Months are those of the last year, and all their workloads, the first month first.
	Months []Month `json:"months"`
	// Recent are the workloads that ended last, the last one first.
	Recent []Recent `json:"recent"`
}

// Recent is a workload that was settled.
type Recent struct {
	Workload  string    `json:"workload"` // UID
	Namespace string    `json:"namespace"`
	Kind      string    `json:"kind"`
	Name      string    `json:"name"`
	Object    string    `json:"object"` // the name of its CarbonPlan
	End       time.Time `json:"end"`
	KWh       float64   `json:"kWh"`
	// Withheld says why no emissions are stated; the figures in grams are 0 then.
	Withheld         string  `json:"withheld,omitempty"`
	Grams            float64 `json:"gCO2eq"`
	AsSubmittedGrams float64 `json:"asSubmittedGCO2eq"`
	SavedGrams       float64 `json:"savedGCO2eq"`
	OnTime           bool    `json:"onTime"`
}

const (
	// savingsDays is of how many days the page keeps the workloads that were settled, maxSettled of how many at most, the last
	// ones: they are in memory. Reports of the command line have all.
	savingsDays = 90
	maxSettled  = 20_000
	// monthsDays is how far back the sums of months go.
	monthsDays = 400
	// maxRecent bounds the workloads that the page names.
	maxRecent = 20
)

// settlement is what the page keeps of a workload that is settled.
type settlement struct {
	ledger.Settled
	at time.Time // when it was settled first
}

// saved sums the ledger. Complexity: O(new entries), and O(n log n) of the settled workloads if anything is new.
func (s *Server) saved(r *http.Request) (any, error) {
	if s.Ledger == nil {
		return Savings{Months: []Month{}, Recent: []Recent{}}, nil
	}
	s.savingsMu.Lock()
	defer s.savingsMu.Unlock()
	if err := s.readSettled(r.Context()); err != nil {
		return nil, err
	}
	if s.unsummed {
		s.bound(time.Now())
		s.sum()
		s.unsummed = false
	}
	return s.savings, nil
}

// readSettled reads what was settled since the last time. The caller holds savingsMu.
func (s *Server) readSettled(ctx context.Context) error {
	if s.settled == nil {
		s.settled, s.months, s.savings, s.unsummed = map[string]settlement{}, months{}, Savings{Ledger: true, Days: savingsDays}, true
	}
	now := time.Now()
	for e, err := range s.Ledger.Read(ctx, ledger.Query{Kind: ledger.KindSettled, After: s.counted, Since: now.Add(-monthsDays * 24 * time.Hour)}) {
		var b ledger.Settled
		if err == nil {
			b, err = e.Settled()
		}
		if ledger.IsUnreadable(err) {
			s.counted, s.savings.Unreadable = e.Seq, s.savings.Unreadable+1
			continue
		}
		if err != nil {
			return err
		}
		s.counted = e.Seq
		at := e.At
		last, again := s.settled[e.Workload]
		if b.Revision > 0 && !again {
			continue // the correction of a workload that the page keeps no more: the sum of its month has the figure before it
		}
		if again {
			at = last.at
		}
		b.Sources, b.Of.Labels, b.Of.Request, b.Of.Curve, b.Of.Clusters = nil, nil, nil, nil, nil // in no sum of the page
		s.settled[e.Workload], s.unsummed = settlement{b, at}, true
		if len(s.settled) > 2*maxSettled {
			s.bound(now)
		}
	}
	return nil
}

// bound drops the workloads that were settled too long ago, and the oldest of too many. Their months keep their figures.
func (s *Server) bound(now time.Time) {
	since := now.Add(-savingsDays * 24 * time.Hour)
	drop := func(uid string) {
		b := s.settled[uid]
		s.months.add(&b.Settled)
		delete(s.settled, uid)
	}
	for uid, b := range s.settled {
		if b.at.Before(since) {
			drop(uid)
		}
	}
	over := len(s.settled) - maxSettled
	if over <= 0 {
		return
	}
	uids := slices.SortedFunc(maps.Keys(s.settled), func(a, b string) int {
		return cmp.Or(s.settled[a].at.Compare(s.settled[b].at), cmp.Compare(a, b))
	})
	for _, uid := range uids[:over] {
		drop(uid)
	}
	s.savings.Older += over
}

func (s *Server) sum() {
	list := make([]ledger.Settlement, 0, len(s.settled))
	all := maps.Clone(s.months)
	s.savings.SavedUncertain = 0
	for uid, b := range s.settled {
		list = append(list, ledger.Settlement{Workload: uid, Settled: b.Settled})
		all.add(&b.Settled)
		s.savings.SavedUncertain += b.Uncertainty * math.Abs(b.SavedGrams) // 0 if they are withheld
	}
	s.savings.Months = all.sorted()
	slices.SortFunc(list, func(a, b ledger.Settlement) int {
		return cmp.Or(b.To.Compare(a.To), cmp.Compare(a.Workload, b.Workload))
	})
	s.savings.Recent = recent(list[:min(len(list), maxRecent)])
	var err error
	s.savings.Problem = ""
	if s.savings.Of, err = ledger.Summarize(list, ledger.Question{By: "policy"}); err != nil {
		s.savings.Of, s.savings.Problem = ledger.Summary{}, err.Error()
	}
}

func recent(list []ledger.Settlement) []Recent {
	out := make([]Recent, 0, len(list))
	for i := range list {
		b := &list[i]
		out = append(out, Recent{
			Workload: b.Workload, Namespace: b.Of.Namespace, Kind: b.Of.Kind, Name: b.Of.Name, Object: kube.PlanNameOf(b.Of.Kind, b.Of.Name), End: b.To, KWh: b.KWh,
			Withheld: b.Withheld, Grams: b.Grams, AsSubmittedGrams: b.Counterfactual.Grams, SavedGrams: b.SavedGrams, OnTime: b.OnTime,
		})
	}
	return out
}
