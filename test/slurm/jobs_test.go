//go:build slurm

package slurm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lull.dev/lull/test/child"
)

// must runs a command of Slurm and returns what it prints.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := lab.command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// asNobody runs a command of Slurm as an ordinary user.
func asNobody(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := as(65534, name, args...)
	if err != nil {
		t.Fatalf("%s %s as nobody: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// as runs a command of Slurm as a user.
func as(uid uint32, name string, args ...string) (string, error) {
	cmd := lab.command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// submit submits a job that runs a command and returns its number.
func submit(t *testing.T, run string, args ...string) string {
	t.Helper()
	return must(t, "sbatch", append(append([]string{"--parsable", "--output=/dev/null"}, args...), "--wrap", run)...)
}

// job is what Slurm says of a job.
type job map[string]string

// show asks for a job. The names and comments of these tests have no spaces but in the AdminComment.
func show(t *testing.T, id string) job {
	t.Helper()
	out := must(t, "scontrol", "-o", "show", "job", id)
	j := job{}
	for _, field := range strings.Fields(strings.SplitN(out, "\n", 2)[0]) {
		if key, value, ok := strings.Cut(field, "="); ok && j[key] == "" {
			j[key] = value
		}
	}
	if _, rest, ok := strings.Cut(out, "AdminComment="); ok {
		comment, _, _ := strings.Cut(rest, "]")
		j["AdminComment"] = comment + "]"
	}
	return j
}

func (j job) state() string { return j["JobState"] }

// at is a time that Slurm states of a job.
func (j job) at(t *testing.T, key string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05", j[key])
	if err != nil {
		t.Fatalf("job %s: %s=%s", j["JobId"], key, j[key])
	}
	return at
}

// until waits until a job is as wanted, and returns it.
func until(t *testing.T, id, what string, is func(job) bool) job {
	t.Helper()
	var j job
	if err := wait("job "+id+" to be "+what, func() bool { j = show(t, id); return is(j) }); err != nil {
		t.Fatalf("%v; it is %v", err, j)
	}
	return j
}

func completed(j job) bool { return j.state() == "COMPLETED" }
func running(j job) bool   { return j.state() == "RUNNING" }

// planned reports whether Lull, not job_submit.lua, has set the begin time of a job that waits.
func planned(j job) bool {
	return j.state() == "PENDING" && strings.Contains(j["AdminComment"], "lull: waits until")
}

// curve writes intensities by the second: 100 in the clean spans, counted from now on, else 500.
func curve(t *testing.T, clean ...[2]time.Duration) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,intensity_gco2eq_per_kwh\n")
	now := time.Now().UTC().Truncate(time.Second)
	for at := -time.Minute; at < 20*time.Minute; at += time.Second {
		v := 500
		for _, span := range clean {
			if at >= span[0] && at < span[1] {
				v = 100
			}
		}
		fmt.Fprintf(&b, "%s,%d\n", now.Add(at).Format(time.RFC3339), v)
	}
	file := filepath.Join(open(t), "curve.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// open is a folder that every user may read.
func open(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lull is a running lull slurm controller.
type lull struct {
	cmd *exec.Cmd
	log *buffer
}

// buffer can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }
func (b *buffer) String() string              { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// controller starts lull slurm controller, and ends it with the test. The queue is empty before and after.
func controller(t *testing.T, curve string, args ...string) *lull {
	t.Helper()
	return controllerOf(t, 0, curve, args...)
}

// controllerOf is one that runs as a user.
func controllerOf(t *testing.T, uid uint32, curve string, args ...string) *lull {
	t.Helper()
	l := &lull{log: &buffer{}}
	l.cmd = exec.Command(os.Getenv("LULL_BIN"), append([]string{
		"slurm", "controller", "--slurm-bin", lab.root + "/usr/bin", "--config", lab.configFile(), "--zone", "DE", "--source", curve,
		"--interval", "1s", "--slot", "2s", "--min-run", "1s", "--min-pause", "1s",
	}, args...)...)
	if !slices.Contains(args, "--planner") {
		l.cmd.Args = append(l.cmd.Args, "--param", "reserve=0")
	}
	l.cmd.Stderr = l.log
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := child.Start(l.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.kill()
		if t.Failed() {
			t.Logf("lull slurm controller:\n%s", l.log)
		}
		empty(t)
	})
	if err := wait("lull slurm controller", func() bool { return strings.Contains(l.log.String(), "Slurm answers") }); err != nil {
		t.Fatalf("%v: %s", err, l.log)
	}
	return l
}

// kill ends the controller as a crash does.
func (l *lull) kill() {
	_ = l.cmd.Process.Kill()
	_ = l.cmd.Wait()
}

// empty cancels what is left and waits until no job has nodes.
func empty(t *testing.T) {
	t.Helper()
	for _, user := range []string{"root", "nobody"} {
		must(t, "scancel", "--user="+user)
	}
	if err := wait("an empty queue", func() bool { return must(t, "squeue", "-h") == "" }); err != nil {
		t.Error(err)
	}
}

// registered waits until all nodes have registered with slurmctld and are idle: one whose resources are changed before that is drained when it
// registers.
func registered(t *testing.T) {
	t.Helper()
	states := ""
	if err := wait("all nodes to be idle", func() bool {
		states = must(t, "sinfo", "-h", "-N", "-o", "%T")
		return strings.Trim(strings.ReplaceAll(states, "idle", ""), "\n ") == ""
	}); err != nil {
		t.Fatalf("%v: %s", err, states)
	}
}

// patient is a configuration that lets jobs of a partition wait for longer than that of the lab.
func patient(t *testing.T) string {
	t.Helper()
	file := filepath.Join(open(t), "lull.yaml")
	if err := os.WriteFile(file, []byte("margin: 10s\ndefaults:\n- partition: green\n  maxDelay: 18m\n  runtime: 4s\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// explain runs lull slurm explain with the configuration of the controller, as an ordinary user does.
func explain(t *testing.T, id string, args ...string) string {
	t.Helper()
	return explainAlone(t, id, append([]string{"--config", lab.configFile()}, args...)...)
}

// explainAlone runs lull slurm explain without a configuration.
func explainAlone(t *testing.T, id string, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Getenv("LULL_BIN"), append([]string{"slurm", "explain", id, "--slurm-bin", lab.root + "/usr/bin"}, args...)...)
	cmd.Dir = lab.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("lull slurm explain: %v: %s", err, out)
	}
	return string(out)
}
