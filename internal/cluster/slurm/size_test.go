package slurm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/workload"
)

// sizing is a job of 8 tasks of two CPUs each, and of two hours, that was submitted at 8:00, waits, and may have two tasks. It must begin by 16:00, and end by 18:00.
func sizing() Job {
	j := waiting()
	j.Size, j.Nodes, j.CPUs, j.Memory, j.Limit = 8, 1, 16, 16<<30, 13*time.Hour
	j.Comment = "lull:max-delay=8h,runtime=2h,interruptible,checkpoint=30m,min-tasks=2,restart=5m"
	j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Text: textScript}.String()
	return j
}

// sized is the job with a number of tasks that Lull has set.
func sized(n int, m Mark) Job {
	j := sizing()
	m.Size, m.User, m.Each = n, 8, 2
	j.Size, j.CPUs = n, 2*n
	if m.Phase == "" {
		m.Phase, m.Begin = Held, j.Begin
	}
	j.AdminComment = m.String()
	return j
}

// sizedSince is the job that runs with a number of tasks since a time, for the second time.
func sizedSince(n int, since time.Time, done time.Duration) Job {
	j := sized(n, Mark{Phase: Released, Since: at("08:00:00"), Done: done})
	j.State, j.Reason, j.Node, j.Started, j.Begin, j.Restarts = stateRunning, "None", "n1", since, since, 1
	return j
}

func changed(j Job, f func(*Job)) Job { f(&j); return j }

func TestJobsThatAreSizedAreElasticTasks(t *testing.T) {
	for name, tc := range map[string]struct {
		job                  Job
		state                decide.State
		workers, least, most int
		remaining, atRisk    time.Duration
		latest               string
	}{
		"waits":            {sizing(), decide.Waiting, 0, 2, 8, 8 * time.Hour, 0, "16:00:00"},
		"waits with fewer": {sized(3, Mark{}), decide.Waiting, 0, 2, 8, 8 * time.Hour, 0, "16:00:00"},
		"runs with half":   {sizedSince(4, at("08:15:00"), 0), decide.Running, 4, 2, 8, 7 * time.Hour, 20 * time.Minute, "16:10:00"},
		"has run before":   {sizedSince(8, at("08:55:00"), time.Hour), decide.Running, 8, 2, 8, 4 * time.Hour, 0, "16:55:00"},
		"many tasks":       {changed(sizing(), func(j *Job) { j.Size, j.CPUs = 500, 500 }), decide.Waiting, 0, 1, 62, 125 * time.Hour, 0, "16:00:00"},
		"started before its size was set": {changed(sizedSince(8, at("08:55:00"), time.Hour), func(j *Job) {
			j.AdminComment = Mark{Phase: Released, Since: at("08:00:00"), Done: time.Hour, Size: 2, User: 8, Each: 2, Was: 8}.String()
		}), decide.Running, 8, 2, 8, 4 * time.Hour, 0, "16:55:00"},
	} {
		in := inputAt(t, tc.job)
		v := Observe(in)
		if len(v.Jobs) != 1 || v.Jobs[0].Size == nil {
			t.Fatalf("%s: %+v %+v", name, v.Jobs, v.Left)
		}
		g, task := v.Jobs[0], v.Snapshot.Tasks[0]
		if task.Kind != workload.Elastic || !task.Scaling.Restarts || task.State != tc.state || task.Workers != tc.workers || task.Scaling.MinWorkers != tc.least || task.Scaling.MaxWorkers != tc.most ||
			task.Remaining != tc.remaining || task.AtRisk != tc.atRisk {
			t.Errorf("%s: %+v %+v", name, task, task.Scaling)
		}
		if !g.Latest.Equal(at(tc.latest)) {
			t.Errorf("%s: latest start %v; want %s", name, g.Latest, tc.latest)
		}
		d, err := decide.Decide(t.Context(), v.Snapshot, joint.Planner{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range decide.Verify(v.Snapshot, d) {
			t.Errorf("%s: %v", name, x)
		}
	}
}

// TestAmdahlsLaw: with half of the work side by side, 2 of 8 tasks take 0.75 of the time of one, and 8 take 0.5625: a third longer.
func TestAmdahlsLaw(t *testing.T) {
	j := sizing()
	j.Comment += ",parallel=0.5"
	v := Observe(inputAt(t, j))
	task := v.Snapshot.Tasks[0]
	if got, want := task.Remaining, 160*time.Minute; (got - want).Abs() > time.Second {
		t.Errorf("%v with two tasks; want %v", got, want)
	}
	if got := task.Scaling.Rate(8); got < 1.333 || got > 1.334 {
		t.Errorf("8 tasks are %v times as fast as 2; want 4/3", got)
	}
	for _, comment := range []string{"parallel=0", "parallel=1.1", "parallel=x", "parallel=NaN"} {
		if _, _, err := ReadComment("lull:max-delay=8h,interruptible,min-tasks=2,"+comment, Options{}, false); err == nil || !strings.Contains(err.Error(), "up to 1") {
			t.Errorf("%s: %v", comment, err)
		}
	}
	for _, comment := range []string{"parallel=0.9", "restart=1m", "parallel=0.9,min-tasks=2", "restart=1m,interruptible"} {
		if _, _, err := ReadComment("lull:max-delay=8h,"+comment, Options{}, false); err == nil || !strings.Contains(err.Error(), "with interruptible and min-tasks") {
			t.Errorf("%s: %v", comment, err)
		}
	}
}

func TestWhoseTasksAreLeftAlone(t *testing.T) {
	for name, j := range map[string]Job{
		"may not be paused":       changed(sizing(), func(j *Job) { j.Comment = "lull:max-delay=8h,min-tasks=2" }),
		"may not be requeued":     changed(sizing(), func(j *Job) { j.Requeue = false }),
		"has a deadline":          changed(sizing(), func(j *Job) { j.Deadline = at("23:00:00") }),
		"an array":                changed(sizing(), func(j *Job) { j.ID, j.Tasks, j.Comment = "12_[1-4]", 4, "lull:max-delay=8h,interruptible" }),
		"gets whole nodes":        changed(sizing(), func(j *Job) { j.WholeNodes = true }),
		"has GPUs":                changed(sizing(), func(j *Job) { j.GPUs = 2 }),
		"has no tasks":            changed(sizing(), func(j *Job) { j.Size = 0 }),
		"has as few as it may":    changed(sizing(), func(j *Job) { j.Size = 2 }),
		"tasks of unequal size":   changed(sizing(), func(j *Job) { j.CPUs = 15 }),
		"on as many nodes":        changed(sizing(), func(j *Job) { j.Nodes = 8 }),
		"its user has changed it": changed(sized(4, Mark{}), func(j *Job) { j.Size, j.CPUs = 6, 12 }),
		"its user gave it back":   changed(sized(4, Mark{Was: 8}), func(j *Job) { j.Size, j.CPUs = 8, 16 }),
		"its user had changed it": changed(sizing(), func(j *Job) { j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Kept: OwnSize}.String() }),
	} {
		if v := Observe(inputAt(t, j)); len(v.Jobs) != 1 || v.Jobs[0].Size != nil {
			t.Errorf("%s: %+v %+v", name, v.Jobs, v.Left)
		}
	}
	in := inputAt(t, sizing())
	in.Config = &Config{Capacity: &Capacity{Licence: "power", Maximum: "64"}}
	if v := Observe(in); len(v.Jobs) != 1 || v.Jobs[0].Size != nil {
		t.Errorf("with a capacity, and no licences: %+v", v.Jobs)
	}
}

// usedBy returns the nodes of a queue. Its jobs use the CPUs and the memory that they have.
func usedBy(q *Queue) []Node {
	nodes := slices.Clone(q.Nodes)
	for i := range nodes {
		for k := range q.Jobs {
			if j := &q.Jobs[k]; j.Node == nodes[i].Name && j.uses() {
				nodes[i].UsedCPUs, nodes[i].UsedMemory = nodes[i].UsedCPUs+j.CPUs, nodes[i].UsedMemory+j.Memory
			}
		}
	}
	return nodes
}

// planOf is what a decision on one job changes.
func planOf(in Input, a decide.Action) Changes {
	in.Queue.Nodes = usedBy(&in.Queue)
	v := Observe(in)
	d := decide.Decision{Actions: []decide.Action{a}, Order: []int{0}}
	if len(v.Jobs) == 0 { // it is left to Slurm
		d.Order = nil
	}
	return Plan(&v, &d)
}

func TestSizeIsSetAndGivenBack(t *testing.T) {
	later := decide.Reason{Code: decide.CodeCleanerLater, PlannedStart: at("14:00:00")}
	from := []decide.Phase{{From: at("14:00:00"), To: at("20:00:00"), Cluster: ClusterName, Workers: 3}}
	pausing := Mark{Phase: Pausing, Since: at("08:00:00"), Ran: time.Hour, Runs: 0, To: 4}
	for name, tc := range map[string]struct {
		job    Job
		action decide.Action
		want   string // size, CPUs, what is noted
	}{
		"starts with fewer":       {sizing(), decide.Action{Verb: decide.Release, Workers: 3}, "3 6 begin=1780304400 size=3 user=8 each=2 was=8 phase=released"},
		"starts with all":         {sizing(), decide.Action{Verb: decide.Release, Workers: 8}, "0 0 begin=1780304400 size=8 user=8 each=2 phase=released"},
		"too few":                 {sizing(), decide.Action{Verb: decide.Release, Workers: 1}, "2 4 begin=1780304400 size=2 user=8 each=2 was=8 phase=released"},
		"waits for a size":        {sizing(), decide.Action{Verb: decide.Wait, Reason: later, Phases: from}, "4 8 begin=1780322400 size=4 user=8 each=2 was=8 phase=held"},
		"waits for all":           {sized(3, Mark{}), decide.Action{Verb: decide.Wait, Reason: decide.Reason{PlannedStart: at("15:59:00")}}, "8 16 begin=1780329540 size=8 user=8 each=2 was=3 phase=held"},
		"planner failed":          {sized(3, Mark{}), decide.Action{Verb: decide.Release, Workers: 2, Reason: decide.Reason{Code: decide.CodePlannerFailed}}, "8 16 begin=1780304400 size=8 user=8 each=2 was=3 phase=released"},
		"goes on with fewer":      {sizedSince(8, at("08:05:00"), 0), decide.Action{Verb: decide.Scale, Workers: 3}, "to=3"},
		"goes on with more":       {sizedSince(2, at("08:05:00"), 0), decide.Action{Verb: decide.Scale, Workers: 8}, "to=8"},
		"goes on":                 {sizedSince(4, at("08:15:00"), 0), decide.Action{Verb: decide.Continue, Workers: 4}, ""},
		"is paused":               {sizedSince(4, at("08:15:00"), 0), decide.Action{Verb: decide.Pause, Reason: later}, "size=4 user=8 each=2 phase=pausing"},
		"was requeued":            {changed(sized(8, pausing), func(j *Job) { j.Restarts = 1; j.Begin = at("09:01:30") }), decide.Action{Verb: decide.Resume, Workers: 4}, "4 8 begin=1780304400 since=1780300800 done=3600 size=4 user=8 each=2 was=8 phase=released"},
		"requeued a moment ago":   {changed(sized(8, pausing), func(j *Job) { j.Restarts, j.Submitted, j.Begin = 1, at("08:59:57"), at("09:01:58") }), decide.Action{Verb: decide.Resume, Workers: 4}, ""},
		"its user changed it":     {changed(sized(4, Mark{}), func(j *Job) { j.Size, j.CPUs = 6, 12 }), decide.Action{Verb: decide.Wait, Reason: later}, "0 0 begin=1780308000 user=8 each=2 tasks=own phase=held"},
		"is not sized any more":   {changed(sized(4, Mark{}), func(j *Job) { j.Comment = "lull:max-delay=8h,interruptible" }), decide.Action{Verb: decide.Wait, Reason: later}, "8 16 begin=1780308000 size=8 user=8 each=2 was=4 phase=held"},
		"gets whole nodes now":    {changed(sized(4, Mark{}), func(j *Job) { j.WholeNodes = true }), decide.Action{Verb: decide.Wait, Reason: later}, "8 16 begin=1780308000 size=8 user=8 each=2 was=4 phase=held"},
		"may not wait any more":   {changed(sized(4, Mark{}), func(j *Job) { j.Comment = "" }), decide.Action{}, "8 16 size=8 user=8 each=2 was=4 phase=released"},
		"held by its user":        {changed(sized(4, Mark{}), func(j *Job) { j.Reason = "JobHeldUser" }), decide.Action{}, "8 16 begin=1780308000 size=8 user=8 each=2 was=4 phase=held"},
		"others wait for room":    {changed(sizedSince(8, at("08:05:00"), 0), func(j *Job) { j.Partition = "crowded" }), decide.Action{Verb: decide.Scale, Workers: 3}, ""},
		"in the queue, too small": {changed(sized(2, Mark{Phase: Released, Begin: at("08:30:00")}), func(j *Job) { j.Reason, j.Begin = "Resources", at("08:30:00") }), decide.Action{Verb: decide.Continue, Workers: 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputAt(t, tc.job)
			if tc.job.Partition == "crowded" {
				other := waiting()
				other.ID, other.Number, other.Comment, other.Reason, other.Begin = "99", 99, "", reasonResources, at("08:00:00")
				in.Queue.Jobs = append(in.Queue.Jobs, other)
			}
			c := planOf(in, tc.action)
			got := ""
			for _, u := range c.Updates {
				m := u.Comment[strings.LastIndex(u.Comment, "[")+1:]
				got += fmt.Sprintf("%d %d %s", u.Size, u.CPUs, strings.TrimSuffix(m, "]"))
			}
			for _, u := range c.Pauses {
				m := ReadMark(u.Comment)
				if got += strings.TrimSuffix(u.Comment[strings.LastIndex(u.Comment, "[")+1:], "]"); m.To > 0 {
					got = fmt.Sprintf("to=%d", m.To)
				}
				if m.Phase != Pausing || m.Runs != 1 || m.Ran != m.Ran.Truncate(time.Second) {
					t.Errorf("%+v", m)
				}
			}
			if tc.want == "" && got != "" || !strings.HasSuffix(got, tc.want) {
				t.Errorf("%q; want %q", got, tc.want)
			}
		})
	}
}

// TestSizeKeepsTheDeadlineWithoutLull: whatever is planned, no size is set, and none is left, with which the job ends after its deadline or is ended at its time
// limit if nobody ever changes it again, where it would not with all of its tasks.
func TestSizeKeepsTheDeadlineWithoutLull(t *testing.T) {
	deadline := at("18:00:00")
	in := inputAt(t)
	sizes := map[int]int{}
	for minute := 0; minute < 8*60; minute += 11 {
		for _, done := range []time.Duration{0, 20 * time.Minute, 100 * time.Minute} {
			for _, limit := range []time.Duration{0, 2 * time.Hour, 4 * time.Hour, 12 * time.Hour} {
				for wanted := 1; wanted <= 8; wanted++ {
					in.Now = at("08:00:00").Add(time.Duration(minute) * time.Minute)
					j := sizing()
					j.Limit, j.Begin = limit, in.Now.Add(time.Minute)
					j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Text: textScript}.String()
					start := time.Duration(0)
					if done > 0 {
						j.Restarts, start = 1, 5*time.Minute
						j.AdminComment = Mark{Phase: Paused, Begin: j.Begin, Since: at("08:00:00"), Done: done, Size: 8, User: 8, Each: 2}.String()
					}
					j.Submitted = at("08:00:00")
					in.Queue.Jobs = []Job{j}
					verb := []decide.Verb{decide.Wait, decide.Resume}[wanted%2]
					begin := in.Now.Add(40 * time.Minute)
					c := planOf(in, decide.Action{Verb: verb, Workers: wanted, Reason: decide.Reason{PlannedStart: begin}, Phases: []decide.Phase{{From: begin, To: begin.Add(time.Hour), Workers: wanted}}})
					if len(c.Updates) != 1 {
						t.Fatalf("%+v", c)
					}
					u, n, from := c.Updates[0], 8, in.Now
					if u.Size > 0 {
						n = u.Size
					}
					sizes[n]++
					if !u.Now {
						from = u.Begin
					}
					length := start + (2*time.Hour-done)*8/time.Duration(n)
					if ends := from.Add(length); n < 8 && ends.After(deadline) {
						t.Fatalf("at %v, with %v done, it begins at %v with %d tasks and ends at %v: %+v", in.Now, done, from, n, ends, u)
					}
					if n < 8 && limit > 0 && length > limit {
						t.Fatalf("with a limit of %v and %v done, it takes %v with %d tasks", limit, done, length, n)
					}
				}
			}
		}
	}
	for n := 2; n <= 8; n++ {
		if sizes[n] < 10 {
			t.Errorf("%d tasks: %d times; want 10 and more, or this tests little", n, sizes[n])
		}
	}
}

// TestRunningJobIsRequeuedOnlyIfItEndsInTime, also if Slurm starts it again with the tasks that it has, as Lull is dead.
func TestRunningJobIsRequeuedOnlyIfItEndsInTime(t *testing.T) {
	in := inputAt(t)
	requeues, kept := 0, 0
	for minute := 60; minute < 9*60; minute += 7 {
		for has := 2; has <= 8; has++ {
			for wanted := 2; wanted <= 8; wanted++ {
				in.Now = at("08:00:00").Add(time.Duration(minute) * time.Minute)
				ran := 50 * time.Minute
				j := sizedSince(has, in.Now.Add(-ran), 0)
				in.Queue.Jobs = []Job{j}
				verb := decide.Scale
				if has == wanted {
					verb = decide.Continue
				}
				c := planOf(in, decide.Action{Verb: verb, Workers: wanted})
				if len(c.Pauses) == 0 {
					kept++
					continue
				}
				requeues++
				m := ReadMark(c.Pauses[0].Comment)
				if want := 30 * time.Minute * time.Duration(has) / 8; m.Ran != want.Truncate(time.Second) {
					t.Fatalf("%v saved with %d tasks; want %v: of 50 minutes, 5 start, and 15 come after the checkpoint", m.Ran, has, want)
				}
				left := 2*time.Hour - m.Ran
				on := in.Now.Add((left - 15*time.Minute*time.Duration(has)/8) * 8 / time.Duration(has))
				for _, n := range []int{has, m.To} {
					if ends := in.Now.Add(5*time.Minute + left*8/time.Duration(n)); ends.After(at("18:00:00")) && !on.After(at("18:00:00")) {
						t.Fatalf("at %v, it has %d tasks and is to have %d: with %d it ends at %v, and at %v if it goes on", in.Now, has, m.To, n, ends, on)
					}
				}
				if m.To == has {
					t.Fatalf("requeued for nothing: %+v", m)
				}
			}
		}
	}
	if requeues < 50 || kept < 50 {
		t.Errorf("%d requeues, %d runs that go on; want 50 and more, or this tests little", requeues, kept)
	}
}

// TestJobIsNotEndedAtItsTimeLimit: Slurm ends a job at its limit, and with fewer tasks it takes longer. A run that is about to reach it is requeued, with all tasks.
func TestJobIsNotEndedAtItsTimeLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		has  int
		ran  time.Duration
		want int
	}{
		"far from it":      {4, 2 * time.Hour, 0},
		"near it":          {4, 239 * time.Minute, 8},
		"with all of them": {8, 239 * time.Minute, 0},
	} {
		j := sizedSince(tc.has, at("09:00:00").Add(-tc.ran), 0)
		j.Limit = 4 * time.Hour
		j.Comment = "lull:max-delay=8h,runtime=3h,interruptible,min-tasks=2"
		c := planOf(inputAt(t, j), decide.Action{Verb: decide.Continue, Workers: tc.has})
		to := 0
		for _, u := range c.Pauses {
			to = ReadMark(u.Comment).To
		}
		if to != tc.want {
			t.Errorf("%s: to go on with %d tasks; want %d", name, to, tc.want)
		}
	}
}

// TestLullMayDieAfterTheMark and after the requeue: what was done counts once.
func TestLullMayDieAfterTheMark(t *testing.T) {
	before := sizedSince(4, at("08:00:00"), 0)
	c := planOf(inputAt(t, before), decide.Action{Verb: decide.Scale, Workers: 8})
	if len(c.Pauses) != 1 {
		t.Fatalf("%+v", c)
	}
	marked := changed(before, func(j *Job) { j.AdminComment = c.Pauses[0].Comment })
	for name, tc := range map[string]struct {
		job  Job
		done time.Duration // with all tasks
	}{
		"it runs on":         {marked, 15 * time.Minute},
		"requeued":           {changed(marked, func(j *Job) { j.State, j.Restarts, j.Started, j.Begin = statePending, 2, time.Time{}, at("09:02:00") }), 15 * time.Minute},
		"Slurm starts it":    {changed(marked, func(j *Job) { j.Restarts, j.Started, j.Begin = 2, at("08:58:00"), at("08:58:00") }), 15 * time.Minute},
		"Slurm runs it long": {changed(marked, func(j *Job) { j.Restarts, j.Started, j.Begin = 2, at("08:25:00"), at("08:25:00") }), 30 * time.Minute},
	} {
		v := Observe(inputAt(t, tc.job))
		if len(v.Jobs) != 1 || v.Jobs[0].Size == nil {
			t.Fatalf("%s: %+v", name, v.Left)
		}
		task := v.Snapshot.Tasks[0]
		if got := 2*time.Hour - task.Remaining/4; got != tc.done {
			t.Errorf("%s: %v done; want %v", name, got, tc.done)
		}
	}
}

// TestMarkOfASizeCanBeRead, and fits into what squeue shows.
func TestMarkOfASizeCanBeRead(t *testing.T) {
	m := Mark{Phase: Pausing, Since: at("08:00:00"), Begin: at("10:00:00"), Done: 100 * time.Hour, Ran: 100 * time.Hour, Runs: 100, Size: 1000, User: 2000, Each: 128, Was: 2000, To: 1500, Licences: 256000, Text: "x"}
	if got := ReadMark(m.String()); got != m {
		t.Errorf("%+v; want %+v", got, m)
	}
	m.Phase, m.Ran, m.Runs, m.To = Released, 0, 0, 0
	m.Text = fmt.Sprintf("released at %s%s: %s", clock(at("08:00:00")), (&Size{User: 2000}).withTasks(1000), strings.Repeat("x", mostWords))
	if n := len(m.String()); n >= adminWidth {
		t.Errorf("a mark of %d characters; want fewer than %d", n, adminWidth)
	}
}
