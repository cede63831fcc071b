package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CarbonPlanSpec names the workload that is planned.
type CarbonPlanSpec struct {
	Workload WorkloadReference `json:"workload"`
	// policy that governs it.
	Policy string `json:"policy"`
}

// WorkloadReference is an object of the plan's namespace.
type WorkloadReference struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// PlanState is what the workload does.
// +kubebuilder:validation:Enum=Waiting;Running;Paused;Finished
type PlanState string

// The states of a plan.
const (
	PlanWaiting  PlanState = "Waiting"
	PlanRunning  PlanState = "Running"
	PlanPaused   PlanState = "Paused"
	PlanFinished PlanState = "Finished"
)

// PlanPhase is a time at one scale. All times of a plan are those of the zone's series.
type PlanPhase struct {
	From metav1.Time `json:"from"`
	To   metav1.Time `json:"to"`
	// +optional
	Cluster string `json:"cluster,omitempty"`
	Workers int32  `json:"workers"`
	// intensity in gCO2eq/kWh, the mean that is expected.
	Intensity float64 `json:"intensity"`
}

// PlanTrigger is why a plan was made.
type PlanTrigger struct {
	// reason: Submitted, ControllerStarted, NewForecast, ProgressDeviates,
	// ThroughputDeviates, ScaleUpDenied, PlanEnded, PauseWouldLose, ObjectChanged,
	// MoveWouldCost, NoRoom, Competes, NewPeriod or NewCapacity.
	Reason string      `json:"reason"`
	At     metav1.Time `json:"at"`
	// message says it in words.
	// +optional
	Message string `json:"message,omitempty"`
}

// CarbonPlanStatus is the plan, and what has become of it.
type CarbonPlanStatus struct {
	// +optional
	State PlanState `json:"state,omitempty"`
	// reason and message of the last decision.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// phases still to come, the present one included.
	// +kubebuilder:validation:MaxItems=4096
	// +listType=atomic
	// +optional
	Phases []PlanPhase `json:"phases,omitempty"`
	// cluster and workers as they are now.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// +optional
	Workers int32 `json:"workers"`

	// deadline, and the latest time at which it must run to keep it.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// +optional
	LatestStart *metav1.Time `json:"latestStart,omitempty"`

	// expectedG is what the plan emits, in gCO2eq, baselineG what the same work would at
	// once and in one piece, from when it was submitted; both with what is emitted already. Of work in
	// one piece baselineG follows the energy that it turns out to take.
	// +optional
	ExpectedG float64 `json:"expectedG,omitempty"`
	// +optional
	BaselineG float64 `json:"baselineG,omitempty"`
	// bound is the proven gap of the plans that were made together with this one. At 0.004 they emit at most 0.4 % more
	// than the best plans for this work could, beside all other work as it is. It is absent if the planner proves none.
	// +optional
	Bound *float64 `json:"bound,omitempty"`

	// progress of the work, 0 to 1, and where that is known from: completions,
	// annotation, prometheus or model.
	// +optional
	Progress float64 `json:"progress"`
	// +optional
	ProgressSource string `json:"progressSource,omitempty"`
	// starts counts its starts, startup is how long its pods took from a node until their containers ran, on average.
	// +optional
	Starts int32 `json:"starts,omitempty"`
	// +optional
	Startup metav1.Duration `json:"startup,omitempty"`
	// energyKWh and emittedG so far, and where the energy is known from now: kepler, dcgm,
	// model, or several of them joined by "+".
	// +optional
	EnergyKWh float64 `json:"energyKWh,omitempty"`
	// +optional
	EmittedG float64 `json:"emittedG,omitempty"`
	// countedAt is up to when energy and emissions are counted.
	// +optional
	CountedAt *metav1.Time `json:"countedAt,omitempty"`
	// +optional
	EnergySource string `json:"energySource,omitempty"`
	// measuredKWh is how much of energyKWh was measured, at least in part, rather than
	// modelled.
	// +optional
	MeasuredKWh float64 `json:"measuredKWh,omitempty"`
	// unpricedKWh is how much of energyKWh was used in hours without a carbon intensity,
	// known or filled. Where it is above 0, emittedG, expectedG and baselineG are withheld.
	// +optional
	UnpricedKWh float64 `json:"unpricedKWh,omitempty"`
	// observed throughput by number of workers, which corrects the profile.
	// +listType=map
	// +listMapKey=workers
	// +optional
	Observed []ObservedPoint `json:"observed,omitempty"`

	// trigger is why the present plan was made, plans how many there were.
	// +optional
	Trigger *PlanTrigger `json:"trigger,omitempty"`
	// +optional
	Plans int32 `json:"plans,omitempty"`

	// shown is for people: the columns of "kubectl get carbonplans".
	// +optional
	Shown PlanShown `json:"shown,omitempty"`
}

// PlanShown are figures as text.
type PlanShown struct {
	// +optional
	Progress string `json:"progress,omitempty"`
	// next change, for example "2026-11-28 03:00 x4": from then on 4 workers.
	// +optional
	Next string `json:"next,omitempty"`
	// +optional
	Saves string `json:"saves,omitempty"`
	// +optional
	Bound string `json:"bound,omitempty"`
}

// CarbonPlan is the plan of one governed workload, which owns it. It is Lull's to write;
// a plan that is deleted is made anew.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=cplan
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.workload.kind`
// +kubebuilder:printcolumn:name="Workload",type=string,JSONPath=`.spec.workload.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Workers",type=integer,JSONPath=`.status.workers`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.shown.progress`
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.shown.next`
// +kubebuilder:printcolumn:name="Deadline",type=string,JSONPath=`.status.deadline`
// +kubebuilder:printcolumn:name="Saves",type=string,JSONPath=`.status.shown.saves`
// +kubebuilder:printcolumn:name="Gap",type=string,JSONPath=`.status.shown.bound`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Cluster",type=string,priority=1,JSONPath=`.status.cluster`
// +kubebuilder:printcolumn:name="Trigger",type=string,priority=1,JSONPath=`.status.trigger.reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type CarbonPlan struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CarbonPlanSpec `json:"spec"`
	// +optional
	Status CarbonPlanStatus `json:"status,omitempty"`
}

// CarbonPlanList is a list of plans.
//
// +kubebuilder:object:root=true
type CarbonPlanList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CarbonPlan `json:"items"`
}
