package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/joint"
)

// within is an input with a capacity of so many licences.
func within(t *testing.T, most string, jobs ...Job) Input {
	t.Helper()
	in := inputAt(t, jobs...)
	in.Config = &Config{Capacity: &Capacity{Licence: "power", Maximum: v1alpha1.Amount(most)}}
	return in
}

// licensed is a job with its licences of the capacity, and as many in its mark.
func licensed(j Job, stated, count int) Job {
	j.Licences = fmt.Sprintf("matlab:1,power:%d", count)
	m := ReadMark(j.AdminComment)
	m.Licences = stated
	j.AdminComment = m.String()
	return j
}

// TestLicencesFollowTheNumberOfTasks, in the update that sets it, whatever the state from which a job gets another number. Each task has two CPUs.
func TestLicencesFollowTheNumberOfTasks(t *testing.T) {
	later := decide.Reason{Code: decide.CodeCleanerLater, PlannedStart: at("14:00:00")}
	from := []decide.Phase{{From: at("14:00:00"), To: at("20:00:00"), Cluster: ClusterName, Workers: 4}}
	pausing := Mark{Phase: Pausing, Since: at("08:00:00"), Ran: time.Hour, Runs: 0, To: 4}
	requeued := changed(sized(8, pausing), func(j *Job) { j.Restarts = 1; j.Begin = at("09:01:30") })
	fewer := changed(sized(4, Mark{}), func(j *Job) { j.Comment = "lull:max-delay=8h,interruptible" })
	for name, tc := range map[string]struct {
		job    Job
		action decide.Action
		want   string // size, CPUs, licences, those of the mark; an update for each
	}{
		"starts with fewer":          {licensed(sizing(), 16, 16), decide.Action{Verb: decide.Release, Workers: 4}, "4 8 matlab:1,power:8 8"},
		"waits for fewer":            {licensed(sizing(), 16, 16), decide.Action{Verb: decide.Wait, Reason: later, Phases: from}, "4 8 matlab:1,power:8 8"},
		"starts with all":            {licensed(sized(4, Mark{}), 8, 8), decide.Action{Verb: decide.Release, Workers: 8}, "8 16 matlab:1,power:16 16"},
		"starts as it is":            {licensed(sizing(), 16, 16), decide.Action{Verb: decide.Release, Workers: 8}, "0 0  16"},
		"of a script of before":      {licensed(sizing(), 0, 16), decide.Action{Verb: decide.Release, Workers: 4}, "4 8 matlab:1,power:8 8"},
		"was requeued":               {licensed(requeued, 16, 16), decide.Action{Verb: decide.Resume, Workers: 4}, "4 8 matlab:1,power:8 8"},
		"planner failed":             {licensed(sized(4, Mark{}), 8, 8), decide.Action{Verb: decide.Release, Workers: 4, Reason: decide.Reason{Code: decide.CodePlannerFailed}}, "8 16 matlab:1,power:16 16"},
		"is not sized any more":      {licensed(fewer, 8, 8), decide.Action{Verb: decide.Wait, Reason: later}, "8 16 matlab:1,power:16 16"},
		"may not wait any more":      {changed(licensed(sized(4, Mark{}), 8, 8), func(j *Job) { j.Comment = "" }), decide.Action{}, "8 16 matlab:1,power:16 16"},
		"an operator has lowered it": {licensed(sizing(), 16, 8), decide.Action{Verb: decide.Release, Workers: 4}, "0 0  16"},
		"lowered, with few tasks":    {licensed(sized(4, Mark{}), 8, 6), decide.Action{Verb: decide.Release, Workers: 4}, "8 16  8"},
		"lowered, with other CPUs":   {licensed(changed(sizing(), func(j *Job) { j.Size, j.CPUs = 4, 8 }), 16, 8), decide.Action{Verb: decide.Release, Workers: 2}, "0 0  16"},
		"all taken away":             {changed(licensed(sizing(), 16, 16), func(j *Job) { j.Licences = "matlab:1" }), decide.Action{Verb: decide.Release, Workers: 4}, "0 0  16"},
		"its user wants more":        {licensed(sizing(), 16, 20), decide.Action{Verb: decide.Release, Workers: 4}, "0 0  16"},
		"more CPUs than there are":   {licensed(changed(sizing(), func(j *Job) { j.CPUs = 32 }), 24, 24), decide.Action{Verb: decide.Release, Workers: 4}, "0 0  24"},
		"a list that is cut":         {changed(licensed(sizing(), 16, 16), func(j *Job) { j.LicencesCut = true }), decide.Action{Verb: decide.Release, Workers: 4}, "0 0  16"},
		"in the queue for licences":  {changed(licensed(sized(8, Mark{Phase: Released, Begin: at("08:30:00")}), 16, 16), func(j *Job) { j.Reason, j.Begin = "Licenses", at("08:30:00") }), decide.Action{Verb: decide.Continue, Workers: 4}, "4 8 matlab:1,power:8 8"},
		"in the queue for a node":    {changed(licensed(sized(8, Mark{Phase: Released, Begin: at("08:30:00")}), 16, 16), func(j *Job) { j.Reason, j.Begin = "Priority", at("08:30:00") }), decide.Action{Verb: decide.Continue, Workers: 4}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := planOf(within(t, "24", tc.job), tc.action)
			got := ""
			for _, u := range c.Updates {
				got += fmt.Sprintf("%d %d %s %d", u.Size, u.CPUs, u.Licences, ReadMark(u.Comment).Licences)
				if u.Licences != "" && (u.SawLicences != tc.job.Licences || u.Licensed != ReadMark(u.Comment).Licences) {
					t.Errorf("%+v", u)
				}
			}
			if got != tc.want || len(c.Pauses) > 0 {
				t.Errorf("%q; want %q: %+v", got, tc.want, c)
			}
		})
	}
}

// TestExplainSaysWhyLicencesKeepTheTasks of a job whose licences an operator has lowered.
func TestExplainSaysWhyLicencesKeepTheTasks(t *testing.T) {
	v := Observe(within(t, "24", licensed(sizing(), 16, 8)))
	if x := v.Explain("12", at("09:00:00")); len(x) != 1 || !strings.Contains(x[0].Message, "one licence of the capacity for each of its CPUs") {
		t.Errorf("%+v", x)
	}
}

// TestSizesCountInTheCapacity: a task of the snapshot takes the licences of the tasks with which the job runs, or is planned.
func TestSizesCountInTheCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		job     Job
		workers int
		each    float64
	}{
		"waits":           {licensed(sizing(), 16, 16), 0, 2},
		"waits for fewer": {licensed(sized(4, Mark{}), 8, 8), 0, 2},
		"runs with fewer": {licensed(sizedSince(4, at("08:15:00"), 0), 8, 8), 4, 2},
		"starts before its size is set": {licensed(changed(sizedSince(8, at("08:55:00"), 0), func(j *Job) {
			j.AdminComment = Mark{Phase: Released, Since: at("08:00:00"), Size: 2, User: 8, Each: 2, Was: 8}.String()
		}), 4, 16), 8, 2},
		"the last worker is more tasks": {licensed(changed(sizing(), func(j *Job) { j.Size, j.CPUs = 65, 65 }), 65, 65), 0, 65.0 / 32},
	} {
		v := Observe(within(t, "90", tc.job))
		if len(v.Jobs) != 1 || v.Jobs[0].Size == nil {
			t.Fatalf("%s: %+v %+v", name, v.Jobs, v.Left)
		}
		if task := v.Snapshot.Tasks[0]; task.Request[LicenceResource] != tc.each || task.Workers != tc.workers {
			t.Errorf("%s: %v licences a worker, %d workers; want %v and %d", name, task.Request[LicenceResource], task.Workers, tc.each, tc.workers)
		}
		if of := v.Request(v.Jobs[0].AsSubmitted()); of[LicenceResource] != of["cpu"] {
			t.Errorf("%s: as submitted, %v", name, of)
		}
	}
}

// TestPlannedSizeKeepsToTheCapacity: with licences for three tasks, a job of eight is planned with three at most.
func TestPlannedSizeKeepsToTheCapacity(t *testing.T) {
	in := within(t, "24", licensed(sizing(), 16, 16))
	v := Observe(in)
	v.Snapshot.Clusters[0].CapacityAt = map[string][]float64{LicenceResource: {6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6}}
	d, err := decide.Decide(t.Context(), v.Snapshot, joint.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	keeps := d.Actions[0].Keeps()
	for _, p := range keeps {
		if p.From.Before(at("11:00:00")) && p.Workers > 3 {
			t.Errorf("%+v", p)
		}
	}
	for _, x := range decide.Verify(v.Snapshot, d) {
		t.Error(x)
	}
	if len(keeps) == 0 {
		t.Error("no plan")
	}
}

// TestReservationCountsForSizes: if Lull dies, a job may wait for licences until the reservation ends. A number of tasks with which it would end late then is not set.
func TestReservationCountsForSizes(t *testing.T) {
	for kept, want := range map[time.Duration]int{0: 4, 6 * time.Minute: 5} {
		in := within(t, "24", licensed(sizing(), 16, 16))
		in.Now, in.Kept = at("13:58:00"), kept // two hours of work take 4 with half of the tasks: until 17:58
		c := planOf(in, decide.Action{Verb: decide.Release, Workers: 4})
		if len(c.Updates) != 1 || c.Updates[0].Size != want {
			t.Errorf("%v: %+v; want %d tasks", kept, c.Updates, want)
		}
	}
}

// TestARefusedSizeKeepsItsLicences: all else of the update is made, and the licences are those of before, also if Slurm has changed them.
func TestARefusedSizeKeepsItsLicences(t *testing.T) {
	c := planOf(within(t, "24", licensed(sizing(), 16, 16)), decide.Action{Verb: decide.Release, Workers: 4})
	u := c.Updates[0]
	if m := ReadMark(u.WithoutSize().Comment); m.Kept != RefusedSize || m.Size != 8 || m.Licences != 16 || u.WithoutSize().Licences != "" || !u.WithoutSize().Now {
		t.Errorf("%+v", u.WithoutSize())
	}
	before := u.WithLicencesOfBefore()
	if before.Licences != "matlab:1,power:16" || before.SawLicences != "matlab:1,power:8" || before.Licensed != 16 || before.Now || before.Comment != "" || before.Size != 0 {
		t.Errorf("%+v", before)
	}
	if got := before.Relicense(map[string]string{"12": "matlab:1,power:16"}); len(got) != 0 {
		t.Errorf("%+v; want no change, as Slurm has changed nothing", got)
	}
	if got := before.Relicense(map[string]string{"12": "matlab:1,power:8"}); len(got) != 1 || got[0].Licences != "matlab:1,power:16" {
		t.Errorf("%+v", got)
	}
	other := (&Update{IDs: []string{"12"}, Now: true, Size: 4}).WithLicencesOfBefore()
	if len(other.IDs) != 0 {
		t.Errorf("%+v", other)
	}
}

// TestLicencesNeededForALatestStart: those in use, and those of jobs that must start. A job whose number of tasks is set needs those of all of its tasks.
func TestLicencesNeededForALatestStart(t *testing.T) {
	with := func(id int, f func(*Job)) Job {
		j := licensed(waiting(), 4, 4)
		j.ID, j.Number, j.CPUs = fmt.Sprint(id), id, 4
		f(&j)
		return j
	}
	runs := with(1, func(j *Job) { // and may be paused
		j.State, j.Node, j.Started, j.Comment = stateRunning, "n1", at("08:50:00"), "lull:max-delay=8h,runtime=1h,interruptible"
		j.AdminComment = Mark{Phase: Released, Begin: at("08:50:00")}.String()
	})
	due, later := with(2, func(j *Job) { j.Comment = "lull:max-delay=70m" }), with(3, func(*Job) {})
	others := with(4, func(j *Job) { j.Comment, j.AdminComment, j.Begin = "", "", at("09:00:00") })
	size := changed(licensed(sized(2, Mark{}), 4, 4), func(j *Job) {
		j.ID, j.Number, j.Comment = "5", 5, "lull:max-delay=70m,runtime=2h,interruptible,min-tasks=2,restart=5m"
	})
	for name, tc := range map[string]struct {
		jobs []Job
		want int
	}{
		"nothing must start":     {[]Job{runs, later}, 0},
		"one must start":         {[]Job{runs, due, later}, 8},
		"one is left to Slurm":   {[]Job{runs, others}, 8},
		"with all of its tasks":  {[]Job{runs, size}, 20},
		"both, and nothing runs": {[]Job{due, size}, 20},
		"one that runs must end": {[]Job{changed(runs, func(j *Job) { j.Comment = "lull:max-delay=8h" })}, 0},
		"one is being requeued":  {[]Job{changed(runs, func(j *Job) { j.State, j.AdminComment = stateCompleting, Mark{Phase: Pausing}.String() }), due}, 4},
	} {
		in := within(t, "24", tc.jobs...)
		v := Observe(in)
		if got := v.Needed(&in, at("09:30:00")); got != tc.want {
			t.Errorf("%s: %d; want %d", name, got, tc.want)
		}
	}
}

// TestNoMoreTasksThanAnOperatorLeaves: an operator leaves a job, with two tasks of two licences each, licences for two to four tasks. It never goes on with
// more: neither while it is late, nor if only all of its tasks would end it in time, nor if its time limit is near; nor at the looks after its requeue,
// whatever the plan says.
func TestNoMoreTasksThanAnOperatorLeaves(t *testing.T) {
	requeues, near := 0, 0
	for _, leaves := range []int{4, 5, 7, 8} {
		for minute := 60; minute < 11*60; minute += 15 {
			for _, limit := range []time.Duration{13 * time.Hour, 51 * time.Minute} {
				now := at("08:00:00").Add(time.Duration(minute) * time.Minute)
				j := licensed(sizedSince(2, now.Add(-50*time.Minute), 0), 4, 4)
				j.Limit = limit
				in := within(t, "64", j)
				in.Now, in.Leaves = now, &leaves
				for wanted := 2; wanted <= 8; wanted++ {
					c := planOf(in, decide.Action{Verb: decide.Scale, Workers: wanted})
					if limit < time.Hour {
						if near++; len(c.Pauses) != 1 { // Slurm would end it
							t.Fatalf("at %v, its time limit is near: %+v; want a requeue", now, c)
						}
					}
					for _, p := range c.Pauses {
						requeues++
						if m := ReadMark(p.Comment); m.To > leaves/2 || m.To < 2 {
							t.Fatalf("at %v, it is to go on with %d tasks; accepted: 2 to %d", now, m.To, leaves/2)
						}
						goesOnWithin(t, in, j, p.Comment, leaves/2, wanted)
					}
				}
			}
		}
	}
	if requeues < 10 || near < 10 {
		t.Errorf("%d requeues, the time limit is near %d times; want 10 and more, or this tests little", requeues, near)
	}
}

// goesOnWithin fails if a job that was requeued gets more than some tasks at the next looks: when it is back in the queue, and while it waits there for a
// licence or for a node.
func goesOnWithin(t *testing.T, in Input, j Job, mark string, most, wanted int) {
	t.Helper()
	requeued := in.Now
	j.State, j.Reason, j.Node, j.AdminComment, j.Started = statePending, "BeginTime", "", mark, time.Time{}
	j.Restarts, j.Submitted, j.Begin = j.Restarts+1, requeued, requeued.Add(121*time.Second)
	in.Now = requeued.Add(10 * time.Second)
	for i, a := range []decide.Action{
		{Verb: decide.Resume, Workers: wanted}, {Verb: decide.Continue, Workers: wanted}, {Verb: decide.Continue, Workers: 8}, {Verb: decide.Release, Workers: 8, Reason: decide.Reason{Code: decide.CodePlannerFailed}},
	} {
		in.Queue.Jobs = []Job{j}
		for _, u := range planOf(in, a).Updates {
			if u.Size > 0 {
				j.Size, j.CPUs, j.Licences = u.Size, u.CPUs, u.Licences
			}
			if j.AdminComment = u.Comment; u.Now {
				j.Begin = in.Now
			}
		}
		if j.Size > most || j.licences("power") != j.CPUs || j.Begin.After(in.Now) {
			t.Fatalf("look %d after %v: %d tasks, %s, begins at %v; want at most %d tasks, at once: %s", i+1, requeued, j.Size, j.Licences, j.Begin, most, j.AdminComment)
		}
		j.Reason = []string{reasonLicences, "Priority", reasonResources, ""}[i]
		in.Now = in.Now.Add(time.Minute)
	}
}

// TestATimeLimitEndsAJobThatAnOperatorLeavesFewLicences: a job with two of its tasks whose runs have done what all of them do within the time limit, such as
// one that hangs, is not requeued for ever. It gets all of its tasks once the operator leaves licences for them.
func TestATimeLimitEndsAJobThatAnOperatorLeavesFewLicences(t *testing.T) {
	for _, tc := range []struct {
		done   time.Duration
		leaves int
		to     int // 0 if it is not requeued
	}{
		{30 * time.Minute, 4, 2}, {30 * time.Minute, 8, 4}, {30 * time.Minute, 16, 8}, {2 * time.Hour, 4, 0}, {2 * time.Hour, 8, 0}, {2 * time.Hour, 16, 8},
	} {
		j := licensed(sizedSince(2, at("08:00:00"), tc.done), 4, 4)
		j.Limit = 61 * time.Minute
		in := within(t, "64", j)
		in.Leaves = &tc.leaves
		to := 0
		for _, p := range planOf(in, decide.Action{Verb: decide.Continue, Workers: 2}).Pauses {
			to = ReadMark(p.Comment).To
		}
		if to != tc.to {
			t.Errorf("%v done, %d licences: it goes on with %d tasks; want %d", tc.done, tc.leaves, to, tc.to)
		}
	}
}

// simulated is a job in a Slurm with licences, for days: at its time limit, Slurm ends a run, and only what the run has saved stays. A look follows each 30 s.
type simulated struct {
	Job
	in       Input
	takes    time.Duration // the work, as run time of all tasks; 0 if the job hangs
	left     int           // the licences that an operator leaves it
	away     time.Duration // how long no look follows the first requeue
	saved    time.Duration // work
	requeues int
	sizes    map[int]bool // with which it has run
}

// did is what the present run has done by a time, and how much of that it has saved.
func (s *simulated) did(o *Options, now time.Time) (all, saved time.Duration) {
	ran := now.Sub(s.Started)
	if s.Restarts > 0 {
		ran = max(0, ran-o.Restart)
	}
	return ran * time.Duration(s.Size) / 8, ran.Truncate(o.Checkpoint) * time.Duration(s.Size) / 8
}

// step is what Slurm does at a time.
func (s *simulated) step(o *Options, now time.Time, licences int) {
	if s.State == stateRunning {
		switch all, _ := s.did(o, now); {
		case s.takes > 0 && s.saved+all >= s.takes:
			s.State = stateCompleted
		case now.Sub(s.Started) >= s.Limit:
			s.State = "TIMEOUT"
		}
		return
	}
	switch s.Reason = "BeginTime"; {
	case s.Begin.After(now):
	case s.licences("power") > licences:
		s.Reason = reasonLicences
	default:
		s.State, s.Reason, s.Node, s.Started = stateRunning, "None", "n1", now
		s.sizes[s.Size] = true
	}
}

// look carries out what Lull decides on a plan that wants as few tasks as it may have.
func (s *simulated) look(t *testing.T, o *Options, now time.Time) {
	t.Helper()
	s.in.Now, s.in.Queue.Jobs = now, []Job{s.Job}
	a := decide.Action{Verb: decide.Continue, Workers: 2}
	if phase := ReadMark(s.AdminComment).Phase; s.State == statePending && (phase == Pausing || phase == Paused) {
		a.Verb = decide.Resume
	}
	c := planOf(s.in, a)
	for _, u := range c.Updates {
		if u.Size > 0 {
			s.Size, s.CPUs, s.Licences = u.Size, u.CPUs, u.Licences
		}
		if s.AdminComment = u.Comment; u.Now {
			s.Begin = now
		}
	}
	for _, u := range c.Pauses {
		_, saved := s.did(o, now)
		s.saved += saved
		s.State, s.Node, s.AdminComment, s.Started, s.Submitted, s.Begin = statePending, "", u.Comment, time.Time{}, now, now.Add(121*time.Second)
		s.requeues, s.Restarts = s.requeues+1, s.Restarts+1
	}
	if s.licences("power") != s.CPUs {
		t.Fatalf("%s for %d CPUs", s.Licences, s.CPUs)
	}
}

// TestRequeuesForATimeLimitEnd: a job with two of its eight tasks is requeued before its time limit only while its runs save work. If a run saves nothing, the
// job gets all of its tasks, and keeps them: while an operator leaves no licences for them, it waits.
func TestRequeuesForATimeLimitEnd(t *testing.T) {
	const hour = time.Hour
	begun, back := at("08:00:00"), at("08:00:00").Add(48*time.Hour)
	for name, tc := range map[string]struct {
		comment string
		limit   time.Duration
		job     simulated
		most    int    // requeues
		state   string // at the end
		waits   bool   // for the operator, with all of its tasks
		few     bool   // never runs with all of its tasks
	}{
		"saves nothing":                        {"runtime=50m,checkpoint=1h,restart=5m", hour, simulated{takes: 50 * time.Minute, left: 4}, 1, stateCompleted, true, false},
		"a long start":                         {"runtime=2h,checkpoint=1h,restart=30m", 90 * time.Minute, simulated{takes: 50 * time.Minute, left: 4}, 1, stateCompleted, true, false},
		"a short limit":                        {"runtime=3m,checkpoint=1m,restart=2m", 4 * time.Minute, simulated{takes: 90 * time.Second, left: 4}, 1, stateCompleted, true, false},
		"has saved work before":                {"runtime=2h,checkpoint=1h,restart=5m", hour, simulated{takes: 80 * time.Minute, saved: 30 * time.Minute, left: 4}, 1, stateCompleted, true, false},
		"hangs":                                {"runtime=50m,checkpoint=1h,restart=5m", hour, simulated{left: 4}, 1, "TIMEOUT", true, false},
		"licences for half of its tasks":       {"runtime=50m,checkpoint=1h,restart=5m", hour, simulated{takes: 50 * time.Minute, left: 8}, 1, stateCompleted, true, false},
		"Slurm starts it with two again":       {"runtime=50m,checkpoint=1h,restart=5m", hour, simulated{takes: 50 * time.Minute, left: 4, away: 4 * time.Minute}, 2, stateCompleted, true, false},
		"saves work":                           {"runtime=50m,checkpoint=15m,restart=5m", hour, simulated{takes: 50 * time.Minute, left: 4}, 5, stateCompleted, false, true},
		"saves work at any time":               {"runtime=50m,restart=5m", hour, simulated{takes: 50 * time.Minute, left: 4}, 5, stateCompleted, false, true},
		"saves work, and hangs":                {"runtime=50m,checkpoint=15m,restart=5m", hour, simulated{left: 4}, 6, "TIMEOUT", false, true},
		"all licences, longer than it says":    {"runtime=10m,checkpoint=1h,restart=5m", hour, simulated{takes: 50 * time.Minute, left: 64}, 1, stateCompleted, false, false},
		"all licences, and hangs":              {"runtime=10m,checkpoint=1h,restart=5m", hour, simulated{left: 64}, 1, "TIMEOUT", false, false},
		"all licences, hangs, with checkpoint": {"runtime=10m,checkpoint=5m,restart=5m", hour, simulated{left: 64}, 1, "TIMEOUT", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.job
			s.Job = licensed(sizedSince(2, begun, s.saved), 4, 4)
			s.Limit, s.Comment = tc.limit, "lull:max-delay=8h,interruptible,min-tasks=2,"+tc.comment
			s.in, s.sizes = within(t, "64"), map[int]bool{}
			o, _, err := ReadComment(s.Comment, Options{}, false)
			if err != nil {
				t.Fatal(err)
			}
			now, away := begun, time.Time{}
			for ; now.Before(back.Add(24*time.Hour)) && (s.State == stateRunning || s.State == statePending); now = now.Add(30 * time.Second) {
				licences := 64
				if s.in.Leaves = nil; s.left < 64 && now.Before(back) {
					licences, s.in.Leaves = s.left, &s.left
				}
				s.step(&o, now, licences)
				if now.Before(away) || s.State != stateRunning && s.State != statePending {
					continue
				}
				if s.look(t, &o, now); s.requeues == 1 && away.IsZero() {
					away = now.Add(s.away)
				}
				if s.requeues > tc.most {
					t.Fatalf("requeued %d times by %v; want at most %d: %s", s.requeues, now, tc.most, s.AdminComment)
				}
			}
			if s.State != tc.state || s.requeues == 0 || now.After(back) != tc.waits || s.sizes[8] == tc.few {
				t.Errorf("%s at %v, after %d requeues, with %v tasks: %s", s.State, now, s.requeues, s.sizes, s.AdminComment)
			}
			if tc.waits && (len(s.sizes) > 1 && s.away == 0 || now.After(back.Add(s.Limit+2*time.Minute))) {
				t.Errorf("with %v tasks, ended at %v; want only all of them, once the operator leaves licences for them, at %v", s.sizes, now, back)
			}
		})
	}
}
