// Package kueue reads what Kueue's objects say, and names what Lull writes on them. It knows
// the fields of API version v1beta2 that Lull needs and writes nothing itself.
//
// Kueue: https://kueue.sigs.k8s.io; fields as of v0.19.2.
package kueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GroupVersion is that of Kueue's objects; one that does not serve it is too old.
var GroupVersion = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

// Labels and annotations of Kueue.
const (
	// LabelQueue names the LocalQueue of an object.
	LabelQueue = "kueue.x-k8s.io/queue-name"
	// LabelJobUID is on each Workload: the UID of what it is of.
	LabelJobUID = "kueue.x-k8s.io/job-uid"
	// LabelOrigin marks what MultiKueue has made on a cluster for a hub.
	LabelOrigin = "kueue.x-k8s.io/multikueue-origin"
	// Prebuilt is the label, since v0.18 the annotation, of the Job that runs a copy: the name
	// of the copy.
	Prebuilt = "kueue.x-k8s.io/prebuilt-workload-name"
	// LabelPodSet is on all pods of workloads that Kueue has admitted.
	LabelPodSet = "kueue.x-k8s.io/podset"
	// AnnotationGates keeps an object from being queued until it is removed: gates, separated
	// by commas. Set at creation only (beta, on by default since v0.19).
	AnnotationGates = "kueue.x-k8s.io/admission-gated-by"
	// AnnotationElastic lets a Job change its size while it runs.
	AnnotationElastic = "kueue.x-k8s.io/elastic-job"
	// AnnotationReplaces is on a slice that is to take the place of another: the key of that one.
	AnnotationReplaces = "kueue.x-k8s.io/workload-slice-replacement-for"
)

// ManagedByMultiKueue is what spec.managedBy of a Job says whose queue leads to other clusters.
const ManagedByMultiKueue = "kueue.x-k8s.io/multikueue"

// ErrObject marks an object that cannot be read.
var ErrObject = errors.New("unreadable")

// Workload is what Kueue keeps of an object that it queues.
type Workload struct {
	Namespace, Name string
	UID             types.UID
	Version         string // resource version
	// OwnedBy are the objects that it is of.
	OwnedBy []metav1.OwnerReference
	Created time.Time
	// Queue is its LocalQueue; OfHub says that MultiKueue has made it for a hub.
	Queue string
	OfHub bool
	// Active is what spec.active says.
	Active bool
	// Considered says that Kueue has looked at it: what follows is known.
	Considered bool
	// Pods is how many it asks quota for. Replaces says that it is a slice that takes the place of
	// another one of the same object, which has grown.
	Pods     int
	Replaces bool
	// Gated says that it waits for a gate; Reserved that it holds quota, Admitted that it may
	// run, Finished that it has ended, Evicted that it is on its way back into the queue.
	Gated, Reserved, Admitted, Finished, Evicted bool
	// Usage is what it has been given, by resource.
	Usage map[string]float64
	// Nominated are the clusters it may go to, Cluster the one it is at.
	Nominated []string
	Cluster   string
	// Checks are the states of its admission checks, by name.
	Checks map[string]string
	// ReservedAt is since when it holds quota.
	ReservedAt  time.Time
	Annotations map[string]string
}

// CheckPending is the state of an admission check that waits.
const CheckPending = "Pending"

// workload mirrors the fields that are read.
type workload struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		QueueName string `json:"queueName"`
		Active    *bool  `json:"active"`
		PodSets   []struct {
			Count int `json:"count"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Admission  *struct {
			PodSetAssignments []struct {
				ResourceUsage map[string]resource.Quantity `json:"resourceUsage"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		AdmissionChecks []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"admissionChecks"`
		NominatedClusterNames []string `json:"nominatedClusterNames"`
		ClusterName           *string  `json:"clusterName"`
	} `json:"status"`
}

// Read reads a Workload. The error wraps ErrObject.
func Read(u *unstructured.Unstructured) (Workload, error) {
	var in workload
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &in); err != nil {
		return Workload{}, fmt.Errorf("Workload %s: %w: %w", u.GetName(), ErrObject, err)
	}
	w := Workload{
		Namespace: in.Metadata.Namespace, Name: in.Metadata.Name, UID: in.Metadata.UID, Version: in.Metadata.ResourceVersion,
		OwnedBy: in.Metadata.OwnerReferences, Created: in.Metadata.CreationTimestamp.Time, Queue: in.Spec.QueueName, Active: in.Spec.Active == nil || *in.Spec.Active, Annotations: in.Metadata.Annotations,
		Nominated: in.Status.NominatedClusterNames, Checks: map[string]string{}, Usage: map[string]float64{},
	}
	_, w.OfHub = in.Metadata.Labels[LabelOrigin]
	_, w.Replaces = in.Metadata.Annotations[AnnotationReplaces]
	for _, set := range in.Spec.PodSets {
		w.Pods += set.Count
	}
	for _, c := range in.Status.Conditions {
		is := c.Status == metav1.ConditionTrue
		switch c.Type {
		case "QuotaReserved":
			w.Considered, w.Reserved = true, is
			w.Gated = !is && c.Reason == "AdmissionGated"
			if is {
				w.ReservedAt = c.LastTransitionTime.Time
			}
		case "Admitted":
			w.Admitted = is
		case "Finished":
			w.Finished = is
		case "Evicted":
			w.Evicted = is
		}
	}
	if in.Status.ClusterName != nil {
		w.Cluster = *in.Status.ClusterName
	}
	if a := in.Status.Admission; a != nil {
		for _, set := range a.PodSetAssignments {
			for r, q := range set.ResourceUsage {
				w.Usage[r] += q.AsApproximateFloat64()
			}
		}
	}
	for _, c := range in.Status.AdmissionChecks {
		w.Checks[c.Name] = c.State
	}
	return w, nil
}

// After reports whether a Workload takes the place of another one of the same object: the slice
// of an elastic one that has not ended, else the younger.
func (w *Workload) After(other *Workload) bool {
	if w.Finished != other.Finished {
		return other.Finished
	}
	return w.Created.After(other.Created)
}

// Prune takes out of a Workload what is not read: most of it are pod templates.
func Prune(obj map[string]any) {
	if m, ok := obj["metadata"].(map[string]any); ok {
		delete(m, "managedFields")
	}
	if spec, ok := obj["spec"].(map[string]any); ok {
		sets, _ := spec["podSets"].([]any)
		for _, set := range sets {
			if set, ok := set.(map[string]any); ok {
				delete(set, "template")
			}
		}
	}
}

// Quota is what a ClusterQueue may give of each resource, over all its flavors; what it may
// borrow counts up to its limit, where it has one.
func Quota(u *unstructured.Unstructured) (map[string]float64, error) {
	var in struct {
		Spec struct {
			ResourceGroups []struct {
				Flavors []struct {
					Resources []struct {
						Name           string             `json:"name"`
						NominalQuota   resource.Quantity  `json:"nominalQuota"`
						BorrowingLimit *resource.Quantity `json:"borrowingLimit"`
					} `json:"resources"`
				} `json:"flavors"`
			} `json:"resourceGroups"`
			StopPolicy string `json:"stopPolicy"`
		} `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &in); err != nil {
		return nil, fmt.Errorf("ClusterQueue %s: %w: %w", u.GetName(), ErrObject, err)
	}
	quota := map[string]float64{}
	for _, g := range in.Spec.ResourceGroups {
		for _, f := range g.Flavors {
			for _, r := range f.Resources {
				if in.Spec.StopPolicy != "" && in.Spec.StopPolicy != "None" {
					quota[r.Name] = 0
					continue
				}
				quota[r.Name] += r.NominalQuota.AsApproximateFloat64()
				if r.BorrowingLimit != nil {
					quota[r.Name] += r.BorrowingLimit.AsApproximateFloat64()
				}
			}
		}
	}
	return quota, nil
}

// OfWorkload reports whether a pod belongs to a workload that Kueue has admitted: what it
// takes is then counted with the workload.
func OfWorkload(pod *corev1.Pod) bool {
	_, is := pod.Labels[LabelPodSet]
	return is
}

// Gates are those that the value of AnnotationGates names.
func Gates(value string) []string {
	var out []string
	for _, g := range strings.Split(value, ",") {
		if g = strings.TrimSpace(g); g != "" {
			out = append(out, g)
		}
	}
	return out
}

// Without is such a value without a gate; "" where none is left.
func Without(value, gate string) string {
	return strings.Join(slices.DeleteFunc(Gates(value), func(g string) bool { return g == gate }), ",")
}
