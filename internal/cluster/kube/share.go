package kube

import (
	"slices"
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
	pods      podIndex
	// Clusters are those that the stretches take, each once.
	Clusters []string
	// Stretches are what runs, until it is expected to end, and what is planned.
	Stretches []Stretch
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
	out := Use{Workloads: make(map[types.UID]bool, len(s.Tasks)), Namespace: view.Namespace}
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

// Expected adds what others take of a cluster to load, in slots from a time (of the timeline's series) on, and returns it. A
// slot of which something takes a part counts in full.
//
// Complexity: O(stretches × slots).
func Expected(load map[string][]float64, others []Use, cluster string, timeline timegrid.Timeline, from time.Time, slot time.Duration) map[string][]float64 {
	for i := range others {
		for _, x := range others[i].Stretches {
			end := timeline.ToGrid(x.To).Sub(from)
			if x.Cluster != cluster || end <= 0 {
				continue
			}
			first := max(0, int(timeline.ToGrid(x.From).Sub(from)/slot))
			last := min(int((end-1)/slot), int(LoadAhead/slot)-1)
			for r, q := range x.Amount {
				if load == nil {
					load = map[string][]float64{}
				}
				if short := last + 1 - len(load[r]); short > 0 {
					load[r] = append(load[r], make([]float64, short)...)
				}
				for t := first; t <= last; t++ {
					load[r][t] += q
				}
			}
		}
	}
	return load
}

// LoadAhead is how far ahead the load of others is expected.
const LoadAhead = 96 * time.Hour

// counted returns a function that reports whether the stretches of other policies count for a pod.
func counted(others []Use) func(*corev1.Pod) bool {
	of := map[string][]*podIndex{}
	for i := range others {
		of[others[i].Namespace] = append(of[others[i].Namespace], &others[i].pods)
	}
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(of[pod.Namespace], func(x *podIndex) bool {
			_, is := x.of(pod)
			return is
		})
	}
}
