// Package metrics holds the Prometheus metrics of the controller. Labels are
// bounded: names of zones and policies, verbs and reasons; never names of Jobs.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics of the controller.
var (
	// Leader is 1 in the process that leads, 0 in one on standby. Every process exports all metrics, including those of other
	// programs: only this one says which program it is.
	Leader = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_leader",
		Help: "1 while the process leads and has started its work, 0 while it is on standby; program is controller or failsafe.",
	}, []string{"program"})
	// Intensity is the carbon intensity of a zone now.
	Intensity = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_carbon_intensity_gco2eq_per_kwh",
		Help: "Carbon intensity of the zone now; absent while it is not known.",
	}, []string{"zone"})
	// Stale is 1 while the newest information about a zone is too old.
	Stale = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_stale",
		Help: "1 while the newest information about the zone is older than it accepts.",
	}, []string{"zone"})
	// Degraded is 1 while the intensities of a zone are worse than its source should provide.
	Degraded = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_degraded",
		Help: "1 while the intensities of the coming hours are worse than the zone's source should provide.",
	}, []string{"zone"})
	// Basis is 1 for the basis of the intensities of the coming hours.
	Basis = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_basis",
		Help: "1 for the basis of the intensities of the coming hours, 0 for the others.",
	}, []string{"zone", "basis"})
	// Age is how old the newest information about a zone is.
	Age = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_information_age_seconds",
		Help: "Age of the newest measured value or forecast, in time of the zone's series.",
	}, []string{"zone"})
	// ForecastError is how far recent forecasts were off.
	ForecastError = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_forecast_error_ratio",
		Help: "Recent mean absolute percentage error of forecasts up to a day ahead, as a ratio, for the present basis.",
	}, []string{"zone"})
	// Band is how uncertain the day to come is.
	Band = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_forecast_band_ratio",
		Help: "Distance between the 10 % and 90 % quantiles over the next day, relative to the mean.",
	}, []string{"zone"})
	// Revisions counts values that a provider changed after the fact.
	Revisions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_revised_values",
		Help: "Values of the past that the provider has revised since Lull first read them.",
	}, []string{"zone"})
	// Requests counts the requests to providers.
	Requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_source_requests_total",
		Help: "Requests to providers, by host and HTTP status (error if there was none).",
	}, []string{"host", "status"})
	// RequestSeconds is how long providers take.
	RequestSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lull_source_request_duration_seconds",
		Help:    "Time until a provider answers.",
		Buckets: prometheus.ExponentialBuckets(0.01, 3, 8),
	}, []string{"host"})
	// Jobs counts the Jobs of a policy by state.
	Jobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_policy_jobs",
		Help: "Jobs of the policy by state: waiting, running, finished.",
	}, []string{"namespace", "policy", "state"})
	// Reserve is the share of the capacity that the plans of a policy keep free.
	Reserve = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_policy_reserve_share",
		Help: "Share of the capacity that the plans of the policy keep free for new work, 0 to 1.",
	}, []string{"namespace", "policy"})
	// LastDecision is when the controller last decided on the Jobs of a policy.
	LastDecision = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_policy_last_decision_timestamp_seconds",
		Help: "Unix time of the last decision on the Jobs of the policy; before the first one, the Unix time at which the controller started.",
	}, []string{"namespace", "policy"})
	// HeldAtCreation says what holds new work of a policy when it is created, and since when.
	HeldAtCreation = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_policy_held_at_creation_since_timestamp_seconds",
		Help: "Unix time since when the label by has this value. AdmissionPolicy or Webhook: it holds new work of the policy. NotHeld: nothing holds new work. NotTried or CannotTry: Lull does not know.",
	}, []string{"namespace", "policy", "by"})
	// Actions counts the controller's writes to Jobs.
	Actions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_actions_total",
		Help: "Writes to Jobs, by verb and reason.",
	}, []string{"verb", "reason"})
	// UnlistedKinds, OverdueHolds and OrphanMarks say what the watchdog cannot list or release, and what it finds without an owner.
	UnlistedKinds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_failsafe_unlisted_kinds",
		Help: "1 for a kind of workload that the watchdog cannot list, if new work of the kind is held, or if there were holds when the watchdog last listed it.",
	}, []string{"kind"})
	// FailsafeRound is when the watchdog last completed a round.
	FailsafeRound = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_failsafe_last_round_timestamp_seconds",
		Help: "Unix time of the last round in which the watchdog looked at all holds; before the first one, the Unix time at which it began to lead. 0 if it does not lead.",
	})
	OverdueHolds = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_failsafe_overdue_holds",
		Help: "Holds past their latest safe start that the watchdog failed to release at its last try.",
	})
	OrphanMarks = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_failsafe_orphan_marks",
		Help: "Marks of Lull without a policy: objects whose CarbonPolicy is gone, and Workloads of Kueue for which the watchdog found no governed object. Not updated while a kind or the policies cannot be listed.",
	})
	// LedgerPending, LedgerLag, LedgerSettled and LedgerErrors describe the state of the ledger.
	LedgerPending = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_ledger_pending_entries",
		Help: "Entries that are not yet written to the ledger's database.",
	})
	LedgerLag = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_ledger_pending_seconds",
		Help: "Age of the oldest entry that is not yet written to the ledger's database; 0 if all are written.",
	})
	LedgerSettled = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_ledger_settled_total",
		Help: "Settlements of workloads in the ledger, including later ones after a revision.",
	})
	// LedgerLost counts observations that the ledger lacks. LedgerQuarantined counts entries that it could not write or decode.
	LedgerLost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_ledger_lost_observations_total",
		Help: "Observations that the ledger lacks: look (the queue was full, or the controller had not read the ledger yet), pod (it ended while too many others waited to be recorded).",
	}, []string{"of"})
	LedgerQuarantined = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_ledger_quarantined_total",
		Help: "Entries in the quarantine of the ledger: they could not be written as they were, or cannot be decoded.",
	})
	LedgerErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_ledger_errors_total",
		Help: "Failures to read or write the ledger.",
	})
	// Plans counts the plans that the controller made, by trigger.
	Plans = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_plans_total",
		Help: "Plans made for workloads, by trigger.",
	}, []string{"trigger"})
	// Violations counts invariants that a decision of a policy broke (decide.Verify). It stays at 0.
	Violations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_decision_violations_total",
		Help: "Decisions that broke an invariant, by rule. Each is a fault of Lull: see the log of the controller.",
	}, []string{"namespace", "policy", "rule"})
	// Energy and Emissions are what the workloads of a policy have used.
	Energy = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_energy_kwh_total",
		Help: "Energy of the workloads of the policy since the controller started, by source (kepler, dcgm, model, or several joined by +).",
	}, []string{"namespace", "policy", "source"})
	Emissions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_emissions_gco2eq_total",
		Help: "Emissions of the workloads of the policy since the controller started.",
	}, []string{"namespace", "policy"})
	// Reachable is 1 while a cluster answers.
	Reachable = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_cluster_reachable",
		Help: "1 while the ComputeCluster answers and may be used.",
	}, []string{"cluster"})
	// LookSeconds is how long it takes to read the state of a cluster.
	LookSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_cluster_look_duration_seconds",
		Help:    "Time to read the state of a ComputeCluster: its nodes, pods and queue.",
		Buckets: prometheus.ExponentialBuckets(0.01, 3, 8),
	})
	// Nominations counts the clusters that workloads were sent to.
	Nominations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_nominations_total",
		Help: "Workloads that Lull nominated for a cluster through MultiKueue; cluster any if Lull left the choice to Kueue.",
	}, []string{"cluster"})
	// ServiceMoves counts the moves of a service that follows clean power. ServiceReady is 1
	// while the service is ready on its cluster.
	ServiceMoves = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_service_moves",
		Help: "Completed moves of the service of a Follow between clusters.",
	}, []string{"namespace", "follow"})
	ServiceReady = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_service_ready",
		Help: "1 while the service of a Follow is ready on its cluster.",
	}, []string{"namespace", "follow"})
	// Capacity holds the status of a CapacityCurve. CapacityCases counts what its method has learned.
	// LearningSeconds is how long the learning takes.
	Capacity = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_capacity",
		Help: "Status of a CapacityCurve in units of its resource: capacity, wanted (chosen by its method), floor (needed by work that may not wait), used, waiting.",
	}, []string{"curve", "of"})
	CapacityCases = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_capacity_cases",
		Help: "Hours of the past that method carbonFlex of a CapacityCurve has learned from.",
	}, []string{"curve"})
	LearningSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_capacity_learning_duration_seconds",
		Help:    "Time to replay the past through the oracle (method carbonFlex).",
		Buckets: prometheus.ExponentialBuckets(0.1, 4, 7),
	})
	// ExtenderRequests counts the calls of kube-scheduler. ExtenderSeconds is how long they take.
	// ExtenderDecisions counts the answers for Pods, by reason.
	ExtenderRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_extender_requests_total",
		Help: "Calls of kube-scheduler to the extender, by verb and HTTP status.",
	}, []string{"verb", "status"})
	ExtenderSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lull_extender_request_duration_seconds",
		Help:    "Time until the extender answers.",
		Buckets: []float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5},
	}, []string{"verb"})
	ExtenderDecisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_extender_decisions_total",
		Help: "Answers to kube-scheduler, by the reason why a Pod passes or waits (OutsideWindow, NoRoom).",
	}, []string{"reason"})
	// SlurmJobs, SlurmChanges and SlurmErrors describe the work of lull slurm controller.
	SlurmJobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_slurm_jobs",
		Help: "Jobs of the Slurm cluster by what Lull does with them: waiting (it decides on them, and they have not started), running (the same, started), left (it leaves them to Slurm). The tasks of an array that have not started are one job.",
	}, []string{"state"})
	SlurmChanges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_slurm_changes_total",
		Help: "Jobs of the Slurm cluster that were changed: held (a begin time to come was set), released, left (released because Lull leaves them to Slurm, such as when the configuration does not let them wait any more), requeued, throttled (the throttle of an array), licences (more of them, for CPUs that were added), noted (only the AdminComment).",
	}, []string{"change"})
	SlurmCapacity = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_slurm_capacity_cpus",
		Help: "CPUs that deferrable jobs of the Slurm cluster may use now, by the capacity in the configuration; 0 if it states none.",
	})
	SlurmErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_slurm_errors_total",
		Help: "Failures to read the state of the Slurm cluster or to change its jobs.",
	})
	// AdmissionRequests counts the requests of API servers to lull admission. AdmissionSeconds is how long they take.
	// AdmissionCertificateEnd is when the serving certificate of lull admission expires.
	AdmissionRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_admission_requests_total",
		Help: "Requests of API servers to lull admission, by kind and outcome: held, marked (governed, not held), unchanged, failed.",
	}, []string{"kind", "outcome"})
	AdmissionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_admission_request_duration_seconds",
		Help:    "Time until lull admission answers.",
		Buckets: []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2},
	})
	AdmissionCertificateEnd = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_admission_certificate_end_timestamp_seconds",
		Help: "Unix time at which the serving certificate of lull admission expires; 0 in other programs.",
	})
	// DecisionSeconds is how long a decision on all Jobs of a policy takes.
	DecisionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_decision_duration_seconds",
		Help:    "Time of one decision on all Jobs of a policy, without API calls.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
	})
)

// all are the metrics in the order of the reference.
var all = []prometheus.Collector{Leader, Intensity, Stale, Degraded, Basis, Age, ForecastError, Band, Revisions, Requests, RequestSeconds, Jobs, Reserve, LastDecision, HeldAtCreation, Actions, UnlistedKinds, FailsafeRound, OverdueHolds, OrphanMarks, Plans, Violations, LedgerPending, LedgerLag, LedgerSettled, LedgerLost, LedgerQuarantined, LedgerErrors, Energy, Emissions, Reachable, LookSeconds, Nominations, ServiceMoves, ServiceReady, Capacity, CapacityCases, LearningSeconds, ExtenderRequests, ExtenderSeconds, ExtenderDecisions, SlurmJobs, SlurmChanges, SlurmErrors, SlurmCapacity, AdmissionRequests, AdmissionSeconds, AdmissionCertificateEnd, DecisionSeconds}

func init() {
	metrics.Registry.MustRegister(all...)
}

// ForgetService drops the metrics of a deleted Follow.
func ForgetService(namespace, follow string) {
	ServiceMoves.DeleteLabelValues(namespace, follow)
	ServiceReady.DeleteLabelValues(namespace, follow)
}

// ForgetCurve drops the metrics of a deleted CapacityCurve.
func ForgetCurve(name string) {
	Capacity.DeletePartialMatch(prometheus.Labels{"curve": name})
	CapacityCases.DeleteLabelValues(name)
}

// ForgetCluster drops the metrics of a deleted ComputeCluster.
func ForgetCluster(name string) {
	Reachable.DeleteLabelValues(name)
	Nominations.DeleteLabelValues(name)
}
