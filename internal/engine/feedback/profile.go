package feedback

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// Shape is what a workload that names a profile says of it: how its throughput at one scale
// compares with that at a smaller one. What both have in common is the workload's own, whose
// run time may be misstated, and none of the profile's.
type Shape struct {
	Profile          string
	Workers, Against int
	Ratio            float64
	At               time.Time
}

// measured keeps the rate of a scale, and what it says of the profile.
func (r *Record) measured(workers int, rate float64, now time.Time) {
	if r.rates == nil {
		r.rates = map[int]float64{}
	}
	if old := r.rates[workers]; old > 0 {
		rate = (1-recent)*old + recent*rate
	}
	r.rates[workers] = rate
	against := 0
	for n := range r.rates {
		if n != workers && (against == 0 || n < against) {
			against = n
		}
	}
	if against == 0 {
		return
	}
	// The larger scale is told by the smaller: so the least keeps what it was declared.
	small, large := min(workers, against), max(workers, against)
	r.shape = &Shape{Workers: large, Against: small, Ratio: r.rates[large] / r.rates[small], At: now}
}

// Shapes returns what was measured of profiles since it was last asked.
func (m *Memory) Shapes(view *kube.View) []Shape {
	var out []Shape
	for _, w := range view.Workloads {
		r := m.records[w.UID()]
		profile := w.Annotations()[v1alpha1.AnnotationProfile]
		if r == nil || r.shape == nil || profile == "" {
			continue
		}
		s := *r.shape
		s.Profile, r.shape = profile, nil
		out = append(out, s)
	}
	return out
}

// Learn takes a shape into the status of its profile, and reports whether the profile now
// says something else: what differs by no more than the threshold is noise.
func Learn(profile *v1alpha1.ScalingProfile, s Shape, threshold float64) bool {
	against, err1 := kube.Throughput(profile, s.Against)
	was, err2 := kube.Throughput(profile, s.Workers)
	if err1 != nil || err2 != nil || was <= 0 {
		return false
	}
	seen := s.Ratio * against
	if math.IsNaN(seen) || math.IsInf(seen, 0) || seen <= 0 || math.Abs(seen/was-1) <= threshold {
		return false
	}
	points := &profile.Status.Observed
	i, known := slices.BinarySearchFunc(*points, int32(s.Workers), func(p v1alpha1.ObservedPoint, n int32) int { return int(p.Workers) - int(n) })
	if !known {
		*points = slices.Insert(*points, i, v1alpha1.ObservedPoint{Workers: int32(s.Workers), Throughput: seen})
	}
	p := &(*points)[i]
	p.Throughput = (1-recent)*p.Throughput + recent*seen
	p.Samples++
	p.Last = metav1.NewTime(s.At.UTC().Truncate(time.Second))
	return true
}

// seenProfile is a ScalingProfile and when (wall time) it was last there.
type seenProfile struct {
	*v1alpha1.ScalingProfile
	at time.Time
}

// Profiles returns the ScalingProfiles that there are, by name, and those that were there less than a grace (wall time) ago: one that
// is replaced is gone for a moment, and its workloads are not to be released for that. The profiles must not be modified.
func (m *Memory) Profiles(there []v1alpha1.ScalingProfile, now time.Time, grace time.Duration) map[string]*v1alpha1.ScalingProfile {
	seen := make(map[string]seenProfile, len(there))
	for i := range there {
		seen[there[i].Name] = seenProfile{&there[i], now}
	}
	for name, before := range m.profiles {
		if _, is := seen[name]; !is && now.Sub(before.at) < grace {
			seen[name] = before
		}
	}
	m.profiles = seen
	out := make(map[string]*v1alpha1.ScalingProfile, len(seen))
	for name, p := range seen {
		out[name] = p.ScalingProfile
	}
	return out
}
