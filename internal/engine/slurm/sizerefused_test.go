package slurm

import (
	"context"
	"fmt"
	"strings"
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

// picky is a Slurm that refuses another number of tasks for job 2 only: it makes a change of several jobs for the others, and writes the AdminComment of job 2,
// and its licences if halfway says so. It stops answering after some calls.
type picky struct {
	*fake
	halfway bool
	left    int
	look    func()
}

func (p *picky) dies() bool {
	p.left--
	return p.left < 0
}

func (p *picky) LicencesOf(ctx context.Context, ids []string) (map[string]string, error) {
	if p.dies() {
		return nil, fmt.Errorf("%w: squeue: Unable to contact slurm controller", slurm.ErrCommand)
	}
	return p.fake.LicencesOf(ctx, ids)
}

func (p *picky) Update(ctx context.Context, u slurm.Update) error {
	if p.dies() {
		return fmt.Errorf("%w: scontrol update: Unable to contact slurm controller", slurm.ErrCommand)
	}
	refused := false
	for _, id := range u.IDs {
		of := u
		if of.IDs = []string{id}; id == "2" && u.Size > 0 {
			refused = true
			of = slurm.Update{IDs: of.IDs, Comment: u.Comment}
			if p.halfway {
				of.Licences = u.Licences
			}
		}
		_ = p.fake.Update(ctx, of)
	}
	p.look()
	if refused {
		return fmt.Errorf("%w: scontrol update: Job violates accounting/QOS policy", slurm.ErrCommand)
	}
	return nil
}

// TestARefusalTakesNoLicencesFromOthers: Slurm changes the tasks of two jobs of an update, and refuses those of another one. The two have a licence for each
// CPU at each moment, also if Slurm stops answering meanwhile, and the third keeps the licences that it had.
func TestARefusalTakesNoLicencesFromOthers(t *testing.T) {
	for _, to := range []int{2, 8} {
		from := 10 - to
		for _, halfway := range []bool{false, true} {
			for calls := range 20 {
				var jobs []slurm.Job
				for _, id := range []string{"1", "2", "3"} {
					j := sizingWithin()
					j.ID, j.Number, j.Size, j.CPUs, j.Licences = id, int(id[0]-'0'), from, from, fmt.Sprintf("matlab:1,power:%d", from)
					j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Size: from, User: 8, Each: 1, Licences: from, Text: "waits"}.String()
					jobs = append(jobs, j)
				}
				c, f, log := setup(t, jobs...)
				p := &picky{fake: f, halfway: halfway, left: calls}
				p.look = func() {
					for _, i := range []int{0, 2} {
						if j := &f.jobs[i]; j.CPUs != licensesOf(j) || !strings.HasPrefix(j.Licences, "matlab:1,") {
							t.Errorf("to %d, halfway %v, %d calls: job %s has %d CPUs and %s\n%s", to, halfway, calls, j.ID, j.CPUs, j.Licences, log)
						}
					}
				}
				c.o.Client = p
				m := slurm.Mark{Phase: slurm.Held, Begin: jobs[0].Begin, Size: to, User: 8, Each: 1, Was: from, Licences: to, Text: "waits"}
				u := slurm.Update{IDs: []string{"1", "2", "3"}, Size: to, CPUs: to, Licences: fmt.Sprintf("matlab:1,power:%d", to), SawLicences: jobs[0].Licences, Licensed: to, Comment: m.String()}
				applied := map[string]bool{}
				if err := c.apply(t.Context(), &slurm.View{}, &slurm.Changes{Updates: []slurm.Update{u}}, applied); (err == nil) != (p.left >= 0) {
					t.Fatalf("to %d, halfway %v, %d calls: %v", to, halfway, calls, err)
				}
				if p.left < 0 {
					continue
				}
				for i := range f.jobs {
					want, kept := to, slurm.Kept("")
					if f.jobs[i].ID == "2" {
						want, kept = from, slurm.RefusedSize
					}
					j := &f.jobs[i]
					if m := slurm.ReadMark(j.AdminComment); !applied[j.ID] || j.Size != want || licensesOf(j) != want || m.Licences != want || m.Size != want || m.Kept != kept {
						t.Errorf("to %d, halfway %v: %+v\n%s", to, halfway, j, log)
					}
				}
			}
		}
	}
}
