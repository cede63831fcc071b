package cli

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestStatusNamesWhatIsWrongWithTheLedger: the status names what is wrong with the ledger if one policy tells it.
func TestStatusNamesWhatIsWrongWithTheLedger(t *testing.T) {
	told := func(status metav1.ConditionStatus, reason, message string) v1alpha1.CarbonPolicy {
		p := v1alpha1.CarbonPolicy{}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRecorded, Status: status, Reason: reason, Message: message}}
		return p
	}
	fine, bad := told(metav1.ConditionTrue, "Recorded", ""), told(metav1.ConditionFalse, "Behind", "entries wait")
	for want, policies := range map[string][]v1alpha1.CarbonPolicy{
		"none, or no policy has been decided for": {{}},
		"all is recorded":                         {{}, fine},
		"Behind: entries wait":                    {fine, bad, fine},
	} {
		if got := ledgerState(policies); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestStatusSaysWhatHolds: the status says what holds work at creation, of how many policies and since when, with what is not held first.
func TestStatusSaysWhatHolds(t *testing.T) {
	at := func(hour int) metav1.Time { return metav1.Date(2026, 5, 1, hour, 0, 0, 0, time.UTC) }
	told := func(name, reason string, hour int) v1alpha1.CarbonPolicy {
		p := v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHeldAtCreation, Reason: reason, LastTransitionTime: at(hour)}}
		return p
	}
	policy, webhook, lost, refused := v1alpha1.ReasonAdmissionPolicy, v1alpha1.ReasonWebhook, v1alpha1.ReasonNotHeld, v1alpha1.ReasonNotTried
	for want, policies := range map[string][]v1alpha1.CarbonPolicy{
		"none, or no policy has been tried":                                                                                             {{}},
		"held at creation by the webhook since 2026-05-01T03:00:00Z (team/a)":                                                           {told("a", webhook, 3), {}},
		"held at creation by admission policies since 2026-05-01T04:00:00Z (2 policies)":                                                {told("a", policy, 4), told("b", policy, 2)},
		"cannot be tried since 2026-05-01T01:00:00Z (team/a)":                                                                           {told("a", v1alpha1.ReasonCannotTry, 1)},
		"not known whether held at creation since 2026-05-01T01:00:00Z (team/a)":                                                        {told("a", refused, 1)},
		"NOT HELD at creation since 2026-05-01T05:00:00Z (team/b); held at creation by the webhook since 2026-05-01T01:00:00Z (team/a)": {told("a", webhook, 1), told("b", lost, 5)},
		"NOT HELD at creation since 2026-05-01T04:00:00Z (team/a, team/b, team/c and 1 more)":                                           {told("a", lost, 1), told("b", lost, 2), told("c", lost, 3), told("d", lost, 4)},
	} {
		if got := admissionState(policies); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
