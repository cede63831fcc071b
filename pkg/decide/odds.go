package decide

import (
	"math"
	"slices"

	"lull.dev/lull/pkg/carbon"
)

// Odds say how a plan may turn out against another run of the same task: over the paths that intensities may take, each as likely as
// the others.
type Odds struct {
	// Paths is over how many paths; 0 if the paths of a cluster are not known, or not long enough.
	Paths int
	// Worse is in how many of them the plan emits more.
	Worse int
	// Low and High are the 10 % and the 90 % quantile of what the plan saves, as shares of what the other run emits; negative where it
	// emits more.
	Low, High float64
}

// Confident reports whether a plan emits no more in at least a share of the paths, 0 to 1. A plan whose odds are not known is taken to.
func (o Odds) Confident(share float64) bool {
	return o.Paths == 0 || float64(o.Paths-o.Worse) >= share*float64(o.Paths)-1e-9
}

// odds compares two runs of a task, over the paths of the clusters that they use. The paths of several zones are of the same days, so
// those with the same place from the end belong together.
//
// Complexity: O(paths x phases).
func (w *decider) odds(i int, phases, other []Phase) Odds {
	n := min(w.pathsOver(phases), w.pathsOver(other))
	if n == 0 {
		return Odds{}
	}
	o := Odds{Paths: n}
	savings := make([]float64, 0, n)
	planned, against := w.gramsOn(i, phases, n), w.gramsOn(i, other, n)
	for k := range planned {
		if planned[k] > against[k]*(1+equalGrams) {
			o.Worse++
		}
		if against[k] > 0 {
			savings = append(savings, 1-planned[k]/against[k])
		}
	}
	if len(savings) > 0 {
		slices.Sort(savings)
		tenth := int(math.Round(0.1 * float64(len(savings)-1)))
		o.Low, o.High = savings[tenth], savings[len(savings)-1-tenth]
	}
	return o
}

// pathsOver is how many paths all clusters of some phases have over all of them.
func (w *decider) pathsOver(phases []Phase) int {
	n := math.MaxInt
	for k := range phases {
		p := &phases[k]
		paths := w.pathsOf(p)
		if !paths.Covers(p.From, p.To) {
			return 0
		}
		n = min(n, paths.Len())
	}
	if len(phases) == 0 {
		return 0
	}
	return n
}

func (w *decider) pathsOf(p *Phase) *carbon.Paths {
	return w.s.Clusters[w.place(p.Cluster)].CarbonPaths
}

// gramsOn is what a task emits in some phases, on each of the last n paths.
func (w *decider) gramsOn(i int, phases []Phase, n int) []float64 {
	out := make([]float64, n)
	for k := range phases {
		p := &phases[k]
		kWh := w.watts(i, w.place(p.Cluster), p.Workers) / 1000 * p.To.Sub(p.From).Hours()
		w.pathsOf(p).AddOver(p.From, p.To, kWh, out)
	}
	return out
}
