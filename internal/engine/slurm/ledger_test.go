package slurm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/accounting/keeper"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
)

// bed is a controller with a ledger.
type bed struct {
	t      *testing.T
	c      *Controller
	f      *fake
	ledger *ledger.Ledger
	step   time.Duration // between two looks
	away   bool          // the database is
}

func withLedger(t *testing.T, jobs ...slurm.Job) *bed {
	t.Helper()
	l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c, f, _ := setup(t, jobs...)
	f.lasts = map[string]time.Duration{}
	b := &bed{t: t, c: c, f: f, ledger: l, step: 10 * time.Minute}
	b.restart()
	return b
}

// restart is a new process on the same ledger and the same Slurm.
func (b *bed) restart() {
	b.t.Helper()
	k := keeper.New(b.ledger, func(string) time.Time { return b.f.clock.Now() }, func(_ context.Context, err error, message string, _ ...any) { b.t.Errorf("%s: %v", message, err) })
	o := b.c.o
	o.Ledger, o.Cluster = k, "lab"
	c, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.c = c
	b.c.ledger.accounting.beside = func(f func()) { f() }
	if b.c.ledger.energies != nil {
		b.c.ledger.energies.beside = func(f func()) { f() }
	}
	b.write()
}

func (b *bed) write() {
	b.t.Helper()
	if b.away {
		return
	}
	if err := b.c.ledger.Recorder.Write(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// until looks at each step until a time of the day.
func (b *bed) until(clock time.Duration) {
	b.t.Helper()
	for end := midnight.Add(clock); ; b.f.clock.Step(b.step) {
		if _, err := b.c.Reconcile(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		b.write()
		if !b.f.clock.Now().Before(end) {
			return
		}
	}
}

// settled settles the jobs that are over, and returns them by name. It fails if a name comes twice, or the chain is broken.
func (b *bed) settled() map[string]ledger.Settled {
	b.t.Helper()
	if _, err := ledger.NewSettler(b.ledger).Settle(b.t.Context(), func(string) time.Time { return b.f.clock.Now() }); err != nil {
		b.t.Fatal(err)
	}
	checker, out, kinds := &ledger.Checker{}, map[string]ledger.Settled{}, map[string]int{}
	for e, err := range checker.Through(b.ledger.Read(b.t.Context(), ledger.Query{})) {
		if err != nil {
			b.t.Fatal(err)
		}
		kinds[fmt.Sprintf("%s %s", e.Kind, strings.Split(e.Workload+"///", "/")[2])]++
		if e.Kind != ledger.KindSettled {
			continue
		}
		s, err := e.Settled()
		if err != nil {
			b.t.Fatal(err)
		}
		if _, twice := out[s.Of.Name]; twice {
			b.t.Errorf("job %s is counted twice", s.Of.Name)
		}
		out[s.Of.Name] = s
	}
	for what, n := range kinds {
		if n > 1 && (strings.HasPrefix(what, "submitted") || strings.HasPrefix(what, "finished")) {
			b.t.Errorf("%d entries %s", n, what)
		}
	}
	return out
}

// hourOfCluster is the energy of an hour of all 8 CPUs, in kWh.
const hourOfCluster = 8 * 3.5 / 1000

func (b *bed) grams(s ledger.Settled, name string, emitted, saved float64) {
	b.t.Helper()
	if math.Abs(s.Grams-emitted*hourOfCluster) > 1e-9 || math.Abs(s.SavedGrams-saved*hourOfCluster) > 1e-9 {
		b.t.Errorf("job %s emitted %v and saved %v per kWh; want %v and %v; %+v", name, s.Grams/hourOfCluster, s.SavedGrams/hourOfCluster, emitted, saved, s)
	}
}

// TestLedgerSaysWhatWasSaved: two jobs that fill the cluster for an hour each, submitted at 8:00. The second would have run at 9:00, at 500 g/kWh, and
// runs at 14:00, at 100.
func TestLedgerSaysWhatWasSaved(t *testing.T) {
	second := job("2", "lull:max-delay=12h")
	second.Account, second.User = "climate", "ada"
	b := withLedger(t, job("1", "lull:max-delay=12h"), second, job("3", ""))
	b.f.jobs[2].CPUs, b.f.lasts["3"] = 0, time.Minute
	b.f.lasts["1"], b.f.lasts["2"] = time.Hour, time.Hour
	b.until(15*time.Hour + 30*time.Minute)
	all := b.settled()
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	b.grams(all["1"], "1", 100, 0)
	b.grams(all["2"], "2", 100, 400)
	if s := all["2"]; s.Of.Namespace != "climate" || s.Of.Labels["user"] != "ada" || s.Of.Policy != "slurm/lab" || !s.OnTime || s.Runs != 1 || s.Inferred != 0 || !s.Of.At.Equal(midnight.Add(8*time.Hour)) {
		t.Errorf("%+v", s)
	}
}

// TestLedgerOverRestarts: whenever a controller is killed and another starts, each job is counted once, with all that it ran.
func TestLedgerOverRestarts(t *testing.T) {
	for minutes := 10; minutes < 500; minutes += 40 {
		t.Run(fmt.Sprint(minutes), func(t *testing.T) {
			b := withLedger(t, job("1", "lull:max-delay=12h"), job("2", "lull:max-delay=12h"))
			b.f.lasts["1"], b.f.lasts["2"], b.f.age = time.Hour, time.Hour, 30*time.Minute
			at := 8*time.Hour + time.Duration(minutes)*time.Minute
			b.until(at)
			b.restart()
			b.until(at + 10*time.Minute)
			b.restart()
			b.until(17 * time.Hour)
			all := b.settled()
			b.grams(all["1"], "1", 100, 0)
			b.grams(all["2"], "2", 100, 400)
			if len(all) != 2 || all["1"].Inferred+all["2"].Inferred > 0 {
				t.Errorf("%+v", all)
			}
		})
	}
}

// TestLedgerAsksTheAccountingForMissedEnds: no controller runs while a job ends and is forgotten. The accounting knows how it ended, that it was requeued
// before, and not of another job of that number. If the accounting does not answer for a while, the end waits for it.
func TestLedgerAsksTheAccountingForMissedEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		records  []slurm.Job
		down     bool
		runs     int
		hours    float64
		inferred int
	}{
		"it ended":            {[]slurm.Job{{Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(8, 30)}}, false, 1, 0.5, 0},
		"after a while":       {[]slurm.Job{{Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(8, 30)}}, true, 1, 0.5, 0},
		"it was requeued":     {[]slurm.Job{{Submitted: clockAt(8, 40), Started: clockAt(9, 0), Ended: clockAt(9, 30)}}, false, 2, 40./60 + 0.5, 0},
		"it was cancelled":    {[]slurm.Job{{Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(8, 15), State: "CANCELLED"}}, false, 1, 0.25, 0},
		"another one before":  {[]slurm.Job{{Submitted: clockAt(7, 0), Started: clockAt(7, 0), Ended: clockAt(7, 30)}}, false, 1, 1, 1},
		"a time to come":      {[]slurm.Job{{Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(23, 0)}}, false, 1, 1, 1},
		"a clock that is off": {[]slurm.Job{{Submitted: clockAt(8, 0), Started: clockAt(8, 1), Ended: clockAt(8, 30)}}, false, 1, 0.5, 0},
		"two records":         {[]slurm.Job{{Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(8, 15), State: "NODE_FAIL"}, {Submitted: clockAt(8, 15), Started: clockAt(8, 20), Ended: clockAt(8, 30)}}, false, 2, 25. / 60, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := withLedger(t, job("1", "lull:max-delay=12h"))
			b.f.lasts["1"], b.f.age = 30*time.Minute, time.Minute
			b.until(8*time.Hour + 20*time.Minute)
			for i := range tc.records {
				r := &tc.records[i]
				r.ID, r.Number, r.Tasks, r.CPUs, r.State = "1", 1, 1, 8, cmp.Or(r.State, "COMPLETED")
			}
			b.f.records = tc.records
			if tc.down {
				b.f.noEnds = slurm.ErrCommand
			}
			b.f.clock.Step(10 * time.Hour)
			b.restart()
			b.until(19 * time.Hour)
			if tc.down {
				if all := b.settled(); len(all) > 0 {
					t.Errorf("settled without the accounting: %+v", all)
				}
				b.f.noEnds = nil
				b.until(19*time.Hour + 10*time.Minute)
			}
			if s := b.settled()["1"]; s.Runs != tc.runs || s.Inferred != tc.inferred || math.Abs(s.WorkerHours-tc.hours) > 1e-9 {
				t.Errorf("%d runs, %v hours, inferred %d; want %d, %v, %d; %+v", s.Runs, s.WorkerHours, s.Inferred, tc.runs, tc.hours, tc.inferred, s)
			}
		})
	}
}

// TestAnAccountingThatFailsIsAskedOnceAMinute, for a short time.
func TestAnAccountingThatFailsIsAskedOnceAMinute(t *testing.T) {
	b := withLedger(t, job("1", "lull:max-delay=12h"))
	b.f.lasts["1"], b.f.age = 30*time.Minute, time.Minute
	b.until(8*time.Hour + 20*time.Minute)
	b.f.noEnds = slurm.ErrCommand
	b.f.clock.Step(10 * time.Hour)
	b.restart()
	for range 100 {
		step(t, b.c, b.f, 10*time.Second)
	}
	if len(b.f.asked) < 10 || b.f.answers > 10*time.Second {
		t.Errorf("asked %d times in 16 minutes, and waited for %v", len(b.f.asked), b.f.answers)
	}
	for i := range b.f.asked {
		if i > 0 && b.f.asked[i].Sub(b.f.asked[i-1]) < time.Minute {
			t.Errorf("asked at %v and at %v", b.f.asked[i-1], b.f.asked[i])
		}
	}
}

// TestAnAccountingThatHangsKeepsNoLookWaiting: while it does not answer, looks go on and jobs are released. Its answer counts as soon as it comes, in the next
// look.
func TestAnAccountingThatHangsKeepsNoLookWaiting(t *testing.T) {
	second := job("2", "lull:max-delay=220m")
	second.CPUs, second.Begin = 0, clockAt(11, 40)
	second.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: second.Begin}.String()
	b := withLedger(t, job("1", "lull:max-delay=12h"), second)
	b.f.lasts["1"], b.f.age = 30*time.Minute, time.Minute
	b.until(8*time.Hour + 20*time.Minute)
	b.f.clock.Step(3 * time.Hour)
	b.restart()
	hangs, asked := make(chan struct{}), 0
	b.f.records = []slurm.Job{{ID: "1", Number: 1, Tasks: 1, CPUs: 8, State: "COMPLETED", Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(8, 30)}}
	done := make(chan struct{})
	b.c.ledger.accounting.beside = func(f func()) {
		asked++
		go func() { <-hangs; f(); close(done) }()
	}
	b.until(11*time.Hour + 50*time.Minute) // returns although the accounting does not
	if asked != 1 {
		t.Errorf("asked %d times while it does not answer", asked)
	}
	if started := b.f.jobs[0].State; started != "RUNNING" {
		t.Errorf("job 2 is %s; want RUNNING since its latest start", started)
	}
	close(hangs)
	<-done
	b.step = time.Minute
	b.until(11*time.Hour + 52*time.Minute)
	if s := b.settled()["1"]; s.Inferred != 0 || math.Abs(s.WorkerHours-0.5) > 1e-9 {
		t.Errorf("%+v", s)
	}
}

func clockAt(hour, minute int) time.Time {
	return midnight.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

// TestLedgerOfJobsThatSlurmForgot: no controller runs while a job ends and is forgotten. It counts with the run time that was expected, and as inferred.
func TestLedgerOfJobsThatSlurmForgot(t *testing.T) {
	b := withLedger(t, job("1", "lull:max-delay=12h"))
	b.f.lasts["1"], b.f.age = 30*time.Minute, time.Minute
	b.until(8*time.Hour + 20*time.Minute)
	b.f.clock.Step(10 * time.Hour)
	b.restart()
	b.until(19 * time.Hour)
	all := b.settled()
	if s := all["1"]; s.Inferred != 1 || s.WorkerHours != 1 { // the time limit is an hour
		t.Errorf("%+v", all)
	}
}

// TestLedgerOfAJobThatCameAndWent between two looks: it is recorded from what Slurm still knows; one that may not wait is not.
func TestLedgerOfAJobThatCameAndWent(t *testing.T) {
	b := withLedger(t)
	b.until(8*time.Hour + 10*time.Minute)
	quick, other, own := job("4", "lull:max-delay=12h"), job("5", ""), job("6", "lull:max-delay=12h")
	for _, j := range []*slurm.Job{&quick, &other, &own} {
		j.State, j.Started, j.Ended = "COMPLETED", midnight.Add(8*time.Hour+11*time.Minute), midnight.Add(8*time.Hour+13*time.Minute)
	}
	own.Begin = own.Submitted.Add(time.Minute) // --begin
	cancelled := job("7", "lull:max-delay=12h")
	cancelled.State, cancelled.Started, cancelled.Ended = "CANCELLED", midnight.Add(8*time.Hour+12*time.Minute), midnight.Add(8*time.Hour+12*time.Minute)
	b.f.ended = []slurm.Job{quick, other, own, cancelled}
	b.f.clock.Step(10 * time.Minute)
	b.until(9*time.Hour + 30*time.Minute)
	b.restart()
	b.until(9*time.Hour + 40*time.Minute)
	all := b.settled()
	if s := all["4"]; len(all) != 2 || math.Abs(s.WorkerHours-2.0/60) > 1e-9 || all["7"].Runs != 0 {
		t.Errorf("%+v", all)
	}
}

// TestLedgerOfAPause: the runs of a job that Lull has paused are those of one job, whatever Slurm says of its submission.
func TestLedgerOfAPause(t *testing.T) {
	j := job("1", "lull:max-delay=12h,interruptible,runtime=2h")
	j.Limit = 3 * time.Hour
	b := withLedger(t, j)
	b.step = time.Minute
	b.until(10 * time.Hour) // clean from 8:00 to 9:00
	if b.f.jobs[0].Restarts != 1 {
		t.Fatalf("not paused: %+v", b.f.jobs[0])
	}
	b.restart()
	b.f.lasts["1"] = time.Hour
	b.until(17 * time.Hour)
	all := b.settled()
	s := all["1"]
	if len(all) != 1 || s.Runs != 2 || s.Inferred != 0 || s.EvictedHours != 0 || s.WorkerHours < 2 || s.WorkerHours > 2.4 || !s.Of.Resumable {
		t.Fatalf("%+v", all)
	}
	// As submitted, two hours from 8:00 on: 600 g/kWh times the energy of an hour.
	if got := s.Counterfactual.Grams / hourOfCluster; math.Abs(got-600) > 1e-6 {
		t.Errorf("as submitted %v per kWh, want 600", got)
	}
}

// TestLedgerOfAJobThatOthersRequeue: a node fails, Slurm runs the job again, and states a new submission. It stays one job, also for a
// controller that starts after its end.
func TestLedgerOfAJobThatOthersRequeue(t *testing.T) {
	b := withLedger(t, job("1", "lull:max-delay=12h"))
	b.until(8*time.Hour + 20*time.Minute)
	if err := b.f.Requeue(t.Context(), []string{"1"}); err != nil {
		t.Fatal(err)
	}
	b.f.lasts["1"] = time.Hour
	b.until(8*time.Hour + 40*time.Minute)
	b.restart()
	b.until(10 * time.Hour)
	b.restart()
	b.until(11 * time.Hour)
	all := b.settled()
	if s := all["1"]; len(all) != 1 || s.Runs != 2 || math.Abs(s.EvictedHours-1.0/3) > 0.01 || !s.Of.At.Equal(midnight.Add(8*time.Hour)) {
		t.Errorf("%+v", all)
	}
}

// TestLedgerLeavesOutWhatLullDidNotDo: what a job waited for other jobs counts on neither side.
func TestLedgerLeavesOutWhatLullDidNotDo(t *testing.T) {
	depends := job("2", "lull:max-delay=12h")
	depends.Reason = "Dependency"
	b := withLedger(t, depends)
	b.until(9*time.Hour + 30*time.Minute)
	b.restart()
	b.until(9*time.Hour + 40*time.Minute)
	b.f.jobs[0].Reason = "BeginTime" // the others have ended
	freed := b.f.clock.Now()
	b.f.lasts["2"] = time.Hour
	b.until(16 * time.Hour)
	all := b.settled()
	if s := all["2"]; len(all) != 1 || s.Of.At.Before(freed) || s.Counterfactual.From.Before(freed) {
		t.Errorf("%+v", all)
	}
}

// throttledArray is an array of tasks of a CPU that is held until 9:02.
func throttledArray(number, tasks, throttle int) slurm.Job {
	j := job(fmt.Sprintf("%d_[1-%d]", number, tasks), "lull:max-delay=12h")
	j.Number, j.Tasks, j.Throttle, j.CPUs, j.Begin = number, tasks, throttle, 1, midnight.Add(9*time.Hour+2*time.Minute)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
	return j
}

// TestLedgerOfThrottledArrays: as submitted, too, two tasks would have run at a time, each as soon as one before it had ended; also if Lull lets fewer run.
func TestLedgerOfThrottledArrays(t *testing.T) {
	from := midnight.Add(8 * time.Hour)
	for _, options := range []string{"", ",min-tasks=1"} {
		array := throttledArray(3, 6, 2)
		array.Comment += options
		b := withLedger(t, array)
		b.f.clock.Step(time.Hour)
		b.step = time.Minute
		b.f.age = 5 * time.Minute
		for i, last := range []time.Duration{20, 40, 50, 30, 30, 30} {
			b.f.lasts[fmt.Sprintf("3_%d", i+1)] = last * time.Minute
		}
		b.until(18 * time.Hour)
		all := b.settled()
		for id, want := range map[string]time.Duration{"3_1": 0, "3_2": 0, "3_3": 20, "3_4": 40, "3_5": 70, "3_6": 70} {
			s, known := all[id]
			if late := s.Counterfactual.From.Sub(from.Add(want * time.Minute)).Abs(); !known || late > 0 || s.From.Before(midnight.Add(14*time.Hour)) {
				t.Errorf("%q: task %s as submitted from %v; want %v; it ran from %v", options, id, s.Counterfactual.From, from.Add(want*time.Minute), s.From)
			}
		}
		if len(all) != 6 {
			t.Errorf("%q: %d tasks", options, len(all))
		}
	}
}

// TestLedgerLeavesOutArraysThatItDoesNotKnowAsAWhole: tasks of a throttled array had started before the controller did.
func TestLedgerLeavesOutArraysThatItDoesNotKnowAsAWhole(t *testing.T) {
	b := withLedger(t, throttledArray(3, 6, 2))
	b.f.clock.Step(time.Hour)
	for i := range 6 {
		b.f.lasts[fmt.Sprintf("3_%d", i+1)] = 30 * time.Minute
	}
	b.f.jobs[0].AdminComment, b.f.jobs[0].Begin = slurm.Mark{Phase: slurm.Released}.String(), midnight.Add(9*time.Hour)
	b.until(9*time.Hour + 10*time.Minute)
	b.f.age = time.Minute
	b.restart()
	b.until(13 * time.Hour)
	if all := b.settled(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// TestHeldOutJobsRunAsSubmitted, and the ledger says which they are.
func TestHeldOutJobsRunAsSubmitted(t *testing.T) {
	var jobs []slurm.Job
	for i := range 40 {
		j := job(fmt.Sprint(100+i), "lull:max-delay=12h")
		j.Number, j.CPUs = 100+i, 0
		jobs = append(jobs, j)
	}
	b := withLedger(t, jobs...)
	b.f.cpus = 64
	b.f.clock.Step(time.Hour + time.Minute) // power is dirty
	b.c.o.Input.Config = &slurm.Config{HoldOut: 0.3}
	for i := range jobs {
		b.f.lasts[jobs[i].ID] = time.Hour
		b.f.jobs[i].Begin = midnight.Add(20 * time.Hour)
		b.f.jobs[i].AdminComment = slurm.Mark{Phase: slurm.Held, Begin: b.f.jobs[i].Begin}.String()
	}
	b.until(17 * time.Hour)
	out := 0
	all := b.settled()
	for name, s := range all {
		if at := s.From; s.Of.HeldOut != at.Before(midnight.Add(10*time.Hour)) {
			t.Errorf("job %s: held out %v, started %v", name, s.Of.HeldOut, at)
		}
		if s.Of.HeldOut {
			out++
		}
	}
	if len(all) != len(jobs) || out < 5 || out > 20 {
		t.Errorf("%d of %d held out, %d submitted", out, len(all), len(jobs))
	}
}

// TestLedgerTakesUnreadableLinesForJobs: while a line cannot be read, a job that is not listed may be that of the line.
func TestLedgerTakesUnreadableLinesForJobs(t *testing.T) {
	b := withLedger(t, job("1", "lull:max-delay=12h"))
	b.until(8*time.Hour + 10*time.Minute)
	hidden := b.f.jobs[0]
	b.f.jobs, b.f.bad = nil, []slurm.Bad{{Line: "1", Err: slurm.ErrLine}}
	b.until(8*time.Hour + 40*time.Minute)
	b.f.jobs, b.f.bad, b.f.lasts["1"] = []slurm.Job{hidden}, nil, time.Hour
	b.until(10 * time.Hour)
	all := b.settled()
	if s := all["1"]; s.Inferred != 0 || math.Abs(s.WorkerHours-1) > 1e-9 {
		t.Errorf("%+v", all)
	}
	if len(all) != 1 {
		t.Errorf("%d jobs", len(all))
	}
}
