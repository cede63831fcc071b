package curve

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
)

// configMap is where what is known of a curve is kept.
func (r *Reconciler) configMap(c *v1alpha1.CapacityCurve) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: configMapName(c.Name)}
}

const historyKey = "history.json.gz"

// load reads what an earlier controller has kept.
func (r *Reconciler) load(ctx context.Context, c *v1alpha1.CapacityCurve, m *memory) error {
	if m.loaded {
		return nil
	}
	var cm corev1.ConfigMap
	if err := r.Reader.Get(ctx, r.configMap(c), &cm); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	m.loaded = true
	text, kept := cm.BinaryData[historyKey]
	if !kept {
		return nil
	}
	v, err := unpack(text)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to read what was learned: learn again", "configMap", cm.Name)
		return nil
	}
	m.history.past = v.Past
	m.history.forget(time.Time{})
	m.history.changed = false
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(v.Cases) > 0 {
		k := carbonflex.NewKnowledge(0)
		if err := k.Add(v.Cases...); err != nil {
			log.FromContext(ctx).Error(err, "Failed to read what was learned: learn again", "configMap", cm.Name)
			return nil
		}
		m.knowledge, m.learnedAt, m.jobs = k, v.LearnedAt, v.Jobs
	}
	return nil
}

// keep stores what has come and what was learned, now and then.
func (r *Reconciler) keep(ctx context.Context, c *v1alpha1.CapacityCurve, m *memory, wall time.Time) error {
	if c.Spec.Method.CarbonFlex == nil && c.Spec.Method.VCC == nil {
		return nil
	}
	m.mu.Lock()
	v := stored{Past: m.history.past, LearnedAt: m.learnedAt, Jobs: m.jobs}
	if m.knowledge != nil {
		v.Cases = m.knowledge.Cases()
	}
	due := m.fresh || m.history.changed && wall.Sub(m.storedAt) >= storeAgain
	m.mu.Unlock()
	if !due {
		return nil
	}
	text, err := packWithin(v, maxPacked)
	if err != nil {
		return err
	}
	name := r.configMap(c)
	cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("CapacityCurve"))},
	}, BinaryData: map[string][]byte{historyKey: text}}
	err = r.Client.Update(ctx, &cm)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, &cm)
	}
	if err != nil {
		return fmt.Errorf("keep what was learned: %w", err)
	}
	m.storedAt, m.history.changed = wall, false
	m.mu.Lock()
	m.fresh = false
	m.mu.Unlock()
	return nil
}

// shifts of the grid, in hours, with which the past is replayed, so that one history of jobs meets
// several of the grid (Section 4.2 of the source).
var shifts = []time.Duration{6 * time.Hour, 12 * time.Hour, 18 * time.Hour}

// learn replays the past through the oracle beside the reconciliation, when that is due.
func (r *Reconciler) learn(ctx context.Context, c *v1alpha1.CapacityCurve, m *memory, at *moment) {
	spec := c.Spec.Method.CarbonFlex
	if spec == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	every := kube.DurationOf(spec.Every, 24*time.Hour)
	if m.learning || !m.learnedAt.IsZero() && at.now.Sub(m.learnedAt) < every || len(m.history.past) == 0 {
		return
	}
	if first := m.history.past[0].Submitted; m.learnedAt.IsZero() && at.now.Sub(first) < every {
		return // not a day's worth yet
	}
	perUnit := power.PerUnit{PUE: 1}
	for i := range at.demands {
		perUnit = at.demands[i].Power
	}
	from := at.now.Add(-kube.DurationOf(spec.History, 14*24*time.Hour))
	if first := m.history.past[0].Submitted; first.After(from) {
		from = first
	}
	// For what goes on beyond this moment, what is expected stands in.
	p, ok := m.history.problem(from, at.now, at.slot, c.Spec.Resource, at.maximum, perUnit, func(g timegrid.Grid) ([]float64, bool) {
		return at.intensity(g.Start, g.N)
	})
	if !ok {
		return
	}
	m.learning = true
	now, name := at.now, c.Name
	slot := at.slot
	logger := log.FromContext(ctx)
	go func() {
		r.learning.Lock()
		defer r.learning.Unlock()
		begin := time.Now()
		// Not the context of the reconciliation, which ends: a replay is bounded by its size.
		k, err := replay(context.WithoutCancel(ctx), p, slot)
		metrics.LearningSeconds.Observe(time.Since(begin).Seconds())
		m.mu.Lock()
		defer m.mu.Unlock()
		m.learning = false
		m.learnedAt = now // also where it failed: it is tried again when it is due
		if err != nil {
			logger.Error(err, "Failed to learn")
			return
		}
		m.knowledge, m.jobs, m.fresh = k, len(p.Jobs), true
		metrics.CapacityCases.WithLabelValues(name).Set(float64(k.Len()))
		logger.Info("Learned", "jobs", len(p.Jobs), "cases", k.Len())
	}()
}

// replay is what the oracle did with a stretch of the past.
func replay(ctx context.Context, p *plan.Problem, slot time.Duration) (*carbonflex.Knowledge, error) {
	slots := make([]int, len(shifts))
	for i, s := range shifts {
		slots[i] = int(s / slot)
	}
	cases, err := carbonflex.Learn(ctx, p, slots...)
	if err != nil {
		return nil, err
	}
	k := carbonflex.NewKnowledge(0)
	return k, k.Add(cases...)
}

// Simulated is planner carbonflex as a curve of hourly slots lives, for comparing the two: each day it learns
// anew from what has come in the fourteen days before. jobs ask for units of one resource, start is when the
// first slot begins.
//
// Errors: those of learning, from Plan.
func Simulated(jobs []Past, start time.Time, maximum, watts float64, series *carbon.Series) (plan.Planner, error) {
	const days, resource = 14, "unit"
	h := History{past: make([]Past, len(jobs))}
	for i, j := range jobs {
		j.Request = map[string]float64{resource: 1}
		h.past[i] = j
	}
	learn := func(slot int) (*carbonflex.Knowledge, error) {
		now := start.Add(time.Duration(slot) * time.Hour)
		p, ok := h.problem(now.AddDate(0, 0, -days), now, time.Hour, resource, maximum, power.PerUnit{Watts: map[string]float64{resource: watts}, PUE: 1}, func(g timegrid.Grid) ([]float64, bool) {
			filled, ok := carbon.FillSlots(series, g)
			return filled.Values, ok
		})
		if !ok {
			return nil, nil // nothing has come: what was known stands
		}
		return replay(context.Background(), p, time.Hour)
	}
	first, err := learn(0)
	if err != nil {
		return nil, err
	}
	return carbonflex.New(carbonflex.Params{Knowledge: first, Relearn: func(slot int) *carbonflex.Knowledge {
		if slot == 0 || slot%24 != 0 {
			return nil
		}
		k, err := learn(slot)
		if err != nil {
			return nil
		}
		return k
	}})
}
