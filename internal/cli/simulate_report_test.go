package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/carbon"
)

// hoursOf is a series of equal days as a file, without the hours that keep leaves out.
func hoursOf(n int, keep func(h int) bool) string {
	var text strings.Builder
	text.WriteString("time,intensity_gco2eq_per_kwh\n")
	for h := range n {
		if keep == nil || keep(h) {
			fmt.Fprintf(&text, "%s,%g\n", time.Date(2023, 1, 1, h, 0, 0, 0, time.UTC).Format(time.RFC3339), 300+200*math.Sin(float64(h%24)/24*2*math.Pi)+float64(h%24))
		}
	}
	return text.String()
}

// simulated runs lull simulate and returns its summaries.
func simulated(t *testing.T, args ...string) []scenario.Summary {
	t.Helper()
	var d struct{ Summary []scenario.Summary }
	if err := json.Unmarshal([]byte(stdout(t, append(append([]string{"simulate"}, args...), "--json", "-")...)), &d); err != nil {
		t.Fatal(err)
	}
	return d.Summary
}

// TestSimulateSaysWhatIsFilled: at the end of a series the table names the rule.
func TestSimulateSaysWhatIsFilled(t *testing.T) {
	dir := files(t, map[string]string{
		"jobs.csv": "id,arrival_s,length_s,cpus\na,244800,21600,4\n", "short.csv": hoursOf(72, nil), "long.csv": hoursOf(24*9, nil),
		"far.csv": "id,arrival_s,length_s,cpus\na,0,3600,4\nb,1728000,21600,4\n",
	})
	of := func(carbonFile string) []string {
		return []string{"--jobs", dir + "/jobs.csv", "--carbon", dir + "/" + carbonFile, "--kind", "interruptible", "--max-delay", "48h", "--planner", "cheapest"}
	}
	out := stdout(t, append([]string{"simulate"}, of("short.csv")...)...)
	if !strings.Contains(out, carbon.FillRule) {
		t.Errorf("the rule is not named:\n%s", out)
	}
	short, long := simulated(t, of("short.csv")...), simulated(t, of("long.csv")...)
	if math.Abs(short[1].Saving-long[1].Saving) > 1e-9 || long[1].Saving <= 0 {
		t.Errorf("saved %v, with the next days appended %v", short[1].Saving, long[1].Saving)
	}
	out = stdout(t, "simulate", "--jobs", dir+"/far.csv", "--carbon", dir+"/short.csv", "--planner", "cheapest")
	if !strings.Contains(out, "withheld") || strings.Contains(out, "100.0 %") {
		t.Errorf("a job wholly outside the series:\n%s", out)
	}
}

// TestSimulateProfilePower: the measured power of a profile is used, as by advise.
func TestSimulateProfilePower(t *testing.T) {
	dir := files(t, map[string]string{
		"jobs.csv": "id,arrival_s,length_s,cpus\na,0,14400,1\n", "p.csv": "workers,throughput,power_w\n1,10,100\n2,18,150\n4,30,220\n", "c.csv": hoursOf(24*5, nil),
	})
	sums := simulated(t, "--jobs", dir+"/jobs.csv", "--carbon", dir+"/c.csv", "--kind", "elastic", "--profile", dir+"/p.csv", "--max-delay", "24h", "--planner", "carbonscaler")
	if math.Abs(sums[0].EnergyKWh-0.4) > 1e-9 {
		t.Errorf("as submitted: %v kWh, want 4 h of 100 W", sums[0].EnergyKWh)
	}
	for _, args := range [][]string{{"--jobs", dir + "/jobs.csv"}, {"--length", "4h", "--stride", "200h"}} {
		var a advice
		text := stdout(t, append([]string{"advise", "--carbon", "X=" + dir + "/c.csv", "--profile", dir + "/p.csv", "--slack", "24h", "--planner", "carbonscaler", "--json", "-"}, args...)...)
		if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Options) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		if math.Abs(a.Options[0].Saving-sums[1].Saving) > 1e-3 {
			t.Errorf("%v: advise saves %v, simulate %v of the same job", args, a.Options[0].Saving, sums[1].Saving)
		}
	}
}

// TestSimulateCarbonFlexLearns: without history the planner is carbon-agnostic, so that
// it is refused; --learn makes the first days of the trace its history.
func TestSimulateCarbonFlexLearns(t *testing.T) {
	var jobs strings.Builder
	jobs.WriteString("id,arrival_s,length_s,cpus\n")
	for i := range 24 * 14 {
		fmt.Fprintf(&jobs, "j%d,%d,7200,1\n", i, i*3600)
	}
	dir := files(t, map[string]string{"jobs.csv": jobs.String(), "c.csv": hoursOf(24*20, nil)})
	args := []string{"--jobs", dir + "/jobs.csv", "--carbon", dir + "/c.csv", "--kind", "interruptible", "--max-delay", "12h", "--planner", "carbonflex", "--capacity", "6"}
	if out := failure(t, append([]string{"simulate"}, args...)...); !strings.Contains(out, "--learn") || !strings.Contains(out, "history") {
		t.Errorf("%s", out)
	}
	sums := simulated(t, append(args, "--learn", "7d")...)
	if sums[1].Saving <= 0.05 || sums[1].Jobs != 24*7 {
		t.Errorf("%d jobs, saved %v", sums[1].Jobs, sums[1].Saving)
	}
	if out := failure(t, append([]string{"simulate", "--learn", "7d"}, args[:len(args)-2]...)...); !strings.Contains(out, "--capacity") {
		t.Errorf("without a capacity: %s", out)
	}
	if out := failure(t, append([]string{"simulate", "--learn", "30d"}, args...)...); !strings.Contains(out, "--learn") {
		t.Errorf("more than the trace: %s", out)
	}
}

// TestSimulateReportsTraceAndMargin: what a trace leaves out, the peak, the margin.
func TestSimulateReportsTraceAndMargin(t *testing.T) {
	dir := files(t, map[string]string{
		"jobs.swf": "1 0 0 3600 1 -1 -1 1 -1 -1 1 1\n2 5 0 -1 1 -1 -1 1 -1 -1 1 1\n3 7 0 3600 1 -1 -1 1 -1 -1 1 1\n", "c.csv": hoursOf(24*5, nil),
	})
	args := []string{"--jobs", dir + "/jobs.swf", "--carbon", dir + "/c.csv", "--start", "2023-01-01T00:00:00Z", "--planner", "cheapest"}
	out := stdout(t, append([]string{"simulate"}, args...)...)
	for _, want := range []string{"1 with no run time", "peak cpu", "cpu-hours", "saved of all"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	if out := stdout(t, append([]string{"simulate", "--json", "-"}, args...)...); !strings.Contains(out, `"no run time": 1`) {
		t.Errorf("JSON lacks what is skipped: %.400s", out)
	}
	advised := stdout(t, "advise", "--jobs", dir+"/jobs.swf", "--zone", "DE", "--slack", "6h", "--planner", "cheapest")
	if !strings.Contains(advised, "1 with no run time") {
		t.Errorf("advise:\n%s", advised)
	}
	if out := simulated(t, append(args, "--max-delay", "3h", "--margin", "3h")...); out[1].MeanWaitH != 0 {
		t.Errorf("a margin that leaves no delay: mean wait %v h", out[1].MeanWaitH)
	}
	for arg, want := range map[string]string{"--slot 0": "--slot", "--slot 0h": "--slot", "--margin x": "--margin"} {
		if out := failure(t, append([]string{"simulate"}, strings.Fields(arg)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", arg, out)
		}
	}
}
