//go:debug randseednop=0

// Package controlloop tests the control loop of Lull, the real controller and watchdog, in a simulated cluster.
package controlloop

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"lull.dev/lull/test/simkube"
)

var (
	seeds = flag.Uint64("seeds", 2, "how many worlds TestControlLoop tries")
	first = flag.Uint64("first", 1, "seed of the first world")
	lines = flag.Bool("log", false, "print what the programs log")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a fifth less time, for some hundred MB
	}
	logger := logr.Discard()
	if *lines {
		logger = klog.Background()
	} else {
		klog.SetLogger(logger) // its errors too: client-go prints whole Events
	}
	ctrl.SetLogger(logger)
	// The second handler keeps the time of the last error in a global, and waits until after it: in another bubble, for good.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	// The first command would start the goroutine of the runtime for signals, in a bubble.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)
	os.Exit(m.Run())
}

// TestControlLoop runs controller and watchdog in random worlds with faults. No Job may miss its deadline, be lost
// or stay held, and no field may change that is not Lull's. Each world is a test of its own: a failure hides no other.
//
//	go test -timeout 0 ./test/controlloop -run TestControlLoop -seeds 1000
//	go test ./test/controlloop -run TestControlLoop -first 17 -seeds 1 -log   # replays seed 17
func TestControlLoop(t *testing.T) {
	total := summary{}
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("replay: go test ./test/controlloop -run '^TestControlLoop$' -first %d -seeds 1 -log", seed)
				}
			})
			simkube.Bubble(t, func(t *testing.T) {
				w := newRandomWorld(t, seed)
				w.play()
				w.Stop()
				total.add(w)
				for _, b := range w.Violations() {
					t.Errorf("seed %d: %s", seed, b)
				}
			})
		})
	}
	t.Log(total)
	if total.jobs == 0 || total.held == 0 || *seeds >= 8 && (total.paused == 0 || total.killed == 0 || total.outages == 0 || total.edits == 0 || total.replaced == 0) {
		t.Errorf("%v: a fault or a hold that never occurs tests nothing", total)
	}
}

// summary counts what happened in worlds.
type summary struct{ jobs, held, paused, killed, outages, edits, replaced, changes, nodes, lost, runs, unseen int }

func (s *summary) add(w *randomWorld) {
	s.jobs += len(w.jobs)
	s.held += w.held
	s.paused += w.paused
	s.killed += w.killed
	s.outages += len(w.outages)
	s.edits += w.edits
	s.replaced += w.replaced
	s.nodes += w.nodesLost
	s.lost += w.lost
	s.runs += w.runs
	s.unseen += w.unseen
	_, v := w.Store.List(w.Store.Resource("Job"), "")
	s.changes += int(v)
}

func (s summary) String() string {
	return fmt.Sprintf("%d Jobs, %d held, %d pauses, %d programs killed, %d outages of the API server, %d edits by users, %d objects replaced, %d nodes lost with %d runs, %d runs in ledgers and %d not seen, %d changes of objects",
		s.jobs, s.held, s.paused, s.killed, s.outages, s.edits, s.replaced, s.nodes, s.lost, s.runs, s.unseen, s.changes)
}

// TestAViolationIsFound shows that the test can fail: with nobody to release Jobs they miss their deadlines.
func TestAViolationIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRandomWorld(t, 1)
		w.nobody = true
		w.play()
		w.Stop()
		if len(w.Violations()) == 0 {
			t.Error("no Job was released, and nothing was violated")
		}
	})
}

// TestFaultsInTheHistoryAreFound shows that the check of a world's steps can fail: a program resumes each Job a minute too late, and
// suspends it again while it runs.
func TestFaultsInTheHistoryAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRandomWorld(t, 1)
		w.nobody = true
		for _, p := range w.jobs {
			suspend := func(after time.Duration, yes bool) {
				w.After(p.at+after, func() {
					_, _ = w.Store.Change("controller-1", w.Store.Resource("Job"), nameOf(p.job), false, func(u *unstructured.Unstructured) error {
						return unstructured.SetNestedField(u.Object, yes, "spec", "suspend")
					})
				})
			}
			suspend(p.delay+time.Minute, false)
			suspend(p.delay+2*time.Minute, true)
		}
		w.play()
		w.Stop()
		found := strings.Join(w.Violations(), "\n")
		for _, want := range []string{"which runs and may not be interrupted", "its latest safe start was"} {
			if !strings.Contains(found, want) {
				t.Errorf("not found: %q", want)
			}
		}
	})
}
