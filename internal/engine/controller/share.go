package controller

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/feedback"
	"lull.dev/lull/internal/fleet/hub"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// use is what the workloads of a policy take; in Shadow nothing runs as planned.
func use(c kube.Context, view *kube.View, memory *feedback.Memory) kube.Use {
	phases := memory.Phases
	if c.Policy.Spec.Mode == v1alpha1.ModeShadow {
		phases = func(*kube.Workload) []decide.Phase { return nil }
	}
	return kube.UseOf(view, c.Timeline, phases)
}

// takes states what the workloads of a policy take.
func (r *CarbonPolicyReconciler) takes(policy types.NamespacedName, use kube.Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uses[policy] = use
}

// thisCluster is the capacity of the cluster where the controller runs. Those of CapacityCurves and of other clusters have the
// names of these, after a prefix.
const thisCluster = "here"

// claims are the capacity that a decision on a policy plans with; none if the policy is gone. Policies that follow a
// CapacityCurve plan with its capacity, which is part of that of this cluster; those that follow none plan around all of
// them. A policy also claims the clusters that its workloads still take.
func (r *CarbonPolicyReconciler) claims(key types.NamespacedName, policy *v1alpha1.CarbonPolicy) []claim {
	if policy == nil {
		return nil
	}
	var out []claim
	elsewhere := slices.Clone(policy.Spec.Clusters)
	if len(elsewhere) == 0 {
		curve, follows := r.Curves.Name(key)
		out = append(out, claim{thisCluster, follows})
		if follows {
			out = append(out, claim{capacity: "curve/" + curve})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.uses[key].Clusters {
		if name != kube.LocalCluster && !slices.Contains(elsewhere, name) {
			elsewhere = append(elsewhere, name)
		}
	}
	for _, name := range elsewhere {
		out = append(out, claim{capacity: "cluster/" + name})
	}
	return out
}

// others are the uses of all policies but one, in the order of their names.
func (r *CarbonPolicyReconciler) others(than types.NamespacedName) (out []kube.Use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(r.uses), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, name := range names {
		if name != than {
			out = append(out, r.uses[name])
		}
	}
	return out
}

// expect takes the load of strangers in a snapshot of this cluster for what is usual, as far as that is known.
func (r *CarbonPolicyReconciler) expect(s *decide.Snapshot, others []kube.Use, timeline timegrid.Timeline) {
	r.mu.Lock()
	habit := r.habits[timeline]
	if habit == nil {
		habit = &hub.Habit{}
		r.habits[timeline] = habit
	}
	r.mu.Unlock()
	// Only a policy that claims this cluster uses it, and no two do at the same time.
	expect(s, habit, others, timeline)
}

// expect takes the load of strangers in a snapshot of this cluster for what it is through an hour, and after that for what
// is usual, as far as that is known; what other policies take comes on top.
func expect(s *decide.Snapshot, habit *hub.Habit, others []kube.Use, timeline timegrid.Timeline) {
	here := &s.Clusters[0]
	habit.See(s.Now, here.Load)
	from, until := timegrid.Align(s.Now, s.Slot), s.Now.Add(kube.LoadAhead)
	for i := range s.Tasks {
		if d := s.Tasks[i].Deadline; d.After(until) {
			until = d
		}
	}
	const most = 1 << 12
	slots := min(int(until.Sub(from)/s.Slot)+1, most)
	ahead := habit.Usual().Ahead(here.Load, here.Capacity, from, s.Slot, slots)
	here.Load, here.LoadAt = nil, kube.Expected(ahead, others, here.Name, timeline, from, s.Slot)
}
