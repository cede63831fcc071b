package slurm

import (
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
)

// TestNoMoreTasksThanLicencesThatAnOperatorLeaves: a job runs with two tasks and two licences, and power becomes clean. An operator leaves no more licences, so with more tasks
// the job would wait in the queue: it runs on with two. Once the operator deletes the reservation, it is requeued for more.
func TestNoMoreTasksThanLicencesThatAnOperatorLeaves(t *testing.T) {
	hours := map[int]units.CarbonIntensity{}
	for h := range 48 {
		if hours[h] = 500; h >= 9 && h < 13 {
			hours[h] = 100
		}
	}
	dirty := map[int]units.CarbonIntensity{}
	for h := range 48 {
		dirty[h] = 500
	}
	j := sizingWithin()
	j.Comment = "lull:max-delay=10h,runtime=3h,interruptible,min-tasks=2,restart=2m,parallel=0.9"
	c, f, log := setup(t, j)
	f.licences = 16
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "24:00", Capacity: "8"}}}, "")
	out := hourly(t, carbon.LiveForecast, midnight.Add(8*time.Hour), dirty)
	c.o.Planner = plan.ForSequence(joint.Planner{Effort: 0.02})
	c.o.Outlook = func(time.Time) source.Outlook { return out }
	until := func(hour, minute int) {
		for ; f.clock.Now().Before(clockAt(hour, minute)); f.clock.Step(20 * time.Second) {
			step(t, c, f, 0)
		}
	}
	until(8, 30)
	if at := f.jobs[0]; at.State != "RUNNING" || at.Size != 2 {
		t.Fatalf("%+v\n%s", at, log)
	}
	f.reserved = 14
	until(8, 50)
	out = hourly(t, carbon.LiveForecast, midnight.Add(9*time.Hour), hours)
	until(9, 40)
	if at := f.jobs[0]; at.State != "RUNNING" || at.Size != 2 || at.Restarts > 0 || f.reserved != 14 {
		t.Errorf("while an operator reserves the licences: %+v\n%s", at, log)
	}
	f.reserved = 0
	until(10, 30)
	if at := f.jobs[0]; at.State != "RUNNING" || at.Size <= 2 {
		t.Errorf("after the reservation was deleted: %+v\n%s", at, log)
	}
}
