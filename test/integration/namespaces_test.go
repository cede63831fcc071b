//go:build integration

package integration

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/studies/demo"
)

// TestDeletedNamespaceStopsNoOther: Lull is installed for two namespaces, one of which is deleted before the programs start. With the rights of their accounts
// they govern the other: a Job is held until the power is clean, and one that the controller does not see is released by the watchdog. A Job of
// a namespace beside, with the same policy, is never held or touched.
func TestDeletedNamespaceStopsNoOther(t *testing.T) {
	bareLab(t)
	ctx := context.Background()
	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	must(t, env.client.Create(ctx, gone))
	install := func(namespaces ...string) {
		t.Helper()
		must(t, demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{Namespaces: namespaces, Webhook: older() != ""}))
	}
	install() // for all, as a bed waits for admission to hold in it
	clientset, err := kubernetes.NewForConfig(env.config)
	must(t, err)
	bindings := []string{"lull-controller-kinds", "lull-failsafe-kinds", "lull-controller-probe"}
	holdIn := func(...string) {}
	if older() != "" {
		env.admission = filepath.Join(env.dir, "admission")
		must(t, restrict(ctx, env.config, clientset, "lull-admission", env.admission))
		end := func() {}
		holdIn = func(flags ...string) {
			end()
			end, err = runAdmission(flags...)
			must(t, err)
		}
		t.Cleanup(func() { end() })
	}
	holdIn()
	in, out := newStandingBed(t, dirtyThenClean(), nil), newStandingBed(t, dirtyThenClean(), nil)
	install("gone", in.ns)
	for _, all := range bindings { // which Helm deletes
		must(t, env.client.Delete(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: all}}))
	}
	must(t, env.client.Delete(ctx, gone))
	holdIn("--namespaces=gone," + in.ns)
	env.restricted, env.failsafe = filepath.Join(env.dir, "controller"), filepath.Join(env.dir, "failsafe")
	must(t, restrict(ctx, env.config, clientset, "lull-controller", env.restricted))
	must(t, restrict(ctx, env.config, clientset, "lull-failsafe", env.failsafe))
	in.eventually("the namespace to be gone", func() bool {
		return apierrors.IsNotFound(env.client.Get(ctx, client.ObjectKeyFromObject(gone), gone))
	})
	out.eventually("admission to hold in its namespaces only", func() bool {
		within, beside := in.job("probe", nil), out.job("probe", nil)
		must(t, env.client.Create(ctx, within, client.DryRunAll))
		must(t, env.client.Create(ctx, beside, client.DryRunAll))
		return within.Annotations[v1alpha1.AnnotationHold] != "" && beside.Annotations[v1alpha1.AnnotationHold] == ""
	})

	namespaces := "--namespaces=gone," + in.ns
	controller := startController(t, namespaces)
	start(t, []string{"failsafe", "--kubeconfig", env.failsafe, namespaces, "--grace=1s", "--interval=1s"})
	held, free := in.job("held", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}), out.job("free", nil)
	in.submit(held)
	out.submit(free)
	if held.Annotations[v1alpha1.AnnotationHold] == "" || *free.Spec.Suspend {
		t.Errorf("created with %v and %v", held.Annotations, free.Annotations)
	}
	in.eventually("a decision", func() bool { return in.decision("held") == "CleanerLater" })
	out.eventually("the Job beside to finish", func() bool { return out.finished("free") })
	in.jump(8)
	in.eventually("the held Job to finish", func() bool { return in.finished("held") })
	var zone v1alpha1.GridZone
	out.eventually("the zone with a ConfigMap of a namespace beside to say so", func() bool {
		must(t, env.client.Get(ctx, client.ObjectKey{Name: out.zone}, &zone))
		for _, c := range zone.Status.Conditions {
			if strings.Contains(c.Message, "is not one that Lull is installed for; accepted: lull-system, gone, "+in.ns) {
				return true
			}
		}
		return false
	})

	must(t, controller.Process.Kill())
	_ = controller.Wait()
	// The margin of the policy is two hours: its latest start comes after ten seconds.
	unseen := in.job("unseen", map[string]string{v1alpha1.AnnotationMaxDelay: "2h10s"})
	in.submit(unseen)
	if unseen.Annotations[v1alpha1.AnnotationHold] == "" || !*unseen.Spec.Suspend {
		t.Errorf("created with %v, not held", unseen.Annotations)
	}
	latest := unseen.CreationTimestamp.Add(10 * time.Second)
	in.eventually("the watchdog to release", func() bool { return in.decision("unseen") == "Failsafe" })
	if now := time.Now(); now.Before(latest) {
		t.Errorf("released at %v, its latest start is %v", now, latest)
	}
	for a, v := range out.get("free").Annotations {
		if a != v1alpha1.AnnotationRuntime && strings.HasPrefix(a, "lull.dev/") {
			t.Errorf("the Job beside has %s: %s", a, v)
		}
	}
}
