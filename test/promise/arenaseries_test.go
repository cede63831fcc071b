package promise_test

import (
	"math/rand/v2"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// arenaSeries jumps between 0 and the largest intensity that there is, at boundaries that are not those of slots.
func arenaSeries(rng *rand.Rand, start time.Time, slot time.Duration) *carbon.Series {
	step := []time.Duration{15 * time.Minute, 37 * time.Minute, time.Hour}[rng.IntN(3)]
	var samples []carbon.Sample
	for from := start.Add(-3 * step).Truncate(step); from.Before(start.Add(60 * slot)); from = from.Add(step) {
		value := []float64{0, float64(units.MaxCarbonIntensity), float64(rng.IntN(1000))}[rng.IntN(3)]
		samples = append(samples, carbon.Sample{From: from, To: from.Add(step), Value: units.CarbonIntensity(value)})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "z", Source: "test"}, samples)
	if err != nil {
		panic(err)
	}
	return s
}
