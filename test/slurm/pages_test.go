//go:build slurm

package slurm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/studies/slurmlab"
)

var (
	pageCommand = regexp.MustCompile(`(?m)^ {4,}((?:sbatch|squeue|lull slurm) .*)$`)
	submitted   = regexp.MustCompile(`Submitted batch job (\d+)`)
)

// TestCommandsOfTheSlurmPageRun runs the commands of docs/slurm.md from the first to the last as they are printed, but for what asks a provider, the number of the first
// job, the folder of Slurm's configuration, and the date of a deadline.
func TestCommandsOfTheSlurmPageRun(t *testing.T) {
	t.Cleanup(func() { empty(t) })
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "slurm.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, script := range []string{"train.sh", "nightly.sh"} {
		if err := os.WriteFile(filepath.Join(dir, script), []byte("#!/bin/sh\nsleep 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(os.Getenv("LULL_BIN"), filepath.Join(dir, "lull")); err != nil {
		t.Fatal(err)
	}
	lab.configFile()
	here := []string{"/etc/slurm", lab.dir, "2026-06-02T08:00", time.Now().UTC().Add(36 * time.Hour).Format("2006-01-02T15:04")}
	answers, first := map[string]string{}, ""
	for _, m := range pageCommand.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], "--credential-file") || strings.Contains(m[1], "--slurm-rest ") {
			continue // it runs on: TestTheLedgerSaysWhatWasSaved has its other flags, TestEverySourceLive the provider, TestTheControllerUsesSlurmrestd slurmrestd
		}
		ctx, cancel := context.WithTimeout(t.Context(), slurmlab.Within)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-c", strings.NewReplacer(append(here, "4711", first)...).Replace(m[1]))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), fmt.Sprintf("PATH=%s:%s/usr/bin:%s", dir, lab.root, os.Getenv("PATH")))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", m[1], err, out)
		}
		t.Logf("%s:\n%s", m[1], out)
		if number := submitted.FindSubmatch(out); first == "" && number != nil {
			first = string(number[1])
		}
		answers[m[1]] = string(out)
	}
	if first == "" || len(answers) < 7 {
		t.Fatalf("job %q, %d commands; want a job, and at least 7 commands", first, len(answers))
	}
	for command, want := range map[string]string{
		"squeue -O JobID,State,EligibleTime,admin_comment:120": "\n" + first + " ",
		"lull slurm explain 4711":                              "Job " + first + " ",
		"lull slurm controller --zone DE --dry-run":            "Changed nothing (dry run)",
	} {
		if !strings.Contains(answers[command], want) {
			t.Errorf("%s: %q; want %q", command, answers[command], want)
		}
	}
}
