package slurm

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// commands returns a client whose commands are scripts.
func commands(t *testing.T, scripts map[string]string) Commands {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Commands{Dir: dir}
}

// TestAJobThatHasStartedMeanwhileIsNamed: nothing of it was changed. Any other complaint of scontrol is an error.
func TestAJobThatHasStartedMeanwhileIsNamed(t *testing.T) {
	for stderr, want := range map[string]string{ // the jobs; empty for another error
		"Job is no longer pending execution for job 6":                                               "6",
		"Job has already finished for job 7_[1-3]":                                                   "7_[1-3]",
		"Invalid job id specified for job 999\nJob is no longer pending execution for job 6":         "999 6",
		"7_1: Job has already finished\nJob is no longer pending execution for job 6":                "6",
		"999: Job has already finished\n7_1: Job has already finished\n99: Invalid job id specified": "999",
		"Job is no longer pending execution for job 6\nslurm_update error: Access/permission denied": "",
		"Access/permission denied for job 6":                                                         "",
		"":                                                                                           "",
	} {
		c := commands(t, map[string]string{"scontrol": "cat >&2 <<'EOF'\n" + stderr + "\nEOF\nexit 1"})
		err := c.Update(t.Context(), Update{IDs: []string{"5", "6", "7_[1-3]", "999"}, Now: true})
		var raced *RacedError
		if want == "" && !errors.Is(err, ErrCommand) || want != "" && (!errors.As(err, &raced) || strings.Join(raced.IDs, " ") != want) {
			t.Errorf("%q: %v; want %q", stderr, err, want)
		}
	}
	var raced *RacedError
	c := commands(t, map[string]string{"scontrol": "echo 'Job/step already completing or completed' >&2; exit 1"})
	if err := c.Update(t.Context(), Update{IDs: []string{"6"}, Now: true}); !errors.As(err, &raced) || strings.Join(raced.IDs, " ") != "6" {
		t.Errorf("one job: %v", err)
	}
	c = commands(t, map[string]string{"scontrol": "echo '2_2: Job has already finished' >&2; exit 1"}) // as scontrol 22.05 says of a task that is over
	if err := c.Update(t.Context(), Update{IDs: []string{"2_2"}, Now: true}); !errors.As(err, &raced) || strings.Join(raced.IDs, " ") != "2_2" {
		t.Errorf("a task that is over: %v", err)
	}
	c = commands(t, map[string]string{"scontrol": "echo '7_1: Job has already finished' >&2; exit 1"}) // the others are changed
	if err := c.Update(t.Context(), Update{IDs: []string{"7_[1-3]"}, Now: true}); err != nil {
		t.Errorf("a task of an array: %v", err)
	}
}

// TestAnAccountWithoutRightsIsTold which one is accepted.
func TestAnAccountWithoutRightsIsTold(t *testing.T) {
	c := commands(t, map[string]string{"scontrol": "echo 'Access/permission denied for job 6' >&2; exit 1"})
	if err := c.Update(t.Context(), Update{IDs: []string{"6"}, Now: true}); !errors.Is(err, ErrCommand) || !strings.Contains(err.Error(), "AdminLevel=Administrator") {
		t.Error(err)
	}
}

// TestOutputMayComeLate: on a busy machine the output of a command that has ended takes longer than a second.
func TestOutputMayComeLate(t *testing.T) {
	c := commands(t, map[string]string{"scontrol": "(sleep 1.5; echo late) &"})
	if out, err := c.run(t.Context(), "scontrol", "show"); err != nil || out != "late\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestManyJobsTakeFewCommands: up to 500 in each.
func TestManyJobsTakeFewCommands(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c := commands(t, map[string]string{"scontrol": `echo "$@" >>` + log})
	ids := slices.Repeat([]string{"1234567_[1-9]"}, 1100)
	if err := errors.Join(c.Update(t.Context(), Update{IDs: ids, Begin: at("10:00:00"), Comment: "a b"}), c.Requeue(t.Context(), []string{"1", "2"})); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(lines) != 4 || !strings.HasSuffix(lines[2], " AdminComment=a b StartTime=2026-06-01T10:00:00") || lines[3] != "requeue Incomplete 1,2" {
		t.Errorf("%d lines, the last ones %q", len(lines), lines[max(0, len(lines)-2):])
	}
}

// TestAJobThatHasEndedIsNotRequeued: this scontrol does what that of Slurm does with a job that ended after it was observed.
func TestAJobThatHasEndedIsNotRequeued(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c := commands(t, map[string]string{"scontrol": `if [ "$1 $2" = "requeue Incomplete" ]; then
	echo "Job has already finished for job $3" >&2; exit 1
fi
echo "$@" >>` + log})
	if err := c.Requeue(t.Context(), []string{"7"}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(log); err == nil {
		t.Errorf("requeued a job that has ended: %s", text)
	}
}

// TestVersionsAreChecked at the start.
func TestVersionsAreChecked(t *testing.T) {
	row := `case "$1" in --version) echo "$VERSION_LINE";; esac`
	for says, want := range map[string]error{
		"slurm 22.05.8": nil, "slurm-wlm 24.11.5": nil, "slurm 19.05.7": ErrVersion, "command 1": ErrVersion, "": ErrVersion,
	} {
		t.Setenv("VERSION_LINE", says)
		a, err := commands(t, map[string]string{"squeue": row, "sinfo": "", "scontrol": "echo 'JobSubmitPlugins        = defaults,lua'; echo 'SelectTypeParameters    = CR_CORE_MEMORY'"}).Check(t.Context())
		if !errors.Is(err, want) || err == nil && (!a.Lua || !a.Memory || a.Tested != strings.Contains(says, "22.05")) {
			t.Errorf("%q: %+v, %v", says, a, err)
		}
	}
	t.Setenv("VERSION_LINE", "slurm 22.05.8")
	c := commands(t, map[string]string{"squeue": row + "\necho 'squeue: error: Invalid job format specification: admin_comment' >&2", "sinfo": "", "scontrol": ""})
	if _, err := c.Check(t.Context()); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "admin_comment") {
		t.Errorf("a squeue without the column: %v", err)
	}
}

// TestAnswersOfAnotherFormAreNoEmptyQueue: at the start that is an error, and one odd job is not.
func TestAnswersOfAnotherFormAreNoEmptyQueue(t *testing.T) {
	bad := []Bad{{Line: "7", Err: ErrLine}}
	for name, tc := range map[string]struct {
		queue Queue
		fails bool
	}{
		"nothing":                  {Queue{}, false},
		"one odd job of two":       {Queue{Jobs: make([]Job, 1), Bad: bad}, false},
		"all jobs":                 {Queue{Bad: bad, Nodes: make([]Node, 9)}, true},
		"more than half":           {Queue{Jobs: make([]Job, 1), Bad: append(bad, bad...)}, true},
		"all nodes":                {Queue{Jobs: make([]Job, 9), Bad: []Bad{{Err: ErrLine, Node: true}}}, true},
		"an odd node among others": {Queue{Nodes: make([]Node, 3), Bad: []Bad{{Err: ErrLine, Node: true}}}, false},
	} {
		if err := tc.queue.Readable(); (err != nil) != tc.fails || err != nil && !errors.Is(err, ErrLine) {
			t.Errorf("%s: %v", name, err)
		}
	}
	squeue := `case "$1" in --version) echo "slurm 22.05.8";; *) echo "12 PENDING";; esac`
	_, err := commands(t, map[string]string{"squeue": squeue, "sinfo": "", "scontrol": ""}).Check(t.Context())
	if !errors.Is(err, ErrVersion) || !errors.Is(err, ErrLine) {
		t.Errorf("%v", err)
	}
}

// TestTasksThatDifferHaveLinesOfTheirOwn: squeue joins the pending tasks of an array otherwise.
func TestTasksThatDifferHaveLinesOfTheirOwn(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if _, err := commands(t, map[string]string{"squeue": `echo " $@ " >` + log, "sinfo": ""}).Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), " --array-unique ") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestTheEnvironmentChangesNoColumn: users set defaults of squeue by variables.
func TestTheEnvironmentChangesNoColumn(t *testing.T) {
	got := environment([]string{"PATH=/bin", "TZ=Asia/Tokyo", "SQUEUE_STATES=all", "SINFO_FORMAT=%n", "SACCT_FEDERATION=1", "SACCT_FORMAT=jobid", "SCONTROL_ALL=1", "SLURM_TIME_FORMAT=relative", "SLURM_CONF=/x"})
	want := []string{"PATH=/bin", "SLURM_CONF=/x", "TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=64"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestAnAnswerWithoutAnEndIsCutOff: memory is bounded, and no part of such an answer is taken for all of it.
func TestAnAnswerWithoutAnEndIsCutOff(t *testing.T) {
	begin := time.Now()
	c := commands(t, map[string]string{"squeue": "head -c 200000000 /dev/zero", "sinfo": ""})
	if _, err := c.Observe(t.Context()); !errors.Is(err, ErrCommand) || !strings.Contains(err.Error(), "128 MiB") {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}

// TestAnAccountThatDoesNotSeeAllJobs: Lull warns about PrivateData=jobs, with which squeue shows other accounts an empty queue.
func TestAnAccountThatDoesNotSeeAllJobs(t *testing.T) {
	for config, want := range map[string]bool{"none": false, "accounts,users": false, "jobs": true, "usage,jobs": true, "all": true} {
		a := About{}
		if a.configured("PrivateData             = " + config + "\nSlurmUser               = other(99)\n"); a.private != want || a.slurmUser != "other(99)" {
			t.Errorf("%s: %+v", config, a)
		}
	}
	for name, tc := range map[string]struct {
		sacctmgr, uid, want string
	}{
		"root":                {"exit 1", "0", ""},
		"SlurmUser":           {"exit 1", "99", ""},
		"an ordinary user":    {"echo None", "7", "user lull has AdminLevel=None"},
		"an operator":         {"echo Operator", "7", ""},
		"an administrator":    {`[ "$*" = "--noheader --parsable2 show user lull format=AdminLevel" ] && echo Administrator`, "7", ""},
		"unknown to slurmdbd": {"", "7", "does not know user lull"},
		"without slurmdbd":    {"echo 'You are not running a supported accounting_storage plugin' >&2; exit 1", "7", "cannot be read"},
	} {
		c := commands(t, map[string]string{"sacctmgr": tc.sacctmgr})
		if got := c.hidden(t.Context(), "other(99)", &user.User{Uid: tc.uid, Username: "lull"}); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
}
