//go:build integration && operators

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// nodePool is one of Karpenter's KWOK provider, whose nodes only pods that tolerate it go to. Nothing is
// consolidated: that would evict the test's pods, which nobody makes again.
const nodePool = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: batch}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: batch}
spec:
  template:
    metadata:
      labels: {batch: "true"}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: batch}
      taints:
      - {key: batch, effect: NoSchedule}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["4"]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
  limits: {memory: 1000Gi}
`

// allDay is a schedule of one capacity.
func allDay(capacity string) []v1alpha1.CapacityWindow {
	return []v1alpha1.CapacityWindow{{From: "00:00", To: "24:00", Capacity: v1alpha1.Amount(capacity)}}
}

// TestOperatorKarpenter: a NodePool of the real Karpenter, on its KWOK provider, is given limits by a
// schedule: no more nodes are made than they allow, and in the end they are what they were. While
// Karpenter is not there the curve says so.
func TestOperatorKarpenter(t *testing.T) {
	startController(t)
	ctx := context.Background()
	b := newBed(t, []float64{300}, nil)
	minimum := v1alpha1.Amount("4")
	b.capacityCurve(v1alpha1.CapacityCurveSpec{
		Target: v1alpha1.CapacityTarget{NodePool: "batch"}, Maximum: v1alpha1.Amount("32"), Minimum: &minimum,
		Method: v1alpha1.CapacityMethod{Schedule: allDay("4")},
	})
	b.eventually("the curve to say that there is no Karpenter", func() bool {
		return strings.HasPrefix(says(b.curve(), v1alpha1.ConditionReady), "False TargetAbsent NodePool batch: not there")
	})

	o := newOperator(t, "karpenter")
	o.apply("sigs.k8s.io/karpenter", "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml", "pkg/apis/crds/karpenter.sh_nodepools.yaml", "pkg/apis/crds/karpenter.sh_nodeclaims.yaml", "pkg/apis/crds/karpenter.sh_nodeoverlays.yaml", "pkg/apis/crds/autoscaling.x-k8s.io_capacitybuffers.yaml")
	o.applyText(nodePool)
	o.env = []string{"DISABLE_LEADER_ELECTION=true", fmt.Sprintf("METRICS_PORT=%d", port(t)), fmt.Sprintf("HEALTH_PROBE_PORT=%d", port(t))}
	o.start()
	pool := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"})
		must(t, env.client.Get(ctx, client.ObjectKey{Name: "batch"}, u))
		return u
	}
	limit := func(of string) string {
		v, _, _ := unstructured.NestedString(pool().Object, "spec", "limits", of)
		return v
	}
	b.eventually("the least limit", func() bool { return limit("cpu") == "4" && limit("memory") == "134217728k" })

	const pods = 5 // of three CPUs: one to a node
	for i := range pods {
		must(t, env.client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Namespace: b.ns},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"batch": "true"}, Tolerations: []corev1.Toleration{{Key: "batch", Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{{Name: "work", Image: "example.invalid/work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}}}},
			},
		}))
	}
	// offered are the CPUs of the pool's nodes, scheduled the pods that have one.
	offered := func() (sum float64) {
		var nodes corev1.NodeList
		must(t, env.client.List(ctx, &nodes, client.MatchingLabels{"karpenter.sh/nodepool": "batch"}))
		for i := range nodes.Items {
			sum += nodes.Items[i].Status.Capacity.Cpu().AsApproximateFloat64()
		}
		return sum
	}
	scheduled := func() (n int) {
		var list corev1.PodList
		must(t, env.client.List(ctx, &list, client.InNamespace(b.ns)))
		for i := range list.Items {
			if list.Items[i].Spec.NodeName != "" {
				n++
			}
		}
		return n
	}
	b.eventually("the first node", func() bool { return scheduled() == 1 })
	time.Sleep(10 * time.Second) // nothing comes that could be waited for; on a slow machine this is weaker, and never fails
	if is := offered(); is == 0 || is > 4 || scheduled() != 1 {
		t.Errorf("%v CPUs of nodes while the limit was 4, and %d Pods have one", is, scheduled())
	}
	before := b.curve()
	more := before.DeepCopy()
	more.Spec.Method.Schedule = allDay("24")
	must(t, env.client.Patch(ctx, more, client.MergeFrom(before)))
	b.eventually("more nodes", func() bool { return limit("cpu") == "24" && scheduled() == pods })
	if got := offered(); got > 24 || !meta.IsStatusConditionTrue(b.curve().Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%v CPUs of nodes, %s", got, says(b.curve(), v1alpha1.ConditionReady))
	}
	must(t, env.client.Delete(ctx, b.curve()))
	b.eventually("the limits to be what they were", func() bool { return limit("cpu") == "" && limit("memory") == "1000Gi" })
}
