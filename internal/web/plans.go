package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

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
	Object    string     `json:"object"` // the name of the CarbonPlan
	UID       string     `json:"uid"`
	Policy    string     `json:"policy"`
	State     string     `json:"state"`
	Reason    string     `json:"reason"`
	Message   string     `json:"message"`
	Workers   int32      `json:"workers"`
	Progress  float64    `json:"progress"`
	Deadline  *time.Time `json:"deadline"`
	// ExpectedG is nil while it is not known.
	ExpectedG *float64 `json:"expectedG"`
	BaselineG float64  `json:"baselineG"`
	EmittedG  float64  `json:"emittedG"`
	// UnpricedKWh is energy without a carbon intensity: where there is any, no emissions are stated.
	UnpricedKWh float64 `json:"unpricedKWh,omitempty"`
	EnergyKWh   float64 `json:"energyKWh"`
	Phases      []Phase `json:"phases"`
}

// Plans is a page of plans.
type Plans struct {
	// Total is how many plans the filter takes, Offset the number of those before this page.
	Total  int    `json:"total"`
	Offset int    `json:"offset"`
	Items  []Plan `json:"items"`
}

// filter is which plans a page has; "" takes all.
type filter struct {
	namespace, state, reason, text string
	offset, limit                  int
}

// maxPlans bounds a page.
const maxPlans = 500

// waits is the state of a filter that takes all that wait: for their start, or paused.
const waits = "Waits"

func (f *filter) takes(p *v1alpha1.CarbonPlan) bool {
	state := p.Status.State
	switch {
	case f.state == waits && state != v1alpha1.PlanWaiting && state != v1alpha1.PlanPaused,
		f.state != "" && f.state != waits && f.state != string(state),
		f.reason != "" && (f.reason != p.Status.Reason || state == v1alpha1.PlanFinished):
		return false
	}
	return f.text == "" || strings.Contains(strings.ToLower(p.Namespace+"/"+p.Spec.Workload.Name), strings.ToLower(f.text))
}

// plansOf reads a page of plans: first what may not wait, then by deadline; what is finished comes last.
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
	for i := range list.Items {
		if p := &list.Items[i]; f.takes(p) {
			found = append(found, p)
		}
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
		Namespace: p.Namespace, Kind: p.Spec.Workload.Kind, Name: p.Spec.Workload.Name, Object: p.Name, UID: string(p.Spec.Workload.UID), Policy: p.Spec.Policy,
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
