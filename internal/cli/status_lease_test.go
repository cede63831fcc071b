package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
)

// TestStatusTellsOfTheDead: status fails, after it has shown all, if the controller or the watchdog has not
// renewed its lease or has left it, and at once if the namespace is not there.
func TestStatusTellsOfTheDead(t *testing.T) {
	now := time.Now()
	lease := func(name, holder string, age time.Duration) client.Object {
		at, seconds := metav1.NewMicroTime(now.Add(-age)), int32(15)
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "lull-system", Name: name + ".lull.dev"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds}}
	}
	for name, tc := range map[string]struct {
		namespace string
		objects   []client.Object
		out, err  string
		forbidden bool
	}{
		"at work":           {"", []client.Object{lease("controller", "pod-1", time.Second), lease("failsafe", "pod-2", time.Second)}, "at work (pod-1)", "", false},
		"a dead controller": {"", []client.Object{lease("controller", "pod-1", 5*time.Minute), lease("failsafe", "pod-2", 0)}, "silent for 5m0s (pod-1)", "the controller does not work: silent for 5m0s (pod-1); check: kubectl get deployments,pods -n lull-system", false},
		"a dead watchdog":   {"", []client.Object{lease("controller", "pod-1", 0), lease("failsafe", "pod-2", time.Hour)}, "silent for 1h0m0s (pod-2)", "the failsafe does not work", false},
		"nobody":            {"", []client.Object{lease("controller", "", 0)}, "no process holds the lease", "the controller does not work: no process holds the lease", false},
		"no lease":          {"", nil, "no lease in namespace lull-system: not installed", "", false},
		"a namespace":       {"team-a", nil, "POLICY", "", false},
		"no such namespace": {"team-b", nil, "", `namespace "team-b" is not there`, false},
		"misspelt": {"team-a", []client.Object{&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "clean"}, Status: v1alpha1.CarbonPolicyStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionMisspelt, Status: metav1.ConditionTrue, Reason: "UnknownAnnotation", Message: "Job train: annotation lull.dev/x is unknown"},
		}}}}, "warning: policy team-a/clean: Job train: annotation lull.dev/x is unknown\n", "", false},
		"one that is not read": {"team-b", nil, "POLICY", "", true},
	} {
		objects := append(tc.objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
		c := builderOf(t, objects...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, is := obj.(*corev1.Namespace); is && tc.forbidden {
					return apierrors.NewForbidden(kschema.GroupResource{Resource: "namespaces"}, key.Name, nil)
				}
				return c.Get(ctx, key, obj, opts...)
			},
		}).Build()
		var out bytes.Buffer
		err := status(t.Context(), &out, c, tc.namespace, "lull-system", formatTable, now)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", name, err, tc.err)
		}
		if !strings.Contains(out.String(), tc.out) || tc.out != "" && !strings.Contains(out.String(), "POLICY") {
			t.Errorf("%s: lacks %q:\n%s", name, tc.out, out.String())
		}
	}
}
