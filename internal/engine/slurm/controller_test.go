package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
)

// fake is a Slurm that starts jobs at their begin times, by the clock of the test.
type fake struct {
	clock  *testclock.FakeClock
	jobs   []slurm.Job
	cpus   int
	failed error
	bad    []slurm.Bad
	// refuses is the job whose updates fail.
	refuses string
	// races is a job that has ended since it was observed, for updates.
	races string
	calls []string
	// lasts is how long jobs run that end; ended are those that have, which Slurm forgets after age (0: never).
	lasts map[string]time.Duration
	ended []slurm.Job
	age   time.Duration
	// grows is how many CPUs jobs get as they start, if not those that they asked for (--exclusive).
	grows map[string]int
	// records are what the accounting knows, or why it knows nothing.
	records []slurm.Job
	noEnds  error
	// readings are what Slurm has measured, or why it does not say; measured is when that was asked.
	readings   []slurm.Used
	noReadings error
	measured   []time.Time
	// asked is when the accounting was asked, and how long it had to answer.
	asked   []time.Time
	answers time.Duration
	// reserved are the licences that are reserved until then.
	reserved int
	// licences are how many there are of power; 0 for any number.
	licences           int
	until              time.Time
	refusesReservation error
	// refusesLicences says that no licences can be changed.
	refusesLicences bool
	// forgets is how many times more the licences of jobs cannot be read.
	forgets int
	// meanwhile happens before the throttles of arrays are read again; throttles are the arrays that were asked for.
	meanwhile func()
	throttles []int
}

func (f *fake) Throttles(_ context.Context, arrays []int) (map[int]int, error) {
	if f.meanwhile != nil {
		f.meanwhile()
	}
	f.throttles = append(f.throttles, arrays...)
	out := map[int]int{}
	for i := range f.jobs {
		if j := &f.jobs[i]; slices.Contains(arrays, j.Number) && j.Pending() && j.Tasks > 1 {
			out[j.Number] = j.Throttle
		}
	}
	return out, nil
}

func (f *fake) Ends(ctx context.Context, ids []string) ([]slurm.Job, error) {
	f.asked, f.answers = append(f.asked, f.clock.Now()), time.Hour
	if end, bounded := ctx.Deadline(); bounded {
		f.answers = time.Until(end)
	}
	if f.noEnds != nil {
		return nil, f.noEnds
	}
	var out []slurm.Job
	for i := range f.records {
		if slices.Contains(ids, f.records[i].ID) {
			out = append(out, f.records[i])
		}
	}
	return out, nil
}

func (f *fake) Energy(_ context.Context, ids []string) ([]slurm.Used, error) {
	f.measured = append(f.measured, f.clock.Now())
	if f.noReadings != nil {
		return nil, fmt.Errorf("question %d: %w", len(f.measured), f.noReadings)
	}
	return slices.DeleteFunc(slices.Clone(f.readings), func(u slurm.Used) bool { return !slices.Contains(ids, u.ID) }), nil
}

func (f *fake) Licences(context.Context, string) (int, error) { return 16, nil }

func (f *fake) LicencesOf(_ context.Context, ids []string) (map[string]string, error) {
	if f.meanwhile != nil {
		f.meanwhile()
	}
	if f.forgets--; f.forgets >= 0 {
		return nil, slurm.ErrCommand
	}
	out := map[string]string{}
	f.each(ids, func(j *slurm.Job) { out[j.ID] = j.Licences })
	return out, nil
}

func (f *fake) Reserved(context.Context, string) (slurm.Reservation, bool, error) {
	return slurm.Reservation{Count: f.reserved, Ends: f.until}, f.reserved > 0 && f.clock.Now().Before(f.until), nil
}

func (f *fake) Reserve(_ context.Context, licence string, count int, until time.Time) error {
	f.reserved, f.until = count, until
	f.calls = append(f.calls, fmt.Sprintf("reserve %s:%d", licence, count))
	return f.refusesReservation
}

func (f *fake) Check(context.Context) (slurm.About, error) { return slurm.About{}, nil }

func (f *fake) Observe(context.Context) (slurm.Queue, error) {
	if f.failed != nil {
		return slurm.Queue{}, f.failed
	}
	now := f.clock.Now()
	f.end(now)
	for f.split(now) {
	}
	for i := range f.jobs {
		if j := &f.jobs[i]; j.Pending() && !j.Held() && j.Tasks == 1 && f.lets(j) && f.licenses(j, now) && j.Reason != "Dependency" && !j.Begin.After(now) && f.used()+j.CPUs <= f.cpus {
			j.State, j.Reason, j.Node, j.Started = "RUNNING", "None", "n", maxTime(j.Begin, j.Submitted)
			if f.licences > 0 { // it may have waited for licences
				j.Started = now
			}
			if n := f.grows[j.ID]; n > 0 {
				j.CPUs = n
			}
			if j.Throttle > 0 { // others of its array had to end first
				j.Started, j.Throttle = now, 0
			}
		}
	}
	return slurm.Queue{Jobs: slices.Clone(f.jobs), Ended: slices.Clone(f.ended), Nodes: []slurm.Node{{Name: "n", CPUs: f.cpus, UsedCPUs: f.used()}}, Bad: f.bad}, nil
}

// lets reports whether the throttle of an array lets one more task run.
func (f *fake) lets(j *slurm.Job) bool {
	n := 0
	for i := range f.jobs {
		if f.jobs[i].Number == j.Number && !f.jobs[i].Pending() {
			n++
		}
	}
	return j.Throttle == 0 || n < j.Throttle
}

// split starts a task of an array, if one may start.
func (f *fake) split(now time.Time) bool {
	for i := range f.jobs {
		j := &f.jobs[i]
		if !j.Pending() || j.Held() || j.Tasks == 1 || j.Begin.After(now) || f.used()+j.CPUs > f.cpus {
			continue
		}
		if !f.lets(j) {
			j.Reason, j.Begin = "JobArrayTaskLimit", time.Time{} // as Slurm 22.05
			continue
		}
		var number, first, last int
		if _, err := fmt.Sscanf(j.ID, "%d_[%d-%d]", &number, &first, &last); err != nil {
			panic(err)
		}
		task := *j
		task.ID, task.Tasks, task.Throttle, task.State, task.Reason, task.Started = fmt.Sprintf("%d_%d", number, first), 1, 0, "RUNNING", "None", now
		if j.Tasks--; j.Tasks == 1 {
			j.ID = fmt.Sprintf("%d_%d", number, last)
		} else {
			j.ID = fmt.Sprintf("%d_[%d-%d]", number, first+1, last)
		}
		f.jobs = append(f.jobs, task)
		return true
	}
	return false
}

// end ends the jobs that have run for as long as they last.
func (f *fake) end(now time.Time) {
	f.jobs = slices.DeleteFunc(f.jobs, func(j slurm.Job) bool {
		lasts := f.lasts[j.ID]
		if lasts == 0 || j.State != "RUNNING" || now.Before(j.Started.Add(lasts)) {
			return false
		}
		j.State, j.Ended = "COMPLETED", j.Started.Add(lasts)
		f.ended = append(f.ended, j)
		return true
	})
	f.ended = slices.DeleteFunc(f.ended, func(j slurm.Job) bool { return f.age > 0 && now.Sub(j.Ended) > f.age })
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (f *fake) used() (n int) {
	for i := range f.jobs {
		if f.jobs[i].State == "RUNNING" {
			n += f.jobs[i].CPUs
		}
	}
	return n
}

func (f *fake) each(ids []string, do func(*slurm.Job)) {
	for i := range f.jobs {
		if slices.Contains(ids, f.jobs[i].ID) {
			do(&f.jobs[i])
		}
	}
}

func (f *fake) Update(_ context.Context, u slurm.Update) (err error) {
	f.calls = append(f.calls, "update "+strings.Join(u.IDs, ","))
	if f.races != "" && slices.Contains(u.IDs, f.races) {
		u.IDs = slices.DeleteFunc(slices.Clone(u.IDs), func(id string) bool { return id == f.races })
		defer func() { err = &slurm.RacedError{IDs: []string{f.races}} }()
	}
	if slices.Contains(u.IDs, f.refuses) || f.refusesLicences && u.Licences != "" {
		return slurm.ErrCommand
	}
	f.each(u.IDs, func(j *slurm.Job) {
		if u.Comment != "" {
			j.AdminComment = u.Comment
		}
		if u.Licences != "" && (u.Size == 0 || j.Pending()) {
			j.Licences = u.Licences
		}
		if u.Throttle != nil {
			j.Throttle = *u.Throttle
		}
		if u.Size > 0 && j.Pending() { // of one that has started, Slurm sets the AdminComment only
			j.Size, j.CPUs = u.Size, u.CPUs
		}
		switch {
		case u.Now:
			j.Begin = f.clock.Now()
		case !u.Begin.IsZero():
			if j.Begin = u.Begin; j.Reason != "Dependency" {
				j.Reason = "BeginTime"
			}
		}
	})
	return nil
}

func (f *fake) Requeue(_ context.Context, ids []string) error {
	f.calls = append(f.calls, "requeue "+strings.Join(ids, ","))
	f.each(ids, func(j *slurm.Job) {
		now := f.clock.Now()
		j.State, j.Reason, j.Submitted, j.Begin, j.Restarts = "PENDING", "BeginTime", now, now.Add(121*time.Second), j.Restarts+1
	})
	return nil
}

var midnight = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// setup returns a controller at 8:00 of a day whose power is clean from 8:00 to 9:00 and from 14:00 on.
func setup(t *testing.T, jobs ...slurm.Job) (*Controller, *fake, *bytes.Buffer) {
	t.Helper()
	var samples []carbon.Sample
	for h := range 48 {
		v := units.CarbonIntensity(500)
		if h == 8 || h >= 14 {
			v = 100
		}
		samples = append(samples, carbon.Sample{From: midnight.Add(time.Duration(h) * time.Hour), To: midnight.Add(time.Duration(h+1) * time.Hour), Value: v})
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "X", Basis: carbon.Measured}, samples)
	if err != nil {
		t.Fatal(err)
	}
	model, err := power.NewPerUnit(map[string]float64{"cpu": 3.5}, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{clock: testclock.NewFakeClock(midnight.Add(8 * time.Hour)), jobs: jobs, cpus: 8}
	log := &bytes.Buffer{}
	c, err := New(Options{
		Client: f, Planner: cheapest.Planner{}, Interval: 10 * time.Second, DecisionTime: time.Minute, Clock: f.clock, Log: slog.New(slog.NewTextHandler(log, nil)),
		Outlook: func(time.Time) source.Outlook { return source.Outlook{Outlook: carbon.Outlook{Expected: series}} },
		Input:   slurm.Input{Config: &slurm.Config{}, Zone: "X", Slot: 15 * time.Minute, Margin: 20 * time.Second, Power: model},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, f, log
}

func job(id, comment string) slurm.Job {
	at := midnight.Add(8 * time.Hour)
	return slurm.Job{ID: id, Number: int(id[0]), Tasks: 1, State: "PENDING", Reason: "Priority", Submitted: at, Begin: at, Limit: time.Hour, CPUs: 8, Requeue: true, Comment: comment}
}

func step(t *testing.T, c *Controller, f *fake, d time.Duration) {
	t.Helper()
	f.clock.Step(d)
	if _, err := c.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestJobsTakeTurnsInCleanHours: two jobs that fill the cluster; the second waits for the next clean hours.
func TestJobsTakeTurnsInCleanHours(t *testing.T) {
	c, f, _ := setup(t, job("1", "lull:max-delay=12h"), job("2", "lull:max-delay=12h"))
	f.cpus = 0 // nothing starts before the first look
	if _, err := f.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.cpus = 8
	f.jobs[1].Begin = f.jobs[1].Begin.Add(time.Second) // Slurm starts the first one
	f.jobs[1].AdminComment = slurm.Mark{Phase: slurm.Held, Begin: f.jobs[1].Begin}.String()
	step(t, c, f, 0)
	if f.jobs[0].State != "RUNNING" || f.jobs[1].Begin.Hour() != 14 {
		t.Fatalf("%+v\n%+v", f.jobs[0], f.jobs[1])
	}
	calls := len(f.calls)
	for range 5 { // plans stand: nothing is changed
		step(t, c, f, 10*time.Second)
	}
	if len(f.calls) != calls {
		t.Errorf("changed again: %v", f.calls[calls:])
	}
	f.jobs = f.jobs[1:]
	f.clock.SetTime(midnight.Add(14 * time.Hour))
	step(t, c, f, 0)
	if f.jobs[0].State != "RUNNING" || slurm.ReadMark(f.jobs[0].AdminComment).Phase != slurm.Released {
		t.Errorf("%+v", f.jobs[0])
	}
}

// TestAPausedJobGoesOnWithWhatIsLeft over a restart of Lull in the middle of the pause.
func TestAPausedJobGoesOnWithWhatIsLeft(t *testing.T) {
	j := job("1", "lull:max-delay=12h,runtime=2h,interruptible")
	c, f, _ := setup(t, j)
	step(t, c, f, 0)
	if f.jobs[0].State != "RUNNING" {
		t.Fatalf("%+v", f.jobs[0])
	}
	step(t, c, f, time.Hour)
	if i := slices.Index(f.calls, "requeue 1"); i < 1 || f.calls[i-1] != "update 1" || f.jobs[0].State != "PENDING" {
		t.Fatalf("calls %v, %+v", f.calls, f.jobs[0])
	}
	again, _, _ := setup(t)
	again.o.Client, again.o.Clock = f, f.clock
	step(t, again, f, 5*time.Second)
	m := slurm.ReadMark(f.jobs[0].AdminComment)
	if m.Phase != slurm.Paused || m.Done != time.Hour || f.jobs[0].Begin.Hour() != 14 {
		t.Errorf("%+v, begins %v", m, f.jobs[0].Begin)
	}
}

// TestAPlannerThatFailsHoldsNothing: all jobs run, and the log says why.
func TestAPlannerThatFailsHoldsNothing(t *testing.T) {
	j := job("1", "lull:max-delay=12h")
	j.Begin = j.Submitted.Add(time.Hour)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
	c, f, log := setup(t, j)
	f.clock.SetTime(midnight.Add(8*time.Hour + 10*time.Minute))
	c.o.Planner = failing{}
	step(t, c, f, 0)
	if f.jobs[0].Begin.After(f.clock.Now()) || !strings.Contains(log.String(), "The planner failed") {
		t.Errorf("%+v\n%s", f.jobs[0], log)
	}
}

// TestAPlannerThatTakesTooLongIsReplaced for that decision.
func TestAPlannerThatTakesTooLongIsReplaced(t *testing.T) {
	j := job("1", "lull:max-delay=12h")
	j.Begin = j.Submitted.Add(time.Hour)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
	c, f, log := setup(t, j)
	f.clock.SetTime(midnight.Add(8*time.Hour + 10*time.Minute))
	c.o.Planner, c.o.Substitute, c.o.DecisionTime = slow{}, cheapest.Planner{}, 10*time.Millisecond
	step(t, c, f, 0)
	if f.jobs[0].Begin.Hour() != 14 || !strings.Contains(log.String(), "takes too long") {
		t.Errorf("%+v\n%s", f.jobs[0], log)
	}
}

type slow struct{ cheapest.Planner }

func (slow) Plan(ctx context.Context, _ *plan.Problem) (plan.Result, error) {
	<-ctx.Done()
	return plan.Result{}, ctx.Err()
}

type failing struct{ cheapest.Planner }

func (failing) Plan(context.Context, *plan.Problem) (plan.Result, error) {
	return plan.Result{}, errors.New("no")
}

// TestSlurmThatDoesNotAnswerIsTriedAgain: the controller goes on when it answers.
func TestSlurmThatDoesNotAnswerIsTriedAgain(t *testing.T) {
	c, f, log := setup(t, job("1", "lull:max-delay=12h"))
	f.failed = slurm.ErrCommand
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	for !f.clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	f.failed = nil // the controller waits
	f.clock.Step(10 * time.Second)
	for !f.clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil || !strings.Contains(log.String(), "Reconciling failed") || len(f.calls) == 0 {
		t.Errorf("%v, calls %v\n%s", err, f.calls, log)
	}
}

// TestApplyingStopsAtTheFirstError, after the releases; what failed goes last in the next round.
func TestApplyingStopsAtTheFirstError(t *testing.T) {
	c, f, _ := setup(t)
	f.refuses = "2"
	round := func() string {
		f.calls = nil
		changes := slurm.Changes{
			Updates: []slurm.Update{{IDs: []string{"1"}, Now: true}, {IDs: []string{"2"}}, {IDs: []string{"3"}}},
			Pauses:  []slurm.Update{{IDs: []string{"4"}}},
		}
		if err := c.apply(t.Context(), &slurm.View{}, &changes, map[string]bool{}); !errors.Is(err, slurm.ErrCommand) {
			t.Errorf("%v", err)
		}
		return strings.Join(f.calls, ", ")
	}
	if got := round(); got != "update 1, update 2" {
		t.Error(got)
	}
	if got := round(); got != "update 1, update 3, update 2" {
		t.Error(got)
	}
}

// TestLinesOfAnotherFormAreAnError in the log, each time, until the answers can be read again.
func TestLinesOfAnotherFormAreAnError(t *testing.T) {
	c, f, log := setup(t)
	f.bad = []slurm.Bad{{Line: "7", Err: slurm.ErrLine}}
	step(t, c, f, 0)
	step(t, c, f, time.Second)
	if n := strings.Count(log.String(), "level=ERROR msg=\"Slurm answers in another form"); n != 2 {
		t.Errorf("%d errors\n%s", n, log)
	}
}

// TestADryRunChangesNothing, and says what would be.
func TestADryRunChangesNothing(t *testing.T) {
	j := job("1", "lull:max-delay=12h")
	j.Begin = j.Submitted.Add(2 * time.Hour)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
	c, f, log := setup(t, j)
	c.o.DryRun = true
	step(t, c, f, 0)
	if len(f.calls) > 0 || !strings.Contains(log.String(), "Would change jobs") {
		t.Errorf("calls %v\n%s", f.calls, log)
	}
}
