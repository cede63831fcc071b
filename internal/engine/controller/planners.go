package controller

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/plan"
)

// planners holds the planner of each policy, so that a planner that remembers its plans
// (plan.Sequential) begins the next decision at them. It is used by one goroutine at a time.
// What a planner remembers is lost in a restart; it only saves time.
type planners map[types.NamespacedName]policyPlanner

// policyPlanner is a planner and what it was built from.
type policyPlanner struct {
	uid     types.UID
	spec    v1alpha1.PlannerSpec
	classes []string
	planner plan.Planner
}

// of returns the planner of a policy. It is built anew if the policy is another one of that name,
// or names another planner, other parameters or other critical classes.
//
// It returns the error of build; the policy then has no planner until it names one that can be
// built.
func (p planners) of(policy *v1alpha1.CarbonPolicy, build PlannerFactory) (plan.Planner, error) {
	key := types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}
	spec, classes := policy.Spec.Planner, policy.Spec.CriticalPriorityClasses
	if x, known := p[key]; known && x.uid == policy.UID && x.spec.Name == spec.Name && maps.Equal(x.spec.Parameters, spec.Parameters) && slices.Equal(x.classes, classes) {
		return x.planner, nil
	}
	delete(p, key)
	planner, err := build(spec.Name, spec.Parameters, classes)
	if err != nil {
		return nil, err
	}
	planner = plan.ForSequence(planner)
	p[key] = policyPlanner{policy.UID, *spec.DeepCopy(), slices.Clone(classes), planner}
	return planner, nil
}
