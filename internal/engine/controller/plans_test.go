package controller

import (
	"context"
	"maps"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/feedback"
)

// TestTwoLearnOneProfile: what another policy learns of a profile between the read and the write stays; the next measurement
// is added to it.
func TestTwoLearnOneProfile(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	profile := &v1alpha1.ScalingProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"},
		Spec:       v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{{Workers: 1, Throughput: 10}, {Workers: 8, Throughput: 80}}},
	}
	shape := func(workers int, ratio float64) feedback.Shape {
		return feedback.Shape{Profile: "p", Workers: workers, Against: 1, Ratio: ratio, At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	}
	var between func(c client.Client) // what happens after the read
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(profile).WithStatusSubresource(profile).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			if f := between; f != nil {
				between = nil
				f(c)
			}
			return err
		},
	}).Build()
	learn := func(c client.Client, s feedback.Shape) {
		t.Helper()
		if err := writeProfile(t.Context(), c, "n", s, 0.05); err != nil {
			t.Fatal(err)
		}
	}
	observed := func() map[int32]float64 {
		var p v1alpha1.ScalingProfile
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(profile), &p); err != nil {
			t.Fatal(err)
		}
		out := map[int32]float64{}
		for _, point := range p.Status.Observed {
			out[point.Workers] = math.Round(10*point.Throughput) / 10
		}
		return out
	}
	between = func(c client.Client) { learn(c, shape(2, 1.5)) }
	learn(c, shape(4, 2))
	if want, got := map[int32]float64{2: 1.5}, observed(); !maps.Equal(want, got) {
		t.Errorf("after two at a time, the profile has %v, want %v", got, want)
	}
	learn(c, shape(4, 2))
	if want, got := map[int32]float64{2: 1.5, 4: 2}, observed(); !maps.Equal(want, got) {
		t.Errorf("after the next measurement, the profile has %v, want %v", got, want)
	}
	learn(c, feedback.Shape{Profile: "gone", Workers: 2, Against: 1, Ratio: 1.5})
}
