package ledger

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSettlementDoesNotDependOnTheHour: a month is settled the same hour by hour, where each workload is settled as soon as its place is
// certain, and in the order of submission at its end; work that goes on for weeks, and work that never fits, keep
// few from being settled.
func TestSettlementDoesNotDependOnTheHour(t *testing.T) {
	t.Parallel() // it waits for the disk
	entries := slices.DeleteFunc(month(false), func(n New) bool { return n.Kind == KindCapacity })
	entries = append(entries, New{KindCapacity, fmt.Sprintf("%012.6f/capacity", 0.0), "", Capacity{Policy: "ns/p", Cluster: "local", Zone: "z", At: at(0), Free: map[string]float64{"cpu": 9}}})
	for _, x := range []struct {
		name      string
		cpus, cpu float64
	}{{"long", 1, 1}, {"huge", 500, 500}} {
		of := Submitted{Policy: "ns/p", Name: x.name, At: at(1), Workers: 1, Request: map[string]float64{"cpu": x.cpu}, Watts: 50, Zone: "z", Deadline: at(900)}
		entries = append(entries, New{KindSubmitted, fmt.Sprintf("%012.6f/%s", 1.0, x.name), x.name, of})
	}
	slices.SortStableFunc(entries, func(a, b New) int { return strings.Compare(a.Key, b.Key) })
	settle := func(hourly bool) map[string]Settled {
		b := book{t, fresh(t)}
		s, next := NewSettler(b.l), 0
		late, over := 0, map[string]float64{}
		first := 1.0
		if !hourly {
			first = 31*24 + 47 // all entries at once
		}
		for h := first; h < 31*24+48; h++ {
			from := next
			for next < len(entries) && hourOf(t, entries[next]) <= h {
				if e := &entries[next]; e.Kind == KindFinished {
					over[e.Workload] = h
				}
				next++
			}
			if _, err := b.l.Append(context.Background(), entries[from:next]...); err != nil {
				t.Fatal(err)
			}
			if !hourly {
				continue
			}
			if _, err := s.Settle(context.Background(), func(string) time.Time { return at(h) }); err != nil {
				t.Fatal(err)
			}
			for uid, since := range over {
				if s.past.of[uid] != nil {
					delete(over, uid)
				} else if h-since == 24 {
					late++
				}
			}
		}
		if hourly && late > 50 {
			t.Errorf("%d of 300 are not settled a day after they ended", late)
		}
		b.ran("long", "long-1", 1, 790)
		b.finished("long", 790)
		b.add(KindFinished, "finished/huge", "huge", Finished{At: at(790), How: "finished"})
		if _, err := s.Settle(context.Background(), func(string) time.Time { return at(31*24 + 48) }); err != nil {
			t.Fatal(err)
		}
		if !hourly { // what was never over is out of the way of the others only now
			b.settle(s, 31*24+48, 0)
		}
		return b.settled()
	}
	whole, hourly := settle(false), settle(true)
	if len(whole) != 302 || len(hourly) != 302 {
		t.Fatalf("%d and %d settled, want 302", len(whole), len(hourly))
	}
	queued := 0
	for uid, x := range whole {
		y := hourly[uid]
		x.After, y.After = 0, 0
		if x.Counterfactual.From.After(x.Of.At) {
			queued++
		}
		if !reflect.DeepEqual(x, y) {
			t.Errorf("%s: at the end %+v, hour by hour %+v", uid, x.Counterfactual, y.Counterfactual)
		}
	}
	if queued < 30 {
		t.Errorf("%d would have had to wait as submitted: too few to tell", queued)
	}
}

// BenchmarkSettle is a pass over a thousand workloads that are over and cannot be settled: others take all there was, and
// are not over. The capacity has changed a thousand times.
func BenchmarkSettle(b *testing.B) {
	l := fresh(b)
	entries := []New{{KindSubmitted, "endless", "endless", Submitted{Policy: "ns/p", At: at(0), Workers: 1, Request: map[string]float64{"cpu": 3}, Zone: "z", Deadline: at(2000)}}}
	for i := range 1000 {
		uid, h := fmt.Sprint("w-", i), float64(i)/2
		entries = append(entries,
			New{KindCapacity, fmt.Sprint("capacity/", i), "", Capacity{Policy: "ns/p", Cluster: "local", Zone: "z", At: at(h), Free: map[string]float64{"cpu": 4 + float64(i%2)}}},
			New{KindSubmitted, uid, uid, Submitted{Policy: "ns/p", At: at(h), Workers: 1, Request: map[string]float64{"cpu": 3}, Zone: "z"}},
			New{KindStarted, "s/" + uid, uid, Started{Run: uid, At: at(h), Zone: "z", Workers: 1}},
			New{KindEnded, "e/" + uid, uid, Ended{Run: uid, At: at(h + 1), Succeeded: true}},
			New{KindFinished, "f/" + uid, uid, Finished{At: at(h + 1)}})
	}
	if _, err := l.Append(context.Background(), entries...); err != nil {
		b.Fatal(err)
	}
	s := NewSettler(l)
	for b.Loop() {
		if n, err := s.Settle(context.Background(), func(string) time.Time { return at(600) }); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
