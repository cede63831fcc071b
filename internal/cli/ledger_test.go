package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/accounting/ledger"
)

// bookOf is a ledger with two workloads, of which one is settled twice.
func bookOf(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	at := func(hour int) time.Time { return time.Date(2026, 10, 1, hour, 0, 0, 0, time.UTC) }
	of := func(name string) ledger.Submitted {
		return ledger.Submitted{Kind: "Job", Namespace: "batch", Name: name, Policy: "batch/clean", At: at(0), Workers: 1, Request: map[string]float64{"cpu": 2}, Deadline: at(24), Labels: map[string]string{"team": name, "images": "3"}}
	}
	settled := func(name string, grams, as float64, revision int) ledger.Settled {
		return ledger.Settled{
			Method: "1", Of: of(name), From: at(4), To: at(6), Runs: 1, OnTime: true, WorkerHours: 2, KWh: 1, Grams: grams, Uncertainty: 0.4, Signal: "average", Factor: "lifecycle",
			Counterfactual: ledger.Counterfactual{From: at(0), To: at(2), Grams: as}, SavedGrams: as - grams, Revision: revision,
		}
	}
	if _, err := l.Append(context.Background(),
		ledger.New{Kind: ledger.KindSubmitted, Key: "submitted/1", Workload: "1", Body: of("train")},
		ledger.New{Kind: ledger.KindDecided, Key: "decided/1/1", Workload: "1", Body: ledger.Decided{At: at(0), Verb: "Wait", Reason: "CleanerLater", Message: "waits"}},
		ledger.New{Kind: ledger.KindStarted, Key: "started/p", Workload: "1", Body: ledger.Started{Run: "p", At: at(4), Node: "node-1", Workers: 1, Watts: 500}},
		ledger.New{Kind: ledger.KindEnergy, Key: "energy/1/1", Workload: "1", Body: ledger.Energy{From: at(4), To: at(5), KWh: 0.4, Source: "kepler"}},
		ledger.New{Kind: ledger.KindEnded, Key: "ended/p", Workload: "1", Body: ledger.Ended{Run: "p", At: at(6), How: ledger.Observed}},
		ledger.New{Kind: ledger.KindFinished, Key: "finished/1", Workload: "1", Body: ledger.Finished{At: at(6), How: "finished"}},
		ledger.New{Kind: ledger.KindSettled, Key: "settled/1/0", Workload: "1", Body: settled("train", 100, 300, 0)},
		ledger.New{Kind: ledger.KindSettled, Key: "settled/1/1", Workload: "1", Body: settled("train", 150, 400, 1)},
		ledger.New{Kind: ledger.KindSettled, Key: "settled/2/0", Workload: "2", Body: settled("<eval>", 50, 40, 0)},
	); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLedgerCommands(t *testing.T) {
	file := bookOf(t)
	run := func(args ...string) (string, string, int) {
		status, stdout, stderr := runMain(args...)
		return stdout, stderr, status
	}
	export := filepath.Join(t.TempDir(), "ledger.jsonl")
	if _, errs, status := run("ledger", "export", "--database", file, "--entries", "-o", export); status != 0 {
		t.Fatal(errs)
	}
	verified, errs, status := run("ledger", "verify", "--export", export)
	if status != 0 || !strings.HasPrefix(verified, "9 entries (1 to 9), unbroken; head ") {
		t.Fatalf("%s%s", verified, errs)
	}
	head := strings.TrimSpace(verified[strings.LastIndex(verified, " "):])
	for _, tc := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"ledger", "verify", "--database", file, "--head", head}, []string{"unbroken"}},
		{[]string{"ledger", "show", "train", "-n", "batch", "--database", file}, []string{
			"2026-10-01 00:00:00  submitted: Job batch/train, policy batch/clean, 1 workers, to be done by 2026-10-02 00:00", "Wait (CleanerLater): waits", "04:00:00  runs: node-1, 500 W",
			"0.4 kWh measured by kepler since 04:00:00", "06:00:00  a run ends (observed)", "is over (finished)", "settled, revision 1: 1 kWh (0 % measured), 150 gCO2eq, give or take 40 %",
		}},
		{[]string{"ledger", "export", "--export", export}, []string{"workload,kind,namespace,name", "1,Job,batch,train,batch/clean", "<eval>"}},
		{[]string{"report", "--database", file, "--by", "label:team", "--embodied-kg", "1000", "--server-cpus", "10"}, []string{
			"2 workloads, submitted from 2026-10-01 00:00, ended by 2026-10-01 06:00; average intensities, lifecycle emissions, location-based.", "0 % of the energy was measured",
			"all     2          2.000  0.200    0.440         0.240   54.5      0.080         4.0            0",
			"<eval>  1          1.000  0.050    0.040         -0.010  -25.0", "batch/train   Job   2026-10-01 04:00", "gCO2eq per workload", "(O 200 g + M 22.82 g) / R 2",
		}},
		{[]string{"report", "--database", file, "--format", "html", "--by", "namespace"}, []string{"<h1>Emissions and savings</h1>", "By namespace", "&lt;eval&gt;"}},
		{[]string{"report", "--database", file, "--by", "team", "--delay-cost", "0.5"}, []string{"train   4.0             4.0         62.5              2.00  8.00\n", "<eval>  4.0             4.0         -2.5              2.00  -\n"}},
		{[]string{"report", "--database", file, "--format", "html", "--delay-cost", "0.5"}, []string{"What it took in delay", "<td>16.67</td>"}},
		{[]string{"report", "--database", file, "--from", "2027-01-01"}, []string{"Nothing is settled in this time."}},
	} {
		out, errs, status := run(tc.args...)
		if status != 0 {
			t.Errorf("lull %s: %s", strings.Join(tc.args, " "), errs)
		}
		for _, want := range tc.wants {
			if !strings.Contains(out, want) {
				t.Errorf("lull %s: want %q in\n%s", strings.Join(tc.args, " "), want, out)
			}
		}
	}
	var s ledger.Summary
	out, _, _ := run("report", "--database", file, "--format", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.All.SavedGrams != 240 || len(s.Top) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	text, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, bytes.Replace(text, []byte("CleanerLater"), []byte("CleanerSoon!"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"ledger", "verify", "--export", broken}, "the chain is broken: entry 2 (decided decided/1/1)"},
		{[]string{"ledger", "verify", "--database", file, "--head", strings.Repeat("0", 64)}, "no entry has the hash 0000"},
		{[]string{"ledger", "drop", "--database", file}, "--before: not given; accepted: a day"},
		{[]string{"ledger", "drop", "--database", file, "--before", "soon"}, `--before: "soon"; accepted: a day`},
		{[]string{"ledger", "verify"}, "--database, --export: neither is given; accepted: one of them"},
		{[]string{"ledger", "verify", "--database", filepath.Join(t.TempDir(), "none.db")}, "no such file"},
		{[]string{"ledger", "show", "other", "-n", "batch", "--database", file}, "workload batch/other: accepted: one that the ledger has"},
		{[]string{"ledger", "export", "--database", file, "--format", "xml"}, `format: "xml"; accepted: csv, json, parquet`},
		{[]string{"ledger", "export", "--database", file, "--entries", "--from", "2026-10-01"}, "accepted: without --entries"},
		{[]string{"report", "--database", file, "--from", "yesterday"}, `--from: "yesterday"; accepted: a day`},
		{[]string{"report", "--database", file, "--from", "2026-10-02", "--to", "2026-10-01"}, "accepted: after --from"},
		{[]string{"report", "--database", file, "--by", "moon"}, `by: "moon"; accepted: namespace`},
		{[]string{"report", "--database", file, "--delay-cost", "much"}, `delay cost: "much"; accepted: a number`},
		{[]string{"report", "--database", file, "--format", "pdf"}, `--format: "pdf"; accepted: text, html, json, yaml or impact`},
		{[]string{"report", "--database", file, "--unit", "workload"}, "--unit: accepted with --embodied-kg"},
		{[]string{"report", "--database", file, "--embodied-kg", "1", "--lifetime-years", "0"}, "--lifetime-years: 0; accepted: a number above 0, at most 100"},
	} {
		if out, errs, status := run(tc.args...); status == 0 || !strings.Contains(errs, tc.want) {
			t.Errorf("lull %s: status %d, %s%s; want %q", strings.Join(tc.args, " "), status, out, errs, tc.want)
		}
	}
	if out, errs, status := run("ledger", "drop", "--database", file, "--before", "2026-01-01"); status != 0 || out != "0 entries less\n" {
		t.Errorf("drop: %s%s", out, errs)
	}
	if out, errs, status := run("ledger", "drop", "--database", file, "--before", time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly)); status != 0 || out != "8 entries less\n" {
		t.Errorf("drop: %s%s", out, errs)
	}
}

// TestImpactManifestMatchesTheLedger is the manifest of the Impact Framework: what it multiplies is what was settled.
// TestBrowser's suite has the framework itself compute it.
func TestImpactManifestMatchesTheLedger(t *testing.T) {
	file := bookOf(t)
	text := stdout(t, "report", "--database", file, "--format", "impact", "--by", "label:team", "--embodied-kg", "1000", "--server-cpus", "50", "--unit", "worker-hour")
	var m struct {
		Initialize struct {
			Plugins map[string]struct{ Path, Method string }
		}
		Tree struct {
			Children map[string]struct {
				Pipeline struct{ Compute []string }
				Inputs   []map[string]any
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	train := m.Tree.Children["train"]
	if len(m.Tree.Children) != 2 || len(train.Inputs) != 1 || strings.Join(train.Pipeline.Compute, " ") != "operational-carbon carbon sci" || len(m.Initialize.Plugins) != 3 {
		t.Fatalf("%s", text)
	}
	in := train.Inputs[0]
	if in["energy"] != 1.0 || in["grid/carbon-intensity"] != 150.0 || in["duration"] != 7200.0 || in["functional-units"] != 2.0 || in["timestamp"] != "2026-10-01T04:00:00Z" {
		t.Errorf("%v", in)
	}
	if got := stdout(t, "report", "--database", file, "--format", "impact"); strings.Contains(got, "embodied") || !strings.Contains(got, "  all:\n") {
		t.Errorf("without hardware:\n%s", got)
	}
}

// TestCommandsNameQuarantinedEntries: verify counts entries in quarantine, show and report name the workload and the reason.
func TestCommandsNameQuarantinedEntries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	of := ledger.Submitted{Kind: "Job", Namespace: "batch", Name: "train", Policy: "batch/clean"}
	_, err = l.Append(t.Context(),
		ledger.New{Kind: ledger.KindSubmitted, Key: "submitted/w", Workload: "w", Body: of},
		ledger.New{Kind: ledger.KindEnergy, Key: "energy/w/1", Workload: "w", Body: ledger.Energy{KWh: math.Inf(1)}},
		ledger.New{Kind: ledger.KindSettled, Key: "settled/w/0", Workload: "w", Body: ledger.Settled{Of: of, Withheld: "an entry of it is in quarantine", Refused: true}})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"3 entries (1 to 3), unbroken; 1 of them in quarantine; head ":                         {"ledger", "verify"},
		"in quarantine: energy energy/w/1: invalid entry: body: json: unsupported value: +Inf": {"ledger", "show", "train", "-n", "batch"},
		"batch/train is left out of a sum: an entry of it is in quarantine.":                   {"report"},
	} {
		var out, errs bytes.Buffer
		if status := Main(append(args, "--database", file), nil, &out, &errs); status != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %d\n%s%s; want %q", args, status, &out, &errs, want)
		}
	}
}
