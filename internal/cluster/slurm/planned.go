package slurm

import (
	"strings"
	"time"

	"lull.dev/lull/pkg/decide"
)

// textWaits begins what the mark of a job says that waits by a plan.
const textWaits = "waits until"

// Planned is the plan of a job that waits, as its mark has it: when it starts, and why then. The begin time is all of the plan, as the job cannot be paused. ok
// is false for others: for a job that may be paused or is scaled, whose plan has more than a begin time, and for a job without a plan, which begins at its latest
// start or as job_submit.lua says.
func (g *Governed) Planned(in *Input) (begin time.Time, why decide.Code, ok bool) {
	m := &g.Mark
	switch {
	case !g.Job.Pending(), m.Phase != Held, !m.Begin.Equal(g.Job.Begin), !m.Begin.After(in.Now), !m.Begin.Before(g.Latest.Add(-rounding)):
		return time.Time{}, "", false
	case g.interruptible(), g.Scale != nil, g.HeldOut(in.Config), !strings.HasPrefix(m.Text, textWaits):
		return time.Time{}, "", false
	}
	for _, code := range []decide.Code{decide.CodeCleanerLater, decide.CodeSharedCapacity} {
		if strings.Contains(m.Text, " "+reasons[code]+";") {
			return m.Begin, code, true
		}
	}
	return time.Time{}, "", false
}
