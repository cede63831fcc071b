package controlloop

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// TestJobsWaitForCleanPower follows one Job of each sort through a dirty night.
func TestJobsWaitForCleanPower(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		held := b.submit("held", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		if !*held.Spec.Suspend || held.Annotations[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission {
			t.Fatalf("not held at creation: %+v", held.Annotations)
		}
		b.submit("tight", map[string]string{v1alpha1.AnnotationMaxDelay: "PT3H"})
		critical := b.job("critical", nil)
		critical.Spec.Template.Spec.PriorityClassName = "urgent"
		other := b.job("other", nil)
		other.Labels = nil
		mine := b.job("mine", nil)
		mine.Spec.Suspend = new(true)
		b.Create(critical, other, mine)
		for _, j := range []*batchv1.Job{critical, other} {
			if *j.Spec.Suspend {
				t.Errorf("%s is held", j.Name)
			}
		}
		b.untilDecided("held", "CleanerLater")
		if b.get("held").Annotations[v1alpha1.AnnotationLatestStart] == "" {
			t.Error("a held Job does not carry its latest start")
		}
		b.Until("all governed Jobs to finish", func() bool { return b.finished("held", "tight", "critical", "other") })
		b.starts("held", 8)
		if reason := b.decision("held"); reason != "CleanNow" {
			t.Errorf("released for %q, want CleanNow", reason)
		}
		b.starts("tight", 0) // three hours of slack lie inside the dirty hours: nothing to gain
		for _, name := range []string{"held", "tight"} {
			if b.get(name).Annotations[v1alpha1.AnnotationHold] != "" {
				t.Errorf("%s still carries a hold", name)
			}
		}
		if j := b.get("mine"); !*j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationPolicy] != "" {
			t.Error("a Job that its user suspended was touched")
		}
		b.Until("events", func() bool {
			reasons := b.events("held")
			return strings.Contains(reasons, "Wait") && strings.Contains(reasons, "Release")
		})
		b.Until("the policy's status", func() bool {
			s := b.policy().Status
			return s.Waiting == 0 && s.Finished == 3 && meta.IsStatusConditionTrue(s.Conditions, "Ready")
		})
		var zone v1alpha1.GridZone
		b.must(b.Client.Get(b.Context(), client.ObjectKey{Name: b.zone}, &zone))
		if zone.Status.Intensity == nil || len(zone.Status.Forecast) != 48 || zone.Status.Source == "" || meta.IsStatusConditionTrue(zone.Status.Conditions, "Stale") {
			t.Errorf("status of the zone: %+v", zone.Status)
		}
	})
}

// TestWindowPlannerStartsTheJob: the method of Piontek et al. as the policy's planner, with a parameter: the Job starts in the cleanest
// window of its day.
func TestWindowPlannerStartsTheJob(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "window", Parameters: map[string]string{"window-frame": "4h"}}
	}, func(b *bed) {
		b.Controller()
		b.submit("shifted", map[string]string{v1alpha1.AnnotationMaxDelay: "22h"})
		b.untilDecided("shifted", "CleanerLater")
		b.Until("the Job to start", func() bool { return b.get("shifted").Status.StartTime != nil })
		b.starts("shifted", 8)
		if reason := b.decision("shifted"); reason != "CleanNow" {
			t.Errorf("released for %q, want CleanNow", reason)
		}
	})
}

// TestInvalidAnnotationsReleaseAtOnce: the Job runs, and a warning names field, value and accepted form.
func TestInvalidAnnotationsReleaseAtOnce(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		invalid := map[string][2]string{
			"runtime":       {v1alpha1.AnnotationRuntime, "soon"},
			"max-delay":     {v1alpha1.AnnotationMaxDelay, "-3h"},
			"deadline":      {v1alpha1.AnnotationDeadline, "tomorrow"},
			"interruptible": {v1alpha1.AnnotationInterruptible, "maybe"},
		}
		for name, annotation := range invalid {
			b.submit(name, map[string]string{annotation[0]: annotation[1]})
		}
		b.Run(15 * time.Second)
		for name, annotation := range invalid {
			told := b.events(name)
			if b.suspended(name) || !strings.Contains(told, "Warning InvalidAnnotation") || !strings.Contains(told, annotation[0]) ||
				!strings.Contains(told, `"`+annotation[1]+`"`) || !strings.Contains(told, "accepted:") {
				t.Errorf("%s: suspended %v, events:\n%s", name, b.suspended(name), told)
			}
		}
	})
}

// TestShadowModeOnlyRecords: nothing is held, and the Job says what would have been decided.
func TestShadowModeOnlyRecords(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Mode = v1alpha1.ModeShadow }, func(b *bed) {
		b.Controller()
		if *b.submit("shadow", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}).Spec.Suspend {
			t.Fatal("held in Shadow mode")
		}
		b.Always(time.Second, func() error { return b.neverSuspended("shadow") })
		b.untilDecided("shadow", "CleanerLater")
		b.Until("the event", func() bool { return strings.Contains(b.events("shadow"), "WouldWait") })
		b.Until("the Job to finish", func() bool { return b.finished("shadow") })
		b.starts("shadow", 0)
	})
}

// TestInterruptibleJobPausesInDirtyHours: an Indexed Job starts in the clean first hours, pauses when they end, resumes
// and keeps what it had done.
func TestInterruptibleJobPausesInDirtyHours(t *testing.T) {
	hourly := make([]float64, 24)
	for h := range hourly {
		hourly[h] = 100
		if h >= 3 && h < 8 {
			hourly[h] = 900
		}
	}
	onBed(t, hourly, nil, func(b *bed) {
		b.Controller()
		job := b.job("chunks", map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationRuntime: "8h", v1alpha1.AnnotationMaxDelay: "20h"})
		job.Spec.Template.Annotations["lab.lull.dev/runtime"] = "2h"
		indexed := batchv1.IndexedCompletion
		job.Spec.CompletionMode, job.Spec.Completions, job.Spec.Parallelism = &indexed, new(int32(4)), new(int32(1))
		b.Create(job)
		b.Until("the Job to be paused", func() bool { return b.get("chunks").Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldPaused })
		if now := b.gridTime(time.Now()); now.Before(at(2)) || now.After(at(3).Add(3*minute)) {
			t.Errorf("paused at %s, want the last clean hour, 02:00 to 03:00", now.Format("15:04"))
		}
		if done := b.get("chunks").Status.Succeeded; done != 1 {
			t.Errorf("%d parts done before the pause, want 1", done)
		}
		b.Until("the Job to resume", func() bool { return !b.suspended("chunks") })
		b.Run(2 * time.Second)
		b.starts("chunks", 8)
		b.Until("the Job to finish", func() bool { return b.finished("chunks") })
		if told := b.events("chunks"); !strings.Contains(told, "Pause") || !strings.Contains(told, "Resume") {
			t.Errorf("events:\n%s", told)
		}
		if n := b.get("chunks").Status.Succeeded; n != 4 {
			t.Errorf("%d completions, want 4", n)
		}
	})
}

// TestDeletedPolicyReleases: no Job stays held by a policy that is gone.
func TestDeletedPolicyReleases(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		b.submit("orphan", map[string]string{v1alpha1.AnnotationMaxDelay: "40h"})
		b.untilDecided("orphan", "CleanerLater")
		b.must(b.Client.Delete(b.Context(), b.policy()))
		b.Until("the Job to be released", func() bool { return !b.suspended("orphan") && b.decision("orphan") == "PolicyGone" })
		if now := b.gridTime(time.Now()); now.After(at(1)) {
			t.Errorf("released at %s", now.Format("15:04"))
		}
	})
}

// TestMissingZoneAndRefusedPlannerHoldNothing: a policy that cannot decide says so in its status, and its Jobs run.
func TestMissingZoneAndRefusedPlannerHoldNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*v1alpha1.CarbonPolicy)
		message string
	}{
		"zone":    {func(p *v1alpha1.CarbonPolicy) { p.Spec.Zone = "atlantis" }, `no GridZone "atlantis"`},
		"planner": {func(p *v1alpha1.CarbonPolicy) { p.Spec.Planner.Name = "exact" }, `does not allow planner "exact"`},
	} {
		t.Run(name, func(t *testing.T) {
			onBed(t, dirtyThenClean(), tc.change, func(b *bed) {
				b.Controller()
				b.submit("job", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
				b.Run(time.Minute)
				if b.suspended("job") {
					t.Error("held")
				}
				c := meta.FindStatusCondition(b.policy().Status.Conditions, "Ready")
				if c == nil || c.Status != "False" || !strings.Contains(c.Message, tc.message) {
					t.Errorf("status %+v, want %q", c, tc.message)
				}
			})
		})
	}
}

// TestUnreadableSourceOpensHolds: a zone whose source cannot be read says why; after a short patience its Jobs run, and once the
// source can be read Jobs wait again.
func TestUnreadableSourceOpensHolds(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Zone = "broken" }, func(b *bed) {
		b.Controller()
		zone := &v1alpha1.GridZone{
			ObjectMeta: metav1.ObjectMeta{Name: "broken"},
			Spec: v1alpha1.GridZoneSpec{
				Zone:   "TEST",
				Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: b.ns, Name: "absent", Key: "s.csv"}},
			},
		}
		b.Create(zone)
		b.submit("blind", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		ready := func() (status, message string) {
			b.must(b.Client.Get(b.Context(), client.ObjectKey{Name: "broken"}, zone))
			if c := meta.FindStatusCondition(zone.Status.Conditions, "Ready"); c != nil {
				return string(c.Status), c.Message
			}
			return "", ""
		}
		b.Until("the zone to say what is wrong", func() bool {
			status, message := ready()
			return status == "False" && strings.Contains(message, `"absent" not found`)
		})
		b.Until("the Job to run", func() bool { return !b.suspended("blind") && b.decision("blind") == "NoCarbonData" })
		_, _ = ready()
		zone.Spec.Source.ConfigMap.Name = "series"
		zone.Spec.Replay = &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Epoch: &metav1.Time{Time: time.Now()}, Factor: factor}
		b.must(b.Client.Update(b.Context(), zone))
		b.Until("the zone to recover", func() bool { status, _ := ready(); return status == "True" })
		b.submit("seeing", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.untilDecided("seeing", "CleanerLater")
	})
}

// TestUserResumesByHand: a Job that its user releases by hand runs, and is not held again.
func TestUserResumesByHand(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		b.submit("impatient", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		b.untilDecided("impatient", "CleanerLater")
		b.Patch(b.get("impatient"), `{"spec":{"suspend":false}}`)
		b.Always(time.Second, func() error { return b.neverSuspended("impatient") })
		b.Until("the Job to finish", func() bool { return b.finished("impatient") })
		b.starts("impatient", 0)
	})
}
