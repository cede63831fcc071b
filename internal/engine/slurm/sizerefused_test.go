package slurm

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
)

// refusing refuses other numbers of tasks, as a QOS or a partition may (Job violates accounting/QOS policy).
type refusing struct{ *fake }

func (r refusing) Update(ctx context.Context, u slurm.Update) error {
	if u.Size > 0 {
		_ = r.fake.Update(ctx, slurm.Update{IDs: u.IDs, Comment: u.Comment}) // Slurm writes the AdminComment of a command whose other changes it refuses
		return fmt.Errorf("%w: scontrol update: Job violates accounting/QOS policy", slurm.ErrCommand)
	}
	return r.fake.Update(ctx, u)
}

// TestRefusedSize is TestSizeFollowsThePlan where Slurm refuses the number of tasks.
func TestRefusedSize(t *testing.T) {
	j, other, now := besideAnother()
	c, f, _ := setup(t, j, other)
	f.lasts = map[string]time.Duration{"9": 5 * time.Hour}
	f.clock.SetTime(now)
	c.o.Client, c.o.Planner = refusing{f}, plan.ForSequence(joint.Planner{Effort: 0.02})
	failed := 0
	for f.clock.Now().Before(midnight.Add(15 * time.Hour)) {
		if _, err := c.Reconcile(t.Context()); err != nil {
			failed++
		}
		f.clock.Step(20 * time.Second)
	}
	at := f.jobs[0]
	t.Logf("%d looks failed; restarts %d, %s", failed, at.Restarts, at.AdminComment)
	if m := slurm.ReadMark(at.AdminComment); failed > 0 || at.State != "RUNNING" || at.Size != 2 || m.Kept != slurm.RefusedSize || m.Size != 2 || m.User != 8 {
		t.Errorf("%+v; want it to run with 2 tasks, and a mark that says that Slurm has refused a number", at)
	}
	if at.Restarts > 1 {
		t.Errorf("%d requeues in two hours for a size that Slurm refuses", at.Restarts)
	}
}
