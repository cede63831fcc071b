package sim

import (
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// room is what is used of a cluster.
type room struct {
	// capacity is what is left of the whole by losses.
	capacity, whole, lost map[string]float64
	endless               bool
	use                   map[string]float64
	starts                int
	// Sums for the accounts: use x hours in the current slot, up to since; idle power.
	useHours           map[string]float64
	since              time.Duration
	on                 int
	idleSince          time.Duration
	idleKWh, idleGrams float64
}

// endlessCapacity stands for room for everything, in any resource.
const endlessCapacity = 1e15

func (e *engine) buildRooms() {
	resources := map[string]bool{}
	for i := range e.cfg.Jobs {
		for r := range e.cfg.Jobs[i].Request {
			resources[r] = true
		}
	}
	endless := make(map[string]float64, len(resources))
	for r := range resources {
		endless[r] = endlessCapacity
	}
	e.rooms = make([]room, len(e.cfg.Clusters))
	e.base = make([]decide.Cluster, len(e.cfg.Clusters))
	for c := range e.rooms {
		cl, r := &e.cfg.Clusters[c], &e.rooms[c]
		*r = room{capacity: cl.Capacity, whole: cl.Capacity, lost: map[string]float64{}, endless: cl.Capacity == nil, use: map[string]float64{}, useHours: map[string]float64{}}
		b := decide.Cluster{Name: cl.Name, Zone: cl.Zone, Capacity: cl.Capacity, Power: cl.Power, Carbon: cl.Forecast}
		if b.Power.PUE == 0 {
			b.Power.PUE = 1
		}
		if r.endless {
			b.Capacity = endless
		}
		e.base[c] = b
		r.on = cl.Nodes.needed(r.use)
		e.limited = e.limited || !r.endless || len(cl.Changes) > 0
	}
}

// holds reports whether n times request fits beside used into capacity.
func holds(capacity, used, request map[string]float64, n int) bool {
	for r, q := range request {
		if q*float64(n) > capacity[r]-used[r]+workload.Eps {
			return false
		}
	}
	return true
}

// fits is how many of n workers fit now.
func (r *room) fits(request map[string]float64, n int) int {
	if r.endless {
		return n
	}
	for name, q := range request {
		if q > 0 {
			n = min(n, int(math.Floor((r.capacity[name]-r.use[name]+workload.Eps)/q)))
		}
	}
	return max(0, n)
}

// leastUsed is the cluster on which j finds room and the share in use is least; -1 for
// none. Ties: the fewest starts, then the order.
func (e *engine) leastUsed(j *Job) int {
	best, share := -1, math.Inf(1)
	for c := range e.rooms {
		r := &e.rooms[c]
		if !allowed(j, e.cfg.Clusters[c].Name) || r.fits(j.Request, j.least()) < j.least() {
			continue
		}
		used := 0.0
		if !r.endless {
			for name, q := range j.Request {
				if q > 0 {
					used = max(used, r.use[name]/r.capacity[name])
				}
			}
		}
		if used < share || used == share && r.starts < e.rooms[best].starts {
			best, share = c, used
		}
	}
	return best
}

// use changes what is in use of a cluster by n workers.
func (e *engine) use(c int, request map[string]float64, n float64) {
	r := &e.rooms[c]
	if e.cfg.Observe != nil {
		e.mark(r)
	}
	for name, q := range request {
		v := r.use[name] + n*q
		if math.Abs(v) < workload.Eps {
			v = 0 // what rounding leaves
		}
		r.use[name] = v
	}
	if nodes := &e.cfg.Clusters[c].Nodes; nodes.Count > 0 && nodes.Each > 0 {
		if on := nodes.needed(r.use); on != r.on {
			e.idle(e.now)
			r.on = on
		}
	}
}

// needed is how many machines are on.
func (n *Nodes) needed(use map[string]float64) int {
	if n.Each <= 0 {
		return n.Count
	}
	return min(n.Count, int(math.Ceil(use[n.Resource]/n.Each-workload.Eps)))
}

// idle counts the idle power of machines up to a time.
func (e *engine) idle(to time.Duration) {
	for c := range e.rooms {
		r := &e.rooms[c]
		kWh, p := e.cfg.Clusters[c].idle(r.on, e.at(r.idleSince), e.at(to))
		r.idleGrams += float64(p.Emissions)
		r.idleKWh += kWh
		e.res.Filled, e.res.Unpriced = addTime(e.res.Filled, p.Filled), addTime(e.res.Unpriced, p.Unknown)
		r.idleSince = to
	}
}

// idle returns what n machines that are on take and emit beside the work on them. Hours without
// an intensity are filled by carbon.FillRule.
func (c *Cluster) idle(n int, from, to time.Time) (kWh float64, p power.Price) {
	if n == 0 || !to.After(from) {
		return 0, p
	}
	watts := c.Nodes.Idle * units.Power(float64(n)*c.pue())
	return float64(watts.Over(to.Sub(from))), power.PriceOver(watts, c.Actual, from, to)
}

// mark counts the use since the last change of it.
func (e *engine) mark(r *room) {
	if e.now > r.since {
		for name, v := range r.use {
			r.useHours[name] += v * (e.now - r.since).Hours()
		}
		r.since = e.now
	}
}

// observe reports the slots that are over, up to but without slot.
func (e *engine) observe(slot int) {
	now := e.now
	for s := e.slot; s < slot; s++ {
		e.now = min(now, time.Duration(s+1)*e.cfg.Slot)
		for c := range e.rooms {
			r := &e.rooms[c]
			e.mark(r)
			for name := range r.useHours {
				r.useHours[name] /= e.cfg.Slot.Hours()
			}
			e.cfg.Observe(Slot{Cluster: c, At: e.at(time.Duration(s) * e.cfg.Slot), Use: r.useHours})
			clear(r.useHours)
		}
	}
	e.now = now
}

// edge is a moment at which capacity changes: to a new whole, or by what is lost (below
// 0: regained).
type edge struct {
	at       time.Duration
	cluster  int
	to, lost map[string]float64
}

func (e *engine) listEdges() {
	for c := range e.cfg.Clusters {
		for _, x := range e.cfg.Clusters[c].Changes {
			e.edges = append(e.edges, edge{at: x.At.Sub(e.start), cluster: c, to: x.Capacity})
		}
	}
	for _, x := range e.cfg.Faults.Losses {
		back := map[string]float64{}
		for r, v := range x.Capacity {
			back[r] = -v
		}
		e.edges = append(e.edges, edge{at: x.From.Sub(e.start), cluster: x.Cluster, lost: x.Capacity}, edge{at: x.To.Sub(e.start), cluster: x.Cluster, lost: back})
	}
	slices.SortStableFunc(e.edges, func(a, b edge) int { return int(a.at - b.at) })
	e.change()
}

// change carries out the changes of capacity that are due.
func (e *engine) change() {
	for len(e.edges) > 0 && e.edges[0].at <= e.now {
		x := e.edges[0]
		e.edges = e.edges[1:]
		r := &e.rooms[x.cluster]
		if x.to != nil {
			r.whole = x.to
		}
		for name, v := range x.lost {
			r.lost[name] += v
		}
		capacity := make(map[string]float64, len(r.whole))
		for name, v := range r.whole {
			capacity[name] = max(0, v-r.lost[name])
		}
		r.capacity, r.endless = capacity, false
		e.base[x.cluster].Capacity, e.base[x.cluster].CapacityAt = capacity, nil
		for e.evictOne(x.cluster) {
			e.res.Evicted++
		}
	}
}

// evictOne takes the place from the job that started last, if more is in use than there
// is.
func (e *engine) evictOne(c int) bool {
	r := &e.rooms[c]
	if holds(r.capacity, nil, r.use, 1) {
		return false
	}
	var last *live
	for _, l := range e.active {
		if l != nil && l.workers > 0 && l.cluster == c && (last == nil || l.since >= last.since) {
			last = l
		}
	}
	if last == nil {
		return false
	}
	j, rate, want := &e.cfg.Jobs[last.job], last.rate(e), last.want
	lost := e.atRisk(last)
	if j.Checkpoint == 0 {
		lost = max(0, scaled(e.now-max(last.counted, time.Duration(e.slot)*e.cfg.Slot), rate))
	}
	e.stop(last)
	last.done = max(0, last.done-lost)
	switch {
	case j.Kind == workload.Rigid:
		last.done = 0
		last.released, last.want = true, want
		e.pending = append(e.pending, last)
	case e.cfg.atOnce:
		e.ask(last, last.cluster, want)
	default:
		e.makeDue(last)
	}
	return true
}
