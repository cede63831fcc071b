package slurm

import (
	"maps"
	"math/bits"
	"slices"
	"strings"
)

// The resources of a snapshot: CPUs, bytes of memory, GPUs; for GPUs of a type, it follows, as in gpu:a100. At a place that is not the whole cluster, the name
// of the place follows, as in cpu@long.
const (
	cpu    = "cpu"
	memory = "memory"
	gpu    = "gpu"
)

// LicenceResource is the resource of the licences that bound capacity.
const LicenceResource = "licence"

// places are the sets of nodes that have a capacity of their own: the whole cluster, each partition, and each group of partitions that share
// nodes. Partitions of the same nodes are one place. A job takes capacity of each place that has all nodes of its partitions. So a node that is
// in two partitions is counted once: what both partitions use together is bounded by the place that has both.
//
// The bounds are exact if of each two partitions that share nodes one has all nodes of the other, or if only those two share nodes. Otherwise they
// are too large at most.
type places struct {
	list []place
	// partitions are the nodes of each partition.
	partitions map[string]nodeSet
	// of are the places of a job by its list of partitions.
	of map[string][]int
	// memory says that memory counts.
	memory bool
	// types are the types of GPUs that nodes have. A job that names another one is bounded by all GPUs only: sinfo may have cut the list.
	types map[string]bool
	// licence is the licence that bounds capacity; empty for none.
	licence string
}

// place is a set of nodes.
type place struct {
	// at is what follows the names of its resources; empty for the whole cluster.
	at    string
	nodes nodeSet
}

// newPlaces finds the places of a cluster, in the order of their names.
func newPlaces(nodes []Node, memory bool) *places {
	p := &places{memory: memory, list: []place{{"", newNodeSet(len(nodes))}}, partitions: map[string]nodeSet{}, of: map[string][]int{}, types: map[string]bool{}}
	for i := range nodes {
		p.list[0].nodes.add(i)
		for kind := range nodes[i].GPUTypes {
			p.types[kind] = true
		}
		for _, name := range nodes[i].Partitions {
			if p.partitions[name] == nil {
				p.partitions[name] = newNodeSet(len(nodes))
			}
			p.partitions[name].add(i)
		}
	}
	names := slices.Sorted(maps.Keys(p.partitions))
	for _, name := range names {
		p.add("@"+name, p.partitions[name])
	}
	for _, group := range p.groups(names) {
		all := newNodeSet(len(nodes))
		for _, name := range group {
			all.addAll(p.partitions[name])
		}
		p.add("@"+strings.Join(group, "+"), all)
	}
	return p
}

// add adds a place, unless there is one of the same nodes.
func (p *places) add(at string, nodes nodeSet) {
	if !slices.ContainsFunc(p.list, func(x place) bool { return slices.Equal(x.nodes, nodes) }) {
		p.list = append(p.list, place{at, nodes})
	}
}

// groups are the partitions that share nodes, also by way of others.
func (p *places) groups(names []string) (out [][]string) {
	type group struct {
		names []string
		nodes nodeSet
	}
	var groups []group
	for _, name := range names {
		merged := group{[]string{name}, slices.Clone(p.partitions[name])}
		groups = slices.DeleteFunc(groups, func(g group) bool {
			if !g.nodes.meets(merged.nodes) {
				return false
			}
			merged.names = append(merged.names, g.names...)
			merged.nodes.addAll(g.nodes)
			return true
		})
		groups = append(groups, merged)
	}
	for _, g := range groups {
		slices.Sort(g.names)
		out = append(out, g.names)
	}
	return out
}

// capacity is what the nodes have, by resource and place. Memory is left out where Slurm does not share it out.
func (p *places) capacity(nodes []Node) map[string]float64 {
	out := map[string]float64{}
	for _, x := range p.list {
		var all sum
		for i := range nodes {
			if n := &nodes[i]; x.nodes.has(i) {
				all.add(amounts{float64(n.CPUs), float64(n.Memory), float64(n.GPUs), n.GPUTypes}, 1)
			}
		}
		all.at(out, x.at, p.memory)
	}
	return out
}

// request is what so many tasks of a job ask for, by resource and place.
func (p *places) request(j *Job, times float64) map[string]float64 {
	types := maps.Clone(j.GPUTypes)
	maps.DeleteFunc(types, func(kind string, _ int) bool { return !p.types[kind] })
	var a sum
	a.add(amounts{float64(max(1, j.CPUs)), float64(j.Memory), float64(j.GPUs), types}, times)
	out := map[string]float64{}
	for _, i := range p.places(j.Partition) {
		a.at(out, p.list[i].at, p.memory)
	}
	if p.licence != "" {
		out[LicenceResource] = float64(j.licences(p.licence)) * times
	}
	maps.DeleteFunc(out, func(_ string, v float64) bool { return v == 0 })
	return out
}

// places are those of a job, by its list of partitions. One whose partitions have no nodes is at the whole cluster.
func (p *places) places(partition string) []int {
	if known, ok := p.of[partition]; ok {
		return known
	}
	all := slices.Clone(p.list[0].nodes)
	clear(all)
	for name := range strings.SplitSeq(partition, ",") {
		nodes, known := p.partitions[name]
		if !known {
			all = p.list[0].nodes
			break
		}
		all.addAll(nodes)
	}
	var out []int
	for i := range p.list {
		if i == 0 || p.list[i].nodes.hasAll(all) {
			out = append(out, i)
		}
	}
	p.of[partition] = out
	return out
}

// amounts are CPUs, bytes of memory, GPUs, and those of them that have a type.
type amounts struct {
	cpus, memory, gpus float64
	types              map[string]int
}

// sum is a sum of amounts.
type sum struct {
	cpus, memory, gpus float64
	types              map[string]float64
}

func (s *sum) add(a amounts, times float64) {
	s.cpus, s.memory, s.gpus = s.cpus+a.cpus*times, s.memory+a.memory*times, s.gpus+a.gpus*times
	for kind, n := range a.types {
		if s.types == nil {
			s.types = map[string]float64{}
		}
		s.types[kind] += float64(n) * times
	}
}

func (s *sum) at(out map[string]float64, place string, withMemory bool) {
	out[cpu+place], out[gpu+place] = s.cpus, s.gpus
	if withMemory {
		out[memory+place] = s.memory
	}
	for kind, n := range s.types {
		out[gpu+":"+kind+place] = n
	}
}

// nodeSet is a set of nodes by their index.
type nodeSet []uint64

func newNodeSet(n int) nodeSet { return make(nodeSet, (n+bits.UintSize-1)/bits.UintSize+1) }

func (s nodeSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s nodeSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s nodeSet) addAll(o nodeSet) {
	for i := range s {
		s[i] |= o[i]
	}
}

func (s nodeSet) meets(o nodeSet) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

func (s nodeSet) hasAll(o nodeSet) bool {
	for i := range s {
		if o[i]&^s[i] != 0 {
			return false
		}
	}
	return true
}
