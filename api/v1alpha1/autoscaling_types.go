package v1alpha1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscalingSpec says what the nodes of this cluster can become. Plans use this capacity, and leave time for new nodes.
// A CapacityCurve that bounds the policy outranks it.
type AutoscalingSpec struct {
	// ceiling is the most that all nodes of this cluster offer together, by resource: {cpu: "200", nvidia.com/gpu: "16"}. For
	// these resources it outranks karpenter and clusterAutoscaler. If the nodes offer more now, that counts. Accepted: 0 to 1E.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Ceiling map[corev1.ResourceName]Amount `json:"ceiling,omitempty"`

	// karpenter adds what NodePools of Karpenter (karpenter.sh/v1) may still add by their limits.
	// +optional
	Karpenter *KarpenterSpec `json:"karpenter,omitempty"`

	// clusterAutoscaler adds what node groups may still add by the ConfigMap cluster-autoscaler-status of kube-system.
	// +optional
	ClusterAutoscaler *ClusterAutoscalerSpec `json:"clusterAutoscaler,omitempty"`

	// provisioningDelay is how long a pod without a node waits until it runs on a new one. It is added to startMargin: the latest
	// safe start of each workload is so much earlier. A worker lacks a node for so long at least before no more are asked for.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('6h')",message="accepted: 0s to 6h"
	// +optional
	ProvisioningDelay *metav1.Duration `json:"provisioningDelay,omitempty"`
}

// KarpenterSpec names NodePools.
type KarpenterSpec struct {
	// nodePools are those that count; without any all of them. A NodePool adds nothing of a resource that its limits do not state.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	NodePools []string `json:"nodePools,omitempty"`
}

// ClusterAutoscalerSpec names node groups.
type ClusterAutoscalerSpec struct {
	// nodeGroups are those that count.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	NodeGroups []NodeGroup `json:"nodeGroups"`
}

// NodeGroup is a group of nodes that cluster-autoscaler scales.
type NodeGroup struct {
	// name as in the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name"`
	// allocatable is what one of its nodes offers to pods, by resource: {cpu: 15500m, memory: 60Gi}. The ConfigMap does not say it.
	// Accepted: 0 to 1E.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	Allocatable map[corev1.ResourceName]Amount `json:"allocatable"`
}

// ConditionAutoscaled of a CarbonPolicy: all that its spec.autoscaling names is read and states a ceiling. It is absent without
// spec.autoscaling.
const ConditionAutoscaled = "Autoscaled"

// Amount is an amount of a resource, as in 200, "15500m" or 60Gi. It is not a Quantity: the API server accepts 1e-2000000000 as one, and
// to read that takes forever.
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
