package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lull.dev/lull/internal/kinds"
)

func TestKinds(t *testing.T) {
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
	if got := failure(t, "kinds", "Cron"); !strings.Contains(got, "accepted: Deployment, Job") {
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
		"min 4, max 2":                           {"profile", "-f", file, "--min", "4", "--max", "2"},
		"--watts: cpu=":                          {"profile", "-f", file, "--watts", "cpu=x"},
		"--every":                                {"failsafe", "--every", "1ms"},
	} {
		if got := failure(t, args...); !strings.Contains(got, want) {
			t.Errorf("lull %s: %q lacks %q", strings.Join(args, " "), got, want)
		}
	}
}
