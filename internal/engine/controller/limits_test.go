package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/workload"
)

// slowPlanner plans for a long time. It then fails, or returns what it has.
type slowPlanner struct {
	takes time.Duration
	fails bool
	asked int
}

func (p *slowPlanner) Plan(ctx context.Context, problem *plan.Problem) (plan.Result, error) {
	p.asked++
	select {
	case <-time.After(p.takes):
	case <-ctx.Done():
		if p.fails {
			return plan.Result{}, ctx.Err()
		}
	}
	return cheapest.Planner{}.Plan(context.Background(), problem)
}

// waiting is a snapshot with a task that is to be planned.
func waiting(t *testing.T) decide.Snapshot {
	t.Helper()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	series, err := carbon.NewSeries(carbon.Provenance{}, []carbon.Sample{
		{From: start, To: start.Add(4 * time.Hour), Value: 300}, {From: start.Add(4 * time.Hour), To: start.Add(24 * time.Hour), Value: 100},
	})
	if err != nil {
		t.Fatal(err)
	}
	return decide.Snapshot{
		Now: start, Slot: time.Hour,
		Clusters: []decide.Cluster{{Name: "local", Capacity: map[string]float64{"cpu": 4}, Carbon: series, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}}},
		Tasks: []decide.Task{{
			ID: "a", Kind: workload.Rigid, State: decide.Waiting, Submitted: start, Remaining: time.Hour, Deadline: start.Add(12 * time.Hour),
			Request: map[string]float64{"cpu": 1},
		}},
	}
}

// TestSlowPlannerIsReplaced: a planner that takes too long costs others that time once in five minutes. Meanwhile
// planner cheapest plans, and the policy says so.
func TestSlowPlannerIsReplaced(t *testing.T) {
	for name, fails := range map[string]bool{"it fails": true, "it returns what it has": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &CarbonPolicyReconciler{
					Clock: clock.RealClock{}, Limits: Limits{DecisionTime: time.Second}, slow: slowness{},
					substitute: func() (plan.Planner, error) { return cheapest.Planner{}, nil },
				}
				policy := types.NamespacedName{Namespace: "n", Name: "p"}
				s, planner := waiting(t), &slowPlanner{takes: time.Hour, fails: fails}
				look := func(asked int, took time.Duration) {
					t.Helper()
					begin := time.Now()
					d, err := r.decideWithin(t.Context(), s, planner, policy)
					if err != nil || d.Actions[0].Verb != decide.Wait || planner.asked != asked || time.Since(begin) != took {
						t.Errorf("%v, %+v, asked %d times, took %v; want a wait, %d times, %v", err, d.Actions, planner.asked, time.Since(begin), asked, took)
					}
				}
				look(1, time.Second)
				// Another policy of the tenant, and the same one made anew, do not cost others that time again; one of another tenant is planned as ever.
				policy.Name = "another"
				look(1, 0)
				if text := r.tooSlow(policy); !strings.Contains(text, "CarbonPolicy p ") {
					t.Errorf("another policy of the namespace says %q", text)
				}
				if text := r.tooSlow(types.NamespacedName{Namespace: "m", Name: "p"}); text != "" {
					t.Errorf("a policy of another namespace says %q", text)
				}
				policy.Name = "p"
				if text := r.tooSlow(policy); !strings.Contains(text, "1s") || !strings.Contains(text, "cheapest") {
					t.Errorf("the policy says %q", text)
				}
				look(1, 0)
				time.Sleep(slowAgain)
				if text := r.tooSlow(policy); text != "" {
					t.Errorf("the policy says %q when its planner is tried again", text)
				}
				look(2, time.Second)
				planner.takes = time.Millisecond
				time.Sleep(slowAgain)
				look(3, time.Millisecond)
				look(4, time.Millisecond)
			})
		})
	}
}

// TestEndOfTheControllerIsNotSlow: a decision that ends with the controller says nothing of its planner.
func TestEndOfTheControllerIsNotSlow(t *testing.T) {
	r := &CarbonPolicyReconciler{
		Clock: clock.RealClock{}, Limits: Limits{DecisionTime: time.Hour}, slow: slowness{},
		substitute: func() (plan.Planner, error) { return cheapest.Planner{}, nil },
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.decideWithin(ctx, waiting(t), &slowPlanner{takes: time.Hour, fails: true}, types.NamespacedName{}); !errors.Is(err, context.Canceled) || len(r.slow) > 0 {
		t.Errorf("%v, slow %v", err, r.slow)
	}
}

// TestPlannersThatPoliciesMayName: the default, cheapest, and those that the administrator allows.
func TestPlannersThatPoliciesMayName(t *testing.T) {
	unknown := errors.New("unknown planner")
	build := func(name string, _ map[string]string, _ []string) (plan.Planner, error) {
		if name == "crystal-ball" {
			return nil, unknown
		}
		return cheapest.Planner{}, nil
	}
	if _, err := (Limits{Planners: []string{"joint"}}).bounded(build)("crystal-ball", nil, nil); !errors.Is(err, unknown) {
		t.Errorf("an unknown planner: %v", err)
	}
	for name, allowed := range map[string]bool{"": true, "cheapest": true, "joint": true, "exact": false} {
		_, err := Limits{Planners: []string{"joint", "asap"}}.bounded(build)(name, nil, nil)
		if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "allowed: joint, asap") {
			t.Errorf("planner %q: %v", name, err)
		}
		if _, err := (Limits{}).bounded(build)(name, nil, nil); err != nil {
			t.Errorf("planner %q without limits: %v", name, err)
		}
	}
}
