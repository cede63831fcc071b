package loop

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var (
	seeds = flag.Uint64("seeds", 3, "how many worlds TestControlLoop tries")
	first = flag.Uint64("first", 1, "seed of the first world")
	lines = flag.Bool("log", false, "print what the programs log")
)

func TestMain(m *testing.M) {
	flag.Parse()
	logger := logr.Discard()
	if *lines {
		logger = klog.Background()
	} else {
		klog.SetOutput(io.Discard)
		klog.LogToStderr(false)
	}
	ctrl.SetLogger(logger)
	os.Exit(m.Run())
}

// TestControlLoop runs controller and watchdog in random worlds with faults. No Job may miss its deadline, be lost
// or stay held, and no field may change that is not Lull's.
//
//	go test ./test/loop -run TestControlLoop -seeds 1000
//	go test ./test/loop -run TestControlLoop -first 17 -seeds 1 -log   # replays seed 17
func TestControlLoop(t *testing.T) {
	total := summary{}
	for seed := *first; seed < *first+*seeds; seed++ {
		bubble(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			w := randomWorld(ctx, seed)
			w.play()
			cancel()
			w.Wait()
			total.add(w)
			for _, b := range w.Broken() {
				t.Errorf("seed %d: %s", seed, b)
			}
		})
		if t.Failed() {
			t.Fatalf("replay: go test ./test/loop -run TestControlLoop -first %d -seeds 1 -log", seed)
		}
	}
	t.Log(total)
	if total.jobs == 0 || total.held == 0 || *seeds >= 8 && (total.paused == 0 || total.killed == 0 || total.outages == 0 || total.edits == 0 || total.replaced == 0) {
		t.Errorf("%v: a fault or a hold that never occurs tests nothing", total)
	}
}

// summary counts what happened in worlds.
type summary struct{ jobs, held, paused, killed, outages, edits, replaced, changes int }

func (s *summary) add(w *World) {
	s.jobs += len(w.jobs)
	s.held += w.held
	s.paused += w.paused
	s.killed += w.killed
	s.outages += len(w.outages)
	s.edits += w.edits
	s.replaced += w.replaced
	_, v := w.Store.List(w.Store.Resource("Job"), "")
	s.changes += int(v)
}

func (s summary) String() string {
	return fmt.Sprintf("%d Jobs, %d held, %d pauses, %d programs killed, %d outages of the API server, %d edits by users, %d objects replaced, %d changes of objects",
		s.jobs, s.held, s.paused, s.killed, s.outages, s.edits, s.replaced, s.changes)
}

// TestAViolationIsFound shows that the test can fail: with nobody to release Jobs they miss their deadlines.
func TestAViolationIsFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := randomWorld(ctx, 1)
		w.nobody = true
		w.play()
		cancel()
		w.Wait()
		if len(w.Broken()) == 0 {
			t.Error("no Job was released, and nothing was violated")
		}
	})
}

// bubble runs f on a virtual clock. Goroutines of event recorders that were stopped in the middle of an event stay
// blocked for good (watch.Filter in client-go); synctest calls that a deadlock.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && !strings.Contains(fmt.Sprint(r), "main bubble goroutine has exited but blocked goroutines remain") {
			panic(r)
		}
	}()
	synctest.Test(t, f)
}
