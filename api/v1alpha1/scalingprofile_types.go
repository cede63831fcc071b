package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScalingProfileSpec is the capacity curve of a family of workloads: its throughput and
// power by number of workers.
type ScalingProfileSpec struct {
	// points are what was measured or is declared, by rising number of workers. Between
	// them lies a monotone interpolation; beyond the last the last increment goes on.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.throughput >= self[0].throughput / 1000000.0 && p.throughput <= self[0].throughput * 1000000.0)",message="throughputs may differ from the first point's by a factor of up to 1000000"
	// +kubebuilder:validation:XValidation:rule="self.map(p, p.workers).isSorted() && self.all(p, self.exists_one(q, q.workers == p.workers))",message="workers must rise from point to point"
	Points []ScalingPoint `json:"points"`
	// unit of the throughput, for people; the curve counts relative to its first point.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Unit string `json:"unit,omitempty"`
	// source says where the points come from.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Source string `json:"source,omitempty"`
	// profiled is what the measurement took.
	// +optional
	Profiled *ProfilingCost `json:"profiled,omitempty"`
}

// ScalingPoint is one scale.
type ScalingPoint struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Workers int32 `json:"workers"`
	// throughput in the unit of the profile.
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000000
	Throughput float64 `json:"throughput"`
	// watts of all workers together; absent: the power model of the policy.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	Watts *float64 `json:"watts,omitempty"`
}

// ProfilingCost is what a measurement took.
type ProfilingCost struct {
	// duration is how long each scale was measured, at least.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="accepted: 0s to 8760h"
	Duration metav1.Duration `json:"duration"`
	// share of the whole run that was done while profiling, where it is known.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +optional
	Share *float64 `json:"share,omitempty"`
	// energyKWh and emissionsG of the measurement.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	// +optional
	EnergyKWh float64 `json:"energyKWh,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000000
	// +optional
	EmissionsG float64 `json:"emissionsG,omitempty"`
}

// ScalingProfileStatus is what was learned since, from workloads that name the profile.
type ScalingProfileStatus struct {
	// observed replaces points of the same number of workers. Throughput is relative to
	// that of the first point of the profile.
	// +listType=map
	// +listMapKey=workers
	// +optional
	Observed []ObservedPoint `json:"observed,omitempty"`
}

// ObservedPoint is a scale as it was seen to run.
type ObservedPoint struct {
	Workers int32 `json:"workers"`
	// throughput relative to that declared: for the least scale of the workload in a
	// CarbonPlan, for the first point in a ScalingProfile.
	Throughput float64 `json:"throughput"`
	// samples it is the mean of; recent ones weigh more.
	Samples int32       `json:"samples"`
	Last    metav1.Time `json:"last"`
}

// ScalingProfile is how a family of workloads scales. Workloads name it by the annotation
// lull.dev/profile.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=sprof
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Unit",type=string,JSONPath=`.spec.unit`
// +kubebuilder:printcolumn:name="Workers",type=string,JSONPath=`.spec.points[*].workers`
// +kubebuilder:printcolumn:name="Throughput",type=string,JSONPath=`.spec.points[*].throughput`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalingProfile struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ScalingProfileSpec `json:"spec"`
	// +optional
	Status ScalingProfileStatus `json:"status,omitempty"`
}

// ScalingProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type ScalingProfileList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalingProfile `json:"items"`
}
