package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/controller"
)

func TestKindsAreListedAndReadBack(t *testing.T) {
	out := stdout(t, "kinds")
	for _, k := range kinds.Builtin() {
		if !strings.Contains(out, k.Name+" ") {
			t.Errorf("lull kinds lacks %s:\n%s", k.Name, out)
		}
	}
	text := stdout(t, "kinds", "MPIJob")
	k, err := kinds.Parse([]byte(text))
	if err != nil || k.Name != "MPIJob" || !k.Elastic() {
		t.Errorf("what lull kinds prints is not read back: %v\n%s", err, text)
	}
	if got := failure(t, "kinds", "Cron"); !strings.Contains(got, "accepted: AppWrapper, ") {
		t.Error(got)
	}
}

// TestManifestsGrantOnlyWhatIsGoverned: rights to a kind come with the kind.
func TestManifestsGrantOnlyWhatIsGoverned(t *testing.T) {
	out := stdout(t, "manifests")
	for _, name := range []string{"lull-kind-jobs\n", "lull-kind-mpijobs.kubeflow.org\n", "hold-jobs.lull.dev", "lull-failsafe"} {
		if !strings.Contains(out, name) {
			t.Errorf("the manifests lack %q", name)
		}
	}
	for _, name := range []string{"lull-kind-pods", "lull-kind-deployments", "hold-pods"} {
		if strings.Contains(out, name) {
			t.Errorf("the manifests of the default kinds hold %q", name)
		}
	}
	if out := stdout(t, "manifests", "--kinds", "Pod"); !strings.Contains(out, "hold-pods.lull.dev") || strings.Contains(out, "hold-jobs.lull.dev") {
		t.Error("--kinds Pod does not print the Pod's alone")
	}
	if out := stdout(t, "manifests", "--image", "example/lull:1"); strings.Count(out, "image: \"example/lull:1\"\n") != 2 || strings.Contains(stdout(t, "manifests"), "kind: Deployment\n") {
		t.Error("--image does not add the Deployments, or they are there without it")
	}
	if out := stdout(t, "manifests", "--web", "--image", "example/lull:1"); !strings.Contains(out, "--web-bind-address=:8443") || !strings.Contains(out, "name: lull-web") {
		t.Error("--web does not add the web page")
	}
	file := filepath.Join(t.TempDir(), "kind.yaml")
	if err := os.WriteFile(file, []byte("kind: WorkloadKind\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`--kinds: invalid workload kind: "Jobs"`: {"manifests", "--kinds", "Jobs"},
		"--kind-file " + file:                    {"manifests", "--kind-file", file},
		"--kind-file: open":                      {"manifests", "--kind-file", file + "x"},
		"progress: \"1.5\"":                      {"progress", "1.5", "--workload", "job/x"},
		"--workload: not set":                    {"progress", "0.5"},
		"either KIND/NAME or --all":              {"release", "--all", "job/x"},
		"--duration":                             {"profile", "-f", file, "--duration", "1ms"},
		"--max: 2; accepted: at least --min, 4":  {"profile", "-f", file, "--min", "4", "--max", "2"},
		"--watts: cpu=":                          {"profile", "-f", file, "--watts", "cpu=x"},
		"--interval":                             {"failsafe", "--every", "1ms"},
		"--image:":                               {"manifests", "--image", "a b"},
	} {
		if got := failure(t, args...); !strings.Contains(got, want) {
			t.Errorf("lull %s: %q lacks %q", strings.Join(args, " "), got, want)
		}
	}
}

// TestPrometheusFlagsThatLeakATokenAreRefused: an address with which a token would be sent in the clear, or that
// holds one, is refused by name.
func TestPrometheusFlagsThatLeakATokenAreRefused(t *testing.T) {
	for _, tc := range []struct {
		url, token string
		every      time.Duration
		want       string
	}{
		{"", "", time.Minute, ""},
		{"http://prometheus.monitoring:9090", "", time.Minute, ""},
		{"https://prometheus/x", "file", time.Minute, ""},
		{"http://127.0.0.1:9090", "file", time.Minute, ""},
		{"http://prometheus:9090", "file", time.Minute, "https"},
		{"prometheus:9090", "", time.Minute, "--prometheus:"},
		{"http://user:secret@prometheus", "", time.Minute, "--prometheus:"},
		{"http://prometheus", "", time.Millisecond, "--prometheus-interval"},
	} {
		o := controllerOptions{events: "All"}
		o.prometheus, o.PrometheusInterval = prometheusFlags{tc.url, tc.token}, tc.every
		o.Limits = controller.Limits{Planners: PolicyPlanners(), DecisionTime: time.Second}
		err := o.check()
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret@")) {
			t.Errorf("%q with token %q: %v, want %q", tc.url, tc.token, err, tc.want)
		}
	}
}

// TestLimitFlagsThatMakeNoSenseAreRefused: limits of the controller that make no sense are refused.
func TestLimitFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--planners=":           "--planners: none; accepted: at least one of asap",
		"--planners=joint,asop": `unknown planner "asop"; accepted: asap`,
		"--decision-time=1ms":   "--decision-time: 1ms; accepted: 100ms to 5m",
		"--events=Some":         `--events: "Some"; accepted: All, Changes, Warnings`,
		"--decision-time=1h":    "--decision-time: 1h0m0s; accepted: 100ms to 5m",
	} {
		if out := failure(t, "controller", args); !strings.Contains(out, want) {
			t.Errorf("%s: %q, want %q", args, out, want)
		}
	}
}
