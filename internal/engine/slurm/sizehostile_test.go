package slurm

import (
	"errors"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// TestALookFollowsARequeueThoughSlurmDoesNotAnswer once: the next look comes before Slurm starts the job by itself, whatever the interval.
func TestALookFollowsARequeueThoughSlurmDoesNotAnswer(t *testing.T) {
	j := job("1", "lull:max-delay=10h,runtime=2h,interruptible")
	j.State, j.Node, j.Started, j.Begin = "RUNNING", "n", midnight.Add(8*time.Hour), midnight.Add(8*time.Hour)
	j.AdminComment = slurm.Mark{Phase: slurm.Released, Begin: j.Begin}.String()
	c, f, _ := setup(t, j)
	c.o.Interval = 10 * time.Minute
	for ; f.jobs[0].Restarts == 0 && f.clock.Now().Before(midnight.Add(13*time.Hour)); f.clock.Step(time.Minute) {
		if _, err := c.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if f.jobs[0].Restarts == 0 {
		t.Fatal("it was not paused: this tests nothing")
	}
	f.failed = errors.New("Unable to contact slurm controller")
	if wake, err := c.Reconcile(t.Context()); err == nil || wake.IsZero() || wake.Sub(f.clock.Now()) > time.Minute {
		t.Errorf("%v, next look at %v; want one within a minute of %v", err, wake, f.clock.Now())
	}
}
