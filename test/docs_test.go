package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namedTest = regexp.MustCompile("`(Test[A-Z]\\w*)(?:/[^`]*)?`")
)

// TestDocsNameTestsThatExist: a test that a page names, as evidence of what it says, is there.
func TestDocsNameTestsThatExist(t *testing.T) {
	known, pages := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() != ".." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return err
		}
		test, page := strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".md")
		if !test && !page {
			return nil
		}
		raw, err := os.ReadFile(path)
		if page {
			pages[path] = string(raw)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(raw), -1) {
			known[m[1]] = known[m[1]] || test
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for path, text := range pages {
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			if named++; !known[m[1]] {
				t.Errorf("%s names %s, which is no test", path, m[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("%d tests named: the test shows little", named)
	}
}
