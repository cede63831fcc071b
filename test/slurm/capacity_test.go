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
	var b strings.Builder
	b.WriteString("time,intensity_gco2eq_per_kwh\n")
	now := time.Now().UTC().Truncate(time.Hour)
	for h := -15 * 24; h < 3*24; h++ {
		v := 500
		if in := (h + 30*24) % 24; in >= 6 && in < 12 {
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

// TestCarbonFlexReservesLicences: Lull learns from two weeks of jobs, takes the capacity away in a dirty hour by reserving licences, which Slurm then does
// not give out, and gives back what a job needs that comes to its latest start. The reservation ends by itself once Lull is dead.
func TestCarbonFlexReservesLicences(t *testing.T) {
	empty(t)
	_, replace := script(t)
	dir := t.TempDir()
	state, config := dir+"/capacity", dir+"/lull.yaml"
	var past []capacity.Past
	for h := range 14 * 24 {
		past = append(past, capacity.Past{
			ID: fmt.Sprint(h), Kind: workload.Interruptible, Submitted: time.Now().Add(time.Duration(h-14*24) * time.Hour), Delay: 12 * time.Hour, Hours: 1,
			Request: map[string]float64{slurm.LicenceResource: 4}, MinWorkers: 1, Curve: []float64{1},
		})
	}
	if err := capacity.SeedFile(state, past); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("grace: 8s\nmargin: 10s\ncapacity:\n  licence: power\n  maximum: 24\n  method: {carbonFlex: {}}\n  state: %s\n", state)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lua := dir + "/job_submit.lua"
	if out, err := exec.Command(os.Getenv("LULL_BIN"), "slurm", "install", "--config", config, "--output", lua).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := os.ReadFile(lua)
	if err != nil {
		t.Fatal(err)
	}
	replace(string(made))
	t.Cleanup(func() { _ = lab.command("scontrol", "delete", "ReservationName=lull-power").Run() })

	// A capacity stands for its hour: what the first controller learns counts from the second one on.
	size := func() int64 {
		info, err := os.Stat(state)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	seeded, intensities := size(), days(t)
	l := controller(t, intensities, "--config", config)
	if err := wait("what was learned to be kept", func() bool { return size() > seeded+1000 }); err != nil {
		t.Fatalf("%v: %s", err, l.log)
	}
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
	// Slurm gives none of the reserved ones out.
	refused := submit(t, "true", fmt.Sprintf("--licenses=power:%d", 32-n+1))
	until(t, refused, "refused licences", func(j job) bool { return strings.HasPrefix(j["Reason"], "Licenses") })
	must(t, "scancel", refused)
	due := submit(t, "sleep 1", "--comment=lull:max-delay=15s,runtime=4s", "-n12")
	j := until(t, due, "completed", completed)
	if wait := j.at(t, "StartTime").Sub(j.at(t, "SubmitTime")); wait > 15*time.Second+lag {
		t.Errorf("a job that may wait 15 s waited %v for licences", wait)
	}
	t.Logf("%d of 32 licences were reserved; %s", n, must(t, "scontrol", "-o", "show", "reservation"))
	l.kill()
	if out := must(t, "scontrol", "-o", "show", "reservation"); !strings.Contains(out, "ReservationName=lull-power") || strings.Contains(out, "EndTime=Unknown") {
		t.Errorf("a reservation without an end: %s", out)
	}
}
