// Package v1alpha1 holds the custom resources of Lull (group lull.dev). Types
// only, with their validation; no logic.
//
// +kubebuilder:object:generate=true
// +groupName=lull.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of these types.
var GroupVersion = schema.GroupVersion{Group: "lull.dev", Version: "v1alpha1"}

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(
		GroupVersion, &GridZone{}, &GridZoneList{}, &CarbonPolicy{}, &CarbonPolicyList{}, &CarbonPlan{}, &CarbonPlanList{},
		&ScalingProfile{}, &ScalingProfileList{}, &WorkloadKind{}, &WorkloadKindList{},
		&ComputeCluster{}, &ComputeClusterList{}, &Follow{}, &FollowList{}, &CapacityCurve{}, &CapacityCurveList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
