package controller

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// TestCacheHoldsLittleOfATypedObject: the cache keeps none of the annotations and labels that their owners write into objects that are cached by their Go type.
func TestCacheHoldsLittleOfATypedObject(t *testing.T) {
	huge := map[string]string{"mine": strings.Repeat("x", 240_000), v1alpha1.AnnotationKeep: strings.Repeat("x", 240_000)}
	meta := metav1.ObjectMeta{Name: "a", Namespace: "n", UID: "u", ResourceVersion: "7", Generation: 3, Annotations: huge, Labels: huge}
	for _, x := range []client.Object{
		&v1alpha1.CarbonPolicy{ObjectMeta: meta}, &v1alpha1.ScalingProfile{ObjectMeta: meta}, &v1alpha1.CarbonPlan{ObjectMeta: meta}, &v1alpha1.CapacityCurve{ObjectMeta: meta},
		&v1alpha1.Follow{ObjectMeta: meta}, &v1alpha1.GridZone{ObjectMeta: meta}, &corev1.ResourceQuota{ObjectMeta: meta},
	} {
		o, err := NewKindSet().Transform(x)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil || len(text) > 1024 || x.GetUID() != "u" || x.GetGeneration() != 3 {
			t.Errorf("%T: %d bytes are kept, %v", x, len(text), err)
		}
	}
}

// TestWritesKeepWhatTheCacheDrops: the status and the finalizers of an object are written from what the cache has of it, and its user's annotations and labels stay.
func TestWritesKeepWhatTheCacheDrops(t *testing.T) {
	ctx := context.Background()
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]string{"mine": "x"}
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", Annotations: mine, Labels: mine}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).WithStatusSubresource(policy).Build()
	cached := func() *v1alpha1.CarbonPolicy {
		var p v1alpha1.CarbonPolicy
		if err := c.Get(ctx, client.ObjectKeyFromObject(policy), &p); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(p.Annotations, mine) || !maps.Equal(p.Labels, mine) {
			t.Errorf("annotations %v, labels %v; want %v", p.Annotations, p.Labels, mine)
		}
		if _, err := NewKindSet().Transform(&p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	p := cached()
	if changed, err := kube.SetFinalizer(ctx, c, p, "lull.dev/x", true); !changed || err != nil {
		t.Errorf("finalizer: changed %v, %v", changed, err)
	}
	p = cached()
	before := p.DeepCopy()
	p.Status.ObservedGeneration = 9
	if wrote, err := kube.PatchStatus(ctx, c, p, before); !wrote || err != nil {
		t.Errorf("status: wrote %v, %v", wrote, err)
	}
	if p = cached(); p.Status.ObservedGeneration != 9 || len(p.Finalizers) != 1 {
		t.Errorf("generation %d, finalizers %v", p.Status.ObservedGeneration, p.Finalizers)
	}
}
