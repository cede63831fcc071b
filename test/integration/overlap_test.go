//go:build integration

package integration

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// TestOverlappingPolicies: which of several policies governs a Job does not depend on the order in which the API server
// evaluates them. (The simulation tries all orders.)
func TestOverlappingPolicies(t *testing.T) {
	b := newStandingBed(t, dirtyThenClean(), nil) // with the policy "clean"
	ctx := context.Background()
	for _, name := range []string{"a-trial", "b-first"} { // the winner comes last: if it is known, so are the others
		p := &v1alpha1.CarbonPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns},
			Spec:       v1alpha1.CarbonPolicySpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: b.zone},
		}
		if name == "a-trial" {
			p.Spec.Mode = v1alpha1.ModeShadow
		}
		must(t, env.client.Create(ctx, p))
	}
	governor := func(name string) (policy string, held bool) {
		job := b.job(name, nil)
		must(t, env.client.Create(ctx, job, client.DryRunAll))
		return job.Annotations[v1alpha1.AnnotationPolicy], job.Spec.Suspend != nil && *job.Spec.Suspend
	}
	b.eventually("admission to know the policies", func() bool {
		policy, _ := governor("probe")
		return policy == "b-first"
	})
	for n := range 30 {
		if policy, held := governor(fmt.Sprint("job-", n)); policy != "b-first" || !held {
			t.Errorf("Job %d is governed by %q, held: %v; want b-first, held", n, policy, held)
		}
	}
}
