package simkube

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/engine/controller"
)

// TestModelGrantsOnlyTheRightsOfTheChart: a program has the rights that the chart gives its service account, and no others.
func TestModelGrantsOnlyTheRightsOfTheChart(t *testing.T) {
	Test(t, 1, func(w *World) {
		scheme, err := controller.NewScheme()
		must(err)
		w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		for account, may := range map[string]bool{"lull-controller": true, "lull-failsafe": false, "lull-nobody": false} {
			c, err := client.New((&Process{Name: account, Account: account, Store: w.Store}).Config(), client.Options{Scheme: scheme})
			must(err)
			if err := c.List(w.Context(), &corev1.NodeList{}); (err == nil) != may || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s lists nodes: %v", account, err)
			}
			lease := func(namespace string) error {
				return c.Create(w.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: "x", Namespace: namespace}})
			}
			if err := lease("lull-system"); (err == nil) != (account != "lull-nobody") {
				t.Errorf("%s creates a lease in its own namespace: %v", account, err)
			}
			if err := lease("team"); !apierrors.IsForbidden(err) {
				t.Errorf("%s creates a lease elsewhere: %v", account, err)
			}
		}
	})
}
