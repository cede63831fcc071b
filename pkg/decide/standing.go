package decide

import (
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// Phase is a time at one cluster and scale, in grid time, half-open.
type Phase struct {
	From, To time.Time
	Cluster  string
	Workers  int
	// Intensity is the mean over the phase, in gCO2eq/kWh, as the plan expects it.
	Intensity units.CarbonIntensity
}

// Standing is a plan made earlier that goes on until something changes: Decide follows it
// instead of planning the task anew, and plans the others around it.
type Standing struct {
	// Phases in order of time, at least one.
	Phases []Phase
	// Reason of the plan.
	Reason Reason
}

// At returns what the plan does at a time: the phase that runs, or nil between phases, and
// the next change. done says that the plan has nothing left.
func (st *Standing) At(now time.Time) (phase *Phase, next time.Time, done bool) {
	for i := range st.Phases {
		p := &st.Phases[i]
		switch {
		case now.Before(p.From):
			return nil, p.From, false
		case now.Before(p.To):
			return p, p.To, false
		}
	}
	return nil, time.Time{}, true
}

// Phases turns the segments of an action into phases: slots that follow one another at the
// same cluster and scale become one. A slot to come that is used in part is used at its
// end where the slot after it is used and the one before is not: that saves a restart. It is
// nil where the action has no plan.
func (s Snapshot) Phases(g timegrid.Grid, a *Action) []Phase {
	var out []Phase
	sum := 0.0         // of the intensities of the last phase, by time
	var last time.Time // end of the last segment
	for i, seg := range a.Segments {
		from := g.Time(seg.Slot)
		to := from.Add(time.Duration(seg.Fraction * float64(g.Slot)))
		if i > 0 && a.Segments[i-1].Slot == seg.Slot { // the rest of a slot at another scale
			from, to = last, to.Add(last.Sub(from))
		}
		before := i > 0 && a.Segments[i-1].Slot >= seg.Slot-1
		after := i+1 < len(a.Segments) && a.Segments[i+1].Slot == seg.Slot+1
		if after && !before && from.After(s.Now) {
			from, to = from.Add(g.Time(seg.Slot+1).Sub(to)), g.Time(seg.Slot+1)
		}
		last = to
		if !to.After(from) {
			continue
		}
		c := &s.Clusters[seg.Cluster]
		mean := 0.0
		if c.Carbon != nil {
			v, _ := c.Carbon.Mean(from, to)
			mean = float64(v)
		}
		weight := to.Sub(from).Hours()
		if n := len(out); n > 0 && out[n-1].To.Equal(from) && out[n-1].Workers == seg.Workers && out[n-1].Cluster == c.Name {
			sum += mean * weight
			out[n-1].To = to
			out[n-1].Intensity = units.CarbonIntensity(sum / to.Sub(out[n-1].From).Hours())
			continue
		}
		sum = mean * weight
		out = append(out, Phase{From: from, To: to, Cluster: c.Name, Workers: seg.Workers, Intensity: units.CarbonIntensity(mean)})
	}
	return out
}

// follow turns the standing plan of a task into an action; false where it has nothing left
// or would hold the task beyond its latest start.
func (s Snapshot) follow(d *Decision, i int) bool {
	t := &s.Tasks[i]
	phase, next, _ := t.Standing.At(s.Now)
	if !s.stands(t) {
		return false
	}
	r := t.Standing.Reason
	r.LatestStart = t.latestStart(s.Margin)
	a := &d.Actions[i]
	*a = Action{Task: t.ID, Phases: t.Standing.Phases}
	if next.Before(d.Wake) {
		d.Wake = next
	}
	if phase == nil {
		r.PlannedStart = next
		if r.Code != CodeSharedCapacity || t.State == Running || t.Paused {
			r.Code = CodeCleanerLater
		}
		if r.LatestStart.Before(d.Wake) {
			d.Wake = r.LatestStart
		}
		a.set(t, false, r)
		return true
	}
	r.Code, r.PlannedStart = CodeCleanNow, s.Now
	if v, ok := s.intensity(phase.Cluster); ok {
		r.IntensityNow = v
	}
	a.Cluster = phase.Cluster
	if t.Scaling != nil {
		a.Workers = phase.Workers
	}
	a.set(t, true, r)
	return true
}

// stands reports whether the standing plan of a task can be followed: it has something left,
// does not hold the task beyond its latest start, and does not pause it where that would lose
// work, which is judged anew.
func (s Snapshot) stands(t *Task) bool {
	if t.Standing == nil {
		return false
	}
	phase, _, done := t.Standing.At(s.Now)
	if done || phase != nil {
		return !done
	}
	loses := t.State == Running && t.AtRisk > 0
	return !loses && (s.soft() || s.Now.Before(t.latestStart(s.Margin)))
}

func (s Snapshot) intensity(cluster string) (units.CarbonIntensity, bool) {
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if c.Name == cluster && c.Carbon != nil {
			x, ok := c.Carbon.At(s.Now)
			return x.Value, ok
		}
	}
	return 0, false
}

// addLoad counts a standing plan as load.
func (st *Standing) addLoad(g timegrid.Grid, cl plan.Cluster, t *Task) {
	for i := range st.Phases {
		p := &st.Phases[i]
		if p.Cluster != cl.Name {
			continue
		}
		workers := 1.0
		if t.Scaling != nil {
			workers = float64(p.Workers)
		}
		for slot := max(0, g.SlotOf(p.From)); slot < g.N && g.Time(slot).Before(p.To); slot++ {
			for r, q := range t.Request {
				if cl.Load[r] == nil {
					cl.Load[r] = make([]float64, g.N)
				}
				cl.Load[r][slot] += q * workers
			}
		}
	}
}

// settle withholds changes that come too soon: while one is in flight, within MinRun of a
// start or change of scale, within MinPause of a pause; and moves with less than a slot of work
// left, which is no more than an estimate may be off. Deadlines outrank all of them.
func (s Snapshot) settle(d *Decision) {
	for i := range d.Actions {
		t, a := &s.Tasks[i], &d.Actions[i]
		switch a.Reason.Code {
		case CodeLatestStart, CodeNoSlack, CodeDeadlineAtRisk, CodeNoCarbonData:
			continue
		}
		var until time.Time
		if a.Verb == Move && !s.movePays(t, a.Cluster) {
			a.Verb, a.Workers, a.Cluster, a.Reason.Code = Continue, t.Workers, t.Cluster, CodeMoveDoesNotPay
			continue
		}
		switch a.Verb {
		case Pause, Scale, Move:
			until = t.Changed.Add(s.MinRun)
		case Resume:
			until = t.Changed.Add(s.MinPause)
			if latest := t.latestStart(s.Margin); latest.Before(until) {
				until = latest
			}
		default:
			continue
		}
		late := a.Verb == Move && t.Remaining < s.Slot
		if !t.Changing && !late && (t.Changed.IsZero() || !s.Now.Before(until)) {
			continue
		}
		if until.After(s.Now) && until.Before(d.Wake) {
			d.Wake = until
		}
		a.Reason.Code = CodeTooSoon
		if t.State == Running {
			a.Verb, a.Workers, a.Cluster = Continue, t.Workers, t.Cluster
		} else {
			a.Verb, a.Workers = Wait, 0
		}
	}
}

// movePays compares going on here with going on at another cluster, at the same scale and without a
// pause: what it takes there includes the work that is done again, the restart and the transfer, at
// the mean intensity of both places. Where an intensity is not known the plan is followed.
//
// Source: James and Schien, ICT4S 2019, Section IV (the inequality of a migration).
func (s Snapshot) movePays(t *Task, to string) bool {
	a, b := s.Place(t.Cluster), s.Place(to)
	grams := func(c *Cluster, work time.Duration) (g, mean float64, known bool) {
		if c.Carbon == nil {
			return 0, 0, false
		}
		workers, rate := 1, 1.0
		if t.Scaling != nil {
			workers = max(t.Workers, t.Scaling.MinWorkers)
			rate = t.Scaling.Rate(workers)
		}
		work = time.Duration(float64(work) / rate)
		intensity, covered := c.Carbon.Mean(s.Now, s.Now.Add(work))
		if covered == 0 {
			return 0, 0, false
		}
		watts := float64(c.Power.Of(t.Request)) * float64(workers)
		return watts / 1000 * work.Hours() * float64(intensity), float64(intensity), true
	}
	stay, here, known := grams(a, t.Remaining-t.AtRisk)
	leave, there, knownThere := grams(b, t.Remaining)
	if !known || !knownThere {
		return true
	}
	return stay > leave+t.RestartKWh*b.Power.PUE*there+t.TransferKWh*(here+there)/2
}
