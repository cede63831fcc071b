package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"repository/pkg/x", "shared/data/carbon", "other/carbon", "other/jobs"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "repository", "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(top, "repository", "pkg", "x"))
	for name, c := range map[string]struct{ variable, part, want, err string }{
		"beside the repository":    {part: "carbon", want: "shared/data"},
		"the variable":             {variable: "other", part: "jobs", want: "other"},
		"a part is missing":        {part: "jobs", err: "shared/data/jobs: no such file or directory; set LULL_DATA to its folder"},
		"no such folder":           {variable: "none", part: "jobs", err: "none: no such file or directory; set LULL_DATA to its folder"},
		"the variable comes first": {variable: "none", part: "carbon", err: "the recorded data is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, "")
			if c.variable != "" {
				t.Setenv(Variable, filepath.Join(top, c.variable))
			}
			got, err := Find(c.part)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v; want one that says %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(top, c.want); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}
