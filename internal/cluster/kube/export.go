package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// ReadExport reads what "kubectl get jobs -o json" writes as a trace: the creation of each object, how long it ran and
// what its pods request. It reads Jobs, the other kinds that Lull knows, and Workloads of Kueue; a list or single
// objects, JSON or YAML.
//
// An object counts once: what belongs to another object of the export (the Job of a JobSet, the Workload of a Job) only
// says more of that one, as do its pods ("kubectl get jobs,pods -o json"). The length of an object is that of all its
// runs; Trace.Notes say where it is a lower bound, and how much of it failed or was evicted. Objects that failed, have
// not finished or took no time are counted in Trace.Skipped. Annotations of Lull (run time, deadline, delay,
// interruptible) are taken as stated.
//
// Errors wrap trace.ErrTrace and name the item, the field and its value.
func ReadExport(r io.Reader) (*trace.Trace, error) {
	objects, err := readObjects(r)
	if err != nil {
		return nil, err
	}
	x := exportReader{t: &trace.Trace{}, uids: map[types.UID]bool{}, at: map[types.UID]int{}, part: map[types.UID]types.UID{}}
	if err := x.read(objects); err != nil {
		return nil, err
	}
	x.join()
	var ran []run
	for i := range x.list {
		one, ok, err := x.list[i].run()
		if err != nil {
			return nil, fmt.Errorf("%w: %s%w", trace.ErrTrace, x.list[i].where, err)
		}
		switch {
		case !ok && x.list[i].failed():
			x.t.Skip(trace.Failed)
			continue
		case !ok:
			x.t.Skip(trace.NotFinished)
			continue
		case one.job.Length <= 0:
			x.t.Skip(trace.NoRunTime)
			continue
		}
		ran = append(ran, one)
	}
	addRuns(x.t, ran)
	return x.t, nil
}

// addRuns adds runs to a trace in the order of their creation.
func addRuns(t *trace.Trace, ran []run) {
	sort.SliceStable(ran, func(a, b int) bool { return ran[a].created.Before(ran[b].created) })
	ids := map[string]int{}
	var lost lostTime
	for _, x := range ran {
		if t.Start.IsZero() {
			t.Start = x.created.UTC()
		}
		x.job.Arrival = x.created.Sub(t.Start)
		if !x.deadline.IsZero() && x.deadline.After(x.created) {
			x.job.Deadline = x.deadline.Sub(t.Start)
		}
		if ids[x.job.ID]++; ids[x.job.ID] > 1 {
			x.job.ID = fmt.Sprintf("%s (%s %d)", x.job.ID, x.kind, ids[x.job.ID])
		}
		lost.add(&x)
		t.Jobs = append(t.Jobs, x.job)
	}
	t.Notes = append(t.Notes, lost.notes()...)
}

// maxExport bounds an export.
const maxExport = 1 << 30

// exportReader is an export while it is read.
type exportReader struct {
	t    *trace.Trace
	list []entry
	pods []*corev1.Pod
	// at is the place in list by UID, part the owner of an object that is part of another one.
	at   map[types.UID]int
	part map[types.UID]types.UID
	uids map[types.UID]bool
	// queued are the Workloads of Kueue, which may be of an object in list.
	queued []entry
}

// entry is an object of an export that may count: a workload, or a Workload of Kueue.
type entry struct {
	where string
	w     *Workload
	// queued are what Kueue kept of it, one for each slice of an elastic one; pods are those of the export.
	queued []queuedRun
	pods   []*corev1.Pod
}

// read sorts the objects of an export.
func (x *exportReader) read(objects []exported) error {
	var pods []exported
	for _, o := range objects {
		metadata, _ := o.Object["metadata"].(map[string]any)
		if o.Object["metadata"] != nil && metadata == nil {
			return fmt.Errorf("%w: %smetadata: %v; accepted: an object", trace.ErrTrace, o.at, o.Object["metadata"])
		}
		if uid := o.GetUID(); uid != "" {
			if x.uids[uid] {
				x.t.Skip(trace.CountedElsewhere)
				continue
			}
			x.uids[uid] = true
		}
		kind, err := exportedKind(o)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s%w", trace.ErrTrace, o.at, err)
		case kind == nil:
			q, err := readQueuedRun(o)
			if err != nil {
				return fmt.Errorf("%w: %s%w", trace.ErrTrace, o.at, err)
			}
			x.queued = append(x.queued, entry{where: o.at, queued: []queuedRun{q}})
		case kind.Spec.Hold.Gate:
			pods = append(pods, o)
		default:
			if err := check(o, &batchv1.Job{}, kind.Name == "Job"); err != nil {
				return fmt.Errorf("%w: %s%w", trace.ErrTrace, o.at, err)
			}
			x.list = append(x.list, entry{where: o.at, w: NewWorkload(kind, o.Unstructured)})
		}
	}
	return x.readPods(pods)
}

// check reports what does not fit the type of an object of the API.
func check(o exported, into any, applies bool) error {
	if !applies {
		return nil
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	return units.ReadError(json.Unmarshal(text, into))
}

// readPods reads pods: those that nobody owns are workloads, the others are parts of one.
func (x *exportReader) readPods(objects []exported) error {
	var alone []*Workload
	for _, o := range objects {
		pod := &corev1.Pod{}
		if err := check(o, pod, true); err != nil {
			return fmt.Errorf("%w: %s%w", trace.ErrTrace, o.at, err)
		}
		kind, _ := exportedKind(o)
		if owner := metav1.GetControllerOf(pod); owner != nil && !slices.Contains(kind.Spec.Owners, owner.Kind) || len(pod.OwnerReferences) > 0 && x.uids[pod.OwnerReferences[0].UID] {
			x.pods = append(x.pods, pod)
			continue
		}
		alone = append(alone, NewWorkload(kind, o.Unstructured))
		x.pods = append(x.pods, pod)
	}
	for _, w := range Group(alone) {
		x.list = append(x.list, entry{where: fmt.Sprintf("Pod %s/%s: ", w.Namespace(), w.Name()), w: w})
	}
	return nil
}

// exportedKind is the kind of an object; nil for a Workload of Kueue.
func exportedKind(o exported) (*kinds.Kind, error) {
	text, _ := o.Object["kind"].(string)
	version, _ := o.Object["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, fmt.Errorf("apiVersion: %w", err)
	}
	if text == "Workload" && (version == "" || gv.Group == kueue.GroupVersion.Group) {
		return nil, nil
	}
	var accepted []string
	for _, k := range kinds.Builtin() {
		if k.Spec.Kind == text && (version == "" || k.Spec.Group == gv.Group) {
			return k, nil
		}
		if k.Ends() {
			accepted = append(accepted, k.Name)
		}
	}
	return nil, fmt.Errorf("kind: %q (%s); accepted: %s, Workload of Kueue", text, version, strings.Join(accepted, ", "))
}

// join makes one entry of what is of one workload.
func (x *exportReader) join() {
	all := x.list
	for _, e := range all {
		for _, o := range e.w.Objects {
			if owner := metav1.GetControllerOfNoCopy(o); owner != nil && x.uids[owner.UID] {
				x.part[o.GetUID()] = owner.UID
			}
		}
	}
	x.list = nil
	for _, e := range all {
		if _, part := x.part[e.w.UID()]; part {
			x.t.Skip(trace.CountedElsewhere)
			continue
		}
		for _, o := range e.w.Objects {
			if o.GetUID() != "" {
				x.at[o.GetUID()] = len(x.list)
			}
		}
		x.list = append(x.list, e)
	}
	x.joinQueued()
	var workloads []*Workload
	for i := range x.list { // those of Kueue alone come last
		if w := x.list[i].w; w != nil {
			workloads = append(workloads, w)
		}
	}
	index := newPodIndex(workloads)
	for _, pod := range x.pods {
		if i, ok := index.of(pod); ok {
			x.list[i].pods = append(x.list[i].pods, pod)
			continue
		}
		for _, owner := range pod.OwnerReferences {
			if i, ok := x.at[x.whole(owner.UID)]; ok {
				x.list[i].pods = append(x.list[i].pods, pod)
				break
			}
		}
	}
}

// whole is the object that an object is part of in the end.
func (x *exportReader) whole(uid types.UID) types.UID {
	for range 16 { // owners do not go round in circles, but a file may
		owner, part := x.part[uid]
		if !part {
			break
		}
		uid = owner
	}
	return uid
}

// joinQueued gives Workloads of Kueue to the objects that they are of. Those whose object is not in the export count
// themselves: the slices of one elastic object together.
func (x *exportReader) joinQueued() {
	of := map[types.UID]int{}
	for _, e := range x.queued {
		q := &e.queued[0]
		if i, ok := x.at[x.whole(q.of)]; ok && q.of != "" {
			x.list[i].queued = append(x.list[i].queued, *q)
			x.t.Skip(trace.CountedElsewhere)
			continue
		}
		if i, ok := of[q.of]; ok && q.of != "" && (q.slice || x.list[i].queued[0].slice) {
			x.list[i].queued = append(x.list[i].queued, *q)
			continue
		}
		of[q.of] = len(x.list)
		x.list = append(x.list, e)
	}
}

// run is a workload that has run.
type run struct {
	kind              string
	created, deadline time.Time
	job               trace.Job
	// failed and evicted are the part of its length that was lost; atLeast says that some of what it ran is not known,
	// failures how many of its pods failed at a time that is not known.
	failed, evicted time.Duration
	atLeast         bool
	failures        int
}

// stated adds what annotations of Lull say.
func (x run) stated(annotations map[string]string) (run, bool, error) {
	o, err := ReadOptions(annotations, &v1alpha1.CarbonPolicySpec{}, nil)
	if err != nil {
		return x, false, err
	}
	if o.RuntimeStated {
		x.job.Estimate = o.Runtime
	}
	if o.maxDelayStated {
		x.job.MaxDelay = o.MaxDelay
	}
	x.deadline = o.Deadline
	if o.Interruptible {
		x.job.Kind = "interruptible"
	}
	return x, true, nil
}

// traced is what some pods request each, under the names that traces use.
func traced(request map[string]float64, pods float64) map[string]float64 {
	out := map[string]float64{}
	for name, q := range request {
		v := q * pods
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			out[trace.CPU] += v
		case corev1.ResourceMemory:
			out[trace.Memory] += v / (1 << 30)
		case "nvidia.com/gpu", "amd.com/gpu":
			out[trace.GPU] += v
		}
	}
	return out
}

// lostTime sums what is to be said of jobs beside their lengths.
type lostTime struct {
	jobs, resumed, failures, with int
	failed, evicted               time.Duration
}

func (l *lostTime) add(x *run) {
	if x.failed+x.evicted > 0 {
		l.jobs++
		l.failed += x.failed
		l.evicted += x.evicted
	}
	if x.atLeast {
		l.resumed++
	}
	if x.failures > 0 {
		l.with++
		l.failures += x.failures
	}
}

func (l *lostTime) notes() (out []string) {
	plural := func(n int, one, more string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, more)
	}
	if l.jobs > 0 {
		out = append(out, fmt.Sprintf("%s lost work: the lengths include %s of failed and %s of evicted runs", plural(l.jobs, "job", "jobs"), l.failed.Round(time.Second), l.evicted.Round(time.Second)))
	}
	if l.failures > 0 {
		out = append(out, fmt.Sprintf("%s had %s: the lengths include the time of these; only an export of the pods states it", plural(l.with, "job", "jobs"), plural(l.failures, "pod that failed", "pods that failed")))
	}
	if l.resumed > 0 {
		out = append(out, fmt.Sprintf("%s suspended and resumed, or evicted and requeued, but not by Lull: their lengths are lower bounds, because the objects state only when the last run began", plural(l.resumed, "job was", "jobs were")))
	}
	return out
}
