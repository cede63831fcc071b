package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childArguments are those of lull where this test binary is lull itself, one a line.
const childArguments = "LULL_TEST_ARGUMENTS"

// TestLull is lull, in a process of its own, for the tests of lull run.
func TestLull(t *testing.T) {
	args := os.Getenv(childArguments)
	if args == "" {
		t.Skip("runs as a child of other tests")
	}
	os.Unsetenv(childArguments)
	os.Exit(Main(strings.Split(args, "\n"), os.Stdin, os.Stdout, os.Stderr))
}

// lullProcess is lull in a process of its own.
func lullProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLull$")
	cmd.Env = append(os.Environ(), childArguments+"="+strings.Join(args, "\n"), zoneVariable+"=DE")
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// curveFile writes intensities by the second: 500 until cleanFrom from now on, then 100.
func curveFile(t *testing.T, cleanFrom time.Duration) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,intensity_gco2eq_per_kwh\n")
	now := time.Now().UTC().Truncate(time.Second)
	for at := -60 * time.Second; at < 15*time.Minute; at += time.Second {
		v := 500
		if at >= cleanFrom {
			v = 100
		}
		fmt.Fprintf(&b, "%s,%d\n", now.Add(at).Format(time.RFC3339), v)
	}
	file := filepath.Join(t.TempDir(), "curve.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// endedWith is the exit status of a process that has ended.
func endedWith(err error, cmd *exec.Cmd) int {
	if cmd.ProcessState == nil {
		panic(err)
	}
	return cmd.ProcessState.ExitCode()
}

// TestRunEndToEnd: a real command runs in the clean seconds, with the input, the output, the environment and the exit status
// of lull run. On a busy machine the process may begin when it is clean already: then it tries once more, with more time until then.
func TestRunEndToEnd(t *testing.T) {
	for after := 3 * time.Second; ; after *= 4 {
		clean := time.Now().Truncate(time.Second).Add(after)
		cmd := lullProcess(t, "run", "--within", "10m", "--length", "2s", "--watts", "200", "--source", curveFile(t, after),
			"--", "sh", "-c", `read line; echo "got $line, $WORD, $1"; echo oops >&2; date +%s; exit 7`, "sh", "--watts")
		cmd.Env = append(cmd.Env, "WORD=of mouth")
		cmd.Stdin = strings.NewReader("a line\n")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		if endedWith(err, cmd) != 7 || len(lines) != 2 || lines[0] != "got a line, of mouth, --watts" {
			t.Fatalf("%v\n%s%s", err, stdout.String(), stderr.String())
		}
		if at, err := strconv.ParseInt(lines[1], 10, 64); err != nil || at < clean.Unix() {
			t.Errorf("ran at %s, before the clean seconds from %d on (%v)", lines[1], clean.Unix(), err)
		}
		for _, want := range []string{"\noops\n", "lull: ran ", "lull: emitted ", "at 100 gCO2eq/kWh; intensity by "} {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("no %q in:\n%s", want, stderr.String())
			}
		}
		waited := strings.Contains(stderr.String(), "to save 80.0 %: 100 gCO2eq/kWh over the run instead of 500 gCO2eq/kWh")
		if waited {
			if !strings.Contains(stderr.String(), "lull: saved 80.0 %, ") {
				t.Errorf("what it saved is not what it was to save:\n%s", stderr.String())
			}
			return
		}
		if after > 4*time.Minute {
			t.Fatalf("it did not wait:\n%s", stderr.String())
		}
	}
}

// TestRunExitsAsAShellWould: the statuses of commands that cannot be started, or that a signal ends, are those of a shell, and what is
// wrong with the command is known before the wait.
func TestRunExitsAsAShellWould(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"not there":       {[]string{"--length", "1h", "--within", "2d", "--min-saving", "0", "--", "no-such-command"}, 127, "no-such-command"},
		"a line of shell": {[]string{"--length", "1h", "--", "make && make install"}, 127, "accepted: a program and its arguments, or a shell with a script: sh -c '...'"},
		"part of a shell": {[]string{"--length", "1h", "--", "cd", "/tmp"}, 127, "accepted: a program and its arguments, or a shell with a script: sh -c '...'"},
		"a variable":      {[]string{"--length", "1h", "--", "A=b", "true"}, 127, "accepted: a program and its arguments, or a shell with a script: sh -c '...'"},
		"nothing":         {[]string{"--length", "1h", "--", ""}, 127, "accepted: a program in PATH, or its path"},
		"not executable":  {[]string{"--length", "1h", "--within", "2d", "--min-saving", "0", "--", plain}, 126, "permission denied"},
		"killed":          {[]string{"--length", "1h", "--within", "1h", "--", "sh", "-c", "kill -KILL $$"}, 137, "ended by a signal: killed"},
		"success":         {[]string{"--length", "1h", "--min-saving", "100", "true"}, 0, "saved nothing: it started at once"},
		"no data":         {[]string{"--length", "1h", "--zone", "XX", "--source", "electricityMaps", "--endpoint", "http://127.0.0.1:1", "true"}, 0, "warning: start now: the carbon intensity of XX is not known"},
		"no command":      {[]string{"--length", "1h"}, 1, "accepted: a command, e.g. lull run"},
		"wrong flags":     {[]string{"true"}, 1, "--length: missing"},
		"flags after it":  {[]string{"true", "--length=1h"}, 1, "Flags after the command belong to the command"},
	} {
		var stderr bytes.Buffer
		cmd := lullProcess(t, append([]string{"run"}, tc.args...)...)
		cmd.Stderr = &stderr
		if status := endedWith(cmd.Run(), cmd); status != tc.status || !strings.Contains(stderr.String(), tc.says) {
			t.Errorf("%s: status %d, %s; want %d, %q", name, status, stderr.String(), tc.status, tc.says)
		}
	}
}

// untilSays reads lines until one has a text, and returns all. The rest is read and dropped.
func untilSays(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	r := bufio.NewReader(from)
	var all strings.Builder
	for !strings.Contains(all.String(), text) {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("no %q in %q: %v", text, all.String(), err)
		}
		all.WriteByte(b)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return all.String()
}

// TestRunPassesSignalsOn: while it waits, and while the command runs, which gets them.
func TestRunPassesSignalsOn(t *testing.T) {
	waits := []string{"run", "--within", "14m", "--length", "10s", "--source", curveFile(t, 8*time.Minute), "--"}
	traps := []string{"sh", "-c", `trap 'echo got TERM; exit 9' TERM; trap 'echo got INT; exit 8' INT; trap 'echo got USR1; exit 6' USR1; echo ready >&2; while :; do sleep 0.05; done`}
	now := []string{"run", "--length", "1h", "--within", "1h", "--"}
	for name, tc := range map[string]struct {
		args   []string
		says   string
		signal syscall.Signal
		status int
		stdout string
	}{
		"waits, interrupted":  {append(waits, "echo", "ran"), "kill -USR1", syscall.SIGINT, 130, ""},
		"waits, terminated":   {append(waits, "echo", "ran"), "kill -USR1", syscall.SIGTERM, 143, ""},
		"waits, hung up":      {append(waits, "echo", "ran"), "kill -USR1", syscall.SIGHUP, 129, ""},
		"waits, told to run":  {append(waits, "echo", "ran"), "kill -USR1", syscall.SIGUSR1, 0, "ran\n"},
		"runs, terminated":    {append(now, traps...), "ready", syscall.SIGTERM, 9, "got TERM\n"},
		"runs, interrupted":   {append(now, traps...), "ready", syscall.SIGINT, 8, "got INT\n"},
		"runs, gets a signal": {append(now, traps...), "ready", syscall.SIGUSR1, 6, "got USR1\n"},
	} {
		if signal.Ignored(tc.signal) { // as nohup has it: no child gets it either
			continue
		}
		cmd := lullProcess(t, tc.args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		untilSays(t, stderr, tc.says)
		if err := cmd.Process.Signal(tc.signal); err != nil {
			t.Fatal(err)
		}
		if status := endedWith(cmd.Wait(), cmd); status != tc.status || stdout.String() != tc.stdout {
			t.Errorf("%s: status %d, %q; want %d, %q", name, status, stdout.String(), tc.status, tc.stdout)
		}
	}
}
