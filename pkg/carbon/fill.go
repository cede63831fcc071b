package carbon

import (
	"time"

	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// FillMethod says how a slot without a sample got its value.
type FillMethod string

// How FillSlots finds a value, in the order of preference.
const (
	// FillDayBefore takes the same time on an earlier day.
	FillDayBefore FillMethod = "same time on an earlier day"
	// FillDayAfter takes the same time on a later day.
	FillDayAfter FillMethod = "same time on a later day"
	// FillMean takes the mean of the whole series.
	FillMean FillMethod = "mean of the series"
)

// FillRule states in one sentence how an hour without intensity gets a value wherever
// emissions are stated. Reports print it beside every figure that rests on it.
const FillRule = "an hour without a known carbon intensity takes the value of the same hour on the nearest earlier day that has one, else on the nearest later day, at most 7 days away"

// maxFillDays is how many days away FillRule looks.
const maxFillDays = 7

const day = 24 * time.Hour

// FillReach is how far from an hour the value may lie that FillRule gives it. What keeps
// intensities of the past to price by them keeps those of this time before.
const FillReach = maxFillDays * day

// FilledMean is the mean intensity of an interval whose missing hours are filled by
// FillRule. Known, Filled and Unknown sum to the interval; Mean, gCO2eq/kWh, is over
// Known and Filled, and 0 where both are 0.
type FilledMean struct {
	Mean                   units.CarbonIntensity
	Known, Filled, Unknown time.Duration
}

// FilledMean returns the time-weighted mean intensity over [from, to), its missing parts
// filled by FillRule. What is more than 7 days away from any value at its time of day
// stays Unknown: a figure over it must be withheld. Days are 24 hours of UTC.
//
// Complexity: O(log n) where nothing is missing, else O(log n) for each missing sample.
func (s *Series) FilledMean(from, to time.Time) FilledMean {
	var out FilledMean
	if !to.After(from) {
		return out
	}
	out.Mean, out.Known = s.Mean(from, to)
	if out.Known == to.Sub(from) {
		return out
	}
	integral := float64(out.Mean) * out.Known.Hours()
	for _, gap := range s.Gaps(from, to) {
		for at := gap.From; at.Before(gap.To); {
			v, until, ok := s.stand(at, gap.To)
			if ok {
				out.Filled += until.Sub(at)
				integral += float64(v) * until.Sub(at).Hours()
			} else {
				out.Unknown += until.Sub(at)
			}
			at = until
		}
	}
	if hours := (out.Known + out.Filled).Hours(); hours > 0 {
		out.Mean = units.CarbonIntensity(integral / hours)
	}
	return out
}

// stand returns the value that FillRule gives at a time without one, and until when, at
// most to, this is so.
func (s *Series) stand(at, to time.Time) (v units.CarbonIntensity, until time.Time, ok bool) {
	until = to
	for _, sign := range [2]time.Duration{-1, 1} {
		for n := time.Duration(1); n <= maxFillDays; n++ {
			shift := sign * n * day
			i := s.firstEndingAfter(at.Add(shift))
			if i == len(s.samples) {
				continue
			}
			x := &s.samples[i]
			if x.From.After(at.Add(shift)) { // this day begins to stand in later
				until = earlier(until, x.From.Add(-shift))
				continue
			}
			return x.Value, earlier(until, x.To.Add(-shift)), true
		}
	}
	return 0, until, false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// FilledSlots is an intensity for every slot of a grid, with the slots that
// were not in the series named.
type FilledSlots struct {
	Values []float64          // gCO2eq/kWh, one a slot; shared, not to be modified
	Filled map[int]FillMethod // slots whose value was made up, and how
}

// FillSlots returns s on g with a value for every slot, as decisions need one. A slot
// that s does not touch is filled by FillRule. Further away the day before it in the
// grid goes on, if that was filled so; else the slot takes the mean of the series. It
// returns false when the series is empty: there is nothing to fill from, and an
// intensity is never invented.
//
// Complexity: O(N log n) for N slots and n samples.
func FillSlots(s *Series, g timegrid.Grid) (FilledSlots, bool) {
	if s == nil || s.Len() == 0 {
		return FilledSlots{}, false
	}
	if values, ok := s.view(g); ok {
		return FilledSlots{Values: values}, true
	}
	values, missing := s.OnGrid(g)
	out := FilledSlots{Values: values, Filled: make(map[int]FillMethod, len(missing))}
	mean, _ := s.Mean(s.Start(), s.End())
	perDay := 0 // slots in a day, where that is a whole number
	if g.Slot > 0 && day%g.Slot == 0 {
		perDay = int(day / g.Slot)
	}
	for _, t := range missing {
		if v, method, ok := s.sameTime(g, t); ok {
			out.Values[t], out.Filled[t] = v, method
			continue
		}
		out.Values[t], out.Filled[t] = float64(mean), FillMean
		if before := t - perDay; perDay > 0 && before >= 0 && out.Filled[before] == FillDayBefore {
			out.Values[t], out.Filled[t] = out.Values[before], FillDayBefore
		}
	}
	return out, true
}

// sameTime looks for the mean of slot t on the days before it, then on those after it.
func (s *Series) sameTime(g timegrid.Grid, t int) (float64, FillMethod, bool) {
	from := g.Time(t)
	for _, way := range [2]struct {
		sign   time.Duration
		method FillMethod
	}{{-1, FillDayBefore}, {1, FillDayAfter}} {
		for n := time.Duration(1); n <= maxFillDays; n++ {
			at := from.Add(way.sign * n * day)
			if v, covered := s.Mean(at, at.Add(g.Slot)); covered > 0 {
				return float64(v), way.method, true
			}
		}
	}
	return 0, "", false
}
