package manager

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Stalled is how long the program that leads may take to complete a round before it is not ready. A round takes seconds.
const Stalled = 10 * time.Minute

// Rounds is a readiness check of a program that does its work in rounds: the replica that leads is not ready if it has
// completed none for longer than Stalled, though there is work. A replica that does not lead is ready. Rounds is safe for
// concurrent use. The zero of its unexported fields is that of a program that has just started.
type Rounds struct {
	Clock clock.PassiveClock
	// Elected is closed once the replica leads.
	Elected <-chan struct{}
	// Idle reports whether there is nothing to do; nil if there always is something.
	Idle func(context.Context) (bool, error)
	// Pause is how long after a round the next one begins, where that is long beside Stalled.
	Pause time.Duration

	mu sync.Mutex
	// since is since when this replica leads and has work, as far as Check has seen; last is when the last round was completed.
	since, last time.Time
}

// Done notes that a round is completed. It does nothing on nil.
func (r *Rounds) Done() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = r.Clock.Now()
}

// Check implements healthz.Checker.
func (r *Rounds) Check(req *http.Request) error {
	select {
	case <-r.Elected:
	default:
		return nil
	}
	idle := false
	if r.Idle != nil {
		var err error
		if idle, err = r.Idle(req.Context()); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if idle || r.since.IsZero() {
		r.since = now
	}
	from := r.since
	if r.last.After(from) {
		from = r.last
	}
	if took := now.Sub(from); took > Stalled+r.Pause {
		return fmt.Errorf("no round has been completed for %v; accepted: %v. The log has the errors", took.Round(time.Second), Stalled+r.Pause)
	}
	return nil
}
