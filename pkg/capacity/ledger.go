package capacity

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Ledger counts what is taken of the capacity of clusters over continuous time. Capacity and
// use are step functions of time; a step lasts until the next one begins, the last one forever.
// The zero Ledger is empty and ready.
//
//	l := &capacity.Ledger{}
//	l.Offer("a", now, map[string]float64{"cpu": 8})
//	c, need := l.Cluster("a"), l.Demand(map[string]float64{"cpu": 2})
//	if from, ok := l.Earliest(c, need, 3, now, time.Hour, deadline); ok {
//		l.Take(c, need, 3, from, from.Add(time.Hour)) // 3 workers of 2 CPUs for an hour
//	}
//
// A Ledger is not safe for concurrent use; questions change its index too.
type Ledger struct {
	// Tick, if it is above 0, is the resolution of times: sums of durations are off by some
	// nanoseconds, and must not overlap for it. It must not change once the ledger is used.
	Tick time.Duration

	clusters  []steps
	names     []string
	resources []string
}

// steps is one cluster: at[i] begins step i; total and used are by resource, then step.
type steps struct {
	at          []int64 // ns since the Unix epoch, ascending
	total, used [][]float64
	offers      []int64 // when the capacity changes, ascending
	index       index
}

// Need is the amount that one worker takes of a resource.
type Need struct {
	resource int
	amount   float64
}

// early is how much before a tick a time still counts as that tick.
const early = int64(100 * time.Nanosecond)

// instant is a time on the ticks of the ledger, in ns since the Unix epoch.
func (l *Ledger) instant(at time.Time) int64 {
	if l.Tick <= 0 {
		return at.UnixNano()
	}
	t := at.UnixNano() + early
	m := t % int64(l.Tick)
	if m < 0 {
		m += int64(l.Tick)
	}
	return t - m
}

// time is an instant as a time; from itself if it is the instant of from.
func (l *Ledger) time(from time.Time, at int64) time.Time {
	if at == l.instant(from) {
		return from
	}
	return from.Add(time.Duration(at - from.UnixNano()))
}

// roundingShare is the share of a capacity by which sums may exceed it through rounding.
const roundingShare = 1e-9

// Usable is the most that may be used of a capacity: itself, and what sums may exceed it by through rounding.
// Plans and their bounds count with it.
func Usable(total float64) float64 { return total + roundingShare*max(1, total) }

// roundShare removes from a share what sums are off by rounding, so that equal shares compare as equal.
func roundShare(share float64) float64 { return math.Round(share/roundingShare) * roundingShare }

// Cluster returns the index of a cluster and adds it, without capacity, if it is new.
func (l *Ledger) Cluster(name string) int {
	if i := slices.Index(l.names, name); i >= 0 {
		return i
	}
	l.names = append(l.names, name)
	s := steps{at: []int64{math.MinInt64}}
	for range l.resources {
		s.total, s.used = append(s.total, []float64{0}), append(s.used, []float64{0})
	}
	l.clusters = append(l.clusters, s)
	return len(l.clusters) - 1
}

func (l *Ledger) resource(name string) int {
	if i := slices.Index(l.resources, name); i >= 0 {
		return i
	}
	l.resources = append(l.resources, name)
	for i := range l.clusters {
		s := &l.clusters[i]
		s.total = append(s.total, make([]float64, len(s.at)))
		s.used = append(s.used, make([]float64, len(s.at)))
	}
	return len(l.resources) - 1
}

// Demand returns what a request takes, in a fixed order, of this ledger and its clones: others number resources differently.
// Amounts of 0 are left out.
func (l *Ledger) Demand(request map[string]float64) []Need {
	out := make([]Need, 0, len(request))
	for _, r := range slices.Sorted(maps.Keys(request)) {
		if q := request[r]; q > 0 {
			out = append(out, Need{l.resource(r), q})
		}
	}
	slices.SortFunc(out, func(a, b Need) int { return a.resource - b.resource })
	return out
}

// Offer states the capacity of a cluster from a time on, until the next time for which an
// offer was made. Before the first offer the capacity is that of the first offer. A resource
// that is not in total has a capacity of 0.
//
// Complexity: O(steps) a resource.
func (l *Ledger) Offer(cluster string, from time.Time, total map[string]float64) {
	c := l.Cluster(cluster)
	values := make([]float64, len(l.resources), len(l.resources)+len(total))
	for _, r := range slices.Sorted(maps.Keys(total)) {
		i := l.resource(r)
		for len(values) <= i {
			values = append(values, 0)
		}
		values[i] = total[r]
	}
	s := &l.clusters[c]
	at := l.instant(from)
	k, known := slices.BinarySearch(s.offers, at)
	if !known {
		s.offers = slices.Insert(s.offers, k, at)
	}
	first := 0
	if k > 0 {
		first = s.cut(at)
	}
	last := len(s.at)
	if k+1 < len(s.offers) {
		last = s.cut(s.offers[k+1])
	}
	for r := range s.total {
		v := 0.0
		if r < len(values) {
			v = values[r]
		}
		for i := first; i < last; i++ {
			s.total[r][i] = v
		}
	}
	s.index.changed(first, last)
}

// cut makes a step begin at a time and returns it.
func (s *steps) cut(at int64) int {
	i, found := slices.BinarySearch(s.at, at)
	if found {
		return i
	}
	s.at = slices.Insert(s.at, i, at)
	for r := range s.used {
		s.total[r] = slices.Insert(s.total[r], i, s.total[r][i-1])
		s.used[r] = slices.Insert(s.used[r], i, s.used[r][i-1])
	}
	s.index.moved(i)
	return i
}

// step is the step that a time lies in.
func (s *steps) step(at int64) int {
	i, found := slices.BinarySearch(s.at, at)
	if !found {
		i--
	}
	return i
}

// Take takes what workers need on a cluster in [from, to), whether it is free or not; a
// negative number of workers gives it back.
//
// Complexity: O(log steps + steps covered), and O(steps) to begin new steps.
func (l *Ledger) Take(cluster int, need []Need, workers float64, from, to time.Time) {
	if !to.After(from) || len(need) == 0 {
		return
	}
	s := &l.clusters[cluster]
	first := s.cut(l.instant(from))
	last := s.cut(l.instant(to))
	for _, n := range need {
		row := s.used[n.resource]
		for i := first; i < last; i++ {
			row[i] += n.amount * workers
		}
	}
	s.index.changed(first, last)
}

// Fits reports whether workers fit on a cluster all through [from, to).
//
// Complexity: O(log steps + steps covered).
func (l *Ledger) Fits(cluster int, need []Need, workers float64, from, to time.Time) bool {
	s := &l.clusters[cluster]
	return s.blocked(need, workers, s.step(l.instant(from)), l.instant(to)) < 0
}

// Earliest returns the earliest start, no sooner than from, of a run in one piece that fits
// and ends by latestEnd; false if there is none.
//
// Complexity: O(log steps + steps / blockSize + steps looked at), where a block of steps is looked
// at only if the run fits in some of it and, once it has begun, not in all of it.
func (l *Ledger) Earliest(cluster int, need []Need, workers float64, from time.Time, length time.Duration, latestEnd time.Time) (time.Time, bool) {
	s := &l.clusters[cluster]
	start, latest := l.instant(from), latestEnd.UnixNano()-int64(length)
	for i := s.step(start); ; {
		if i = s.free(need, workers, i, latest); i < 0 {
			break
		}
		start = max(start, s.at[i])
		begin := l.time(from, start)
		if begin.UnixNano() > latest {
			break
		}
		until := s.blocked(need, workers, i, l.instant(begin.Add(length)))
		if until < 0 {
			return begin, true
		}
		i = until + 1
	}
	return time.Time{}, false
}

// Room returns how many workers fit at most, up to a number, all through [from, to).
//
// Complexity: O(log steps + steps covered).
func (l *Ledger) Room(cluster int, need []Need, most int, from, to time.Time) int {
	s := &l.clusters[cluster]
	end := l.instant(to)
	for i := s.step(l.instant(from)); i < len(s.at) && s.at[i] < end && most > 0; i++ {
		for _, n := range need {
			most = min(most, max(0, int(math.Floor(math.Min(s.slack(n.resource, i)/n.amount, math.MaxInt32)))))
		}
	}
	return most
}

// Changes returns the times within (from, to) at which capacity or use of a cluster changes.
func (l *Ledger) Changes(cluster int, from, to time.Time) []time.Time {
	s := &l.clusters[cluster]
	var out []time.Time
	for i := s.step(l.instant(from)) + 1; i < len(s.at) && s.at[i] < l.instant(to); i++ {
		out = append(out, l.time(from, s.at[i]))
	}
	return out
}

// NextChange returns the first time within (from, to) at which capacity or use of a cluster
// changes; false if there is none.
func (l *Ledger) NextChange(cluster int, from, to time.Time) (time.Time, bool) {
	s := &l.clusters[cluster]
	i := s.step(l.instant(from)) + 1
	if i >= len(s.at) || s.at[i] >= l.instant(to) {
		return time.Time{}, false
	}
	return l.time(from, s.at[i]), true
}

// Peak returns the most that is used of a resource at any moment of [from, to), and the least
// capacity.
//
// Complexity: O(log steps + steps covered).
func (l *Ledger) Peak(cluster int, resource string, from, to time.Time) (used, capacity float64) {
	r := slices.Index(l.resources, resource)
	if r < 0 {
		return 0, 0
	}
	s := &l.clusters[cluster]
	capacity = math.Inf(1)
	end := l.instant(to)
	for i := s.step(l.instant(from)); i < len(s.at) && s.at[i] < end; i++ {
		used, capacity = math.Max(used, s.used[r][i]), math.Min(capacity, s.total[r][i])
	}
	return used, capacity
}

// Excess is use above the capacity of a resource through a step.
type Excess struct {
	Cluster, Resource string
	// From and To bound the step; To is zero if it has no end.
	From, To       time.Time
	Used, Capacity float64
}

// Excesses lists the steps that end after a time and in which more is used than there is.
//
// Complexity: O(clusters x resources x steps).
func (l *Ledger) Excesses(after time.Time) []Excess {
	var out []Excess
	for c := range l.clusters {
		s := &l.clusters[c]
		for i := s.step(l.instant(after)); i < len(s.at); i++ {
			for r := range s.used {
				if used, total := s.used[r][i], s.total[r][i]; used > Usable(total) {
					x := Excess{Cluster: l.names[c], Resource: l.resources[r], From: time.Unix(0, s.at[i]).UTC(), Used: used, Capacity: total}
					if i+1 < len(s.at) {
						x.To = time.Unix(0, s.at[i+1]).UTC()
					}
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// Share returns the largest share of a needed resource that is used on a cluster at a time;
// 1 for a resource without capacity, 0 for no need. Shares that differ only by rounding are equal.
func (l *Ledger) Share(cluster int, need []Need, at time.Time) float64 {
	s := &l.clusters[cluster]
	i, share := s.step(l.instant(at)), 0.0
	for _, n := range need {
		if total := s.total[n.resource][i]; total > 0 {
			share = math.Max(share, s.used[n.resource][i]/total)
		} else {
			share = math.Max(share, 1)
		}
	}
	return roundShare(share)
}

// Slots returns, for n slots from a time on, the least capacity of a resource in each slot and
// the load that leaves what is free in all of the slot: capacity less the least that is free.
// The load exceeds the capacity where more is used than there is.
//
// Complexity: O(steps + n).
func (l *Ledger) Slots(cluster int, resource string, from time.Time, slot time.Duration, n int) (total, load []float64) {
	total, load = make([]float64, n), make([]float64, n)
	r := slices.Index(l.resources, resource)
	if r < 0 {
		return total, load
	}
	s := &l.clusters[cluster]
	begin := l.instant(from)
	i := s.step(begin)
	for t := range n {
		end := begin + int64(slot)
		least, free := math.Inf(1), math.Inf(1)
		for ; i < len(s.at) && s.at[i] < end; i++ {
			least = math.Min(least, s.total[r][i])
			free = math.Min(free, s.total[r][i]-s.used[r][i])
		}
		i-- // the step that reaches into the next slot
		total[t], load[t] = least, math.Max(0, least-free)
		begin = end
		if i+1 < len(s.at) && s.at[i+1] == begin {
			i++
		}
	}
	return total, load
}
