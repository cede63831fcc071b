package relax

import (
	"context"
	"math"
)

// Ascent climbs L(lambda) with first-order steps of two kinds. Annealed steps find the
// region: every row has a step size of its own (Kingma and Ba, Adam, 2015, on the excess
// of demand over capacity), and so has every window of time, whose prices move together
// (see Ascent.shift). The volume algorithm (Barahona and Anbil 2000) then steps from the
// best prices along an average of the demands.
type Ascent struct {
	m *Model  // with jobs that are alike merged
	e *Pricer // of m
	// all is the model that was given, full its pricer once it was asked for.
	all  *Model
	full *Pricer
	// Lambda are the prices of the best bound, Bound is L there.
	Lambda []float64
	Bound  float64
	// Evaluations counts how often L was computed.
	Evaluations int
	sampled     int64 // what samples looked at

	at, use, mean []float64
	excess        []float64 // smoothed, relative to the capacity
	square        []float64
	windows       windows
}

// NewAscent starts at the prices start, or at those of Model.Fluid where it is nil.
func NewAscent(m *Model, start []float64) *Ascent {
	all := m
	m = all.merged()
	n := len(m.Cap)
	a := &Ascent{
		m: m, e: NewPricer(m), all: all, Lambda: make([]float64, n), Bound: math.Inf(-1),
		at: make([]float64, n), use: make([]float64, n), mean: make([]float64, n), excess: make([]float64, n), square: make([]float64, n),
	}
	if start == nil {
		start = m.Fluid()
	}
	for i, v := range start {
		a.at[i] = m.Bounded(i, v)
	}
	return a
}

// Proven is the best bound less its rounding: see Model.Proven.
func (a *Ascent) Proven() float64 { return a.m.Proven(a.Lambda, a.Bound) }

// evaluate computes L at the prices a.at and keeps the best.
func (a *Ascent) evaluate() float64 {
	v := a.e.Lagrangian(a.at, a.use)
	if a.Evaluations == 0 {
		copy(a.mean, a.use)
	}
	a.Evaluations++
	for i, u := range a.use {
		a.mean[i] += meanWeight * (u - a.mean[i])
	}
	if v > a.Bound {
		a.Bound = v
		copy(a.Lambda, a.at)
	}
	return v
}

const (
	meanWeight   = 0.05 // of the newest demand in the average of the volume algorithm
	firstStep    = 0.2  // of the mean price level that a step of size 1 moves
	largeSteps   = 3
	smallSteps   = 0.1
	momentum     = 0.8
	squareMemory = 0.95
)

// Anneal takes steps of the first kind. step is the size of the first one,
// relative; they fall to a tenth of it. It ends early when ctx does.
func (a *Ascent) Anneal(ctx context.Context, steps int, step float64) {
	var scale []float64
	if a.Evaluations > 0 {
		copy(a.at, a.Lambda)
	}
	for k := 1; k <= steps && ctx.Err() == nil; k++ {
		v := a.evaluate()
		if scale == nil {
			scale = a.priceScale(v)
		}
		size := step * firstStep / (1 + 10*float64(k)/float64(steps))
		a.shift(size, scale)
		for row := 0; row < len(a.at); row += a.m.T {
			step := size * scale[row/a.m.T%a.m.R]
			for i := row; i < row+a.m.T; i++ {
				g := (a.use[i] - a.m.Cap[i]) / max(1e-9, a.m.Cap[i])
				a.excess[i] += (1 - momentum) * (g - a.excess[i])
				a.square[i] += (1 - squareMemory) * (g*g - a.square[i])
				a.at[i] = a.m.Bounded(i, a.at[i]+step*a.excess[i]/(math.Sqrt(a.square[i])+1e-3))
			}
		}
	}
}

// priceScale is the size of price to expect of each resource: what all jobs cost, or
// an average slot, by what they use of it.
func (a *Ascent) priceScale(value float64) []float64 {
	m := a.m
	use, unit, open := make([]float64, m.R), make([]float64, m.R), make([]float64, m.R)
	for i, u := range a.use {
		r := i / m.T % m.R
		use[r] += u
		if m.Cap[i] > 0 {
			unit[r] += math.Abs(m.unit[i])
			open[r]++
		}
	}
	out := make([]float64, m.R)
	for r := range out {
		if use[r] > 0 {
			out[r] = math.Max(math.Abs(value)/use[r], unit[r]/math.Max(1, open[r]))
		}
	}
	return out
}

// Volume takes steps of the second kind until ctx ends, the steps are done, or
// they no longer lead anywhere.
func (a *Ascent) Volume(ctx context.Context, steps int) {
	a.Start()
	bar := append([]float64(nil), a.Lambda...)
	best := a.Bound
	pace, misses := 0.1, 0
	target := best + 0.02*math.Abs(best)
	for k := 0; k < steps && pace > 1e-4 && ctx.Err() == nil; k++ {
		norm := 0.0
		for i, w := range a.mean {
			if g := w - a.m.Cap[i]; a.m.Cap[i] > 0 && (bar[i] > 0 || g > 0) {
				norm += g * g * a.m.weights[i]
			}
		}
		if norm == 0 {
			return
		}
		if best > target-0.01*math.Abs(target) {
			target = best + 0.02*math.Abs(best)
		}
		size := pace * (target - best) / norm
		agree := 0.0
		for i, w := range a.mean {
			a.at[i] = a.m.Bounded(i, bar[i]+size*(w-a.m.Cap[i])*a.m.weights[i])
		}
		v := a.evaluate()
		for i, w := range a.mean {
			agree += (a.use[i] - a.m.Cap[i]) * (w - a.m.Cap[i]) * a.m.weights[i]
		}
		if v > best {
			best = v
			copy(bar, a.at)
			misses = 0
			if agree >= 0 {
				pace = math.Min(2, pace*1.1)
			}
			continue
		}
		if misses++; misses > 5 {
			pace, misses = pace*0.7, 0
		}
	}
}

// Start evaluates L at the prices the ascent begins with, once.
func (a *Ascent) Start() {
	if a.Evaluations == 0 {
		a.evaluate()
	}
}

// Try evaluates L at other prices, and goes on from them if they are better.
func (a *Ascent) Try(lambda []float64) {
	for i, v := range lambda {
		a.at[i] = a.m.Bounded(i, v)
	}
	a.evaluate()
}

// Refine spends so many evaluations of L near the best prices, with small steps.
func (a *Ascent) Refine(ctx context.Context, evaluations int) {
	a.Anneal(ctx, evaluations*56/100, smallSteps)
	a.Volume(ctx, evaluations*44/100)
}

// Climb spends about so many evaluations of L: twice annealed and averaged, with
// large steps and with small ones. Where there are very many jobs a sample of them
// finds the region first, which costs about as much again. report, where given, is
// called with the share of the work done.
func (a *Ascent) Climb(ctx context.Context, evaluations int, report func(share float64)) {
	if report == nil {
		report = func(float64) {}
	}
	if len(a.m.jobs) >= manyJobs {
		n := len(a.all.jobs)
		stride := n / max(manyJobs/4, len(a.m.Cap)/2)
		s := NewAscent(a.all.sample(max(1, stride)), a.at)
		s.cycle(ctx, stride*evaluations, report)
		a.sampled += s.Looked()
		copy(a.at, s.Lambda)
		a.evaluate()
		a.Volume(ctx, evaluations)
		return
	}
	a.cycle(ctx, evaluations, report)
}

// manyJobs is the number of jobs, those that are alike merged, from which on a sample of them is priced first.
const manyJobs = 20_000

func (a *Ascent) cycle(ctx context.Context, evaluations int, report func(share float64)) {
	for i, step := range []float64{largeSteps, smallSteps} {
		a.Anneal(ctx, evaluations*28/100, step)
		report(0.28 + 0.5*float64(i))
		a.Volume(ctx, evaluations*22/100)
		report(0.5 + 0.5*float64(i))
	}
}

// Work is about how many slots an evaluation of L looks at: see Model.Work. It is less than that of
// the model if jobs are alike.
func (a *Ascent) Work() int { return a.m.Work() }

// Looked is the work done so far, that of the pricer included: see Pricer.Looked.
func (a *Ascent) Looked() int64 {
	n := a.sampled + a.e.Looked
	if a.full != nil {
		n += a.full.Looked
	}
	return n
}

// Rounds is how often L may be evaluated at about the cost of placing all jobs once.
func (a *Ascent) Rounds() int {
	place, set := a.all.placing()
	return 2 * place / (set + a.m.responding())
}

// Pricer returns a pricer of the model of the ascent, always the same one. Its prices are not
// those of the ascent until they are set.
func (a *Ascent) Pricer() *Pricer {
	if a.full == nil {
		a.full = NewPricer(a.all)
	}
	return a.full
}
