//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// pool makes nodes of four CPUs each that only pods which tolerate it go to, labelled pool=NAMESPACE.
func (b bed) pool(n int) (names []string) {
	b.t.Helper()
	ctx := context.Background()
	var all corev1.NodeList
	must(b.t, env.client.List(ctx, &all))
	for i := range n {
		like := &all.Items[0]
		name := fmt.Sprintf("%s-n%d", b.ns, i+1)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": b.ns}, Annotations: like.Annotations}}
		for k, v := range like.Labels {
			node.Labels[k] = v
		}
		node.Labels["kubernetes.io/hostname"] = name
		node.Spec.Taints = []corev1.Taint{{Key: "pool", Value: b.ns, Effect: corev1.TaintEffectNoSchedule}}
		must(b.t, env.client.Create(ctx, node))
		b.t.Cleanup(func() { _ = env.client.Delete(ctx, node) })
		b.eventually("KWOK to have made the node ready", func() bool {
			must(b.t, env.client.Get(ctx, client.ObjectKeyFromObject(node), node))
			return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		})
		size := []byte(`{"status":{"allocatable":{"cpu":"4"},"capacity":{"cpu":"4"}}}`)
		must(b.t, env.client.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, size)))
		names = append(names, name)
	}
	return names
}

// cordoned are the nodes of the pool that take no pods.
func (b bed) cordoned(names []string) (out []int) {
	b.t.Helper()
	for i, name := range names {
		var n corev1.Node
		must(b.t, env.client.Get(context.Background(), client.ObjectKey{Name: name}, &n))
		if n.Spec.Unschedulable {
			out = append(out, i+1)
		}
	}
	return out
}

func (b bed) curve() *v1alpha1.CapacityCurve {
	b.t.Helper()
	var c v1alpha1.CapacityCurve
	if err := env.client.Get(context.Background(), client.ObjectKey{Name: b.ns}, &c); client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return &c
}

// capacityCurve makes the bed's curve, which goes with it.
func (b bed) capacityCurve(spec v1alpha1.CapacityCurveSpec) {
	b.t.Helper()
	spec.Zone = b.zone
	c := &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: b.ns}, Spec: spec}
	must(b.t, env.client.Create(context.Background(), c))
	b.t.Cleanup(func() {
		if b.t.Failed() {
			text, _ := json.Marshal(b.curve().Status)
			b.t.Logf("the curve: %s", text)
		}
		_ = env.client.Delete(context.Background(), c)
	})
}

func says(c *v1alpha1.CapacityCurve, condition string) string {
	if is := meta.FindStatusCondition(c.Status.Conditions, condition); is != nil {
		return string(is.Status) + " " + is.Reason + " " + is.Message
	}
	return ""
}

// TestCapacityOfNodes: idle nodes are cordoned and let take pods again by a schedule; one in use is not
// touched, nor one that somebody else wants to take pods; in the end all is as it was.
func TestCapacityOfNodes(t *testing.T) {
	startController(t)
	ctx := context.Background()
	b := newBed(t, []float64{300}, nil)
	names := b.pool(4)
	busy := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "busy", Namespace: b.ns},
		Spec: corev1.PodSpec{
			NodeName: names[3], Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "work", Image: "example.invalid/work"}},
		},
	}
	must(t, env.client.Create(ctx, busy))
	minimum := resource.MustParse("4")
	b.capacityCurve(v1alpha1.CapacityCurveSpec{
		Target:  v1alpha1.CapacityTarget{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": b.ns}}},
		Maximum: resource.MustParse("16"), Minimum: &minimum,
		Method: v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "16:00", Capacity: resource.MustParse("12")}}},
	})
	b.eventually("idle nodes to be cordoned", func() bool { return slices.Equal(b.cordoned(names), []int{1, 2, 3}) })
	c := b.curve()
	if c.Status.Capacity != 4 || c.Status.Reason != "Wanted" || !strings.HasPrefix(says(c, v1alpha1.ConditionReady), "True Set") {
		t.Errorf("capacity %v (%s), %s", c.Status.Capacity, c.Status.Reason, says(c, v1alpha1.ConditionReady))
	}
	other := c.DeepCopy()
	other.Spec.Target = v1alpha1.CapacityTarget{NodePool: "other"}
	if err := env.client.Patch(ctx, other, client.MergeFrom(c)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the target that it was made with") {
		t.Errorf("another target: %v", err)
	}
	// Somebody needs one of them.
	must(t, env.client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: names[1]}}, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":false}}`))))
	b.eventually("it to be left alone", func() bool {
		return strings.Contains(says(b.curve(), v1alpha1.ConditionReady), "1 nodes that others made take pods again are left alone")
	})
	b.eventually("nodes to come back at 08:00", func() bool {
		return b.curve().Status.Capacity == 12 && slices.Equal(b.cordoned(names), []int{3})
	})
	must(t, env.client.Delete(ctx, b.curve()))
	b.eventually("the curve to be gone", func() bool { return b.curve().Name == "" })
	if left := b.cordoned(names); left != nil {
		t.Errorf("nodes %v are left cordoned", left)
	}
	for _, name := range names {
		var n corev1.Node
		must(t, env.client.Get(ctx, client.ObjectKey{Name: name}, &n))
		if mark, left := n.Annotations[v1alpha1.AnnotationCapacity]; left {
			t.Errorf("%s is left with the mark %s", name, mark)
		}
	}
}

// TestCapacityEvicts: where the capacity falls below what runs, and no plan knew it, what loses least and can
// wait makes room if the curve says so; else nothing is stopped.
func TestCapacityEvicts(t *testing.T) {
	startController(t)
	all := func(capacity string) v1alpha1.CapacityMethod {
		return v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "00:00", To: "24:00", Capacity: resource.MustParse(capacity)}}}
	}
	for _, evict := range []v1alpha1.Eviction{v1alpha1.EvictLeastLost, v1alpha1.EvictNever} {
		t.Run(string(evict), func(t *testing.T) {
			b := newBed(t, []float64{300}, func(p *v1alpha1.CarbonPolicy) {
				p.Spec.Planner = v1alpha1.PlannerSpec{Name: "asap"}
				p.Spec.MinRun, p.Spec.MinPause = &metav1.Duration{}, &metav1.Duration{}
			})
			b.pool(2)
			b.capacityCurve(v1alpha1.CapacityCurveSpec{
				Target:   v1alpha1.CapacityTarget{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": b.ns}}},
				Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}},
				Maximum:  resource.MustParse("8"), Evict: evict, Method: all("8"),
			})
			b.eventually("the curve to be set", func() bool { return b.curve().Status.Capacity == 8 })
			for _, name := range []string{"first", "second"} {
				j := b.job(name, map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationRuntime: "5h", v1alpha1.AnnotationMaxDelay: "48h"})
				j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "5h"
				pod := &j.Spec.Template.Spec
				pod.NodeSelector = map[string]string{"pool": b.ns}
				pod.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
				pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
				b.submit(j)
			}
			b.eventually("both to run", func() bool { return b.get("first").Status.Active > 0 && b.get("second").Status.Active > 0 })
			time.Sleep(2 * time.Second) // what the start has cost is planned with
			before := b.curve()
			lower := before.DeepCopy()
			lower.Spec.Method = all("4")
			must(t, env.client.Patch(context.Background(), lower, client.MergeFrom(before)))
			b.eventually("the capacity to fall", func() bool { return b.curve().Status.Capacity == 4 })
			paused := map[string]bool{}
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				for _, name := range []string{"first", "second"} {
					if b.suspended(name) {
						paused[name] = true
					}
				}
			}
			if want := map[v1alpha1.Eviction]int{v1alpha1.EvictLeastLost: 1}[evict]; len(paused) != want {
				t.Errorf("%v made room, want %d", paused, want)
			}
			b.eventually("both to finish", func() bool { return b.finished("first") && b.finished("second") })
		})
	}
}

// TestCapacityWithoutCarbonData: a curve whose zone knows no intensity any more is carbon-agnostic and says so.
func TestCapacityWithoutCarbonData(t *testing.T) {
	startController(t)
	b := newBed(t, []float64{300}, nil)
	must(t, env.client.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: b.ns}}))
	minimum := resource.MustParse("4")
	b.capacityCurve(v1alpha1.CapacityCurveSpec{
		Target:   v1alpha1.CapacityTarget{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": b.ns}}},
		Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}},
		Maximum:  resource.MustParse("8"), Minimum: &minimum,
		Method: v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}},
	})
	b.eventually("it to say so", func() bool {
		c := b.curve()
		return c.Status.Capacity == 8 && strings.HasPrefix(says(c, v1alpha1.ConditionCold), "True History no intensity is known: carbon-agnostic")
	})
}

// TestCapacityDocs: what docs/capacity.md prints is accepted.
func TestCapacityDocs(t *testing.T) {
	for _, text := range manifestsIn(t, "capacity.md", "CapacityCurve") {
		var c v1alpha1.CapacityCurve
		must(t, yaml.UnmarshalStrict([]byte(text), &c))
		if err := env.client.Create(context.Background(), &c, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// TestCapacityCurvesAreChecked: what makes no sense is refused with a message that names the field.
func TestCapacityCurvesAreChecked(t *testing.T) {
	schedule := v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "16:00", To: "24:00", Capacity: resource.MustParse("1")}}}
	queue := v1alpha1.CapacityTarget{ClusterQueue: "q"}
	ten, four := resource.MustParse("10"), resource.MustParse("4")
	for name, x := range map[string]struct {
		spec v1alpha1.CapacityCurveSpec
		want string
	}{
		"no maximum":         {v1alpha1.CapacityCurveSpec{Target: queue, Method: schedule}, "spec.maximum"},
		"minimum above":      {v1alpha1.CapacityCurveSpec{Target: queue, Method: schedule, Maximum: four, Minimum: &ten}, "minimum: accepted: 0 to maximum"},
		"no target":          {v1alpha1.CapacityCurveSpec{Method: schedule, Maximum: ten}, "spec.target"},
		"two targets":        {v1alpha1.CapacityCurveSpec{Target: v1alpha1.CapacityTarget{ClusterQueue: "a", NodePool: "b"}, Method: schedule, Maximum: ten}, "spec.target"},
		"no method":          {v1alpha1.CapacityCurveSpec{Target: queue, Maximum: ten}, "spec.method"},
		"nobody to plan for": {v1alpha1.CapacityCurveSpec{Target: queue, Maximum: ten, Method: v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{}}}, "policies: accepted"},
		"no time of day":     {v1alpha1.CapacityCurveSpec{Target: queue, Maximum: ten, Method: v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "25:00", To: "26:00"}}}}, "from"},
	} {
		x.spec.Zone = "x"
		err := env.client.Create(context.Background(), &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "checked"}, Spec: x.spec}, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v; want %q", name, err, x.want)
		}
	}
}

// cleanIn is dirty but for the hours from one to another.
func cleanIn(from, to int) []float64 {
	hourly := slices.Repeat([]float64{500}, 96)
	copy(hourly[from:to], slices.Repeat([]float64{50}, to-from))
	return hourly
}

// TestPoliciesShareTheCluster: policies of two namespaces have one cluster. What runs of one is in the way of the other's
// until it is expected to end, not for good; and what one has planned the other plans around.
func TestPoliciesShareTheCluster(t *testing.T) {
	ownLab(t)
	startController(t)
	hourly := cleanIn(12, 14)
	large := func(b bed, name string, annotations map[string]string) {
		j := b.job(name, annotations)
		j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("16")
		j.Spec.Template.Annotations["lab.lull.dev/runtime"] = annotations[v1alpha1.AnnotationRuntime]
		b.submit(j)
	}
	// There are two nodes of 16 CPUs: each holds one of them. A reserve would keep one of them free.
	first, second := newBed(t, hourly, noReserve(nil)), newBed(t, hourly, noReserve(nil))
	for _, name := range []string{"full-0", "full-1"} {
		large(first, name, map[string]string{v1alpha1.AnnotationMaxDelay: "0s", v1alpha1.AnnotationRuntime: "6h"})
	}
	first.eventually("the cluster to be full", func() bool { return first.get("full-0").Status.Active == 1 && first.get("full-1").Status.Active == 1 })
	large(first, "planned", map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"})
	first.eventually("its plan", func() bool { return len(first.plan("job-planned").Status.Phases) > 0 })
	for _, name := range []string{"clean", "beside"} {
		large(second, name, map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"})
		second.eventually("a plan of "+name, func() bool { return second.plan("job-"+name).Status.State != "" })
	}
	starts := func(b bed, name string) float64 {
		phases := b.plan("job-" + name).Status.Phases
		if len(phases) == 0 {
			t.Fatalf("%s: %+v", name, b.plan("job-"+name).Status)
		}
		return phases[0].From.Sub(gridStart).Hours()
	}
	if at := starts(first, "planned"); at != 12 {
		t.Errorf("the first is planned from hour %v; want 12", at)
	}
	if at := starts(second, "clean"); at != 12 {
		t.Errorf("the second policy plans from hour %v, while the cluster is full; want 12, when it is free again", at)
	}
	// In the clean hours both nodes are taken now, one of them by the other policy.
	if at := starts(second, "beside"); at > 10 && at < 14 || at < 4 {
		t.Errorf("planned from hour %v, when there is no room", at)
	}
	for name, b := range map[string]bed{"planned": first, "clean": second, "beside": second} {
		b.eventually(name+" to finish", func() bool { return b.finished(name) })
		if reason := b.decision(name); reason == "DeadlineAtRisk" {
			t.Errorf("%s found no place", name)
		}
	}
}

// TestUnscheduled: what no node will ever have room for is let go, says so, draws nothing, and is in nobody's way: not
// in that of its own policy, of another's, nor where it is nobody's.
func TestUnscheduled(t *testing.T) {
	ctx := context.Background()
	ownLab(t)
	startController(t)
	hourly := cleanIn(14, 16)
	first, second := newBed(t, hourly, nil), newBed(t, hourly, nil)
	huge := first.job("huge", map[string]string{v1alpha1.AnnotationMaxDelay: "0s", v1alpha1.AnnotationRuntime: "30h"})
	huge.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500")
	first.submit(huge)
	must(t, env.client.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nobodys", Namespace: second.ns}, Spec: huge.Spec.Template.Spec}))
	first.eventually("its plan to say that it has no node", func() bool { return first.plan("job-huge").Status.Reason == "Unscheduled" })
	second.eventually("the other to have no node", func() bool {
		var pod corev1.Pod
		must(t, env.client.Get(ctx, client.ObjectKey{Namespace: second.ns, Name: "nobodys"}, &pod))
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable })
	})
	for _, b := range []bed{first, second} {
		b.submit(b.job("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"}))
		b.eventually("a plan", func() bool { return len(b.plan("job-waits").Status.Phases) > 0 })
		p := b.plan("job-waits").Status
		if at := p.Phases[0].From.Sub(gridStart).Hours(); at != 14 {
			t.Errorf("planned from hour %v (%s), want 14, when power is clean", at, p.Message)
		}
	}
	if p := first.plan("job-huge").Status; p.EnergyKWh != 0 || p.State != v1alpha1.PlanRunning {
		t.Errorf("what does not run: %+v", p)
	}
	if text := command(t, "explain", "job/huge", "-n", first.ns); !strings.Contains(text, "no node has room for its pods") {
		t.Errorf("explained:\n%s", text)
	}
}

// TestUsualLoad: pods that no policy governs fill the cluster every night. On the second night what is governed waits
// for the hours in which it is usually free, instead of finding no place for good.
func TestUsualLoad(t *testing.T) {
	ownLab(t)
	startController(t)
	hourly := cleanIn(34, 36)
	b := newBed(t, hourly, nil)
	nights := 0
	b.eventually("a night and a day", func() bool {
		at := b.gridTime(time.Now()).Sub(gridStart).Hours()
		if nights < 2 && at >= 24*float64(nights) {
			for i := range 2 { // a node each, for six hours
				j := b.job(fmt.Sprintf("strange-%d-%d", nights, i), nil)
				j.Labels = nil
				j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("16")
				j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "6h"
				b.submit(j)
			}
			nights++
		}
		return at >= 26
	})
	b.eventually("the cluster to be full", func() bool { return b.get("strange-1-0").Status.Active == 1 && b.get("strange-1-1").Status.Active == 1 })
	j := b.job("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "30h", v1alpha1.AnnotationRuntime: "2h"})
	j.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("16")
	b.submit(j)
	b.eventually("its plan", func() bool { return b.plan("job-waits").Status.State != "" })
	phases := b.plan("job-waits").Status.Phases
	if len(phases) == 0 || phases[0].From.Sub(gridStart).Hours() != 34 {
		t.Errorf("planned %+v; want from hour 34", b.plan("job-waits").Status)
	}
	b.eventually("it to finish", func() bool { return b.finished("waits") })
}
