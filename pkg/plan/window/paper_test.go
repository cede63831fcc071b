package window_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/plan/window"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// One test for each claim of Piontek et al., Section 4.1 and Eqs. 1 and 4.

const day = 48 // slots of an hour: the frame of a job that arrives within the first day

// problem is one cluster of 100 CPUs whose intensity has its lowest 6 h mean
// in slots 12..17, and its lowest single hour elsewhere (slot 3).
func problem(jobs ...workload.Job) *plan.Problem {
	c := plan.Cluster{Name: "c", PUE: 1, Watts: map[string]float64{"cpu": 10}, Capacity: map[string][]float64{"cpu": make([]float64, day)}}
	for t := range day {
		c.Capacity["cpu"][t] = 100
		ci := 400.0
		switch {
		case t == 3:
			ci = 10 // a spike of clean power is no window
		case t >= 12 && t < 18:
			ci = 200
		}
		c.Intensity = append(c.Intensity, ci)
	}
	return &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Unix(0, 0), Slot: time.Hour, N: day},
		Objective: plan.Objective{Kind: plan.Carbon},
		Clusters:  []plan.Cluster{c}, Jobs: jobs,
	}
}

func job(id, class string, arrival int, cpus float64) workload.Job {
	return workload.Job{
		ID: id, Kind: workload.Rigid, Arrival: arrival, Length: 2, Deadline: day, PriorityClass: class,
		Request: map[string]float64{"cpu": cpus}, MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1},
	}
}

// starts plans and returns the first slot of each job.
func starts(t *testing.T, params window.Params, p *plan.Problem) []int {
	t.Helper()
	planner, err := window.New(params)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	res, err := planner.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Check(p, res.Plan); err != nil {
		t.Fatal(err)
	}
	out := make([]int, len(p.Jobs))
	for _, jp := range res.Plan.Jobs {
		out[jp.Job] = jp.Segments[0].Slot
	}
	return out
}

// "we calculate the average CO2 emission for all possible time windows [...]
// and then select the time window with the lowest emission value" (lines 5-9).
func TestTakesTheWindowOfLowestMean(t *testing.T) {
	if got := starts(t, window.Params{}, problem(job("a", "", 0, 1)))[0]; got != 12 {
		t.Errorf("start in slot %d, want 12, the best 6 h window", got)
	}
	// With a window of one hour the spike wins.
	if got := starts(t, window.Params{WindowFrame: time.Hour}, problem(job("a", "", 0, 1)))[0]; got != 3 {
		t.Errorf("window of 1 h: start in slot %d, want 3", got)
	}
}

// "the length of time_frame has been set to 24 h [...] window_frame has been
// set to 6 h": a window beyond the frame is not seen.
func TestLooksNoFurtherThanTheTimeFrame(t *testing.T) {
	got := starts(t, window.Params{TimeFrame: 8 * time.Hour, WindowFrame: 2 * time.Hour}, problem(job("a", "", 0, 1)))[0]
	if got != 2 {
		t.Errorf("start in slot %d, want 2: the best 2 h window of the first 8 h holds the spike", got)
	}
}

// "A critical job is picked immediately if resources are available" (Eq. 1).
func TestCriticalClassStartsAtOnce(t *testing.T) {
	p := problem(job("a", "system-critical", 5, 1), job("b", "batch", 5, 1))
	got := starts(t, window.Params{CriticalClasses: []string{"system-critical"}}, p)
	if got[0] != 5 || got[1] != 12 {
		t.Errorf("starts %v, want the critical job in 5 and the other in 12", got)
	}
}

// "if the pod has waited for more than the defined max_stale_time (e.g., 24 h),
// the pod is immediately allocated".
func TestStaleJobStartsAtOnce(t *testing.T) {
	stale := job("a", "", 0, 1)
	stale.Waited = 24
	if got := starts(t, window.Params{}, problem(stale))[0]; got != 0 {
		t.Errorf("a job that waited 24 h starts in slot %d, want 0", got)
	}
	noSpike := problem(job("a", "", 0, 1))
	noSpike.Clusters[0].Intensity[3] = 400
	if got := starts(t, window.Params{MaxStale: 7 * time.Hour}, noSpike)[0]; got != 7 {
		t.Errorf("max stale 7 h: start in slot %d, want 7", got)
	}
}

// "shiftable workload must be executed immediately once they have waited for 24 h".
func TestNobodyWaitsLongerThanADay(t *testing.T) {
	for seed := range uint64(300) {
		p := plantest.Random(seed, plantest.Options{Loose: true, Kinds: []workload.Kind{workload.Rigid}})
		p.Grid.Slot = time.Hour
		for j, start := range startsOf(t, p) {
			if wait := start - p.Jobs[j].Arrival; start >= 0 && wait > 24 {
				t.Fatalf("seed %d: job %d waits %d h", seed, j, wait)
			}
		}
	}
}

func startsOf(t *testing.T, p *plan.Problem) []int {
	t.Helper()
	planner, err := window.New(window.Params{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := planner.Plan(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int, len(p.Jobs))
	for j := range out {
		out[j] = -1
	}
	for _, jp := range res.Plan.Jobs {
		out[jp.Job] = jp.Segments[0].Slot
	}
	return out
}

// "At least 5% of the cluster utilization must be kept free" (Eq. 4): 96 of 100
// CPUs do not fit into the window, 95 do.
func TestKeepsFivePercentFree(t *testing.T) {
	if got := starts(t, window.Params{}, problem(job("a", "", 0, 95)))[0]; got != 12 {
		t.Errorf("95 of 100 CPUs start in slot %d, want 12", got)
	}
	if got := starts(t, window.Params{}, problem(job("a", "", 0, 96)))[0]; got != 24 {
		t.Errorf("96 of 100 CPUs start in slot %d, want 24: only staleness lifts the limit", got)
	}
}

// "If the load prediction expects 100% load, an additional 10% CPU load is
// reserved for critical tasks. Therefore, in total, about 15% [...]".
func TestKeepsFifteenPercentFreeUnderFullLoad(t *testing.T) {
	full := window.Params{ExpectedLoad: 1}
	if got := starts(t, full, problem(job("a", "", 0, 85)))[0]; got != 12 {
		t.Errorf("85 of 100 CPUs start in slot %d, want 12", got)
	}
	if got := starts(t, full, problem(job("a", "", 0, 86)))[0]; got != 24 {
		t.Errorf("86 of 100 CPUs start in slot %d, want 24", got)
	}
	if got := starts(t, full, problem(job("a", "", 0, 100)))[0]; got != 24 {
		t.Errorf("a stale job uses the whole cluster: start %d, want 24", got)
	}
	critical := window.Params{ExpectedLoad: 1, CriticalClasses: []string{"vip"}}
	if got := starts(t, critical, problem(job("a", "vip", 0, 100)))[0]; got != 0 {
		t.Errorf("the reserve is not open to critical jobs: start %d, want 0", got)
	}
}

// The limit sends the second job to the next best window of its frame.
func TestFullWindowLeadsToTheNext(t *testing.T) {
	p := problem(job("a", "", 0, 60), job("b", "", 0, 60))
	got := starts(t, window.Params{}, p)
	if got[0] != 12 || got[1] != 14 {
		t.Errorf("starts %v, want 12 and, when the first is done, 14", got)
	}
}

// Lull's deviation: a completion deadline outranks carbon.
func TestDeadlineOutranksCarbon(t *testing.T) {
	early := job("a", "", 0, 1)
	early.Deadline = 9
	if got := starts(t, window.Params{}, problem(early))[0]; got > 7 {
		t.Errorf("start in slot %d misses the deadline 9", got)
	}
}

func TestLaws(t *testing.T) {
	planner, err := window.New(window.Params{})
	if err != nil {
		t.Fatal(err)
	}
	plantest.Laws(t, planner, 400, plantest.Options{})
	plantest.Laws(t, planner, 200, plantest.Options{Objective: plan.MOSP})
}

func TestNewRejects(t *testing.T) {
	for name, params := range map[string]window.Params{
		"negative frame": {TimeFrame: -1}, "negative window": {WindowFrame: -1}, "negative stale": {MaxStale: -1},
		"window longer than frame": {TimeFrame: time.Hour, WindowFrame: 2 * time.Hour},
		"load above 1":             {ExpectedLoad: 1.1}, "load NaN": {ExpectedLoad: math.NaN()},
	} {
		if _, err := window.New(params); !errors.Is(err, window.ErrParams) {
			t.Errorf("%s: error %v, want ErrParams", name, err)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	planner, err := window.New(window.Params{})
	if err != nil {
		b.Fatal(err)
	}
	plantest.Bench(b, planner)
}
