//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// TestCommandsOfTheLedgerPageAreAccepted: what docs/ledger.md prints is accepted.
func TestCommandsOfTheLedgerPageAreAccepted(t *testing.T) {
	for _, text := range manifestsIn(t, "ledger.md", "CarbonPolicy") {
		var p v1alpha1.CarbonPolicy
		must(t, yaml.UnmarshalStrict([]byte(text), &p))
		p.Namespace = "default"
		if err := env.client.Create(context.Background(), &p, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// TestBinaryIsAPluginOfKubectl: the binary is a plugin of kubectl.
func TestBinaryIsAPluginOfKubectl(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink(os.Getenv("LULL_BIN"), filepath.Join(dir, "kubectl-lull")))
	run := func(args ...string) string {
		cmd := exec.Command(os.Getenv("LULL_LAB"), append([]string{"kubectl"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+dir, "KUBECONFIG="+env.kubeconfig)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out := run("lull", "status", "--system-namespace", "default"); !strings.Contains(out, "controller") {
		t.Errorf("kubectl lull status:\n%s", out)
	}
	if out := run("lull", "plans", "--help"); !strings.Contains(out, "kubectl lull plans [flags]") {
		t.Errorf("kubectl lull plans --help:\n%s", out)
	}
}
