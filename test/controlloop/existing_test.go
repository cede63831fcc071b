package controlloop

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// holdUnstarted has a policy suspend what nobody held at creation.
func holdUnstarted(p *v1alpha1.CarbonPolicy) { p.Spec.HoldExisting = v1alpha1.HoldExistingUnstarted }

// fill takes 15 of the 16 CPUs of both nodes with Jobs that no policy governs, for some time of the series. A Job of two CPUs finds a place on no node then,
// though two are free.
func (b *bed) fill(run string) {
	b.t.Helper()
	for _, name := range []string{"filler-1", "filler-2"} {
		j := b.job(name, nil)
		j.Labels = nil
		j.Spec.Template.Annotations[simkube.RunTime] = run
		j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("15")
		b.Create(j)
	}
	b.Until("the fillers to run", func() bool { return b.ready("filler-1") && b.ready("filler-2") })
}

// wide is a Job of two CPUs.
func (b *bed) wide(name string, annotations map[string]string) *batchv1.Job {
	j := b.job(name, annotations)
	j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	return j
}

// ready reports whether a pod of a Job is ready.
func (b *bed) ready(name string) bool {
	s := b.get(name).Status
	return s.Ready != nil && *s.Ready > 0
}

// TestExistingIsHeld: what was created while nobody held at creation, and no controller ran, is suspended by the controller that starts then, as nothing of it has
// started. It runs in the clean hours, as if it had been held at creation; the latest start counts from its creation.
func TestExistingIsHeld(t *testing.T) {
	onBed(t, dirtyThenClean(), holdUnstarted, func(b *bed) {
		b.fill("2h")
		restore := b.unbind()
		b.Create(b.wide("late", nil))
		b.Sleep(10 * time.Second)
		if b.suspended("late") || b.get("late").Annotations[v1alpha1.AnnotationPolicy] != "" {
			t.Fatal("held at creation")
		}
		restore()
		first := b.Controller()
		b.Until("the Job to be suspended", func() bool { return b.suspended("late") })
		first.Kill()
		b.Controller()
		b.Watchdog(quickWatchdog)
		if e := b.events("late"); !strings.Contains(e, "Normal Hold: it was not held at creation") {
			t.Errorf("events: %s", e)
		}
		b.Until("the Job to be done", func() bool { return b.finished("late") })
		b.starts("late", 8)
	})
}

// TestExistingThatStartedIsLeftAlone: what has a pod on a node is never suspended, before and after the controller starts again; an Event says why.
func TestExistingThatStartedIsLeftAlone(t *testing.T) {
	onBed(t, dirtyThenClean(), holdUnstarted, func(b *bed) {
		restore := b.unbind()
		b.submit("started", nil)
		b.Until("it to run", func() bool { return b.ready("started") })
		restore()
		b.Always(100*time.Millisecond, func() error { return b.neverSuspended("started") })
		first := b.Controller()
		b.Until("an Event", func() bool { return strings.Contains(b.events("started"), "NotHeld") })
		if e := b.events("started"); !strings.Contains(e, "Lull leaves it alone: status.ready is 1") && !strings.Contains(e, "has been on a node") {
			t.Errorf("events: %s", e)
		}
		first.Kill()
		b.Controller()
		b.Until("it to be done", func() bool { return b.finished("started") })
		b.starts("started", 0)
	})
}

// TestExistingIsLeftAloneByDefault: without spec.holdExisting what exists is left alone, and an Event says what would change that. A policy that is
// changed to ask for it suspends what has not started by then. What was created before its policy counts too.
func TestExistingIsLeftAloneByDefault(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.fill("2h")
		restore := b.unbind()
		b.Create(b.wide("waits", nil))
		restore()
		b.Controller()
		b.Until("an Event", func() bool { return strings.Contains(b.events("waits"), "NotHeld") })
		if e := b.events("waits"); !strings.Contains(e, "spec.holdExisting of the policy is Never") {
			t.Errorf("events: %s", e)
		}
		b.Run(20 * time.Second)
		if b.suspended("waits") {
			t.Error("suspended, though the policy does not ask for it")
		}
		b.Patch(&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "clean"}}, `{"spec":{"holdExisting":"Unstarted"}}`)
		b.Until("it to be suspended", func() bool { return b.suspended("waits") })
		b.Until("it to be done", func() bool { return b.finished("waits") })
		b.starts("waits", 8)
	})
}

// TestExistingIsNotHeldTooLate: what has no room until its latest start, what its user has resumed, and what may not wait is not suspended.
func TestExistingIsNotHeldTooLate(t *testing.T) {
	onBed(t, dirtyThenClean(), holdUnstarted, func(b *bed) {
		b.fill("3h")
		restore := b.unbind()
		b.Create(b.wide("late", map[string]string{v1alpha1.AnnotationMaxDelay: "1m"}))
		resumed := b.wide("resumed", nil)
		yes := true
		resumed.Spec.Suspend = &yes
		b.Create(resumed)
		restore()
		b.Until("the Job to be suspended by its user", func() bool { return len(b.get("resumed").Status.Conditions) > 0 })
		b.Patch(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "resumed"}}, `{"spec":{"suspend":false}}`)
		b.Always(100*time.Millisecond, func() error { return b.neverSuspended("late") })
		b.Always(100*time.Millisecond, func() error { return b.neverSuspended("resumed") })
		b.Controller()
		b.Until("Events", func() bool {
			return strings.Contains(b.events("late"), "its latest safe start is") && strings.Contains(b.events("resumed"), "suspended and resumed")
		})
		b.Until("they to be done", func() bool { return b.finished("late", "resumed") })
	})
}
