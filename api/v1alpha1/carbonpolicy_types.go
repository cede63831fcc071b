package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mode says whether a policy acts.
// +kubebuilder:validation:Enum=Enforce;Shadow
type Mode string

// The modes of a policy.
const (
	// ModeEnforce holds Jobs and releases them.
	ModeEnforce Mode = "Enforce"
	// ModeShadow holds nothing and records what it would have done.
	ModeShadow Mode = "Shadow"
)

// Via is the way in which workloads are kept waiting.
// +kubebuilder:validation:Enum=Hold;Extender
type Via string

// The ways in which workloads are kept waiting.
const (
	// ViaHold holds workloads from their admission on: suspended, gated or out of the queue.
	ViaHold Via = "Hold"
	// ViaExtender holds nothing: kube-scheduler asks "lull extender" about each Pod.
	ViaExtender Via = "Extender"
)

// HoldExisting says what the controller does with workloads that nobody held when they were created.
// +kubebuilder:validation:Enum=Never;Unstarted
type HoldExisting string

// The choices of HoldExisting.
const (
	// HoldExistingNever leaves them alone.
	HoldExistingNever HoldExisting = "Never"
	// HoldExistingUnstarted suspends a workload if none of its pods has been on a node.
	HoldExistingUnstarted HoldExisting = "Unstarted"
)

// CarbonPolicySpec says which Jobs wait for clean power, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.via) || self.via != 'Extender' || (has(self.planner.name) && self.planner.name == 'window' && !has(self.queues) && !has(self.clusters))",message="via Extender: accepted with planner window, without queues and clusters"
// +kubebuilder:validation:XValidation:rule="!has(self.clusters) || size(self.clusters) == 0 || (has(self.queues) && size(self.queues) > 0)",message="clusters: accepted together with queues, which lead there"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || ((!has(self.clusters) || size(self.clusters) == 0) && (!has(self.via) || self.via != 'Extender'))",message="autoscaling: accepted without clusters and without via Extender"
type CarbonPolicySpec struct {
	// selector picks the Jobs of the policy's namespace by their labels; an empty
	// one picks all.
	// +kubebuilder:default={}
	// +optional
	Selector metav1.LabelSelector `json:"selector,omitempty"`

	// kinds of workloads it governs: built-in ones ("lull kinds" lists them) and those of
	// WorkloadKinds, by their spec.kind; a kind of another group than the built-in one of that name with its
	// group: Job.batch.volcano.sh. Kinds that run pods without an end (Deployment, RayCluster)
	// and bare Pods are governed only where they are named.
	// +kubebuilder:default={"Job","JobSet","MPIJob","PyTorchJob","TrainJob","RayJob","AppWrapper"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Kinds []string `json:"kinds,omitempty"`

	// queues are the queues of Kueue (LocalQueues of the policy's namespace) whose workloads
	// it governs; with any, it governs nothing else.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Queues []string `json:"queues,omitempty"`

	// clusters are the ComputeClusters to which the workloads of its queues may go, by way of
	// MultiKueue; without any they stay on this cluster.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Clusters []string `json:"clusters,omitempty"`

	// paused opens everything: nothing is held, what is held is released, nothing is
	// scaled.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// zone names the GridZone whose intensity counts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Zone string `json:"zone"`

	// planner decides when Jobs run.
	// +kubebuilder:default={}
	// +optional
	Planner PlannerSpec `json:"planner,omitempty"`

	// objective is what plans aim at: by default the least emissions with every deadline kept.
	// +optional
	Objective *ObjectiveSpec `json:"objective,omitempty"`

	// defaultRuntime is the run time of a Job without the annotation
	// lull.dev/runtime.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="must be above 0, at most 8760h"
	// +optional
	DefaultRuntime *metav1.Duration `json:"defaultRuntime,omitempty"`

	// maxDelay is how long the start of a Job without the annotations
	// lull.dev/max-delay and lull.dev/deadline may be delayed.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="must be 0s to 8760h"
	// +optional
	MaxDelay *metav1.Duration `json:"maxDelay,omitempty"`

	// startMargin is kept between the planned end of a Job and its deadline, for
	// scheduling and start-up.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be 0s to 168h"
	// +optional
	StartMargin *metav1.Duration `json:"startMargin,omitempty"`

	// slot is the resolution of planning.
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be 1m to 24h"
	// +optional
	Slot *metav1.Duration `json:"slot,omitempty"`

	// replanThreshold is by how much progress, throughput or the forecast must differ
	// from what a plan rests on for the rest to be planned anew, a share.
	// +kubebuilder:validation:Minimum=0.001
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:default=0.05
	// +optional
	ReplanThreshold *float64 `json:"replanThreshold,omitempty"`

	// minRun and minPause are the least times between a start or change of scale and the
	// next change, and between a pause and the next start. Deadlines outrank both.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be 0s to 168h"
	// +optional
	MinRun *metav1.Duration `json:"minRun,omitempty"`
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be 0s to 168h"
	// +optional
	MinPause *metav1.Duration `json:"minPause,omitempty"`

	// minSaving is the share of its emissions that a workload must save by waiting, a pause or a move: 0.01 is 1 %. If its plan saves
	// less, it runs now, where there is room for it. 0 follows every plan.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.9
	// +kubebuilder:default=0.01
	// +optional
	MinSaving *float64 `json:"minSaving,omitempty"`

	// scaleUpPatience is for how long a worker may lack a node, which may be about to be made
	// for it, before no more workers are asked for than run.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be 0s to 168h"
	// +optional
	ScaleUpPatience *metav1.Duration `json:"scaleUpPatience,omitempty"`

	// holdOut is the share of workloads, chosen by chance, that run as submitted: what the others
	// save is measured against them (lull report).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.5
	// +optional
	HoldOut *float64 `json:"holdOut,omitempty"`

	// criticalPriorityClasses never wait.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	CriticalPriorityClasses []string `json:"criticalPriorityClasses,omitempty"`

	// via Hold holds workloads from their admission on. With Extender nothing is held: kube-scheduler
	// asks "lull extender" about each Pod that the selector picks, whatever made it; kinds do not
	// count then.
	// +kubebuilder:default=Hold
	// +optional
	Via Via `json:"via,omitempty"`

	// mode is Enforce, or Shadow to record decisions without acting.
	// +kubebuilder:default=Enforce
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// holdExisting says what the controller does with workloads that nobody held when they were created, for example because the policy did
	// not exist yet or the webhook did not answer. Never leaves them alone. Unstarted suspends a workload if its kind can be suspended, it is in
	// no queue, and none of its pods has been on a node. Its latest start counts from its creation.
	// +kubebuilder:default=Never
	// +optional
	HoldExisting HoldExisting `json:"holdExisting,omitempty"`

	// autoscaling says what the nodes of this cluster can become; without it plans use what the nodes offer that are there.
	// +optional
	Autoscaling *AutoscalingSpec `json:"autoscaling,omitempty"`

	// power estimates the power of a Job from what it requests.
	// +kubebuilder:default={}
	// +optional
	Power PowerSpec `json:"power,omitempty"`
}

// PlannerSpec names a planner.
type PlannerSpec struct {
	// name is one of those that "lull plan --planner list" prints.
	// +kubebuilder:default=joint
	// +kubebuilder:validation:Enum=asap;cheapest;window;waitawhile-threshold;waitawhile-deadline;gaia-lowest-slot;gaia-lowest-window;gaia-saving;carbonflex-oracle;staticscale;carbonscaler;carbonscaler-multi;caspian;carbonflex;vcc;vcc-scaling;cap;follow;exact;joint
	// +optional
	Name string `json:"name,omitempty"`
	// parameters of the planner, as "lull plan --param" takes them. Planner joint keeps a share of the
	// capacity free for work to come that cannot wait: by default reserve is "learned", from the past
	// week; a number states it.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 63 && size(self[k]) <= 256)",message="accepted: names of up to 63 and values of up to 256 characters"
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// ObjectiveKind is an aim of planning.
// +kubebuilder:validation:Enum=Carbon;MOSP
type ObjectiveKind string

// The objectives.
const (
	ObjectiveCarbon ObjectiveKind = "Carbon"
	ObjectiveMOSP   ObjectiveKind = "MOSP"
)

// ObjectiveSpec is what plans aim at.
type ObjectiveSpec struct {
	// kind Carbon is the least emissions, with every deadline kept. MOSP is Caspian's: a weighted
	// sum of carbon, lateness and completion time (Section III). Its deadlines are soft: work
	// may end late, and starts at its deadline at the latest.
	// +kubebuilder:default=Carbon
	// +optional
	Kind ObjectiveKind `json:"kind,omitempty"`
	// carbon, lateness and completion are the weights omega1 to omega3 of MOSP.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0.5
	// +optional
	Carbon *float64 `json:"carbon,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Lateness *float64 `json:"lateness,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Completion *float64 `json:"completion,omitempty"`
	// horizon is how far ahead MOSP plans.
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('720h')",message="must be 1h to 720h"
	// +optional
	Horizon *metav1.Duration `json:"horizon,omitempty"`
}

// PowerSpec is a power model per unit of resource.
type PowerSpec struct {
	// wattsPerUnit is the power of one used unit of each resource, e.g.
	// {"cpu": 3.5, "nvidia.com/gpu": 300}. By default 3.5 W per CPU.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k] >= 0.0 && self[k] <= 1000000.0)",message="accepted: 0 to 1000000 W per unit"
	// +optional
	WattsPerUnit map[string]float64 `json:"wattsPerUnit,omitempty"`
	// pue is the power usage effectiveness of the site.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=1
	// +optional
	PUE float64 `json:"pue,omitempty"`
}

// ConditionMisspelt of a CarbonPolicy: workloads that it governs have annotations of the domain lull.dev that
// are unknown. It is absent where there are none.
const ConditionMisspelt = "Misspelt"

// ConditionOverlaps of a CarbonPolicy: another policy of its namespace may select the same workloads. It is absent
// if there is none.
const ConditionOverlaps = "Overlaps"

// ConditionRecorded of a CarbonPolicy: the ledger has all that is to be recorded. It is absent where there
// is no ledger.
const ConditionRecorded = "Recorded"

// ConditionHeldAtCreation of a CarbonPolicy: an object that the controller creates as a dry run comes back held, or, if the policy holds nothing, marked.
// The reason is what does so. The condition is Unknown where the API server refuses such an object, and absent of a policy of the extender.
const ConditionHeldAtCreation = "HeldAtCreation"

// Reasons of ConditionHeldAtCreation.
const (
	// ReasonAdmissionPolicy and ReasonWebhook: a MutatingAdmissionPolicy of the API server, or the webhook "lull admission", holds.
	ReasonAdmissionPolicy = "AdmissionPolicy"
	ReasonWebhook         = "Webhook"
	// ReasonNotHeld: nobody holds.
	ReasonNotHeld = "NotHeld"
	// ReasonNotTried: the API server refuses the dry run.
	ReasonNotTried = "NotTried"
	// ReasonCannotTry: the policy has no kind that can be tried.
	ReasonCannotTry = "CannotTry"
)

// CarbonPolicyStatus is what the policy does.
type CarbonPolicyStatus struct {
	// waiting, running and finished count the Jobs of the policy.
	// +optional
	Waiting int32 `json:"waiting"`
	// +optional
	Running int32 `json:"running"`
	// +optional
	Finished int32 `json:"finished"`
	// longestDelay is the longest delay that the administrator lets this policy and its workloads ask for; absent for any. A
	// later deadline counts as this delay and the run time after the creation.
	// +optional
	LongestDelay *metav1.Duration `json:"longestDelay,omitempty"`
	// nextDecision is when the policy decides again at the latest.
	// +optional
	NextDecision *metav1.Time `json:"nextDecision,omitempty"`
	// reserve is the share of the capacity that plans keep free for work to come; absent if the planner
	// keeps none.
	// +optional
	Reserve *ReserveStatus `json:"reserve,omitempty"`
	// conditions: Ready (the zone is known and the planner works), Degraded (Kueue does not
	// keep out of its queues what is gated, or the planner takes too long), Autoscaled (what autoscaling names is read),
	// HeldAtCreation (a dry run comes back held).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ReserveStatus is the reserve in force, and what it was learned from.
type ReserveStatus struct {
	// share of the capacity of each cluster that is kept free, 0 to 1.
	Share float64 `json:"share"`
	// observedUntil (in the time of the zone's series) is until when arrivals count in hourlyPeaks.
	// Absent if the reserve is stated, not learned.
	// +optional
	ObservedUntil *metav1.Time `json:"observedUntil,omitempty"`
	// hourlyPeaks are the largest shares, in thousandths of the capacity, that work took at the same time
	// which came in an hour and had to start within an hour. The hour of observedUntil is the last one. A
	// controller that starts reads them from here.
	// +kubebuilder:validation:MaxItems=168
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=1000
	// +listType=atomic
	// +optional
	HourlyPeaks []int32 `json:"hourlyPeaks,omitempty"`
}

// CarbonPolicy lets Jobs of its namespace wait for clean power.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=cpol
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="Planner",type=string,JSONPath=`.spec.planner.name`
// +kubebuilder:printcolumn:name="Reserve",type=number,JSONPath=`.status.reserve.share`,priority=1
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Finished",type=integer,JSONPath=`.status.finished`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CarbonPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CarbonPolicySpec `json:"spec"`
	// +optional
	Status CarbonPolicyStatus `json:"status,omitempty"`
}

// CarbonPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type CarbonPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CarbonPolicy `json:"items"`
}

// Annotations on workloads. Those before AnnotationPolicy are for users and what runs in
// their pods; the others are Lull's own.
const (
	// AnnotationMaxDelay delays the start of the Job by at most this duration.
	AnnotationMaxDelay = "lull.dev/max-delay"
	// AnnotationDeadline is when the Job must be done, RFC 3339.
	AnnotationDeadline = "lull.dev/deadline"
	// AnnotationRuntime is the estimated run time of the Job.
	AnnotationRuntime = "lull.dev/runtime"
	// AnnotationRuntimeP95 is a run time that 95 of 100 such Jobs do not exceed: a stated deadline is
	// kept for it.
	AnnotationRuntimeP95 = "lull.dev/runtime-p95"
	// AnnotationInterruptible "true" says that the Job may be paused.
	AnnotationInterruptible = "lull.dev/interruptible"
	// AnnotationMinWorkers and AnnotationMaxWorkers make the workload elastic.
	AnnotationMinWorkers = "lull.dev/min-workers"
	AnnotationMaxWorkers = "lull.dev/max-workers"
	// AnnotationProfile names its ScalingProfile.
	AnnotationProfile = "lull.dev/profile"
	// AnnotationProgress is the share of its work that is done, 0 to 1, written by the
	// workload itself ("lull progress").
	AnnotationProgress = "lull.dev/progress"
	// AnnotationProgressQuery is a Prometheus query for that share, in which $namespace and
	// $name stand for those of the workload.
	AnnotationProgressQuery = "lull.dev/progress-query"
	// AnnotationTandem "true" says that each worker of the workload is a part of it that
	// must complete (an elastic Indexed Job): the number of completions follows that of
	// workers.
	AnnotationTandem = "lull.dev/completions-follow-workers"
	// AnnotationFamily names the family whose run times and start-up it shares; without
	// it, owner and labels do.
	AnnotationFamily = "lull.dev/family"
	// AnnotationClusters are the ComputeClusters to which the workload may go, separated by
	// commas, of those of its policy; AnnotationZones the GridZones in which they must stand.
	AnnotationClusters = "lull.dev/clusters"
	AnnotationZones    = "lull.dev/zones"
	// AnnotationMigratable "true" says that an interruptible or elastic workload finds its
	// checkpoints on other clusters too, and may go on there.
	AnnotationMigratable = "lull.dev/migratable"
	// AnnotationTransferKWh is the energy of moving a migratable workload, its checkpoint above all,
	// between two clusters.
	AnnotationTransferKWh = "lull.dev/transfer-kwh"
	// AnnotationGovernBy names the one policy that may govern the workload. Hooks of Helm and Argo CD, and
	// workloads in kube-system and in Lull's own namespace, are governed only if they carry it.
	AnnotationGovernBy = "lull.dev/govern-by"
	// AnnotationProbe marks an object that the controller creates as a dry run, to see whether it comes back held. "lull admission" sets its value
	// to ProbeWebhook.
	AnnotationProbe = "lull.dev/probe"
	// AnnotationGroupSize is how many Pods with one label LabelGroup make a workload.
	AnnotationGroupSize = "lull.dev/pod-group-size"
	// LabelGroup is a label of Pods that start together.
	LabelGroup = "lull.dev/pod-group"

	// AnnotationPolicy names the policy that governs the Job; set at admission.
	AnnotationPolicy = "lull.dev/policy"
	// AnnotationHold marks a Job that Lull holds suspended, and why: HoldAdmission,
	// HoldPaused or HoldMoving. A suspended Job without it is the user's own and left alone.
	AnnotationHold = "lull.dev/hold"
	// AnnotationPausedByRelease marks a CarbonPolicy that "lull release --all" has paused ("true").
	AnnotationPausedByRelease = "lull.dev/paused-by-release"
	// AnnotationDecision is the last decision on the Job, as JSON.
	AnnotationDecision = "lull.dev/decision"
	// AnnotationLatestStart is the wall time (RFC 3339) by which the Job must be
	// released, whatever happens.
	AnnotationLatestStart = "lull.dev/latest-start"
	// AnnotationStatedStart is the latest start (wall time, RFC 3339) by what the Job's annotations and its
	// policy stated when AnnotationLatestStart was written, where it differs from that one. The watchdog
	// knows by it that they have been edited since.
	AnnotationStatedStart = "lull.dev/stated-start"
	// AnnotationRan is the work done, as run time at the least number of workers, when the
	// workload last started, paused or changed its scale, AnnotationChanged when that was
	// (wall time, RFC 3339).
	AnnotationRan     = "lull.dev/ran"
	AnnotationChanged = "lull.dev/changed"
	// AnnotationCluster is the ComputeCluster to which a workload that was released is to go.
	AnnotationCluster = "lull.dev/cluster"
	// AnnotationWorkers is the number of workers of a workload that is held at none.
	AnnotationWorkers = "lull.dev/workers"
)

// ProbeWebhook is the value of AnnotationProbe that "lull admission" sets.
const ProbeWebhook = "webhook"

// Values of AnnotationHold.
const (
	HoldAdmission = "admission"
	HoldPaused    = "paused"
	// HoldMoving: on its way to another cluster.
	HoldMoving = "moving"
)

// Gate is the scheduling gate that holds Pods.
const Gate = "lull.dev/hold"
