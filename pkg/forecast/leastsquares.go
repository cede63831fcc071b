package forecast

import "math"

// sample is observations of a weighted regression: row i of x belongs to y[i] and w[i].
type sample struct{ x, y, w []float64 }

func (s *sample) reset() { s.x, s.y, s.w = s.x[:0], s.y[:0], s.w[:0] }

// fit returns the weighted ridge regression of y on the standardised columns of x.
//
// Complexity: O(p^2 (n + p)) for n rows of p columns.
func (s *sample) fit(lambda float64) leadFit {
	n := len(s.y)
	p := len(s.x) / n
	l := leadFit{mean: make([]float64, p), inverse: make([]float64, p), low: math.Inf(1), high: math.Inf(-1)}
	total, root := 0.0, make([]float64, n)
	for i, v := range s.y {
		total += s.w[i]
		root[i] = math.Sqrt(s.w[i])
		l.intercept += s.w[i] * v
		l.low, l.high = math.Min(l.low, v), math.Max(l.high, v)
	}
	l.intercept /= total
	z := make([]float64, n)
	for i, v := range s.y {
		z[i] = root[i] * (v - l.intercept)
	}
	columns, cells, xy := make([][]float64, p), make([]float64, p*n), make([]float64, p)
	for j := range p {
		c := cells[j*n : (j+1)*n]
		l.mean[j], l.inverse[j] = s.standardise(c, j, p)
		for i := range c {
			c[i] *= root[i]
		}
		columns[j], xy[j] = c, dot(c, z)
	}
	xx := make([]float64, 0, p*(p+1)/2)
	for r := range p {
		for c := range r {
			xx = append(xx, dot(columns[r], columns[c]))
		}
		xx = append(xx, dot(columns[r], columns[r])+lambda)
	}
	l.b = solve(xx, xy)
	return l
}

// standardise fills out with column j of p, less its weighted mean, over its standard
// deviation, clipped; what is unknown is the mean. It returns the mean and the inverse of
// the standard deviation: 0 if the column does not vary.
func (s *sample) standardise(out []float64, j, p int) (mean, inverse float64) {
	total, squared := 0.0, 0.0
	for i := range out {
		if v := s.x[i*p+j]; isKnown(v) {
			total += s.w[i]
			mean += s.w[i] * v
		}
	}
	if total == 0 {
		return 0, 0
	}
	mean /= total
	for i := range out {
		if v := s.x[i*p+j]; isKnown(v) {
			squared += s.w[i] * (v - mean) * (v - mean)
		}
	}
	if sd := math.Sqrt(squared / total); sd > 1e-9*math.Max(1, math.Abs(mean)) {
		inverse = 1 / sd
	}
	for i := range out {
		out[i] = standard(s.x[i*p+j], mean, inverse)
	}
	return mean, inverse
}

// standard is a feature in standard deviations from its mean, clipped; 0 if it is unknown.
func standard(v, mean, inverse float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return math.Min(featureBound, math.Max(-featureBound, (v-mean)*inverse))
}

// dot is the inner product, in four sums: a processor adds several at once.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// solve returns the solution of a positive definite system by Cholesky's decomposition.
// l is its lower triangle by rows, and is overwritten.
//
// Complexity: O(p^3).
func solve(l, b []float64) []float64 {
	row := func(r int) []float64 { return l[r*(r+1)/2 : r*(r+1)/2+r+1] }
	for r := range b {
		current := row(r)
		for c := range r {
			other := row(c)
			current[c] = (current[c] - dot(current[:c], other[:c])) / other[c]
		}
		current[r] = math.Sqrt(current[r] - dot(current[:r], current[:r]))
	}
	x := append([]float64(nil), b...)
	for r := range x {
		x[r] = (x[r] - dot(row(r)[:r], x[:r])) / row(r)[r]
	}
	for r := len(x) - 1; r >= 0; r-- {
		x[r] /= row(r)[r]
		for c, v := range row(r)[:r] {
			x[c] -= v * x[r]
		}
	}
	return x
}
