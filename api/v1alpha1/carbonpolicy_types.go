package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mode says whether a policy or curve acts.
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

// HoldExisting says what the controller does with workloads that were not held when they were created.
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

	// kinds of workloads that the policy governs: built-in kinds ("lull kinds" lists them) and kinds of
	// WorkloadKinds, by their spec.kind. If a built-in kind of another group has the same name, add the
	// group: Job.batch.volcano.sh. The policy governs kinds that run without an end (Deployment, RayCluster)
	// and bare Pods only if this list names them.
	// +kubebuilder:default={"Job","JobSet","MPIJob","PyTorchJob","TrainJob","RayJob","AppWrapper"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Kinds []string `json:"kinds,omitempty"`

	// queues are the queues of Kueue (LocalQueues of the policy's namespace) whose workloads
	// the policy governs. If it names a queue, it governs no other workloads.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Queues []string `json:"queues,omitempty"`

	// clusters are the ComputeClusters to which the workloads of the queues may go, through
	// MultiKueue. If it is empty, they stay on this cluster.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Clusters []string `json:"clusters,omitempty"`

	// paused releases every workload that the policy holds. While it is true, Lull holds and scales none of
	// its workloads.
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

	// objective is what plans minimize: by default emissions, with every deadline kept.
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

	// replanThreshold is a share. If progress, throughput or the forecast differ by more than this from
	// what a plan assumes, Lull plans the remaining work again.
	// +kubebuilder:validation:Minimum=0.001
	// +kubebuilder:validation:Maximum=1
	// +kubebuilder:default=0.05
	// +optional
	ReplanThreshold *float64 `json:"replanThreshold,omitempty"`

	// minRun is the least time between a start or change of scale and the next change. Deadlines outrank it.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be 0s to 168h"
	// +optional
	MinRun *metav1.Duration `json:"minRun,omitempty"`
	// minPause is the least time between a pause and the next start. Deadlines outrank it.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be 0s to 168h"
	// +optional
	MinPause *metav1.Duration `json:"minPause,omitempty"`

	// minSaving is the share of its emissions that a workload must save by a wait, a pause or a move: 0.01 is 1 %. If its plan saves
	// less and there is room for it, it runs now. With 0 it follows every plan.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.9
	// +kubebuilder:default=0.01
	// +optional
	MinSaving *float64 `json:"minSaving,omitempty"`

	// savingConfidence is the share of the cases that the forecast leaves open in which a wait, a pause or a move must emit no more than
	// a start now: 0.9 is nine of ten. Else the workload runs now, if there is room for it. Without it Lull goes by the mean, and also
	// until it knows the forecast's errors of about two weeks.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	// +optional
	SavingConfidence *float64 `json:"savingConfidence,omitempty"`

	// scaleUpPatience is how long a worker may lack a node before Lull asks for no more workers than
	// run. An autoscaler may need this time to make the node.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="must be 0s to 168h"
	// +optional
	ScaleUpPatience *metav1.Duration `json:"scaleUpPatience,omitempty"`

	// holdOut is the share of workloads, chosen at random, that run as submitted. "lull report" measures
	// the savings of the other workloads against them.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=0.5
	// +optional
	HoldOut *float64 `json:"holdOut,omitempty"`

	// criticalPriorityClasses names PriorityClasses whose workloads never wait.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	CriticalPriorityClasses []string `json:"criticalPriorityClasses,omitempty"`

	// via says how Lull delays workloads. With Hold, Lull holds them from their creation. With Extender,
	// Lull holds nothing: kube-scheduler asks "lull extender" about each Pod that the selector picks,
	// whatever created it. Then kinds do not count.
	// +kubebuilder:default=Hold
	// +optional
	Via Via `json:"via,omitempty"`

	// mode is Enforce, or Shadow to record decisions without acting.
	// +kubebuilder:default=Enforce
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// holdExisting says what the controller does with workloads that were not held when they were created, for example because the policy did
	// not exist yet or the webhook did not answer. Never leaves them alone. Unstarted suspends a workload if its kind can be suspended, it is in
	// no queue, and none of its pods has been on a node. Its latest safe start counts from its creation.
	// +kubebuilder:default=Never
	// +optional
	HoldExisting HoldExisting `json:"holdExisting,omitempty"`

	// autoscaling says how much capacity an autoscaler can add to this cluster. Without it, plans use what the present nodes offer.
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
	// capacity free for new work that cannot wait: reserve. By default it is "learned", from the past
	// week; a number sets it.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 63 && size(self[k]) <= 256)",message="accepted: names of up to 63 and values of up to 256 characters"
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`
}

// ObjectiveKind names what plans minimize.
// +kubebuilder:validation:Enum=Carbon;MOSP
type ObjectiveKind string

// The objectives.
const (
	ObjectiveCarbon ObjectiveKind = "Carbon"
	ObjectiveMOSP   ObjectiveKind = "MOSP"
)

// ObjectiveSpec says what plans minimize.
type ObjectiveSpec struct {
	// kind names the objective. Carbon minimizes emissions, with every deadline kept. MOSP is that of
	// Caspian: a weighted sum of carbon, lateness and completion time (Section III). Its deadlines are
	// soft: work may end late, and starts at its deadline at the latest.
	// +kubebuilder:default=Carbon
	// +optional
	Kind ObjectiveKind `json:"kind,omitempty"`
	// carbon is the weight of carbon in MOSP (omega1).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0.5
	// +optional
	Carbon *float64 `json:"carbon,omitempty"`
	// lateness is the weight of lateness in MOSP (omega2).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=1
	// +optional
	Lateness *float64 `json:"lateness,omitempty"`
	// completion is the weight of completion time in MOSP (omega3).
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

// ConditionMisspelt of a CarbonPolicy: workloads that it governs have unknown annotations of the domain
// lull.dev. The condition is absent if there are none.
const ConditionMisspelt = "Misspelt"

// ConditionOverlaps of a CarbonPolicy: another policy of its namespace may select the same workloads. The condition is
// absent if no policy may.
const ConditionOverlaps = "Overlaps"

// ConditionRecorded of a CarbonPolicy: the ledger has recorded everything that it should. The condition is absent
// if there is no ledger.
const ConditionRecorded = "Recorded"

// ConditionHeldAtCreation of a CarbonPolicy: an object that the controller creates as a dry run comes back held, or, if the policy holds nothing, marked.
// The reason names what held or marked it. The condition is Unknown if the API server refuses the object, and absent for a policy of the extender.
const ConditionHeldAtCreation = "HeldAtCreation"

// Reasons of ConditionHeldAtCreation.
const (
	// ReasonAdmissionPolicy and ReasonWebhook: a MutatingAdmissionPolicy of the API server, or the webhook "lull admission", holds.
	ReasonAdmissionPolicy = "AdmissionPolicy"
	ReasonWebhook         = "Webhook"
	// ReasonNotHeld: nothing holds new work.
	ReasonNotHeld = "NotHeld"
	// ReasonNotTried: the API server refuses the dry run.
	ReasonNotTried = "NotTried"
	// ReasonCannotTry: the policy has no kind that can be tried.
	ReasonCannotTry = "CannotTry"
)

// CarbonPolicyStatus is the state of the policy and its workloads.
type CarbonPolicyStatus struct {
	// waiting is how many Jobs of the policy wait.
	// +optional
	Waiting int32 `json:"waiting"`
	// running is how many Jobs of the policy run.
	// +optional
	Running int32 `json:"running"`
	// finished is how many Jobs of the policy have finished.
	// +optional
	Finished int32 `json:"finished"`
	// longestDelay is the longest delay that the administrator lets this policy and its workloads ask for; absent if there is no
	// limit. If a workload states a later deadline, Lull uses its creation plus this delay plus its run time.
	// +optional
	LongestDelay *metav1.Duration `json:"longestDelay,omitempty"`
	// nextDecision is the latest time at which the controller decides again.
	// +optional
	NextDecision *metav1.Time `json:"nextDecision,omitempty"`
	// reserve is the share of the capacity that plans keep free for new work; absent if the planner
	// keeps none.
	// +optional
	Reserve *ReserveStatus `json:"reserve,omitempty"`
	// conditions: Ready (the zone is known and the planner works), Degraded (Kueue admits gated workloads to
	// its queues, or the planner takes too long), Autoscaled (Lull has read what autoscaling names),
	// HeldAtCreation (new work of the policy is held when it is created).
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
	// observedUntil is the end of the arrivals that count in hourlyPeaks, in time of the zone's series. It
	// is absent if a parameter sets the reserve.
	// +optional
	ObservedUntil *metav1.Time `json:"observedUntil,omitempty"`
	// hourlyPeaks has one value for each hour: the most capacity, in thousandths, that urgent work which arrived
	// in this hour took at the same time. Urgent work must start within an hour. The last hour is that of
	// observedUntil. A controller reads the values when it starts.
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

// Annotations on workloads. Users and their pods write those before AnnotationPolicy; Lull writes the others.
const (
	// AnnotationMaxDelay delays the start of the Job by at most this duration.
	AnnotationMaxDelay = "lull.dev/max-delay"
	// AnnotationDeadline is when the Job must be done, RFC 3339.
	AnnotationDeadline = "lull.dev/deadline"
	// AnnotationRuntime is the estimated run time of the Job.
	AnnotationRuntime = "lull.dev/runtime"
	// AnnotationRuntimeP95 is a run time that 95 of 100 such Jobs do not exceed. Lull keeps a stated deadline
	// for this run time.
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
	// AnnotationTandem "true" says that each worker of the workload must complete (an elastic Indexed
	// Job): the number of completions follows the number of workers.
	AnnotationTandem = "lull.dev/completions-follow-workers"
	// AnnotationFamily names the family whose run times and start-up the workload shares. Without it, owner
	// and labels name the family.
	AnnotationFamily = "lull.dev/family"
	// AnnotationClusters names the clusters of the policy to which the workload may go, separated by commas.
	// AnnotationZones names the GridZones in which they must be.
	AnnotationClusters = "lull.dev/clusters"
	AnnotationZones    = "lull.dev/zones"
	// AnnotationMigratable "true" says that an interruptible or elastic workload finds its
	// checkpoints on other clusters too, and may resume there.
	AnnotationMigratable = "lull.dev/migratable"
	// AnnotationTransferKWh is the energy to move a migratable workload, mainly its checkpoint, between two
	// clusters.
	AnnotationTransferKWh = "lull.dev/transfer-kwh"
	// AnnotationGovernBy names the one policy that may govern the workload. Hooks of Helm and Argo CD, and
	// workloads in kube-system and in Lull's own namespace, are governed only if they carry it.
	AnnotationGovernBy = "lull.dev/govern-by"
	// AnnotationProbe marks an object that the controller creates as a dry run, to see whether it comes back held. "lull admission" sets its value
	// to ProbeWebhook.
	AnnotationProbe = "lull.dev/probe"
	// AnnotationGroupSize is how many Pods with the same value of LabelGroup make a workload.
	AnnotationGroupSize = "lull.dev/pod-group-size"
	// LabelGroup is a label of Pods that start together.
	LabelGroup = "lull.dev/pod-group"

	// AnnotationPolicy names the policy that governs the Job; set at admission.
	AnnotationPolicy = "lull.dev/policy"
	// AnnotationHold marks a Job that Lull holds suspended, and says why: HoldAdmission,
	// HoldPaused or HoldMoving. If a suspended Job lacks it, somebody else suspended it, and Lull leaves it alone.
	AnnotationHold = "lull.dev/hold"
	// AnnotationPausedByRelease marks a CarbonPolicy that "lull release --all" has paused ("true").
	AnnotationPausedByRelease = "lull.dev/paused-by-release"
	// AnnotationDecision is the last decision on the Job, as JSON.
	AnnotationDecision = "lull.dev/decision"
	// AnnotationLatestStart is the latest safe start, in wall time (RFC 3339): the Job must be released by
	// then, whatever happens.
	AnnotationLatestStart = "lull.dev/latest-start"
	// AnnotationStatedStart is the latest safe start (wall time, RFC 3339) that follows from what the Job's
	// annotations and its policy stated when the controller wrote AnnotationLatestStart. It is absent if both
	// are equal. From it the watchdog knows whether somebody has edited them since.
	AnnotationStatedStart = "lull.dev/stated-start"
	// AnnotationRan is how much work was done when the workload last started, paused or changed its
	// scale, as run time at the least number of workers. AnnotationChanged is the time of that change
	// (wall time, RFC 3339).
	AnnotationRan     = "lull.dev/ran"
	AnnotationChanged = "lull.dev/changed"
	// AnnotationCluster is the ComputeCluster that Lull chose for a released workload.
	AnnotationCluster = "lull.dev/cluster"
	// AnnotationWorkers is the number of workers to which Lull scales a workload when it releases it from 0 workers.
	AnnotationWorkers = "lull.dev/workers"
)

// ProbeWebhook is the value of AnnotationProbe that "lull admission" sets.
const ProbeWebhook = "webhook"

// Values of AnnotationHold.
const (
	HoldAdmission = "admission"
	HoldPaused    = "paused"
	// HoldMoving: the workload moves to another cluster.
	HoldMoving = "moving"
)

// Gate is the scheduling gate that holds Pods.
const Gate = "lull.dev/hold"
