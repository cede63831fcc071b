package slurm

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
)

// sizing is a job of 8 tasks of a CPU and two hours, which may have two tasks, and takes two minutes to start again.
func sizing() slurm.Job {
	j := job("1", "lull:max-delay=10h,runtime=2h,interruptible,min-tasks=2,restart=2m")
	j.Size, j.Nodes, j.Limit = 8, 1, 24*time.Hour
	return j
}

// TestSizeFollowsThePlan: a job runs with two of its tasks while another one leaves it no more room. As soon as that has ended, it is stopped and goes on with all
// of them, to end in time. Each step may be the last one of a controller: the next goes on.
func TestSizeFollowsThePlan(t *testing.T) {
	for dies := range 3 {
		j := sizing()
		now := midnight.Add(9 * time.Hour)
		j.Comment = "lull:max-delay=5h,runtime=3h,interruptible,min-tasks=2,restart=2m"
		j.Size, j.CPUs, j.State, j.Submitted, j.Begin, j.Started = 2, 2, "RUNNING", midnight.Add(8*time.Hour), now, now
		j.AdminComment = slurm.Mark{Phase: slurm.Released, Begin: now, Size: 2, User: 8, Each: 1}.String()
		other := job("9", "")
		other.CPUs, other.State, other.Started = 6, "RUNNING", midnight.Add(8*time.Hour)
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
		if len(seen) < 2 || !strings.HasPrefix(seen[0], "13:") || strings.Contains(seen[1], "size 2") || !strings.HasSuffix(seen[1], "restarts 1") {
			t.Errorf("%v; want it to stop at 13:00, and to go on with more tasks", seen)
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
	if got := s.Of.Request["cpu"]; got != 8 || math.Abs(s.Of.Watts-28) > 1e-9 {
		t.Errorf("as submitted, %v CPUs and %v W; want 8 and 28", got, s.Of.Watts)
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
