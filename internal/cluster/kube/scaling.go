package kube

import (
	"errors"
	"fmt"
	"sort"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/trace"
)

// serialShare is the share of the work that more workers do not speed up, where nothing is
// known of how a workload scales: Amdahl's law, speed-up n / (1 + s (n - 1)).
const serialShare = 0.05

// point is what is known of one scale.
type point struct {
	throughput, watts float64
	// measured says that watts are known.
	measured bool
}

// scalingOf is how an elastic workload scales: by its profile with what was observed since,
// else by the prior of serialShare; corrected by what was observed of the workload itself. speed is the
// throughput observed at the least scale, relative to the one declared.
func scalingOf(in Input, w *Workload, o *Options) (scaling *decide.Scaling, speed float64, err error) {
	points := map[int]point{}
	var learned []v1alpha1.ObservedPoint // relative to the first point of the profile
	if o.Profile != "" {
		profile, ok := in.Profiles[o.Profile]
		if !ok {
			return nil, 1, annotationError(v1alpha1.AnnotationProfile, o.Profile, "the name of a ScalingProfile of the namespace")
		}
		if points, err = pointsOf(profile); err != nil {
			return nil, 1, err
		}
		learned = profile.Status.Observed
	} else {
		for n := 1; n <= o.MaxWorkers; n *= 2 {
			points[n] = point{throughput: float64(n) / (1 + serialShare*float64(n-1))}
		}
		points[o.MaxWorkers] = point{throughput: float64(o.MaxWorkers) / (1 + serialShare*float64(o.MaxWorkers-1))}
	}
	most := o.MaxWorkers
	if w.Facts.Of > 0 {
		most = max(o.MinWorkers, min(most, w.Facts.Of)) // more would never run
	}
	var seen []v1alpha1.ObservedPoint
	if in.Learned != nil {
		seen = in.Learned.Observed(w)
		if n := in.Learned.MostWorkers(w); n > 0 {
			most = max(o.MinWorkers, min(most, n))
		}
	}
	declared, err := profileOf(points).Scale(o.MinWorkers, most)
	if err != nil {
		return nil, 1, err
	}
	for i, x := range learned {
		if !plausible(x.Throughput) {
			return nil, 1, profileError(o.Profile, fmt.Sprintf("status.observed[%d].throughput", i), x.Throughput, acceptedRatio)
		}
		points[int(x.Workers)] = point{throughput: x.Throughput}
	}
	before, err := profileOf(points).Scale(o.MinWorkers, most)
	if err != nil {
		return nil, 1, err
	}
	for _, x := range seen { // relative to the least scale
		if !plausible(x.Throughput) {
			return nil, 1, fmt.Errorf("%w: CarbonPlan %s: status.observed: throughput of %d workers: %v; accepted: %s", ErrProfile, PlanName(w), x.Workers, x.Throughput, acceptedRatio)
		}
		points[int(x.Workers)] = point{throughput: x.Throughput * before.Curve[0]}
	}
	m, err := profileOf(points).Scale(o.MinWorkers, most)
	if err != nil {
		return nil, 1, err
	}
	first := m.Curve[0]
	for i := range m.Curve {
		m.Curve[i] /= first
	}
	scaling = &decide.Scaling{MinWorkers: o.MinWorkers, MaxWorkers: most, Curve: m.Curve, Watts: declared.Watts}
	if scaling.Watts == nil && len(w.Facts.Fixed) > 0 {
		model, err := PowerModel(&in.Policy.Spec.Power)
		if err != nil {
			return nil, 1, err
		}
		fixed, worker := power.Sum(w.Facts.Fixed, model.Watts), power.Sum(w.Facts.Request, model.Watts)
		for n := o.MinWorkers; n <= most; n++ {
			scaling.Watts = append(scaling.Watts, fixed+float64(n)*worker)
		}
	}
	return scaling, first / before.Curve[0], nil
}

// Throughput is that of a number of workers by a profile and what was observed since,
// relative to its first point as declared.
func Throughput(profile *v1alpha1.ScalingProfile, workers int) (float64, error) {
	points, err := pointsOf(profile)
	if err != nil {
		return 0, err
	}
	for i, x := range profile.Status.Observed {
		if !plausible(x.Throughput) {
			return 0, profileError(profile.Name, fmt.Sprintf("status.observed[%d].throughput", i), x.Throughput, acceptedRatio)
		}
		points[int(x.Workers)] = point{throughput: x.Throughput}
	}
	m, err := profileOf(points).Scale(workers, workers)
	if err != nil {
		return 0, err
	}
	return m.Curve[0], nil
}

// ErrProfile marks a throughput or power that no workload has.
var ErrProfile = errors.New("invalid scaling")

// largestRatio bounds throughputs relative to the one that they count from: a curve of greater
// range has no use, and its sums lose all digits.
const largestRatio = 1e6

const acceptedRatio = "0.000001 to 1000000, relative to the first point"

// plausible says whether a relative throughput is one that a curve may have.
func plausible(ratio float64) bool { return ratio >= 1/largestRatio && ratio <= largestRatio }

func profileError(profile, field string, value float64, accepted string) error {
	return fmt.Errorf("%w: ScalingProfile %s: %s: %v; accepted: %s", ErrProfile, profile, field, value, accepted)
}

// pointsOf returns the points of a profile, relative to the first. It checks what the API server
// does, for profiles that were stored before it did. Errors wrap ErrProfile.
func pointsOf(profile *v1alpha1.ScalingProfile) (map[int]point, error) {
	points := map[int]point{}
	for i, p := range profile.Spec.Points {
		x := point{throughput: p.Throughput / profile.Spec.Points[0].Throughput}
		if !plausible(x.throughput) {
			return nil, profileError(profile.Name, fmt.Sprintf("spec.points[%d].throughput", i), p.Throughput, acceptedRatio)
		}
		if p.Watts != nil {
			x.watts, x.measured = *p.Watts, true
			if !(x.watts >= 0 && x.watts <= power.MaxWatts) {
				return nil, profileError(profile.Name, fmt.Sprintf("spec.points[%d].watts", i), x.watts, fmt.Sprintf("0 to %v W", float64(power.MaxWatts)))
			}
		}
		points[int(p.Workers)] = x
	}
	return points, nil
}

// profileOf orders points by workers; watts only where every point has them.
func profileOf(points map[int]point) *trace.Profile {
	p := &trace.Profile{}
	for n := range points {
		p.Workers = append(p.Workers, n)
	}
	sort.Ints(p.Workers)
	measured := 0
	for _, n := range p.Workers {
		x := points[n]
		p.Throughput, p.Watts = append(p.Throughput, x.throughput), append(p.Watts, x.watts)
		if x.measured {
			measured++
		}
	}
	if measured < len(p.Workers) {
		p.Watts = nil
	}
	return p
}

// heldWorkers is the number of workers of a workload that is held at none.
func heldWorkers(w *Workload) int { return kinds.HeldWorkers(w.Objects[0].Object) }

// describe names a workload for people.
func describe(w *Workload) string {
	return fmt.Sprintf("%s %s/%s", w.Kind.Name, w.Namespace(), w.Name())
}
