package controlloop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/test/simkube"
)

// decidedWithin checks how long it takes until a Job that was just created is decided.
func (b *bed) decidedWithin(name string, most time.Duration) {
	b.t.Helper()
	began := time.Now()
	b.Until("a decision on "+name, func() bool { return b.decision(name) != "" })
	if took := time.Since(began); took > most {
		b.t.Errorf("the decision on %s took %v; want at most %v", name, took, most)
	}
}

// TestSlowWritesDelayNobody: the admission webhooks of a namespace take ten seconds for each write, whether Lull starts many
// of its Jobs or says for what they wait. A Job of another namespace, on the same cluster, is decided and started meanwhile.
func TestSlowWritesDelayNobody(t *testing.T) {
	inWorld(t, func(w *simkube.World) {
		w.Webhooks = map[string]time.Duration{"slow": 10 * time.Second}
		slow, quick := newBed(w, "slow", dirtyThenClean(), nil), newBed(w, "quick", dirtyThenClean(), nil)
		w.Controller()
		for i := range 20 {
			slow.submit(fmt.Sprintf("waits-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		}
		w.Run(2 * time.Second)
		for i := range 20 {
			slow.submit(fmt.Sprintf("starts-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "0s"})
		}
		w.Run(2 * time.Second)
		quick.submit("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		quick.decidedWithin("waits", 2*time.Second)
		quick.submit("starts", map[string]string{v1alpha1.AnnotationMaxDelay: "0s"})
		quick.decidedWithin("starts", 2*time.Second)
		if quick.suspended("starts") {
			t.Error("it was not started")
		}
		w.Until("all of the slow namespace to be started", func() bool {
			for i := range 20 {
				if slow.suspended(fmt.Sprintf("starts-%d", i)) {
					return false
				}
			}
			return true
		})
	})
}

// sleepy is a planner that takes its time.
type sleepy struct {
	plan.Planner
	takes time.Duration
}

func (s sleepy) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return plan.Result{}, ctx.Err()
	}
	return s.Planner.Plan(ctx, p)
}

// TestPoliciesOfOtherCapacityDoNotWait: two policies follow CapacityCurves of different nodes. The planner of one takes five
// seconds for each decision; the other is decided meanwhile.
func TestPoliciesOfOtherCapacityDoNotWait(t *testing.T) {
	inWorld(t, func(w *simkube.World) {
		planner := func(name string) func(*v1alpha1.CarbonPolicy) {
			return func(p *v1alpha1.CarbonPolicy) { p.Spec.Planner = v1alpha1.PlannerSpec{Name: name} }
		}
		slow, quick := newBed(w, "slow", dirtyThenClean(), planner("exact")), newBed(w, "quick", dirtyThenClean(), planner("cheapest"))
		w.Controller(func(o *controller.Options) {
			o.Limits.Planners = append(slices.Clone(o.Limits.Planners), "exact")
			build := o.Planner
			o.Planner = func(name string, parameters map[string]string, classes []string) (plan.Planner, error) {
				if name != "exact" {
					return build(name, parameters, classes)
				}
				p, err := build("cheapest", parameters, classes)
				return sleepy{p, 5 * time.Second}, err
			}
		})
		for _, b := range []*bed{slow, quick} {
			for i := range 2 {
				node := simkube.Node(fmt.Sprintf("%s-%d", b.ns, i), "4")
				node.Labels = map[string]string{"pool": b.ns}
				w.AddNode(node)
			}
			b.capacityCurve(v1alpha1.CapacityCurveSpec{
				Target: b.poolTarget(), Maximum: v1alpha1.Amount("8"),
				Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}},
				Method:   v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "23:59", Capacity: v1alpha1.Amount("8")}}},
			})
		}
		for _, b := range []*bed{slow, quick} {
			b.Until("its curve to be in force", func() bool { return b.curve().Status.Capacity == 8 })
		}
		w.Run(10 * time.Second)
		for i := range 8 {
			at := fmt.Sprint(i)
			slow.submit("slow-"+at, map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
			w.Run(500 * time.Millisecond)
			quick.submit("quick-"+at, map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
			quick.decidedWithin("quick-"+at, 2*time.Second)
		}
		slow.decidedWithin("slow-7", 20*time.Second)
	})
}

// TestPoliciesShareInOrder: policies of one cluster, to which work comes at the same moment, are decided one after the other in
// the order of their names: the clean hours have room for the work of two of them. Each run gives the same.
func TestPoliciesShareInOrder(t *testing.T) {
	for range 3 {
		inWorld(t, func(w *simkube.World) {
			names := []string{"ann", "bob", "cat", "dan"}
			beds := map[string]*bed{}
			for _, name := range names {
				beds[name] = newBed(w, name, cleanIn(12, 14), noReserve)
			}
			for _, name := range []string{"dan", "bob", "cat", "ann"} {
				w.Create(beds[name].large("work", map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"}))
			}
			w.Controller()
			for i, name := range names {
				if clean, want := inFirstSlot(beds[name].planned("work"), 12), i < 2; clean != want {
					t.Errorf("the work of %s is planned from hour %v; want it in the clean hours: %v", name, beds[name].planned("work"), want)
				}
			}
			for _, name := range names {
				b := beds[name]
				b.Until("the work of "+name+" to finish", func() bool { return b.finished("work") })
			}
		})
	}
}

// TestSlowWebhookOfAPolicyThatIsGone: what a deleted policy held is released though each write takes long, and keeps nobody
// from being decided.
func TestSlowWebhookOfAPolicyThatIsGone(t *testing.T) {
	inWorld(t, func(w *simkube.World) {
		w.Webhooks = map[string]time.Duration{"slow": 10 * time.Second}
		slow, quick := newBed(w, "slow", dirtyThenClean(), nil), newBed(w, "quick", dirtyThenClean(), nil)
		w.Controller()
		for i := range 4 {
			slow.submit(fmt.Sprintf("waits-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "60h"})
		}
		w.Run(30 * time.Second)
		slow.must(w.Client.Delete(w.Context(), slow.policy()))
		w.Run(15 * time.Second) // while they are released
		quick.submit("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		quick.decidedWithin("waits", 2*time.Second)
		w.Until("what it held to be released", func() bool {
			for i := range 4 {
				if slow.suspended(fmt.Sprintf("waits-%d", i)) {
					return false
				}
			}
			return true
		})
	})
}
