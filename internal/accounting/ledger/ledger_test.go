package ledger

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func open(t testing.TB, file string) *Ledger {
	t.Helper()
	l, err := Open(context.Background(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func fresh(t testing.TB) *Ledger { return open(t, filepath.Join(t.TempDir(), "ledger.db")) }

func appendTo(t testing.TB, l *Ledger, list ...New) int {
	t.Helper()
	n, err := l.Append(context.Background(), list...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func numbered(from, to int) (out []New) {
	for i := from; i < to; i++ {
		out = append(out, New{Kind: KindEnergy, Key: fmt.Sprint("energy/", i), Workload: fmt.Sprint(i % 3), Body: map[string]any{"i": i, "text": "<a> & \"b\"\n"}})
	}
	return out
}

func TestAppend(t *testing.T) {
	l := fresh(t)
	ctx := context.Background()
	if n := appendTo(t, l, numbered(0, 10)...); n != 10 {
		t.Errorf("%d written, want 10", n)
	}
	if n := appendTo(t, l, numbered(5, 12)...); n != 2 {
		t.Errorf("%d written, want the 2 whose keys were not there", n)
	}
	if n := appendTo(t, l); n != 0 {
		t.Errorf("%d written of nothing", n)
	}
	seq, head, err := l.Head(ctx)
	if err != nil || seq != 12 {
		t.Errorf("the head is %d, %v; want 12", seq, err)
	}
	v, err := Verify(l.Read(ctx, Query{}))
	if err != nil || v.Entries != 12 || v.Head != head || v.Kinds[KindEnergy] != 12 {
		t.Errorf("verified %+v, %v", v, err)
	}
	var of []int64
	for e, err := range l.Read(ctx, Query{Workload: "1", After: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		of = append(of, e.Seq)
	}
	if !slices.Equal(of, []int64{5, 8, 11}) {
		t.Errorf("entries of workload 1 after 2: %v", of)
	}
}

// TestExportProvesTheSame: the raw export proves the same, in another place.
func TestExportProvesTheSame(t *testing.T) {
	l := fresh(t)
	appendTo(t, l, numbered(0, 50)...)
	var out bytes.Buffer
	n, err := WriteEntries(&out, l.Read(context.Background(), Query{}))
	if err != nil || n != 50 {
		t.Fatalf("%d entries, %v", n, err)
	}
	text := out.String()
	v, err := Verify(ReadEntries(&out))
	_, head, _ := l.Head(context.Background())
	if err != nil || v.Head != head || v.Entries != 50 {
		t.Errorf("%+v, %v", v, err)
	}
	lines := strings.SplitAfter(text, "\n")
	for name, changed := range map[string]string{
		"a digit":     strings.Replace(text, `"i":17`, `"i":18`, 1),
		"a line less": strings.Join(slices.Delete(slices.Clone(lines), 20, 21), ""),
		"the first":   strings.Join(lines[1:], ""),
		"two swapped": strings.Join(append(append(slices.Clone(lines[:5]), lines[6], lines[5]), lines[7:]...), ""),
		"not JSON":    text + "{",
		"a key twice": text + lines[0],
		"another day": strings.Replace(text, `"at":"20`, `"at":"19`, 1),
	} {
		if _, err := Verify(ReadEntries(strings.NewReader(changed))); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTamperingIsFound: what is changed in the database is found.
func TestTamperingIsFound(t *testing.T) {
	ctx := context.Background()
	for name, statement := range map[string]string{
		"a body":       `UPDATE ledger SET body = '{"i":99}' WHERE seq = 7`,
		"a workload":   `UPDATE ledger SET workload = 'other' WHERE seq = 7`,
		"a hash":       `UPDATE ledger SET hash = '` + strings.Repeat("0", 64) + `' WHERE seq = 7`,
		"a row less":   `DELETE FROM ledger WHERE seq = 7`,
		"all before 7": `DELETE FROM ledger WHERE seq < 7`,
	} {
		l := fresh(t)
		appendTo(t, l, numbered(0, 20)...)
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(l.Read(ctx, Query{})); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "7") && !strings.Contains(err.Error(), "8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLedgerHoldsAfterOldEntriesAreDropped: old entries go, the chain still holds, and what comes later is settled as it would have been.
func TestLedgerHoldsAfterOldEntriesAreDropped(t *testing.T) {
	ctx := context.Background()
	saved := func(drops bool) (float64, int64) {
		b := book{t, fresh(t)}
		clock := day
		b.l.clock = func() time.Time { return clock }
		s := NewSettler(b.l)
		now := func(string) time.Time { return clock }
		settle := func() {
			t.Helper()
			if _, err := s.Settle(ctx, now); err != nil {
				t.Fatal(err)
			}
		}
		b.offer(0, 1)
		b.hours(0, 500, 400, 300, 200, 100, 200)
		b.submit("a", 0)
		b.ran("a", "a-1", 4, 5)
		b.finished("a", 5)
		clock = at(6)
		settle()
		b.submit("b", 5.5) // in flight when the rest is dropped
		b.add(KindStarted, "started/b-1", "b", Started{Run: "b-1", At: at(7), Zone: "z", Node: "n", Workers: 1, Watts: 100})
		clock = at(24)
		if drops {
			for range 2 {
				n, err := b.l.Drop(ctx, at(23))
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d entries less", n)
				if v, err := Verify(b.l.Read(ctx, Query{})); err != nil || v.First == 1 {
					t.Fatalf("%+v, %v", v, err)
				}
				clock = clock.Add(time.Hour)
			}
			if b.settled()["a"].KWh != 0 {
				t.Error("a is still there")
			}
			s = NewSettler(b.l)
		}
		b.hours(6, 100, 200, 300)
		b.add(KindEnded, "ended/b-1", "b", Ended{Run: "b-1", At: at(8), How: Observed, Succeeded: true})
		b.finished("b", 8)
		clock = at(30)
		settle()
		v, err := Verify(b.l.Read(ctx, Query{}))
		if err != nil {
			t.Fatal(err)
		}
		return b.settled()["b"].SavedGrams, v.Entries
	}
	whole, n := saved(false)
	less, m := saved(true)
	if whole != less || whole == 0 || m >= n {
		t.Errorf("b saves %v of %d entries, after a drop %v of %d", whole, n, less, m)
	}
	l := fresh(t)
	if n, err := l.Drop(ctx, time.Now()); n != 0 || err != nil {
		t.Errorf("of nothing: %d, %v", n, err)
	}
	appendTo(t, l, numbered(0, 5)...)
	if n, err := l.Drop(ctx, time.Now().Add(time.Hour)); n != 4 || err != nil { // a checkpoint comes
		t.Errorf("of all: %d, %v", n, err)
	}
	if v, err := Verify(l.Read(ctx, Query{})); err != nil || v.Entries != 1 || v.First != 6 {
		t.Errorf("%+v, %v", v, err)
	}
	appendTo(t, l, numbered(5, 9)...)
	if _, err := l.db.ExecContext(ctx, `DELETE FROM ledger WHERE seq = 6`); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(l.Read(ctx, Query{})); !errors.Is(err, ErrBroken) {
		t.Errorf("more is missing than was dropped: %v", err)
	}
}

// TestNoPasswordIsTold: errors name the database without its password.
func TestNoPasswordIsTold(t *testing.T) {
	for _, url := range []string{"postgres://lull:hunter2@127.0.0.1:1/ledger", "postgres://lull:hunter2@%zz/ledger"} {
		_, err := Open(context.Background(), url)
		if !errors.Is(err, ErrDatabase) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
	if _, err := Open(context.Background(), filepath.Join(t.TempDir(), "no", "folder", "ledger.db")); !errors.Is(err, ErrDatabase) {
		t.Errorf("a file in no folder: %v", err)
	}
}

// TestKilledWritersLoseNoEntry kills 40 writers one after the other. Each is killed once it has told of a random number of new entries,
// up to those of eight batches, and a random moment later. What a writer told is in the ledger, no entry is there twice,
// and the chain holds.
//
// A writer does not wait for the test. So the kill strikes while it tells of a batch, begins a transaction, writes it or
// brings it to the disk; and the next writer finds the database as the kill left it. The log says how many kills left
// entries that were written and not told. TestKilledAtEachPoint and TestTornWriteLosesNoOtherEntry do so at fixed points.
func TestKilledWritersLoseNoEntry(t *testing.T) {
	if database := os.Getenv("LULL_LEDGER_WRITER"); database != "" {
		writer(database)
		return
	}
	killWriters(t, filepath.Join(t.TempDir(), "ledger.db"), 40)
}

// killWriters starts writers one after the other, kills each, and checks what the database holds in the end.
func killWriters(t *testing.T, database string, writers int) {
	t.Helper()
	const mostBatches = 8
	rnd := rand.New(rand.NewPCG(1, 1))
	told := map[string]bool{}
	untold := 0
	for range writers {
		before := len(told)
		found := runKilled(t, database, told, before+1+rnd.IntN(mostBatches*batch), time.Duration(rnd.Int64N(int64(killSpread))))
		if t.Failed() {
			return
		}
		if found > before {
			untold++
		}
	}
	l := open(t, database)
	there := map[string]bool{}
	sum := 0
	for e, err := range l.Read(t.Context(), Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		there[e.Key] = true
		sum++
	}
	for key := range told {
		if !there[key] {
			t.Errorf("%s was told to be written, and is not there", key)
		}
	}
	v, err := Verify(l.Read(t.Context(), Query{}))
	if err != nil || int(v.Entries) != sum || len(there) != sum {
		t.Errorf("%d entries, %d keys, verified %d: %v", sum, len(there), v.Entries, err)
	}
	if len(told) < 100 {
		t.Errorf("only %d entries were told to be written", len(told))
	}
	t.Logf("%d entries, %d of them told; %d of %d kills left entries that were written and not told", sum, len(told), untold, writers)
}

const (
	// batch is how many entries a writer of TestKilledWritersLoseNoEntry writes at a time.
	batch = 7
	// killSpread is about how long a writer takes for a batch. It spreads the kills; no result depends on it.
	killSpread = 5 * time.Millisecond
	// writerLimit ends a writer that makes no progress.
	writerLimit = 5 * time.Minute
)

// runKilled runs a writer and kills it, after a pause, once all writers together have told of so many entries. It adds
// to told, and returns how many entries the writer found. A writer that ends otherwise is an error.
func runKilled(t *testing.T, database string, told map[string]bool, kill int, pause time.Duration) (found int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), writerLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestKilledWritersLoseNoEntry$")
	cmd.Env = append(os.Environ(), "LULL_LEDGER_WRITER="+database)
	var unexpected bytes.Buffer
	cmd.Stderr = &unexpected
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if key, ok := strings.CutPrefix(line, "wrote "); ok {
			told[key] = true
		} else if _, err := fmt.Sscanf(line, "found %d", &found); err != nil {
			fmt.Fprintln(&unexpected, line)
		}
		if len(told) >= kill && !killed {
			time.Sleep(pause)
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !killed || status.Signal() != syscall.SIGKILL || unexpected.Len() > 0 {
		t.Errorf("a writer was not killed but ended, or did not get that far within %v: %v; %d entries told, the kill was due at %d; it said:\n%s",
			writerLimit, err, len(told), kill, &unexpected)
	}
	return found
}

// writer writes the same entries from the beginning on, as a controller that observes anew.
func writer(database string) {
	ctx := context.Background()
	l, err := Open(ctx, database)
	if err != nil {
		fmt.Println(err)
		return
	}
	seq, _, err := l.Head(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("found", seq)
	for i := 0; ; i++ {
		list := numbered(batch*i, batch*(i+1))
		if _, err := l.Append(ctx, list...); err != nil {
			fmt.Println(err)
			return
		}
		for _, n := range list {
			fmt.Println("wrote", n.Key)
		}
	}
}

func FuzzReadEntries(f *testing.F) {
	f.Add(`{"seq":1,"at":"2026-01-01T00:00:00Z","kind":"energy","key":"a","body":{},"hash":"00"}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Verify(ReadEntries(strings.NewReader(text)))
		if err != nil && !errors.Is(err, ErrBroken) {
			t.Errorf("%v", err)
		}
		if err == nil && v.Entries > 0 && v.Last != v.First+v.Entries-1 {
			t.Errorf("%+v", v)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l := fresh(b)
	i := 0
	for b.Loop() {
		appendTo(b, l, numbered(i, i+100)...)
		i += 100
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(i), "µs/entry")
}

func BenchmarkVerify(b *testing.B) {
	l := fresh(b)
	appendTo(b, l, numbered(0, 10_000)...)
	b.ResetTimer()
	for b.Loop() {
		if _, err := Verify(l.Read(context.Background(), Query{})); err != nil {
			b.Fatal(err)
		}
	}
}
