package slurm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/cheapest"
)

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

// TestOneJobDoesNotKeepTheOthersFromBeingPlanned: an array of centuries is planned as one of decades, and a job that squeue lists twice is left to
// Slurm once.
func TestOneJobDoesNotKeepTheOthersFromBeingPlanned(t *testing.T) {
	huge, twice, ancient := waiting(), waiting(), waiting()
	huge.ID, huge.Number, huge.Tasks, huge.Throttle, huge.Limit = "13_[1-4000000]", 13, 4000000, 1, 365*24*time.Hour
	ancient.ID, ancient.Number, ancient.State, ancient.Started = "14", 14, "RUNNING", time.Time{}.Add(time.Second)
	ancient.Comment += ",interruptible,checkpoint=1s"
	in := inputAt(t, waiting(), huge, twice, ancient)
	v := Observe(in)
	if len(v.Jobs) != 3 || len(v.Left) != 1 || v.Left[0].Why != Other || v.Left[0].Message == "" {
		t.Fatalf("%d jobs, left %+v", len(v.Jobs), v.Left)
	}
	if got := v.Snapshot.Tasks[1].Remaining; got != mostWork || v.Jobs[1].Latest != at("16:00:00") {
		t.Errorf("remaining %v, latest %v", got, v.Jobs[1].Latest)
	}
	changed := decided(t, in)
	if got := changed.Jobs(); !slices.Equal(got, []string{"12", "13_[1-4000000]", "14"}) {
		t.Errorf("%v", got)
	}
}

// TestWhatNobodyPlansDoesNotWait: job_submit.lua holds a job that Lull leaves to Slurm then.
func TestWhatNobodyPlansDoesNotWait(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(*Job)
		releases bool
	}{
		"a comment that cannot be read":     {func(j *Job) { j.Comment = "lull:max-delay=8h,runtime=x" }, true},
		"opted out after it was submitted":  {func(j *Job) { j.Comment = "lull:off" }, true},
		"a part of a heterogeneous job":     {func(j *Job) { j.Het = true }, true},
		"a list of tasks that is cut":       {func(j *Job) { j.Cut = true }, true},
		"a shell of salloc":                 {func(j *Job) { j.Interactive = true }, true},
		"no mark":                           {func(j *Job) { j.Comment, j.AdminComment = "lull:off", "" }, false},
		"a begin time of its user":          {func(j *Job) { j.Comment, j.Begin = "lull:off", at("11:00:00") }, false},
		"held":                              {func(j *Job) { j.Comment, j.Reason = "lull:off", "JobHeldUser" }, false},
		"its begin time has come":           {func(j *Job) { j.Comment, j.Begin = "lull:off", at("08:59:00") }, false},
		"it runs":                           {func(j *Job) { j.Comment, j.State, j.Started = "lull:off", "RUNNING", at("08:59:00") }, false},
		"requeued by somebody else":         {func(j *Job) { j.Restarts = 1 }, false},
		"an operator has written behind it": {func(j *Job) { j.Comment = "lull:off"; j.AdminComment = "ticket" }, false},
	} {
		j := waiting()
		tc.change(&j)
		got := decided(t, inputAt(t, j))
		if tc.releases != (len(got.Updates) == 1 && got.Updates[0].Now && ReadMark(got.Updates[0].Comment).Phase == Released) || !tc.releases && !got.Empty() {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestReleasesComeFirst: of a job that waits and one that may start.
func TestReleasesComeFirst(t *testing.T) {
	waits, starts := waiting(), waiting()
	starts.ID, starts.Number, starts.Comment = "13", 13, "lull:off"
	if got := decided(t, inputAt(t, waits, starts)); len(got.Updates) != 2 || !got.Updates[0].Now || got.Updates[1].Now {
		t.Errorf("%+v", got)
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
		if got := v.Explain(name, at("09:00:00")); len(got) != want || want > 0 && !strings.Contains(got[0].Message, "latest safe start is 2026-06-01T16:00:00Z") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestExplainSaysWhatAJobDoes in one word, and with what programs need.
func TestExplainSaysWhatAJobDoes(t *testing.T) {
	for does, change := range map[string]func(*Job){
		doesWait: func(*Job) {},
		doesQueue: func(j *Job) {
			j.Reason, j.AdminComment, j.Begin = "Priority", Mark{Phase: Released}.String(), at("08:30:00")
		},
		doesRun: func(j *Job) {
			j.State, j.Started, j.AdminComment = stateRunning, at("08:30:00"), Mark{Phase: Released}.String()
		},
		doesLeft: func(j *Job) { j.Comment = "" },
	} {
		j := waiting()
		change(&j)
		v := Observe(inputAt(t, j))
		got := v.Explain("12", at("09:00:00"))
		if len(got) != 1 || got[0].Does != does || got[0].Job != "12" || got[0].State != j.State || got[0].Request["cpu"] != 4 || !got[0].Submitted.Equal(at("08:00:00")) || got[0].Message == "" {
			t.Errorf("%s: %+v", does, got)
			continue
		}
		if x := got[0]; (x.LatestStart != nil) != (does == doesWait) || (x.Begin != nil) != (does == doesWait || does == doesLeft) || (x.Why == NotOptedIn) != (does == doesLeft) {
			t.Errorf("%s: %+v", does, x)
		}
		if x := got[0]; does == doesLeft && (!strings.Contains(x.Message, "neither its comment nor the administrator lets it wait; its begin time is 2026-06-01T10:00:00Z. A controller with this configuration releases it within --interval") || x.Note != "") {
			t.Errorf("%s: %+v", does, x)
		}
	}
}

// TestExplainWithoutAConfiguration: what lets a job wait may be in the file of the controller, which explain has not read. What the controller has written says whether it
// lets the job wait; if it has written nothing, the answer says what it leaves out.
func TestExplainWithoutAConfiguration(t *testing.T) {
	wait := "waits until 2026-06-01T10:00Z for cleaner power; starts by 2026-06-01T16:00Z at the latest"
	for name, tc := range map[string]struct {
		change func(*Job)
		does   string
		why    Why
		note   string
		want   string
	}{
		"waits by a default":              {func(j *Job) { j.Comment = "" }, doesWait, "", noteWaits, "Job 12 " + wait + ". Slurm starts it from 2026-06-01T10:00:00Z on, with or without Lull. " + noteWaits + " To start it now: scontrol update JobId=12 StartTime=now"},
		"waits by the delay of a default": {func(j *Job) { j.Comment = "lull:runtime=1h" }, doesWait, "", noteWaits, wait},
		"saves its work by a default":     {func(j *Job) { j.Comment = "lull:max-delay=8h,checkpoint=1h" }, doesWait, "", noteWaits, wait},
		"waits by its comment":            {func(*Job) {}, doesWait, "", "", "Its latest safe start is 2026-06-01T16:00:00Z"},
		"was released": {func(j *Job) {
			j.Comment, j.Begin, j.AdminComment = "", at("08:30:00"), Mark{Phase: Released, Text: "released at X"}.String()
		}, doesQueue, "", noteWaits, "released at X"},
		"runs":                           {func(j *Job) { j.Comment, j.State, j.Started = "", stateRunning, at("08:30:00") }, doesRun, "", noteWaits, ""},
		"its user holds it":              {func(j *Job) { j.Comment, j.Reason = "", "JobHeldUser" }, doesLeft, UserHold, "", "its user or an operator holds it"},
		"its user has changed its begin": {func(j *Job) { j.Comment, j.Begin = "", at("11:00:00") }, doesLeft, BeginChanged, "", "somebody else has changed its begin time"},
		"waits for others": {func(j *Job) {
			j.Comment, j.Reason, j.AdminComment = "", reasonDepends, Mark{Phase: Held, Begin: j.Begin, Text: textDepends + ", then for cleaner power"}.String()
		}, doesWait, "", noteWaits, textDepends},
		"the controller has let it go": {func(j *Job) {
			j.Comment, j.Begin, j.AdminComment = "", at("08:30:00"), Mark{Phase: Released, Text: "released at X: left to Slurm (NotOptedIn)"}.String()
		}, doesLeft, NotOptedIn, noteDefaults, noteDefaults},
		"Lull has written nothing":                           {func(j *Job) { j.Comment, j.Begin, j.AdminComment = "", at("08:00:00"), "" }, doesLeft, NotOptedIn, noteDefaults, "Job 12 (pending) is left to Slurm: its comment does not let it wait. " + noteDefaults},
		"its comment is wrong, and Lull has written nothing": {func(j *Job) { j.Comment, j.Begin, j.AdminComment = "lull:max-delay=8x", at("08:00:00"), "" }, doesLeft, BadComment, "", `Job 12 (pending) is left to Slurm: invalid comment: max-delay: "8x" is not a duration; accepted: as 8h, 1d12h or 90s.`},
		"its comment is wrong since it waits":                {func(j *Job) { j.Comment = "lull:max-delay=8h,sleepy" }, doesLeft, BadComment, "", `invalid comment: "sleepy"; accepted: ` + acceptedKeys + "; its begin time is 2026-06-01T10:00:00Z. The controller releases it within --interval. If it still waits after that, no controller runs."},
		"its comment is wrong, and noted": {func(j *Job) {
			j.Comment, j.Begin, j.AdminComment = "lull:checkpoint=8x", at("08:00:00"), Mark{Phase: Noted, Text: textLeft + ": X"}.String()
		}, doesLeft, BadComment, "", `invalid comment: checkpoint: "8x" is not a duration`},
		"a share that is none": {func(j *Job) { j.Comment = "lull:max-delay=8h,parallel=2" }, doesLeft, BadComment, "", `invalid comment: parallel: "2"`},
		"a checkpoint may need a default": {func(j *Job) {
			j.Comment, j.Begin, j.AdminComment = "lull:max-delay=8h,checkpoint=1h", at("08:00:00"), ""
		}, doesLeft, BadComment, noteDefaults, "checkpoint without interruptible. " + noteDefaults},
		"a restart may need defaults":        {func(j *Job) { j.Comment = "lull:max-delay=8h,restart=5m" }, doesWait, "", noteWaits, wait},
		"a share may need defaults":          {func(j *Job) { j.Comment = "lull:max-delay=8h,interruptible,parallel=0.9" }, doesWait, "", noteWaits, wait},
		"a checkpoint, and it opts out":      {func(j *Job) { j.Comment = "lull:off,checkpoint=1h" }, doesLeft, BadComment, "", "checkpoint without interruptible"},
		"a restart of an array":              {func(j *Job) { j.ID, j.Tasks, j.Comment = "12_[3-4]", 2, "lull:max-delay=8h,restart=5m" }, doesLeft, BadComment, "", "restart or parallel; accepted: with interruptible and min-tasks"},
		"a checkpoint of an array":           {func(j *Job) { j.ID, j.Tasks, j.Comment = "12_[3-4]", 2, "lull:max-delay=8h,checkpoint=1h" }, doesWait, "", noteWaits, wait},
		"both of an array":                   {func(j *Job) { j.ID, j.Tasks, j.Comment = "12_[3-4]", 2, "lull:max-delay=8h,checkpoint=1h,min-tasks=2" }, doesLeft, BadComment, "", "checkpoint without interruptible"},
		"its comment says that it is not to": {func(j *Job) { j.Comment, j.Begin, j.AdminComment = "lull:off", at("08:00:00"), "" }, doesLeft, NoSlack, "", "it opts out."},
	} {
		j := waiting()
		j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Text: wait}.String()
		tc.change(&j)
		in := inputAt(t, j)
		in.NoConfig = true
		v := Observe(in)
		x := v.Explain("12", at("09:00:00"))
		if len(x) != 1 || x[0].Does != tc.does || x[0].Why != tc.why || x[0].Note != tc.note || !strings.Contains(x[0].Message, tc.want) || !strings.Contains(x[0].Message, tc.note) || (x[0].LatestStart != nil) != (name == "waits by its comment") {
			t.Errorf("%s: %+v", name, x)
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
