// Package test holds tests of the project as a whole.
package test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// TestCoreReadsNoClock: what pkg computes depends on its inputs alone; whoever wants it to use up a time passes the clock.
func TestCoreReadsNoClock(t *testing.T) {
	reads := regexp.MustCompile(`\btime\.(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTimer|NewTicker)\(`)
	files := 0
	err := filepath.WalkDir(filepath.Join("..", "pkg"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if code, _, _ := strings.Cut(line, "//"); reads.MatchString(code) {
				t.Errorf("%s:%d reads the clock: %s", path, i+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
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

// floors of internal/, from the ground up. A package imports those of its own floor and of floors below it only.
var floors = []string{"base", "carbon", "cluster", "accounting", "fleet", "web", "engine", "studies", "cli"}

// TestFloors: internal/ has floors, and imports go down.
func TestFloors(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "lull.dev/lull/internal/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	floorOf := func(path string) int {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "lull.dev/lull/internal/"), "/")
		return slices.Index(floors, name)
	}
	seen := map[int]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		floor := floorOf(fields[0])
		if floor < 0 {
			t.Errorf("%s is on no floor; accepted: %v", fields[0], floors)
		}
		seen[floor] = true
		for _, imported := range fields[1:] {
			if strings.HasPrefix(imported, "lull.dev/lull/internal/") && floorOf(imported) > floor {
				t.Errorf("%s imports %s, which is on a floor above it", fields[0], imported)
			}
		}
	}
	if len(seen) != len(floors) {
		t.Errorf("%d floors; want %d", len(seen), len(floors))
	}
}

// TestArchitecturePageNamesEveryPackage: the page that draws the house names every package of pkg and internal, and none that does not exist.
func TestArchitecturePageNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rooms, found := strings.Cut(string(page), "## Where things are")
	if !found {
		t.Fatal("docs/architecture.md has no section Where things are")
	}
	out, err := exec.Command("go", "list", "lull.dev/lull/internal/...", "lull.dev/lull/pkg/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("`((?:internal|pkg)/[a-z0-9/]+)`").FindAllStringSubmatch(rooms, -1) {
		named[name[1]] = true
		if _, err := os.Stat("../" + name[1]); err != nil {
			t.Errorf("docs/architecture.md: %v", err)
		}
	}
	for _, path := range strings.Fields(string(out)) {
		if name := strings.TrimPrefix(path, "lull.dev/lull/"); !named[name] {
			t.Errorf("docs/architecture.md does not say what is in %s", name)
		}
	}
}

// mostLines is how long a file may be, mostFunction a function. Tests tell a story from beginning to end: their functions may be longer.
const mostLines, mostFunction = 500, 80

// longFunctions are those that may be longer, with the reason.
var longFunctions = map[string]string{
	"test/simkube/operations/cases.go:writeCases":   "a table",
	"internal/cluster/kinds/manifests.go:admission": "the parts of one manifest",
	"lab/internal/controlplane/node.go:node":        "the arguments of one program",
	"lab/internal/controlplane/fleet.go:queues":     "the objects of one queue",
	"bench/cluster/main.go:run":                     "the steps of one measurement",
	"internal/studies/reproduce/week.go:build":      "one experiment",
	"internal/engine/controller/manager.go:Run":     "what the controller is made of",
	"internal/cli/simulate.go:scenario":             "one step for each flag",
}

// TestNoFileIsTooLong: no file is longer than a reader keeps in mind.
func TestNoFileIsTooLong(t *testing.T) {
	out, err := exec.Command("git", "-C", "..", "ls-files", "--cached", "--others", "--exclude-standard", "*.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	long := map[string]bool{}
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile("../" + name)
		if errors.Is(err, fs.ErrNotExist) || bytes.Contains(text, []byte("Code generated")) {
			continue
		}
		if n := bytes.Count(text, []byte("\n")); n > mostLines {
			t.Errorf("%s has %d lines; accepted: %d", name, n, mostLines)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			key := name + ":" + f.Name.Name
			lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
			if long[key] = lines > mostFunction; long[key] && longFunctions[key] == "" {
				t.Errorf("%s has %d lines; accepted: %d, or a reason in longFunctions", key, lines, mostFunction)
			}
		}
	}
	for key := range longFunctions {
		if !long[key] {
			t.Errorf("longFunctions has %s, which is not long", key)
		}
	}
}

// TestWalksNameRealFunctions: the functions that the walks of the architecture page name are in the files that it names.
func TestWalksNameRealFunctions(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile("\\| `([a-z0-9_/.]+\\.go)` \\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1)
	if len(steps) < 20 {
		t.Errorf("%d steps", len(steps))
	}
	for _, step := range steps {
		text, err := os.ReadFile("../" + step[1])
		if err != nil {
			t.Error(err)
			continue
		}
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + step[2] + `\(`).Match(text) {
			t.Errorf("%s has no function %s", step[1], step[2])
		}
	}
}
