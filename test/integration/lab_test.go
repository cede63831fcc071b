//go:build integration

package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

type labState struct {
	Phase      string         `json:"phase"`
	Error      string         `json:"error"`
	PID        int            `json:"pid"`
	Server     string         `json:"server"`
	Components map[string]int `json:"components"`
}

func lab(args ...string) (string, error) {
	out, err := exec.Command(os.Getenv("LULL_LAB"), args...).CombinedOutput()
	return string(out), err
}

func stateOf(t *testing.T, dir string) labState {
	t.Helper()
	out, _ := exec.Command(os.Getenv("LULL_LAB"), "status", "--json", "--dir", dir).Output()
	var s labState
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("lab status: %v: %s", err, out)
	}
	return s
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// gone waits until none of the processes is left.
func gone(t *testing.T, pids map[string]int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		left := []string{}
		for name, pid := range pids {
			if alive(pid) {
				left = append(left, name)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running: %v", left)
		}
	}
}

// TestLabLifeCycle: a second lab beside the tests' own; up twice is up once;
// down ends every process, and down again is no error.
func TestLabLifeCycle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	if out, err := lab("status", "--dir", dir); err == nil || !strings.Contains(out, "down") {
		t.Errorf("status of no lab: %v: %s", err, out)
	}
	for want, args := range map[string][]string{
		`--cpu: "lots"; accepted`:   {"up", "--dir", dir, "--cpu", "lots"},
		"--nodes: -1; accepted":     {"up", "--dir", dir, "--nodes", "-1"},
		"--time-factor: 0; accepte": {"up", "--dir", dir, "--time-factor", "0"},
	} {
		if out, err := lab(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("want an error with %q, got %v: %s", want, err, out)
		}
	}
	if out, err := lab("up", "--dir", dir, "--nodes", "1"); err != nil {
		t.Fatalf("up: %v: %s", err, out)
	}
	first := stateOf(t, dir)
	if first.Phase != "ready" || len(first.Components) != 5 || first.Server == env.config.Host {
		t.Errorf("state %+v", first)
	}
	if out, err := lab("up", "--dir", dir); err != nil || !strings.Contains(out, "already up") {
		t.Errorf("second up: %v: %s", err, out)
	}
	if again := stateOf(t, dir); again.PID != first.PID {
		t.Error("the second up started another lab")
	}
	if out, err := lab("down", "--dir", dir); err != nil {
		t.Errorf("down: %v: %s", err, out)
	}
	gone(t, first.Components)
	if out, err := lab("down", "--dir", dir); err != nil || !strings.Contains(out, "already down") {
		t.Errorf("second down: %v: %s", err, out)
	}
}

// TestLabReportsACrash: a component that dies is named, with the end of its
// log, and the others are ended.
func TestLabReportsACrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	if out, err := lab("up", "--dir", dir, "--nodes", "1"); err != nil {
		t.Fatalf("up: %v: %s", err, out)
	}
	s := stateOf(t, dir)
	must(t, syscall.Kill(s.Components["kube-scheduler"], syscall.SIGKILL))
	gone(t, s.Components)
	for deadline := time.Now().Add(patience); stateOf(t, dir).Phase == "ready" && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	after := stateOf(t, dir)
	if after.Phase != "failed" || !strings.Contains(after.Error, "kube-scheduler ended by itself (signal: killed)") || !strings.Contains(after.Error, "end of its log") {
		t.Errorf("state %+v", after)
	}
}

// TestLabLeavesNothingWhenKilled: kill -9 of the supervisor takes every
// component with it.
func TestLabLeavesNothingWhenKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	if out, err := lab("up", "--dir", dir, "--nodes", "1"); err != nil {
		t.Fatalf("up: %v: %s", err, out)
	}
	s := stateOf(t, dir)
	must(t, syscall.Kill(s.PID, syscall.SIGKILL))
	gone(t, s.Components)
	if after := stateOf(t, dir); after.Phase != "failed" {
		t.Errorf("state %+v", after)
	}
}
