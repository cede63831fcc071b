package cli

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"lull.dev/lull/api/v1alpha1"
)

// admissionStates are the reasons of ConditionHeldAtCreation, in the order in which lull status says them, and its words for them.
var admissionStates = []struct{ reason, text string }{
	{v1alpha1.ReasonNotHeld, "NOT HELD at creation"},
	{v1alpha1.ReasonNotTried, "not known whether held at creation"},
	{v1alpha1.ReasonCannotTry, "cannot be tried"},
	{v1alpha1.ReasonAdmissionPolicy, "held at creation by admission policies"},
	{v1alpha1.ReasonWebhook, "held at creation by the webhook"},
}

// mostNamed is how many policies are named that are not known to be in force.
const mostNamed = 3

// admissionState says what holds the work of the policies at creation, and since when all of it does so.
func admissionState(policies []v1alpha1.CarbonPolicy) string {
	var parts []string
	for _, state := range admissionStates {
		var names []string
		var last time.Time
		for i := range policies {
			p := &policies[i]
			if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHeldAtCreation); c != nil && c.Reason == state.reason {
				names = append(names, p.Namespace+"/"+p.Name)
				if c.LastTransitionTime.After(last) {
					last = c.LastTransitionTime.Time
				}
			}
		}
		if len(names) == 0 {
			continue
		}
		of := fmt.Sprintf("%d policies", len(names))
		if len(names) == 1 {
			of = names[0]
		} else if state.reason == v1alpha1.ReasonNotHeld || state.reason == v1alpha1.ReasonNotTried {
			of = some(names)
		}
		parts = append(parts, fmt.Sprintf("%s since %s (%s)", state.text, last.UTC().Format(time.RFC3339), of))
	}
	if len(parts) == 0 {
		return "none, or no policy has been tried"
	}
	return strings.Join(parts, "; ")
}

// some are the first mostNamed of some names, and how many there are beside these.
func some(names []string) string {
	out := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
