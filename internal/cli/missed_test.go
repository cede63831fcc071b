package cli

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// TestExplainMissed: of a Job that a policy would have held at creation, and that nobody did, lull explain says why it is left alone.
func TestExplainMissed(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train", UID: "a", Labels: map[string]string{"team": "batch"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train-1", Labels: map[string]string{batchv1.JobNameLabel: "train"}}, Spec: corev1.PodSpec{NodeName: "n"}}
	policy := func(x v1alpha1.HoldExisting, team string) *v1alpha1.CarbonPolicy {
		return &v1alpha1.CarbonPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "clean"},
			Spec:       v1alpha1.CarbonPolicySpec{Zone: "de", Kinds: []string{"Job"}, HoldExisting: x, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}},
		}
	}
	queued := job.DeepCopy()
	queued.Labels["kueue.x-k8s.io/queue-name"] = "q"
	ofQueue := policy(v1alpha1.HoldExistingUnstarted, "batch")
	ofQueue.Spec.Queues = []string{"q"}
	for want, objects := range map[string][]client.Object{
		"CarbonPolicy clean would have held it at creation, but nobody did, and it is left alone: spec.holdExisting of the policy is Never": {job.DeepCopy(), policy("", "batch")},
		"its pod train-1 has been on a node":                       {job.DeepCopy(), pod, policy(v1alpha1.HoldExistingUnstarted, "batch")},
		"the controller suspends it":                               {job.DeepCopy(), policy(v1alpha1.HoldExistingUnstarted, "batch")},
		"it waits in a queue of Kueue":                             {queued, ofQueue},
		"no CarbonPolicy of its namespace selected it when it was": {job.DeepCopy(), policy(v1alpha1.HoldExistingUnstarted, "web")},
	} {
		if _, _, err := lullOn(t, clusterOf(t, objects...), "explain", "job/train", "-n", "team-a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
