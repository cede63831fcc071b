package ledger

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"lull.dev/lull/test/child"
)

// auditor is the program that recomputes a ledger from its export.
const auditor = "../../../examples/audit/audit.py"

// TestAuditorFindsTheSameFigures: from the raw export alone a separate program finds the same figures to 1e-9, for a month of
// workloads that share a cluster: elastic, paused, measured, revised.
func TestAuditorFindsTheSameFigures(t *testing.T) {
	t.Parallel() // it waits for the disk
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	entries := month(true)
	settled := 0
	for part := range slices.Chunk(entries, 100) {
		appendTo(t, b.l, part...)
		hour := hourOf(t, part[len(part)-1])
		k, err := s.Settle(context.Background(), func(string) time.Time { return at(hour) })
		if err != nil {
			t.Fatal(err)
		}
		settled += k
	}
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = WriteEntries(out, b.l.Read(context.Background(), Query{}))
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	audit := func(file string, more ...string) ([]byte, error) {
		args := append([]string{child.Reads(t, auditor), file, "--from", "2026-03-01", "--to", "2026-04-01"}, more...)
		return exec.Command(python, args...).CombinedOutput()
	}
	chain, err := Verify(b.l.Read(context.Background(), Query{}))
	if err != nil {
		t.Fatal(err)
	}
	text, err := audit(file, "--head", chain.Head.String())
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var found struct {
		Workloads          int     `json:"workloads"`
		Withheld           int     `json:"withheld"`
		KWh                float64 `json:"kWh"`
		Grams              float64 `json:"gCO2eq"`
		SavedGrams         float64 `json:"saved_gCO2eq"`
		SettlementsChecked int     `json:"settlements_checked"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	records, err := Settlements(b.l.Read(context.Background(), Query{}), day, day.AddDate(0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	var kWh, grams, saved float64
	revised := 0
	for _, r := range records {
		kWh, grams, saved, revised = kWh+r.KWh, grams+r.Grams, saved+r.SavedGrams, revised+min(1, r.Revision)
	}
	t.Logf("%s; %d of %d revised", strings.TrimSpace(string(text)), revised, len(records))
	if len(records) != 300 || found.Workloads != 300 || found.SettlementsChecked != settled || revised < 50 || !near(found.KWh, kWh) || !near(found.Grams, grams) || !near(found.SavedGrams, saved) || saved == 0 {
		t.Errorf("%d records, %v kWh, %v g, %v g saved, %d settled, %d revised; the auditor found %s", len(records), kWh, grams, saved, settled, revised, text)
	}
	by, err := Summarize(records, Question{})
	if err != nil || by.All.FilledHours <= 0 || by.All.Withheld != 0 || found.Withheld != 0 {
		t.Errorf("no hours are filled, or figures withheld: %+v, %v", by.All, err)
	}
	if err != nil || len(by.Beside) != 1 || by.Beside[0].Workloads+by.Beside[0].Withheld != 300 || by.Beside[0].Withheld < 5 || by.Beside[0].Workloads < 200 || by.Beside[0].Signal != "marginal" || by.Beside[0].Grams <= 0 || near(by.Beside[0].Grams, grams) {
		t.Errorf("beside: %+v, %v", by.Beside, err)
	}
	// And it finds what is wrong.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.jsonl")
	if err := os.WriteFile(wrong, []byte(strings.Replace(string(whole), `"runs":`, `"runs":1`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := audit(wrong); err == nil || !strings.Contains(string(text), "wrong hash") {
		t.Errorf("a changed figure: %v, %s", err, text)
	}
	lines := strings.SplitAfter(strings.TrimSpace(string(whole)), "\n")
	if err := os.WriteFile(wrong, []byte(strings.Join(lines[:len(lines)-1], "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := audit(wrong, "--head", chain.Head.String()); err == nil || !strings.Contains(string(text), "no entry has the hash "+chain.Head.String()) {
		t.Errorf("the last entry is gone: %v, %s", err, text)
	}
	if err := os.WriteFile(wrong, []byte(lines[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := audit(wrong); err == nil || !strings.Contains(string(text), "what lies before entry 2 is missing") {
		t.Errorf("the second entry alone: %v, %s", err, text)
	}
	// What a checkpoint accounts for may be missing.
	if n, err := b.l.Drop(context.Background(), time.Now()); err != nil || n == 0 {
		t.Fatalf("dropped %d entries, %v", n, err)
	}
	shorter := filepath.Join(t.TempDir(), "shorter.jsonl")
	if out, err = os.Create(shorter); err != nil {
		t.Fatal(err)
	}
	_, err = WriteEntries(out, b.l.Read(context.Background(), Query{}))
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
	if text, err := audit(shorter); err != nil {
		t.Errorf("old entries are dropped: %v, %s", err, text)
	}
}

// TestRecordsComeOutInEachFormat: what was settled comes out as a table in each format; the last settlement of a workload
// counts.
func TestRecordsComeOutInEachFormat(t *testing.T) {
	b := book{t, fresh(t)}
	b.add(KindSettled, "settled/a/0", "a", Settled{Of: Submitted{Name: "a"}, From: at(1), To: at(2), Grams: 1, SavedGrams: 2})
	b.add(KindSettled, "settled/a/1", "a", Settled{Of: Submitted{Name: "a"}, From: at(1), To: at(2), Grams: 3, SavedGrams: 4, Revision: 1})
	b.add(KindSettled, "settled/b/0", "b", Settled{Of: Submitted{Name: "b, with a comma"}, From: at(1), To: at(1.5), Grams: 5})
	b.add(KindSettled, "settled/c/0", "c", Settled{Of: Submitted{Name: "c"}, From: at(20), To: at(30)})
	list, err := Settlements(b.l.Read(context.Background(), Query{}), at(0), at(24))
	records := Records(list)
	if err != nil || len(records) != 2 || records[0].Workload != "b" || records[1].Grams != 3 || records[1].Revision != 1 {
		t.Fatalf("%+v, %v", records, err)
	}
	var csvText, jsonText, parquetFile bytes.Buffer
	for format, to := range map[string]*bytes.Buffer{"csv": &csvText, "json": &jsonText, "parquet": &parquetFile} {
		if err := WriteRecords(to, format, records); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
	}
	lines, err := csv.NewReader(&csvText).ReadAll()
	if err != nil || len(lines) != 3 || lines[1][3] != "b, with a comma" || lines[2][16] != "3" || lines[0][16] != "gco2eq" {
		t.Errorf("%q, %v", lines, err)
	}
	var first Record
	if err := json.NewDecoder(&jsonText).Decode(&first); err != nil || first != records[0] {
		t.Errorf("%+v, %v", first, err)
	}
	back, err := parquet.Read[Record](bytes.NewReader(parquetFile.Bytes()), int64(parquetFile.Len()))
	if err != nil || len(back) != 2 || back[1].Grams != 3 || !back[1].End.Equal(at(2)) {
		t.Errorf("%+v, %v", back, err)
	}
	if err := WriteRecords(&csvText, "xml", records); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "csv, json, parquet") {
		t.Errorf("another format: %v", err)
	}
}
