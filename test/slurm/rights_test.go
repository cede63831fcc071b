//go:build slurm

package slurm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/internal/studies/slurmlab"
	"lull.dev/lull/test/child"
)

// withoutRights is the log of a controller of nobody, with the commands in a folder.
func withoutRights(t *testing.T, commands string) *buffer {
	t.Helper()
	empty(t)
	t.Cleanup(func() { empty(t) })
	log := &buffer{}
	cmd := exec.Command(os.Getenv("LULL_BIN"), "slurm", "controller", "--slurm-bin", commands, "--config", lab.configFile(), "--zone", "DE", "--interval", "1s")
	cmd.Dir, cmd.Stderr = lab.dir+"/out", log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	l := &lull{cmd: cmd, log: log}
	t.Cleanup(l.kill)
	return log
}

// TestAControllerWithoutRights changes nothing, says which account is accepted, and keeps no job from its start.
func TestAControllerWithoutRights(t *testing.T) {
	log := withoutRights(t, lab.root+"/usr/bin")
	// Of root. It runs for long: on a busy machine, the first look may come when the grace period is over, and Slurm refuses to change a job that has ended for that reason.
	id := submit(t, "sleep 600", "--comment=lull:max-delay=10m,runtime=4s")
	if err := wait("the controller to say that it has no rights", func() bool { return strings.Contains(log.String(), "AdminLevel=Administrator") }); err != nil {
		t.Errorf("%v: %s", err, log)
	}
	until(t, id, "running", running) // after the grace period
	if text := log.String(); strings.Contains(text, "Changed jobs") {
		t.Errorf("%s", text)
	}
}

// TestAJobThatEndsBeforeItsUpdateIsNotChanged, as on a busy machine: scontrol update begins when the job that the controller has seen is over. Slurm then says so, also to whoever
// has no rights, and nothing was changed.
func TestAJobThatEndsBeforeItsUpdateIsNotChanged(t *testing.T) {
	dir := open(t)
	out := filepath.Join(lab.dir, "out", fmt.Sprint("ends", time.Now().UnixNano()))
	begun, made := out+".begun", out+".made"
	for _, name := range []string{"squeue", "sinfo", "scontrol"} {
		text := fmt.Sprintf("#!/bin/bash\nprogram=%s/usr/bin/%s\n", lab.root, name)
		if name == "scontrol" {
			text += fmt.Sprintf(`[ "$1" = update ] || exec "$program" "$@"
touch %s
until "$program" show job "${2#JobId=}" | grep -q JobState=COMPLETED; do sleep 0.2; done
"$program" "$@"; rc=$?
echo "$rc $*" >>%s
exit $rc
`, begun, made)
		} else {
			text += `exec "$program" "$@"` + "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := withoutRights(t, dir)
	id := submit(t, "until [ -e "+begun+" ]; do sleep 0.2; done", "--comment=lull:max-delay=10m,runtime=4s")
	until(t, id, "completed", completed)
	if err := wait("scontrol update", func() bool {
		text, err := os.ReadFile(made)
		return err == nil && strings.HasPrefix(string(text), "1 update JobId="+id)
	}); err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	later := submit(t, "true") // the controller has gone on, and looked again
	until(t, later, "completed", completed)
	if text := log.String(); strings.Contains(text, "Changed jobs") || strings.Contains(text, "failed") {
		t.Errorf("%s", text)
	}
	client := slurm.Commands{Dir: lab.root + "/usr/bin"}
	var raced *slurm.RacedError
	if err := client.Update(t.Context(), slurm.Update{IDs: []string{id, "999999"}, Now: true}); !errors.As(err, &raced) || strings.Join(raced.IDs, " ") != id+" 999999" {
		t.Errorf("%v; want that both are over", err)
	}
}

// lullUser is the account of Lull in the tests of slurmdbd: an ordinary user of the machine, who owns no job.
const lullUser, lullUID = "daemon", 1

// accounted runs the cluster with slurmdbd until the test is over. Lull's account is one of its users, with no level.
func accounted(t *testing.T) {
	t.Helper()
	empty(t)
	t.Cleanup(func() {
		empty(t)
		if err := lab.StopAccounting(); err != nil {
			t.Error(err)
		}
		registered(t)
	})
	if err := lab.StartAccounting("root", "nobody", lullUser); errors.Is(err, slurmlab.ErrNoPackages) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	registered(t)
}

// setLevel gives Lull's account a level, and waits until slurmctld has heard of it.
func setLevel(t *testing.T, name string) {
	t.Helper()
	must(t, "sacctmgr", "--immediate", "modify", "user", lullUser, "set", "AdminLevel="+name)
	if err := wait("slurmctld to know the level", func() bool {
		return strings.Contains(must(t, "scontrol", "show", "assoc_mgr", "users="+lullUser, "flags=users"), "AdminLevel="+name)
	}); err != nil {
		t.Fatalf("%v: %s", err, must(t, "scontrol", "show", "assoc_mgr", "users="+lullUser, "flags=users"))
	}
}

// What an account may do begins with a level.
const (
	anyone = iota
	operator
	administrator
	rootOnly
)

var levels = []string{"None", "Operator", "Administrator"}

// TestWhatALevelMayDo is the table of docs/slurm.md: jobs are those of another user.
func TestWhatALevelMayDo(t *testing.T) {
	accounted(t)
	bounded(t, filepath.Join(lab.dir, "out", "rights"))
	for level, name := range levels {
		setLevel(t, name)
		array := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--account="+slurmlab.Account, "--array=1-9%4", "--begin=now+1hour", "--wrap", "true")
		runs := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--account="+slurmlab.Account, "--requeue", "--wrap", "sleep 600")
		until(t, runs, "running", running)
		for _, tc := range []struct {
			what    string
			least   int
			command string
		}{
			// What Lull does.
			{"read the queue", anyone, "squeue -h"},
			{"set a begin time", operator, "scontrol update StartTime=now+1000 JobId=" + array},
			{"set a throttle", operator, "scontrol update ArrayTaskThrottle=2 JobId=" + array},
			{"requeue", operator, "scontrol requeue Incomplete " + runs},
			{"reserve licences", operator, "scontrol create reservation ReservationName=lull-power StartTime=now EndTime=now+300 Users=root Flags=LICENSE_ONLY,OVERLAP Licenses=power:3"},
			{"change a reservation", operator, "scontrol update ReservationName=lull-power Licenses=power:4"},
			{"delete a reservation", operator, "scontrol delete ReservationName=lull-power"},
			{"set an AdminComment", administrator, "scontrol update AdminComment=x JobId=" + array},
			// What Lull does not do.
			{"raise a time limit", operator, "scontrol update TimeLimit=300 JobId=" + array},
			{"hold a job", operator, "scontrol hold " + array},
			{"cancel a job", operator, "scancel " + array + "_9"},
			{"change a node", administrator, "scontrol update NodeName=n2 Weight=2"},
			{"have the configuration read anew", administrator, "scontrol reconfigure"},
			{"raise a level", administrator, "sacctmgr --immediate modify user nobody set AdminLevel=None"},
			{"run a job as another user", rootOnly, "sbatch --parsable --uid=65534 --output=/dev/null --account=" + slurmlab.Account + " --wrap true"},
		} {
			args := strings.Fields(tc.command)
			if out, err := as(lullUID, args[0], args[1:]...); (err == nil) != (level >= tc.least) {
				t.Errorf("AdminLevel=%s may %s: %v: %s", name, tc.what, err == nil, out)
			}
		}
		empty(t)
	}
	for _, file := range []string{"state/job_state", "munge.key", "slurmdbd.conf"} {
		if info, err := os.Stat(lab.dir + "/" + file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v; want one that only root reads", file, info, err)
		}
	}
}

// TestLullNeedsAnAdministratorOfSlurmdbd, and no more: it runs as an ordinary user of the machine, and acts on the jobs of another one. As an operator it
// changes no job, and says which level is accepted.
func TestLullNeedsAnAdministratorOfSlurmdbd(t *testing.T) {
	accounted(t)
	config := bounded(t, filepath.Join(lab.dir, "out", "capacity-of-"+lullUser))
	submitAs := func(run string, args ...string) string {
		return asNobody(t, "sbatch", append(append([]string{"--parsable", "--output=/dev/null", "--account=" + slurmlab.Account}, args...), "--wrap", run)...)
	}
	setLevel(t, "Operator")
	l := controllerOf(t, lullUID, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}), "--config", config)
	id := submitAs("sleep 1", "--comment=lull:max-delay=10m,runtime=4s")
	if err := wait("Lull to say that it lacks rights", func() bool { return strings.Contains(l.log.String(), "AdminLevel=Administrator") }); err != nil {
		t.Errorf("%v: %s", err, l.log)
	}
	until(t, id, "completed", completed) // after the grace period
	l.kill()

	setLevel(t, "Administrator")
	l = controllerOf(t, lullUID, curve(t, [2]time.Duration{0, 30 * time.Second}, [2]time.Duration{80 * time.Second, 15 * time.Minute}), "--config", config)
	pauses := submitAs("sleep 40", "--requeue", "--comment=lull:max-delay=5m,runtime=40s,interruptible,checkpoint=1s")
	until(t, pauses, "paused by Lull", func(j job) bool {
		return j.state() == "PENDING" && j["Restarts"] == "1" && strings.Contains(j["AdminComment"], "phase=paused")
	})
	waits := submitAs("sleep 1", "--comment=lull:max-delay=5m,runtime=4s", "-n24")
	until(t, waits, "planned", planned)
	if n, _ := reserved(t); n != 8 {
		t.Errorf("%d licences are reserved; want 8, those above the maximum", n)
	}
	for _, id := range []string{pauses, waits} {
		if j := until(t, id, "completed", completed); !strings.Contains(j["AdminComment"], "phase=released") || j["UserId"] != "nobody(65534)" {
			t.Errorf("%v", j)
		}
	}
	until(t, submit(t, "sleep 300", "-n26"), "running", running)
	array := submitAs("sleep 4", "--array=0-59%10", "--comment=lull:max-delay=3m,runtime=4s,min-tasks=2")
	if err := wait("a lower throttle", func() bool {
		_, throttle, mark, _ := tasksOf(t, array)
		return throttle != "10" && strings.Contains(mark, "limit=10 set="+throttle)
	}); err != nil {
		t.Errorf("%v: %s", err, l.log)
	}
	if text := l.log.String(); strings.Contains(text, "denied") {
		t.Errorf("Slurm refused something: %s", text)
	}
	// What Slurm forgets, slurmdbd knows, also for this account.
	var ends []slurm.Job
	if err := wait("slurmdbd to know how a job ended", func() (is bool) {
		found, err := slurm.Commands{Dir: lab.root + "/usr/bin"}.Ends(t.Context(), []string{waits})
		ends = found
		return err == nil && len(found) == 1 && found[0].Succeeded() && found[0].CPUs == 24
	}); err != nil {
		t.Errorf("%v: %+v", err, ends)
	}
}

// private has slurmctld hide jobs (PrivateData) until the test is over.
func private(t *testing.T) {
	t.Helper()
	configure(t, func(text string) string { return text + "PrivateData=jobs,usage\n" })
}

// TestJobsThatSlurmHides: with PrivateData, the account of Lull sees the jobs of others at the level of docs/slurm.md. Below it, Lull says that it may not see all jobs, and an
// empty queue is not taken for one.
func TestJobsThatSlurmHides(t *testing.T) {
	accounted(t)
	private(t)
	submitAs := func(args ...string) string {
		return asNobody(t, "sbatch", append(append([]string{"--parsable", "--output=/dev/null", "--account=" + slurmlab.Account}, args...), "--wrap", "sleep 1")...)
	}
	const warning = "PrivateData=jobs"
	setLevel(t, "None")
	l := controllerOf(t, lullUID, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}))
	if text := l.log.String(); !strings.Contains(text, warning) || !strings.Contains(text, "user "+lullUser+" has AdminLevel=None") {
		t.Errorf("%s", text)
	}
	id := submitAs("--comment=lull:max-delay=10m,runtime=4s")
	if out, err := as(lullUID, "squeue", "-h", "-j", id); err == nil && strings.Contains(out, id) {
		t.Errorf("Slurm hides nothing: %s", out)
	}
	until(t, id, "completed", completed) // after the grace period
	l.kill()
	setLevel(t, "Administrator")
	l = controllerOf(t, lullUID, curve(t, [2]time.Duration{9 * time.Minute, 15 * time.Minute}))
	id = submitAs("--comment=lull:max-delay=10m,runtime=4s")
	until(t, id, "planned", planned)
	l.kill()
	before := l.log
	l = controllerOf(t, lullUID, curve(t, [2]time.Duration{0, 15 * time.Minute})) // power is clean now
	if j := until(t, id, "completed", completed); !strings.Contains(j["AdminComment"], "phase=released") {
		t.Errorf("%v", j)
	}
	if text := before.String() + l.log.String(); strings.Contains(text, warning) {
		t.Errorf("%s", text)
	}
}
