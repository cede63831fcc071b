package relax

import (
	"cmp"
	"slices"

	"lull.dev/lull/pkg/workload"
)

// This file finds the best responses of all rigid jobs together. The cheapest start of a job is
// the least entry of a table in its window. Jobs with the same table are taken in order of the
// ends of their windows: a stack then holds, for each start of a window, the least entry up to there.

// runJobs returns the jobs whose best response starts finds: rigid ones, unless the moment at which
// they begin has a cost or where they fit depends on their size. They are in order of tables, then
// of the ends of their windows.
func (m *Model) runJobs() []int32 {
	if m.timed() {
		return nil
	}
	var out []int32
	for j := range m.jobs {
		jb := &m.jobs[j]
		if cl := &m.classes[jb.class]; cl.kind == workload.Rigid && !jb.large && len(cl.choices) > 0 {
			out = append(out, int32(j))
		}
	}
	slices.SortFunc(out, func(a, b int32) int {
		x, y := &m.jobs[a], &m.jobs[b]
		return cmp.Or(m.classes[x.class].lane-m.classes[y.class].lane, int(x.last-y.last), int(a-b))
	})
	return out
}

// starts sets e.start[j], for the jobs of runJobs, to the cheapest slot to begin in at the prices
// set, the earlier of equal ones; -1 if leaving the job out costs no more.
//
// Complexity: O(lanes x slots + jobs log slots).
func (e *Pricer) starts() {
	m := e.m
	lane, end := -1, 0
	var tb *table
	stack := e.stack[:0] // slots, each with a lower cost than all after it up to end
	for _, j := range e.rigid {
		jb := &m.jobs[j]
		cl := &m.classes[jb.class]
		if cl.lane != lane {
			lane, stack = cl.lane, stack[:0]
			tb, end = &e.tables[lane][0], m.lanes[lane].from
		}
		last := int(jb.last)
		if !m.cutOff() {
			last -= cl.slots - 1
		}
		for ; end < last; end++ {
			for len(stack) > 0 && tb.cost[stack[len(stack)-1]] > tb.cost[end] {
				stack = stack[:len(stack)-1]
			}
			stack = append(stack, int32(end))
		}
		e.start[j] = -1
		if k, _ := slices.BinarySearch(stack, jb.arrival); k < len(stack) && tb.cost[stack[k]] < cl.shed*jb.size/jb.size {
			e.start[j] = stack[k]
		}
	}
	e.stack = stack
}

// started is the best response of a rigid job, as run finds it: with its start where that is known.
func (e *Pricer) started(j int) (cost float64, slot, cluster int) {
	jb := &e.m.jobs[j]
	cl := &e.m.classes[jb.class]
	if e.m.timed() || len(cl.choices) == 0 {
		return e.run(jb, cl)
	}
	t := e.start[j]
	if t < 0 {
		return cl.shed * jb.size, -1, 0
	}
	tb := &e.tables[cl.lane][0]
	return tb.cost[t] * jb.size, int(t), int(tb.at[t])
}
