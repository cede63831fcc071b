package curve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights, generated into charts/lull/files/rbac/capacity.yaml.
//
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=clusterqueues;cohorts,verbs=get;update
// +kubebuilder:rbac:groups=karpenter.sh,resources=nodepools,verbs=get;update
// +kubebuilder:rbac:groups="",resources=nodes,verbs=patch
// +kubebuilder:rbac:groups="",namespace=lull-system,resources=configmaps,verbs=get;create;update

// Reconciler carries CapacityCurves out.
type Reconciler struct {
	Client client.Client // writes, and reads from the cache
	Reader client.Reader // of the API server
	Store  *Store
	Zone   func(name string) (carbon.Outlook, timegrid.Timeline, bool)
	Clock  clock.Clock
	// Namespace is where what has been learned is kept.
	Namespace string

	mu       sync.Mutex
	curves   map[string]*memory
	learning sync.Mutex // one curve learns at a time
}

const (
	// leastLook and mostLook bound the pause between two looks at a curve; at the end of a slot it is
	// atOnce at least.
	leastLook, mostLook = 200 * time.Millisecond, 2 * time.Second
	atOnce              = 5 * time.Millisecond
	// targetAgain is how often a target is looked at that should be as it is.
	targetAgain = 15 * time.Second
	// storeAgain is how often what has come is stored, at most.
	storeAgain = 30 * time.Second
)

// memory is what is known of a curve beside its status. It is used by one goroutine at a time but for
// what learning brings.
type memory struct {
	loaded   bool
	history  History
	storedAt time.Time // wall time

	// of the present slot
	slot    time.Time
	wish    wish
	totals  map[string]float64
	nodes   map[string]bool
	setAt   time.Time // wall time
	setTo   float64
	problem error
	note    string

	// what learning brings
	mu        sync.Mutex
	knowledge *carbonflex.Knowledge
	learnedAt time.Time // of the zone's series
	jobs      int
	learning  bool
	fresh     bool // not stored yet
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.curves = map[string]*memory{}
	return ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.CapacityCurve{}).Complete(r)
}

// Reconcile looks at one curve.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var c v1alpha1.CapacityCurve
	if err := r.Reader.Get(ctx, req.NamespacedName, &c); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	tgt, err := targetOf(&c, r.Reader, r.Client, r.Client)
	if c.DeletionTimestamp != nil {
		r.Store.set(c.Name, nil)
		r.Store.bind(c.Name, nil)
		return again(r.release(ctx, &c, tgt))
	}
	if err != nil {
		return ctrl.Result{}, r.state(ctx, &c, c.DeepCopy(), err)
	}
	if _, err := kube.SetFinalizer(ctx, r.Client, &c, v1alpha1.CapacityFinalizer, true); err != nil {
		return again(client.IgnoreNotFound(err))
	}
	before := c.DeepCopy()
	wait, problem := r.look(ctx, &c, tgt)
	// Right after a start what is set, and said, stands.
	if apierrors.IsConflict(problem) || errors.Is(problem, errNotYet) && c.Status.ObservedGeneration == c.Generation {
		return ctrl.Result{RequeueAfter: leastLook}, nil
	}
	if err := r.state(ctx, &c, before, problem); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// release makes the target what it was, if there is one, and removes the finalizer.
func (r *Reconciler) release(ctx context.Context, c *v1alpha1.CapacityCurve, tgt target) error {
	if tgt != nil {
		if err := tgt.restore(ctx); err != nil {
			return err
		}
	}
	_, err := kube.SetFinalizer(ctx, r.Client, c, v1alpha1.CapacityFinalizer, false)
	return client.IgnoreNotFound(err)
}

// again is what follows a write: one of an object that somebody else has changed is made anew.
func again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: leastLook}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	delete(r.curves, name)
	r.mu.Unlock()
	r.Store.set(name, nil)
	r.Store.bind(name, nil)
	metrics.ForgetCurve(name)
}

func (r *Reconciler) memory(name string) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.curves[name]
	if m == nil {
		m = &memory{}
		r.curves[name] = m
	}
	return m
}

// errNotYet: something that the curve rests on has not been looked at since the controller started.
var errNotYet = errors.New("not reconciled yet")

// look decides the capacity of this moment, sets it and tells it.
func (r *Reconciler) look(ctx context.Context, c *v1alpha1.CapacityCurve, tgt target) (wait time.Duration, problem error) {
	outlook, timeline, known := r.Zone(c.Spec.Zone)
	if !known {
		if err := r.Client.Get(ctx, types.NamespacedName{Name: c.Spec.Zone}, &v1alpha1.GridZone{}); err != nil {
			return mostLook, fmt.Errorf("spec.zone: %w", err)
		}
		return leastLook, fmt.Errorf("spec.zone: %w", errNotYet)
	}
	bounds, err := boundsOf(&c.Spec)
	if err != nil {
		return mostLook, err
	}
	m := r.memory(c.Name)
	if err := r.load(ctx, c, m); err != nil {
		return mostLook, err
	}
	wall := r.Clock.Now()
	var policies []types.NamespacedName
	for _, p := range c.Spec.Policies {
		policies = append(policies, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
	refused := r.Store.bind(c.Name, policies)
	demands, missing := r.Store.demand(policies)
	slot := kube.DurationOf(c.Spec.Slot, time.Hour)
	now := timeline.ToGrid(wall)
	at := moment{
		spec: &c.Spec, now: now, slot: slot, maximum: bounds.Maximum, minimum: bounds.Minimum, outlook: outlook,
		demands: demands, history: &m.history,
	}
	for i := range demands {
		for j := range demands[i].Tasks {
			m.history.see(&demands[i].Tasks[j], demands[i].Runtime[j])
		}
	}
	start := at.start()
	// The next slot is looked at when it begins: policies wait for it.
	wait = min(max(atOnce, timeline.ToWall(start.Add(slot)).Sub(wall)), max(leastLook, min(mostLook, timeline.ToWall(start.Add(slot/20)).Sub(timeline.ToWall(start)))))
	if missing && len(c.Spec.Method.Schedule) == 0 {
		problem := missingPolicies(ctx, r.Client, policies)
		if errors.Is(problem, errNotYet) {
			return leastLook, problem
		}
		return mostLook, problem
	}
	m.mu.Lock()
	at.flex = m.knowledge
	m.mu.Unlock()

	m.wishFor(c, &at, start)
	value := at.decide(c, m, bounds, start)
	r.tellFlex(c, m)
	if len(refused) > 0 {
		return wait, fmt.Errorf("spec.policies: %v follows another CapacityCurve; accepted: one curve a policy", refused[0])
	}
	switch problem = r.enforce(ctx, c, m, tgt, value, wall); {
	case foreign(problem):
		r.Store.set(c.Name, nil) // policies go by what there is
		return wait, problem
	case problem != nil: // it passes: what was told stands
		m.setAt = time.Time{}
		return mostLook, problem
	}
	r.Store.set(c.Name, at.tell(c, m, value))
	r.learn(ctx, c, m, &at)
	return wait, r.keep(ctx, c, m, wall)
}

// wishFor asks the method of a curve for its capacity, where a slot begins or the specification has changed; one
// that follows plans is asked each time. A new slot begins without a capacity.
func (m *memory) wishFor(c *v1alpha1.CapacityCurve, at *moment, start time.Time) {
	st := &c.Status
	fresh, changed := !m.slot.Equal(start), st.ObservedGeneration != c.Generation
	if fresh || changed || c.Spec.Method.Planned != nil {
		if st.Slot != nil && !st.Slot.After(start) && !changed {
			at.standing = append([]v1alpha1.CapacityPoint{{From: *st.Slot, Capacity: st.Wanted}}, st.Ahead...)
		}
		m.wish = at.want()
	}
	if fresh {
		if st.Slot == nil || !st.Slot.Time.Equal(start) {
			st.Before = nil
			if st.Slot != nil && st.ObservedGeneration > 0 {
				before := st.Capacity
				st.Before = &before
			}
			st.Capacity = 0
		}
		m.slot = start
		m.history.forget(at.now.Add(-historyOf(&c.Spec)))
	}
	if changed {
		st.Capacity = 0 // of another specification
	}
}

// decide bounds what the method wishes, and states it and what it rests on in the status.
func (at *moment) decide(c *v1alpha1.CapacityCurve, m *memory, bounds capacity.Bounds, start time.Time) (value float64) {
	st := &c.Status
	margin := time.Duration(0)
	for i := range at.demands {
		margin = max(margin, at.demands[i].Margin)
	}
	last := -1.0
	if st.Before != nil {
		last = *st.Before
	}
	floor := at.floor(margin)
	value, why := bounds.Bound(m.wish.capacity, floor, last)
	if value < st.Capacity {
		value, why = st.Capacity, capacity.Reason(st.Reason) // within a slot it only rises
	}
	st.Slot, st.Capacity, st.Wanted, st.Floor, st.Reason = &metav1.Time{Time: start.UTC()}, rounded(value), rounded(m.wish.capacity), rounded(floor), string(why)
	st.Message, st.Ahead = m.wish.message, m.wish.ahead
	st.Used, st.Waiting = used(at.demands, c.Spec.Resource)
	return value
}

// missingPolicies says that a policy has not been decided on yet, or is not there.
func missingPolicies(ctx context.Context, reader client.Reader, policies []types.NamespacedName) error {
	for _, p := range policies {
		if err := reader.Get(ctx, p, &v1alpha1.CarbonPolicy{}); err != nil {
			return fmt.Errorf("spec.policies: %s: %w", p, err)
		}
	}
	return fmt.Errorf("spec.policies: %w", errNotYet)
}

func boundsOf(spec *v1alpha1.CapacityCurveSpec) (capacity.Bounds, error) {
	read := func(field string, a *v1alpha1.Amount) (float64, error) {
		if a == nil {
			return 0, nil
		}
		v, err := kube.ReadAmount(string(*a))
		if err != nil {
			return 0, fmt.Errorf("spec.%s: %w", field, err)
		}
		return v, nil
	}
	maximum, err1 := read("maximum", &spec.Maximum)
	minimum, err2 := read("minimum", spec.Minimum)
	ramp, err3 := read("ramp", spec.Ramp)
	if err := errors.Join(err1, err2, err3); err != nil {
		return capacity.Bounds{}, err
	}
	b, err := capacity.New(maximum, minimum, ramp)
	if err != nil {
		return b, fmt.Errorf("spec: %w", err)
	}
	for i := range spec.Method.Schedule {
		v, err := read(fmt.Sprintf("method.schedule[%d].capacity", i), &spec.Method.Schedule[i].Capacity)
		if err != nil {
			return b, err
		}
		if v > b.Maximum {
			return b, fmt.Errorf("spec.method.schedule[%d].capacity: %v; accepted: 0 to the maximum (%v)", i, v, b.Maximum)
		}
	}
	return b, nil
}

// historyOf is how long what has come is remembered.
func historyOf(spec *v1alpha1.CapacityCurveSpec) time.Duration {
	out := 14 * 24 * time.Hour
	if f := spec.Method.CarbonFlex; f != nil {
		out = kube.DurationOf(f.History, out)
	}
	if v := spec.Method.VCC; v != nil && v.Days > 0 {
		out = time.Duration(v.Days) * 24 * time.Hour
	}
	return out + tail
}

// used is what tasks use of a resource, and what those that wait ask for.
func used(demands []Demand, resource string) (running, waiting float64) {
	for i := range demands {
		for j := range demands[i].Tasks {
			t := &demands[i].Tasks[j]
			if t.State == decide.Running && !t.Unscheduled {
				running += use(t, resource, t.Workers)
			} else {
				waiting += use(t, resource, 1)
			}
		}
	}
	return rounded(running), rounded(waiting)
}

// enforce sets the capacity, where it is to be set and is not, or has not been looked at for a while.
func (r *Reconciler) enforce(ctx context.Context, c *v1alpha1.CapacityCurve, m *memory, tgt target, value float64, wall time.Time) error {
	changed := c.Status.ObservedGeneration != c.Generation
	if !changed && m.setTo == value && wall.Sub(m.setAt) < targetAgain {
		return m.problem
	}
	m.setTo, m.setAt, m.note = value, wall, ""
	if changed {
		if err := tgt.adopt(ctx); err != nil {
			m.problem = err
			return err
		}
	}
	m.totals, m.nodes, m.problem = tgt.totals(ctx)
	if m.problem != nil {
		return m.problem
	}
	if c.Spec.Mode == v1alpha1.ModeShadow {
		m.problem = tgt.restore(ctx)
		return m.problem
	}
	m.note, m.problem = tgt.set(ctx, value)
	return m.problem
}

// foreign says that a target is not to be set by this curve for now.
func foreign(problem error) bool {
	return errors.Is(problem, errEdited) || errors.Is(problem, errAbsent) || errors.Is(problem, errTaken)
}

// tell is what policies may plan with; nil in Shadow.
func (at *moment) tell(c *v1alpha1.CapacityCurve, m *memory, value float64) *Now {
	if c.Spec.Mode == v1alpha1.ModeShadow {
		return nil
	}
	now := &Now{Start: at.start(), Slot: at.slot, Totals: m.totals, Nodes: m.nodes, Shares: []float64{value / at.maximum}}
	if at.spec.Method.Planned != nil {
		// It follows the plans: they may use all there is.
		now.Shares = []float64{1}
		now.Revision = "maximum"
		return now
	}
	for _, p := range c.Status.Ahead {
		now.Shares = append(now.Shares, math.Max(p.Capacity, at.minimum)/at.maximum)
	}
	now.Revision = fmt.Sprintf("%s: %s", now.Start.UTC().Format(time.RFC3339), trim(value))
	if d := m.wish.decision; d != nil {
		// The capacity is in the instance: of it, all may be used.
		decision := *d
		decision.Capacity = 1
		if planner, err := carbonflex.New(carbonflex.Params{Knowledge: at.flex, Now: &decision}); err == nil {
			now.Planner = plan.Guarded{Planner: planner, Probability: plan.SafeProbability}
		}
	}
	if at.spec.Evict == v1alpha1.EvictLeastLost {
		now.Victims = victims(at.demands, at.spec.Resource, c.Status.Used-value, at.start().Add(at.slot))
		if len(now.Victims) > 0 {
			now.Revision += fmt.Sprintf(", %d make room", len(now.Victims))
		}
	}
	return now
}

// tellFlex states what was looked up.
func (r *Reconciler) tellFlex(c *v1alpha1.CapacityCurve, m *memory) {
	if c.Spec.Method.CarbonFlex == nil {
		c.Status.CarbonFlex = nil
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &v1alpha1.CarbonFlexStatus{Jobs: int32(m.jobs), Delayed: rounded(m.wish.delayed)}
	if m.knowledge != nil {
		out.Cases = int32(m.knowledge.Len())
	}
	if !m.learnedAt.IsZero() {
		out.LearnedAt = &metav1.Time{Time: m.learnedAt.UTC().Truncate(time.Second)}
	}
	s := m.wish.state
	out.State = &v1alpha1.CapacityState{Intensity: rounded(s.Intensity), Gradient: rounded(s.Gradient), Rank: rounded(s.Rank), Elasticity: rounded(s.Elasticity)}
	for _, n := range s.Queue {
		out.State.Workloads = append(out.State.Workloads, int32(n))
	}
	if d := m.wish.decision; d != nil {
		out.Rho = rounded(d.Rho)
		for _, match := range d.Matches {
			out.Matches = append(out.Matches, v1alpha1.CapacityMatch{
				At: metav1.NewTime(match.Case.At.UTC()), Capacity: rounded(match.Case.Capacity * kube.AmountOf(c.Spec.Maximum)), Distance: rounded(match.Distance),
			})
		}
	}
	c.Status.CarbonFlex = out
}

// state writes the status, where it differs.
func (r *Reconciler) state(ctx context.Context, c, before *v1alpha1.CapacityCurve, problem error) error {
	st := &c.Status
	set := func(kind string, is bool, reason, message string) {
		cond := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: c.Generation}
		if is {
			cond.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&st.Conditions, cond)
	}
	m := r.memory(c.Name)
	switch {
	case problem == nil && c.Spec.Mode == v1alpha1.ModeShadow:
		set(v1alpha1.ConditionReady, true, "Shadow", "nothing is set")
	case problem == nil:
		set(v1alpha1.ConditionReady, true, "Set", m.note)
	case errors.Is(problem, errEdited):
		set(v1alpha1.ConditionReady, false, "EditedByHand", "left alone: "+problem.Error())
	case errors.Is(problem, errAbsent):
		set(v1alpha1.ConditionReady, false, "TargetAbsent", problem.Error())
	case errors.Is(problem, errTaken):
		set(v1alpha1.ConditionReady, false, "TargetTaken", problem.Error())
	default:
		set(v1alpha1.ConditionReady, false, "NotSet", problem.Error())
	}
	set(v1alpha1.ConditionEditedByHand, errors.Is(problem, errEdited), "Compared", "")
	if c.Spec.Method.CarbonFlex != nil || c.Spec.Method.VCC != nil {
		set(v1alpha1.ConditionCold, m.wish.cold, "History", m.wish.message)
	} else {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionCold)
	}
	if problem == nil || errors.Is(problem, errEdited) {
		st.ObservedGeneration = c.Generation
	}
	metrics.Capacity.WithLabelValues(c.Name, "capacity").Set(st.Capacity)
	metrics.Capacity.WithLabelValues(c.Name, "wanted").Set(st.Wanted)
	metrics.Capacity.WithLabelValues(c.Name, "floor").Set(st.Floor)
	metrics.Capacity.WithLabelValues(c.Name, "used").Set(st.Used)
	metrics.Capacity.WithLabelValues(c.Name, "waiting").Set(st.Waiting)
	_, err := kube.PatchStatus(ctx, r.Client, c, before)
	return client.IgnoreNotFound(err)
}
