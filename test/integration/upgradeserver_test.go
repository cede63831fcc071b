//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/studies/demo"
)

// accounts makes kubeconfigs of the accounts of the controller and lull admission.
func accounts(t *testing.T) {
	t.Helper()
	env.restricted, env.admission = account(t, "lull-controller"), account(t, "lull-admission")
}

// TestControlPlaneIsUpgraded: a control plane before 1.36, where the webhook holds, becomes one of 1.36 with the same data. What was held stays held, with its marks,
// while policies are installed and the webhook goes, and runs in the clean hours; what comes then is held by policies.
func TestControlPlaneIsUpgraded(t *testing.T) {
	if older() == "" {
		t.Skip("there is nothing to upgrade from: make test-kubernetes runs it")
	}
	ctx := context.Background()
	before := env
	t.Cleanup(func() { env = before })
	dir := filepath.Join(t.TempDir(), "lab")
	env.dir = t.TempDir()
	down, err := bootLab(dir)
	must(t, err)
	must(t, dial())
	must(t, demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{Webhook: true}))
	accounts(t)
	address, err := loopback.FreeAddress()
	must(t, err)
	end := startAdmission(t, address)
	controller := startController(t)
	b := newStandingBed(t, dirtyThenClean(), nil)
	const n = 20
	held := map[string]*batchv1.Job{}
	for i := range n {
		job := b.job(fmt.Sprintf("held-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.createHeld(job)
		held[job.Name] = job
	}
	b.eventually("decisions on all", func() bool {
		for name := range held {
			if b.decision(name) != "CleanerLater" {
				return false
			}
		}
		return true
	})
	end()
	must(t, controller.Process.Signal(syscall.SIGTERM))
	_ = controller.Wait()
	down()

	version := os.Getenv("LULL_KUBERNETES")
	must(t, os.Unsetenv("LULL_KUBERNETES")) // the lab's own version from here on
	t.Cleanup(func() { _ = os.Setenv("LULL_KUBERNETES", version) })
	down, err = bootLab(dir, "--keep-data")
	must(t, err)
	t.Cleanup(down)
	must(t, dial())
	stillHeld := func(when string) {
		t.Helper()
		var list batchv1.JobList
		must(t, env.client.List(ctx, &list, client.InNamespace(b.ns)))
		if len(list.Items) != n {
			t.Errorf("%s: %d Jobs, want %d", when, len(list.Items), n)
		}
		for i := range list.Items {
			j := &list.Items[i]
			if was := held[j.Name]; was == nil || was.UID != j.UID || !*j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission || j.Status.Active > 0 {
				t.Errorf("%s: %s: %v %+v", when, j.Name, j.Annotations, j.Status)
			}
		}
	}
	stillHeld("after the upgrade of the control plane")
	must(t, demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{}))
	must(t, env.client.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: kinds.WebhookConfiguration}}))
	startController(t)
	b.eventually("the policy to say that policies hold", func() bool {
		c := b.heldAtCreation()
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonAdmissionPolicy
	})
	stillHeld("with policies")
	b.jump(8)
	b.eventually("all to be released", func() bool {
		for name := range held {
			if b.suspended(name) {
				return false
			}
		}
		return true
	})
}
