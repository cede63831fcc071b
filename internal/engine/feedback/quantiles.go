package feedback

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/workload"
)

// Quantiles implements kube.Learned: the quantiles of the run times of the family above what is done
// already (workload.Lengths.Quantiles). Those of the family that still run count as at least as long as
// they have run. Elastic workloads have none: nothing is known of their lengths.
func (m *Memory) Quantiles(w *kube.Workload, done time.Duration) []workload.RunTimeQuantile {
	f := m.families[m.familyOf(w)]
	if f == nil {
		return nil
	}
	m.use(f)
	if done == 0 && f.whole != nil {
		return f.whole
	}
	out := f.lengths.Quantiles(done, f.running, workload.Probabilities...)
	for k := range out {
		out[k].Length = steadyAbove(out[k].Length)
	}
	if done == 0 {
		f.whole = out
	}
	return out
}

// steadyAbove is steady, rounded up: a guard errs on the side of the deadline.
func steadyAbove(d time.Duration) time.Duration {
	n := math.Ceil(math.Log(d.Seconds())/math.Log(step) - workload.Eps)
	return max(d, time.Duration(math.Ceil(math.Pow(step, n)))*time.Second)
}

// noteRunning notes how long the workloads of each family have run that have not ended. What has been
// paused or scales is left out, as when it has ended: see Ran.
func (m *Memory) noteRunning(view *kube.View) {
	for _, f := range m.families {
		f.running, f.whole = f.running[:0], nil
	}
	for i := range view.Snapshot.Tasks {
		t, p, w := &view.Snapshot.Tasks[i], &view.Progress[i], view.Workloads[i]
		ran, _ := time.ParseDuration(w.Annotations()[v1alpha1.AnnotationRan])
		if t.State != decide.Running || t.Scaling != nil || p.Ran <= 0 || ran > 0 {
			continue
		}
		f := m.family(m.familyOf(w))
		f.running = append(f.running, p.Ran)
	}
	for _, f := range m.families {
		slices.Sort(f.running)
	}
}
