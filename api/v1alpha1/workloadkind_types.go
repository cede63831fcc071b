package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkloadKindSpec says how objects of one kind are held, scaled and observed. All of it
// is data: paths into the object, such as spec.runPolicy.suspend. A key with a dot in it
// stands in brackets and quotes: metadata.labels['app.kubernetes.io/name']; an item of a
// list is spec.groups[0]; [*] stands for all items of a list or all values of a map.
//
// +kubebuilder:validation:XValidation:rule="(has(self.hold.suspend) ? 1 : 0) + (has(self.hold.gate) && self.hold.gate ? 1 : 0) + (has(self.hold.zero) && self.hold.zero ? 1 : 0) == 1",message="hold: accepted: exactly one of suspend, gate and zero"
// +kubebuilder:validation:XValidation:rule="!(has(self.hold.zero) && self.hold.zero) || has(self.workers)",message="hold.zero needs workers"
type WorkloadKindSpec struct {
	// group, version, kind and resource (the plural) of the API; the core group is empty.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]{0,62}$`
	Kind string `json:"kind"`
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9]{0,62}$`
	Resource string `json:"resource"`

	// hold is how an object is kept from running.
	Hold HoldSpec `json:"hold"`

	// workers is what scales; absent for kinds that run at one size.
	// +optional
	Workers *WorkersSpec `json:"workers,omitempty"`

	// pods are the pods that do not scale.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Pods []PodsSpec `json:"pods,omitempty"`

	// podLabels are labels of the object's pods: their values are paths into the object.
	// Pods that the object owns itself are found without.
	// +kubebuilder:validation:MaxProperties=8
	// +optional
	PodLabels map[string]Path `json:"podLabels,omitempty"`

	// priorityClass is where the priority class of the pods stands.
	// +optional
	PriorityClass Path `json:"priorityClass,omitempty"`

	// active says that pods of it run or are about to; any one suffices.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Active []StatusMatch `json:"active,omitempty"`
	// idle is what the status says where nothing of it runs: its fields and their values, null for one
	// that is absent then. On a hub the status is a copy of what the cluster said last; of a workload
	// that was taken back from there it must say so for Kueue to give its quota back.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Idle *runtime.RawExtension `json:"idle,omitempty"`
	// finished says that it has succeeded or failed for good; any one suffices. A kind
	// without never ends.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Finished []StatusMatch `json:"finished,omitempty"`
	// started is the time of the start of the present run.
	// +optional
	Started Path `json:"started,omitempty"`
	// ended is the time of its end; without it, that of the condition that tells it.
	// +optional
	Ended Path `json:"ended,omitempty"`
	// activeDeadline is where the number of seconds stands after which the present run is ended by force. The
	// clock must stop while the object is held, and begin anew when it is released.
	// +optional
	ActiveDeadline Path `json:"activeDeadline,omitempty"`
	// completions count the parts of the work, where the kind has any.
	// +optional
	Completions *CompletionsSpec `json:"completions,omitempty"`

	// owners are the kinds of controllers whose objects are governed; an object that
	// another controller owns is part of a workload, not one.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Owners []string `json:"owners,omitempty"`
	// managedBy says who runs the object.
	// +optional
	ManagedBy *ManagedBySpec `json:"managedBy,omitempty"`
}

// ManagedBySpec is a field that names who runs an object: an object of which that is anybody
// but its usual controller is left alone.
type ManagedBySpec struct {
	Path Path `json:"path"`
	// own are the values that name the usual controller, as does an absent field.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Own []string `json:"own,omitempty"`
}

// Path leads to a field of an object.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type Path string

// HoldSpec is one way of keeping an object from running.
type HoldSpec struct {
	// suspend is a boolean field: true while it is held.
	// +optional
	Suspend Path `json:"suspend,omitempty"`
	// gate says that the object is a Pod: it is held by a scheduling gate, and cannot be
	// held again once it runs.
	// +optional
	Gate bool `json:"gate,omitempty"`
	// zero says that it is held at no workers.
	// +optional
	Zero bool `json:"zero,omitempty"`
}

// WorkersSpec is the part of an object that scales.
type WorkersSpec struct {
	// replicas is the number of workers; absent in the object means 1.
	Replicas Path `json:"replicas"`
	// fixed says that the number cannot be changed while the object runs: it counts, but
	// the kind is not elastic.
	// +optional
	Fixed bool `json:"fixed,omitempty"`
	// tandem are numbers that change with replicas where they are equal to it and the
	// object says so by the annotation lull.dev/completions-follow-workers.
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Tandem []Path `json:"tandem,omitempty"`
	// template is the pod template of a worker.
	// +optional
	Template Path `json:"template,omitempty"`
	// resources of a worker, where there is no template.
	// +optional
	Resources Path `json:"resources,omitempty"`
}

// PodsSpec is a group of pods that does not scale.
// +kubebuilder:validation:XValidation:rule="!has(self.completions) || has(self.counts)",message="completions needs counts"
type PodsSpec struct {
	// each, where it is set, leads to several items; the paths below begin there.
	// +optional
	Each Path `json:"each,omitempty"`
	// template is the pod template.
	Template Path `json:"template"`
	// counts are multiplied; absent ones count as 1.
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Counts []Path `json:"counts,omitempty"`
	// completions is how many pods succeed in all, as of a Job: the first of counts is never larger. It is
	// absent in objects that have no such number.
	// +optional
	Completions Path `json:"completions,omitempty"`
}

// StatusMatch recognises a state.
// +kubebuilder:validation:XValidation:rule="has(self.condition) != has(self.path)",message="accepted: either condition or path"
type StatusMatch struct {
	// condition of status.conditions that is True.
	// +optional
	Condition string `json:"condition,omitempty"`
	// path to a field that has one of the values; without values, one that is neither
	// empty nor zero.
	// +optional
	Path Path `json:"path,omitempty"`
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Values []string `json:"values,omitempty"`
}

// CompletionsSpec counts parts of the work.
type CompletionsSpec struct {
	Done Path `json:"done"`
	Of   Path `json:"of"`
}

// WorkloadKind teaches Lull a kind of workload. "lull kinds" lists those it knows and
// prints the access rule and the admission policy that a further one needs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=wkind
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadKind struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadKindSpec `json:"spec"`
	// +optional
	Status WorkloadKindStatus `json:"status,omitempty"`
}

// WorkloadKindStatus says whether Lull uses the kind.
type WorkloadKindStatus struct {
	// conditions: Ready, or why it is refused.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadKindList is a list of kinds.
//
// +kubebuilder:object:root=true
type WorkloadKindList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadKind `json:"items"`
}
