package workload

import (
	"math"
	"sort"
	"time"
)

// RunTimeQuantile is a whole run time, at MinWorkers, that is not exceeded with probability P.
type RunTimeQuantile struct {
	P      float64
	Length time.Duration
}

// Probabilities of the quantiles that are learned from earlier runs. The low ones count for schedules of elastic jobs, the
// high ones for deadlines.
var Probabilities = []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}

// QuantilesFrom is the least number of ended runs that quantiles rest on.
const QuantilesFrom = 5

// Quantiles returns the run times that a run which has lasted for done will not exceed, with each of the
// given probabilities (rising, above 0 and below 1). running are how long other runs have lasted that have
// not ended (ascending): such a run is censored, as it lasts at least that long. The result is nil if fewer
// than QuantilesFrom runs have ended, or if none of them was longer than done.
//
// The estimate is that of Kaplan and Meier, with the run in question as one more of those at risk:
//
//	S(t) = product of 1 - d(x)/n(x) over the run times x of ended runs, done < x <= t
//	d(x) = ended runs that lasted for x, n(x) = 1 + ended and running ones that lasted for x or longer
//	quantile(p) = least t with S(t) <= 1 - p
//
// Without running ones the quantile is therefore the k-th shortest of n runs with k = ceil(p (n+1)). Few runs
// say nothing of a high quantile: then it is the longest time known, ended or running.
//
// Complexity: O(running x log ended).
//
// Source: Kaplan and Meier, Nonparametric Estimation from Incomplete Observations, JASA 53(282), 1958.
func (l *Lengths) Quantiles(done time.Duration, running []time.Duration, probabilities ...float64) []RunTimeQuantile {
	ended := l.sorted
	after := func(d []time.Duration, at time.Duration) int {
		return sort.Search(len(d), func(i int) bool { return d[i] > at })
	}
	i, c := after(ended, done), after(running, done)
	if len(ended) < QuantilesFrom || i == len(ended) {
		return nil
	}
	longest := ended[len(ended)-1]
	if n := len(running); n > 0 {
		longest = max(longest, running[n-1])
	}
	out := make([]RunTimeQuantile, 0, len(probabilities))
	left := 1.0 // S before ended[i]
	for len(out) < len(probabilities) {
		// The ended runs before the next censored one: of n at risk the first k leave left * (n-k)/n.
		end := len(ended)
		if c < len(running) {
			end = after(ended, running[c]) // a run that ends at that moment was at risk then
		}
		n := float64(1 + len(ended) - i + len(running) - c)
		p := probabilities[len(out)]
		k := max(1, int(math.Ceil(n*(1-(1-p)/left)-Eps)))
		switch {
		case i+k <= end:
			out = append(out, RunTimeQuantile{p, ended[i+k-1]})
		case i == len(ended) || c == len(running):
			out = append(out, RunTimeQuantile{p, longest})
		default:
			left *= (n - float64(end-i)) / n
			i = end
			c++
		}
	}
	return out
}
