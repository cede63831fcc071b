package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/test/size"
)

// fillSettled writes settled workloads, ten entries each, by one statement: millions of entries in a minute. Their hashes are
// zeros, which only an audit reads. at is when they were written; the workloads ended an hour before that.
func fillSettled(t testing.TB, l *Ledger, entries int, at time.Time, change ...func(*Settled)) {
	t.Helper()
	body := func(b any) string {
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
	}
	from, to := at.Add(-2*time.Hour).UTC(), at.Add(-time.Hour).UTC()
	of := Submitted{Policy: "ns/p", Kind: "Job", Namespace: "ns", Name: "job", At: from, Workers: 1, Zone: "z", Request: map[string]float64{"cpu": 1}, Watts: 10, Runtime: 3600, Deadline: to.Add(time.Hour)}
	settled := Settled{Of: of, Runs: 1, OnTime: true, From: from, To: to, WorkerHours: 1, KWh: 0.01, Method: "3", Grams: 1, Counterfactual: Counterfactual{Cluster: "", Zone: "z", From: from, To: to, Watts: 10, KWh: 0.01, Grams: 1}}
	for _, c := range change {
		c(&settled)
	}
	decided := Decided{At: from, Verb: "start", Reason: "Planned", Message: "as planned", Phases: []Phase{{From: from, To: to, Workers: 1, Intensity: 100}}}
	cases := []struct {
		kind Kind
		key  string
		body string
	}{
		{KindSubmitted, "'submitted/' || w", body(of)},
		{KindDecided, "'decided/' || w || '/0'", body(decided)},
		{KindDecided, "'decided/' || w || '/1'", body(decided)},
		{KindDecided, "'decided/' || w || '/2'", body(decided)},
		{KindStarted, "'started/' || w", `'{"run":"' || w || '",` + body(Started{Node: "n", At: from, Zone: "z", Workers: 1, Watts: 10})[2+len(`"run":"",`):]},
		{KindEnergy, "'energy/' || w || '/0'", body(Energy{From: from, To: to, Zone: "z", KWh: 0.01, Source: "kepler"})},
		{KindEnergy, "'energy/' || w || '/1'", body(Energy{From: from, To: to, Zone: "z", KWh: 0.01, Source: "kepler"})},
		{KindEnded, "'ended/' || w", `'{"run":"' || w || '",` + body(Ended{At: to, Succeeded: true})[2+len(`"run":"",`):]},
		{KindFinished, "'finished/' || w", body(Finished{At: to, How: "finished", Policy: "ns/p", Family: "job", RanSeconds: 3600})},
		{KindSettled, "'settled/' || w || '/0'", body(settled)},
	}
	kind, key, text := "CASE n % 10", "CASE n % 10", "CASE n % 10"
	for i, c := range cases {
		kind += fmt.Sprintf(" WHEN %d THEN '%s'", i, c.kind)
		key += fmt.Sprintf(" WHEN %d THEN %s", i, c.key)
		text += fmt.Sprintf(" WHEN %d THEN %s", i, c.body)
	}
	// UIDs that are not in order, as those of a cluster.
	uid, settings := `printf('%08x-0000-4000-8000-%012d', ((n / 10) * 2654435761) & 4294967295, n / 10)`, []string{"PRAGMA synchronous=OFF", "PRAGMA cache_size=-1000000"}
	after := "PRAGMA wal_checkpoint(TRUNCATE)"
	if l.hung > 0 { // PostgreSQL
		uid, settings = `lpad(to_hex(((n::bigint / 10) * 2654435761) & 4294967295), 8, '0') || '-0000-4000-8000-' || lpad((n / 10)::text, 12, '0')`, nil
		after = "ANALYZE ledger"
	}
	statement := fmt.Sprintf(`WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < %d), u(n, w) AS (SELECT n, %s FROM c)
		INSERT INTO ledger (seq, at, kind, key, workload, body, hash) SELECT n + 1, '%s', %s END, %s END, w, %s END, '%s' FROM u`, entries, uid, at.UTC().Format(timeFormat), kind, key, text, Hash{})
	for _, s := range append(settings, statement, fmt.Sprintf("INSERT INTO ledger_open (workload, seq, finished) VALUES ('', %d, 0)", entries), after) {
		if _, err := l.db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// heapMiB is the memory in use.
func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkStart is a start on a large ledger: of a recorder, until it can write, and of a settler, until its first pass is done. written says
// when the entries were: a settler reads again what it can still restate. LULL_LARGE adds ten million entries.
func BenchmarkStart(b *testing.B) {
	for _, entries := range size.Of([]int{1_000_000}, []int{1_000_000, 10_000_000}) {
		for _, days := range []int{400, 1} {
			b.Run(fmt.Sprintf("entries=%d/days-ago=%d", entries, days), func(b *testing.B) {
				l := fresh(b)
				fillSettled(b, l, entries, time.Now().Add(-time.Duration(days)*24*time.Hour))
				appendTo(b, l, New{KindSubmitted, "submitted/open", "open", Submitted{Policy: "ns/p", At: at(0), Zone: "z"}})
				var record, settle time.Duration
				before := heapMiB()
				var s *Settler
				rows := l.rows.Load()
				for b.Loop() {
					database := l.url
					began := time.Now()
					l, err := Open(context.Background(), database)
					if err != nil {
						b.Fatal(err)
					}
					r := NewRecorder(l)
					if err := r.Write(context.Background()); err != nil || !r.Health().Loaded {
						b.Fatal(err)
					}
					record += time.Since(began)
					began = time.Now()
					s = NewSettler(l)
					if _, err := s.Settle(context.Background(), func(string) time.Time { return time.Now() }); err != nil {
						b.Fatal(err)
					}
					settle += time.Since(began)
					rows = l.rows.Load()
					if err := l.Close(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(record.Seconds()*1000/float64(b.N), "ms-record")
				b.ReportMetric(settle.Seconds()*1000/float64(b.N), "ms-settle")
				b.ReportMetric(float64(rows), "rows")
				b.ReportMetric(heapMiB()-before, "MiB-kept")
				runtime.KeepAlive(s)
			})
		}
	}
}

// TestStartOnLargeLedgers: on a ledger of many entries, a controller that starts reads a bounded number of them until it can record, and one for each settled workload until the first pass of settlement
// is done. With LULL_LARGE, that are ten million entries in a file, and a million in PostgreSQL; the log has the times.
func TestStartOnLargeLedgers(t *testing.T) {
	t.Run("file", func(t *testing.T) { startsOnLarge(t, fresh(t), size.Of(20_000, 10_000_000)) })
	t.Run("postgres", func(t *testing.T) {
		l, err := Open(t.Context(), postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		startsOnLarge(t, l, size.Of(20_000, 1_000_000))
	})
}

func startsOnLarge(t *testing.T, l *Ledger, entries int) {
	began := time.Now()
	fillSettled(t, l, entries, time.Now().Add(-24*time.Hour))
	appendTo(t, l, New{KindSubmitted, "submitted/open", "open", Submitted{Policy: "ns/p", At: at(0), Zone: "z"}})
	t.Logf("%d entries are written in %v", entries, time.Since(began))
	before, rows := heapMiB(), l.rows.Load()
	l.caughtUp = false // as in a process that begins
	began = time.Now()
	r := NewRecorder(l)
	if err := r.Write(t.Context()); err != nil || !r.Health().Loaded {
		t.Fatal(err)
	}
	record, recorded := time.Since(began), l.rows.Load()-rows
	began, rows = time.Now(), l.rows.Load()
	s := NewSettler(l)
	if _, err := s.Settle(t.Context(), func(string) time.Time { return time.Now() }); err != nil {
		t.Fatal(err)
	}
	settle, settled := time.Since(began), l.rows.Load()-rows
	t.Logf("until it can record: %v, %d entries; first pass: %v, %d entries, %.0f MiB kept", record, recorded, settle, settled, heapMiB()-before)
	if recorded > mostLengths+10 || settled > int64(entries/10)+100 {
		t.Errorf("%d entries are read until it can record, %d by the first pass; want at most %d, %d", recorded, settled, mostLengths+10, entries/10+100)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(r)
}
