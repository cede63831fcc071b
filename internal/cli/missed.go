package cli

import (
	"context"
	"fmt"

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
	why := kube.CanHold(w)
	switch {
	case why != "":
	case policy.Spec.HoldExisting != v1alpha1.HoldExistingUnstarted:
		why = kube.NotAsked
	default:
		pods, err := kube.PodsOf(ctx, c, w)
		if err != nil {
			return "", err
		}
		if why = kube.Begun(w, pods); why == "" {
			why = "nothing of it has started, so the controller suspends it if its latest start is ahead and there is carbon data"
		}
	}
	return kube.MissedMessage(policy, why), nil
}
