package cli

import (
	"context"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/units"
)

// explanationReport is what lull explain says, for programs.
type explanationReport struct {
	Workload workloadReference          `json:"workload"`
	Policy   string                     `json:"policy,omitempty"`
	Planner  string                     `json:"planner,omitempty"`
	Zone     string                     `json:"zone,omitempty"`
	Missing  string                     `json:"missing,omitempty"` // what is gone that a decision takes
	Warning  string                     `json:"warning,omitempty"`
	Decision *kube.Record               `json:"decision,omitempty"` // the last one
	Plan     *v1alpha1.CarbonPlanStatus `json:"plan,omitempty"`
	Reserve  string                     `json:"reserve,omitempty"`
	Hours    []hourRow                  `json:"hours"`
	WhatIf   []whatIfRow                `json:"whatIf"`
	Note     string                     `json:"note,omitempty"` // why nothing would change it
}

type workloadReference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func referenceOf(w *kube.Workload) workloadReference {
	return workloadReference{w.Kind.Name, w.Namespace(), w.Name()}
}

// hourRow is an hour of a plan.
type hourRow struct {
	Time      metav1.Time `json:"time"`
	Intensity float64     `json:"intensity"`
	Workers   string      `json:"workers"` // "-" if it does not run; more than one number if that changes within the hour
}

// hours are those of the forecast until the plan ends, with the largest intensity of the forecast.
func (x *explanation) hours() (hours []hourRow, most float64) {
	if x.plan == nil || len(x.plan.Status.Phases) == 0 {
		return nil, 0
	}
	s, forecast := &x.plan.Status, x.zone.Status.Forecast
	for i := range x.clusters {
		if x.clusters[i].Name == s.Cluster {
			forecast = x.clusters[i].Status.Forecast
		}
	}
	end := s.Phases[len(s.Phases)-1].To.Time
	for _, p := range forecast {
		most = math.Max(most, p.Intensity)
		if !p.Time.After(end) {
			hours = append(hours, hourRow{p.Time, p.Intensity, workersIn(s.Phases, p.Time.Time, p.Time.Add(time.Hour))})
		}
	}
	return hours, most
}

// whatIfRow is what would be planned if one thing were otherwise.
type whatIfRow struct {
	If        string       `json:"if"`
	Starts    *metav1.Time `json:"starts,omitempty"`
	Ends      *metav1.Time `json:"ends,omitempty"`
	ExpectedG *float64     `json:"expectedG,omitempty"`
	Saving    *float64     `json:"saving,omitempty"`
	Cluster   string       `json:"cluster,omitempty"`
	Message   string       `json:"message,omitempty"` // why it would run at once
}

func whatIfColumns(clusters bool) []column[whatIfRow] {
	at := func(t *metav1.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format("2006-01-02 15:04")
	}
	columns := []column[whatIfRow]{
		{head: "IF", cell: func(r *whatIfRow) string { return r.If }},
		{head: "STARTS", cell: func(r *whatIfRow) string {
			if r.Starts == nil {
				return "now"
			}
			return at(r.Starts)
		}},
		{head: "ENDS", cell: func(r *whatIfRow) string { return at(r.Ends) }},
		{head: "EMITS", cell: func(r *whatIfRow) string {
			if r.ExpectedG == nil {
				return ""
			}
			return units.Emissions(*r.ExpectedG).String()
		}},
		{head: "SAVES", cell: func(r *whatIfRow) string {
			if r.Starts == nil {
				return r.Message
			}
			return share(r.Saving)
		}},
	}
	if clusters {
		columns = append(columns, column[whatIfRow]{head: "WHERE", cell: func(r *whatIfRow) string { return r.Cluster }})
	}
	return columns
}

// report gathers what write writes for people.
func (x *explanation) report(ctx context.Context, now time.Time) (*explanationReport, error) {
	r := &explanationReport{
		Workload: referenceOf(x.w), Policy: x.policy.Name, Planner: x.policy.Spec.Planner.Name, Zone: x.zone.Name, Missing: x.missing,
		Warning: kube.UnknownAnnotations(x.w.Annotations()), Hours: []hourRow{}, WhatIf: []whatIfRow{},
	}
	last, told := kube.ReadRecord(x.w.Annotations())
	if told {
		r.Decision = &last
	}
	if x.plan != nil {
		r.Plan, r.Reserve = &x.plan.Status, x.reserve()
		hours, _ := x.hours()
		r.Hours = append(r.Hours, hours...)
	}
	if x.w.Facts.Finished || last.Reason == kube.CodeInvalid || x.missing != "" {
		return r, nil
	}
	rows, note, err := x.whatIf(ctx, now)
	r.WhatIf, r.Note = append(r.WhatIf, rows...), note
	return r, err
}
