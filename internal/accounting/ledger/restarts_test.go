package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/test/size"
)

// TestRestartsChangeNoSettlement: two ledgers get the same entries: intensities of two zones that are revised, late, or published again in finer steps, and workloads that run
// in any of them. One settler lives on; those of the other ledger end at any pass, and the database refuses some of what they settle at first. All workloads are
// settled with the same figures, which are those that all entries together give.
func TestRestartsChangeNoSettlement(t *testing.T) {
	for seed := range uint64(size.Of(6, 100)) {
		f := &feed{rng: rand.New(rand.NewPCG(seed, 7)), revisions: map[string]int{}, submitted: map[string]bool{}, beside: seed%3 == 0}
		kept, other := fresh(t), fresh(t)
		fails, rewrite := false, other.rewrite
		other.rewrite = func(q string) string {
			if fails && strings.HasPrefix(q, "INSERT INTO ledger (") {
				return "no statement"
			}
			return rewrite(q)
		}
		hour := 0
		now := func(string) time.Time { return at(float64(hour)) }
		kept.clock = func() time.Time { return now("") }
		other.clock = kept.clock
		s, brief := NewSettler(kept), NewSettler(other)
		for ; hour < 150; hour++ {
			f.next(hour)
			for _, l := range []*Ledger{kept, other} {
				appendTo(t, l, f.list...)
			}
			if f.list = nil; f.rng.IntN(4) > 0 && hour < 149 {
				continue
			}
			if _, err := s.Settle(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			fails = f.rng.IntN(4) == 0
			if _, err := brief.Settle(t.Context(), now); err != nil && !fails {
				t.Fatal(err)
			}
			if f.rng.IntN(3) == 0 {
				brief = NewSettler(other)
			}
			fails = false
		}
		if _, err := brief.Settle(context.Background(), now); err != nil {
			t.Fatal(err)
		}
		countedFromAll(t, kept)
		want, got := (book{t, kept}).settled(), (book{t, other}).settled()
		again := 0
		for uid, w := range want {
			g := got[uid]
			if !sameFigures(&w, &g) || !near(w.KWh, g.KWh) || w.Counterfactual.Zone != g.Counterfactual.Zone || !w.Counterfactual.From.Equal(g.Counterfactual.From) {
				t.Errorf("seed %d: %s is settled as\n%+v, with restarts as\n%+v", seed, uid, w, g)
			}
			again += w.Revision
		}
		if len(want) < 10 || len(got) != len(want) || again == 0 {
			t.Errorf("seed %d: %d workloads are settled, %d with restarts; %d again", seed, len(want), len(got), again)
		}
	}
}

// countedFromAll checks that each workload that is settled has the figures that all entries of the ledger give.
func countedFromAll(t *testing.T, l *Ledger) {
	t.Helper()
	s := NewSettler(l)
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for uid := range s.past.of {
		w, err := s.rests(t.Context(), uid)
		if err != nil || w == nil {
			t.Fatal(uid, w, err)
		}
		b := *w.settled
		stretches, _ := w.stretches()
		if s.count(&b, w, stretches); !sameFigures(&b, w.settled) {
			t.Errorf("%s is settled as\n%+v, all entries give\n%+v", uid, *w.settled, b)
		}
	}
}

// feed makes the entries of each hour.
type feed struct {
	rng       *rand.Rand
	list      []New
	late      []func() // intensities that are still to be published
	revisions map[string]int
	submitted map[string]bool
	open      []*ran
	beside    bool
}

// ran is a workload that is not over.
type ran struct {
	uid  string
	runs int
	zone string // where it runs; "" while it does not
}

func (f *feed) add(kind Kind, key, uid string, body any) {
	f.list = append(f.list, New{kind, key, uid, body})
}

func (f *feed) zone() string { return []string{"z0", "z1"}[f.rng.IntN(2)] }

func (f *feed) intensity(zone string, from, hours float64) {
	k := fmt.Sprint(zone, from)
	b := Intensity{Zone: zone, From: at(from), To: at(from + hours), Value: float64(f.rng.IntN(900)), Signal: "average", Factor: "lifecycle", Revision: f.revisions[k]}
	if f.beside && zone != "beside" {
		b.Beside = "beside"
	}
	f.revisions[k]++
	f.add(KindIntensity, intensityKey(zone, b.From.Unix(), b.Revision), "", b)
}

// next makes the entries of what has happened in the hour before one.
func (f *feed) next(hour int) {
	h := float64(hour)
	if f.rng.IntN(10) == 0 || hour == 0 {
		for i := range 2 {
			f.add(KindCapacity, fmt.Sprint("capacity/", i, "/", hour), "", Capacity{Policy: "ns/p", Cluster: fmt.Sprint("c", i), Zone: fmt.Sprint("z", i), At: at(h), Free: map[string]float64{"cpu": float64(1 + f.rng.IntN(3))}})
		}
	}
	for _, zone := range []string{"beside", "z0", "z1"} {
		f.publish(zone, h-1)
	}
	for i := 0; i < len(f.late); i++ {
		if f.rng.IntN(30) == 0 {
			f.late[i]()
			f.late = slices.Delete(f.late, i, i+1)
			i--
		}
	}
	if uid := fmt.Sprintf("w%04d", f.rng.IntN(10_000)); f.rng.IntN(3) == 0 && !f.submitted[uid] {
		f.submitted[uid] = true
		f.open = append(f.open, &ran{uid: uid})
		f.add(KindSubmitted, "submitted/"+uid, uid, Submitted{Policy: "ns/p", Namespace: "ns", Name: uid, At: at(h - f.rng.Float64()), Workers: 1, Request: map[string]float64{"cpu": 1}, Watts: 100, Zone: f.zone(), Deadline: at(h + 24)})
	}
	f.open = slices.DeleteFunc(f.open, func(w *ran) bool { return f.run(w, h) })
}

// publish is an hour of a zone: at once, late, never, again in quarters of an hour, or with another one revised.
func (f *feed) publish(zone string, hour float64) {
	switch x := f.rng.IntN(20); {
	case hour < 0 || x == 0:
	case x == 1:
		f.late = append(f.late, func() { f.intensity(zone, hour, 1) })
	default:
		f.intensity(zone, hour, 1)
		if x == 2 {
			f.late = append(f.late, func() {
				for q := range 4 {
					f.intensity(zone, hour+float64(q)/4, 0.25)
				}
			})
		}
		if back := hour - float64(f.rng.IntN(48)); x < 6 && f.revisions[fmt.Sprint(zone, back)] > 0 {
			f.intensity(zone, back, 1)
		}
	}
}

// run starts, ends or finishes a workload; true if it is over.
func (f *feed) run(w *ran, h float64) bool {
	run := fmt.Sprint(w.uid, "-", w.runs)
	switch {
	case w.zone == "" && f.rng.IntN(4) == 0:
		w.zone = f.zone()
		f.add(KindStarted, "started/"+run, w.uid, Started{Run: run, At: at(h - 0.3), Zone: w.zone, Node: "n", Workers: 1, Watts: 100})
	case w.zone != "" && f.rng.IntN(3) == 0:
		f.add(KindEnded, "ended/"+run, w.uid, Ended{Run: run, At: at(h - 0.2), How: Observed, Succeeded: true})
		f.add(KindEnergy, "energy/"+run, w.uid, Energy{From: at(h - 0.6), To: at(h - 0.2), Zone: w.zone, KWh: 0.01, Source: "kepler"})
		w.zone, w.runs = "", w.runs+1
	case w.zone == "" && w.runs > 0 && f.rng.IntN(2) == 0:
		f.add(KindFinished, "finished/"+w.uid, w.uid, Finished{At: at(h), How: "finished"})
		return true
	}
	return false
}
