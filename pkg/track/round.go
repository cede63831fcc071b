package track

import (
	"math"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/workload"
)

// Round is one decision on the tasks of a snapshot. Records, Seen and, after Prepare, Triggers are
// in the order of Snapshot.Tasks. A Round may be used again: Prepare keeps its buffers.
type Round struct {
	Snapshot *decide.Snapshot
	Rules    Rules
	Records  []*Record
	Seen     []Observation
	// Reserve learns the reserve from what comes, and Prepare sets Snapshot.Reserve to it; nil keeps
	// none. It is set for planners whose reserve is learned (plan.KeptReserve).
	Reserve *reserve.Learner
	// Triggers say why each task is planned anew; without a reason where its plan stands.
	Triggers []Trigger

	// newcomers says that a task was submitted or asks for something else.
	newcomers bool
}

// Prepare sets Snapshot.Reserve, if it is learned, Task.Standing of each task that has a plan, and Task.Replan and a trigger for each that
// is to be planned anew. A task whose workers were denied scales no further than those that run. The plan of a task that asks for something else than before is dropped. A
// task that awaits the plan of the next slot (decide.Snapshot.Awaits) has no trigger.
//
// When a task is submitted or asks for something else, the plans of the tasks that wait stand, but may be
// renewed (Task.Renewable): the decision says whether they compete, and Keep why they were made anew.
//
// Complexity: O(tasks), and O(phases) for those that have run since the last slot.
func (r *Round) Prepare() {
	s := r.Snapshot
	began := slotOf(s)
	issued := "a forecast was issued: " + r.Rules.Forecast
	if r.Reserve != nil {
		r.learn()
	}
	r.newcomers = false
	r.Triggers = r.Triggers[:0]
	for i := range s.Tasks {
		t, rec := &s.Tasks[i], r.Records[i]
		trigger := rec.check(t, &r.Seen[i], s, &r.Rules, began, issued)
		if trigger.Reason == Submitted && s.Awaits(t) {
			trigger = Trigger{}
		}
		rec.known = true
		t.Standing, t.Replan = rec.standing, trigger.Reason != ""
		if trigger.Reason == ScaleUpDenied && rec.most > 0 {
			t.Scaling = t.Scaling.UpTo(rec.most)
		}
		if trigger.Reason == ObjectChanged {
			t.Standing = nil
		}
		r.Triggers = append(r.Triggers, trigger)
		r.newcomers = r.newcomers || trigger.Reason == Submitted || trigger.Reason == ObjectChanged
	}
	for i := range s.Tasks {
		r.renewable(&s.Tasks[i])
	}
}

func (r *Round) renewable(t *decide.Task) {
	t.Renewable = r.newcomers && t.State == decide.Waiting && t.Standing != nil && !t.Replan
}

// Stand keeps the plan of task i that would be made anew only because of a new forecast: from now on it rests on that. It does nothing to a task with another
// trigger or none. It is called between Prepare and the decision.
func (r *Round) Stand(i int) {
	if r.Triggers[i].Reason != NewForecast {
		return
	}
	t := &r.Snapshot.Tasks[i]
	r.Triggers[i], t.Replan, r.Records[i].basis.forecast = Trigger{}, false, r.Rules.Forecast
	r.renewable(t)
}

// Renew plans task i anew for a reason that only the caller knows. It does nothing to a task that is planned
// anew already. It is called between Prepare and the decision.
func (r *Round) Renew(i int, t Trigger) {
	if r.Triggers[i].Reason == "" {
		r.Triggers[i], r.Snapshot.Tasks[i].Replan, r.Snapshot.Tasks[i].Renewable = t, true, false
	}
}

// Keep takes over the plans that the decision made, and calls made, if set, for each with the
// reason. A plan that does what stands already is not a new one. Keep returns when to decide again at the latest: at Decision.Wake, or when a plan that is kept next
// starts, stops or changes something, whichever is first.
//
// Complexity: O(tasks + phases).
func (r *Round) Keep(d *decide.Decision, made func(i int, t Trigger)) (wake time.Time) {
	s := r.Snapshot
	wake = d.Wake
	for i := range s.Tasks {
		t, a, rec, trigger := &s.Tasks[i], &d.Actions[i], r.Records[i], r.Triggers[i]
		if trigger.Reason == "" && a.Planned && !rec.follows(t, a, s.Now) {
			trigger = Trigger{NoRoom, "another workload has no place in time beside this plan"}
			if a.Renewed {
				trigger = Trigger{Competes, "another workload competes for the room of the plan, and new plans for all of them together emit less"}
			}
		}
		if trigger.Reason != "" {
			rec.keep(standing(s, t, a), t, &r.Seen[i], r.Rules, s.Now)
			if made != nil {
				made(i, trigger)
			}
		}
		if next := rec.Next(s.Now); !next.IsZero() && next.Before(wake) {
			wake = next
		}
	}
	return wake
}

// rounding is how much the times of two plans may differ that are taken for the same.
const rounding = time.Second

// follows reports whether an action does what the plan says that stands: a running rigid task always does.
func (r *Record) follows(t *decide.Task, a *decide.Action, now time.Time) bool {
	if r.standing == nil {
		return false
	}
	if t.State == decide.Running && t.Kind == workload.Rigid {
		return true
	}
	queue := decide.CodeClusterQueue
	if t.State == decide.Waiting && (a.Reason.Code == queue) != (r.standing.Reason.Code == queue) {
		return false // it is released at another time
	}
	old, next := ahead(r.standing.Phases, now), ahead(a.Keeps(), now)
	if len(old) != len(next) {
		return false
	}
	for i := range old {
		p, q := &old[i], &next[i]
		begun := i == 0 && !p.From.After(now) && !q.From.After(now)
		if p.Workers != q.Workers || p.Cluster != q.Cluster || !begun && p.From.Sub(q.From).Abs() > rounding || p.To.Sub(q.To).Abs() > rounding {
			return false
		}
	}
	return true
}

// ahead are the phases that have not ended.
func ahead(phases []decide.Phase, now time.Time) []decide.Phase {
	for len(phases) > 0 && !phases[0].To.After(now) {
		phases = phases[1:]
	}
	return phases
}

// standing is the plan of an action, to be followed from now on; nil if it has none. What a
// released task is expected to do that waits in the queue of its cluster is no plan: the queue may
// start it at any time.
func standing(s *decide.Snapshot, t *decide.Task, a *decide.Action) *decide.Standing {
	if a.Plan != nil {
		return a.Stands(t)
	}
	phases := a.Phases
	queued := len(phases) > 0 && phases[0].From.After(s.Now) && a.Verb != decide.Wait && a.Verb != decide.Pause
	if len(phases) == 0 || queued {
		phases = atOnce(s, t, a)
	}
	if len(phases) == 0 {
		return nil
	}
	return &decide.Standing{Phases: phases, Reason: a.Reason}
}

// atOnce is the plan of a task that runs without one having been made: on at its scale until
// it should be done.
func atOnce(s *decide.Snapshot, t *decide.Task, a *decide.Action) []decide.Phase {
	if a.Verb == decide.Wait || a.Verb == decide.Pause {
		return nil
	}
	left := t.Remaining
	if t.Scaling != nil {
		left = time.Duration(float64(left) / math.Max(t.Scaling.Rate(a.Workers), 1e-9))
	}
	at := a.Cluster
	if at == "" {
		at = t.Cluster
	}
	c := s.Place(at)
	ph := decide.Phase{From: s.Now, To: s.Now.Add(max(left, s.Slot)), Cluster: c.Name, Workers: max(1, a.Workers)}
	if c.Carbon != nil {
		ph.Intensity, _ = c.Carbon.Mean(ph.From, ph.To)
	}
	return []decide.Phase{ph}
}
