package kube

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// localCluster is the name of the one cluster a policy decides for.
const localCluster = "local"

// assumedCPU is what a pod without a CPU request counts as: planning needs some
// size, and nothing is known of it.
const assumedCPU = 1.0

// Input is what a snapshot is made from: API objects as observed.
type Input struct {
	Now      time.Time // wall time
	Timeline timegrid.Timeline
	Policy   *v1alpha1.CarbonPolicy
	// Carbon is what is known of the policy's zone; without series if nothing is.
	Carbon carbon.Outlook
	Jobs   []batchv1.Job // those that name the policy
	Nodes  []corev1.Node
	Pods   []corev1.Pod
}

// View is a snapshot with the objects behind it.
type View struct {
	Snapshot decide.Snapshot
	// Jobs[i] is the object of Snapshot.Tasks[i].
	Jobs []*batchv1.Job
	// Invalid are Jobs whose annotations cannot be read, with the error.
	Invalid []InvalidJob
	// Counts for the status of the policy.
	Waiting, Running, Finished int
}

// InvalidJob is a Job that cannot be governed.
type InvalidJob struct {
	Job *batchv1.Job
	Err error
}

// Observe translates objects into a snapshot. Finished Jobs, Jobs that are
// being deleted and Jobs that their users suspended are not part of it.
func Observe(in Input) (View, error) {
	watts := map[string]float64{string(corev1.ResourceCPU): power.DefaultWattsPerCPU}
	if len(in.Policy.Spec.Power.WattsPerUnit) > 0 {
		watts = in.Policy.Spec.Power.WattsPerUnit
	}
	model, err := power.NewPerUnit(watts, in.Policy.Spec.Power.PUE)
	if err != nil {
		return View{}, err
	}
	ours := map[string]bool{}
	for i := range in.Jobs {
		ours[string(in.Jobs[i].UID)] = true
	}
	capacity := Capacity(in.Nodes)
	starts := podStarts(in.Pods, ours)
	v := View{Snapshot: decide.Snapshot{
		Now: in.Timeline.ToGrid(in.Now), Slot: 15 * time.Minute, Margin: 5 * time.Minute,
		Clusters: []decide.Cluster{{
			Name: localCluster, Zone: in.Policy.Spec.Zone, Power: model,
			Carbon: in.Carbon.Expected, CarbonLow: in.Carbon.Low, CarbonHigh: in.Carbon.High,
			Capacity: capacity,
		}},
	}}
	if d := in.Policy.Spec.Slot; d != nil {
		v.Snapshot.Slot = d.Duration
	}
	if d := in.Policy.Spec.StartMargin; d != nil {
		v.Snapshot.Margin = d.Duration
	}
	for i := range in.Jobs {
		v.add(in, &in.Jobs[i], starts)
	}
	// Pods of Jobs that are not tasks (released ones that cannot be read, ones
	// being deleted) are load like those of strangers.
	tasks := make(map[string]bool, len(v.Jobs))
	for _, job := range v.Jobs {
		tasks[string(job.UID)] = true
	}
	v.Snapshot.Clusters[0].Load = load(in.Pods, tasks, capacity)
	return v, nil
}

func (v *View) add(in Input, job *batchv1.Job, starts map[types.UID]time.Time) {
	_, held := job.Annotations[v1alpha1.AnnotationHold]
	suspended := job.Spec.Suspend != nil && *job.Spec.Suspend
	switch {
	case Finished(job):
		v.Finished++
		return
	case job.DeletionTimestamp != nil, suspended && !held:
		return
	}
	options, err := ReadOptions(job, &in.Policy.Spec)
	if err != nil {
		if _, told := job.Annotations[v1alpha1.AnnotationDecision]; suspended || !told {
			v.Invalid = append(v.Invalid, InvalidJob{job, err})
		}
		return
	}
	t := decide.Task{
		ID: string(job.UID), Submitted: in.Timeline.ToGrid(job.CreationTimestamp.Time), Kind: workload.Rigid,
		Request: Request(job), PriorityClass: job.Spec.Template.Spec.PriorityClassName, State: decide.Running, Cluster: localCluster,
	}
	if options.Interruptible {
		t.Kind = workload.Interruptible
	}
	shadow := in.Policy.Spec.Mode == v1alpha1.ModeShadow
	// Critical Jobs may not wait, nor may one that is still held when its policy
	// has been switched to Shadow.
	if !critical(in.Policy, job) && (!shadow || !suspended) {
		t.Deadline = options.deadline(job, t.Submitted)
	}
	t.Remaining = remaining(in, job, options.Runtime, suspended)
	if since, runs := starts[job.UID]; runs && completions(job) > 1 {
		// A completion under way starts anew after a pause. A Job of a single
		// completion that says it is interruptible is taken to keep checkpoints.
		t.AtRisk = min(t.Remaining, max(0, in.Timeline.GridDuration(in.Now.Sub(since))))
	}
	switch {
	case suspended:
		t.State = decide.Waiting
		t.Paused = job.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldPaused
		v.Waiting++
	case shadow && job.Annotations[v1alpha1.AnnotationDecision] == "":
		// What would have been decided, had the Job been held.
		t.State = decide.Waiting
		v.Running++
	default:
		v.Running++
	}
	v.Snapshot.Tasks = append(v.Snapshot.Tasks, t)
	v.Jobs = append(v.Jobs, job)
}

func critical(policy *v1alpha1.CarbonPolicy, job *batchv1.Job) bool {
	for _, class := range policy.Spec.CriticalPriorityClasses {
		if class == job.Spec.Template.Spec.PriorityClassName {
			return true
		}
	}
	return false
}

// remaining estimates the run time a Job still needs, in grid time. A Job of
// several completions reports its own progress; for the others the time it has
// run counts. While it runs, an interruptible Job of several completions is
// charged for the completions under way: pausing would lose them.
func remaining(in Input, job *batchv1.Job, runtime time.Duration, suspended bool) time.Duration {
	if n := completions(job); n > 1 {
		left := float64(n-min(n, job.Status.Succeeded)) / float64(n)
		return time.Duration(left * float64(runtime))
	}
	return max(0, runtime-ran(job, in.Now, in.Timeline, suspended))
}

func completions(job *batchv1.Job) int32 {
	if job.Spec.Completions == nil {
		return 1
	}
	return *job.Spec.Completions
}

// ran returns how long a Job has run up to now, in grid time, earlier runs
// included.
func ran(job *batchv1.Job, now time.Time, tl timegrid.Timeline, suspended bool) time.Duration {
	// The annotation is Lull's own and absent before the first pause; one that
	// somebody broke counts as none, which errs on the side of the deadline.
	sum, _ := time.ParseDuration(job.Annotations[v1alpha1.AnnotationRan])
	if !suspended && job.Status.StartTime != nil {
		sum += tl.GridDuration(now.Sub(job.Status.StartTime.Time))
	}
	return max(0, sum)
}

// Finished reports whether a Job has completed or failed for good.
func Finished(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// Request returns what the pods of a Job that run at one time ask for.
func Request(job *batchv1.Job) map[string]float64 {
	pods := int32(1)
	if p := job.Spec.Parallelism; p != nil {
		pods = *p
	}
	if job.Spec.Completions != nil {
		pods = min(pods, max(1, *job.Spec.Completions-job.Status.Succeeded))
	}
	out := amounts(resourcehelper.PodRequests(&corev1.Pod{Spec: job.Spec.Template.Spec}, resourcehelper.PodResourcesOptions{}))
	if out[string(corev1.ResourceCPU)] == 0 {
		out[string(corev1.ResourceCPU)] = assumedCPU
	}
	for r := range out {
		out[r] *= float64(max(1, pods))
	}
	return out
}

// Capacity sums what the ready, schedulable nodes offer.
func Capacity(nodes []corev1.Node) map[string]float64 {
	sum := map[string]float64{}
	for i := range nodes {
		if nodes[i].Spec.Unschedulable || !ready(&nodes[i]) {
			continue
		}
		for r, q := range amounts(nodes[i].Status.Allocatable) {
			sum[r] += q
		}
	}
	return sum
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// load sums what the live pods of others ask for, up to the capacity.
func load(pods []corev1.Pod, ours map[string]bool, capacity map[string]float64) map[string]float64 {
	sum := map[string]float64{}
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || ownedBy(pod, ours) {
			continue
		}
		for r, q := range amounts(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) {
			sum[r] = min(sum[r]+q, capacity[r])
		}
	}
	return sum
}

// podStarts returns when the longest running pod of each Job has started.
func podStarts(pods []corev1.Pod, jobs map[string]bool) map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase != corev1.PodRunning || pod.Status.StartTime == nil {
			continue
		}
		for _, o := range pod.OwnerReferences {
			if first, seen := out[o.UID]; jobs[string(o.UID)] && (!seen || pod.Status.StartTime.Time.Before(first)) {
				out[o.UID] = pod.Status.StartTime.Time
			}
		}
	}
	return out
}

func ownedBy(pod *corev1.Pod, uids map[string]bool) bool {
	for _, o := range pod.OwnerReferences {
		if uids[string(o.UID)] {
			return true
		}
	}
	return false
}

func amounts(list corev1.ResourceList) map[string]float64 {
	out := make(map[string]float64, len(list))
	for r, q := range list {
		out[string(r)] = q.AsApproximateFloat64()
	}
	return out
}
