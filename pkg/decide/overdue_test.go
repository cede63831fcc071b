package decide_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/workload"
)

// usedUp is an elastic task of 1 to 4 workers, each of some CPUs, whose bounded delay is used up now.
func usedUp(id string, cpu float64, remaining time.Duration) decide.Task {
	x := elastic(id, at(0), at(1).Add(remaining))
	x.Request, x.Remaining, x.LatestStart = map[string]float64{"cpu": cpu}, remaining, at(1)
	return x
}

// TestUsedUpDelaysShareTheRoom: of three tasks whose delay is used up, two find room. The third one is to start when
// one of them is done.
func TestUsedUpDelaysShareTheRoom(t *testing.T) {
	for name, p := range map[string]plan.Planner{"asap": asap.Planner{}, "cheapest": cheapest.Planner{}} {
		s := snapshot(t, at(1), usedUp("a", 2, 4*time.Hour), usedUp("b", 2, 2*time.Hour), usedUp("c", 2, 3*time.Hour))
		s.Clusters[0].Capacity = map[string]float64{"cpu": 4}
		d := must(t, s, p)
		for _, v := range decide.Verify(s, d) {
			t.Errorf("%s: %v", name, v)
		}
		run := 0
		for _, a := range d.Actions {
			switch {
			case a.Verb == decide.Release:
				run++
			case len(a.Phases) == 0 || a.Phases[0].From.After(at(5)) || !a.Reason.LatestStart.After(s.Now):
				t.Errorf("%s: %s: %s (%s) with %+v, latest start %v", name, a.Task, a.Verb, a.Reason.Code, a.Phases, a.Reason.LatestStart)
			}
		}
		if run != 2 {
			t.Errorf("%s: %d tasks run; want 2", name, run)
		}
	}
}

// TestUsedUpDelayTakesTheRoomOfAPlan: a task whose delay is used up runs in the room of a task that can wait, but not
// in that of one that would be late, nor in that of what runs and cannot be paused.
func TestUsedUpDelayTakesTheRoomOfAPlan(t *testing.T) {
	plan := func(x decide.Task) decide.Task {
		x.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(1), To: at(3), Cluster: "c", Workers: 1}}, Reason: decide.Reason{Code: decide.CodeCleanNow}}
		return x
	}
	canWait, cannot, runs := plan(task("other", at(0), at(12), 2*time.Hour)), plan(task("other", at(0), at(3), 2*time.Hour)), task("other", at(0), at(12), 2*time.Hour)
	runs.State, runs.Cluster = decide.Running, "c"
	for name, x := range map[string]struct {
		other decide.Task
		first string
	}{
		"the other can wait":    {canWait, "used up"},
		"the other cannot":      {cannot, "other"},
		"the other runs":        {runs, "other"},
		"the other has no plan": {task("other", at(0), at(12), 2*time.Hour), "used up"},
	} {
		s := snapshot(t, at(1), usedUp("used up", 2, 2*time.Hour), x.other)
		s.Clusters[0].Capacity, s.Margin = map[string]float64{"cpu": 3}, 0
		d := must(t, s, asap.Planner{})
		for _, v := range decide.Verify(s, d) {
			t.Errorf("%s: %v", name, v)
		}
		for _, a := range d.Actions {
			runs := a.Verb == decide.Release || a.Verb == decide.Continue
			if len(a.Phases) == 0 || runs != (a.Task == x.first) {
				t.Errorf("%s: %s: %s (%s) with %+v; want that %s runs", name, a.Task, a.Verb, a.Reason.Code, a.Phases, x.first)
			}
		}
	}
}

// TestUsedUpDelayGoesOnWhereItRuns: a running task whose delay is used up goes on where it is.
func TestUsedUpDelayGoesOnWhereItRuns(t *testing.T) {
	x := usedUp("used up", 2, 4*time.Hour)
	x.State, x.Cluster, x.Workers, x.Migratable, x.Changed, x.AtRisk = decide.Running, "c1", 1, true, at(0), time.Hour
	s := twoPlaces(t, 4, 4, x, task("other", at(0), at(3), 2*time.Hour))
	s.Now = at(1)
	s.Tasks[1].Kind = workload.Interruptible
	d := must(t, s, cheapest.Planner{})
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	if a := d.Actions[0]; a.Verb == decide.Move || a.Verb == decide.Pause {
		t.Errorf("%s (%s) with %+v", a.Verb, a.Reason.Code, a.Phases)
	}
}

// TestUsedUpDelayIsMadeUpFor: a task whose delay is used up has no room for half an hour. With two workers it is in
// time all the same. Its reason states the start that is planned.
func TestUsedUpDelayIsMadeUpFor(t *testing.T) {
	runs := task("runs", at(0), at(12), 30*time.Minute)
	runs.State, runs.Cluster, runs.Request = decide.Running, "c", map[string]float64{"cpu": 3}
	s := snapshot(t, at(1), usedUp("used up", 2, 90*time.Minute), runs)
	s.Clusters[0].Capacity, s.Margin = map[string]float64{"cpu": 4}, 0
	d := must(t, s, asap.Planner{})
	for _, v := range decide.Verify(s, d) {
		t.Error(v)
	}
	a := d.Actions[0]
	if a.Verb != decide.Wait || a.Reason.Code != decide.CodeDeadlineAtRisk || len(a.Phases) != 1 || a.Phases[0].Workers < 2 || a.Phases[0].To.After(at(2.5)) {
		t.Fatalf("%s (%s) with %+v; want it to wait and to run with two workers or more", a.Verb, a.Reason.Code, a.Phases)
	}
	if from := a.Phases[0].From; !from.Equal(at(1.5)) || !a.Reason.PlannedStart.Equal(from) || !a.Reason.LatestStart.Equal(from) {
		t.Errorf("starts at %v, stated %v, at the latest %v; want 1:30", from, a.Reason.PlannedStart, a.Reason.LatestStart)
	}
}

// TestRandomUsedUp: whatever runs and waits beside tasks whose delay is used up, no decision breaks an invariant.
func TestRandomUsedUp(t *testing.T) {
	used := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 9))
		s := twoPlaces(t, float64(2+r.IntN(6)), float64(2+r.IntN(6)))
		s.Now, s.Margin = at(1), time.Duration(r.IntN(2))*5*time.Minute
		for n := range 2 + r.IntN(5) {
			x := task(string(rune('a'+n)), at(0), at(1+5*r.Float64()), time.Duration(10+r.IntN(180))*time.Minute)
			x.Request = map[string]float64{"cpu": float64(1 + r.IntN(3))}
			switch r.IntN(4) {
			case 0:
				x.Kind = workload.Interruptible
			case 1, 2:
				x = usedUp(x.ID, float64(1+r.IntN(2)), x.Remaining)
				x.LatestStart = at(1 + r.Float64()*r.Float64()/2)
				x.Deadline = x.LatestStart.Add(x.Remaining)
				used++
			}
			s.Tasks = append(s.Tasks, x)
		}
		for k, now := range []float64{1, 1.1, 1.4, 2} { // plans are followed, or made anew
			s.Now = at(now)
			d := must(t, s, []plan.Planner{asap.Planner{}, cheapest.Planner{}}[seed%2])
			for _, v := range decide.Verify(s, d) {
				t.Errorf("seed %d at %v: %v", seed, now, v)
			}
			var tasks []decide.Task
			for i, x := range s.Tasks {
				a := &d.Actions[i]
				x.Replan, x.Standing = r.IntN(3) == 0, nil
				if len(a.Phases) > 0 {
					x.Standing = &decide.Standing{Phases: a.Phases, Reason: a.Reason}
				}
				if runs := a.Verb != decide.Wait && a.Verb != decide.Pause; runs {
					if len(a.Phases) == 0 || a.Phases[0].From.After(s.Now) {
						continue // it waits in the queue of a cluster
					}
					done := at([]float64{1.1, 1.4, 2, 3}[k]).Sub(s.Now)
					if x.Scaling != nil {
						done = time.Duration(x.Scaling.Rate(a.Workers) * float64(done))
					}
					if x.Remaining -= done; x.Remaining <= 0 {
						continue
					}
					x.State, x.Paused, x.Cluster, x.Workers, x.Changed = decide.Running, false, a.Phases[0].Cluster, a.Workers, s.Now
					if !x.LatestStart.IsZero() {
						x.LatestStart = x.LatestStart.Add(done)
					}
				} else if x.State == decide.Running {
					x.State, x.Paused, x.Changed = decide.Waiting, true, s.Now
				}
				tasks = append(tasks, x)
			}
			s.Tasks = tasks
		}
	}
	if used < 3000 {
		t.Errorf("%d tasks had a used up delay: too few to show anything", used)
	}
}
