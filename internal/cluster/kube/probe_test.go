package kube_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// TestProbesMeetTheSelector: what is created as a dry run has labels that the selector of its policy selects, whatever the selector; there is none only if no labels
// meet it, as labels.Selector of Kubernetes tells of all labels that there may be.
func TestProbesMeetTheSelector(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}
	values, some, none := []string{"x", "y", "any-0"}, 0, 0
	for range 2000 {
		policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: "team"}}
		s := &policy.Spec.Selector
		for range rng.IntN(5) {
			r := metav1.LabelSelectorRequirement{Key: []string{"a", "b"}[rng.IntN(2)], Operator: operators[rng.IntN(4)]}
			if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
				r.Values = slices.Clone(values[rng.IntN(2) : 2+rng.IntN(2)])
			}
			s.MatchExpressions = append(s.MatchExpressions, r)
		}
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		possible := false
		for _, a := range []string{"", "x", "y", "any-0", "other"} {
			for _, b := range []string{"", "x", "y", "any-0", "other"} {
				of := labels.Set{"a": a, "b": b}
				maps.DeleteFunc(of, func(_, value string) bool { return value == "" })
				possible = possible || selector.Matches(of)
			}
		}
		probes := kube.Probes(policy)
		if (len(probes) > 0) != possible {
			t.Fatalf("%s: probes %v, may be met: %v", selector, slices.Collect(maps.Keys(probes)), possible)
		}
		for kind, obj := range probes {
			if some++; !selector.Matches(labels.Set(obj.GetLabels())) || obj.GetNamespace() != "team" || obj.GetAnnotations()[v1alpha1.AnnotationGovernBy] != "clean" {
				t.Fatalf("%s: %s with %v", selector, kind, obj.GetLabels())
			}
		}
		if !possible {
			none++
		}
	}
	if some < 500 || none < 100 {
		t.Errorf("%d selectors are met, %d cannot be", some, none)
	}
}

// TestProbesOfKinds: Jobs, Pods and Deployments are tried if the policy governs them; of a policy with queues only Jobs, in its first queue.
func TestProbesOfKinds(t *testing.T) {
	for want, spec := range map[string]v1alpha1.CarbonPolicySpec{
		"[Job]":                {},
		"[Deployment Job Pod]": {Kinds: []string{"Pod", "Job", "JobSet", "Deployment"}},
		"[]":                   {Kinds: []string{"JobSet"}},
		"[Job q]":              {Kinds: []string{"Job"}, Queues: []string{"q", "r"}},
	} {
		probes := kube.Probes(&v1alpha1.CarbonPolicy{Spec: spec})
		got := slices.Sorted(maps.Keys(probes))
		if job := probes["Job"]; job != nil && job.GetLabels()["kueue.x-k8s.io/queue-name"] != "" {
			got = append(got, job.GetLabels()["kueue.x-k8s.io/queue-name"])
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
