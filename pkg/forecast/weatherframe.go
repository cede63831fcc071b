package forecast

import (
	"math"
	"slices"
)

// summed is a column with its prefix sums.
type summed struct{ v, sum []float64 }

func sumUp(v []float64) summed {
	s := summed{v, make([]float64, len(v)+1)}
	for i, x := range v {
		s.sum[i+1] = s.sum[i] + x
	}
	return s
}

// mean is the mean of [from, to), clipped to what there is.
func (s summed) mean(from, to int) float64 {
	from, to = max(0, from), min(to, len(s.v))
	if to <= from {
		return s.v[min(max(0, from), len(s.v)-1)]
	}
	return (s.sum[to] - s.sum[from]) / float64(to-from)
}

// transform turns weather into what drives the intensity: the power of turbines and
// panels, heating and cooling. Its numbers come from the weather of the past.
type transform struct {
	centre []float64 // of the wind's logistic curves, m/s
	width  float64
	few    bool // few days: fewer features
}

// windQuantiles are where the curves of turbine power are centred.
var windQuantiles = []float64{0.25, 0.50, 0.75, 0.92}

// windWidth is how many widths of a curve lie between the first and the last one.
const windWidth = 6

// newTransform learns from the weather before slot end.
func newTransform(w *Weather, end int, few bool) transform {
	t := transform{few: few, width: 1}
	var known []float64
	for _, v := range w.Wind[:min(end, len(w.Wind))] {
		if !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) < 2 {
		return t
	}
	slices.Sort(known)
	quantiles := windQuantiles
	if few {
		quantiles = windQuantiles[1:3]
	}
	for _, q := range quantiles {
		t.centre = append(t.centre, quantile(known, q))
	}
	t.width = math.Max(0.1, (quantile(known, 0.92)-quantile(known, 0.25))/windWidth)
	return t
}

// frame is a stretch of a history made ready for features: slot i of the history is
// index i-from of each column.
type frame struct {
	h            History
	from, perDay int
	y            summed
	log          []float64
	vars         []summed // transformed weather
	wind, sun    int      // indices in vars of the middle curve and the sun, -1 if none
	shares       []summed // of generation by source
	total        summed
	few          bool
}

// floorOf keeps logarithms finite: intensities below it count as it.
func floorOf(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return math.Max(1e-6, 0.01*sum/math.Max(1, float64(n)))
}

// newFrame prepares the slots [from, end) of a history, and the weather of ahead more.
// Intensities below floor count as floor.
func newFrame(h History, from, end, ahead, perDay int, floor float64, t transform) *frame {
	f := &frame{h: h, from: from, perDay: perDay, wind: -1, sun: -1, few: t.few}
	y := filled(h.Values, from, end, end, perDay)
	f.log = make([]float64, len(y))
	for i, v := range y {
		y[i] = math.Max(v, floor)
		f.log[i] = math.Log(y[i])
	}
	f.y = sumUp(y)
	add := func(column []float64, of func(float64) float64) {
		v := make([]float64, len(column))
		for i, x := range column {
			v[i] = of(x)
		}
		f.vars = append(f.vars, sumUp(v))
	}
	column := func(c []float64) []float64 { return smooth(filled(c, from, end, end+ahead, perDay)) }
	w := h.Weather
	if w.Wind != nil {
		c := column(w.Wind)
		for j, centre := range t.centre {
			if j == len(t.centre)/2 {
				f.wind = len(f.vars)
			}
			add(c, func(x float64) float64 { return 1 / (1 + math.Exp((centre-x)/t.width)) })
		}
	}
	if w.Irradiance != nil {
		f.sun = len(f.vars)
		add(column(w.Irradiance), func(x float64) float64 { return x })
	}
	if w.Temperature != nil {
		c := column(w.Temperature)
		add(c, func(x float64) float64 { return math.Max(0, heatingBelow-x) })
		add(c, func(x float64) float64 { return math.Max(0, x-coolingAbove) })
	}
	if w.DewPoint != nil && !t.few {
		add(column(w.DewPoint), func(x float64) float64 { return x })
	}
	if !t.few {
		f.generation(end)
	}
	return f
}

// Degrees Celsius below which buildings are heated, and above which they are cooled.
const (
	heatingBelow = 15
	coolingAbove = 20
)

// smooth is the mean of three neighbours: forecasts of weather are often repeated for
// hours.
func smooth(v []float64) []float64 {
	out := append([]float64(nil), v...)
	for i := 1; i+1 < len(v); i++ {
		out[i] = (v[i-1] + v[i] + v[i+1]) / 3
	}
	return out
}

// generation adds the share of each source in what is generated.
func (f *frame) generation(end int) {
	var columns [][]float64
	total := make([]float64, len(f.log))
	for _, g := range f.h.Weather.Generation {
		c := filled(g, f.from, end, end, f.perDay)
		for i, v := range c {
			total[i] += v
		}
		columns = append(columns, c)
	}
	if columns == nil {
		return
	}
	for _, c := range columns {
		for i := range c {
			c[i] /= math.Max(1, total[i])
		}
		f.shares = append(f.shares, sumUp(c))
	}
	f.total = sumUp(total)
}
