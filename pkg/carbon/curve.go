package carbon

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/timegrid"
)

// Curve is a carbon intensity from a time on, as a step function of time without gaps: what a series has, and for slots that it does
// not have the value that stands in (FillSlots). The first step also covers earlier times, the last one later times.
type Curve struct {
	at    []time.Time     // beginnings of the steps
	after []time.Duration // how long after at[0] each begins
	value []float64       // gCO2eq/kWh
	sum   []float64       // sum[i] is the integral from at[0] to at[i], g/kWh x h
}

// NewCurve joins the samples of a series with the slots of a grid that FillSlots filled.
//
// Complexity: O(slots + samples in them).
func NewCurve(s *Series, g timegrid.Grid, filled FilledSlots) *Curve {
	c := &Curve{}
	for slot := range g.N {
		from, to := g.Time(slot), g.Time(slot+1)
		if _, made := filled.Filled[slot]; made {
			c.add(from, filled.Values[slot])
			continue
		}
		i := s.IndexAt(from)
		if i >= s.Len() || !s.Sample(i).From.Before(to) {
			c.add(from, filled.Values[slot])
			continue
		}
		at := from
		for ; i < s.Len() && s.Sample(i).From.Before(to); i++ {
			x := s.Sample(i)
			if x.From.After(at) && !at.Equal(from) {
				c.add(at, filled.Values[slot]) // a gap within the slot
			}
			if x.From.After(from) && at.Equal(from) {
				c.add(from, filled.Values[slot])
			}
			if x.From.After(at) {
				at = x.From
			}
			c.add(at, float64(x.Value))
			at = x.To
		}
		if at.Before(to) {
			c.add(at, filled.Values[slot])
		}
	}
	return c
}

func (c *Curve) add(from time.Time, v float64) {
	n := len(c.at)
	if n > 0 && c.value[n-1] == v {
		return
	}
	if n > 0 && !from.After(c.at[n-1]) {
		c.value[n-1] = v
		return
	}
	sum := 0.0
	if n > 0 {
		sum = c.sum[n-1] + c.value[n-1]*from.Sub(c.at[n-1]).Hours()
	}
	c.at, c.value, c.sum = append(c.at, from), append(c.value, v), append(c.sum, sum)
	c.after = append(c.after, from.Sub(c.at[0]))
}

// step returns the step that contains a time, given as the time since at[0].
func (c *Curve) step(d time.Duration) int {
	i, begins := slices.BinarySearch(c.after, d)
	if begins {
		return i
	}
	return max(0, i-1)
}

// Integral returns the intensity times hours over [from, to): grams of a power of 1 kW.
//
// Complexity: O(log steps).
func (c *Curve) Integral(from, to time.Time) float64 { return c.upTo(to) - c.upTo(from) }

// upTo is the integral from at[0] to a time.
func (c *Curve) upTo(t time.Time) float64 {
	d := t.Sub(c.at[0])
	i := c.step(d)
	return c.sum[i] + c.value[i]*(d-c.after[i]).Hours()
}

// Mean returns the mean intensity over [from, to).
func (c *Curve) Mean(from, to time.Time) float64 {
	if !to.After(from) {
		return c.value[c.step(from.Sub(c.at[0]))]
	}
	return max(0, c.Integral(from, to)/to.Sub(from).Hours())
}

// sameIntensity is the relative difference up to which intensities are the same.
const sameIntensity = 1e-9

// Means returns the mean intensity of each slot of a grid. A mean that differs from the one before by rounding is the same (sameIntensity):
// a planner would else pick among the slots of an hour by their rounding.
func (c *Curve) Means(g timegrid.Grid) []float64 {
	out := make([]float64, g.N)
	for slot := range out {
		out[slot] = c.Mean(g.Time(slot), g.Time(slot+1))
		if slot > 0 && math.Abs(out[slot]-out[slot-1]) <= sameIntensity*out[slot] {
			out[slot] = out[slot-1]
		}
	}
	return out
}
