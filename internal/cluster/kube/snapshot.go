package kube

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// LocalCluster is the name of the cluster where Lull runs, for policies that send nothing to others.
const LocalCluster = "local"

// Input is what a snapshot is made from: API objects as observed.
type Input struct {
	Now      time.Time // wall time
	Timeline timegrid.Timeline
	Policy   *v1alpha1.CarbonPolicy
	// System is the namespace of Lull itself.
	System string
	// Longest is the longest delay (grid time) that the administrator lets policies and annotations ask for; 0 for any.
	Longest time.Duration
	// LongestRuntime and MostWorkers are what the administrator lets workloads state; 0 for any. One that states more is not held.
	LongestRuntime time.Duration
	MostWorkers    int
	// Paused opens everything, whatever the policy says.
	Paused bool
	// Carbon is what is known of the policy's zone; without series if nothing is.
	Carbon    carbon.Outlook
	Workloads []*Workload // those that name the policy
	// Clusters are those to which the workloads may go, with what others use there; none
	// means that all stay on this one. Queued are the Workloads of Kueue, by the UID of what
	// they are of.
	Clusters []decide.Cluster
	Queued   map[types.UID]*kueue.Workload
	Nodes    []corev1.Node
	// Ceiling is what the nodes offer or can become, by resource; nil for what Nodes offer. NotCounted is why it leaves something out.
	Ceiling    map[string]float64
	NotCounted error
	// Pods are those of the policy's namespace at least, Outside is what the others ask for (Loads.Outside).
	Pods    []corev1.Pod
	Outside map[string]float64
	// Quota is what the pods of the policy's namespace may ask for in all, by resource (Quota); what it does not name is not bounded.
	Quota map[string]float64
	// Beside says which pods of others use the same capacity; nil: all.
	Beside func(*corev1.Pod) bool
	// Others is what the workloads of other policies take: their pods are no load, as Expected adds what they take hour by hour.
	Others []Use
	// Profiles are the ScalingProfiles of the policy's namespace, by name.
	Profiles map[string]*v1alpha1.ScalingProfile
	// Learned is what earlier runs taught; nil knows nothing.
	Learned Learned
	// Measured is what a meter tells; nil tells nothing.
	Measured Measured
	// Saw, where it is set, is told each pod of a workload.
	Saw func(w *Workload, pod *corev1.Pod)
}

// The sources of progress.
const (
	FromAnnotation  = "annotation"
	FromCompletions = "completions"
	FromPrometheus  = "prometheus"
	FromModel       = "model"
)

// defaultDwell is MinRun and MinPause of a policy that was created without the API
// server's defaults.
const defaultDwell = 5 * time.Minute

// defaultMinSaving is MinSaving of such a policy.
const defaultMinSaving = 0.01

// defaultPatience is ScaleUpPatience of such a policy.
const defaultPatience = 5 * time.Minute

// Observe translates objects into a snapshot. What is finished, being deleted or held by
// its user is not part of it.
func Observe(in Input) (View, error) {
	model, err := PowerModel(&in.Policy.Spec.Power)
	if err != nil {
		return View{}, err
	}
	capacity := in.Ceiling
	if capacity == nil {
		capacity = Capacity(in.Nodes)
	}
	workloads := make([]*Workload, len(in.Workloads))
	for i, w := range in.Workloads {
		workloads[i] = w.WithQueued(in.Queued)
	}
	in.Workloads = workloads
	v := View{Namespace: in.Policy.Namespace, NotCounted: in.NotCounted, Snapshot: decide.Snapshot{
		Now: in.Timeline.ToGrid(in.Now), Slot: 15 * time.Minute, Margin: margin(&in.Policy.Spec), MinRun: defaultDwell, MinPause: defaultDwell,
		Clusters: []decide.Cluster{{
			Name: LocalCluster, Zone: in.Policy.Spec.Zone, Power: model,
			Carbon: in.Carbon.Expected, CarbonLow: in.Carbon.Low, CarbonHigh: in.Carbon.High, CarbonPaths: in.Carbon.Paths,
			Capacity: capacity,
		}},
	}}
	s := &v.Snapshot
	if len(in.Clusters) > 0 {
		s.Clusters = in.Clusters
		in.Pods = nil // theirs are there
	}
	s.Tasks = make([]decide.Task, 0, len(in.Workloads))
	v.Workloads, v.Progress = make([]*Workload, 0, len(in.Workloads)), make([]Progress, 0, len(in.Workloads))
	spec := &in.Policy.Spec
	settings(s, spec)
	patience := stated(spec.ScaleUpPatience, defaultPatience, maxGuard)
	patience = in.Timeline.WallDuration(max(patience, provisioningDelay(spec)))
	index := newPodIndex(in.Workloads)
	pods := make([]podCount, len(in.Workloads))
	isTask := make([]bool, len(in.Workloads))
	for i := range in.Pods {
		if w, ours := index.of(&in.Pods[i]); ours {
			pods[w].add(&in.Pods[i], in.Measured, in.Now, patience)
			if in.Saw != nil {
				in.Saw(in.Workloads[w], &in.Pods[i])
			}
		}
	}
	for i, w := range in.Workloads {
		if len(in.Clusters) > 0 {
			pods[i] = w.counted()
		} else {
			pods[i].podless(w, in.Learned, in.Now)
		}
		isTask[i] = v.add(in, w, pods[i])
		v.DeniedAt = earlier(v.DeniedAt, pods[i].deniedAt)
	}
	if len(in.Clusters) > 0 {
		return v, nil
	}
	// Pods of workloads that are not tasks (released ones that cannot be read, ones being
	// deleted) are load like those of strangers.
	ours := func(pod *corev1.Pod) bool {
		i, ours := index.of(pod)
		return ours && isTask[i]
	}
	others := counted(in.Others)
	if in.Beside != nil {
		others = func(pod *corev1.Pod) bool { return !in.Beside(pod) }
	}
	here := &s.Clusters[0]
	here.Load = Load(in.Pods, func(pod *corev1.Pod) bool { return ours(pod) || others(pod) })
	if planned := counted(in.Others); len(in.Quota) > 0 {
		v.beside = takesQuota(v.Namespace, in.Pods, in.Now, func(pod *corev1.Pod) bool { return ours(pod) || planned(pod) })
	}
	for r, q := range in.Outside {
		here.Load[r] += q
	}
	here.Load = upTo(here.Load, capacity)
	return v, nil
}

// settings takes over what a policy says for all of its workloads.
func settings(s *decide.Snapshot, spec *v1alpha1.CarbonPolicySpec) {
	if spec.Slot != nil {
		s.Slot = spec.Slot.Duration
	}
	s.Objective, s.Horizon = objective(spec)
	s.MinRun, s.MinPause = stated(spec.MinRun, s.MinRun, maxGuard), stated(spec.MinPause, s.MinPause, maxGuard)
	if s.MinSaving = defaultMinSaving; spec.MinSaving != nil {
		s.MinSaving = *spec.MinSaving
	}
	if spec.SavingConfidence != nil {
		s.SavingConfidence = *spec.SavingConfidence
	}
}

// taskID is unique and sorts by age: planners take ties in the order of IDs, which is the same each
// time then, and first come, first served.
func taskID(w *Workload) string {
	return strconv.FormatInt(w.Created().Unix(), 10) + "/" + w.Namespace() + "/" + w.Name() + "/" + string(w.UID())
}

// mospHorizon is how far ahead Caspian plans.
const mospHorizon = 24 * time.Hour

// objective is what a policy aims at, and how far ahead it looks; 0 is to the last deadline.
func objective(spec *v1alpha1.CarbonPolicySpec) (plan.Objective, time.Duration) {
	if !soft(spec) {
		return plan.Objective{}, 0
	}
	o, horizon := spec.Objective, mospHorizon
	if o.Horizon != nil {
		horizon = o.Horizon.Duration
	}
	weight := func(v *float64, otherwise float64) float64 {
		if v == nil {
			return otherwise
		}
		return *v
	}
	return plan.Objective{Kind: plan.MOSP, Weights: [3]float64{weight(o.Carbon, 0.5), weight(o.Lateness, 1), weight(o.Completion, 1)}}, horizon
}

// soft says that deadlines may be missed.
func soft(spec *v1alpha1.CarbonPolicySpec) bool {
	return spec.Objective != nil && spec.Objective.Kind == v1alpha1.ObjectiveMOSP
}

// PowerModel is the model that a specification states; by default that of a CPU alone.
func PowerModel(spec *v1alpha1.PowerSpec) (power.PerUnit, error) {
	watts := spec.WattsPerUnit
	if len(watts) == 0 {
		watts = map[string]float64{string(corev1.ResourceCPU): power.DefaultWattsPerCPU}
	}
	return power.NewPerUnit(watts, spec.PUE)
}

// add makes a task of a workload, if it is one.
func (v *View) add(in Input, w *Workload, pods podCount) bool {
	if w.Stale() || w.opened(in) {
		v.Stale = append(v.Stale, w)
	}
	if v.skips(in, w) {
		return false
	}
	o, err := w.options(&in.Policy.Spec, in.Longest, w.Kind, in.Timeline)
	if err == nil {
		err = in.allows(&o)
	}
	var scaling *decide.Scaling
	speed := 1.0
	if err == nil && o.Elastic() {
		scaling, speed, err = scalingOf(in, w, &o)
	}
	var only []string
	if err == nil && len(in.Clusters) > 0 {
		only, err = allowed(w, &o, in.Clusters)
	}
	if err != nil {
		if _, told := w.Annotations()[v1alpha1.AnnotationDecision]; w.Facts.Suspended || !told {
			v.Invalid = append(v.Invalid, Invalid{w, err})
		}
		return false
	}
	if o.GroupSize > len(w.Objects) {
		v.Waiting++ // Pods of the group are still to come
		return false
	}
	switch q := w.Queued; {
	case w.GateIgnored():
		v.GatesIgnored++
	case q != nil && q.Gated:
		v.GatesHonoured++
	}
	t := decide.Task{
		ID: taskID(w), Submitted: in.Timeline.ToGrid(w.Created()), Kind: workload.Rigid,
		PriorityClass: w.Facts.PriorityClass, State: decide.Running, Cluster: LocalCluster, Scaling: scaling,
	}
	if len(in.Clusters) > 0 {
		t.Cluster, t.Clusters, t.Migratable = "", only, o.Migratable && (o.Interruptible || scaling != nil)
	}
	p := Progress{StatedStart: wallText(in.Timeline, o.latestStart(t.Submitted)), Running: pods.running, Pending: pods.pending, Denied: pods.denied, Started: pods.started, Startup: pods.startup, Speed: speed}
	p.Idle = pods.running+pods.pending == 0 && w.Kind.TellsActive() && !w.Facts.Active
	switch {
	case scaling != nil:
		t.Kind, t.Request, t.Workers = workload.Elastic, w.perWorker(o.MinWorkers), w.parallel(w.Facts.Workers, 0)
	case o.Interruptible:
		t.Kind, t.Request = workload.Interruptible, w.whole()
	default:
		t.Request = w.whole()
	}
	p.measure(in, w, &o, scaling, pods)
	t.Remaining = max(0, time.Duration(float64(p.Runtime-p.Done)/p.Speed))
	shadow := in.Policy.Spec.Mode == v1alpha1.ModeShadow
	bounds := bound(in, w, &o, &t, &p, shadow)
	p.note(w.Next.note(bounds))
	v.lifecycle(in, w, &t, &p, pods, shadow)
	if bounds && (t.State == decide.Waiting || t.Kind == workload.Interruptible) && !v.Snapshot.Now.Before(o.latestHold(&t)) {
		// Held for want of room, as late work is, it would be skipped or deleted.
		t.Deadline = time.Time{}
	}
	if len(in.Clusters) > 0 {
		v.locate(in, w, &t, &p)
	}
	t.Quantiles = p.remaining(&t, &o)
	model := v.Snapshot.Place(t.Cluster).Power
	p.Watts = wattsOf(&t, w, model)
	p.Drawn, p.Modelled, p.DrawnFrom = pods.drawn(w.Facts.Request, model)
	if in.Learned != nil && t.Kind != workload.Rigid {
		t.TransferKWh = o.TransferKWh
		p.restarts(in, w, &t, model.PUE, pods.taken)
	}
	v.Snapshot.Tasks = append(v.Snapshot.Tasks, t)
	v.Workloads = append(v.Workloads, w)
	v.Progress = append(v.Progress, p)
	return true
}

// allows returns an error if a workload states more than the administrator lets it.
func (in *Input) allows(o *Options) error {
	switch {
	case in.LongestRuntime > 0 && o.Runtime > in.LongestRuntime && o.RuntimeStated:
		return fmt.Errorf("annotation %s is %v; the administrator allows up to %v", v1alpha1.AnnotationRuntime, o.Runtime, in.LongestRuntime)
	case in.LongestRuntime > 0 && o.RuntimeP95 > in.LongestRuntime:
		return fmt.Errorf("annotation %s is %v; the administrator allows up to %v", v1alpha1.AnnotationRuntimeP95, o.RuntimeP95, in.LongestRuntime)
	case in.LongestRuntime > 0 && o.Runtime > in.LongestRuntime:
		return fmt.Errorf("spec.defaultRuntime of CarbonPolicy %s is %v; the administrator allows up to %v", in.Policy.Name, o.Runtime, in.LongestRuntime)
	case in.MostWorkers > 0 && o.MaxWorkers > in.MostWorkers:
		return fmt.Errorf("annotation %s is %d; the administrator allows up to %d", v1alpha1.AnnotationMaxWorkers, o.MaxWorkers, in.MostWorkers)
	}
	return nil
}

// skips reports whether a workload is not one to decide on, and keeps those that matter nevertheless.
func (v *View) skips(in Input, w *Workload) bool {
	switch {
	case w.Facts.Finished:
		v.Finished = append(v.Finished, w)
		return true
	case w.deleted(), w.Facts.Suspended && !w.Held(), w.Facts.Managed:
		return true
	}
	if why := w.Excluded(in.System); why != "" {
		if w.anyHeld() {
			v.Excluded = append(v.Excluded, Excluded{w, why})
		}
		return true
	}
	return false
}

// bound says by when a task must be done. It reports whether that is a time limit of the workload's own.
func bound(in Input, w *Workload, o *Options, t *decide.Task, p *Progress, shadow bool) (bounds bool) {
	// Critical workloads may not wait, nor may one that is still held when its policy
	// has been paused or switched to Shadow.
	t.HeldOut = HeldOut(w, &in.Policy.Spec)
	if !in.Paused && !critical(in.Policy, w) && !t.HeldOut && w.Next.Err == nil && (!shadow || !w.Facts.Suspended) {
		o.Runtime = p.Runtime
		t.Deadline, bounds = o.bounded(t.Submitted)
		p.note(o.limitNote(t.Submitted))
		// What says that part of its work is done before it has run needs less time from its latest start on.
		if limit := t.Submitted.Add(in.Longest + t.Remaining); in.Longest > 0 && p.Ran == 0 && !o.soft && limit.Before(t.Deadline) {
			t.Deadline = limit
		}
	}
	return bounds
}

// lifecycle says what the workload does, and what a change would cost or is under way.
func (v *View) lifecycle(in Input, w *Workload, t *decide.Task, p *Progress, pods podCount, shadow bool) {
	if at, ok := Changed(w); ok {
		t.Changed = in.Timeline.ToGrid(at)
	}
	if at := sinceOf(w); !at.IsZero() && !w.Facts.Suspended {
		p.Since = in.Timeline.ToGrid(at)
	}
	switch {
	case w.Facts.Suspended:
		t.State, t.Workers = decide.Waiting, 0
		hold := w.hold()
		t.Paused = hold == v1alpha1.HoldPaused || hold == v1alpha1.HoldMoving
		if hold == v1alpha1.HoldMoving {
			t.Changed = time.Time{} // no pause is meant
		}
		at, _ := Changed(w)
		t.Changing = t.Paused && in.Now.Sub(at) < settling && (pods.running > 0 || w.Facts.Active)
		v.Waiting++
	case shadow && w.Annotations()[v1alpha1.AnnotationDecision] == "":
		// What would have been decided, had the workload been held.
		t.State, t.Workers = decide.Waiting, 0
		v.Running++
	default:
		v.Running++
		// Pods that neither run nor wait: the change has not reached them yet.
		p.Wanted = w.Workers()
		t.Unscheduled = pods.unmade || pods.denied > 0 && pods.denied == pods.running+pods.pending
		if t.Scaling != nil && !t.Unscheduled && pods.denied > 0 {
			all := pods.running + pods.pending
			t.Lacking = max(0, min(t.Workers-t.Scaling.MinWorkers, (pods.denied*t.Workers+all-1)/all))
		}
		t.Changing = t.Scaling != nil && (w.keepsSize() || in.Now.Sub(sinceOf(w)) < settling && p.Running != p.Wanted)
		if pods.running > 0 && w.Facts.Of > 1 && t.Kind == workload.Interruptible {
			// A part under way starts anew after a pause: what remains is all of it. A
			// workload of a single part that says it is interruptible is taken to keep
			// checkpoints.
			t.Remaining = time.Duration(float64(p.Runtime) * float64(max(0, w.Facts.Of-w.Facts.Done)) / float64(w.Facts.Of))
			if pods.started > 0 {
				t.AtRisk = min(t.Remaining, max(0, in.Timeline.GridDuration(in.Now.Sub(pods.first))))
			}
		}
	}
}

// locate says where the workload is, if it is anywhere.
func (v *View) locate(in Input, w *Workload, t *decide.Task, p *Progress) {
	cluster, stuck := w.place(in.Now)
	if c := v.Snapshot.Place(cluster); c.Name != cluster {
		cluster = "" // it may not go there any more, or nothing is known of that cluster
	} else if w.Queued != nil && w.Queued.Cluster == "" && len(c.Capacity) == 0 {
		stuck = true // the cluster has been lost
	}
	switch {
	case t.State == decide.Running && stuck:
		// Let go, and not taken, or lost: where and when is open again, but for that cluster.
		t.State, t.Changing = decide.Waiting, false
		if others := slices.DeleteFunc(v.names(t.Clusters), func(name string) bool { return name == cluster }); len(others) > 0 {
			t.Clusters = others
		}
		v.Running--
		v.Waiting++
		if !t.Migratable { // nothing that it has done is found elsewhere
			t.Remaining, p.Done, p.Share = p.Runtime, 0, 0
		}
	case t.State == decide.Running, t.Paused:
		t.Cluster = cluster
	}
	if t.Paused && w.Queued != nil && w.Queued.Reserved {
		t.Changing = true // on its way out
	}
}

// names are the given clusters, or those of the snapshot where none are given.
func (v *View) names(given []string) []string {
	if given != nil {
		return slices.Clone(given)
	}
	out := make([]string, len(v.Snapshot.Clusters))
	for i := range out {
		out[i] = v.Snapshot.Clusters[i].Name
	}
	return out
}

// settling is how long (wall time) a change may be under way before others may follow.
const settling = 2 * time.Minute

// whole is what all pods of a workload that does not scale ask for; not to be modified.
func (w *Workload) whole() map[string]float64 {
	n := w.Workers()
	if n == 1 && len(w.Facts.Fixed) == 0 {
		return w.Facts.Request
	}
	out := make(map[string]float64, len(w.Facts.Request))
	for r, q := range w.Facts.Request {
		out[r] = q * float64(n)
	}
	for r, q := range w.Facts.Fixed {
		out[r] += q
	}
	return out
}

// perWorker is what one worker asks for, with its part of the pods that do not scale: at
// the least scale all of them, at larger ones more than they take.
func (w *Workload) perWorker(least int) map[string]float64 {
	if len(w.Facts.Fixed) == 0 {
		return w.Facts.Request
	}
	out := make(map[string]float64, len(w.Facts.Request))
	for r, q := range w.Facts.Request {
		out[r] = q
	}
	for r, q := range w.Facts.Fixed {
		out[r] += q / float64(least)
	}
	return out
}

// wattsOf is the power at the present scale, or at the least one while it does not run,
// PUE included.
func wattsOf(t *decide.Task, w *Workload, model power.PerUnit) float64 {
	if t.Scaling == nil {
		return float64(model.Of(t.Request))
	}
	workers := min(max(t.Scaling.MinWorkers, t.Workers), t.Scaling.MaxWorkers)
	if t.Scaling.Watts != nil {
		return t.Scaling.Watts[workers-t.Scaling.MinWorkers] * max(1, model.PUE)
	}
	return float64(workers)*float64(model.Of(w.Facts.Request)) + float64(model.Of(w.Facts.Fixed))
}

func critical(policy *v1alpha1.CarbonPolicy, w *Workload) bool {
	for _, class := range policy.Spec.CriticalPriorityClasses {
		if class == w.Facts.PriorityClass {
			return true
		}
	}
	return false
}
