package controlloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/test/simkube"
)

// inNamespaces runs f in a world in which Lull is installed for some namespaces, with a bed in the first of them, and one in
// a namespace of others that has the same policy. The service accounts of Lull may do nothing else.
func inNamespaces(t *testing.T, namespaces []string, f func(w *simkube.World, in, out *bed)) {
	t.Helper()
	simkube.TestIn(t, 1, namespaces, func(w *simkube.World) {
		w.Cluster.Factor = factor
		w.AddNode(simkube.Node("node-1", "16"))
		w.AddNode(simkube.Node("node-2", "16"))
		f(w, newBed(w, namespaces[0], dirtyThenClean(), nil), newBed(w, "elsewhere", dirtyThenClean(), nil))
	})
}

// untouched returns an error if Lull has touched a Job.
func (b *bed) untouched(name string) error {
	var job batchv1.Job
	if err := b.Client.Get(b.Context(), client.ObjectKey{Namespace: b.ns, Name: name}, &job); err != nil {
		return err
	}
	for a := range job.Annotations {
		if a != v1alpha1.AnnotationRuntime && strings.HasPrefix(a, "lull.dev/") {
			return fmt.Errorf("Job %s/%s has annotation %s=%s", b.ns, name, a, job.Annotations[a])
		}
	}
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		return fmt.Errorf("Job %s/%s is suspended", b.ns, name)
	}
	return nil
}

// TestOnlyInstalledNamespacesAreGoverned: Lull is installed for two namespaces, one of which has nothing in it. A Job of the other is held, and runs in the
// clean hours. A Job of a namespace beside, with the same policy, is never held or touched, and its policy and zone are those of
// nobody. Neither program asks for anything that its account may not do.
func TestOnlyInstalledNamespacesAreGoverned(t *testing.T) {
	inNamespaces(t, []string{"team-a", "team-b"}, func(w *simkube.World, in, out *bed) {
		w.Controller()
		w.Watchdog(quickWatchdog)
		in.cronJob("nightly", batchv1.ForbidConcurrent, "1h")
		in.pool(2)
		in.capacityCurve(v1alpha1.CapacityCurveSpec{
			Target: in.poolTarget(), Policies: []v1alpha1.PolicyReference{{Namespace: out.ns, Name: "clean"}}, Maximum: v1alpha1.Amount("8"),
			Method: v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "24:00", Capacity: v1alpha1.Amount("8")}}},
		})
		held, free := in.submit("held", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"}), out.submit("free", nil)
		if held.Annotations[v1alpha1.AnnotationHold] == "" {
			t.Error("the Job of team-a is not held at admission")
		}
		if len(free.Annotations) > 1 || free.Spec.Suspend != nil && *free.Spec.Suspend {
			t.Errorf("the Job of elsewhere is held: %v", free.Annotations)
		}
		w.Always(100*time.Millisecond, func() error { return out.untouched("free") })
		w.Until("both to end", func() bool { return in.finished("held") && out.finished("free") })
		in.starts("held", 8)
		if conditions := out.policy().Status.Conditions; len(conditions) > 0 {
			t.Errorf("the policy of elsewhere has conditions %v", conditions)
		}
		var plans v1alpha1.CarbonPlanList
		in.must(w.Client.List(w.Context(), &plans))
		for _, p := range plans.Items {
			if p.Namespace != in.ns {
				t.Errorf("a plan in %s", p.Namespace)
			}
		}
		said := ""
		for _, c := range out.gridZone(out.zone).Status.Conditions {
			said += c.Message + "\n"
		}
		if want := `namespace "elsewhere" is not one that Lull is installed for; accepted: lull-system, team-a, team-b`; !strings.Contains(said, want) {
			t.Errorf("the zone with a ConfigMap of elsewhere says %q, want %q", said, want)
		}
		if zone := in.gridZone(in.zone); !meta.IsStatusConditionTrue(zone.Status.Conditions, v1alpha1.ConditionReady) {
			t.Errorf("the zone with a ConfigMap of team-a: %v", zone.Status.Conditions)
		}
	})
}

// TestNamespacesWithoutController: the controller is dead. The watchdog releases what is held in the namespace that Lull is installed for when its
// latest safe start has come; after a restart too.
func TestNamespacesWithoutController(t *testing.T) {
	inNamespaces(t, []string{"team-a"}, func(w *simkube.World, in, out *bed) {
		controller := w.Controller()
		in.submit("seen", map[string]string{v1alpha1.AnnotationMaxDelay: "12h"})
		in.decidedWithin("seen", 5*time.Second)
		controller.Kill()
		in.submit("unseen", map[string]string{v1alpha1.AnnotationMaxDelay: "5h"})
		out.submit("free", nil)
		w.Always(100*time.Millisecond, func() error { return out.untouched("free") })
		w.Watchdog(quickWatchdog).Kill()
		w.Watchdog(quickWatchdog)
		w.Until("all to end", func() bool { return in.finished("seen", "unseen") && out.finished("free") })
		for _, name := range []string{"seen", "unseen"} {
			if reason := in.decision(name); reason != "Failsafe" {
				t.Errorf("%s was released for %q", name, reason)
			}
		}
	})
}

// TestNamespaceTakenAway: the administrator of one of two namespaces takes away the rights that Lull has in it. Lull governs the other as
// before, after a restart of both programs too, and the watchdog keeps its deadlines.
func TestNamespaceTakenAway(t *testing.T) {
	inNamespaces(t, []string{"team-a", "team-b"}, func(w *simkube.World, in, _ *bed) {
		other := newBed(w, "team-b", dirtyThenClean(), nil)
		start := func() (controller, watchdog *simkube.Program) { return w.Controller(), w.Watchdog(quickWatchdog) }
		controller, watchdog := start()
		other.submit("lost", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		w.Run(time.Second)
		w.Revoke("team-b")
		in.submit("before", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		in.decidedWithin("before", 2*time.Second)
		controller.Kill()
		watchdog.Kill()
		in.submit("urgent", map[string]string{v1alpha1.AnnotationMaxDelay: "3h"})
		controller, _ = start()
		in.submit("after", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		w.Until("those of the controller to end", func() bool { return in.finished("before", "after", "urgent") })
		in.starts("after", 8)
		in.starts("before", 8)
		controller.Kill()
		in.submit("unseen", map[string]string{v1alpha1.AnnotationMaxDelay: "3h"})
		w.Until("that of the watchdog to end", func() bool { return in.finished("unseen") })
	})
}

// TestNamespaceGoneIsNotWaitedFor: a watchdog starts while one of its two namespaces is gone. Holds of the other that are long due end in its first look,
// not after ten seconds for each kind that it may not list.
func TestNamespaceGoneIsNotWaitedFor(t *testing.T) {
	inNamespaces(t, []string{"team-a", "team-b"}, func(w *simkube.World, in, _ *bed) {
		in.submit("due", map[string]string{v1alpha1.AnnotationMaxDelay: "3h"})
		w.Revoke("team-b")
		w.Run(4 * time.Hour)
		if !in.suspended("due") {
			t.Fatal("due is not held without a watchdog")
		}
		w.Watchdog(quickWatchdog)
		w.Run(5 * time.Second)
		if in.suspended("due") {
			t.Error("due is held five seconds after the start of the watchdog")
		}
	})
}

// hook is what the hooks of the chart may do where Lull is installed for team-a and team-b, in team-a.
const hook = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lull-retire}
rules:
- {apiGroups: [lull.dev], resources: [workloadkinds, capacitycurves], verbs: [get, list, delete]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingadmissionpolicies], verbs: [get]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lull-retire-namespaced}
rules:
- {apiGroups: [lull.dev], resources: [carbonpolicies, follows], verbs: [list, patch, delete]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lull-retire}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lull-retire}
subjects: [{kind: ServiceAccount, name: lull-retire, namespace: lull-system}]
`

// bindHook grants a ClusterRole to the hooks in team-a.
func bindHook(role string) string {
	return fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: lull-retire, namespace: lull-system}]
`, role)
}

// TestReleaseAllKeepsToItsNamespaces: "lull release --all --namespaces", as a hook runs it, releases what is held in team-a with rights in team-a only. It says that it leaves out team-b,
// in which it has none.
func TestReleaseAllKeepsToItsNamespaces(t *testing.T) {
	inNamespaces(t, []string{"team-a", "team-b"}, func(w *simkube.World, in, out *bed) {
		w.Install(hook + bindHook("lull-retire-namespaced") + bindHook("lull-kinds") + bindHook("lull-failsafe-fleet-namespaced"))
		w.Revoke("team-b")
		in.submit("held", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		said, err := w.CommandAs("lull-retire", "release", "--all", "--namespaces", "team-a,team-b")
		for _, want := range []string{"Namespace team-b is left out: ", "1 of 1 policies paused", "1 workloads released"} {
			if err != nil || strings.Count(said, want) != 1 {
				t.Errorf("release says %q, %v; want %q once", said, err, want)
			}
		}
		if in.suspended("held") || !in.policy().Spec.Paused || out.policy().Spec.Paused {
			t.Error("the Job of team-a is held, or its policy is not paused, or that of elsewhere is")
		}
		if _, err := w.Command("release", "--all", "-n", "elsewhere", "--namespaces", "team-a"); err == nil || !strings.Contains(err.Error(), `--namespace: "elsewhere"; accepted: one of --namespaces`) {
			t.Error(err)
		}
	})
}

// TestNamespacesOfCaches: caches of some namespaces have the objects of these, and Pods of all where they are load.
func TestNamespacesOfCaches(t *testing.T) {
	inNamespaces(t, []string{"team-a", "team-b"}, func(w *simkube.World, in, out *bed) {
		in.submit("one", map[string]string{v1alpha1.AnnotationMaxDelay: "0s"})
		out.submit("two", nil)
		w.Run(2 * time.Second)
		scheme, err := controller.NewScheme()
		in.must(err)
		for account, pods := range map[string]int{"lull-extender": 1, "lull-controller": 0} {
			config := (&simkube.Process{Name: account, Account: account, Store: w.Store, Forbidden: func(what, _ string) { w.Violate("%s may not %s", account, what) }}).Config()
			namespaces, options := manager.Namespaces(w.Namespaces), cache.Options{Scheme: scheme}
			bind := namespaces.Bind
			if account == "lull-extender" {
				bind = namespaces.BindButPods
			}
			c, err := manager.NewCache(config, bind(options))
			in.must(err)
			w.Go(func() { _ = c.Start(w.Context()) })
			w.Run(time.Second)
			var policies v1alpha1.CarbonPolicyList
			var all, beside corev1.PodList
			in.must(c.List(w.Context(), &policies))
			in.must(c.List(w.Context(), &beside, client.InNamespace(out.ns)))
			in.must(c.List(w.Context(), &all))
			if len(policies.Items) != 1 || len(beside.Items) != pods || len(all.Items) < pods {
				t.Errorf("%s reads %d policies, %d and %d Pods; want 1, %d", account, len(policies.Items), len(beside.Items), len(all.Items), pods)
			}
			in.must(c.List(w.Context(), &policies, client.InNamespace(out.ns)))
			if err := c.Get(w.Context(), client.ObjectKey{Namespace: out.ns, Name: "clean"}, &v1alpha1.CarbonPolicy{}); len(policies.Items) != 0 || !apierrors.IsNotFound(err) {
				t.Errorf("%s reads policies of elsewhere: %d, %v", account, len(policies.Items), err)
			}
			in.must(c.Get(w.Context(), client.ObjectKey{Name: out.zone}, &v1alpha1.GridZone{}))
		}
	})
}
