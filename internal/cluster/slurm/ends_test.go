package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// recordedEnds are lines of jobcomp/filetxt of Slurm 22.05.8. The name of the second job pretends another state.
const recordedEnds = `JobId=52 UserId=root(0) GroupId=root(0) Name=wrap JobState=CANCELLED Partition=gpu TimeLimit=60 StartTime=2026-11-28T06:11:25 EndTime=2026-11-28T06:11:28 NodeList=n[3-4] NodeCnt=2 ProcCnt=2 WorkDir=/tmp/out ReservationName= Tres=cpu=2,mem=2000M,node=2,billing=2 Account= QOS= WcKey= Cluster=unknown SubmitTime=2026-11-28T06:11:24 EligibleTime=2026-11-28T06:11:24 DerivedExitCode=0:0 ExitCode=0:0 
JobId=53 UserId=root(0) GroupId=root(0) Name=x EndTime=2020-01-01T00:00:00 JobState=FAILED y JobState=COMPLETED Partition=gpu TimeLimit=60 StartTime=2026-11-28T06:11:25 EndTime=2026-11-28T06:12:00 NodeList=n4 NodeCnt=1 ProcCnt=3 WorkDir=/tmp/out ReservationName= Tres=cpu=3,mem=500M,node=1,billing=3 Account= QOS= WcKey= Cluster=unknown SubmitTime=2026-11-28T06:11:24 EligibleTime=2026-11-28T06:11:24 DerivedExitCode=0:0 ExitCode=0:0 
JobId=54 what is this
`

func TestEndsOfAFileOfCompletions(t *testing.T) {
	zone := time.Local
	t.Cleanup(func() { time.Local = zone })
	time.Local = time.FixedZone("here", 3600)
	file := filepath.Join(t.TempDir(), "jobcomp")
	if err := os.WriteFile(file, []byte(recordedEnds), 0o600); err != nil {
		t.Fatal(err)
	}
	jobs, err := Commands{Completions: file}.Ends(t.Context(), []string{"53", "54", "99_1"})
	want := Job{
		ID: "53", Number: 53, Tasks: 1, State: "COMPLETED", CPUs: 3, Submitted: time.Date(2026, 11, 28, 5, 11, 24, 0, time.UTC),
		Started: time.Date(2026, 11, 28, 5, 11, 25, 0, time.UTC), Ended: time.Date(2026, 11, 28, 5, 12, 0, 0, time.UTC),
	}
	if err != nil || len(jobs) != 1 || !reflect.DeepEqual(jobs[0], want) {
		t.Errorf("%+v, %v\nwant %+v", jobs, err, want)
	}
	if _, err := (Commands{Completions: file + "x"}).Ends(t.Context(), []string{"1"}); err == nil {
		t.Error("a missing file gives no error")
	}
}

// TestUsersForgeNoEnds: what users choose, the name and the folder of a job, may hold fields and whole lines. A job whose end they could have made has none.
func TestUsersForgeNoEnds(t *testing.T) {
	line := func(id, state, name, folder, submitted string) string {
		return "JobId=" + id + " UserId=ada(1000) GroupId=ada(1000) Name=" + name + " JobState=" + state + " Partition=low TimeLimit=60 StartTime=2026-11-28T06:11:25 EndTime=2026-11-28T06:12:00 NodeList=n4 NodeCnt=1 ProcCnt=3 WorkDir=" +
			folder + " ReservationName= Tres=cpu=3,node=1 Account= QOS= WcKey= Cluster=lab SubmitTime=" + submitted + " EligibleTime=2026-11-28T06:11:24 DerivedExitCode=0:0 ExitCode=0:0 \n"
	}
	const at, other = "2026-11-28T06:11:24", "2026-11-28T01:00:00"
	middle := " JobState=FAILED Partition=low TimeLimit=60 StartTime=2026-11-28T03:00:00 EndTime=2026-11-28T04:00:00 NodeList=n4 NodeCnt=1 ProcCnt=99 WorkDir=/x"
	for name, tc := range map[string]struct {
		text  string
		known bool
	}{
		"nothing of a user":                          {line("7", "COMPLETED", "x", "/tmp", at), true},
		"written twice":                              {strings.Repeat(line("7", "COMPLETED", "x", "/tmp", at), 2), true},
		"an array":                                   {strings.Replace(line("7", "COMPLETED", "x", "/tmp", at), " Derived", " ArrayJobId=7 ArrayTaskId=3 Derived", 1), true},
		"fields in the folder":                       {line("7", "COMPLETED", "x", "/tmp/ EndTime=2026-11-28T04:00:00 JobState=FAILED ProcCnt=99", at), true},
		"a submission in the folder":                 {line("7", "COMPLETED", "x", "/tmp/ Cluster=lab SubmitTime="+other+" EligibleTime="+other+" ExitCode=0:0 y", at), true},
		"all fields in the folder":                   {line("7", "COMPLETED", "x", "/tmp"+middle, at), false},
		"all fields in the name":                     {line("7", "COMPLETED", "x"+middle, "/tmp", at), false},
		"a line break in the folder":                 {line("7", "COMPLETED", "x", "/tmp/\ny", at), false},
		"a line in the folder of another":            {line("7", "COMPLETED", "x", "/tmp", at) + line("9", "COMPLETED", "x", "/tmp/\n"+line("7", "FAILED", "x", "/", at), at), false},
		"a line in the folder of another before":     {line("9", "COMPLETED", "x", "/tmp/\n"+line("7", "FAILED", "x", "/", at), at) + line("7", "COMPLETED", "x", "/tmp", at), false},
		"the end of the line is still to come":       {strings.TrimSuffix(line("7", "COMPLETED", "x", "/tmp", at), "\n"), false},
		"a line in the folder of another, cut off":   {line("7", "COMPLETED", "x", "/tmp", at) + "JobId=7 x\n", false},
		"a very long line before":                    {line("9", "COMPLETED", strings.Repeat("x", 3*longestCompletion), "/tmp", at) + line("7", "COMPLETED", "x", "/tmp", at), true},
		"its own line is very long":                  {line("7", "COMPLETED", strings.Repeat("x", 3*longestCompletion), "/tmp", at), false},
		"another job whose number begins like it is": {line("7", "COMPLETED", "x", "/tmp", at) + line("77", "FAILED", "x", "/tmp", at), true},
	} {
		file := filepath.Join(t.TempDir(), "jobcomp")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		jobs, err := Commands{Completions: file}.Ends(t.Context(), []string{"7", "7_1"})
		if err != nil || len(jobs) > 1 || (len(jobs) == 1) != tc.known {
			t.Errorf("%s: %+v, %v; known: want %v", name, jobs, err, tc.known)
			continue
		}
		if tc.known && (jobs[0].State != "COMPLETED" || jobs[0].CPUs != 3 || !jobs[0].Submitted.Equal(time.Date(2026, 11, 28, 6, 11, 24, 0, time.Local)) || !jobs[0].Ended.Equal(time.Date(2026, 11, 28, 6, 12, 0, 0, time.Local))) {
			t.Errorf("%s: %+v", name, jobs[0])
		}
	}
	array := filepath.Join(t.TempDir(), "jobcomp")
	if err := os.WriteFile(array, []byte(line("7_1", "COMPLETED", "x", "/tmp", at)), 0o600); err != nil {
		t.Fatal(err)
	}
	if jobs, err := (Commands{Completions: array}).Ends(t.Context(), []string{"7_1"}); err != nil || len(jobs) > 0 {
		t.Errorf("a task of an array has no line of its own name: %+v, %v", jobs, err)
	}
}

// TestAScanOfCompletionsIsBounded: it ends with its context, reads the end of a long file, and reads no pipe.
func TestAScanOfCompletionsIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobcomp")
	if err := os.WriteFile(file, []byte(recordedEnds), 0o600); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Commands{Completions: file}).Ends(over, []string{"53"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := (Commands{Completions: t.TempDir()}).Ends(t.Context(), []string{"53"}); err == nil || !strings.Contains(err.Error(), "accepted: a file") {
		t.Errorf("%v", err)
	}
	large, err := os.Create(file + "2")
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	_, err1 := large.WriteString(strings.ReplaceAll(recordedEnds, "JobId=52", "JobId=1"))
	err2 := large.Truncate(mostCompletions) // a hole, which takes no room
	_, err3 := large.WriteAt([]byte("\n"+recordedEnds), mostCompletions)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	jobs, err := Commands{Completions: large.Name()}.Ends(t.Context(), []string{"1", "52", "53"})
	if err != nil || len(jobs) != 2 || jobs[0].ID != "52" {
		t.Errorf("%+v, %v", jobs, err)
	}
}

func TestEndsBySacct(t *testing.T) {
	c := commands(t, map[string]string{"sacct": `case "$*" in *--jobs=12,13_1*) ;; *) exit 1;; esac
cat <<'EOF'
12|REQUEUED|2026-06-01T08:00:00|2026-06-01T08:10:00|2026-06-01T08:20:00|4
12|CANCELLED by 1000|2026-06-01T08:20:00|2026-06-01T08:30:00|2026-06-01T09:00:00|4
13_1|RUNNING|2026-06-01T08:20:00|2026-06-01T08:30:00|Unknown|4
13_2|CANCELLED|2026-06-01T08:20:00|None|2026-06-01T09:00:00|0
EOF`})
	jobs, err := c.Ends(t.Context(), []string{"12", "13_1"})
	if err != nil || len(jobs) != 2 || jobs[0].ID != "12" || !jobs[0].Ended.Equal(at("09:00:00")) || jobs[1].ID != "13_2" || !jobs[1].Started.IsZero() {
		t.Errorf("%+v, %v", jobs, err)
	}
	none := commands(t, map[string]string{"sacct": "echo 'Slurm accounting storage is disabled' >&2; exit 1"})
	if _, err := none.Ends(t.Context(), []string{"1"}); !errors.Is(err, ErrNoAccounting) {
		t.Errorf("%v", err)
	}
	down := commands(t, map[string]string{"sacct": "echo 'sacct: error: slurmdbd: Connection refused' >&2; exit 1"})
	if _, err := down.Ends(t.Context(), []string{"1"}); err == nil || errors.Is(err, ErrNoAccounting) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
}
