package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals is how jobs come.
type Arrivals struct {
	// PerHour is the mean rate of a Poisson process.
	PerHour float64
	// Swing of 0 to 1 makes the rate follow the day, highest at Peak (hour of the day):
	// rate(t) = PerHour (1 + Swing cos(2 pi (t - Peak) / 24 h)).
	Swing float64
	Peak  float64
}

// Spec describes a generated trace.
type Spec struct {
	Arrivals Arrivals
	Span     time.Duration
	// Length of jobs, hours, and the CPUs that they ask for.
	Length, CPUs Distribution
	// Whole rounds lengths up to whole multiples of it; 0 leaves them.
	Whole time.Duration
	Seed  uint64
}

// Distribution draws a number.
type Distribution func(rng *rand.Rand) float64

// Constant is always v.
func Constant(v float64) Distribution { return func(*rand.Rand) float64 { return v } }

// UniformInt is one of the whole numbers low..high.
func UniformInt(low, high int) Distribution {
	return func(rng *rand.Rand) float64 { return float64(low + rng.IntN(high-low+1)) }
}

// Exponential has the given mean and no value above most.
func Exponential(mean, most float64) Distribution {
	return func(rng *rand.Rand) float64 { return math.Min(most, rng.ExpFloat64()*mean) }
}

// LogNormal has the given median, and sigma of the logarithm; no value above most.
func LogNormal(median, sigma, most float64) Distribution {
	return func(rng *rand.Rand) float64 { return math.Min(most, median*math.Exp(sigma*rng.NormFloat64())) }
}

// shortest keeps a generated job a job.
const shortest = time.Second

// Generate draws a trace. Arrivals of a rate that varies come by thinning (Lewis and
// Shedler, 1979).
//
// Errors: ErrTrace for a rate, swing or span out of range. Complexity: O(jobs).
func Generate(s Spec) (*Trace, error) {
	switch {
	case !(s.Arrivals.PerHour > 0) || math.IsInf(s.Arrivals.PerHour, 0):
		return nil, fmt.Errorf("%w: arrivals: %v per hour; accepted: above 0", ErrTrace, s.Arrivals.PerHour)
	case !(s.Arrivals.Swing >= 0 && s.Arrivals.Swing <= 1):
		return nil, fmt.Errorf("%w: arrivals: swing %v; accepted: 0 to 1", ErrTrace, s.Arrivals.Swing)
	case s.Span <= 0 || s.Arrivals.PerHour*s.Span.Hours() > MaxJobs:
		return nil, fmt.Errorf("%w: span %v; accepted: above 0, for at most %d jobs", ErrTrace, s.Span, MaxJobs)
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0x7472616365))
	t, shared := &Trace{}, requests{}
	highest := s.Arrivals.PerHour * (1 + s.Arrivals.Swing)
	for at := 0.0; ; {
		at += rng.ExpFloat64() / highest
		if at >= s.Span.Hours() {
			return t, nil
		}
		rate := s.Arrivals.PerHour * (1 + s.Arrivals.Swing*math.Cos(2*math.Pi*(at-s.Arrivals.Peak)/24))
		if rng.Float64()*highest > rate {
			continue
		}
		j := Job{
			ID: fmt.Sprintf("g%d", len(t.Jobs)), Arrival: time.Duration(at * float64(time.Hour)),
			Length:  max(shortest, time.Duration(s.Length(rng)*float64(time.Hour))),
			Request: shared.of([4]float64{s.CPUs(rng)}),
		}
		if s.Whole > 0 {
			j.Length = (j.Length + s.Whole - 1) / s.Whole * s.Whole
		}
		if err := t.add(j, len(t.Jobs)+1, colArrival); err != nil {
			return nil, err
		}
	}
}
