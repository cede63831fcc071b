package generate

import "math/rand/v2"

// MeasuredCurve returns a marginal capacity curve as measurements of programs give
// them: falling, with bumps, with workers that add nothing, at powers of two only, in
// even steps, or flat.
func MeasuredCurve(rng *rand.Rand, minimum, scales int) []float64 {
	out := make([]float64, scales)
	shape, decay := rng.IntN(6), 0.6+0.4*rng.Float64()
	gain, idle := 1.0, 0.0
	for i := range out {
		workers := minimum + i
		switch v := gain; shape {
		case 0: // falling
			out[i] = v
		case 1: // bumps
			out[i] = v * (0.4 + 1.2*rng.Float64())
		case 2: // workers that add nothing
			if rng.IntN(2) == 0 {
				out[i] = v
			}
		case 3, 4: // only powers of two, or even numbers, are of use
			idle += v
			if useful := workers&(workers-1) == 0; (shape == 3 && useful) || (shape == 4 && workers%2 == 0) {
				out[i], idle = idle, 0
			}
		default: // flat, then of no more use
			if i < scales*2/3 {
				out[i] = 1
			}
		}
		gain *= decay
	}
	out[0] = float64(minimum) * (0.5 + rng.Float64())
	if shape == 5 {
		out[0] = float64(minimum)
	}
	return out
}
