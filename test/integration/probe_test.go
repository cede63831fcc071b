//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// heldAtCreation is what the policy of a bed says of itself; nil if it says nothing yet.
func (b bed) heldAtCreation() *metav1.Condition {
	b.t.Helper()
	var policy v1alpha1.CarbonPolicy
	must(b.t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "clean"}, &policy))
	return meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionHeldAtCreation)
}

// TestHeldAtCreation: with the rights of its account the controller finds out by a dry run who holds work at creation, also in a namespace with Pod security
// "restricted". Where a quota refuses the dry run this is not known, which is not the same as that nothing is held. lull status says both.
func TestHeldAtCreation(t *testing.T) {
	ctx := context.Background()
	three := func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"Job", "Pod", "Deployment"} }
	b, refused := newStandingBed(t, dirtyThenClean(), three), newStandingBed(t, dirtyThenClean(), nil)
	must(t, env.client.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}},
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))))
	none := corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: refused.ns}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	must(t, env.client.Create(ctx, quota))
	quota.Status.Hard, quota.Status.Used = none, none // which the lab has no controller for
	must(t, env.client.Status().Update(ctx, quota))
	refused.eventually("the quota to be in force", func() bool { return env.client.Create(ctx, refused.job("probe", nil), client.DryRunAll) != nil })
	startController(t)
	want, by := v1alpha1.ReasonAdmissionPolicy, "admission policies"
	if older() != "" {
		want, by = v1alpha1.ReasonWebhook, "the webhook"
	}
	b.eventually("the policy to say what holds", func() bool { return b.heldAtCreation() != nil })
	if c := b.heldAtCreation(); c.Status != metav1.ConditionTrue || c.Reason != want || c.Message != "a dry run of Deployment, Job, Pod comes back held" {
		t.Errorf("%+v", c)
	}
	refused.eventually("the other policy to say that it is not known", func() bool { return refused.heldAtCreation() != nil })
	if c := refused.heldAtCreation(); c.Status != metav1.ConditionUnknown || c.Reason != v1alpha1.ReasonNotTried || !strings.Contains(c.Message, "quota") {
		t.Errorf("%+v", c)
	}
	status := func(namespace string) string { // its exit status is about leases, which the programs of tests have not
		out, _ := exec.Command(os.Getenv("LULL_BIN"), "status", "--kubeconfig", env.kubeconfig, "-n", namespace).CombinedOutput()
		return string(out)
	}
	if out := status(b.ns); !strings.Contains(out, "held at creation by "+by+" since ") {
		t.Errorf("lull status: %s", out)
	}
	if out := status(refused.ns); !strings.Contains(out, "not known whether held at creation since ") || !strings.Contains(out, "warning: policy "+refused.ns+"/clean: not known for Job") {
		t.Errorf("lull status: %s", out)
	}
}
