package sim_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/units"
)

// TestPlansCountStarts: of two hours one is a little cleaner. Where a start takes no time, a job that may pause runs in
// the cleaner ones; where it takes half an hour, a pause costs more than it saves.
func TestPlansCountStarts(t *testing.T) {
	var samples []carbon.Sample
	for h := range 96 {
		from := t0.Add(time.Duration(h) * time.Hour)
		samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(100 + 4*(h%2))})
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	for overhead, want := range map[time.Duration]int{0: 6, 30 * time.Minute: 1} {
		for name, change := range map[string]func(*sim.Config){
			"power of the request":    func(*sim.Config) {},
			"power of the job":        func(c *sim.Config) { c.Jobs[0].Watts = 1000 },
			"with a PUE":              func(c *sim.Config) { c.Clusters[0].Power.PUE = 1.5 },
			"plans made anew at need": func(c *sim.Config) { c.Revise = sim.OnChange },
		} {
			cfg := oneJob(series, 0)
			cfg.Overhead = overhead
			change(&cfg)
			if res := simulate(t, cfg); len(res.Jobs[0].Runs) != want || res.Missed > 0 {
				t.Errorf("starts of %v, %s: %d runs %v, %d late; want %d, 0", overhead, name, len(res.Jobs[0].Runs), res.Jobs[0].Runs, res.Missed, want)
			}
		}
	}
}
