package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"lull.dev/lull/test/child"
)

// quarantined are the entries in quarantine.
func quarantined(t *testing.T, l *Ledger) (out []Quarantined) {
	t.Helper()
	for e, err := range l.Read(t.Context(), Query{Kind: KindQuarantined}) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := bodyOf[Quarantined](&e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// TestQuarantinedEntryBlocksNoOther: an entry that cannot be written keeps no other from being written, and is kept with
// its reason.
func TestQuarantinedEntryBlocksNoOther(t *testing.T) {
	l := fresh(t)
	good := func(key string) New { return New{Kind: KindEnergy, Key: key, Workload: "good", Body: 1} }
	for name, tc := range map[string]struct {
		bad    New
		reason string
	}{
		"infinite":     {New{Kind: KindEnergy, Key: "inf", Workload: "w", Body: Energy{KWh: math.Inf(1)}}, "unsupported value: +Inf"},
		"not a number": {New{Kind: KindEnergy, Key: "nan", Workload: "w", Body: Energy{KWh: math.NaN()}}, "unsupported value: NaN"},
		"no key":       {New{Kind: KindEnergy, Workload: "w", Body: 1}, "accepted: kind and key"},
		"line break":   {New{Kind: KindEnergy, Key: "a\nb", Workload: "w", Body: 1}, "without line breaks"},
		"zero byte":    {New{Kind: KindEnergy, Key: "a\x00b", Workload: "w", Body: 1}, "of UTF-8"},
		"no UTF-8":     {New{Kind: KindEnergy, Key: "a\xff", Workload: "w\xff", Body: 1}, "of UTF-8"},
		"long key":     {New{Kind: KindEnergy, Key: strings.Repeat("k", mostKey+1), Workload: "w", Body: 1}, "up to 1024 bytes"},
		"long body":    {New{Kind: KindEnergy, Key: "long", Workload: "w", Body: strings.Repeat("b", mostBody)}, "accepted: up to 1048576"},
		"no JSON":      {New{Kind: KindEnergy, Key: "func", Workload: "w", Body: func() {}}, "unsupported type"},
	} {
		before, count := len(quarantined(t, l)), l.Quarantine().Entries
		if n := appendTo(t, l, good(name+"/1"), tc.bad, good(name+"/2")); n != 3 {
			t.Errorf("%s: %d were written, want 3", name, n)
		}
		if n := appendTo(t, l, tc.bad); n != 0 {
			t.Errorf("%s: %d were written again", name, n)
		}
		got := quarantined(t, l)
		if len(got) != before+1 || !strings.Contains(got[before].Reason, tc.reason) || got[before].Kind != KindEnergy {
			t.Errorf("%s: in quarantine: %+v", name, got[before:])
		}
		if q := l.Quarantine(); q.Entries != count+1 || q.Last.Reason != got[len(got)-1].Reason {
			t.Errorf("%s: told of %+v", name, q)
		}
	}
	if _, err := Verify(l.Read(t.Context(), Query{})); err != nil {
		t.Error(err)
	}
}

// TestQuarantineOfTheDatabase: so does one that the database refuses.
func TestQuarantineOfTheDatabase(t *testing.T) {
	l := fresh(t)
	appendTo(t, l, numbered(0, 1)...)
	if _, err := l.db.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON ledger WHEN NEW.key IN ('energy/3', 'energy/5') BEGIN SELECT RAISE(ABORT, 'not here'); END`); err != nil {
		t.Fatal(err)
	}
	if n := appendTo(t, l, numbered(1, 8)...); n != 7 {
		t.Errorf("%d were written, want 7", n)
	}
	got := quarantined(t, l)
	if len(got) != 2 || got[0].Key != "energy/3" || !strings.Contains(got[0].Reason, "not here") || !strings.Contains(got[0].Body, `\"i\":3`) {
		t.Errorf("in quarantine: %+v", got)
	}
	if _, err := Verify(l.Read(t.Context(), Query{})); err != nil {
		t.Error(err)
	}
	for code, want := range map[string]bool{"22P05": true, "22021": true, "54000": true, "23514": true, "23505": false, "40001": false, "53100": false, "08006": false} {
		if got := refuses(fmt.Errorf("write: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("PostgreSQL's %s is about the row: %v, want %v", code, got, want)
		}
	}
}

// TestQuarantinedWorkloadIsNotSettled: one workload with an entry in quarantine, and one with figures that no workload
// has, are settled without figures; the sums of the others are theirs, and the auditor agrees.
func TestQuarantinedWorkloadIsNotSettled(t *testing.T) {
	b := book{t, fresh(t)}
	b.offer(0, 10)
	for _, uid := range []string{"good", "inf", "huge", "lost"} {
		b.submit(uid, 0, func(s *Submitted) {
			if uid == "huge" {
				s.Watts = 1e300
			}
		})
		if uid != "huge" {
			b.ran(uid, uid+"-1", 1, 2)
		}
	}
	b.add(KindStarted, "started/huge-1", "huge", Started{Run: "huge-1", At: at(1), Zone: "z", Workers: 1, Watts: 1e300})
	b.add(KindEnergy, "energy/inf", "inf", Energy{From: at(1), To: at(2), Zone: "z", KWh: math.Inf(1), Source: "kepler"})
	b.add(KindSubmitted, "submitted/never", "never", Submitted{Policy: "ns/p", At: at(0), Watts: math.Inf(1)})
	b.ran("never", "never-1", 1, 2)
	for _, uid := range []string{"good", "inf", "huge", "lost", "never"} {
		b.finished(uid, 2)
	}
	b.hours(0, 100, 200, 300)
	// As one was written before intensities had a limit: as if it was not published.
	b.add(KindIntensity, "intensity/z/9/0", "", Intensity{Zone: "z", From: at(9), To: at(10), Value: 1.7e308, Signal: "average", Factor: "lifecycle"})
	s := NewSettler(b.l)
	b.settle(s, 3, 4)
	b.settle(s, 4, 0)
	if len(s.early) > 0 {
		t.Errorf("kept of workloads without a submission: %v", s.early)
	}
	list, err := Settlements(b.l.Read(t.Context(), Query{}), time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Summarize(list, Question{By: "policy", Top: 10})
	if err != nil {
		t.Fatal(err)
	}
	if sum.All.Workloads != 4 || sum.All.Withheld != 2 || !near(sum.All.KWh, 0.2) || !near(sum.All.Grams, 40) {
		t.Errorf("sums: %+v", sum.All)
	}
	if len(sum.Refused) != 2 || sum.Refused[0].Name != "ns/huge" || !strings.Contains(sum.Refused[0].Why, "kWh is 1e+297; accepted: 0 to 1e+10") || !strings.Contains(sum.Refused[1].Why, "an entry of it is in quarantine: ") {
		t.Errorf("named: %+v", sum.Refused)
	}
	if _, err := json.Marshal(sum); err != nil {
		t.Error(err)
	}
	b.audited()
}

// TestOldFiguresAreRefused: a settlement that was written before figures had limits is read as withheld.
func TestOldFiguresAreRefused(t *testing.T) {
	e := Entry{Kind: KindSettled, Body: json.RawMessage(`{"method":"3","kWh":1e305,"grams":1e307,"counterfactual":{"kWh":1e305,"grams":1e308},"savedGrams":9e307}`)}
	b, err := e.Settled()
	if err != nil || !b.Refused || b.KWh != 0 || b.Grams != 0 || b.SavedGrams != 0 || b.Counterfactual.Grams != 0 || b.Withheld == "" {
		t.Errorf("%+v %v", b, err)
	}
}

// TestInfinityIsRefused: neither Lull nor the auditor takes a number that is not finite.
func TestInfinityIsRefused(t *testing.T) {
	for _, number := range []string{"1e999", "Infinity", "NaN"} {
		var before Hash
		e := Entry{Seq: 1, At: at(0), Kind: KindSettled, Key: "settled/w/0", Workload: "w", Body: json.RawMessage(`{"kWh":` + number + `}`)}
		e.Hash = e.chain(before)
		entries := func(yield func(Entry, error) bool) { yield(e, nil) }
		if _, err := Verify(entries); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "entry 1 (settled settled/w/0): body: ") {
			t.Errorf("%s: verify: %v", number, err)
		}
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("python3 is not installed")
		}
		file := filepath.Join(t.TempDir(), "ledger.jsonl")
		line := fmt.Sprintf(`{"seq":1,"at":"%s","kind":"settled","key":"settled/w/0","workload":"w","body":%s,"hash":"%s"}`, at(0).Format(time.RFC3339), e.Body, e.Hash)
		if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python, child.Reads(t, auditor), file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "line 1: "+number+": not a finite number") {
			t.Errorf("%s: the auditor: %v\n%s", number, err, out)
		}
	}
}
