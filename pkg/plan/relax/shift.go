package relax

import "math"

const (
	// windowLevels is the number of divisions of the horizon into windows: the whole
	// horizon, then its halves.
	windowLevels = 2
	// windowStep is the size of the step of a window, relative to that of a row.
	windowStep = 0.5
)

// windows holds the state of the steps that move the prices of many rows together.
type windows struct {
	// excess and square are the smoothed excess of each window and its smoothed square,
	// as Ascent keeps them by row. They are indexed by level, resource and window.
	excess, square []float64
	// over and capacity are prefix sums by resource and slot over the rows with a price.
	over, capacity []float64
	by             []float64 // the shift by resource and slot
}

// shift moves the prices above 0 of each window of time together, on all clusters, by a
// step along the excess of their joint demand over their joint capacity. Where all cheap
// clusters need a higher price than a dear one, every single row is near its balance
// and its own steps hardly move it; the excess of all of them together shows it.
//
// size is the step of a row, scale the price level by resource.
//
// Complexity: O(rows).
func (a *Ascent) shift(size float64, scale []float64) {
	m, w := a.m, &a.windows
	if m.M == 1 {
		return
	}
	if w.by == nil {
		n := (1<<windowLevels - 1) * m.R
		w.excess, w.square = make([]float64, n), make([]float64, n)
		w.over, w.capacity = make([]float64, m.R*(m.T+1)), make([]float64, m.R*(m.T+1))
		w.by = make([]float64, m.R*m.T)
	}
	a.sumPriced()
	clear(w.by)
	state := 0
	for level := range windowLevels {
		count := 1 << level
		for r := range m.R {
			for k := range count {
				from, to := m.T*k/count, m.T*(k+1)/count
				step := w.step(state, r*(m.T+1)+from, r*(m.T+1)+to) * windowStep * size * scale[r]
				for t := from; t < to; t++ {
					w.by[r*m.T+t] += step
				}
				state++
			}
		}
	}
	for i, price := range a.at {
		if price > 0 {
			a.at[i] = m.Bounded(i, price+w.by[i/m.T%m.R*m.T+i%m.T])
		}
	}
}

// sumPriced sums the excess and the capacity of the rows with a price, by resource, up
// to each slot.
func (a *Ascent) sumPriced() {
	m, w := a.m, &a.windows
	clear(w.over)
	clear(w.capacity)
	for i, price := range a.at {
		if price > 0 {
			at := i/m.T%m.R*(m.T+1) + i%m.T + 1
			w.over[at] += a.use[i] - m.Cap[i]
			w.capacity[at] += m.Cap[i]
		}
	}
	for r := range m.R {
		for at := r*(m.T+1) + 1; at < (r+1)*(m.T+1); at++ {
			w.over[at] += w.over[at-1]
			w.capacity[at] += w.capacity[at-1]
		}
	}
}

// step updates the state of a window, which lies between two entries of the prefix sums,
// and returns its step in units of the step size. It returns 0 if no row of the window
// has a price.
func (w *windows) step(state, from, to int) float64 {
	capacity := w.capacity[to] - w.capacity[from]
	if capacity <= 0 {
		return 0
	}
	g := (w.over[to] - w.over[from]) / capacity
	w.excess[state] += (1 - momentum) * (g - w.excess[state])
	w.square[state] += (1 - squareMemory) * (g*g - w.square[state])
	return w.excess[state] / (math.Sqrt(w.square[state]) + 1e-3)
}
