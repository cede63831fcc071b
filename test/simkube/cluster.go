package simkube

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// RunTime is the annotation of a pod template that says how long a pod of it runs; without it, a pod runs for good.
const RunTime = "lab.lull.dev/runtime"

// Cluster is the model of the controllers of Jobs, CronJobs, Deployments and ReplicaSets, a scheduler and kubelets.
type Cluster struct {
	// Factor is how much faster than the clock pods run, as that of a replayed zone.
	Factor float64
	// Hangs reports whether the API server answers nobody; nil if it always answers.
	Hangs func() bool

	store *Store
	rng   *rand.Rand
	pods  map[types.UID]*running
	// left is what pods that were stopped have left to do, by the Job, where its work may be interrupted.
	left map[types.UID][]time.Duration
	// lost is what was lost with nodes, by the Job.
	lost lostWork
	// refused are the Jobs whose pods a ResourceQuota refused.
	refused map[types.UID]refusal
}

// running is what a kubelet knows of a pod.
type running struct {
	taken, starts, ends time.Time // when its node took it, its container runs, and it ends; ends is zero if it runs for good
}

// NewCluster returns a cluster without nodes.
func NewCluster(store *Store, seed uint64) *Cluster {
	return &Cluster{store: store, Factor: 1, rng: rand.New(rand.NewPCG(seed, 0x636c7573746572)), pods: map[types.UID]*running{}, left: map[types.UID][]time.Duration{}, refused: map[types.UID]refusal{}}
}

// Node is a node of so many CPUs.
func Node(name, cpus string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status.Capacity = node.Status.Allocatable
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}

// AddNode adds a node, which is ready.
func (w *World) AddNode(node *corev1.Node) {
	mustStore(w.Store.Create("", w.Store.Resource("Node"), object(node)))
}

// Run acts on changes until ctx ends.
//
// It acts some time after a change and never at the same moment, so that what it sees does not depend on the order of
// goroutines.
func (c *Cluster) Run(ctx context.Context) {
	_ = sleep(ctx, time.Millisecond)
	for ctx.Err() == nil {
		if c.Hangs != nil && c.Hangs() {
			_ = sleep(ctx, time.Second)
			continue
		}
		changed := c.store.Changed(nil)
		next := c.step()
		wait := time.Hour
		if !next.IsZero() {
			wait = max(0, time.Until(next))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
			_ = sleep(ctx, time.Millisecond+time.Duration(c.rng.Int64N(int64(300*time.Millisecond))))
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step brings the cluster up to the present. It returns when something happens next by itself.
func (c *Cluster) step() time.Time {
	now := time.Now()
	next := c.cronJobs(now)
	if at := c.evict(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
		next = at
	}
	pods := c.kubelets(now)
	jobs, _ := c.store.List(c.store.Resource("Job"), "")
	for _, u := range jobs {
		var job batchv1.Job
		typed(u, &job)
		c.job(&job, pods[job.UID], now)
	}
	if at := c.retries(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
		next = at
	}
	c.deployments(pods)
	c.schedule(now)
	for _, r := range c.pods {
		for _, at := range []time.Time{r.starts, r.ends} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	return next
}

// kubelets starts and ends pods whose time has come. It returns the pods by the Job that owns them.
func (c *Cluster) kubelets(now time.Time) map[types.UID][]*corev1.Pod {
	out := map[types.UID][]*corev1.Pod{}
	unreachable := c.unreachable()
	list, _ := c.store.List(c.store.Resource("Pod"), "")
	for _, u := range list {
		pod := &corev1.Pod{}
		typed(u, pod)
		r := c.pods[pod.UID]
		if _, silent := unreachable[pod.Spec.NodeName]; silent {
			r = nil // its kubelet says nothing
		}
		if c.pods[pod.UID] == nil && pod.Spec.NodeName != "" && pod.Status.Phase == "" { // bound by who made it
			c.accept(pod, now)
			r = c.pods[pod.UID]
		}
		if r != nil && pod.DeletionTimestamp == nil {
			switch {
			case pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded && !now.Before(r.starts):
				taken, started := metav1.NewTime(r.taken.Truncate(time.Second)), metav1.NewTime(r.starts.Truncate(time.Second))
				c.podStatus(pod, func() {
					pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &taken
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: started}}
					pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
				})
			case pod.Status.Phase == corev1.PodRunning && !r.ends.IsZero() && !now.Before(r.ends):
				c.podStatus(pod, func() {
					pod.Status.Phase = corev1.PodSucceeded
					pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
						StartedAt: metav1.NewTime(r.starts.Truncate(time.Second)), FinishedAt: metav1.NewTime(r.ends.Truncate(time.Second)), Reason: "Completed",
					}}}}
				})
			}
		}
		for _, o := range pod.OwnerReferences {
			out[o.UID] = append(out[o.UID], pod)
		}
	}
	return out
}

// job does what the Job controller does for one Job.
func (c *Cluster) job(job *batchv1.Job, pods []*corev1.Pod, now time.Time) {
	if job.Status.CompletionTime != nil {
		return
	}
	parallelism := int32(1)
	if job.Spec.Parallelism != nil {
		parallelism = *job.Spec.Parallelism
	}
	suspended := job.Spec.Suspend != nil && *job.Spec.Suspend
	status := job.Status.DeepCopy()
	var active []*corev1.Pod
	done := int32(0)
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded {
			done++
		} else {
			active = append(active, pod)
		}
	}
	var want int32
	complete := false
	switch {
	case job.Spec.Completions != nil:
		want, complete = min(parallelism, *job.Spec.Completions-done), done >= *job.Spec.Completions
	case done == 0:
		want = parallelism
	default: // a pod has succeeded, which says that no work is left; the others end by themselves
		want, complete = int32(len(active)), true
	}
	if suspended {
		want = 0
	}
	for len(active) > int(want) {
		pod := active[len(active)-1]
		active = active[:len(active)-1]
		c.stop(job, pod, now)
	}
	created := 0
	for len(active)+created < int(want) && c.start(job, now) {
		created++
	}
	status.Active, status.Succeeded = int32(len(active)+created), done
	ready := int32(0)
	for _, pod := range active {
		if pod.Status.Phase == corev1.PodRunning {
			ready++
		}
	}
	status.Ready = &ready
	second := metav1.NewTime(now.Truncate(time.Second))
	switch {
	case suspended && status.StartTime != nil || suspended && len(status.Conditions) == 0:
		status.StartTime = nil
		status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: second}}
	case !suspended && status.StartTime == nil:
		status.StartTime = &second
		if len(status.Conditions) > 0 {
			status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionFalse, LastTransitionTime: second}}
		}
	}
	if complete && len(active) == 0 {
		status.CompletionTime = &second
		status.Conditions = append(status.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: second})
	}
	mustStore(c.store.Change("", c.store.Resource("Job"), nameOf(job), true, func(u *unstructured.Unstructured) error {
		u.Object["status"] = object(&batchv1.Job{Status: *status}).Object["status"]
		return nil
	}))
}

// stop deletes a pod. What it has done is lost unless the work may be interrupted.
func (c *Cluster) stop(job *batchv1.Job, pod *corev1.Pod, now time.Time) {
	if r := c.pods[pod.UID]; r != nil && !r.ends.IsZero() && interruptible(job) {
		began := r.starts
		if now.Before(began) {
			began = now
		}
		c.left[job.UID] = append(c.left[job.UID], max(time.Second, r.ends.Sub(r.starts)-now.Sub(began)))
	}
	delete(c.pods, pod.UID)
	must(c.store.Delete("", c.store.Resource("Pod"), nameOf(pod), pod.UID))
}

// start creates a pod of a Job. It reports whether no ResourceQuota refused it.
func (c *Cluster) start(job *batchv1.Job, now time.Time) bool {
	yes := true
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	pod.GenerateName, pod.Namespace = job.Name+"-", job.Namespace
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[batchv1.JobNameLabel] = job.Name
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}}
	if !c.withinQuota(job, pod, now) {
		return false
	}
	mustStore(c.store.Create("", c.store.Resource("Pod"), object(pod)))
	return true
}

// schedule binds pods to nodes with room that they may go to, in the order of their creation.
func (c *Cluster) schedule(now time.Time) {
	free := map[string]int64{}
	nodes := map[string]*corev1.Node{}
	list, _ := c.store.List(c.store.Resource("Node"), "")
	for _, u := range list {
		node := &corev1.Node{}
		typed(u, node)
		ready := slices.ContainsFunc(node.Status.Conditions, func(x corev1.NodeCondition) bool {
			return x.Type == corev1.NodeReady && x.Status == corev1.ConditionTrue
		})
		if ready && !node.Spec.Unschedulable {
			free[node.Name], nodes[node.Name] = node.Status.Allocatable.Cpu().MilliValue(), node
		}
	}
	names := slices.Sorted(maps.Keys(free))
	list, _ = c.store.List(c.store.Resource("Pod"), "")
	var pending []*corev1.Pod
	for _, u := range list {
		pod := &corev1.Pod{}
		typed(u, pod)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || len(pod.Spec.SchedulingGates) > 0:
		case pod.Spec.NodeName != "":
			free[pod.Spec.NodeName] -= cpu(pod)
		default:
			pending = append(pending, pod)
		}
	}
	slices.SortStableFunc(pending, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, pod := range pending {
		at := slices.IndexFunc(names, func(n string) bool { return free[n] >= cpu(pod) && admits(nodes[n], pod) })
		if at < 0 {
			if len(pod.Status.Conditions) == 0 {
				c.podStatus(pod, func() {
					pod.Status.Phase = corev1.PodPending
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}}
				})
			}
			continue
		}
		free[names[at]] -= cpu(pod)
		c.bind(pod, names[at], now)
	}
}

// admits reports whether a pod may go to a node: by its node selector, and by the taints of the node.
func admits(node *corev1.Node, pod *corev1.Pod) bool {
	for k, v := range pod.Spec.NodeSelector {
		if node.Labels[k] != v {
			return false
		}
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(x corev1.Toleration) bool { return x.ToleratesTaint(klog.Background(), taint, false) }) {
			return false
		}
	}
	return true
}

func (c *Cluster) bind(pod *corev1.Pod, node string, now time.Time) {
	c.accept(pod, now)
	mustStore(c.store.Change("", c.store.Resource("Pod"), nameOf(pod), false, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, node, "spec", "nodeName")
	}))
	pod.Spec.NodeName = node
	c.podStatus(pod, func() {
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}}
	})
}

// accept is what a kubelet does with a pod that is bound to its node.
func (c *Cluster) accept(pod *corev1.Pod, now time.Time) {
	r := &running{taken: now, starts: now.Add(500*time.Millisecond + time.Duration(c.rng.Int64N(int64(2500*time.Millisecond))))}
	if c.Factor > 1 { // an hour of the zone is short
		r.starts = now.Add(200 * time.Millisecond)
	}
	c.pods[pod.UID] = r
	text, limited := pod.Annotations[RunTime]
	if !limited {
		return
	}
	length, err := time.ParseDuration(text)
	must(err)
	length = time.Duration(float64(length) / c.Factor)
	if len(pod.OwnerReferences) > 0 {
		owner := pod.OwnerReferences[0].UID
		if left := c.left[owner]; len(left) > 0 {
			length, c.left[owner] = left[0], left[1:]
		}
	}
	r.ends = r.starts.Add(length)
}

// podStatus changes the status of a pod.
func (c *Cluster) podStatus(pod *corev1.Pod, change func()) {
	change()
	mustStore(c.store.Change("", c.store.Resource("Pod"), nameOf(pod), true, func(u *unstructured.Unstructured) error {
		u.Object["status"] = object(pod).Object["status"]
		return nil
	}))
}

func cpu(pod *corev1.Pod) int64 {
	sum := int64(0)
	for _, x := range pod.Spec.Containers {
		sum += x.Resources.Requests.Cpu().MilliValue()
	}
	return sum
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func mustStore(_ *unstructured.Unstructured, err error) { must(err) }
