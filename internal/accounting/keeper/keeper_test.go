package keeper

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/pkg/decide"
)

// TestKeeperStatesWhatIsWrong: the keeper states why a database cannot be used, which keeps no decision waiting
// for longer than at a start, and is used once it can be. The time is virtual: it passes only while everything waits.
func TestKeeperStatesWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		run := func(file string) (*Keeper, <-chan error, *ledger.Ledger) {
			l, err := ledger.Later(file)
			if err != nil {
				t.Fatal(err)
			}
			b, done := New(l, func(string) time.Time { return time.Now() }, func(context.Context, error, string, ...any) {}), make(chan error, 1)
			if !b.Loading() {
				t.Error("decisions do not wait for the ledger at a start")
			}
			go func() { done <- b.Start(ctx) }()
			return b, done, l
		}
		bad, badDone, badLedger := run(filepath.Join(dir, "absent", "ledger.db"))
		good, goodDone, goodLedger := run(filepath.Join(dir, "ledger.db"))
		synctest.Wait()
		if reason, message := bad.Problem(); reason != "Behind" || !strings.Contains(message, "absent") {
			t.Errorf("what is wrong is not told: %q: %q", reason, message)
		}
		if good.Loading() {
			t.Error("decisions wait though the ledger is read")
		}
		if reason, message := good.Problem(); reason != "" {
			t.Errorf("%s: %s", reason, message)
		}
		time.Sleep(loadWithin - time.Nanosecond)
		if !bad.Loading() {
			t.Errorf("decisions wait for less than %v", loadWithin)
		}
		time.Sleep(time.Nanosecond)
		if bad.Loading() {
			t.Errorf("decisions wait for more than %v", loadWithin)
		}
		if _, err := goodLedger.Append(ctx, ledger.New{Kind: ledger.KindEnergy, Key: "bad", Body: func() {}}); err != nil {
			t.Fatal(err)
		}
		if reason, message := good.Problem(); reason != "Quarantined" || !strings.Contains(message, "of kind energy") {
			t.Errorf("%s: %s", reason, message)
		}
		cancel()
		for _, done := range []<-chan error{badDone, goodDone} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for _, l := range []*ledger.Ledger{badLedger, goodLedger} {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestSettlementKeepsNoDecision: while a pass of settlement goes on, as the first one of a large ledger does, decisions do not wait, and what they record is written.
func TestSettlementKeepsNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := ledger.Open(ctx, filepath.Join(t.TempDir(), "ledger.db"))
		if err != nil {
			t.Fatal(err)
		}
		of := ledger.Submitted{Policy: "ns/p", Zone: "z", At: time.Now()}
		if _, err := l.Append(ctx, ledger.New{Kind: ledger.KindSubmitted, Key: "submitted/a", Workload: "a", Body: of}); err != nil {
			t.Fatal(err)
		}
		asked, passes := false, make(chan struct{})
		k := New(l, func(string) time.Time {
			asked = true
			<-passes
			return time.Now()
		}, func(_ context.Context, err error, message string, _ ...any) { t.Error(message, err) })
		done := make(chan error, 1)
		go func() { done <- k.Start(ctx) }()
		synctest.Wait()
		if !asked || k.Loading() || !k.Recorder.Health().Loaded {
			t.Errorf("a pass goes on: %v; decisions wait: %v", asked, k.Loading())
		}
		k.Recorder.RecordJobs(&ledger.JobLook{Policy: "ns/p", Now: time.Now(), Snapshot: &decide.Snapshot{Now: time.Now(), Slot: time.Hour}, Jobs: []ledger.JobSeen{{UID: "b", Submitted: of}}})
		synctest.Wait()
		head, _, err := l.Head(ctx)
		if h := k.Recorder.Health(); err != nil || h.Queued > 0 || head != 2 {
			t.Errorf("%d entries wait for the pass, %d are written, %v", h.Queued, head, err)
		}
		close(passes)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}
