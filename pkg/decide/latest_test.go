package decide_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/workload"
)

// TestLatestStartKnowsTheClusters: a task of 2 CPUs a worker must start in time for what the clusters have, without
// other tasks. A slot has 15 minutes.
func TestLatestStartKnowsTheClusters(t *testing.T) {
	fourTo := func(free, slots int) []float64 { // 4 workers fit until hour 3, from then on fewer for some slots
		out := []float64{}
		for range 12 {
			out = append(out, 8)
		}
		for range slots {
			out = append(out, float64(free))
		}
		return append(out, 8)
	}
	rigid, pauses, scales := task("a", at(0), at(6), 2*time.Hour), task("a", at(0), at(6), 2*time.Hour), elastic("a", at(0), at(6))
	pauses.Kind, pauses.Checkpoint = workload.Interruptible, 30*time.Minute
	for name, x := range map[string]struct {
		task decide.Task
		cpu  float64
		at   []float64
		want time.Duration
	}{
		"all workers fit":                     {scales, 8, nil, 6*time.Hour - 4*time.Hour*10/34},
		"two workers fit":                     {scales, 5, nil, 6*time.Hour - 4*time.Hour*10/19},
		"never fits":                          {scales, 1, nil, 2 * time.Hour},
		"one worker from hour 3 on":           {scales, 8, fourTo(2, 12), 3*time.Hour - time.Hour*10/34},
		"none from hour 3 on":                 {scales, 8, fourTo(0, 12), 3*time.Hour - 4*time.Hour*10/34},
		"none from hour 3 to 5":               {scales, 8, fourTo(0, 8), 3*time.Hour - (4*time.Hour-34*time.Hour/10)*10/34},
		"rigid":                               {rigid, 8, nil, 4 * time.Hour},
		"rigid, no room from hour 3 on":       {rigid, 8, fourTo(0, 12), time.Hour},
		"rigid, no room from hour 3 to 5":     {rigid, 8, fourTo(0, 8), time.Hour},
		"rigid, no room from hour 3 to 4":     {rigid, 8, fourTo(0, 4), 4 * time.Hour},
		"can pause, no room from hour 3 to 5": {pauses, 8, fourTo(0, 8), 90 * time.Minute}, // half an hour may be lost
	} {
		s := snapshot(t, at(0))
		s.Margin, s.Clusters[0].Capacity = 0, map[string]float64{"cpu": x.cpu}
		if x.at != nil {
			s.Clusters[0].CapacityAt = map[string][]float64{"cpu": x.at}
		}
		if got := s.Slacks()(&x.task); (got - x.want).Abs() > time.Millisecond {
			t.Errorf("%s: may start after %v; want %v", name, got, x.want)
		}
	}
}

// TestStatedLatestStartIsSafe: a task that is held and then runs from its stated latest start on, with nothing else
// on the clusters, ends by its deadline.
func TestStatedLatestStartIsSafe(t *testing.T) {
	held := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 8))
		x := task("a", at(0), at(4+8*r.Float64()), time.Duration(1+r.IntN(200))*time.Minute)
		x.Request = map[string]float64{"cpu": float64(1 + r.IntN(3))}
		switch r.IntN(3) {
		case 0:
			x.Kind, x.Checkpoint = workload.Interruptible, 30*time.Minute
		case 1:
			x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 5, Curve: []float64{1, 0.9, 0.8, 0.3, 0.9}}
		}
		s := snapshot(t, at(0), x)
		s.Slot, s.Margin = time.Hour, time.Minute
		other := s.Clusters[0]
		other.Name = "d"
		s.Clusters = append(s.Clusters, other)
		for c := range s.Clusters {
			s.Clusters[c].Capacity = map[string]float64{"cpu": float64(r.IntN(9))}
			for range r.IntN(12) {
				if s.Clusters[c].CapacityAt == nil {
					s.Clusters[c].CapacityAt = map[string][]float64{}
				}
				s.Clusters[c].CapacityAt["cpu"] = append(s.Clusters[c].CapacityAt["cpu"], float64(r.IntN(9)))
			}
		}
		d, err := decide.Decide(context.Background(), s, cheapest.Planner{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range decide.Verify(s, d) {
			t.Errorf("seed %d: %v", seed, v)
		}
		a := d.Actions[0]
		if a.Verb != decide.Wait || a.Reason.Code == decide.CodeDeadlineAtRisk {
			continue
		}
		held++
		s.Now = a.Reason.LatestStart
		for c := range s.Clusters {
			if caps := s.Clusters[c].CapacityAt["cpu"]; caps != nil {
				s.Clusters[c].CapacityAt = map[string][]float64{"cpu": caps[min(len(caps)-1, int(s.Now.Sub(at(0))/s.Slot)):]}
			}
		}
		a = must(t, s, asap.Planner{}).Actions[0]
		if n := len(a.Phases); n == 0 || a.Phases[n-1].To.After(x.Deadline.Add(time.Millisecond)) {
			t.Errorf("seed %d: at its latest start, %v: %s (%s) with %+v, deadline %v", seed, s.Now, a.Verb, a.Reason.Code, a.Phases, x.Deadline)
		}
	}
	if held < 500 {
		t.Errorf("%d tasks were held: too few to show anything", held)
	}
}

// TestEmptyCapacityAt: capacities without a value are not set.
func TestEmptyCapacityAt(t *testing.T) {
	s := snapshot(t, at(0), task("a", at(0), at(6), 2*time.Hour))
	s.Clusters[0].CapacityAt = map[string][]float64{"cpu": {}}
	if a := must(t, s, asap.Planner{}).Actions[0]; a.Verb != decide.Release {
		t.Errorf("%s (%s) with %+v; want Release", a.Verb, a.Reason.Code, a.Phases)
	}
}
