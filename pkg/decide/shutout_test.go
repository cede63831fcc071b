package decide_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// filled is load of others that takes all CPUs of the cluster until some hours from now.
func filled(s *decide.Snapshot, hours float64) {
	load := make([]float64, int(hours*4))
	for k := range load {
		load[k] = s.Clusters[0].Capacity["cpu"]
	}
	s.Clusters[0].LoadAt = map[string][]float64{"cpu": load}
}

// TestOthersHoldNobody: what others take, or are said to take, never holds a task for longer than it may wait.
func TestOthersHoldNobody(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*decide.Task, *decide.Snapshot)
		now    float64 // it may wait until 8 h
		busy   float64 // hours
		verb   decide.Verb
		code   decide.Code
	}{
		"room returns in time":        {now: 2, busy: 3, verb: decide.Wait, code: decide.CodeSharedCapacity},
		"room returns too late":       {now: 2, busy: 8.5, verb: decide.Release, code: decide.CodeNoRoom},
		"after the latest safe start": {now: 9, busy: 60, verb: decide.Release, code: decide.CodeNoRoom},
		"after the deadline":          {now: 20, busy: 60, verb: decide.Release, code: decide.CodeNoRoom},
		"after its least pause": {now: 9, busy: 60, verb: decide.Resume, code: decide.CodeNoRoom, change: func(x *decide.Task, _ *decide.Snapshot) {
			x.Kind, x.Paused, x.Cluster = workload.Interruptible, true, "c"
		}},
		"run times unknown, before its last start": {now: 2, busy: 60, verb: decide.Wait, code: decide.CodeDeadlineAtRisk, change: func(x *decide.Task, _ *decide.Snapshot) { x.LatestStart = at(8) }},
		"run times unknown, after its last start":  {now: 9, busy: 60, verb: decide.Release, code: decide.CodeNoRoom, change: func(x *decide.Task, _ *decide.Snapshot) { x.LatestStart = at(8) }},
		"soft, after its deadline": {now: 12, busy: 60, verb: decide.Release, code: decide.CodeNoRoom, change: func(_ *decide.Task, s *decide.Snapshot) {
			s.Objective = plan.Objective{Kind: plan.MOSP, Weights: [3]float64{0.5, 1, 1}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			x := task("a", at(2), at(10), 2*time.Hour)
			s := snapshot(t, at(c.now), x)
			if c.change != nil {
				c.change(&s.Tasks[0], &s)
			}
			filled(&s, c.busy)
			a, d := one(t, s)
			if a.Verb != c.verb || a.Reason.Code != c.code {
				t.Errorf("%v %v (%s); want %v %v", a.Verb, a.Reason.Code, a.Reason.Message(), c.verb, c.code)
			}
			if v := decide.Verify(s, d); len(v) > 0 {
				t.Errorf("Verify: %v", v)
			}
		})
	}
}

// TestNobodyIsHeldForLoad: with random load, a task that waits may still wait, or there is room for it that other tasks take.
func TestNobodyIsHeldForLoad(t *testing.T) {
	held := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0x6c6f6164))
		kinds := []workload.Kind{workload.Rigid, workload.Interruptible}
		now := at(6 * rng.Float64())
		var tasks []decide.Task
		for i := range 1 + rng.IntN(4) {
			x := task(fmt.Sprint(i), at(0), at(1+12*rng.Float64()), time.Duration(float64(3*time.Hour)*rng.Float64())+time.Minute)
			x.Kind, x.Request = kinds[rng.IntN(2)], map[string]float64{"cpu": 1 + float64(rng.IntN(10))}
			tasks = append(tasks, x)
		}
		s := snapshot(t, now, tasks...)
		load := make([]float64, rng.IntN(4*48))
		level := 0.0
		for k := range load {
			if rng.IntN(8) == 0 {
				level = float64(rng.IntN(12))
			}
			load[k] = level
		}
		s.Clusters[0].LoadAt = map[string][]float64{"cpu": load}
		_, d := one(t, s)
		if v := decide.Verify(s, d); len(v) > 0 {
			t.Errorf("seed %d: %v", seed, v)
		}
		for i, a := range d.Actions {
			x := &s.Tasks[i]
			if a.Verb != decide.Wait || now.Before(x.Deadline.Add(-x.Remaining-s.Margin)) {
				continue
			}
			held++
			if len(load) > 0 && load[0]+x.Request["cpu"] > 10 {
				t.Errorf("seed %d: task %s waits past its latest start, and others have its room: %s", seed, x.ID, a.Reason.Message())
			}
		}
	}
	if held == 0 {
		t.Error("no task waits for another: the test shows little")
	}
}
