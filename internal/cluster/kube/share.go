package kube

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// Use is what the workloads of a policy take of the clusters, for other policies to plan around.
type Use struct {
	// Workloads are those that it counts.
	Workloads map[types.UID]bool
	// Namespace is that of the policy, and pods finds those of its workloads that take capacity at the time of the decision. The
	// stretches count for these pods.
	Namespace string
	pods      *podIndex
	// Clusters are those that the stretches take, each once.
	Clusters []string
	// Stretches are what runs, until it is expected to end, and what is planned. They do not change.
	Stretches []Stretch
	// sums keeps sums of the stretches; nil keeps none.
	sums *sums
}

// Stretch is a time (of the wall clock) in which a workload takes an amount, by resource in base units, of
// a cluster.
type Stretch struct {
	From, To time.Time
	Cluster  string
	Amount   map[string]float64
}

// UseOf is what the tasks of a view take from now on; phases is what is planned of a workload. What runs takes
// it at least through the present slot, however long it was thought to take; what no node has room for takes nothing.
//
// Complexity: O(tasks + phases).
func UseOf(view *View, timeline timegrid.Timeline, phases func(*Workload) []decide.Phase) Use {
	s := &view.Snapshot
	out := Use{Workloads: make(map[types.UID]bool, len(s.Tasks)), Namespace: view.Namespace, sums: &sums{of: map[sumsOf]sumsFrom{}}}
	var taking []*Workload
	for i := range s.Tasks {
		t, w := &s.Tasks[i], view.Workloads[i]
		out.Workloads[w.UID()] = true
		add := func(from, to time.Time, cluster string, workers int) {
			amount := make(map[string]float64, len(t.Request))
			for r, q := range t.Request {
				amount[r] = q * float64(workers)
			}
			if !slices.Contains(out.Clusters, cluster) {
				out.Clusters = append(out.Clusters, cluster)
			}
			out.Stretches = append(out.Stretches, Stretch{From: timeline.ToWall(from), To: timeline.ToWall(to), Cluster: cluster, Amount: amount})
		}
		if t.Unscheduled {
			continue
		}
		covered, takes := s.Now, false
		for _, p := range phases(w) {
			workers := 1
			if t.Scaling != nil {
				workers = p.Workers
			}
			if p.To.After(s.Now) && workers > 0 {
				add(p.From, p.To, p.Cluster, workers)
				if !p.From.After(s.Now) {
					covered, takes = p.To, true
				}
			}
		}
		if t.State == decide.Running && !covered.After(s.Now) {
			cluster := t.Cluster
			if cluster == "" {
				cluster = s.Clusters[0].Name
			}
			add(s.Now, s.Now.Add(max(t.Remaining, s.Slot)), cluster, max(1, t.Workers))
			takes = true
		}
		if takes {
			taking = append(taking, w)
		}
	}
	out.pods = newPodIndex(taking)
	return out
}

// Expected adds what others take of a cluster to load, in slots from a time (of the timeline's series) on, and returns it. What
// takes a part of a slot counts for the whole slot. The sum of each policy is kept, and is used again while from and the Use stay the
// same.
//
// Complexity: O(policies × slots + stretches × slots), the stretches of a Use once.
func Expected(load map[string][]float64, others []Use, cluster string, timeline timegrid.Timeline, from time.Time, slot time.Duration) map[string][]float64 {
	for i := range others {
		for r, values := range others[i].ahead(cluster, timeline, from, slot) {
			if load == nil {
				load = map[string][]float64{}
			}
			if short := len(values) - len(load[r]); short > 0 {
				load[r] = append(load[r], make([]float64, short)...)
			}
			for t, v := range values {
				load[r][t] += v
			}
		}
	}
	return load
}

// sums keeps what a Use takes by slots, for decisions of several policies. It is safe for concurrent use.
type sums struct {
	mu sync.Mutex
	of map[sumsOf]sumsFrom
}

type sumsOf struct {
	cluster  string
	timeline timegrid.Timeline
	slot     time.Duration
}

// sumsFrom are sums of slots from a time on. They are not modified.
type sumsFrom struct {
	from   time.Time
	values map[string][]float64
}

// ahead is what the stretches take of a cluster, by resource, in slots from a time on. It is not to be modified.
func (u *Use) ahead(cluster string, timeline timegrid.Timeline, from time.Time, slot time.Duration) map[string][]float64 {
	if u.sums == nil {
		return u.sum(cluster, timeline, from, slot)
	}
	u.sums.mu.Lock()
	defer u.sums.mu.Unlock()
	of := sumsOf{cluster, timeline, slot}
	known, is := u.sums.of[of]
	if !is || !known.from.Equal(from) {
		known = sumsFrom{from, u.sum(cluster, timeline, from, slot)}
		u.sums.of[of] = known
	}
	return known.values
}

// sum works out what ahead returns.
//
// Complexity: O(stretches × slots).
func (u *Use) sum(cluster string, timeline timegrid.Timeline, from time.Time, slot time.Duration) map[string][]float64 {
	out := map[string][]float64{}
	for _, x := range u.Stretches {
		end := timeline.ToGrid(x.To).Sub(from)
		if x.Cluster != cluster || end <= 0 {
			continue
		}
		first := max(0, int(timeline.ToGrid(x.From).Sub(from)/slot))
		last := min(int((end-1)/slot), int(LoadAhead/slot)-1)
		for r, q := range x.Amount {
			if short := last + 1 - len(out[r]); short > 0 {
				out[r] = append(out[r], make([]float64, short)...)
			}
			for t := first; t <= last; t++ {
				out[r][t] += q
			}
		}
	}
	return out
}

// LoadAhead is how far ahead the load of others is expected.
const LoadAhead = 96 * time.Hour

// counted returns a function that reports whether the stretches of other policies count for a pod.
func counted(others []Use) func(*corev1.Pod) bool {
	of := byNamespace(others)
	return func(pod *corev1.Pod) bool { return inAny(of[pod.Namespace], pod) }
}

// byNamespace has the pods for which the stretches count, by the namespace of the policies.
func byNamespace(others []Use) map[string][]*podIndex {
	of := map[string][]*podIndex{}
	for i := range others {
		if others[i].pods != nil {
			of[others[i].Namespace] = append(of[others[i].Namespace], others[i].pods)
		}
	}
	return of
}

func inAny(indices []*podIndex, pod *corev1.Pod) bool {
	return slices.ContainsFunc(indices, func(x *podIndex) bool {
		_, is := x.of(pod)
		return is
	})
}
