package sim_test

import (
	"context"
	"math"
	"sort"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/track"
)

// handTask is a job as a controller sees it.
type handTask struct {
	job            *sim.Job
	scaling        *decide.Scaling
	record         track.Record
	done           time.Duration
	workers, want  int
	since, changed time.Time
	released, ran  bool
}

func (x *handTask) rate() float64 {
	if x.scaling == nil {
		return 1
	}
	return x.scaling.Rate(x.workers)
}

func (x *handTask) progress(now time.Time) time.Duration {
	if x.workers == 0 {
		return x.done
	}
	return x.done + time.Duration(math.Round(float64(now.Sub(x.since))*x.rate()))
}

func (x *handTask) ends() time.Time {
	return x.since.Add(time.Duration(math.Ceil(float64(x.job.Length-x.done) / x.rate())))
}

// handLoop runs jobs on a cluster as a controller does. It knows nothing of package sim beside the
// description of the jobs, and starts whatever is released and fits.
type handLoop struct {
	t             *testing.T
	cfg           sim.Config
	planner       plan.Planner // with a memory, as policies have theirs
	now, start    time.Time
	jobs          []*handTask // in order of submission
	next, left    int
	active        []*handTask
	queue, raises []*handTask
	outlooks      track.Outlooks
	wake          time.Time
	runs          map[string][]sim.Run
}

func newHandLoop(t *testing.T, cfg sim.Config) *handLoop {
	t.Helper()
	h := &handLoop{t: t, cfg: cfg, planner: plan.ForSequence(cfg.Planner), left: len(cfg.Jobs), runs: map[string][]sim.Run{}}
	for i := range cfg.Jobs {
		x := &handTask{job: &cfg.Jobs[i]}
		if s := x.job.Scale; s != nil {
			x.scaling = &decide.Scaling{MinWorkers: s.MinWorkers, MaxWorkers: s.MaxWorkers, Curve: s.Curve}
		}
		h.jobs = append(h.jobs, x)
	}
	sort.SliceStable(h.jobs, func(a, b int) bool {
		x, y := h.jobs[a].job, h.jobs[b].job
		return x.Submitted.Before(y.Submitted) || x.Submitted.Equal(y.Submitted) && x.ID < y.ID
	})
	h.start = h.jobs[0].job.Submitted.Truncate(cfg.Slot)
	return h
}

// run returns the runs of each job.
func (h *handLoop) run() map[string][]sim.Run {
	for h.now = h.start; h.left > 0; h.now = h.later() {
		kept := h.active[:0]
		for _, x := range h.active {
			if x.workers > 0 && !x.ends().After(h.now) {
				h.stop(x)
				h.left--
				continue
			}
			kept = append(kept, x)
		}
		h.active = kept
		for ; h.next < len(h.jobs) && !h.jobs[h.next].job.Submitted.After(h.now); h.next++ {
			h.active = append(h.active, h.jobs[h.next])
		}
		if len(h.active) > 0 {
			h.decide()
		}
		h.grant()
	}
	return h.runs
}

func (h *handLoop) stop(x *handTask) {
	if x.workers == 0 {
		return
	}
	x.done = x.progress(h.now)
	if h.now.After(x.since) {
		r := sim.Run{From: x.since.Sub(h.start), To: h.now.Sub(h.start), Workers: int32(x.workers)}
		runs := h.runs[x.job.ID]
		if n := len(runs); n > 0 && runs[n-1].To == r.From && runs[n-1].Workers == r.Workers {
			runs[n-1].To = r.To
		} else {
			h.runs[x.job.ID] = append(runs, r)
		}
		x.ran = true
	}
	x.workers = 0
}

// decide observes all tasks, prepares, decides, keeps and applies.
func (h *handLoop) decide() {
	c := &h.cfg.Clusters[0]
	s := decide.Snapshot{
		Now: h.now, Slot: h.cfg.Slot, Margin: h.cfg.Margin, MinRun: h.cfg.MinRun, MinPause: h.cfg.MinPause, MinSaving: h.cfg.MinSaving,
		Clusters: []decide.Cluster{{Name: c.Name, Capacity: c.Capacity, Power: c.Power, Carbon: c.Forecast}},
	}
	r := track.Round{Snapshot: &s, Rules: track.Rules{Forecast: h.outlooks.Name(s.Clusters, h.now, 0.05), Threshold: 0.05}}
	for _, x := range h.active {
		j, done := x.job, x.progress(h.now)
		d := decide.Task{
			ID: j.ID, Submitted: j.Submitted, Deadline: j.Deadline, Remaining: j.Length - done, Kind: j.Kind, Request: j.Request,
			State: decide.Waiting, Changed: x.changed, Paused: x.ran && !x.released, Scaling: x.scaling,
		}
		o := track.Observation{Done: done, Running: x.workers, Wanted: x.want, Speed: 1}
		if x.released || x.ran {
			d.Cluster = c.Name
		}
		if x.released {
			d.State, d.Unscheduled = decide.Running, x.workers == 0
			if j.Scale != nil {
				d.Workers = x.want
			}
		}
		if x.workers > 0 {
			o.Since = x.since
		}
		s.Tasks, r.Records, r.Seen = append(s.Tasks, d), append(r.Records, &x.record), append(r.Seen, o)
	}
	r.Prepare()
	d, err := decide.Decide(context.Background(), s, h.planner)
	if err != nil {
		h.t.Fatal(err)
	}
	h.wake = r.Keep(&d, nil)
	for i := range d.Actions {
		h.apply(h.active[i], &d.Actions[i])
	}
}

func (h *handLoop) apply(x *handTask, a *decide.Action) {
	workers := max(a.Workers, 1)
	switch {
	case a.Verb == decide.Wait || a.Verb == decide.Pause:
		if x.released {
			h.stop(x)
			x.released, x.changed = false, h.now
		}
	case !x.released:
		x.released, x.want, x.changed = true, workers, h.now
		h.queue = append(h.queue, x)
	case workers < x.workers:
		h.stop(x)
		x.workers, x.since, x.want, x.changed = workers, h.now, workers, h.now
	default:
		if workers != x.want {
			x.want, x.changed = workers, h.now
		}
		if x.workers > 0 && workers > x.workers {
			h.raises = append(h.raises, x)
		}
	}
}

// grant starts what is released and fits, then gives the further workers that were asked for.
func (h *handLoop) grant() {
	fits := func(x *handTask, n int) int {
		used := 0.0
		for _, y := range h.active {
			used += float64(y.workers) * y.job.Request["cpu"]
		}
		return min(n, int(math.Floor((h.cfg.Clusters[0].Capacity["cpu"]-used+1e-6)/x.job.Request["cpu"])))
	}
	waiting := h.queue[:0]
	for _, x := range h.queue {
		if !x.released || x.workers > 0 {
			continue
		}
		if n := fits(x, x.want); n >= 1 {
			x.workers, x.since = n, h.now
		} else {
			waiting = append(waiting, x)
		}
	}
	h.queue = waiting
	for _, x := range h.raises {
		if n := fits(x, x.want-x.workers); x.workers > 0 && n > 0 {
			w := x.workers + n
			h.stop(x)
			x.workers, x.since = w, h.now
		}
	}
	h.raises = h.raises[:0]
}

// later is when something happens next: a boundary of slots, the wake-up, a submission or a completion.
func (h *handLoop) later() time.Time {
	then := h.now.Truncate(h.cfg.Slot).Add(h.cfg.Slot)
	earlier := func(at time.Time) {
		if at.After(h.now) && at.Before(then) {
			then = at
		}
	}
	earlier(h.wake)
	if h.next < len(h.jobs) {
		earlier(h.jobs[h.next].job.Submitted)
	}
	for _, x := range h.active {
		if x.workers > 0 {
			earlier(x.ends())
		}
	}
	return then
}
