package test

import (
	"os"
	"regexp"
	"testing"
)

// TestMakeHelp checks that the lines of make help fit 120 columns, and that the table of CONTRIBUTING.md describes the suites
// as make help does.
func TestMakeHelp(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	help := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):.*## (.*)$`).FindAllStringSubmatch(read("../Makefile"), -1) {
		help[m[1]] = m[2]
		const before = 2 + 16 + 1 // what make help prints before it
		if n := before + len(m[2]); n > 120 || len(m[1]) > 16 {
			t.Errorf("make help: the line of %s has %d columns, want at most 120", m[1], n)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| `make ([a-z-]*)` \\| (.*?) \\|").FindAllStringSubmatch(read("../CONTRIBUTING.md"), -1)
	if len(rows) < 10 || len(help) < 20 {
		t.Fatalf("%d suites in CONTRIBUTING.md, %d targets in the Makefile", len(rows), len(help))
	}
	for _, row := range rows {
		if row[2] != help[row[1]] {
			t.Errorf("CONTRIBUTING.md says of make %s %q, make help %q", row[1], row[2], help[row[1]])
		}
	}
}
