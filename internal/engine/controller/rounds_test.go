package controller

import (
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/autoscale"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
)

// TestStalledControllerIsNotReady: a controller that leads is not ready ten minutes after its last decision, if there is a CarbonPolicy. The next
// decision makes it ready.
func TestStalledControllerIsNotReady(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "z"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(policy).WithIndex(&corev1.Pod{}, policyIndex, policyNameOf).Build()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	clock, elected, zones := clocktesting.NewFakeClock(now), make(chan struct{}), NewZones()
	close(elected)
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "Z"}, []carbon.Sample{{From: now.Add(-48 * time.Hour), To: now.Add(96 * time.Hour), Value: 300}})
	if err != nil {
		t.Fatal(err)
	}
	zones.Set("z", Zone{Outlook: carbon.Outlook{Expected: series}})
	applier := &kube.Applier{Client: c, Recorder: silent{}}
	r := &CarbonPolicyReconciler{
		Client: c, Live: c, Zones: zones, Kinds: NewKindSet(), Queues: NewQueues(), Applier: applier, Statements: applier, Curves: curve.NewStore(),
		Autoscaling: autoscale.NewStore(c, clock), Clock: clock, Planner: func(string, map[string]string, []string) (plan.Planner, error) { return asap.Planner{}, nil },
		Rounds: &manager.Rounds{Clock: clock, Elected: elected, Idle: noPolicyIn(c)},
	}
	r.initialize()
	for _, probe := range []struct {
		when   string
		after  time.Duration
		policy bool
		decide bool
		ready  bool
	}{
		{"it starts without a policy", 0, false, false, true},
		{"there is none for long", time.Hour, false, false, true},
		{"there is one", 0, true, false, true},
		{"it is not decided", manager.Stalled + time.Second, false, false, false},
		{"it is decided", 0, false, true, true},
		{"ten minutes later", manager.Stalled, false, false, true},
		{"a second later", time.Second, false, false, false},
		{"it is decided again", 0, false, true, true},
	} {
		clock.Step(probe.after)
		if probe.policy {
			if err := c.Create(t.Context(), policy); err != nil {
				t.Fatal(err)
			}
		}
		if probe.decide {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
				t.Fatal(err)
			}
			if _, err := r.reconcile(t.Context(), policy, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Rounds.Check(httptest.NewRequest("GET", "/readyz", nil)); (err == nil) != probe.ready {
			t.Errorf("%s: %v, want ready %v", probe.when, err, probe.ready)
		}
	}
}
