package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/test/size"
)

func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs.csv")
	if err := os.WriteFile(jobs, []byte("id,arrival_s,length_s,cpus\na,61200,7200,4\nb,63000,3600,2\nc,90000,5400,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	html, rows, parquet, js := filepath.Join(dir, "r.html"), filepath.Join(dir, "r.csv"), filepath.Join(dir, "r.parquet"), filepath.Join(dir, "r.json")
	out := stdout(t, "simulate", "--jobs", jobs, "--zone", "DE", "--max-delay", "1h:6h,24h", "--kind", "interruptible", "--planner", "cheapest,reserve=0.1", "--planner", "joint",
		"--html", html, "--csv", rows, "--parquet", parquet, "--json", js)
	for _, want := range []string{"as submitted", "cheapest,reserve=0.1", "joint", "3 jobs"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
	var d struct{ Summary []scenario.Summary }
	text, err := os.ReadFile(js)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil || len(d.Summary) != 3 || d.Summary[2].Saving <= 0 || d.Summary[2].Missed != 0 {
		t.Errorf("%v %+v", err, d.Summary)
	}
	for _, file := range []string{html, rows, parquet} {
		if info, err := os.Stat(file); err != nil || info.Size() < 200 {
			t.Errorf("%s: %v", file, err)
		}
	}
	if again := stdout(t, "simulate", "--jobs", jobs, "--zone", "DE", "--max-delay", "1h:6h,24h", "--kind", "interruptible", "--planner", "joint", "--json", "-"); !strings.Contains(again, `"seed": 1`) {
		t.Errorf("JSON on standard output: %.80s", again)
	}
}

// TestSimulateMinSaving: a job at midnight could save 0.4 % by a wait, which is less than the default.
func TestSimulateMinSaving(t *testing.T) {
	jobs := filepath.Join(files(t, map[string]string{"jobs.csv": "id,arrival_s,length_s,cpus\na,0,7200,4\n"}), "jobs.csv")
	for flag, waits := range map[string]bool{"": false, "--min-saving=0": true, "--min-saving=0.1": true, "--min-saving=5": false} {
		args := []string{"simulate", "--jobs", jobs, "--zone", "DE", "--max-delay", "6h", "--planner", "joint", "--json", "-"}
		if flag != "" {
			args = append(args, flag)
		}
		var d struct{ Summary []scenario.Summary }
		if err := json.Unmarshal([]byte(stdout(t, args...)), &d); err != nil || len(d.Summary) != 2 || d.Summary[1].MeanWaitH > 0 != waits || d.Summary[1].Saving > 0 != waits {
			t.Errorf("%q: %v %+v; want the job to wait: %v", flag, err, d.Summary, waits)
		}
	}
	for _, bad := range []string{"-1", "100", "x"} {
		if out := failure(t, "simulate", "--jobs", jobs, "--zone", "DE", "--min-saving", bad); !strings.Contains(out, "min-saving") || !strings.Contains(out, bad) {
			t.Errorf("--min-saving %s: %q", bad, out)
		}
	}
}

// TestSimulateRunsThePolicyDefault: without --planner the planner of a CarbonPolicy without spec.planner runs,
// as the controllers run it, and the report says so.
func TestSimulateRunsThePolicyDefault(t *testing.T) {
	const name = "joint,reserve=learned,revise=changes"
	args := []string{"simulate", "--jobs", filepath.Join(files(t, map[string]string{"jobs.csv": "id,arrival_s,length_s,cpus\na,0,7200,4\nb,1800,3600,2\n"}), "jobs.csv"), "--capacity", "8"}
	out := stdout(t, args...)
	if !strings.Contains(out, "all are taken to run in DE\n") || !strings.Contains(out, "planner: {name: joint}  # "+name+", the default\n") || strings.Count(out, name) != 2 {
		t.Errorf("%s", out)
	}
	for _, also := range []string{"cheapest", "window"} {
		if !strings.Contains(out, also) {
			t.Errorf("%s is not compared:\n%s", also, out)
		}
	}
	list, err := parsePlanners([]string{name})
	if err != nil || !isPolicyDefault(list[0]) {
		t.Errorf("the label is not what --planner accepts: %+v, %v", list, err)
	}
	if live, err := NewPlanner("", nil, nil); err != nil || policyDefault().Name != DefaultPlanner {
		t.Errorf("%v", err)
	} else if _, learned := plan.KeptReserve(live); !learned {
		t.Error("a policy without a planner has no learned reserve")
	}
	if out := stdout(t, append(args, "--planner", "asap")...); strings.Contains(out, "the default") {
		t.Errorf("a planner is stated:\n%s", out)
	}
}

// TestExampleScenarioRuns: the example that is printed runs, and uses every part. By default its jobs come in half a day
// instead of three, which makes a run take less than a second instead of twenty.
func TestExampleScenarioRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	text := stdout(t, "simulate", "--example")
	span := "    span: 3d\n"
	if strings.Count(text, span) != 1 {
		t.Fatalf("the example lacks %q:\n%s", span, text)
	}
	text = strings.Replace(text, span, size.Of("    span: 12h\n", span), 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := stdout(t, "simulate", "-f", file)
	if b := stdout(t, "simulate", "-f", file); a != b || !strings.Contains(a, "least slack first") {
		t.Errorf("two runs of one scenario differ, or lack its label:\n%s\n%s", a, b)
	}
	if c := stdout(t, "simulate", "-f", file, "--seed", "2"); c == a {
		t.Error("another seed comes to the same")
	}
}

func TestSimulateErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("id,arrival_s,length_s,cpus\na,100,3600,1\nb,50,3600,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	several := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(several, []byte("clusters: [{zone: DE}, {zone: SE}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--jobs " + bad:                         bad + ": invalid job trace: line 3: column arrival_s",
		"--jobs " + dir + "/none.csv":           "none.csv",
		"--zone ATLANTIS":                       "ATLANTIS",
		"--planner magic":                       "magic",
		"--planner cheapest,reserve":            "cheapest,reserve",
		"--planner joint,reserve=much":          `parameter reserve of planner joint: "much"; accepted: a number of 0 to below 1, or learned`,
		"--planner cheapest,reserve=1":          "reserve: 1; accepted: at least 0, below 1",
		"--planner cheapest --planner cheapest": "twice",
		"--planner joint,revise=never":          "never",
		"--max-delay 1h,2h":                     "1h",
		"--max-delay soon":                      "soon",
		"--forecast magic":                      "magic",
		"--forecast noise:x":                    "noise:x",
		"--start yesterday":                     "yesterday",
		"--to xd":                               "xd",
		"--capacity 0.1":                        "more than any cluster",
		"-f " + several + " --pue 2":            "single cluster",
		"--deny 2":                              "--deny: 2; accepted: a number from 0 to below 1",
	} {
		if out := failure(t, append([]string{"simulate"}, strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %q lacks %q", args, out, want)
		}
	}
}

func TestAdvise(t *testing.T) {
	dir := t.TempDir()
	policy, html := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "a.html")
	out := stdout(t, "advise", "--length", "3h", "--slack", "6h,24h", "--zone", "DE", "--zone", "SE", "--stride", "5h", "--price", "0.2", "--policy", policy, "--html", html)
	for _, want := range []string{"CoV", "waitawhile-deadline", "24h", ">*", "In ", "saves"} {
		if !strings.Contains(out, want) {
			t.Errorf("the advice lacks %q:\n%s", want, out)
		}
	}
	text, err := os.ReadFile(policy)
	if err != nil || !strings.Contains(string(text), "kind: CarbonPolicy") || !strings.Contains(string(text), "maxDelay: 24h") {
		t.Errorf("policy: %v\n%s", err, text)
	}
	var p v1alpha1.CarbonPolicy
	if err := yaml.UnmarshalStrict(text, &p); err != nil || p.Spec.MaxDelay.Hours() != 24 || p.Spec.DefaultRuntime.Hours() != 3 || p.Spec.Zone == "" {
		t.Errorf("as a CarbonPolicy: %v %+v", err, p.Spec)
	}
	if page, err := os.ReadFile(html); err != nil || strings.Count(string(page), "<svg") != 3 {
		t.Errorf("page: %v, %d pictures", err, strings.Count(string(page), "<svg"))
	}
	profile := filepath.Join(dir, "profile.csv")
	jobs := filepath.Join(dir, "jobs.csv")
	for file, text := range map[string]string{profile: "workers,throughput\n1,1\n4,3\n", jobs: "id,arrival_s,length_s,cpus\na,61200,7200,4\nb,63000,3600,2\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := stdout(t, "advise", "--profile", profile, "--max-workers", "2,4", "--slack", "0h", "--stride", "24h", "--json", "-"); !strings.Contains(out, `"maxWorkers": 2`) || !strings.Contains(out, `"carbonscaler"`) {
		t.Errorf("%.300s", out)
	}
	if out := stdout(t, "advise", "--jobs", jobs, "--slack", "12h"); !strings.Contains(out, "these jobs") {
		t.Errorf("%s", out)
	}
	for args, want := range map[string]string{
		"--length never": "never", "--slack x": "x", "--zone ATLANTIS": "ATLANTIS", "--kind elastic": "--profile", "--kind odd": "odd", "--carbon DE": "ZONE=FILE",
		"--stride 90m": "90m", "--price -1": "-1", "--planner nobody": "nobody", "--profile " + dir + "/none.csv": "none.csv",
		"--profile " + profile + " --max-workers 0": "--max-workers", "--zone DE --zone DE": "twice",
	} {
		if out := failure(t, append([]string{"advise"}, strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %q lacks %q", args, out, want)
		}
	}
}

// TestSimulateUncertain: with --uncertain planners save less than with perfect forecasts, and a row shows what they would save if
// they knew all. With a confidence, fewer jobs emit more than as submitted.
func TestSimulateUncertain(t *testing.T) {
	var carbon, jobs strings.Builder
	carbon.WriteString("time,intensity_gco2eq_per_kwh\n")
	for h := range 75 * 24 { // each day another hour is the cleanest
		fmt.Fprintf(&carbon, "%s,%d\n", time.Date(2023, 1, 1, h, 0, 0, 0, time.UTC).Format(time.RFC3339), 100+(h*h*7+h/24*331)%400)
	}
	jobs.WriteString("id,arrival_s,length_s,cpus\n")
	for k := range 30 {
		fmt.Fprintf(&jobs, "j%d,%d,%d,1\n", k, k*7200, 3600*(1+k*k%5))
	}
	dir := files(t, map[string]string{"carbon.csv": carbon.String(), "jobs.csv": jobs.String()})
	args := []string{"simulate", "--jobs", filepath.Join(dir, "jobs.csv"), "--carbon", filepath.Join(dir, "carbon.csv"), "--max-delay", "12h", "--kind", "interruptible", "--planner", "joint", "--start", "2023-03-05T00:00:00Z"}
	run := func(more ...string) []scenario.Summary {
		var d struct{ Summary []scenario.Summary }
		if err := json.Unmarshal([]byte(stdout(t, append(append(args, more...), "-o", "json")...)), &d); err != nil {
			t.Fatal(err)
		}
		return d.Summary
	}
	saved := func(more ...string) map[string]float64 {
		out := map[string]float64{}
		for _, s := range run(more...) {
			out[s.Planner] = s.Saving
		}
		return out
	}
	sure, unsure := saved(), saved("--uncertain")
	if _, there := sure[scenario.KnowsAll]; there || len(sure) != 2 {
		t.Errorf("with perfect forecasts and exact lengths: %v; want no row in which all is known", sure)
	}
	if full := unsure[scenario.KnowsAll]; !(unsure["joint"] < full && unsure["joint"] < sure["joint"]) {
		t.Errorf("saved with --uncertain: %v, without: %v; want joint below what it saves if it knows all, and below perfect forecasts", unsure, sure)
	}
	if out := stdout(t, append(args, "--uncertain")...); !strings.Contains(out, "all but arrivals known (joint) is what planner joint saves") {
		t.Errorf("the table does not explain the row:\n%s", out)
	}
	if exact := saved("--uncertain", "--estimate", "exact", "--forecast", "perfect"); len(exact) != 2 {
		t.Errorf("--uncertain with what is known stated: %v; want no row in which all is known", exact)
	}
	byMean, sureOnly := run("--uncertain"), run("--uncertain", "--saving-confidence", "95")
	if a, b := byMean[1], sureOnly[1]; a.EmitsMore == 0 || b.EmitsMore >= a.EmitsMore || b.MeanWaitH >= a.MeanWaitH {
		t.Errorf("by the mean %d jobs emit more and wait for %.1f h, with a confidence of 95 %% %d for %.1f h; want fewer and less", a.EmitsMore, a.MeanWaitH, b.EmitsMore, b.MeanWaitH)
	}
	out := stdout(t, append(args, "--uncertain", "--saving-confidence", "95")...)
	for _, want := range []string{"of the jobs, so many emit more than as submitted: joint ", "minSaving: 0.01 and savingConfidence: 0.95:"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not say %q:\n%s", want, out)
		}
	}
	if got := failure(t, append(args, "--saving-confidence", "101")...); !strings.Contains(got, "--saving-confidence") {
		t.Errorf("a confidence of 101 %%: %q", got)
	}
}
