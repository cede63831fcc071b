package cli

import (
	"testing"

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
