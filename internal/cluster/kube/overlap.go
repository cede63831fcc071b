package kube

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// Overlap reports whether there may be an object that two CarbonPolicies of a namespace both select.
func Overlap(a, b *v1alpha1.CarbonPolicySpec) bool {
	if (a.Via == v1alpha1.ViaExtender) != (b.Via == v1alpha1.ViaExtender) {
		return false
	}
	if a.Via != v1alpha1.ViaExtender {
		if !intersect(KindsOf(a), KindsOf(b)) {
			return false
		}
		// A policy that names queues selects what is in them, one that names none what is in none.
		if len(a.Queues)+len(b.Queues) > 0 && !intersect(a.Queues, b.Queues) {
			return false
		}
	}
	return satisfiable(append(requirements(&a.Selector), requirements(&b.Selector)...))
}

// KindsOf are the names of the kinds that a policy governs, as its spec says, or those of a policy that names none.
func KindsOf(p *v1alpha1.CarbonPolicySpec) []string {
	if len(p.Kinds) == 0 {
		return kinds.DefaultNames
	}
	return p.Kinds
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// requirements is a selector as requirements of single labels.
func requirements(s *metav1.LabelSelector) []metav1.LabelSelectorRequirement {
	out := slices.Clone(s.MatchExpressions)
	for key, value := range s.MatchLabels {
		out = append(out, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
	}
	return out
}

// satisfiable reports whether there are labels that meet all requirements.
func satisfiable(all []metav1.LabelSelectorRequirement) bool {
	_, ok := meeting(all)
	return ok
}

// meeting returns the fewest labels that meet all requirements; ok is false if there are none. Each label can be judged alone.
func meeting(all []metav1.LabelSelectorRequirement) (out map[string]string, ok bool) {
	type label struct {
		required, forbidden, listed bool
		in                          []string // if listed
		not                         []string
	}
	labels := map[string]*label{}
	for _, r := range all {
		l := labels[r.Key]
		if l == nil {
			l = &label{}
			labels[r.Key] = l
		}
		switch r.Operator {
		case metav1.LabelSelectorOpExists:
			l.required = true
		case metav1.LabelSelectorOpDoesNotExist:
			l.forbidden = true
		case metav1.LabelSelectorOpNotIn:
			l.not = append(l.not, r.Values...)
		case metav1.LabelSelectorOpIn:
			if !l.listed {
				l.in = r.Values
			}
			l.in = slices.DeleteFunc(slices.Clone(l.in), func(x string) bool { return !slices.Contains(r.Values, x) })
			l.required, l.listed = true, true
		default:
			return nil, false // such a policy selects nothing
		}
	}
	out = map[string]string{}
	for key, l := range labels {
		if !l.required {
			continue
		}
		values := l.in
		if !l.listed { // any value: one of these is not among the forbidden ones
			for n := range len(l.not) + 1 {
				values = append(values, fmt.Sprintf("any-%d", n))
			}
		}
		n := slices.IndexFunc(values, func(x string) bool { return !slices.Contains(l.not, x) })
		if l.forbidden || n < 0 {
			return nil, false
		}
		out[key] = values[n]
	}
	return out, true
}
