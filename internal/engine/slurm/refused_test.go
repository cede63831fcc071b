package slurm

import (
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// TestAJobThatHasEndedIsNotChanged: it has ended since the look, so Slurm changes nothing of it. The log does not say that it was changed, the ledger not that a decision was applied,
// and others are changed all the same.
func TestAJobThatHasEndedIsNotChanged(t *testing.T) {
	c, f, log := setup(t, job("1", "lull:max-delay=12h"), job("2", "lull:max-delay=12h"))
	f.clock.Step(time.Hour) // power is dirty
	for i := range f.jobs {
		f.jobs[i].Begin = f.clock.Now().Add(time.Minute)
		f.jobs[i].Reason, f.jobs[i].AdminComment = "BeginTime", slurm.Mark{Phase: slurm.Held, Begin: f.jobs[i].Begin}.String()
	}
	f.races = "1"
	before := f.jobs[0].AdminComment
	step(t, c, f, 0)
	text := log.String()
	if strings.Contains(text, "jobs=1,2") || strings.Contains(text, "jobs=1 begin") || !strings.Contains(text, `msg="Changed jobs" jobs=2 begin`) || f.jobs[0].AdminComment != before {
		t.Errorf("%s", text)
	}
	f.jobs = f.jobs[:1]
	said := len(log.String())
	step(t, c, f, time.Second)
	if text := log.String()[said:]; strings.Contains(text, "Changed jobs") {
		t.Errorf("%s", text)
	}
}
