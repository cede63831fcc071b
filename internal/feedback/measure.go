package feedback

import (
	"fmt"
	"math"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/pkg/decide"
)

// count adds up the energy and emissions of what runs: as measured, else by the power model.
func (m *Memory) count(r *Record, t *decide.Task, p *kube.Progress, s *decide.Snapshot) {
	from := r.counted
	if from.IsZero() || from.Before(p.Since) {
		from = p.Since
	}
	r.counted = s.Now
	if t.State != decide.Running || p.Since.IsZero() || !from.Before(s.Now) {
		return
	}
	watts, asked := p.Watts, p.Wanted
	if t.Scaling != nil {
		asked = t.Workers
	}
	if p.Running+p.Pending > 0 && p.Running < asked {
		watts *= float64(p.Running) / float64(asked) // fewer pods than asked for
	}
	if r.energyFrom = p.DrawnFrom; r.energyFrom == "" {
		r.energyFrom = kube.FromModel
	} else {
		watts = p.Drawn
	}
	kwh := watts / 1000 * s.Now.Sub(from).Hours()
	r.energyKWh += kwh
	m.used.EnergyKWh[r.energyFrom] += kwh
	if r.energyFrom != kube.FromModel {
		r.measuredKWh += kwh
	}
	if c := s.Place(t.Cluster).Carbon; c != nil {
		mean, covered := c.Mean(from, s.Now) // time of which nothing is known counts as the rest
		if covered == 0 {
			x, _ := c.At(s.Now)
			mean = x.Value
		}
		r.emittedG += kwh * float64(mean)
		m.used.EmittedG += kwh * float64(mean)
	}
}

// throughput compares what the workload itself says of its progress with what its scale
// should do. Where it differs by more than the threshold the profile is corrected. It
// says so where that happens.
func (r *Record) throughput(t *decide.Task, p *kube.Progress, s *decide.Snapshot, threshold float64) string {
	steady := t.State == decide.Running && t.Scaling != nil && !t.Changing && p.Running >= p.Wanted && p.Source != kube.FromModel
	if !steady || r.sample.workers != t.Workers || r.sample.at.Before(p.Since) {
		r.sample = sample{}
		if steady {
			r.sample = sample{s.Now, p.Done, t.Workers}
		}
		return ""
	}
	// A measurement needs some time, and some progress: what comes in steps is not
	// measured by one of them.
	span, gain := s.Now.Sub(r.sample.at), p.Done-r.sample.done
	if span < s.Slot || gain <= 0 {
		return ""
	}
	rate := float64(gain) / float64(span)
	model := t.Scaling.Rate(t.Workers) * p.Speed
	r.sample = sample{s.Now, p.Done, t.Workers}
	r.measured(t.Workers, rate, s.Now)
	if math.Abs(rate/model-1) <= threshold {
		return ""
	}
	was := model
	rate = r.learn(t.Workers, rate, s.Now)
	return fmt.Sprintf("%d workers do %.2f times the work of the least scale, %.2f were expected", t.Workers, rate, was)
}

// learn corrects the observed throughput of a scale.
func (r *Record) learn(workers int, rate float64, now time.Time) float64 {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	for i := range r.observed {
		o := &r.observed[i]
		if int(o.Workers) == workers {
			o.Throughput = (1-recent)*o.Throughput + recent*rate
			o.Samples++
			o.Last = at
			return o.Throughput
		}
	}
	r.observed = append(r.observed, v1alpha1.ObservedPoint{Workers: int32(workers), Throughput: rate, Samples: 1, Last: at})
	sort.Slice(r.observed, func(a, b int) bool { return r.observed[a].Workers < r.observed[b].Workers })
	return rate
}
