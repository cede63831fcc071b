//go:build integration

package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/loopback"
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

// TestJobsWaitForCleanPower follows one Job of each sort through a dirty day, whose clean hours begin when the test has seen
// all that goes before. TestJobsWaitForCleanPower of test/controlloop checks the hours at which they start.
func TestJobsWaitForCleanPower(t *testing.T) {
	startController(t)
	b := newStandingBed(t, dirtyThenClean(), nil)
	held := b.job("held", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
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
	b.eventually("the other governed Jobs to finish", func() bool { return b.finished("tight") && b.finished("critical") && b.finished("other") })
	if !b.suspended("held") {
		t.Error("the held Job was released in the dirty hours")
	}
	b.jump(8)
	b.eventually("the held Job to finish", func() bool { return b.finished("held") })
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

// TestControllerKilled: kill -9 in the middle of a run, twice; the same Jobs finish. TestControllerKilled and
// TestKilledFiftyTimes of test/controlloop check that no deadline is missed.
func TestControllerKilled(t *testing.T) {
	controllerProcess := startController(t)
	hourly := slices.Repeat([]float64{500}, 48)
	hourly[8], hourly[9], hourly[24], hourly[25] = 200, 200, 100, 100
	b := newStandingBed(t, hourly, nil)
	const jobs = 12
	name := func(i int) string { return fmt.Sprintf("job-%d", i) }
	for i := range jobs { // the first half must run in the first clean hours, the others wait for the second
		deadline := gridStart.Add(20 * time.Hour)
		if i >= jobs/2 {
			deadline = gridStart.Add(40 * time.Hour)
		}
		b.submit(b.job(name(i), map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339)}))
	}
	released := func() (n int) {
		for i := range jobs {
			if !b.suspended(name(i)) {
				n++
			}
		}
		return n
	}
	kill := func() {
		t.Helper()
		must(t, controllerProcess.Process.Signal(syscall.SIGKILL))
		_ = controllerProcess.Wait()
		t.Logf("killed the controller after %d of %d releases", released(), jobs)
		for i := jobs / 2; i < jobs; i++ {
			if !b.suspended(name(i)) {
				t.Errorf("%s was released before its clean hours", name(i))
			}
		}
		controllerProcess = startController(t)
	}
	b.eventually("decisions", func() bool {
		for i := range jobs {
			if b.decision(name(i)) != "CleanerLater" {
				return false
			}
		}
		return true
	})
	kill()
	if n := released(); n > 0 {
		t.Errorf("%d Jobs were released in the dirty hours", n)
	}
	b.jump(8)
	b.eventually("the restarted controller to release a Job", func() bool { return released() > 0 })
	kill()
	for i := range jobs / 2 {
		b.eventually(name(i)+" to finish", func() bool { return b.finished(name(i)) })
	}
	b.jump(24)
	for i := jobs / 2; i < jobs; i++ {
		b.eventually(name(i)+" to finish", func() bool { return b.finished(name(i)) })
	}
}

// TestEndpointsAndLeaderElection: a controller that elects a leader holds the
// lease with the rights it is given, decides, and serves health and metrics.
func TestEndpointsAndLeaderElection(t *testing.T) {
	metricsAddress, healthAddress := freeAddress(t), freeAddress(t)
	startController(t, "--leader-elect=true", "--metrics-bind-address", metricsAddress, "--health-probe-bind-address", healthAddress)
	b := newBed(t, dirtyLong(), nil)
	b.submit(b.job("job", map[string]string{v1alpha1.AnnotationMaxDelay: "94h"}))
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
		for by := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			if resp, err := http.Get("http://" + health + "/readyz"); err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return
				}
			}
			if time.Now().After(by) {
				t.Fatal("the controller did not become ready")
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
	address, err := loopback.FreeAddress()
	must(t, err)
	return address
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

// TestAPIServerNamesInvalidFields: the API server refuses what makes no sense, naming the field.
func TestAPIServerNamesInvalidFields(t *testing.T) {
	ctx := context.Background()
	zone := func(change func(*v1alpha1.GridZoneSpec)) client.Object {
		z := &v1alpha1.GridZone{}
		z.Name = "itself"
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
		"another GridZone":        zone(func(s *v1alpha1.GridZoneSpec) { s.Beside = "itself" }),
		"spec.mode":               policy(func(s *v1alpha1.CarbonPolicySpec) { s.Mode = "Hope" }),
		"spec.power.pue":          policy(func(s *v1alpha1.CarbonPolicySpec) { s.Power.PUE = 0.5 }),
		"spec.power.wattsPerUnit": policy(func(s *v1alpha1.CarbonPolicySpec) { s.Power.WattsPerUnit = map[string]float64{"cpu": -1} }),
	} {
		if err := env.client.Create(ctx, obj, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal that names %q, got %v", want, err)
		}
	}
}
