package controlloop

import (
	"strings"
	"testing"

	"lull.dev/lull/api/v1alpha1"
)

// command runs a command of Lull, which must succeed, and returns what it prints. That must have all the parts wanted.
func (b *bed) command(args []string, want ...string) string {
	b.t.Helper()
	out, err := b.Command(args...)
	if err != nil {
		b.t.Fatalf("lull %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, part := range want {
		if !strings.Contains(out, part) {
			b.t.Errorf("lull %s lacks %q:\n%s", strings.Join(args, " "), part, out)
		}
	}
	return out
}

// TestReleaseByHand: one workload, and everything, without a controller.
func TestReleaseByHand(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		names := []string{"one", "two", "three"}
		for _, name := range names {
			b.submit(name, map[string]string{v1alpha1.AnnotationMaxDelay: "90h"})
		}
		held := func(want ...string) {
			t.Helper()
			for _, name := range names {
				is := false
				for _, x := range want {
					is = is || x == name
				}
				if b.suspended(name) != is {
					t.Errorf("%s: suspended %v, want %v", name, !is, is)
				}
			}
		}
		held("one", "two", "three")
		b.command([]string{"release", "job/one", "-n", b.ns}, "Job test/one runs and is no longer governed\n")
		held("two", "three")
		if a := b.get("one").Annotations; a[v1alpha1.AnnotationPolicy] != "" {
			t.Errorf("still governed: %v", a)
		}
		b.command([]string{"explain", "job/one", "-n", b.ns}, "was released by an operator", "kubectl annotate job/one")
		b.command([]string{"release", "--all", "-n", b.ns}, "2 workloads released\n", "1 of 1 policies paused\n")
		held()
		if !b.policy().Spec.Paused {
			t.Error("the policy is not paused")
		}
		b.command([]string{"release", "--all", "--undo", "-n", b.ns}, "1 of 1 policies at work again\n")
		if b.policy().Spec.Paused {
			t.Error("the policy is still paused")
		}
		b.Until("all to finish", func() bool { return b.finished(names...) })
		for _, name := range names {
			b.starts(name, 0)
		}
	})
}

// TestRemovedKindIsReleasedForGood: a kind that Lull is about to lose the rights to is released for good, and no new object of it is held, while the controller
// goes on, not even where its policy asks for what came unheld to be suspended.
func TestRemovedKindIsReleasedForGood(t *testing.T) {
	onBed(t, dirtyThenClean(), holdUnstarted, func(b *bed) {
		b.Controller()
		b.submit("held", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.submit("runs", map[string]string{v1alpha1.AnnotationMaxDelay: "0s", v1alpha1.AnnotationInterruptible: "true"})
		b.Until("a plan", func() bool { return b.plan("job-held").Status.State != "" && !b.suspended("runs") })
		b.command([]string{"release", "--kinds", "Job"}, "workloads released\n")
		for _, name := range []string{"held", "runs"} {
			if a := b.get(name).Annotations; b.suspended(name) || a[v1alpha1.AnnotationPolicy] != "" || a[v1alpha1.AnnotationHold] != "" {
				t.Errorf("%s: suspended %v, %v", name, b.suspended(name), a)
			}
		}
		b.submit("new", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.Run(10 * minute)
		for _, name := range []string{"held", "runs", "new"} {
			if policy := b.get(name).Annotations[v1alpha1.AnnotationPolicy]; b.suspended(name) || policy != "" {
				t.Errorf("%s is held, or was: suspended %v, policy %q", name, b.suspended(name), policy)
			}
		}
	})
}

// TestOperatorsCommands: what a person asks for reads as it should.
func TestOperatorsCommands(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"} }, func(b *bed) {
		b.Controller()
		b.Create(concave(b.ns))
		b.Create(b.elasticJob("wide", 8, 4, map[string]string{v1alpha1.AnnotationMaxDelay: "12h", v1alpha1.AnnotationProfile: "concave"}))
		b.submit("plain", map[string]string{v1alpha1.AnnotationMaxDelay: "12h"})
		b.Until("plans", func() bool { return b.plan("job-wide").Status.State != "" && b.plan("job-plain").Status.State != "" })
		b.command([]string{"status", "-n", b.ns, "--system-namespace", b.ns}, "controller", "no lease in namespace "+b.ns, "kinds", "Job", b.zone, b.ns+"/clean", "joint")
		b.command([]string{"top", "-n", b.ns}, "WORKLOAD", "job/wide", "job/plain", "Waiting")
		b.command([]string{"top", "-n", b.ns, "--by", "policy"}, b.ns+"/clean", "2")
		b.command([]string{"explain", "job/wide", "-n", b.ns}, "saves", "deadline", "proven", "HOUR", "as it is", "6 hours more", "4 times the workers")
		b.command([]string{"explain", "job/plain", "-n", b.ns}, "it could be paused", "runs at the latest")
		b.command([]string{"progress", "0.25", "--workload", "job/wide", "-n", b.ns})
		if got := b.get("wide").Annotations[v1alpha1.AnnotationProgress]; got != "0.25" {
			t.Errorf("progress %q", got)
		}
		if out, err := b.Command("explain", "job/none", "-n", b.ns); err == nil || !strings.Contains(err.Error(), `Job "none" in namespace "test"`) {
			t.Errorf("explain of no Job: %v\n%s", err, out)
		}
	})
}
