package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScalingProfileSpec is the capacity curve of a family of workloads: its throughput and
// power by number of workers.
type ScalingProfileSpec struct {
	// points are measured or declared throughputs, by rising number of workers. Between two points,
	// Lull interpolates monotonically. After the last point, each worker adds as much as the last increment.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.all(p, p.throughput >= self[0].throughput / 1000000.0 && p.throughput <= self[0].throughput * 1000000.0)",message="throughputs may differ from the first point's by a factor of up to 1000000"
	// +kubebuilder:validation:XValidation:rule="self.map(p, p.workers).isSorted() && self.all(p, self.exists_one(q, q.workers == p.workers))",message="workers must rise from point to point"
	Points []ScalingPoint `json:"points"`
	// unit of the throughput, for people. Lull uses throughputs only relative to the first point.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Unit string `json:"unit,omitempty"`
	// source says where the points come from.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Source string `json:"source,omitempty"`
	// profiled states what the measurement cost.
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
	// watts is the power of all workers together. If it is absent, Lull uses the power model of the policy.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	Watts *float64 `json:"watts,omitempty"`
}

// ProfilingCost states what a measurement cost.
type ProfilingCost struct {
	// duration is the shortest time for which a scale was measured.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="accepted: 0s to 8760h"
	Duration metav1.Duration `json:"duration"`
	// share of the whole run that was done while profiling, if it is known.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +optional
	Share *float64 `json:"share,omitempty"`
	// energyKWh is the energy of the measurement.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	// +optional
	EnergyKWh float64 `json:"energyKWh,omitempty"`
	// emissionsG is what the measurement emitted, in gCO2eq.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000000
	// +optional
	EmissionsG float64 `json:"emissionsG,omitempty"`
}

// ScalingProfileStatus is what Lull has learned from workloads that name the profile.
type ScalingProfileStatus struct {
	// observed replaces points of the same number of workers. Its throughputs are relative to
	// that of the first point of the profile.
	// +listType=map
	// +listMapKey=workers
	// +optional
	Observed []ObservedPoint `json:"observed,omitempty"`
}

// ObservedPoint is the observed throughput of one scale.
type ObservedPoint struct {
	Workers int32 `json:"workers"`
	// throughput relative to a declared one: in a CarbonPlan to that of the smallest scale of the
	// workload, in a ScalingProfile to that of the first point.
	Throughput float64 `json:"throughput"`
	// samples is how many samples the throughput is the mean of. Recent samples weigh more.
	Samples int32       `json:"samples"`
	Last    metav1.Time `json:"last"`
}

// ScalingProfile says how a family of workloads scales. Workloads name it in the annotation
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
