package plan

import "math"

// Step is an increase of a job's scale within a slot: from From workers (0: not
// running) to To.
type Step struct {
	From, To int
	// Work is the work per slot that it adds, Watts the power.
	Work, Watts float64
}

// Steps returns the increments of job j on cluster c along its capacity curve:
// the jump to MinWorkers, then one worker at a time.
func (p *Problem) Steps(j, c int) []Step {
	job := &p.Jobs[j]
	steps := make([]Step, len(job.Curve))
	from, watts := 0, 0.0
	for i, work := range job.Curve {
		to := job.MinWorkers + i
		w := p.Watts(j, c, to)
		steps[i] = Step{From: from, To: to, Work: work, Watts: w - watts}
		from, watts = to, w
	}
	return steps
}

// Hull merges steps so that work per watt never rises from one to the next: the
// lower convex hull of power over work, whose corners are the scales worth
// using. Between two corners a slot is shared in time.
//
// A step that adds no work is no corner: its power belongs to the next step that adds
// some. Steps after the last one that adds work are dropped, so the hull is empty where
// none does. Total power may fall along steps but is never below 0.
//
// Complexity: O(steps).
func Hull(steps []Step) []Step {
	out := make([]Step, 0, len(steps))
	var idle Step // the steps since the last corner, which add no work
	waiting := false
	for _, s := range steps {
		if waiting {
			s, waiting = join(idle, s), false
		}
		for len(out) > 0 && better(s, out[len(out)-1]) {
			s = join(out[len(out)-1], s)
			out = out[:len(out)-1]
		}
		if s.Work <= 0 {
			idle, waiting = s, true
			continue
		}
		out = append(out, s)
	}
	return out
}

// join makes one step of two that follow each other.
func join(a, b Step) Step {
	return Step{From: a.From, To: b.To, Work: a.Work + b.Work, Watts: a.Watts + b.Watts}
}

// better reports whether a does more work per watt than b.
func better(a, b Step) bool { return a.Work*b.Watts > b.Work*a.Watts }

// Concave reports whether work per watt never rises along steps, so that each is worth
// taking before the next. Differences below rounding count as none.
func Concave(steps []Step) bool {
	for i := 1; i < len(steps); i++ {
		a, b := steps[i], steps[i-1]
		if left, right := a.Work*b.Watts, b.Work*a.Watts; left > right && left-right > TieShare*math.Abs(left) {
			return false
		}
	}
	return true
}
