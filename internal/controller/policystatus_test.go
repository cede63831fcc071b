package controller

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/curve"
	"lull.dev/lull/internal/feedback"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
)

// TestWriteStatusOnChange: writeStatus sends a patch if the status differs from the one read, and none otherwise. The
// next decision is read in local time and computed in UTC.
func TestWriteStatusOnChange(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}
	patches := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).WithStatusSubresource(policy).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			patches++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	r := &CarbonPolicyReconciler{
		Client: c, Clock: clock.RealClock{}, Curves: curve.NewStore(), slow: slowness{}, planners: planners{},
		Planner: func(string, map[string]string, []string) (plan.Planner, error) { return cheapest.Planner{}, nil },
	}
	wake := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	for _, step := range []struct {
		what    string
		waiting int
		wake    time.Time
		want    int
	}{
		{"at first", 1, wake, 1}, {"the same again", 1, wake, 0}, {"a part of a second later", 1, wake.Add(900 * time.Millisecond), 0},
		{"a second later", 1, wake.Add(time.Second), 1}, {"nothing waits", 0, wake, 1}, {"nothing waits, later", 0, wake.Add(time.Hour), 0},
	} {
		patches = 0
		var read v1alpha1.CarbonPolicy
		if err := c.Get(ctx, client.ObjectKeyFromObject(policy), &read); err != nil {
			t.Fatal(err)
		}
		if err := r.writeStatus(ctx, &read, &kube.View{Waiting: step.waiting}, feedback.New(), nil, step.wake); err != nil {
			t.Fatal(err)
		}
		if patches != step.want {
			t.Errorf("%s: %d patches, want %d", step.what, patches, step.want)
		}
	}
}
