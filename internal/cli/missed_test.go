package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
)

// TestExplainMissed: of a Job that a policy would have held at creation, and that nobody did, lull explain says why it is left alone.
func TestExplainMissed(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train", UID: "a", Labels: map[string]string{"team": "batch"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train-1", OwnerReferences: []metav1.OwnerReference{{UID: "a", Controller: new(true)}}, Labels: map[string]string{batchv1.JobNameLabel: "train"}}, Spec: corev1.PodSpec{NodeName: "n"}}
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
		"it should have been held at creation by CarbonPolicy clean, but was not, and Lull leaves it alone: spec.holdExisting of the policy is Never": {job.DeepCopy(), policy("", "batch")},
		"its pod train-1 has been on a node":                       {job.DeepCopy(), pod, policy(v1alpha1.HoldExistingUnstarted, "batch")},
		"the controller suspends it":                               {job.DeepCopy(), policy(v1alpha1.HoldExistingUnstarted, "batch")},
		"it waits in a queue of Kueue":                             {queued, ofQueue},
		"no CarbonPolicy of its namespace selected it when it was": {job.DeepCopy(), policy(v1alpha1.HoldExistingUnstarted, "web")},
	} {
		if _, _, err := lullOn(t, clusterOf(t, append(objects, binding("hold-jobs.lull.dev"))...), "explain", "job/train", "-n", "team-a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// binding has the API server evaluate an admission policy.
func binding(name string) client.Object {
	return &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// webhooks are those of lull admission, of the kinds whose admission policies have these names.
func webhooks(names ...string) client.Object {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hold.lull.dev"}}
	for _, name := range names {
		c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{Name: name})
	}
	return c
}

// TestNotBoundIsStated: nothing is to hold Jobs at creation. lull explain of a Job says so, whatever its policy asks for, and lull status says it of the kind.
// Who may not read what would hold them learns what the policy says of itself.
func TestNotBoundIsStated(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train", UID: "a"}}
	policy := func(holdExisting v1alpha1.HoldExisting) *v1alpha1.CarbonPolicy {
		p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "clean"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "de", Kinds: []string{"Job"}, HoldExisting: holdExisting}}
		p.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionHeldAtCreation, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotHeld, Message: "a dry run of Job came back unchanged", LastTransitionTime: metav1.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		}}
		return p
	}
	const notBound = "no admission policy or webhook holds its kind at creation"
	const tried = "The condition HeldAtCreation of the policy is False since 2026-05-01T00:00:00Z: a dry run of Job came back unchanged"
	const asked = "spec.holdExisting of the policy is Never"
	for _, c := range []struct {
		what      string
		exists    v1alpha1.HoldExisting
		objects   []client.Object
		forbidden bool
		explain   []string
		not       string
		status    bool
	}{
		{what: "nothing", explain: []string{notBound, "lull manifests", tried}, not: asked, status: true},
		{what: "nothing, to be suspended", exists: v1alpha1.HoldExistingUnstarted, explain: []string{notBound, tried}, not: "the controller suspends it", status: true},
		{what: "the webhook of others", objects: []client.Object{webhooks("hold-pods.lull.dev")}, explain: []string{notBound}, not: asked, status: true},
		{what: "a webhook that does not answer", objects: []client.Object{webhooks("hold-jobs.lull.dev")}, explain: []string{asked, tried}, not: notBound},
		{what: "a policy that is not evaluated", objects: []client.Object{binding("hold-jobs.lull.dev")}, explain: []string{asked, tried}, not: notBound},
		{what: "not to be read", forbidden: true, explain: []string{asked, tried}, not: notBound},
	} {
		t.Run(c.what, func(t *testing.T) {
			cluster := builderOf(t, append(c.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, job.DeepCopy(), policy(c.exists))...).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
					if group := obj.GetObjectKind().GroupVersionKind().Group; c.forbidden && group == "admissionregistration.k8s.io" {
						return apierrors.NewForbidden(runtimeschema.GroupResource{Group: group, Resource: "x"}, key.Name, nil)
					}
					return w.Get(ctx, key, obj, o...)
				},
			}).Build()
			_, _, err := lullOn(t, cluster, "explain", "job/train", "-n", "team-a")
			if err == nil {
				t.Fatal("explained as if it was governed")
			}
			for _, want := range c.explain {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("lull explain: %v; want %q", err, want)
				}
			}
			if strings.Contains(err.Error(), c.not) {
				t.Errorf("lull explain: %v; it says %q", err, c.not)
			}
			out, _, _ := lullOn(t, cluster, "status", "-n", "team-a") // its exit status is about leases, which are not there
			if said := strings.Contains(out, "warning: kind Job: no admission policy or webhook holds it at creation"); said != c.status {
				t.Errorf("lull status says that nothing holds Jobs: %v, want %v: %s", said, c.status, out)
			}
		})
	}
}
