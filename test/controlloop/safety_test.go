package controlloop

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestWatchdogReleasesEachHoldInTime: with no controller at all, the watchdog releases each hold when its time has come, and none before: of a
// Job that no controller has ever seen, of one that an earlier controller held, and of one whose policy is gone.
func TestWatchdogReleasesEachHoldInTime(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		c := b.Controller()
		b.submit("seen", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.untilDecided("seen", "CleanerLater")
		c.Kill()
		// The clean hours come and nobody releases; what stands in the object does.
		b.Watchdog(quickWatchdog)
		b.submit("unseen", map[string]string{v1alpha1.AnnotationMaxDelay: "12h"})
		weeks := map[string]string{v1alpha1.AnnotationMaxDelay: "480h"}
		b.submit("long", weeks)
		latest, err := time.Parse(time.RFC3339, b.get("seen").Annotations[v1alpha1.AnnotationLatestStart])
		b.must(err)
		created := b.gridTime(b.get("unseen").CreationTimestamp.Time)
		b.Until("the unseen Job to be released", func() bool { return !b.suspended("unseen") })
		if waited := b.gridTime(time.Now()).Sub(created); waited < 12*time.Hour-10*minute || waited > 12*time.Hour+2*minute {
			t.Errorf("released after %v of the series, want its latest start, five minutes before 12 h", waited)
		}
		if !b.suspended("seen") {
			t.Error("a Job was released before its time")
		}
		b.Until("the Job that a controller held to be released", func() bool { return !b.suspended("seen") })
		if now := time.Now(); now.Before(latest.Add(-time.Second)) || now.After(latest.Add(2*time.Second)) {
			t.Errorf("released at %v, its latest start is %v", now, latest)
		}
		if got := b.decision("seen"); got != "Failsafe" {
			t.Errorf("released for %q", got)
		}
		if !b.suspended("long") {
			t.Error("a Job with weeks of slack was released")
		}
		// One that must not wait any more, one that its user opens and suspends again, and all when the policy is paused.
		b.submit("edited", weeks)
		b.submit("users", weeks)
		b.Patch(b.get("edited"), `{"metadata":{"annotations":{"lull.dev/max-delay":"0s"}}}`)
		b.Until("the edited Job to be released", func() bool { return !b.suspended("edited") })
		b.Patch(b.get("users"), `{"spec":{"suspend":false}}`)
		b.Until("the opened Job to lose its mark", func() bool { return b.get("users").Annotations[v1alpha1.AnnotationHold] == "" })
		b.Patch(b.get("users"), `{"spec":{"suspend":true}}`)
		b.submit("paused", weeks)
		if !b.suspended("paused") {
			t.Fatal("a Job with weeks of slack is not held")
		}
		b.Patch(b.policy(), `{"spec":{"paused":true}}`)
		b.Until("what a paused policy held to be released", func() bool { return !b.suspended("paused") })
		b.Patch(b.policy(), `{"spec":{"paused":false}}`)
		b.submit("last", weeks)
		b.must(b.Client.Delete(b.Context(), b.policy()))
		b.Until("the Job whose policy is gone to be released", func() bool { return !b.suspended("long") && !b.suspended("last") })
		b.Until("all to finish", func() bool { return b.finished("seen", "unseen", "long", "edited", "last") })
		if !b.suspended("users") {
			t.Error("what its user suspended was resumed")
		}
	})
}

// TestHeldWithoutWatchdog shows that the checks of TestWatchdogReleasesEachHoldInTime can fail: without the watchdog, what a dead controller held
// stays held.
func TestHeldWithoutWatchdog(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		c := b.Controller()
		b.submit("seen", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.untilDecided("seen", "CleanerLater")
		c.Kill()
		b.Run(30 * time.Minute)
		if !b.suspended("seen") {
			t.Error("nobody runs, and the Job was released")
		}
	})
}

// TestPausedOpensEverything: a policy, and a zone, that is paused releases what is held and holds nothing more; at work
// again it does.
func TestPausedOpensEverything(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		long := map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}
		b.submit("one", long)
		b.untilDecided("one", "CleanerLater")
		policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: b.ns}}
		b.Patch(policy, `{"spec":{"paused":true}}`)
		b.Until("the Job to be released", func() bool { return !b.suspended("one") })
		if got := b.decision("one"); got != "Paused" {
			t.Errorf("released for %q", got)
		}
		if *b.dryRun(long).Spec.Suspend {
			t.Error("admission holds for a paused policy")
		}
		b.Patch(policy, `{"spec":{"paused":false}}`)
		if !*b.dryRun(long).Spec.Suspend {
			t.Error("admission does not hold for a policy at work")
		}
		b.submit("two", long)
		b.untilDecided("two", "CleanerLater")
		b.Patch(&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone}}, `{"spec":{"paused":true}}`)
		b.Until("the second Job to be released", func() bool { return !b.suspended("two") })
		if now := b.gridTime(time.Now()); now.After(at(2)) {
			t.Errorf("released at %s", now.Format("15:04"))
		}
	})
}
