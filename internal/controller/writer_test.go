package controller

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// run starts a writer and ends it with the test.
func run(t *testing.T, q *writer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = q.Start(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
}

// receive waits for what a write sends.
func receive(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was written")
		return ""
	}
}

func TestWriterWritesTheLastOnly(t *testing.T) {
	q := newWriter()
	out := make(chan string, 10)
	write := func(text string) func(context.Context) error {
		return func(context.Context) error { out <- text; return nil }
	}
	a, b := writeKey{writePlan, "a"}, writeKey{writePlan, "b"}
	q.put(a, write("old"))
	q.put(a, write("new"))
	q.put(writeKey{writeTell, "a"}, write("taken back"))
	q.drop(writeKey{writeTell, "a"})
	q.put(b, write("other"))
	run(t, q)
	got := map[string]bool{receive(t, out): true, receive(t, out): true}
	if !got["new"] || !got["other"] {
		t.Errorf("written: %v; want new and other", got)
	}
	q.put(b, write("end"))
	if x := receive(t, out); x != "end" {
		t.Errorf("written: %q; want end", x)
	}
}

func TestWriterTriesAgain(t *testing.T) {
	q := newWriter()
	run(t, q)
	out := make(chan string, 10)
	tries := 0
	q.put(writeKey{writePlan, "a"}, func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("refused")
		}
		out <- "done"
		return nil
	})
	receive(t, out)
	if tries != 3 {
		t.Errorf("%d tries; want 3", tries)
	}
}

func TestWriterGivesWayToAnother(t *testing.T) {
	q := newWriter()
	run(t, q)
	out := make(chan string, 10)
	key := writeKey{writePlan, "a"}
	q.put(key, func(context.Context) error {
		out <- "old"
		return errors.New("refused")
	})
	receive(t, out)
	q.put(key, func(context.Context) error { out <- "new"; return nil })
	for {
		if got := receive(t, out); got == "new" {
			break
		}
	}
	time.Sleep(3 * shortestRewrite)
	if len(out) > 0 {
		t.Errorf("written after its successor: %q", <-out)
	}
}

func TestWriterDropsWhatHasChanged(t *testing.T) {
	q := newWriter()
	run(t, q)
	out := make(chan string, 10)
	q.put(writeKey{writeTell, "a"}, func(context.Context) error {
		out <- "tried"
		return apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "a", errors.New("changed"))
	})
	receive(t, out)
	time.Sleep(3 * shortestRewrite)
	if len(out) > 0 {
		t.Error("tried again although its object has changed")
	}
}

// TestWriterStatesPlansInTheEnd: nobody else writes plans, so what conflicts is tried again: the last plan of a
// workload that has ended is stated once only.
func TestWriterStatesPlansInTheEnd(t *testing.T) {
	q := newWriter()
	run(t, q)
	out := make(chan string, 10)
	conflicts := 2
	q.put(writeKey{writePlan, "a"}, func(context.Context) error {
		if conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: "carbonplans"}, "a", errors.New("changed"))
		}
		out <- "stated"
		return nil
	})
	receive(t, out)
}
