package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
)

// Settler settles workloads that are over, from the ledger alone.
type Settler struct {
	ledger  *Ledger
	started bool
	after   int64 // the last entry read, or before the first that is

	works map[string]*work // by UID: those that are not settled
	// past are those that are settled and may be settled again. The ledger is read again for what they rest on.
	past *pasts
	// outdated says that some of past are.
	outdated bool
	// early are entries of workloads whose submission is still to come: after a drop it may stand last.
	early map[string][]Entry
	// spoiled are those that cannot be decoded.
	spoiled map[string][]spoiled
	// unsubmitted are workloads whose submission is in quarantine: they cannot be settled.
	unsubmitted map[string]bool
	// taken are the workloads whose place as submitted is taken.
	taken map[string]place
	// pruned is when what is settled of a zone was last forgotten.
	pruned map[string]time.Time
	// queues are the workloads of a policy that are not settled, in the order of submission.
	queues map[string][]*work
	pools  map[string]*account.Pool
	zones  map[string]*zoneHours
	zoneOf map[string]string // by policy and cluster
	// zoneOfPolicy is the zone by whose series a policy's workloads are submitted.
	zoneOfPolicy map[string]string
	// revised are the times whose intensity changed since work was counted by it.
	revised []published
	// arrived are the intensities that came since settled workloads were looked at: those that were counted without a known
	// intensity for some of their time may rest on them.
	arrived []published
	// refined are those of arrived that begin before the end of what was known. For what is counted by known intensities alone,
	// each of them is a part of one, in finer steps.
	refined []published
	// unwritten are settlements that the database has not taken yet; aside are entries that cannot be decoded, and are not in quarantine yet.
	unwritten, aside []New
	// times are the last times of zones that are known: of their series, of an intensity or of a submission. unknown is since when (wall time) the
	// time of a series is not known.
	times   map[string]zoneTime
	unknown map[string]time.Time
	// dropped says that entries were dropped: older intensities may be missing for that reason.
	dropped bool
}

// zoneTime is the time of a zone's series, and when that was (wall time).
type zoneTime struct{ series, wall time.Time }

// goneAfter is for how long (wall time) the time of a zone may be unknown before it counts as gone.
const goneAfter = time.Hour

// at is the time of the series at a wall time, if it went on as the clock does.
func (z zoneTime) at(wall time.Time) time.Time { return z.series.Add(wall.Sub(z.wall)) }

// seen notes that the series of a zone had come to a time when an entry was written.
func (s *Settler) seen(zone string, series, wall time.Time) {
	if last, there := s.times[zone]; !there || series.After(last.at(wall)) {
		s.times[zone] = zoneTime{series, wall}
	}
}

// lasting returns the times of zones, also of those that are gone or never were there: their time goes on as the clock does, from the last one that the
// ledger knows. So what was settled of them is forgotten in time, and what is over is settled without the intensities that nobody publishes. It is zero for
// a zone that is unknown for less than goneAfter.
func (s *Settler) lasting(now func(zone string) time.Time) func(zone string) time.Time {
	return func(zone string) time.Time {
		wall, at := s.ledger.clock(), now(zone)
		if !at.IsZero() {
			delete(s.unknown, zone)
			s.times[zone] = zoneTime{at, wall}
			return at
		}
		since, unknown := s.unknown[zone]
		if !unknown {
			since = wall
			s.unknown[zone] = since
		}
		last, there := s.times[zone]
		if !there || wall.Sub(since) < goneAfter {
			return time.Time{}
		}
		return last.at(wall)
	}
}

// place is until when a workload would have run, by the series of the zone that it was submitted for.
type place struct {
	zone string
	to   time.Time
}

// zoneHours are the intensities of a zone.
type zoneHours struct {
	of     map[int64]Intensity
	series *carbon.Series // nil where it is to be made anew
	newest time.Time
	beside string // the zone by whose intensities emissions are stated too; "" for none
}

// Waits are how long what cannot be settled is waited for.
const (
	// longestWait is how long a workload that is not over keeps those that came after it from being
	// settled, from its deadline or its submission.
	longestWait = 7 * 24 * time.Hour
	// longestGap is how long an intensity is waited for.
	longestGap = 7 * 24 * time.Hour
	// remembered is how long what is settled can be settled again, as intensities were revised.
	remembered = 60 * 24 * time.Hour
	// readBack is how far back the first pass reads: what can be settled again rests on no more. Entries
	// are chosen by when they were written.
	readBack = remembered + longestGap + carbon.FillReach + 2*capacityEvery
)

// NewSettler returns one that reads the ledger from where it must, at its first pass.
func NewSettler(l *Ledger) *Settler {
	return &Settler{
		ledger: l, works: map[string]*work{}, past: newPasts(), early: map[string][]Entry{}, spoiled: map[string][]spoiled{}, unsubmitted: map[string]bool{}, taken: map[string]place{}, pruned: map[string]time.Time{}, queues: map[string][]*work{}, pools: map[string]*account.Pool{},
		zones: map[string]*zoneHours{}, zoneOf: map[string]string{}, zoneOfPolicy: map[string]string{}, times: map[string]zoneTime{}, unknown: map[string]time.Time{},
	}
}

// Settle reads what is new, and settles what can be: workloads of a policy in the order of their
// submission, each once it is over and all intensities are known; out of order where its place as submitted
// is the same whatever becomes of those before it. now is the time of a zone's series, zero where that is not
// known: nothing of the zone is settled then, except if it is gone (lasting). It returns how many were settled.
//
// Errors wrap ErrDatabase, ErrBroken. Complexity: O(new entries + unsettled) and, for each workload that is over,
// the steps of the capacity since it came; those that have to wait are looked at in every pass, a thousand at most.
func (s *Settler) Settle(ctx context.Context, now func(zone string) time.Time) (int, error) {
	if !s.started {
		if err := s.start(ctx); err != nil {
			return 0, err
		}
	}
	for e, err := range s.ledger.Read(ctx, Query{After: s.after}) {
		if err := s.read(&e, err); err != nil {
			return 0, err
		}
		s.after = e.Seq
	}
	now = s.lasting(now)
	var out []New
	for _, policy := range slices.Sorted(maps.Keys(s.queues)) {
		before := newBefore(s.pools[policy])
		for _, w := range s.queues[policy] {
			if w.settled != nil {
				continue
			}
			time := now(w.of.Zone)
			if time.IsZero() {
				break
			}
			if w.finished == nil {
				since := w.of.At
				if w.of.Deadline.After(since) {
					since = w.of.Deadline
				}
				if time.Sub(since) < longestWait {
					before.open(&w.of)
				}
				continue
			}
			from, to, apart := before.apart(w)
			if apart {
				if settled, ok := s.settle(w, time); ok {
					before.settled(&settled)
					w.settled = &settled
					s.setSettled(w.uid, &settled)
					out = append(out, New{Kind: KindSettled, Key: fmt.Sprintf("settled/%s/0", w.uid), Workload: w.uid, Body: settled})
					continue
				}
			}
			if before.block(&w.of, from, to); before.blocked >= mostBlocked {
				break
			}
		}
		s.queues[policy] = slices.DeleteFunc(s.queues[policy], func(w *work) bool { return w.settled != nil })
	}
	s.unwritten = append(s.unwritten, out...)
	s.prune(now)
	n, err := s.flush(ctx)
	if err != nil {
		return 0, err
	}
	// What is settled again is read from the ledger, so all that was settled has to be there.
	if s.unwritten, err = s.restate(ctx); err != nil {
		return n, err
	}
	again, err := s.flush(ctx)
	return n + again, err
}

// flush writes what the ledger does not have yet, and returns how many settlements that was. What is in quarantine comes before what is settled without it.
func (s *Settler) flush(ctx context.Context) (int, error) {
	if _, err := s.ledger.Append(ctx, s.aside...); err != nil {
		return 0, err
	}
	s.aside = nil
	n, err := s.ledger.Append(ctx, s.unwritten...)
	if err == nil {
		s.unwritten = nil
	}
	return n, err
}

// prune forgets, once a day of each zone, what was settled long ago.
func (s *Settler) prune(now func(zone string) time.Time) {
	for zone := range s.times {
		at := now(zone)
		if at.IsZero() || at.Sub(s.pruned[zone]) < 24*time.Hour {
			continue
		}
		s.pruned[zone] = at
		before := at.Add(-remembered)
		s.past.forget(func(p *past) bool { return p.zone == zone && p.to < before.Unix() })
		maps.DeleteFunc(s.taken, func(_ string, p place) bool { return p.zone == zone && p.to.Before(before) })
		for policy, of := range s.zoneOfPolicy {
			if of != zone || s.pools[policy] == nil {
				continue
			}
			oldest := before
			for _, w := range s.queues[policy] {
				if w.of.At.Before(oldest) {
					oldest = w.of.At
				}
			}
			s.pools[policy].Forget(oldest)
			before = oldest
		}
		z := s.zones[zone]
		if z == nil { // nobody published an intensity of it
			continue
		}
		keep := s.since(zone, before).Add(-carbon.FillReach) // what may stand in for an hour that is missing
		maps.DeleteFunc(z.of, func(_ int64, b Intensity) bool { return b.To.Before(keep) })
		z.series = nil
	}
}

// since is when the first workload was submitted that is counted by the intensities of a zone and may be settled again; the
// time before where that is earlier.
func (s *Settler) since(zone string, before time.Time) time.Time {
	by := func(name string) bool { return name == zone || s.besideOf(name) == zone }
	for _, w := range s.works {
		counts := w.of.At.Before(before) && by(w.of.Zone)
		for _, b := range w.started {
			counts = counts || w.of.At.Before(before) && by(b.Zone)
		}
		if counts {
			before = w.of.At
		}
	}
	for _, p := range s.past.of { // where an entry of an earlier version does not say which zones count, any may
		if p.from < before.Unix() && (p.zones == nil || slices.ContainsFunc(p.zones, by)) {
			before = time.Unix(p.from, 0).UTC()
		}
	}
	return before
}

// take marks the capacity that a counterfactual uses.
func (s *Settler) take(uid string, b *Settled) {
	s.taken[uid] = place{b.Of.Zone, b.Counterfactual.To}
	takeFrom(s.pools[b.Of.Policy], b)
}

func takeFrom(pool *account.Pool, b *Settled) {
	if c := &b.Counterfactual; pool != nil && !c.Beyond {
		pool.Take(c.Cluster, c.From, c.To, whole(&b.Of))
	}
}

// whole is what a workload asks for as submitted.
func whole(of *Submitted) map[string]float64 {
	out := make(map[string]float64, len(of.Request))
	for r, v := range of.Request {
		out[r] = v * float64(of.Workers)
	}
	return out
}

// settle settles a workload that is over for the first time; false where intensities are still to come.
func (s *Settler) settle(w *work, now time.Time) (Settled, bool) {
	b := Settled{Of: w.of, Runs: len(w.started), OnTime: w.of.Deadline.IsZero() || !w.finished.At.After(w.of.Deadline)}
	stretches, inferred := w.stretches()
	b.Inferred, b.Mode = inferred, w.modeAt(w.firstStart())
	if len(stretches) == 0 { // it never ran
		b.From, b.To, b.Counterfactual.From, b.Counterfactual.To = w.finished.At, w.finished.At, w.finished.At, w.finished.At
		b.Method, b.After, b.Zones = account.Method, s.after, zonesOf(&b, nil)
		if w.quarantined != "" { // it may have run
			b.refuse(inQuarantine(w.quarantined))
		}
		return b, true
	}
	b.From = stretches[0].From
	for _, x := range stretches {
		hours := float64(x.Workers) * x.To.Sub(x.From).Hours()
		b.WorkerHours += hours
		switch x.lost {
		case Failed:
			b.FailedHours += hours
		case Evicted:
			b.EvictedHours += hours
		}
		if x.To.After(b.To) {
			b.To = x.To
		}
	}
	length := w.length(w.useful(stretches))
	c := &b.Counterfactual
	c.Zone, c.From, c.Beyond = w.of.Zone, w.of.At, true
	if pool := s.pools[w.of.Policy]; pool != nil {
		if cluster, from, ok := pool.Place(w.of.Clusters, w.of.At, length, whole(&w.of)); ok {
			c.Cluster, c.From, c.Zone, c.Beyond = cluster, from, s.zoneOf[w.of.Policy+" "+cluster], false
		}
	}
	c.To = c.From.Add(length)
	if !s.known(stretches, c, now) {
		return Settled{}, false
	}
	s.take(w.uid, &b)
	s.count(&b, w, stretches)
	return b, true
}

// known says that the intensities of all times concerned are there, or have been waited for.
func (s *Settler) known(stretches []stretch, c *Counterfactual, now time.Time) bool {
	last := map[string]time.Time{c.Zone: c.To}
	for _, x := range stretches {
		if x.To.After(last[x.Zone]) {
			last[x.Zone] = x.To
		}
	}
	for zone, until := range last {
		z := s.zones[zone]
		if (z == nil || z.newest.Before(until)) && now.Sub(until) < longestGap {
			return false
		}
		if other := s.besideOf(zone); other != "" && (s.zones[other] == nil || s.zones[other].newest.Before(until)) && now.Sub(until) < longestGap {
			return false
		}
	}
	return true
}
