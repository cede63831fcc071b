package slurm

import (
	"testing"

	"lull.dev/lull/internal/cluster/slurm"
)

// TestBlockedJobsAreForgotten: an array that waits for another one task by task has a new name in each look. All its names are forgotten
// once it is gone.
func TestBlockedJobsAreForgotten(t *testing.T) {
	b := newLedgerRecorder(nil, "lab", nil, nil)
	look := func(jobs ...slurm.Job) {
		in := &slurm.Input{}
		in.Queue.Jobs = jobs
		r := round{ledgerRecorder: b, in: in}
		r.throttles()
		for i := range jobs {
			r.left(&slurm.Left{Job: &jobs[i], Why: slurm.Depends})
		}
	}
	for _, id := range []string{"12_[1-3]", "12_[2-3]", "12_[3]"} {
		look(slurm.Job{ID: id, Number: 12, State: "PENDING"})
	}
	if _, known := b.blocked["12_[3]"]; !known {
		t.Errorf("blocked %v; want the array that still waits", b.blocked)
	}
	if look(); len(b.blocked) != 0 {
		t.Errorf("blocked %v; want none, the array is gone", b.blocked)
	}
}
