package slurm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// waiting is a job of 4 CPUs and an hour that was submitted at 8:00 and that Lull holds until 10:00.
func waiting() Job {
	begin := at("10:00:00")
	return Job{
		ID: "12", Number: 12, Tasks: 1, State: "PENDING", Reason: "BeginTime", Submitted: at("08:00:00"), Begin: begin, Limit: time.Hour, CPUs: 4, Requeue: true,
		Partition: "batch", Comment: "lull:max-delay=8h", AdminComment: Mark{Phase: Held, Begin: begin, Text: "waits"}.String(),
	}
}

// inputAt is a look at 9:00, with power that is clean from 14:00 on.
func inputAt(t *testing.T, jobs ...Job) Input {
	t.Helper()
	day := at("00:00:00")
	var samples []carbon.Sample
	for h := range 48 {
		v := units.CarbonIntensity(500)
		if h >= 14 && h < 20 {
			v = 100
		}
		samples = append(samples, carbon.Sample{From: day.Add(time.Duration(h) * time.Hour), To: day.Add(time.Duration(h+1) * time.Hour), Value: v})
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "X"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	model, err := power.NewPerUnit(map[string]float64{cpu: 3.5}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return Input{
		Now: at("09:00:00"), Config: &Config{}, Zone: "X", Slot: 15 * time.Minute, Carbon: carbon.Outlook{Expected: series}, Power: model,
		Queue: Queue{Jobs: jobs, Nodes: []Node{{"n1", 16}, {"n2", 16}}},
	}
}

func TestWhatIsNotLullsIsLeftToSlurm(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Job)
		want   Why
	}{
		"it waits":                       {func(*Job) {}, ""},
		"no comment":                     {func(j *Job) { j.Comment = "" }, NotOptedIn},
		"neither a delay nor a deadline": {func(j *Job) { j.Comment = "lull:" }, NoSlack},
		"a deadline only":                {func(j *Job) { j.Comment, j.Deadline = "lull:", at("23:00:00") }, ""},
		"opts out":                       {func(j *Job) { j.Comment = "lull:max-delay=8h,off" }, NoSlack},
		"a comment that cannot be read":  {func(j *Job) { j.Comment = "lull:max-delay=x" }, BadComment},
		"held by its user":               {func(j *Job) { j.Reason = "JobHeldUser" }, UserHold},
		"held by an operator":            {func(j *Job) { j.Reason = "JobHeldAdmin" }, UserHold},
		"submitted with --begin":         {func(j *Job) { j.AdminComment = "" }, OwnBegin},
		"its begin time has passed, and nobody has marked it":              {func(j *Job) { j.AdminComment, j.Begin = "", at("08:00:00") }, ""},
		"submitted with --begin, which has come while the cluster is full": {func(j *Job) { j.AdminComment, j.Begin, j.Reason = "", at("08:30:00"), "Resources" }, OwnBegin},
		"Slurm took a moment to accept it":                                 {func(j *Job) { j.AdminComment, j.Begin = "", at("08:00:02") }, ""},
		"handed over, and its begin time has come":                         {func(j *Job) { j.AdminComment, j.Begin = Mark{Phase: HandedOver}.String(), at("08:59:00") }, BeginChanged},
		"handed over, and runs": {func(j *Job) {
			j.AdminComment, j.State, j.Started = Mark{Phase: HandedOver}.String(), "RUNNING", at("08:59:00")
		}, BeginChanged},
		"its user has moved it ahead": {func(j *Job) { j.Begin = at("08:59:00") }, BeginChanged},
		"its user has put it off":     {func(j *Job) { j.Begin = at("12:00:00") }, BeginChanged},
		"Slurm has moved a begin time that has come": {func(j *Job) {
			j.Begin, j.AdminComment = at("08:50:00"), Mark{Phase: Held, Begin: at("08:30:00")}.String()
		}, ""},
		"put off after its begin time": {func(j *Job) {
			j.Begin, j.AdminComment = at("12:00:00"), Mark{Phase: Held, Begin: at("08:30:00")}.String()
		}, BeginChanged},
		"put off after its release": {func(j *Job) { j.AdminComment = Mark{Phase: Released, Begin: at("10:00:00")}.String() }, BeginChanged},
		"requeued by somebody else": {func(j *Job) { j.Restarts = 1 }, Requeued},
		"paused by Lull": {func(j *Job) {
			j.Restarts, j.AdminComment = 1, Mark{Phase: Paused, Begin: j.Begin, Since: at("08:00:00")}.String()
		}, ""},
		"requeued by Lull, with the begin time of Slurm": {func(j *Job) { j.Restarts, j.AdminComment = 1, Mark{Phase: Pausing, Since: at("08:00:00")}.String() }, ""},
		"waits for other jobs":                           {func(j *Job) { j.Reason = "Dependency" }, Depends},
		"a part of a heterogeneous job":                  {func(j *Job) { j.Het = true }, Heterogeneous},
		"a list of tasks that is cut":                    {func(j *Job) { j.Cut = true }, TooLong},
		"a comment that is cut":                          {func(j *Job) { j.Comment += strings.Repeat(" ", commentWidth) }, TooLong},
		"suspended":                                      {func(j *Job) { j.State = "SUSPENDED" }, Other},
	} {
		j := waiting()
		tc.change(&j)
		v := Observe(inputAt(t, j))
		got := Why("")
		if len(v.Left) > 0 {
			got = v.Left[0].Why
			if v.Left[0].Message == "" {
				t.Errorf("%s: no message", name)
			}
		}
		if got != tc.want || len(v.Jobs)+len(v.Left) != 1 {
			t.Errorf("%s: left for %q, want %q", name, got, tc.want)
		}
	}
}

func TestAJobIsATask(t *testing.T) {
	type want struct {
		kind                workload.Kind
		state               decide.State
		unscheduled, paused bool
		remaining, atRisk   time.Duration
		latest, deadline    time.Time
		cpus                float64
	}
	for name, tc := range map[string]struct {
		change func(*Job)
		want
	}{
		"a job that waits":  {func(*Job) {}, want{kind: workload.Rigid, state: decide.Waiting, remaining: time.Hour, latest: at("16:00:00"), deadline: at("17:00:00"), cpus: 4}},
		"a stated run time": {func(j *Job) { j.Comment += ",runtime=30m" }, want{kind: workload.Rigid, state: decide.Waiting, remaining: 30 * time.Minute, latest: at("16:00:00"), deadline: at("16:30:00"), cpus: 4}},
		"a deadline that is earlier leaves room for the time limit": {func(j *Job) { j.Comment, j.Deadline = j.Comment+",runtime=30m", at("15:05:00") }, want{kind: workload.Rigid, state: decide.Waiting, remaining: 30 * time.Minute, latest: at("14:00:00"), deadline: at("14:30:00"), cpus: 4}},
		"no limit":               {func(j *Job) { j.Limit = 0 }, want{kind: workload.Rigid, state: decide.Waiting, remaining: time.Hour, latest: at("16:00:00"), deadline: at("17:00:00"), cpus: 4}},
		"an array runs in waves": {func(j *Job) { j.Tasks, j.ID = 20, "12_[1-20]" }, want{kind: workload.Rigid, state: decide.Waiting, remaining: 3 * time.Hour, latest: at("16:00:00"), deadline: at("19:00:00"), cpus: 32}},
		"an array runs as many tasks as its throttle says": {func(j *Job) { j.Tasks, j.Throttle, j.ID = 6, 3, "12_[1-6]" }, want{kind: workload.Rigid, state: decide.Waiting, remaining: 2 * time.Hour, latest: at("16:00:00"), deadline: at("18:00:00"), cpus: 12}},
		"all waves of an array end before its deadline": {func(j *Job) {
			j.Tasks, j.Throttle, j.ID, j.Deadline, j.Comment = 6, 2, "12_[1-6]", at("15:05:00"), j.Comment+",runtime=30m"
		}, want{kind: workload.Rigid, state: decide.Waiting, remaining: 90 * time.Minute, latest: at("12:00:00"), deadline: at("13:30:00"), cpus: 8}},
		"released, and waiting for room": {func(j *Job) {
			j.Reason, j.Begin, j.AdminComment = "Resources", at("08:30:00"), Mark{Phase: Released}.String()
		}, want{kind: workload.Rigid, state: decide.Running, unscheduled: true, remaining: time.Hour, latest: at("16:00:00"), deadline: at("17:00:00"), cpus: 4}},
		"its begin time has come": {func(j *Job) {
			j.Begin, j.AdminComment = at("08:30:00"), Mark{Phase: Held, Begin: at("08:30:00")}.String()
		}, want{kind: workload.Rigid, state: decide.Running, unscheduled: true, remaining: time.Hour, latest: at("16:00:00"), deadline: at("17:00:00"), cpus: 4}},
		"it runs": {func(j *Job) { j.State, j.Started = "RUNNING", at("08:40:00") }, want{kind: workload.Rigid, state: decide.Running, remaining: 40 * time.Minute, latest: at("16:20:00"), deadline: at("17:00:00"), cpus: 4}},
		"it runs, and saves at intervals": {func(j *Job) {
			j.State, j.Started, j.Comment = "RUNNING", at("08:35:00"), j.Comment+",interruptible,checkpoint=10m"
		}, want{kind: workload.Interruptible, state: decide.Running, remaining: 40 * time.Minute, atRisk: 5 * time.Minute, latest: at("16:20:00"), deadline: at("17:00:00"), cpus: 4}},
		"it runs, and saves when it is asked": {func(j *Job) { j.State, j.Started, j.Comment = "RUNNING", at("08:35:00"), j.Comment+",interruptible" }, want{kind: workload.Interruptible, state: decide.Running, remaining: 35 * time.Minute, latest: at("16:25:00"), deadline: at("17:00:00"), cpus: 4}},
		"Slurm may not requeue it":            {func(j *Job) { j.Requeue, j.Comment = false, j.Comment+",interruptible" }, want{kind: workload.Rigid, state: decide.Waiting, remaining: time.Hour, latest: at("16:00:00"), deadline: at("17:00:00"), cpus: 4}},
		"paused, as of its first submission": {func(j *Job) {
			j.Comment, j.Restarts, j.Submitted = j.Comment+",interruptible", 1, at("08:50:00")
			j.AdminComment = Mark{Phase: Paused, Begin: j.Begin, Since: at("08:00:00"), Done: 20 * time.Minute}.String()
		}, want{kind: workload.Interruptible, state: decide.Waiting, paused: true, remaining: 40 * time.Minute, latest: at("16:20:00"), deadline: at("17:00:00"), cpus: 4}},
		"requeued a moment ago: what its mark announced is done": {func(j *Job) {
			j.Comment, j.Restarts, j.Submitted = j.Comment+",interruptible", 1, at("08:59:00")
			j.AdminComment = Mark{Phase: Pausing, Since: at("08:00:00"), Done: 20 * time.Minute, Ran: 10 * time.Minute}.String()
		}, want{kind: workload.Interruptible, state: decide.Waiting, paused: true, remaining: 30 * time.Minute, latest: at("16:30:00"), deadline: at("17:00:00"), cpus: 4}},
		"a job with a deadline is not interrupted": {func(j *Job) { j.Comment, j.Deadline = j.Comment+",interruptible", at("15:05:00") }, want{kind: workload.Rigid, state: decide.Waiting, remaining: time.Hour, latest: at("14:00:00"), deadline: at("15:00:00"), cpus: 4}},
	} {
		j := waiting()
		tc.change(&j)
		v := Observe(inputAt(t, j))
		if len(v.Jobs) != 1 {
			t.Errorf("%s: left for %s", name, v.Left[0].Why)
			continue
		}
		x := &v.Snapshot.Tasks[0]
		got := want{x.Kind, x.State, x.Unscheduled, x.Paused, x.Remaining, x.AtRisk, v.Jobs[0].Latest, x.Deadline, x.Request[cpu]}
		if got != tc.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, tc.want)
		}
		if done := v.Seen[0].Done + x.Remaining; done%time.Hour != 0 && !strings.Contains(j.Comment, "runtime") {
			t.Errorf("%s: %v in all", name, done)
		}
	}
}

// TestLoadIsWhatOthersUse: CPUs of running jobs that are not tasks, and no more than there are.
func TestLoadIsWhatOthersUse(t *testing.T) {
	mine, other, pending := waiting(), waiting(), waiting()
	mine.State, mine.Started = "RUNNING", at("08:30:00")
	other.State, other.Comment, other.CPUs = "RUNNING", "", 10
	pending.Comment = ""
	for n, want := range map[int]float64{10: 10, 500: 32} {
		other.CPUs = n
		c := Observe(inputAt(t, mine, other, pending)).Snapshot.Clusters[0]
		if c.Load[cpu] != want || c.Capacity[cpu] != 32 {
			t.Errorf("load %v of %v; want %v", c.Load, c.Capacity, want)
		}
	}
}

// decided observes, decides and returns what is changed.
func decided(t *testing.T, in Input) Changes {
	t.Helper()
	v := Observe(in)
	d, err := decide.Decide(t.Context(), v.Snapshot, cheapest.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	return Plan(&v, &d)
}

func TestADecisionBecomesBeginTimes(t *testing.T) {
	fresh := func() Job {
		j := waiting()
		j.Begin, j.Reason, j.AdminComment = j.Submitted, "Priority", ""
		return j
	}
	for name, tc := range map[string]struct {
		job  func() Job
		now  string
		want []Update // of the comment, a part
	}{
		"a new job waits until it is clean": {fresh, "09:00:00", []Update{{Begin: at("14:00:00"), Comment: "waits until 2026-06-01T14:00Z for cleaner power; starts by 2026-06-01T16:00Z at the latest [begin=1780322400 phase=held]"}}},
		"as held by job_submit.lua":         {waiting, "09:00:00", []Update{{Begin: at("14:00:00"), Comment: "phase=held"}}},
		"as it is already": {func() Job {
			j := waiting()
			j.Begin = at("14:00:00")
			j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Text: "waits until 2026-06-01T14:00Z for cleaner power; starts by 2026-06-01T16:00Z at the latest"}.String()
			return j
		}, "09:00:00", nil},
		"power is clean": {waiting, "14:00:00", []Update{{Now: true, Comment: "released at 2026-06-01T14:00Z: waits in the queue of Slurm"}}},
		"power is clean before it is known": {func() Job {
			j := waiting()
			j.Begin = at("15:00:00")
			j.AdminComment = Mark{Phase: Held, Begin: j.Begin}.String()
			return j
		}, "14:00:00", []Update{{Now: true, Comment: "released at 2026-06-01T14:00Z: runs now at 100"}}},
		"released before": {func() Job {
			j := waiting()
			j.Begin, j.AdminComment = at("13:59:00"), Mark{Phase: Released, Text: "released"}.String()
			return j
		}, "14:00:00", nil},
		"its delay ends before it is clean": {func() Job {
			j := waiting()
			j.Comment = "lull:max-delay=2h"
			return j
		}, "09:59:59", []Update{{Now: true, Comment: "released"}}},
		"what others have written is kept": {func() Job {
			j := fresh()
			j.AdminComment = "ticket 7"
			return j
		}, "09:00:00", []Update{{Begin: at("14:00:00"), Comment: "ticket 7 lull: waits until"}}},
		"a job that waits for others may wait as long as it may": {func() Job {
			j := fresh()
			j.Reason, j.Begin = "Dependency", time.Time{}
			return j
		}, "09:00:00", []Update{{Begin: at("16:00:00"), Comment: "waits for other jobs, then for cleaner power"}}},
	} {
		in := inputAt(t, tc.job())
		in.Now = at(tc.now)
		got := decided(t, in)
		if len(got.Updates) != len(tc.want) || len(got.Pauses) > 0 {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i, u := range got.Updates {
			w := tc.want[i]
			if !u.Begin.Equal(w.Begin) || u.Now != w.Now || !strings.Contains(u.Comment, w.Comment) {
				t.Errorf("%s: %+v, want %+v", name, u, w)
			}
		}
	}
}

// TestABeginTimeOfAUserStandsOnceItHasCome: the cluster is full then. The mark of the time before says whose begin time it is.
func TestABeginTimeOfAUserStandsOnceItHasCome(t *testing.T) {
	for _, phase := range []Phase{Held, Released} {
		j := waiting()
		j.Begin, j.AdminComment = at("11:00:00"), Mark{Phase: phase, Begin: at("10:00:00"), Text: "waits", Before: "site"}.String()
		got := decided(t, inputAt(t, j))
		if len(got.Updates) != 1 || got.Updates[0].Now || !got.Updates[0].Begin.IsZero() {
			t.Fatalf("%s: %+v", phase, got)
		}
		if m := ReadMark(got.Updates[0].Comment); m.Phase != HandedOver || m.Before != "site" {
			t.Errorf("%s: %+v", phase, m)
		}
		j.AdminComment, j.Reason = got.Updates[0].Comment, "Resources"
		in := inputAt(t, j)
		in.Now = at("11:30:00")
		if v := Observe(in); len(v.Left) != 1 || v.Left[0].Why != BeginChanged {
			t.Errorf("%s: taken over: %+v", phase, v.Jobs)
		}
		if got := decided(t, in); !got.Empty() {
			t.Errorf("%s: changed again: %+v", phase, got)
		}
	}
}

// TestTasksOfAnArrayAreTakenOneByOne: one is held, one has another begin time, one is paused; the others wait together.
func TestTasksOfAnArrayAreTakenOneByOne(t *testing.T) {
	array := func(tasks string, set map[string]string) string {
		values := map[string]string{"JobID": "1" + tasks[:1], "ArrayTaskID": tasks, "Comment": "lull:max-delay=8h,interruptible", adminComment: Mark{Phase: Held, Begin: at("10:00:00")}.String()}
		for k, v := range set {
			values[k] = v
		}
		return line(values)
	}
	jobs, bad := parseJobs(array("4-9", nil)+
		array("1", map[string]string{"Reason": "JobHeldUser,Priority"})+
		array("2", map[string]string{"EligibleTime": "2026-06-01T11:00:00"})+
		array("3", map[string]string{"RestartCnt": "1", adminComment: Mark{Phase: Paused, Begin: at("10:00:00"), Since: at("08:00:00")}.String()})+
		array("20-22", nil), end)
	if len(bad) > 0 {
		t.Fatal(bad)
	}
	jobs[1].Reason = "Priority,JobHeldUser"
	in := inputAt(t, jobs...)
	v := Observe(in)
	left, ids := map[string]Why{}, map[string]bool{}
	for _, l := range v.Left {
		left[l.Job.ID] = l.Why
	}
	for i := range v.Snapshot.Tasks {
		ids[v.Snapshot.Tasks[i].ID] = true
	}
	if len(left) != 2 || left["12_1"] != UserHold || left["12_2"] != BeginChanged || len(ids) != 3 {
		t.Errorf("left %v, tasks %v", left, ids)
	}
	var changed []string
	for _, u := range decided(t, in).Updates {
		if !u.Begin.IsZero() {
			changed = append(changed, u.IDs...)
		}
	}
	slices.Sort(changed)
	if want := []string{"12_3", "12_[20-22]", "12_[4-9]"}; !slices.Equal(changed, want) {
		t.Errorf("begin times of %v are set; want %v", changed, want)
	}
}

// TestNoBeginTimeIsLaterThanTheLatestSafeStart, whatever the plan says.
func TestNoBeginTimeIsLaterThanTheLatestSafeStart(t *testing.T) {
	v := Observe(inputAt(t, waiting()))
	for _, a := range []decide.Action{
		{Verb: decide.Wait, Reason: decide.Reason{PlannedStart: at("18:00:00")}},
		{Verb: decide.Wait},
		{Verb: decide.Wait, Phases: []decide.Phase{{From: at("23:00:00"), To: at("23:30:00")}}},
	} {
		got := Plan(&v, &decide.Decision{Actions: []decide.Action{a}, Order: []int{0}})
		if len(got.Updates) != 1 || !got.Updates[0].Begin.Equal(at("16:00:00")) {
			t.Errorf("%+v: %+v", a, got)
		}
	}
}

// TestEveryPendingJobStartsInTime: for jobs, marks and decisions of any kind, no begin time is later than the latest safe start once the
// changes are made. Where that has come, the job starts now.
func TestEveryPendingJobStartsInTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	minutes := func(n int) time.Duration { return time.Duration(random.IntN(n)) * time.Minute }
	verbs := []decide.Verb{decide.Wait, decide.Pause, decide.Release, decide.Resume, decide.Continue}
	late := 0
	for range 20000 {
		j := waiting()
		j.Comment = fmt.Sprintf("lull:max-delay=%dm", 1+random.IntN(300))
		j.Submitted = at("09:00:00").Add(-minutes(300))
		j.Begin = at("06:00:00").Add(minutes(1200))
		j.Limit = time.Minute + minutes(600)
		if random.IntN(2) == 0 {
			j.Deadline = at("09:00:00").Add(minutes(900))
		}
		m := Mark{Phase: []Phase{"", Held, Released, Paused, Pausing}[random.IntN(5)], Begin: j.Begin}
		if m.Phase == Paused || m.Phase == Pausing {
			m.Since, j.Restarts = j.Submitted, 1
		}
		if j.AdminComment = m.String(); m.Phase == "" {
			j.AdminComment = ""
		}
		if random.IntN(4) == 0 {
			j.Reason = reasonDepends
		}
		v := Observe(inputAt(t, j))
		now := v.Snapshot.Now
		d := decide.Decision{}
		for i := range v.Jobs {
			d.Order = append(d.Order, i)
			d.Actions = append(d.Actions, decide.Action{Verb: verbs[random.IntN(len(verbs))], Reason: decide.Reason{PlannedStart: now.Add(minutes(900) - time.Hour)}})
		}
		begin := j.Begin
		for _, u := range Plan(&v, &d).Updates {
			if u.Now {
				begin = now
			} else if !u.Begin.IsZero() {
				begin = u.Begin
			}
		}
		for _, g := range append(v.Jobs, v.Dependent...) {
			if j.Begin.After(now) && j.Begin.After(g.Latest) {
				late++
			}
			if begin.After(now) && begin.After(g.Latest.Add(rounding)) {
				t.Fatalf("begins %v, latest safe start %v: %+v, mark %+v, %+v", begin, g.Latest, j, m, d.Actions)
			}
		}
	}
	if late < 100 {
		t.Errorf("%d jobs were late before; want 100 and more, or this tests nothing", late)
	}
}

func TestJobsThatNeedTheSameShareAnUpdate(t *testing.T) {
	var jobs []Job
	for i, id := range []string{"1", "2", "3_[1-9]", "4"} {
		j := waiting()
		j.ID, j.Number = id, i+1
		jobs = append(jobs, j)
	}
	jobs[3].Comment = "lull:max-delay=9h"
	got := decided(t, inputAt(t, jobs...))
	if len(got.Updates) != 2 || strings.Join(got.Updates[0].IDs, ",") != "1,2,3_[1-9]" {
		t.Errorf("%+v", got)
	}
}

// TestAPauseIsMarkedBeforeItIsMade: the mark says what is done, so that a process that starts after the requeue knows it.
func TestAPauseIsMarkedBeforeItIsMade(t *testing.T) {
	j := waiting()
	j.Comment, j.State, j.Started, j.Limit = "lull:max-delay=12h,interruptible,checkpoint=10m", "RUNNING", at("08:15:00"), 4*time.Hour
	j.AdminComment = Mark{Phase: Released, Before: "site"}.String()
	got := decided(t, inputAt(t, j))
	if len(got.Pauses) != 1 || len(got.Updates) != 0 {
		t.Fatalf("%+v", got)
	}
	m := ReadMark(got.Pauses[0].Comment)
	if m.Phase != Pausing || m.Ran != 40*time.Minute || m.Runs != 0 || !m.Since.Equal(at("08:00:00")) || m.Before != "site" {
		t.Errorf("%+v", m)
	}
	// Slurm has requeued it: the next look gives it the begin time of its plan.
	j.State, j.Reason, j.Restarts, j.Submitted, j.Begin, j.AdminComment = "PENDING", "BeginTime", 1, at("09:00:00"), at("09:02:01"), got.Pauses[0].Comment
	in := inputAt(t, j)
	in.Now = at("09:15:00")
	got = decided(t, in)
	if len(got.Updates) != 1 || !got.Updates[0].Begin.Equal(at("14:00:00")) {
		t.Fatalf("%+v", got)
	}
	if m := ReadMark(got.Updates[0].Comment); m.Phase != Paused || m.Done != 40*time.Minute || !m.Since.Equal(at("08:00:00")) {
		t.Errorf("%+v", m)
	}
}

func TestExplainFindsTasksOfArrays(t *testing.T) {
	j := waiting()
	j.ID, j.Tasks = "12_[1-3,7-9:2]", 5
	v := Observe(inputAt(t, j))
	for name, want := range map[string]int{"12": 1, "12_2": 1, "12_9": 1, "12_8": 0, "1": 0, "12_": 0, "13_2": 0} {
		if got := v.Explain(name, at("09:00:00")); len(got) != want || want > 0 && !strings.Contains(got[0], "latest safe start is 2026-06-01T16:00:00Z") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLullMayDieInTheMiddleOfAPause: after the mark and before the requeue; after the requeue, until Slurm has started the job again.
func TestLullMayDieInTheMiddleOfAPause(t *testing.T) {
	j := waiting()
	j.Comment, j.State, j.Started, j.Limit = "lull:max-delay=12h,interruptible", "RUNNING", at("08:15:00"), 2*time.Hour
	j.AdminComment = Mark{Phase: Pausing, Since: at("08:00:00"), Done: 10 * time.Minute, Ran: 45 * time.Minute}.String()
	for name, tc := range map[string]struct {
		change          func(*Job)
		done, remaining time.Duration
		changing        bool
	}{
		"it runs on, as it was not requeued": {func(*Job) {}, 10 * time.Minute, 65 * time.Minute, false},
		"it is being requeued":               {func(j *Job) { j.State = "COMPLETING" }, 10 * time.Minute, 65 * time.Minute, true},
		"Slurm has started it again":         {func(j *Job) { j.Restarts, j.Started = 1, at("08:50:00") }, 55 * time.Minute, 55 * time.Minute, false},
	} {
		j := j
		tc.change(&j)
		v := Observe(inputAt(t, j))
		if len(v.Jobs) != 1 {
			t.Errorf("%s: left for %s", name, v.Left[0].Why)
			continue
		}
		x := &v.Snapshot.Tasks[0]
		if x.State != decide.Running || x.Changing != tc.changing || x.Remaining != tc.remaining {
			t.Errorf("%s: %+v", name, x)
		}
		got := Plan(&v, &decide.Decision{Actions: []decide.Action{{Verb: decide.Continue}}, Order: []int{0}})
		switch {
		case tc.changing && !got.Empty():
			t.Errorf("%s: changes %+v", name, got)
		case !tc.changing && (len(got.Updates) != 1 || ReadMark(got.Updates[0].Comment).Phase != Released || ReadMark(got.Updates[0].Comment).Done != tc.done):
			t.Errorf("%s: changes %+v", name, got)
		}
	}
}
