package v1alpha1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscalingSpec says how much capacity an autoscaler can add to this cluster. Plans use this capacity, and leave time for new nodes.
// A CapacityCurve that bounds the policy outranks it.
type AutoscalingSpec struct {
	// ceiling is the most that all nodes of this cluster offer together, by resource: {cpu: "200", nvidia.com/gpu: "16"}. For
	// these resources it outranks karpenter and clusterAutoscaler. If the nodes offer more now, Lull uses what they offer. Accepted: 0 to 1E.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Ceiling map[corev1.ResourceName]Amount `json:"ceiling,omitempty"`

	// karpenter adds the capacity that NodePools of Karpenter (karpenter.sh/v1) may still add under their limits.
	// +optional
	Karpenter *KarpenterSpec `json:"karpenter,omitempty"`

	// clusterAutoscaler adds the capacity that node groups may still add, as the ConfigMap cluster-autoscaler-status in kube-system states it.
	// +optional
	ClusterAutoscaler *ClusterAutoscalerSpec `json:"clusterAutoscaler,omitempty"`

	// provisioningDelay is how long a pod without a node waits until it runs on a new one. Lull adds it to startMargin, so the latest
	// safe start of each workload is that much earlier. A worker must lack a node for at least this long before Lull stops asking for
	// more workers.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('6h')",message="accepted: 0s to 6h"
	// +optional
	ProvisioningDelay *metav1.Duration `json:"provisioningDelay,omitempty"`
}

// KarpenterSpec names NodePools.
type KarpenterSpec struct {
	// nodePools names the NodePools that count; if it is empty, all count. A NodePool adds nothing of a resource that its limits do not state.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	NodePools []string `json:"nodePools,omitempty"`
}

// ClusterAutoscalerSpec names node groups.
type ClusterAutoscalerSpec struct {
	// nodeGroups are the node groups that count.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	NodeGroups []NodeGroup `json:"nodeGroups"`
}

// NodeGroup is a group of nodes that cluster-autoscaler scales.
type NodeGroup struct {
	// name of the group in the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`
	// allocatable is what one node of the group offers to pods, by resource: {cpu: 15500m, memory: 60Gi}. The ConfigMap does not state it.
	// Accepted: 0 to 1E.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Allocatable map[corev1.ResourceName]Amount `json:"allocatable"`
}

// ConditionAutoscaled of a CarbonPolicy: Lull has read everything that its spec.autoscaling names, and it states a ceiling. The condition is
// absent without spec.autoscaling.
const ConditionAutoscaled = "Autoscaled"

// Amount is an amount of a resource, for example 200, "15500m" or 60Gi. Its form is narrower than that of a Quantity, because some
// Quantities that the API server accepts, such as 1e-2000000000, take forever to parse.
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^[0-9]{1,19}(\.[0-9]{1,9})?([mkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$`
type Amount string

// UnmarshalJSON reads a string, or the text of a number.
func (a *Amount) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(a))
	}
	*a = Amount(data)
	return nil
}
