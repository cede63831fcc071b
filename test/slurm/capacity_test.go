//go:build slurm

package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	capacity "lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/workload"
)

// reserved is how many licences Slurm says are reserved, and how many it has given out.
func reserved(t *testing.T) (n, used int) {
	t.Helper()
	out := must(t, "scontrol", "show", "license", "power")
	m := regexp.MustCompile(`Used=(\d+) Free=\d+ Reserved=(\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("scontrol show license: %s", out)
	}
	used, _ = strconv.Atoi(m[1])
	n, _ = strconv.Atoi(m[2])
	return n, used
}

// days writes intensities by the hour from two weeks ago on: 100 in the six hours of each day that begin six hours from now, else 500.
func days(t *testing.T) string {
	t.Helper()
	return daysFrom(t, 6)
}

// daysFrom is days whose clean hours begin so many hours from now.
func daysFrom(t *testing.T, clean int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,intensity_gco2eq_per_kwh\n")
	now := time.Now().UTC().Truncate(time.Hour)
	for h := -15 * 24; h < 3*24; h++ {
		v := 500
		if in := (h + 30*24) % 24; in >= clean && in < clean+6 {
			v = 100
		}
		fmt.Fprintf(&b, "%s,%d\n", now.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), v)
	}
	file := filepath.Join(t.TempDir(), "days.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// bounded lets the jobs that may wait use 24 licences, by a method that has learned nothing but what is in a file, and returns the configuration.
func bounded(t *testing.T, state string) (config string) {
	t.Helper()
	return boundedBy(t, "{carbonFlex: {}}", state)
}

// boundedBy is bounded by another method.
func boundedBy(t *testing.T, method, state string) (config string) {
	t.Helper()
	_, replace := script(t)
	config = filepath.Join(open(t), "lull.yaml")
	text := fmt.Sprintf("grace: 8s\nmargin: 10s\ncapacity:\n  licence: power\n  maximum: 24\n  method: %s\n", method)
	if state != "" {
		text += "  state: " + state + "\n"
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	lua := filepath.Join(t.TempDir(), "job_submit.lua")
	if out, err := exec.Command(os.Getenv("LULL_BIN"), "slurm", "install", "--config", config, "--output", lua).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := os.ReadFile(lua)
	if err != nil {
		t.Fatal(err)
	}
	replace(string(made))
	t.Cleanup(func() { _ = lab.command("scontrol", "delete", "ReservationName=lull-power").Run() })
	return config
}

// TestUsersTakeAllTheirLicences: who states fewer licences than CPUs, or others whose names are like that of the bound, is bounded all the same.
func TestUsersTakeAllTheirLicences(t *testing.T) {
	empty(t)
	bounded(t, filepath.Join(t.TempDir(), "capacity"))
	for stated, want := range map[string]string{"power:0": "power:4", "power": "power:4", "power:9": "power:9", "superpower:1": "superpower:1,power:4", "superpower:2,power:1": "superpower:2,power:4"} {
		id := submit(t, "true", "--comment=lull:max-delay=20h", "-n4", "--licenses="+stated)
		if j := show(t, id); j["Licenses"] != want {
			t.Errorf("--licenses=%s: the job asks for %q; want %q", stated, j["Licenses"], want)
		}
		must(t, "scancel", id)
	}
}

// TestUsersKeepTheirLicences: who lowers the licences of a job, or takes them away, keeps those of the bound. Others may change, more are the user's, and an
// operator may take all.
func TestUsersKeepTheirLicences(t *testing.T) {
	empty(t)
	bounded(t, filepath.Join(t.TempDir(), "capacity"))
	id := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--comment=lull:max-delay=20h", "-n4", "--begin=now+1hour", "--wrap", "true")
	must(t, "scancel", id) // with a begin time of its own, it has none
	id = asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--comment=lull:max-delay=20h", "-n4", "--hold", "--wrap", "true")
	for _, tc := range [][2]string{{"", "power:4"}, {"power:1", "power:4"}, {"power:0", "power:4"}, {"superpower:1", "superpower:1,power:4"}, {"power:9", "power:9"}, {"power:5", "power:5"}} {
		asNobody(t, "scontrol", "update", "JobId="+id, "Licenses="+tc[0])
		if j := show(t, id); j["Licenses"] != tc[1] {
			t.Errorf("Licenses=%s: the job asks for %q; want %q", tc[0], j["Licenses"], tc[1])
		}
	}
	// Slurm refuses every AdminComment of a user, also the one that the job has, and all else of the same update.
	for _, comment := range []string{"x", "lull: ", show(t, id)["AdminComment"]} {
		out, err := as(65534, "scontrol", "update", "JobId="+id, "Licenses=power:1", "AdminComment="+comment)
		if j := show(t, id); j["Licenses"] != "power:5" {
			t.Errorf("with the AdminComment %q, the job asks for %q: %v %s", comment, j["Licenses"], err, out)
		}
	}
	must(t, "scontrol", "update", "JobId="+id, "Licenses=")
	if j := show(t, id); j["Licenses"] != "" && j["Licenses"] != "(null)" {
		t.Errorf("an operator took the licences away; the job asks for %q", j["Licenses"])
	}
	other := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "-n4", "--hold", "--licenses=power:3", "--wrap", "true")
	asNobody(t, "scontrol", "update", "JobId="+other, "Licenses=power:1")
	if j := show(t, other); j["Licenses"] != "power:1" {
		t.Errorf("a job that may not wait asks for %q; want power:1", j["Licenses"])
	}
}

// untilItHasTime is how long to wait for an hour with time for a test: until the next one, if this one is nearly over. A capacity stands for its hour.
func untilItHasTime(now time.Time) time.Duration {
	const needs = 8 * time.Minute
	if next := now.Truncate(time.Hour).Add(time.Hour); next.Sub(now) < needs {
		return next.Sub(now)
	}
	return 0
}

// TestAnHourHasTime: a test that begins late in an hour waits for the next one.
func TestAnHourHasTime(t *testing.T) {
	hour := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	for at, want := range map[time.Duration]time.Duration{0: 0, 52 * time.Minute: 0, 52*time.Minute + time.Second: 8*time.Minute - time.Second, time.Hour - time.Second: time.Second} {
		now := hour.Add(at)
		wait := untilItHasTime(now)
		if wait != want || untilItHasTime(now.Add(wait)) != 0 {
			t.Errorf("at %v: waits %v; want %v", at, wait, want)
		}
	}
}

// twoWeeks is a file of what is known of the capacity: a job like a given one was submitted in each hour of the last two weeks.
func twoWeeks(t *testing.T, like capacity.Past) (state string) {
	t.Helper()
	var past []capacity.Past
	for h := range 14 * 24 {
		like.ID, like.Submitted, like.Delay, like.Hours = fmt.Sprint(h), time.Now().Add(time.Duration(h-14*24)*time.Hour), 12*time.Hour, 1
		past = append(past, like)
	}
	state = filepath.Join(t.TempDir(), "capacity")
	if err := capacity.SeedFile(state, past); err != nil {
		t.Fatal(err)
	}
	return state
}

// learns starts a controller, and waits until it has learned from what twoWeeks wrote, and written that too.
func learns(t *testing.T, state, intensities string, args ...string) *lull {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(state)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	seeded := size()
	l := controller(t, intensities, args...)
	if err := wait("what was learned to be kept", func() bool { return size() > seeded+1000 }); err != nil {
		t.Fatalf("%v: %s", err, l.log)
	}
	return l
}

// TestCarbonFlexReservesLicences: Lull learns from two weeks of jobs, takes the capacity away in a dirty hour by reserving licences, which Slurm then does
// not give out, and gives back what a job needs that comes to its latest start. The reservation ends by itself once Lull is dead.
func TestCarbonFlexReservesLicences(t *testing.T) {
	empty(t)
	time.Sleep(untilItHasTime(time.Now()))
	state := twoWeeks(t, capacity.Past{Kind: workload.Interruptible, Request: map[string]float64{slurm.LicenceResource: 4}, MinWorkers: 1, Curve: []float64{1}})
	config := bounded(t, state)

	// A capacity stands for its hour: what the first controller learns counts from the second one on.
	intensities := days(t)
	l := learns(t, state, intensities, "--config", config)
	if n, _ := reserved(t); n != 8 {
		t.Errorf("%d licences are reserved before anything is learned; want 8, those above the maximum", n)
	}
	l.kill()
	l = controller(t, intensities, "--config", config)
	if err := wait("licences to be reserved by what was learned", func() bool {
		n, _ := reserved(t)
		return n > 8 && strings.Contains(l.log.String(), "of the cases")
	}); err != nil {
		t.Fatalf("%v: %s", err, l.log)
	}
	n, _ := reserved(t)
	waits := submit(t, "sleep 1", "--comment=lull:max-delay=20h,runtime=1h", "-n4")
	if j := show(t, waits); j["Licenses"] != "power:4" {
		t.Errorf("a job of 4 CPUs asks for the licences %q", j["Licenses"])
	}
	until(t, waits, "planned", planned)
	due := submit(t, "sleep 1", "--comment=lull:max-delay=15s,runtime=4s", "-n12")
	until(t, due, "completed", completed)
	if after, _ := reserved(t); n <= 32-12 || after > 32-12 {
		t.Errorf("%d of 32 licences were reserved, and %d after a job of 12 had to start; want more than 20, and 20 at most", n, after)
	}
	t.Logf("%d of 32 licences were reserved; %s", n, must(t, "scontrol", "-o", "show", "reservation"))
	l.kill()
	killed := time.Now()
	out := must(t, "scontrol", "-o", "show", "reservation", "lull-power")
	m := regexp.MustCompile(` EndTime=(\S+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("a reservation without an end: %s", out)
	}
	if left := (job{"EndTime": m[1]}).at(t, "EndTime").Sub(killed); left <= 0 || left > 6*time.Minute {
		t.Errorf("the reservation ends %v after Lull; want 6 minutes at most: %s", left, out)
	}
	// Slurm gives none of the reserved ones out. A controller that runs would raise the capacity for this job.
	n, _ = reserved(t)
	refused := submit(t, "true", fmt.Sprintf("--licenses=power:%d", 32-n+1))
	until(t, refused, "refused licences", func(j job) bool { return strings.HasPrefix(j["Reason"], "Licenses") })
	must(t, "scancel", refused)
}

// TestJobsWhoseCPUsRiseTakeTheirLicences: job_submit.lua counts the CPUs that a job states. Slurm raises them afterwards, by the memory that its partition lets a
// CPU have, or its user does; Lull then has the job take the licences of all its CPUs, before it releases it. An operator who has taken all licences away has
// decided that.
func TestJobsWhoseCPUsRiseTakeTheirLicences(t *testing.T) {
	empty(t)
	config := bounded(t, filepath.Join(t.TempDir(), "capacity"))
	must(t, "scontrol", "update", "PartitionName=narrow", "MaxMemPerCPU=100")
	t.Cleanup(func() { must(t, "scontrol", "update", "PartitionName=narrow", "MaxMemPerCPU=0") })
	with := func(args ...string) string {
		return submit(t, "sleep 1", append(args, "--comment=lull:max-delay=15m,runtime=4s")...)
	}
	controller(t, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}), "--config", config)
	raised := with("--partition=narrow", "-n2", "--mem-per-cpu=400", "--licenses=superpower:1")
	edited, big := with("-n2"), with("-n2")
	freed := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "-n2", "--comment=lull:max-delay=15m,runtime=4s", "--wrap", "sleep 1")
	for _, id := range []string{raised, edited, big, freed} {
		until(t, id, "planned", planned)
	}
	must(t, "scontrol", "update", "JobId="+freed, "Licenses=")
	for id, cpus := range map[string]string{freed: "6", edited: "6", big: "32"} {
		must(t, "scontrol", "update", "JobId="+id, "NumCPUs="+cpus, "NumTasks="+cpus)
	}
	for id, want := range map[string]string{raised: "superpower:1,power:8", edited: "power:6", big: "power:24"} {
		until(t, id, "one that asks for "+want, func(j job) bool { return planned(j) && j["Licenses"] == want })
	}
	if j := until(t, freed, "planned", planned); j["Licenses"] != "" && j["Licenses"] != "(null)" {
		t.Errorf("an operator took the licences of a job away; it asks for %q", j["Licenses"])
	}
}

// TestLicencesThatAnOperatorLowersStay while Lull and job_submit.lua go on: those of a job, beside others that it has, and the number of the reservation, which Lull
// extends as it is.
func TestLicencesThatAnOperatorLowersStay(t *testing.T) {
	empty(t)
	config := bounded(t, filepath.Join(t.TempDir(), "capacity"))
	l := controller(t, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}), "--config", config)
	id := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "-n4", "--licenses=superpower:1", "--comment=lull:max-delay=15m,runtime=4s", "--wrap", "sleep 1")
	has := func(want string) func(job) bool {
		return func(j job) bool { return planned(j) && j["Licenses"] == want }
	}
	until(t, id, "one that asks for its licences", has("superpower:1,power:4"))
	must(t, "scontrol", "update", "JobId="+id, "Licenses=superpower:2,power:2")
	asNobody(t, "scontrol", "update", "JobId="+id, "Licenses=superpower:2,power:1")
	until(t, id, "one that keeps what the operator has left", has("superpower:2,power:2"))
	must(t, "scontrol", "update", "JobId="+id, "NumCPUs=6", "NumTasks=6")
	if n, _ := reserved(t); n != 8 {
		t.Errorf("%d licences are reserved; want 8, those above the maximum", n)
	}
	must(t, "scontrol", "update", "ReservationName=lull-power", "Licenses=power:11")
	ends := func() (n string, end time.Time) {
		m := regexp.MustCompile(` EndTime=(\S+) .*Licenses=(\S+)`).FindStringSubmatch(must(t, "scontrol", "-o", "show", "reservation", "lull-power"))
		if m == nil {
			t.Fatal("no reservation")
		}
		return m[2], job{"EndTime": m[1]}.at(t, "EndTime")
	}
	_, before := ends()
	// Lull reads the reservation when it is about to extend it, after two minutes.
	if err := wait("the reservation to be extended", func() bool {
		_, end := ends()
		return end.After(before)
	}); err != nil {
		t.Errorf("%v: %s", err, l.log)
	}
	if n, _ := ends(); n != "power:11" || !strings.Contains(l.log.String(), "Somebody else has changed the reservation") {
		t.Errorf("reserved: %s; want the 11 of the operator: %s", n, l.log)
	}
	until(t, id, "one that keeps what the operator has left", has("superpower:2,power:2"))
}
