package cli

import (
	"maps"
	"slices"

	"lull.dev/lull/pkg/sim"
)

// roomForAll says whether no cluster has a capacity.
func roomForAll(cfg sim.Config) bool {
	return !slices.ContainsFunc(cfg.Clusters, func(c sim.Cluster) bool { return c.Capacity != nil })
}

// enough is more of a resource than all jobs together ask for.
const enough = 1e15

// enoughOfOthers gives the cluster enough of the resources that --capacity does not bound: memory, GPUs.
func enoughOfOthers(cfg *sim.Config) {
	room := maps.Clone(cfg.Clusters[0].Capacity)
	for i := range cfg.Jobs {
		for resource := range cfg.Jobs[i].Request {
			if _, bounded := room[resource]; !bounded {
				room[resource] = enough
			}
		}
	}
	cfg.Clusters[0].Capacity = room
}
