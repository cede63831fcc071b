//go:build slurm

package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// work is a program whose speed follows Amdahl's law, with nine tenths of the work side by side. It saves what it has done when it gets SIGTERM, and only then, and notes each
// run: the CPUs that it has, and what was done at its begin and end. It is done when it has done what 8 tasks do in 120 s.
const work = `#!/bin/bash
dir=$1
n=$SLURM_CPUS_ON_NODE
done=$(cat $dir/saved 2>/dev/null || echo 0)
began=$done
trap 'echo $done > $dir/saved; echo "$n $began $done $(date +%s) stopped" >> $dir/runs; exit 143' TERM
while [ $done -lt 1129200 ]; do
	sleep 0.5 & wait $!
	done=$((done + 10000 * n / (n + 9)))
done
echo "$n $began $done $(date +%s) ended" >> $dir/runs
`

// aRun is a line of the runs of work.
type aRun struct {
	cpus, began, done int
	how               string
}

func runsOf(t *testing.T, dir string) (out []aRun) {
	t.Helper()
	text, _ := os.ReadFile(filepath.Join(dir, "runs"))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 5 {
			t.Fatalf("%q", line)
		}
		n := [3]int{}
		for i := range n {
			n[i], _ = strconv.Atoi(f[i])
		}
		out = append(out, aRun{n[0], n[1], n[2], f[4]})
	}
	return out
}

// malleable submits work as a job of 8 tasks that may have 2. It is to end within 720 s; with 2 tasks, it takes 311 s.
func malleable(t *testing.T) (id, dir string) {
	t.Helper()
	return malleableWithin(t, "600s")
}

// malleableWithin is malleable with another delay.
func malleableWithin(t *testing.T, delay string) (id, dir string) {
	t.Helper()
	dir = open(t)
	if err := os.WriteFile(dir+"/work", []byte(work), 0o755); err != nil {
		t.Fatal(err)
	}
	return submit(t, "exec "+dir+"/work "+dir+" 2>>"+dir+"/errors", "-n8", "-N1", "--requeue", "--time=30", "--comment=lull:max-delay="+delay+",runtime=120s,interruptible,min-tasks=2,restart=3s,parallel=0.9"), dir
}

// cleaner waits until a job runs with few of its tasks, and has power become clean for some minutes, which no forecast has said before. A new controller reads that:
// one that runs reads the file every half hour.
func cleaner(t *testing.T, id string, l *lull, args ...string) *lull {
	t.Helper()
	until(t, id, "running with fewer tasks", func(j job) bool { return running(j) && j["NumCPUs"] == "2" })
	if text := explain(t, id); !strings.Contains(text, "with 2 of its 8 tasks") {
		t.Errorf("explain: %s", text)
	}
	l.kill()
	return controller(t, curve(t, [2]time.Duration{0, 210 * time.Second}), args...)
}

// checkRuns fails unless a job has completed in time, each run of it went on from where the one before had stopped, and none had more CPUs than its user asked for.
func checkRuns(t *testing.T, id, dir string) []aRun {
	t.Helper()
	submitted := show(t, id).at(t, "SubmitTime")
	if m := slurm.ReadMark(show(t, id)["AdminComment"]); !m.Since.IsZero() {
		submitted = m.Since
	}
	j := until(t, id, "completed", completed)
	runs := runsOf(t, dir)
	if text, _ := os.ReadFile(dir + "/errors"); len(text) > 0 {
		t.Logf("%s", text)
	}
	t.Logf("runs: %+v", runs)
	if took := j.at(t, "EndTime").Sub(submitted); took > 720*time.Second+lag {
		t.Errorf("it took %v; want 720 s at most", took)
	}
	for k, r := range runs {
		if k > 0 && r.began != runs[k-1].done || k == 0 && r.began != 0 || (r.how == "ended") != (k == len(runs)-1) || r.cpus < 2 || r.cpus > 8 {
			t.Errorf("run %d: %+v", k, r)
		}
	}
	return runs
}

// TestPowerThatBecomesCleanMakesAJobLarger: while power is dirty, a job has two tasks. When it becomes clean, the job saves its work at SIGTERM, is requeued, and goes on
// with more tasks. It is not requeued again and again.
func TestPowerThatBecomesCleanMakesAJobLarger(t *testing.T) {
	empty(t)
	l := controller(t, curve(t))
	id, dir := malleable(t)
	cleaner(t, id, l)
	until(t, id, "requeued", func(j job) bool { return j["Restarts"] == "1" })
	runs := checkRuns(t, id, dir)
	if len(runs) < 2 || len(runs) > 4 || runs[0].cpus != 2 || runs[1].cpus <= 2 || runs[0].done == 0 {
		t.Errorf("%+v; want a run with 2 tasks, one with more, and at most two others", runs)
	}
}

// TestLullIsKilledBesideARequeue for another size: before it, after the mark was written, or after it. The job goes on, and the next controller knows what was done.
func TestLullIsKilledBesideARequeue(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			empty(t)
			bin := t.TempDir()
			for _, name := range []string{"sinfo", "squeue", "sacct"} {
				if err := os.Symlink(filepath.Join(lab.root, "usr/bin", name), filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
			}
			scontrol := fmt.Sprintf("#!/bin/bash\nif [ \"$1\" = requeue ]; then\n\tif [ %[2]s = after ]; then %[1]s/scontrol \"$@\"; fi\n\tkill -9 $PPID\n\texit 1\nfi\nexec %[1]s/scontrol \"$@\"\n", lab.root+"/usr/bin", when)
			if err := os.WriteFile(filepath.Join(bin, "scontrol"), []byte(scontrol), 0o755); err != nil {
				t.Fatal(err)
			}
			l := controller(t, curve(t))
			id, dir := malleable(t)
			l = cleaner(t, id, l, "--slurm-bin", bin)
			until(t, id, "about to be requeued", func(j job) bool { return strings.Contains(j["AdminComment"], "phase=pausing") })
			_ = l.cmd.Wait() // it has killed itself
			controller(t, curve(t, [2]time.Duration{0, 2 * time.Minute}))
			checkRuns(t, id, dir)
		})
	}
}

// TestSizeOfAUserCounts: who changes the number of tasks that Lull has set has it, from then on.
func TestSizeOfAUserCounts(t *testing.T) {
	empty(t)
	controller(t, curve(t, [2]time.Duration{0, 20 * time.Minute}))
	full := submit(t, "sleep 600", "-n32")
	until(t, full, "running", running)
	id := submit(t, "sleep 5", "-n8", "-N1", "--requeue", "--time=30", "--comment=lull:max-delay=10m,runtime=20s,interruptible,min-tasks=2,restart=3s,parallel=0.5")
	j := until(t, id, "of fewer tasks", func(j job) bool { return j["NumTasks"] != "8" && strings.Contains(j["AdminComment"], "user=8 each=1") })
	if j["NumTasks"] != j["NumCPUs"] {
		t.Errorf("%s tasks with %s CPUs", j["NumTasks"], j["NumCPUs"])
	}
	must(t, "scontrol", "update", "JobId="+id, "NumTasks=7", "NumCPUs=7")
	until(t, id, "left alone", func(j job) bool { return strings.Contains(j["AdminComment"], "tasks=own") })
	must(t, "scancel", full)
	if j := until(t, id, "completed", completed); j["NumTasks"] != "7" {
		t.Errorf("%s tasks; want 7, as its user says", j["NumTasks"])
	}
}

// TestSlurmRefusesASize: Slurm refuses another number of tasks, as job_submit.lua, limits of a QOS, or --ntasks-per-node may have it do. The job keeps those that it has, is released as planned, is never requeued
// for it, and lull slurm explain says why.
func TestSlurmRefusesASize(t *testing.T) {
	empty(t)
	controller(t, curve(t))
	good, replace := script(t)
	refusing := strings.Replace(good, "function slurm_job_modify(", "function slurm_job_modify(job_desc)\n	if job_desc.num_tasks ~= slurm.NO_VAL then\n		return slurm.ERROR\n	end\n	return slurm.SUCCESS\nend\n\nfunction unused(", 1)
	if refusing == good {
		t.Fatal("the script has changed: adapt this test")
	}
	replace(refusing)
	id, dir := malleable(t)
	until(t, id, "running, and kept as it is", func(j job) bool { return running(j) && strings.Contains(j["AdminComment"], "tasks=refused") })
	if text := explain(t, id); !strings.Contains(text, "Slurm has refused another one") {
		t.Errorf("explain: %s", text)
	}
	if runs := checkRuns(t, id, dir); len(runs) != 1 || runs[0].cpus != 8 {
		t.Errorf("%+v; want a run with all 8 tasks", runs)
	}
}

// TestTheExampleGoesOnWithAnotherNumberOfTasks: examples/slurm/malleable.sh with the worker of examples/worker is requeued and gets more tasks. Its result is that of a
// job that was not stopped.
func TestTheExampleGoesOnWithAnotherNumberOfTasks(t *testing.T) {
	empty(t)
	dir := open(t)
	build := exec.Command("go", "build", "-o", dir+"/worker", "lull.dev/lull/examples/worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script, err := filepath.Abs("../../examples/slurm/malleable.sh")
	if err != nil {
		t.Fatal(err)
	}
	start := func(name string, tasks int) string {
		if err := os.Mkdir(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
		return must(t, "sbatch", "--parsable", fmt.Sprintf("-n%d", tasks), "--time=30", "--comment=none", "--export=ALL,PARTS=5", "--output="+dir+"/"+name+".out", script,
			dir+"/worker", "--steps", "6000000", "--checkpoints", dir+"/"+name)
	}
	id := start("stopped", 2)
	if err := wait("a checkpoint", func() bool {
		text, _ := os.ReadFile(dir + "/stopped.out")
		return strings.Count(string(text), "start") >= 2
	}); err != nil {
		t.Fatal(err)
	}
	must(t, "scontrol", "requeue", "Incomplete", id)
	until(t, id, "pending", func(j job) bool { return j.state() == "PENDING" })
	time.Sleep(5 * time.Second) // see settles of internal/cluster/slurm
	must(t, "scontrol", "update", "JobId="+id, "NumTasks=4", "NumCPUs=4", "StartTime=now")
	until(t, id, "completed", completed)
	until(t, start("whole", 8), "completed", completed)
	log, err := os.ReadFile(dir + "/stopped.out")
	if err != nil || !strings.Contains(string(log), `"event":"interrupted"`) {
		t.Errorf("it was not interrupted: %s %v", log, err)
	}
	for part := range 5 {
		name := fmt.Sprintf("/part-%d.json", part)
		got, err := os.ReadFile(dir + "/stopped" + name)
		want, err2 := os.ReadFile(dir + "/whole" + name)
		if err != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("part %d: %s, %v; want %s, %v", part, got, err, want, err2)
		}
	}
}

// TestJobsWithWholeNodesKeepTheirTasks: --exclusive, or a partition with OverSubscribe=EXCLUSIVE, gives a job whole nodes, whatever its number of tasks.
func TestJobsWithWholeNodesKeepTheirTasks(t *testing.T) {
	empty(t)
	must(t, "scontrol", "update", "PartitionName=narrow", "OverSubscribe=EXCLUSIVE")
	t.Cleanup(func() { must(t, "scontrol", "update", "PartitionName=narrow", "OverSubscribe=NO") })
	controller(t, curve(t, [2]time.Duration{20 * time.Minute, 30 * time.Minute}))
	with := func(args ...string) string {
		return submit(t, "sleep 1", append(args, "-n8", "-N1", "--requeue", "--time=60", "--comment=lull:max-delay=30m,runtime=2m,interruptible,min-tasks=2,restart=3s,parallel=0.5")...)
	}
	for _, id := range []string{with("--exclusive"), with("--partition=narrow")} {
		j := until(t, id, "planned", planned)
		if text := explain(t, id); !strings.Contains(text, "it gets whole nodes") || j["NumTasks"] != "8" || strings.Contains(j["AdminComment"], "user=") {
			t.Errorf("%s tasks: %s\nexplain: %s", j["NumTasks"], j["AdminComment"], text)
		}
	}
	id := with()
	if j := until(t, id, "planned", planned); !strings.Contains(j["AdminComment"], "user=8") || strings.Contains(explain(t, id), "whole nodes") {
		t.Errorf("a job that shares its node is not sized: %s", j["AdminComment"])
	}
}
