package decide

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
)

// schedule is the phases of the open tasks, by their position in the list; nil for a task
// without a place.
type schedule [][]Phase

// secure repairs a plan in which tasks are missing. It looks, in this order, for a schedule of
// all open tasks that is in time:
//
//  1. the plan, with what is missing placed where it fits;
//  2. the standing plans, as far as they still fit, with the rest placed where it fits; if
//     there are none, the order of submission, as the cluster itself would run the tasks;
//  3. earliest deadline first;
//  4. the most urgent task first, each as soon as it fits;
//  5. the order of submission, if there are standing plans: tasks that have come since are in time by it, if what runs is
//     what would run as submitted.
//
// It takes the first one without a late task. If there is none, it takes the one in which the
// fewest tasks are late that are in time by (2), then the one with the fewest late tasks. Then
// each task changes from there to its place in the plan, if that is free. A
// deadline that can be kept as submitted, or by a standing plan, is therefore never lost by
// planning.
//
// Complexity: O(tasks x (steps + slots)), and O(tasks^2) at worst for the order of submission.
func (w *decider) secure(list []int) {
	base := w.ledger.Clone() // without the open tasks
	wanted := make(schedule, len(list))
	for k, i := range list {
		wanted[k] = w.items[i].phases
		if x := &w.items[i]; x.state == placed || x.urgent {
			w.take(base, i, wanted[k], -1)
		}
	}
	repairs := []func(*capacity.Ledger) schedule{
		func(l *capacity.Ledger) schedule { return w.insert(l, list, wanted, nil) },
		func(l *capacity.Ledger) schedule { return w.insert(l, list, w.standing(list), wanted) },
		func(l *capacity.Ledger) schedule { return w.byDeadline(l, list) },
		func(l *capacity.Ledger) schedule { return w.insert(l, list, nil, nil) },
	}
	var best schedule
	var least lateness
	const submitted = 4
	chosen := -1
	var queued schedule
	protected := w.inTimeByStanding(list)
	consider := func(k int, found schedule, l *capacity.Ledger) {
		if n := w.judge(list, found, protected); chosen < 0 || n.less(least) {
			best, least, chosen, w.ledger = found, n, k, l
		}
	}
	standing := protected != nil
	asSubmitted := func() {
		// What may not wait stands in the same queue as the open tasks.
		all := append(slices.Clone(list), w.fresh...)
		l := base.Clone()
		for _, i := range w.fresh {
			w.take(l, i, w.items[i].phases, -1)
		}
		queued = w.asSubmitted(l, all)
		w.dropExcess(l, list, queued)
		if !standing {
			protected = w.inTimeOf(list, queued)
			least = w.judge(list, best, protected)
		}
		consider(submitted, slices.Clone(queued[:len(list)]), l)
	}
	for k, repair := range repairs {
		if k == 1 && !standing {
			asSubmitted()
			continue
		}
		l := base.Clone()
		if consider(k, repair(l), l); least.late == 0 {
			break
		}
	}
	if standing && least.late > 0 {
		asSubmitted()
	}
	if chosen == submitted && w.queueFresh(queued[len(list):]) {
		w.releaseAll(list, best)
		return
	}
	if chosen > 0 {
		w.improve(list, best, wanted)
	}
	for k, i := range list {
		x := &w.items[i]
		x.state, x.phases = placed, best[k]
		if len(best[k]) > 0 && best[k][0].From.After(w.s.Now) {
			x.code = "" // it was to run now, and has made room
		}
		if len(best[k]) == 0 || !w.inTime(i, best[k]) {
			w.take(w.ledger, i, best[k], -1)
			x.state, x.phases = unplaced, nil
		}
	}
}

// lateness is what is wrong with a schedule, the worst first: tasks that are late although
// there is a way to be in time, late tasks, those that never find room (foreseenLate), and tasks that give up a part of their margin or guard.
type lateness struct{ lost, late, never, margin int }

func (a lateness) less(b lateness) bool {
	return cmp.Or(a.lost-b.lost, a.late-b.late, a.never-b.never, a.margin-b.margin) < 0
}

// judge counts what is wrong with a schedule. protected marks the tasks that have a way to be
// in time.
func (w *decider) judge(list []int, s schedule, protected []bool) (n lateness) {
	for k, i := range list {
		switch t := &w.s.Tasks[i]; {
		case len(s[k]) == 0 || !w.inTime(i, s[k]):
			n.late++
			if protected != nil && protected[k] {
				n.lost++
			}
		case s[k][len(s[k])-1].To.After(t.planEnd(w.s.Margin).Add(rounding)):
			n.margin++
		}
	}
	return n
}

// dropExcess takes those of the listed tasks out of a schedule for which there is less room later than when
// the queue of a cluster starts them: the capacity falls while they run.
func (w *decider) dropExcess(l *capacity.Ledger, list []int, s schedule) {
	for k, i := range list {
		w.take(l, i, s[k], -1)
		if !w.fits(l, i, s[k]) {
			s[k] = nil
		}
		w.take(l, i, s[k], 1)
	}
}

// inTimeByStanding marks the tasks that are in time by their standing plans; nil if no task
// has a standing plan.
func (w *decider) inTimeByStanding(list []int) []bool {
	if !slices.ContainsFunc(list, func(i int) bool { return w.s.Tasks[i].Standing != nil }) {
		return nil
	}
	return w.inTimeOf(list, w.standing(list))
}

func (w *decider) inTimeOf(list []int, s schedule) []bool {
	out := make([]bool, len(list))
	for k, i := range list {
		out[k] = len(s[k]) > 0 && w.inTime(i, s[k])
	}
	return out
}

// placeLate places the tasks for which no place in time was found, in the order of submission: each where it ends soonest in what is free.
//
// Complexity: O(late tasks x steps).
func (w *decider) placeLate() {
	list := w.listOf(unplaced)
	if w.s.soft() {
		return
	}
	slices.SortFunc(list, w.runningFirst)
	forever := w.s.Now.AddDate(50, 0, 0)
	for _, i := range list {
		t, x := &w.s.Tasks[i], &w.items[i]
		x.code = CodeLatestStart
		if on := []Phase{w.on(i)}; t.State == Running && w.fits(w.ledger, i, on) {
			x.phases = w.priced(on)
		} else if phases, ok := w.soonestFit(w.ledger, i, forever); ok {
			x.phases = phases
		} else if t.State == Running && !t.Unscheduled {
			// It runs, though there is less than it takes: that is not Lull's doing, and its room is not free.
			x.state, x.code, x.phases = committed, CodeRunning, w.priced(on)
			w.overcommitted = true
		} else {
			w.leave(i, nil) // there is never room for all of it: the cluster may know better
			continue
		}
		w.take(w.ledger, i, x.phases, 1)
		if x.state == unplaced && w.inTime(i, x.phases) { // others that are late left the room
			x.state, x.code = placed, ""
		}
	}
}

// placeLateInTime places late tasks in the room that refine has left, if they end in time there.
//
// Complexity: O(late tasks x steps).
func (w *decider) placeLateInTime() {
	list := w.listOf(unplaced)
	slices.SortFunc(list, w.runningFirst)
	for _, i := range list {
		x := &w.items[i]
		if x.left || x.queued {
			continue // there is never room for all of it
		}
		w.take(w.ledger, i, x.phases, -1)
		if phases, ok := w.soonestFit(w.ledger, i, w.s.Tasks[i].Deadline); ok {
			x.state, x.code, x.phases = placed, "", phases
		}
		w.take(w.ledger, i, x.phases, 1)
	}
}

// standing lists what standing plans have ahead, if that does the work that is left. A deadline outranks
// the least pause, so that delays none of them.
func (w *decider) standing(list []int) schedule {
	out := make(schedule, len(list))
	for k, i := range list {
		t := &w.s.Tasks[i]
		if t.Standing == nil {
			continue
		}
		phases := t.Standing.from(w.items[i].arrival)
		if len(phases) == 0 || t.lags(phases, w.s.Now) {
			continue
		}
		out[k] = phases
	}
	return out
}

// workIn is the work that phases do, as run time at MinWorkers.
func (t *Task) workIn(phases []Phase) time.Duration {
	sum := 0.0
	for k := range phases {
		sum += t.rate(phases[k].Workers) * float64(phases[k].To.Sub(phases[k].From))
	}
	return time.Duration(math.Round(sum))
}

// insert takes the phases of first, else those of second, as far as they fit and are in time, and
// then places the rest, earliest latest start first.
func (w *decider) insert(l *capacity.Ledger, list []int, first, second schedule) schedule {
	out := make(schedule, len(list))
	var rest []int
	try := func(k int, from schedule) bool {
		if from == nil || len(from[k]) == 0 || !w.inTime(list[k], from[k]) || !w.fits(l, list[k], from[k]) {
			return false
		}
		out[k] = from[k]
		w.take(l, list[k], out[k], 1)
		return true
	}
	for k := range list {
		if !try(k, first) {
			rest = append(rest, k)
		}
	}
	rest = slices.DeleteFunc(rest, func(k int) bool { return try(k, second) })
	w.sortByUrgency(list, rest)
	for _, k := range rest {
		w.put(l, list[k], &out[k])
	}
	return out
}

func (w *decider) sortByUrgency(list, positions []int) {
	slices.SortStableFunc(positions, func(a, b int) int {
		return w.items[list[a]].latest.Compare(w.items[list[b]].latest)
	})
}

// put places a task as soon as it fits, at its least scale if that is in time, with the margin and the guard kept if
// possible. It never waits for cleaner power: that is for the planner to say, and it has found no place.
func (w *decider) put(l *capacity.Ledger, i int, out *[]Phase) {
	t := &w.s.Tasks[i]
	by := t.planEnd(w.s.Margin)
	phases, ok := w.onePiece(l, i, by, t.scales()[:1], true)
	if !ok {
		phases, ok = w.soonestFit(l, i, by)
	}
	if !ok {
		phases, ok = w.soonestFit(l, i, t.Deadline) // with as much of both as possible
	}
	if ok {
		*out = phases
		w.take(l, i, phases, 1)
	}
}

// byDeadline places the earliest deadline first, each as soon as possible.
func (w *decider) byDeadline(l *capacity.Ledger, list []int) schedule {
	out := make(schedule, len(list))
	order := make([]int, len(list))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return w.s.Tasks[list[a]].Deadline.Compare(w.s.Tasks[list[b]].Deadline)
	})
	for _, k := range order {
		i := list[k]
		if phases, ok := w.soonestFit(l, i, w.s.Tasks[i].Deadline); ok {
			out[k] = phases
			w.take(l, i, phases, 1)
		}
	}
	return out
}

// onePiece places a task in one piece, as it runs or at one of the scales, where that ends soonest and by a time. If the
// reserve is kept, what the task takes leaves it free for work to come.
func (w *decider) onePiece(l *capacity.Ledger, i int, by time.Time, scales []int, keepReserve bool) ([]Phase, bool) {
	t, x := &w.s.Tasks[i], &w.items[i]
	var best []Phase
	consider := func(p Phase) {
		if best == nil || p.To.Before(best[0].To) {
			best = []Phase{p}
		}
	}
	if on := w.on(i); t.State == Running && !on.To.After(by) && w.fits(l, i, []Phase{on}) {
		consider(on)
	}
	for _, c := range w.roomiest(l, i) {
		for _, workers := range scales {
			p := w.phase(i, c, x.earliest, t.Remaining, workers)
			need, times := x.need, t.workersOf(&p)
			if keepReserve {
				need, times = w.besideReserve(l, i, c, workers)
			}
			length := t.startOf(false) + t.runtime(t.Remaining, workers) // at most: a run that goes on needs no start
			if from, ok := l.Earliest(l.Cluster(p.Cluster), need, times, x.earliest, length, by); ok {
				consider(w.phase(i, c, from, t.Remaining, workers))
			}
		}
	}
	return w.priced(best), best != nil
}

// scales are the numbers of workers that are tried in a repair: the least and the fastest.
func (t *Task) scales() []int {
	if t.Scaling == nil {
		return []int{1}
	}
	fastest, _ := t.Scaling.fastest()
	if fastest == t.Scaling.MinWorkers {
		return []int{fastest}
	}
	return []int{t.Scaling.MinWorkers, fastest}
}

// improve moves tasks from their place in the schedule to the one that the planner wants, where that is free.
func (w *decider) improve(list []int, s, wanted schedule) {
	const rounds = 2
	order := make([]int, len(list))
	for k := range order {
		order[k] = k
	}
	w.sortByUrgency(list, order)
	for range rounds {
		changed := false
		for _, k := range order {
			i := list[k]
			if len(s[k]) == 0 || w.items[i].queued || samePhases(s[k], wanted[k]) {
				continue
			}
			w.take(w.ledger, i, s[k], -1)
			best := s[k]
			if len(wanted[k]) > 0 && w.inTime(i, wanted[k]) && w.fits(w.ledger, i, wanted[k]) {
				best = wanted[k]
			}
			changed = changed || !samePhases(best, s[k])
			s[k] = best
			w.take(w.ledger, i, best, 1)
		}
		if !changed {
			return
		}
	}
}

// closePhases reports whether two lists of phases differ by rounding at most.
func closePhases(a, b []Phase) bool {
	return slices.EqualFunc(withoutMoments(a), withoutMoments(b), func(x, y Phase) bool {
		return x.From.Sub(y.From).Abs() <= rounding && x.To.Sub(y.To).Abs() <= rounding && x.Cluster == y.Cluster && x.Workers == y.Workers
	})
}

// withoutMoments leaves out the phases that are no longer than times are off by rounding: a run goes on for such a moment if its plan
// was short of the work by it.
func withoutMoments(phases []Phase) []Phase {
	moment := func(p Phase) bool { return p.moment() }
	if !slices.ContainsFunc(phases, moment) {
		return phases
	}
	return slices.DeleteFunc(slices.Clone(phases), moment)
}

func samePhases(a, b []Phase) bool {
	return slices.EqualFunc(a, b, func(x, y Phase) bool {
		return x.From.Equal(y.From) && x.To.Equal(y.To) && x.Cluster == y.Cluster && x.Workers == y.Workers
	})
}
