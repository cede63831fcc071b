package cli

import (
	"context"
	"os"
	"syscall"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/bestwindow"
)

const (
	// rereadEvery is how often a waiting run reads the forecast.
	rereadEvery = 30 * time.Minute
	// stepLength is how long a waiting run sleeps at most before it compares the wall clock: timers stand still while
	// a machine is asleep.
	stepLength = 15 * time.Second
	// asleepAfter is how much longer than planned a step takes when the machine was asleep, or its clock was set.
	asleepAfter = 2 * time.Minute
	// askFor is how long the question after Ctrl-C waits for an answer, askStep how often it looks for one.
	askFor, askStep = 10 * time.Second, 100 * time.Millisecond
)

// waiter waits for the start of a run.
type waiter struct {
	*runner
	zone   func(ctx context.Context, now time.Time) (source.Outlook, error) // reads the forecast
	choice *bestTime

	start     time.Time // planned
	readAt    time.Time // when the forecast is read again
	reading   chan answer
	anew      bool // the planned start was slept through: choose again from now on
	asking    time.Time
	lastError string
}

// answer is what reading the forecast came to.
type answer struct {
	outlook source.Outlook
	err     error
}

// wait returns when the run is to start, or with the signal that canceled it.
//
// The start is honored whatever a provider does: the forecast is read beside the wait.
func (w *waiter) wait(ctx context.Context) os.Signal {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.start, w.readAt = w.choice.Start, w.now().Add(rereadEvery)
	for {
		now := w.now()
		if !now.Before(w.start) && (w.asking.IsZero() || !now.Before(w.choice.LatestStart)) {
			return w.pending(0)
		}
		if !now.Before(w.readAt) && w.reading == nil {
			w.read(ctx, now)
		}
		step := min(stepLength, max(0, w.start.Sub(now)), max(0, w.readAt.Sub(now)))
		if w.reading != nil {
			step = min(stepLength, max(0, w.start.Sub(now)))
		}
		if !w.asking.IsZero() {
			step = askStep
		}
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
		case a := <-w.reading:
			w.reading, w.readAt = nil, w.now().Add(rereadEvery)
			w.revise(a)
		case s := <-w.signals:
			if done, by := w.signal(s); done {
				timer.Stop()
				return by
			}
		}
		timer.Stop()
		if w.answered() {
			return nil
		}
		if after := w.now(); after.Sub(now) > step+asleepAfter {
			w.woke(now, after)
		} else if after.Before(now.Add(-asleepAfter)) {
			w.readAt = after // the clock was set back
		}
	}
}

// signal returns done if the wait is over, by the signal that canceled it, or nil if the run starts.
func (w *waiter) signal(s os.Signal) (done bool, by os.Signal) {
	switch {
	case s == syscall.SIGUSR1:
		w.say("starts now: received SIGUSR1")
		return true, nil
	case s == syscall.SIGINT && w.asking.IsZero() && w.terminal.foreground():
		w.asking = w.now().Add(askFor)
		w.say("press Enter to run the command now, or Ctrl-C again to cancel; with any other answer, or with none in %s, the wait continues", roughly(askFor))
		return false, nil
	}
	return cancels(s), s
}

// cancels reports whether a signal ends the wait without a run.
func cancels(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// answered reports whether the question was answered by Enter alone. It withdraws the question after another answer, and when its
// time is over.
func (w *waiter) answered() bool {
	if w.asking.IsZero() {
		return false
	}
	typed, empty := w.terminal.line()
	if typed && empty {
		w.asking = time.Time{}
		return true
	}
	if typed || w.now().After(w.asking) {
		w.asking = time.Time{}
		w.say("still waits until %s", clockText(w.start, w.choice.now))
	}
	return false
}

// read reads the forecast beside the wait.
func (w *waiter) read(ctx context.Context, now time.Time) {
	c := make(chan answer, 1)
	w.reading = c
	go func() {
		limited, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		outlook, err := w.zone(limited, now)
		c <- answer{outlook, err}
	}()
}

// revise moves the start if a new forecast says so.
func (w *waiter) revise(a answer) {
	if a.err != nil && a.err.Error() != w.lastError {
		w.lastError = a.err.Error()
		w.say("warning: the forecast cannot be read again: %s", oneLine(a.err))
	}
	r := w.choice.request()
	if r.Now = w.now(); r.Now.After(w.choice.LatestStart) {
		w.start = r.Now
		return
	}
	var c bestwindow.Choice
	var err error
	if w.anew {
		c, err = bestwindow.Find(a.outlook.Expected, r)
	} else {
		c, err = bestwindow.Revise(a.outlook.Expected, r, w.start)
	}
	if err != nil { // the request was valid when it was submitted
		w.say("warning: %v; the planned start does not change", err)
		return
	}
	w.anew = false
	if d := c.Start.Sub(w.start); d < -time.Minute || d > time.Minute {
		if c.Start.After(r.Now) {
			w.say("by the present forecast, waits until %s: %s over the run", clockText(c.Start, w.choice.now), intensityText(c.Mean))
		} else {
			w.say("by the present forecast, starts at once: %s", c.Reason)
		}
	}
	w.start = c.Start
}

// woke goes on after the machine was asleep from before until now. If the planned start is past, a new one is chosen as soon
// as the forecast is read, unless there is no time for that.
func (w *waiter) woke(before, now time.Time) {
	w.say("the machine was asleep, or its clock was set, from %s to %s", clockText(before, w.choice.now), clockText(now, w.choice.now))
	w.readAt, w.reading = now, nil // an answer of before would be old
	if missed := now.Sub(w.start) > asleepAfter; missed && now.Before(w.choice.LatestStart) {
		w.anew, w.start = true, minTime(now.Add(readTimeout), w.choice.LatestStart)
	}
}
