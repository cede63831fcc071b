package slurm

import (
	"strings"
	"time"

	"lull.dev/lull/pkg/decide"
)

// textWaits begins what the mark of a job says that waits by a plan.
const textWaits = "waits until"

// Begins is the plan of a job that waits, as far as its mark has it: when it begins, and why then. whole says that this is all of the plan, as the job cannot be
// paused and is not scaled; the others begin then as well, and are planned anew when they do. ok is false for a job without a plan, which begins at its latest start
// or as job_submit.lua says.
func (g *Governed) Begins(in *Input) (begin time.Time, why decide.Code, whole, ok bool) {
	m := &g.Mark
	switch {
	case !g.Job.Pending(), m.Phase != Held && m.Phase != Paused, !m.Begin.Equal(g.Job.Begin), !m.Begin.After(in.Now), !m.Begin.Before(g.Latest.Add(-rounding)):
		return time.Time{}, "", false, false
	case g.HeldOut(in.Config), !strings.HasPrefix(m.Text, textWaits):
		return time.Time{}, "", false, false
	}
	for _, code := range []decide.Code{decide.CodeCleanerLater, decide.CodeSharedCapacity} {
		if strings.Contains(m.Text, " "+reasons[code]+";") {
			return m.Begin, code, !g.interruptible() && g.Scale == nil, true
		}
	}
	return time.Time{}, "", false, false
}
