package plan

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
// Complexity: O(steps).
func Hull(steps []Step) []Step {
	var out []Step
	for _, s := range steps {
		for len(out) > 0 && better(s, out[len(out)-1]) {
			last := out[len(out)-1]
			s = Step{From: last.From, To: s.To, Work: last.Work + s.Work, Watts: last.Watts + s.Watts}
			out = out[:len(out)-1]
		}
		if s.Work > 0 || len(out) == 0 {
			out = append(out, s)
		}
	}
	return out
}

// better reports whether a does more work per watt than b.
func better(a, b Step) bool { return a.Work*b.Watts > b.Work*a.Watts }

// Concave reports whether work per watt never rises along steps.
func Concave(steps []Step) bool {
	for i := 1; i < len(steps); i++ {
		if better(steps[i], steps[i-1]) {
			return false
		}
	}
	return true
}
