package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
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
	Intensity *float64  `json:"intensity"` // gCO2eq/kWh, nil where it is not known
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
	ExpectedG float64 `json:"expectedG"` // of what waits and runs
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
	Zones    []Zone   `json:"zones"`
	Policies []Policy `json:"policies"`
	Curves   []Curve  `json:"curves"`
}

// problem is what a condition says, where it is not as it should be.
func problem(p *string, c *metav1.Condition) {
	if c != nil && c.Status != metav1.ConditionTrue {
		*p = cmp.Or(c.Message, c.Reason)
	}
}

// overview reads the first page. Complexity: O(objects).
func overview(ctx context.Context, r client.Reader) (Overview, error) {
	out := Overview{Zones: []Zone{}, Policies: []Policy{}, Curves: []Curve{}}
	var zones v1alpha1.GridZoneList
	if err := r.List(ctx, &zones, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("list GridZones: %w", err)
	}
	for i := range zones.Items {
		z := &zones.Items[i]
		s := &z.Status
		x := Zone{Name: z.Name, Grid: s.Zone, Intensity: s.Intensity, Trend: string(s.Trend), Basis: s.Basis, Source: s.Source, Age: s.Age, Forecast: []Point{}}
		if s.GridTime != nil {
			x.Now = s.GridTime.UTC()
		}
		x.Stale = meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionStale)
		problem(&x.Problem, meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady))
		for _, p := range s.Forecast {
			x.Forecast = append(x.Forecast, Point{p.Time.UTC(), p.Intensity})
		}
		out.Zones = append(out.Zones, x)
	}
	var plans v1alpha1.CarbonPlanList
	if err := r.List(ctx, &plans, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("list CarbonPlans: %w", err)
	}
	type sums struct{ expected, baseline float64 }
	of := map[[2]string]sums{}
	for i := range plans.Items {
		p := &plans.Items[i]
		if p.Status.State == v1alpha1.PlanFinished {
			continue
		}
		key := [2]string{p.Namespace, p.Spec.Policy}
		s := of[key]
		of[key] = sums{s.expected + p.Status.ExpectedG, s.baseline + p.Status.BaselineG}
	}
	var policies v1alpha1.CarbonPolicyList
	if err := r.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("list CarbonPolicies: %w", err)
	}
	for i := range policies.Items {
		p := &policies.Items[i]
		s := of[[2]string{p.Namespace, p.Name}]
		x := Policy{
			Namespace: p.Namespace, Name: p.Name, Zone: p.Spec.Zone, Planner: p.Spec.Planner.Name,
			Waiting: p.Status.Waiting, Running: p.Status.Running, Finished: p.Status.Finished, ExpectedG: s.expected, BaselineG: s.baseline,
		}
		problem(&x.Problem, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady))
		out.Policies = append(out.Policies, x)
	}
	var curves v1alpha1.CapacityCurveList
	if err := r.List(ctx, &curves, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("list CapacityCurves: %w", err)
	}
	for i := range curves.Items {
		c := &curves.Items[i]
		x := Curve{
			Name: c.Name, Resource: c.Spec.Resource, Maximum: kube.AmountOf(c.Spec.Maximum), Capacity: c.Status.Capacity,
			Used: c.Status.Used, Waiting: c.Status.Waiting, Message: c.Status.Message, Ahead: []Point{},
		}
		problem(&x.Problem, meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady))
		if c.Status.Slot != nil {
			x.Ahead = append(x.Ahead, Point{c.Status.Slot.UTC(), c.Status.Capacity})
		}
		for _, p := range c.Status.Ahead {
			x.Ahead = append(x.Ahead, Point{p.From.UTC(), min(p.Capacity, x.Maximum)}) // more may be wanted
		}
		out.Curves = append(out.Curves, x)
	}
	slices.SortFunc(out.Zones, func(a, b Zone) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Policies, func(a, b Policy) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(out.Curves, func(a, b Curve) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Phase is a part of a plan.
type Phase struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Cluster   string    `json:"cluster,omitempty"`
	Workers   int32     `json:"workers"`
	Intensity float64   `json:"intensity"`
}

// Plan is a workload with its plan.
type Plan struct {
	Namespace string     `json:"namespace"`
	Kind      string     `json:"kind"`
	Name      string     `json:"name"`
	UID       string     `json:"uid"`
	Policy    string     `json:"policy"`
	State     string     `json:"state"`
	Reason    string     `json:"reason"`
	Message   string     `json:"message"`
	Workers   int32      `json:"workers"`
	Progress  float64    `json:"progress"`
	Deadline  *time.Time `json:"deadline"`
	ExpectedG float64    `json:"expectedG"`
	BaselineG float64    `json:"baselineG"`
	EmittedG  float64    `json:"emittedG"`
	// UnpricedKWh is energy without a carbon intensity: where there is any, no emissions are stated.
	UnpricedKWh float64 `json:"unpricedKWh,omitempty"`
	EnergyKWh   float64 `json:"energyKWh"`
	Phases      []Phase `json:"phases"`
}

// Plans is a page of plans.
type Plans struct {
	// Total is how many there are that fit the question, Offset where this page begins.
	Total  int    `json:"total"`
	Offset int    `json:"offset"`
	Items  []Plan `json:"items"`
}

// filter is what is asked for.
type filter struct {
	namespace, state, text string
	offset, limit          int
}

// mostPlans bounds a page.
const mostPlans = 500

// plansOf reads a page of plans: what may not wait first, then by deadline; what is finished last.
// Complexity: O(n log n).
func plansOf(ctx context.Context, r client.Reader, f filter) (Plans, error) {
	out := Plans{Offset: f.offset, Items: []Plan{}}
	var list v1alpha1.CarbonPlanList
	var opts []client.ListOption
	if f.namespace != "" {
		opts = append(opts, client.InNamespace(f.namespace))
	}
	if err := r.List(ctx, &list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return out, fmt.Errorf("list CarbonPlans: %w", err)
	}
	var found []*v1alpha1.CarbonPlan
	text := strings.ToLower(f.text)
	for i := range list.Items {
		p := &list.Items[i]
		if f.state != "" && string(p.Status.State) != f.state || text != "" && !strings.Contains(strings.ToLower(p.Namespace+"/"+p.Spec.Workload.Name), text) {
			continue
		}
		found = append(found, p)
	}
	when := func(p *v1alpha1.CarbonPlan) int64 {
		switch {
		case p.Status.State == v1alpha1.PlanFinished:
			return math.MaxInt64
		case p.Status.Deadline == nil:
			return math.MinInt64
		}
		return p.Status.Deadline.Unix()
	}
	slices.SortFunc(found, func(a, b *v1alpha1.CarbonPlan) int {
		return cmp.Or(cmp.Compare(when(a), when(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	out.Total = len(found)
	for _, p := range found[min(f.offset, len(found)):min(f.offset+f.limit, len(found))] {
		out.Items = append(out.Items, planOf(p))
	}
	return out, nil
}

func planOf(p *v1alpha1.CarbonPlan) Plan {
	s := &p.Status
	out := Plan{
		Namespace: p.Namespace, Kind: p.Spec.Workload.Kind, Name: p.Spec.Workload.Name, UID: string(p.Spec.Workload.UID), Policy: p.Spec.Policy,
		State: string(s.State), Reason: s.Reason, Message: s.Message, Workers: s.Workers, Progress: s.Progress,
		ExpectedG: s.ExpectedG, BaselineG: s.BaselineG, EmittedG: s.EmittedG, UnpricedKWh: s.UnpricedKWh, EnergyKWh: s.EnergyKWh, Phases: []Phase{},
	}
	if s.Deadline != nil {
		at := s.Deadline.UTC()
		out.Deadline = &at
	}
	for _, ph := range s.Phases {
		out.Phases = append(out.Phases, Phase{ph.From.UTC(), ph.To.UTC(), ph.Cluster, ph.Workers, ph.Intensity})
	}
	return out
}
