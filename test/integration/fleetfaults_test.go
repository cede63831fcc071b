//go:build integration && fleet

package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kueue"
)

// fleetFaults: a hub that fails in the midst of dispatching, a dispatcher that is down, and a
// cluster that has less than it had.
func fleetFaults(t *testing.T, dir string, at map[string]client.Client) {
	ctl := startController(t)
	ctx := context.Background()
	steady := func(v float64) []float64 {
		out := make([]float64, 96)
		for h := range out {
			out[h] = v
		}
		return out
	}
	b := newBed(t, steady(500), noReserve(nil))
	b.onSpokes(at)
	b.cluster("spoke-1", steady(100))
	b.cluster("spoke-2", steady(300))
	b.inQueue("spoke-1", "spoke-2")

	// Where each Job was seen, by the pods of its copies.
	seen := map[string]map[string]bool{}
	look := func() {
		for cluster, c := range at {
			var pods corev1.PodList
			must(t, c.List(ctx, &pods, client.InNamespace(b.ns)))
			for i := range pods.Items {
				job := pods.Items[i].Labels[batchv1.JobNameLabel]
				if seen[job] == nil {
					seen[job] = map[string]bool{}
				}
				seen[job][cluster+" "+string(pods.Items[i].UID)] = true
			}
		}
	}
	once := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if len(seen[name]) != 1 {
				t.Errorf("%s had %d pods: %v", name, len(seen[name]), seen[name])
			}
		}
	}

	// The hub's API server and Lull are killed while Workloads are under way.
	var names []string
	for i := range 10 {
		name := fmt.Sprintf("midst-%d", i)
		names = append(names, name)
		j := b.queued(name, map[string]string{v1alpha1.AnnotationMaxDelay: "0s", v1alpha1.AnnotationRuntime: "3h"})
		j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "3h"
		b.submit(j)
	}
	b.eventually("the first to be sent", func() bool { look(); return len(seen) > 0 })
	must(t, syscall.Kill(stateOf(t, dir).Components["kube-apiserver"], syscall.SIGKILL))
	must(t, ctl.Process.Kill())
	ctl = startController(t)
	b.eventually("the hub to answer again", func() bool {
		look()
		return env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: names[0]}, &batchv1.Job{}) == nil
	})
	b.eventually("all to finish", func() bool {
		look()
		for _, name := range names {
			if !b.finished(name) {
				return false
			}
		}
		return true
	})
	once(names...)

	// Nobody dispatches: what holds quota on the hub waits, and is on no cluster.
	must(t, ctl.Process.Kill())
	_ = ctl.Wait()
	other := b.queued("undispatched", nil)
	other.Labels["team"] = "other"
	delete(other.Annotations, v1alpha1.AnnotationRuntime)
	b.submit(other)
	b.eventually("it to hold quota", func() bool { w := b.workload("undispatched"); return w != nil && (w.Reserved || w.Gated) })
	for range 20 { // a fixed wait, as nothing comes that could be waited for; a slow machine makes it weaker, never fail
		look()
		time.Sleep(100 * time.Millisecond)
	}
	if w := b.workload("undispatched"); w.Cluster != "" || len(seen["undispatched"]) > 0 {
		t.Errorf("without a dispatcher it is on %q, with pods %v", w.Cluster, seen["undispatched"])
	}
	startController(t)
	b.eventually("it to finish", func() bool { look(); return b.finished("undispatched") })
	once("undispatched")

	// The nodes of the cleanest cluster go; its quota remains, and nothing is sent to wait there.
	var nodes corev1.NodeList
	must(t, at["spoke-1"].List(ctx, &nodes))
	for i := range nodes.Items {
		must(t, at["spoke-1"].Delete(ctx, &nodes.Items[i]))
	}
	b.eventually("the loss to be known", func() bool {
		var cc v1alpha1.ComputeCluster
		must(t, env.client.Get(ctx, client.ObjectKey{Name: "spoke-1"}, &cc))
		return cc.Status.Nodes == 0 && cc.Status.Capacity["cpu"] == 0
	})
	// An API server that was killed knows the parameters of its admission policies half a minute later.
	b.eventually("admission to know the policy again", func() bool {
		probe := b.queued("probe", nil)
		return env.client.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[kueue.AnnotationGates] == v1alpha1.Gate
	})
	b.submit(b.queued("elsewhere", map[string]string{v1alpha1.AnnotationMaxDelay: "2h"}))
	b.submit(b.queued("at-once", map[string]string{v1alpha1.AnnotationMaxDelay: "0s"}))
	b.eventually("both to finish", func() bool { look(); return b.finished("elsewhere") && b.finished("at-once") })
	once("elsewhere", "at-once")
}

// TestFleetDocs runs the commands of docs/many-clusters.md as they are printed.
func TestFleetDocs(t *testing.T) {
	out := runPage(t, "many-clusters.md", 4)
	for _, want := range []string{"toronto", "frankfurt", "warsaw", "job-training"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not name %s:\n%s", want, out)
		}
	}
}
