package slurm

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// sizingWithin is a job of 8 tasks that may have two, with a licence for each CPU, that job_submit.lua holds.
func sizingWithin() slurm.Job {
	j := sizing()
	j.Licences, j.Begin = "matlab:1,power:8", j.Begin.Add(2*time.Minute)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Licences: 8, Text: "waits for the plan of Lull"}.String()
	return j
}

// scheduled are two licences until 14:00, and then eight.
var scheduled = v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "14:00", Capacity: "2"}, {From: "14:00", To: "24:00", Capacity: "8"}}}

// halfway is a Slurm that refuses a number of tasks, and changes the licences and the AdminComment all the same.
type halfway struct{ *fake }

func (h halfway) Update(ctx context.Context, u slurm.Update) error {
	if u.Size > 0 {
		_ = h.fake.Update(ctx, slurm.Update{IDs: u.IDs, Comment: u.Comment, Licences: u.Licences})
		return fmt.Errorf("%w: scontrol update: Job violates accounting/QOS policy", slurm.ErrCommand)
	}
	return h.fake.Update(ctx, u)
}

// TestARefusedSizeIsNotHalfApplied: the job keeps its tasks and its licences, and the mark says so.
func TestARefusedSizeIsNotHalfApplied(t *testing.T) {
	c, f, log := setup(t, sizingWithin())
	withCapacity(t, c, scheduled, "")
	c.o.Client, c.o.Planner = halfway{f}, plan.ForSequence(joint.Planner{Effort: 0.02})
	for range 5 {
		step(t, c, f, time.Minute)
	}
	at := f.jobs[0]
	if m := slurm.ReadMark(at.AdminComment); at.Size != 8 || at.CPUs != 8 || at.Licences != "matlab:1,power:8" || m.Kept != slurm.RefusedSize || m.Licences != 8 {
		t.Errorf("%+v\n%s", at, log)
	}
}

// TestLicencesThatAnOperatorLowersDuringADecisionStay, and the job is left as it is until the next look, which sees them, and sizes it no more.
func TestLicencesThatAnOperatorLowersDuringADecisionStay(t *testing.T) {
	c, f, log := setup(t, sizingWithin())
	withCapacity(t, c, scheduled, "")
	c.o.Planner = plan.ForSequence(joint.Planner{Effort: 0.02})
	lowered := false
	f.meanwhile = func() {
		if !lowered {
			lowered, f.jobs[0].Licences = true, "matlab:1,power:3"
		}
	}
	for range 10 {
		step(t, c, f, time.Minute)
		if at := f.jobs[0]; lowered && (at.Licences != "matlab:1,power:3" || at.Size != 8 || at.CPUs != 8) {
			t.Fatalf("%+v\n%s", at, log)
		}
	}
	if !lowered {
		t.Error("no licences were to be changed: this tests nothing")
	}
}

// learned is a file of what carbonFlex has seen in two weeks: a job that scales each hour.
func learned(t *testing.T) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "capacity")
	var past []curve.Past
	for h := range 14 * 24 {
		past = append(past, curve.Past{
			ID: fmt.Sprint(h), Kind: workload.Elastic, Submitted: midnight.Add(time.Duration(h-14*24) * time.Hour), Delay: 12 * time.Hour, Hours: 1,
			Request: map[string]float64{slurm.LicenceResource: 1}, MinWorkers: 2, Curve: []float64{2, 1, 1, 1, 1, 1, 1},
		})
	}
	if err := curve.SeedFile(state, past); err != nil {
		t.Fatal(err)
	}
	return state
}

// TestCarbonFlexSizesJobs: Algorithm 2 sets the capacity, and Algorithm 3 the number of tasks within it. While power is dirty, at 10:00, a job gets two of its tasks, and two
// licences; when it is clean, at 14:00, more. It never has more CPUs than licences, or fewer, whenever the controller is killed.
func TestCarbonFlexSizesJobs(t *testing.T) {
	state, two := learned(t), v1alpha1.Amount("2")
	first := map[int]int{}
	for _, hour := range []int{10, 14} {
		for dies := range 4 {
			j := sizingWithin()
			j.Comment = "lull:max-delay=20h,runtime=2h,interruptible,min-tasks=2,restart=2m"
			j.Submitted = midnight.Add(time.Duration(hour) * time.Hour)
			j.Begin = j.Submitted.Add(2 * time.Minute)
			j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Licences: 8, Text: "waits for the plan of Lull"}.String()
			_, f, log := setup(t, j)
			f.licences = 16
			f.clock.SetTime(j.Submitted)
			starts := func() *Controller {
				c, _, of := setup(t)
				log = of
				withCapacity(t, c, v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}, state)
				local, err := curve.NewLocal("slurm", v1alpha1.CapacityCurveSpec{Resource: slurm.LicenceResource, Maximum: "8", Minimum: &two, Method: v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}}, state, c.o.Log)
				if err != nil {
					t.Fatal(err)
				}
				c.o.Capacity.Curve, c.o.Capacity.Planner = local, true
				c.o.Client, c.o.Clock, c.o.Interval = f, f.clock, time.Minute
				return c
			}
			c := starts()
			if hour == 10 && dies == 0 { // what it learns counts from the next controller on
				c.o.DryRun = true
				for end := time.Now().Add(5 * time.Minute); !strings.Contains(log.String(), "Learned"); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("nothing is learned: %s", log)
					}
					step(t, c, f, 0)
				}
				step(t, c, f, 0) // keeps it
				c = starts()
			}
			if dies > 0 {
				c.o.Client = &mortal{f, dies - 1, nil}
			}
			size := 0
			for ; f.clock.Now().Before(j.Submitted.Add(4 * time.Hour)); f.clock.Step(time.Minute) {
				if _, err := c.Reconcile(t.Context()); err != nil {
					if dies == 0 || c.o.Client == slurm.Client(f) {
						t.Fatal(err)
					}
					f.clock.Step(time.Minute)
					c = starts()
				}
				at := f.jobs[0]
				if at.CPUs != licensesOf(&at) || at.CPUs != at.Size || !strings.HasPrefix(at.Licences, "matlab:1,") {
					t.Fatalf("%v: %d tasks with %d CPUs and %s\n%s", f.clock.Now(), at.Size, at.CPUs, at.Licences, log)
				}
				if size == 0 && at.State == "RUNNING" {
					size = at.Size
				}
			}
			if first[hour] == 0 {
				first[hour] = size
			}
			if want := map[int]bool{10: size == 2, 14: size > 2}[hour]; !want {
				t.Errorf("%d:00, killed after %d changes: it begins with %d tasks; want 2 at 10:00, and more at 14:00: %+v\n%s", hour, dies, size, f.jobs[0], log)
			}
		}
	}
	t.Logf("tasks with which it begins, by the hour: %v", first)
}

// TestSizesHaveTheirLicencesAtTheirLatestStart: there are two licences until the evening, and a job of eight tasks and three hours must begin within an hour. It gets all of its
// licences in time, and ends by its deadline.
func TestSizesHaveTheirLicencesAtTheirLatestStart(t *testing.T) {
	j := sizingWithin()
	j.Comment = "lull:max-delay=1h,runtime=3h,interruptible,min-tasks=2,restart=2m"
	c, f, log := setup(t, j)
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "20:00", Capacity: "2"}, {From: "20:00", To: "24:00", Capacity: "8"}}}, "")
	c.o.Planner = plan.ForSequence(joint.Planner{Effort: 0.02})
	f.licences = 16
	for ; f.jobs[0].Pending(); f.clock.Step(20 * time.Second) {
		if _, err := c.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at := f.jobs[0]; at.CPUs != licensesOf(&at) || f.clock.Now().After(midnight.Add(12*time.Hour)) {
			t.Fatalf("%v: %+v\n%s", f.clock.Now(), at, log)
		}
	}
	at := f.jobs[0]
	if ends := at.Started.Add(3 * time.Hour * 8 / time.Duration(at.Size)); ends.After(midnight.Add(12*time.Hour + time.Minute)) {
		t.Errorf("it begins at %v with %d tasks, and ends at %v; want by 12:00: %+v\n%s", at.Started, at.Size, ends, at, log)
	}
}

// TestARequeueForMoreTasksTakesTheirLicences: a job runs with few tasks while power is dirty. Power becomes clean: the job is requeued, and has its new number of tasks and
// its licences before it is released, whichever change is the last one of a controller.
func TestARequeueForMoreTasksTakesTheirLicences(t *testing.T) {
	dirty, clean := map[int]units.CarbonIntensity{}, map[int]units.CarbonIntensity{}
	for h := range 48 {
		dirty[h], clean[h] = 500, 500
		if h >= 9 && h < 13 {
			clean[h] = 100
		}
	}
	for dies := range 4 {
		j := sizingWithin()
		j.Comment = "lull:max-delay=10h,runtime=3h,interruptible,min-tasks=2,restart=2m,parallel=0.9"
		_, f, _ := setup(t, j)
		f.licences = 16
		out := hourly(t, carbon.LiveForecast, midnight.Add(8*time.Hour), dirty)
		starts := func() *Controller {
			c, _, _ := setup(t)
			withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "24:00", Capacity: "8"}}}, "")
			c.o.Client, c.o.Clock, c.o.Planner = f, f.clock, plan.ForSequence(joint.Planner{Effort: 0.02})
			c.o.Outlook = func(time.Time) source.Outlook { return out }
			return c
		}
		c := starts()
		before := slurm.Job{}
		for ; f.clock.Now().Before(midnight.Add(11 * time.Hour)); f.clock.Step(20 * time.Second) {
			if f.clock.Now().Equal(midnight.Add(9 * time.Hour)) {
				before = f.jobs[0]
				out = hourly(t, carbon.LiveForecast, midnight.Add(9*time.Hour), clean)
				if dies > 0 {
					c.o.Client = &mortal{f, dies - 1, nil}
				}
			}
			if _, err := c.Reconcile(t.Context()); err != nil {
				if dies == 0 || c.o.Client == slurm.Client(f) {
					t.Fatal(err)
				}
				c = starts()
			}
			if at := f.jobs[0]; at.CPUs != licensesOf(&at) || at.CPUs != at.Size {
				t.Fatalf("%v: %d tasks with %d CPUs and %s", f.clock.Now(), at.Size, at.CPUs, at.Licences)
			}
		}
		at := f.jobs[0]
		if before.State != "RUNNING" || before.Size != 2 || at.State != "RUNNING" || at.Size <= 2 || at.Restarts <= before.Restarts {
			t.Errorf("killed after %d changes: before: %+v\nafter: %+v", dies, before, at)
		}
	}
}
