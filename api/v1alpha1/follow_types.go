package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// FollowSpec is a service and the clusters between which it follows clean power (or the sun,
// or the wind). Source: James and Schien, A Low Carbon Kubernetes Scheduler, ICT4S 2019.
//
// +kubebuilder:validation:XValidation:rule="has(self.manifests) || has(self.manifestsFrom)",message="manifests or manifestsFrom is needed"
type FollowSpec struct {
	// clusters are the ComputeClusters on which the service may run.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Clusters []string `json:"clusters"`

	// manifests of the service, in the order in which Lull applies them. The objects go into the namespace
	// of the same name on the chosen cluster. Lull creates the namespace if it does not exist.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:pruning:PreserveUnknownFields
	// +listType=atomic
	// +optional
	Manifests []runtime.RawExtension `json:"manifests,omitempty"`
	// manifestsFrom names ConfigMaps of this namespace whose values are YAML documents. Lull applies them
	// after manifests, in the order of their keys.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	ManifestsFrom []ManifestsReference `json:"manifestsFrom,omitempty"`

	// rank says which cluster is the best. By default it is the one with the lowest intensity; if
	// intensities are about equal, the coolest one.
	// +optional
	Rank FollowRank `json:"rank,omitempty"`

	// every is how often Lull ranks the clusters.
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="accepted: 1m to 168h"
	// +optional
	Every *metav1.Duration `json:"every,omitempty"`
	// dwell is the shortest time that the service stays after a move.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="accepted: 1m to 8760h"
	// +optional
	Dwell *metav1.Duration `json:"dwell,omitempty"`
	// stay is how long Lull expects a cluster to remain the better one. A move must pay off within this
	// time. By default it is the dwell time.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="accepted: 1m to 8760h"
	// +optional
	Stay *metav1.Duration `json:"stay,omitempty"`
	// threshold is the least relative improvement of intensity that justifies a move. If rank has an
	// expression, Lull does not use threshold, watts, rampUpKWh and transferKWh.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.99
	// +optional
	Threshold float64 `json:"threshold,omitempty"`

	// watts is the power of the service. By default Lull computes it from what its pods request, with the
	// power model of each cluster.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	Watts *float64 `json:"watts,omitempty"`
	// rampUpKWh is the energy of a start on a new cluster.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	RampUpKWh float64 `json:"rampUpKWh,omitempty"`
	// transferKWh is the energy of the transfer to a new cluster.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	TransferKWh float64 `json:"transferKWh,omitempty"`

	// patience is how long (in wall time) a new cluster may take until it is provisioned and the service is
	// ready there. If it takes longer, Lull gives it up, and does not try it again before the dwell time
	// has passed.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="accepted: 1s to 24h"
	// +optional
	Patience *metav1.Duration `json:"patience,omitempty"`
}

// ManifestsReference names a ConfigMap.
type ManifestsReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap"`
}

// FollowRank is a way to rank clusters.
type FollowRank struct {
	// expression in CEL that rates a cluster. The cluster with the highest value is the best. Variables:
	// intensity (gCO2eq/kWh), and the weather of the ComputeCluster: temperature (Celsius), irradiance
	// (W/m2), wind (m/s). Example: "irradiance".
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Expression string `json:"expression,omitempty"`
	// equal is the largest relative difference between intensities that count as equal.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.99
	// +kubebuilder:default=0.05
	// +optional
	Equal *float64 `json:"equal,omitempty"`
}

// FollowState says how far the placement or move of the service is.
// +kubebuilder:validation:Enum=Pending;Settled;Provisioning;Applying;Waiting;Removing
type FollowState string

// The states of a service. Pending: it is on no cluster yet. Settled: it runs on its cluster. It moves to another cluster in four steps:
// Lull provisions that cluster (Provisioning), applies the objects (Applying), waits until they are ready (Waiting), and removes them
// from the old cluster (Removing).
const (
	FollowPending      FollowState = "Pending"
	FollowSettled      FollowState = "Settled"
	FollowProvisioning FollowState = "Provisioning"
	FollowApplying     FollowState = "Applying"
	FollowWaiting      FollowState = "Waiting"
	FollowRemoving     FollowState = "Removing"
)

// FollowStatus is where the service is.
type FollowStatus struct {
	// +optional
	State FollowState `json:"state,omitempty"`
	// cluster is the cluster on which the service has become ready.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// next is the cluster to which the service moves.
	// +optional
	Next string `json:"next,omitempty"`
	// intensity is the carbon intensity of the cluster, in gCO2eq/kWh.
	// +optional
	Intensity *float64 `json:"intensity,omitempty"`
	// settledAt is when the service settled on the cluster.
	// +optional
	SettledAt *metav1.Time `json:"settledAt,omitempty"`
	// nextSince is when the move to next began.
	// +optional
	NextSince *metav1.Time `json:"nextSince,omitempty"`
	// rankedAt is when Lull last ranked the clusters.
	// +optional
	RankedAt *metav1.Time `json:"rankedAt,omitempty"`
	// moves is how many moves are complete. The first placement does not count.
	// +optional
	Moves int32 `json:"moves"`
	// placements lists all objects that Lull has created, by cluster.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=cluster
	// +optional
	Placements []FollowPlacement `json:"placements,omitempty"`
	// refused lists clusters that could not take the service, and the time before which Lull does not try them again.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=cluster
	// +optional
	Refused []FollowRefusal `json:"refused,omitempty"`

	// conditions: Ready (the service is ready on its cluster), Configured (the specification can be
	// carried out).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// FollowPlacement lists the objects that Lull has created on a cluster.
type FollowPlacement struct {
	Cluster string `json:"cluster"`
	// objects in the order in which Lull applied them. An object without uid may not exist yet.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	Objects []FollowObject `json:"objects,omitempty"`
}

// FollowObject is an object of the namespace of its Follow.
type FollowObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// FollowRefusal is a cluster that could not take the service.
type FollowRefusal struct {
	Cluster string      `json:"cluster"`
	Until   metav1.Time `json:"until"`
	Message string      `json:"message"`
}

// ConditionConfigured says that a specification can be carried out.
const ConditionConfigured = "Configured"

// ConditionNotRemoved says which objects of the service Lull could not remove from a former cluster, and why. It is absent if none
// are left.
const ConditionNotRemoved = "NotRemoved"

// FollowFinalizer keeps a Follow until Lull has removed its objects. FollowOwner is the annotation of these
// objects that holds the UID of the Follow.
const (
	FollowFinalizer = "lull.dev/follow"
	FollowOwner     = "lull.dev/follow"
)

// AnnotationKeep ("true") on a Follow keeps its service running when the Follow is deleted.
const AnnotationKeep = "lull.dev/keep"

// Follow keeps a service on the best of several clusters. It moves the service make-before-break.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.cluster`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.next`
// +kubebuilder:printcolumn:name="gCO2eq/kWh",type=number,JSONPath=`.status.intensity`
// +kubebuilder:printcolumn:name="Moves",type=integer,JSONPath=`.status.moves`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Follow struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FollowSpec `json:"spec"`
	// +optional
	Status FollowStatus `json:"status,omitempty"`
}

// FollowList is a list of services.
//
// +kubebuilder:object:root=true
type FollowList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Follow `json:"items"`
}
