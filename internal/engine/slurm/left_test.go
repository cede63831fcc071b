package slurm

import (
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/slurm"
)

// TestAControllerWithoutTheDefaultsSaysWhatItReleases: the one before it had a configuration that let two jobs wait.
func TestAControllerWithoutTheDefaultsSaysWhatItReleases(t *testing.T) {
	a, b := job("1", ""), job("2", "")
	for _, j := range []*slurm.Job{&a, &b} {
		j.Partition, j.Submitted = "low", midnight.Add(10*time.Hour)
		j.Begin = midnight.Add(14 * time.Hour)
		j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Text: "waits until 2026-06-01T14:00Z for cleaner power"}.String()
	}
	c, f, log := setup(t, a, b)
	f.clock.SetTime(midnight.Add(10 * time.Hour))
	defaults := []slurm.Default{{Partition: "low", MaxDelay: slurm.Duration(12 * time.Hour)}}
	c.o.Input.Config.Defaults = defaults
	step(t, c, f, 0)
	if strings.Contains(log.String(), "Released") || !f.jobs[0].Begin.After(f.clock.Now()) {
		t.Fatalf("with the defaults: %+v\n%s", f.jobs[0], log)
	}
	count := func() float64 {
		var m dto.Metric
		if err := metrics.SlurmChanges.WithLabelValues("left").Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	before := count()
	c.o.Input.Config.Defaults = nil
	step(t, c, f, 0)
	text := log.String()
	if n := strings.Count(text, "Released jobs that waited"); n != 1 || count() != before+2 {
		t.Errorf("said %d times, counted %v; want once, and 2\n%s", n, count()-before, text)
	}
	for _, want := range []string{"level=WARN", "jobs=1,2", "number=2", "reason=NotOptedIn", "start it with --config"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
