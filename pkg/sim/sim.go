// Package sim runs jobs on a virtual clock. It decides nothing itself: every
// start and pause comes from decide.Decide, the function the live controllers
// call.
package sim

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// ErrConfig marks a simulation that cannot run.
var ErrConfig = errors.New("invalid simulation")

// Job is a job as it really is.
type Job struct {
	ID        string
	Submitted time.Time
	// Length is its real run time, Estimate what the planner is told.
	Length, Estimate time.Duration
	// Deadline of completion; zero for a job that may not wait.
	Deadline      time.Time
	Kind          workload.Kind
	Request       map[string]float64
	PriorityClass string
}

// Cluster is a place to run, with the intensity that really occurred.
type Cluster struct {
	Name, Zone string
	Capacity   map[string]float64
	Power      power.PerUnit
	// Forecast is what planners see, Actual what emissions are priced at.
	Forecast, Actual *carbon.Series
}

// Config is a simulation.
type Config struct {
	Clusters []Cluster
	Jobs     []Job
	Planner  plan.Planner
	Slot     time.Duration
	Margin   time.Duration
}

// Run is one uninterrupted run of a job.
type Run struct {
	From, To time.Time
	Cluster  string
}

// Outcome is what became of a job.
type Outcome struct {
	ID     string
	Runs   []Run
	Finish time.Time
	// Wait is from submission to the first start.
	Wait time.Duration
	// Missed says that the job ended after its deadline.
	Missed    bool
	Emissions units.Emissions
	Energy    units.Energy
}

// Result is what became of all jobs, in the order of Config.Jobs.
type Result struct {
	Jobs      []Outcome
	Emissions units.Emissions
	Energy    units.Energy
	Missed    int
	MeanWait  time.Duration
	// Unpriced is run time for which the actual series has no intensity; its
	// energy is not in the sums.
	Unpriced time.Duration
	// Decisions counts calls of decide.Decide.
	Decisions int
}

// Simulate runs the jobs until all are done.
//
// A released job starts when its cluster has room, first released first, as on
// a cluster whose scheduler queues what does not fit. Time jumps from event to
// event (submission, completion, the wake time of the last decision), so that
// the cost does not depend on the resolution of the clock.
//
// Errors: ErrConfig for jobs that can never run, and those of Decide.
// Complexity: O(events x (active jobs + cost of a decision)).
func Simulate(ctx context.Context, cfg Config) (Result, error) {
	e := &engine{cfg: cfg, used: make([]map[string]float64, len(cfg.Clusters))}
	for i := range e.used {
		e.used[i] = map[string]float64{}
	}
	if err := e.admitAll(); err != nil {
		return Result{}, err
	}
	for e.done < len(cfg.Jobs) {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		next, ok := e.nextEvent()
		if !ok {
			return Result{}, fmt.Errorf("%w: no job can make progress after %s", ErrConfig, e.now.Format(time.RFC3339))
		}
		e.now = next
		e.complete()
		e.arrive()
		if err := e.decide(ctx); err != nil {
			return Result{}, err
		}
		e.startPending()
	}
	return e.result(), nil
}

// live is a submitted, unfinished job.
type live struct {
	job      int
	left     time.Duration // real run time still needed
	estimate time.Duration // estimated run time still needed
	released bool
	started  time.Time // of the current run; zero while pending or waiting
	paused   bool
	cluster  int // -1 until placed
	runs     []Run
}

type engine struct {
	cfg     Config
	now     time.Time
	order   []int // job indices by submission
	arrived int
	active  []*live
	pending []*live // released, waiting for room, in order of release
	used    []map[string]float64
	wake    time.Time
	done    int
	out     []Outcome
	calls   int
}

// admitAll checks the jobs and orders them by submission.
func (e *engine) admitAll() error {
	if len(e.cfg.Clusters) == 0 {
		return fmt.Errorf("%w: clusters: none", ErrConfig)
	}
	e.out = make([]Outcome, len(e.cfg.Jobs))
	for i, j := range e.cfg.Jobs {
		if j.Length <= 0 || j.Estimate <= 0 {
			return fmt.Errorf("%w: job %q: length %v, estimate %v; accepted: above 0", ErrConfig, j.ID, j.Length, j.Estimate)
		}
		if !e.everFits(j) {
			return fmt.Errorf("%w: job %q asks for %v, more than any cluster has", ErrConfig, j.ID, j.Request)
		}
		e.out[i].ID = j.ID
		e.order = append(e.order, i)
	}
	sort.Slice(e.order, func(a, b int) bool {
		x, y := &e.cfg.Jobs[e.order[a]], &e.cfg.Jobs[e.order[b]]
		if !x.Submitted.Equal(y.Submitted) {
			return x.Submitted.Before(y.Submitted)
		}
		return x.ID < y.ID
	})
	return nil
}

func (e *engine) everFits(j Job) bool {
	for _, c := range e.cfg.Clusters {
		if fits(j.Request, nil, c.Capacity) {
			return true
		}
	}
	return false
}

// fits reports whether request fits beside used into capacity.
func fits(request, used, capacity map[string]float64) bool {
	for r, q := range request {
		if q > capacity[r]-used[r]+workload.Eps {
			return false
		}
	}
	return true
}

// nextEvent returns the earliest of the next submission, the next completion
// and the wake time; false when nothing is left to happen.
func (e *engine) nextEvent() (time.Time, bool) {
	var next time.Time
	consider := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if e.arrived < len(e.order) {
		consider(e.cfg.Jobs[e.order[e.arrived]].Submitted)
	}
	waiting := false
	for _, l := range e.active {
		if !l.started.IsZero() {
			consider(l.started.Add(l.left))
		}
		// Running interruptible jobs may have to pause at the next decision.
		waiting = waiting || !l.released || e.cfg.Jobs[l.job].Kind == workload.Interruptible
	}
	if waiting && e.wake.After(e.now) {
		consider(e.wake)
	}
	return next, !next.IsZero()
}

func (e *engine) arrive() {
	for ; e.arrived < len(e.order); e.arrived++ {
		j := e.order[e.arrived]
		if e.cfg.Jobs[j].Submitted.After(e.now) {
			return
		}
		e.active = append(e.active, &live{job: j, left: e.cfg.Jobs[j].Length, estimate: e.cfg.Jobs[j].Estimate, cluster: -1})
	}
}

// complete ends the jobs whose work is done.
func (e *engine) complete() {
	kept := e.active[:0]
	for _, l := range e.active {
		if l.started.IsZero() || l.started.Add(l.left).After(e.now) {
			kept = append(kept, l)
			continue
		}
		e.stop(l)
		e.finish(l)
	}
	e.active = kept
}

// stop ends the current run.
func (e *engine) stop(l *live) {
	ran := e.now.Sub(l.started)
	l.runs = append(l.runs, Run{From: l.started, To: e.now, Cluster: e.cfg.Clusters[l.cluster].Name})
	l.left -= ran
	l.estimate = max(0, l.estimate-ran)
	l.started = time.Time{}
	for r, q := range e.cfg.Jobs[l.job].Request {
		e.used[l.cluster][r] -= q
	}
}

func (e *engine) finish(l *live) {
	j, o := &e.cfg.Jobs[l.job], &e.out[l.job]
	o.Runs, o.Finish = l.runs, e.now
	o.Wait = l.runs[0].From.Sub(j.Submitted)
	o.Missed = !j.Deadline.IsZero() && o.Finish.After(j.Deadline)
	e.done++
}

func (e *engine) decide(ctx context.Context) error {
	e.calls++
	d, err := decide.Decide(ctx, e.snapshot(), e.cfg.Planner)
	if err != nil {
		return err
	}
	e.wake = d.Wake
	for i, a := range d.Actions {
		l := e.active[i]
		switch a.Verb {
		case decide.Release, decide.Resume:
			l.released, l.paused = true, false
			if l.cluster < 0 {
				l.cluster = e.clusterIndex(a.Cluster)
			}
			e.pending = append(e.pending, l)
		case decide.Pause:
			e.pause(l)
		case decide.Wait, decide.Continue:
		}
	}
	return nil
}

// pause takes a job off its cluster, or out of the queue for it.
func (e *engine) pause(l *live) {
	l.released = false
	if l.started.IsZero() {
		for i, p := range e.pending {
			if p == l {
				e.pending = append(e.pending[:i], e.pending[i+1:]...)
				break
			}
		}
		l.paused = len(l.runs) > 0
		return
	}
	e.stop(l)
	l.paused = true
}

func (e *engine) clusterIndex(name string) int {
	for i := range e.cfg.Clusters {
		if e.cfg.Clusters[i].Name == name {
			return i
		}
	}
	return -1
}

// startPending starts what fits, in order of release; a job without a cluster
// takes the first with room.
func (e *engine) startPending() {
	kept := e.pending[:0]
	for _, l := range e.pending {
		request := e.cfg.Jobs[l.job].Request
		at := -1
		for c := range e.cfg.Clusters {
			if (l.cluster < 0 || l.cluster == c) && fits(request, e.used[c], e.cfg.Clusters[c].Capacity) {
				at = c
				break
			}
		}
		if at < 0 {
			kept = append(kept, l)
			continue
		}
		l.cluster, l.started = at, e.now
		for r, q := range request {
			e.used[at][r] += q
		}
	}
	e.pending = kept
}

// snapshot is what a controller would observe now.
func (e *engine) snapshot() decide.Snapshot {
	s := decide.Snapshot{Now: e.now, Slot: e.cfg.Slot, Margin: e.cfg.Margin, Tasks: make([]decide.Task, len(e.active))}
	for _, c := range e.cfg.Clusters {
		s.Clusters = append(s.Clusters, decide.Cluster{Name: c.Name, Zone: c.Zone, Capacity: c.Capacity, Power: c.Power, Carbon: c.Forecast})
	}
	for i, l := range e.active {
		j := &e.cfg.Jobs[l.job]
		t := decide.Task{
			ID: j.ID, Submitted: j.Submitted, Deadline: j.Deadline, Remaining: l.estimate, Kind: j.Kind,
			Request: j.Request, PriorityClass: j.PriorityClass, State: decide.Waiting, Paused: l.paused,
		}
		if l.released {
			t.State = decide.Running
		}
		if !l.started.IsZero() {
			t.Remaining = max(0, l.estimate-e.now.Sub(l.started))
		}
		if l.cluster >= 0 {
			t.Cluster = e.cfg.Clusters[l.cluster].Name
		}
		s.Tasks[i] = t
	}
	return s
}

// result prices the runs on the intensity that occurred.
func (e *engine) result() Result {
	res := Result{Jobs: e.out, Decisions: e.calls}
	var wait time.Duration
	for i := range res.Jobs {
		o := &res.Jobs[i]
		for _, r := range o.Runs {
			c := &e.cfg.Clusters[e.clusterIndex(r.Cluster)]
			watts := c.Power.Of(e.cfg.Jobs[i].Request)
			grams, missing := power.Emitted(watts, c.Actual, r.From, r.To)
			o.Emissions += grams
			o.Energy += watts.Over(r.To.Sub(r.From) - missing)
			res.Unpriced += missing
		}
		res.Emissions += o.Emissions
		res.Energy += o.Energy
		wait += o.Wait
		if o.Missed {
			res.Missed++
		}
	}
	if len(res.Jobs) > 0 {
		res.MeanWait = wait / time.Duration(len(res.Jobs))
	}
	return res
}

// AsSubmitted returns the same simulation with every job started as soon as
// there is room: the baseline that savings are stated against. Deadlines are
// still judged.
func AsSubmitted(ctx context.Context, cfg Config) (Result, error) {
	submitted := cfg.Jobs
	cfg.Jobs = append([]Job(nil), submitted...)
	for i := range cfg.Jobs {
		cfg.Jobs[i].Deadline = time.Time{}
	}
	cfg.Planner = nil // no job may wait, so no planner is asked
	res, err := Simulate(ctx, cfg)
	if err != nil {
		return res, err
	}
	for i := range res.Jobs {
		if d := submitted[i].Deadline; !d.IsZero() && res.Jobs[i].Finish.After(d) {
			res.Jobs[i].Missed = true
			res.Missed++
		}
	}
	return res, nil
}
