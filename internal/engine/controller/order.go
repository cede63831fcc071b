package controller

import (
	"lull.dev/lull/pkg/decide"
)

// inOrder returns the actions to carry out one after the other, each by its index: releases in the order of the decision, then
// what scales up, on clusters that do not have room for all of them now. There the scheduler starts first what was released
// first. The order of all other actions does not matter.
//
// Complexity: O(tasks x resources).
func inOrder(s *decide.Snapshot, d *decide.Decision) []int {
	full := fullClusters(s, d)
	if len(full) == 0 {
		return nil
	}
	var released, scaled []int
	for _, i := range d.Order {
		a, t := &d.Actions[i], &s.Tasks[i]
		if !full[s.Place(a.Cluster).Name] {
			continue
		}
		switch {
		case a.Verb == decide.Release || a.Verb == decide.Resume:
			released = append(released, i)
		case a.Verb == decide.Scale && a.Workers > t.Workers:
			scaled = append(scaled, i)
		}
	}
	return append(released, scaled...)
}

// fullClusters are those without room for all that is released there and scales up, beside what runs. What is paused or
// scales down takes its room for a while yet.
func fullClusters(s *decide.Snapshot, d *decide.Decision) map[string]bool {
	asked := map[string]map[string]float64{}
	ask := func(cluster string, t *decide.Task, workers int) {
		name := s.Place(cluster).Name
		if asked[name] == nil {
			asked[name] = map[string]float64{}
		}
		if t.Scaling == nil {
			workers = 1
		}
		for r, q := range t.Request {
			asked[name][r] += q * float64(workers)
		}
	}
	for i := range s.Tasks {
		a, t := &d.Actions[i], &s.Tasks[i]
		switch {
		case a.Verb == decide.Release || a.Verb == decide.Resume:
			ask(a.Cluster, t, a.Workers)
		case t.State == decide.Running: // what no node has had room for waits for it, too
			ask(t.Cluster, t, max(t.Workers, a.Workers))
		}
	}
	full := map[string]bool{}
	for c := range s.Clusters {
		x := &s.Clusters[c]
		for r, q := range asked[x.Name] {
			free := x.CapacityNow(r) - x.Load[r]
			if at := x.LoadAt[r]; len(at) > 0 {
				free -= at[0]
			}
			if q > free {
				full[x.Name] = true
			}
		}
	}
	return full
}
