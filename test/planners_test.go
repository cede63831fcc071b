package test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPlannersAreListed checks that both lists of depguard have the package of every planner of the command line, and that
// bench measures every planner.
func TestPlannersAreListed(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	source, linter, bench := read("internal/cli/planners.go"), read(".golangci.yml"), read("bench/main.go")
	packages := regexp.MustCompile(`"(lull\.dev/lull/pkg/plan/[a-z]+)"\n`).FindAllStringSubmatch(source, -1)
	names := regexp.MustCompile(`name: "([a-z-]+)", source:|(?:gaia|vcc)Method\("([a-z-]+)"`).FindAllStringSubmatch(source, -1)
	if len(packages) < 10 || len(names) < 15 {
		t.Fatalf("internal/cli/planners.go: %d packages, %d planners; accepted: at least 10 and 15, or adapt the patterns", len(packages), len(names))
	}
	for _, p := range packages {
		if n := strings.Count(linter, "pkg: "+p[1]+"\n"); n != 2 {
			t.Errorf(".golangci.yml has %s %d times, want 2: in the lists methods and names of depguard", p[1], n)
		}
	}
	_, measured, _ := strings.Cut(bench, "var planners = []string{")
	measured, _, _ = strings.Cut(measured, "}")
	for _, m := range names {
		if name := m[1] + m[2]; !strings.Contains(measured, `"`+name+`"`) {
			t.Errorf("bench/main.go does not measure planner %s", name)
		}
	}
}
