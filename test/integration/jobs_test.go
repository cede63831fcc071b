//go:build integration

package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// dirtyThenClean is dirty for eight hours and clean for sixteen.
func dirtyThenClean() []float64 {
	out := make([]float64, 24)
	for h := range out {
		out[h] = 500
		if h >= 8 {
			out[h] = 100
		}
	}
	return out
}

// dirtyDay is dirty for sixteen hours, 64 seconds, and clean for the rest of its two days: a busy machine has time to
// decide before the clean hours begin.
func dirtyDay() []float64 {
	out := make([]float64, 48)
	for h := range out {
		out[h] = 500
		if h >= 16 {
			out[h] = 100
		}
	}
	return out
}

// TestJobsWaitForCleanPower follows one Job of each sort through a dirty day. How fast the controller is decides nothing.
func TestJobsWaitForCleanPower(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyDay(), nil)
	held := b.job("held", map[string]string{v1alpha1.AnnotationMaxDelay: "40h"})
	b.submit(held)
	if held.Spec.Suspend == nil || !*held.Spec.Suspend || held.Annotations[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission {
		t.Fatalf("not held at creation: %+v", held.Annotations)
	}
	tight := b.job("tight", map[string]string{v1alpha1.AnnotationMaxDelay: "PT3H"})
	b.submit(tight)
	critical := b.job("critical", nil)
	critical.Spec.Template.Spec.PriorityClassName = "urgent"
	b.submit(critical)
	other := b.job("other", nil)
	other.Labels = nil
	b.submit(other)
	yes := true
	mine := b.job("mine", nil)
	mine.Spec.Suspend = &yes
	b.submit(mine)
	for _, j := range []*batchv1.Job{critical, other} {
		if *j.Spec.Suspend {
			t.Errorf("%s is held", j.Name)
		}
	}

	b.eventually("a decision on the held Job", func() bool { return b.decision("held") == "CleanerLater" })
	if b.get("held").Annotations[v1alpha1.AnnotationLatestStart] == "" {
		t.Error("a held Job does not carry its latest start")
	}
	// Three hours of slack lie inside the dirty hours: the Job gains nothing by waiting, so it does not wait for "held".
	b.eventually("the Job without a gain to start", func() bool { return b.get("tight").Status.StartTime != nil })
	if !b.suspended("held") {
		t.Error("the held Job was released with the one that gains nothing by waiting")
	}
	b.eventually("all governed Jobs to finish", func() bool {
		return b.finished("held") && b.finished("tight") && b.finished("critical") && b.finished("other")
	})
	if at := b.gridTime(b.get("held").Status.StartTime.Time); at.Before(gridStart.Add(15*time.Hour + 40*time.Minute)) {
		t.Errorf("the held Job started at %s of the series, want the clean hours from 16:00", at.Format("15:04"))
	}
	t.Logf("events of the held Job:\n%s", b.events("held"))
	if reason := b.decision("held"); reason != "CleanNow" {
		t.Errorf("released for %q, want CleanNow", reason)
	}
	for _, name := range []string{"held", "tight"} {
		if b.get(name).Annotations[v1alpha1.AnnotationHold] != "" {
			t.Errorf("%s still carries a hold", name)
		}
	}
	if j := b.get("mine"); !*j.Spec.Suspend || j.Annotations[v1alpha1.AnnotationPolicy] != "" {
		t.Error("a Job that its user suspended was touched")
	}
	b.eventually("events", func() bool {
		reasons := b.events("held")
		return strings.Contains(reasons, "Wait") && strings.Contains(reasons, "Release")
	})
	var policy v1alpha1.CarbonPolicy
	b.eventually("the policy's status", func() bool {
		must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "clean"}, &policy))
		return policy.Status.Waiting == 0 && policy.Status.Finished == 3 && meta.IsStatusConditionTrue(policy.Status.Conditions, "Ready")
	})
	var zone v1alpha1.GridZone
	must(t, env.client.Get(context.Background(), client.ObjectKey{Name: b.zone}, &zone))
	if zone.Status.Intensity == nil || len(zone.Status.Forecast) != 48 || zone.Status.Source == "" || meta.IsStatusConditionTrue(zone.Status.Conditions, "Stale") {
		t.Errorf("status of the zone: %+v", zone.Status)
	}
}

// TestWindowPlanner: the method of Piontek et al. as the policy's planner, with
// a parameter: the Job starts in the cleanest window of its day.
func TestWindowPlanner(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "window", Parameters: map[string]string{"window-frame": "4h"}}
	})
	b.submit(b.job("shifted", map[string]string{v1alpha1.AnnotationMaxDelay: "22h"}))
	b.eventually("a decision", func() bool { return b.decision("shifted") == "CleanerLater" })
	b.eventually("the Job to start", func() bool { return b.get("shifted").Status.StartTime != nil })
	if at := b.gridTime(b.get("shifted").Status.StartTime.Time); at.Before(gridStart.Add(7*time.Hour+40*time.Minute)) || at.After(gridStart.Add(12*time.Hour)) {
		t.Errorf("started at %s of the series, want the window from 08:00", at.Format("15:04"))
	}
	if reason := b.decision("shifted"); reason != "CleanNow" {
		t.Errorf("released for %q, want CleanNow", reason)
	}
}

// events lists the reasons and notes of a Job's events by Lull.
func (b bed) events(job string) string {
	var list eventsv1.EventList
	must(b.t, env.client.List(context.Background(), &list, client.InNamespace(b.ns)))
	out := ""
	for _, e := range list.Items {
		if e.Regarding.Name == job && e.ReportingController == "lull" {
			out += fmt.Sprintf("%s %s: %s\n", e.Type, e.Reason, e.Note)
		}
	}
	return out
}

// TestInvalidAnnotationsReleaseAtOnce: the Job runs, and a warning names field,
// value and accepted form.
func TestInvalidAnnotationsReleaseAtOnce(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyThenClean(), nil)
	for name, annotation := range map[string][2]string{
		"runtime":       {v1alpha1.AnnotationRuntime, "soon"},
		"max-delay":     {v1alpha1.AnnotationMaxDelay, "-3h"},
		"deadline":      {v1alpha1.AnnotationDeadline, "tomorrow"},
		"interruptible": {v1alpha1.AnnotationInterruptible, "maybe"},
	} {
		b.submit(b.job(name, map[string]string{annotation[0]: annotation[1]}))
		b.eventually(name+" to be released with a warning", func() bool {
			told := b.events(name)
			return !b.suspended(name) && strings.Contains(told, "Warning InvalidAnnotation") &&
				strings.Contains(told, annotation[0]) && strings.Contains(told, `"`+annotation[1]+`"`) && strings.Contains(told, "accepted:")
		})
	}
}

// TestShadowModeOnlyRecords: nothing is held, and the Job says what would have
// been decided.
func TestShadowModeOnlyRecords(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Mode = v1alpha1.ModeShadow })
	job := b.job("shadow", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
	b.submit(job)
	if *job.Spec.Suspend {
		t.Fatal("held in Shadow mode")
	}
	b.eventually("the record", func() bool {
		return b.decision("shadow") == "CleanerLater" && strings.Contains(b.events("shadow"), "WouldWait")
	})
	b.eventually("the Job to finish", func() bool { return b.finished("shadow") })
	if b.suspended("shadow") {
		t.Error("suspended in Shadow mode")
	}
}

// TestInterruptibleJobPausesInDirtyHours: an Indexed Job starts in the clean
// first hours, pauses when they end, resumes and keeps what it had done.
func TestInterruptibleJobPausesInDirtyHours(t *testing.T) {
	startController(t)
	hourly := make([]float64, 24)
	for h := range hourly {
		hourly[h] = 100
		if h >= 6 && h < 11 { // a busy machine takes hours of the zone's time to start the first part
			hourly[h] = 900
		}
	}
	b := newBed(t, hourly, nil)
	job := b.job("chunks", map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationRuntime: "8h", v1alpha1.AnnotationMaxDelay: "20h"})
	job.Spec.Template.Annotations["lab.lull.dev/runtime"] = "2h"
	indexed, completions, one := batchv1.IndexedCompletion, int32(4), int32(1)
	job.Spec.CompletionMode, job.Spec.Completions, job.Spec.Parallelism = &indexed, &completions, &one
	b.submit(job)
	b.eventually("the Job to be paused", func() bool { return b.get("chunks").Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldPaused })
	done := b.get("chunks").Status.Succeeded
	if done == 0 {
		t.Error("nothing was done before the pause")
	}
	b.eventually("the Job to resume and finish", func() bool { return b.finished("chunks") })
	told := b.events("chunks")
	if !strings.Contains(told, "Pause") || !strings.Contains(told, "Resume") {
		t.Errorf("events:\n%s", told)
	}
	if n := b.get("chunks").Status.Succeeded; n != 4 {
		t.Errorf("%d completions, want 4", n)
	}
}

// TestDeletedPolicyReleases: no Job stays held by a policy that is gone.
func TestDeletedPolicyReleases(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyThenClean(), nil)
	b.submit(b.job("orphan", map[string]string{v1alpha1.AnnotationMaxDelay: "40h"}))
	b.eventually("a decision", func() bool { return b.decision("orphan") == "CleanerLater" })
	var policy v1alpha1.CarbonPolicy
	must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "clean"}, &policy))
	must(t, env.client.Delete(context.Background(), &policy))
	b.eventually("the Job to be released", func() bool { return !b.suspended("orphan") && b.decision("orphan") == "PolicyGone" })
}

// TestMissingZoneAndRefusedPlannerHoldNothing: a policy that cannot decide says
// so in its status, and its Jobs run.
func TestMissingZoneAndRefusedPlannerHoldNothing(t *testing.T) {
	startController(t)
	for name, tc := range map[string]struct {
		change  func(*v1alpha1.CarbonPolicy)
		message string
	}{
		"zone":    {func(p *v1alpha1.CarbonPolicy) { p.Spec.Zone = "atlantis" }, `no GridZone "atlantis"`},
		"planner": {func(p *v1alpha1.CarbonPolicy) { p.Spec.Planner.Name = "exact" }, `does not allow planner "exact"`},
	} {
		b := newBed(t, dirtyThenClean(), tc.change)
		b.submit(b.job("job", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
		b.eventually(name+": the Job to be released", func() bool { return !b.suspended("job") })
		b.eventually(name+": the status to say why", func() bool {
			var policy v1alpha1.CarbonPolicy
			must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "clean"}, &policy))
			c := meta.FindStatusCondition(policy.Status.Conditions, "Ready")
			return c != nil && c.Status == "False" && strings.Contains(c.Message, tc.message)
		})
	}
}

// TestUnreadableSource: a zone whose source cannot be read says why; after a
// short patience its Jobs run, and once the source can be read Jobs wait again.
func TestUnreadableSource(t *testing.T) {
	startController(t)
	ctx := context.Background()
	broken := fmt.Sprintf("broken-%d", time.Now().UnixNano())
	b := newBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Zone = broken })
	zone := &v1alpha1.GridZone{
		ObjectMeta: metav1.ObjectMeta{Name: broken},
		Spec: v1alpha1.GridZoneSpec{
			Zone:   "TEST",
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: b.ns, Name: "absent", Key: "s.csv"}},
		},
	}
	must(t, env.client.Create(ctx, zone))
	t.Cleanup(func() { _ = env.client.Delete(ctx, zone) })
	b.submit(b.job("blind", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	ready := func() (status, message string) {
		must(t, env.client.Get(ctx, client.ObjectKey{Name: broken}, zone))
		if c := meta.FindStatusCondition(zone.Status.Conditions, "Ready"); c != nil {
			return string(c.Status), c.Message
		}
		return "", ""
	}
	b.eventually("the zone to say what is wrong", func() bool {
		status, message := ready()
		return status == "False" && strings.Contains(message, `"absent" not found`)
	})
	b.eventually("the Job to run", func() bool { return !b.suspended("blind") && b.decision("blind") == "NoCarbonData" })
	b.eventually("the source to be mended", func() bool {
		_, _ = ready()
		zone.Spec.Source.ConfigMap.Name = "series"
		zone.Spec.Replay = &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Epoch: &metav1.Time{Time: time.Now()}, Factor: factor}
		return env.client.Update(ctx, zone) == nil
	})
	b.eventually("the zone to recover", func() bool { status, _ := ready(); return status == "True" })
	b.submit(b.job("seeing", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	b.eventually("a decision", func() bool { return b.decision("seeing") == "CleanerLater" })
}

// TestUserResumesByHand: a Job that its user releases by hand runs, and is not
// held again.
func TestUserResumesByHand(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyThenClean(), nil)
	b.submit(b.job("impatient", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	b.eventually("a decision", func() bool { return b.decision("impatient") == "CleanerLater" })
	job := b.get("impatient")
	must(t, env.client.Patch(context.Background(), job, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))))
	b.eventually("the Job to finish", func() bool { return b.finished("impatient") })
}

// TestControllerKilled: kill -9 in the middle of a run, twice; the same Jobs
// finish and no deadline is missed.
func TestControllerKilled(t *testing.T) {
	controllerProcess := startController(t)
	b := newBed(t, dirtyDay(), func(p *v1alpha1.CarbonPolicy) {
		p.Spec.StartMargin = &metav1.Duration{Duration: 15 * time.Hour} // a minute, for a restart on a busy machine
	})
	const jobs = 12
	name := func(i int) string { return fmt.Sprintf("job-%d", i) }
	deadline := func(i int) time.Time { return gridStart.Add(time.Duration(20+4*i) * time.Hour) }
	for i := range jobs {
		j := b.job(name(i), map[string]string{v1alpha1.AnnotationDeadline: deadline(i).Format(time.RFC3339)})
		j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("6") // two a node
		b.submit(j)
	}
	released := func() int {
		n := 0
		for i := range jobs {
			if !b.suspended(name(i)) {
				n++
			}
		}
		return n
	}
	b.eventually("decisions", func() bool { return b.decision(name(jobs-1)) != "" })
	kill := func() {
		must(t, controllerProcess.Process.Signal(syscall.SIGKILL))
		_ = controllerProcess.Wait()
		n := released()
		t.Logf("killed the controller after %d of %d releases", n, jobs)
		if n == jobs {
			t.Error("the controller was killed after its last release")
		}
		controllerProcess = startController(t)
	}
	kill()
	before := released()
	b.eventually("the restarted controller to release a Job", func() bool { return released() > before })
	kill()
	for i := range jobs {
		b.eventually(name(i)+" to finish", func() bool { return b.finished(name(i)) })
		if at := b.gridTime(b.get(name(i)).Status.CompletionTime.Time); at.After(deadline(i)) {
			t.Errorf("%s finished at %s of the series, its deadline is %s", name(i), at, deadline(i))
		}
	}
}

// TestEndpointsAndLeaderElection: a controller that elects a leader holds the
// lease with the rights it is given, decides, and serves health and metrics.
func TestEndpointsAndLeaderElection(t *testing.T) {
	metricsAddress, healthAddress := freeAddress(t), freeAddress(t)
	startController(t, "--leader-elect=true", "--metrics-bind-address", metricsAddress, "--health-probe-bind-address", healthAddress)
	b := newBed(t, dirtyThenClean(), nil)
	b.submit(b.job("job", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	b.eventually("a decision", func() bool { return b.decision("job") == "CleanerLater" })
	var lease coordinationv1.Lease
	must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: "lull-system", Name: "controller.lull.dev"}, &lease))
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Error("nobody holds the lease")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := get(t, "http://"+healthAddress+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	_, body := get(t, "http://"+metricsAddress+"/metrics")
	for _, want := range []string{
		`lull_zone_carbon_intensity_gco2eq_per_kwh{zone="` + b.zone + `"} 500`, `lull_zone_stale{zone="` + b.zone + `"} 0`,
		`lull_policy_jobs{namespace="` + b.ns + `",policy="clean",state="waiting"} 1`,
		`lull_actions_total{reason="CleanerLater",verb="Wait"}`, "lull_decision_duration_seconds_count",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestReadyWithPage: the moment that a controller is ready its page can be asked for; one that cannot be served
// keeps nobody from being ready.
func TestReadyWithPage(t *testing.T) {
	ready := func(flags ...string) {
		t.Helper()
		health := freeAddress(t)
		startController(t, append(flags, "--health-probe-bind-address", health)...)
		for by := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if resp, err := http.Get("http://" + health + "/readyz"); err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return
				}
			}
			if time.Now().After(by) {
				t.Fatal("not ready in a minute")
			}
		}
	}
	page := freeAddress(t)
	ready("--web-bind-address", page)
	if status, body := get(t, "http://"+page+"/api/overview"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	missing := filepath.Join(t.TempDir(), "tls")
	ready("--web-bind-address", freeAddress(t), "--web-tls-cert-file", missing+".crt", "--web-tls-private-key-file", missing+".key")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(body)
}

// TestValidation: the API server refuses what makes no sense, naming the field.
func TestValidation(t *testing.T) {
	ctx := context.Background()
	zone := func(change func(*v1alpha1.GridZoneSpec)) client.Object {
		z := &v1alpha1.GridZone{}
		z.GenerateName = "bad-"
		z.Spec = v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{File: &v1alpha1.FileSource{Path: "/data/de.csv"}}}
		change(&z.Spec)
		return z
	}
	policy := func(change func(*v1alpha1.CarbonPolicySpec)) client.Object {
		p := &v1alpha1.CarbonPolicy{}
		p.GenerateName, p.Namespace = "bad-", "default"
		p.Spec = v1alpha1.CarbonPolicySpec{Zone: "de"}
		change(&p.Spec)
		return p
	}
	if err := env.client.Create(ctx, zone(func(*v1alpha1.GridZoneSpec) {}), client.DryRunAll); err != nil {
		t.Fatalf("the zone the others are made from: %v", err)
	}
	if err := env.client.Create(ctx, policy(func(*v1alpha1.CarbonPolicySpec) {}), client.DryRunAll); err != nil {
		t.Fatalf("the policy the others are made from: %v", err)
	}
	for want, obj := range map[string]client.Object{
		"exactly one of the fields": zone(func(s *v1alpha1.GridZoneSpec) {
			s.Source.ConfigMap = &v1alpha1.ConfigMapKey{Namespace: "a", Name: "b", Key: "c.csv"}
		}),
		"in [zone cloudRegion]":   zone(func(s *v1alpha1.GridZoneSpec) { s.Zone = "" }),
		"spec.source.file":        zone(func(s *v1alpha1.GridZoneSpec) { s.Source.File.Path = "relative.csv" }),
		"spec.signal":             zone(func(s *v1alpha1.GridZoneSpec) { s.Signal = "Median" }),
		"spec.replay.factor":      zone(func(s *v1alpha1.GridZoneSpec) { s.Replay = &v1alpha1.Replay{Factor: 2_000_000} }),
		"spec.mode":               policy(func(s *v1alpha1.CarbonPolicySpec) { s.Mode = "Hope" }),
		"spec.power.pue":          policy(func(s *v1alpha1.CarbonPolicySpec) { s.Power.PUE = 0.5 }),
		"spec.power.wattsPerUnit": policy(func(s *v1alpha1.CarbonPolicySpec) { s.Power.WattsPerUnit = map[string]float64{"cpu": -1} }),
	} {
		if err := env.client.Create(ctx, obj, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal that names %q, got %v", want, err)
		}
	}
}
