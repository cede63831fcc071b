package decide_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/workload"
)

// unsure are ten paths around cleanerAt: the two hours from an hour on are at low in all but some of them, where they are at 400.
func unsure(t *testing.T, hour int, low float64, worse int) *carbon.Paths {
	t.Helper()
	values := make([][]float64, 10)
	for p := range values {
		values[p] = make([]float64, 48)
		for h := range values[p] {
			values[p][h] = 300
		}
		for h := hour; h < hour+2; h++ {
			if values[p][h] = low; p < worse {
				values[p][h] = 400
			}
		}
	}
	paths, err := carbon.NewPaths(at(0), time.Hour, values)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestTaskWaitsOnlyIfSureEnough: a wait or a pause saves in the mean, but emits more in two of ten paths. With a confidence of 0.9 the task
// starts or runs on, if there is room for it now; with 0.7, and without paths, it waits.
func TestTaskWaitsOnlyIfSureEnough(t *testing.T) {
	waits, running, elastic := threeTasks()
	rigid := running
	rigid.Kind = workload.Rigid
	for name, tc := range map[string]struct {
		task       decide.Task
		worse      int
		confidence float64
		full       bool
		paths      bool
		now        bool
		code       decide.Code
	}{
		"goes by the mean":                {waits, 2, 0, false, true, false, decide.CodeCleanerLater},
		"not sure enough":                 {waits, 2, 0.9, false, true, true, decide.CodeSavingTooSmall},
		"exactly sure enough":             {waits, 1, 0.9, false, true, false, decide.CodeCleanerLater},
		"sure enough":                     {waits, 2, 0.7, false, true, false, decide.CodeCleanerLater},
		"without paths":                   {waits, 2, 0.9, false, false, false, decide.CodeCleanerLater},
		"no room now":                     {waits, 2, 0.9, true, true, false, decide.CodeCleanerLater},
		"elastic, not sure enough":        {elastic, 2, 0.9, false, true, true, decide.CodeSavingTooSmall},
		"elastic, sure enough":            {elastic, 2, 0.7, false, true, false, decide.CodeCleanerLater},
		"runs, a pause is not sure":       {running, 2, 0.9, false, true, true, decide.CodeSavingTooSmall},
		"runs, a pause is sure enough":    {running, 2, 0.7, false, true, false, decide.CodeCleanerLater},
		"runs, a pause without paths":     {running, 2, 0.9, false, false, false, decide.CodeCleanerLater},
		"runs and cannot pause":           {rigid, 2, 0.9, false, true, true, decide.CodeRunning},
		"emits more in none of the paths": {waits, 0, 1, false, true, false, decide.CodeCleanerLater},
	} {
		for planned, planner := range map[string]plan.Planner{"joint": joint.Planner{}, "cheapest": cheapest.Planner{}} {
			s := snapshot(t, at(0), tc.task)
			s.Slot, s.SavingConfidence, s.MinPause = time.Hour, tc.confidence, 30*time.Minute
			s.Clusters[0].Carbon = cleanerAt(t, 10, 200)
			if tc.paths {
				s.Clusters[0].CarbonPaths = unsure(t, 10, 150, tc.worse)
			}
			if tc.full {
				s.Clusters[0].LoadAt = map[string][]float64{"cpu": {10, 10, 0}}
			}
			a := verified(t, s, planner).Actions[0]
			if now := len(a.Phases) > 0 && !a.Phases[0].From.After(s.Now); now != tc.now || a.Reason.Code != tc.code {
				t.Errorf("%s, %s: %s (%s), %v; want it to run now: %v, %s", name, planned, a.Verb, a.Reason.Code, a.Phases, tc.now, tc.code)
			}
			want := decide.Odds{}
			if tc.paths && !tc.now && tc.task.Kind != workload.Elastic {
				want = decide.Odds{Paths: 10, Worse: tc.worse, Low: 0.5, High: 0.5}
				if tc.worse > 0 {
					want.Low = 1 - 800./600
				}
				if tc.worse == 1 {
					want.Low = 0.5
				}
			}
			if got := a.Reason.Odds; !tc.now && tc.task.Kind != workload.Elastic && (got.Paths != want.Paths || got.Worse != want.Worse || got.Low-want.Low > 1e-9 || want.Low-got.Low > 1e-9 || got.High != want.High) {
				t.Errorf("%s, %s: odds %+v, want %+v", name, planned, got, want)
			}
		}
	}
}

// TestReasonStatesTheOdds: the message of a wait says how often it emits more; that of a start does not.
func TestReasonStatesTheOdds(t *testing.T) {
	s := snapshot(t, at(0), task("a", at(0), at(24), 2*time.Hour))
	s.Slot = time.Hour
	s.Clusters[0].Carbon, s.Clusters[0].CarbonPaths = cleanerAt(t, 10, 200), unsure(t, 10, 150, 2)
	d := verified(t, s, cheapest.Planner{})
	if got, want := d.Actions[0].Reason.Message(), "saves 33 % against starting at once (-33 to 50 % in 8 of 10 cases, emits more in 2 of 10)"; !strings.Contains(got, want) {
		t.Errorf("message %q, want it to contain %q", got, want)
	}
	s.Now, s.Tasks[0].Standing = at(10), d.Actions[0].Stands(&s.Tasks[0])
	if a := verified(t, s, cheapest.Planner{}).Actions[0]; a.Reason.Code != decide.CodeCleanNow || a.Reason.Odds != (decide.Odds{}) {
		t.Errorf("when it starts: %s, odds %+v", a.Reason.Code, a.Reason.Odds)
	}
}

// TestStandingPlanIsJudgedOnce: a plan that was sure enough when it was made is followed, whatever the paths say later. One that was not,
// as there was no room, makes way as soon as there is.
func TestStandingPlanIsJudgedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after int
		full, now     bool
	}{
		"sure, then not":               {0, 5, false, false},
		"not sure, no room, then room": {5, 5, true, true},
		"sure, no room, then room":     {0, 0, true, false},
	} {
		s := snapshot(t, at(0), task("a", at(0), at(24), 2*time.Hour))
		s.Slot, s.SavingConfidence = time.Hour, 0.9
		s.Clusters[0].Carbon, s.Clusters[0].CarbonPaths = cleanerAt(t, 10, 200), unsure(t, 10, 150, tc.before)
		if tc.full {
			s.Clusters[0].LoadAt = map[string][]float64{"cpu": {10, 10, 0}}
		}
		d := verified(t, s, cheapest.Planner{})
		s.Now, s.Tasks[0].Standing, s.Clusters[0].LoadAt = at(3), d.Actions[0].Stands(&s.Tasks[0]), nil
		s.Clusters[0].CarbonPaths = unsure(t, 10, 150, tc.after)
		a := verified(t, s, cheapest.Planner{}).Actions[0]
		if now := !a.Phases[0].From.After(s.Now); now != tc.now {
			t.Errorf("%s: %s (%s), want it to run now: %v", name, a.Verb, a.Reason.Code, tc.now)
		}
	}
}

// TestConfidenceComparesWithTheCleanestStart: a task may start on two clusters. That its wait is not sure against a start on the dirtier one
// is no reason to start there.
func TestConfidenceComparesWithTheCleanestStart(t *testing.T) {
	s := snapshot(t, at(0), task("a", at(0), at(24), 2*time.Hour))
	s.Slot, s.SavingConfidence = time.Hour, 0.9
	s.Clusters = append(s.Clusters, s.Clusters[0])
	s.Clusters[1].Name = "dirtier"
	s.Clusters[0].Carbon, s.Clusters[0].CarbonPaths = cleanerAt(t, 10, 200), unsure(t, 10, 200, 0)
	s.Clusters[1].Carbon, s.Clusters[1].CarbonPaths = cleanerAt(t, 0, 320), unsure(t, 0, 100, 7)
	if a := verified(t, s, cheapest.Planner{}).Actions[0]; a.Verb != decide.Wait || a.Reason.Code != decide.CodeCleanerLater {
		t.Errorf("%s (%s) on %s; want it to wait", a.Verb, a.Reason.Code, a.Cluster)
	}
}

// TestConfidenceIsAShare: a confidence outside 0 to 1 is an error.
func TestConfidenceIsAShare(t *testing.T) {
	s := snapshot(t, at(0), task("a", at(0), at(24), time.Hour))
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		s.SavingConfidence = bad
		if _, err := decide.Decide(t.Context(), s, joint.Planner{}); err == nil || !strings.Contains(err.Error(), "accepted: 0 to 1") {
			t.Errorf("a confidence of %v: error %v", bad, err)
		}
	}
}

// randomPaths are paths around the intensities of each cluster of a world; all clusters have as many.
func (w *world) randomPaths(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	for c := range w.clusters {
		values := make([][]float64, 20)
		for p := range values {
			values[p] = make([]float64, 24*12)
			off := 1.0
			for h := range values[p] {
				if h%6 == 0 {
					off = 0.3 + 1.4*rng.Float64()
				}
				v, _ := w.clusters[c].Carbon.At(at(float64(h)))
				values[p][h] = off * float64(v.Value)
			}
		}
		paths, err := carbon.NewPaths(at(0), time.Hour, values)
		if err != nil {
			t.Fatal(err)
		}
		w.clusters[c].CarbonPaths = paths
	}
}

// TestConfidenceOfAllThatWaits: in random worlds, a task whose plan was just made and waits is sure enough, or there is no room for it now.
// No deadline is lost that is kept as submitted.
func TestConfidenceOfAllThatWaits(t *testing.T) {
	const confidence = 0.8
	early, sure, full := 0, 0, 0
	for seed := range uint64(6) {
		kinds := []workload.Kind{workload.Rigid, workload.Interruptible}
		if seed%2 == 1 {
			kinds = append(kinds, workload.Elastic)
		}
		reference := randomWorld(seed, 0.6, true, kinds)
		reference.run(t, nil)
		w := randomWorld(seed, 0.6, true, kinds)
		w.randomPaths(t, seed)
		w.confidence = confidence
		w.decided = func(s decide.Snapshot, d decide.Decision) {
			for i, a := range d.Actions {
				if a.Reason.Code == decide.CodeSavingTooSmall {
					early++
				}
				made := s.Tasks[i].Standing == nil || s.Tasks[i].Replan
				if !made || a.Verb != decide.Wait || a.Reason.Code != decide.CodeCleanerLater || s.Tasks[i].Kind == workload.Elastic || len(s.Clusters) > 1 {
					continue
				}
				switch odds := a.Reason.Odds; {
				case odds.Paths != 20:
					t.Errorf("seed %d: %s waits: odds over %d paths, want 20", seed, s.Tasks[i].ID, odds.Paths)
				case odds.Confident(confidence):
					sure++
				case roomNow(&s, d, i):
					t.Errorf("seed %d, %v: %s waits with odds %+v, and there is room now", seed, s.Now, s.Tasks[i].ID, odds)
				default:
					full++
				}
			}
		}
		for _, v := range w.run(t, joint.Planner{Effort: 0.02}) {
			t.Errorf("seed %d: %s", seed, v)
		}
		for k, x := range w.jobs {
			if due := x.task.Deadline; !due.IsZero() && !reference.jobs[k].finish.After(due) && x.finish.After(due.Add(time.Millisecond)) {
				t.Errorf("seed %d: %s ends %v after its deadline", seed, x.task.ID, x.finish.Sub(due))
			}
		}
	}
	if t.Logf("%d ran early, %d waited and were sure enough, %d waited as there was no room", early, sure, full); early == 0 || sure == 0 || full == 0 {
		t.Error("a case was not met")
	}
}

// roomNow reports whether the CPUs that a task asks for are free from now until it would be done, beside what the others will do, on the one
// cluster of a snapshot.
func roomNow(s *decide.Snapshot, d decide.Decision, task int) bool {
	ends := s.Now.Add(s.Tasks[task].Remaining)
	used := func(moment time.Time) float64 {
		sum := 0.0
		for i, a := range d.Actions {
			for _, p := range a.Phases {
				if i != task && !p.From.After(moment) && p.To.After(moment) {
					sum += float64(max(1, p.Workers)) * s.Tasks[i].Request["cpu"]
				}
			}
		}
		return sum
	}
	free := func(moment time.Time) bool {
		return used(moment)+s.Tasks[task].Request["cpu"] <= s.Clusters[0].Capacity["cpu"]+1e-9
	}
	for _, a := range d.Actions {
		for _, p := range a.Phases {
			if p.From.After(s.Now) && p.From.Before(ends) && !free(p.From) {
				return false
			}
		}
	}
	return free(s.Now)
}
