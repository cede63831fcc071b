package decide_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/workload"
)

// refusing leaves out every job, so that all plans come from the repair.
type refusing struct{}

func (refusing) Plan(_ context.Context, p *plan.Problem) (plan.Result, error) {
	var out []plan.Unplaced
	for j := range p.Jobs {
		out = append(out, plan.Unplaced{Job: j, Why: "refused"})
	}
	return plan.Finish(p, nil, out), nil
}

// overlap is the most of a resource that waiting tasks take at the same time by their plans.
func overlap(s *decide.Snapshot, d *decide.Decision, from time.Time) (most float64) {
	for i := range d.Actions {
		for _, p := range d.Actions[i].Phases {
			if p.From.Before(from) {
				continue
			}
			sum := 0.0
			for k := range d.Actions {
				for _, q := range d.Actions[k].Phases {
					if !q.From.After(p.From) && q.To.After(p.From) {
						sum += s.Tasks[k].Request["cpu"] * float64(max(1, q.Workers))
					}
				}
			}
			most = math.Max(most, sum)
		}
	}
	return most
}

// TestRepairsKeepTheReserve: tasks wait for places beside the reserve only, whoever plans them.
func TestRepairsKeepTheReserve(t *testing.T) {
	for name, planner := range map[string]plan.Planner{"planned": cheapest.Planner{Learned: true}, "repaired": refusing{}} {
		for _, reserve := range []float64{0, 0.25, 0.5, 0.75} {
			var tasks []decide.Task
			for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				tasks = append(tasks, task(id, at(0), at(40), time.Hour))
			}
			s := snapshot(t, at(0), tasks...)
			s.Clusters[0].Capacity, s.Reserve = map[string]float64{"cpu": 8}, reserve
			for i := range s.Tasks {
				s.Tasks[i].Request = map[string]float64{"cpu": 2}
			}
			d := must(t, s, planner)
			if got, most := overlap(&s, &d, at(0.01)), 8*(1-reserve); got > most {
				t.Errorf("%s, reserve %v: waiting tasks take %v CPUs at the same time; want at most %v", name, reserve, got, most)
			} else if reserve == 0 && got < 8 {
				t.Errorf("%s, no reserve: %v CPUs at most in the clean hours; want all 8", name, got)
			}
			for _, v := range decide.Verify(s, d) {
				t.Errorf("%s, reserve %v: %v", name, reserve, v)
			}
		}
	}
}

// TestDeadlinesOutrankTheReserve: what finds no place beside the reserve runs in it, as soon as possible.
func TestDeadlinesOutrankTheReserve(t *testing.T) {
	for name, planner := range map[string]plan.Planner{"planned": cheapest.Planner{Learned: true}, "repaired": refusing{}} {
		big := task("big", at(0), at(30), 2*time.Hour)
		s := snapshot(t, at(0), big)
		s.Tasks[0].Request = map[string]float64{"cpu": 7}
		s.Clusters[0].Capacity, s.Reserve = map[string]float64{"cpu": 8}, 0.5
		d := must(t, s, planner)
		a := d.Actions[0]
		if len(a.Phases) == 0 || a.Phases[len(a.Phases)-1].To.After(at(30)) {
			t.Errorf("%s: %s with %+v; want a plan in time", name, a.Verb, a.Phases)
		}
		if name == "repaired" && a.Verb != decide.Release {
			t.Errorf("%s: %s; want it released: it must not wait for room that work to come may take", name, a.Verb)
		}
	}
}

// TestReserveUsesUpNoSlack: with a reserve a task waits for cleaner power that it finds beside it, and for
// three quarters of its slack at most for a place that is no cleaner.
func TestReserveUsesUpNoSlack(t *testing.T) {
	for _, x := range []struct {
		name     string
		reserve  float64
		cpu      float64 // of the task; 4 of 10 CPUs run for five hours more
		now      time.Time
		deadline float64
		want     decide.Verb
		code     decide.Code
	}{
		{"cleaner, beside the reserve", 0.5, 3, at(0), 20, decide.Wait, decide.CodeCleanerLater},
		{"no cleaner, after a third of the slack", 0.5, 3, at(16), 33, decide.Wait, decide.CodeSharedCapacity},
		{"no cleaner, after most of the slack", 0.5, 3, at(16), 23, decide.Release, decide.CodeCleanNow},
		{"no cleaner, but no room now", 0.5, 8, at(16), 23, decide.Wait, decide.CodeSharedCapacity},
		{"no reserve", 0, 3, at(16), 23, decide.Release, decide.CodeCleanNow},
	} {
		waits, runs := task("waits", x.now, at(x.deadline), time.Hour), task("runs", x.now, x.now.Add(20*time.Hour), 5*time.Hour)
		waits.Request, runs.Request = map[string]float64{"cpu": x.cpu}, map[string]float64{"cpu": 4}
		runs.State, runs.Cluster = decide.Running, "c"
		s := snapshot(t, x.now, waits, runs)
		s.Reserve = x.reserve
		d := must(t, s, cheapest.Planner{Learned: true})
		if a := d.Actions[0]; a.Verb != x.want || a.Reason.Code != x.code {
			t.Errorf("%s: %s because %s with %+v; want %s because %s", x.name, a.Verb, a.Reason.Code, a.Phases, x.want, x.code)
		}
		for _, v := range decide.Verify(s, d) {
			t.Errorf("%s: %v", x.name, v)
		}
	}
}

// TestSpareSlackTakesTheRoomiestCluster: what starts in the reserve, as it would wait too long beside it, leaves as much of it as it can.
func TestSpareSlackTakesTheRoomiestCluster(t *testing.T) {
	for onLocal, want := range map[float64]string{2: "local", 4: "other"} {
		waits := task("waits", at(16), at(23), time.Hour)
		waits.Request = map[string]float64{"cpu": 3}
		s := snapshot(t, at(16), waits)
		s.Clusters[0].Name, s.Clusters[0].Capacity = "local", map[string]float64{"cpu": 8}
		other := s.Clusters[0]
		other.Name = "other"
		s.Clusters, s.Reserve = append(s.Clusters, other), 0.5
		for cluster, cpu := range map[string]float64{"local": onLocal, "other": 3} {
			runs := task("runs on "+cluster, at(16), at(36), 5*time.Hour)
			runs.State, runs.Cluster, runs.Request = decide.Running, cluster, map[string]float64{"cpu": cpu}
			s.Tasks = append(s.Tasks, runs)
		}
		if a := must(t, s, cheapest.Planner{Learned: true}).Actions[0]; a.Verb != decide.Release || a.Cluster != want {
			t.Errorf("%v CPUs used on local: %s on %q; want Release on %q", onLocal, a.Verb, a.Cluster, want)
		}
	}
}

// TestMostUrgentFirst: a task that must start now finds room although a running elastic task, due before
// it, would take all of the capacity to end sooner, and another one runs that can wait.
func TestMostUrgentFirst(t *testing.T) {
	wide, small, now := elastic("wide", at(8), at(16)), task("small", at(8), at(30), time.Hour), task("now", at(10), at(17), 7*time.Hour)
	wide.State, wide.Workers, wide.Remaining, wide.Request = decide.Running, 1, 3*time.Hour, map[string]float64{"cpu": 2}
	small.Kind, small.State, small.Request = workload.Interruptible, decide.Running, map[string]float64{"cpu": 1}
	now.Request = map[string]float64{"cpu": 3}
	wide.Cluster, wide.Standing = "c", &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(13), Cluster: "c", Workers: 1}}}
	small.Cluster, small.Standing = "c", &decide.Standing{Phases: []decide.Phase{{From: at(10), To: at(11), Cluster: "c", Workers: 1}}}
	s := snapshot(t, at(10), wide, small, now)
	s.Clusters[0].Capacity = map[string]float64{"cpu": 5.5}
	d := must(t, s, cheapest.Planner{})
	for i, a := range d.Actions {
		if len(a.Phases) == 0 || a.Phases[len(a.Phases)-1].To.After(s.Tasks[i].Deadline.Add(time.Second)) {
			t.Errorf("%s: %s because %s with %+v; want it in time", a.Task, a.Verb, a.Reason.Code, a.Phases)
		}
	}
}

// TestReasonNamesTheReserve: who waits for the sake of others learns what is kept free.
func TestReasonNamesTheReserve(t *testing.T) {
	r := decide.Reason{Code: decide.CodeSharedCapacity, Reserve: 0.3}
	if m := r.Message(); !strings.Contains(m, "30 % of it is kept free for new work") {
		t.Errorf("message %q", m)
	}
	if m := (decide.Reason{Code: decide.CodeSharedCapacity}).Message(); strings.Contains(m, "kept free") {
		t.Errorf("message %q; want nothing of a reserve that there is not", m)
	}
}

func TestReserveErrors(t *testing.T) {
	for _, reserve := range []float64{-0.1, 1, math.NaN(), math.Inf(1)} {
		s := snapshot(t, at(0), task("a", at(0), at(9), time.Hour))
		s.Reserve = reserve
		if _, err := decide.Decide(context.Background(), s, cheapest.Planner{}); !errors.Is(err, decide.ErrSnapshot) || !strings.Contains(err.Error(), "reserve: ") {
			t.Errorf("reserve %v: error %v; want one that names it", reserve, err)
		}
	}
}

// TestSlackIsHowLongATaskMayWait: how long a task may wait.
func TestSlackIsHowLongATaskMayWait(t *testing.T) {
	s := snapshot(t, at(1))
	s.Margin = 15 * time.Minute
	for name, tc := range map[string]struct {
		task decide.Task
		want time.Duration
	}{
		"can wait":    {task("a", at(0), at(4), time.Hour), 105 * time.Minute},
		"cannot":      {task("a", at(0), at(2), time.Hour), 0},
		"no deadline": {decide.Task{ID: "a", Kind: workload.Rigid, Remaining: time.Hour}, 0},
		"held out":    {decide.Task{ID: "a", HeldOut: true, Deadline: at(9)}, 0},
		"scales":      {elastic("a", at(0), at(4)), 165*time.Minute - 4*time.Hour*10/34},
	} {
		if got := s.Slacks()(&tc.task); (got - tc.want).Abs() > time.Millisecond {
			t.Errorf("%s: %v; want %v", name, got, tc.want)
		}
	}
}
