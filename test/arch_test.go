// Package test holds tests of the project as a whole.
package test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestCoreIsPure: what pkg depends on is the standard library and itself.
// Researchers import it; it must bring no Kubernetes, network or database along.
func TestCoreIsPure(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "lull.dev/lull/pkg/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	packages := strings.Fields(string(out))
	if len(packages) < 10 {
		t.Fatalf("go list found only %v", packages)
	}
	for _, p := range packages {
		if !strings.HasPrefix(p, "lull.dev/lull/pkg/") {
			t.Errorf("the core depends on %s", p)
		}
	}
}

// TestPlannersDoNotImportEachOther: what planners share lives in pkg/plan, in relax and
// in rollout, which import no planner either.
func TestPlannersDoNotImportEachOther(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "lull.dev/lull/pkg/plan/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	const root = "lull.dev/lull/pkg/plan/"
	shared := map[string]bool{root + "planio": true, root + "plantest": true}
	foundation := map[string]bool{root + "relax": true, root + "rollout": true}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		for _, imported := range fields[1:] {
			if !shared[fields[0]] && !foundation[imported] && strings.HasPrefix(imported, root) {
				t.Errorf("%s imports %s", fields[0], imported)
			}
		}
	}
}
