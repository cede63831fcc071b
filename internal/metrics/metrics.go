// Package metrics holds the Prometheus metrics of the controller. Labels are
// bounded: names of zones and policies, verbs and reasons; never names of Jobs.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics of the controller.
var (
	// Intensity is the carbon intensity of a zone now.
	Intensity = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_carbon_intensity_gco2eq_per_kwh",
		Help: "Carbon intensity of the zone now; absent while it is not known.",
	}, []string{"zone"})
	// Stale is 1 while a zone has no current value.
	Stale = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_zone_stale",
		Help: "1 while the zone's series has no value for now.",
	}, []string{"zone"})
	// Jobs counts the Jobs of a policy by state.
	Jobs = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lull_policy_jobs",
		Help: "Jobs of the policy by state: waiting, running, finished.",
	}, []string{"namespace", "policy", "state"})
	// Actions counts what was done to Jobs, and why.
	Actions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lull_actions_total",
		Help: "Writes to Jobs, by verb and reason.",
	}, []string{"verb", "reason"})
	// DecisionSeconds is how long a decision on all Jobs of a policy takes.
	DecisionSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lull_decision_duration_seconds",
		Help:    "Time of one decision over all Jobs of a policy, API calls apart.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
	})
)

func init() {
	metrics.Registry.MustRegister(Intensity, Stale, Jobs, Actions, DecisionSeconds)
}
