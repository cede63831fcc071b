package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// live is a submitted, unfinished job.
type live struct {
	job int
	// done is the work really done, total that to do, hours at the least scale; left is
	// the work that the standing plan has still to do from slot `at` of it on.
	done, total, left float64
	// workers run on cluster since a time, 0 when none do; progress is counted from
	// counted on, later than since by the overhead of starting.
	workers, cluster int
	since, counted   time.Duration
	// want is the scale that the decision asks for.
	want     int
	partEnd  time.Duration // when the part of this slot that the plan uses is over; 0 for none
	retry    time.Duration // when it may ask again for what was denied
	released bool
	ran      bool // since its plan was last compared with what it did
	due      bool
	plan     []plan.Segment
	base     int // slot of the clock that is slot 0 of plan
	at       int
	version  int32
	watts    float64 // of one worker on cluster
	runs     []Run
	expected float64
	grams    float64
	kWh      float64
	filled   time.Duration // priced by carbon.FillRule
	missing  time.Duration // without a price
}

type engine struct {
	cfg     Config
	start   time.Time // time 0 of the clock, on a boundary of slots
	now     time.Duration
	slot    int // that contains now
	order   []int
	arrived int
	active  []*live
	free    []*live // done: their places are taken by new ones
	pending []*live // released, waiting for room, in order of release
	raises  []*live // running, that ask for more workers
	events  queue
	rooms   []room
	base    []decide.Cluster
	told    []Outlook     // by cluster; nil where the forecast never changes
	renewal time.Duration // when an outlook changes next; negative for never
	edges   []edge
	due     []*live
	tasks   []decide.Task
	rng     *rand.Rand
	res     Result
	left    int
	ended   time.Duration
}

func newEngine(cfg Config) (*engine, error) {
	if len(cfg.Clusters) == 0 {
		return nil, fmt.Errorf("%w: clusters: none", ErrConfig)
	}
	if cfg.Slot < time.Second {
		return nil, fmt.Errorf("%w: slot: %v; accepted: at least 1s", ErrConfig, cfg.Slot)
	}
	if cfg.Deviation == 0 {
		cfg.Deviation = 0.05
	}
	if err := cfg.Faults.validate(cfg.Clusters); err != nil {
		return nil, err
	}
	e := &engine{cfg: cfg, left: len(cfg.Jobs), rng: rand.New(rand.NewPCG(cfg.Seed, 0x73696d)), renewal: -1}
	if err := e.admitAll(); err != nil {
		return nil, err
	}
	if len(e.order) > 0 {
		e.start = timegrid.Align(cfg.Jobs[e.order[0]].Submitted, cfg.Slot)
	}
	e.res.Start = e.start
	e.buildRooms()
	e.told = make([]Outlook, len(cfg.Clusters))
	for c := range e.told {
		if cfg.Clusters[c].Outlook != nil {
			e.told[c] = cfg.Clusters[c].Outlook()
		}
	}
	e.renew()
	e.listEdges()
	return e, nil
}

// admitAll checks the jobs and orders them by submission.
func (e *engine) admitAll() error {
	e.res.Jobs = make([]Outcome, len(e.cfg.Jobs))
	e.order = make([]int, len(e.cfg.Jobs))
	for i := range e.cfg.Jobs {
		j := &e.cfg.Jobs[i]
		switch {
		case j.Length <= 0 || j.Estimate <= 0:
			return fmt.Errorf("%w: job %q: length %v, estimate %v; accepted: above 0", ErrConfig, j.ID, j.Length, j.Estimate)
		case j.MaxDelay < 0:
			return fmt.Errorf("%w: job %q: maximum delay %v; accepted: at least 0", ErrConfig, j.ID, j.MaxDelay)
		case (j.Kind == workload.Elastic) != (j.Scale != nil):
			return fmt.Errorf("%w: job %q: kind %q with scale: %v; accepted: a scale for kind %q only", ErrConfig, j.ID, j.Kind, j.Scale != nil, workload.Elastic)
		case !e.everFits(j):
			return fmt.Errorf("%w: job %q asks for %v, more than any cluster has", ErrConfig, j.ID, j.Request)
		}
		if j.Scale != nil {
			if err := j.Scale.validate(j.ID); err != nil {
				return err
			}
		}
		e.order[i] = i
	}
	sort.SliceStable(e.order, func(a, b int) bool {
		x, y := &e.cfg.Jobs[e.order[a]], &e.cfg.Jobs[e.order[b]]
		if !x.Submitted.Equal(y.Submitted) {
			return x.Submitted.Before(y.Submitted)
		}
		return x.ID < y.ID
	})
	return nil
}

func (s *Scale) validate(id string) error {
	n := s.MaxWorkers - s.MinWorkers + 1
	if s.MinWorkers < 1 || n < 1 || len(s.Curve) != n || (s.Actual != nil && len(s.Actual) != n) || (s.Watts != nil && len(s.Watts) != n) {
		return fmt.Errorf("%w: job %q: scale: %d..%d workers with %d, %d and %d values; accepted: one marginal capacity a worker count, and as many true ones and watts, or none of those",
			ErrConfig, id, s.MinWorkers, s.MaxWorkers, len(s.Curve), len(s.Actual), len(s.Watts))
	}
	if !(s.Curve[0] > 0) || (s.Actual != nil && !(s.Actual[0] > 0)) {
		return fmt.Errorf("%w: job %q: scale: a least scale without throughput", ErrConfig, id)
	}
	return nil
}

func (e *engine) everFits(j *Job) bool {
	for c := range e.cfg.Clusters {
		cl := &e.cfg.Clusters[c]
		if !allowed(j, cl.Name) {
			continue
		}
		if cl.Capacity == nil || holds(cl.Capacity, nil, j.Request, j.least()) {
			return true
		}
		for _, change := range cl.Changes {
			if holds(change.Capacity, nil, j.Request, j.least()) {
				return true
			}
		}
	}
	return false
}

func (j *Job) least() int {
	if j.Scale == nil {
		return 1
	}
	return j.Scale.MinWorkers
}

func allowed(j *Job, cluster string) bool {
	for _, c := range j.Clusters {
		if c == cluster {
			return true
		}
	}
	return len(j.Clusters) == 0
}

// run is the loop over events.
func (e *engine) run(ctx context.Context) error {
	for e.left > 0 {
		if e.res.Events&0xfff == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			e.report()
		}
		next, ok := e.next()
		if !ok {
			return fmt.Errorf("%w: no job can make progress after %s", ErrConfig, e.at(e.now).Format(time.RFC3339))
		}
		e.res.Events++
		boundary := e.advance(next)
		e.due = e.due[:0]
		e.change()
		e.happen()
		if boundary {
			e.follow()
		}
		e.arrive()
		if err := e.decide(ctx); err != nil {
			return err
		}
		e.settle()
	}
	e.report()
	return nil
}

func (e *engine) report() {
	if e.cfg.Progress != nil {
		e.cfg.Progress(len(e.cfg.Jobs)-e.left, len(e.cfg.Jobs))
	}
}

func (e *engine) at(t time.Duration) time.Time { return e.start.Add(t) }

// next is the time of the next event: false when nothing is left to happen.
func (e *engine) next() (time.Duration, bool) {
	next, ok := time.Duration(math.MaxInt64), false
	consider := func(t time.Duration) {
		if t < next {
			next = t
		}
		ok = true
	}
	if e.arrived < len(e.order) {
		consider(e.cfg.Jobs[e.order[e.arrived]].Submitted.Sub(e.start))
	}
	if t, any := e.events.peek(); any {
		consider(t)
	}
	if len(e.active) > 0 {
		boundary := time.Duration(e.slot+1) * e.cfg.Slot
		if e.moving() {
			consider(boundary)
		} else if e.cfg.Observe != nil && ok {
			consider(boundary)
		}
		if len(e.edges) > 0 {
			consider(e.edges[0].at)
		}
	}
	return max(next, e.now), ok
}

// moving says whether a boundary of slots may bring anything that has no event.
func (e *engine) moving() bool {
	for _, l := range e.active {
		if !l.released || e.cfg.Jobs[l.job].Kind != workload.Rigid || l.want > l.workers && l.workers > 0 || e.cfg.Faults.Deny > 0 {
			return true
		}
	}
	return false
}

// advance sets the clock and reports whether a new slot has begun.
func (e *engine) advance(to time.Duration) bool {
	e.now = to
	slot := int(to / e.cfg.Slot)
	if slot == e.slot {
		return false
	}
	if e.cfg.Observe != nil {
		e.observe(slot)
	}
	e.slot = slot
	for i := range e.rooms {
		e.rooms[i].stale = true
	}
	return true
}

// happen takes the events of this moment.
func (e *engine) happen() {
	for {
		x, ok := e.events.pop(e.now)
		if !ok {
			return
		}
		switch l := x.job; {
		case x.kind == completes:
			e.stop(l)
			e.finish(l)
		case x.kind == slotUsed:
			e.partEnded(l)
		case x.kind == usedUp:
			if !l.released {
				e.makeDue(l)
			}
		case l.workers > 0 && l.want > l.workers: // it asks again; a start does so in settle
			e.raise(l)
		}
	}
}

func (e *engine) arrive() {
	for ; e.arrived < len(e.order); e.arrived++ {
		i := e.order[e.arrived]
		j := &e.cfg.Jobs[i]
		if j.Submitted.Sub(e.start) > e.now {
			return
		}
		l := e.fresh()
		l.job, l.total, l.cluster = i, j.Length.Hours(), -1
		e.active = append(e.active, l)
		e.makeDue(l)
	}
}

// fresh is a job without a past. The version goes on where it takes the place of one
// that is done, so that no event of that one holds.
func (e *engine) fresh() *live {
	n := len(e.free)
	if n == 0 {
		return &live{}
	}
	l := e.free[n-1]
	e.free = e.free[:n-1]
	*l = live{version: l.version + 1}
	return l
}

func (e *engine) makeDue(l *live) {
	if !l.due {
		l.due = true
		e.due = append(e.due, l)
	}
}

// decide hands the jobs that are due to decide.Decide and takes its plans on.
func (e *engine) decide(ctx context.Context) error {
	kept := e.due[:0]
	for _, l := range e.due {
		if j := &e.cfg.Jobs[l.job]; l.done < l.total && (!l.released || j.Kind != workload.Rigid) {
			kept = append(kept, l)
			continue
		}
		l.due = false
	}
	e.due = kept
	if len(e.due) == 0 {
		return nil
	}
	e.tasks = e.tasks[:0]
	for _, l := range e.due {
		e.tasks = append(e.tasks, e.task(l))
	}
	e.res.Decisions++
	e.res.Planned += len(e.due)
	d, err := decide.Decide(ctx, decide.Snapshot{
		Now: e.at(e.now), Slot: e.cfg.Slot, Margin: e.cfg.Margin, Objective: e.cfg.Objective, Horizon: e.cfg.Horizon,
		Clusters: e.observed(), Tasks: e.tasks,
	}, e.cfg.Planner)
	if err != nil {
		return err
	}
	for i, l := range e.due {
		l.due = false
		e.take(l, &d.Actions[i])
	}
	return nil
}

// take carries out an action.
func (e *engine) take(l *live, a *decide.Action) {
	l.plan, l.at, l.base, l.left, l.partEnd = a.Segments, 0, e.slot, 0, 0
	j := &e.cfg.Jobs[l.job]
	for _, s := range l.plan {
		l.left += j.Scale.told(max(s.Workers, j.least())) * s.Fraction * e.cfg.Slot.Hours()
	}
	if l.expected == 0 && l.runs == nil && l.workers == 0 {
		l.expected = float64(a.Reason.ExpectedG)
	}
	switch a.Verb {
	case decide.Wait, decide.Pause:
		if l.plan != nil && l.plan[0].Slot == 0 { // not to be: what waits has no part in this slot
			l.plan = nil
		}
		e.pause(l)
		e.watch(l)
	case decide.Release, decide.Resume, decide.Continue, decide.Scale, decide.Move:
		cluster := l.cluster
		if len(l.plan) > 0 {
			cluster = l.plan[0].Cluster
		}
		e.ask(l, cluster, max(a.Workers, j.least()))
		if len(l.plan) > 0 && l.plan[0].Slot == 0 {
			e.partly(l)
		} else {
			l.plan = nil // it runs against its plan: until it is done, or decided anew
		}
	}
	e.commit(l)
}

// task is what a controller would observe of l.
func (e *engine) task(l *live) decide.Task {
	j := &e.cfg.Jobs[l.job]
	left := e.estimate(l)
	t := decide.Task{
		ID: j.ID, Submitted: j.Submitted, Remaining: hours(left), Kind: j.Kind, Request: j.Request,
		PriorityClass: j.PriorityClass, State: decide.Waiting, Clusters: j.Clusters,
		Migratable: j.Migratable, RestartKWh: j.RestartKWh, TransferKWh: j.TransferKWh,
	}
	switch {
	case e.cfg.atOnce:
	case !j.Deadline.IsZero():
		t.Deadline = j.Deadline
	case j.bounded():
		t.Deadline = j.Submitted.Add(j.MaxDelay + hours(e.progress(l)+left))
		if latest, ok := e.latest(l); ok {
			t.LatestStart = e.at(latest + e.cfg.Margin)
		}
	}
	if j.Scale != nil {
		t.Scaling = &decide.Scaling{MinWorkers: j.Scale.MinWorkers, MaxWorkers: j.Scale.MaxWorkers, Curve: j.Scale.Curve, Watts: j.Scale.Watts}
	}
	if l.released {
		t.State, t.Workers = decide.Running, l.workers
	}
	t.Paused = !l.released && l.runs != nil
	if l.cluster >= 0 {
		t.Cluster = e.cfg.Clusters[l.cluster].Name
	}
	return t
}

func hours(h float64) time.Duration { return time.Duration(math.Round(h * float64(time.Hour))) }

// observed are the clusters as a controller sees them.
func (e *engine) observed() []decide.Cluster {
	for c := range e.base {
		r := &e.rooms[c]
		if r.stale && !r.endless {
			e.account(c)
		}
		if !r.endless {
			e.base[c].LoadAt = r.taken
		}
		if o := e.told[c]; o != nil {
			e.base[c].Carbon, _ = o.At(e.at(e.now))
		}
	}
	return e.base
}

// renew notes when an outlook changes next.
func (e *engine) renew() {
	e.renewal = -1
	for _, o := range e.told {
		if o == nil {
			continue
		}
		if _, next := o.At(e.at(e.now)); !next.IsZero() {
			if t := next.Sub(e.start); e.renewal < 0 || t < e.renewal {
				e.renewal = t
			}
		}
	}
}
