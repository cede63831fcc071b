package slurm

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
)

// sizing is a job of 8 tasks of a CPU and two hours, which may have two tasks, and takes two minutes to start again.
func sizing() slurm.Job {
	j := job("1", "lull:max-delay=10h,runtime=2h,interruptible,min-tasks=2,restart=2m")
	j.Size, j.Nodes, j.Limit = 8, 1, 24*time.Hour
	return j
}

// besideAnother returns a job that has begun to run, with two of its eight tasks, another one that runs on the other six CPUs, and the time.
func besideAnother() (j, other slurm.Job, now time.Time) {
	j, other, now = sizing(), job("9", ""), midnight.Add(9*time.Hour)
	j.Comment = "lull:max-delay=5h,runtime=3h,interruptible,min-tasks=2,restart=2m"
	j.Size, j.CPUs, j.State, j.Node, j.Submitted, j.Begin, j.Started = 2, 2, "RUNNING", "n", midnight.Add(8*time.Hour), now, now
	j.AdminComment = slurm.Mark{Phase: slurm.Released, Begin: now, Size: 2, User: 8, Each: 1}.String()
	other.CPUs, other.State, other.Started = 6, "RUNNING", midnight.Add(8*time.Hour)
	return j, other, now
}

// TestSizeFollowsThePlan: a job runs with two of its tasks, until 13:00 as another one leaves it no more room. When power becomes clean, at 14:00, it is stopped and goes
// on with all of them, to end in time. Each step may be the last one of a controller: the next goes on.
func TestSizeFollowsThePlan(t *testing.T) {
	for dies := range 3 {
		j, other, now := besideAnother()
		_, f, log := setup(t, j, other)
		f.lasts = map[string]time.Duration{"9": 5 * time.Hour}
		f.clock.SetTime(now)
		starts := func() *Controller {
			c, _, _ := setup(t)
			c.o.Client, c.o.Clock, c.o.Planner = f, f.clock, plan.ForSequence(joint.Planner{Effort: 0.02})
			return c
		}
		c, killed, seen := starts(), false, []string(nil)
		var before slurm.Job
		for f.clock.Now().Before(midnight.Add(14*time.Hour + 30*time.Minute)) {
			var client slurm.Client = f
			if !killed && len(seen) == 0 && dies > 0 && !f.clock.Now().Before(midnight.Add(13*time.Hour)) {
				client = &mortal{f, dies, nil} // between the mark and the requeue, or between the requeue and the size
			}
			c.o.Client = client
			_, err := c.Reconcile(t.Context())
			if err != nil && client != slurm.Client(f) {
				killed = true
				f.clock.Step(10 * time.Minute)
				c = starts()
			}
			at := f.jobs[0]
			if at.Size != before.Size || at.Restarts != before.Restarts {
				seen = append(seen, fmt.Sprintf("%s size %d restarts %d", f.clock.Now().Format("15:04"), at.Size, at.Restarts))
				if before.Size == 0 {
					seen = nil
				}
			}
			before = at
			f.clock.Step(time.Minute)
		}
		at := f.jobs[0]
		if at.Size != 8 || at.CPUs != 8 || at.State != "RUNNING" || at.Restarts < 1 || at.Restarts > 2 || at.Started.Before(midnight.Add(13*time.Hour)) {
			t.Errorf("killed after %d changes: %+v; %v\n%s", dies, at, seen, log)
		}
		if len(seen) < 2 || !strings.HasPrefix(seen[0], "14:") || strings.Contains(seen[1], "size 2") || !strings.HasSuffix(seen[1], "restarts 1") {
			t.Errorf("%v; want it to stop at 14:00, and to go on with more tasks", seen)
		}
		if done := slurm.ReadMark(at.AdminComment).Done; at.Started.Add(2*time.Minute + 3*time.Hour - done).After(midnight.Add(16 * time.Hour)) {
			t.Errorf("it goes on at %v, with %v done; want it to end by 16:00", at.Started, done)
		}
		if m := slurm.ReadMark(at.AdminComment); m.Done < 58*time.Minute || m.Done > 85*time.Minute {
			t.Errorf("%v count as done; want a quarter of four hours and more: %s; %v", m.Done, at.AdminComment, seen)
		}
	}
}

// TestLedgerCountsEachRunWithItsTasks: an hour with two CPUs and an hour with eight. As submitted, all of it has eight.
func TestLedgerCountsEachRunWithItsTasks(t *testing.T) {
	j := sizing()
	j.Comment = "lull:max-delay=1m,runtime=2h"
	j.Size, j.CPUs = 2, 2
	j.Begin = midnight.Add(8 * time.Hour)
	j.AdminComment = slurm.Mark{Phase: slurm.Released, Begin: j.Begin, Size: 2, User: 8, Each: 1}.String()
	b := withLedger(t, j)
	b.until(9 * time.Hour)
	if err := b.f.Requeue(t.Context(), []string{"1"}); err != nil {
		t.Fatal(err)
	}
	now := b.f.clock.Now()
	b.f.jobs[0].Size, b.f.jobs[0].CPUs, b.f.jobs[0].Begin, b.f.jobs[0].Started = 8, 8, now, time.Time{}
	b.f.jobs[0].AdminComment = slurm.Mark{Phase: slurm.Released, Begin: now, Since: j.Submitted, Done: 15 * time.Minute, Size: 8, User: 8, Each: 1}.String()
	b.f.lasts["1"] = time.Hour
	b.until(10*time.Hour + 30*time.Minute)
	s := b.settled()["1"]
	if want := (2 + 8) * 3.5 / 1000; math.Abs(s.KWh-want) > 1e-6 || s.Runs != 2 {
		t.Errorf("%v kWh in %d runs; want %v in 2: %+v", s.KWh, s.Runs, want, s)
	}
	if of := s.Of; of.Workers != 8 || of.Request["cpu"] != 1 || math.Abs(of.Watts-3.5) > 1e-9 || of.AsRun {
		t.Errorf("as submitted, %d workers of %v CPUs and %v W; want 8 of 1 and 3.5", of.Workers, of.Request["cpu"], of.Watts)
	}
}

// TestExplainSaysTheSize of a job that has fewer tasks than its user asked for.
func TestExplainSaysTheSize(t *testing.T) {
	j := sizing()
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin.Add(2 * time.Minute)}.String()
	j.Begin = j.Begin.Add(2 * time.Minute)
	c, f, _ := setup(t, j)
	f.clock.SetTime(midnight.Add(8*time.Hour + time.Minute))
	in := c.o.Input
	in.Now, in.Queue = f.clock.Now(), slurm.Queue{Jobs: f.jobs, Nodes: []slurm.Node{{Name: "n", CPUs: 8}}}
	f.jobs[0].Size, f.jobs[0].CPUs = 2, 2
	f.jobs[0].AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Text: "waits until 2026-06-01T08:02Z for cleaner power; starts by 2026-06-01T18:00Z at the latest, with 2 of its 8 tasks", Size: 2, User: 8, Each: 1}.String()
	view := slurm.Observe(in)
	x := view.Explain("1", in.Now)
	if len(x) != 1 || x[0].Size != 2 || x[0].UserSize != 8 || !strings.Contains(x[0].Message, "with 2 of its 8 tasks") {
		t.Errorf("%+v", x)
	}
}

// TestALookFollowsARequeue: 121 s after a requeue, Slurm starts a job by itself. So the next look comes before that, whatever the interval, also for a job whose number of
// tasks is its own.
func TestALookFollowsARequeue(t *testing.T) {
	j := job("1", "lull:max-delay=10h,runtime=2h,interruptible")
	j.State, j.Node, j.Started, j.Begin = "RUNNING", "n", midnight.Add(8*time.Hour), midnight.Add(8*time.Hour)
	j.AdminComment = slurm.Mark{Phase: slurm.Released, Begin: j.Begin}.String()
	c, f, _ := setup(t, j)
	c.o.Interval = 10 * time.Minute
	paused := time.Time{}
	for f.clock.Now().Before(midnight.Add(13 * time.Hour)) {
		wake, err := c.Reconcile(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := &f.jobs[0]
		switch {
		case at.Restarts == 1 && paused.IsZero():
			if paused = f.clock.Now(); wake.Sub(paused) > 2*time.Minute {
				t.Errorf("the next look is %v after the requeue; Slurm starts the job after 121 s", wake.Sub(paused))
			}
		case at.Restarts > 1 || !paused.IsZero() && !at.Pending():
			t.Fatalf("it runs at %v: %+v", f.clock.Now(), at)
		}
		f.clock.SetTime(minTime(f.clock.Now().Add(c.o.Interval), wake))
	}
	if paused.IsZero() {
		t.Error("it was not paused: this tests nothing")
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// TestPowerThatBecomesCleanMakesAJobLarger: a job runs with few tasks while power is dirty. A new forecast says that it is clean for some hours: the job is requeued, once,
// and goes on with more.
func TestPowerThatBecomesCleanMakesAJobLarger(t *testing.T) {
	dirty, clean := map[int]units.CarbonIntensity{}, map[int]units.CarbonIntensity{}
	for h := range 48 {
		dirty[h], clean[h] = 500, 500
		if h >= 9 && h < 13 {
			clean[h] = 100
		}
	}
	j := sizing()
	j.Comment = "lull:max-delay=10h,runtime=3h,interruptible,min-tasks=2,restart=2m,parallel=0.9"
	c, f, log := setup(t, j)
	c.o.Planner = plan.ForSequence(joint.Planner{Effort: 0.02})
	f.clock.SetTime(midnight.Add(8 * time.Hour))
	out := hourly(t, carbon.LiveForecast, midnight.Add(8*time.Hour), dirty)
	c.o.Outlook = func(time.Time) source.Outlook { return out }
	before := slurm.Job{}
	for ; f.clock.Now().Before(midnight.Add(11 * time.Hour)); f.clock.Step(20 * time.Second) {
		if f.clock.Now().Equal(midnight.Add(9 * time.Hour)) {
			before = f.jobs[0]
			out = hourly(t, carbon.LiveForecast, midnight.Add(9*time.Hour), clean)
		}
		if _, err := c.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	at := f.jobs[0]
	if before.State != "RUNNING" || before.Size != 2 || at.State != "RUNNING" || at.Size <= 2 || at.Restarts != before.Restarts+1 {
		t.Errorf("before: %+v\nafter: %+v\n%s", before, at, log)
	}
}
