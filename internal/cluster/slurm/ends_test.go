package slurm

import (
	"errors"
	"os"
	"path/filepath"
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
	if err != nil || len(jobs) != 1 || jobs[0] != want {
		t.Errorf("%+v, %v\nwant %+v", jobs, err, want)
	}
	if _, err := (Commands{Completions: file + "x"}).Ends(t.Context(), []string{"1"}); err == nil {
		t.Error("a file that is not there is no error")
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
