package kube_test

import (
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

func TestOverlap(t *testing.T) {
	selector := func(of map[string]string) metav1.LabelSelector { return metav1.LabelSelector{MatchLabels: of} }
	for _, tc := range []struct {
		name string
		a, b v1alpha1.CarbonPolicySpec
		want bool
	}{
		{"no selector", v1alpha1.CarbonPolicySpec{}, v1alpha1.CarbonPolicySpec{}, true},
		{"another label", v1alpha1.CarbonPolicySpec{Selector: selector(map[string]string{"team": "a"})}, v1alpha1.CarbonPolicySpec{Selector: selector(map[string]string{"tier": "b"})}, true},
		{"another value", v1alpha1.CarbonPolicySpec{Selector: selector(map[string]string{"team": "a"})}, v1alpha1.CarbonPolicySpec{Selector: selector(map[string]string{"team": "b"})}, false},
		{"default kinds", v1alpha1.CarbonPolicySpec{}, v1alpha1.CarbonPolicySpec{Kinds: []string{"Job"}}, true},
		{"other kinds", v1alpha1.CarbonPolicySpec{}, v1alpha1.CarbonPolicySpec{Kinds: []string{"Pod"}}, false},
		{"other queues", v1alpha1.CarbonPolicySpec{Queues: []string{"a"}}, v1alpha1.CarbonPolicySpec{Queues: []string{"b"}}, false},
		{"in a queue and in none", v1alpha1.CarbonPolicySpec{Queues: []string{"a"}}, v1alpha1.CarbonPolicySpec{}, false},
		{"one queue of several", v1alpha1.CarbonPolicySpec{Queues: []string{"a", "b"}}, v1alpha1.CarbonPolicySpec{Queues: []string{"b"}}, true},
		{"by holding and by the extender", v1alpha1.CarbonPolicySpec{}, v1alpha1.CarbonPolicySpec{Via: v1alpha1.ViaExtender}, false},
		{"kinds do not count with the extender", v1alpha1.CarbonPolicySpec{Via: v1alpha1.ViaExtender, Kinds: []string{"Job"}}, v1alpha1.CarbonPolicySpec{Via: v1alpha1.ViaExtender, Kinds: []string{"Pod"}}, true},
	} {
		if got := kube.Overlap(&tc.a, &tc.b); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		if got := kube.Overlap(&tc.b, &tc.a); got != tc.want {
			t.Errorf("%s, the other way round: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestOverlapOfSelectors compares random selectors of few labels with all objects that there may be.
func TestOverlapOfSelectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	keys, values := []string{"a", "b"}, []string{"x", "y", "z"}
	var objects []labels.Set
	choices := append([]string{""}, append(values, "another")...)
	for _, a := range choices {
		for _, b := range choices {
			o := labels.Set{}
			for key, value := range map[string]string{"a": a, "b": b} {
				if value != "" {
					o[key] = value
				}
			}
			objects = append(objects, o)
		}
	}
	random := func() metav1.LabelSelector {
		var s metav1.LabelSelector
		for range rng.IntN(4) {
			r := metav1.LabelSelectorRequirement{Key: keys[rng.IntN(len(keys))]}
			operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}
			if r.Operator = operators[rng.IntN(len(operators))]; r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
				for range 1 + rng.IntN(3) {
					r.Values = append(r.Values, values[rng.IntN(len(values))])
				}
			}
			s.MatchExpressions = append(s.MatchExpressions, r)
		}
		return s
	}
	overlaps := 0
	for range 3000 {
		a, b := random(), random()
		as, err := metav1.LabelSelectorAsSelector(&a)
		if err != nil {
			t.Fatal(err)
		}
		bs, err := metav1.LabelSelectorAsSelector(&b)
		if err != nil {
			t.Fatal(err)
		}
		want := false
		for _, o := range objects {
			want = want || as.Matches(o) && bs.Matches(o)
		}
		if want {
			overlaps++
		}
		if got := kube.Overlap(&v1alpha1.CarbonPolicySpec{Selector: a}, &v1alpha1.CarbonPolicySpec{Selector: b}); got != want {
			t.Fatalf("%v and %v overlap: %v, want %v", as, bs, got, want)
		}
	}
	if overlaps == 0 || overlaps == 3000 {
		t.Errorf("%d of 3000 overlap: the test shows nothing", overlaps)
	}
}
