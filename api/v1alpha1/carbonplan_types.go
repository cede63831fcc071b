package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CarbonPlanSpec names the planned workload.
type CarbonPlanSpec struct {
	Workload WorkloadReference `json:"workload"`
	// policy is the CarbonPolicy that governs the workload.
	Policy string `json:"policy"`
}

// WorkloadReference is an object of the plan's namespace.
type WorkloadReference struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// PlanState says whether the workload waits, runs, is paused or has finished.
// +kubebuilder:validation:Enum=Waiting;Running;Paused;Finished
type PlanState string

// The states of a plan.
const (
	PlanWaiting  PlanState = "Waiting"
	PlanRunning  PlanState = "Running"
	PlanPaused   PlanState = "Paused"
	PlanFinished PlanState = "Finished"
)

// PlanPhase is a period in which the workload runs at one scale. All times of a plan are in time of the zone's series.
type PlanPhase struct {
	From metav1.Time `json:"from"`
	To   metav1.Time `json:"to"`
	// +optional
	Cluster string `json:"cluster,omitempty"`
	Workers int32  `json:"workers"`
	// intensity is the expected mean carbon intensity of the phase, in gCO2eq/kWh.
	Intensity float64 `json:"intensity"`
}

// PlanTrigger says why the controller made a plan.
type PlanTrigger struct {
	// reason: Submitted, ControllerStarted, NewForecast, ProgressDeviates,
	// ThroughputDeviates, ScaleUpDenied, PlanEnded, PauseWouldLose, ObjectChanged,
	// MoveWouldCost, NoRoom, Competes, NewPeriod or NewCapacity.
	Reason string      `json:"reason"`
	At     metav1.Time `json:"at"`
	// message explains the reason.
	// +optional
	Message string `json:"message,omitempty"`
}

// CarbonPlanStatus is the plan, and how far it has been carried out.
type CarbonPlanStatus struct {
	// +optional
	State PlanState `json:"state,omitempty"`
	// reason of the last decision.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message of the last decision.
	// +optional
	Message string `json:"message,omitempty"`
	// phases are the present phase and those still to come.
	// +kubebuilder:validation:MaxItems=4096
	// +listType=atomic
	// +optional
	Phases []PlanPhase `json:"phases,omitempty"`
	// cluster on which the workload is now.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// workers is the present number of workers.
	// +optional
	Workers int32 `json:"workers"`

	// deadline of the workload.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// latestStart is the latest safe start: the workload must run from then on to keep its deadline.
	// +optional
	LatestStart *metav1.Time `json:"latestStart,omitempty"`

	// expectedG is what the workload emits if it follows the plan, in gCO2eq. It includes what it has emitted already.
	// It is absent while the carbon intensity of the remaining work is not known: no saving is stated then.
	// +optional
	ExpectedG *float64 `json:"expectedG,omitempty"`
	// baselineG is what the same work emits if it runs at once and in one piece from its submission, in gCO2eq. For
	// work that runs in one piece, it follows the energy that the work turns out to use.
	// +optional
	BaselineG float64 `json:"baselineG,omitempty"`
	// bound is the proven gap of the plans that were made together with this one. At 0.004 they emit at most 0.4 % more
	// than the best plans for this work could, beside all other work as it is. It is absent if the planner proves none.
	// +optional
	Bound *float64 `json:"bound,omitempty"`

	// progress of the work, 0 to 1.
	// +optional
	Progress float64 `json:"progress"`
	// progressSource says where progress comes from: completions, annotation, prometheus or model.
	// +optional
	ProgressSource string `json:"progressSource,omitempty"`
	// starts is how often the workload has started.
	// +optional
	Starts int32 `json:"starts,omitempty"`
	// startup is the mean time from when its pods got a node until their containers ran.
	// +optional
	Startup metav1.Duration `json:"startup,omitempty"`
	// energyKWh is the energy used so far.
	// +optional
	EnergyKWh float64 `json:"energyKWh,omitempty"`
	// emittedG is what the workload has emitted so far, in gCO2eq.
	// +optional
	EmittedG float64 `json:"emittedG,omitempty"`
	// countedAt is the time up to which energy and emissions are counted.
	// +optional
	CountedAt *metav1.Time `json:"countedAt,omitempty"`
	// energySource says where the energy comes from at present: kepler, dcgm, model, or several of them joined by "+".
	// +optional
	EnergySource string `json:"energySource,omitempty"`
	// measuredKWh is how much of energyKWh was measured, at least in part, rather than
	// modelled.
	// +optional
	MeasuredKWh float64 `json:"measuredKWh,omitempty"`
	// unpricedKWh is how much of energyKWh was used in hours without a known or estimated carbon
	// intensity. If it is above 0, emittedG, expectedG and baselineG are absent.
	// +optional
	UnpricedKWh float64 `json:"unpricedKWh,omitempty"`
	// observed is the observed throughput by number of workers. It corrects the profile.
	// +listType=map
	// +listMapKey=workers
	// +optional
	Observed []ObservedPoint `json:"observed,omitempty"`

	// trigger says why the controller made the present plan.
	// +optional
	Trigger *PlanTrigger `json:"trigger,omitempty"`
	// plans is how many plans the controller has made for the workload.
	// +optional
	Plans int32 `json:"plans,omitempty"`

	// shown holds the columns of "kubectl get carbonplans" as text.
	// +optional
	Shown PlanShown `json:"shown,omitempty"`
}

// PlanShown holds figures as text.
type PlanShown struct {
	// +optional
	Progress string `json:"progress,omitempty"`
	// next is the next change, for example "2026-11-28 03:00 x4": 4 workers from then on.
	// +optional
	Next string `json:"next,omitempty"`
	// +optional
	Saves string `json:"saves,omitempty"`
	// +optional
	Bound string `json:"bound,omitempty"`
}

// CarbonPlan is the plan of one governed workload, which owns it. Only Lull writes it. If you
// delete a plan, Lull makes a new one.
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
