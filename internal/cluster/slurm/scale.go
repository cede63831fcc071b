package slurm

import (
	"fmt"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// mostLevels bounds in how many steps an array scales.
const mostLevels = 64

// Scale is an array whose number of tasks at a time Lull sets by the plan, with the throttle of Slurm (ArrayTaskThrottle). For planners it is an elastic
// task: a worker is Step tasks of the array, and all take the same time.
//
// A throttle has no end in Slurm. So Lull sets none with which the array, if nobody ever changes it again, would end after its deadline (see least).
type Scale struct {
	// Running are the tasks that run, if those that wait are released.
	Running []Governed
	// Limit is the throttle of its user; 0 for none. Width is how many tasks run at a time with it: no more than there are, and than the partition has
	// room for.
	Limit, Width int
	// Step is how many tasks a worker is; Least and Most are numbers of workers.
	Step, Least, Most int
	// Of is how many tasks it had at first.
	Of int

	throttle int // in force; 0 for none
	waves    int // in which all of it runs one after another, as submitted
	need     int // see least
}

// allowed is how many tasks may run at a time now.
func (s *Scale) allowed() int {
	if s.throttle == 0 {
		return s.Width
	}
	return min(s.throttle, s.Width)
}

// workers is the number of workers of some tasks.
func (s *Scale) workers(tasks int) int { return min(max(s.Least, tasks/s.Step), s.Most) }

// tasks is how many tasks a number of workers is.
func (s *Scale) tasks(workers int) int {
	if workers >= s.Most {
		return s.Width
	}
	return workers * s.Step
}

// scale finds the arrays that are scaled: those whose comment, or the administrator, states a least number of tasks, and whose tasks that wait are alike. The
// tasks that run are a part of such an array once the others are released.
func scale(in *Input, lines []queued, capacity map[string]float64) {
	waits, pending := map[int]*queued{}, map[int]int{}
	for i := range lines {
		x := &lines[i]
		if !x.Job.Pending() {
			continue
		}
		pending[x.Job.Number]++
		if x.why == "" && x.scales(in.Config) {
			waits[x.Job.Number] = x
		}
	}
	running := map[int][]Governed{}
	for i := range lines {
		x := &lines[i]
		w := waits[x.Job.Number]
		if w == nil || pending[x.Job.Number] > 1 || x.why != "" || x.Job.State != stateRunning && x.Job.State != stateConfiguring || !w.released(in.Now) {
			continue
		}
		x.beside = true
		running[x.Job.Number] = append(running[x.Job.Number], x.Governed)
	}
	for number, x := range waits {
		if pending[number] == 1 {
			x.Scale = newScale(in, &x.Governed, running[number], capacity)
		}
	}
}

// scales reports whether Lull sets the throttle of an array. One that its user has changed since is left as it is.
func (g *Governed) scales(c *Config) bool {
	j := g.Job
	return g.Options.MinTasks > 0 && j.ofArray() && !g.HeldOut(c) && !g.interruptible() && !g.Mark.Own && (g.Mark.Set == 0 || j.Throttle == g.Mark.Set)
}

func newScale(in *Input, g *Governed, running []Governed, capacity map[string]float64) *Scale {
	j := g.Job
	s := &Scale{Running: running, Limit: UserThrottle(j), throttle: j.Throttle}
	s.Of = max(g.Mark.Of, j.Tasks+len(running))
	all := *j
	all.Tasks, all.Throttle = j.Tasks+len(running), s.Limit
	whole := Governed{Job: &all}
	each := in.places.request(j, 1)
	s.Width, _ = whole.shape(each, capacity)
	all.Tasks = s.Of
	_, s.waves = whole.shape(each, capacity)
	s.Step = (s.Width + mostLevels - 1) / mostLevels
	s.Least = (min(g.Options.MinTasks, s.Width) + s.Step - 1) / s.Step
	s.Most = max(s.Least, s.Width/s.Step)
	return s
}

// waves is how often in succession so many at a time run.
func waves(tasks, width int) int { return (tasks + width - 1) / width }

// scaled is the array as an elastic task, and what is seen of its progress. It sets Latest: with the throttle of its user, tasks that begin then end in time.
func (g *Governed) scaled(in *Input) (decide.Task, track.Observation) {
	j, s := g.Job, g.Scale
	length := g.runtime(in)
	all := g.deadline(in, s.waves)
	g.Latest = all.Add(-inSuccession(length, waves(j.Tasks+len(s.Running), s.Width)))
	left, longestLeft := time.Duration(0), time.Duration(0) // of what runs
	for i := range s.Running {
		of := max(0, length-s.Running[i].ran(in))
		left, longestLeft = left+of, max(longestLeft, of)
		length = max(length, min(s.Running[i].ran(in), longest)) // it takes longer than was expected
	}
	s.need = s.least(in, g, all, length, longestLeft)
	request := in.places.request(j, float64(s.Step))
	if in.throttles[j.Number] > 0 {
		request[throttleOf(j.Number)] = float64(s.Step)
	}
	width := float64(s.Least * s.Step)
	work := func(tasks int, more time.Duration) time.Duration {
		return time.Duration(min(float64(mostWork), (float64(waves(tasks, s.Width)*s.Width)*float64(g.runtime(in))+float64(more))/width))
	}
	t := decide.Task{
		ID: g.id(), Submitted: g.Submitted(), Deadline: all, Kind: workload.Elastic, Request: request, State: decide.Waiting,
		Remaining: work(j.Tasks, left), Scaling: &decide.Scaling{MinWorkers: s.Least, MaxWorkers: s.Most},
	}
	t.Scaling.Curve = linear(s.Least, s.Most)
	seen := track.Observation{Source: "model", Speed: 1, Done: max(0, work(s.Of, 0)-t.Remaining)}
	switch {
	case g.released(in.Now):
		t.State, t.Cluster, t.Unscheduled = decide.Running, ClusterName, len(s.Running) == 0
		t.Workers = s.workers(s.allowed())
		seen.Running, seen.Wanted = min(t.Workers, len(s.Running)/s.Step), t.Workers
		if j.Reason == reasonResources && !t.Unscheduled {
			t.Lacking = max(0, min(t.Workers-s.Least, t.Workers-len(s.Running)/s.Step))
			seen.Denied = t.Lacking
		}
	case s.Of > j.Tasks:
		t.Paused, t.Cluster = true, ClusterName
	}
	return t, seen
}

// linear is the curve of a task that does twice the work with twice the workers: what the least number does, and what each further worker adds.
func linear(least, most int) []float64 {
	out := make([]float64, most-least+1)
	for k := range out {
		out[k] = 1
	}
	out[0] = float64(least)
	return out
}

// least is the least throttle with which all tasks end in time, if it is never changed again: by the deadline at the expected run time, and by --deadline at the
// time limit.
func (s *Scale) least(in *Input, g *Governed, deadline time.Time, length, left time.Duration) int {
	n := s.atLeast(g.Job.Tasks, deadline.Add(-in.Margin).Sub(in.Now)-left, length)
	if by := g.Job.Deadline; !by.IsZero() {
		limit := max(length, g.Job.Limit)
		n = max(n, s.atLeast(g.Job.Tasks, by.Add(-in.Config.MarginTime()-in.boots()).Sub(in.Now)-limit, limit))
	}
	return n
}

// atLeast is how many at a time tasks of a length must run to take no longer than a time.
func (s *Scale) atLeast(tasks int, within, length time.Duration) int {
	times := int64(within / max(length, time.Second))
	if times < 1 {
		return s.Width
	}
	return int(min(int64(s.Width), (int64(tasks)+times-1)/times))
}

// scale sets how many tasks of an array run at a time, or lets those that wait begin later.
func (c *changes) scale(g *Governed, a *decide.Action, now time.Time) {
	s := g.Scale
	if a.Verb == decide.Wait || a.Verb == decide.Pause {
		if begin := planned(g, a, now); begin.After(now) {
			c.wait(g, now, begin, a.Reason.Code)
			return
		}
		a.Workers = s.Most // its latest safe start has come
	}
	n := max(s.tasks(a.Workers), s.need)
	if a.Reason.Code == decide.CodePlannerFailed || a.Reason.Code == decide.CodeNoCarbonData {
		n = s.Width
	}
	m := g.next(Released)
	throttle := n
	if m.Limit, m.Set = s.Limit, n; n >= s.Width {
		throttle, m.Limit, m.Set = s.Limit, 0, 0
	}
	released := g.Mark.Phase == Released && !g.Job.Begin.After(now)
	if released && throttle == g.Job.Throttle && g.Mark.Set == m.Set {
		return
	}
	m.Text = sentence(now, n, s.Width, Message(&a.Reason))
	u := Update{Now: !released}
	if m.Begin = g.Mark.Begin; u.Now {
		m.Begin = now
	}
	set := &throttle
	if throttle == g.Job.Throttle {
		set = nil
	}
	u.throttle(g.Job, set, m, fmt.Sprintf("released at %s: its user has changed its throttle", clock(now)))
	c.add(g.Job.ID, u)
}
