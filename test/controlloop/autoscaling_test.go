package controlloop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// autoscaler makes a node of 16 CPUs for each pod that no node has had room for through a delay (of the zone's time), as an
// autoscaler does, up to a number. It says how many it has made.
func (b *bed) autoscaler(delay time.Duration, most int) *int {
	made := new(int)
	since := map[string]time.Time{}
	b.Go(func() {
		for b.Sleep(time.Second) {
			pods, _ := b.Store.List(b.Store.Resource("Pod"), "")
			for _, u := range pods {
				conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
				lacks := slices.ContainsFunc(conditions, func(c any) bool {
					m, _ := c.(map[string]any)
					return m["reason"] == corev1.PodReasonUnschedulable && m["status"] == "False"
				})
				name := u.GetName()
				switch first, seen := since[name]; {
				case !lacks:
				case !seen:
					since[name] = time.Now()
				case time.Since(first) >= delay/factor && *made < most:
					*made++
					b.AddNode(simkube.Node(fmt.Sprintf("new-%d", *made), "16"))
					since[name] = time.Now().Add(time.Hour)
				}
			}
		}
	})
	return made
}

// karpenter serves NodePools. One has a limit.
func karpenter(w *simkube.World, cpus string) {
	w.Store.Serve(&simkube.Resource{Group: "karpenter.sh", Version: "v1", Name: "nodepools", Kind: "NodePool"})
	pool := &unstructured.Unstructured{}
	pool.SetAPIVersion("karpenter.sh/v1")
	pool.SetKind("NodePool")
	pool.SetName("batch")
	pool.Object["spec"] = map[string]any{"limits": map[string]any{"cpu": cpus, "memory": "1000Gi", "pods": "1000"}}
	w.Create(pool)
}

// clusterAutoscaler writes the status of cluster-autoscaler every ten seconds. Its one group has no nodes, and may have two.
func clusterAutoscaler(w *simkube.World) {
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-autoscaler-status", Namespace: "kube-system"}}
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, status)
	w.Go(func() {
		for ok := true; ok; ok = w.Sleep(10 * time.Second) {
			status.Data = map[string]string{
				"status": "time: " + time.Now().UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST") + "\nautoscalerStatus: Running\nnodeGroups: [{name: batch, health: {status: Healthy, maxSize: 2}}]\n",
			}
			if err := w.Client.Update(w.Context(), status); err != nil && w.Context().Err() == nil {
				w.Violate("update the status: %v", err)
			}
		}
	})
}

func autoscaling(a v1alpha1.AutoscalingSpec) func(*v1alpha1.CarbonPolicy) {
	return func(p *v1alpha1.CarbonPolicy) {
		noReserve(p)
		p.Spec.Autoscaling = &a
	}
}

// autoscaled is the condition Autoscaled.
func (b *bed) autoscaled() string {
	if c := meta.FindStatusCondition(b.policy().Status.Conditions, v1alpha1.ConditionAutoscaled); c != nil {
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return ""
}

// TestPoolThatScalesFromZero: a cluster has no nodes until pods need them. Jobs wait for clean power with the capacity that it
// can get, by Karpenter, by cluster-autoscaler or by the policy, and no more of them run at a time than it can become.
func TestPoolThatScalesFromZero(t *testing.T) {
	ceiling := map[corev1.ResourceName]v1alpha1.Amount{"cpu": "32", "memory": "1000Gi", "pods": "1000"}
	group := map[corev1.ResourceName]v1alpha1.Amount{"cpu": "16", "memory": "500Gi", "pods": "500"}
	for name, a := range map[string]v1alpha1.AutoscalingSpec{
		"the policy":         {Ceiling: ceiling},
		"Karpenter":          {Karpenter: &v1alpha1.KarpenterSpec{}},
		"cluster-autoscaler": {ClusterAutoscaler: &v1alpha1.ClusterAutoscalerSpec{NodeGroups: []v1alpha1.NodeGroup{{Name: "batch", Allocatable: group}}}},
	} {
		t.Run(name, func(t *testing.T) {
			simkube.Test(t, 1, func(w *simkube.World) {
				w.Cluster.Factor = factor
				karpenter(w, "32")
				clusterAutoscaler(w)
				a.ProvisioningDelay = &metav1.Duration{Duration: 10 * time.Minute}
				b := newBed(w, "test", cleanIn(8, 10), autoscaling(a))
				w.Controller()
				made := b.autoscaler(8*time.Minute, 2)
				jobs := []string{"first", "second", "third"}
				for _, job := range jobs {
					b.Create(b.large(job, map[string]string{v1alpha1.AnnotationMaxDelay: "20h", v1alpha1.AnnotationRuntime: "2h"}))
					b.untilDecided(job, map[bool]string{true: "CleanerLater", false: "CleanNow"}[job != "third"])
				}
				for _, job := range jobs[:2] {
					if at := b.planned(job); !inFirstSlot(at, 8) {
						t.Errorf("%s is planned from hour %v; want 8", job, at)
					}
				}
				b.Until("all to finish", func() bool { return b.finished(jobs...) })
				if *made == 0 || *made > 2 {
					t.Errorf("%d nodes were made", *made)
				}
				if got := b.autoscaled(); !strings.HasPrefix(got, "True Read") {
					t.Errorf("the condition: %q", got)
				}
			})
		})
	}
}

// TestPoolTestCanFail shows that TestPoolThatScalesFromZero can fail.
func TestPoolTestCanFail(t *testing.T) {
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Cluster.Factor = factor
		b := newBed(w, "test", cleanIn(8, 10), noReserve)
		w.Controller()
		b.Create(b.large("first", map[string]string{v1alpha1.AnnotationMaxDelay: "20h", v1alpha1.AnnotationRuntime: "2h"}))
		b.Until("a decision", func() bool { return b.decision("first") != "" })
		if got := b.decision("first"); got == "CleanerLater" {
			t.Error("it waits for nodes that nobody said would come")
		}
	})
}

// TestProvisioningDelayIsPartOfTheStart: the time that new nodes take is part of the start. Power becomes clean so late that a Job which starts
// then is done by its deadline only if it does not wait for a node.
func TestProvisioningDelayIsPartOfTheStart(t *testing.T) {
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Cluster.Factor = factor
		b := newBed(w, "test", cleanIn(8, 20), autoscaling(v1alpha1.AutoscalingSpec{
			Ceiling:           map[corev1.ResourceName]v1alpha1.Amount{"cpu": "32", "memory": "1000Gi", "pods": "1000"},
			ProvisioningDelay: &metav1.Duration{Duration: 40 * time.Minute},
		}))
		w.Controller()
		b.autoscaler(35*time.Minute, 2)
		deadline := at(10).Add(15 * time.Minute)
		b.Create(b.large("work", map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339), v1alpha1.AnnotationRuntime: "2h"}))
		b.Until("a plan", func() bool { return b.plan("job-work").Status.LatestStart != nil })
		if latest := b.plan("job-work").Status.LatestStart.Time; !latest.Equal(deadline.Add(-2*time.Hour - 45*time.Minute)) {
			t.Errorf("the latest safe start is %v before the deadline; want the run time, the margin and the delay", deadline.Sub(latest))
		}
		b.Until("it to finish", func() bool { return b.finished("work") })
		if ended, _ := simkube.Finished(b.get("work")); b.gridTime(ended).After(deadline) {
			t.Errorf("it ended %v late", b.gridTime(ended).Sub(deadline))
		}
	})
}

// TestAutoscalerThatCannotBeRead: what cannot be read adds nothing, and the policy says what to do. It decides all the same.
func TestAutoscalerThatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *simkube.World) {
		b := newBed(w, "test", dirtyThenClean(), autoscaling(v1alpha1.AutoscalingSpec{
			Karpenter:         &v1alpha1.KarpenterSpec{},
			ClusterAutoscaler: &v1alpha1.ClusterAutoscalerSpec{NodeGroups: []v1alpha1.NodeGroup{{Name: "batch", Allocatable: map[corev1.ResourceName]v1alpha1.Amount{"cpu": "1"}}}},
		}))
		w.Controller()
		b.submit("waits", nil)
		b.untilDecided("waits", "CleanerLater")
		b.Until("the condition", func() bool { return b.autoscaled() != "" })
		for _, want := range []string{"False NotCounted", "does not serve karpenter.sh/v1", "kube-system/cluster-autoscaler-status is not there"} {
			if got := b.autoscaled(); !strings.Contains(got, want) {
				t.Errorf("%q; want %q in it", got, want)
			}
		}
		p := b.policy()
		p.Spec.Autoscaling = nil
		b.must(b.Client.Update(b.Context(), p))
		b.Until("the condition to be gone", func() bool { return b.autoscaled() == "" })
	})
}
