package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
)

// Limits are what an administrator allows the authors of CarbonPolicies and of workloads. The zero value limits nothing.
type Limits struct {
	// Planners that policies may name beside the default and cheapest; all if it is empty.
	Planners []string
	// MaxDelay is the longest delay (grid time) that policies and workloads may ask for; 0 for any. A later deadline counts as
	// this delay and the run time after the creation.
	MaxDelay time.Duration
	// DecisionTime is how long one decision may take (wall time); 0 for no limit.
	DecisionTime time.Duration
}

// substitute is the planner of policies whose own planner takes too long.
const substitute = "cheapest"

// slowAgain is how long the substitute plans until the planner of a policy is tried again (wall time).
const slowAgain = 5 * time.Minute

// bounded is a factory of the planners that policies may name.
func (l Limits) bounded(build PlannerFactory) PlannerFactory {
	if len(l.Planners) == 0 {
		return build
	}
	return func(name string, parameters map[string]string, classes []string) (plan.Planner, error) {
		planner, err := build(name, parameters, classes)
		if err != nil {
			return nil, err
		}
		if name != "" && name != substitute && !slices.Contains(l.Planners, name) {
			return nil, fmt.Errorf("the administrator does not allow planner %q; allowed: %s", name, strings.Join(l.Planners, ", "))
		}
		return planner, nil
	}
}

// slowness is until when substitutes plan for policies (wall time).
type slowness map[types.NamespacedName]time.Time

// isSlow reports whether a substitute plans for a policy, and until when.
func (r *CarbonPolicyReconciler) isSlow(policy types.NamespacedName) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, is := r.slow[policy]
	return until, is && r.Clock.Now().Before(until)
}

// decideWithin decides within the time that a decision may take. If the planner takes longer, its substitute plans, for
// this decision if the planner has no plan by then, and for those of the next minutes: so a policy costs others that
// time once in a while, and not at each look.
//
// The context of the planner has no deadline: planner joint would search until then.
func (r *CarbonPolicyReconciler) decideWithin(ctx context.Context, s decide.Snapshot, planner plan.Planner, policy types.NamespacedName) (decide.Decision, error) {
	limit, now := r.Limits.DecisionTime, r.Clock.Now()
	if limit <= 0 {
		return decide.Decide(ctx, s, planner)
	}
	cheap, err := r.substitute()
	if err != nil {
		return decide.Decision{}, err
	}
	if _, slow := r.isSlow(policy); slow {
		return decide.Decide(ctx, s, cheap)
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(limit, cancel)
	d, err := decide.Decide(limited, s, planner)
	if timer.Stop() || ctx.Err() != nil {
		return d, err
	}
	r.mu.Lock()
	r.slow[policy] = now.Add(slowAgain)
	r.mu.Unlock()
	if err != nil {
		return decide.Decide(ctx, s, cheap)
	}
	return d, nil
}

// tooSlow says that a substitute plans for a policy; "" if its own planner does.
func (r *CarbonPolicyReconciler) tooSlow(policy types.NamespacedName) string {
	until, slow := r.isSlow(policy)
	if !slow {
		return ""
	}
	return fmt.Sprintf("a decision took longer than the %v that the administrator allows: planner %s plans until %s", r.Limits.DecisionTime, substitute, until.UTC().Format(time.RFC3339))
}
