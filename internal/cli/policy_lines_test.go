package cli

import (
	"maps"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/studies/scenario"
)

// TestSimulatePrintsWhatAPolicyTakes: each line that simulate prints for a planner is a spec of a CarbonPolicy that
// runs the same planner with the same parameters; what differs is said.
func TestSimulatePrintsWhatAPolicyTakes(t *testing.T) {
	dir := files(t, map[string]string{"jobs.csv": "id,arrival_s,length_s,cpus\na,0,7200,4\nb,1800,3600,2\n"})
	past := dir + "/past.json"
	stdout(t, "plan", "generate", "--jobs", "20", "--clusters", "1", "--kinds", "interruptible", "-o", past)
	args := []string{"simulate", "--jobs", dir + "/jobs.csv", "--capacity", "8"}
	for label, want := range map[string]struct {
		params map[string]string
		more   string
	}{
		"joint":                                {map[string]string{"reserve": "0"}, "plans again in each slot here"},
		"joint,revise=changes":                 {map[string]string{"reserve": "0"}, ""},
		"joint,reserve=learned,revise=changes": {nil, "the default"},
		"joint,effort=2,reserve=0.2":           {map[string]string{"reserve": "0.2", "effort": "2"}, "plans again"},
		"window,window-frame=4h":               {map[string]string{"window-frame": "4h"}, "plans again"},
		"asap,revise=changes":                  {nil, ""},
	} {
		out := stdout(t, append(append([]string{}, args...), "--planner", label)...)
		_, lines, ok := strings.Cut(out, "As spec of a CarbonPolicy, with slot: 15m, startMargin: 5m, minRun: 0s, minPause: 0s and minSaving: 0.01:\n")
		var spec v1alpha1.CarbonPolicySpec
		if err := yaml.UnmarshalStrict([]byte(lines), &spec); !ok || err != nil {
			t.Fatalf("%s: %v\n%s", label, err, out)
		}
		if !maps.Equal(spec.Planner.Parameters, want.params) || !strings.Contains(lines, want.more) || want.more == "" && strings.Contains(lines, "plans again") {
			t.Errorf("%s: %q", label, lines)
		}
		if _, err := NewPlanner(spec.Planner.Name, spec.Planner.Parameters, nil); err != nil {
			t.Errorf("%s: %v", label, err)
		}
	}
	if out := stdout(t, append(args, "--planner", "carbonflex,history="+past)...); !strings.Contains(out, "a policy cannot state it") {
		t.Errorf("%s", out)
	}
	out := stdout(t, "advise", "--length", "3h", "--slack", "6h", "--stride", "24h")
	_, lines, _ := strings.Cut(out, "writes all of it):\n")
	lines, rest, _ := strings.Cut(lines, "A CarbonPolicy also keeps startMargin")
	var spec v1alpha1.CarbonPolicySpec
	if err := yaml.UnmarshalStrict([]byte(lines), &spec); err != nil || spec.Slot == nil || spec.MaxDelay.Hours() != 6 || rest == "" {
		t.Errorf("advise: %v\n%s", err, out)
	}
}

// TestScenarioDefaultsAreThoseOfAPolicy: the slot and the margin of a simulation that states none.
func TestScenarioDefaultsAreThoseOfAPolicy(t *testing.T) {
	s := &scenario.Scenario{}
	cfg, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	text := schemaOf(t, "lull.dev_carbonpolicies.yaml").Properties["spec"]
	for field, got := range map[string]time.Duration{"slot": cfg.Slot, "startMargin": cfg.Margin} {
		want, err := time.ParseDuration(text.Properties[field].Default.(string))
		if err != nil || got != want {
			t.Errorf("%s: %v, a policy has %v (%v)", field, got, want, err)
		}
	}
	s = &scenario.Scenario{Margin: &scenario.Duration{}}
	if cfg, err = s.Build(); err != nil || cfg.Margin != 0 {
		t.Errorf("a margin of 0 is stated: %v, %v", cfg.Margin, err)
	}
}
