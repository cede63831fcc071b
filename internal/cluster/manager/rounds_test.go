package manager

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestStallIsNotReady: a replica that leads and has work is ready while it completes rounds, and for ten minutes after the last one. A replica
// that stands by is ready, as is one without work.
func TestStallIsNotReady(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	elected, idle := make(chan struct{}), true
	var unreadable error
	r := &Rounds{Clock: clock, Elected: elected, Idle: func(context.Context) (bool, error) { return idle, unreadable }}
	ready := func(when string, want bool) {
		t.Helper()
		err := r.Check(httptest.NewRequest("GET", "/readyz", nil))
		if (err == nil) != want {
			t.Errorf("%s: %v, want ready %v", when, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "10m") {
			t.Errorf("%s: %v says no limit", when, err)
		}
	}
	day := 24 * time.Hour
	ready("it stands by", true)
	clock.Step(day)
	idle = false
	ready("it stands by for a day", true)
	close(elected)
	ready("it is elected", true)
	clock.Step(Stalled)
	ready("it has had ten minutes", true)
	clock.Step(time.Second)
	ready("it has had longer, and completed no round", false)
	r.Done()
	ready("it has completed a round", true)
	for range 100 {
		clock.Step(30 * time.Second)
		r.Done()
		ready("it completes rounds", true)
	}
	clock.Step(Stalled + time.Second)
	ready("it completes none any more", false)
	idle = true
	ready("there is no work any more", true)
	clock.Step(day)
	ready("there is no work for a day", true)
	idle = false
	ready("there is new work", true)
	clock.Step(Stalled + time.Second)
	ready("the new work is not done", false)

	clock.SetTime(time.Unix(0, 0))
	ready("the clock is set back", true)
	unreadable = errors.New("the cache cannot be read")
	if err := r.Check(httptest.NewRequest("GET", "/readyz", nil)); !errors.Is(err, unreadable) {
		t.Errorf("%v, want %v", err, unreadable)
	}
	(*Rounds)(nil).Done()
}
