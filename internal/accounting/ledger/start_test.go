package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/test/size"
)

// finishedWork writes workloads that are settled, and intensities, ten entries a workload, at a time
// long ago.
func finishedWork(t testing.TB, l *Ledger, workloads int) {
	t.Helper()
	l.clock = func() time.Time { return time.Now().Add(-2 * readBack) }
	defer func() { l.clock = time.Now }()
	for from := 0; from < workloads; from += 1000 {
		var list []New
		for i := from; i < min(from+1000, workloads); i++ {
			uid := fmt.Sprint("old-", i)
			list = append(list, New{KindSubmitted, "submitted/" + uid, uid, Submitted{Policy: "ns/p", At: at(0), Workers: 1, Zone: "z"}},
				New{KindStarted, "started/" + uid, uid, Started{Run: uid, Node: "n", At: at(0), Zone: "z", Workers: 1}}, New{KindEnded, "ended/" + uid, uid, Ended{Run: uid, At: at(1)}},
				New{KindFinished, "finished/" + uid, uid, Finished{At: at(1)}}, New{KindSettled, "settled/" + uid + "/0", uid, Settled{Of: Submitted{Zone: "z"}}})
			for k := range 5 {
				h := at(float64(5*i + k))
				list = append(list, New{KindIntensity, intensityKey("old", h.Unix(), 0), "", Intensity{Zone: "old", From: h, To: h.Add(time.Hour), Value: 100}})
			}
		}
		appendTo(t, l, list...)
	}
}

// rowsOfStart counts what is read of a ledger until a look can be recorded, and until a settler has made
// its first pass.
func rowsOfStart(t testing.TB, l *Ledger) (record, settle int64) {
	t.Helper()
	before := l.rows.Load()
	r := NewRecorder(l)
	r.wanted["z"] = []int64{at(0).Unix(), at(1).Unix(), at(2).Unix()}
	if err := r.Write(context.Background()); err != nil || !r.Health().Loaded || len(r.workloads) != 1 || len(r.hours["z"]) != 2 {
		t.Fatalf("%v: %d workloads, hours %v", err, len(r.workloads), r.hours["z"])
	}
	record = l.rows.Load() - before
	before = l.rows.Load()
	if _, err := NewSettler(l).Settle(context.Background(), func(string) time.Time { return at(3) }); err != nil {
		t.Fatal(err)
	}
	return record, l.rows.Load() - before
}

// TestStartReadsNoMoreOfALargeLedger: a start reads no more of a large ledger than of a small one, but for the run times of a bounded number
// of workloads.
func TestStartReadsNoMoreOfALargeLedger(t *testing.T) {
	rows := map[int][2]int64{}
	many := size.Of(2000, 10_000)
	for _, workloads := range []int{10, many} {
		l := fresh(t)
		finishedWork(t, l, workloads)
		b := book{t, l}
		b.submit("open", 0)
		b.add(KindStarted, "started/open-1", "open", Started{Run: "open-1", Node: "n", At: at(0), Zone: "z"})
		for k := range 2 {
			b.add(KindIntensity, intensityKey("z", at(float64(k)).Unix(), 0), "", Intensity{Zone: "z", From: at(float64(k)), To: at(float64(k + 1)), Value: 1})
		}
		b.add(KindIntensity, intensityKey("z", at(1).Unix(), 1), "", Intensity{Zone: "z", From: at(1), To: at(2), Value: 2, Revision: 1})
		l.caughtUp = false // as in a process that begins
		record, settle := rowsOfStart(t, l)
		rows[workloads] = [2]int64{record, settle}
		if plan := explain(t, l, unfinished); strings.Contains(plan, "SCAN ledger\n") || !strings.Contains(plan, "SEARCH ledger USING INDEX ledger_workload (workload=?)") {
			t.Errorf("what is open is not found by the workload:\n%s", plan)
		}
		if plan := explain(t, l, lastFinished, mostLengths); !strings.Contains(plan, "SEARCH ledger USING INDEX ledger_kind (kind=?)") {
			t.Errorf("the last workloads that ended are not found by their kind:\n%s", plan)
		}
	}
	small, large := rows[10], rows[many]
	t.Logf("rows read by a start: %v of 105 entries, %v of %d", small, large, 10*many+5)
	if large[0]-mostLengths != small[0]-10 || small[0]-10 > 10 {
		t.Errorf("the recorder read %d rows of the large ledger, %d of the small one", large[0], small[0])
	}
	if large[1] > small[1]+30 { // a search by halves
		t.Errorf("the settler read %d rows of the large ledger, %d of the small one", large[1], small[1])
	}
}

func explain(t *testing.T, l *Ledger, query string, args ...any) string {
	t.Helper()
	rows, err := l.db.QueryContext(t.Context(), l.rewrite("EXPLAIN QUERY PLAN "+query), args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var text string
		if err := rows.Scan(&id, &parent, &unused, &text); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestOpenIsMadeAnew: what an older version has written without ledger_open is taken into it.
func TestOpenIsMadeAnew(t *testing.T) {
	b := book{t, fresh(t)}
	open := func() (out []string) {
		for e, err := range b.l.unfinished(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e.Key)
		}
		return out
	}
	for i, uid := range []string{"a", "b", "c"} {
		b.submit(uid, float64(i))
		b.ran(uid, uid+"-1", 4, 5)
	}
	b.finished("a", 5)
	b.add(KindSettled, "settled/a/0", "a", Settled{})
	b.finished("b", 5)
	want := open()
	if !slices.Equal(want, []string{"submitted/c", "started/c-1", "ended/c-1"}) {
		t.Errorf("open: %v", want)
	}
	first, err := b.l.firstOpen(t.Context())
	if err != nil || first != 4 {
		t.Errorf("the first that is not settled is %d, want 4: %v", first, err)
	}
	for _, change := range []string{`DELETE FROM ledger_open`, `UPDATE ledger_open SET seq = 3 WHERE workload = ''`} {
		if _, err := b.l.db.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		b.l.caughtUp = false
		if got := open(); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", change, got, want)
		}
		if again, err := b.l.firstOpen(t.Context()); err != nil || again != first {
			t.Errorf("after %s: the first is %d, %v", change, again, err)
		}
	}
}

// TestEntriesAreChosenByWriteTime: entries are chosen by when they were written, without a read of the others.
func TestEntriesAreChosenByWriteTime(t *testing.T) {
	l := fresh(t)
	now := day
	l.clock = func() time.Time { return now }
	for i := range 200 {
		appendTo(t, l, numbered(i, i+1)...)
		now = now.Add(time.Hour)
	}
	before := l.rows.Load()
	n := 0
	for e, err := range l.Read(t.Context(), Query{Since: at(195)}) {
		if err != nil || e.At.Before(at(195)) {
			t.Fatal(e, err)
		}
		n++
	}
	if read := l.rows.Load() - before; n != 5 || read > 5+10 {
		t.Errorf("%d entries, %d rows read", n, read)
	}
	for _, since := range []float64{-1, 1000} {
		n := 0
		for _, err := range l.Read(t.Context(), Query{Since: at(since)}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if want := map[float64]int{-1: 200, 1000: 0}[since]; n != want {
			t.Errorf("since hour %v: %d entries, want %d", since, n, want)
		}
	}
}

// TestSettlerReadsOnlyWhatIsConcerned: a settler that starts reads one entry of each settled workload, and later reads again only those that
// a revised intensity concerns. Its memory keeps none of their entries.
func TestSettlerReadsOnlyWhatIsConcerned(t *testing.T) {
	b := book{t, fresh(t)}
	const workloads = 200
	b.hours(0, slices.Repeat([]float64{100}, workloads+2)...)
	for i := range workloads {
		uid := fmt.Sprintf("w%03d", i)
		b.submit(uid, float64(i))
		b.ran(uid, uid+"-1", float64(i), float64(i)+0.5)
		b.finished(uid, float64(i)+0.5)
	}
	b.settle(NewSettler(b.l), workloads+2, workloads)
	s := NewSettler(b.l)
	before := b.l.rows.Load()
	b.settle(s, workloads+2, 0)
	// An intensity an hour, and what was settled.
	if rows := b.l.rows.Load() - before; rows > 2*workloads+30 || len(s.works) > 0 || len(s.past.of) != workloads {
		t.Errorf("a settler that starts read %d rows of %d settled workloads, and keeps %d and %d", rows, workloads, len(s.works), len(s.past.of))
	}
	b.add(KindIntensity, intensityKey("z", at(50).Unix(), 1), "", Intensity{Zone: "z", From: at(50), To: at(51), Value: 200, Revision: 1})
	before = b.l.rows.Load()
	b.settle(s, workloads+2, 1)
	if rows := b.l.rows.Load() - before; rows > 10 {
		t.Errorf("a settler read %d rows to settle one workload again", rows)
	}
	if got := b.settled()["w050"]; got.Revision != 1 || got.Why == "" {
		t.Errorf("w050 is settled as %+v", got)
	}
	b.settle(NewSettler(b.l), workloads+2, 0) // that is known at the next start
	b.add(KindIntensity, intensityKey("z", at(60).Unix(), 1), "", Intensity{Zone: "z", From: at(60), To: at(61), Value: 200, Revision: 1})
	b.settle(NewSettler(b.l), workloads+2, 1) // and what was revised between
	if got := b.settled()["w060"]; got.Revision != 1 {
		t.Errorf("w060 is settled as %+v", got)
	}
}

// TestNothingIsRestatedFromAPart: of what a settled workload rests on, a second drop may leave a part: its first run was written again by the first drop, the next one was
// not. Such a workload keeps its figures.
func TestNothingIsRestatedFromAPart(t *testing.T) {
	b := book{t, fresh(t)}
	b.hours(0, 100, 100, 100, 100, 100)
	b.submit("a", 0)
	b.ran("a", "a-1", 0, 1)
	b.ran("a", "a-2", 2, 3)
	b.finished("a", 3)
	s := NewSettler(b.l)
	b.settle(s, 5, 1)
	if _, err := b.l.db.ExecContext(t.Context(), `DELETE FROM ledger WHERE key IN ('started/a-2', 'ended/a-2')`); err != nil {
		t.Fatal(err)
	}
	b.add(KindIntensity, intensityKey("z", at(0).Unix(), 1), "", Intensity{Zone: "z", From: at(0), To: at(1), Value: 200, Revision: 1})
	b.settle(s, 5, 0)
	if got := b.settled()["a"]; !near(got.KWh, 0.2) || got.Revision != 0 {
		t.Errorf("settled as %+v", got)
	}
}

// TestRoundingIsNoRevision: a sum in another order, as after a restart, is no other figure.
func TestRoundingIsNoRevision(t *testing.T) {
	of := func(grams, submitted float64, beside *Beside) *Settled {
		return &Settled{Grams: grams, Counterfactual: Counterfactual{Grams: submitted}, Beside: beside}
	}
	a := of(583.6299999999989, 441.1400623201684, &Beside{Zone: "b", Grams: 583.6299999999989})
	for name, tc := range map[string]struct {
		b    *Settled
		want bool
	}{
		"rounding":        {of(583.63, 441.14006232017124, &Beside{Zone: "b", Grams: 583.63, SavedGrams: 1e-12}), true},
		"grams":           {of(583.64, 441.1400623201684, a.Beside), false},
		"as submitted":    {of(583.63, 441.15, a.Beside), false},
		"grams beside":    {of(583.63, 441.1400623201684, &Beside{Zone: "b", Grams: 583.64}), false},
		"zone beside":     {of(583.63, 441.1400623201684, &Beside{Zone: "c", Grams: 583.63}), false},
		"withheld beside": {of(583.63, 441.1400623201684, &Beside{Zone: "b", Grams: 583.63, Withheld: "x"}), false},
		"nothing beside":  {of(583.63, 441.1400623201684, nil), false},
		"from nothing":    {of(1e-12, 441.1400623201684, a.Beside), false},
	} {
		if got := sameFigures(a, tc.b); got != tc.want {
			t.Errorf("%s: the same is %v, want %v", name, got, tc.want)
		}
	}
}
