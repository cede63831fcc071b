//go:build integration && (fleet || operators || browser)

package integration

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

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
