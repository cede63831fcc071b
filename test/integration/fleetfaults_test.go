//go:build integration && fleet

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
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

	pods := watchPods(t, b.ns, at)
	once := func(names ...string) {
		t.Helper()
		for _, name := range names {
			b.eventually("a pod of "+name+" to have been seen", func() bool { return len(pods(name)) > 0 })
			if all := pods(name); len(all) != 1 {
				t.Errorf("%s had %d pods: %v", name, len(all), all)
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
	b.eventually("the first to be sent", func() bool { return slices.ContainsFunc(names, func(name string) bool { return len(pods(name)) > 0 }) })
	server := stateOf(t, dir).Components["kube-apiserver"]
	must(t, syscall.Kill(server, syscall.SIGKILL))
	must(t, ctl.Process.Kill())
	gone(t, map[string]int{"kube-apiserver": server})
	hub, err := discovery.NewDiscoveryClientForConfig(env.config)
	must(t, err)
	// Before it is ready, an API server answers its administrator and forbids the controller's account everything, because
	// it has not read the roles yet. A controller that starts then ends, and a kubelet would start it again.
	b.eventually("the hub to be ready again", func() bool {
		return hub.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
	})
	ctl = startController(t)
	b.eventually("all to finish", func() bool {
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
	time.Sleep(2 * time.Second) // nothing comes that could be waited for; on a slow machine this is weaker, and never fails
	if w := b.workload("undispatched"); w.Cluster != "" || len(pods("undispatched")) > 0 {
		t.Errorf("without a dispatcher it is on %q, with pods %v", w.Cluster, pods("undispatched"))
	}
	startController(t)
	b.eventually("it to finish", func() bool { return b.finished("undispatched") })
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
	b.eventually("both to finish", func() bool { return b.finished("elsewhere") && b.finished("at-once") })
	once("elsewhere", "at-once")
}

// watchPods returns the pods of a Job on all clusters since now, by their cluster and UID. It watches, as polls could miss one.
func watchPods(t *testing.T, ns string, at map[string]client.Client) func(job string) []string {
	var mu sync.Mutex
	seen := map[string]map[string]bool{}
	for cluster, c := range at {
		go func() {
			for t.Context().Err() == nil { // an API server ends a watch some time; the next one begins with all that is there
				w, err := c.(client.WithWatch).Watch(t.Context(), &corev1.PodList{}, client.InNamespace(ns))
				if err != nil {
					time.Sleep(50 * time.Millisecond)
					continue
				}
				for e := range w.ResultChan() {
					if pod, is := e.Object.(*corev1.Pod); is {
						job := pod.Labels[batchv1.JobNameLabel]
						mu.Lock()
						if seen[job] == nil {
							seen[job] = map[string]bool{}
						}
						seen[job][cluster+" "+string(pod.UID)] = true
						mu.Unlock()
					}
				}
			}
		}()
	}
	return func(job string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(maps.Keys(seen[job]))
	}
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
