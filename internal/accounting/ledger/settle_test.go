package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/test/child"
)

var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func at(hours float64) time.Time { return day.Add(time.Duration(hours * float64(time.Hour))) }

// book writes a ledger by hand.
type book struct {
	t *testing.T
	l *Ledger
}

func (b book) add(kind Kind, key, workload string, body any) {
	b.t.Helper()
	if n := appendTo(b.t, b.l, New{kind, key, workload, body}); n != 1 {
		b.t.Fatalf("%s is there already", key)
	}
}

// hours are intensities from hour 0 on.
func (b book) hours(from int, values ...float64) {
	for i, v := range values {
		h := from + i
		b.add(KindIntensity, fmt.Sprintf("intensity/z/%d/0", h), "", Intensity{Zone: "z", From: at(float64(h)), To: at(float64(h + 1)), Value: v, Signal: "average", Factor: "lifecycle"})
	}
}

// submit is a workload of one CPU and 100 W.
func (b book) submit(uid string, hour float64, change ...func(*Submitted)) {
	s := Submitted{Policy: "ns/p", Namespace: "ns", Name: uid, At: at(hour), Workers: 1, Request: map[string]float64{"cpu": 1}, Watts: 100, Zone: "z", Deadline: at(hour + 24)}
	for _, c := range change {
		c(&s)
	}
	b.add(KindSubmitted, "submitted/"+uid, uid, s)
}

func (b book) ran(uid, pod string, from, to float64) {
	b.add(KindStarted, "started/"+pod, uid, Started{Run: pod, At: at(from), Zone: "z", Node: "n", Workers: 1, Watts: 100})
	b.add(KindEnded, "ended/"+pod, uid, Ended{Run: pod, At: at(to), How: Observed, Succeeded: true})
}

func (b book) finished(uid string, hour float64) {
	b.add(KindFinished, "finished/"+uid, uid, Finished{At: at(hour), How: "finished"})
}

func (b book) offer(hour, cpus float64) {
	b.add(KindCapacity, fmt.Sprint("capacity/", hour), "", Capacity{Policy: "ns/p", Cluster: "local", Zone: "z", At: at(hour), Free: map[string]float64{"cpu": cpus}})
}

// settled are the last settlements by workload.
func (b book) settled() map[string]Settled {
	b.t.Helper()
	out := map[string]Settled{}
	for e, err := range b.l.Read(context.Background(), Query{Kind: KindSettled}) {
		if err != nil {
			b.t.Fatal(err)
		}
		var s Settled
		if err := json.Unmarshal(e.Body, &s); err != nil {
			b.t.Fatal(err)
		}
		out[e.Workload] = s
	}
	return out
}

func (b book) settle(s *Settler, hour float64, want int) {
	b.t.Helper()
	n, err := s.Settle(context.Background(), func(string) time.Time { return at(hour) })
	if err != nil || n != want {
		b.t.Errorf("at hour %v %d were settled, %v; want %d", hour, n, err, want)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// TestSettlementComparesWithAsSubmitted: two workloads that came in hour 0 share one CPU: as submitted the second would have run
// after the first.
func TestSettlementComparesWithAsSubmitted(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	b.submit("a", 0)
	b.submit("b", 0.5)
	b.ran("b", "b-1", 4, 6)
	b.finished("b", 6)
	b.hours(0, 500, 500, 500, 500, 100, 100)
	b.settle(s, 6, 0) // a came first, and is not over
	b.ran("a", "a-1", 6, 7)
	b.ran("a", "a-2", 8, 9)
	b.finished("a", 9)
	b.settle(s, 9, 0) // hours 6 to 8 are not known
	// Nor is what time it is, right after a start: then nothing is settled, nor forgotten.
	if n, err := s.Settle(context.Background(), func(string) time.Time { return time.Time{} }); n != 0 || err != nil {
		t.Errorf("without a time %d were settled, %v", n, err)
	}
	b.hours(6, 100, 100, 50)
	b.settle(s, 9, 2)
	got := b.settled()
	x := got["a"]
	if !near(x.KWh, 0.2) || !near(x.Grams, 15) || !x.Counterfactual.From.Equal(at(0)) || !x.Counterfactual.To.Equal(at(2)) ||
		!near(x.Counterfactual.Grams, 100) || !near(x.SavedGrams, 85) || x.Runs != 2 || !x.OnTime || !near(x.Uncertainty, sources["model"]) || x.Signal != "average" {
		t.Errorf("a: %+v", x)
	}
	x = got["b"]
	if !near(x.Grams, 20) || !x.Counterfactual.From.Equal(at(2)) || !near(x.Counterfactual.Grams, 100) || !near(x.SavedGrams, 80) {
		t.Errorf("b: %+v", x)
	}
	b.settle(s, 9, 0)
	b.settle(NewSettler(b.l), 9, 0) // another one finds all done

	// A provider revises an hour that a ran in: a is settled again, b is not.
	b.add(KindIntensity, "intensity/z/8/1", "", Intensity{Zone: "z", From: at(8), To: at(9), Value: 150, Revision: 1})
	b.settle(s, 10, 1)
	x = b.settled()["a"]
	if !near(x.Grams, 25) || x.Revision != 1 || x.Why != "revised intensities of z" || !x.Counterfactual.From.Equal(at(0)) {
		t.Errorf("a, revised: %+v", x)
	}
	b.settle(NewSettler(b.l), 10, 0)
	// What comes later is placed after what is settled, by a settler that has read it.
	b.submit("c", 1)
	b.ran("c", "c-1", 8, 9)
	b.finished("c", 9)
	b.settle(NewSettler(b.l), 10, 1)
	if x := b.settled()["c"]; !x.Counterfactual.From.Equal(at(4)) {
		t.Errorf("c, which came in hour 1, would have run from %v, want from hour 4", x.Counterfactual.From)
	}
	if v, err := Verify(b.l.Read(context.Background(), Query{})); err != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestSettlerKeepsOnlyWhatCounts: a settler that goes on for months keeps no more than those that count.
func TestSettlerKeepsOnlyWhatCounts(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	for d := range 120 {
		hour := float64(24 * d)
		b.hours(24*d, 500, 100, 100)
		uid := fmt.Sprint("w-", d)
		b.submit(uid, hour)
		b.ran(uid, uid+"-1", hour+1, hour+2)
		b.finished(uid, hour+2)
		b.settle(s, hour+3, 1)
	}
	if len(s.works)+len(s.past.of) > 62 || len(s.taken) > 62 || len(s.zones["z"].of) > 3*(62+7) { // hours of 7 days more, which may stand in
		t.Errorf("%d workloads, %d places, %d hours are kept", len(s.works)+len(s.past.of), len(s.taken), len(s.zones["z"].of))
	}
	for uid, x := range b.settled() {
		if !near(x.SavedGrams, 40) {
			t.Errorf("%s: %+v", uid, x)
		}
	}
}

func TestSettleSpecialCases(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 4)
	b.hours(0, 500, 500, 500, 500, 100, 100, 100, 100, 100, 100)
	// Elastic: four workers for an hour do what one does in 2.5 hours.
	b.submit("elastic", 0, func(s *Submitted) { s.MinWorkers, s.Curve = 1, []float64{1, 0.7, 0.5, 0.3} })
	for i := range 4 {
		b.ran("elastic", fmt.Sprint("e-", i), 4, 5)
	}
	b.finished("elastic", 5)
	// Measured at half of what the model says; paused once, which lost half an hour.
	b.submit("measured", 0)
	b.ran("measured", "m-1", 4, 5)
	b.ran("measured", "m-2", 6, 7)
	b.add(KindEnergy, "energy/measured/1", "measured", Energy{From: at(4), To: at(5), Zone: "z", KWh: 0.05, Source: "kepler"})
	b.add(KindEnergy, "energy/measured/2", "measured", Energy{From: at(6), To: at(7), Zone: "z", KWh: 0.05, Source: "kepler"})
	b.add(KindDecided, "decided/measured/1", "measured", Decided{At: at(5), Verb: "Pause", LostSeconds: 1800, Applied: true})
	b.finished("measured", 7)
	// Deleted before it ran; too big for what there is; with an end that nobody saw, and late.
	b.submit("never", 0)
	b.finished("never", 3)
	b.submit("big", 0, func(s *Submitted) { s.Request = map[string]float64{"cpu": 9} })
	b.ran("big", "big-1", 4, 5)
	b.finished("big", 5)
	b.submit("unseen", 0, func(s *Submitted) { s.Deadline = at(6) })
	b.add(KindStarted, "started/u-1", "unseen", Started{Run: "u-1", At: at(6), Zone: "z", Workers: 1, Watts: 100})
	b.finished("unseen", 8)
	// Two parts, one of which was stopped and done again; paused, and without a checkpoint: three hours for
	// what was expected to take two.
	b.submit("parts", 0, func(s *Submitted) { s.Parts = true })
	b.ran("parts", "pt-1", 4, 5)
	b.add(KindStarted, "started/pt-2", "parts", Started{Run: "pt-2", At: at(5), Zone: "z", Node: "n", Workers: 1, Watts: 100})
	b.add(KindEnded, "ended/pt-2", "parts", Ended{Run: "pt-2", At: at(6), How: Observed})
	b.ran("parts", "pt-3", 6, 7)
	b.finished("parts", 7)
	b.submit("again", 0, func(s *Submitted) { s.Runtime = 7200 })
	b.ran("again", "a-1", 4, 5)
	b.add(KindDecided, "decided/again/1", "again", Decided{At: at(5), Verb: "Pause", Applied: true})
	b.ran("again", "a-2", 6, 8)
	b.finished("again", 8)
	b.settle(s, 10, 7)
	got := b.settled()
	for name, ok := range map[string]bool{
		"elastic":  near(got["elastic"].KWh, 0.4) && near(got["elastic"].Counterfactual.KWh, 0.25) && near(got["elastic"].SavedGrams, 125-40),
		"measured": near(got["measured"].KWh, 0.1) && near(got["measured"].MeasuredKWh, 0.1) && near(got["measured"].Counterfactual.Watts, 50) && near(got["measured"].Counterfactual.KWh, 0.075) && near(got["measured"].Uncertainty, sources["kepler"]),
		"never":    got["never"].KWh == 0 && got["never"].SavedGrams == 0 && got["never"].Runs == 0,
		"big":      got["big"].Counterfactual.Beyond && near(got["big"].Counterfactual.Grams, 50) && near(got["big"].SavedGrams, 40),
		"parts":    near(got["parts"].KWh, 0.3) && near(got["parts"].Counterfactual.KWh, 0.2) && near(got["parts"].SavedGrams, 100-30),
		"again":    near(got["again"].KWh, 0.3) && near(got["again"].Counterfactual.KWh, 0.2),
		"unseen":   got["unseen"].Inferred == 1 && near(got["unseen"].KWh, 0.2) && !got["unseen"].OnTime,
	} {
		if !ok {
			t.Errorf("%s: %+v", name, got[name])
		}
	}
	// One that is never over does not keep others from being settled for ever, nor do hours that nobody
	// publishes.
	b.submit("endless", 1, func(s *Submitted) { s.Request = map[string]float64{"cpu": 4} })
	b.submit("after", 2)
	b.ran("after", "after-1", 4, 5)
	b.finished("after", 5)
	b.settle(s, 48, 0)
	b.settle(s, 1+24+7*24, 1)
	b.submit("unpublished", 300)
	b.ran("unpublished", "un-1", 300, 301)
	b.finished("unpublished", 301)
	b.settle(s, 400, 0)
	b.settle(s, 301+7*24, 1)
	if x := b.settled()["unpublished"]; x.MissingSeconds != 7200 || x.Grams != 0 || x.Withheld == "" {
		t.Errorf("without intensity: %+v", x)
	}
}

// month are the entries of a month of workloads that share a cluster, elastic, paused, measured, by the
// hour at which they are written, which their keys begin with. Some hours of zone z have no intensity. If revised,
// some intensities are revised, some of the missing ones come days later, and zone m has none for 17 days.
func month(revised bool) []New {
	rnd := rand.New(rand.NewPCG(3, 3))
	const hours = 31 * 24
	var entries []New
	later := func(hour float64, kind Kind, key, workload string, body any) {
		entries = append(entries, New{kind, fmt.Sprintf("%012.6f/%s", hour, key), workload, body})
	}
	for h := range hours + 48 {
		v := 300 + 200*math.Sin(float64(h)/24*2*math.Pi) + 50*rnd.Float64()
		published := float64(h + 1)
		if h > 24 && h%97 >= 40 && h%97 < 45 {
			published = float64(h + 90)
		}
		if published == float64(h+1) || revised && h%2 == 0 {
			later(published, KindIntensity, fmt.Sprint("intensity/", h), "", Intensity{Zone: "z", From: at(float64(h)), To: at(float64(h + 1)), Value: v, Beside: "m"})
		}
		marginal := Intensity{Zone: "m", From: at(float64(h)), To: at(float64(h + 1)), Value: 600 - v/2, Signal: "marginal", Factor: "direct"}
		if !revised || h < 6*24 || h >= 23*24 {
			later(float64(h+1), KindIntensity, fmt.Sprint("marginal/", h), "", marginal)
		}
		if revised && h%50 == 0 && published == float64(h+1) {
			marginal.Value, marginal.Revision = 700, 1
			later(float64(h+70), KindIntensity, fmt.Sprint("marginal again/", h), "", marginal)
		}
		if revised && rnd.IntN(20) == 0 && published == float64(h+1) {
			later(float64(h+60), KindIntensity, fmt.Sprint("intensity again/", h), "", Intensity{Zone: "z", From: at(float64(h)), To: at(float64(h + 1)), Value: v * 1.1, Revision: 1, Beside: "m"})
		}
		if h%6 == 0 {
			later(float64(h), KindCapacity, fmt.Sprint("capacity/", h), "", Capacity{Policy: "ns/p", Cluster: "local", Zone: "z", At: at(float64(h)), Free: map[string]float64{"cpu": float64(4 + rnd.IntN(8))}})
		}
	}
	for i := range 300 {
		uid := fmt.Sprintf("w-%03d", i)
		came := rnd.Float64() * (hours - 48)
		of := Submitted{Policy: "ns/p", Name: uid, At: at(came), Workers: 1 + rnd.IntN(3), Request: map[string]float64{"cpu": 1 + float64(rnd.IntN(2))}, Watts: 50 + 100*rnd.Float64(), Zone: "z", Deadline: at(came + 30)}
		if i%17 == 0 {
			of.Others = 1
		}
		of.Resumable = i%11 < 5
		of.Parts, of.Runtime = i%5 == 0, 3600*(1+3*rnd.Float64())
		if i%3 == 0 {
			of.MinWorkers, of.Curve = 1, []float64{1, 0.8, 0.5, 0.3}
		}
		watts := func(int) float64 { return of.Watts }
		if drawn := of.Watts; i%4 < 2 { // its cluster gave it more than it asked for, and each time another amount
			of.AsRun, of.Watts = true, of.Watts/3
			watts = func(part int) float64 { return drawn * (1 + 0.5*float64(part)) }
		}
		later(came, KindSubmitted, uid, uid, of)
		from := came + 20*rnd.Float64()
		end := from
		for part := range 1 + rnd.IntN(3) {
			long := 0.2 + 3*rnd.Float64()
			for worker := range 1 + rnd.IntN(4) {
				run := fmt.Sprintf("%s-%d-%d", uid, part, worker)
				later(from, KindStarted, "s"+run, uid, Started{Run: run, At: at(from), Zone: "z", Node: "n", Workers: 1, Watts: watts(part)})
				later(from+long, KindEnded, "e"+run, uid, Ended{Run: run, At: at(from + long), How: Observed, Succeeded: rnd.IntN(4) > 0, Lost: []Lost{"", "", "", "", Failed, Evicted}[(i+worker)%6]})
			}
			if i%4 == 0 {
				later(from+long, KindEnergy, fmt.Sprint(uid, part), uid, Energy{From: at(from + 0.1), To: at(from + 0.9*long), Zone: "z", KWh: 0.3 * rnd.Float64(), Source: "kepler"})
				if i%8 == 0 { // another controller measures some of the same time
					later(from+long, KindEnergy, fmt.Sprint("again", uid, part), uid, Energy{From: at(from + 0.5*long*rnd.Float64()), To: at(from + 0.5*long*(1+rnd.Float64())), Zone: "z", KWh: 0.3 * rnd.Float64(), Source: "dcgm"})
				}
			}
			end = from + long
			if part > 0 {
				later(from, KindDecided, fmt.Sprint("d", uid, part), uid, Decided{At: at(from), Verb: "Pause", LostSeconds: float64(rnd.IntN(600)), Applied: true})
			}
			from = end + 2*rnd.Float64()
		}
		later(end, KindFinished, "f"+uid, uid, Finished{At: at(end), How: "finished"})
	}
	slices.SortStableFunc(entries, func(a, b New) int { return strings.Compare(a.Key, b.Key) })
	return entries
}

// hourOf is when an entry of the month is written.
func hourOf(t *testing.T, n New) (hour float64) {
	t.Helper()
	if _, err := fmt.Sscanf(n.Key, "%f/", &hour); err != nil {
		t.Fatal(err)
	}
	return hour
}

// TestReviseLongRun: what ran for three weeks and ended 59 days ago is settled again by all of its hours, also if the settler
// has forgotten what ended before.
func TestReviseLongRun(t *testing.T) {
	b := book{t, fresh(t)}
	s := NewSettler(b.l)
	b.offer(0, 1)
	b.submit("a", 0)
	b.ran("a", "a-1", 0, 21*24)
	b.finished("a", 21*24)
	values := make([]float64, 21*24)
	for i := range values {
		values[i] = 100
	}
	b.hours(0, values...)
	b.settle(s, 21*24, 1)
	before := b.settled()["a"].Grams
	late := float64((21 + 59) * 24)
	b.settle(s, late, 0)
	b.add(KindIntensity, "intensity/z/revised", "", Intensity{Zone: "z", From: at(500), To: at(501), Value: 150, Revision: 1})
	b.settle(s, late, 1)
	if x := b.settled()["a"]; x.Withheld != "" || x.FilledSeconds != 0 || !near(x.Grams, before+5) {
		t.Errorf("%v g before, then %+v", before, x)
	}
}

// TestDropChangesNothing: a month with drops every few days is settled as one without, by a settler that
// goes on and by others that begin anew; and the auditor agrees with what is left.
func TestDropChangesNothing(t *testing.T) {
	t.Parallel() // it waits for the disk
	ctx := context.Background()
	play := func(drops bool) map[string]Settled {
		b := book{t, fresh(t)}
		s := NewSettler(b.l)
		out := map[string]Settled{}
		keep := func() {
			for uid, x := range b.settled() {
				x.After = 0
				out[uid] = x
			}
		}
		entries := month(false)
		written := 0
		for i, n := range entries {
			hour := hourOf(t, n)
			settles := i%50 == 49 || i == len(entries)-1
			// Entries of one hour are written together, as a controller does.
			if settles || math.Floor(hourOf(t, entries[i+1])) > math.Floor(hour) {
				b.l.clock = func() time.Time { return at(hour) }
				appendTo(t, b.l, entries[written:i+1]...)
				written = i + 1
			}
			if !settles {
				continue
			}
			if drops && i%300 == 299 {
				keep() // before it is dropped
				if _, err := b.l.Drop(ctx, at(hour-36)); err != nil {
					t.Fatal(err)
				}
				if i%600 == 599 {
					s = NewSettler(b.l)
				}
			}
			if _, err := s.Settle(ctx, func(string) time.Time { return at(hour) }); err != nil {
				t.Fatal(err)
			}
		}
		keep()
		v, err := Verify(b.l.Read(ctx, Query{}))
		if err != nil || drops != (v.First > 1) {
			t.Fatalf("%+v, %v", v, err)
		}
		if python, err := exec.LookPath("python3"); err == nil {
			file := filepath.Join(t.TempDir(), "ledger.jsonl")
			f, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = WriteEntries(f, b.l.Read(ctx, Query{}))
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			if !drops { // what a settlement's place rests on is dropped with those before it
				if text, err := exec.Command(python, child.Reads(t, auditor), file).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, text)
				}
			}
		}
		return out
	}
	whole, dropped := play(false), play(true)
	if len(whole) != 300 || len(dropped) != 300 {
		t.Errorf("%d settled, with drops %d", len(whole), len(dropped))
	}
	different := 0
	for uid, x := range whole {
		y := dropped[uid]
		if !near(x.KWh, y.KWh) || !near(x.Grams, y.Grams) || !near(x.SavedGrams, y.SavedGrams) || !x.Counterfactual.From.Equal(y.Counterfactual.From) {
			if different++; different < 4 {
				t.Errorf("%s: %+v\nwith drops %+v", uid, x, y)
			}
		}
	}
	if different > 0 {
		t.Errorf("%d of %d differ", different, len(whole))
	}
}
