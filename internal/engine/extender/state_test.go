package extender

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// on is a Pod on a node.
func on(name, node, cpus string) *corev1.Pod {
	return testPod(name, cpus, midnight, func(p *corev1.Pod) { p.Spec.NodeName = node })
}

// TestCountsAsRecounted: after any changes of nodes and Pods the sums are those of all that is there.
func TestCountsAsRecounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := newBed(t, "")
	for step := range 3000 {
		node, pod := fmt.Sprint("node-", rng.IntN(8)), fmt.Sprint("pod-", rng.IntN(40))
		switch rng.IntN(6) {
		case 0:
			n := testNode(node, 1+rng.Int64N(64), nil)
			n.Spec.Unschedulable = rng.IntN(3) == 0
			b.SetNode(n)
		case 1:
			b.DeleteNode(node)
		case 2:
			b.DeletePod(types.UID(pod))
		default:
			b.SetPod(on(pod, node, fmt.Sprintf("%dm", 100*(1+rng.IntN(20)))))
		}
		capacity, used, pods, powers := maps.Clone(b.capacity), maps.Clone(b.used), map[string]int{}, maps.Clone(b.powers.of)
		for name, n := range b.nodes {
			pods[name] = n.pods
		}
		b.recount()
		for r := range b.used {
			if math.Abs(used[r]-b.used[r]) > 1e-9 || math.Abs(capacity[r]-b.capacity[r]) > 1e-9 {
				t.Fatalf("step %d: %s: used %v of %v, recounted %v of %v", step, r, used[r], capacity[r], b.used[r], b.capacity[r])
			}
		}
		for name, n := range b.nodes {
			if n.pods != pods[name] {
				t.Fatalf("step %d: %s has %d Pods, recounted %d", step, name, pods[name], n.pods)
			}
		}
		if !maps.Equal(powers, b.powers.of) {
			t.Fatalf("step %d: busy nodes differ", step)
		}
	}
}

// BenchmarkNodeComesAndGoes is a node with 20 Pods that becomes ready and goes, as autoscalers have it.
func BenchmarkNodeComesAndGoes(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", nodes, 20*nodes), func(b *testing.B) {
			bed := newBed(b, nodesConfig)
			for i := range nodes {
				name := fmt.Sprint("node-", i)
				bed.SetNode(testNode(name, 64, nil))
				for j := range 20 {
					bed.SetPod(on(fmt.Sprint(name, "-", j), name, "1"))
				}
			}
			n := testNode("node-0", 64, nil)
			b.ReportAllocs()
			for b.Loop() {
				bed.DeleteNode("node-0")
				bed.SetNode(n)
			}
		})
	}
}

// TestCacheHoldsLittleOfATypedObject: the cache keeps none of the annotations and labels that their owners write into policies and zones.
func TestCacheHoldsLittleOfATypedObject(t *testing.T) {
	huge := map[string]string{"mine": strings.Repeat("x", 240_000)}
	meta := metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", Annotations: huge, Labels: huge}
	for _, x := range []client.Object{&v1alpha1.CarbonPolicy{ObjectMeta: meta}, &v1alpha1.GridZone{ObjectMeta: meta}} {
		if _, err := strip(x); err != nil || x.GetAnnotations() != nil || x.GetLabels() != nil || x.GetUID() != "u" {
			t.Errorf("%T: %d annotations and %d labels are kept, %v", x, len(x.GetAnnotations()), len(x.GetLabels()), err)
		}
	}
}
