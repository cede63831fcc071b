package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// Point is a value from a time on.
type Point struct {
	From  time.Time `json:"from"`
	Value float64   `json:"value"`
}

// Zone is a grid zone now and in the hours to come.
type Zone struct {
	Name      string    `json:"name"`
	Grid      string    `json:"grid"`
	Intensity *float64  `json:"intensity"` // gCO2eq/kWh; nil if it is unknown
	Trend     string    `json:"trend"`
	Basis     string    `json:"basis"`
	Source    string    `json:"source"`
	Age       string    `json:"age"`
	Now       time.Time `json:"now"` // of its series
	Stale     bool      `json:"stale"`
	Problem   string    `json:"problem,omitempty"`
	Forecast  []Point   `json:"forecast"`
}

// Policy is a CarbonPolicy and what it governs.
type Policy struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Zone      string  `json:"zone"`
	Planner   string  `json:"planner"`
	Waiting   int32   `json:"waiting"`
	Running   int32   `json:"running"`
	Finished  int32   `json:"finished"`
	ExpectedG float64 `json:"expectedG"` // of the workloads that wait or run and have an estimate
	BaselineG float64 `json:"baselineG"`
	Problem   string  `json:"problem,omitempty"`
}

// Curve is a CapacityCurve.
type Curve struct {
	Name     string  `json:"name"`
	Resource string  `json:"resource"`
	Maximum  float64 `json:"maximum"`
	Capacity float64 `json:"capacity"`
	Used     float64 `json:"used"`
	Waiting  float64 `json:"waiting"`
	Message  string  `json:"message"`
	Problem  string  `json:"problem,omitempty"`
	Ahead    []Point `json:"ahead"`
}

// Overview is the first page.
type Overview struct {
	// Now is the latest time of the zones' series, or the wall time if no zone has one.
	Now time.Time `json:"now"`
	Work
	// Programs are the controller and the watchdog; none if their leases may not be read.
	Programs []Program `json:"programs"`
	// Problems are what is not as it should be; none if all is well.
	Problems []Problem `json:"problems"`
	Zones    []Zone    `json:"zones"`
	Policies []Policy  `json:"policies"`
	Curves   []Curve   `json:"curves"`
}

// Program is the controller or the watchdog (failsafe).
type Program struct {
	Name    string `json:"name"`
	Works   bool   `json:"works"`
	Message string `json:"message"`
}

// overview reads the first page. Complexity: O(objects).
func (s *Server) overview(ctx context.Context) (Overview, error) {
	out := Overview{Programs: []Program{}, Problems: []Problem{}}
	var zones v1alpha1.GridZoneList
	var policies v1alpha1.CarbonPolicyList
	var curves v1alpha1.CapacityCurveList
	var plans v1alpha1.CarbonPlanList
	for _, list := range []client.ObjectList{&zones, &policies, &curves, &plans} {
		if err := s.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return out, fmt.Errorf("list %T: %w", list, err)
		}
	}
	if s.Programs != nil {
		out.Programs = s.Programs(ctx)
	}
	out.Zones, out.Curves = zonesOf(zones.Items), curvesOf(curves.Items)
	for i := range out.Zones {
		if z := &out.Zones[i]; z.Now.After(out.Now) {
			out.Now = z.Now
		}
	}
	if out.Now.IsZero() {
		out.Now = time.Now().UTC()
	}
	out.Work = workOf(plans.Items)
	out.Policies = policiesOf(policies.Items, plans.Items)
	out.findProblems(policies.Items, plans.Items)
	return out, nil
}

// notReady returns the message of a condition that is not true, and "" of one that is true or absent.
func notReady(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil && c.Status != metav1.ConditionTrue {
		return cmp.Or(c.Message, c.Reason)
	}
	return ""
}

func zonesOf(list []v1alpha1.GridZone) []Zone {
	out := make([]Zone, 0, len(list))
	for i := range list {
		z := &list[i]
		s := &z.Status
		x := Zone{
			Name: z.Name, Grid: s.Zone, Intensity: s.Intensity, Trend: string(s.Trend), Basis: s.Basis, Source: s.Source, Age: s.Age,
			Stale: meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionStale), Problem: notReady(s.Conditions), Forecast: []Point{},
		}
		if s.GridTime != nil {
			x.Now = s.GridTime.UTC()
		}
		for _, p := range s.Forecast {
			x.Forecast = append(x.Forecast, Point{p.Time.UTC(), p.Intensity})
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Zone) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func policiesOf(list []v1alpha1.CarbonPolicy, plans []v1alpha1.CarbonPlan) []Policy {
	type sums struct{ expected, baseline float64 }
	open := map[[2]string]sums{}
	for i := range plans {
		p := &plans[i]
		if p.Status.State == v1alpha1.PlanFinished || p.Status.ExpectedG == nil {
			continue
		}
		key := [2]string{p.Namespace, p.Spec.Policy}
		s := open[key]
		open[key] = sums{s.expected + *p.Status.ExpectedG, s.baseline + p.Status.BaselineG}
	}
	out := make([]Policy, 0, len(list))
	for i := range list {
		p := &list[i]
		s := open[[2]string{p.Namespace, p.Name}]
		out = append(out, Policy{
			Namespace: p.Namespace, Name: p.Name, Zone: p.Spec.Zone, Planner: p.Spec.Planner.Name, Waiting: p.Status.Waiting, Running: p.Status.Running,
			Finished: p.Status.Finished, ExpectedG: s.expected, BaselineG: s.baseline, Problem: notReady(p.Status.Conditions),
		})
	}
	slices.SortFunc(out, func(a, b Policy) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

func curvesOf(list []v1alpha1.CapacityCurve) []Curve {
	out := make([]Curve, 0, len(list))
	for i := range list {
		c := &list[i]
		x := Curve{
			Name: c.Name, Resource: c.Spec.Resource, Maximum: kube.AmountOf(c.Spec.Maximum), Capacity: c.Status.Capacity,
			Used: c.Status.Used, Waiting: c.Status.Waiting, Message: c.Status.Message, Problem: notReady(c.Status.Conditions), Ahead: []Point{},
		}
		if c.Status.Slot != nil {
			x.Ahead = append(x.Ahead, Point{c.Status.Slot.UTC(), c.Status.Capacity})
		}
		for _, p := range c.Status.Ahead {
			x.Ahead = append(x.Ahead, Point{p.From.UTC(), min(p.Capacity, x.Maximum)}) // more may be wanted
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Curve) int { return strings.Compare(a.Name, b.Name) })
	return out
}
