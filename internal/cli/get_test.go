package cli

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// sampleCluster has two policies in two namespaces, a zone, and a workload in each state.
func sampleCluster(t *testing.T) client.Client {
	at := func(hour int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC).Add(time.Duration(hour) * time.Hour))
	}
	deadline, intensity := at(20), 312.4
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Decided"}}
	policy := func(namespace, name string) client.Object {
		p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Spec.Zone, p.Spec.Planner.Name, p.Status.Waiting, p.Status.Conditions = "de", "joint", 1, ready
		return p
	}
	plan := func(namespace, name string, state v1alpha1.PlanState, phases ...v1alpha1.PlanPhase) client.Object {
		p := &v1alpha1.CarbonPlan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job-" + name}}
		p.Spec.Workload, p.Spec.Policy = v1alpha1.WorkloadReference{Kind: "Job", Name: name}, "clean"
		p.Status.State, p.Status.Phases, p.Status.Deadline = state, phases, &deadline
		p.Status.Reason, p.Status.Message, p.Status.ExpectedG, p.Status.BaselineG, p.Status.Progress = "CleanerLater", "power is cleaner later", new(60.0), 100, 0.25
		return p
	}
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "de"}}
	zone.Status.Zone, zone.Status.Intensity, zone.Status.Basis, zone.Status.Conditions = "DE", &intensity, "LiveForecast", ready
	return clusterOf(t, zone, policy("team-b", "other"), policy("team-a", "clean"),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-b"}},
		plan("team-a", "train", v1alpha1.PlanWaiting, v1alpha1.PlanPhase{From: at(12), To: at(15), Workers: 1}),
		plan("team-a", "index", v1alpha1.PlanRunning, v1alpha1.PlanPhase{From: at(1), To: at(3), Workers: 1}, v1alpha1.PlanPhase{From: at(3), To: at(5), Workers: 2}, v1alpha1.PlanPhase{From: at(9), To: at(10), Workers: 1}),
		plan("team-a", "over", v1alpha1.PlanFinished),
		&v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "batch"}},
	)
}

func TestGetListsWhatWaitsUntilWhenAndWhy(t *testing.T) {
	c := sampleCluster(t)
	for args, want := range map[string]string{
		"get workloads -n team-a": `NAME       POLICY  STATE     UNTIL                 DEADLINE              PROGRESS  SAVES  REASON
job/index  clean   Running   2026-11-27T05:00:00Z  2026-11-27T20:00:00Z  25 %      40 %   CleanerLater
job/over   clean   Finished  -                     2026-11-27T20:00:00Z  25 %      40 %   CleanerLater
job/train  clean   Waiting   2026-11-27T12:00:00Z  2026-11-27T20:00:00Z  25 %      40 %   CleanerLater
`,
		"get workload train -A": `NAMESPACE  NAME       POLICY  STATE    UNTIL                 DEADLINE              PROGRESS  SAVES  REASON
team-a     job/train  clean   Waiting  2026-11-27T12:00:00Z  2026-11-27T20:00:00Z  25 %      40 %   CleanerLater
`,
		"get policies -A": `NAMESPACE  NAME   ZONE  PLANNER  RESERVE  WAITING  RUNNING  FINISHED  EXPECTED    SAVES  READY  MODE
team-a     clean  de    joint    -        1        0        0         180 gCO2eq  40 %   yes    enforce
team-b     other  de    joint    -        1        0        0         0 gCO2eq    -      yes    enforce
`,
		"get zones de": `NAME  INTENSITY         TREND  BASIS         READY  PAUSED
de    312.4 gCO2eq/kWh  -      LiveForecast  yes    no
`,
	} {
		if got, _, err := lullOn(t, c, strings.Fields(args)...); err != nil || got != want {
			t.Errorf("lull %s: %v\n%s\nwant\n%s", args, err, got, want)
		}
	}
	if got, _, err := lullOn(t, c, "get", "workloads", "-A", "-o", "wide"); err != nil || !strings.Contains(got, "power is cleaner later") {
		t.Errorf("%v\n%s", err, got)
	}
	if _, text, err := lullOn(t, c, "get", "workloads", "-n", "team-b"); err != nil || text != "No workloads found.\n" {
		t.Errorf("%v, %q", err, text)
	}
	for args, want := range map[string]string{
		"get policies none -n team-a": `NAME: "none"; accepted: one of the policies: clean`,
		"get zones xx":                `NAME: "xx"; accepted: one of the zones: de`,
		"get workloads -n team-c":     `namespace "team-c" is not there`,
		"get pods":                    `lull get: "pods"; accepted: planners, policies, workloads, zones`,
		"get zones -o xml":            `--output: "xml"; accepted: table, wide, json or yaml`,
	} {
		if _, _, err := lullOn(t, c, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lull %s: %v, want %q", args, err, want)
		}
	}
}

// TestOutputsForProgramsHaveTheSameKeys: what prints a table prints the same as JSON and as YAML, with the keys of the API.
func TestOutputsForProgramsHaveTheSameKeys(t *testing.T) {
	c := sampleCluster(t)
	for args, key := range map[string]string{
		"get workloads -n team-a":            `"latestStart"|"until"`,
		"get workloads train -n team-a":      `"deadline"`,
		"get policies -A":                    `"expectedG"`,
		"get zones":                          `"intensity"`,
		"get planners":                       `"parameters"`,
		"status":                             `"controller"`,
		"top -n team-a":                      `"baselineG"`,
		"plans -n team-a":                    `"phases"`,
		"kinds":                              `"heldBy"`,
		"kinds Job":                          `"apiVersion"`,
		"forecast regions":                   `"region"`,
		"reproduce":                          `"experiment"`,
		"capacity explain batch":             `"metadata"`,
		"forecast --zone DE --at 2026-11-27": `"hours"`,
		"when --zone DE --length 3h --at 2026-11-27":               `"latestStart"`,
		"advise --zone DE --planner window --stride 7d --slack 6h": `"options"`,
	} {
		var values [2]any
		for i, format := range []string{formatJSON, formatYAML} {
			text, _, err := lullOn(t, c, append(strings.Fields(args), "-o", format)...)
			if err != nil {
				t.Fatalf("lull %s -o %s: %v", args, format, err)
			}
			if format == formatYAML && strings.HasPrefix(text, "{") {
				t.Errorf("lull %s -o yaml is JSON: %s", args, text)
			}
			if format == formatJSON {
				found := false
				for k := range strings.SplitSeq(key, "|") {
					found = found || strings.Contains(text, k)
				}
				if err := json.Unmarshal([]byte(text), &values[i]); err != nil || !found {
					t.Errorf("lull %s: %v, want %s:\n%s", args, err, key, text)
				}
				continue
			}
			if err := yaml.Unmarshal([]byte(text), &values[i]); err != nil {
				t.Errorf("lull %s: %v\n%s", args, err, text)
			}
		}
		if !reflect.DeepEqual(values[0], values[1]) {
			t.Errorf("lull %s: JSON and YAML differ: %v, %v", args, values[0], values[1])
		}
	}
}

// TestEveryTableHasItsFormats: a command that prints a table, or sentences about a state, has -o with the formats for
// programs, unless -o is a file there.
func TestEveryTableHasItsFormats(t *testing.T) {
	files := map[string]bool{}
	for _, name := range []string{"plan", "plan generate", "profile", "ledger export", "report", "slurm install"} {
		files["lull "+name] = true
	}
	without := map[string]bool{}
	for _, name := range []string{
		"alerts", "manifests", "version", "controller", "failsafe", "admission", "extender", "serve", "fakegrid", "slurm controller", // print manifests, or run on
		"run", "demo", "release", "retire", "progress", "ledger drop", // do something
		"get", "capacity", "ledger", "slurm", // only have commands
	} {
		without["lull "+name] = true
	}
	eachCommand(newRoot(), func(c *cobra.Command) {
		if !c.Runnable() || without[c.CommandPath()] {
			return
		}
		f := c.Flags().Lookup("output")
		if f == nil {
			t.Errorf("%s has no -o", c.CommandPath())
			return
		}
		v, is := f.Value.(*choiceValue)
		if files[c.CommandPath()] == is {
			t.Errorf("%s: -o is a format: %v", c.CommandPath(), is)
		}
		if is && (!slices.Contains(v.accepted, formatJSON) || !slices.Contains(v.accepted, formatYAML)) {
			t.Errorf("%s: -o accepts %v", c.CommandPath(), v.accepted)
		}
	})
}

// TestFlagsHaveOneName: a flag that means the same has the same name in every command; names that it had are accepted.
func TestFlagsHaveOneName(t *testing.T) {
	found := map[string]bool{}
	eachCommand(newRoot(), func(c *cobra.Command) {
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if known, is := otherNames[f.Name]; is {
				t.Errorf("%s --%s: the name is --%s", c.CommandPath(), f.Name, known)
			}
			for shorthand, name := range map[string]string{"f": "filename", "n": "namespace", "o": "output", "A": "all-namespaces", "v": "verbose"} {
				if f.Shorthand == shorthand && f.Name != name {
					t.Errorf("%s: -%s is --%s, elsewhere --%s", c.CommandPath(), shorthand, f.Name, name)
				}
			}
			found[f.Name] = true
		})
	})
	for old, name := range otherNames {
		if !found[name] {
			t.Errorf("--%s stands for --%s, which no command has", old, name)
		}
	}
	for args, want := range map[string]string{
		"plan --file absent.json":     "absent.json",
		"simulate --file absent.yaml": "absent.yaml",
		"check --file absent.json x":  "absent.json",
		"fakegrid --listen nowhere":   "--bind-address: ",
		"failsafe --every 1ms":        "--interval: 1ms",
	} {
		if got := failure(t, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("lull %s: %s", args, got)
		}
	}
}

// TestExplainForPrograms: lull explain -o json has what it says in words: the plan, its hours and what would change it.
func TestExplainForPrograms(t *testing.T) {
	job := jobKind(t)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train", UID: "a", Annotations: map[string]string{
		v1alpha1.AnnotationPolicy: "clean", v1alpha1.AnnotationDecision: `{"verb":"Wait","reason":"CleanerLater","message":"power is cleaner later","at":"2026-11-27T00:00:00Z"}`,
	}}, Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	start := metav1.NewTime(time.Date(2026, 11, 27, 1, 0, 0, 0, time.UTC))
	p := &v1alpha1.CarbonPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: kube.PlanName(kube.NewWorkload(job, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "train", "namespace": "team-a", "uid": "a"},
	}}))}}
	p.Status.State, p.Status.Phases = v1alpha1.PlanWaiting, []v1alpha1.PlanPhase{{From: start, To: metav1.NewTime(start.Add(time.Hour)), Workers: 2}}
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "de"}}
	for hour := range 4 {
		zone.Status.Forecast = append(zone.Status.Forecast, v1alpha1.ForecastPoint{Time: metav1.NewTime(start.Add(time.Duration(hour-1) * time.Hour)), Intensity: 300})
	}
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "clean"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "de"}}
	text, _, err := lullOn(t, clusterOf(t, j, p, zone, policy), "explain", "job/train", "-n", "team-a", "-o", "json")
	var r explanationReport
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Workload != (workloadReference{"Job", "team-a", "train"}) || r.Policy != "clean" || r.Zone != "de" || r.Decision == nil || r.Decision.Reason != "CleanerLater" || r.Plan == nil || r.Plan.State != v1alpha1.PlanWaiting {
		t.Errorf("%s", text)
	}
	var workers []string
	for _, h := range r.Hours {
		workers = append(workers, h.Workers)
	}
	if !slices.Equal(workers, []string{"-", "2", "-"}) || r.WhatIf == nil {
		t.Errorf("workers %v: %s", workers, text)
	}
}

// TestFilesForPrograms: what reads files prints the same for programs, and -o json of simulate and advise is --json -.
func TestFilesForPrograms(t *testing.T) {
	dir := t.TempDir()
	instance, plan, export := dir+"/i.json", dir+"/p.json", dir+"/ledger.jsonl"
	lull(t, exitOK, "plan", "generate", "--jobs", "5", "-o", instance)
	lull(t, exitOK, "plan", "-f", instance, "-o", plan)
	var check checkReport
	if err := json.Unmarshal([]byte(stdout(t, "check", "-f", instance, plan, "-o", "json")), &check); err != nil || check.Planned != 5 || check.Faults == nil || check.EmissionsG <= 0 {
		t.Errorf("%+v, %v", check, err)
	}
	book := bookOf(t)
	lull(t, exitOK, "ledger", "export", "--database", book, "--entries", "-o", export)
	for args, want := range map[string]string{
		"ledger verify --export " + export + " -o json":              `"entries": 9,`,
		"ledger verify --export " + export + " -o yaml":              "entries: 9\n",
		"ledger show train -n batch --database " + book + " -o json": `"kind": "submitted"`,
		"report --database " + book + " --format yaml":               "workloads: 2\n",
	} {
		if got := stdout(t, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("lull %s lacks %q:\n%s", args, want, got)
		}
	}
	simulate := []string{"simulate", "--zone", "DE", "--planner", "asap", "--slot", "1h"}
	file, both := stdout(t, append(simulate, "--json", "-")...), stdout(t, append(simulate, "-o", "json")...)
	var a, b any
	if err := errors.Join(json.Unmarshal([]byte(file), &a), json.Unmarshal([]byte(both), &b)); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("simulate -o json is not --json -: %v", err)
	}
	for _, args := range [][]string{append(simulate, "--json", "-", "-o", "json"), {"advise", "--zone", "DE", "--json", "-", "-o", "yaml"}} {
		if got := failure(t, args...); !strings.Contains(got, "--json, --output: both are for standard output; accepted: one of them") {
			t.Error(got)
		}
	}
}
