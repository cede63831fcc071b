package decide_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

var t0 = time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)

func at(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }

// sunny is 400 g/kWh at night and 100 from 10 to 16 h, for two days.
func sunny(t *testing.T, hours int) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range hours {
		v := units.CarbonIntensity(400)
		if h%24 >= 10 && h%24 < 16 {
			v = 100
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: v})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "X", Source: "test series"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func snapshot(t *testing.T, now time.Time, tasks ...decide.Task) decide.Snapshot {
	t.Helper()
	per, err := power.NewPerUnit(map[string]float64{"cpu": 10}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return decide.Snapshot{
		Now: now, Slot: 15 * time.Minute, Margin: 5 * time.Minute,
		Clusters: []decide.Cluster{{Name: "c", Zone: "X", Capacity: map[string]float64{"cpu": 10}, Power: per, Carbon: sunny(t, 48)}},
		Tasks:    tasks,
	}
}

func task(id string, submitted, deadline time.Time, runs time.Duration) decide.Task {
	return decide.Task{
		ID: id, Submitted: submitted, Deadline: deadline, Remaining: runs, Kind: workload.Rigid,
		Request: map[string]float64{"cpu": 2}, State: decide.Waiting,
	}
}

func one(t *testing.T, s decide.Snapshot) (decide.Action, decide.Decision) {
	t.Helper()
	d, err := decide.Decide(context.Background(), s, cheapest.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Actions[0], d
}

// seesBars is a planner that keeps the problem it was given.
type seesBars struct{ p *plan.Problem }

func (s *seesBars) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	s.p = p
	return cheapest.Planner{}.Plan(ctx, p)
}

// TestPlannersSeeTheErrorBars: quantiles reach the planner with the problem, and
// the reason, which also says what the planned hours rest on.
func TestPlannersSeeTheErrorBars(t *testing.T) {
	s := snapshot(t, at(2.1), task("a", at(2), at(20), 2*time.Hour))
	series := s.Clusters[0].Carbon
	own := &carbon.Provenance{Source: "made here", Basis: carbon.OwnForecast}
	scaled := func(by float64) *carbon.Series {
		var samples []carbon.Sample
		for i := range series.Len() {
			x := series.Sample(i)
			x.Value *= units.CarbonIntensity(by)
			x.Of = own
			samples = append(samples, x)
		}
		out, err := carbon.NewSeries(carbon.Provenance{}, samples)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	c := &s.Clusters[0]
	c.Carbon, c.CarbonLow, c.CarbonHigh = scaled(1), scaled(0.8), scaled(1.5)
	planner := &seesBars{}
	d, err := decide.Decide(context.Background(), s, planner)
	if err != nil {
		t.Fatal(err)
	}
	got := planner.p.Clusters[0]
	if len(got.IntensityLow) != len(got.Intensity) || got.IntensityLow[0] != 0.8*got.Intensity[0] || got.IntensityHigh[5] != 1.5*got.Intensity[5] {
		t.Errorf("bars %v and %v around %v", got.IntensityLow[0], got.IntensityHigh[0], got.Intensity[0])
	}
	r := d.Actions[0].Reason
	// 100 instead of 400 now: at 150 it saves five eighths, at 80 four fifths.
	if low, high, ok := r.SavingRange(); !ok || math.Abs(low-0.625) > 1e-9 || math.Abs(high-0.8) > 1e-9 || !strings.Contains(r.Message(), "saves 75 % against starting at once (62 to 80 % in 8 of 10 cases)") {
		t.Errorf("saves %v to %v, %v: %s", low, high, ok, r.Message())
	}
	if _, _, ok := (decide.Reason{ExpectedG: 1, ImmediateG: 2, IntensityThen: 100}).SavingRange(); ok {
		t.Error("a range without quantiles")
	}
	if r.ThenLow != 80 || r.IntensityThen != 100 || r.ThenHigh != 150 || r.Basis != carbon.OwnForecast || r.Source != "made here" || !strings.Contains(r.Message(), "forecast made here") {
		t.Errorf("reason %+v: %s", r, r.Message())
	}
}

func TestWaitsForTheCleanHoursAndSaysSo(t *testing.T) {
	a, d := one(t, snapshot(t, at(2.1), task("a", at(2), at(20), 2*time.Hour)))
	if a.Verb != decide.Wait || a.Reason.Code != decide.CodeCleanerLater {
		t.Fatalf("action %+v", a)
	}
	r := a.Reason
	// The first slot in the clean hours: slots of a quarter of an hour begin now, at 2:06.
	if !r.PlannedStart.Equal(at(10.1)) || r.IntensityNow != 400 || r.IntensityThen != 100 {
		t.Errorf("reason %+v", r)
	}
	if math.Abs(r.Saving()-0.75) > 1e-9 {
		t.Errorf("saving %v, want 0.75", r.Saving())
	}
	if want := at(18).Add(-5 * time.Minute); !r.LatestStart.Equal(want) {
		t.Errorf("latest start %v, want deadline - run time - margin = %v", r.LatestStart, want)
	}
	for _, part := range []string{"2023-05-10T10:06:00Z", "100 gCO2eq/kWh", "400 gCO2eq/kWh", "75 %"} {
		if !strings.Contains(r.Message(), part) {
			t.Errorf("message %q lacks %q", r.Message(), part)
		}
	}
	if !d.Wake.Equal(at(10.1)) {
		t.Errorf("wake %v, want the planned start", d.Wake)
	}
}

func TestReleasesInTheCleanHours(t *testing.T) {
	a, _ := one(t, snapshot(t, at(10), task("a", at(2), at(20), 2*time.Hour)))
	if a.Verb != decide.Release || a.Reason.Code != decide.CodeCleanNow || a.Cluster != "c" {
		t.Errorf("action %+v", a)
	}
}

func TestLatestStartOutranksCarbon(t *testing.T) {
	a, _ := one(t, snapshot(t, at(2), task("a", at(0), at(4), 2*time.Hour)))
	if a.Verb != decide.Release || a.Reason.Code != decide.CodeLatestStart {
		t.Errorf("action %+v", a)
	}
	// A deadline that cannot be kept any more: run, do not wait for the next one.
	a, _ = one(t, snapshot(t, at(5), task("a", at(0), at(4), 2*time.Hour)))
	if a.Verb != decide.Release {
		t.Errorf("a job past its deadline: %+v", a)
	}
}

// TestWakesAtTheLatestStart: the decision asks to be called again in time even
// when the next slot begins later.
func TestWakesAtTheLatestStart(t *testing.T) {
	s := snapshot(t, at(2), task("a", at(0), at(4.3), 2*time.Hour))
	a, d := one(t, s)
	if latest := at(2.3).Add(-5 * time.Minute); a.Verb == decide.Wait && d.Wake.After(latest) {
		t.Errorf("%+v wakes at %v, after the latest start %v", a, d.Wake, latest)
	}
}

func TestNoDeadlineRunsAtOnce(t *testing.T) {
	a, _ := one(t, snapshot(t, at(2), task("a", at(2), time.Time{}, time.Hour)))
	if a.Verb != decide.Release || a.Reason.Code != decide.CodeNoSlack {
		t.Errorf("action %+v", a)
	}
}

func TestNeverHoldsBlindly(t *testing.T) {
	s := snapshot(t, at(2), task("a", at(2), at(20), time.Hour))
	s.Clusters[0].Carbon = nil
	a, _ := one(t, s)
	if a.Verb != decide.Release || a.Reason.Code != decide.CodeNoCarbonData {
		t.Errorf("action %+v", a)
	}
}

// TestSeriesThatEndsIsEstimated: the third day is not in the series; the day
// before stands in, and the reason says so.
func TestSeriesThatEndsIsEstimated(t *testing.T) {
	a, _ := one(t, snapshot(t, at(44), task("a", at(44), at(70), 2*time.Hour)))
	if a.Verb != decide.Wait || !a.Reason.PlannedStart.Equal(at(58)) || !a.Reason.Estimated {
		t.Errorf("action %+v", a)
	}
	if !strings.Contains(a.Reason.Message(), "estimated") {
		t.Errorf("message %q hides the estimate", a.Reason.Message())
	}
}

func TestInterruptiblePausesAndResumes(t *testing.T) {
	run := task("a", at(0), at(40), 3*time.Hour)
	run.Kind, run.State, run.Cluster = workload.Interruptible, decide.Running, "c"
	a, _ := one(t, snapshot(t, at(16), run))
	if a.Verb != decide.Pause || a.Reason.Code != decide.CodeCleanerLater {
		t.Errorf("in the dirty evening: %+v", a)
	}
	paused := run
	paused.State, paused.Paused = decide.Waiting, true
	if a, _ = one(t, snapshot(t, at(34), paused)); a.Verb != decide.Resume {
		t.Errorf("in the clean noon: %+v", a)
	}
	if a, _ = one(t, snapshot(t, at(11), run)); a.Verb != decide.Continue {
		t.Errorf("running in the clean noon: %+v", a)
	}
}

// TestPausesOnlyWhenItPays: three hours of work are left, of which most would be
// lost by pausing now.
func TestPausesOnlyWhenItPays(t *testing.T) {
	run := task("a", at(0), at(40), 3*time.Hour)
	run.Kind, run.State, run.Cluster = workload.Interruptible, decide.Running, "c"
	run.AtRisk = 165 * time.Minute // 3 h at 100 g/kWh against 15 min at 400
	if a, _ := one(t, snapshot(t, at(16), run)); a.Verb != decide.Continue || a.Reason.Code != decide.CodePauseDoesNotPay {
		t.Errorf("action %+v", a)
	}
	run.AtRisk = 30 * time.Minute // against 150 min at 400
	if a, _ := one(t, snapshot(t, at(16), run)); a.Verb != decide.Pause {
		t.Errorf("action %+v", a)
	}
}

func TestRigidIsNeverPaused(t *testing.T) {
	run := task("a", at(0), at(40), 3*time.Hour)
	run.State, run.Cluster = decide.Running, "c"
	if a, _ := one(t, snapshot(t, at(16), run)); a.Verb != decide.Continue || a.Reason.Code != decide.CodeRunning {
		t.Errorf("action %+v", a)
	}
}

// TestRunningJobsTakeCapacity: eight of ten CPUs run until noon, so of two jobs
// for the clean hours only one finds room before.
func TestRunningJobsTakeCapacity(t *testing.T) {
	run := task("run", at(8), at(40), 4*time.Hour)
	run.State, run.Cluster, run.Request = decide.Running, "c", map[string]float64{"cpu": 8}
	s := snapshot(t, at(10), run, task("a", at(2), at(20), 2*time.Hour), task("b", at(2), at(20), 2*time.Hour))
	d, err := decide.Decide(context.Background(), s, cheapest.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Actions[1].Verb != decide.Release || d.Actions[2].Verb != decide.Wait || !d.Actions[2].Reason.PlannedStart.Equal(at(12)) {
		t.Errorf("actions %+v, want a released and b at 12:00", d.Actions[1:])
	}
	if r := d.Actions[2].Reason; r.Code != decide.CodeSharedCapacity || !strings.Contains(r.Message(), "share the capacity") {
		t.Errorf("b waits for room, and is told %q (%s)", r.Message(), r.Code)
	}
	// What no node has had room for is in nobody's way, whether its plan stands or not.
	run.Unscheduled = true
	stands := run
	stands.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(8), To: at(12), Cluster: "c"}}}
	for _, run := range []decide.Task{run, stands} {
		s := snapshot(t, at(10), run, task("a", at(2), at(20), 2*time.Hour), task("b", at(2), at(20), 2*time.Hour))
		d := must(t, s, cheapest.Planner{})
		if d.Actions[1].Verb != decide.Release || d.Actions[2].Verb != decide.Release {
			t.Errorf("actions %+v, want both released", d.Actions[1:])
		}
		if a := d.Actions[0]; a.Verb != decide.Continue || a.Reason.Code != decide.CodeUnscheduled || !strings.Contains(a.Reason.Message(), "no node") {
			t.Errorf("what has no node: %+v, %s", a, a.Reason.Message())
		}
	}
}

// TestPhasesStateTheirIntensity: what runs whatever Lull decides also states what it is expected to emit,
// or savings would count hours of it as clean.
func TestPhasesStateTheirIntensity(t *testing.T) {
	rigid := task("rigid", at(8), at(40), 4*time.Hour)
	rigid.State, rigid.Cluster = decide.Running, "c"
	noSlack := task("no slack", at(8), time.Time{}, 4*time.Hour)
	heldOut := task("held out", at(8), at(40), 4*time.Hour)
	heldOut.HeldOut = true
	for _, x := range []decide.Task{rigid, noSlack, heldOut} {
		a, _ := one(t, snapshot(t, at(10), x))
		if len(a.Phases) != 1 || a.Phases[0].Intensity <= 0 {
			t.Errorf("%s: phases %+v; want one with its intensity", x.ID, a.Phases)
		}
	}
}

// failing is a planner that finds no place for anything, or fails.
type failing struct{ err error }

func (f failing) Plan(_ context.Context, p *plan.Problem) (plan.Result, error) {
	var unplaced []plan.Unplaced
	for j := range p.Jobs {
		unplaced = append(unplaced, plan.Unplaced{Job: j, Why: "test"})
	}
	return plan.Finish(p, nil, unplaced), f.err
}

// TestPlansAreRepaired: a task that the planner leaves out runs as soon as it fits. Lull does not make it wait for cleaner
// power: the planner has not said so.
func TestPlansAreRepaired(t *testing.T) {
	s := snapshot(t, at(2), task("a", at(2), at(20), time.Hour))
	d, err := decide.Decide(context.Background(), s, failing{})
	if err != nil || d.Actions[0].Verb != decide.Release {
		t.Errorf("%+v, %v", d.Actions, err)
	}
	run := task("run", at(0), at(40), 8*time.Hour)
	run.State, run.Cluster, run.Request = decide.Running, "c", map[string]float64{"cpu": 9}
	s = snapshot(t, at(2), task("a", at(2), at(6), time.Hour), run)
	if d = must(t, s, failing{}); d.Actions[0].Verb != decide.Wait || d.Actions[0].Reason.Code != decide.CodeDeadlineAtRisk ||
		!d.Actions[0].Reason.PlannedStart.Equal(at(10)) || !strings.Contains(d.Actions[0].Reason.Message(), "no place before the deadline") {
		t.Errorf("without room in time, it should start when there is room: %+v", d.Actions[0])
	}
	broken := errors.New("broken")
	if _, err := decide.Decide(context.Background(), s, failing{broken}); !errors.Is(err, broken) {
		t.Errorf("error %v is not the planner's", err)
	}
}

func TestSnapshotErrorsNameTheField(t *testing.T) {
	good := func() decide.Snapshot { return snapshot(t, at(2), task("a", at(2), at(20), time.Hour)) }
	for want, breakIt := range map[string]func(*decide.Snapshot){
		"now":          func(s *decide.Snapshot) { s.Now = time.Time{} },
		"slot: 0s":     func(s *decide.Snapshot) { s.Slot = 0 },
		"margin":       func(s *decide.Snapshot) { s.Margin = -1 },
		"clusters":     func(s *decide.Snapshot) { s.Clusters = nil },
		"remaining":    func(s *decide.Snapshot) { s.Tasks[0].Remaining = -1 },
		"at risk":      func(s *decide.Snapshot) { s.Tasks[0].AtRisk = 2 * time.Hour },
		"restart: -1":  func(s *decide.Snapshot) { s.Tasks[0].Kind, s.Tasks[0].Restart = workload.Interruptible, -1 },
		"restart: 25h": func(s *decide.Snapshot) { s.Tasks[0].Kind, s.Tasks[0].Restart = workload.Interruptible, 25*time.Hour },
		"restart: 1m":  func(s *decide.Snapshot) { s.Tasks[0].Restart = time.Minute }, // of a rigid task
		"starting: 2m": func(s *decide.Snapshot) {
			t := &s.Tasks[0]
			t.Kind, t.State, t.Cluster, t.Restart, t.Starting = workload.Interruptible, decide.Running, s.Clusters[0].Name, time.Minute, 2*time.Minute
		},
		"starting: 1m": func(s *decide.Snapshot) {
			s.Tasks[0].Kind, s.Tasks[0].Restart, s.Tasks[0].Starting = workload.Interruptible, time.Minute, time.Minute // it waits
		},
		"lacking: 1": func(s *decide.Snapshot) { s.Tasks[0].Lacking = 1 },
		"kind":       func(s *decide.Snapshot) { s.Tasks[0].Kind = workload.Elastic },
		"state":      func(s *decide.Snapshot) { s.Tasks[0].State = "asleep" },
		"request":    func(s *decide.Snapshot) { s.Tasks[0].Request = nil },
	} {
		s := good()
		breakIt(&s)
		if _, err := decide.Decide(context.Background(), s, cheapest.Planner{}); !errors.Is(err, decide.ErrSnapshot) || !strings.Contains(err.Error(), want) {
			t.Errorf("want ErrSnapshot naming %q, got %v", want, err)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	var tasks []decide.Task
	for i := range 1000 {
		tasks = append(tasks, task(time.Duration(i).String(), at(2), at(8+float64(i%24)), time.Duration(1+i%5)*time.Hour))
	}
	var samples []carbon.Sample
	for h := range 48 {
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(100 + 37*(h%11))})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		b.Fatal(err)
	}
	s := decide.Snapshot{
		Now: at(2), Slot: 15 * time.Minute, Tasks: tasks,
		Clusters: []decide.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 500}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: series}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decide.Decide(context.Background(), s, cheapest.Planner{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCaspianPlansNewcomersInTheNextSlot: by Caspian's objective what comes during a slot waits for the plan of the next,
// unless it is due before; by hard deadlines it is planned at once.
func TestCaspianPlansNewcomersInTheNextSlot(t *testing.T) {
	of := func(now, submitted, deadline float64, objective plan.Objective) (decide.Action, decide.Decision) {
		s := snapshot(t, at(now), task("a", at(submitted), at(deadline), time.Hour))
		s.Slot, s.Objective = time.Hour, objective
		return one(t, s)
	}
	mosp := plan.Objective{Kind: plan.MOSP, Weights: [3]float64{1, 1, 1}}
	a, d := of(1.5, 1.25, 20, mosp)
	if a.Verb != decide.Wait || a.Reason.Code != decide.CodeNextPeriod || !d.Wake.Equal(at(2)) || !a.Reason.PlannedStart.Equal(at(2)) {
		t.Errorf("came during the slot: %+v, wake %v", a, d.Wake)
	}
	if text := a.Reason.Message(); !strings.Contains(text, "2023-05-10T02:00:00Z") {
		t.Errorf("told: %s", text)
	}
	for name, x := range map[string]struct {
		now, submitted, deadline float64
		objective                plan.Objective
	}{
		"the next slot":     {2, 1.25, 20, mosp},
		"at its beginning":  {1.5, 1, 20, mosp},
		"due before":        {1.5, 1.25, 1.75, mosp},
		"by hard deadlines": {1.5, 1.25, 20, plan.Objective{}},
	} {
		if a, _ := of(x.now, x.submitted, x.deadline, x.objective); a.Reason.Code == decide.CodeNextPeriod {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestSlotsBeginNow: no slot of a plan has begun before the decision.
func TestSlotsBeginNow(t *testing.T) {
	for _, now := range []float64{1, 1.01, 1.99} {
		s := snapshot(t, at(now), task("a", at(0), at(40), time.Hour))
		s.Slot, s.Horizon = time.Hour, 24*time.Hour
		planner := &seesBars{}
		if _, err := decide.Decide(context.Background(), s, planner); err != nil {
			t.Fatal(err)
		}
		if g := planner.p.Grid; g.N != 24 || !g.Start.Equal(at(now)) {
			t.Errorf("at %v: %d slots from %v on", now, g.N, g.Start)
		}
	}
}

// TestPlannersSeeTheSlotBefore: the problem has the intensity before its first slot, if the series has it.
func TestPlannersSeeTheSlotBefore(t *testing.T) {
	for _, now := range []float64{0, 2.1} {
		s := snapshot(t, at(now), task("a", at(now), at(20), 2*time.Hour))
		planner := &seesBars{}
		if _, err := decide.Decide(context.Background(), s, planner); err != nil {
			t.Fatal(err)
		}
		want, covered := s.Clusters[0].Carbon.Mean(s.Now.Add(-s.Slot), s.Now)
		switch got := planner.p.Clusters[0].Before; {
		case (got != nil) != (covered > 0) || (got != nil) != (now > 0):
			t.Errorf("at hour %v: %v; want one only if the series covers it (%v)", now, got, covered)
		case got != nil && *got != float64(want):
			t.Errorf("at hour %v: %v; want %v", now, *got, want)
		}
	}
}
