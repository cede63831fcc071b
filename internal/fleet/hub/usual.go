package hub

import (
	"math"
	"time"
)

// Usual is the load at each hour of the day (UTC), by resource; nil for hours not seen yet. It
// is immutable.
type Usual [24]map[string]float64

// newestDay is the weight of the newest day in what is usual.
const newestDay = 0.3

// learn returns what is usual after an hour with a mean load.
func (u Usual) learn(hour int, load map[string]float64) Usual {
	old := u[hour]
	next := make(map[string]float64, len(load))
	for r, v := range load {
		next[r] = v
		if was, ok := old[r]; ok {
			next[r] = (1-newestDay)*was + newestDay*v
		}
	}
	for r, was := range old {
		if _, ok := load[r]; !ok {
			if left := (1 - newestDay) * was; left > 1e-3 {
				next[r] = left
			}
		}
	}
	u[hour] = next
	return u
}

// Ahead is the load to expect in slots from a time on, by resource: what it is now for an hour,
// then what is usual at the hour, and what it is now where that is not known; at most the capacity. nil where
// nothing is loaded at any time.
//
// Complexity: O(resources × slots).
func (u Usual) Ahead(now, capacity map[string]float64, from time.Time, slot time.Duration, slots int) map[string][]float64 {
	resources := map[string]bool{}
	for r := range now {
		resources[r] = true
	}
	for _, hour := range u {
		for r := range hour {
			resources[r] = true
		}
	}
	if len(resources) == 0 {
		return nil
	}
	out := make(map[string][]float64, len(resources))
	for r := range resources {
		out[r] = make([]float64, slots)
		for t := range slots {
			v := now[r]
			if after := time.Duration(t) * slot; after >= time.Hour {
				if usual := u[from.Add(after).UTC().Hour()]; usual != nil {
					v = usual[r]
				}
			}
			out[r][t] = math.Min(v, capacity[r])
		}
	}
	return out
}

// Habit learns the load that is usual, of looks at it. Its zero value knows nothing.
type Habit struct {
	usual Usual
	hour  hourOf
}

// See takes the load at a time in.
func (h *Habit) See(at time.Time, load map[string]float64) {
	if hour, mean, ended := h.hour.add(at, load); ended {
		h.usual = h.usual.learn(hour, mean)
	}
}

// Usual is what has been learned.
func (h *Habit) Usual() Usual { return h.usual }

// hourOf collects the load of an hour.
type hourOf struct {
	hour  time.Time // its beginning
	sum   map[string]float64
	looks int
}

// add takes a look at a time, and returns the mean load of an hour that has ended with it.
func (h *hourOf) add(at time.Time, load map[string]float64) (hour int, mean map[string]float64, ended bool) {
	begin := at.UTC().Truncate(time.Hour)
	if ended = h.looks > 0 && !begin.Equal(h.hour); ended {
		hour, mean = h.hour.Hour(), h.sum
		for r := range mean {
			mean[r] /= float64(h.looks)
		}
	}
	if ended || h.looks == 0 {
		*h = hourOf{hour: begin, sum: map[string]float64{}}
	}
	for r, v := range load {
		h.sum[r] += v
	}
	h.looks++
	return hour, mean, ended
}
