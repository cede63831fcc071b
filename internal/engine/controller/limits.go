package controller

import (
	"context"
	"fmt"
	"maps"
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
	// MaxRuntime and MaxWorkers are what workloads may state; 0 for any. One that states more is not held.
	MaxRuntime time.Duration
	MaxWorkers int
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

// slowness says for which namespaces substitutes plan: a tenant with many policies costs others no more time than one with one.
type slowness map[string]slow

// slow is until when (wall time) a substitute plans, and the policy whose decision took too long.
type slow struct {
	until  time.Time
	policy string
}

// isSlow reports whether a substitute plans for a policy, and why.
func (r *CarbonPolicyReconciler) isSlow(policy types.NamespacedName) (slow, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, is := r.slow[policy.Namespace]
	return s, is && r.Clock.Now().Before(s.until)
}

// decideWithin decides within the time that a decision may take. If the planner takes longer, its substitute plans, for
// this decision if the planner has no plan by then, and for those of the next minutes: so a policy costs others that
// time once in a while, and not at each look. The same holds for all policies of a namespace together.
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
	if _, is := r.isSlow(policy); is {
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
	maps.DeleteFunc(r.slow, func(_ string, s slow) bool { return !now.Before(s.until) })
	r.slow[policy.Namespace] = slow{now.Add(slowAgain), policy.Name}
	r.mu.Unlock()
	if err != nil {
		return decide.Decide(ctx, s, cheap)
	}
	return d, nil
}

// tooSlow says that a substitute plans for a policy; "" if its own planner does.
func (r *CarbonPolicyReconciler) tooSlow(policy types.NamespacedName) string {
	s, is := r.isSlow(policy)
	if !is {
		return ""
	}
	return fmt.Sprintf("a decision of CarbonPolicy %s took longer than the %v that the administrator allows: planner %s plans for all policies of the namespace until %s", s.policy, r.Limits.DecisionTime, substitute, s.until.UTC().Format(time.RFC3339))
}
