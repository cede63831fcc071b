package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/mutate"
)

// missedBy says which policy would hold a workload if it were created now, and why Lull leaves it alone; "" if none would.
func missedBy(ctx context.Context, c client.Client, w *kube.Workload) (string, error) {
	if w.Facts.Finished || w.Facts.Suspended {
		return "", nil
	}
	var policies v1alpha1.CarbonPolicyList
	if err := c.List(ctx, &policies, client.InNamespace(w.Namespace())); err != nil {
		return "", fmt.Errorf("list CarbonPolicies: %w", err)
	}
	holder, err := mutate.NewHolder(w.Kind, kinds.DefaultNamespace)
	if err != nil {
		return "", err
	}
	policy, err := holder.HeldBy(ctx, w.Namespace(), w.Objects[0].Object, policies.Items)
	if policy == nil {
		return "", err
	}
	bound, known, err := boundAtAdmission(ctx, c, w.Kind)
	if err != nil {
		return "", err
	}
	why := kube.CanHold(w)
	switch {
	case known && !bound:
		why = kube.NotBound + ". " + notBoundHint
	case why != "":
	case policy.Spec.HoldExisting != v1alpha1.HoldExistingUnstarted:
		why = kube.NotAsked
	default:
		pods, err := kube.PodsOf(ctx, c, w)
		if err != nil {
			return "", err
		}
		if why = kube.Begun(w, pods); why == "" {
			why = "nothing of it has started, so the controller suspends it if its latest safe start is in the future and there is carbon data"
		}
	}
	return kube.MissedMessage(policy, why) + triedUnheld(policy), nil
}

// notBoundHint says how a kind is held at creation.
const notBoundHint = "To have it held, name it in kinds of the chart, or run lull manifests --kinds"

// boundAtAdmission reports whether a kind is to be held at creation. It is not known to who may not read what holds it.
func boundAtAdmission(ctx context.Context, c client.Client, k *kinds.Kind) (bound, known bool, err error) {
	bound, err = kube.BoundAtAdmission(ctx, c, k)
	if apierrors.IsForbidden(err) {
		return false, false, nil
	}
	return bound, err == nil, err
}

// triedUnheld says that a policy has found out that its work is not held at creation; "" if it has not.
func triedUnheld(policy *v1alpha1.CarbonPolicy) string {
	c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionHeldAtCreation)
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf(". The condition %s of the policy is False since %s: %s", c.Type, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message)
}

// notBound says, of each kind that policies name and that nothing is to hold at creation, which policies these are.
func notBound(ctx context.Context, c client.Client, of []*kinds.Kind, policies []v1alpha1.CarbonPolicy) (warnings []string, err error) {
	for _, k := range of {
		var names []string
		for i := range policies {
			p := &policies[i]
			if p.Spec.Via != v1alpha1.ViaExtender && kinds.Asked(kinds.DefaultNamespace, p.Namespace) && slices.Contains(kube.KindsOf(&p.Spec), k.Name) {
				names = append(names, p.Namespace+"/"+p.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		bound, known, err := boundAtAdmission(ctx, c, k)
		if err != nil {
			return nil, err
		}
		if known && !bound {
			warnings = append(warnings, fmt.Sprintf("kind %s: no admission policy or webhook holds it at creation, so it starts as its user wrote it, although policies name it (%s). %s", k.Name, some(names), notBoundHint))
		}
	}
	return warnings, nil
}
