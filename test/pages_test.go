package test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// indexGroups are the sections of docs/README.md, in order: the four kinds of documentation.
var indexGroups = []string{"Tutorials", "How-to guides", "Reference", "Explanation"}

var indexEntry = regexp.MustCompile(`(?m)^- \[[^\]]+\]\(([^)#]+\.md)\)`)

// indexFaults says what is wrong with an index of pages: other groups, a page that is missing, listed twice or not there.
func indexFaults(index string, pages map[string]string) (out []string) {
	listed, groups := map[string]string{}, []string{}
	for i, section := range strings.Split("\n"+index, "\n## ") {
		if i == 0 {
			continue
		}
		group, text, _ := strings.Cut(section, "\n")
		groups = append(groups, group)
		for _, m := range indexEntry.FindAllStringSubmatch(text, -1) {
			page := m[1]
			if before, twice := listed[page]; twice {
				out = append(out, fmt.Sprintf("%s is listed in %s and in %s", page, before, group))
			}
			if _, there := pages[page]; !there {
				out = append(out, fmt.Sprintf("%s is listed in %s, and there is no such page", page, group))
			}
			listed[page] = group
		}
	}
	if !slices.Equal(groups, indexGroups) {
		out = append(out, fmt.Sprintf("the groups are %q, want %q", groups, indexGroups))
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		if listed[page] == "" && page != "README.md" {
			out = append(out, page+" is in no group")
		}
	}
	return out
}

// firstLineFault says what is wrong with the beginning of a page: its title, then one paragraph that says for whom it is.
func firstLineFault(text string) string {
	lines := strings.SplitN(text, "\n", 4)
	switch {
	case len(lines) < 4 || !strings.HasPrefix(lines[0], "# ") || lines[1] != "":
		return "want a title (# ...) and an empty line"
	case !strings.HasPrefix(lines[2], "For "):
		return fmt.Sprintf("the first line is %q; want one that says for whom the page is, and what they get (For ...)", lines[2])
	}
	return ""
}

// pagesOfDocs are the pages under docs by their paths there, without the design notes.
func pagesOfDocs(t *testing.T) map[string]string {
	t.Helper()
	pages, root := map[string]string{}, filepath.Join("..", "docs")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "design" {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".md") {
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		page, err := filepath.Rel(root, path)
		pages[filepath.ToSlash(page)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 40 {
		t.Fatalf("only %d pages", len(pages))
	}
	return pages
}

// TestPagesAreInTheIndex checks that docs/README.md lists every page once, in one of its four groups.
func TestPagesAreInTheIndex(t *testing.T) {
	pages := pagesOfDocs(t)
	for _, fault := range indexFaults(pages["README.md"], pages) {
		t.Errorf("docs/README.md: %s", fault)
	}
}

// TestPagesSayForWhom checks that every page says in its first line for whom it is.
func TestPagesSayForWhom(t *testing.T) {
	pages := pagesOfDocs(t)
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		if fault := firstLineFault(pages[page]); fault != "" {
			t.Errorf("docs/%s: %s", page, fault)
		}
	}
}

// TestFaultsOfPages checks that the two tests above can fail.
func TestFaultsOfPages(t *testing.T) {
	index := "# Documentation\n\n## Tutorials\n\n- [A](a.md)\n- [A again](a.md)\n- [gone](gone.md)\n\n## Reference\n"
	if got := indexFaults(index, map[string]string{"README.md": "", "a.md": "", "b.md": ""}); len(got) != 4 {
		t.Errorf("%d faults, want 4 (twice, gone, groups, in no group): %q", len(got), got)
	}
	for _, text := range []string{"", "For a\n", "# A\nFor a\n\n", "# A\n\nA page.\n\n"} {
		if firstLineFault(text) == "" {
			t.Errorf("no fault in %q", text)
		}
	}
	if fault := firstLineFault("# A\n\nFor users: how.\n"); fault != "" {
		t.Error(fault)
	}
}

// TestContributingNamesWhatThereIs checks that the worked examples of CONTRIBUTING.md name files that exist, and what is in them.
func TestContributingNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+\\.[a-z]+)` \\| (?:`(\\w+)`)? ?\\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 25 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		text, err := os.ReadFile(filepath.Join("..", row[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if row[2] != "" && !regexp.MustCompile(`(?m)^\s*(?:func|type|var)? ?(?:\([^)]*\) )?`+row[2]+`\b`).Match(text) {
			t.Errorf("%s declares no %s", row[1], row[2])
		}
	}
}
