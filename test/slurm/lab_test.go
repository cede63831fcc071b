//go:build slurm

// Package slurm tests lull slurm on a real Slurm: munged, slurmctld and two slurmd on loopback, started from a folder into which
// Debian's packages were unpacked (make test-slurm). Nothing of this machine's configuration is read or changed.
package slurm

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lull.dev/lull/internal/base/loopback"
)

// within bounds every wait for a state.
const within = 3 * time.Minute

// lab is the cluster of all tests, which run one after another.
var lab *cluster

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getuid() != 0 || os.Getenv("LULL_SLURM") == "" || os.Getenv("LULL_BIN") == "" {
			fmt.Fprintln(os.Stderr, "This suite needs root, LULL_SLURM and LULL_BIN; run it with: make test-slurm")
			return 1
		}
		c, err := boot()
		if c != nil {
			defer c.close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "Slurm does not start:", err)
			return 1
		}
		lab = c
		return m.Run()
	}())
}

// cluster is a Slurm cluster of two nodes with 16 CPUs each, which need not exist: jobs that sleep use none.
type cluster struct {
	dir, root, lib string
	ctld           *exec.Cmd
	daemons        []*exec.Cmd
}

const configuration = `ClusterName=lull
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=%[2]s
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge.sock
CredType=cred/munge
PluginDir=%[3]s/slurm-wlm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool-%%n
SlurmdPidFile=%[1]s/slurmd-%%n.pid
SlurmctldPidFile=%[1]s/slurmctld.pid
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_continue,sched_interval=2,sched_min_interval=100000,batch_sched_delay=1,default_queue_depth=1000,bf_max_job_test=1000
ReturnToService=2
KillWait=5
MinJobAge=600
JobSubmitPlugins=lua
NodeName=n1 NodeAddr=127.0.0.1 Port=%[4]s CPUs=16 RealMemory=16000 State=UNKNOWN
NodeName=n2 NodeAddr=127.0.0.1 Port=%[5]s CPUs=16 RealMemory=16000 State=UNKNOWN
PartitionName=batch Nodes=n[1-2] Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
PartitionName=green Nodes=n[1-2] MaxTime=INFINITE DefaultTime=60 State=UP
`

// boot starts the cluster. What was started is returned with an error too.
func boot() (*cluster, error) {
	from := os.Getenv("LULL_SLURM")
	dir, err := os.MkdirTemp("", "lull-slurm")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, root: from + "/root", lib: from + "/lib"}
	if err := os.Chmod(dir, 0o755); err != nil { // other users submit jobs
		return c, err
	}
	for _, d := range []string{"state", "log", "spool-n1", "spool-n2", "out"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return c, err
		}
	}
	if err := os.Chmod(dir+"/out", 0o777); err != nil {
		return c, err
	}
	var ports []any
	for range 3 {
		at, err := loopback.FreeAddress()
		if err != nil {
			return c, err
		}
		_, port, _ := net.SplitHostPort(at)
		ports = append(ports, port)
	}
	if err := os.WriteFile(dir+"/slurm.conf", fmt.Appendf(nil, configuration, dir, ports[0], c.lib, ports[1], ports[2]), 0o644); err != nil {
		return c, err
	}
	if err := os.WriteFile(dir+"/munge.key", bytes.Repeat([]byte(fmt.Sprint(time.Now().UnixNano())), 64)[:1024], 0o600); err != nil {
		return c, err
	}
	os.Setenv("SLURM_CONF", dir+"/slurm.conf")
	os.Setenv("LD_LIBRARY_PATH", c.lib+":"+c.lib+"/slurm-wlm")
	os.Setenv("TZ", "UTC")
	if out, err := exec.Command(os.Getenv("LULL_BIN"), "slurm", "install", "--config", c.configFile(), "--output", dir+"/job_submit.lua").CombinedOutput(); err != nil {
		return c, fmt.Errorf("lull slurm install: %w: %s", err, out)
	}
	if _, err := c.daemon("munged", "munged", "--foreground", "--force", "--socket="+dir+"/munge.sock", "--key-file="+dir+"/munge.key", "--pid-file="+dir+"/munged.pid", "--log-file="+dir+"/log/munged.log", "--seed-file="+dir+"/munge.seed"); err != nil {
		return c, err
	}
	if err := wait("munged", func() bool { _, err := os.Stat(dir + "/munge.sock"); return err == nil }); err != nil {
		return c, err
	}
	if err := c.startController(); err != nil {
		return c, err
	}
	for _, n := range []string{"n1", "n2"} {
		if _, err := c.daemon("slurmd-"+n, "slurmd-wlm", "-D", "-N", n, "-d", c.root+"/usr/sbin/slurmstepd-wlm"); err != nil {
			return c, err
		}
	}
	return c, wait("two idle nodes", func() bool {
		out, _ := c.command("sinfo", "-h", "-N", "-o", "%T").Output()
		return strings.Count(string(out), "idle") == 4 // two nodes in two partitions
	})
}

// configFile is what the administrator states.
func (c *cluster) configFile() string {
	name := c.dir + "/lull.yaml"
	if _, err := os.Stat(name); err != nil {
		_ = os.WriteFile(name, []byte("grace: 8s\nmargin: 10s\ndefaults:\n- partition: green\n  maxDelay: 1m\n  runtime: 4s\n"), 0o644)
	}
	return name
}

// daemon starts a program that ends with the tests, however they end.
func (c *cluster) daemon(name, program string, args ...string) (*exec.Cmd, error) {
	file, err := os.OpenFile(c.dir+"/log/"+name+".out", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(c.root+"/usr/sbin/"+program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.daemons = append(c.daemons, cmd)
	return cmd, nil
}

// startController starts slurmctld and waits until it answers.
func (c *cluster) startController(args ...string) (err error) {
	if c.ctld, err = c.daemon("slurmctld", "slurmctld-wlm", append([]string{"-D"}, args...)...); err != nil {
		return err
	}
	return wait("slurmctld", func() bool {
		out, _ := c.command("scontrol", "ping").Output()
		return strings.Contains(string(out), "is UP")
	})
}

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
	if err := c.ctld.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.ctld.Wait()
}

func (c *cluster) close() {
	_ = c.command("scancel", "--user=root").Run()
	_ = c.command("scancel", "--user=nobody").Run()
	for i := len(c.daemons) - 1; i >= 0; i-- {
		_ = c.daemons[i].Process.Signal(syscall.SIGTERM)
	}
	for _, d := range c.daemons {
		ended := make(chan struct{})
		go func() { _ = d.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = d.Process.Kill()
		}
	}
	if keep := os.Getenv("LULL_SLURM_LOGS"); keep != "" {
		_ = os.Rename(c.dir+"/log", keep)
	}
	_ = os.RemoveAll(c.dir)
}

// command is a command of Slurm.
func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(c.root+"/usr/bin/"+name, args...)
	cmd.Dir = c.dir + "/out"
	return cmd
}

// wait waits until something is so.
func wait(what string, is func() bool) error {
	for end := time.Now().Add(within); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v for %s", within, what)
		}
	}
	return nil
}
