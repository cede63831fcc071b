package sim

import (
	"math"
	"testing"
	"time"
)

// TestMeansOfLongDelays checks means whose sum does not fit into a time.Duration (292
// years): a hundred thousand jobs that wait a day each are enough for that.
func TestMeansOfLongDelays(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	cfg := Config{Slot: time.Hour, Clusters: []Cluster{{Name: "c"}}}
	for _, id := range []string{"a", "b", "c", "d"} {
		cfg.Jobs = append(cfg.Jobs, Job{ID: id, Submitted: time.Unix(0, 0), Length: time.Hour, Estimate: time.Hour, Kind: "rigid", Request: map[string]float64{"cpu": 1}})
	}
	e, err := newEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.now = century
	for i := range cfg.Jobs {
		e.finish(&live{job: i, missing: century, runs: []Run{{From: century - time.Hour, To: century, Workers: 1}}})
	}
	res := e.result()
	near := func(got time.Duration) bool { return math.Abs(float64(got-(century-time.Hour))) < float64(time.Minute) }
	if !near(res.MeanWait) || !near(res.MeanDelay) {
		t.Errorf("mean wait %v, mean delay %v; want %v", res.MeanWait, res.MeanDelay, century-time.Hour)
	}
	if res.Unpriced < century {
		t.Errorf("unpriced %v of four times %v", res.Unpriced, century)
	}
}
