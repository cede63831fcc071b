package slurm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// example runs examples/slurm/malleable.sh with a part, a program of bash, on four CPUs.
func example(t *testing.T, part string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "part"), []byte("#!/bin/bash\n"+part), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, "bash", "../../../examples/slurm/malleable.sh", filepath.Join(dir, "part"))
	cmd.Env = append(os.Environ(), "SLURM_CPUS_ON_NODE=4", "PARTS=10", "DIR="+dir)
	return cmd, dir
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestTheExampleFailsIfAPartFails, whichever it is and whenever it ends, and if there is nothing to do.
func TestTheExampleFailsIfAPartFails(t *testing.T) {
	for _, bad := range []string{"none", "0", "3", "9"} {
		cmd, dir := example(t, `touch $DIR/$PART; [ $PART != `+bad+` ]`)
		err := cmd.Run()
		if ran, _ := filepath.Glob(dir + "/[0-9]"); (exitCode(err) == 0) != (bad == "none") || len(ran) != 10 {
			t.Errorf("part %s fails: %v, %d parts ran; want 10, and an error unless it is none", bad, err, len(ran))
		}
	}
	cmd := exec.Command("bash", "../../../examples/slurm/malleable.sh")
	if out, err := cmd.CombinedOutput(); exitCode(err) != 2 || !strings.Contains(string(out), "usage") {
		t.Errorf("without a command: %v %s", err, out)
	}
}

// TestTheExampleStops: at SIGTERM, the script sends SIGTERM to each part that runs, so that it saves its work, starts no other part, and ends when all have ended.
func TestTheExampleStops(t *testing.T) {
	cmd, dir := example(t, `trap 'sleep 0.2; touch $DIR/saved-$PART; exit 143' TERM; touch $DIR/runs-$PART; while :; do sleep 0.1; done`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	runs := func(what string) int { found, _ := filepath.Glob(dir + "/" + what + "-*"); return len(found) }
	for end := time.Now().Add(time.Minute); runs("runs") < 4 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); exitCode(err) != 143 || runs("runs") != 4 || runs("saved") != 4 {
		t.Errorf("%v; %d parts ran, %d have saved; want 143, 4 and 4", err, runs("runs"), runs("saved"))
	}
}
