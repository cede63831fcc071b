package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// again is a controller that starts after another one has ended, on the same Slurm.
func again(t *testing.T, f *fake) *Controller {
	t.Helper()
	c, other, _ := setup(t)
	c.o.Client, c.o.Clock = f, f.clock
	other.clock = f.clock
	f.calls = nil
	return c
}

// begins are the begin times of the jobs, by number.
func begins(f *fake) map[string]time.Time {
	out := map[string]time.Time{}
	for i := range f.jobs {
		out[f.jobs[i].ID] = f.jobs[i].Begin
	}
	return out
}

// TestPlansOutliveTheController: two jobs that each fill the cluster wait for clean hours, one after the other. A node comes back, so that both would have
// room in the first of these hours. As without a restart, a new controller follows the plans that stand, and changes no job.
func TestPlansOutliveTheController(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		c, f, _ := setup(t, held("1"), held("2"))
		for i := range f.jobs {
			f.jobs[i].CPUs = 8
		}
		f.clock.SetTime(midnight.Add(9*time.Hour + time.Minute)) // after the clean hour
		for i := range f.jobs {
			f.jobs[i].Submitted, f.jobs[i].Begin = f.clock.Now(), f.clock.Now().Add(2*time.Minute)
			f.jobs[i].AdminComment = slurm.Mark{Phase: slurm.Held, Begin: f.jobs[i].Begin}.String()
		}
		step(t, c, f, time.Second)
		planned := begins(f)
		if apart := planned["2"].Sub(planned["1"]); apart != time.Hour || planned["1"].Before(midnight.Add(14*time.Hour)) {
			t.Fatalf("planned at %v; want one hour after the other, from 14:00 on", planned)
		}
		f.calls, f.cpus = nil, 16
		if restarts {
			c = again(t, f)
		}
		for range 3 {
			step(t, c, f, time.Minute)
		}
		if got := begins(f); !got["1"].Equal(planned["1"]) || !got["2"].Equal(planned["2"]) || len(f.calls) > 0 {
			t.Errorf("restart %v: planned at %v, then at %v; changes %v; want none", restarts, planned, got, f.calls)
		}
		// The plan that was kept is carried out.
		step(t, c, f, planned["1"].Sub(f.clock.Now()))
		step(t, c, f, time.Second)
		if !slices.ContainsFunc(f.jobs, func(j slurm.Job) bool { return j.ID == "1" && j.State == "RUNNING" }) {
			t.Errorf("restart %v: %+v", restarts, f.jobs)
		}
	}
}

// TestPlansThatDoNotHoldAreMadeAnew by the next controller: the latest start of a job without a plan, the begin time of job_submit.lua, and plans that their user
// has changed the basis of.
func TestPlansThatDoNotHoldAreMadeAnew(t *testing.T) {
	at := midnight.Add(9*time.Hour + time.Minute)
	for name, change := range map[string]func(*slurm.Job){
		"held by job_submit.lua": func(j *slurm.Job) {
			j.Begin = at.Add(2 * time.Minute)
			j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Text: "waits for the plan of Lull; starts by 2026-06-01T09:03Z at the latest without one"}.String()
		},
		"at its latest start": func(j *slurm.Job) {
			j.Begin = j.Submitted.Add(12 * time.Hour)
			j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Text: "waits until 2026-06-01T21:01Z by its plan; starts by 2026-06-01T21:01Z at the latest"}.String()
		},
		"past a deadline that is new": func(j *slurm.Job) {
			j.Begin, j.Comment = midnight.Add(20*time.Hour), "lull:max-delay=8h"
			j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Text: "waits until 2026-06-01T20:00Z for cleaner power; starts by 2026-06-01T21:01Z at the latest"}.String()
		},
	} {
		j := held("1")
		j.Submitted = at
		change(&j)
		c, f, _ := setup(t, j)
		f.clock.SetTime(at)
		step(t, c, f, time.Second)
		late := f.jobs[0].Begin.Sub(midnight.Add(14 * time.Hour))
		if late < 0 || late > 15*time.Minute || !strings.Contains(f.jobs[0].AdminComment, "for cleaner power") {
			t.Errorf("%s: begin %v, %s; want a plan for 14:00", name, f.jobs[0].Begin, f.jobs[0].AdminComment)
		}
	}
}
