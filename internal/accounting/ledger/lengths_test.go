package ledger

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestStartReadsRunTimes: a recorder that starts has the run times of each policy, oldest first, of the last workloads that ended. What failed,
// cannot be read, or was recorded by an older version says nothing.
func TestStartReadsRunTimes(t *testing.T) {
	l := fresh(t)
	var list []New
	add := func(uid string, b Finished) {
		b.At = day
		list = append(list, New{Kind: KindFinished, Key: "finished/" + uid, Workload: uid, Body: b})
	}
	add("forgotten", Finished{How: "finished", Policy: "a/p", Family: "a/f", RanSeconds: 1})
	for i := range mostLengths - 5 {
		add(fmt.Sprint("old-", i), Finished{How: "finished"})
	}
	add("endless", Finished{How: "finished", Policy: "a/p", Family: "a/f", RanSeconds: 1e300})
	list = append(list, New{Kind: KindFinished, Key: "finished/broken", Workload: "broken", Body: 1}) // it keeps nobody from recording
	add("one", Finished{How: "finished", Policy: "a/p", Family: "a/f", RanSeconds: 3600})
	add("other", Finished{How: "finished", Policy: "b/p", Family: "b/f", RanSeconds: 60})
	add("two", Finished{How: "finished", Policy: "a/p", Family: "a/f", RanSeconds: 1800.5})
	appendTo(t, l, list...)

	r := NewRecorder(l)
	if got, loaded := r.Lengths("a/p"); loaded || got != nil {
		t.Errorf("before the ledger is read: %v, %v", got, loaded)
	}
	if err := r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, loaded := r.Lengths("a/p")
	want := []RunLength{{types.UID("one"), "a/p", "a/f", time.Hour}, {types.UID("two"), "a/p", "a/f", 30*time.Minute + 500*time.Millisecond}}
	if !loaded || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v; want %v", got, loaded, want)
	}
}
