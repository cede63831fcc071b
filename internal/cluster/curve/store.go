// Package curve sets how much of a cluster may be used, slot by slot: it carries CapacityCurves out on
// queues of Kueue, node pools and nodes, learns from what has come, and tells policies what they may
// plan with.
package curve

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// Demand is what the workloads of a policy ask for, as last decided on. It is immutable.
type Demand struct {
	// Tasks that wait or run, what each of them takes in all at its least scale, and what is planned
	// of it.
	Tasks   []decide.Task
	Runtime []time.Duration
	Phases  [][]decide.Phase
	// Margin is kept between the end of a task and its deadline.
	Margin time.Duration
	Power  power.PerUnit
	// Beside is what others need of the same capacity, in units of the resource of the curve: it may not wait.
	Beside float64
	// Until is when the capacity can be raised again at the latest, if that is after the present slot: what comes to its latest start before may not wait.
	Until time.Time
}

// Now is what a curve lets policies plan with. It is immutable.
type Now struct {
	// Revision differs where something else may be planned than before.
	Revision string
	// Start is when the present slot began; Shares of Totals may be used in it and in those after it.
	// What comes later is not bounded yet.
	Start  time.Time
	Slot   time.Duration
	Shares []float64
	// Totals are what there is at the maximum, by resource. Nodes are those that offer it; none for a
	// quota.
	Totals map[string]float64
	Nodes  map[string]bool
	// Planner sets the scales of workloads where their policy names planner carbonflex; nil elsewhere.
	Planner plan.Planner
	// Victims are the tasks that are to make room.
	Victims map[string]bool
}

// Capacity is what may be used in slots of another length from a time on, as decide.Cluster takes it:
// the last value goes on.
func (n *Now) Capacity(from time.Time, slot time.Duration) map[string][]float64 {
	slots := int(math.Ceil(float64(n.Start.Add(time.Duration(len(n.Shares))*n.Slot).Sub(from)) / float64(slot)))
	out := make(map[string][]float64, len(n.Totals))
	for r, total := range n.Totals {
		values := make([]float64, 0, max(0, slots)+1)
		for t := range max(0, slots) {
			at := from.Add(time.Duration(t) * slot)
			k := min(max(0, int(at.Sub(n.Start)/n.Slot)), len(n.Shares)-1)
			values = append(values, total*n.Shares[k])
		}
		out[r] = append(values, total)
	}
	return out
}

// End is when the present slot ends.
func (n *Now) End() time.Time { return n.Start.Add(n.Slot) }

// Beside says whether a pod of others uses the same capacity: one on its nodes. A quota is for the
// workloads of the policies.
func (n *Now) Beside(pod *corev1.Pod) bool { return n.Nodes[pod.Spec.NodeName] }

// Replans says whether a task is to be planned anew when the curve has changed: what waits, what makes
// room, and everything whose scale the curve's method sets. What else runs goes on.
func (n *Now) Replans(t *decide.Task) bool {
	return t.State == decide.Waiting || n.Planner != nil && t.Kind != workload.Rigid || n.Victims[t.ID]
}

// Store is what policies and curves know of each other. It is safe for concurrent use.
type Store struct {
	mu      sync.RWMutex
	demands map[types.NamespacedName]Demand
	curves  map[string]Now
	of      map[types.NamespacedName]string
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{demands: map[types.NamespacedName]Demand{}, curves: map[string]Now{}, of: map[types.NamespacedName]string{}}
}

// Report takes what a policy's workloads ask for.
func (s *Store) Report(policy types.NamespacedName, d Demand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.demands[policy] = d
}

// Forget drops a policy that is gone.
func (s *Store) Forget(policy types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.demands, policy)
}

// Of is what the curve of a policy lets it plan with; false where none bounds it.
func (s *Store) Of(policy types.NamespacedName) (Now, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now, ok := s.curves[s.of[policy]]
	return now, ok
}

// Name returns the name of the curve that bounds a policy; false if none does.
func (s *Store) Name(policy types.NamespacedName) (string, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	name := s.of[policy]
	_, ok := s.curves[name]
	return name, ok
}

// bind says which policies follow a curve; those of another one are refused.
func (s *Store) bind(curve string, policies []types.NamespacedName) (refused []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(p types.NamespacedName, of string) bool { return of == curve && !slices.Contains(policies, p) })
	for _, p := range policies {
		if of, bound := s.of[p]; bound && of != curve {
			refused = append(refused, p)
			continue
		}
		s.of[p] = curve
	}
	return refused
}

// set tells what a curve lets plan with; nil that it bounds nothing.
func (s *Store) set(curve string, now *Now) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == nil {
		delete(s.curves, curve)
		return
	}
	s.curves[curve] = *now
}

// demand is what the workloads of some policies ask for, in their order; missing says that one of them
// has not been decided on yet.
func (s *Store) demand(policies []types.NamespacedName) (out []Demand, missing bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range policies {
		d, ok := s.demands[p]
		if !ok {
			missing = true
			continue
		}
		out = append(out, d)
	}
	return out, missing
}

// victims are the tasks of demands that make room for an excess of a resource: pausable, with slack
// until a time, those first that lose least.
func victims(demands []Demand, resource string, excess float64, until time.Time) map[string]bool {
	var running []capacity.Running
	var ids []string
	for i := range demands {
		for j := range demands[i].Tasks {
			t := &demands[i].Tasks[j]
			x, runs := track.Stoppable(t, resource, until, demands[i].Margin)
			if !runs {
				continue
			}
			running = append(running, x)
			ids = append(ids, t.ID)
		}
	}
	out := map[string]bool{}
	for _, i := range capacity.Victims(running, excess) {
		out[ids[i]] = true
	}
	return out
}
