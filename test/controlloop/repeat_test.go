package controlloop

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/test/simkube"
)

// effective are the effective writes of a world, in their order: who changed what to what, and when. Events are left out:
// their number depends on how client-go puts several into one.
func effective(w *simkube.World) (out []string) {
	for _, e := range w.Store.Since(0) {
		if e.Resource.Name == "events" {
			continue
		}
		o := e.Object.DeepCopy()
		o.SetResourceVersion("")
		text, err := json.Marshal(o.Object)
		if err != nil {
			panic(err)
		}
		out = append(out, fmt.Sprintf("%s %s %s %s", e.At.Sub(w.Began).Truncate(time.Microsecond), e.By, e.Type, text))
	}
	return out
}

// TestSameSeedSameWrites: two runs of one seed write the same, in the same order, at the same times, though writes fail, are
// lost and are refused, and programs are killed; another seed writes something else. A world with outages or watches that
// break off is not repeated so exactly: client-go takes the jitter of its retries from a source that goroutines share.
func TestSameSeedSameWrites(t *testing.T) {
	run := func(seed uint64) (out []string) {
		simkube.Test(t, seed, func(w *simkube.World) {
			w.Cluster.Factor = factor
			w.AddNode(simkube.Node("node-1", "16"))
			b := newBed(w, "test", dirtyThenClean(), wideMargin)
			b.Faults.Fail, b.Faults.Lose, b.Faults.Conflict, b.Faults.Kill = 0.05, 0.05, 0.05, 0.02
			w.Keep(func() *simkube.Program { return w.Controller() })
			w.Keep(func() *simkube.Program { return w.Watchdog(quickWatchdog) })
			submitBatch(b, 9, 10*time.Hour, 24*time.Hour)
			w.Run(24 * time.Hour / factor)
			out = effective(w)
		})
		return out
	}
	first, second := run(4), run(4)
	t.Logf("%d writes", len(first))
	for i := range min(len(first), len(second)) {
		if first[i] != second[i] {
			t.Fatalf("write %d of %d:\n%s\nthe second time:\n%s", i, len(first), first[i], second[i])
		}
	}
	if len(first) != len(second) {
		t.Fatalf("%d writes, the second time %d", len(first), len(second))
	}
	if slices.Equal(first, run(5)) {
		t.Error("another seed wrote the same")
	}
}
