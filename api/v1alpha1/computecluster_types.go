package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ComputeClusterSpec describes a cluster that may take work: Caspian's ClusterInfo.
type ComputeClusterSpec struct {
	// zone names the GridZone in which the cluster is.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`

	// access says how Lull reaches the cluster.
	Access ClusterAccess `json:"access"`

	// queue names the ClusterQueue of that cluster through which work arrives. If it is set, the capacity
	// is at most the quota of this queue.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Queue string `json:"queue,omitempty"`

	// power estimates the power of work from its resource requests.
	// +kubebuilder:default={}
	// +optional
	Power PowerSpec `json:"power,omitempty"`

	// weather of the place. If intensities are about equal, Lull prefers the place with the lower air
	// temperature. Services may also follow sun and wind.
	// +optional
	Weather *WeatherSource `json:"weather,omitempty"`

	// provision says how Lull makes the cluster when a Follow needs it, and removes it when no Follow
	// uses it any more.
	// +optional
	Provision *ProvisionSpec `json:"provision,omitempty"`

	// follow says which Follows may place services on the cluster, and with which service account. Without it, none may.
	// +optional
	Follow *FollowAccess `json:"follow,omitempty"`

	// refresh is how often Lull reads the state of the cluster.
	// +kubebuilder:default="15s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="accepted: 1s to 1h"
	// +optional
	Refresh *metav1.Duration `json:"refresh,omitempty"`

	// staleAfter is the age of lookedAt above which Lull sends no new work to the cluster.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="accepted: 1s to 24h"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// ClusterAccess says where the kubeconfig of a cluster is; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=multiKueueCluster;secret
type ClusterAccess struct {
	// multiKueueCluster names a MultiKueueCluster. Lull uses its kubeconfig.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	MultiKueueCluster string `json:"multiKueueCluster,omitempty"`
	// secret names a Secret with a kubeconfig, in the namespace of the controller.
	// +optional
	Secret *SecretKey `json:"secret,omitempty"`
}

// FollowAccess says which Follows may place services on a cluster.
type FollowAccess struct {
	// namespaces whose Follows may place services, each in the namespace of the same name on that cluster.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	Namespaces []string `json:"namespaces"`
	// kinds of objects that they may place, with their API group, for example Deployment.apps. Kinds of the core group have none, for
	// example Service.
	// +kubebuilder:default={"ConfigMap","Deployment.apps","Service"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[A-Z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`
	// +listType=set
	// +optional
	Kinds []string `json:"kinds,omitempty"`
	// serviceAccount of that namespace that Lull impersonates to place, read and remove the objects. It needs access to them. The account
	// of the kubeconfig needs the right to impersonate it.
	// +kubebuilder:default=lull-follow
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// DefaultFollowAccount is the serviceAccount of a FollowAccess that states none.
const DefaultFollowAccount = "lull-follow"

// ProvisionSpec says how Lull makes a cluster; exactly one of hook and clusterAPI is set.
// +kubebuilder:validation:ExactlyOneOf=hook;clusterAPI
type ProvisionSpec struct {
	// hook names a program in the folder of the controller flag --provision-hooks. Lull runs it with the
	// arguments "create NAME" or "delete NAME", and may run it again. It succeeds if it exits with 0.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Hook string `json:"hook,omitempty"`
	// clusterAPI holds the Cluster API objects of the cluster.
	// +optional
	ClusterAPI *ClusterAPISpec `json:"clusterAPI,omitempty"`
	// keep is how long Lull keeps the cluster when no service is on it any more.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="accepted: 0s to 8760h"
	// +optional
	Keep *metav1.Duration `json:"keep,omitempty"`
}

// ClusterAPISpec is a cluster of Cluster API.
type ClusterAPISpec struct {
	// manifests of the objects, including a Cluster of cluster.x-k8s.io. Lull creates them in the
	// namespace of the controller.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:pruning:PreserveUnknownFields
	// +listType=atomic
	Manifests []runtime.RawExtension `json:"manifests"`
}

// ProvisionState is the state of the provisioning of a cluster.
// +kubebuilder:validation:Enum=Absent;Creating;Provisioned;Releasing;Deleting
type ProvisionState string

// The states of provisioning. A cluster in state Releasing takes no new service. Lull deletes it, unless a service
// is already moving there.
const (
	ProvisionAbsent    ProvisionState = "Absent"
	ProvisionCreating  ProvisionState = "Creating"
	Provisioned        ProvisionState = "Provisioned"
	ProvisionReleasing ProvisionState = "Releasing"
	ProvisionDeleting  ProvisionState = "Deleting"
)

// ProvisionStatus is the state of the provisioning of a cluster.
type ProvisionStatus struct {
	// +optional
	State ProvisionState `json:"state,omitempty"`
	// unusedSince is the time since which no service is on the cluster.
	// +optional
	UnusedSince *metav1.Time `json:"unusedSince,omitempty"`
	// message describes the last failure.
	// +optional
	Message string `json:"message,omitempty"`
}

// ComputeClusterStatus is the state of the cluster when Lull last read it.
type ComputeClusterStatus struct {
	// intensity is the present carbon intensity of its zone, in gCO2eq/kWh.
	// +optional
	Intensity *float64 `json:"intensity,omitempty"`
	// forecast is the carbon intensity of its zone in the coming hours.
	// +kubebuilder:validation:MaxItems=48
	// +listType=atomic
	// +optional
	Forecast []ForecastPoint `json:"forecast,omitempty"`
	// temperature of the air in degrees Celsius.
	// +optional
	Temperature *float64 `json:"temperature,omitempty"`

	// capacity is what its ready nodes offer, or the quota of its queue if that is less.
	// +optional
	Capacity map[string]float64 `json:"capacity,omitempty"`
	// load is what work requests on the cluster, without the workloads that the hub sends.
	// +optional
	Load map[string]float64 `json:"load,omitempty"`
	// usual is the learned load at each hour of the day (UTC). Plans use it for the coming hours.
	// +kubebuilder:validation:MaxItems=24
	// +listType=atomic
	// +optional
	Usual []HourlyLoad `json:"usual,omitempty"`
	// nodes is how many nodes are ready.
	// +optional
	Nodes int32 `json:"nodes"`
	// version of Kubernetes.
	// +optional
	Version string `json:"version,omitempty"`
	// removedFrom names the MultiKueueConfigs from which Lull removed the cluster when it was lost. Lull
	// adds it to them again after it has removed the work that was left on the cluster.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	RemovedFrom []string `json:"removedFrom,omitempty"`
	// provision is the state of its provisioning.
	// +optional
	Provision *ProvisionStatus `json:"provision,omitempty"`
	// lookedAt is when Lull last read the state of the cluster.
	// +optional
	LookedAt *metav1.Time `json:"lookedAt,omitempty"`

	// conditions: Ready (the specification can be carried out), Reachable (the cluster answers),
	// Stale (lookedAt is so old that Lull sends no new work to the cluster).
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
