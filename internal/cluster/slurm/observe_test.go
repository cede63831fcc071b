package slurm

import (
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
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
		Queue: Queue{Jobs: jobs, Nodes: []Node{{Name: "n1", CPUs: 16}, {Name: "n2", CPUs: 16}}},
	}
}

func TestWhatIsNotLullsIsLeftToSlurm(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Job)
		want   Why
	}{
		"it waits":                               {func(*Job) {}, ""},
		"no comment":                             {func(j *Job) { j.Comment = "" }, NotOptedIn},
		"neither a delay nor a deadline":         {func(j *Job) { j.Comment = "lull:" }, NoSlack},
		"a deadline only":                        {func(j *Job) { j.Comment, j.Deadline = "lull:", at("23:00:00") }, ""},
		"opts out":                               {func(j *Job) { j.Comment = "lull:max-delay=8h,off" }, NoSlack},
		"a comment that cannot be read":          {func(j *Job) { j.Comment = "lull:max-delay=x" }, BadComment},
		"held by its user":                       {func(j *Job) { j.Reason = "JobHeldUser" }, UserHold},
		"held by an operator":                    {func(j *Job) { j.Reason = "JobHeldAdmin" }, UserHold},
		"held by requeuehold":                    {func(j *Job) { j.Reason, j.Restarts = "job requeued in held state", 1 }, UserHold},
		"held after a failed launch":             {func(j *Job) { j.Reason = "launch failed requeued held" }, UserHold},
		"waits for a node that is not available": {func(j *Job) { j.Reason = "ReqNodeNotAvail, UnavailableNodes:schelde12" }, ""},
		"submitted with --begin":                 {func(j *Job) { j.AdminComment = "" }, OwnBegin},
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
		"Slurm states no begin time any more, as it has come": {func(j *Job) {
			j.Begin, j.AdminComment = time.Time{}, Mark{Phase: Held, Begin: at("08:30:00")}.String()
		}, ""},
		"its user has removed the begin time": {func(j *Job) { j.Begin = time.Time{} }, BeginChanged},
		"Slurm has cleared that of tasks whose throttle keeps them waiting": {func(j *Job) { // as squeue 22.05 states it from the second of the begin time on
			j.ID, j.Tasks, j.Throttle, j.Reason, j.Begin, j.AdminComment = "12_[3-4]", 2, 2, "JobArrayTaskLimit", time.Time{}, Mark{Phase: Held, Begin: at("09:00:00")}.String()
		}, ""},
		"the same by a clock that is ahead of that of Lull": {func(j *Job) {
			j.ID, j.Tasks, j.Throttle, j.Reason, j.Begin, j.AdminComment = "12_[3-4]", 2, 2, "JobArrayTaskLimit", time.Time{}, Mark{Phase: Held, Begin: at("09:00:01")}.String()
		}, ""},
		"its user starts tasks whose throttle keeps them waiting": {func(j *Job) {
			j.ID, j.Tasks, j.Throttle, j.Reason, j.Begin, j.AdminComment = "12_[3-4]", 2, 2, "JobArrayTaskLimit", time.Time{}, Mark{Phase: Held, Begin: at("09:00:30")}.String()
		}, BeginChanged},
		"Slurm has moved that of tasks whose throttle keeps them waiting, to the next second": {func(j *Job) {
			j.ID, j.Tasks, j.Throttle, j.Begin, j.AdminComment = "12_[3-4]", 2, 2, at("09:00:01"), Mark{Phase: Held, Begin: at("08:59:59")}.String()
		}, ""},
		"the same after their release": {func(j *Job) {
			j.ID, j.Tasks, j.Throttle, j.Begin, j.AdminComment = "12_[3-4]", 2, 2, at("09:00:01"), Mark{Phase: Released}.String()
		}, ""},
		"its tasks are put off": {func(j *Job) {
			j.ID, j.Tasks, j.Throttle, j.Begin, j.AdminComment = "12_[3-4]", 2, 2, at("09:00:30"), Mark{Phase: Released}.String()
		}, BeginChanged},
		"put off after its begin time": {func(j *Job) {
			j.Begin, j.AdminComment = at("12:00:00"), Mark{Phase: Held, Begin: at("08:30:00")}.String()
		}, BeginChanged},
		"put off after its release": {func(j *Job) { j.AdminComment = Mark{Phase: Released, Begin: at("08:50:00")}.String() }, BeginChanged},
		"released before the clocks were set back": {func(j *Job) {
			j.Begin, j.AdminComment = at("09:07:02"), Mark{Phase: Released, Begin: at("09:07:00")}.String()
		}, ""},
		"requeued by somebody else": {func(j *Job) { j.Restarts = 1 }, Requeued},
		"paused by Lull": {func(j *Job) {
			j.Restarts, j.AdminComment = 1, Mark{Phase: Paused, Begin: j.Begin, Since: at("08:00:00")}.String()
		}, ""},
		"requeued by Lull, with the begin time of Slurm": {func(j *Job) { j.Restarts, j.AdminComment = 1, Mark{Phase: Pausing, Since: at("08:00:00")}.String() }, ""},
		"waits for other jobs":                           {func(j *Job) { j.Reason = "Dependency" }, Depends},
		"a part of a heterogeneous job":                  {func(j *Job) { j.Het = true }, Heterogeneous},
		"a shell of salloc":                              {func(j *Job) { j.Interactive = true }, Interactive},
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
		"tasks whose throttle keeps them waiting": {func(j *Job) {
			j.ID, j.Tasks, j.Throttle, j.Begin, j.AdminComment = "12_[3-4]", 2, 2, at("09:00:01"), Mark{Phase: Released}.String()
		}, want{kind: workload.Rigid, state: decide.Running, unscheduled: true, remaining: time.Hour, latest: at("16:00:00"), deadline: at("17:00:00"), cpus: 8}},
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

// TestReasonsOfAHold are those that Slurm 22.05 writes, as squeue or as scontrol does. Others have names of nodes or licences in them.
func TestReasonsOfAHold(t *testing.T) {
	for reason, want := range map[string]bool{
		"JobHeldUser": true, "JobHeldAdmin": true, "job requeued in held state": true, "job_requeued_in_held_state": true, "launch failed requeued held": true, "launch_failed_requeued_held": true,
		"Priority,JobHeldUser": true, "Resources, JobHeldAdmin": true, "UnavailableNodes:a,JobHeldUser2": false,
		"ReqNodeNotAvail, UnavailableNodes:schelde12": false, "ReqNodeNotAvail, UnavailableNodes:JobHeld1": false, "(Nodes held)": false, "Licenses, field:2": false, "BeginTime": false, "None": false, "": false, "Heldenplatz": false,
	} {
		if got := (&Job{State: statePending, Reason: reason}).Held(); got != want {
			t.Errorf("%q: held %v; want %v", reason, got, want)
		}
		if (&Job{State: stateRunning, Reason: reason}).Held() {
			t.Errorf("%q: a job that runs is held", reason)
		}
	}
}
