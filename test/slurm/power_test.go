//go:build slurm

package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestNodesThatSlurmSwitchesOffAreCapacity: a node is switched off to save power. A job that needs both nodes is planned, waits for clean power, and Slurm starts the
// node for it.
func TestNodesThatSlurmSwitchesOffAreCapacity(t *testing.T) {
	empty(t)
	savesPower(t, never)
	must(t, "scontrol", "update", "NodeName=n2", "State=POWER_DOWN")
	stateOf := func() string { return strings.Fields(must(t, "sinfo", "-h", "--nodes=n2", "-o", "%T"))[0] }
	if err := wait("the node to be off", func() bool { return stateOf() == "idle~" }); err != nil {
		t.Fatalf("%v: %s", err, stateOf())
	}
	l := controller(t, curve(t, [2]time.Duration{9 * time.Minute, 15 * time.Minute}))
	// Together they need all CPUs of both nodes.
	small := submit(t, "sleep 1", "--comment=lull:max-delay=10m,runtime=4s", "-n16", "-N1")
	large := submit(t, "sleep 1", "--comment=lull:max-delay=10m,runtime=4s", "-n32", "-N2")
	until(t, large, "planned", planned)
	if text := explain(t, large); !strings.Contains(text, "latest safe start") {
		t.Errorf("explain: %s", text)
	}
	l.kill()
	controller(t, curve(t, [2]time.Duration{0, 15 * time.Minute})) // power is clean now
	for _, id := range []string{small, large} {
		until(t, id, "completed", completed)
	}
	if state := stateOf(); state != "idle" && state != "mixed" && state != "allocated" {
		t.Errorf("the node is %s after the job", state)
	}
}

// TestCapacitySwitchesNodesOff: a capacity that needs one node leaves the other idle, so Slurm's own power saving switches it off. When the capacity rises, the
// jobs that may start then need it, and Slurm starts it for them.
func TestCapacitySwitchesNodesOff(t *testing.T) {
	empty(t)
	const soon = 5 * time.Second
	savesPower(t, soon)
	config := boundedBy(t, "{schedule: [{from: '00:00', to: '24:00', capacity: '8'}]}", "")
	clean := curve(t, [2]time.Duration{-time.Minute, time.Hour})
	l := controller(t, clean, "--config", config)
	var ids []string
	for range 3 {
		ids = append(ids, submit(t, "sleep 60", "--comment=lull:max-delay=20h,runtime=1m", "-n8", "-N1"))
	}
	stateOf := func() string { return strings.Fields(must(t, "sinfo", "-h", "--nodes=n2", "-o", "%T"))[0] }
	running := func() (n int, nodes string) {
		for _, id := range ids {
			if j := show(t, id); j["JobState"] == "RUNNING" {
				n, nodes = n+1, nodes+" "+j["NodeList"]
			}
		}
		return n, nodes
	}
	if err := wait("the node that the capacity does not need to be off, while a job runs", func() bool {
		n, _ := running()
		return n == 1 && stateOf() == "idle~"
	}); err != nil {
		n, nodes := running()
		t.Fatalf("%v: it is %s; %d jobs run on%s\n%s", err, stateOf(), n, nodes, l.log)
	}
	l.kill()
	config = boundedBy(t, "{schedule: [{from: '00:00', to: '24:00', capacity: '24'}]}", "")
	for range 3 {
		ids = append(ids, submit(t, "sleep 60", "--comment=lull:max-delay=20h,runtime=1m", "-n8", "-N1"))
	}
	l = controller(t, clean, "--config", config)
	if err := wait("a job to run on the node that was off", func() bool {
		_, nodes := running()
		return strings.Contains(nodes, "n2")
	}); err != nil {
		n, nodes := running()
		t.Fatalf("%v: it is %s; %d jobs run on%s\n%s", err, stateOf(), n, nodes, l.log)
	}
	for _, id := range ids {
		must(t, "scancel", id)
	}
}

// never is a SuspendTime that does not come.
const never = 100_000_000 * time.Second

// savesPower lets Slurm switch n2 off when it is told to, or when it was idle for a time. n2 starts again by a program, as a machine does.
func savesPower(t *testing.T, idle time.Duration) {
	t.Helper()
	file := lab.dir + "/slurm.conf"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	// The programs run without a standard error: slurmd would take its number for a socket.
	head := fmt.Sprintf("#!/bin/bash\nexec </dev/null >>%s/log/power.out 2>&1\nexport LD_LIBRARY_PATH=%s SLURM_CONF=%s TZ=UTC\n", lab.dir, os.Getenv("LD_LIBRARY_PATH"), file)
	write(lab.dir+"/suspend", head+fmt.Sprintf("kill $(cat %s/slurmd-n2.pid)\n", lab.dir), 0o755)
	write(lab.dir+"/resume", head+fmt.Sprintf("%[1]s/usr/sbin/slurmd-wlm -N n2 -b -d %[1]s/usr/sbin/slurmstepd-wlm\n", lab.root), 0o755)
	write(file, string(before)+fmt.Sprintf("SuspendProgram=%[1]s/suspend\nResumeProgram=%[1]s/resume\nSuspendTime=%[2]d\nSuspendExcNodes=n1\nSuspendTimeout=5\nResumeTimeout=120\n", lab.dir, int(idle/time.Second)), 0o644)
	must(t, "scontrol", "reconfigure")
	t.Cleanup(func() {
		// slurmd was started by the program: it does not end with this process.
		if out, err := exec.Command("bash", "-c", fmt.Sprintf("kill -KILL $(cat %s/slurmd-n2.pid)", lab.dir)).CombinedOutput(); err != nil {
			t.Logf("%v: %s", err, out)
		}
		write(file, string(before), 0o644)
		must(t, "scontrol", "reconfigure")
		if err := lab.StartNode("n2"); err != nil {
			t.Fatal(err)
		}
		_ = lab.command("scontrol", "update", "NodeName=n2", "State=RESUME").Run()
		registered(t)
	})
}
