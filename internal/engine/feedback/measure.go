package feedback

import (
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/decide"
)

// count adds up the energy and emissions of what runs: as measured, else by the power model. Hours without an
// intensity are filled by carbon.FillRule; energy beyond that has no emissions and is counted as such.
func (m *Memory) count(r *Record, t *decide.Task, p *kube.Progress, s *decide.Snapshot) {
	from := r.counted
	if from.IsZero() || from.Before(p.Since) {
		from = p.Since
	}
	r.counted, r.drawing = s.Now, 0
	if t.State != decide.Running || p.Idle || p.Since.IsZero() || !from.Before(s.Now) {
		return
	}
	watts, asked := p.Watts, p.Wanted
	if t.Scaling != nil {
		asked = t.Workers
	}
	if p.Running+p.Pending > 0 && p.Running < asked {
		watts *= float64(p.Running) / float64(asked) // fewer pods than asked for
	}
	r.meteredShare = 0
	if r.energyFrom = p.DrawnFrom; r.energyFrom == "" {
		r.energyFrom = kube.FromModel
	} else if watts = p.Drawn; watts > 0 {
		r.meteredShare = 1 - p.Modelled/watts
	}
	r.drawing, r.place = watts, t.Cluster
	m.add(r, from, s.Now, s)
}

// countEnd adds up the energy of a workload from when it was counted last to its end: as much as it drew then. Without this
// its energy would end at the last reconciliation before.
func (m *Memory) countEnd(r *Record, end time.Time, s *decide.Snapshot) {
	if r.drawing > 0 && end.After(r.counted) && len(s.Clusters) > 0 {
		m.add(r, r.counted, end, s)
		r.counted = end
	}
	r.drawing = 0
}

// add adds up the energy and emissions of an interval in which a workload draws r.drawing watts at r.place.
func (m *Memory) add(r *Record, from, to time.Time, s *decide.Snapshot) {
	kwh := r.drawing / 1000 * to.Sub(from).Hours()
	r.energyKWh += kwh
	m.used.EnergyKWh[r.energyFrom] += kwh
	r.measuredKWh += kwh * r.meteredShare
	c := s.Place(r.place).Carbon
	if c == nil {
		r.unpricedKWh += kwh
		return
	}
	intensity := c.FilledMean(from, to)
	unpriced := kwh * float64(intensity.Unknown) / float64(to.Sub(from))
	grams := (kwh - unpriced) * float64(intensity.Mean)
	r.unpricedKWh += unpriced
	r.emittedG += grams
	m.used.EmittedG += grams
}

// learn corrects the observed throughput of a scale.
func (r *Record) learn(workers int, rate float64, now time.Time) {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	for i := range r.observed {
		o := &r.observed[i]
		if int(o.Workers) == workers {
			o.Throughput = (1-recent)*o.Throughput + recent*rate
			o.Samples++
			o.Last = at
			return
		}
	}
	r.observed = append(r.observed, v1alpha1.ObservedPoint{Workers: int32(workers), Throughput: rate, Samples: 1, Last: at})
	sort.Slice(r.observed, func(a, b int) bool { return r.observed[a].Workers < r.observed[b].Workers })
}
