package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/account"
)

// Workload is what one plan is about: an object of a known kind, or a group of Pods that
// start together.
type Workload struct {
	Kind *kinds.Kind
	// Objects are the object, or the Pods of a group by name. They are not modified.
	Objects []*unstructured.Unstructured
	// Facts are those of the object; of a group, those of its Pods together.
	Facts kinds.Facts
	// Queued is what Kueue keeps of it; nil outside of queues, and until Kueue knows it.
	Queued *kueue.Workload
	// Next is the next run of the CronJob that has created it.
	Next NextRun

	// What follows is read once, when it is first asked for.
	uid         types.UID
	annotations map[string]string
	record      *Record
	header      *header
	unknown     *string
}

// header is what a look reads of each object, waiting or not.
type header struct {
	namespace string
	created   time.Time
	deleted   bool
	// podLabels are those by which the pods of the object, or of a group's first, are known.
	podLabels map[string]string
}

func (w *Workload) head() *header {
	if w.header == nil {
		h := &header{namespace: w.Objects[0].GetNamespace(), created: w.Objects[0].GetCreationTimestamp().Time, podLabels: w.Kind.PodLabels(w.Objects[0].Object)}
		for _, o := range w.Objects {
			if at := o.GetCreationTimestamp().Time; at.Before(h.created) {
				h.created = at
			}
			h.deleted = h.deleted || o.GetDeletionTimestamp() != nil
		}
		w.header = h
	}
	return w.header
}

// NewWorkload reads an object.
func NewWorkload(kind *kinds.Kind, obj *unstructured.Unstructured) *Workload {
	return &Workload{Kind: kind, Objects: []*unstructured.Unstructured{obj}, Facts: kind.Read(obj.Object)}
}

// PodObject is a Pod of the cache as the other kinds come.
func PodObject(pod *corev1.Pod) (*unstructured.Unstructured, error) {
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	obj["apiVersion"], obj["kind"] = "v1", "Pod"
	return &unstructured.Unstructured{Object: obj}, nil
}

// Group joins the Pods among workloads that carry the same label lull.dev/pod-group.
func Group(in []*Workload) []*Workload {
	out := make([]*Workload, 0, len(in))
	groups := map[string]*Workload{}
	for _, w := range in {
		name := w.Objects[0].GetLabels()[v1alpha1.LabelGroup]
		if name == "" || !w.Kind.Spec.Hold.Gate {
			out = append(out, w)
			continue
		}
		key := w.Objects[0].GetNamespace() + "/" + name
		g := groups[key]
		if g == nil {
			g = &Workload{Kind: w.Kind, Facts: w.Facts}
			g.Facts.Request = map[string]float64{}
			groups[key] = g
			out = append(out, g)
		}
		g.join(w)
	}
	for _, g := range groups {
		sort.Slice(g.Objects, func(a, b int) bool { return g.Objects[a].GetName() < g.Objects[b].GetName() })
	}
	return out
}

// join adds a Pod to a group: it is held while no Pod of it has been released, and finished
// when all are.
func (w *Workload) join(pod *Workload) {
	w.Objects = append(w.Objects, pod.Objects[0])
	w.Facts.Suspended = w.Facts.Suspended && pod.Facts.Suspended
	w.Facts.Finished = w.Facts.Finished && pod.Facts.Finished
	w.Facts.Active = w.Facts.Active || pod.Facts.Active
	if w.Facts.Limit > 0 && pod.Facts.Limit > 0 {
		w.Facts.Limit = max(w.Facts.Limit, pod.Facts.Limit)
	} else {
		w.Facts.Limit = 0 // one of its Pods may run for any time
	}
	if s := pod.Facts.Started; !s.IsZero() && (w.Facts.Started.IsZero() || s.Before(w.Facts.Started)) {
		w.Facts.Started = s
	}
	if !pod.Facts.Finished {
		for r, q := range pod.Facts.Request {
			w.Facts.Request[r] += q
		}
	}
}

// Name of the object, or of the group.
func (w *Workload) Name() string {
	if g := w.group(); g != "" {
		return g
	}
	return w.Objects[0].GetName()
}

func (w *Workload) group() string {
	if !w.Kind.Spec.Hold.Gate {
		return ""
	}
	return w.Objects[0].GetLabels()[v1alpha1.LabelGroup]
}

// Namespace of the object.
func (w *Workload) Namespace() string { return w.head().namespace }

// UID of the object, or of the first Pod of a group.
func (w *Workload) UID() types.UID {
	if w.uid == "" {
		w.uid = w.Objects[0].GetUID()
	}
	return w.uid
}

// Annotations of the object, or of the first Pod of a group. They are not to be modified.
func (w *Workload) Annotations() map[string]string {
	if w.annotations == nil {
		if w.annotations = w.Objects[0].GetAnnotations(); w.annotations == nil {
			w.annotations = map[string]string{}
		}
	}
	return w.annotations
}

// Record is the last decision that was told on it; without a verb where none was.
func (w *Workload) Record() *Record {
	if w.record == nil {
		r, _ := ReadRecord(w.Annotations())
		w.record = &r
	}
	return w.record
}

// Created is when the object, or the first Pod of a group, was created.
func (w *Workload) Created() time.Time { return w.head().created }

// Held reports whether Lull keeps it from running.
func (w *Workload) Held() bool { return w.Facts.Suspended && w.hold() != "" }

// hold is why Lull keeps it from running: what its object says, else the mark on the Workload that
// was set inactive, where only one of the two has been written.
func (w *Workload) hold() string {
	if hold := w.Annotations()[v1alpha1.AnnotationHold]; hold != "" || w.Queued == nil || !Parked(w.Queued) {
		return hold
	}
	return w.Queued.Annotations[v1alpha1.AnnotationHold]
}

// holds reports whether Lull keeps one of the objects from running.
func (w *Workload) holds(o *unstructured.Unstructured) bool {
	if len(w.Objects) == 1 {
		return w.Held()
	}
	return o.GetAnnotations()[v1alpha1.AnnotationHold] != "" && w.Kind.Read(o.Object).Suspended
}

// anyHeld reports whether any of the objects is kept from running by Lull: a group may have
// been released in part.
func (w *Workload) anyHeld() bool {
	return !w.Facts.Finished && slices.ContainsFunc(w.Objects, w.holds)
}

// Marked reports whether any of the objects, or the Workload in a queue, carries a mark that Lull holds it.
func (w *Workload) Marked() bool {
	return markedQueue(w.Queued) || w.gateStays() || slices.ContainsFunc(w.Objects, marked)
}

func marked(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationHold] != ""
}

// LatestStart is until when Lull may hold the workload, as was written down: on its object, else on its
// Workload in a queue; "" where it was not.
func (w *Workload) LatestStart() string {
	at := w.Annotations()[v1alpha1.AnnotationLatestStart]
	if at == "" && w.Queued != nil {
		at = w.Queued.Annotations[v1alpha1.AnnotationLatestStart]
	}
	return at
}

// Stale reports whether marks of Lull are left on a workload that Lull does not hold: one that has ended, or
// that somebody has opened by hand. Of what waits in a queue the Workload says so, as the mark on it and its
// state are written together.
func (w *Workload) Stale() bool {
	switch {
	case w.deleted():
		return false
	case w.Facts.Finished:
		return slices.ContainsFunc(w.Objects, marked)
	case w.Facts.Queue != "":
		return !w.Facts.Suspended && markedQueue(w.Queued)
	}
	return slices.ContainsFunc(w.Objects, func(o *unstructured.Unstructured) bool { return marked(o) && !w.holds(o) })
}

// Excluded says why the policy that it names may not govern the workload; "" if it may. system is the
// namespace of Lull itself.
func (w *Workload) Excluded(system string) string {
	a := w.Annotations()
	return kinds.Excluded(system, w.Namespace(), a[v1alpha1.AnnotationPolicy], a)
}

func (w *Workload) deleted() bool { return w.head().deleted }

// podCount counts the pods of a workload.
type podCount struct {
	// denied are pending ones that the scheduler has found no node for, deniedAt when the next
	// one will count as such.
	running, pending, denied int
	deniedAt                 time.Time
	// unmade says that it was released, and has had no pod for podlessPatience: see podless.
	unmade bool
	// started are those of the running ones whose containers have all started, first is when the first of them did. startup is the longest
	// time of one from its node until then.
	started int
	first   time.Time
	startup time.Duration
	// taken is when the first of the running and pending ones came to its node.
	taken time.Time
	// succeeded are pods that have ended well; began is when the first of them started, ended when the last
	// of them ended.
	succeeded    int
	began, ended time.Time
	// cpu and gpu are what is measured of the running ones.
	cpu, gpu metered
}

// podIndex finds the workload that a pod belongs to.
type podIndex struct {
	byUID   map[types.UID]int
	byLabel map[string]map[labelValue]int // label -> its value -> workload
}

type labelValue struct{ namespace, value string }

func newPodIndex(workloads []*Workload) *podIndex {
	x := &podIndex{byUID: make(map[types.UID]int, len(workloads)), byLabel: map[string]map[labelValue]int{}}
	for i, w := range workloads {
		x.byUID[w.UID()] = i
		for _, o := range w.Objects[1:] {
			x.byUID[o.GetUID()] = i
		}
		for label, value := range w.head().podLabels {
			if x.byLabel[label] == nil {
				x.byLabel[label] = make(map[labelValue]int, len(workloads))
			}
			x.byLabel[label][labelValue{w.Namespace(), value}] = i
		}
	}
	return x
}

// of returns the place of the pod's workload; false for a stranger's.
func (x *podIndex) of(pod *corev1.Pod) (int, bool) {
	if i, ok := x.byUID[pod.UID]; ok {
		return i, true
	}
	for _, o := range pod.OwnerReferences {
		if i, ok := x.byUID[o.UID]; ok {
			return i, true
		}
	}
	// A controller creates the pods of a workload. Anybody who may create a pod may give it the labels of another's workload, on whose account it
	// would be then.
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return 0, false
	}
	return x.labelled(pod)
}

// labelled returns the place of the workload whose labels a pod has; false for none.
func (x *podIndex) labelled(pod *corev1.Pod) (int, bool) {
	for label, values := range x.byLabel {
		if v, ok := pod.Labels[label]; ok {
			if i, ok := values[labelValue{pod.Namespace, v}]; ok {
				return i, true
			}
		}
	}
	return 0, false
}

// PlanName is the name of a workload's CarbonPlan.
func PlanName(w *Workload) string {
	kind := w.Kind.Name
	if w.group() != "" {
		kind = "podgroup"
	}
	return PlanNameOf(kind, w.Name())
}

// PlanNameOf is the name of the CarbonPlan of a workload of a kind and name.
func PlanNameOf(kind, name string) string {
	const most = 253
	out := strings.ToLower(kind) + "-" + name
	if len(out) > most {
		sum := sha256.Sum256([]byte(out))
		out = out[:most-17] + "-" + hex.EncodeToString(sum[:8])
	}
	return out
}

// Reference names the workload in its plan.
func (w *Workload) Reference() v1alpha1.WorkloadReference {
	ref := v1alpha1.WorkloadReference{APIVersion: w.Kind.GVK().GroupVersion().String(), Kind: w.Kind.Spec.Kind, Name: w.Name(), UID: w.UID()}
	if w.group() != "" {
		ref.Kind = "PodGroup"
	}
	return ref
}

// Owners are the owner references of its plan: when the last of the objects goes, so does
// the plan.
func (w *Workload) Owners() []metav1.OwnerReference {
	out := make([]metav1.OwnerReference, len(w.Objects))
	for i, o := range w.Objects {
		out[i] = metav1.OwnerReference{APIVersion: w.Kind.GVK().GroupVersion().String(), Kind: w.Kind.Spec.Kind, Name: o.GetName(), UID: o.GetUID()}
	}
	return out
}

// HeldOut says whether a workload is one of the share that runs as submitted: by its UID, so that it stays
// one.
func HeldOut(w *Workload, spec *v1alpha1.CarbonPolicySpec) bool {
	if spec.HoldOut == nil {
		return false
	}
	return account.HeldOut(string(w.UID()), *spec.HoldOut)
}
