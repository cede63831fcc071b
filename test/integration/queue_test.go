//go:build integration && (fleet || realnode)

package integration

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// inQueue makes the bed's policy one of the queue lab, and gives the namespace that queue.
func (b bed) inQueue(clusters ...string) {
	b.t.Helper()
	ctx := context.Background()
	must(b.t, env.client.Create(ctx, b.localQueue()))
	b.setPolicy(func(p *v1alpha1.CarbonPolicy) { p.Spec.Queues, p.Spec.Clusters = []string{"lab"}, clusters })
	b.eventually("the policy to gate what is queued", func() bool {
		probe := b.queued("probe", nil)
		return env.client.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[kueue.AnnotationGates] == v1alpha1.Gate
	})
}

// localQueue leads to the queue of the lab.
func (b bed) localQueue() *unstructured.Unstructured {
	q := &unstructured.Unstructured{}
	q.SetGroupVersionKind(kueue.GroupVersion.WithKind("LocalQueue"))
	q.SetNamespace(b.ns)
	q.SetName("lab")
	must(b.t, unstructured.SetNestedField(q.Object, "lab", "spec", "clusterQueue"))
	return q
}

func (b bed) setPolicy(change func(*v1alpha1.CarbonPolicy)) {
	b.t.Helper()
	ctx := context.Background()
	var p v1alpha1.CarbonPolicy
	must(b.t, env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "clean"}, &p))
	before := p.DeepCopy()
	change(&p)
	must(b.t, env.client.Patch(ctx, &p, client.MergeFrom(before)))
}

// queued is a Job of one hour in the queue.
func (b bed) queued(name string, annotations map[string]string) *batchv1.Job {
	j := b.job(name, annotations)
	j.Labels[kueue.LabelQueue] = "lab"
	return j
}

// workload is what Kueue keeps of a Job; nil for nothing.
func (b bed) workload(name string) *kueue.Workload {
	b.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
	must(b.t, env.client.List(context.Background(), list, client.InNamespace(b.ns), client.MatchingLabels{kueue.LabelJobUID: string(b.get(name).UID)}))
	for i := range list.Items {
		w, err := kueue.Read(&list.Items[i])
		must(b.t, err)
		return &w
	}
	return nil
}
