package slurm

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
)

// Lull dies right after the requeue of a pause: Slurm starts the job 121 s later with the 2 tasks that it has.
func TestPauseOfFewTasksKeepsTheDeadline(t *testing.T) {
	in := inputAt(t)
	in.Now = at("11:10:00")
	j := sizedSince(2, at("10:05:00"), 15*time.Minute) // 60 min with 2 of 8 tasks: 15 min of work; 90 min left, 6 h with two tasks: ends at 17:10
	j.Submitted = at("08:00:00")
	in.Queue.Jobs = []Job{j}
	for _, now := range []string{"11:10:00"} {
		in.Now = at(now)
		in.Queue.Jobs[0].AdminComment = Mark{Phase: Released, Since: at("08:00:00"), Done: 3 * time.Minute, Size: 2, User: 8, Each: 2}.String() // 105 min left: 7 h with two: ends 18:00 minus...
		c := planOf(in, decide.Action{Verb: decide.Pause, Reason: decide.Reason{PlannedStart: at("14:00:00")}})
		v := Observe(in)
		s := v.Jobs[0].Size
		on := in.Now.Add(s.takes(s.left, 2))
		dead := in.Now.Add(121*time.Second + s.start + s.takes(s.left+s.atRisk, 2))
		t.Logf("goes on: ends %v; paused, Lull dead: %v", on, dead)
		if len(c.Pauses) > 0 && dead.After(at("18:00:00")) && !on.After(at("18:00:00").Add(time.Minute)) {
			t.Errorf("requeued by a pause with 2 tasks: %+v", c.Pauses)
		}
	}
}

// The restart that the user states is shorter than what Slurm waits after a requeue if Lull is dead (121 s, and sched_interval).
func TestRequeueCountsWhatSlurmWaits(t *testing.T) {
	in := inputAt(t)
	in.Margin = 20 * time.Second
	j := sizedSince(2, at("10:00:00"), 30*time.Minute-30*time.Second)
	j.Comment = "lull:max-delay=8h,runtime=2h,interruptible,min-tasks=2,restart=10s"
	lost := 0
	for s := 0; s < 3600; s += 5 {
		j.Started = at("11:00:00")
		j.AdminComment = Mark{Phase: Released, Since: at("08:00:00"), Done: time.Duration(s) * time.Second, Size: 2, User: 8, Each: 2}.String()
		in.Now = at("12:00:10")
		in.Queue.Jobs = []Job{j}
		c := planOf(in, decide.Action{Verb: decide.Scale, Workers: 8})
		v := Observe(in)
		z := v.Jobs[0].Size
		on := in.Now.Add(z.takes(z.left, 2))
		dead := in.Now.Add(121*time.Second + z.start + z.takes(z.left+z.atRisk, 2))
		if len(c.Pauses) > 0 && !on.After(at("18:00:00")) && dead.After(at("18:00:00")) {
			if lost++; lost == 1 {
				t.Errorf("goes on: ends %v; requeued, Lull dead: %v", on, dead)
			}
		}
	}
	t.Log(lost)
}

// The user removes min-tasks while the job runs with 2 of 8 tasks.
func TestWorkOfAJobThatIsNotSizedAnyMore(t *testing.T) {
	j := sizedSince(2, at("09:00:00"), 0)
	j.Comment = "lull:max-delay=8h,runtime=2h,interruptible"
	in := inputAt(t, j)
	in.Now = at("10:00:00")
	v := Observe(in)
	task := v.Snapshot.Tasks[0]
	if latest := v.Jobs[0].Latest; task.Remaining != 7*time.Hour || !latest.Equal(at("11:00:00")) {
		t.Errorf("an hour of 8 h with 2 of 8 tasks is done: %v remain, latest start %v; want 7 h and 11:00", task.Remaining, latest)
	}
	c := planOf(in, decide.Action{Verb: decide.Pause, Reason: decide.Reason{PlannedStart: at("14:00:00")}})
	for _, u := range c.Pauses {
		if m := ReadMark(u.Comment); m.Ran > 16*time.Minute {
			t.Errorf("an hour with 2 of 8 tasks counts as %v of the 2 h of work: %s", m.Ran, u.Comment)
		}
	}
}

// Another job of the user waits for a limit of a QOS: it gets the CPUs while this one is requeued.
func TestNoRequeueWhileOthersWait(t *testing.T) {
	for _, reason := range []string{"QOSMaxCpuPerUserLimit", "AssocGrpCpuLimit", "QOSMaxJobsPerUserLimit", "Licenses", "None"} {
		in := inputAt(t, sizedSince(8, at("08:05:00"), 0))
		other := waiting()
		other.ID, other.Number, other.Comment, other.Reason, other.Begin = "99", 99, "", reason, at("08:00:00")
		in.Queue.Jobs = append(in.Queue.Jobs, other)
		if c := planOf(in, decide.Action{Verb: decide.Scale, Workers: 3}); len(c.Pauses) > 0 {
			t.Errorf("%s: requeued", reason)
		}
	}
}

// 16 CPUs are free, 8 on each of two nodes; the job is on one node and needs 16 there.
func TestRoomIsOnOneNode(t *testing.T) {
	j := sizedSince(4, at("08:05:00"), 0) // --nodes=1, 8 CPUs
	a, b := waiting(), waiting()
	for i, x := range []*Job{&a, &b} {
		x.ID, x.Number = []string{"90", "91"}[i], 90+i
		x.CPUs, x.State, x.Comment, x.AdminComment, x.Reason = 8, stateRunning, "", "", "None"
		x.Node = []string{"n1", "n2"}[i]
		x.Started = at("08:00:00")
	}
	in := inputAt(t, j, a, b) // n1: 16 CPUs, job 12 (8) + 90 (8); n2: 91 (8) and 8 free
	c := planOf(in, decide.Action{Verb: decide.Scale, Workers: 8})
	if len(c.Pauses) > 0 {
		t.Errorf("requeued for 16 CPUs on one node, and no node has them: %s", c.Pauses[0].Comment)
	}
	// then it waits with 8 tasks for ever, though 4 would start at once
	q := sized(8, Mark{Phase: Released, Begin: at("09:00:30"), Since: at("08:00:00"), Was: 4})
	q.Restarts, q.Reason, q.Begin = 1, reasonResources, at("09:00:30")
	in = inputAt(t, q, a, b)
	in.Now = at("15:30:00")
	c = planOf(in, decide.Action{Verb: decide.Continue, Workers: 4})
	t.Logf("in the queue for hours with 8 tasks: %+v", c.Updates)
}

// Its user changes the CPUs (NumCPUs or CPUsPerTask) of a job that Lull has sized.
func TestCPUsOfAUserStay(t *testing.T) {
	j := sized(4, Mark{})
	j.CPUs = 16 // was 8: scontrol update NumCPUs=16
	in := inputAt(t, j)
	for _, n := range []int{3, 8} {
		c := planOf(in, decide.Action{Verb: decide.Release, Workers: n})
		for _, u := range c.Updates {
			if u.CPUs != 0 {
				t.Errorf("the user's 16 CPUs become %d for %d tasks", u.CPUs, u.Size)
			}
		}
	}
	j.Comment = ""
	if c := planOf(inputAt(t, j), decide.Action{}); len(c.Updates) > 0 && c.Updates[0].CPUs > 0 {
		t.Logf("given back: %+v", c.Updates[0])
	}
}

// --interval may be 10m, and the time before the limit in which a run is requeued is 2 minutes at most.
func TestTimeLimitBetweenLooks(t *testing.T) {
	in := inputAt(t)
	in.Margin, in.Interval = 20*time.Minute, 10*time.Minute
	for _, ran := range []time.Duration{12*time.Hour - 3*time.Minute} {
		j := sizedSince(2, at("09:00:00"), 0)
		j.Comment = "lull:max-delay=30d,runtime=2h,interruptible,min-tasks=2,restart=5m"
		j.Limit = 12 * time.Hour
		in.Now = at("09:00:00").Add(ran)
		in.Queue.Jobs = []Job{j}
		if c := planOf(in, decide.Action{Verb: decide.Continue, Workers: 2}); len(c.Pauses) == 0 {
			t.Errorf("a look %v before the limit of 12 h: goes on; the next look is 10 minutes later", 12*time.Hour-ran)
		}
	}
}

// late: a run that ends within the margin is in time as it is; requeued, with Lull dead, it is not.
func TestNoRequeueWithinTheMargin(t *testing.T) {
	in := inputAt(t)
	in.Margin = 5 * time.Minute
	n := 0
	for s := 0; s < 3600; s += 10 {
		j := sizedSince(2, at("11:00:00"), 0)
		j.AdminComment = Mark{Phase: Released, Since: at("08:00:00"), Done: time.Duration(s) * time.Second, Size: 2, User: 8, Each: 2}.String()
		in.Now = at("12:05:00")
		in.Queue.Jobs = []Job{j}
		c := planOf(in, decide.Action{Verb: []decide.Verb{decide.Continue, decide.Scale}[s/10%2], Workers: []int{2, 8}[s/10%2]})
		z := Observe(in).Jobs[0].Size
		on := in.Now.Add(z.takes(z.left, 2))
		dead := in.Now.Add(121*time.Second + z.start + z.takes(z.left+z.atRisk, 2))
		if len(c.Pauses) > 0 && !on.After(at("18:00:00")) && dead.After(at("18:00:00")) {
			if n++; n == 1 {
				t.Errorf("goes on: ends %v; requeued, Lull dead: %v", on, dead)
			}
		}
	}
}

// fits counts free CPUs only; growing room requeues again and again.
func TestRoomThatGrowsRequeuesOnce(t *testing.T) {
	in := inputAt(t)
	in.Queue.Nodes = []Node{{Name: "n1", CPUs: 128}}
	in.Now = at("12:00:00")
	size, requeues, done := 2, 0, time.Duration(0)
	for k := 0; k < 30; k++ {
		j := sizedSince(size, in.Now.Add(-time.Minute), done)
		j.Size, j.CPUs = size, 2*size
		j.Comment = "lull:max-delay=1h,runtime=20h,interruptible,min-tasks=2,restart=5m"
		j.Limit = 0
		j.AdminComment = Mark{Phase: Released, Since: at("08:00:00"), Size: size, User: 32, Each: 2}.String()
		other := waiting()
		other.ID, other.Number, other.CPUs, other.State, other.Comment, other.AdminComment, other.Started = "90", 90, 128-2*size-2, stateRunning, "", "", at("08:00:00")
		other.Node = "n1"
		in.Queue.Jobs = []Job{j, other}
		c := planOf(in, decide.Action{Verb: decide.Scale, Workers: 32})
		if len(c.Pauses) > 0 {
			requeues++
			size = ReadMark(c.Pauses[0].Comment).To
		}
		in.Now = in.Now.Add(time.Minute)
	}
	t.Logf("%d requeues in 30 minutes; no work is done meanwhile, as a start takes 5 minutes", requeues)
	if requeues > 3 {
		t.Error("too many")
	}
}

// Marks rewritten at each look?
func TestMarksSettle(t *testing.T) {
	for name, j := range map[string]Job{"waits": sizing(), "sized": sized(3, Mark{})} {
		in := inputAt(t, j)
		writes := 0
		for k := 0; k < 10; k++ {
			from := []decide.Phase{{From: at("14:00:00"), To: at("20:00:00"), Cluster: ClusterName, Workers: 4}}
			c := planOf(in, decide.Action{Verb: decide.Wait, Reason: decide.Reason{Code: decide.CodeCleanerLater, PlannedStart: at("14:00:00")}, Phases: from})
			for _, u := range c.Updates {
				writes++
				q := &in.Queue.Jobs[0]
				q.AdminComment = u.Comment
				if u.Size > 0 {
					q.Size, q.CPUs = u.Size, u.CPUs
				}
				q.Begin = u.Begin
			}
			in.Now = in.Now.Add(time.Minute)
		}
		t.Log(name, writes)
		if writes > 1 {
			t.Error(name, writes)
		}
	}
	// the mark of a job given back by hold, then released: and its user sets 8 -> 8
	// user changes the number between requeue and the next look
	j := changed(sized(4, Mark{Phase: Pausing, Since: at("08:00:00"), Ran: time.Hour, To: 2}), func(j *Job) { j.Restarts = 1; j.Begin = at("09:01:30"); j.Size, j.CPUs = 8, 16 })
	c := planOf(inputAt(t, j), decide.Action{Verb: decide.Resume, Workers: 2})
	t.Logf("%+v", c.Updates)
	// own size, then 1 hour of run: counts
	k := sizedSince(4, at("08:00:00"), 0)
	k.Size, k.CPUs = 2, 4
	k.AdminComment = Mark{Phase: Released, Since: at("08:00:00"), User: 8, Each: 2, Kept: OwnSize}.String()
	v := Observe(inputAt(t, k))
	t.Logf("own 2 of 8: remaining %v", v.Snapshot.Tasks[0].Remaining)
	// own size set by unsize: is Begin lost / released?
	o := changed(sized(4, Mark{Phase: Released, Begin: at("08:30:00")}), func(j *Job) { j.Size, j.CPUs, j.Begin = 6, 12, at("08:30:00") })
	t.Logf("%+v", planOf(inputAt(t, o), decide.Action{Verb: decide.Continue}).Updates)
	// AsSubmitted memory
	m := sizedSince(2, at("08:15:00"), 0)
	m.Memory = 4 << 30
	g := Governed{Job: &m, Mark: ReadMark(m.AdminComment)}
	t.Logf("as submitted %d CPUs, %d GiB", g.AsSubmitted().CPUs, g.AsSubmitted().Memory>>30)
}

// TestJobInTheQueueGetsAsManyTasksAsFindRoom: no node has room for all of them, for more than two minutes. It may not end late for that.
func TestJobInTheQueueGetsAsManyTasksAsFindRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		now    string
		reason string
		other  int // CPUs that are used of each node
		want   int
	}{
		"a moment":                  {"09:01:00", reasonResources, 8, 0},
		"a while":                   {"09:05:00", reasonResources, 8, 4},
		"others come first":         {"09:05:00", "Priority", 8, 0},
		"room for fewer than least": {"09:05:00", reasonResources, 14, 0},
		"it would end late":         {"15:30:00", reasonResources, 8, 0},
		"there is room":             {"09:05:00", reasonResources, 0, 0},
	} {
		q := sized(8, Mark{Phase: Released, Begin: at("09:00:00"), Since: at("08:00:00")})
		q.Restarts, q.Reason, q.Begin = 1, tc.reason, at("09:00:00")
		in := inputAt(t, q)
		in.Now = at(tc.now)
		for i, node := range []string{"n1", "n2"} {
			x := waiting()
			x.ID, x.Number = []string{"90", "91"}[i], 90+i
			x.CPUs, x.State, x.Comment, x.AdminComment, x.Reason, x.Node, x.Started = tc.other, stateRunning, "", "", "None", node, at("08:00:00")
			in.Queue.Jobs = append(in.Queue.Jobs, x)
		}
		got := 0
		for _, u := range planOf(in, decide.Action{Verb: decide.Continue, Workers: 8}).Updates {
			got = u.Size
		}
		if got != tc.want {
			t.Errorf("%s: %d tasks are set; want %d", name, got, tc.want)
		}
	}
}

// TestRoomForMoreMemory: the node has the CPUs for more tasks, and not their memory.
func TestRoomForMoreMemory(t *testing.T) {
	for memory, want := range map[int64]int{64 << 30: 1, 10 << 30: 0} {
		j := sizedSince(2, at("08:05:00"), 0)
		j.Memory = 4 << 30
		in := inputAt(t, j)
		in.Memory = true
		for i := range in.Queue.Nodes {
			in.Queue.Nodes[i].Memory = memory
		}
		if c := planOf(in, decide.Action{Verb: decide.Scale, Workers: 8}); len(c.Pauses) != want {
			t.Errorf("%d GiB: %d requeues; want %d", memory>>30, len(c.Pauses), want)
		}
	}
}

// TestOneRequeueInALook: two jobs on one node are both to have more tasks, and there is room for one of them.
func TestOneRequeueInALook(t *testing.T) {
	a, b := sizedSince(2, at("08:05:00"), 0), sizedSince(2, at("08:05:00"), 0)
	b.ID, b.Number = "13", 13
	in := inputAt(t, a, b)
	in.Queue.Nodes = usedBy(&in.Queue)
	v := Observe(in)
	more := decide.Action{Verb: decide.Scale, Workers: 5}
	if c := Plan(&v, &decide.Decision{Actions: []decide.Action{more, more}, Order: []int{0, 1}}); len(c.Pauses) != 1 {
		t.Errorf("%+v; want one requeue", c.Pauses)
	}
}

// TestRefusedIsNotUnanswered: only what Slurm has refused is remembered.
func TestRefusedIsNotUnanswered(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("%w: scontrol update: exit status 1: Job violates accounting/QOS policy", ErrCommand):                   true,
		fmt.Errorf("%w: scontrol update: exit status 1: Unable to contact slurm controller (connect failure)", ErrCommand): false,
		fmt.Errorf("%w: scontrol: %w", ErrCommand, context.DeadlineExceeded):                                               false,
		fmt.Errorf("%w: scontrol update: ermission denied", ErrCommand):                                                    false,
		fmt.Errorf("%w: scontrol update: exit status 1: Protocol authentication error", ErrCommand):                        false,
		&RacedError{}: false,
	} {
		if got := Refused(err); got != want {
			t.Errorf("%v: %v; want %v", err, got, want)
		}
	}
	u := Update{IDs: []string{"12"}, Now: true, Size: 4, CPUs: 8, Comment: Mark{Phase: Released, Begin: at("09:00:00"), Text: "released at 9:00, with 4 of its 8 tasks: cleaner", Size: 4, User: 8, Each: 2, Was: 8}.String()}.WithoutSize()
	if m := ReadMark(u.Comment); u.Size != 0 || u.CPUs != 0 || !u.Now || m.Size != 8 || m.Kept != RefusedSize || m.Was != 0 || m.Text != "released at 9:00: cleaner" {
		t.Errorf("%+v %+v", u, m)
	}
}
