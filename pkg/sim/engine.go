package sim

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"

	"lull.dev/lull/pkg/capacity"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// live is a job that is not done: submitted, or known beforehand (Config.Known).
type live struct {
	job, index int             // in Config.Jobs, and in engine.active
	need       []capacity.Need // of one worker
	// record is its plan.
	record track.Record
	// done is the work really done when progress was last counted, as run time at the least
	// scale; saved is that when the job last began or resumed: checkpoints count from there.
	done, saved time.Duration
	// workers run on cluster since a time, 0 when none do; progress is counted from
	// counted on, later than since by the overhead of starting.
	workers, cluster int
	since, counted   time.Duration
	// rate is the true work that the workers do in an hour, in hours at the least scale.
	rate float64
	// want is the scale that was asked for.
	want int
	// changed is when it was last released, paused or scaled; negative before the first time.
	changed  time.Duration
	retry    time.Duration // when it may ask again for what was denied
	released bool
	// due says that it is handed to the next decision where not all jobs are; wake is when it is
	// due again, negative for never.
	due      bool
	wake     time.Duration
	version  int32
	watts    float64 // of one worker on cluster
	runs     []Run
	expected float64
	grams    float64
	kWh      float64
	// gramsBefore and kWhBefore are those at the start of the present run.
	gramsBefore, kWhBefore float64
	filled                 time.Duration // priced by carbon.FillRule
	missing                time.Duration // without a price
}

type engine struct {
	cfg     Config
	start   time.Time // time 0 of the clock, on a boundary of slots
	now     time.Duration
	slot    int // that contains now
	order   []int
	arrived int
	active  []*live // in order of submission; nil in the place of those done
	gone    int     // places of active that are nil
	free    []*live // done: their places are taken by new ones
	pending []*live // released, waiting for room, in order of release
	raises  []*live // running, that ask for more workers
	events  events
	rooms   []room
	places  []int // the indexes of rooms
	// present counts what is used of the clusters now; ever has their capacity after each of
	// Cluster.Changes, the first one before them. Both are by resources.
	present, ever *capacity.Slots
	resources     []string
	base          []decide.Cluster
	names         map[string]int // of clusters
	scaling       map[*Scale]*decide.Scaling
	edges         []edge
	// limited says that capacity ties jobs together: each decision is on all of them.
	limited bool
	// slotted says that plans are compared with progress in every slot.
	slotted bool

	told     []Outlook     // by cluster; nil where the forecast never changes
	renewal  time.Duration // when an outlook changes next; negative for never
	outlooks track.Outlooks
	forecast string        // the name of the outlooks
	wake     time.Duration // of the last decision, where capacity is limited; negative for none
	due      []*live
	tasks    []decide.Task
	lives    []*live // of tasks
	round    track.Round
	// foreseen is the slot in which CapacityAt and LoadAt of the clusters were stated last. victims are the running
	// tasks that make room, as of the last decision.
	foreseen int
	victims  map[string]bool

	rng   *rand.Rand
	res   Result
	left  int
	ended time.Duration
}

func newEngine(cfg Config) (*engine, error) {
	if len(cfg.Clusters) == 0 {
		return nil, fmt.Errorf("%w: clusters: none", ErrConfig)
	}
	if cfg.Slot < time.Second {
		return nil, fmt.Errorf("%w: slot: %v; accepted: at least 1s", ErrConfig, cfg.Slot)
	}
	if !(cfg.MinSaving >= 0 && cfg.MinSaving < 1) {
		return nil, fmt.Errorf("%w: least saving %v; accepted: at least 0, below 1", ErrConfig, cfg.MinSaving)
	}
	if !(cfg.SavingConfidence >= 0 && cfg.SavingConfidence <= 1) {
		return nil, fmt.Errorf("%w: confidence of a saving %v; accepted: 0 to 1", ErrConfig, cfg.SavingConfidence)
	}
	if cfg.MinRun < 0 || cfg.MinPause < 0 {
		return nil, fmt.Errorf("%w: least run %v, least pause %v; accepted: at least 0", ErrConfig, cfg.MinRun, cfg.MinPause)
	}
	if cfg.Deviation == 0 {
		cfg.Deviation = 0.05
	}
	_, learned := plan.KeptReserve(cfg.Planner)
	cfg.Planner = plan.ForSequence(cfg.Planner)
	if err := cfg.Faults.validate(cfg.Clusters); err != nil {
		return nil, err
	}
	e := &engine{
		cfg: cfg, left: len(cfg.Jobs), rng: rand.New(rand.NewPCG(cfg.Seed, 0x73696d)), renewal: -1, wake: -1, foreseen: -1,
		names: make(map[string]int, len(cfg.Clusters)), scaling: map[*Scale]*decide.Scaling{},
	}
	if err := e.checkOthers(); err != nil {
		return nil, err
	}
	e.countCapacity()
	if err := e.admitAll(); err != nil {
		return nil, err
	}
	if len(e.order) > 0 {
		e.start = timegrid.Align(cfg.Jobs[e.order[0]].Submitted, cfg.Slot)
	}
	e.res.Start = e.start
	e.buildRooms()
	if learned && e.limited {
		learner, err := reserve.New(reserve.Default())
		if err != nil {
			return nil, err
		}
		e.round.Reserve = learner
	}
	e.listEdges()
	e.slotted = e.limited || cfg.Revise == EverySlot || cfg.Objective.Kind == plan.MOSP || e.surprises()
	e.told = make([]Outlook, len(cfg.Clusters))
	for c := range e.told {
		e.names[cfg.Clusters[c].Name] = c
		if cfg.Clusters[c].Outlook != nil {
			e.told[c] = cfg.Clusters[c].Outlook()
		}
	}
	e.renew()
	return e, nil
}

// surprises says that jobs may do otherwise than their plans expect.
func (e *engine) surprises() bool {
	if e.cfg.Overhead > 0 || e.cfg.Faults.Deny > 0 || len(e.cfg.Faults.Losses) > 0 || e.cfg.Lengths != nil {
		return true
	}
	for i := range e.cfg.Jobs {
		if j := &e.cfg.Jobs[i]; j.Estimate != j.Length || j.Scale != nil && j.Scale.Actual != nil {
			return true
		}
	}
	return false
}

// admitAll checks the jobs and orders them by submission.
func (e *engine) admitAll() error {
	e.res.Jobs = make([]Outcome, len(e.cfg.Jobs))
	seen := make(map[string]bool, len(e.cfg.Jobs))
	e.order = make([]int, len(e.cfg.Jobs))
	for i := range e.cfg.Jobs {
		j := &e.cfg.Jobs[i]
		switch {
		case j.Length <= 0 || j.Estimate <= 0:
			return fmt.Errorf("%w: job %q: length %v, estimate %v; accepted: above 0", ErrConfig, j.ID, j.Length, j.Estimate)
		case j.MaxDelay < 0 || j.Checkpoint < 0:
			return fmt.Errorf("%w: job %q: maximum delay %v, checkpoint %v; accepted: at least 0", ErrConfig, j.ID, j.MaxDelay, j.Checkpoint)
		case j.Parts < 0 || j.Parts > 1 && (j.Kind != workload.Interruptible || j.Checkpoint > 0 || j.Length < time.Duration(j.Parts)):
			return fmt.Errorf("%w: job %q: parts: %d; accepted: at least 0, and more than 1 for kind %q without checkpoints only", ErrConfig, j.ID, j.Parts, workload.Interruptible)
		case (j.Kind == workload.Elastic) != (j.Scale != nil):
			return fmt.Errorf("%w: job %q: kind %q with scale: %v; accepted: a scale for kind %q only", ErrConfig, j.ID, j.Kind, j.Scale != nil, workload.Elastic)
		case !(j.Watts >= 0 && j.Watts <= power.MaxWatts) || j.Watts > 0 && j.Scale != nil:
			return fmt.Errorf("%w: job %q: watts: %v; accepted: 0 to %g W, 0 for kind %q", ErrConfig, j.ID, j.Watts, float64(power.MaxWatts), workload.Elastic)
		case len(j.Request) == 0:
			return fmt.Errorf("%w: job %q: request: nothing; accepted: at least one resource", ErrConfig, j.ID)
		case seen[j.ID]:
			return fmt.Errorf("%w: jobs: id %q stands twice", ErrConfig, j.ID)
		case !e.everFits(j):
			return fmt.Errorf("%w: job %q asks for %s, more than any cluster has", ErrConfig, j.ID, amounts(j.Request))
		}
		if err := j.validateQuantiles(); err != nil {
			return err
		}
		if j.Scale != nil {
			if err := j.Scale.validate(j.ID); err != nil {
				return err
			}
		}
		e.order[i], seen[j.ID] = i, true
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

// amounts lists what is asked for, by resource.
func amounts(request map[string]float64) string {
	var parts []string
	for _, r := range slices.Sorted(maps.Keys(request)) {
		parts = append(parts, fmt.Sprintf("%g %s", request[r], r))
	}
	return strings.Join(parts, ", ")
}

// everFits reports whether any cluster ever has room for the job.
func (e *engine) everFits(j *Job) bool {
	need := e.ever.Demand(j.Request)
	for c := range e.cfg.Clusters {
		cl := &e.cfg.Clusters[c]
		if !allowed(j, cl.Name) {
			continue
		}
		for k := range 1 + len(cl.Changes) {
			if e.ever.Fits(c, need, float64(j.least()), k) {
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

// run is the loop over the moments at which anything happens.
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
		all := e.advance(next) && e.slotted || e.limited
		e.change()
		e.happen()
		e.arrive()
		if e.renewal >= 0 && e.now >= e.renewal {
			e.renew()
			all = true
		}
		if !e.cfg.atOnce {
			e.settle() // the schedulers of the clusters are faster than a decision
			if err := e.decide(ctx, all); err != nil {
				return err
			}
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

// clock is a time on the clock.
func (e *engine) clock(t time.Time) time.Duration { return t.Sub(e.start) }

// next is the time of the next moment: false when nothing is left to happen.
func (e *engine) next() (time.Duration, bool) {
	next, ok := time.Duration(math.MaxInt64), false
	consider := func(t time.Duration) { next, ok = min(next, t), true }
	if e.arrived < len(e.order) {
		consider(e.submitted(e.order[e.arrived]))
	}
	if t, any := e.events.peek(); any {
		consider(t)
	}
	if e.running() == 0 {
		return max(next, e.now), ok
	}
	if len(e.edges) > 0 {
		consider(e.edges[0].at)
	}
	if !e.cfg.atOnce && e.moving() {
		if e.slotted {
			consider(time.Duration(e.slot+1) * e.cfg.Slot)
		}
		if e.limited && e.wake > e.now {
			consider(e.wake)
		}
		if e.renewal >= 0 {
			consider(e.renewal)
		}
	}
	return max(next, e.now), ok
}

// running is the number of jobs in the system.
func (e *engine) running() int { return len(e.active) - e.gone }

// moving says whether a decision may change anything about a job in the system.
func (e *engine) moving() bool {
	for _, l := range e.active {
		if l != nil && e.movable(l) {
			return true
		}
	}
	return false
}

// movable says whether a decision may change anything about l.
func (e *engine) movable(l *live) bool {
	return !l.released || e.cfg.Jobs[l.job].Kind != workload.Rigid
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
			e.leave(l)
			e.finish(l)
		case x.kind == wakes:
			e.makeDue(l)
		case l.workers > 0 && l.want > l.workers: // it asks again; a start does so in settle
			e.raise(l)
		}
	}
}

func (e *engine) submitted(job int) time.Duration { return e.clock(e.cfg.Jobs[job].Submitted) }

// arrive takes up the jobs that are submitted now, or all of them where they are known beforehand.
func (e *engine) arrive() {
	if e.cfg.Known && !e.cfg.atOnce {
		for len(e.active) == 0 && e.arrived == 0 {
			for _, i := range e.order {
				e.enter(i)
			}
		}
		// A decision at the submission of a job sees that it may run from now on.
		for ; e.arrived < len(e.order) && e.submitted(e.order[e.arrived]) <= e.now; e.arrived++ {
			if l := e.active[e.arrived]; l != nil {
				e.makeDue(l)
			}
		}
		return
	}
	for ; e.arrived < len(e.order) && e.submitted(e.order[e.arrived]) <= e.now; e.arrived++ {
		l := e.enter(e.order[e.arrived])
		if e.cfg.atOnce {
			e.ask(l, -1, e.cfg.Jobs[l.job].least())
		}
	}
}

// enter takes a job into the system.
func (e *engine) enter(i int) *live {
	l := e.fresh()
	l.job, l.index, l.cluster = i, len(e.active), -1
	l.need = e.present.Demand(e.cfg.Jobs[i].Request)
	e.active = append(e.active, l)
	e.makeDue(l)
	return l
}

// fresh is a job without a past. The version goes on where it takes the place of one
// that is done, so that no event of that one holds.
func (e *engine) fresh() *live {
	n := len(e.free)
	if n == 0 {
		return &live{changed: -1, wake: -1}
	}
	l := e.free[n-1]
	e.free = e.free[:n-1]
	*l = live{version: l.version + 1, changed: -1, wake: -1}
	return l
}

// leave takes a job that is done out of the system.
func (e *engine) leave(l *live) {
	e.active[l.index] = nil
	e.gone++
	if l.due {
		e.due = slices.DeleteFunc(e.due, func(x *live) bool { return x == l })
	}
	if e.gone <= len(e.active)/2 || e.cfg.Known {
		return
	}
	kept := e.active[:0]
	for _, x := range e.active {
		if x != nil {
			x.index = len(kept)
			kept = append(kept, x)
		}
	}
	clear(e.active[len(kept):])
	e.active, e.gone = kept, 0
}

func (e *engine) makeDue(l *live) {
	if !l.due {
		l.due = true
		e.due = append(e.due, l)
	}
}
