package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
)

// TestExportsAreVerified: every command that reads a raw export refuses one that is forged, cut or empty, and
// says of a whole one what it has checked.
func TestExportsAreVerified(t *testing.T) {
	database := bookOf(t)
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl")
	_, exported := lull(t, exitOK, "ledger", "export", "--database", database, "--entries", "-o", whole)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	forged := strings.Replace(string(text), `"savedGrams":250`, `"savedGrams":950`, 1)
	if forged == string(text) {
		t.Fatalf("nothing to forge in\n%s", text)
	}
	bad := map[string]struct{ text, want string }{
		"forged": {forged, "the chain is broken: entry 8 (settled settled/1/1)"},
		"gap":    {strings.Join(append(append([]string{}, lines[:3]...), lines[4:]...), ""), "entry 5 follows 3"},
		"head":   {strings.Join(lines[1:], ""), "what lies before entry 2 is missing"},
		"empty":  {"", "nothing to verify: the ledger has no entries"},
		"blank":  {"\n\n", "nothing to verify: the ledger has no entries"},
	}
	commands := map[string][]string{
		"verify": {"ledger", "verify"}, "show": {"ledger", "show", "train", "-n", "batch"}, "export": {"ledger", "export"}, "entries": {"ledger", "export", "--entries"},
		"report": {"report"}, "impact": {"report", "--format", "impact"},
	}
	for name, args := range commands {
		for what, tc := range bad {
			file, out := filepath.Join(dir, what+".jsonl"), filepath.Join(dir, name+what)
			if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append(append([]string{}, args...), "--export", file)
			if args[1] != "verify" && args[1] != "show" {
				args = append(args, "-o", out)
			}
			if got := failure(t, args...); !strings.Contains(got, tc.want) {
				t.Errorf("%s of an export that is %s: %q; want %q", name, what, got, tc.want)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s of an export that is %s has written its output: %v", name, what, err)
			}
		}
		stdout, stderr := lull(t, exitOK, append(append([]string{}, args...), "--export", whole)...)
		if !strings.Contains(stdout+stderr, "9 entries (1 to 9), unbroken; head ") {
			t.Errorf("%s does not say what it has checked: %s", name, stderr)
		}
	}
	if !strings.Contains(exported, "9 entries (1 to 9), unbroken; head ") {
		t.Errorf("an export of a database says %q", exported)
	}
}

// TestReportSaysWhatItLeavesOut: workloads that are not settled are counted, from a database and from an export; a
// signal or factor that there is not, or that nothing has, is an error and not an empty report.
func TestReportSaysWhatItLeavesOut(t *testing.T) {
	file := bookOf(t)
	l, err := ledger.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)
	_, err = l.Append(t.Context(), ledger.New{Kind: ledger.KindSubmitted, Key: "submitted/3", Workload: "3", Body: ledger.Submitted{Kind: "Job", Namespace: "batch", Name: "next", At: at}},
		ledger.New{Kind: ledger.KindSubmitted, Key: "submitted/4", Workload: "4", Body: ledger.Submitted{Kind: "Job", Namespace: "batch", Name: "later", At: at.AddDate(0, 0, 5)}})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	export := filepath.Join(t.TempDir(), "l.jsonl")
	lull(t, exitOK, "ledger", "export", "--database", file, "--entries", "-o", export)
	for _, from := range [][]string{{"--database", file}, {"--export", export}} {
		for want, args := range map[string][]string{
			"2 workloads submitted by then are not settled yet, and in no figure":             nil,
			"1 workloads submitted by then are not settled yet, and in no figure: ":           {"--to", "2026-10-03"},
			"Nothing is settled in this time.\n2 workloads submitted by then are not settled": {"--from", "2027-01-01"},
			"Nothing is settled in this time. 2 workloads submitted by then are not settled":  {"--from", "2027-01-01", "--format", "html"},
			`"unsettled": 2`: {"--format", "json"},
			"2 workloads, submitted from 2026-10-01 00:00, ended by 2026-10-01 06:00; average intensities": {"--signal", "average", "--factor", "lifecycle"},
		} {
			if out := stdout(t, slices.Concat([]string{"report"}, from, args)...); !strings.Contains(out, want) {
				t.Errorf("%v %v: lacks %q:\n%s", from, args, want, out)
			}
		}
		if out := stdout(t, slices.Concat([]string{"report"}, from, []string{"--to", "2026-10-02"})...); strings.Contains(out, "not settled yet") {
			t.Errorf("%v: what was submitted later is counted:\n%s", from, out)
		}
		for want, args := range map[string][]string{
			`--signal: "sideways"; accepted: average or marginal`: {"--signal", "sideways"},
			`--factor: "life"; accepted: lifecycle or direct`:     {"--factor", "life"},
		} {
			if got := failure(t, slices.Concat([]string{"report"}, from, args)...); !strings.Contains(got, want) {
				t.Errorf("%v: %q; want %q", args, got, want)
			}
		}
		var out, notes strings.Builder
		if status := Main(slices.Concat([]string{"report"}, from, []string{"--signal", "marginal"}), nil, &out, &notes); status != 0 || !strings.Contains(notes.String(), "none of the 2 workloads") || !strings.Contains(notes.String(), "average lifecycle") {
			t.Errorf("%v with a signal that nothing has: status %d, %q", from, status, notes.String())
		}
	}
}

// TestReportStatesWhatRanAsSubmitted: the report counts the workloads that Lull let run as submitted, and says what the others saved.
func TestReportStatesWhatRanAsSubmitted(t *testing.T) {
	file := bookOf(t)
	if out := stdout(t, "report", "--database", file); strings.Contains(out, "ran as submitted") {
		t.Errorf("nothing was held out, and yet:\n%s", out)
	}
	l, err := ledger.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 10, 1, 2, 0, 0, 0, time.UTC)
	var held []ledger.New
	for uid, of := range map[string]ledger.Submitted{"h": {HeldOut: true}, "s": {Shadow: true}} {
		of.Kind, of.Namespace, of.Name, of.Policy, of.At = "Job", "batch", uid, "batch/clean", at
		held = append(held, ledger.New{Kind: ledger.KindSettled, Key: "settled/" + uid + "/0", Workload: uid, Body: ledger.Settled{
			Method: "3", Of: of, From: at, To: at.Add(time.Hour), Runs: 1, OnTime: true, KWh: 1, Grams: 500, Signal: "average", Factor: "lifecycle", Counterfactual: ledger.Counterfactual{From: at, To: at.Add(time.Hour), Grams: 500},
		}})
	}
	_, err = l.Append(t.Context(), held...)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	const want = "2 of 4 workloads (2.000 kWh) ran as submitted, as they were held out for comparison (holdOut) or their policy was in Shadow mode. All sums include them. Of the emissions of the others as submitted, 54.5 % was saved."
	if out := stdout(t, "report", "--database", file); !strings.Contains(out, want) { // 400 - 150 and 40 - 50, of 440
		t.Errorf("lacks %q:\n%s", want, out)
	}
}

// TestVerifyNamesWhatIsMissing: a database without entries has nothing to verify, and a head that is no hash is
// not looked for.
func TestVerifyNamesWhatIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(context.Background(), file)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"nothing to verify: the ledger has no entries": {"--database", file},
		`--head: ""; accepted: a hash`:                 {"--database", bookOf(t), "--head", ""},
		`--head: "4f0c"; accepted: a hash`:             {"--database", bookOf(t), "--head", "4f0c"},
		`--head: "` + strings.Repeat("z", 64):          {"--database", bookOf(t), "--head", strings.Repeat("z", 64)},
	} {
		if got := failure(t, append([]string{"ledger", "verify"}, args...)...); !strings.Contains(got, want) {
			t.Errorf("%v: %q; want %q", args, got, want)
		}
	}
}
