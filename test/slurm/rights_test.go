//go:build slurm

package slurm

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestAControllerWithoutRights changes nothing, says which account is accepted, and keeps no job from its start.
func TestAControllerWithoutRights(t *testing.T) {
	empty(t)
	t.Cleanup(func() { empty(t) })
	log := &buffer{}
	cmd := exec.Command(os.Getenv("LULL_BIN"), "slurm", "controller", "--slurm-bin", lab.root+"/usr/bin", "--config", lab.configFile(), "--zone", "DE", "--interval", "1s")
	cmd.Dir, cmd.Stderr = lab.dir+"/out", log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &lull{cmd: cmd, log: log}
	t.Cleanup(l.kill)
	id := submit(t, "sleep 1", "--comment=lull:max-delay=10m,runtime=4s") // of root
	if err := wait("the controller to say that it has no rights", func() bool { return strings.Contains(log.String(), "AdminLevel=Operator") }); err != nil {
		t.Errorf("%v: %s", err, log)
	}
	until(t, id, "completed", completed) // after the grace period
}
