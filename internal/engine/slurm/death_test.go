package slurm

import (
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
)

// TestTheDeathOfTheControllerMakesNoJobLate: whenever Lull stops, the reservation has ended by the latest start of a job, or leaves it its licences. The
// latest start is in the next slot, which has capacity.
func TestTheDeathOfTheControllerMakesNoJobLate(t *testing.T) {
	j := held("1")
	j.Comment = "lull:max-delay=63m"
	latest := j.Submitted.Add(63*time.Minute - 20*time.Second)
	c, f, _ := setup(t, j)
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "09:00", To: "20:00", Capacity: "8"}}}, "")
	longest, reservedAll := time.Duration(0), false
	for now := clockAt(8, 0); now.Before(latest); now = now.Add(10 * time.Second) {
		step(t, c, f, now.Sub(f.clock.Now()))
		if free := 16 - f.reserved; free < 4 && f.until.After(latest) {
			t.Fatalf("at %v, %d licences are free, and the others reserved until %v; the job must start by %v", now, free, f.until, latest)
		}
		longest = max(longest, f.until.Sub(now))
		reservedAll = reservedAll || f.reserved == 16
	}
	if longest > 6*time.Minute || !reservedAll {
		t.Errorf("licences are reserved for %v; want 6 minutes at most: as long waits what is submitted after the end of Lull. All reserved: %v", longest, reservedAll)
	}
}

// TestTheReservationLastsUntilTheNextLook: the queue may be read as seldom as every 10 minutes.
func TestTheReservationLastsUntilTheNextLook(t *testing.T) {
	c, f, _ := setup(t)
	c.o.Interval = 10 * time.Minute
	withCapacity(t, c, nothing, "")
	for range 5 {
		step(t, c, f, 10*time.Minute)
		if left := f.until.Sub(f.clock.Now()); left < 12*time.Minute || left > 15*time.Minute {
			t.Errorf("reserved for %v; want more than until the next look, in 10 minutes", left)
		}
	}
}
