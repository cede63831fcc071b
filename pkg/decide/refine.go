package decide

import (
	"cmp"
	"context"
	"slices"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// refinedParts are the numbers of parts that a slot may have when a plan is refined, leastPart is their least length.
var refinedParts = []time.Duration{12, 6, 4, 3, 2}

const (
	leastPart = 5 * time.Minute
	// mostRefined is how many tasks of a decision are refined, mostParts how many parts of slots are looked at for each.
	mostRefined = 100
	mostParts   = 300
	// pauseSaves is the share of a task's emissions that each pause has to save which refinement adds.
	pauseSaves = 0.005
)

// refine moves what the planner has placed now off the boundaries of slots, which begin now and so mix what the series have
// before and after their steps. The planner places each task that waits once more (plan.Refiner), alone beside all others, in
// parts of slots: first anywhere until its deadline, as the slot in which its deadline lies is lost to a plan in slots. If these parts had to be long, it
// places the task again in shorter ones, within a slot of its place. What emits less is taken. Each pause that it adds has to save
// pauseSaves of the task's emissions. The tasks that emit most come first, a bounded number of them.
//
// This replaces the rule that a plan is refined only within a slot of its place, which cost 0.1 points of saving in slots of an hour.
//
// Errors: those of the planner. Complexity: O(tasks log tasks), and for each of mostRefined tasks that of the planner for one job in
// mostParts slots, up to twice. In BenchmarkStanding with 5,000 tasks, 500 of them new, a decision took 27 to 33 ms of processor time; with one look
// within a slot of each place it took 26 to 29 ms (three pairs of runs on a busy machine).
func (w *decider) refine(ctx context.Context, planner plan.Planner) error {
	single := plan.Single(planner)
	if single == nil || w.s.soft() || w.s.Objective.Kind == plan.MOSP || w.s.Objective.PriceWeight > 0 {
		return nil
	}
	type candidate struct {
		task  int
		grams float64
	}
	var list []candidate
	for i := range w.items {
		if t, x := &w.s.Tasks[i], &w.items[i]; x.state == placed && t.State == Waiting && !x.urgent && !x.left && !x.queued && len(x.phases) > 0 {
			list = append(list, candidate{i, w.grams(i, x.phases)})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.grams, a.grams), a.task-b.task) })
	moved := false
	for _, c := range list[:min(len(list), mostRefined)] {
		x := &w.items[c.task]
		whole, ok := w.parts(c.task, x.earliest, w.s.Tasks[c.task].planEnd(w.s.Margin))
		if ok = ok && !x.weighed; ok { // the place of one that is weighed rests on all of its lengths
			did, err := w.refineTask(ctx, single, c.task, whole)
			if err != nil {
				return err
			}
			moved = moved || did
		}
		near, fits := w.parts(c.task, x.phases[0].From.Add(-w.s.Slot), x.phases[len(x.phases)-1].To.Add(w.s.Slot))
		if fits && (!ok || near.Slot < whole.Slot) {
			did, err := w.refineTask(ctx, single, c.task, near)
			if err != nil {
				return err
			}
			moved = moved || did
		}
	}
	if moved {
		w.placeLateInTime()
	}
	return nil
}

// refineTask gives a task a place in the slots of g, if it emits less there, restarts and moves included (cost). It reports whether it did.
func (w *decider) refineTask(ctx context.Context, planner plan.Planner, i int, g timegrid.Grid) (moved bool, err error) {
	t, x := &w.s.Tasks[i], &w.items[i]
	cost := w.cost(i, x.phases)
	var clusters []int
	for _, p := range x.phases {
		switch c := w.place(p.Cluster); {
		case w.curves[c] == nil:
			return false, nil
		case !slices.Contains(clusters, c):
			clusters = append(clusters, c)
		}
	}
	w.take(w.ledger, i, x.phases, -1)
	defer func() { w.take(w.ledger, i, x.phases, 1) }()
	p := w.problemOn(g, []int{i}, clusters)
	for k, c := range clusters {
		p.Clusters[k].Intensity = w.curves[c].Means(g)
	}
	j := &p.Jobs[0]
	j.Clusters, j.Quantiles = nil, nil // the grid ends in time for the quantiles
	j.Deadline = min(j.Deadline, g.N)
	if b := j.Begun; b != nil && w.place(b.Cluster) != clusters[0] || j.Arrival >= j.Deadline {
		return false, nil
	}
	res, err := plan.WithRestarts(ctx, planner, p)
	if err != nil || len(res.Plan.Jobs) == 0 {
		return false, err
	}
	phases := w.phasesOf(i, g, res.Plan.Jobs[0].Segments, clusters)
	added := max(0, t.pauses(phases)-t.pauses(x.phases))
	if added > 0 && t.Scaling != nil && !t.LatestStart.IsZero() && j.Unknown == nil {
		return false, nil // it may be shorter than expected, and a pause uses up its delay
	}
	if j.Unknown != nil && !w.keepsDelay(i, phases) {
		return false, nil
	}
	if w.inTime(i, phases) && w.cost(i, phases)*(1+equalGrams) < cost*(1-pauseSaves*float64(added)) && w.fits(w.ledger, i, phases) {
		x.phases, moved = phases, true
	}
	return moved, nil
}

// parts is a grid on which the plan of a task is refined: from and to, as far as the task may start and its deadline, less the
// margin and what the run time may exceed its mean by, allow. It has the shortest parts of a slot of which there are at most
// mostParts. Parts begin at whole multiples of their length, and are no shorter than the least run and pause.
func (w *decider) parts(i int, from, to time.Time) (g timegrid.Grid, ok bool) {
	t, x := &w.s.Tasks[i], &w.items[i]
	if from.Before(x.earliest) {
		from = x.earliest
	}
	for _, by := range []time.Time{t.planEnd(w.s.Margin), w.grid.Time(w.grid.N)} { // no intensity is known after the grid
		if to.After(by) {
			to = by
		}
	}
	least := leastPart
	if t.Kind != workload.Rigid {
		least = max(least, w.s.MinRun, w.s.MinPause)
	}
	for _, n := range refinedParts {
		if g.Slot = w.s.Slot / n; g.Slot < least {
			continue
		}
		if g.Start = timegrid.Align(from, g.Slot); g.Start.Before(from) {
			g.Start = g.Start.Add(g.Slot)
		}
		if g.N = int(to.Sub(g.Start) / g.Slot); g.N <= mostParts {
			return g, g.N > 0
		}
	}
	return g, false
}

// pauses counts the pauses and moves between phases, and the changes of scale that restart the task.
func (t *Task) pauses(phases []Phase) (n int) {
	for k := 1; k < len(phases); k++ {
		if t.interrupted(&phases[k-1], &phases[k]) {
			n++
		}
	}
	return n
}
