// Package metrics holds the Prometheus metrics of the controller. Labels are
// bounded: names of zones and policies, verbs and reasons; never names of Jobs.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics of the controller.
var (
	// Leader is 1 in the process of a program that leads, 0 in one on standby. Every process has all metrics, those of other
	// programs too: this one alone says which program it is.
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
	// Degraded is 1 while a zone rests on less than its source should give.
	Degraded = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_degraded",
		Help: "1 while the hours to come rest on less than the zone's source should give.",
	}, []string{"zone"})
	// Basis is 1 for what the hours to come rest on.
	Basis = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_basis",
		Help: "1 for what the hours to come rest on, 0 for the others.",
	}, []string{"zone", "basis"})
	// Age is how old the newest information about a zone is.
	Age = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_information_age_seconds",
		Help: "Age of the newest measured value or forecast, in time of the zone's series.",
	}, []string{"zone"})
	// ForecastError is how far recent forecasts were off.
	ForecastError = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_forecast_error_ratio",
		Help: "Recent mean absolute percentage error (a ratio) of forecasts up to a day ahead, on the present basis.",
	}, []string{"zone"})
	// Band is how uncertain the day to come is.
	Band = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_forecast_band_ratio",
		Help: "Distance of the 10 % and 90 % quantiles over the next day, relative to the mean.",
	}, []string{"zone"})
	// Revisions counts values that a provider changed after the fact.
	Revisions = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_revised_values",
		Help: "Values of the past that the provider has revised since they were first read.",
	}, []string{"zone"})
	// Requests counts what went out to providers.
	Requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_source_requests_total",
		Help: "Requests to providers, by host and HTTP status (error where there was none).",
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
		Help: "Share of the capacity that the plans of the policy keep free for work to come, 0 to 1.",
	}, []string{"namespace", "policy"})
	// LastDecision is when a policy was last decided.
	LastDecision = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_policy_last_decision_timestamp_seconds",
		Help: "Unix time of the last decision of the policy; that of the controller's start before the first one.",
	}, []string{"namespace", "policy"})
	// HeldAtCreation is since when, and by what, work of a policy is held at creation.
	HeldAtCreation = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_policy_held_at_creation_since_timestamp_seconds",
		Help: "Unix time since when work of the policy is held at creation by AdmissionPolicy or Webhook; by NotHeld it is not held, by NotTried and CannotTry this is not known.",
	}, []string{"namespace", "policy", "by"})
	// Actions counts what was done to Jobs, and why.
	Actions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_actions_total",
		Help: "Writes to Jobs, by verb and reason.",
	}, []string{"verb", "reason"})
	// UnlistedKinds and OverdueHolds say what the watchdog cannot do.
	UnlistedKinds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_failsafe_unlisted_kinds",
		Help: "1 for a kind of workload that the watchdog cannot list, and that is held at admission or had holds when it could last be listed.",
	}, []string{"kind"})
	OverdueHolds = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_failsafe_overdue_holds",
		Help: "Holds whose time has come that the watchdog could not release when it last tried.",
	})
	// LedgerPending, LedgerLag, LedgerSettled and LedgerErrors say how the ledger is.
	LedgerPending = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_ledger_pending_entries",
		Help: "Entries that wait for the ledger's database.",
	})
	LedgerLag = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_ledger_pending_seconds",
		Help: "Age of the oldest entry that waits for the ledger's database; 0 where none does.",
	})
	LedgerSettled = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_ledger_settled_total",
		Help: "Workloads settled in the ledger, again after a revision included.",
	})
	// LedgerLost and LedgerQuarantined count what the ledger lacks, and what it could not write as it was.
	LedgerLost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_ledger_lost_observations_total",
		Help: "Observations that the ledger lacks: look (held back, as the queue was full or the ledger had not been read), pod (ended while too many others waited).",
	}, []string{"of"})
	LedgerQuarantined = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_ledger_quarantined_total",
		Help: "Entries that could not be written to the ledger as they were, or cannot be decoded, and are in quarantine there.",
	})
	LedgerErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_ledger_errors_total",
		Help: "Failures to read or write the ledger.",
	})
	// Plans counts the plans that were made, and why.
	Plans = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_plans_total",
		Help: "Plans made for workloads, by what called for them.",
	}, []string{"trigger"})
	// Violations counts invariants that a decision of a policy broke (decide.Verify). It stays at 0.
	Violations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_decision_violations_total",
		Help: "Invariants of decisions that were broken, by rule: a fault of Lull. See the log of the controller.",
	}, []string{"namespace", "policy", "rule"})
	// Energy and Emissions are what the workloads of a policy have used.
	Energy = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_energy_kwh_total",
		Help: "Energy of the workloads of the policy since the controller started, by where it is known from (kepler, dcgm, model, or several joined by +).",
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
	// LookSeconds is how long a look at a cluster takes.
	LookSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_cluster_look_duration_seconds",
		Help:    "Time of a look at a cluster: its nodes, pods and queue.",
		Buckets: prometheus.ExponentialBuckets(0.01, 3, 8),
	})
	// Nominations counts the clusters that workloads were sent to.
	Nominations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_nominations_total",
		Help: "Workloads nominated for a cluster through MultiKueue; any where Lull leaves the choice to Kueue.",
	}, []string{"cluster"})
	// ServiceMoves counts the moves of a service that follows clean power, ServiceReady is 1
	// while it is ready where it is.
	ServiceMoves = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_service_moves",
		Help: "Moves between clusters that the service of a Follow has completed.",
	}, []string{"namespace", "follow"})
	ServiceReady = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_service_ready",
		Help: "1 while the service of a Follow is ready where it is.",
	}, []string{"namespace", "follow"})
	// Capacity is what a CapacityCurve says, CapacityCases what it has learned, LearningSeconds how
	// long that took.
	Capacity = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_capacity",
		Help: "Capacity of a CapacityCurve in units of its resource: capacity, wanted (by its method), floor (may not wait), used, waiting.",
	}, []string{"curve", "of"})
	CapacityCases = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_capacity_cases",
		Help: "Hours of the past that method carbonFlex of a CapacityCurve has learned from.",
	}, []string{"curve"})
	LearningSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_capacity_learning_duration_seconds",
		Help:    "Time that replaying the past through the oracle takes.",
		Buckets: prometheus.ExponentialBuckets(0.1, 4, 7),
	})
	// ExtenderRequests counts the calls of kube-scheduler, ExtenderSeconds is how long they take,
	// ExtenderDecisions counts what was said of Pods.
	ExtenderRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_extender_requests_total",
		Help: "Calls of kube-scheduler to the extender, by verb and HTTP status.",
	}, []string{"verb", "status"})
	ExtenderSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lull_extender_request_duration_seconds",
		Help:    "Time until the extender has answered.",
		Buckets: []float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5},
	}, []string{"verb"})
	ExtenderDecisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_extender_decisions_total",
		Help: "Pods that kube-scheduler asked about, by the reason why they pass or wait (OutsideWindow, NoRoom).",
	}, []string{"reason"})
	// SlurmJobs, SlurmChanges and SlurmErrors say what lull slurm controller does.
	SlurmJobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_slurm_jobs",
		Help: "Jobs of the Slurm cluster by what Lull does with them: waiting (it decides on them, and they have not started), running (the same, started), left (it leaves them to Slurm). The tasks of an array that have not started are one job.",
	}, []string{"state"})
	SlurmChanges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_slurm_changes_total",
		Help: "Jobs of the Slurm cluster that were changed: held (a begin time to come was set), released, requeued, throttled (the throttle of an array), licences (more of them, for CPUs that were added), noted (only the AdminComment).",
	}, []string{"change"})
	SlurmCapacity = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_slurm_capacity_cpus",
		Help: "CPUs that the jobs of the Slurm cluster that may wait may use now, by the capacity of the configuration; 0 without one.",
	})
	SlurmErrors = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lull_slurm_errors_total",
		Help: "Looks at the Slurm cluster that failed, or whose changes could not be made.",
	})
	// AdmissionRequests counts what API servers asked lull admission, AdmissionSeconds is how long it took,
	// AdmissionCertificateEnd is when the certificate that it serves with ends.
	AdmissionRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_admission_requests_total",
		Help: "Objects that API servers asked lull admission about, by kind and what came of it: held, marked (governed, not held), unchanged, failed.",
	}, []string{"kind", "outcome"})
	AdmissionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_admission_request_duration_seconds",
		Help:    "Time until lull admission has answered.",
		Buckets: []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2},
	})
	AdmissionCertificateEnd = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lull_admission_certificate_end_timestamp_seconds",
		Help: "When the certificate that lull admission serves with ends, in seconds since 1970; 0 in other programs.",
	})
	// DecisionSeconds is how long a decision on all Jobs of a policy takes.
	DecisionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_decision_duration_seconds",
		Help:    "Time of one decision over all Jobs of a policy, API calls apart.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
	})
)

// all are the metrics in the order of the reference.
var all = []prometheus.Collector{Leader, Intensity, Stale, Degraded, Basis, Age, ForecastError, Band, Revisions, Requests, RequestSeconds, Jobs, Reserve, LastDecision, HeldAtCreation, Actions, UnlistedKinds, OverdueHolds, Plans, Violations, LedgerPending, LedgerLag, LedgerSettled, LedgerLost, LedgerQuarantined, LedgerErrors, Energy, Emissions, Reachable, LookSeconds, Nominations, ServiceMoves, ServiceReady, Capacity, CapacityCases, LearningSeconds, ExtenderRequests, ExtenderSeconds, ExtenderDecisions, SlurmJobs, SlurmChanges, SlurmErrors, SlurmCapacity, AdmissionRequests, AdmissionSeconds, AdmissionCertificateEnd, DecisionSeconds}

func init() {
	metrics.Registry.MustRegister(all...)
}

// ForgetService drops what is told of a service that is gone.
func ForgetService(namespace, follow string) {
	ServiceMoves.DeleteLabelValues(namespace, follow)
	ServiceReady.DeleteLabelValues(namespace, follow)
}

// ForgetCurve drops what is told of a CapacityCurve that is gone.
func ForgetCurve(name string) {
	Capacity.DeletePartialMatch(prometheus.Labels{"curve": name})
	CapacityCases.DeleteLabelValues(name)
}

// ForgetCluster drops what is told of a cluster that is gone.
func ForgetCluster(name string) {
	Reachable.DeleteLabelValues(name)
	Nominations.DeleteLabelValues(name)
}
