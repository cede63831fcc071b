//go:build integration && fleet

package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/controller"
)

// spokes are the clients of the spokes of a lab, by name.
func spokes(t *testing.T, dir string, n int) map[string]client.Client {
	t.Helper()
	scheme, err := controller.NewScheme()
	must(t, err)
	out := map[string]client.Client{}
	for i := range n {
		name := fmt.Sprintf("spoke-%d", i+1)
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "spokes", name, "kubeconfig"))
		must(t, err)
		c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
		must(t, err)
		out[name] = c
	}
	return out
}

func createZone(t *testing.T, name string, spec v1alpha1.GridZoneSpec) {
	t.Helper()
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	must(t, env.client.Create(context.Background(), zone))
	t.Cleanup(func() { _ = env.client.Delete(context.Background(), zone) })
}

// zoneBeside makes a zone of hourly intensities that begins when that of the bed does.
func (b bed) zoneBeside(name string, hourly []float64) {
	b.t.Helper()
	ctx := context.Background()
	csv := "time,intensity_gco2eq_per_kwh\n"
	for h := range 96 {
		csv += fmt.Sprintf("%s,%g\n", gridStart.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), hourly[h%len(hourly)])
	}
	var zone v1alpha1.GridZone
	must(b.t, env.client.Get(ctx, client.ObjectKey{Name: b.zone}, &zone))
	epoch := zone.CreationTimestamp
	must(b.t, env.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns}, Data: map[string]string{"s.csv": csv}}))
	createZone(b.t, name, v1alpha1.GridZoneSpec{
		Zone:   "TEST",
		Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: b.ns, Name: name, Key: "s.csv"}},
		Replay: &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Factor: factor, Epoch: &epoch},
	})
}

// cluster makes a ComputeCluster of a spoke, with a zone of hourly intensities that begins
// when that of the bed does.
func (b bed) cluster(name string, hourly []float64) {
	b.t.Helper()
	ctx := context.Background()
	b.zoneBeside(name, hourly)
	cc := &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ComputeClusterSpec{
		Zone: name, Access: v1alpha1.ClusterAccess{MultiKueueCluster: name}, Queue: "lab",
		Refresh: &metav1.Duration{Duration: time.Second}, StaleAfter: &metav1.Duration{Duration: patience}, // none is lost for being slow
	}}
	must(b.t, env.client.Create(ctx, cc))
	b.t.Cleanup(func() { _ = env.client.Delete(ctx, cc) })
	b.eventually("the cluster "+name+" to be known", func() bool {
		must(b.t, env.client.Get(ctx, client.ObjectKey{Name: name}, cc))
		return meta.IsStatusConditionFalse(cc.Status.Conditions, v1alpha1.ConditionStale) && cc.Status.Intensity != nil
	})
}

// TestFleet: one hub with three spokes for all that need one.
func TestFleet(t *testing.T) {
	dir := queueLab(t, "--spokes", "3", "--gpus", "4", "--restart")
	at := spokes(t, dir, 3)
	for _, x := range []struct {
		name string
		run  func(t *testing.T, dir string, at map[string]client.Client)
	}{
		{"sends work where it is clean", sendsWorkWhereItIsClean},
		{"pauses and moves", pausesAndMoves},
		{"scales there", scalesThere},
		{"cluster lost", clusterLost},
		{"failsafe", fleetFailsafe},
		{"services", servicesFollow},
		{"faults", fleetFaults}, // takes nodes away
	} {
		t.Run(x.name, func(t *testing.T) {
			x.run(t, dir, at)
			nominationsAreCleared(t)
		})
	}
}

// nominationsAreCleared: where the API server has no admission policies, it is Lull's webhook that clears what was nominated when Kueue says that a cluster has taken a Workload. The API server
// counts how often it has asked; what kills the API server, or sends no Workload, says nothing.
func nominationsAreCleared(t *testing.T) {
	t.Helper()
	if older() == "" || t.Failed() || strings.HasSuffix(t.Name(), "faults") || strings.HasSuffix(t.Name(), "services") {
		return
	}
	if n := askedOf(t, kinds.NominationsName).calls; n == 0 {
		t.Error("Workloads have gone to clusters, and the API server has never asked Lull's webhook for nominations")
	} else {
		t.Logf("the API server has asked %.0f times to clear nominations", n)
	}
}

// sendsWorkWhereItIsClean: Jobs of a hub run when and where it is clean, one cluster each; one that
// must stay in a zone stays there.
func sendsWorkWhereItIsClean(t *testing.T, _ string, at map[string]client.Client) {
	startController(t)
	// The first spoke is clean from hour 12 on, the second cleaner from hour 20 on. A slow machine decides within the 48 s before.
	first, second, home := make([]float64, 96), make([]float64, 96), make([]float64, 96)
	for h := range home {
		first[h], second[h], home[h] = 500, 520, 510
		if h >= 12 {
			first[h] = 100
		}
		if h >= 20 {
			second[h] = 50
		}
	}
	b := newBed(t, home, noReserve(nil))
	ctx := context.Background()
	b.onSpokes(at)
	b.cluster("spoke-1", first)
	b.cluster("spoke-2", second)
	var cc v1alpha1.ComputeCluster
	must(t, env.client.Get(ctx, client.ObjectKey{Name: "spoke-1"}, &cc))
	if cc.Status.Capacity["nvidia.com/gpu"] != 8 || cc.Status.Capacity["cpu"] != 32 || cc.Status.Nodes != 2 {
		t.Errorf("spoke-1 offers %v on %d nodes; want 8 GPUs and 32 CPUs on 2", cc.Status.Capacity, cc.Status.Nodes)
	}
	b.inQueue("spoke-1", "spoke-2")
	by := func(hour int) string { return gridStart.Add(time.Duration(hour) * time.Hour).Format(time.RFC3339) }
	b.submit(b.queued("soon", map[string]string{v1alpha1.AnnotationDeadline: by(20)}))
	b.submit(b.queued("later", map[string]string{v1alpha1.AnnotationDeadline: by(40)}))
	b.submit(b.queued("stays", map[string]string{v1alpha1.AnnotationDeadline: by(40), v1alpha1.AnnotationZones: "spoke-1"}))
	b.submit(b.queued("now", map[string]string{v1alpha1.AnnotationMaxDelay: "0s"}))

	b.eventually("the plan of what runs later", func() bool { return len(b.plan("job-later").Status.Phases) > 0 })
	if text := command(t, "explain", "job/later", "-n", b.ns); !strings.Contains(text, "WHERE") || !strings.Contains(text, "as it is") || !strings.Contains(text, "spoke-2") {
		t.Errorf("lull explain does not tell where:\n%s", text)
	}

	// Where each runs, and that it never is on two.
	ran := map[string]string{}
	names := []string{"soon", "later", "stays", "now"}
	b.eventually("all to finish", func() bool {
		seen := map[string][]string{}
		for cluster, c := range at {
			var jobs batchv1.JobList
			must(t, c.List(ctx, &jobs, client.InNamespace(b.ns)))
			for i := range jobs.Items {
				seen[jobs.Items[i].Name] = append(seen[jobs.Items[i].Name], cluster)
			}
		}
		done := 0
		for _, name := range names {
			if len(seen[name]) > 1 {
				t.Errorf("%s is on %s at once", name, strings.Join(seen[name], " and "))
			}
			if len(seen[name]) == 1 {
				ran[name] = seen[name][0]
			}
			if b.finished(name) {
				done++
			}
		}
		return done == len(names)
	})
	for name, want := range map[string]string{"soon": "spoke-1", "later": "spoke-2", "stays": "spoke-1", "now": "spoke-1"} {
		if ran[name] != want {
			t.Errorf("%s ran on %q; want %s", name, ran[name], want)
		}
	}
	for name, hours := range map[string][2]float64{"soon": {11.5, 20}, "stays": {11.5, 40}, "later": {19.5, 40}} {
		if at := b.gridTime(b.get(name).Status.StartTime.Time).Sub(gridStart).Hours(); at < hours[0] || at > hours[1] {
			t.Errorf("%s ran at hour %.1f; want %v to %v", name, at, hours[0], hours[1])
		}
		if p := b.plan("job-" + name); p.Status.Cluster != ran[name] {
			t.Errorf("the plan of %s names the cluster %q; it ran on %q", name, p.Status.Cluster, ran[name])
		}
	}
}

// pausesAndMoves: an interruptible Job of a hub is paused, gives its quota back and goes
// on where it is clean then; it is never on two clusters.
func pausesAndMoves(t *testing.T, _ string, at map[string]client.Client) {
	startController(t)
	first, second, home := make([]float64, 96), make([]float64, 96), make([]float64, 96)
	for h := range home {
		first[h], second[h], home[h] = 500, 520, 510
		if h >= 10 && h < 18 {
			first[h] = 90
		}
		if h >= 26 && h < 36 {
			second[h] = 100
		}
	}
	b := newBed(t, home, noReserve(func(p *v1alpha1.CarbonPolicy) {
		p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
	}))
	b.onSpokes(at)
	b.cluster("spoke-1", first)
	b.cluster("spoke-2", second)
	b.inQueue("spoke-1", "spoke-2")
	j := b.queued("moves", map[string]string{
		v1alpha1.AnnotationMaxDelay: "60h", v1alpha1.AnnotationRuntime: "13h", v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationMigratable: "true",
	})
	// Neither cluster is clean for all thirteen hours, and both together for eighteen: a release that is 20 s late
	// still pays for a pause. Fake pods keep no checkpoints, so one runs longer than the first
	// clean hours.
	j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "8h30m"
	b.submit(j)
	ctx := context.Background()
	where := func() (on []string) {
		for cluster, c := range at {
			var job batchv1.Job
			if c.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "moves"}, &job) == nil && job.DeletionTimestamp == nil {
				on = append(on, cluster)
			}
		}
		if len(on) > 1 {
			t.Errorf("it is on %v at once", on)
		}
		return on
	}
	b.eventually("it to run on the first cluster", func() bool { on := where(); return len(on) == 1 && on[0] == "spoke-1" })
	b.eventually("it to be paused without quota", func() bool {
		w := b.workload("moves")
		return len(where()) == 0 && w != nil && !w.Active && !w.Reserved
	})
	b.eventually("it to go on at the second cluster", func() bool { on := where(); return len(on) == 1 && on[0] == "spoke-2" })
	b.eventually("it to finish", func() bool { where(); return b.finished("moves") })
}

// clusterLost: a cluster does not answer for a while. Its Job runs elsewhere,
// and what the lost cluster has kept of it is gone when it answers again, before it
// takes work anew.
func clusterLost(t *testing.T, dir string, at map[string]client.Client) {
	startController(t)
	first, second, home := make([]float64, 96), make([]float64, 96), make([]float64, 96)
	for h := range home {
		first[h], second[h], home[h] = 100, 300, 500
	}
	b := newBed(t, home, noReserve(nil))
	b.onSpokes(at)
	b.cluster("spoke-1", first)
	b.cluster("spoke-2", second)
	b.inQueue("spoke-1", "spoke-2")
	j := b.queued("lost", map[string]string{v1alpha1.AnnotationMaxDelay: "4h", v1alpha1.AnnotationRuntime: "12h"})
	j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "12h"
	b.submit(j)
	ctx := context.Background()
	has := func(cluster string) bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a stopped API server never answers; all who call this ask again
		defer cancel()
		var job batchv1.Job
		return at[cluster].Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "lost"}, &job) == nil && job.DeletionTimestamp == nil
	}
	b.eventually("it to run where it is cleanest", func() bool { return has("spoke-1") && b.get("lost").Status.Active == 1 })
	var cc v1alpha1.ComputeCluster
	must(t, env.client.Get(ctx, client.ObjectKey{Name: "spoke-1"}, &cc))
	must(t, env.client.Patch(ctx, &cc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"staleAfter":"10s"}}`)))) // from now on its loss is wanted
	server := stateOf(t, filepath.Join(dir, "spokes", "spoke-1")).Components["kube-apiserver"]
	must(t, syscall.Kill(server, syscall.SIGSTOP))
	resume := func() { _ = syscall.Kill(server, syscall.SIGCONT) }
	defer resume()
	stopped := time.Now()
	b.eventually("the cluster to be known as lost", func() bool {
		must(t, env.client.Get(ctx, client.ObjectKey{Name: "spoke-1"}, &cc))
		return meta.IsStatusConditionTrue(cc.Status.Conditions, v1alpha1.ConditionStale) && len(cc.Status.RemovedFrom) == 1
	})
	b.eventually("it to run elsewhere", func() bool { return has("spoke-2") })
	t.Logf("on another cluster %v after its own stopped", time.Since(stopped).Round(time.Second))
	// The outage itself must last: Kueue must have given the cluster up (after 5 s) and gone on without it for long.
	b.eventually("ten hours of the series to pass", func() bool { return b.gridTime(time.Now()).Sub(b.gridTime(stopped)) >= 10*time.Hour })
	resume()
	b.eventually("the cluster to take work again", func() bool {
		must(t, env.client.Get(ctx, client.ObjectKey{Name: "spoke-1"}, &cc))
		return meta.IsStatusConditionFalse(cc.Status.Conditions, v1alpha1.ConditionStale) && len(cc.Status.RemovedFrom) == 0
	})
	var left batchv1.Job
	if err := at["spoke-1"].Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "lost"}, &left); !apierrors.IsNotFound(err) && left.DeletionTimestamp == nil {
		t.Error("the lost cluster has taken work again and still has the old Job")
	}
	b.eventually("it to finish on the second cluster", func() bool {
		if has("spoke-1") && has("spoke-2") {
			t.Error("it is on both clusters")
		}
		return b.finished("lost")
	})
	if w := b.workload("lost"); w == nil || !w.Finished {
		t.Error("Kueue does not say that it has finished")
	}
}

// fleetFailsafe: with the controller gone, what is gated on a hub is released at its latest start
// and sent to a cluster where it may be.
func fleetFailsafe(t *testing.T, _ string, at map[string]client.Client) {
	controller := startController(t)
	hourly := make([]float64, 96)
	for h := range hourly {
		hourly[h] = 500 - float64(h) // later is cleaner
	}
	b := newBed(t, hourly, noReserve(nil))
	b.onSpokes(at)
	b.cluster("spoke-1", hourly)
	b.cluster("spoke-2", hourly)
	b.inQueue("spoke-1", "spoke-2")
	// Its latest start is 17 hours from now, 68 s: the controller is killed before it.
	deadline := b.gridTime(time.Now()).Add(20 * time.Hour)
	b.submit(b.queued("gated", map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339), v1alpha1.AnnotationZones: "spoke-2"}))
	b.eventually("it to know its latest start", func() bool { return b.get("gated").Annotations[v1alpha1.AnnotationLatestStart] != "" })
	must(t, controller.Process.Kill())
	failsafe(t)
	ctx := context.Background()
	b.eventually("it to finish without the controller", func() bool {
		if at["spoke-1"].Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "gated"}, &batchv1.Job{}) == nil {
			t.Error("it is on a cluster where it may not be")
		}
		return b.finished("gated")
	})
	if why := b.decision("gated"); why != "Failsafe" {
		t.Errorf("released for %q, want Failsafe", why)
	}
}

// TestFleetSecondHubIsRefused: a cluster that another hub has claimed takes no work.
func TestFleetSecondHubIsRefused(t *testing.T) {
	dir := queueLab(t, "--spokes", "1")
	at := spokes(t, dir, 1)
	ctx := context.Background()
	other, seconds, now := "another-hub", int32(300), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kueue-system", Name: "lull-hub"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &other, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	must(t, at["spoke-1"].Create(ctx, lease))
	startController(t)
	must(t, env.client.Create(ctx, &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: "spoke-1"}, Spec: v1alpha1.ComputeClusterSpec{
		Zone: "nowhere", Access: v1alpha1.ClusterAccess{MultiKueueCluster: "spoke-1"}, Queue: "lab", Refresh: &metav1.Duration{Duration: time.Second},
	}}))
	b := bed{t: t}
	var cc v1alpha1.ComputeCluster
	ready := func() *metav1.Condition {
		must(t, env.client.Get(ctx, client.ObjectKey{Name: "spoke-1"}, &cc))
		return meta.FindStatusCondition(cc.Status.Conditions, v1alpha1.ConditionReady)
	}
	b.eventually("the cluster to be refused", func() bool {
		c := ready()
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "another hub has claimed it")
	})
	if !meta.IsStatusConditionTrue(cc.Status.Conditions, v1alpha1.ConditionStale) {
		t.Error("work may be sent to a cluster of another hub")
	}
	// The other hub gives up; its claim runs out.
	must(t, at["spoke-1"].Delete(ctx, lease))
	b.eventually("the cluster to be claimed", func() bool { c := ready(); return c.Status == metav1.ConditionTrue })
	must(t, at["spoke-1"].Get(ctx, client.ObjectKeyFromObject(lease), lease))
	if *lease.Spec.HolderIdentity == other {
		t.Error("the claim names the other hub")
	}

	// Its kubeconfig is revoked: said so, and nothing is sent there.
	var secret corev1.Secret
	must(t, env.client.Get(ctx, client.ObjectKey{Namespace: "kueue-system", Name: "spoke-1"}, &secret))
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	must(t, err)
	for _, user := range config.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, "revoked"
	}
	secret.Data["kubeconfig"], err = clientcmd.Write(*config)
	must(t, err)
	must(t, env.client.Update(ctx, &secret))
	b.eventually("the cluster to be unauthorized", func() bool {
		must(t, env.client.Get(ctx, client.ObjectKey{Name: "spoke-1"}, &cc))
		c := meta.FindStatusCondition(cc.Status.Conditions, v1alpha1.ConditionReachable)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "Unauthorized" && !strings.Contains(c.Message, "revoked")
	})
}

// failsafe runs the watchdog, as beside every controller.
func failsafe(t *testing.T) {
	start(t, []string{"failsafe", "--kubeconfig", env.failsafe, "--grace", "0s", "--every", "500ms"})
}
