package promise_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// recorder is a planner that keeps the last problem it was given, and its plan.
type recorder struct {
	plan.Planner
	problem *plan.Problem
	found   plan.Result
}

func (r *recorder) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	found, err := r.Planner.Plan(ctx, p)
	r.problem, r.found = p, found
	return found, err
}

// TestDecisionsFollowEveryPlanner: where there is room for all and nothing is urgent, decisions do in each slot what the
// planner's plan says, for every planner: the same cluster and the same work. Inside a slot that is used in part the
// decision has the choice. Only the last slot of a job may be used for less time: the work is done.
func TestDecisionsFollowEveryPlanner(t *testing.T) {
	for _, m := range tried(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			planned := 0
			for seed := range uint64(40) {
				planned += followsPlan(t, m, seed)
			}
			if planned < 40 {
				t.Errorf("%d tasks were planned; want at least 40", planned)
			}
		})
	}
}

// followsPlan compares the decision of one instance with the plan, and returns how many tasks the planner placed.
func followsPlan(t *testing.T, m method, seed uint64) int {
	t.Helper()
	s := roomy(t, rand.New(rand.NewPCG(seed, 0x726f6f6d79)), m)
	r := &recorder{Planner: m.planner(t)}
	d, err := decide.Decide(t.Context(), s, r)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if r.problem == nil || len(r.problem.Jobs) != len(s.Tasks) {
		t.Fatalf("seed %d: not all tasks were given to the planner", seed)
	}
	planned := 0
	for _, jp := range r.found.Plan.Jobs {
		if len(jp.Segments) == 0 {
			continue
		}
		planned++
		got := d.Actions[jp.Job].Phases
		last := jp.Segments[len(jp.Segments)-1].Slot
		slots := last + 1
		for _, p := range got {
			slots = max(slots, int(p.To.Sub(r.problem.Grid.Start)/r.problem.Grid.Slot)+1)
		}
		for c := range s.Clusters {
			for slot := range slots {
				want, is := planSlot(jp.Segments, c, slot), phaseSlot(r.problem, got, s.Clusters[c].Name, slot)
				if math.Abs(is-want) > 1e-6 && (slot != last || is > want || is <= 0) {
					t.Fatalf("seed %d, %s task %d of %v with %v of slack, slots of %v, cluster %d, slot %d: %.6f workers, in the plan %.6f\nphases %v\nplan %v",
						seed, s.Tasks[jp.Job].Kind, jp.Job, s.Tasks[jp.Job].Remaining, s.Tasks[jp.Job].Deadline.Sub(s.Now)-s.Tasks[jp.Job].Remaining, s.Slot, c, slot, is, want, got, jp.Segments)
				}
			}
		}
	}
	return planned
}

// planSlot is the mean number of workers of a plan in a slot at a cluster.
func planSlot(segments []plan.Segment, cluster, slot int) (sum float64) {
	for _, seg := range segments {
		if seg.Slot == slot && seg.Cluster == cluster {
			sum += seg.Fraction * float64(seg.Workers)
		}
	}
	return sum
}

// phaseSlot is the mean number of workers of phases in a slot at a cluster.
func phaseSlot(p *plan.Problem, phases []decide.Phase, cluster string, slot int) (sum float64) {
	from := p.Grid.Time(slot)
	to := from.Add(p.Grid.Slot)
	for _, ph := range phases {
		if ph.Cluster != cluster {
			continue
		}
		a, b := ph.From, ph.To
		if a.Before(from) {
			a = from
		}
		if b.After(to) {
			b = to
		}
		if b.After(a) {
			sum += float64(ph.Workers) * float64(b.Sub(a)) / float64(p.Grid.Slot)
		}
	}
	return sum
}

// roomy is a snapshot with room for all tasks at once at each cluster, and slack for each task.
func roomy(t *testing.T, rng *rand.Rand, m method) decide.Snapshot {
	t.Helper()
	per, err := power.NewPerUnit(map[string]float64{"cpu": 10}, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC).Add(time.Duration(rng.Int64N(int64(24 * time.Hour))))
	s := decide.Snapshot{Now: now, Slot: []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour}[rng.IntN(3)], Margin: 5 * time.Minute}
	for c := range 1 + rng.IntN(2) {
		s.Clusters = append(s.Clusters, decide.Cluster{
			Name: fmt.Sprint("c", c), Zone: fmt.Sprint("Z", c), Capacity: map[string]float64{"cpu": 1000}, Power: per, Carbon: randomDays(t, rng, now),
		})
	}
	n, slack := 1+rng.IntN(8), 12*time.Hour
	if m.most > 0 {
		n = 1 + rng.IntN(min(m.most, 4))
	}
	if m.name == "exact" { // it tries every schedule
		s.Slot, slack = time.Hour, time.Hour
	}
	for i := range n {
		x := decide.Task{
			ID: fmt.Sprint("t", i), Submitted: now, Remaining: time.Minute + time.Duration(rng.Int64N(int64(5*time.Hour))),
			Kind: workload.Rigid, Request: map[string]float64{"cpu": 2}, State: decide.Waiting,
		}
		x.Deadline = now.Add(x.Remaining + slack/2 + time.Duration(rng.Int64N(int64(slack))))
		switch rng.IntN(3) {
		case 1:
			x.Kind = workload.Interruptible
		case 2:
			x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 3, Curve: []float64{1, 0.9, 0.7}}
		}
		s.Tasks = append(s.Tasks, x)
	}
	return s
}

// randomDays are three days of random hourly intensities around a time.
func randomDays(t *testing.T, rng *rand.Rand, now time.Time) *carbon.Series {
	t.Helper()
	day := now.Truncate(24 * time.Hour)
	var samples []carbon.Sample
	for h := range 72 {
		at := day.Add(time.Duration(h) * time.Hour)
		samples = append(samples, carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(50 + rng.IntN(600))})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X", Source: "test series"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
