package decide_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/workload"
)

// renewable is a task of 10 CPUs that waits by a standing plan of one run.
func renewable(id string, deadline time.Time, from, hours float64) decide.Task {
	t := task(id, at(0), deadline, time.Duration(hours*float64(time.Hour)))
	t.Request = map[string]float64{"cpu": 10}
	t.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(from), To: at(from + hours), Cluster: "c", Workers: 1}}, Reason: decide.Reason{Code: decide.CodeCleanerLater}}
	t.Renewable = true
	return t
}

// TestCompetingPlansAreRenewed: the clean hours are 10 to 16 of each day. A task that may wait until the next day holds
// those of today, and one that must end today comes: the first one gives them up. If its plan may not be renewed, or
// if it may not wait until tomorrow, it keeps them.
func TestCompetingPlansAreRenewed(t *testing.T) {
	for name, tc := range map[string]struct {
		deadline  float64
		renewable bool
		want      bool
	}{"it can wait": {40, true, true}, "its plan stands": {40, false, false}, "it cannot wait": {20, true, false}} {
		first := renewable("first", at(tc.deadline), 10, 6)
		first.Renewable = tc.renewable
		second := task("second", at(1), at(20), 4*time.Hour)
		second.Request = map[string]float64{"cpu": 10}
		s := snapshot(t, at(1), first, second)
		d := must(t, s, joint.Planner{})
		a, b := d.Actions[0].Phases[0].From, d.Actions[1].Phases[0].From
		if got := b.After(at(9.99)) && b.Before(at(12.01)); got != tc.want || d.Actions[0].Renewed != tc.want || d.Actions[0].Planned != tc.want {
			t.Errorf("%s: first at %v (renewed %v), second at %v", name, a, d.Actions[0].Renewed, b)
		}
		if v := decide.Verify(s, d); len(v) > 0 {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// TestNothingToRenew: the planner is asked for a task that comes alone, if it has room everywhere, or if nobody holds
// room that it could use.
func TestNothingToRenew(t *testing.T) {
	for name, change := range map[string]func(s *decide.Snapshot){
		"room for all":    func(s *decide.Snapshot) { s.Clusters[0].Capacity["cpu"] = 1000 },
		"another cluster": func(s *decide.Snapshot) { s.Tasks[1].Clusters = []string{"d"} },
		"after the deadline": func(s *decide.Snapshot) {
			s.Tasks[0].Standing.Phases[0].From, s.Tasks[0].Standing.Phases[0].To = at(30), at(36)
		},
		"Caspian's objective": func(s *decide.Snapshot) { s.Objective = plan.Objective{Kind: plan.MOSP, Weights: [3]float64{1, 1, 1}} },
	} {
		second := task("second", at(1), at(20), 4*time.Hour)
		second.Request = map[string]float64{"cpu": 10}
		s := snapshot(t, at(1), renewable("first", at(40), 10, 6), second)
		d := s.Clusters[0]
		d.Name = "d"
		s.Clusters = append(s.Clusters, d)
		s.Tasks[0].Clusters, s.Tasks[1].Clusters = []string{"c"}, []string{"c"}
		change(&s)
		p := &counting{Planner: cheapest.Planner{}}
		if d := must(t, s, p); len(p.jobs) > 1 || len(p.jobs) == 1 && p.jobs[0] != 1 || d.Actions[0].Renewed {
			t.Errorf("%s: the planner was asked for %v jobs", name, p.jobs)
		}
	}
}

// TestNothingToGain: a task that finds its cleanest place beside standing plans competes with nobody, however little
// room there is elsewhere: only the task that comes is planned.
func TestNothingToGain(t *testing.T) {
	tasks := []decide.Task{renewable("first", at(40), 2, 5)}
	second := task("second", at(1), at(20), 4*time.Hour)
	second.Request = map[string]float64{"cpu": 10}
	p := &counting{Planner: cheapest.Planner{}}
	must(t, snapshot(t, at(1), append(tasks, second)...), p)
	if len(p.jobs) != 2 || p.jobs[0] != 1 || p.jobs[1] != 1 {
		t.Errorf("the planner was asked for %v jobs, want the second task beside the first and without it", p.jobs)
	}
}

// TestRenewingLosesNothing: on crowded clusters, with planners good and bad, a decision that may renew plans emits
// no more in total than one that may not, and has each task in time that the other one has.
func TestRenewingLosesNothing(t *testing.T) {
	renewed := 0
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := snapshot(t, at(0))
		add := func(id string) {
			x := task(id, s.Now, s.Now.Add(time.Duration(4+rng.IntN(36))*time.Hour), time.Duration(30+rng.IntN(180))*time.Minute)
			x.Request = map[string]float64{"cpu": float64(1 + rng.IntN(6))}
			if rng.IntN(2) == 0 {
				x.Kind, x.RestartKWh = workload.Interruptible, 0.01*rng.Float64()
			}
			s.Tasks = append(s.Tasks, x)
		}
		for i := range 12 {
			add(fmt.Sprint("w", i))
		}
		for i, a := range must(t, s, cheapest.Planner{}).Actions {
			if len(a.Phases) > 0 && a.Verb == decide.Wait {
				s.Tasks[i].Standing = &decide.Standing{Phases: a.Phases, Reason: a.Reason}
			}
		}
		s.Now = at(0.3)
		for i := range 1 + rng.IntN(3) {
			add(fmt.Sprint("n", i))
		}
		for name, planner := range map[string]plan.Planner{"cheapest": cheapest.Planner{}, "joint": joint.Planner{Effort: 0.1}, "asap": asap.Planner{}} {
			without := must(t, s, planner)
			may := s
			may.Tasks = append([]decide.Task(nil), s.Tasks...)
			for i := range may.Tasks {
				may.Tasks[i].Renewable = may.Tasks[i].Standing != nil
			}
			with := must(t, may, planner)
			for _, v := range decide.Verify(may, with) {
				t.Errorf("%s seed %d: %v", name, seed, v)
			}
			before, after := 0.0, 0.0
			for i := range s.Tasks {
				x, y := &without.Actions[i], &with.Actions[i]
				if inTime(&s.Tasks[i], x.Phases) && !inTime(&s.Tasks[i], y.Phases) {
					t.Errorf("%s seed %d: task %s is late", name, seed, s.Tasks[i].ID)
				}
				before, after = before+gramsOf(&s, &s.Tasks[i], x.Phases), after+gramsOf(&s, &s.Tasks[i], y.Phases)
				if y.Renewed {
					renewed++
				}
			}
			if after > before*(1+1e-9) {
				t.Errorf("%s seed %d: %v g by renewed plans, %v by standing ones", name, seed, after, before)
			}
		}
	}
	if renewed == 0 {
		t.Error("no plan was renewed")
	}
}

func inTime(t *decide.Task, phases []decide.Phase) bool {
	return len(phases) > 0 && !phases[len(phases)-1].To.After(t.Deadline.Add(time.Millisecond))
}

// gramsOf is what a task that has not run emits on the first cluster, restarts included. The series is constant
// within each hour.
func gramsOf(s *decide.Snapshot, t *decide.Task, phases []decide.Phase) float64 {
	c := &s.Clusters[0]
	mean := func(from, to time.Time) float64 {
		v, _ := c.Carbon.Mean(from, to)
		return float64(v)
	}
	sum := 0.0
	for k, p := range phases {
		sum += float64(c.Power.Of(t.Request)) / 1000 * p.To.Sub(p.From).Hours() * mean(p.From, p.To)
		if k > 0 && p.From.After(phases[k-1].To) {
			sum += t.RestartKWh * mean(p.From, p.From.Add(s.Slot))
		}
	}
	return sum
}
