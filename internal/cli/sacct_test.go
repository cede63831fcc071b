package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// weekOfSacct is the example of docs/questions/slurm-history.md.
const weekOfSacct = "../../examples/slurm/week.sacct"

// TestSimulateReadsSacct checks that the page on a Slurm cluster's last year prints what the command does.
func TestSimulateReadsSacct(t *testing.T) {
	out := stdout(t, "simulate", "--jobs", weekOfSacct, "--zone", "DE", "--max-delay", "12h", "--planner", "joint", "--estimate", "requested")
	page, err := os.ReadFile("../../docs/questions/slurm-history.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.Join(strings.SplitN(out, "\n", 6)[:5], "\n"), "\n") {
		if !strings.Contains(string(page), strings.TrimSpace(line)) {
			t.Errorf("the page has no line %q", line)
		}
	}
	for _, note := range []string{"1 with no run time", "5 jobs became eligible after their submission"} {
		if !strings.Contains(out, note) {
			t.Errorf("no %q in\n%s", note, out)
		}
	}
}

// TestSimulateSacctOnSoManyCPUs: --capacity bounds CPUs. The jobs also ask for memory, and the cluster has enough memory for all.
func TestSimulateSacctOnSoManyCPUs(t *testing.T) {
	peaks := func(capacity string) (out []float64) {
		var d struct{ Summary []struct{ PeakUse float64 } }
		text := stdout(t, "simulate", "--jobs", weekOfSacct, "--zone", "DE", "--max-delay", "24h", "--estimate", "requested", "--planner", "joint", "--capacity", capacity, "--json", "-")
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Summary {
			out = append(out, r.PeakUse)
		}
		return out
	}
	if got := peaks("4096"); len(got) != 3 || got[0] != 432 {
		t.Errorf("4096 CPUs: peaks of %v; want one each for the baseline, of 432 as with room for everything, for joint, and for joint that knows all run times", got)
	}
	if got := peaks("200"); len(got) != 3 || slices.Max(got) > 200 {
		t.Errorf("200 CPUs: peaks of %v", got)
	}
}

// TestAdviseReadsSacct: the same file is a history for lull advise, and --time-zone moves times that have no offset.
func TestAdviseReadsSacct(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(file, []byte("JobID|Submit|ElapsedRaw|NCPUS|State\n7|2026-03-01T10:00:00|7200|4|COMPLETED\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var d struct {
		Options []struct{ Starts int }
		Notes   []string
	}
	args := []string{"advise", "--jobs", file, "--format", "sacct", "--zone", "DE", "--slack", "6h", "--planner", "joint", "--json", "-"}
	for zone, note := range map[string]string{"": "read as UTC", "Europe/Berlin": "read by the clock of Europe/Berlin"} {
		if zone != "" {
			args = append(args, "--time-zone", zone)
		}
		if err := json.Unmarshal([]byte(stdout(t, args...)), &d); err != nil || len(d.Options) != 1 || d.Options[0].Starts != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		if !strings.Contains(strings.Join(d.Notes, "\n"), note) {
			t.Errorf("time zone %q: notes %q", zone, d.Notes)
		}
		args = args[:len(args)-2*min(1, len(zone))]
	}
	for _, x := range []struct{ args, want string }{
		{"advise --jobs " + file + " --format sacct --zone DE --time-zone Mars", `jobs.timeZone: "Mars"; accepted: a name of the time zone database`},
		{"simulate --jobs " + file + " --format csv --zone DE --time-zone UTC", "accepted: with format sacct"},
		{"simulate --jobs " + file + " --format csv --zone DE", "accepted: format sacct"},
		{"simulate --zone DE --time-zone UTC", "--time-zone: set without a trace"},
		{"advise --zone DE --time-zone UTC", "--time-zone: set without a trace"},
	} {
		if text := failure(t, strings.Fields(x.args)...); !strings.Contains(text, x.want) {
			t.Errorf("%s: error %q, want %s", x.args, text, x.want)
		}
	}
}
