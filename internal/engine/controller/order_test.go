package controller

import (
	"slices"
	"testing"

	"lull.dev/lull/pkg/decide"
)

// TestReleasesKeepTheirOrderWhereRoomIsShort: the order matters where what is released does not all fit beside what runs and what others use.
func TestReleasesKeepTheirOrderWhereRoomIsShort(t *testing.T) {
	cpus := func(n float64) map[string]float64 { return map[string]float64{"cpu": n} }
	scaling := &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 1, 1}}
	s := decide.Snapshot{
		Clusters: []decide.Cluster{{Name: "a", Capacity: cpus(8)}, {Name: "b", Capacity: cpus(100)}},
		Tasks: []decide.Task{
			{ID: "grows", State: decide.Running, Cluster: "a", Request: cpus(1), Scaling: scaling, Workers: 1},
			{ID: "stops", State: decide.Running, Cluster: "a", Request: cpus(2)},
			{ID: "first", State: decide.Waiting, Request: cpus(2)},
			{ID: "second", State: decide.Waiting, Request: cpus(1)},
			{ID: "elsewhere", State: decide.Waiting, Request: cpus(9)},
		},
	}
	d := decide.Decision{
		Actions: []decide.Action{
			{Verb: decide.Scale, Cluster: "a", Workers: 3}, {Verb: decide.Pause, Cluster: "a"},
			{Verb: decide.Release, Cluster: "a"}, {Verb: decide.Resume, Cluster: "a"}, {Verb: decide.Release, Cluster: "b"},
		},
		Order: []int{4, 0, 3, 2, 1},
	}
	for name, tc := range map[string]struct {
		load, loadAt float64
		want         []int
	}{
		"all fit":          {0, 0, nil},
		"others use one":   {1, 0, []int{3, 2, 0}},
		"others will use":  {0, 1, []int{3, 2, 0}},
		"others use a lot": {50, 0, []int{3, 2, 0}},
	} {
		s.Clusters[0].Load, s.Clusters[0].LoadAt = cpus(tc.load), map[string][]float64{"cpu": {tc.loadAt}}
		if got := inOrder(&s, &d); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v in order; want %v", name, got, tc.want)
		}
	}
}
