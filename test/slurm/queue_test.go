//go:build slurm

package slurm

import (
	"strings"
	"testing"
	"time"
)

// TestAHeterogeneousJobRuns: job_submit.lua holds its parts, as it cannot tell, and Lull releases them.
func TestAHeterogeneousJobRuns(t *testing.T) {
	empty(t)
	l := controller(t, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}))
	const comment = "--comment=lull:max-delay=15m,runtime=4s"
	id := submit(t, "sleep 1", "-n1", comment, ":", "-n2", comment)
	if err := wait("Lull to leave it", func() bool { return strings.Contains(l.log.String(), "Heterogeneous") }); err != nil {
		t.Errorf("%v: %s", err, l.log)
	}
	j := until(t, id, "completed", completed)
	if waited := j.at(t, "StartTime").Sub(j.at(t, "SubmitTime")); waited > 5*time.Minute {
		t.Errorf("waited %v; power is clean after 10 minutes only: %v", waited, j)
	}
	if text := l.log.String(); strings.Contains(text, "cannot be") || strings.Contains(text, "failed") {
		t.Errorf("%s", text)
	}
}

// TestAnOperatorsRequeueHoldStands: requeuehold has no end by itself, and Lull adds none.
func TestAnOperatorsRequeueHoldStands(t *testing.T) {
	empty(t)
	back := requeued(t, controller(t, curve(t, [2]time.Duration{0, 15 * time.Minute})), "requeuehold", "UserHold")
	time.Sleep(5 * time.Second)
	if j := show(t, back["JobId"]); j.state() != "PENDING" || !strings.Contains(j["Reason"], "held") {
		t.Errorf("%v", j)
	}
}
