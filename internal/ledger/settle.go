package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/units"
)

// Settler settles workloads that are over, from the ledger alone.
type Settler struct {
	ledger *Ledger
	after  int64 // the last entry read

	works map[string]*work // by UID
	// early are entries of workloads whose submission is still to come: after a drop it may stand last.
	early map[string][]Entry
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
	// revised are the times that were revised since they were counted.
	revised []Intensity
}

// work is what is known of a workload.
type work struct {
	uid      string
	of       Submitted
	started  map[string]Started
	ended    map[string]Ended
	energy   []Energy
	lost     time.Duration
	paused   bool
	finished *Finished
	settled  *Settled
	// read are the keys of entries taken up: a drop writes them again.
	read map[string]bool
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
)

// NewSettler returns one that reads the ledger from its beginning, at its first pass.
func NewSettler(l *Ledger) *Settler {
	return &Settler{
		ledger: l, works: map[string]*work{}, early: map[string][]Entry{}, taken: map[string]place{}, pruned: map[string]time.Time{}, queues: map[string][]*work{}, pools: map[string]*account.Pool{},
		zones: map[string]*zoneHours{}, zoneOf: map[string]string{}, zoneOfPolicy: map[string]string{},
	}
}

// Settle reads what is new, and settles what can be: workloads of a policy in the order of their
// submission, each once it is over and all intensities are known; out of order where its place as submitted
// is the same whatever becomes of those before it. now is the time of a zone's series, zero where that is not
// known: nothing of the zone is settled then. It returns how many were settled.
//
// Errors wrap ErrDatabase, ErrBroken. Complexity: O(new entries + unsettled) and, for each workload that is over,
// the steps of the capacity since it came; those that have to wait are looked at in every pass, a thousand at most.
func (s *Settler) Settle(ctx context.Context, now func(zone string) time.Time) (int, error) {
	for e, err := range s.ledger.Read(ctx, Query{After: s.after}) {
		if err != nil {
			return 0, err
		}
		if err := s.read(&e); err != nil {
			return 0, fmt.Errorf("%w: entry %d: %w", ErrBroken, e.Seq, err)
		}
		s.after = e.Seq
	}
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
	out = append(out, s.restate()...)
	s.prune(now)
	if len(out) == 0 {
		return 0, nil
	}
	return s.ledger.Append(ctx, out...)
}

// prune forgets, once a day of each zone, what was settled long ago.
func (s *Settler) prune(now func(zone string) time.Time) {
	for zone, z := range s.zones {
		at := now(zone)
		if at.IsZero() || at.Sub(s.pruned[zone]) < 24*time.Hour {
			continue
		}
		s.pruned[zone] = at
		before := at.Add(-remembered)
		maps.DeleteFunc(s.works, func(_ string, w *work) bool {
			return w.of.Zone == zone && w.settled != nil && w.settled.To.Before(before)
		})
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
		maps.DeleteFunc(z.of, func(_ int64, b Intensity) bool { return b.To.Before(before) })
		z.series = nil
	}
}

// read takes up an entry.
func (s *Settler) read(e *Entry) error {
	decode := func(into any) error { return json.Unmarshal(e.Body, into) }
	w := s.works[e.Workload]
	switch {
	case w == nil && e.Workload != "" && e.Kind != KindSubmitted && e.Kind != KindSettled:
		s.early[e.Workload] = append(s.early[e.Workload], *e)
		return nil
	case w == nil && !slices.Contains([]Kind{KindSubmitted, KindCapacity, KindIntensity, KindSettled}, e.Kind):
		return nil
	case w != nil && w.read[e.Key]:
		return nil
	case w != nil:
		w.read[e.Key] = true
	}
	switch e.Kind {
	case KindSubmitted:
		w = &work{uid: e.Workload, started: map[string]Started{}, ended: map[string]Ended{}, read: map[string]bool{e.Key: true}}
		if err := decode(&w.of); err != nil {
			return err
		}
		s.works[e.Workload], s.zoneOfPolicy[w.of.Policy] = w, w.of.Zone
		queue := s.queues[w.of.Policy]
		i := sort.Search(len(queue), func(i int) bool {
			q := queue[i]
			return q.of.At.After(w.of.At) || q.of.At.Equal(w.of.At) && q.uid > w.uid
		})
		s.queues[w.of.Policy] = slices.Insert(queue, i, w)
		early := s.early[e.Workload]
		delete(s.early, e.Workload)
		for i := range early {
			if err := s.read(&early[i]); err != nil {
				return err
			}
		}
	case KindDecided:
		var b Decided
		if err := decode(&b); err != nil {
			return err
		}
		if b.Applied {
			w.lost += time.Duration(b.LostSeconds * float64(time.Second))
			w.paused = w.paused || b.Verb == string(decide.Pause)
		}
	case KindStarted:
		var b Started
		if err := decode(&b); err != nil {
			return err
		}
		w.started[b.Run] = b
	case KindEnded:
		var b Ended
		if err := decode(&b); err != nil {
			return err
		}
		w.ended[b.Run] = b
	case KindEnergy:
		var b Energy
		if err := decode(&b); err != nil {
			return err
		}
		w.energy = append(w.energy, b)
	case KindFinished:
		w.finished = &Finished{}
		return decode(w.finished)
	case KindCapacity:
		var b Capacity
		if err := decode(&b); err != nil {
			return err
		}
		if s.pools[b.Policy] == nil {
			s.pools[b.Policy] = &account.Pool{}
		}
		s.pools[b.Policy].Offer(b.Cluster, b.At, b.Free)
		s.zoneOf[b.Policy+" "+b.Cluster] = b.Zone
	case KindIntensity:
		var b Intensity
		if err := decode(&b); err != nil {
			return err
		}
		z := s.zones[b.Zone]
		if z == nil {
			z = &zoneHours{of: map[int64]Intensity{}}
			s.zones[b.Zone] = z
		}
		if last, there := z.of[b.From.Unix()]; there {
			if b.Revision <= last.Revision {
				return nil // written again by a drop
			}
			s.revised = append(s.revised, b)
		}
		z.of[b.From.Unix()], z.series = b, nil
		if b.Beside != "" {
			z.beside = b.Beside
		}
		if b.To.After(z.newest) {
			z.newest = b.To
		}
	case KindSettled:
		var b Settled
		if err := decode(&b); err != nil {
			return err
		}
		if _, there := s.taken[e.Workload]; !there {
			s.take(e.Workload, &b)
		}
		if w == nil {
			return nil // what it rests on was dropped
		}
		w.settled = &b
		s.queues[w.of.Policy] = slices.DeleteFunc(s.queues[w.of.Policy], func(q *work) bool { return q == w })
	}
	return nil
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

// series is that of a zone.
func (s *Settler) series(zone string) *carbon.Series {
	z := s.zones[zone]
	if z == nil {
		return &carbon.Series{}
	}
	if z.series == nil {
		var samples []carbon.Sample
		for _, at := range slices.Sorted(maps.Keys(z.of)) {
			b := z.of[at]
			if n := len(samples); n > 0 && samples[n-1].To.After(b.From) {
				samples[n-1].To = b.From // the resolution has changed
			}
			samples = append(samples, carbon.Sample{From: b.From, To: b.To, Value: units.CarbonIntensity(b.Value)})
		}
		z.series, _ = carbon.NewSeries(carbon.Provenance{Zone: zone}, samples) // ascending, and of values that were accepted before
	}
	return z.series
}

// useful are the stretches that have done the work: of one in parts those that succeeded.
func (w *work) useful(stretches []stretch) (out []account.Stretch) {
	for _, x := range stretches {
		if !w.of.Parts || x.succeeded {
			out = append(out, x.Stretch)
		}
	}
	return out
}

// stretch is a run of a workload.
type stretch struct {
	account.Stretch
	succeeded bool
}

// stretches are when a workload ran; an end that is missing is that of the workload.
func (w *work) stretches() (out []stretch, inferred int) {
	for _, run := range slices.Sorted(maps.Keys(w.started)) {
		b := w.started[run]
		to := w.finished.At
		e, known := w.ended[run]
		if known {
			to = e.At
			if e.How == Inferred {
				inferred++
			}
		} else {
			inferred++
		}
		if to.After(b.At) {
			out = append(out, stretch{account.Stretch{From: b.At, To: to, Zone: b.Zone, Workers: b.Workers, Watts: b.Watts}, e.Succeeded})
		}
	}
	slices.SortStableFunc(out, func(a, b stretch) int { return a.From.Compare(b.From) })
	return out, inferred
}

// length is how long the same work takes as submitted. Where it was paused, it may have done some of it
// twice: then it is no more than was expected at first.
func (w *work) length(stretches []account.Stretch) time.Duration {
	curve := account.Curve{MinWorkers: w.of.MinWorkers, Marginal: w.of.Curve}
	out := account.Length(stretches, curve, w.of.Workers, w.lost)
	if !w.paused || w.of.Runtime <= 0 {
		return out
	}
	expected := w.of.Runtime
	if len(curve.Marginal) > 0 {
		expected *= curve.Rate(curve.MinWorkers) / curve.Rate(w.of.Workers)
	}
	return min(out, time.Duration(math.Round(expected*float64(time.Second))))
}

// settle settles a workload that is over for the first time; false where intensities are still to come.
func (s *Settler) settle(w *work, now time.Time) (Settled, bool) {
	b := Settled{Method: account.Method, Of: w.of, Runs: len(w.started), OnTime: w.of.Deadline.IsZero() || !w.finished.At.After(w.of.Deadline)}
	stretches, inferred := w.stretches()
	b.Inferred = inferred
	if len(stretches) == 0 { // it never ran
		b.From, b.To, b.Counterfactual.From, b.Counterfactual.To = w.finished.At, w.finished.At, w.finished.At, w.finished.At
		b.After = s.after
		return b, true
	}
	b.From = stretches[0].From
	for _, x := range stretches {
		b.WorkerHours += float64(x.Workers) * x.To.Sub(x.From).Hours()
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

// besideOf is the zone by whose intensities those of a zone are stated too; "" for none.
func (s *Settler) besideOf(zone string) string {
	if z := s.zones[zone]; z != nil {
		return z.beside
	}
	return ""
}

// beside counts both sides by the intensities beside those that were planned with; nil where there are none.
func (s *Settler) beside(b *Settled, stretches []account.Stretch, measured []account.Measured) *Beside {
	zone := s.besideOf(b.Of.Zone)
	if zone == "" {
		return nil
	}
	series := func(zone string) *carbon.Series { return s.series(s.besideOf(zone)) }
	c := &b.Counterfactual
	u := account.Use(stretches, measured, series)
	as := account.Use([]account.Stretch{{From: c.From, To: c.To, Zone: c.Zone, Watts: c.Watts}}, nil, series)
	out := &Beside{Zone: zone, Grams: u.Grams, AsSubmittedGrams: as.Grams, SavedGrams: as.Grams - u.Grams, MissingSeconds: (u.Missing + as.Missing).Seconds()}
	out.Signal, out.Factor = s.signal(zone, b.From)
	return out
}

// sources say how far energy may be off at 90 %, a share, by who measures it: Kepler and DCGM by what
// evaluations of them report, the model of a power per core by how widely servers differ.
var sources = map[string]float64{"dcgm": 0.05, "kepler": 0.15, "model": 0.4}

// count sums both sides.
func (s *Settler) count(b *Settled, w *work, stretches []stretch) {
	var measured []account.Measured
	by := map[string]float64{}
	for _, e := range w.energy {
		measured = append(measured, account.Measured{From: e.From, To: e.To, Zone: e.Zone, KWh: e.KWh, Source: e.Source})
	}
	measured = account.Apart(measured)
	for _, m := range measured {
		for _, source := range strings.Split(m.Source, "+") {
			by[source] += m.KWh
		}
	}
	ran := make([]account.Stretch, len(stretches))
	for i := range stretches {
		ran[i] = stretches[i].Stretch
	}
	u := account.Use(ran, measured, s.series)
	b.KWh, b.MeasuredKWh, b.Grams = u.KWh, u.MeasuredKWh, u.Grams
	if u.KWh > u.MeasuredKWh {
		by["model"] += u.KWh - u.MeasuredKWh
	}
	b.Sources = slices.Sorted(maps.Keys(by))
	b.Uncertainty = 0
	total := 0.0
	for _, source := range b.Sources { // in order, so that equal entries give equal sums
		kWh := by[source]
		off, stated := sources[source]
		if !stated {
			off = sources["model"]
		}
		b.Uncertainty += off * kWh
		total += kWh
	}
	if total > 0 {
		b.Uncertainty /= total
	}
	c := &b.Counterfactual
	c.Watts = w.of.Watts * float64(w.of.Workers)
	if u.ModelKWh > 0 {
		c.Watts *= u.KWh / u.ModelKWh // as far off the model as the work itself was
	}
	as := account.Use([]account.Stretch{{From: c.From, To: c.To, Zone: c.Zone, Watts: c.Watts}}, nil, s.series)
	c.KWh, c.Grams = as.KWh, as.Grams
	b.MissingSeconds = (u.Missing + as.Missing).Seconds()
	b.SavedGrams = c.Grams - b.Grams
	b.Signal, b.Factor = s.signal(w.of.Zone, b.From)
	b.Beside = s.beside(b, ran, measured)
	b.After = s.after
}

// signal is what the intensities of a zone count at a time.
func (s *Settler) signal(zone string, at time.Time) (signal, factor string) {
	if z := s.zones[zone]; z != nil {
		for _, b := range z.of {
			if !at.Before(b.From) && at.Before(b.To) {
				return b.Signal, b.Factor
			}
		}
	}
	return "", ""
}

// restate settles anew what rests on intensities that were revised; the counterfactual stays where it is.
func (s *Settler) restate() []New {
	if len(s.revised) == 0 {
		return nil
	}
	var out []New
	for _, uid := range slices.Sorted(maps.Keys(s.works)) {
		w := s.works[uid]
		if w.settled == nil || w.finished == nil || len(w.started) == 0 {
			continue
		}
		var zones []string
		for _, x := range s.revised {
			if s.concerns(w, &x) && !slices.Contains(zones, x.Zone) {
				zones = append(zones, x.Zone)
			}
		}
		if len(zones) == 0 {
			continue
		}
		b := *w.settled
		stretches, _ := w.stretches()
		s.count(&b, w, stretches)
		if b.Grams == w.settled.Grams && b.Counterfactual.Grams == w.settled.Counterfactual.Grams && same(b.Beside, w.settled.Beside) {
			continue
		}
		b.Revision++
		b.Why = "revised intensities of " + strings.Join(zones, ", ")
		w.settled = &b
		out = append(out, New{Kind: KindSettled, Key: fmt.Sprintf("settled/%s/%d", uid, b.Revision), Workload: uid, Body: b})
	}
	s.revised = nil
	return out
}

func same(a, b *Beside) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// concerns says whether a time that was revised is one that a workload was counted by.
func (s *Settler) concerns(w *work, x *Intensity) bool {
	touches := func(zone string, from, to time.Time) bool {
		return (zone == x.Zone || s.besideOf(zone) == x.Zone) && from.Before(x.To) && x.From.Before(to)
	}
	if c := &w.settled.Counterfactual; touches(c.Zone, c.From, c.To) {
		return true
	}
	for _, b := range w.started {
		if touches(b.Zone, b.At, w.finished.At) {
			return true
		}
	}
	return false
}
