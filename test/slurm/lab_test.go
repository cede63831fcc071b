//go:build slurm

// Package slurm tests lull slurm on a real Slurm: munged, slurmctld and two slurmd on loopback (make test-slurm). Nothing of this machine's
// configuration is read or changed.
package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"lull.dev/lull/internal/studies/slurmlab"
)

// lab is the cluster of all tests, which run one after another.
var lab *cluster

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getuid() != 0 || os.Getenv("LULL_SLURM") == "" || os.Getenv("LULL_BIN") == "" {
			fmt.Fprintln(os.Stderr, "This suite needs root, LULL_SLURM and LULL_BIN; run it with: make test-slurm")
			return 1
		}
		if err := readable(os.Getenv("LULL_BIN"), os.Getenv("LULL_SLURM")+"/version"); err != nil {
			fmt.Fprintln(os.Stderr, "Slurm does not start:", err)
			return 1
		}
		c, err := slurmlab.Boot(os.Getenv("LULL_SLURM"), os.Getenv("LULL_BIN"), "grace: 8s\nmargin: 10s\ndefaults:\n- partition: green\n  maxDelay: 1m\n  runtime: 4s\n")
		if c != nil {
			defer c.Close(os.Getenv("LULL_SLURM_LOGS"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "Slurm does not start:", err)
			return 1
		}
		lab = &cluster{c, c.Dir, c.Root}
		return m.Run()
	}())
}

// readable checks that user nobody may read files: the tests run lull and the commands of Slurm as this user too.
func readable(files ...string) error {
	for _, file := range files {
		cmd := exec.Command("test", "-r", file)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("user nobody may not read %s; accepted: files in folders that every user may read", file)
		}
	}
	return nil
}

// cluster is the cluster of the tests.
type cluster struct {
	*slurmlab.Cluster
	dir, root string
}

// configFile is what the administrator states.
func (c *cluster) configFile() string { return c.dir + "/lull.yaml" }

func (c *cluster) startController() error { return c.StartController() }

// saved waits until slurmctld has saved its state: a crash loses what it was told in the seconds before.
func (c *cluster) saved(t *testing.T) {
	t.Helper()
	since := time.Now()
	if err := wait("slurmctld to save its state", func() bool {
		info, err := os.Stat(c.dir + "/state/job_state")
		return err == nil && info.ModTime().After(since)
	}); err != nil {
		t.Fatal(err)
	}
}

// stopController ends slurmctld as a crash does.
func (c *cluster) stopController(t *testing.T) {
	t.Helper()
	if err := c.KillController(); err != nil {
		t.Fatal(err)
	}
}

// command is a command of Slurm.
func (c *cluster) command(name string, args ...string) *exec.Cmd { return c.Command(name, args...) }

// wait waits until something is so.
func wait(what string, is func() bool) error { return slurmlab.Wait(what, is) }
