package demo

import (
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// TestJudgeOfSlurm: a busy machine, on which all jobs start late, is no fault. A begin time after the latest safe start is one, also by a second, and so is
// a start that is later than what the machine explains.
func TestJudgeOfSlurm(t *testing.T) {
	at := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	const slack, length = 40 * time.Second, 10 * time.Second
	for name, tc := range map[string]struct {
		begin        time.Duration // of the job that may wait; 0: it was seen with none to come
		wait, other  time.Duration // of that job, and of the one that may not
		runs         time.Duration
		state, fault string
	}{
		"in time":                               {slack, slack + time.Second, time.Second, length, "COMPLETED", ""},
		"a busy machine":                        {slack, slack + 30*time.Second, 28 * time.Second, length, "COMPLETED", ""},
		"a job in the way ran long":             {slack, slack + 30*time.Second, time.Second, length + 28*time.Second, "COMPLETED", ""},
		"a begin time a second too late":        {slack + time.Second, slack + time.Second, time.Second, length, "COMPLETED", "had a begin time 41s"},
		"a busy machine explains no begin time": {slack + time.Second, slack + 30*time.Second, time.Minute, length, "COMPLETED", "had a begin time 41s"},
		"started late":                          {slack, slack + 30*time.Second, time.Second, length, "COMPLETED", "started 1m10s"},
		"held for good":                         {0, slack + time.Hour, time.Second, length, "COMPLETED", "started 1h0m40s"},
		"cancelled":                             {slack, slack, time.Second, length, "CANCELLED", "CANCELLED"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &slurmReplay{
				Options: Options{Factor: 1}, begins: map[string]time.Time{},
				ids: map[string]*spec{"1": {name: "may-wait", slack: slack, length: length}, "2": {name: "may-not", critical: true, length: length}},
			}
			begins := at
			if tc.begin > 0 {
				begins = at.Add(tc.begin)
			}
			r.note([]slurm.Job{{ID: "1", State: "PENDING", Begin: begins}, {ID: "2", State: "PENDING", Begin: at}}, at)
			r.note([]slurm.Job{{ID: "1", State: "PENDING", Begin: at.Add(30 * time.Second)}}, at) // pulled forward since
			ran := func(id string, wait time.Duration, state string) slurm.Job {
				return slurm.Job{ID: id, State: state, Submitted: at, Started: at.Add(wait), Ended: at.Add(wait + tc.runs)}
			}
			j := r.judge([]slurm.Job{ran("1", tc.wait, tc.state), ran("2", tc.other, "COMPLETED")})
			if j.critical != 1 || j.median() != tc.wait {
				t.Errorf("%+v", j)
			}
			switch {
			case tc.fault == "" && (len(j.faults) > 0 || j.late > 0):
				t.Errorf("%v", j.faults)
			case tc.fault != "" && (len(j.faults) != 1 || !strings.Contains(j.faults[0].Error(), tc.fault)):
				t.Errorf("%v; want one that says %q", j.faults, tc.fault)
			}
		})
	}
}

// TestJudgeOfSlurmForeignJobs: a job that the demo did not submit, or one that may not wait and was held, is a fault.
func TestJudgeOfSlurmForeignJobs(t *testing.T) {
	at := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	r := &slurmReplay{Options: Options{Factor: 1}, begins: map[string]time.Time{}, ids: map[string]*spec{"2": {name: "may-not", critical: true}}}
	r.note([]slurm.Job{{ID: "2", State: "PENDING", Begin: at.Add(time.Minute)}}, at)
	j := r.judge([]slurm.Job{{ID: "1", State: "COMPLETED"}, {ID: "2", State: "COMPLETED", Submitted: at, Started: at}})
	if len(j.faults) != 2 || !strings.Contains(j.faults[0].Error(), "not of this demo") || !strings.Contains(j.faults[1].Error(), "may not wait") {
		t.Errorf("%v", j.faults)
	}
}
