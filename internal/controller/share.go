package controller

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/feedback"
	"lull.dev/lull/internal/fleet"
	"lull.dev/lull/internal/kube"
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

// others are the uses of all policies but one, in the order of their names.
func (r *CarbonPolicyReconciler) others(than types.NamespacedName) (out []kube.Use) {
	names := slices.SortedFunc(maps.Keys(r.uses), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range names {
		if name != than {
			out = append(out, r.uses[name])
		}
	}
	return out
}

// expect takes the load of strangers in a snapshot of this cluster for what it is through an hour, and after that for what
// is usual, as far as that is known; what other policies take comes on top.
func expect(s *decide.Snapshot, habit *fleet.Habit, others []kube.Use, timeline timegrid.Timeline) {
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
