//go:build slurm

package slurm

import (
	"strings"
	"testing"
	"time"

	capacity "lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/workload"
)

// TestCarbonFlexSizesJobs: CarbonFlex sets how many licences there are this hour (Algorithm 2), and the number of tasks of a job within them (Algorithm 3). In a dirty hour
// there are two: a job of eight tasks runs with two of them, and has two licences. In a clean hour another one gets more. A job whose licences an operator has lowered keeps
// its tasks and these licences.
func TestCarbonFlexSizesJobs(t *testing.T) {
	empty(t)
	time.Sleep(untilItHasTime(time.Now()))
	state := twoWeeks(t, capacity.Past{Kind: workload.Elastic, Request: map[string]float64{slurm.LicenceResource: 1}, MinWorkers: 2, Curve: []float64{2, 1, 1, 1, 1, 1, 1}})
	config := boundedBy(t, "{carbonFlex: {}}\n  minimum: 2", state)
	flags := []string{"--config", config, "--planner", "carbonflex", "--slot", "5m"}
	dirty := days(t)
	learns(t, state, dirty, flags...).kill()

	malleable := func() string {
		return asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "-n8", "-N1", "--requeue", "--time=12:00:00", "--licenses=superpower:1", "--comment=lull:max-delay=20h,runtime=1h,interruptible,min-tasks=2,restart=3s", "--wrap", "sleep 3600")
	}
	follows := func(j job) bool {
		return j["Licenses"] == "superpower:1,power:"+j["NumTasks"] && j["NumCPUs"] == j["NumTasks"]
	}
	l := controller(t, dirty, flags...)
	id := malleable()
	if j := until(t, id, "running", running); j["NumTasks"] != "2" || !follows(j) {
		t.Errorf("while power is dirty, it runs with %s tasks, %s CPUs and %s: %s", j["NumTasks"], j["NumCPUs"], j["Licenses"], j["AdminComment"])
	}
	if n, used := reserved(t); used != 2 || n != 30 {
		t.Errorf("%d licences are reserved and %d used; want 30 and 2 of 32", n, used)
	}
	if text := explain(t, id, "--config", config); !strings.Contains(text, "with 2 of its 8 tasks") {
		t.Errorf("explain: %s", text)
	}
	lowered := malleable()
	sized := until(t, lowered, "sized", func(j job) bool { return planned(j) && strings.Contains(j["AdminComment"], "user=8") })
	must(t, "scontrol", "update", "JobId="+lowered, "Licenses=superpower:1,power:1")
	if j := until(t, lowered, "one with all of its tasks", func(j job) bool { return j["NumTasks"] == "8" }); j["Licenses"] != "superpower:1,power:1" {
		t.Errorf("an operator has lowered the licences of a job to 1; it has %s", j["Licenses"])
	}
	why := "its licences did not follow another number"
	if sized["NumTasks"] == "8" { // by its plan: it had all of its tasks
		why = "one licence of the capacity for each of its CPUs"
	}
	if text := explain(t, lowered, "--config", config); !strings.Contains(text, why) {
		t.Errorf("with %s tasks by its plan: explain: %s; want %q", sized["NumTasks"], text, why)
	}
	l.kill()

	controller(t, daysFrom(t, 0), flags...)
	other := submit(t, "sleep 3600", "-n8", "-N1", "--requeue", "--time=12:00:00", "--licenses=superpower:1", "--comment=lull:max-delay=20h,runtime=1h,interruptible,min-tasks=2,restart=3s") // of the account of the controller
	if j := until(t, other, "running", running); j["NumTasks"] == "2" || !follows(j) {
		t.Errorf("while power is clean, it runs with %s tasks, %s CPUs and %s: %s", j["NumTasks"], j["NumCPUs"], j["Licenses"], j["AdminComment"])
	}
	if j := show(t, id); running(j) && !follows(j) {
		t.Errorf("the first job has %s tasks, %s CPUs and %s: %s", j["NumTasks"], j["NumCPUs"], j["Licenses"], j["AdminComment"])
	}
}

// TestARequeueForMoreTasksTakesTheirLicences: under a capacity, a job runs with two tasks and two licences while power is dirty. When it becomes clean, the job is requeued,
// and goes on with more of both. The delay is longer than without a capacity, as a dead controller would leave licences reserved for 6 minutes.
func TestARequeueForMoreTasksTakesTheirLicences(t *testing.T) {
	empty(t)
	config := boundedBy(t, `{schedule: [{from: "00:00", to: "24:00", capacity: "24"}]}`, "")
	l := controller(t, curve(t), "--config", config)
	id, dir := malleableWithin(t, "1000s")
	cleaner(t, id, l, "--config", config)
	until(t, id, "running with more tasks", func(j job) bool {
		if j["Licenses"] != "power:"+j["NumCPUs"] || j["NumTasks"] != j["NumCPUs"] {
			t.Errorf("%s tasks, %s CPUs and %s: %s", j["NumTasks"], j["NumCPUs"], j["Licenses"], j["AdminComment"])
			return true
		}
		return running(j) && j["Restarts"] == "1" && j["NumTasks"] != "2"
	})
	if runs := checkRuns(t, id, dir); len(runs) < 2 || runs[0].cpus != 2 || runs[1].cpus <= 2 {
		t.Errorf("%+v; want a run with 2 tasks, and one with more", runs)
	}
}
