package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
)

// Work is what waits and what runs, and what that saves.
type Work struct {
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// ExpectedG is what it emits by its plans, in gCO2eq, BaselineG what it would emit if it all ran at once. Unpriced counts the
	// workloads in neither: the intensity of the rest of their work is not known, or was not in hours in which they ran.
	ExpectedG float64 `json:"expectedG"`
	BaselineG float64 `json:"baselineG"`
	Unpriced  int     `json:"unpriced,omitempty"`
	// Reasons are why workloads wait, the most frequent first.
	Reasons []WaitingReason `json:"reasons"`
}

// WaitingReason is a reason for which workloads wait.
type WaitingReason struct {
	Reason string `json:"reason"`
	// Meaning says it in words.
	Meaning   string  `json:"meaning"`
	Workloads int     `json:"workloads"`
	ExpectedG float64 `json:"expectedG"`
	BaselineG float64 `json:"baselineG"`
	// NextStart is when the first of them starts by its plan, Deadline the earliest of theirs; nil if none has one.
	NextStart *time.Time `json:"nextStart"`
	Deadline  *time.Time `json:"deadline"`
}

// workOf sums plans that are not finished.
func workOf(plans []v1alpha1.CarbonPlan) Work {
	var out Work
	reasons := map[string]*WaitingReason{}
	for i := range plans {
		s := &plans[i].Status
		switch s.State {
		case v1alpha1.PlanRunning:
			out.Running++
		case v1alpha1.PlanWaiting, v1alpha1.PlanPaused:
			out.Waiting++
			w := reasons[s.Reason]
			if w == nil {
				w = &WaitingReason{Reason: s.Reason, Meaning: meanings[s.Reason]}
				reasons[s.Reason] = w
			}
			w.add(s)
		default:
			continue
		}
		if s.ExpectedG == nil {
			out.Unpriced++
			continue
		}
		out.ExpectedG += *s.ExpectedG
		out.BaselineG += s.BaselineG
	}
	out.Reasons = make([]WaitingReason, 0, len(reasons))
	for _, w := range reasons {
		out.Reasons = append(out.Reasons, *w)
	}
	slices.SortFunc(out.Reasons, func(a, b WaitingReason) int {
		return cmp.Or(cmp.Compare(b.Workloads, a.Workloads), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

func (w *WaitingReason) add(s *v1alpha1.CarbonPlanStatus) {
	w.Workloads++
	if s.ExpectedG != nil {
		w.ExpectedG += *s.ExpectedG
		w.BaselineG += s.BaselineG
	}
	if len(s.Phases) > 0 {
		w.NextStart = earlier(w.NextStart, &s.Phases[0].From)
	}
	w.Deadline = earlier(w.Deadline, s.Deadline)
}

func earlier(a *time.Time, b *metav1.Time) *time.Time {
	if b == nil || a != nil && !b.Time.Before(*a) {
		return a
	}
	at := b.UTC()
	return &at
}

// Problem is something that is not as it should be.
type Problem struct {
	// Object is what it is about, for example "GridZone de" or "3 workloads".
	Object  string `json:"object"`
	Message string `json:"message"`
	// Reason, if it is about workloads, is that of their last decision.
	Reason string `json:"reason,omitempty"`
}

// troubles are the reasons of decisions that somebody should look at: the workload runs, but not because its power is clean.
var troubles = []decide.Code{decide.CodeDeadlineAtRisk, decide.CodeNoRoom, decide.CodeNoCarbonData, decide.CodePlannerFailed, decide.CodeUnscheduled}

// findProblems fills o.Problems from what it shows, and from the policies and plans.
func (o *Overview) findProblems(policies []v1alpha1.CarbonPolicy, plans []v1alpha1.CarbonPlan) {
	for _, p := range o.Programs {
		if !p.Works {
			o.addProblem(p.Name, p.Message)
		}
	}
	for i := range o.Zones {
		z := &o.Zones[i]
		o.addProblem("GridZone "+z.Name, z.Problem)
		if z.Problem == "" && z.Stale {
			o.addProblem("GridZone "+z.Name, fmt.Sprintf("its data is %s old: Lull uses older values (%s)", cmp.Or(z.Age, "too"), z.Basis))
		}
	}
	for i := range policies {
		p := &policies[i]
		name := "CarbonPolicy " + p.Namespace + "/" + p.Name
		o.addProblem(name, notReady(p.Status.Conditions))
		for _, c := range []struct {
			kind string
			bad  metav1.ConditionStatus
		}{{v1alpha1.ConditionMisspelt, metav1.ConditionTrue}, {v1alpha1.ConditionOverlaps, metav1.ConditionTrue}, {v1alpha1.ConditionRecorded, metav1.ConditionFalse}, {v1alpha1.ConditionHeldAtCreation, metav1.ConditionFalse}} {
			if found := meta.FindStatusCondition(p.Status.Conditions, c.kind); found != nil && found.Status == c.bad {
				o.addProblem(name, cmp.Or(found.Message, found.Reason))
			}
		}
	}
	for i := range o.Curves {
		o.addProblem("CapacityCurve "+o.Curves[i].Name, o.Curves[i].Problem)
	}
	o.findTroubledWorkloads(policies, plans)
	slices.SortStableFunc(o.Problems, func(a, b Problem) int { return cmp.Compare(a.Object, b.Object) })
}

func (o *Overview) addProblem(object, message string) {
	if message != "" {
		o.Problems = append(o.Problems, Problem{Object: object, Message: message})
	}
}

// findTroubledWorkloads counts workloads that run for another reason than clean power, and those past their deadline in the
// time of their zone.
func (o *Overview) findTroubledWorkloads(policies []v1alpha1.CarbonPolicy, plans []v1alpha1.CarbonPlan) {
	now, zone := map[string]time.Time{}, map[[2]string]string{}
	for i := range o.Zones {
		now[o.Zones[i].Name] = o.Zones[i].Now
	}
	for i := range policies {
		zone[[2]string{policies[i].Namespace, policies[i].Name}] = policies[i].Spec.Zone
	}
	late, by := 0, map[string]int{}
	for i := range plans {
		p := &plans[i]
		if p.Status.State == v1alpha1.PlanFinished {
			continue
		}
		by[p.Status.Reason]++
		at := now[zone[[2]string{p.Namespace, p.Spec.Policy}]]
		if d := p.Status.Deadline; d != nil && !at.IsZero() && d.Time.Before(at) {
			late++
		}
	}
	for _, code := range troubles {
		if n := by[string(code)]; n > 0 {
			o.Problems = append(o.Problems, Problem{workloads(n), meanings[string(code)], string(code)})
		}
	}
	if late > 0 {
		o.addProblem(workloads(late), "past the deadline, and not finished")
	}
}

func workloads(n int) string {
	if n == 1 {
		return "1 workload"
	}
	return fmt.Sprintf("%d workloads", n)
}
