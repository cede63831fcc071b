package carbon

import (
	"lull.dev/lull/pkg/timegrid"
)

// FillMethod says how a slot without a sample got its value.
type FillMethod string

// How Filled found a value, in the order of preference.
const (
	// FillDayBefore took the same time one or more days before.
	FillDayBefore FillMethod = "same time on an earlier day"
	// FillMean took the mean of all the series has.
	FillMean FillMethod = "mean of the series"
)

// FilledSlots is an intensity for every slot of a grid, with the slots that
// were not in the series named.
type FilledSlots struct {
	Values []float64          // gCO2eq/kWh, one a slot; shared, not to be modified
	Filled map[int]FillMethod // slots whose value was made up, and how
}

// maxFillDays bounds how many days back FillDayBefore looks.
const maxFillDays = 7

// FillSlots returns s on g with every missing slot filled: from the same time of the
// latest earlier day that has one (at most a week back; for slots inside the
// grid a filled slot counts too), else by the mean of the series. It returns
// false when the series is empty: there is nothing to fill from, and an
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
	for _, t := range missing {
		if v, ok := dayBefore(s, g, t); ok {
			out.Values[t], out.Filled[t] = v, FillDayBefore
			continue
		}
		out.Values[t], out.Filled[t] = float64(mean), FillMean
	}
	return out, true
}

// dayBefore looks for the same time of day on the days before slot t.
func dayBefore(s *Series, g timegrid.Grid, t int) (float64, bool) {
	from := g.Time(t).UTC()
	for day := 1; day <= maxFillDays; day++ {
		at := from.AddDate(0, 0, -day)
		if v, covered := s.Mean(at, at.Add(g.Slot)); covered > 0 {
			return float64(v), true
		}
	}
	return 0, false
}
