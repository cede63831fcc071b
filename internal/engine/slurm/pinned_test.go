package slurm

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
)

// pinned is a Slurm whose site keeps the licences of jobs: it makes the rest of an update, and says nothing.
type pinned struct {
	*fake
	sizes []int
}

func (p *pinned) Update(ctx context.Context, u slurm.Update) error {
	u.Licences = ""
	if u.Size > 0 {
		p.sizes = append(p.sizes, u.Size)
	}
	return p.fake.Update(ctx, u)
}

// TestASiteThatKeepsLicencesDoesNotFlipSizes: the job gets back its tasks once, and keeps them.
func TestASiteThatKeepsLicencesDoesNotFlipSizes(t *testing.T) {
	j := sizingWithin()
	j.Submitted = midnight.Add(9 * time.Hour)
	j.Begin = j.Submitted.Add(2 * time.Minute)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Licences: 8, Text: "waits for the plan of Lull"}.String()
	c, f, log := setup(t, j)
	f.clock.SetTime(j.Submitted)
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "24:00", Capacity: "2"}}}, "")
	p := &pinned{fake: f}
	c.o.Client, c.o.Planner = p, plan.ForSequence(joint.Planner{Effort: 0.02})
	for range 20 {
		step(t, c, f, time.Minute)
	}
	at := f.jobs[0]
	if m := slurm.ReadMark(at.AdminComment); len(p.sizes) != 2 || at.Size != 8 || at.CPUs != 8 || at.Licences != "matlab:1,power:8" || m.Kept != slurm.UnlicensedSize {
		t.Errorf("sizes %v: %+v\n%s", p.sizes, at, log)
	}
}
