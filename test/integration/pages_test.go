//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runPage runs the commands of a page of docs as they are printed, in a folder that looks like the
// repository, and returns what they print. The page ends its lab itself, or it is ended.
func runPage(t *testing.T, page string, blocks int) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	must(t, err)
	script := "set -eu\nshopt -s expand_aliases\ntrap 'kill $(jobs -p); bin/lab down' EXIT\n"
	found := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(found) < blocks {
		t.Fatalf("%d blocks of commands; the page has at least %d", len(found), blocks)
	}
	for _, block := range found {
		script += block[1]
	}
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	must(t, err)
	for _, e := range entries {
		if e.Name() != ".lab" {
			must(t, os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.WaitDelay = 20 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.CombinedOutput()
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, name := range logs {
			log, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", name, log[max(0, len(log)-2000):])
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestQuickStart does what a new user does, in the words of docs/quickstart.md.
func TestQuickStart(t *testing.T) {
	out := runPage(t, "quickstart.md", 6)
	t.Log(out)
	for _, want := range []string{"Suspended", "governed by CarbonPolicy batch", "CleanerLater", "job.batch/train condition met", "Release", "default/train  Job"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q", want)
		}
	}
}

// TestKustomize: the base renders with an image of one's own, and the API server accepts what comes of it.
func TestKustomize(t *testing.T) {
	dir := t.TempDir()
	base, err := filepath.Abs(filepath.Join("..", "..", "kustomize"))
	must(t, err)
	from, err := filepath.EvalSymlinks(dir)
	must(t, err)
	base, err = filepath.Rel(from, base)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: ["+base+"]\nimages: [{name: lull, newName: registry.example/lull, newTag: v9}]\n"), 0o600))
	out, err := lab("kubectl", "kustomize", dir)
	if err != nil || strings.Count(out, "image: registry.example/lull:v9") != 2 {
		t.Fatalf("%v\n%s", err, out[:min(len(out), 2000)])
	}
	file := filepath.Join(dir, "all.yaml")
	must(t, os.WriteFile(file, []byte(out), 0o600))
	if out, err := lab("kubectl", "--kubeconfig", env.kubeconfig, "apply", "--dry-run=server", "-f", file); err != nil || strings.Count(out, "\n") < 45 {
		t.Errorf("%v\n%s", err, out)
	}
}
