//go:build slurm

package slurm

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// lag is what Slurm adds on a busy machine between a begin time that has come and the start.
const lag = 20 * time.Second

// TestJobsOfADayWaitForCleanPower: 40 jobs are submitted in the first dirty seconds. All may wait, half of them until it is clean; beside them
// jobs that may not wait. No job has a begin time after its latest safe start, and what can be clean is. The begin times count, not the starts: on a
// busy machine Slurm starts jobs late.
func TestJobsOfADayWaitForCleanPower(t *testing.T) {
	empty(t)
	from := 60 * time.Second
	file := curve(t, [2]time.Duration{from, 10 * time.Minute})
	clean := time.Now().Add(from)
	controller(t, file)
	delays := map[string]time.Duration{}
	could := map[string]bool{} // it may wait until it is clean
	var others []string
	for i := range 40 {
		delay := 20 * time.Second
		if i%2 == 0 {
			delay = 110 * time.Second
		}
		id := submit(t, "sleep 3", fmt.Sprintf("--comment=lull:max-delay=%ds,runtime=4s", int(delay/time.Second)), "-n2")
		delays[id], could[id] = delay, i%2 == 0
		if i%8 == 0 {
			others = append(others, submit(t, "sleep 1", "-n1"))
		}
	}
	last := begins(t)
	for id, delay := range delays {
		j := show(t, id)
		for _, begin := range last[id] {
			if latest := j.at(t, "SubmitTime").Add(delay); begin.After(latest) {
				t.Errorf("job %s had the begin time %v, %v after its latest safe start", id, begin, begin.Sub(latest))
			}
		}
	}
	for _, id := range others {
		if len(last[id]) > 0 {
			t.Errorf("job %s may not wait, and had the begin time %v", id, last[id])
		}
	}
	cleanly, able := 0, 0
	for id, is := range could {
		j, all := show(t, id), last[id]
		if !is || !j.at(t, "SubmitTime").Before(clean) {
			continue
		}
		if able++; len(all) > 0 && !all[len(all)-1].Before(clean.Add(-time.Second)) {
			cleanly++
		}
	}
	t.Logf("%d of %d jobs that could begin in clean seconds did", cleanly, able)
	if able == 0 || cleanly < able*8/10 {
		t.Errorf("%d of %d jobs that could begin in clean seconds did; want 8 of 10", cleanly, able)
	}
}

// begins watches the queue until it is empty, and returns the begin times to come that each had while it was pending.
func begins(t *testing.T) map[string][]time.Time {
	t.Helper()
	out := map[string][]time.Time{}
	if err := wait("all jobs to complete", func() bool {
		pending := must(t, "squeue", "-h", "--states=PENDING", "-O", "JobID:12,EligibleTime:20")
		now := time.Now()
		for _, line := range strings.Split(pending, "\n") {
			f := strings.Fields(line)
			if len(f) != 2 {
				continue
			}
			begin, err := time.Parse("2006-01-02T15:04:05", f[1])
			if all := out[f[0]]; err == nil && begin.After(now) && (len(all) == 0 || !all[len(all)-1].Equal(begin)) {
				out[f[0]] = append(all, begin)
			}
		}
		return pending == "" && must(t, "squeue", "-h") == ""
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEachJobStartsInTimeWithoutLull: Lull is killed after it has planned. The jobs start by themselves, not at once and not late; one that is
// submitted then starts when the grace period ends.
func TestEachJobStartsInTimeWithoutLull(t *testing.T) {
	empty(t)
	l := controller(t, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}, [2]time.Duration{30 * time.Second, 36 * time.Second}))
	var ids []string
	for range 4 {
		ids = append(ids, submit(t, "sleep 1", "--comment=lull:max-delay=45s,runtime=4s", "-n8"))
	}
	for _, id := range ids {
		until(t, id, "planned", planned)
	}
	l.kill()
	alone := submit(t, "sleep 1", "--comment=lull:max-delay=5m,runtime=4s")
	for _, id := range ids {
		j := until(t, id, "completed", completed)
		wait := j.at(t, "StartTime").Sub(j.at(t, "SubmitTime"))
		if wait < 10*time.Second || wait > 45*time.Second+lag {
			t.Errorf("job %s waited %v; want a plan to be followed, and 45 s at most", id, wait)
		}
	}
	j := until(t, alone, "completed", completed)
	if wait := j.at(t, "StartTime").Sub(j.at(t, "SubmitTime")); wait < 6*time.Second || wait > 8*time.Second+lag {
		t.Errorf("a job that Lull has not seen waited %v; want the grace period, 8 s", wait)
	}
}

// TestRestartOfSlurmctld: jobs keep their begin times, and the controller goes on.
func TestRestartOfSlurmctld(t *testing.T) {
	empty(t)
	l := controller(t, curve(t, [2]time.Duration{40 * time.Second, 70 * time.Second}))
	id := submit(t, "sleep 1", "--comment=lull:max-delay=80s,runtime=4s")
	before := until(t, id, "planned", planned)
	lab.saved(t)
	lab.stopController(t)
	if err := wait("the controller to report it", func() bool { return strings.Contains(l.log.String(), "Reconciling failed") }); err != nil {
		t.Error(err)
	}
	if err := lab.startController(); err != nil {
		t.Fatal(err)
	}
	after := show(t, id)
	if d := after.at(t, "StartTime").Sub(before.at(t, "StartTime")).Abs(); after.state() == "PENDING" && d > 4*time.Second || !strings.Contains(after["AdminComment"], "phase=") {
		t.Errorf("before: %v, after: %v", before, after)
	}
	late := submit(t, "sleep 1", "--comment=lull:max-delay=70s,runtime=4s")
	until(t, late, "planned", planned)
	for _, id := range []string{id, late} {
		j := until(t, id, "completed", completed)
		if wait := j.at(t, "StartTime").Sub(j.at(t, "SubmitTime")); wait > 80*time.Second+lag {
			t.Errorf("job %s waited %v", id, wait)
		}
	}
}

// TestRestartOfLull: another process knows from Slurm alone what the one before has held.
func TestRestartOfLull(t *testing.T) {
	empty(t)
	l := controller(t, curve(t, [2]time.Duration{9 * time.Minute, 15 * time.Minute}))
	id := submit(t, "sleep 1", "--comment=lull:max-delay=10m,runtime=4s")
	before := until(t, id, "planned", planned).at(t, "StartTime")
	if text := explain(t, id); !strings.Contains(text, "for cleaner power; starts by ") || !strings.Contains(text, "latest safe start") {
		t.Errorf("explain: %s", text)
	}
	l.kill()
	// Now the clean seconds come at once: the new process moves the job to them.
	controller(t, curve(t, [2]time.Duration{0, 5 * time.Minute}))
	j := until(t, id, "completed", completed)
	if at := j.at(t, "StartTime"); at.After(before.Add(-time.Minute)) {
		t.Errorf("started at %v, by the plan of the process before: %v", at, before)
	}
	if !strings.Contains(j["AdminComment"], "phase=released") {
		t.Errorf("AdminComment %q", j["AdminComment"])
	}
}

// script is the text of job_submit.lua, and replaces it for the time of a test.
func script(t *testing.T) (text string, replace func(string)) {
	t.Helper()
	name := lab.dir + "/job_submit.lua"
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	replace = func(text string) {
		t.Helper()
		time.Sleep(1100 * time.Millisecond) // slurmctld reads a script that is newer, in whole seconds, than when it last read one
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { replace(string(good)); empty(t) })
	return string(good), replace
}

// TestAnErrorOfTheScriptStopsNoSubmission: neither an error when it runs nor one when it is read.
func TestAnErrorOfTheScriptStopsNoSubmission(t *testing.T) {
	empty(t)
	good, replace := script(t)
	for what, text := range map[string]string{
		"fails":          strings.Replace(good, "	local begin = job.begin_time\n", "	local begin = nil + 1\n", 1),
		"cannot be read": "function (\n",
	} {
		if text == good {
			t.Fatal("the script has changed: adapt this test")
		}
		replace(text)
		id := submit(t, "true", "--comment=lull:max-delay=1s")
		until(t, id, "completed, with a script that "+what, completed)
	}
}

// TestSomebodyWaitsForAShell: a srun is not held, whatever its comment says. A comment that cannot be read holds nothing either.
func TestSomebodyWaitsForAShell(t *testing.T) {
	empty(t)
	controller(t, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}))
	begin := time.Now()
	must(t, "salloc", "--comment=lull:max-delay=10m", "--immediate=30", "true")
	id := submit(t, "true", "--comment=lull:max-delay=10m,runtime=x")
	until(t, id, "completed", completed)
	if took := time.Since(begin); took > 30*time.Second+lag {
		t.Errorf("took %v", took)
	}
}

// TestASiteHasAScriptOfItsOwn, which loads that of Lull, as docs/slurm.md says.
func TestASiteHasAScriptOfItsOwn(t *testing.T) {
	empty(t)
	good, replace := script(t)
	if err := os.WriteFile(lab.dir+"/lull_job_submit.lua", []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	replace(fmt.Sprintf(`local loaded, why = pcall(dofile, %q)
if not loaded then
	slurm.log_info("lull: %%s", tostring(why))
end
function slurm_job_submit(job_desc, part_list, submit_uid)
	job_desc.admin_comment = "ticket-7"
	pcall(lull_job_submit, job_desc, part_list)
	return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end
return slurm.SUCCESS
`, lab.dir+"/lull_job_submit.lua"))
	id := submit(t, "true", "--comment=lull:max-delay=10m")
	if j := show(t, id); j.state() != "PENDING" || !strings.HasPrefix(j["AdminComment"], "ticket-7 lull: waits for the plan of Lull") {
		t.Errorf("%v", j)
	}
	l := controller(t, curve(t, [2]time.Duration{-time.Minute, 15 * time.Minute}))
	if j := until(t, id, "completed", completed); !strings.HasPrefix(j["AdminComment"], "ticket-7 lull: released") {
		t.Errorf("%v", j)
	}
	l.kill()
	// The file of Lull is missing when slurmctld starts: it starts, and jobs are submitted as they are.
	if err := os.Remove(lab.dir + "/lull_job_submit.lua"); err != nil {
		t.Fatal(err)
	}
	lab.stopController(t)
	if err := lab.startController(); err != nil {
		t.Fatal(err)
	}
	if j := show(t, submit(t, "true", "--comment=lull:max-delay=10m")); j["AdminComment"] != "ticket-7" && !strings.HasPrefix(j["AdminComment"], "ticket-7 ") {
		t.Errorf("%v", j)
	}
}

// TestWhatAUserDecidesStands: a begin time that a user sets is not overridden, in either direction; explain says so.
func TestWhatAUserDecidesStands(t *testing.T) {
	empty(t)
	l := controller(t, curve(t, [2]time.Duration{9 * time.Minute, 15 * time.Minute}))
	submitAs := func() string {
		return asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--comment=lull:max-delay=10m,runtime=4s", "--wrap", "sleep 1")
	}
	later := submitAs()
	until(t, later, "planned", planned)
	asNobody(t, "scontrol", "update", "JobId="+later, "StartTime=now+600")
	edited := show(t, later)
	if err := wait("Lull to leave it", func() bool { return strings.Contains(l.log.String(), "BeginChanged") }); err != nil {
		t.Error(err)
	}
	if text := explain(t, later); !strings.Contains(text, "somebody else has changed its begin time") {
		t.Errorf("explain: %s", text)
	}
	// Power is clean now: another job, which Lull releases, has run, and this one has not moved.
	l.kill()
	controller(t, curve(t, [2]time.Duration{0, 15 * time.Minute}))
	other := submitAs()
	until(t, other, "completed", completed)
	if j := show(t, later); j["StartTime"] != edited["StartTime"] || !strings.Contains(j["AdminComment"], "phase=left") {
		t.Errorf("edited: %v; now: %v", edited, j)
	}
	asNobody(t, "scontrol", "update", "JobId="+later, "StartTime=now")
	until(t, later, "completed", completed)

	own := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--begin=now+20", "--comment=lull:max-delay=10m,runtime=4s", "--wrap", "sleep 1")
	j := until(t, own, "completed", completed)
	if wait := j.at(t, "StartTime").Sub(j.at(t, "SubmitTime")); wait < 19*time.Second || wait > 20*time.Second+lag {
		t.Errorf("a job with --begin=now+20 waited %v", wait)
	}
}

// TestWhatIsHeldStaysHeld: Lull never releases what a user or an operator holds.
func TestWhatIsHeldStaysHeld(t *testing.T) {
	empty(t)
	l := controller(t, curve(t, [2]time.Duration{0, 15 * time.Minute}))
	held := submit(t, "sleep 1", "--hold", "--comment=lull:max-delay=5s,runtime=4s")
	later := submit(t, "sleep 1", "--hold", "--comment=lull:max-delay=10m,runtime=4s")
	if err := wait("Lull to leave them", func() bool { return strings.Count(l.log.String(), "UserHold") == 2 }); err != nil {
		t.Error(err)
	}
	for _, id := range []string{held, later} {
		until(t, id, "past its begin time", func(j job) bool { return j["StartTime"] == "Unknown" }) // Slurm states none any more
		if j := show(t, id); j.state() != "PENDING" || j["Reason"] != "JobHeldUser" {
			t.Errorf("%v", j)
		}
		if text := explain(t, id); !strings.Contains(text, "holds it") {
			t.Errorf("explain: %s", text)
		}
		must(t, "scontrol", "release", id)
		until(t, id, "completed", completed)
	}
}

// TestAJobKeepsItsDeadline: Slurm removes a job that cannot end by --deadline any more. Lull never lets it come to that.
func TestAJobKeepsItsDeadline(t *testing.T) {
	empty(t)
	// The later a job starts, the cleaner is its power.
	controller(t, curve(t, [2]time.Duration{2 * time.Minute, 15 * time.Minute}))
	var ids []string
	comments := []string{"lull:", "lull:max-delay=30m", "lull:max-delay=30m,interruptible"}
	for _, comment := range comments { // 90 s are left beside the time limit and the margin of 10 s
		ids = append(ids, submit(t, "sleep 1", "--comment="+comment, "--time=1", "--deadline=now+160seconds"))
	}
	for i, id := range ids {
		j := until(t, id, "planned", planned)
		if latest := j.at(t, "Deadline").Add(-70 * time.Second); j.at(t, "StartTime").After(latest) {
			t.Errorf("comment %q: begin time %s, deadline %s; want it 70 s earlier", comments[i], j["StartTime"], j["Deadline"])
		}
	}
	for _, id := range ids {
		until(t, id, "completed", completed)
	}
}

// TestAnInterruptibleJobPauses: it is requeued when power gets dirty, goes on from its checkpoint as the same job when it is clean again, and a
// job that may not be interrupted is not.
func TestAnInterruptibleJobPauses(t *testing.T) {
	empty(t)
	script := lab.dir + "/out/worker.sh"
	state := lab.dir + "/out/state"
	worker := fmt.Sprintf(`#!/bin/bash
trap 'exit 0' TERM
n=$(cat %[1]s 2>/dev/null || echo 0)
while [ "$n" -lt 30 ]; do sleep 1 & wait $!; n=$((n+1)); echo $n >%[1]s; done
`, state)
	if err := os.WriteFile(script, []byte(worker), 0o755); err != nil {
		t.Fatal(err)
	}
	l := controller(t, curve(t, [2]time.Duration{0, 20 * time.Second}, [2]time.Duration{70 * time.Second, 20 * time.Minute}))
	id := must(t, "sbatch", "--parsable", "--requeue", "--output=/dev/null", "--comment=lull:max-delay=4m,runtime=30s,interruptible", script)
	rigid := submit(t, "sleep 40", "--comment=lull:max-delay=4m,runtime=40s")
	until(t, id, "requeued", func(j job) bool { return j.state() == "PENDING" && j["Restarts"] == "1" })
	saved, _ := os.ReadFile(state)
	j := until(t, id, "paused by Lull", func(j job) bool { return strings.Contains(j["AdminComment"], "phase=paused") })
	if !strings.Contains(j["AdminComment"], "done=") {
		t.Errorf("AdminComment %q", j["AdminComment"])
	}
	j = until(t, id, "completed", completed)
	all, _ := os.ReadFile(state)
	t.Logf("%s of 30 steps at the pause, %s at the end; started again %s, restarts %s", strings.TrimSpace(string(saved)), strings.TrimSpace(string(all)), j["StartTime"], j["Restarts"])
	if strings.TrimSpace(string(all)) != "30" || !strings.Contains(l.log.String(), "Requeued jobs") {
		t.Errorf("%s steps at the end", all)
	}
	if r := until(t, rigid, "completed", completed); r["Restarts"] != "0" {
		t.Errorf("a job that may not be interrupted was requeued: %v", r)
	}
}

// requeued has an operator requeue a job that Lull has released and that runs, by a command of scontrol. It returns the job when it is back in the queue, and when Lull's
// log has the reason why Lull leaves it.
func requeued(t *testing.T, l *lull, command, reason string) job {
	t.Helper()
	id := submit(t, "sleep 120", "--requeue", "--comment=lull:max-delay=10m,runtime=30s,interruptible")
	until(t, id, "running", running)
	until(t, id, "noted", func(j job) bool { return strings.Contains(j["AdminComment"], "phase=released") })
	must(t, "scontrol", command, id)
	back := until(t, id, "requeued", func(j job) bool { return j.state() == "PENDING" })
	if err := wait("Lull to leave it", func() bool { return strings.Contains(l.log.String(), `"`+reason+`"`) }); err != nil {
		t.Errorf("%v: %s", err, l.log)
	}
	return back
}

// TestAnOperatorsRequeueStands: Lull does not touch a job that somebody else has requeued until it has started.
func TestAnOperatorsRequeueStands(t *testing.T) {
	empty(t)
	back := requeued(t, controller(t, curve(t, [2]time.Duration{0, 15 * time.Minute})), "requeue", "Requeued")
	if j := show(t, back["JobId"]); j["StartTime"] != back["StartTime"] {
		t.Errorf("requeued: %v; now: %v", back, j)
	}
}

// TestAJobThatHasEndedIsNotRequeued: a job ends between the observation and the pause that follows from it.
func TestAJobThatHasEndedIsNotRequeued(t *testing.T) {
	empty(t)
	id := submit(t, "true", "--requeue")
	until(t, id, "completed", completed)
	if err := (slurm.Commands{Dir: lab.root + "/usr/bin"}).Requeue(t.Context(), []string{id}); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Second)
	if j := show(t, id); !completed(j) || j["Restarts"] != "0" {
		t.Errorf("%v", j)
	}
}

// TestATaskOfAnArrayIsHeldAndAnotherEdited: what users do to single tasks stands, and the others wait together.
func TestATaskOfAnArrayIsHeldAndAnotherEdited(t *testing.T) {
	empty(t)
	l := controller(t, curve(t, [2]time.Duration{9 * time.Minute, 15 * time.Minute}))
	array := submit(t, "sleep 1", "--array=1-6", "--comment=lull:max-delay=10m,runtime=4s")
	until(t, array+"_6", "planned", planned)
	must(t, "scontrol", "hold", array+"_1")
	must(t, "scontrol", "update", "JobId="+array+"_2", "StartTime=now+600")
	edited := show(t, array+"_2")
	if err := wait("Lull to leave them", func() bool {
		return strings.Contains(l.log.String(), "UserHold") && strings.Contains(l.log.String(), "BeginChanged")
	}); err != nil {
		t.Error(err)
	}
	l.kill()
	controller(t, curve(t, [2]time.Duration{0, 15 * time.Minute})) // power is clean now
	for _, task := range []string{"_3", "_6"} {
		until(t, array+task, "completed", completed)
	}
	if j := show(t, array+"_1"); j.state() != "PENDING" || !strings.HasPrefix(j["Reason"], "JobHeld") {
		t.Errorf("%v", j)
	}
	if j := show(t, array+"_2"); j.state() != "PENDING" || j["StartTime"] != edited["StartTime"] {
		t.Errorf("edited: %v; now: %v", edited, j)
	}
}

// TestArraysDependenciesAndDefaults: the tasks of an array wait together; a job that waits for another is not started before it, and then
// waits for clean power; the administrator's defaults count for a partition, and a job can opt out.
func TestArraysDependenciesAndDefaults(t *testing.T) {
	empty(t)
	clean := 40 * time.Second
	begin := time.Now()
	controller(t, curve(t, [2]time.Duration{clean, 5 * time.Minute}))
	array := submit(t, "sleep 1", "--array=1-6%3", "--comment=lull:max-delay=90s,runtime=4s")
	first := submit(t, "sleep 5")
	second := submit(t, "sleep 1", "--dependency=afterok:"+first, "--comment=lull:max-delay=90s,runtime=4s")
	byDefault := submit(t, "sleep 1", "--partition=green")
	out := submit(t, "sleep 1", "--partition=green", "--comment=lull:off")
	until(t, out, "completed", completed)
	for _, id := range []string{array + "_1", array + "_6", second, byDefault} {
		j := until(t, id, "completed", completed)
		if at := j.at(t, "StartTime"); at.Before(begin.Add(clean - 2*time.Second)) {
			t.Errorf("job %s started %v after the begin of the test; want clean power, from %v on", id, at.Sub(begin), clean)
		}
	}
	if a, b := show(t, first), show(t, second); b.at(t, "StartTime").Before(a.at(t, "EndTime")) {
		t.Errorf("%v started before %v ended", b, a)
	}
}

// TestExplainWithoutTheConfigurationOfTheController: a default lets a job wait that explain does not know. Power is clean in ten minutes, so the job waits
// while it is explained.
func TestExplainWithoutTheConfigurationOfTheController(t *testing.T) {
	empty(t)
	controller(t, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}), "--config", patient(t))
	id := submit(t, "sleep 1", "--partition=green")
	until(t, id, "planned", planned)
	if text := explainAlone(t, id); !strings.Contains(text, "Job "+id+" waits until ") || !strings.Contains(text, "State its file with --config") {
		t.Errorf("explain without --config: %s", text)
	}
	wrong := submit(t, "sleep 1", "--partition=green", "--begin=now+600", "--comment=lull:max-delay=8x")
	if text := explainAlone(t, wrong); !strings.Contains(text, `invalid comment: max-delay: "8x" is not a duration`) || strings.Contains(text, "--config") {
		t.Errorf("explain without --config: %s", text)
	}
}
