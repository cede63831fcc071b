package extender

import (
	"fmt"
	"hash/maphash"
	"math"
)

// power is what nodes take, and where they stand: most nodes of a cluster share one.
type power struct {
	zone, region string
	// watts of a unit of each resource, PUE included; idle the power without any work.
	watts map[string]float64
	idle  float64
}

// powers are those of all nodes, so that ranking thousands of them touches little memory: it is
// worked out once for each power, and a node is then a number found by the hash of its name.
type powers struct {
	seed  maphash.Seed
	all   []power           // each once, as long as the process runs
	index map[string]uint32 // of all, by all that they say
	// of is by the hash of a node's name the index of its power, doubled, and one more where Pods
	// run on it.
	of map[uint64]uint32
}

func newPowers() powers {
	return powers{seed: maphash.MakeSeed(), index: map[string]uint32{}, of: map[uint64]uint32{}}
}

// add returns the index of a power.
func (p *powers) add(x power) uint32 {
	key := fmt.Sprint(x.zone, "\n", x.region, "\n", x.idle, x.watts) // maps are printed in order
	i, known := p.index[key]
	if !known {
		i = uint32(len(p.all))
		p.all, p.index[key] = append(p.all, x), i
	}
	return i
}

func (p *powers) set(name string, index uint32, busy bool) {
	k := 2 * index
	if busy {
		k++
	}
	p.of[maphash.String(p.seed, name)] = k
}

func (p *powers) remove(name string) { delete(p.of, maphash.String(p.seed, name)) }

// emissions is what a Pod would add on a node per hour, gCO2eq:
//
//	PUE x CI(zone) x (sum_r watts_r x request_r + [the node is idle] x watts_idle) / 1000
//
// at the mean intensity of its zone over the run time. The zone is that of the node's class, else
// the one of its cloud region (label topology.kubernetes.io/region), else that of the Pod's policy.
// It is NaN where its intensity is not known.
func (p *power) emissions(amounts []amount, busy bool, home string, intensity, regions map[string]float64) float64 {
	ci, known := intensity[p.zone]
	if p.zone == "" {
		if ci, known = regions[p.region]; !known || p.region == "" {
			ci, known = intensity[home]
		}
	}
	if !known {
		return math.NaN()
	}
	watts := 0.0
	for _, a := range amounts {
		watts += p.watts[a.resource] * a.quantity
	}
	if !busy {
		watts += p.idle
	}
	return ci * watts / 1000
}

// each writes what a Pod would emit on each of the nodes, NaN where that is not known.
//
// Complexity: O(powers + nodes).
func (p *powers) each(names *Names, amounts []amount, home string, intensity, regions map[string]float64, grams []float64) {
	of := make([]float64, 0, 2*len(p.all))
	for i := range p.all {
		of = append(of, p.all[i].emissions(amounts, false, home, intensity, regions), p.all[i].emissions(amounts, true, home, intensity, regions))
	}
	for i := range grams {
		grams[i] = math.NaN()
		if k, known := p.of[maphash.Bytes(p.seed, names.get(i))]; known {
			grams[i] = of[k]
		}
	}
}

// score writes scores of emissions: from maxScore for the least to 0 for the most.
func score(grams []float64, scores []int8) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, g := range grams {
		if !math.IsNaN(g) {
			least, most = math.Min(least, g), math.Max(most, g)
		}
	}
	for i, g := range grams {
		switch {
		case math.IsNaN(g):
			scores[i] = 0
		case !(most > least):
			scores[i] = maxScore
		default:
			scores[i] = int8(math.Round(maxScore * (most - g) / (most - least)))
		}
	}
}

// maxScore is the best score of a node (extender/v1.MaxExtenderPriority).
const maxScore = 10
