package controller

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/kube"
)

// TestZoneWithoutDataIsWrittenRarely: the status of a zone without data is written when it is first seen, when the wait for an answer
// ends, and then once a minute for the time alone.
func TestZoneWithoutDataIsWrittenRarely(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}, Spec: v1alpha1.GridZoneSpec{Source: v1alpha1.GridZoneSource{
		ConfigMap: &v1alpha1.ConfigMapKey{Namespace: "n", Name: "missing", Key: "series.csv"},
	}}}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(zone).WithStatusSubresource(zone).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	r := &GridZoneReconciler{
		Client: c, Zones: NewZones(), Feeds: &source.Feeds{}, Clock: clk, gone: map[string]time.Time{}, Reader: &kube.ZoneReader{Reader: c, Namespace: "lull-system"},
	}
	const minutes = 10
	looks := 0
	for end := clk.Now().Add(minutes * time.Minute); clk.Now().Before(end); looks++ {
		res, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "z"}})
		if err != nil || res.RequeueAfter <= 0 {
			t.Fatalf("looks again after %v, %v", res.RequeueAfter, err)
		}
		clk.Step(res.RequeueAfter)
	}
	if writes < 2 || writes > minutes+2 {
		t.Errorf("%d looks in %d minutes wrote the status %d times, want 2 to %d", looks, minutes, writes, minutes+2)
	}
}
