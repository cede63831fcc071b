package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityCurveSpec says how much of a target may be used at which time.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minimum) || string(self.minimum).matches('[eE][-+]?[0-9]{3}') || string(self.maximum).matches('[eE][-+]?[0-9]{3}') || !isQuantity(string(self.minimum)) || !isQuantity(string(self.maximum)) || quantity(string(self.minimum)).compareTo(quantity(string(self.maximum))) <= 0",message="minimum: accepted: 0 to maximum"
// +kubebuilder:validation:XValidation:rule="has(self.method.schedule) || (has(self.policies) && size(self.policies) > 0)",message="policies: accepted: at least one, but for method schedule"
type CapacityCurveSpec struct {
	// zone names the GridZone whose intensity counts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`

	// target is what has the capacity. It stays; for another one make another curve.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="accepted: the target that it was made with"
	Target CapacityTarget `json:"target"`

	// policies are the CarbonPolicies whose workloads use the capacity: what they wait for and run
	// with is what methods go by, and they plan under the curve. A policy follows one curve.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Policies []PolicyReference `json:"policies,omitempty"`

	// resource whose capacity is set. The others of the target follow in proportion.
	// +kubebuilder:default=cpu
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Resource string `json:"resource,omitempty"`

	// maximum, minimum, and the most by which the capacity changes from one slot to the next
	// (by default any), in units of the resource.
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).compareTo(quantity('1E')) <= 0",message="accepted: a quantity above 0, at most 1E"
	Maximum Amount `json:"maximum"`
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE][-+]?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1E')) <= 0",message="accepted: a quantity of 0 to 1E"
	// +optional
	Minimum *Amount `json:"minimum,omitempty"`
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

	// mode is Enforce, or Shadow to say what the capacity would be without setting it.
	// +kubebuilder:default=Enforce
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// evict says what becomes of work that runs above a capacity that has fallen, where its plan did
	// not know that (plans are made under the curve, and pause what may pause where it is known to
	// fall): Never stops it, LeastLostWork pauses interruptible and elastic workloads of the policies
	// that have slack, those that lose least first.
	// +kubebuilder:default=Never
	// +optional
	Evict Eviction `json:"evict,omitempty"`
}

// Eviction says what becomes of work above a capacity that has fallen.
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

// CapacityTarget is what has a capacity; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=clusterQueue;cohort;nodePool;nodes
type CapacityTarget struct {
	// clusterQueue and cohort of Kueue: their nominal quotas are set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClusterQueue string `json:"clusterQueue,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Cohort string `json:"cohort,omitempty"`
	// nodePool of Karpenter: its limits are set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodePool string `json:"nodePool,omitempty"`
	// nodes with these labels: idle ones are cordoned.
	// +optional
	Nodes *metav1.LabelSelector `json:"nodes,omitempty"`
}

// CapacityMethod chooses a capacity for every slot; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=carbonFlex;vcc;planned;schedule
type CapacityMethod struct {
	// carbonFlex takes the capacities of the most alike hours of the past, as an oracle would have
	// set them (CarbonFlex, Algorithm 2). Its policies scale their workloads by it where their
	// planner is carbonflex (Algorithm 3).
	// +optional
	CarbonFlex *CarbonFlexMethod `json:"carbonFlex,omitempty"`
	// vcc is a virtual capacity curve: the work of a day goes into its cleanest hours.
	// +optional
	VCC *VCCMethod `json:"vcc,omitempty"`
	// planned is what the plans of the policies use.
	// +optional
	Planned *PlannedMethod `json:"planned,omitempty"`
	// schedule is fixed: windows of the day. Outside of them the minimum is there.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=48
	// +listType=atomic
	// +optional
	Schedule []CapacityWindow `json:"schedule,omitempty"`
}

// CarbonFlexMethod is how is learned, and what is made of it.
type CarbonFlexMethod struct {
	// history is how far back is learned from, every is how often.
	// +kubebuilder:default="336h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('24h') && duration(self) <= duration('1344h')",message="must be 24h to 1344h"
	// +optional
	History *metav1.Duration `json:"history,omitempty"`
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('168h')",message="must be 1h to 168h"
	// +optional
	Every *metav1.Duration `json:"every,omitempty"`
	// neighbours is how many hours of the past are looked at.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Neighbours int32 `json:"neighbours,omitempty"`
	// tolerance is the share of workloads without slack left above which the capacity is raised,
	// distance the mean distance of those hours, in standard deviations, beyond which all of it
	// is taken then.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:default=0.05
	// +optional
	Tolerance *float64 `json:"tolerance,omitempty"`
	// +kubebuilder:validation:Minimum=0.001
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=2
	// +optional
	Distance *float64 `json:"distance,omitempty"`
}

// VCCMethod is how a day's work is forecast.
type VCCMethod struct {
	// quantile of the work of past days that a day is given room for: the risk that is taken.
	// +kubebuilder:validation:Minimum=0.5
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:default=0.9
	// +optional
	Quantile *float64 `json:"quantile,omitempty"`
	// days of the past that are looked at.
	// +kubebuilder:default=14
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=56
	// +optional
	Days int32 `json:"days,omitempty"`
}

// PlannedMethod is what is kept beside plans.
type PlannedMethod struct {
	// reserve is kept free beside what is planned, a share of it: for what comes and may not wait.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=0.1
	// +optional
	Reserve *float64 `json:"reserve,omitempty"`
}

// CapacityWindow is a capacity between two times of each day (UTC); one that ends before it begins
// goes over midnight.
type CapacityWindow struct {
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	From string `json:"from"`
	// +kubebuilder:validation:Pattern=`^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$`
	To string `json:"to"`
	// capacity, 0 to maximum.
	Capacity Amount `json:"capacity"`
}

// CapacityCurveStatus is the capacity, and why.
type CapacityCurveStatus struct {
	// slot is when the present slot of the zone's series began.
	// +optional
	Slot *metav1.Time `json:"slot,omitempty"`
	// capacity of the slot, wanted what the method wants, floor what may not wait, in units of the
	// resource; used is what the workloads of the policies use, waiting what those that wait
	// ask for at their least scale.
	// +optional
	Capacity float64 `json:"capacity"`
	// +optional
	Wanted float64 `json:"wanted"`
	// +optional
	Floor float64 `json:"floor"`
	// +optional
	Used float64 `json:"used"`
	// +optional
	Waiting float64 `json:"waiting"`
	// reason is what the capacity is determined by: Maximum, Floor, Ramp, Minimum or Wanted.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message says it in words.
	// +optional
	Message string `json:"message,omitempty"`
	// before is the capacity of the slot before, by which the ramp goes.
	// +optional
	Before *float64 `json:"before,omitempty"`
	// ahead is what is wanted in slots to come, as far as the method knows.
	// +kubebuilder:validation:MaxItems=168
	// +listType=atomic
	// +optional
	Ahead []CapacityPoint `json:"ahead,omitempty"`
	// carbonFlex is what was looked up.
	// +optional
	CarbonFlex *CarbonFlexStatus `json:"carbonFlex,omitempty"`
	// conditions: Ready (the capacity is set as it says), Cold (nothing has been learned yet: all of
	// the maximum is wanted), EditedByHand (others have changed the target since: it is left
	// alone until the annotation lull.dev/capacity is taken from it or the specification changes).
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

// CarbonFlexStatus is what has been learned, and what of it was looked up last.
type CarbonFlexStatus struct {
	// learnedAt is when (time of the zone's series) from how many jobs which number of cases was
	// learned.
	// +optional
	LearnedAt *metav1.Time `json:"learnedAt,omitempty"`
	// +optional
	Jobs int32 `json:"jobs"`
	// +optional
	Cases int32 `json:"cases"`
	// state that was looked up: intensity and its gradient (gCO2eq/kWh), rank among the day ahead, mean
	// elasticity, and workloads by allowed delay (up to 6 h, up to 24 h, more).
	// +optional
	State *CapacityState `json:"state,omitempty"`
	// matches are the most alike hours.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Matches []CapacityMatch `json:"matches,omitempty"`
	// delayed is the share of workloads without slack left, rho the least marginal throughput that a
	// worker must add.
	// +optional
	Delayed float64 `json:"delayed"`
	// +optional
	Rho float64 `json:"rho"`
}

// CapacityState is a state of the cluster.
type CapacityState struct {
	Intensity  float64 `json:"intensity"`
	Gradient   float64 `json:"gradient"`
	Rank       float64 `json:"rank"`
	Elasticity float64 `json:"elasticity"`
	// +kubebuilder:validation:MaxItems=3
	// +listType=atomic
	Workloads []int32 `json:"workloads"`
}

// CapacityMatch is an hour of the past.
type CapacityMatch struct {
	At metav1.Time `json:"at"`
	// capacity that the oracle used then, in units of the resource, and distance of its state from the
	// one looked up, in standard deviations.
	Capacity float64 `json:"capacity"`
	Distance float64 `json:"distance"`
}

// Conditions of a CapacityCurve, beside Ready.
const (
	ConditionCold         = "Cold"
	ConditionEditedByHand = "EditedByHand"
)

const (
	// CapacityFinalizer keeps a CapacityCurve until its target is as it was.
	CapacityFinalizer = "lull.dev/capacity"
	// AnnotationCapacity is on a target: what Lull has set on it, and what was there before.
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
