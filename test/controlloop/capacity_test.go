package controlloop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// pool makes nodes of four CPUs each that only pods which tolerate it go to.
func (b *bed) pool(n int) (names []string) {
	for i := range n {
		node := simkube.Node(fmt.Sprintf("pool-%d", i+1), "4")
		node.Labels = map[string]string{"pool": b.ns}
		node.Spec.Taints = []corev1.Taint{{Key: "pool", Value: b.ns, Effect: corev1.TaintEffectNoSchedule}}
		b.AddNode(node)
		names = append(names, node.Name)
	}
	return names
}

// poolTarget selects the nodes of the pool.
func (b *bed) poolTarget() v1alpha1.CapacityTarget {
	return v1alpha1.CapacityTarget{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": b.ns}}}
}

// cordoned are the nodes of the pool that take no pods.
func (b *bed) cordoned(names []string) (out []int) {
	b.t.Helper()
	for i, name := range names {
		var n corev1.Node
		b.must(b.Client.Get(b.Context(), client.ObjectKey{Name: name}, &n))
		if n.Spec.Unschedulable {
			out = append(out, i+1)
		}
	}
	return out
}

func (b *bed) curve() *v1alpha1.CapacityCurve {
	b.t.Helper()
	var c v1alpha1.CapacityCurve
	b.must(client.IgnoreNotFound(b.Client.Get(b.Context(), client.ObjectKey{Name: b.ns}, &c)))
	return &c
}

// capacityCurve makes the bed's curve.
func (b *bed) capacityCurve(spec v1alpha1.CapacityCurveSpec) {
	b.t.Helper()
	spec.Zone = b.zone
	b.Create(&v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: b.ns}, Spec: spec})
	b.t.Cleanup(func() {
		if b.t.Failed() {
			if objects, _ := b.Store.List(b.Store.Resource("CapacityCurve"), ""); len(objects) > 0 {
				text, _ := json.Marshal(objects[0].Object["status"])
				b.t.Logf("the curve: %s", text)
			}
		}
	})
}

func says(c *v1alpha1.CapacityCurve, condition string) string {
	if is := meta.FindStatusCondition(c.Status.Conditions, condition); is != nil {
		return string(is.Status) + " " + is.Reason + " " + is.Message
	}
	return ""
}

// TestCapacityOfNodes: idle nodes are cordoned and let take pods again by a schedule; one in use is not touched, nor one
// that somebody else wants to take pods; in the end all is as it was.
func TestCapacityOfNodes(t *testing.T) {
	onBed(t, []float64{300}, nil, func(b *bed) {
		b.Controller()
		names := b.pool(4)
		b.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "busy", Namespace: b.ns},
			Spec: corev1.PodSpec{
				NodeName: names[3], Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "work", Image: "example.invalid/work"}},
			},
		})
		minimum := v1alpha1.Amount("4")
		b.capacityCurve(v1alpha1.CapacityCurveSpec{
			Target: b.poolTarget(), Maximum: v1alpha1.Amount("16"), Minimum: &minimum,
			Method: v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "16:00", Capacity: v1alpha1.Amount("12")}}},
		})
		b.Until("idle nodes to be cordoned", func() bool { return slices.Equal(b.cordoned(names), []int{1, 2, 3}) })
		b.Run(2 * time.Second)
		c := b.curve()
		if c.Status.Capacity != 4 || c.Status.Reason != "Wanted" || !strings.HasPrefix(says(c, v1alpha1.ConditionReady), "True Set") {
			t.Errorf("capacity %v (%s), %s", c.Status.Capacity, c.Status.Reason, says(c, v1alpha1.ConditionReady))
		}
		// Somebody needs one of them.
		b.Patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: names[1]}}, `{"spec":{"unschedulable":false}}`)
		b.Until("it to be left alone", func() bool {
			return strings.Contains(says(b.curve(), v1alpha1.ConditionReady), "1 nodes that others uncordoned are left alone")
		})
		b.Until("nodes to come back", func() bool {
			return b.curve().Status.Capacity == 12 && slices.Equal(b.cordoned(names), []int{3})
		})
		if now := b.gridTime(time.Now()); now.Before(at(8)) || now.After(at(8).Add(5*minute)) {
			t.Errorf("nodes came back at %s, want 08:00", now.Format("15:04"))
		}
		b.must(b.Client.Delete(b.Context(), b.curve()))
		b.Until("the curve to be gone", func() bool { return b.curve().Name == "" })
		if left := b.cordoned(names); left != nil {
			t.Errorf("nodes %v are left cordoned", left)
		}
		for _, name := range names {
			var n corev1.Node
			b.must(b.Client.Get(b.Context(), client.ObjectKey{Name: name}, &n))
			for k := range n.Annotations {
				if strings.HasPrefix(k, "lull.dev/") {
					t.Errorf("%s keeps annotation %s", name, k)
				}
			}
		}
	})
}

// TestFallingCapacityEvictsTheLeastLoss: where the capacity falls below what runs, and no plan knew it, what loses least and can wait makes
// room if the curve says so; else nothing is stopped.
func TestFallingCapacityEvictsTheLeastLoss(t *testing.T) {
	all := func(capacity string) v1alpha1.CapacityMethod {
		return v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "24:00", Capacity: v1alpha1.Amount(capacity)}}}
	}
	for evict, want := range map[v1alpha1.Eviction]int{v1alpha1.EvictLeastLost: 1, v1alpha1.EvictNever: 0} {
		t.Run(string(evict), func(t *testing.T) {
			onBed(t, []float64{300}, func(p *v1alpha1.CarbonPolicy) {
				p.Spec.Planner = v1alpha1.PlannerSpec{Name: "asap"}
				p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
			}, func(b *bed) {
				b.Controller()
				b.pool(2)
				b.capacityCurve(v1alpha1.CapacityCurveSpec{
					Target: b.poolTarget(), Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}},
					Maximum: v1alpha1.Amount("8"), Evict: evict, Method: all("8"),
				})
				b.Until("the curve to be set", func() bool { return b.curve().Status.Capacity == 8 })
				for _, name := range []string{"first", "second"} {
					j := b.job(name, map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationRuntime: "5h", v1alpha1.AnnotationMaxDelay: "48h"})
					j.Spec.Template.Annotations[simkube.RunTime] = "5h"
					pod := &j.Spec.Template.Spec
					pod.NodeSelector = map[string]string{"pool": b.ns}
					pod.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
					pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
					b.Create(j)
				}
				b.Until("both to run", func() bool { return b.get("first").Status.Active > 0 && b.get("second").Status.Active > 0 })
				b.Run(30 * time.Second)
				lower := b.curve()
				lower.Spec.Method = all("4")
				b.must(b.Client.Update(b.Context(), lower))
				b.Until("the capacity to fall", func() bool { return b.curve().Status.Capacity == 4 })
				b.Run(time.Minute)
				paused := 0
				for _, name := range []string{"first", "second"} {
					if b.suspended(name) {
						paused++
					}
				}
				if paused != want {
					t.Errorf("%d made room, want %d", paused, want)
				}
				b.Until("both to finish", func() bool { return b.finished("first", "second") })
			})
		})
	}
}

// TestCapacityWithoutCarbonData: a curve whose zone knows no intensity any more is carbon-agnostic and says so.
func TestCapacityWithoutCarbonData(t *testing.T) {
	onBed(t, []float64{300}, nil, func(b *bed) {
		b.must(b.Client.Delete(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: b.ns}}))
		b.pool(2)
		b.Controller()
		minimum := v1alpha1.Amount("4")
		b.capacityCurve(v1alpha1.CapacityCurveSpec{
			Target: b.poolTarget(), Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}},
			Maximum: v1alpha1.Amount("8"), Minimum: &minimum,
			Method: v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}},
		})
		b.Until("it to say so", func() bool {
			c := b.curve()
			return c.Status.Capacity == 8 && strings.HasPrefix(says(c, v1alpha1.ConditionCold), "True History no intensity is known: carbon-agnostic")
		})
	})
}
