package provider

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// quantity is what a type generated in an interval.
type quantity struct {
	from, to time.Time
	value    float64
}

func (q *quantity) interval() (from, to *time.Time) { return &q.from, &q.to }

// slot is an interval as a series states it.
type slot struct {
	from   time.Time
	length time.Duration
}

// mixes is generation by type, in the intervals in which it was stated: they may differ
// between types and change in time.
type mixes map[string]map[slot]float64

// set states a quantity. Said twice, the later one stands: answers and pages may overlap.
func (m mixes) set(at time.Time, length time.Duration, kind string, value float64) {
	if m[kind] == nil {
		m[kind] = map[slot]float64{}
	}
	m[kind][slot{at, length}] = value
}

// setUnknown states that there is a quantity which is not known. A known one stands over it.
func (m mixes) setUnknown(at time.Time, length time.Duration, kind string) {
	if _, known := m[kind][slot{at, length}]; !known {
		m.set(at, length, kind, math.NaN())
	}
}

// overlay sets the quantities of newer.
func (m mixes) overlay(newer mixes) {
	for kind, of := range newer {
		for at, v := range of {
			if math.IsNaN(v) {
				m.setUnknown(at.from, at.length, kind)
				continue
			}
			m.set(at.from, at.length, kind, v)
		}
	}
}

// quantities are those of a type in order of time, without overlap: of intervals of different
// length the shorter ones stand.
func (m mixes) quantities(kind string) []quantity {
	byLength := map[time.Duration][]quantity{}
	for at, v := range m[kind] {
		byLength[at.length] = append(byLength[at.length], quantity{at.from, at.from.Add(at.length), v})
	}
	var out []quantity
	lengths := make([]time.Duration, 0, len(byLength))
	for length := range byLength {
		lengths = append(lengths, length)
	}
	slices.Sort(lengths)
	slices.Reverse(lengths)
	for _, length := range lengths {
		list := byLength[length]
		slices.SortFunc(list, func(a, b quantity) int { return a.from.Compare(b.from) })
		for i := 1; i < len(list); i++ { // of one length, but not of one grid
			if list[i].from.Before(list[i-1].to) {
				list[i-1].to = list[i].from
			}
		}
		out = merge(out, list, (*quantity).interval)
	}
	return out
}

// slotMix is the mix of a slot.
type slotMix struct {
	from, to   time.Time
	mix        mix
	incomplete bool // the provider is still filling it
}

// slots returns the mixes in order of time. A slot lies between two neighbouring ends of
// intervals of any type, so that in each one all quantities are constant.
func (m mixes) slots() []slotMix {
	var ends []time.Time
	lists := map[string][]quantity{}
	for kind := range m {
		lists[kind] = m.quantities(kind)
		for _, q := range lists[kind] {
			ends = append(ends, q.from, q.to)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	ends = slices.CompactFunc(ends, time.Time.Equal)
	var out []slotMix
	for i := 1; i < len(ends); i++ {
		x := slotMix{from: ends[i-1], to: ends[i], mix: mix{}}
		for kind, list := range lists {
			for len(list) > 0 && !list[0].to.After(x.from) {
				list = list[1:]
			}
			lists[kind] = list
			if len(list) > 0 && !list[0].from.After(x.from) {
				x.mix[kind] = list[0].value
			}
		}
		if len(x.mix) > 0 {
			out = append(out, x)
		}
	}
	return out
}

// mixPoints turns slots into intensities; incomplete ones are gaps.
func mixPoints(slots []slotMix, factors map[string]float64) []point {
	out := make([]point, len(slots))
	for i, x := range slots {
		v, ok := x.mix.intensity(factors)
		out[i] = point{at: x.from, length: x.to.Sub(x.from), value: v, gap: !ok || x.incomplete, estimated: true, where: "mix at " + x.from.Format(time.RFC3339)}
	}
	return out
}

// tooMany bounds the quantities of each type.
func (m mixes) tooMany() error {
	for _, of := range m {
		if len(of) > maxPoints {
			return fmt.Errorf("%w: %d slots; accepted: at most %d", ErrWire, len(of), maxPoints)
		}
	}
	return nil
}
