package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
)

// withWriter runs a test with a writer in virtual time, which passes only while everything waits. begin starts the
// writer; the end of the test ends it.
func withWriter(t *testing.T, test func(t *testing.T, q *writer, begin func())) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := newWriter()
		var group sync.WaitGroup
		defer func() { cancel(); group.Wait() }()
		test(t, q, func() { group.Go(func() { _ = q.Start(ctx) }) })
	})
}

// receive waits for what a write sends.
func receive(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Hour):
		t.Fatal("nothing was written")
		return ""
	}
}

// nothingMore lets more time pass than the writer ever waits, and checks that it has written nothing.
func nothingMore(t *testing.T, from <-chan string, why string) {
	t.Helper()
	time.Sleep(2 * longestRewrite)
	synctest.Wait()
	if len(from) > 0 {
		t.Errorf("%s: %q", why, <-from)
	}
}

func TestWriterWritesTheLastOnly(t *testing.T) {
	withWriter(t, func(t *testing.T, q *writer, begin func()) {
		out := make(chan string, 10)
		write := func(text string) func(context.Context) error {
			return func(context.Context) error { out <- text; return nil }
		}
		a, b := writeKey{writePlan, "n", "a"}, writeKey{writePlan, "n", "b"}
		q.put(a, write("old"))
		q.put(a, write("new"))
		q.put(writeKey{writeTell, "n", "a"}, write("taken back"))
		q.drop(writeKey{writeTell, "n", "a"})
		q.put(b, write("other"))
		begin()
		got := map[string]bool{receive(t, out): true, receive(t, out): true}
		if !got["new"] || !got["other"] {
			t.Errorf("written: %v; want new and other", got)
		}
		q.put(b, write("end"))
		if x := receive(t, out); x != "end" {
			t.Errorf("written: %q; want end", x)
		}
		nothingMore(t, out, "written beside the last of each key")
	})
}

func TestWriterTriesAgain(t *testing.T) {
	withWriter(t, func(t *testing.T, q *writer, begin func()) {
		begin()
		out := make(chan string, 10)
		tries := 0
		from := time.Now()
		q.put(writeKey{writePlan, "n", "a"}, func(context.Context) error {
			if tries++; tries < 3 {
				return errors.New("refused")
			}
			out <- "done"
			return nil
		})
		receive(t, out)
		if took := time.Since(from); tries != 3 || took != 3*shortestRewrite {
			t.Errorf("%d tries within %v; want 3, after a pause of %v and one twice as long", tries, took, shortestRewrite)
		}
	})
}

// TestWriterGivesWayToAnother: a write that fails is not tried again after another has taken its place, while it was
// under way or in the pause after it.
func TestWriterGivesWayToAnother(t *testing.T) {
	for what, underWay := range map[string]bool{"under way": true, "in the pause": false} {
		withWriter(t, func(t *testing.T, q *writer, begin func()) {
			begin()
			out, fail := make(chan string, 10), make(chan struct{})
			key := writeKey{writePlan, "n", "a"}
			q.put(key, func(context.Context) error {
				out <- "old"
				<-fail
				return errors.New("refused")
			})
			receive(t, out)
			if !underWay {
				close(fail)
				synctest.Wait()
			}
			q.put(key, func(context.Context) error { out <- "new"; return nil })
			if underWay {
				close(fail)
			}
			if got := receive(t, out); got != "new" {
				t.Errorf("%s: written: %q; want new", what, got)
			}
			nothingMore(t, out, what+": written after its successor")
		})
	}
}

// aJob is a Job of namespace n.
func aJob(t *testing.T, uid string) *kube.Workload {
	t.Helper()
	job, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	return kube.NewWorkload(job[0], &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "n", "name": uid, "uid": uid}}})
}

// TestWriterRemembersRefusals: what a webhook refuses is known until the write succeeds, is taken back, or fails in another way; a plan that is
// Invalid, as the one of an earlier workload of its name is still there, only when that lasts. What is refused for good is tried less often.
func TestWriterRemembersRefusals(t *testing.T) {
	jobs := schema.GroupResource{Resource: "jobs"}
	forbidden := apierrors.NewForbidden(jobs, "a", errors.New("a webhook says no"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "CarbonPlan"}, "a", nil)
	workload := aJob(t, "a")
	for name, tc := range map[string]struct {
		what          writeKind
		err           error
		early, lasts  int // refusals after a second, and after two minutes
		most, atLeast int // tries within ten minutes
	}{
		"refused":           {writeTell, forbidden, 1, 1, 35, 25},
		"a plan, refused":   {writePlan, forbidden, 1, 1, 35, 25},
		"an earlier plan":   {writePlan, invalid, 0, 1, 35, 25},
		"away for a moment": {writeTell, errors.New("timeout"), 0, 0, 200, 100},
	} {
		t.Run(name, func(t *testing.T) {
			withWriter(t, func(t *testing.T, q *writer, begin func()) {
				begin()
				key, tries := writeKey{tc.what, "n", "a"}, 0
				q.put(key, func(context.Context) error { tries++; return tc.err })
				known := func(after time.Duration, want int) {
					t.Helper()
					time.Sleep(after)
					synctest.Wait()
					if got := len(q.refusals([]*kube.Workload{workload})); got != want {
						t.Errorf("%d refusals are known, want %d", got, want)
					}
				}
				known(time.Second, tc.early)
				known(2*time.Minute, tc.lasts)
				known(8*time.Minute, tc.lasts)
				if tries > tc.most || tries < tc.atLeast {
					t.Errorf("%d tries", tries)
				}
				q.put(key, func(context.Context) error { return nil })
				known(2*time.Minute, 0)
				q.put(key, func(context.Context) error { return forbidden })
				known(2*time.Minute, 1)
				q.drop(key)
				known(0, 0)
			})
		})
	}
}

func TestWriterDropsWhatHasChanged(t *testing.T) {
	withWriter(t, func(t *testing.T, q *writer, begin func()) {
		begin()
		out := make(chan string, 10)
		q.put(writeKey{writeTell, "n", "a"}, func(context.Context) error {
			out <- "tried"
			return apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "a", errors.New("changed"))
		})
		receive(t, out)
		nothingMore(t, out, "tried again although its object has changed")
	})
}

// TestWriterStatesPlansInTheEnd: nobody else writes plans, so what conflicts is tried again: the last plan of a
// workload that has ended is stated once only.
func TestWriterStatesPlansInTheEnd(t *testing.T) {
	withWriter(t, func(t *testing.T, q *writer, begin func()) {
		begin()
		out := make(chan string, 10)
		conflicts := 2
		q.put(writeKey{writePlan, "n", "a"}, func(context.Context) error {
			if conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "carbonplans"}, "a", errors.New("changed"))
			}
			out <- "stated"
			return nil
		})
		receive(t, out)
	})
}

// TestWriterNotStarted: a controller that never leads makes a writer and does not start it. Nothing of it is left; the bubble
// fails otherwise.
func TestWriterNotStarted(t *testing.T) {
	synctest.Test(t, func(*testing.T) { newWriter() })
}

// TestWriterIsFair: slow writes of a namespace keep those of another one waiting for nothing, are as many at a time as one may
// have, and come in their order; one that is taken back meanwhile does not keep those behind it.
func TestWriterIsFair(t *testing.T) {
	withWriter(t, func(t *testing.T, q *writer, begin func()) {
		begin()
		const writes = 3*writersOfNamespace + 1
		start, out := time.Now(), make(chan string, writes)
		key := func(i int) writeKey { return writeKey{writeTell, "slow", types.UID(fmt.Sprint(i))} }
		for i := range writes {
			q.put(key(i), func(context.Context) error {
				time.Sleep(time.Minute)
				out <- fmt.Sprintf("%v: %d", time.Since(start).Minutes(), i)
				return nil
			})
		}
		q.drop(key(writersOfNamespace))
		synctest.Wait()
		other := make(chan string, 1)
		q.put(writeKey{writeTell, "other", "a"}, func(context.Context) error { other <- time.Since(start).String(); return nil })
		if took := receive(t, other); took != "0s" {
			t.Errorf("the write of another namespace took %v", took)
		}
		var got []string
		for range writes - 1 {
			got = append(got, receive(t, out))
		}
		slices.Sort(got) // those that end at the same time end in any order
		if want := "1: 0 1: 1 1: 2 1: 3 2: 5 2: 6 2: 7 2: 8 3: 10 3: 11 3: 12 3: 9"; strings.Join(got, " ") != want {
			t.Errorf("written in minutes: %v; want %s", got, want)
		}
		nothingMore(t, out, "one that was taken back")
		if len(q.spaces) > 0 {
			t.Errorf("kept of namespaces without writes: %v", q.spaces)
		}
	})
}
