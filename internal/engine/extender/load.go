package extender

import "time"

// history is the load of the cluster by hours of the day, of the last days.
type history struct {
	hours [loadDays * 24]struct {
		hour int64
		sum  float64
		n    int
	}
}

// loadDays is how many days of load are kept.
const loadDays = 7

// add notes the share of capacity in use at a time.
func (h *history) add(at time.Time, share float64) {
	hour := hourOf(at)
	e := &h.hours[hour%int64(len(h.hours))]
	if e.hour != hour {
		e.hour, e.sum, e.n = hour, 0, 0
	}
	e.sum += share
	e.n++
}

// expected is the load forecast for a time: the weighted moving average of the same hour of the
// days before, the latest day with the largest weight; 0 where none is known.
//
// Source: Piontek et al., Equation 8.
func (h *history) expected(at time.Time) float64 {
	sum, weights := 0.0, 0.0
	for day := 1; day < loadDays; day++ {
		hour := hourOf(at) - int64(24*day)
		if e := &h.hours[((hour%int64(len(h.hours)))+int64(len(h.hours)))%int64(len(h.hours))]; e.hour == hour && e.n > 0 {
			weight := float64(loadDays - day)
			sum, weights = sum+weight*e.sum/float64(e.n), weights+weight
		}
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}
