package kube

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kueue"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// localCluster is the name of the one cluster a policy decides for.
const localCluster = "local"

// Input is what a snapshot is made from: API objects as observed.
type Input struct {
	Now      time.Time // wall time
	Timeline timegrid.Timeline
	Policy   *v1alpha1.CarbonPolicy
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
	Pods     []corev1.Pod
	// Profiles are the ScalingProfiles of the policy's namespace, by name.
	Profiles map[string]*v1alpha1.ScalingProfile
	// Learned is what earlier runs taught; nil knows nothing.
	Learned Learned
	// Measured is what a meter tells; nil tells nothing.
	Measured Measured
}

// Measured is what is measured outside of the API.
type Measured interface {
	// Progress is what the query of a workload gave last; false where it gave nothing.
	Progress(uid types.UID) (Reading, bool)
	// Power is what a pod draws.
	Power(namespace, pod string) PodPower
}

// Reading is a share of the work that is done, as measured at a time (wall time).
type Reading struct {
	Share float64
	At    time.Time
}

// PodPower is the power of a pod in watts, without PUE: of processors and memory, and of
// accelerators; each with the name of what measures it, "" where nothing does.
type PodPower struct {
	CPU, GPU             float64
	CPUSource, GPUSource string
}

// Learned is what is known of a workload from runs of its family and of its own.
type Learned interface {
	// Runtime is the expected run time in all of a workload that states none and has done
	// some of it; prior is the policy's.
	Runtime(w *Workload, prior, done time.Duration) time.Duration
	// Startup is how long a start takes until pods run.
	Startup(w *Workload) time.Duration
	// Observed is its throughput by workers, relative to that declared for its least scale.
	Observed(w *Workload) []v1alpha1.ObservedPoint
	// MostWorkers is the scale beyond which more were denied; 0 where none was.
	MostWorkers(w *Workload) int
}

// View is a snapshot with the objects behind it.
type View struct {
	Snapshot decide.Snapshot
	// Workloads[i] and Progress[i] are those of Snapshot.Tasks[i].
	Workloads []*Workload
	Progress  []Progress
	// Invalid are workloads whose annotations cannot be read, with the error.
	Invalid []Invalid
	// Finished are those that have ended.
	Finished []*Workload
	// GatesHonoured and GatesIgnored count gated ones that Kueue keeps out of its queue, and
	// those that it goes on with.
	GatesHonoured, GatesIgnored int
	// Counts for the status of the policy.
	Waiting, Running int
}

// Progress is how far a workload is.
type Progress struct {
	// Share of the work that is done, 0 to 1, and Source where that is known from.
	Share  float64
	Source string
	// Done is that share as run time at the least number of workers.
	Done, Runtime time.Duration
	// Running and Pending are its pods, Denied those of them that no node has room for; Up
	// is when the last of them started (wall time).
	Running, Pending, Denied int
	// Wanted is how many workers should run.
	Wanted int
	Up     time.Time
	// Since is when the present run at the present scale began (grid time); zero where it
	// does not run.
	Since time.Time
	// Speed is by how much it runs faster at its least scale than its run time says, as
	// observed.
	Speed float64
	// Watts at the present scale by the power model, PUE included.
	Watts float64
	// Drawn is the power of what runs, PUE included, as far as it is measured, and
	// DrawnFrom who measures it (kepler, dcgm), joined by "+" with model where only a part
	// of it is. Without a source nothing is measured.
	Drawn     float64
	DrawnFrom string
}

// The sources of progress.
const (
	FromAnnotation  = "annotation"
	FromCompletions = "completions"
	FromPrometheus  = "prometheus"
	FromModel       = "model"
)

// Invalid is a workload that cannot be governed.
type Invalid struct {
	Workload *Workload
	Err      error
}

// defaultMargin is StartMargin of a policy that was created without the API server's
// defaults.
const defaultMargin = 5 * time.Minute

// defaultDwell is MinRun and MinPause of a policy that was created without the API
// server's defaults.
const defaultDwell = 5 * time.Minute

// Observe translates objects into a snapshot. What is finished, being deleted or held by
// its user is not part of it.
func Observe(in Input) (View, error) {
	model, err := power.NewPerUnit(wattsPerUnit(in.Policy), in.Policy.Spec.Power.PUE)
	if err != nil {
		return View{}, err
	}
	capacity := Capacity(in.Nodes)
	workloads := make([]*Workload, len(in.Workloads))
	for i, w := range in.Workloads {
		workloads[i] = w.queued(in.Queued)
	}
	in.Workloads = workloads
	v := View{Snapshot: decide.Snapshot{
		Now: in.Timeline.ToGrid(in.Now), Slot: 15 * time.Minute, Margin: defaultMargin, MinRun: defaultDwell, MinPause: defaultDwell,
		Clusters: []decide.Cluster{{
			Name: localCluster, Zone: in.Policy.Spec.Zone, Power: model,
			Carbon: in.Carbon.Expected, CarbonLow: in.Carbon.Low, CarbonHigh: in.Carbon.High,
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
	if spec.Slot != nil {
		s.Slot = spec.Slot.Duration
	}
	if spec.StartMargin != nil {
		s.Margin = spec.StartMargin.Duration
	}
	if spec.MinRun != nil {
		s.MinRun = spec.MinRun.Duration
	}
	if spec.MinPause != nil {
		s.MinPause = spec.MinPause.Duration
	}
	index := newPodIndex(in.Workloads)
	pods := make([]podCount, len(in.Workloads))
	isTask := make([]bool, len(in.Workloads))
	for i := range in.Pods {
		if w, ours := index.of(&in.Pods[i]); ours {
			pods[w].add(&in.Pods[i], in.Measured)
		}
	}
	for i, w := range in.Workloads {
		if len(in.Clusters) > 0 {
			pods[i] = w.counted()
		}
		isTask[i] = v.add(in, w, pods[i])
	}
	if len(in.Clusters) > 0 {
		return v, nil
	}
	// Pods of workloads that are not tasks (released ones that cannot be read, ones being
	// deleted) are load like those of strangers.
	s.Clusters[0].Load = upTo(Load(in.Pods, func(pod *corev1.Pod) bool {
		i, ours := index.of(pod)
		return ours && isTask[i]
	}), capacity)
	return v, nil
}

func wattsPerUnit(policy *v1alpha1.CarbonPolicy) map[string]float64 {
	if len(policy.Spec.Power.WattsPerUnit) > 0 {
		return policy.Spec.Power.WattsPerUnit
	}
	return map[string]float64{string(corev1.ResourceCPU): power.DefaultWattsPerCPU}
}

// add makes a task of a workload, if it is one.
func (v *View) add(in Input, w *Workload, pods podCount) bool {
	switch {
	case w.Facts.Finished:
		v.Finished = append(v.Finished, w)
		return false
	case w.deleted(), w.Facts.Suspended && !w.Held(), w.Facts.Managed:
		return false
	}
	o, err := ReadOptions(w.Annotations(), &in.Policy.Spec, w.Kind)
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
		ID: string(w.UID()), Submitted: in.Timeline.ToGrid(w.Created()), Kind: workload.Rigid,
		PriorityClass: w.Facts.PriorityClass, State: decide.Running, Cluster: localCluster, Scaling: scaling,
	}
	if len(in.Clusters) > 0 {
		t.Cluster, t.Clusters, t.Migratable = "", only, o.Migratable && (o.Interruptible || scaling != nil)
	}
	p := Progress{Running: pods.running, Pending: pods.pending, Denied: pods.denied, Up: pods.latest, Speed: speed}
	switch {
	case scaling != nil:
		t.Kind, t.Request, t.Workers = workload.Elastic, w.perWorker(o.MinWorkers), w.Facts.Workers
	case o.Interruptible:
		t.Kind, t.Request = workload.Interruptible, w.whole()
	default:
		t.Request = w.whole()
	}
	p.measure(in, w, &o, scaling, pods)
	t.Remaining = max(0, time.Duration(float64(p.Runtime-p.Done)/p.Speed))
	shadow := in.Policy.Spec.Mode == v1alpha1.ModeShadow
	// Critical workloads may not wait, nor may one that is still held when its policy
	// has been paused or switched to Shadow.
	if !in.Paused && !critical(in.Policy, w) && (!shadow || !w.Facts.Suspended) {
		o.Runtime = p.Runtime
		t.Deadline = o.deadline(t.Submitted)
	}
	v.lifecycle(in, w, &t, &p, pods, shadow)
	if len(in.Clusters) > 0 {
		v.locate(in, w, &t, &p)
	}
	model := v.Snapshot.Place(t.Cluster).Power
	p.Watts = wattsOf(&t, w, model)
	p.Drawn, p.DrawnFrom = pods.drawn(w.Facts.Request, model)
	if in.Learned != nil && t.Kind != workload.Rigid {
		t.RestartKWh = in.Learned.Startup(w).Hours() * p.Watts / 1000
	}
	v.Snapshot.Tasks = append(v.Snapshot.Tasks, t)
	v.Workloads = append(v.Workloads, w)
	v.Progress = append(v.Progress, p)
	return true
}

// lifecycle says what the workload does, and what a change would cost or is under way.
func (v *View) lifecycle(in Input, w *Workload, t *decide.Task, p *Progress, pods podCount, shadow bool) {
	if at, ok := changed(w); ok {
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
		at, _ := changed(w)
		t.Changing = t.Paused && in.Now.Sub(at) < settling && (pods.running > 0 || w.Facts.Active)
		v.Waiting++
	case shadow && w.Annotations()[v1alpha1.AnnotationDecision] == "":
		// What would have been decided, had the workload been held.
		t.State, t.Workers = decide.Waiting, 0
		v.Running++
	default:
		v.Running++
		// Pods that neither run nor wait: the change has not reached them yet.
		p.Wanted = w.wanted()
		t.Changing = t.Scaling != nil && in.Now.Sub(sinceOf(w)) < settling && p.Running != p.Wanted
		if !pods.first.IsZero() && w.Facts.Of > 1 && t.Kind == workload.Interruptible {
			// A part under way starts anew after a pause: what remains is all of it. A
			// workload of a single part that says it is interruptible is taken to keep
			// checkpoints.
			t.Remaining = time.Duration(float64(p.Runtime) * float64(max(0, w.Facts.Of-w.Facts.Done)) / float64(w.Facts.Of))
			t.AtRisk = min(t.Remaining, max(0, in.Timeline.GridDuration(in.Now.Sub(pods.first))))
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
		t.State = decide.Waiting
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

// wanted is how many workers run at a time: no more than parts are left.
func (w *Workload) wanted() int {
	n := 1
	if w.Facts.Workers > 0 {
		n = w.Facts.Workers
	} else if w.Kind.Spec.Hold.Zero {
		n = heldWorkers(w)
	}
	if w.Facts.Of > 0 {
		n = min(n, max(1, w.Facts.Of-w.Facts.Done))
	}
	return n
}

// whole is what all pods of a workload that does not scale ask for; not to be modified.
func (w *Workload) whole() map[string]float64 {
	n := w.wanted()
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

// measure finds out how far the workload is: by what it says of itself, by what its query
// gives, by its finished parts, else by the time it has run at the scales it had.
func (p *Progress) measure(in Input, w *Workload, o *Options, scaling *decide.Scaling, pods podCount) {
	p.Runtime = o.Runtime
	modelled := work(in, w, scaling, p.Speed, pods)
	if in.Learned != nil && !o.RuntimeStated {
		p.Runtime = in.Learned.Runtime(w, o.Runtime, modelled)
	}
	share := func(v float64, source string) {
		p.Share, p.Source = v, source
		p.Done = time.Duration(v * float64(p.Runtime))
	}
	reading, read := Reading{}, false
	if in.Measured != nil && ProgressQuery(w) != "" {
		reading, read = in.Measured.Progress(w.UID())
	}
	switch {
	case o.Progress >= 0:
		share(o.Progress, FromAnnotation)
	case read:
		share(reading.Share, FromPrometheus)
		if in.Now.Sub(reading.At) > oldReading {
			p.Source = FromModel
		}
		// On from when it was read, by the model.
		since := sinceOf(w)
		if since.Before(reading.At) {
			since = reading.At
		}
		if !w.Facts.Suspended && pods.running > 0 && in.Now.After(since) {
			rate := p.Speed
			if scaling != nil {
				rate *= scaling.Rate(w.Facts.Workers)
			}
			p.Done += time.Duration(rate * float64(in.Timeline.GridDuration(in.Now.Sub(since))))
			p.Share = math.Min(1, float64(p.Done)/float64(p.Runtime))
		}
	case w.Facts.Of > 1:
		// Between finished parts and those begun too, as far as the model says.
		done, of := float64(min(w.Facts.Done, w.Facts.Of)), float64(w.Facts.Of)
		begun := math.Min(of, done+float64(p.Running))
		share(math.Min(math.Max(float64(modelled)/float64(p.Runtime), done/of), begun/of), FromCompletions)
	default:
		p.Done, p.Source = modelled, FromModel
		p.Share = min(1, float64(modelled)/float64(p.Runtime))
	}
}

// oldReading is the age (wall time) from which what lies after a reading counts for more than
// the reading: progress is then said to be known by the model.
const oldReading = 5 * time.Minute

// work is the work that a workload has done by the model: as run time at its least number
// of workers, in grid time, earlier runs included. Where the pods are known nothing is done
// while none runs: its controller may be down, or no node have room.
func work(in Input, w *Workload, scaling *decide.Scaling, speed float64, pods podCount) time.Duration {
	// The annotation is Lull's own and absent before the first change; one that somebody
	// broke counts as none, which errs on the side of the deadline.
	sum, _ := time.ParseDuration(w.Annotations()[v1alpha1.AnnotationRan])
	since := sinceOf(w)
	if w.Facts.Suspended || since.IsZero() {
		return max(0, sum)
	}
	if in.Pods != nil && w.Facts.Of <= 1 {
		if pods.running == 0 {
			return max(0, sum)
		}
		if pods.first.After(since) {
			since = pods.first
		}
	}
	rate := 1.0
	if scaling != nil {
		rate = speed * scaling.Rate(w.Facts.Workers)
	}
	return max(0, sum) + max(0, time.Duration(rate*float64(in.Timeline.GridDuration(in.Now.Sub(since)))))
}

// sinceOf is when the present run at the present scale began (wall time); zero where it
// does not run.
func sinceOf(w *Workload) time.Time {
	since := w.Facts.Started
	if w.Facts.Queue != "" && since.IsZero() {
		return since // let go, but still in the queue
	}
	if at, ok := changed(w); ok && at.After(since) && w.Annotations()[v1alpha1.AnnotationHold] == "" {
		since = at
	}
	return since
}

// changed is when the workload last started, paused or changed its scale.
func changed(w *Workload) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, w.Annotations()[v1alpha1.AnnotationChanged])
	return at, err == nil
}

// Capacity sums what the ready, schedulable nodes offer.
func Capacity(nodes []corev1.Node) map[string]float64 {
	sum := map[string]float64{}
	for i := range nodes {
		if !Offers(&nodes[i]) {
			continue
		}
		for r, q := range amounts(nodes[i].Status.Allocatable) {
			sum[r] += q
		}
	}
	return sum
}

// Offers reports whether a node is ready and takes pods.
func Offers(node *corev1.Node) bool {
	if node.Spec.Unschedulable {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Load sums what live pods ask for, but for those that are ours.
func Load(pods []corev1.Pod, ours func(*corev1.Pod) bool) map[string]float64 {
	sum := map[string]float64{}
	for i := range pods {
		pod := &pods[i]
		if over(pod) || ours(pod) {
			continue
		}
		for r, q := range amounts(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) {
			sum[r] += q
		}
	}
	return sum
}

// upTo bounds a load by the capacity.
func upTo(load, capacity map[string]float64) map[string]float64 {
	for r := range load {
		load[r] = min(load[r], capacity[r])
	}
	return load
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (c *podCount) add(pod *corev1.Pod, measured Measured) {
	switch {
	case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
		c.running++
		if measured != nil {
			p := measured.Power(pod.Namespace, pod.Name)
			c.cpu.add(p.CPU, p.CPUSource)
			c.gpu.add(p.GPU, p.GPUSource)
		}
		if pod.Status.StartTime == nil {
			return
		}
		at := pod.Status.StartTime.Time
		if c.first.IsZero() || at.Before(c.first) {
			c.first = at
		}
		if at.After(c.latest) {
			c.latest = at
		}
	case pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil:
		c.pending++
		for _, x := range pod.Status.Conditions {
			if x.Type == corev1.PodScheduled && x.Status == corev1.ConditionFalse && x.Reason == corev1.PodReasonUnschedulable {
				c.denied++
			}
		}
	}
}

// Drawn is the measured power of some pods that each ask for request, PUE included, and by
// whom it is measured; "" where nothing is. Pods that are not measured (yet) count as the mean
// of the others; what of them nobody measures, as the model says.
func Drawn(pods []PodPower, request map[string]float64, model power.PerUnit) (watts float64, source string) {
	c := podCount{running: len(pods)}
	for _, p := range pods {
		c.cpu.add(p.CPU, p.CPUSource)
		c.gpu.add(p.GPU, p.GPUSource)
	}
	return c.drawn(request, model)
}

func (c *podCount) drawn(request map[string]float64, model power.PerUnit) (watts float64, source string) {
	if c.cpu.pods+c.gpu.pods == 0 {
		return 0, ""
	}
	var sources []string
	sum := func(m *metered, gpu bool) {
		if m.pods > 0 {
			watts += m.watts / float64(m.pods) * float64(c.running)
			sources = append(sources, m.source)
			return
		}
		part := map[string]float64{}
		for r, q := range request {
			if strings.Contains(r, "gpu") == gpu {
				part[r] = q
			}
		}
		if modelled := float64(c.running) * power.Sum(part, model.Watts); modelled > 0 {
			watts += modelled
			sources = append(sources, FromModel)
		}
	}
	sum(&c.cpu, false)
	sum(&c.gpu, true)
	return watts * max(1, model.PUE), strings.Join(slices.Compact(sources), "+")
}

// metered sums what some pods draw.
type metered struct {
	watts  float64
	pods   int
	source string
}

func (m *metered) add(watts float64, source string) {
	if source != "" {
		m.watts += watts
		m.pods++
		m.source = source
	}
}

func amounts(list corev1.ResourceList) map[string]float64 {
	out := make(map[string]float64, len(list))
	for r, q := range list {
		out[string(r)] = q.AsApproximateFloat64()
	}
	return out
}
