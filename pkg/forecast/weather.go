package forecast

import (
	"math"
	"slices"
)

// Weather is what is known of weather and generation on the grid of a History. Each
// column is nil if it is not known at all; NaN marks a gap.
type Weather struct {
	// Wind is the wind speed, m/s, Temperature and DewPoint degrees Celsius,
	// Irradiance global horizontal, W/m2. Index i is slot i of the history. The past is
	// weather as it was forecast, if that is known, and the columns reach beyond the
	// end of Values as far as a forecast does.
	Wind, Temperature, DewPoint, Irradiance []float64
	// Generation[j][i] is what source j generated in slot i, MW. Models read the
	// past only.
	Generation [][]float64
	// Horizon is how many slots after its issue a forecast of the weather reached;
	// no forecast of the intensity uses weather later than that. 0 means no limit.
	Horizon int
}

// known reports whether there is any weather.
func (w *Weather) known() bool { return len(w.columns()) > 0 }

// columns are the columns of weather that are known.
func (w *Weather) columns() [][]float64 {
	if w == nil {
		return nil
	}
	var out [][]float64
	for _, c := range [][]float64{w.Wind, w.Temperature, w.DewPoint, w.Irradiance} {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

// covariates are the columns that drive a Ridge, on a scale near one, as that of its
// other features.
func (w *Weather) covariates() [][]float64 {
	var out [][]float64
	for _, c := range []struct {
		values []float64
		scale  float64
	}{{w.Irradiance, 500}, {w.Wind, 8}, {w.Temperature, 20}} {
		if c.values == nil {
			continue
		}
		scaled := make([]float64, len(c.values))
		for i, v := range c.values {
			scaled[i] = v / c.scale
		}
		out = append(out, scaled)
	}
	return out
}

// limit is the first slot whose weather a forecast issued when slot end begins may not
// use.
func (w *Weather) limit(end int) int {
	if w != nil && w.Horizon > 0 {
		return end + w.Horizon
	}
	return math.MaxInt
}

// filled is a column on the slots [from, to): a gap takes the value of the day before,
// and the first ones the first value that is known. Slots behind the end of the column
// and not before end are left out. If nothing is known, all values are NaN.
func filled(column []float64, from, end, to, perDay int) []float64 {
	out := nans(max(end, min(to, len(column))) - from)
	if from < len(column) {
		copy(out, column[from:])
	}
	i := slices.IndexFunc(out, isKnown)
	if i < 0 {
		return out
	}
	first := out[i]
	for i, v := range out {
		switch {
		case !math.IsNaN(v):
		case i >= perDay:
			out[i] = out[i-perDay]
		case i > 0:
			out[i] = out[i-1]
		default:
			out[i] = first
		}
	}
	return out
}
