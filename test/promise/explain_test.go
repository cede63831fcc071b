package promise_test

import (
	"fmt"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/sim"
)

// witness follows the decisions of a simulation and says why a deadline was lost: what was new
// at the decision after which the task had no plan in time any more.
type witness struct {
	seen map[string]bool // tasks of all decisions so far
	safe map[string]bool // tasks whose last plan ended by the deadline
	lost map[string]loss
}

// loss is the decision at which a task lost its last plan in time.
type loss struct {
	at time.Time
	// came are the tasks that no decision before had known; the task itself is one of them if
	// it never had a plan in time.
	came []string
}

func newWitness() *witness {
	return &witness{seen: map[string]bool{}, safe: map[string]bool{}, lost: map[string]loss{}}
}

// observe is called after each decision.
func (w *witness) observe(s decide.Snapshot, d decide.Decision) {
	var came []string
	for i := range s.Tasks {
		if t := &s.Tasks[i]; !w.seen[t.ID] && !t.NotBefore.After(s.Now) {
			came = append(came, t.ID)
			w.seen[t.ID] = true
		}
	}
	for i := range s.Tasks {
		t, a := &s.Tasks[i], &d.Actions[i]
		if t.Deadline.IsZero() || len(a.Phases) == 0 {
			continue
		}
		inTime := !a.Phases[len(a.Phases)-1].To.After(t.Deadline.Add(time.Millisecond))
		before, known := w.safe[t.ID]
		switch {
		case inTime:
			delete(w.lost, t.ID)
		case before || !known:
			w.lost[t.ID] = loss{s.Now, came}
		}
		w.safe[t.ID] = inTime
	}
}

// explain says why a task missed its deadline; false if no arrival explains it.
func (w *witness) explain(task string) (string, bool) {
	x, known := w.lost[task]
	switch {
	case !known:
		return "every decision had a plan in time for it", false
	case len(x.came) == 0:
		return fmt.Sprintf("it lost its plan at %s, when nothing came", x.at.Format(time.RFC3339)), false
	}
	return fmt.Sprintf("it lost its plan at %s, when %v came", x.at.Format(time.RFC3339), x.came), true
}

// overrun names a job that ran longer than it was said to at a time: it had done all the work that was
// estimated and was not done. Plans that count on its end then lose the room that it takes.
func overrun(cfg *sim.Config, res *sim.Result, at time.Time) (string, bool) {
	when := at.Sub(res.Start)
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		if j.Length <= j.Estimate || res.Jobs[i].Finish < when {
			continue
		}
		hours := 0.0
		for _, r := range res.Jobs[i].Runs {
			if r.From < when {
				hours += (min(r.To, when) - r.From).Hours() * speed(j, int(r.Workers))
			}
		}
		if hours >= j.Estimate.Hours()*(1-1e-6) {
			return j.ID, true
		}
	}
	return "", false
}
