package slurm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
)

const end = "e0123"

// line is a line of squeue with some columns set.
func line(set map[string]string) string {
	values := map[string]string{
		"JobID": "12", "ArrayJobID": "12", "ArrayTaskID": "N/A", "State": "PENDING", "Reason": "BeginTime",
		"SubmitTime": "2026-06-01T08:00:00", "EligibleTime": "2026-06-01T10:00:00", "StartTime": "N/A", "TimeLimit": "1:00:00", "Deadline": "N/A",
		"NumCPUs": "4", "RestartCnt": "0", "Requeue": "1", "Partition": "batch", "QOS": "(null)", "Account": "(null)", "HetJobID": "N/A", "BatchFlag": "1", "EndTime": "N/A", "UserName": "ada",
		adminComment: "(null)", "Comment": "(null)",
	}
	for k, v := range set {
		values[k] = v
	}
	var b strings.Builder
	for _, c := range jobColumns {
		v := values[c.name]
		fmt.Fprintf(&b, "%-*s", c.width, v[:min(len(v), c.width)]) // squeue cuts
	}
	return b.String() + end + "\n"
}

func at(clock string) time.Time {
	t, err := time.Parse(timeLayout, "2026-06-01T"+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func TestALineIsAJob(t *testing.T) {
	for name, tc := range map[string]struct {
		set  map[string]string
		want Job
	}{
		"a job that waits": {
			map[string]string{"Comment": "lull:max-delay=8h | my own words", "Deadline": "2026-06-01T23:00:00"},
			Job{ID: "12", Number: 12, Tasks: 1, Comment: "lull:max-delay=8h | my own words", Deadline: at("23:00:00"), Limit: time.Hour},
		},
		"all tasks of an array, three at a time": {
			map[string]string{"ArrayTaskID": "1-9%3"},
			Job{ID: "12_[1-9]", Number: 12, Tasks: 9, Throttle: 3, Limit: time.Hour},
		},
		"every second task of an array, and two more": {
			map[string]string{"ArrayTaskID": "1-9:2,20,22", "TimeLimit": "2-03:04:05"},
			Job{ID: "12_[1-9:2,20,22]", Number: 12, Tasks: 7, Limit: 51*time.Hour + 4*time.Minute + 5*time.Second},
		},
		"one task of an array": {
			map[string]string{"JobID": "14", "ArrayTaskID": "3", "TimeLimit": "30:00"},
			Job{ID: "12_3", Number: 12, Tasks: 1, Limit: 30 * time.Minute},
		},
		"a shell of salloc": {
			map[string]string{"BatchFlag": "0"},
			Job{ID: "12", Number: 12, Tasks: 1, Interactive: true, Limit: time.Hour},
		},
		"a list of tasks that squeue cuts": {
			map[string]string{"ArrayTaskID": "1,3,5,70,72,7...", "TimeLimit": "UNLIMITED"},
			Job{ID: "12", Number: 12, Tasks: 5, Cut: true},
		},
	} {
		jobs, bad := parseJobs(line(tc.set), end)
		tc.want.State, tc.want.Reason, tc.want.Submitted, tc.want.Begin = "PENDING", "BeginTime", at("08:00:00"), at("10:00:00")
		tc.want.CPUs, tc.want.Requeue, tc.want.Partition, tc.want.User = 4, true, "batch", "ada"
		if len(bad) > 0 || len(jobs) != 1 || jobs[0] != tc.want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, jobs, bad, tc.want)
		}
	}
}

// TestALineThatCannotBeReadIsNamed: the other lines are read all the same.
func TestALineThatCannotBeReadIsNamed(t *testing.T) {
	for name, set := range map[string]map[string]string{
		"a number": {"NumCPUs": "many"}, "a negative number": {"RestartCnt": "-1"}, "a time": {"EligibleTime": "tomorrow"}, "a limit": {"TimeLimit": "long"},
		"tasks": {"ArrayTaskID": "9-1"}, "tasks by a stride of 0": {"ArrayTaskID": "1-9:0"}, "too many tasks": {"ArrayTaskID": "1-99999999"}, "no submission": {"SubmitTime": "N/A"}, "a huge limit": {"TimeLimit": "999999999-00:00:00"},
	} {
		set["JobID"] = "77"
		jobs, bad := parseJobs(line(nil)+line(set)+line(nil), end)
		if len(jobs) != 2 || len(bad) != 1 || bad[0].Line != "77" || !errors.Is(bad[0].Err, ErrLine) {
			t.Errorf("%s: %d jobs, %v", name, len(jobs), bad)
		}
	}
}

// TestACommentCannotPassForAnotherJob: a comment with a line break and a whole line of another job behind it. Its author does not know the
// word that ends lines.
func TestACommentCannotPassForAnotherJob(t *testing.T) {
	forged := strings.TrimSuffix(line(map[string]string{"JobID": "99", adminComment: "lull: released [phase=released]"}), end+"\n")
	jobs, bad := parseJobs(line(map[string]string{"Comment": "a\n" + forged})+line(nil), end)
	if len(jobs) != 1 || jobs[0].ID != "12" || len(bad) != 1 || bad[0].Line != "12" {
		t.Errorf("%+v, %v", jobs, bad)
	}
	long := strings.Replace(line(nil), "(null)"+strings.Repeat(" ", commentWidth-6), "a\n"+forged+"e9999\n", 1)
	if jobs, bad := parseJobs(long+line(nil), end); len(jobs) != 1 || len(bad) != 1 {
		t.Errorf("%d jobs, %v", len(jobs), bad)
	}
}

func TestCPUsOfNodesThatAreDownDoNotCount(t *testing.T) {
	text := ""
	for _, n := range [][2]string{{"n1", "4/12/0/16"}, {"n2", "0/0/16/16"}, {"n1", "4/12/0/16"}, {"n3", "x/0/0/0"}} {
		text += fmt.Sprintf("%-64s%-40s%s\n", n[0], n[1], end)
	}
	nodes, bad := parseNodes(text, end)
	if len(nodes) != 2 || nodes[0] != (Node{"n1", 16}) || nodes[1] != (Node{"n2", 0}) || len(bad) != 1 {
		t.Errorf("%+v, %v", nodes, bad)
	}
}

// FuzzJobs: any answer gives jobs and bad lines, each job with what the decision relies on.
func FuzzJobs(f *testing.F) {
	f.Add(line(nil))
	f.Add(line(map[string]string{"ArrayTaskID": "1-9:2,20%3", "Comment": "lull:max-delay=1d,interruptible\n"}))
	f.Add(line(map[string]string{"ArrayTaskID": "1-4000000", "TimeLimit": "99999-00:00:00", "NumCPUs": "999999999", "Comment": "lull:max-delay=366d,interruptible,checkpoint=1s"}))
	f.Add(line(map[string]string{"State": "RUNNING", "StartTime": "0001-01-01T00:00:00", "Comment": "lull:max-delay=366d,interruptible,checkpoint=1s"}))
	f.Add(line(map[string]string{"RestartCnt": "3", adminComment: Mark{Phase: Paused, Begin: at("10:00:00"), Since: time.Unix(1, 0), Done: longest}.String(), "Deadline": "2026-06-01T08:00:00", "Comment": "lull:max-delay=366d,interruptible,checkpoint=1s"}))
	f.Add("slurm_load_jobs error: Unable to contact slurm controller")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, bad := parseJobs(text, end)
		if n := strings.Count(text, end+"\n"); len(jobs)+len(bad) > n+1 {
			t.Fatalf("%d jobs and %d bad lines of %d", len(jobs), len(bad), n)
		}
		for i := range jobs {
			j := &jobs[i]
			if j.ID == "" || j.Submitted.IsZero() || j.Tasks < 1 || j.Tasks > mostTasks || j.CPUs < 0 || j.Limit < 0 || strings.ContainsAny(j.ID, " ;\n") {
				t.Fatalf("%+v", j)
			}
			c := Config{}
			// One job must not keep the others from being decided on.
			v := Observe(Input{Now: at("09:00:00"), Queue: Queue{Jobs: jobs[i : i+1]}, Config: &c, Slot: time.Hour})
			if _, err := decide.Decide(t.Context(), v.Snapshot, asap.Planner{}); err != nil {
				t.Fatalf("%+v: %v", j, err)
			}
		}
	})
}

// FuzzMark: a mark that is read and written again is the same, and Before is kept whatever others write.
func FuzzMark(f *testing.F) {
	f.Add(Mark{Phase: Pausing, Begin: at("10:00:00"), Done: time.Hour, Ran: time.Minute, Runs: 2, Text: "waits", Before: "site: x"}.String())
	f.Add("lull: [begin=99999999999999999999 phase=held]")
	f.Fuzz(func(t *testing.T, text string) {
		m := ReadMark(text)
		if m.Phase == "" {
			if m.Before != text {
				t.Fatalf("%q: kept %q", text, m.Before)
			}
			return
		}
		again := ReadMark(m.String())
		if m.Phase != Pausing {
			m.Ran, m.Runs = again.Ran, again.Runs
		}
		if again != m {
			t.Fatalf("%q: %+v, then %+v", text, m, again)
		}
	})
}
