package ledger

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// spoil changes what the database has of an entry, as a person or a disk would.
func spoil(t *testing.T, l *Ledger, column, value, key string) {
	t.Helper()
	res, err := l.db.ExecContext(t.Context(), `UPDATE ledger SET `+column+` = '`+value+`' WHERE key = '`+key+`'`)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d entries %s, %v", n, key, err)
	}
}

// TestUnreadableEntryStopsNoOther: of two settled workloads, one has an entry that cannot be decoded. An intensity of both is revised: the other is
// settled again, and the entry is in quarantine, once, however often and by whomever it is read. New workloads are settled too; one of them
// has such an entry itself, and is settled without figures.
func TestUnreadableEntryStopsNoOther(t *testing.T) {
	for name, how := range map[string][2]string{"another type": {"body", `{"run":7,"at":7}`}, "no JSON": {"body", `{"run":`}, "no time": {"at", "yesterday"}, "no hash": {"hash", "zz"}} {
		t.Run(name, func(t *testing.T) {
			b := book{t, fresh(t)}
			b.offer(0, 9)
			for _, uid := range []string{"a", "b"} {
				b.submit(uid, 0)
				b.ran(uid, uid+"-1", 1, 2)
				b.finished(uid, 2)
			}
			b.hours(0, 100, 200, 300)
			s := NewSettler(b.l)
			b.settle(s, 3, 2)
			spoil(t, b.l, how[0], how[1], "started/a-1")
			revise := func(revision int, value float64) {
				b.add(KindIntensity, intensityKey("z", at(1).Unix(), revision), "", Intensity{Zone: "z", From: at(1), To: at(2), Value: value, Signal: "average", Factor: "lifecycle", Revision: revision})
			}
			revise(1, 400)
			b.settle(s, 4, 1)
			if got := b.settled(); !near(got["b"].Grams, 40) || !near(got["a"].Grams, 20) {
				t.Errorf("after a revision a has %v g, b %v g; want 20, 40", got["a"].Grams, got["b"].Grams)
			}
			revise(2, 500)
			b.settle(NewSettler(b.l), 4, 1)
			if got := b.settled(); !near(got["b"].Grams, 50) {
				t.Errorf("after another one b has %v g, want 50", got["b"].Grams)
			}
			told := b.l.TakeQuarantined()
			if q := quarantined(t, b.l); len(q) != 1 || q[0].Key != "started/a-1" || q[0].Kind != KindStarted || !strings.Contains(q[0].Reason, "cannot be decoded") || len(told) != 1 || told[0] != q[0] || b.l.Quarantine().Entries != 1 {
				t.Errorf("in quarantine: %+v, told: %+v", q, told)
			}

			b.submit("c", 2)
			b.submit("d", 2)
			b.submit("e", 2)
			for _, uid := range []string{"c", "d", "e"} {
				b.ran(uid, uid+"-1", 2, 3)
				b.finished(uid, 3)
			}
			spoil(t, b.l, how[0], how[1], "ended/c-1")
			spoil(t, b.l, how[0], how[1], "submitted/e")
			s = NewSettler(b.l)
			b.settle(s, 4, 2)
			got := b.settled()
			if c, d := got["c"], got["d"]; !c.Refused || c.KWh != 0 || !strings.Contains(c.Withheld, "cannot be decoded") || !near(d.Grams, 30) || len(got) != 4 {
				t.Errorf("settled: c %+v, d %+v, of %d", c, d, len(got))
			}
			// The workload that nobody can settle is not read at each start.
			var open int
			if err := b.l.db.QueryRowContext(t.Context(), `SELECT count(*) FROM ledger_open WHERE workload != ''`).Scan(&open); err != nil || open != 0 {
				t.Errorf("%d workloads are open, %v", open, err)
			}
			b.settle(NewSettler(b.l), 5, 0)
			if q := quarantined(t, b.l); len(q) != 3 {
				t.Errorf("in quarantine: %+v", q)
			}
		})
	}
}

// TestUnreadableEntriesKeepNoRecorder: a recorder starts beside entries that cannot be decoded, and writes an intensity again that it cannot read.
func TestUnreadableEntriesKeepNoRecorder(t *testing.T) {
	b := book{t, fresh(t)}
	for _, uid := range []string{"a", "b"} {
		b.submit(uid, 0)
		b.add(KindStarted, "started/"+uid, uid, Started{Run: uid, At: at(0), Zone: "z", Node: "n"})
	}
	b.add(KindIntensity, intensityKey("z", at(0).Unix(), 0), "", Intensity{Zone: "z", From: at(0), To: at(1), Value: 100})
	b.add(KindIntensity, intensityKey("z", at(1).Unix(), 0), "", Intensity{Zone: "z", From: at(1), To: at(2), Value: 100})
	for _, how := range [][2]string{{"body", `[]`}, {"at", "never"}} {
		spoil(t, b.l, how[0], how[1], "started/a")
		spoil(t, b.l, how[0], how[1], intensityKey("z", at(0).Unix(), 0))
		r := NewRecorder(b.l)
		r.wanted["z"] = []int64{at(0).Unix(), at(1).Unix()}
		if err := r.Write(t.Context()); err != nil || !r.Health().Loaded || len(r.workloads) != 2 || len(r.runs) != 1 {
			t.Fatalf("%v: %d workloads, %d runs", err, len(r.workloads), len(r.runs))
		}
		s := &site{now: at(3)}
		r.intensityPart(s, "z", &carbon.Sample{From: at(0), To: at(1), Value: units.CarbonIntensity(100)}, &carbon.Provenance{})
		r.intensityPart(s, "z", &carbon.Sample{From: at(1), To: at(2), Value: units.CarbonIntensity(100)}, &carbon.Provenance{})
		if len(r.queue) != 1 || r.queue[0].Key != intensityKey("z", at(0).Unix(), 1) {
			t.Errorf("queued: %+v", r.queue)
		}
		if list, err := b.l.Intensities(t.Context(), "z", at(0), at(5)); err != nil || len(list) != 1 {
			t.Errorf("read: %+v, %v", list, err)
		}
	}
}

// TestUnreadableEntriesAreNoAudit: verifying names an entry that cannot be decoded.
func TestUnreadableEntriesAreNoAudit(t *testing.T) {
	b := book{t, fresh(t)}
	b.submit("a", 0)
	b.submit("b", 0)
	spoil(t, b.l, "at", "never", "submitted/a")
	if _, err := Verify(b.l.Read(context.Background(), Query{})); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "entry 1") {
		t.Error(err)
	}
	if seq, err := b.l.before(t.Context(), time.Now().Add(-time.Hour)); err != nil || seq != 0 {
		t.Error(seq, err)
	}
}

// TestUnreadableEntryHidesNoWorkload: whichever entry of a workload cannot be decoded, it is settled without figures and says why; not as
// one that never ran, and not never.
func TestUnreadableEntryHidesNoWorkload(t *testing.T) {
	for _, key := range []string{"started/c-1", "ended/c-1", "finished/c"} {
		for _, column := range []string{"body", "at"} {
			b := book{t, fresh(t)}
			b.offer(0, 9)
			b.submit("c", 0)
			b.ran("c", "c-1", 1, 2)
			b.finished("c", 2)
			b.hours(0, 100, 200, 300)
			spoil(t, b.l, column, `{"run":`, key)
			b.settle(NewSettler(b.l), 4, 1)
			if c := b.settled()["c"]; !c.Refused || c.KWh != 0 || !strings.Contains(c.Withheld, "cannot be decoded") {
				t.Errorf("%s of %s: settled as %+v", column, key, c)
			}
		}
	}
}

// TestUnreadableEntryBeforeItsSubmission: after a drop the submission may stand behind the other entries.
func TestUnreadableEntryBeforeItsSubmission(t *testing.T) {
	for _, key := range []string{"started/c-1", "ended/c-1", "finished/c"} {
		for _, column := range []string{"body", "at"} {
			b := book{t, fresh(t)}
			b.offer(0, 9)
			b.ran("c", "c-1", 1, 2)
			b.finished("c", 2)
			spoil(t, b.l, column, `{"run":`, key)
			b.submit("c", 0)
			b.hours(0, 100, 200, 300)
			b.settle(NewSettler(b.l), 4, 1)
			if c := b.settled()["c"]; !c.Refused || c.KWh != 0 {
				t.Errorf("%s of %s: settled as %+v", column, key, c)
			}
		}
	}
}

// TestNextReadsPastManyUnreadableEntries: more of them than a query returns.
func TestNextReadsPastManyUnreadableEntries(t *testing.T) {
	b := book{t, fresh(t)}
	b.offer(0, 9)
	for i := range 250 {
		uid := strconv.Itoa(i)
		b.submit(uid, 0)
		spoil(t, b.l, "at", "yesterday", "submitted/"+uid)
	}
	b.submit("last", 0)
	first, _, err := b.l.next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	seq, when, err := b.l.next(t.Context(), first+1)
	if err != nil || seq != first+1 || when.IsZero() {
		t.Errorf("entry %d of %v, %v", seq, when, err)
	}
}
