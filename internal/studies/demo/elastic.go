package demo

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// scaling is how an elastic job scales: throughput and watts of 1, 2, ... workers.
type scaling struct {
	name, source      string
	throughput, watts []float64
}

// elasticProfiles are those of the demo: speed-up over one worker and watts of all workers.
// Source: CarbonScaler's published measurements, N-body over MPI (src/profiles), and
// carbonAdvisor's, training of ResNet18 and MobileNetV2 (scale_profile.yaml), rounded.
var elasticProfiles = []scaling{
	{"resnet18", "carbonAdvisor scale_profile.yaml, rounded", []float64{1, 1.90, 2.88, 3.81, 4.61, 5.62, 6.46, 7.32}, []float64{150, 259, 399, 459, 570, 717, 998, 1020}},
	{"mobilenet-v2", "carbonAdvisor scale_profile.yaml, rounded", []float64{1, 1.73, 2.51, 3.33, 3.96, 4.70, 5.35, 5.99}, []float64{124, 233, 330, 444, 560, 661, 780, 884}},
	{"nbody-10k", "CarbonScaler src/profiles, rounded", []float64{1, 1.62, 2.17, 2.56, 2.94, 3.24, 3.48}, []float64{52, 104, 158, 207, 263, 315, 366}},
}

// object is the profile as a resource.
func (s *scaling) object(ns string) *v1alpha1.ScalingProfile {
	p := &v1alpha1.ScalingProfile{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: ns}, Spec: v1alpha1.ScalingProfileSpec{Unit: "speed-up", Source: s.source}}
	for i := range s.throughput {
		point := v1alpha1.ScalingPoint{Workers: int32(i + 1), Throughput: s.throughput[i]}
		if s.watts != nil {
			point.Watts = &s.watts[i]
		}
		p.Spec.Points = append(p.Spec.Points, point)
	}
	return p
}

// scale is the profile for the simulator.
func (s *scaling) scale() *sim.Scale {
	curve := slices.Clone(s.throughput)
	for i := len(curve) - 1; i > 0; i-- {
		curve[i] = max(0, curve[i]-slices.Max(s.throughput[:i]))
	}
	return &sim.Scale{MinWorkers: 1, MaxWorkers: len(curve), Curve: curve, Watts: s.watts}
}

// elasticJobs are the demo's: each arrives early and may take twice the time that it needs
// with a single worker, at most until the end of the replay.
func elasticJobs() []spec {
	var out []spec
	for i := range elasticProfiles {
		out = append(out, spec{
			name: elasticProfiles[i].name, arrival: time.Duration(1+2*i) * time.Hour,
			length: 20 * time.Hour, estimate: 20 * time.Hour, slack: 20 * time.Hour, cpus: 4, elastic: &elasticProfiles[i],
		})
	}
	return out
}

// makeElastic turns a Job into one without a fixed number of pods, which ends when one of
// them finds that no work is left.
func (s spec) makeElastic(j *batchv1.Job) {
	one := int32(1)
	j.Spec.Parallelism = &one
	a := j.Annotations
	a[v1alpha1.AnnotationMinWorkers], a[v1alpha1.AnnotationMaxWorkers] = "1", strconv.Itoa(len(s.elastic.throughput))
	a[v1alpha1.AnnotationProfile] = s.elastic.name
	delete(j.Spec.Template.Annotations, runtimeAnnotation)
}

// work is what the player has to do for the job.
func (s spec) work() Work {
	return Work{Job: s.name, Length: s.length, Throughput: s.elastic.throughput}
}

// watts is the power of n running pods, PUE included.
func (s spec) watts(n int, model power.PerUnit) units.Power {
	if s.elastic != nil && s.elastic.watts != nil {
		return units.Power(s.elastic.watts[min(n, len(s.elastic.watts))-1] * model.PUE)
	}
	return units.Power(n) * model.Of(map[string]float64{"cpu": float64(s.cpus)})
}

// simulated is the job for the simulator.
func (s spec) simulated(submitted, deadline time.Time) sim.Job {
	j := sim.Job{
		ID: s.name, Submitted: submitted, Length: s.length, Estimate: s.estimate, Deadline: deadline,
		Kind: workload.Rigid, Request: map[string]float64{"cpu": float64(s.cpus)},
	}
	if s.elastic != nil {
		j.Kind, j.Scale = workload.Elastic, s.elastic.scale()
	}
	return j
}

// stair is a time with the same number of running pods.
type stair struct {
	from, to time.Time
	pods     int
}

// stairs counts the pods over time.
func stairs(runs []run) []stair {
	var edges []time.Time
	for _, x := range runs {
		edges = append(edges, x.start, x.end)
	}
	slices.SortFunc(edges, time.Time.Compare)
	edges = slices.CompactFunc(edges, time.Time.Equal)
	var out []stair
	for i := 1; i < len(edges); i++ {
		n := 0
		for _, x := range runs {
			if !x.start.After(edges[i-1]) && !x.end.Before(edges[i]) {
				n++
			}
		}
		switch k := len(out) - 1; {
		case n == 0:
		case k >= 0 && out[k].pods == n && out[k].to.Equal(edges[i-1]):
			out[k].to = edges[i]
		default:
			out = append(out, stair{edges[i-1], edges[i], n})
		}
	}
	return out
}

// priced returns the emissions of a constant power. Hours without an intensity are filled by
// carbon.FillRule; the error, wrapping ErrDemo, says where that has no value either.
func priced(watts units.Power, series *carbon.Series, from, to time.Time) (units.Emissions, error) {
	p := power.PriceOver(watts, series, from, to)
	if p.Unknown > 0 {
		return 0, fmt.Errorf("%w: emissions withheld: of %s to %s, %v have no carbon intensity, nor has the same hour of any day within 7 days",
			ErrDemo, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), p.Unknown)
	}
	return p.Emissions, nil
}

// used returns what the runs of a job emitted and took; it returns the errors of priced.
func (s spec) used(runs []run, model power.PerUnit, series *carbon.Series) (grams units.Emissions, energy units.Energy, err error) {
	for _, x := range stairs(runs) {
		watts := s.watts(x.pods, model)
		g, err := priced(watts, series, x.from, x.to)
		if err != nil {
			return 0, 0, err
		}
		grams += g
		energy += watts.Over(x.to.Sub(x.from))
	}
	return grams, energy, nil
}
