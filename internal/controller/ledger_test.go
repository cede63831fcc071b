package controller

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/ledger"
)

// TestBooksTellWhatIsWrong: a database that cannot be used is told as the reason, keeps no decision waiting
// for longer than at a start, and is used once it can be.
func TestBooksTellWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	run := func(file string) (*books, <-chan error, *ledger.Ledger) {
		l, err := ledger.Later(file)
		if err != nil {
			t.Fatal(err)
		}
		b, done := newBooks(l, NewZones(), time.Now), make(chan error, 1)
		if !b.loading() {
			t.Error("decisions do not wait for the ledger at a start")
		}
		go func() { done <- b.Start(ctx) }()
		return b, done, l
	}
	within := func(what string, is func() bool) {
		t.Helper()
		for begin := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatal(what)
			}
		}
	}
	bad, badDone, badLedger := run(filepath.Join(dir, "absent", "ledger.db"))
	within("what is wrong is not told", func() bool {
		reason, message := bad.problem()
		return reason == "Behind" && strings.Contains(message, "absent")
	})
	within("decisions wait for ever", func() bool { return !bad.loading() })
	good, goodDone, goodLedger := run(filepath.Join(dir, "ledger.db"))
	within("decisions wait though the ledger is read", func() bool { return !good.loading() })
	if reason, message := good.problem(); reason != "" {
		t.Errorf("%s: %s", reason, message)
	}
	if _, err := goodLedger.Append(ctx, ledger.New{Kind: ledger.KindEnergy, Key: "bad", Body: func() {}}); err != nil {
		t.Fatal(err)
	}
	if reason, message := good.problem(); reason != "Quarantined" || !strings.Contains(message, "of kind energy") {
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
}
