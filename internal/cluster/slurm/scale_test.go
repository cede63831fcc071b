package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/workload"
)

// scaling is an array of 12 tasks of a CPU and half an hour, four at a time, that was submitted at 8:00 and may run two at a time.
func scaling() Job {
	j := waiting()
	j.ID, j.Tasks, j.Throttle, j.CPUs, j.Comment = "12_[1-12]", 12, 4, 1, "lull:max-delay=8h,runtime=30m,min-tasks=2"
	return j
}

// task is one of it that runs since a time.
func running(n int, since time.Time) Job {
	j := scaling()
	j.ID, j.Tasks, j.Throttle, j.State, j.Reason, j.Started, j.Begin = fmt.Sprintf("12_%d", n), 1, 0, stateRunning, "None", since, since
	j.AdminComment = Mark{Phase: Released, Of: 12}.String()
	return j
}

// released is what waits of it, and waits for its throttle.
func released(tasks, throttle int, m Mark) Job {
	j := scaling()
	j.ID, j.Tasks, j.Throttle, j.Reason, j.Begin = fmt.Sprintf("12_[%d-12]", 13-tasks), tasks, throttle, "JobArrayTaskLimit", time.Time{}
	m.Phase, m.Of = Released, 12
	j.AdminComment = m.String()
	return j
}

func TestArraysThatScaleAreElasticTasks(t *testing.T) {
	half := at("08:45:00") // at 9:00, half of a task is left
	for name, tc := range map[string]struct {
		jobs                         []Job
		state                        decide.State
		workers, least, most, beside int
		remaining                    time.Duration
		latest                       string
		need                         int
	}{
		"waits":                      {[]Job{scaling()}, decide.Waiting, 0, 2, 4, 0, 3 * time.Hour, "16:00:00", 1},
		"runs two at a time":         {[]Job{running(1, half), running(2, half), released(10, 2, Mark{Limit: 4, Set: 2})}, decide.Running, 2, 2, 4, 2, 195 * time.Minute, "16:00:00", 1},
		"runs with its own throttle": {[]Job{running(1, half), running(2, half), released(8, 4, Mark{})}, decide.Running, 4, 2, 4, 2, 135 * time.Minute, "16:00:00", 1},
		"has begun and waits": {func() []Job {
			j := scaling()
			j.ID, j.Tasks, j.AdminComment = "12_[5-12]", 8, Mark{Phase: Held, Begin: j.Begin, Of: 12}.String()
			return []Job{running(4, half), j}
		}(), decide.Waiting, 0, 2, 4, 0, 2 * time.Hour, "16:30:00", 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := Observe(inputAt(t, tc.jobs...))
			i := len(v.Jobs) - 1
			g, task := v.Jobs[i], v.Snapshot.Tasks[i]
			if g.Scale == nil || task.Kind != workload.Elastic {
				t.Fatalf("%+v", g)
			}
			if task.State != tc.state || task.Workers != tc.workers || task.Scaling.MinWorkers != tc.least || task.Scaling.MaxWorkers != tc.most || task.Remaining != tc.remaining || g.Scale.need != tc.need || len(g.Scale.Running) != tc.beside {
				t.Errorf("%+v %+v %+v", task, task.Scaling, g.Scale)
			}
			if !g.Latest.Equal(at(tc.latest)) {
				t.Errorf("latest start %v; want %s", g.Latest, tc.latest)
			}
			if tc.beside > 0 && len(v.Jobs) != 1 {
				t.Errorf("%d tasks; those that run are a part of the array", len(v.Jobs))
			}
			if _, err := decide.Decide(t.Context(), v.Snapshot, joint.Planner{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestThrottleKeepsTheDeadlineWithoutLull: whatever the plan, no throttle is set with which the tasks would end after the deadline, if nobody ever changes
// it. At 17:30, the latest end of an array that starts at its latest start, all that is allowed is the throttle of its user.
func TestThrottleKeepsTheDeadlineWithoutLull(t *testing.T) {
	in := inputAt(t)
	for minute := 0; minute < 9*60; minute += 7 {
		for tasks := 1; tasks <= 11; tasks++ {
			in.Now = at("08:00:00").Add(time.Duration(minute) * time.Minute)
			in.Queue.Jobs = []Job{running(1, in.Now.Add(-10*time.Minute)), released(tasks, 4, Mark{})}
			v := Observe(in)
			d := decide.Decision{Actions: []decide.Action{{Verb: decide.Scale, Workers: 1, Reason: decide.Reason{Code: decide.CodeCleanerLater}}}, Order: []int{0}}
			c := Plan(&v, &d)
			deadline := at("17:30:00")
			throttle := 4
			for _, u := range c.Updates {
				if u.Throttle != nil {
					throttle = *u.Throttle
				}
			}
			ends := func(throttle int) time.Time {
				return in.Now.Add(20 * time.Minute).Add(time.Duration(waves(tasks, throttle)) * 30 * time.Minute)
			}
			if throttle < 1 || throttle > 4 || ends(throttle).After(deadline) && throttle < min(4, tasks+1) {
				t.Fatalf("at %v, of %d tasks that wait %d may run at a time: they end at %v; want by %v", in.Now, tasks, throttle, ends(throttle), deadline)
			}
			if slow := max(1, throttle-1); throttle > 2 && throttle < 4 && !ends(slow).After(deadline) {
				t.Fatalf("at %v, of %d tasks that wait %d may run at a time; %d are enough", in.Now, tasks, throttle, slow)
			}
		}
	}
}

func TestThrottleIsSetAndGivenBack(t *testing.T) {
	in := inputAt(t)
	half := at("08:45:00")
	lowered := Mark{Limit: 4, Set: 2}
	change := func(of Job, f func(*Job)) Job { f(&of); return of }
	own := change(released(10, 2, lowered), func(j *Job) { j.Throttle = 3 })
	for name, tc := range map[string]struct {
		jobs   []Job
		action decide.Action
		want   string // throttle, what is noted
	}{
		"fewer":          {[]Job{running(1, half), released(10, 4, Mark{})}, decide.Action{Verb: decide.Scale, Workers: 2}, "2 limit=4 set=2 of=12 phase=released"},
		"as it is":       {[]Job{running(1, half), released(10, 2, lowered)}, decide.Action{Verb: decide.Continue, Workers: 2}, ""},
		"all":            {[]Job{running(1, half), released(10, 2, lowered)}, decide.Action{Verb: decide.Scale, Workers: 4}, "4 of=12 phase=released"},
		"starts":         {[]Job{scaling()}, decide.Action{Verb: decide.Release, Workers: 3}, "3 begin=1780304400 limit=4 set=3 of=12 phase=released"},
		"planner failed": {[]Job{scaling()}, decide.Action{Verb: decide.Release, Workers: 2, Reason: decide.Reason{Code: decide.CodePlannerFailed}}, "- begin=1780304400 of=12 phase=released"},
		"waits":          {[]Job{running(1, half), released(10, 2, lowered)}, decide.Action{Verb: decide.Pause, Reason: decide.Reason{PlannedStart: at("14:00:00")}}, "4 begin=1780322400 of=12 phase=held"},
		"none of its user": {[]Job{running(1, half), change(released(10, 2, Mark{Set: 2}), func(*Job) {})}, decide.Action{Verb: decide.Pause, Reason: decide.Reason{PlannedStart: at("14:00:00")}},
			"0 begin=1780322400 of=12 phase=held"},
		"the last task that waits":    {[]Job{released(1, 0, lowered)}, decide.Action{Verb: decide.Continue}, ""},
		"its user changed it":         {[]Job{own}, decide.Action{Verb: decide.Continue}, "- of=12 throttle=own phase=released"},
		"its user has changed it":     {[]Job{change(own, func(j *Job) { j.AdminComment = Mark{Phase: Released, Own: true, Of: 12}.String() })}, decide.Action{Verb: decide.Continue}, ""},
		"does not scale any more":     {[]Job{change(released(10, 2, lowered), func(j *Job) { j.Comment = "lull:max-delay=8h" })}, decide.Action{Verb: decide.Continue}, "4 of=12 phase=released"},
		"may not wait any more":       {[]Job{change(released(10, 2, lowered), func(j *Job) { j.Comment = "" })}, decide.Action{}, "4 of=12 phase=released"},
		"held by its user":            {[]Job{change(released(10, 2, lowered), func(j *Job) { j.Reason = "JobHeldUser" })}, decide.Action{}, "4 of=12 phase=released"},
		"its user set the begin time": {[]Job{change(released(10, 2, lowered), func(j *Job) { j.Begin = at("12:00:00") })}, decide.Action{}, "4 of=12 phase=left"},
		"tasks differ":                {[]Job{change(released(9, 2, lowered), func(*Job) {}), change(released(1, 2, lowered), func(j *Job) { j.ID = "12_1"; j.Reason = "JobHeldUser" })}, decide.Action{Verb: decide.Continue}, "4 of=12 phase=released,4 of=12 phase=released"},
	} {
		t.Run(name, func(t *testing.T) {
			in.Queue.Jobs = tc.jobs
			v := Observe(in)
			d := decide.Decision{}
			if len(v.Jobs) > 0 {
				tc.action.Reason.Code = max(tc.action.Reason.Code, decide.CodeCleanerLater)
				d = decide.Decision{Actions: []decide.Action{tc.action}, Order: []int{0}}
			}
			c := Plan(&v, &d)
			var got []string
			for _, u := range c.Updates {
				throttle := "-"
				if u.Throttle != nil {
					throttle = fmt.Sprint(*u.Throttle)
				}
				_, state, _ := strings.Cut(u.Comment, "[")
				for range u.IDs {
					got = append(got, throttle+" "+strings.TrimSuffix(state, "]"))
				}
			}
			if strings.Join(got, ",") != tc.want {
				t.Errorf("%q; want %q", got, tc.want)
			}
		})
	}
}

// TestTheThrottleOfAUser is not what Lull has set.
func TestTheThrottleOfAUser(t *testing.T) {
	j := released(10, 2, Mark{Limit: 4, Set: 2})
	if n := UserThrottle(&j); n != 4 {
		t.Errorf("%d; want 4", n)
	}
	if j.Throttle = 3; UserThrottle(&j) != 3 {
		t.Errorf("%d; want 3", UserThrottle(&j))
	}
}

// TestBigArraysScaleInSteps: planners have a bounded number of scales.
func TestBigArraysScaleInSteps(t *testing.T) {
	j := scaling()
	j.ID, j.Tasks, j.Throttle, j.Comment = "12_[1-5000]", 5000, 1000, "lull:max-delay=8h,runtime=30m,min-tasks=10"
	in := inputAt(t, j)
	in.Queue.Nodes = []Node{{Name: "n1", CPUs: 4000}}
	v := Observe(in)
	s, task := v.Jobs[0].Scale, v.Snapshot.Tasks[0]
	if s.Width != 1000 || s.Step != 16 || s.tasks(s.Most) != 1000 || len(task.Scaling.Curve) > mostLevels || task.Request[cpu] != 16 || s.tasks(s.Least) < 10 {
		t.Errorf("%+v %+v", s, task)
	}
}

// TestAnArrayScalesLinearly: twice the tasks at a time do twice the work. The curve of a task is what each further worker adds.
func TestAnArrayScalesLinearly(t *testing.T) {
	v := Observe(inputAt(t, scaling()))
	s := v.Snapshot.Tasks[0].Scaling
	for n := s.MinWorkers; n <= s.MaxWorkers; n++ {
		if got, want := s.Rate(n), float64(n)/float64(s.MinWorkers); got != want {
			t.Errorf("%d workers run %v times as fast as %d; want %v", n, got, s.MinWorkers, want)
		}
	}
}
