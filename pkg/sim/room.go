package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/queue"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// room is the state of a cluster besides what is used of it, which engine.present counts.
type room struct {
	// lost is what losses take of the whole capacity.
	whole, lost map[string]float64
	// asked is what others ask for, load what they have of it, by resource.
	asked, load []float64
	endless     bool
	starts      int
	workers     int // that run
	// Sums for the accounts: use x hours in the current slot by resource, up to since; idle power.
	useHours           []float64
	since              time.Duration
	nodes              int // index of the resource of Nodes; -1 where no job asks for it
	on                 int
	idleSince          time.Duration
	idleKWh, idleGrams float64
}

// endlessCapacity stands for room for everything, in any resource.
const endlessCapacity = 1e15

// countCapacity lists the resources that jobs ask for and makes the tables of capacity: of the
// present, and of all that a cluster ever has.
func (e *engine) countCapacity() {
	seen := map[string]bool{}
	for i := range e.cfg.Jobs {
		for r := range e.cfg.Jobs[i].Request {
			seen[r] = true
		}
	}
	e.resources = slices.Sorted(maps.Keys(seen))
	changes := 0
	for c := range e.cfg.Clusters {
		changes = max(changes, len(e.cfg.Clusters[c].Changes))
	}
	e.present = capacity.NewSlots(len(e.cfg.Clusters), e.resources, 1)
	e.ever = capacity.NewSlots(len(e.cfg.Clusters), e.resources, 1+changes)
	total := make([]float64, 1+changes)
	for c := range e.cfg.Clusters {
		cl := &e.cfg.Clusters[c]
		for r, name := range e.resources {
			clear(total)
			total[0] = cl.Capacity[name]
			if cl.Capacity == nil {
				total[0] = math.MaxFloat64
			}
			for i := range cl.Changes {
				total[1+i] = cl.Changes[i].Capacity[name]
			}
			e.present.Offer(c, r, total[:1])
			e.ever.Offer(c, r, total)
		}
	}
}

func (e *engine) buildRooms() {
	endless := make(map[string]float64, len(e.resources))
	for _, r := range e.resources {
		endless[r] = endlessCapacity
	}
	e.rooms, e.places = make([]room, len(e.cfg.Clusters)), make([]int, len(e.cfg.Clusters))
	e.base = make([]decide.Cluster, len(e.cfg.Clusters))
	for c := range e.rooms {
		cl, r := &e.cfg.Clusters[c], &e.rooms[c]
		e.places[c] = c
		*r = room{
			whole: cl.Capacity, lost: map[string]float64{}, endless: cl.Capacity == nil,
			asked: make([]float64, len(e.resources)), load: make([]float64, len(e.resources)),
			useHours: make([]float64, len(e.resources)), nodes: slices.Index(e.resources, cl.Nodes.Resource),
		}
		b := decide.Cluster{Name: cl.Name, Zone: cl.Zone, Capacity: cl.Capacity, Power: cl.Power, Carbon: cl.Forecast, CarbonLow: cl.ForecastLow, CarbonHigh: cl.ForecastHigh}
		if b.Power.PUE == 0 {
			b.Power.PUE = 1
		}
		if r.endless {
			b.Capacity = endless
		}
		e.base[c] = b
		r.on = e.needed(c)
		e.limited = e.limited || !r.endless || len(cl.Changes) > 0
	}
}

// fits returns how many of n workers fit on a cluster now.
func (e *engine) fits(c int, need []capacity.Need, n int) int {
	return e.present.Room(c, need, 1, 1, n, 0)
}

// leastUsed returns the cluster on which the queue starts j, which needs so much for a worker (queue.LeastUsed); -1 if there is no room.
func (e *engine) leastUsed(j *Job, need []capacity.Need) int {
	return queue.LeastUsed(e.places, func(c int) (share float64, hasRoom bool) {
		if !allowed(j, e.cfg.Clusters[c].Name) || e.fits(c, need, j.least()) < j.least() {
			return 0, false
		}
		if e.rooms[c].endless {
			return 0, true
		}
		return e.present.Share(c, need, 0), true
	}, func(c int) int { return e.rooms[c].starts })
}

// use changes what is in use of a cluster by n workers.
func (e *engine) use(c int, need []capacity.Need, n int) {
	r := &e.rooms[c]
	if e.cfg.Observe != nil {
		e.mark(c)
	}
	e.present.Take(c, need, float64(n), 0)
	if r.workers += n; r.workers == 0 {
		for i := range e.resources { // what rounding leaves
			e.present.Take(c, []capacity.Need{capacity.NeedOf(i, e.used(c, i))}, -1, 0)
		}
	}
	if nodes := &e.cfg.Clusters[c].Nodes; nodes.Count > 0 && nodes.Each > 0 {
		if on := e.needed(c); on != r.on {
			e.idle(e.now)
			r.on = on
		}
	}
}

// needed returns how many machines of a cluster must be on for what is used now.
func (e *engine) needed(c int) int {
	used := 0.0
	if resource := e.rooms[c].nodes; resource >= 0 {
		used = e.used(c, resource)
	}
	return e.cfg.Clusters[c].Nodes.needed(used)
}

// needed returns how many machines must be on for so much of Resource in use.
func (n *Nodes) needed(used float64) int {
	if n.Each <= 0 {
		return n.Count
	}
	return min(n.Count, int(math.Ceil(used/n.Each-workload.Eps)))
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

// mark counts the use of a cluster since the last change of it.
func (e *engine) mark(c int) {
	r := &e.rooms[c]
	if e.now > r.since {
		for i := range r.useHours {
			r.useHours[i] += e.used(c, i) * (e.now - r.since).Hours()
		}
		r.since = e.now
	}
}

// observe reports the slots that are over, up to but without slot.
func (e *engine) observe(slot int) {
	now := e.now
	use := make(map[string]float64, len(e.resources))
	for s := e.slot; s < slot; s++ {
		e.now = min(now, time.Duration(s+1)*e.cfg.Slot)
		for c := range e.rooms {
			r := &e.rooms[c]
			e.mark(c)
			for i, name := range e.resources {
				use[name] = r.useHours[i] / e.cfg.Slot.Hours()
			}
			e.cfg.Observe(Slot{Cluster: c, At: e.at(time.Duration(s) * e.cfg.Slot), Use: use})
			clear(r.useHours)
		}
	}
	e.now = now
}

// edge is a moment at which capacity changes: to a new whole, or by what is lost (below
// 0: regained); or what others ask for, by so much.
type edge struct {
	at               time.Duration
	cluster          int
	to, lost, others map[string]float64
}

func (e *engine) listEdges() {
	for c := range e.cfg.Clusters {
		for _, x := range e.cfg.Clusters[c].Load {
			e.edges = append(e.edges, edge{at: x.From.Sub(e.start), cluster: c, others: x.Amount}, edge{at: x.To.Sub(e.start), cluster: c, others: negative(x.Amount)})
		}
		for _, x := range e.cfg.Clusters[c].Changes {
			e.edges = append(e.edges, edge{at: x.At.Sub(e.start), cluster: c, to: x.Capacity})
		}
	}
	for _, x := range e.cfg.Faults.Losses {
		e.edges = append(e.edges, edge{at: x.From.Sub(e.start), cluster: x.Cluster, lost: x.Capacity}, edge{at: x.To.Sub(e.start), cluster: x.Cluster, lost: negative(x.Capacity)})
	}
	slices.SortStableFunc(e.edges, func(a, b edge) int { return int(a.at - b.at) })
	e.change()
}

// negative is the opposite of an amount.
func negative(amount map[string]float64) map[string]float64 {
	out := make(map[string]float64, len(amount))
	for r, v := range amount {
		out[r] = -v
	}
	return out
}

// change carries out the changes of capacity that are due.
func (e *engine) change() {
	for len(e.edges) > 0 && e.edges[0].at <= e.now {
		x := e.edges[0]
		e.edges = e.edges[1:]
		r := &e.rooms[x.cluster]
		if x.others != nil {
			for i, name := range e.resources {
				r.asked[i] += x.others[name]
			}
			e.takeLoad(x.cluster)
			continue
		}
		if x.to != nil {
			r.whole = x.to
		}
		for name, v := range x.lost {
			r.lost[name] += v
		}
		r.endless = false
		left := make(map[string]float64, len(r.whole))
		for name, v := range r.whole {
			left[name] = max(0, v-r.lost[name])
		}
		for i, name := range e.resources {
			e.present.Offer(x.cluster, i, []float64{left[name]})
		}
		e.base[x.cluster].Capacity, e.foreseen = left, -1
		for !e.cfg.Clusters[x.cluster].Announced && e.evictOne(x.cluster) {
			e.res.Evicted++
		}
	}
}

// evictOne takes the place from the job that started last, if more is in use than there
// is.
func (e *engine) evictOne(c int) bool {
	if !e.present.Overfull(c, 0) {
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
	j, rate, want := &e.cfg.Jobs[last.job], last.rate, last.want
	lost := e.atRisk(last)
	if j.saves() == 0 {
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
