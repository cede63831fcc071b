package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkloadKindSpec says how Lull holds, scales and observes objects of one kind. It consists of
// paths into the object, such as spec.runPolicy.suspend. A key with a dot is
// in brackets and quotes: metadata.labels['app.kubernetes.io/name']. An item of a
// list is spec.groups[0]. [*] means all items of a list or all values of a map.
//
// +kubebuilder:validation:XValidation:rule="(has(self.hold.suspend) ? 1 : 0) + (has(self.hold.gate) && self.hold.gate ? 1 : 0) + (has(self.hold.zero) && self.hold.zero ? 1 : 0) == 1",message="hold: accepted: exactly one of suspend, gate and zero"
// +kubebuilder:validation:XValidation:rule="!(has(self.hold.zero) && self.hold.zero) || has(self.workers)",message="hold.zero needs workers"
type WorkloadKindSpec struct {
	// group of the API; empty for the core group.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// version of the API.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// kind of the objects.
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]{0,62}$`
	Kind string `json:"kind"`
	// resource is the plural name of the kind in the API.
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9]{0,62}$`
	Resource string `json:"resource"`

	// hold says how Lull keeps an object from running.
	Hold HoldSpec `json:"hold"`

	// workers describes the part of the object that scales. It is absent for kinds that run at one size.
	// +optional
	Workers *WorkersSpec `json:"workers,omitempty"`

	// pods are the pods that do not scale.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Pods []PodsSpec `json:"pods,omitempty"`

	// podLabels are labels of the object's pods. Their values are paths into the object.
	// Lull finds Pods that the object itself owns without them.
	// +kubebuilder:validation:MaxProperties=8
	// +optional
	PodLabels map[string]Path `json:"podLabels,omitempty"`

	// priorityClass is the path of the priority class of the pods.
	// +optional
	PriorityClass Path `json:"priorityClass,omitempty"`

	// active says that pods of the object run or are about to run. One match suffices.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Active []StatusMatch `json:"active,omitempty"`
	// idle lists fields of the status and their values while nothing of the object runs; null means that the
	// field is absent. On a hub, the status is a copy of the one on the cluster. If Lull takes a workload back
	// from a cluster, it sets these values, so that Kueue gives the quota back.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Idle *runtime.RawExtension `json:"idle,omitempty"`
	// finished says that the object has succeeded or failed for good. One match suffices. If it is empty,
	// objects of the kind never end.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Finished []StatusMatch `json:"finished,omitempty"`
	// started is the path of the time at which the present run started.
	// +optional
	Started Path `json:"started,omitempty"`
	// ended is the path of the time at which the run ended. Without it, Lull uses the time of the condition that matches finished.
	// +optional
	Ended Path `json:"ended,omitempty"`
	// activeDeadline is the path of the number of seconds after which the present run is ended by force. The
	// clock must stop while the object is held, and start again from 0 when it is released.
	// +optional
	ActiveDeadline Path `json:"activeDeadline,omitempty"`
	// completions says where the object counts the completed parts of its work, if the kind has parts.
	// +optional
	Completions *CompletionsSpec `json:"completions,omitempty"`

	// owners are kinds of controllers. Lull governs objects that they own. An object that
	// any other controller owns is a part of a workload, not a workload.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Owners []string `json:"owners,omitempty"`
	// managedBy says which controller runs the object.
	// +optional
	ManagedBy *ManagedBySpec `json:"managedBy,omitempty"`
}

// ManagedBySpec is a field that names the controller that runs an object. Lull leaves the object alone if that is not
// its usual controller.
type ManagedBySpec struct {
	Path Path `json:"path"`
	// own lists the values that name the usual controller. An absent field names it too.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Own []string `json:"own,omitempty"`
}

// Path is the path to a field of an object.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type Path string

// HoldSpec is one way of keeping an object from running.
type HoldSpec struct {
	// suspend is the path of a boolean field that is true while the object is held.
	// +optional
	Suspend Path `json:"suspend,omitempty"`
	// gate says that the object is a Pod. A scheduling gate holds it, and it cannot be
	// held again after it has started.
	// +optional
	Gate bool `json:"gate,omitempty"`
	// zero says that Lull holds the object by scaling it to 0 workers.
	// +optional
	Zero bool `json:"zero,omitempty"`
}

// WorkersSpec is the part of an object that scales.
type WorkersSpec struct {
	// replicas is the path of the number of workers. If the object lacks the field, it has 1 worker.
	Replicas Path `json:"replicas"`
	// fixed says that the number cannot change while the object runs. Lull counts the workers, but
	// the kind is not elastic.
	// +optional
	Fixed bool `json:"fixed,omitempty"`
	// tandem are paths of numbers that change together with replicas, if they equal it and the object has
	// the annotation lull.dev/completions-follow-workers.
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Tandem []Path `json:"tandem,omitempty"`
	// template is the path of the pod template of a worker.
	// +optional
	Template Path `json:"template,omitempty"`
	// resources is the path of the resources of a worker, if there is no template.
	// +optional
	Resources Path `json:"resources,omitempty"`
}

// PodsSpec is a group of pods that does not scale.
// +kubebuilder:validation:XValidation:rule="!has(self.completions) || has(self.counts)",message="completions needs counts"
type PodsSpec struct {
	// each is a path to several items. If it is set, the other paths start at these items.
	// +optional
	Each Path `json:"each,omitempty"`
	// template is the path of the pod template.
	Template Path `json:"template"`
	// counts are paths of numbers whose product is the number of pods. An absent number counts as 1.
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Counts []Path `json:"counts,omitempty"`
	// completions is the path of how many pods must succeed in all, as in a Job. If this number is smaller than the first of
	// counts, Lull uses it instead. Objects may lack it.
	// +optional
	Completions Path `json:"completions,omitempty"`
}

// StatusMatch recognises a state.
// +kubebuilder:validation:XValidation:rule="has(self.condition) != has(self.path)",message="accepted: either condition or path"
type StatusMatch struct {
	// condition is the type of a condition in status.conditions that must be True.
	// +optional
	Condition string `json:"condition,omitempty"`
	// path of a field that must have one of the values. Without values, it must be neither
	// empty nor zero.
	// +optional
	Path Path `json:"path,omitempty"`
	// values that the field may have.
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Values []string `json:"values,omitempty"`
}

// CompletionsSpec counts parts of the work.
type CompletionsSpec struct {
	// done is the path of the number of completed parts.
	Done Path `json:"done"`
	// of is the path of the number of all parts.
	Of Path `json:"of"`
}

// WorkloadKind describes a kind of workload to Lull. "lull kinds" lists the known kinds, and
// prints the access rule and the admission policy that a further kind needs.
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
	// conditions: Ready. If it is False, its message says why Lull refuses the kind.
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
