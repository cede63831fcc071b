package slurm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
)

// mortal is a client of a controller that is killed after some more changes, between any two of them.
type mortal struct {
	*fake
	left  int
	races func() bool
}

func (m *mortal) dies() bool {
	m.left--
	return m.left < 0
}

func (m *mortal) Update(ctx context.Context, u slurm.Update) error {
	if m.dies() {
		return slurm.ErrCommand
	}
	if u.Size > 0 && m.races != nil && m.races() { // it starts before its size is set
		_, _ = m.Observe(ctx)
	}
	return m.fake.Update(ctx, u)
}

func (m *mortal) Requeue(ctx context.Context, ids []string) error {
	if m.dies() {
		return slurm.ErrCommand
	}
	return m.fake.Requeue(ctx, ids)
}

// fate is what the world knows of a job: what it was promised, and what others have done to it.
type fate struct {
	latest, ends  time.Time
	runtime, done time.Duration
	restarts      int
	pauses        bool
	edited, held  bool
	set           time.Time
	tasks         int
	sized
}

// world is a day of a Slurm cluster by a model of Slurm: jobs come, the controller and slurmctld die and come back, forecasts change, clocks step, and users edit and
// hold jobs. It is the same for the same seed.
type world struct {
	t      *testing.T
	name   string
	random *rand.Rand
	f      *fake
	c      *Controller
	client *mortal
	out    source.Outlook
	fates  map[string]*fate
	number int
	seen   map[string]int
	scales bool // the planner scales jobs
	bounds bool // there is a capacity
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, name: fmt.Sprintf("seed %d", seed), random: rand.New(rand.NewPCG(seed, 28)), fates: map[string]*fate{}, seen: map[string]int{}}
	_, w.f, _ = setup(t)
	w.scales, w.bounds = seed%4 > 1, seed%8 > 5
	w.f.cpus, w.f.lasts = []int{16, 100000}[seed%2], map[string]time.Duration{}
	w.forecast()
	return w
}

func (w *world) once(in int) bool { return w.random.IntN(in) == 0 }

func (w *world) minutes(least, most int) time.Duration {
	return time.Duration(least+w.random.IntN(most-least)) * time.Minute
}

// forecast issues another forecast. Sometimes nothing is known, or only what is usual.
func (w *world) forecast() {
	hours := map[int]units.CarbonIntensity{}
	for h := range 48 {
		hours[h] = units.CarbonIntensity(50 + w.random.IntN(500))
	}
	basis, issued := carbon.LiveForecast, w.f.clock.Now()
	if w.once(5) {
		basis, issued = carbon.Climatology, time.Time{}
	}
	if w.out = hourly(w.t, basis, issued, hours); w.once(10) {
		w.out = source.Outlook{}
	}
}

// starts starts a controller.
func (w *world) starts() {
	w.c, _, _ = setup(w.t)
	w.client = &mortal{w.f, 1 << 30, func() bool { return w.once(3) }}
	if w.scales {
		w.c.o.Planner = plan.ForSequence(joint.Planner{Effort: 0.02})
	}
	w.c.o.Client, w.c.o.Clock, w.c.o.Interval, w.c.o.Input.Margin = w.client, w.f.clock, time.Minute, 2*time.Minute
	w.c.o.Outlook = func(time.Time) source.Outlook { return w.out }
	if w.bounds {
		w.bound()
	}
}

// submit submits a job, which job_submit.lua holds, if it works.
func (w *world) submit() {
	now := w.f.clock.Now().Truncate(time.Second)
	w.number++
	delay, runtime := w.minutes(1, 600), w.minutes(1, 180)
	x := &fate{latest: now.Add(delay), ends: now.Add(delay + runtime), runtime: runtime}
	j := slurm.Job{
		ID: fmt.Sprint(w.number), Number: w.number, Tasks: 1, State: "PENDING", Reason: "Priority", Submitted: now, Begin: now, Limit: runtime + time.Hour, CPUs: 1 + w.random.IntN(8), Requeue: true,
		Comment: fmt.Sprintf("lull:max-delay=%dm,runtime=%dm", int(delay.Minutes()), int(runtime.Minutes())),
	}
	switch w.random.IntN(6) {
	case 3, 4, 5:
		w.submitSized(&j, x)
	case 0:
		x.pauses, j.Comment = true, j.Comment+",interruptible"
	case 1:
		if j.Tasks, j.Throttle = 2+w.random.IntN(6), 1+w.random.IntN(3); w.once(2) {
			j.Comment += ",min-tasks=1"
		}
		j.ID = fmt.Sprintf("%d_[1-%d]", w.number, j.Tasks)
		for i := range j.Tasks {
			w.f.lasts[fmt.Sprintf("%d_%d", w.number, i+1)] = runtime
		}
	}
	if w.bounds && j.Tasks == 1 { // as job_submit.lua
		j.Licences = fmt.Sprintf("power:%d", j.CPUs)
	}
	x.tasks = j.Tasks
	w.f.lasts[j.ID] = runtime
	if !w.once(5) {
		j.Begin, j.Reason = now.Add(min(delay, 2*time.Minute)), "BeginTime"
		j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Text: "waits for the plan of Lull", Licences: licensesOf(&j)}.String()
	}
	w.fates[fmt.Sprint(w.number)] = x
	w.f.jobs = append(w.f.jobs, j)
}

// fate is that of a job or of its array.
func (w *world) fate(j *slurm.Job) *fate { return w.fates[fmt.Sprint(j.Number)] }

// users edit and hold jobs that wait, while a controller looks on.
func (w *world) users() {
	now := w.f.clock.Now().Truncate(time.Second)
	for i := range w.f.jobs {
		j := &w.f.jobs[i]
		x := w.fate(j)
		switch {
		case x.user > 0 && j.Pending() && j.Begin.After(now.Add(2*time.Minute)) && x.own == 0 && slurm.ReadMark(j.AdminComment).Size > 0 && w.once(100): // before that, it is the number that counts
			x.own = 1 + w.random.IntN(x.user)
			if x.own == j.Size {
				x.own = 0
				continue
			}
			j.Size, j.CPUs, x.ends = x.own, x.own, time.Time{}
			w.seen["resized by its user"]++
		case !j.Pending() || slurm.ReadMark(j.AdminComment).Phase == slurm.Pausing || x.tasks > 1 || !j.Begin.After(now) || x.edited:
		case x.held:
			if w.once(60) {
				x.held, j.Reason = false, "Priority"
				x.latest, x.ends = time.Time{}, time.Time{} // it may be late by now
			}
		case w.once(300):
			x.edited, x.set = true, now.Add(w.minutes(3, 900))
			if x.set.Equal(j.Begin) { // that is no edit
				x.set = x.set.Add(time.Minute)
			}
			j.Begin = x.set
			w.seen["edited"]++
		case w.once(300):
			x.held, x.set, j.Reason = true, j.Begin, "JobHeldUser"
			w.seen["held"]++
		}
	}
}

// minute is a minute of the world.
func (w *world) minute() {
	w.f.clock.Step(time.Minute)
	if w.once(200) { // of all clocks
		w.f.clock.SetTime(w.f.clock.Now().Add(w.minutes(-10, 10)))
		w.seen["clock steps"]++
	}
	if w.once(60) {
		w.forecast()
	}
	switch {
	case w.f.failed == nil && w.once(200):
		w.f.failed = slurm.ErrCommand // jobs start when slurmctld is back
		w.seen["slurmctld stops"]++
	case w.f.failed != nil && w.once(5):
		w.f.failed = nil
	}
	if w.c == nil && w.once(30) {
		w.starts()
	}
	if w.f.failed != nil {
		return
	}
	_, _ = w.f.Observe(w.t.Context())
	if w.once(15) && w.number < 40 {
		w.submit()
	}
	if w.c != nil {
		if w.once(80) {
			w.client.left = w.random.IntN(3)
		} else {
			w.users() // what nobody has seen before its time comes is a known fault (design 0019)
		}
		_, err := w.c.Reconcile(w.t.Context())
		if w.client.left < 1<<20 {
			w.c = nil
			w.seen["killed"]++
		} else if err != nil {
			w.t.Errorf("%s: %v", w.name, err)
		}
	}
	w.requeued()
	w.check(w.c != nil)
}

// requeued has jobs that were paused go on with what is left.
func (w *world) requeued() {
	for i := range w.f.jobs {
		j := &w.f.jobs[i]
		if x := w.fate(j); x.user > 0 {
			w.worked(j, x)
		} else if j.Restarts > x.restarts {
			x.restarts, x.done = j.Restarts, x.done+w.f.clock.Now().Sub(j.Started)
			j.Started = time.Time{}
			w.f.lasts[j.ID] = max(time.Second, x.runtime-x.done)
			w.seen["paused"]++
		}
	}
}

// check is what is promised: nothing is later than its latest start, and what others decide stands. looked says that a controller has just looked.
func (w *world) check(looked bool) {
	now := w.f.clock.Now()
	for i := range w.f.jobs {
		j := &w.f.jobs[i]
		x, m := w.fate(j), slurm.ReadMark(j.AdminComment)
		fail := func(what string) {
			w.t.Errorf("%s at %v: %s: %s %s, begins %v, started %v: %s; submitted %v; %s; latest %v; set %v", w.name, now, what, j.ID, j.State, j.Begin, j.Started, j.AdminComment, j.Submitted, j.Comment, x.latest, x.set)
		}
		w.checkSize(j, x, &m, fail)
		switch {
		case !x.edited && m.Phase == slurm.HandedOver:
			fail("nobody has changed its begin time")
		case x.edited && j.Pending() && (!j.Begin.Equal(x.set) || looked && m.Phase != slurm.HandedOver):
			fail("its user has given it another begin time")
		case x.held && (!j.Held() || !j.Begin.Equal(x.set)):
			fail("its user holds it")
		case x.edited || x.held || x.latest.IsZero() || !j.Pending() || m.Phase == slurm.Pausing:
		case j.Tasks < x.tasks: // the others of an array may begin later, in waves
		case x.user == 0 && j.Begin.After(x.latest.Add(x.done)) && j.Begin.After(now):
			fail(fmt.Sprintf("it must begin by %v", x.latest.Add(x.done)))
		}
	}
	for i := range w.f.ended {
		j := &w.f.ended[i]
		w.seen["completed"]++
		// A controller that is killed in the middle of a pause leaves the job to Slurm, which starts it two minutes later.
		if x := w.fate(j); !x.ends.IsZero() && !x.edited && w.f.cpus > 1000 && j.Tasks == 1 && !slices.Contains([]byte(j.ID), '_') && j.Ended.After(x.ends.Add(w.late())) {
			w.t.Errorf("%s: %s ended at %v; want by %v: %s; %s; %+v", w.name, j.ID, j.Ended, x.ends, j.AdminComment, j.Comment, x)
		}
	}
	w.f.ended = nil
}

// TestADayOfSlurmByAModel: whatever dies, steps or is edited, no begin time is later than the latest start, and what users decide stands.
func TestADayOfSlurmByAModel(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		w.starts()
		for range 16 * 60 {
			if w.minute(); t.Failed() {
				return
			}
		}
		for what, n := range w.seen {
			seen[what] += n
		}
	}
	t.Log(seen)
	for _, what := range []string{"edited", "held", "clock steps", "slurmctld stops", "killed", "paused", "completed", "resized", "requeued for a size", "resized by its user", "has fewer licences"} {
		if seen[what] < 10 {
			t.Errorf("%s: %d times; want 10 and more, or this tests little", what, seen[what])
		}
	}
}
