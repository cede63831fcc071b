package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/carbon"
)

// advised runs lull advise and returns what it writes as JSON.
func advised(t *testing.T, args ...string) advice {
	t.Helper()
	var a advice
	if err := json.Unmarshal([]byte(stdout(t, append(append([]string{"advise"}, args...), "--json", "-")...)), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAdviseSaysWhatIsFilled: one job and a history, on a series with a gap of 12 hours in
// equal days and with an end, are advised as on the whole series.
func TestAdviseSaysWhatIsFilled(t *testing.T) {
	dir := files(t, map[string]string{
		"whole.csv": hoursOf(24*12, nil), "gap.csv": hoursOf(24*12, func(h int) bool { return h < 60 || h >= 72 }), "end.csv": hoursOf(72, nil),
		"long.csv": hoursOf(24*30, func(h int) bool { return h < 72 || h >= 24*27 }),
		"jobs.csv": "id,arrival_s,length_s,cpus\na,208800,21600,4\nb,244800,21600,1\n",
		"far.csv":  "id,arrival_s,length_s,cpus\na,0,3600,4\nb,1296000,21600,1\n", // day 16
	})
	args := func(file string, more ...string) []string {
		return append([]string{"--carbon", "X=" + dir + "/" + file, "--slack", "12h", "--planner", "joint", "--planner", "waitawhile-deadline"}, more...)
	}
	history := []string{"--jobs", dir + "/jobs.csv"}
	for name, pair := range map[string][2]advice{
		"one job, a gap":       {advised(t, args("whole.csv")...), advised(t, args("gap.csv")...)},
		"a history, a gap":     {advised(t, args("whole.csv", history...)...), advised(t, args("gap.csv", history...)...)},
		"a history at the end": {advised(t, args("whole.csv", history...)...), advised(t, args("end.csv", history...)...)},
	} {
		for i := range pair[0].Options {
			if want, got := pair[0].Options[i].Saving, pair[1].Options[i].Saving; math.Abs(want-got) > 1e-9 || want <= 0 {
				t.Errorf("%s, %s: saves %v, want %v", name, pair[0].Options[i].Planner, got, want)
			}
		}
		if notes := strings.Join(pair[1].Notes, "\n"); !strings.Contains(notes, carbon.FillRule) {
			t.Errorf("%s: the rule is not named: %s", name, notes)
		}
		if notes := strings.Join(pair[0].Notes, "\n"); strings.Contains(notes, carbon.FillRule) {
			t.Errorf("%s: a whole series is said to be filled: %s", name, notes)
		}
	}
	// A gap of 24 days: starts in its middle are left out, the others are stated.
	a := advised(t, args("long.csv")...)
	if x := a.Options[0]; x.Starts >= 24*30-18+1-24*9 || x.Starts <= 48 || !strings.Contains(strings.Join(a.Notes, "\n"), "starts are left out") {
		t.Errorf("%d starts; notes %q", x.Starts, a.Notes)
	}
	out := stdout(t, append([]string{"advise"}, args("long.csv", "--jobs", dir+"/far.csv")...)...)
	if !strings.Contains(out, "withheld") || !strings.Contains(out, "No saving can be stated") {
		t.Errorf("a job wholly outside:\n%s", out)
	}
	if out := stdout(t, append([]string{"advise", "--json", "-"}, args("long.csv", "--jobs", dir+"/far.csv")...)...); !strings.Contains(out, `"saving": null`) {
		t.Errorf("as JSON: %.300s", out)
	}
	if out := failure(t, append([]string{"advise"}, args("whole.csv", "--planner", "carbonflex")...)...); !strings.Contains(out, "history") {
		t.Errorf("carbonflex without history: %s", out)
	}
}

// TestAdviceCostsCPUHours: the cost of a history is of CPU-hours: a large job counts more
// than a small one.
func TestAdviceCostsCPUHours(t *testing.T) {
	dir := files(t, map[string]string{
		"c.csv": hoursOf(24*6, nil), "p.csv": "workers,throughput\n1,1\n2,1.5\n",
		"jobs.csv": "id,arrival_s,length_s,cpus,kind,max_delay_s\nlarge,43200,36000,100,rigid,0\nsmall,43200,36000,1,elastic,\n",
	})
	a := advised(t, "--jobs", dir+"/jobs.csv", "--carbon", "X="+dir+"/c.csv", "--profile", dir+"/p.csv", "--slack", "0h", "--planner", "carbonscaler", "--price", "1")
	if x := a.Options[0]; x.Cost > 1.01 || x.Cost <= 1 || math.Abs(x.Money-x.Cost*1010) > 1e-6 {
		t.Errorf("cost %v, money %v: one of 101 CPUs scales", x.Cost, x.Money)
	}
	if text := fmt.Sprint(a.Notes); !strings.Contains(text, "CPU-hours") || strings.Contains(text, "worker-hours") {
		t.Errorf("notes %s", text)
	}
}

// TestAdviceIsThePolicy: the policy that is written states the planner that is recommended, with its reserve;
// of equal options that is the default of a policy. What a policy cannot state is refused.
func TestAdviceIsThePolicy(t *testing.T) {
	dir := files(t, map[string]string{"c.csv": hoursOf(24*6, nil), "jobs.csv": "id,arrival_s,length_s,cpus\na,0,7200,4\nb,1800,3600,2\n"})
	policy := dir + "/policy.yaml"
	base := []string{"advise", "--carbon", "X=" + dir + "/c.csv", "--slack", "12h", "--policy", policy}
	for name, tc := range map[string]struct {
		args                []string
		planner, text, want string
	}{
		"by default":           {nil, "joint", "planner joint reserve=learned (the default of a CarbonPolicy) with", "learned"},
		"a history":            {[]string{"--jobs", dir + "/jobs.csv"}, "joint", "planner joint reserve=learned (the default of a CarbonPolicy) with", "learned"},
		"listed last":          {[]string{"--planner", "waitawhile-deadline", "--planner", "joint"}, "joint", "(the default of a CarbonPolicy)", "learned"},
		"a stated reserve":     {[]string{"--planner", "joint,reserve=0.2"}, "joint", "planner joint reserve=0.2 with", "0.2"},
		"none":                 {[]string{"--planner", "joint,reserve=0"}, "joint", "planner joint reserve=0 with", "0"},
		"a planner without":    {[]string{"--planner", "waitawhile-deadline"}, "waitawhile-deadline", "planner waitawhile-deadline with", ""},
		"stated as by default": {[]string{"--planner", "joint,reserve=learned,revise=changes"}, "joint", "(the default of a CarbonPolicy)", "learned"},
	} {
		if !slices.Contains(tc.args, "--jobs") {
			tc.args = append(tc.args, "--stride", "5h")
		}
		out := stdout(t, append(append([]string{}, base...), tc.args...)...)
		if !strings.Contains(out, tc.text) {
			t.Errorf("%s: lacks %q:\n%s", name, tc.text, out)
		}
		body, err := os.ReadFile(policy)
		if err != nil {
			t.Fatal(err)
		}
		var p v1alpha1.CarbonPolicy
		if err := yaml.UnmarshalStrict(body, &p); err != nil || p.Spec.Planner.Name != tc.planner || p.Spec.Planner.Parameters["reserve"] != tc.want {
			t.Errorf("%s: %v\n%s", name, err, body)
		}
	}
	for least, want := range map[string]string{"1": "", "10": "minSaving: 0.1"} {
		stdout(t, append(append([]string{}, base...), "--stride", "5h", "--min-saving", least)...)
		body, err := os.ReadFile(policy)
		if err != nil || strings.Contains(string(body), "minSaving") != (want != "") || !strings.Contains(string(body), want) {
			t.Errorf("--min-saving %s: %v\n%s", least, err, body)
		}
	}
	past := dir + "/past.json"
	stdout(t, "plan", "generate", "--jobs", "20", "--clusters", "1", "--kinds", "interruptible", "-o", past)
	for want, args := range map[string][]string{
		"revise=slots; accepted: none":       {"--planner", "joint,revise=slots"},
		"and a CarbonPolicy cannot state it": {"--planner", "carbonflex,history=" + past},
	} {
		if out := failure(t, append(append(append([]string{}, base...), "--stride", "5h"), args...)...); !strings.Contains(out, want) {
			t.Errorf("%v: %q lacks %q", args, out, want)
		}
	}
}
