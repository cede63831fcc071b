package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/feedback"
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
		if err := r.writeStatus(ctx, &read, &kube.View{Waiting: step.waiting}, feedback.New(), nil, nil, step.wake); err != nil {
			t.Fatal(err)
		}
		if patches != step.want {
			t.Errorf("%s: %d patches, want %d", step.what, patches, step.want)
		}
	}
}

// TestPolicyIsNotReadyIfChangesAreRefused: a policy whose changes the API server refuses is not ready, and says why. A failure that passes by itself is none.
func TestPolicyIsNotReadyIfChangesAreRefused(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	forbidden := func(name string) error {
		return apierrors.NewForbidden(jobs, name, errors.New("Lull's controller may change only a"))
	}
	for name, tc := range map[string]struct {
		problem, failed error
		reason, message string
	}{
		"all went well":    {nil, nil, "Deciding", ""},
		"refused":          {nil, errors.Join(forbidden("a"), forbidden("b")), "ChangesRefused", "refuses 2 changes of workloads"},
		"one of two":       {nil, errors.Join(apierrors.NewTimeoutError("slow", 1), forbidden("b")), "ChangesRefused", `jobs.batch "b" is forbidden: Lull's controller may change only a`},
		"an outage":        {nil, errors.Join(apierrors.NewTimeoutError("slow", 1)), "Deciding", ""},
		"a plan, refused":  {nil, nil, "ChangesRefused", "refuses 1 changes of workloads or their plans"},
		"it cannot decide": {errors.New("no zone"), errors.Join(forbidden("a")), "NotDeciding", "no zone"},
	} {
		policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}
		r := &CarbonPolicyReconciler{
			Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(policy).WithStatusSubresource(policy).Build(),
			Clock:  clock.RealClock{}, Curves: curve.NewStore(), slow: slowness{}, planners: planners{},
			Planner: func(string, map[string]string, []string) (plan.Planner, error) { return cheapest.Planner{}, nil },
		}
		view := &kube.View{}
		if name == "a plan, refused" {
			view.Workloads = []*kube.Workload{aJob(t, "a")}
			r.writer = newWriter()
			r.writer.refused[writeKey{writePlan, "n", "a"}] = forbidden("a")
		}
		if err := r.writeStatus(t.Context(), policy, view, feedback.New(), tc.problem, tc.failed, time.Now()); err != nil {
			t.Fatal(err)
		}
		ready := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.message) {
			t.Errorf("%s: %+v, want %s, %q", name, ready, tc.reason, tc.message)
		}
	}
}
