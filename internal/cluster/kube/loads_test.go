package kube

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/pkg/timegrid"
)

// TestLoadsAreCurrent: after any changes of pods, nodes and uses, what is kept is what is summed anew from the objects.
func TestLoadsAreCurrent(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	pick := func(prefix string, n int) string { return fmt.Sprint(prefix, rng.IntN(n)) }
	loads, pods, nodes := NewLoads(), map[string]corev1.Pod{}, map[string]corev1.Node{}
	uses, at := map[string]Use{}, now
	for step := range 2_000 {
		space := pick("space-", 4)
		switch rng.IntN(8) {
		case 0, 1, 2:
			pod := randomPod(rng, space, pick("pod-", 12))
			pods[space+"/"+pod.Name] = pod
			loads.SetPod(&pod)
		case 3, 4:
			name := pick("pod-", 12)
			delete(pods, space+"/"+name)
			loads.DeletePod(space, name)
		case 5:
			node := randomNode(rng, pick("node-", 5))
			nodes[node.Name] = node
			loads.SetNode(&node)
		case 6:
			name := pick("node-", 5)
			delete(nodes, name)
			loads.DeleteNode(name)
		default: // a policy decides
			use := Use{Namespace: space, pods: &podIndex{byUID: map[types.UID]int{}, byLabel: map[string]map[labelValue]int{}}}
			for range rng.IntN(4) {
				use.pods.byUID[types.UID(pick("owner-", 6))] = 0
			}
			uses[space+pick("policy-", 2)] = use
		}
		var others []Use
		for i := range 4 {
			for k := range 2 {
				if use, decided := uses[fmt.Sprint("space-", i, "policy-", k)]; decided && rng.IntN(20) > 0 {
					others = append(others, use)
				}
			}
		}
		var outside []corev1.Pod
		for _, pod := range pods {
			if pod.Namespace != space {
				outside = append(outside, pod)
			}
		}
		var all []corev1.Node
		for node := range maps.Values(nodes) {
			all = append(all, node)
		}
		// The amounts are such that sums of floats are exact.
		if got, want := loads.Outside(space, others), Load(outside, counted(others)); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: outside of %s %v, want %v", step, space, got, want)
		}
		at = at.Add(nodesGrace)
		if got, want := loads.Capacity(at), Capacity(all); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: capacity %v, want %v", step, got, want)
		}
	}
}

// TestPodsThatNobodyPlacedTakeNothing: a pod whose author writes the name of a node into it takes nothing until a scheduler has bound it, or the kubelet has
// accepted it.
func TestPodsThatNobodyPlacedTakeNothing(t *testing.T) {
	for name, x := range map[string]struct {
		node   string
		status corev1.PodStatus
		takes  bool
	}{
		"no node":                {"", corev1.PodStatus{Phase: corev1.PodPending}, false},
		"named by its author":    {"ghost", corev1.PodStatus{Phase: corev1.PodPending}, false},
		"bound by the scheduler": {"n", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}, true},
		"no node found":          {"", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}, false},
		"accepted by a kubelet":  {"n", corev1.PodStatus{Phase: corev1.PodPending, StartTime: &metav1.Time{Time: now}}, true},
		"refused by a kubelet":   {"n", corev1.PodStatus{Phase: corev1.PodFailed, StartTime: &metav1.Time{Time: now}}, false},
		"runs":                   {"n", corev1.PodStatus{Phase: corev1.PodRunning}, true},
	} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, Spec: corev1.PodSpec{NodeName: x.node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("10000")}},
		}}}, Status: x.status}
		want := map[string]float64{}
		if x.takes {
			want["cpu"] = 10000
		}
		loads := NewLoads()
		loads.SetPod(&pod)
		if got := loads.Outside("b", nil); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if got := Load([]corev1.Pod{pod}, func(*corev1.Pod) bool { return false }); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a sum of %v, want %v", name, got, want)
		}
	}
}

// TestCordonedNodesCountForAWhile: when all nodes are cordoned or gone, what they offered counts for a while, not for ever.
func TestCordonedNodesCountForAWhile(t *testing.T) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	cordoned := *node.DeepCopy()
	cordoned.Spec.Unschedulable = true
	loads := NewLoads()
	check := func(when string, after time.Duration, want map[string]float64) {
		t.Helper()
		if got := loads.Capacity(now.Add(after)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	some, none := map[string]float64{"cpu": 16}, map[string]float64{}
	check("no node was seen", 0, none)
	loads.SetNode(&node)
	check("one node", time.Minute, some)
	loads.SetNode(&cordoned)
	check("cordoned", 2*time.Minute, some)
	loads.DeleteNode("a")
	check("and gone", time.Minute+nodesGrace-time.Second, some)
	check("gone for long", time.Minute+nodesGrace, none)
	check("gone for longer", time.Hour, none)
	loads.SetNode(&node)
	check("back", 2*time.Hour, some)
}

func randomPod(rng *rand.Rand, space, name string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint("owner-", rng.IntN(6)))}}
	requests := corev1.ResourceList{}
	for _, r := range []corev1.ResourceName{"cpu", "memory", "example.com/gpu"} {
		if rng.IntN(3) > 0 {
			requests[r] = resource.MustParse([]string{"0", "250m", "1500m", "3", "2Gi", "1e12"}[rng.IntN(6)])
		}
	}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}
	pod.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded}[rng.IntN(4)]
	if rng.IntN(5) == 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	}
	return pod
}

func randomNode(rng *rand.Rand, name string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: rng.IntN(4) == 0}}
	node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprintf("%dm", 250*rng.IntN(9))), "memory": resource.MustParse("3Gi")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionUnknown}[rng.IntN(3)]}}
	return node
}

// TestLoadsAreExact: whatever has come and gone, nothing is left of amounts that floats would round.
func TestLoadsAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	loads := NewLoads()
	pod := func(i int) *corev1.Pod {
		q := resource.MustParse(fmt.Sprintf("%dn", 1+rng.Int64N(1e12)))
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": q}},
		}}}}
	}
	last := pod(0)
	loads.SetPod(last)
	for range 10_000 {
		loads.SetPod(pod(1 + rng.IntN(50)))
	}
	for i := range 51 {
		loads.DeletePod("a", fmt.Sprint(1+i))
	}
	if got, want := loads.Outside("b", nil), Load([]corev1.Pod{*last}, func(*corev1.Pod) bool { return false }); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestExpectedIsCurrent: what policies take is the same with the sums that are kept as when all stretches are added up anew.
func TestExpectedIsCurrent(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	timelines := []timegrid.Timeline{{}, {Wall: start, Grid: start.Add(-100 * time.Hour), Factor: 60}}
	uses := make([]Use, 5)
	for step := range 2_000 {
		u := &uses[rng.IntN(len(uses))]
		*u = Use{sums: &sums{of: map[sumsOf]sumsFrom{}}}
		for range rng.IntN(6) {
			from := start.Add(time.Duration(rng.IntN(3000)) * time.Minute)
			u.Stretches = append(u.Stretches, Stretch{
				From: from, To: from.Add(time.Duration(rng.IntN(9000)) * time.Minute), Cluster: fmt.Sprint("c", rng.IntN(2)),
				Amount: map[string]float64{fmt.Sprint("r", rng.IntN(2)): float64(rng.IntN(64)) / 8},
			})
		}
		for range 4 {
			cluster, timeline, slot := fmt.Sprint("c", rng.IntN(2)), timelines[rng.IntN(2)], []time.Duration{15 * time.Minute, time.Hour}[rng.IntN(2)]
			from := timeline.ToGrid(start.Add(time.Duration(rng.IntN(3)) * time.Hour))
			var load map[string][]float64
			if rng.IntN(2) == 0 {
				load = map[string][]float64{"r0": {1, 2, 3}}
			}
			clone := maps.Clone(load)
			if clone != nil {
				clone["r0"] = []float64{1, 2, 3}
			}
			got, want := Expected(load, uses, cluster, timeline, from, slot), expectedAnew(clone, uses, cluster, timeline, from, slot)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("step %d: %v, want %v", step, got, want)
			}
		}
	}
}

// expectedAnew is Expected one stretch after the other.
func expectedAnew(load map[string][]float64, others []Use, cluster string, timeline timegrid.Timeline, from time.Time, slot time.Duration) map[string][]float64 {
	for i := range others {
		for _, x := range others[i].Stretches {
			end := timeline.ToGrid(x.To).Sub(from)
			if x.Cluster != cluster || end <= 0 {
				continue
			}
			first := max(0, int(timeline.ToGrid(x.From).Sub(from)/slot))
			last := min(int((end-1)/slot), int(LoadAhead/slot)-1)
			for r, q := range x.Amount {
				if load == nil {
					load = map[string][]float64{}
				}
				if short := last + 1 - len(load[r]); short > 0 {
					load[r] = append(load[r], make([]float64, short)...)
				}
				for t := first; t <= last; t++ {
					load[r][t] += q
				}
			}
		}
	}
	return load
}
