package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityCurveSpec says how much of a target may be used, and when.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minimum) || string(self.minimum).matches('[eE][-+]?[0-9]{3}') || string(self.maximum).matches('[eE][-+]?[0-9]{3}') || !isQuantity(string(self.minimum)) || !isQuantity(string(self.maximum)) || quantity(string(self.minimum)).compareTo(quantity(string(self.maximum))) <= 0",message="minimum: accepted: 0 to maximum"
// +kubebuilder:validation:XValidation:rule="has(self.method.schedule) || (has(self.policies) && size(self.policies) > 0)",message="policies: accepted: at least one, except with method schedule"
type CapacityCurveSpec struct {
	// zone names the GridZone whose intensity counts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`

	// target is the object whose capacity is set. It cannot be changed; for another target, create another curve.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="accepted: the target that it was made with"
	Target CapacityTarget `json:"target"`

	// policies are the CarbonPolicies whose workloads use the capacity. Methods choose the capacity by
	// what these workloads request, and the policies plan under the curve. A policy follows one curve.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Policies []PolicyReference `json:"policies,omitempty"`

	// resource whose capacity is set. The other resources of the target follow in proportion.
	// +kubebuilder:default=cpu
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Resource string `json:"resource,omitempty"`

	// maximum is the most that the capacity can be, in units of the resource.
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('1E')) <= 0",message="accepted: a quantity above 0, at most 1E"
	Maximum Amount `json:"maximum"`
	// minimum is the least that the capacity can be, in units of the resource; 0 by default.
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1E')) <= 0",message="accepted: a quantity of 0 to 1E"
	// +optional
	Minimum *Amount `json:"minimum,omitempty"`
	// ramp is the most by which the capacity changes from one slot to the next, in units of the resource; unlimited by default.
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('1E')) <= 0",message="accepted: a quantity above 0, at most 1E"
	// +optional
	Ramp *Amount `json:"ramp,omitempty"`

	// slot is how long a capacity lasts.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be 1m to 24h"
	// +optional
	Slot *metav1.Duration `json:"slot,omitempty"`

	// method is how the capacity is chosen.
	Method CapacityMethod `json:"method"`

	// mode is Enforce to set the capacity, or Shadow to state in the status what it would be.
	// +kubebuilder:default=Enforce
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// evict says what happens to running work if the capacity falls below what it uses, and its plan did not
	// foresee it. With Never, the work runs on. With LeastLostWork, Lull pauses interruptible and
	// elastic workloads of the policies that have slack, first those that lose the least work. Plans foresee
	// a known fall, and pause the work that may pause.
	// +kubebuilder:default=Never
	// +optional
	Evict Eviction `json:"evict,omitempty"`
}

// Eviction says what happens to running work if the capacity falls below what it uses.
// +kubebuilder:validation:Enum=Never;LeastLostWork
type Eviction string

// The values of Eviction.
const (
	EvictNever     Eviction = "Never"
	EvictLeastLost Eviction = "LeastLostWork"
)

// PolicyReference names a CarbonPolicy.
type PolicyReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// CapacityTarget is the object whose capacity is set; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=clusterQueue;cohort;nodePool;nodes
type CapacityTarget struct {
	// clusterQueue names a ClusterQueue of Kueue. Lull sets its nominal quotas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClusterQueue string `json:"clusterQueue,omitempty"`
	// cohort names a Cohort of Kueue. Lull sets its nominal quotas.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Cohort string `json:"cohort,omitempty"`
	// nodePool names a NodePool of Karpenter. Lull sets its limits.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodePool string `json:"nodePool,omitempty"`
	// nodes selects nodes by their labels. Lull cordons idle ones.
	// +optional
	Nodes *metav1.LabelSelector `json:"nodes,omitempty"`
}

// CapacityMethod chooses a capacity for every slot; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=carbonFlex;vcc;planned;schedule
type CapacityMethod struct {
	// carbonFlex takes the capacities that an oracle would have set in the most similar hours of the
	// past (CarbonFlex, Algorithm 2). Policies with planner carbonflex scale their workloads by it
	// (Algorithm 3).
	// +optional
	CarbonFlex *CarbonFlexMethod `json:"carbonFlex,omitempty"`
	// vcc is a virtual capacity curve: it moves the work of a day into the cleanest hours of that day.
	// +optional
	VCC *VCCMethod `json:"vcc,omitempty"`
	// planned sets the capacity to what the plans of the policies use.
	// +optional
	Planned *PlannedMethod `json:"planned,omitempty"`
	// schedule lists windows of the day with fixed capacities. Outside of them, the capacity is the minimum.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=48
	// +listType=atomic
	// +optional
	Schedule []CapacityWindow `json:"schedule,omitempty"`
}

// CarbonFlexMethod says how Lull learns from the past, and how it uses what it has learned.
type CarbonFlexMethod struct {
	// history is how much of the past Lull learns from.
	// +kubebuilder:default="336h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('24h') && duration(self) <= duration('1344h')",message="must be 24h to 1344h"
	// +optional
	History *metav1.Duration `json:"history,omitempty"`
	// every is how often Lull learns.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('168h')",message="must be 1h to 168h"
	// +optional
	Every *metav1.Duration `json:"every,omitempty"`
	// neighbours is how many of the most similar hours of the past Lull uses.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Neighbours int32 `json:"neighbours,omitempty"`
	// tolerance is a share of the workloads. If more of them have no slack left, Lull raises the
	// capacity to the largest of these hours.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:default=0.05
	// +optional
	Tolerance *float64 `json:"tolerance,omitempty"`
	// distance is a mean distance of these hours from the present state, in standard deviations. If they
	// are farther away when Lull raises the capacity, it takes the maximum.
	// +kubebuilder:validation:Minimum=0.001
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=2
	// +optional
	Distance *float64 `json:"distance,omitempty"`
}

// VCCMethod says how Lull forecasts the work of a day.
type VCCMethod struct {
	// quantile of the work of past days for which a day has room. A lower quantile takes more risk.
	// +kubebuilder:validation:Minimum=0.5
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:default=0.9
	// +optional
	Quantile *float64 `json:"quantile,omitempty"`
	// days is how many past days count.
	// +kubebuilder:default=14
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=56
	// +optional
	Days int32 `json:"days,omitempty"`
}

// PlannedMethod says how much capacity stays free beside the plans.
type PlannedMethod struct {
	// reserve is the capacity kept free for new work that may not wait, as a share of the planned capacity.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=0.1
	// +optional
	Reserve *float64 `json:"reserve,omitempty"`
}

// CapacityWindow is a capacity between two times of each day (UTC). A window that ends before it begins
// crosses midnight.
type CapacityWindow struct {
	// from is when the window begins, as HH:MM in UTC.
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	From string `json:"from"`
	// to is when the window ends, as HH:MM in UTC. A window that ends before it begins crosses midnight.
	// +kubebuilder:validation:Pattern=`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	To string `json:"to"`
	// capacity in the window, 0 to maximum.
	Capacity Amount `json:"capacity"`
}

// CapacityCurveStatus is the capacity, and the reason for it.
type CapacityCurveStatus struct {
	// slot is when the present slot of the zone's series began.
	// +optional
	Slot *metav1.Time `json:"slot,omitempty"`
	// capacity of the present slot, in units of the resource.
	// +optional
	Capacity float64 `json:"capacity"`
	// wanted is the capacity that the method chose, before the bounds apply, in units of the resource.
	// +optional
	Wanted float64 `json:"wanted"`
	// floor is the capacity that work that may not wait needs, in units of the resource.
	// +optional
	Floor float64 `json:"floor"`
	// used is the capacity that the workloads of the policies use, in units of the resource.
	// +optional
	Used float64 `json:"used"`
	// waiting is the capacity that waiting workloads of the policies need at their smallest scale, in units of the resource.
	// +optional
	Waiting float64 `json:"waiting"`
	// reason names what determines the capacity: Maximum, Floor, Ramp, Minimum or Wanted.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message explains the reason.
	// +optional
	Message string `json:"message,omitempty"`
	// before is the capacity of the previous slot, from which the ramp counts.
	// +optional
	Before *float64 `json:"before,omitempty"`
	// ahead is the capacity that the method chose for later slots, as far as it knows.
	// +kubebuilder:validation:MaxItems=168
	// +listType=atomic
	// +optional
	Ahead []CapacityPoint `json:"ahead,omitempty"`
	// carbonFlex is what method carbonFlex has learned, and which past hours it found last.
	// +optional
	CarbonFlex *CarbonFlexStatus `json:"carbonFlex,omitempty"`
	// conditions: Ready (the target has the stated capacity), Cold (the method has learned nothing yet, and
	// wants the maximum), EditedByHand (somebody else has changed the target: Lull leaves it alone
	// until you remove its annotation lull.dev/capacity or change the curve's spec).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// CapacityPoint is the capacity from a time on.
type CapacityPoint struct {
	From     metav1.Time `json:"from"`
	Capacity float64     `json:"capacity"`
}

// CarbonFlexStatus is what method carbonFlex has learned, and which past hours it found last.
type CarbonFlexStatus struct {
	// learnedAt is when the method last learned, in time of the zone's series.
	// +optional
	LearnedAt *metav1.Time `json:"learnedAt,omitempty"`
	// jobs is how many jobs it learned from.
	// +optional
	Jobs int32 `json:"jobs"`
	// cases is how many hours of the past it learned.
	// +optional
	Cases int32 `json:"cases"`
	// state is the present state of the cluster, for which the method searched similar hours.
	// +optional
	State *CapacityState `json:"state,omitempty"`
	// matches are the most similar hours.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Matches []CapacityMatch `json:"matches,omitempty"`
	// delayed is the share of workloads that have no slack left.
	// +optional
	Delayed float64 `json:"delayed"`
	// rho is the least marginal throughput that a worker must add.
	// +optional
	Rho float64 `json:"rho"`
}

// CapacityState is a state of the cluster.
type CapacityState struct {
	// intensity in gCO2eq/kWh.
	Intensity float64 `json:"intensity"`
	// gradient of the intensity, in gCO2eq/kWh.
	Gradient float64 `json:"gradient"`
	// rank of the intensity within the day ahead: 0 is the cleanest, 1 the dirtiest.
	Rank float64 `json:"rank"`
	// elasticity is the mean elasticity of the workloads.
	Elasticity float64 `json:"elasticity"`
	// workloads counts the workloads by allowed delay: up to 6 h, up to 24 h, more.
	// +kubebuilder:validation:MaxItems=3
	// +listType=atomic
	Workloads []int32 `json:"workloads"`
}

// CapacityMatch is an hour of the past.
type CapacityMatch struct {
	At metav1.Time `json:"at"`
	// capacity that the oracle used in that hour, in units of the resource.
	Capacity float64 `json:"capacity"`
	// distance of that hour from the present state, in standard deviations.
	Distance float64 `json:"distance"`
}

// Conditions of a CapacityCurve, in addition to Ready.
const (
	ConditionCold         = "Cold"
	ConditionEditedByHand = "EditedByHand"
)

const (
	// CapacityFinalizer keeps a CapacityCurve until Lull has restored its target.
	CapacityFinalizer = "lull.dev/capacity"
	// AnnotationCapacity on a target records what Lull has set on it, and what was there before.
	AnnotationCapacity = "lull.dev/capacity"
)

// CapacityCurve sets how much of a cluster may be used, slot by slot.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ccurve
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.resource`
// +kubebuilder:printcolumn:name="Capacity",type=number,JSONPath=`.status.capacity`
// +kubebuilder:printcolumn:name="Wanted",type=number,JSONPath=`.status.wanted`
// +kubebuilder:printcolumn:name="Floor",type=number,JSONPath=`.status.floor`
// +kubebuilder:printcolumn:name="Used",type=number,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Waiting",type=number,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CapacityCurve struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CapacityCurveSpec `json:"spec"`
	// +optional
	Status CapacityCurveStatus `json:"status,omitempty"`
}

// CapacityCurveList is a list of curves.
//
// +kubebuilder:object:root=true
type CapacityCurveList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapacityCurve `json:"items"`
}
