package plan

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"lull.dev/lull/pkg/workload"
)

// Alternative is another place that a planned job might have had.
type Alternative struct {
	Slot, Cluster int
	// Grams is what the job would emit with its run beginning
	// in Slot (rigid), or with its dearest slot exchanged for this one (others).
	Grams float64
	// Fits says that there is room beside the other jobs of the plan; else Why tells
	// what is in the way.
	Fits bool
	Why  string
}

// Explanation says why a job is where it is.
type Explanation struct {
	Job     int
	Planned JobPlan
	Grams   float64
	// Guard is the first slot that the job may not use as its uncertain run time is guarded (Guarded); 0 if
	// that is its own deadline.
	Guard int
	// Alternatives are the other places within its window, the cheapest first.
	Alternatives []Alternative
}

// Explain compares the place of job j in pl with every other one that it might have had
// in the room the other jobs leave. ok is false where the plan lacks the job.
//
// Complexity: O(clusters x window x length), and O(segments) for each place without
// room.
func Explain(p *Problem, pl Plan, j int) (Explanation, bool) {
	out := Explanation{Job: j, Planned: JobPlan{Job: -1}}
	free := NewFree(p)
	users := map[[2]int][]string{}
	for _, jp := range pl.Jobs {
		if jp.Job == j {
			out.Planned = jp
			continue
		}
		free.TakeAll(jp.Job, jp.Segments)
		for i, s := range jp.Segments {
			if i == 0 || jp.Segments[i-1].Slot != s.Slot {
				at := [2]int{s.Cluster, s.Slot}
				users[at] = append(users[at], p.Jobs[jp.Job].ID)
			}
		}
	}
	if out.Planned.Job < 0 || len(out.Planned.Segments) == 0 {
		return out, false
	}
	one := *p
	one.Jobs = p.Jobs[j : j+1]
	grams := func(segments []Segment) float64 {
		return Evaluate(&one, Plan{Jobs: []JobPlan{{Job: 0, Segments: segments}}}).CarbonG
	}
	out.Grams = grams(out.Planned.Segments)
	job := &p.Jobs[j]
	blocked := func(c, from, to int) (bool, string) {
		for t := from; t < to; t++ {
			if !free.FitsUnder(j, c, t, job.MinWorkers, 0) {
				who := users[[2]int{c, t}]
				if len(who) == 0 {
					return false, fmt.Sprintf("slot %d has no capacity for it", t)
				}
				return false, fmt.Sprintf("slot %d is taken by %s", t, names(who))
			}
		}
		return true, ""
	}
	used := map[[2]int]bool{}
	for _, s := range out.Planned.Segments {
		used[[2]int{s.Cluster, s.Slot}] = true
	}
	last := p.LastSlot(j)
	for _, c := range p.Allowed(j) {
		for t := job.Arrival; t < last; t++ {
			alt := Alternative{Slot: t, Cluster: c}
			if job.Kind == workload.Rigid {
				if t+job.Slots() > last || (t == out.Planned.Segments[0].Slot && c == out.Planned.Segments[0].Cluster) {
					continue
				}
				run := make([]Segment, job.Slots())
				for i := range run {
					run[i] = Segment{Slot: t + i, Cluster: c, Workers: job.MinWorkers, Fraction: 1}
				}
				alt.Grams = grams(run)
				alt.Fits, alt.Why = blocked(c, t, t+job.Slots())
			} else {
				if used[[2]int{c, t}] {
					continue
				}
				segments, ok := exchanged(p, j, out.Planned.Segments, t, c)
				if !ok {
					continue
				}
				alt.Grams = grams(segments)
				alt.Fits, alt.Why = blocked(c, t, t+1)
			}
			out.Alternatives = append(out.Alternatives, alt)
		}
	}
	sort.SliceStable(out.Alternatives, func(a, b int) bool { return out.Alternatives[a].Grams < out.Alternatives[b].Grams })
	return out, true
}

// exchanged is a schedule with its dearest slot, per work, moved to slot t of cluster c.
func exchanged(p *Problem, j int, segments []Segment, t, c int) ([]Segment, bool) {
	dearest, most := -1, math.Inf(-1)
	for i, s := range segments {
		if !p.Jobs[j].Migratable && s.Cluster != c {
			return nil, false
		}
		if g := p.SlotGrams(j, s.Cluster, s.Slot, s.Workers) / p.Jobs[j].Throughput(s.Workers); g > most {
			dearest, most = i, g
		}
		if s.Slot == t {
			return nil, false // the slot is in use, on another cluster
		}
	}
	out := append([]Segment(nil), segments...)
	slot := out[dearest].Slot
	for i := range out {
		if out[i].Slot == slot {
			out[i].Slot, out[i].Cluster = t, c
		}
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].Slot < out[b].Slot })
	return out, true
}

func names(ids []string) string {
	const most = 4
	sort.Strings(ids)
	if len(ids) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
	}
	return strings.Join(ids, ", ")
}
