package decide

import (
	"context"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// Standing plans give the cleanest room to whoever came first. A decision therefore also considers to renew the
// standing plans of waiting tasks (Task.Renewable) that compete with newcomers: tasks without a plan.

const (
	// worthRenewing is the least share of their emissions that newcomers must be able to save, without the
	// tasks they compete with, for standing plans to be renewed.
	worthRenewing = 0.01
	// savedByRenewing is the least share of the emissions of newcomers that renewing must save in total.
	savedByRenewing = 0.01
)

// renew returns a decision in which the standing plans that compete with newcomers are made anew, or w if that saves
// nothing. Renewing must save in total, by the forecast and with all restarts, and each task that w has in
// time must be in time. So a task that gives up its place loses no more than the others gain.
//
// Nothing is planned if newcomers have room everywhere. Else the planner is asked at most twice: for the newcomers
// without the tasks they compete with, which bounds what can be saved, and, if that is something, for both together.
// Restarts are planned for, but queues of clusters are not: see safest.
//
// Complexity: O(newcomers x clusters x log steps); if capacity is scarce to a newcomer, in addition
// O(tasks x log steps) and the planner on the newcomers; if they can save, a decision on the newcomers and those that
// compete with them.
func (w *decider) renew(ctx context.Context, planner plan.Planner) (*decider, error) {
	if w.s.soft() || w.s.Objective.PriceWeight != 0 {
		return w, nil
	}
	renewable, newcomers := w.renewable(), w.newcomers()
	if len(renewable) == 0 || len(newcomers) == 0 {
		return w, nil
	}
	competing := w.competing(renewable, newcomers)
	if len(competing) == 0 {
		return w, nil
	}
	if saves, err := w.wouldSave(ctx, planner, newcomers, competing); err != nil || !saves {
		return w, err
	}
	s := *w.s
	s.Tasks = slices.Clone(s.Tasks)
	for _, i := range competing {
		s.Tasks[i].Replan, s.Tasks[i].renewed = true, true
	}
	other, err := planned(ctx, &s, planner)
	if err != nil {
		return nil, err
	}
	other.restore(w, competing)
	if !other.savesAgainst(w, newcomers) {
		return w, nil
	}
	return other, nil
}

// restore has the listed tasks follow their standing plans again, as in the decision before, if there is room and
// the new plans emit no less. Slots begin at each decision, so that the plans of tasks that need not
// move for others would else move by a part of a slot.
//
// Complexity: O(tasks x log tasks + phases x log steps).
func (w *decider) restore(before *decider, tasks []int) {
	first := func(i int) time.Time { return before.items[i].phases[0].From }
	order := slices.Clone(tasks)
	slices.SortStableFunc(order, func(a, b int) int { return first(a).Compare(first(b)) })
	for _, i := range order {
		x, old := &w.items[i], before.items[i].phases
		if x.state != placed || !before.inTime(i, old) || w.cost(i, old) > w.cost(i, x.phases)*(1+equalGrams) {
			continue
		}
		w.take(w.ledger, i, x.phases, -1)
		if !w.fits(w.ledger, i, old) {
			w.take(w.ledger, i, x.phases, 1)
			continue
		}
		x.state, x.phases, x.code, x.goesOn = followed, old, before.items[i].code, false
		w.take(w.ledger, i, old, 1)
	}
}

// renewable lists the waiting tasks whose standing plan goes on and may be renewed.
func (w *decider) renewable() (out []int) {
	for i := range w.items {
		if t := &w.s.Tasks[i]; t.Renewable && t.State == Waiting && w.items[i].state == followed {
			out = append(out, i)
		}
	}
	return out
}

// newcomers lists the tasks without a standing plan that are planned now and to which capacity is scarce.
func (w *decider) newcomers() (out []int) {
	for i := range w.items {
		x := &w.items[i]
		if (x.state == placed || x.state == unplaced) && w.s.Tasks[i].Standing == nil && !w.roomEverywhere(i) {
			out = append(out, i)
		}
	}
	return out
}

// roomEverywhere reports whether beside all plans there is room for a task as large as it may get on all
// clusters that it may use, from its arrival until its deadline.
func (w *decider) roomEverywhere(i int) bool {
	t, x := &w.s.Tasks[i], &w.items[i]
	workers := 1.0
	if t.Scaling != nil {
		workers = float64(t.Scaling.MaxWorkers)
	}
	return !slices.ContainsFunc(w.allowed(t), func(c int) bool {
		return w.curves[c] != nil && t.Deadline.After(x.earliest) &&
			!w.ledger.Fits(w.ledger.Cluster(w.s.Clusters[c].Name), x.need, workers, x.earliest, t.Deadline)
	})
}

// competing lists the renewable tasks whose plans hold room that a newcomer could use: on a cluster that it may
// use, and from its arrival until its deadline.
func (w *decider) competing(renewable, newcomers []int) (out []int) {
	spans := map[string]span{}
	for _, i := range newcomers {
		t, x := &w.s.Tasks[i], &w.items[i]
		for _, c := range w.allowed(t) {
			name := w.s.Clusters[c].Name
			s, some := spans[name]
			if !some || x.earliest.Before(s.from) {
				s.from = x.earliest
			}
			if t.Deadline.After(s.to) {
				s.to = t.Deadline
			}
			spans[name] = s
		}
	}
	for _, i := range renewable {
		if slices.ContainsFunc(w.items[i].phases, func(p Phase) bool {
			s, some := spans[p.Cluster]
			return some && p.From.Before(s.to) && p.To.After(s.from)
		}) {
			out = append(out, i)
		}
	}
	return out
}

// wouldSave reports whether newcomers would emit less, by worthRenewing, without the tasks that they compete with.
// That bounds what renewing the plans of these can save, if these are as clean as the planner can make them.
func (w *decider) wouldSave(ctx context.Context, planner plan.Planner, newcomers, competing []int) (bool, error) {
	alone := newDecider(w.s)
	alone.ledger = w.ledger.Clone()
	for _, i := range slices.Concat(newcomers, competing) {
		w.take(alone.ledger, i, w.items[i].phases, -1)
		alone.items[i].weighed = w.items[i].weighed
	}
	if _, err := alone.ask(ctx, planner, newcomers); err != nil {
		return false, err
	}
	beside, without := 0.0, 0.0
	for _, i := range newcomers {
		if len(alone.items[i].phases) == 0 {
			continue // it has no place there: nothing is known
		}
		if len(w.items[i].phases) == 0 {
			return true, nil
		}
		beside, without = beside+w.cost(i, w.items[i].phases), without+alone.cost(i, alone.items[i].phases)
	}
	return without < (1-worthRenewing)*beside, nil
}

// savesAgainst reports whether a decision emits less than another one on the same tasks, by savedByRenewing of what
// newcomers emit, has all tasks in time that the other one has, and has no late task end later. What changes behind
// the grid, where no intensity is known, saves nothing for sure.
func (w *decider) savesAgainst(other *decider, newcomers []int) bool {
	saved, least := 0.0, 0.0
	for i := range w.items {
		x, y := &w.items[i], &other.items[i]
		if !w.s.Tasks[i].Deadline.IsZero() && !w.inTime(i, x.phases) && (other.inTime(i, y.phases) || endsLater(x.phases, y.phases)) {
			return false
		}
		if len(x.phases) == 0 || len(y.phases) == 0 || slices.Equal(x.phases, y.phases) {
			continue
		}
		if w.endsBehindGrid(x.phases) || w.endsBehindGrid(y.phases) {
			return false
		}
		saved += other.cost(i, y.phases) - w.cost(i, x.phases)
	}
	for _, i := range newcomers {
		least += savedByRenewing * other.cost(i, other.items[i].phases)
	}
	return saved > least
}

// endsBehindGrid reports whether phases end behind the slots of this decision.
func (w *decider) endsBehindGrid(phases []Phase) bool {
	return phases[len(phases)-1].To.After(w.grid.Time(w.grid.N))
}

// endsLater reports whether phases end later than other ones of the same task. Without phases it never ends.
func endsLater(phases, other []Phase) bool {
	if len(phases) == 0 || len(other) == 0 {
		return len(phases) < len(other)
	}
	return phases[len(phases)-1].To.After(other[len(other)-1].To.Add(rounding))
}

// cost is what the phases of a task emit, with its restarts and moves (plan.Problem.RestartGrams).
func (w *decider) cost(i int, phases []Phase) float64 {
	t, sum := &w.s.Tasks[i], w.grams(i, phases)
	if t.Kind == workload.Rigid || t.RestartKWh+t.TransferKWh == 0 {
		return sum
	}
	at, until := -1, time.Time{} // the task was last at cluster at, until then; -1 before its first start
	switch {
	case t.State == Running:
		at, until = w.place(t.Cluster), w.s.Now
	case t.Paused:
		at = w.place(t.Cluster)
	}
	for k := range phases {
		p := &phases[k]
		c := w.place(p.Cluster)
		if at >= 0 && (c != at || p.From.After(until)) {
			sum += w.restartGrams(t, at, c, p.From)
		}
		at, until = c, p.To
	}
	return sum
}

// restartGrams is what it emits that a task goes on at a time on cluster b after a pause, or comes there from
// cluster a. A cluster without carbon data counts for nothing.
func (w *decider) restartGrams(t *Task, a, b int, at time.Time) float64 {
	intensity := func(c int) float64 {
		if w.curves[c] == nil {
			return 0
		}
		return w.curves[c].Mean(at, at.Add(w.s.Slot))
	}
	sum := t.RestartKWh * w.s.Clusters[b].pue() * intensity(b)
	if a != b {
		sum += t.TransferKWh * (intensity(a) + intensity(b)) / 2
	}
	return math.Max(0, sum)
}
