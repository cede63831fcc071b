// Package slurmlab runs a Slurm of its own on loopback, for tests and demos: munged, slurmctld and two slurmd, from a folder into which Debian's
// packages were unpacked (make bin/slurm/version). Nothing of this machine's configuration is read or changed. It needs root.
package slurmlab

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lull.dev/lull/internal/base/loopback"
)

// Within bounds every wait for a state. It is longer than any deadline that a test gives a job.
const Within = 15 * time.Minute

// CPUs are those of the cluster, on two nodes, which need not exist: jobs that sleep use none.
const CPUs = 32

// Cluster is a Slurm cluster.
type Cluster struct {
	// Dir has its configuration, state and logs (log), and out, to which every user may write. Root is the folder of the packages.
	Dir, Root string

	lib     string
	ctld    *exec.Cmd
	daemons []*exec.Cmd
	// accounting are those of slurmdbd, and configured what slurm.conf was without it.
	accounting []*exec.Cmd
	configured []byte
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
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
Licenses=power:32,superpower:4
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1,bf_resolution=1,bf_continue,sched_interval=2,sched_min_interval=100000,batch_sched_delay=1,default_queue_depth=1000,bf_max_job_test=1000
ReturnToService=2
KillWait=5
MinJobAge=600
MaxJobCount=20000
JobSubmitPlugins=lua
JobCompType=jobcomp/filetxt
JobCompLoc=%[1]s/log/jobcomp.txt
NodeName=n1 NodeAddr=127.0.0.1 Port=%[4]s CPUs=16 RealMemory=16000 State=UNKNOWN
NodeName=n2 NodeAddr=127.0.0.1 Port=%[5]s CPUs=16 RealMemory=16000 State=UNKNOWN
PartitionName=batch Nodes=n[1-2] Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
PartitionName=green Nodes=n[1-2] MaxTime=INFINITE DefaultTime=60 State=UP
PartitionName=narrow Nodes=n2 MaxTime=INFINITE DefaultTime=60 State=UP
`

// Boot starts a cluster from a folder of packages. The binary of lull writes its job_submit.lua by a configuration (YAML), which is lull.yaml of
// its folder. What was started is returned with an error too: Close ends it.
//
// It sets SLURM_CONF, LD_LIBRARY_PATH and TZ of this process, for the commands of Slurm.
func Boot(from, lull, config string) (*Cluster, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("a Slurm of its own needs root")
	}
	if _, err := os.Stat(filepath.Join(from, "version")); err != nil {
		return nil, fmt.Errorf("the packages of Slurm: %w (make bin/slurm/version fetches them)", err)
	}
	from, err := filepath.Abs(from)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lull-slurm")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, Root: from + "/root", lib: from + "/lib"}
	if err := c.prepare(lull, config); err != nil {
		return c, err
	}
	return c, c.start()
}

// prepare writes what the daemons read.
func (c *Cluster) prepare(lull, config string) error {
	if err := os.Chmod(c.Dir, 0o755); err != nil { // other users submit jobs
		return err
	}
	for _, d := range []string{"state", "log", "spool-n1", "spool-n2", "out"} {
		if err := os.Mkdir(filepath.Join(c.Dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(c.Dir+"/out", 0o777); err != nil {
		return err
	}
	var ports []any
	for range 3 {
		at, err := loopback.FreeAddress()
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(at)
		ports = append(ports, port)
	}
	text := fmt.Appendf(nil, configuration, c.Dir, ports[0], c.lib, ports[1], ports[2])
	if c.hasREST() == nil {
		tokens, err := c.tokens()
		if err != nil {
			return err
		}
		text = append(text, tokens...)
	}
	for name, text := range map[string][]byte{"slurm.conf": text, "lull.yaml": []byte(config)} {
		if err := os.WriteFile(filepath.Join(c.Dir, name), text, 0o644); err != nil {
			return err
		}
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // never fails; who guesses the key could run jobs as root
	if err := os.WriteFile(c.Dir+"/munge.key", key, 0o600); err != nil {
		return err
	}
	os.Setenv("SLURM_CONF", c.Dir+"/slurm.conf")
	os.Setenv("LD_LIBRARY_PATH", c.lib+":"+c.lib+"/slurm-wlm")
	os.Setenv("TZ", "UTC")
	if out, err := exec.Command(lull, "slurm", "install", "--config", c.Dir+"/lull.yaml", "--output", c.Dir+"/job_submit.lua").CombinedOutput(); err != nil {
		return fmt.Errorf("lull slurm install: %w: %s", err, out)
	}
	return nil
}

// start starts the daemons and waits for two idle nodes.
func (c *Cluster) start() error {
	dir := c.Dir
	if _, err := c.daemon("munged", "munged", "--foreground", "--force", "--socket="+dir+"/munge.sock", "--key-file="+dir+"/munge.key", "--pid-file="+dir+"/munged.pid", "--log-file="+dir+"/log/munged.log", "--seed-file="+dir+"/munge.seed"); err != nil {
		return err
	}
	if err := Wait("munged", func() bool { _, err := os.Stat(dir + "/munge.sock"); return err == nil }); err != nil {
		return err
	}
	if err := c.StartController(); err != nil {
		return err
	}
	for _, n := range []string{"n1", "n2"} {
		if err := c.StartNode(n); err != nil {
			return err
		}
	}
	return Wait("two idle nodes", func() bool {
		out, _ := c.Command("sinfo", "-h", "-N", "-o", "%T").Output()
		return strings.Count(string(out), "idle") == 5 // two nodes in two partitions, and one in a third
	})
}

// StartNode starts the slurmd of a node.
func (c *Cluster) StartNode(name string) error {
	_, err := c.daemon("slurmd-"+name, "slurmd-wlm", "-D", "-N", name, "-d", c.Root+"/usr/sbin/slurmstepd-wlm")
	return err
}

// daemon starts a program that ends with this process, however it ends.
func (c *Cluster) daemon(name, program string, args ...string) (*exec.Cmd, error) {
	return c.daemonAs(nil, nil, name, program, args...)
}

// daemonAs is daemon as another user, with more variables.
func (c *Cluster) daemonAs(user *syscall.Credential, variables []string, name, program string, args ...string) (*exec.Cmd, error) {
	file, err := os.OpenFile(c.Dir+"/log/"+name+".out", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command(c.Root+"/usr/sbin/"+program, args...)
	// Debian's programs are called slurmctld-wlm and slurmd-wlm. Slurm's plugins ask for the name by which one was started: under that of the package,
	// accounting_storage/slurmdbd takes slurmctld for a client, opens no connection for it, and slurmctld crashes.
	cmd.Args[0] = strings.TrimSuffix(program, "-wlm")
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: user}
	cmd.Env = append(os.Environ(), variables...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.daemons = append(c.daemons, cmd)
	return cmd, nil
}

// StartController starts slurmctld and waits until it answers.
func (c *Cluster) StartController(args ...string) (err error) {
	if c.ctld, err = c.daemon("slurmctld", "slurmctld-wlm", append([]string{"-D"}, args...)...); err != nil {
		return err
	}
	return Wait("slurmctld", func() bool {
		out, _ := c.Command("scontrol", "ping").Output()
		return strings.Contains(string(out), "is UP")
	})
}

// KillController ends slurmctld as a crash does.
func (c *Cluster) KillController() error {
	if err := c.ctld.Process.Kill(); err != nil {
		return err
	}
	_ = c.ctld.Wait()
	return nil
}

// ControllerTime is the CPU time that slurmctld has taken since it started.
func (c *Cluster) ControllerTime() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.ctld.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name of the program may have spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", c.ctld.Process.Pid, text)
	}
	ticks := 0
	for _, field := range f[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// Close ends all jobs and daemons. The logs are kept in a folder, if one is named.
func (c *Cluster) Close(keep string) {
	_ = c.Command("scancel", "--user=root").Run()
	_ = c.Command("scancel", "--user=nobody").Run()
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
	if keep != "" {
		_ = os.Rename(c.Dir+"/log", keep)
	}
	_ = os.RemoveAll(c.Dir)
}

// Command is a command of Slurm.
func (c *Cluster) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(c.Root+"/usr/bin/"+name, args...)
	cmd.Dir = c.Dir + "/out"
	return cmd
}

// Wait waits until something is so.
func Wait(what string, is func() bool) error {
	for end := time.Now().Add(Within); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v for %s", Within, what)
		}
	}
	return nil
}
