package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/test/child"
)

// audited fails the test where the auditor finds another figure than the ledger states.
func (b book) audited() {
	b.t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		return
	}
	file := filepath.Join(b.t.TempDir(), "ledger.jsonl")
	var text bytes.Buffer
	if _, err := WriteEntries(&text, b.l.Read(context.Background(), Query{})); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if out, err := exec.Command(python, child.Reads(b.t, auditor), file).CombinedOutput(); err != nil {
		b.t.Errorf("auditor: %v: %s", err, out)
	}
}

// summary returns the totals of what is settled.
func (b book) summary() (Summary, []Settlement) {
	b.t.Helper()
	list, err := Settlements(b.l.Read(context.Background(), Query{}), time.Time{}, time.Time{})
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := Summarize(list, Question{Top: 10})
	if err != nil {
		b.t.Fatal(err)
	}
	return s, list
}

// TestSettleFillsMissingHours moves one hour of work, 1 kW at 300 g/kWh, from hour 24 to
// hour 26, which has no published intensity. The value of the day before stands in: the
// work saves what that hour says, and not all it would have emitted.
func TestSettleFillsMissingHours(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	b.hours(0, 500, 500, 250)
	b.hours(24, 300, 300)
	b.hours(27, 300)
	b.submit("a", 24, func(s *Submitted) { s.Watts = 1000 })
	b.add(KindStarted, "started/a-1", "a", Started{Run: "a-1", At: at(26), Zone: "z", Node: "n", Workers: 1, Watts: 1000})
	b.add(KindEnded, "ended/a-1", "a", Ended{Run: "a-1", At: at(27), How: Observed, Succeeded: true})
	b.finished("a", 27)
	b.settle(s, 28, 1)
	x := b.settled()["a"]
	if !near(x.Grams, 250) || !near(x.Counterfactual.Grams, 300) || !near(x.SavedGrams, 50) || x.FilledSeconds != 3600 || x.Counterfactual.FilledSeconds != 0 || x.MissingSeconds != 0 || x.Withheld != "" || x.Method != "3" {
		t.Errorf("%+v, want 250 g by the day before against 300 g", x)
	}
	sum, _ := b.summary()
	if !near(sum.All.FilledHours, 1) || sum.All.Withheld != 0 || !near(sum.All.SavedGrams, 50) {
		t.Errorf("summary: %+v", sum.All)
	}
	b.audited()

	// The hour is published late: the work is settled again by it.
	b.hours(26, 290)
	b.settle(s, 29, 1)
	x = b.settled()["a"]
	if !near(x.Grams, 290) || !near(x.SavedGrams, 10) || x.FilledSeconds != 0 || x.Revision != 1 || !strings.Contains(x.Why, "of z") {
		t.Errorf("after the hour was published: %+v", x)
	}
	b.settle(NewSettler(b.l), 29, 0)
	b.audited()
}

// TestSettleRestatesWhatFilled checks that a revision of the hour that stands in for a
// missing one settles the work again.
func TestSettleRestatesWhatFilled(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	b.hours(0, 500, 500, 250)
	b.hours(24, 300, 300)
	b.hours(27, 300)
	b.submit("a", 24)
	b.ran("a", "a-1", 26, 27)
	b.finished("a", 27)
	b.settle(s, 28, 1)
	b.add(KindIntensity, "intensity/z/2/1", "", Intensity{Zone: "z", From: at(2), To: at(3), Value: 260, Revision: 1})
	b.settle(s, 29, 1)
	if x := b.settled()["a"]; !near(x.Grams, 26) || x.Revision != 1 {
		t.Errorf("%+v", x)
	}
	b.audited()
}

// TestSettleWithholdsUnknownHours moves an hour of work, 1 kW at 300 g/kWh, to an hour
// without an intensity within 7 days at its time of day. Nothing is known to be saved:
// what was emitted, would have been, and was saved is withheld, with the reason.
func TestSettleWithholdsUnknownHours(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	b.hours(0, 300, 300)
	b.hours(3, 300)
	b.submit("a", 0)
	b.ran("a", "a-1", 2, 3)
	b.finished("a", 3)
	b.submit("known", 1)
	b.ran("known", "k-1", 3, 4)
	b.finished("known", 4)
	b.settle(s, 5, 2)
	x := b.settled()["a"]
	if x.Grams != 0 || x.Counterfactual.Grams != 0 || x.SavedGrams != 0 || x.MissingSeconds != 3600 || !strings.Contains(x.Withheld, "7 days") || !near(x.KWh, 0.1) || !near(x.Counterfactual.KWh, 0.1) {
		t.Errorf("%+v, want no emissions and no saving stated", x)
	}
	sum, list := b.summary()
	if sum.All.Withheld != 1 || sum.All.Workloads != 2 || !near(sum.All.KWh, 0.2) || !near(sum.All.WithheldKWh, 0.1) || !near(sum.All.Grams, 30) || !near(sum.All.AsSubmittedGrams, 30) {
		t.Errorf("summary: %+v", sum.All)
	}
	for _, r := range Records(list) {
		if (r.Withheld != "") != (r.Workload == "a") {
			t.Errorf("record of %s: withheld %q", r.Workload, r.Withheld)
		}
	}
	var manifest bytes.Buffer
	if err := WriteImpact(&manifest, list, Question{}); err != nil || strings.Contains(manifest.String(), "lull/workload: a\n") || !strings.Contains(manifest.String(), "1 workload") {
		t.Errorf("manifest, %v:\n%s", err, manifest.String())
	}
	b.audited()
	// A later day has the hour: it is filled from there.
	b.hours(26, 200)
	b.settle(s, 30, 1)
	if x := b.settled()["a"]; !near(x.Grams, 20) || !near(x.SavedGrams, 10) || x.Withheld != "" || x.FilledSeconds != 3600 {
		t.Errorf("a day later: %+v", x)
	}
	b.audited()
}

// TestSettleBesideWithholdsItsOwn checks that hours missing beside withhold those figures
// only.
func TestSettleBesideWithholdsItsOwn(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	for h, v := range []float64{300, 200, 100} {
		b.add(KindIntensity, "intensity/z/"+string(rune('0'+h))+"/0", "", Intensity{Zone: "z", From: at(float64(h)), To: at(float64(h + 1)), Value: v, Beside: "m"})
		if h != 1 {
			b.add(KindIntensity, "intensity/m/"+string(rune('0'+h))+"/0", "", Intensity{Zone: "m", From: at(float64(h)), To: at(float64(h + 1)), Value: 700, Signal: "marginal"})
		}
	}
	b.submit("a", 0)
	b.ran("a", "a-1", 1, 2)
	b.finished("a", 2)
	b.settle(s, 3, 1)
	x := b.settled()["a"]
	if !near(x.SavedGrams, 10) || x.Withheld != "" || x.Beside == nil || x.Beside.SavedGrams != 0 || x.Beside.AsSubmittedGrams != 0 || x.Beside.Withheld == "" {
		t.Errorf("%+v, beside %+v", x, x.Beside)
	}
	if sum, _ := b.summary(); len(sum.Beside) != 1 || sum.Beside[0].Workloads != 0 || sum.Beside[0].Withheld != 1 {
		t.Errorf("beside: %+v", sum.Beside)
	}
	b.audited()
}

// oldEntry is a settlement as method 2 wrote it: an hour ran without an intensity, and
// counts as an hour without emissions.
func oldEntry(uid string) Settled {
	return Settled{
		Method: "2", Of: Submitted{Policy: "ns/p", Name: uid, Workers: 1, Request: map[string]float64{"cpu": 1}, Watts: 1000, At: at(0), Zone: "z", Deadline: at(24)},
		From: at(26), To: at(27), Runs: 1, OnTime: true, WorkerHours: 1, KWh: 1, Sources: []string{"model"}, Uncertainty: sources["model"], Signal: "average", Factor: "lifecycle",
		MissingSeconds: 3600, Counterfactual: Counterfactual{Cluster: "local", Zone: "z", From: at(0), To: at(1), Watts: 1000, KWh: 1, Grams: 300}, SavedGrams: 300,
	}
}

// TestOldSettlementsStillVerify checks that an entry of method 2 still verifies, that its invented
// saving of 300 g is stated no more, and that a settler states it anew where it still has
// what the entry rests on.
func TestOldSettlementsStillVerify(t *testing.T) {
	b := book{t, fresh(t)}
	b.offer(0, 1)
	b.hours(0, 300, 300, 280)
	b.submit("a", 0, func(s *Submitted) { s.Watts = 1000 })
	b.add(KindStarted, "started/a-1", "a", Started{Run: "a-1", At: at(26), Zone: "z", Node: "n", Workers: 1, Watts: 1000})
	b.add(KindEnded, "ended/a-1", "a", Ended{Run: "a-1", At: at(27), How: Observed, Succeeded: true})
	b.finished("a", 27)
	old := oldEntry("a")
	entries := int64(0)
	for _, err := range b.l.Read(context.Background(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		entries++
	}
	old.After = entries
	b.add(KindSettled, "settled/a/0", "a", old)
	b.add(KindSettled, "settled/dropped/0", "dropped", oldEntry("dropped"))
	v, err := Verify(b.l.Read(context.Background(), Query{}))
	if err != nil {
		t.Fatal(err)
	}
	b.audited()
	sum, list := b.summary()
	if sum.All.SavedGrams != 0 || sum.All.AsSubmittedGrams != 0 || sum.All.Withheld != 2 || len(list) != 2 || !strings.Contains(list[0].Withheld, "method 2") {
		t.Errorf("read before: %+v, %+v", sum.All, list)
	}
	s := NewSettler(b.l)
	b.settle(s, 28, 1)
	x := b.settled()["a"]
	if x.Method != "3" || x.Revision != 1 || !near(x.Grams, 280) || !near(x.SavedGrams, 20) || !strings.Contains(x.Why, "method 3") {
		t.Errorf("settled anew: %+v", x)
	}
	b.settle(s, 28, 0)
	b.settle(NewSettler(b.l), 28, 0)
	after, err := Verify(b.l.Read(context.Background(), Query{}))
	if err != nil || after.Entries != v.Entries+1 {
		t.Errorf("%+v, %v", after, err)
	}
	if sum, _ := b.summary(); sum.All.Withheld != 1 || !near(sum.All.SavedGrams, 20) {
		t.Errorf("read after: %+v", sum.All)
	}
	b.audited()
}

// TestReadSettledRefusesWhatItIsNot checks the error of a body that is none.
func TestReadSettledRefusesWhatItIsNot(t *testing.T) {
	if _, err := (&Entry{Seq: 7, Kind: KindSettled, Body: json.RawMessage(`[1]`)}).Settled(); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "entry 7") {
		t.Errorf("%v", err)
	}
}

// TestDropKeepsWhatFills checks that a drop keeps the hours that stand in for missing ones
// of workloads that are not settled.
func TestDropKeepsWhatFills(t *testing.T) {
	b := book{t, fresh(t)}
	b.l.clock = func() time.Time { return at(1) }
	b.offer(0, 1)
	b.hours(0, 500, 500, 250)
	b.hours(24, 300, 300)
	b.submit("a", 24)
	b.ran("a", "a-1", 26, 27)
	b.l.clock = func() time.Time { return at(30) }
	b.hours(27, 300)
	if _, err := b.l.Drop(context.Background(), at(29)); err != nil {
		t.Fatal(err)
	}
	b.finished("a", 27)
	b.settle(NewSettler(b.l), 31, 1)
	if x := b.settled()["a"]; !near(x.Grams, 25) || !near(x.SavedGrams, 5) || x.FilledSeconds != 3600 {
		t.Errorf("%+v", x)
	}
	if carbon.FillReach != 7*24*time.Hour {
		t.Errorf("carbon.FillReach is %v: FillRule says 7 days", carbon.FillReach)
	}
}
