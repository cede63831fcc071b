package controlloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
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

// TestNamespaces: Lull is installed for two namespaces, one of which has nothing in it. A Job of the other is held, and runs in the
// clean hours. A Job of a namespace beside, with the same policy, is never held or touched, and its policy and zone are those of
// nobody. Neither program asks for anything that its account may not do.
func TestNamespaces(t *testing.T) {
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
