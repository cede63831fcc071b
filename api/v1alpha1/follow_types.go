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
	// clusters are the ComputeClusters on which it may be.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Clusters []string `json:"clusters"`

	// manifests of the service, in the order in which they are applied. They are objects of
	// the namespace of the same name there, which is made where there is none.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:pruning:PreserveUnknownFields
	// +listType=atomic
	// +optional
	Manifests []runtime.RawExtension `json:"manifests,omitempty"`
	// manifestsFrom names ConfigMaps of this namespace whose values are YAML documents; they
	// come after manifests, by the order of their keys.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	ManifestsFrom []ManifestsReference `json:"manifestsFrom,omitempty"`

	// rank says which cluster is the best; by default that of the lowest intensity, among about
	// equal ones the coolest.
	// +optional
	Rank FollowRank `json:"rank,omitempty"`

	// every is how often the clusters are ranked.
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="accepted: 1m to 168h"
	// +optional
	Every *metav1.Duration `json:"every,omitempty"`
	// dwell is the least stay after a move.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="accepted: 1m to 8760h"
	// +optional
	Dwell *metav1.Duration `json:"dwell,omitempty"`
	// stay is how long a place is expected to remain the better one: a move must pay over that
	// time. By default the dwell time.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8760h')",message="accepted: 1m to 8760h"
	// +optional
	Stay *metav1.Duration `json:"stay,omitempty"`
	// threshold is the least relative improvement of intensity that is worth a move. Like the
	// energies it is not used with an expression.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.99
	// +optional
	Threshold float64 `json:"threshold,omitempty"`

	// watts that the service takes; by default what its pods request, by the power model of each
	// cluster.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	Watts *float64 `json:"watts,omitempty"`
	// rampUpKWh and transferKWh are the energy of starting at a new cluster and of what is
	// transferred to it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	RampUpKWh float64 `json:"rampUpKWh,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	TransferKWh float64 `json:"transferKWh,omitempty"`

	// patience is how long (of the clock on the wall) a new cluster may take to be provisioned and to make the
	// service ready. One that takes longer is left, and not tried again for as long as a move
	// lasts at least (dwell).
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
	// expression in CEL that rates a cluster, the highest is the best, from intensity
	// (gCO2eq/kWh) and the weather of the ComputeCluster: temperature (Celsius), irradiance (W/m2), wind
	// (m/s); e.g. "irradiance".
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Expression string `json:"expression,omitempty"`
	// equal is the relative difference of intensities that counts as none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.99
	// +kubebuilder:default=0.05
	// +optional
	Equal *float64 `json:"equal,omitempty"`
}

// FollowState is what the service does.
// +kubebuilder:validation:Enum=Pending;Settled;Provisioning;Applying;Waiting;Removing
type FollowState string

// The states of a service: nowhere yet; at its place; moving to the next (which is provisioned,
// gets the objects, makes them ready); removed where it was.
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
	// cluster is where it is, and was ready when it settled there; next is where it is moving to.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// +optional
	Next string `json:"next,omitempty"`
	// intensity of the cluster, gCO2eq/kWh.
	// +optional
	Intensity *float64 `json:"intensity,omitempty"`
	// settledAt is when it came there, nextSince when the move began.
	// +optional
	SettledAt *metav1.Time `json:"settledAt,omitempty"`
	// +optional
	NextSince *metav1.Time `json:"nextSince,omitempty"`
	// rankedAt is when the clusters were last ranked.
	// +optional
	RankedAt *metav1.Time `json:"rankedAt,omitempty"`
	// moves that have been completed, the first placement not counted.
	// +optional
	Moves int32 `json:"moves"`
	// placements are all objects that were made, by cluster.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=cluster
	// +optional
	Placements []FollowPlacement `json:"placements,omitempty"`
	// refused are clusters that could not take it, and until when they are not tried again.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=cluster
	// +optional
	Refused []FollowRefusal `json:"refused,omitempty"`

	// conditions: Ready (the service is ready where it is), Configured (the specification can be
	// carried out).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// FollowPlacement is what was made on a cluster.
type FollowPlacement struct {
	Cluster string `json:"cluster"`
	// objects in the order in which they were applied. What has no uid yet may or may not be there.
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

// ConditionNotRemoved says that something of the service could not be removed from a cluster where it is no longer, and why. It is
// absent if there is nothing left.
const ConditionNotRemoved = "NotRemoved"

// FollowFinalizer keeps a Follow until what it has made is removed; FollowOwner is the annotation by
// which what it has made names its UID.
const (
	FollowFinalizer = "lull.dev/follow"
	FollowOwner     = "lull.dev/follow"
)

// AnnotationKeep on a Follow that is deleted leaves its service where it is, as it is ("true").
const AnnotationKeep = "lull.dev/keep"

// Follow keeps a service on the best of several clusters, make before break.
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
