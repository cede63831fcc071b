package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ComputeClusterSpec says what a cluster is that may take work: Caspian's ClusterInfo.
type ComputeClusterSpec struct {
	// zone names the GridZone in which the cluster stands.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`

	// access is how the cluster is reached.
	Access ClusterAccess `json:"access"`

	// queue names the ClusterQueue there through which work comes; with it, the capacity is
	// at most its quota.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Queue string `json:"queue,omitempty"`

	// power estimates the power of work from what it requests.
	// +kubebuilder:default={}
	// +optional
	Power PowerSpec `json:"power,omitempty"`

	// weather of the place: its air temperature tells between zones of about equal
	// intensity, and services may follow its sun and wind.
	// +optional
	Weather *WeatherSource `json:"weather,omitempty"`

	// provision makes the cluster when a Follow wants to go there, and removes it when none
	// is there any more.
	// +optional
	Provision *ProvisionSpec `json:"provision,omitempty"`

	// follow says which Follows may place services on the cluster, and as whom; without it none may.
	// +optional
	Follow *FollowAccess `json:"follow,omitempty"`

	// refresh is how often the cluster is looked at.
	// +kubebuilder:default="15s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="accepted: 1s to 1h"
	// +optional
	Refresh *metav1.Duration `json:"refresh,omitempty"`

	// staleAfter is how old the newest look may be for new work to go there.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="accepted: 1s to 24h"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// ClusterAccess is a kubeconfig; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=multiKueueCluster;secret
type ClusterAccess struct {
	// multiKueueCluster names a MultiKueueCluster: its kubeconfig is used.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	MultiKueueCluster string `json:"multiKueueCluster,omitempty"`
	// secret holds a kubeconfig, in the namespace of the controller.
	// +optional
	Secret *SecretKey `json:"secret,omitempty"`
}

// FollowAccess says which Follows may place services on a cluster.
type FollowAccess struct {
	// namespaces whose Follows may place services, in the namespace of the same name there.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	Namespaces []string `json:"namespaces"`
	// kinds of objects that they may place, with their API group: Deployment.apps; those of the core group without it: Service.
	// +kubebuilder:default={"ConfigMap","Deployment.apps","Service"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[A-Z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	// +listType=set
	// +optional
	Kinds []string `json:"kinds,omitempty"`
	// serviceAccount of that namespace there, as which Lull places, reads and removes objects (impersonation): it needs the rights to
	// them, and the account of the kubeconfig the right to impersonate it.
	// +kubebuilder:default=lull-follow
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// DefaultFollowAccount is the serviceAccount of a FollowAccess that states none.
const DefaultFollowAccount = "lull-follow"

// ProvisionSpec makes a cluster; exactly one of hook and clusterAPI is set.
// +kubebuilder:validation:ExactlyOneOf=hook;clusterAPI
type ProvisionSpec struct {
	// hook names a program in the folder that the controller was given
	// (--provision-hooks). It is run with the arguments "create NAME" or "delete NAME", may be run
	// again, and has succeeded when it exits with 0.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Hook string `json:"hook,omitempty"`
	// clusterAPI holds Cluster API objects.
	// +optional
	ClusterAPI *ClusterAPISpec `json:"clusterAPI,omitempty"`
	// keep is how long the cluster is kept when nothing is there any more.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="accepted: 0s to 8760h"
	// +optional
	Keep *metav1.Duration `json:"keep,omitempty"`
}

// ClusterAPISpec is a cluster of Cluster API.
type ClusterAPISpec struct {
	// manifests of the objects, a Cluster of cluster.x-k8s.io among them, in the namespace of the
	// controller.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:pruning:PreserveUnknownFields
	// +listType=atomic
	Manifests []runtime.RawExtension `json:"manifests"`
}

// ProvisionState is how far the provisioning of a cluster is.
// +kubebuilder:validation:Enum=Absent;Creating;Provisioned;Releasing;Deleting
type ProvisionState string

// The states of provisioning. A cluster that is being released takes nothing new; unless something is
// on its way there after all it is deleted.
const (
	ProvisionAbsent    ProvisionState = "Absent"
	ProvisionCreating  ProvisionState = "Creating"
	Provisioned        ProvisionState = "Provisioned"
	ProvisionReleasing ProvisionState = "Releasing"
	ProvisionDeleting  ProvisionState = "Deleting"
)

// ProvisionStatus is how far the provisioning of a cluster is.
type ProvisionStatus struct {
	// +optional
	State ProvisionState `json:"state,omitempty"`
	// unusedSince is since when nothing is there.
	// +optional
	UnusedSince *metav1.Time `json:"unusedSince,omitempty"`
	// message of what failed last.
	// +optional
	Message string `json:"message,omitempty"`
}

// ComputeClusterStatus is what is known of the cluster.
type ComputeClusterStatus struct {
	// intensity of this moment, gCO2eq/kWh, and forecast, that of the hours to come: those
	// of its zone.
	// +optional
	Intensity *float64 `json:"intensity,omitempty"`
	// +kubebuilder:validation:MaxItems=48
	// +listType=atomic
	// +optional
	Forecast []ForecastPoint `json:"forecast,omitempty"`
	// temperature of the air in degrees Celsius.
	// +optional
	Temperature *float64 `json:"temperature,omitempty"`

	// capacity is what its ready nodes offer, or its quota where that is less; load what is
	// asked for there by others than the workloads that the hub sends.
	// +optional
	Capacity map[string]float64 `json:"capacity,omitempty"`
	// +optional
	Load map[string]float64 `json:"load,omitempty"`
	// usual is the load at each hour of the day (UTC), as learned; it stands for the load of the
	// hours to come.
	// +kubebuilder:validation:MaxItems=24
	// +listType=atomic
	// +optional
	Usual []HourlyLoad `json:"usual,omitempty"`
	// nodes that are ready, and the version of Kubernetes.
	// +optional
	Nodes int32 `json:"nodes"`
	// +optional
	Version string `json:"version,omitempty"`
	// removedFrom are the MultiKueueConfigs out of which the cluster was taken when it was lost;
	// it comes back into them once what was left there has been removed.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	RemovedFrom []string `json:"removedFrom,omitempty"`
	// provision is how far its provisioning is.
	// +optional
	Provision *ProvisionStatus `json:"provision,omitempty"`
	// lookedAt is when all this was last read.
	// +optional
	LookedAt *metav1.Time `json:"lookedAt,omitempty"`

	// conditions: Ready (the specification can be carried out), Reachable (it answers),
	// Stale (the newest look is too old for work to be sent there).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// HourlyLoad is the load of one hour of the day.
type HourlyLoad struct {
	// hour of the day, UTC.
	Hour int32 `json:"hour"`
	// load by resource.
	Load map[string]float64 `json:"load"`
}

// ConditionReachable says that the cluster answers.
const ConditionReachable = "Reachable"

// ComputeCluster is a cluster that may take work.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cc
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="gCO2eq/kWh",type=number,JSONPath=`.status.intensity`
// +kubebuilder:printcolumn:name="CPU",type=number,JSONPath=`.status.capacity.cpu`
// +kubebuilder:printcolumn:name="Used",type=number,JSONPath=`.status.load.cpu`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
// +kubebuilder:printcolumn:name="Stale",type=string,JSONPath=`.status.conditions[?(@.type=="Stale")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ComputeCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ComputeClusterSpec `json:"spec"`
	// +optional
	Status ComputeClusterStatus `json:"status,omitempty"`
}

// ComputeClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type ComputeClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ComputeCluster `json:"items"`
}
