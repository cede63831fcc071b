package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// resultLine is a test that has ended, in what go test -v prints.
var resultLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (Test\w+)`)

// matrixRow is a row of the table of versions of docs/install.md.
type matrixRow struct {
	what  string
	tests []string
	cells map[string]string // by minor version
}

// matrix reads the table.
func matrix(t *testing.T, page string) (rows []matrixRow) {
	t.Helper()
	_, section, found := strings.Cut(page, "\n## Versions of Kubernetes\n")
	if !found {
		t.Fatal("docs/install.md has no section Versions of Kubernetes")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	minor, test := regexp.MustCompile(`^1\.[0-9]+`), regexp.MustCompile(`\bTest\w+`)
	var minors []string
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "| ") || len(cells) < 3 || minors != nil && len(cells) != len(minors)+2:
			if len(rows) > 0 {
				return rows
			}
		case minors == nil:
			for _, version := range cells[2:] {
				minors = append(minors, minor.FindString(version))
			}
		default:
			row := matrixRow{what: cells[0], tests: test.FindAllString(cells[1], -1), cells: map[string]string{}}
			for i, m := range minors {
				row.cells[m] = cells[i+2]
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// TestMatrixSaysWhatRan: each cell of the table of versions has one of the words that the table has, and says what came of the tests of its row where LULL_RESULTS, a
// folder, has what go test -v printed for that version: MINOR.log, as make test-kubernetes writes them. The last result of a test counts.
func TestMatrixSaysWhatRan(t *testing.T) {
	page, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := matrix(t, string(page))
	if len(rows) < 10 {
		t.Fatalf("%d rows", len(rows))
	}
	passed, notRun := []string{"yes", "policies", "webhook", "policies, webhook"}, []string{"not run", "does not apply"}
	for _, row := range rows {
		for minor, cell := range row.cells {
			if minor == "" || !slices.Contains(slices.Concat(passed, notRun), cell) {
				t.Errorf("%s, version %q: %q; accepted: %q, %q", row.what, minor, cell, passed, notRun)
			}
			text, err := os.ReadFile(filepath.Join(os.Getenv("LULL_RESULTS"), minor+".log"))
			if os.Getenv("LULL_RESULTS") == "" || os.IsNotExist(err) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			results := map[string]string{}
			for _, m := range resultLine.FindAllStringSubmatch(string(text), -1) {
				results[m[2]] = m[1]
			}
			all := len(row.tests) > 0
			for _, test := range row.tests {
				if all = all && results[test] == "PASS"; results[test] == "FAIL" && slices.Contains(passed, cell) {
					t.Errorf("%s, version %s: %q, but %s has failed", row.what, minor, cell, test)
				}
			}
			if all && cell == "not run" {
				t.Errorf("%s, version %s: %q, but %s have passed", row.what, minor, cell, strings.Join(row.tests, ", "))
			}
		}
	}
}
