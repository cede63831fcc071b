package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/bestwindow"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// fakeTerminal is one that people may type at.
type fakeTerminal struct{ there, typed atomic.Bool }

func (f *fakeTerminal) foreground() bool          { return f.there.Load() }
func (f *fakeTerminal) line() (typed, empty bool) { return f.there.Load() && f.typed.Load(), true }
func (f *fakeTerminal) howTo(int) string          { return "" }

// bed is a run that waits, in time that passes only when all wait.
type bed struct {
	t        *testing.T
	w        *waiter
	out      bytes.Buffer
	terminal fakeTerminal
	submit   time.Time

	mu      sync.Mutex    // of what follows
	asleep  time.Duration // by which the wall clock is ahead of the timers
	values  []float64     // of each hour from the submission on; nil is no data
	readErr error
	reads   []time.Duration // when the forecast was read
	hang    bool            // reading never ends by itself
}

// outlook is what is known by values. The caller holds mu.
func (b *bed) outlook() (o source.Outlook) {
	var samples []carbon.Sample
	for h, v := range b.values {
		at := b.submit.Add(time.Duration(h) * time.Hour)
		samples = append(samples, carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(v)})
	}
	if len(samples) == 0 {
		return o
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "DE", Basis: carbon.OwnForecast}, samples)
	if err != nil {
		b.t.Fatal(err)
	}
	o.Expected = s
	return o
}

func (b *bed) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Round(0).Add(b.asleep)
}

// read reads the forecast, as the waiter asks.
func (b *bed) read(ctx context.Context, now time.Time) (source.Outlook, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads = append(b.reads, now.Sub(b.submit))
	if b.hang {
		b.mu.Unlock()
		<-ctx.Done()
		b.mu.Lock()
		return source.Outlook{}, ctx.Err()
	}
	return b.outlook(), b.readErr
}

// onBed runs a test of a run of an hour that has ten, and is planned by values.
func onBed(t *testing.T, values []float64, test func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, values: values}
		b.submit = b.now()
		w := &bestTime{now: b.submit, length: time.Hour, within: 10 * time.Hour, minSaving: 0.05, cfg: source.Config{Zone: "DE"}}
		w.outlook = b.outlook()
		var err error
		if w.Choice, err = bestwindow.Find(w.outlook.Expected, w.request()); err != nil {
			t.Fatal(err)
		}
		b.w = &waiter{runner: &runner{stderr: &b.out, now: b.now, signals: make(chan os.Signal, 8), terminal: &b.terminal}, zone: b.read, choice: w}
		test(b)
	})
}

// wait returns after how long the wait ended, and by what.
func (b *bed) wait() (time.Duration, os.Signal) {
	by := b.w.wait(context.Background())
	return b.now().Sub(b.submit), by
}

// after does something after a time of timers.
func (b *bed) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		do()
	})
}

func (b *bed) want(want time.Duration, wantBy os.Signal, texts ...string) {
	b.t.Helper()
	got, by := b.wait()
	if got != want || by != wantBy {
		b.t.Errorf("the wait ended after %v by %v; want %v, %v\n%s", got, by, want, wantBy, b.out.String())
	}
	for _, text := range texts {
		if !strings.Contains(b.out.String(), text) {
			b.t.Errorf("no %q in:\n%s", text, b.out.String())
		}
	}
}

// cleanAtFive are hourly intensities: clean in the sixth hour, dirty in all others.
var cleanAtFive = []float64{300, 300, 300, 300, 300, 100, 300, 300, 300, 300}

func TestWaitUntilTheBestStart(t *testing.T) {
	onBed(t, cleanAtFive, func(b *bed) {
		b.want(5*time.Hour, nil)
		if len(b.reads) != 9 || b.reads[0] != 30*time.Minute {
			t.Errorf("read at %v", b.reads)
		}
		if b.out.Len() > 0 {
			t.Errorf("said: %s", b.out.String())
		}
	})
}

func TestWaitFollowsTheForecast(t *testing.T) {
	onBed(t, cleanAtFive, func(b *bed) { // earlier
		b.after(45*time.Minute, func() { b.values = []float64{300, 300, 300, 100, 300, 300, 300, 300, 300, 300} })
		b.want(3*time.Hour, nil, "by the present forecast, waits until")
	})
	onBed(t, cleanAtFive, func(b *bed) { // later, for much
		b.after(45*time.Minute, func() { b.values = []float64{300, 300, 300, 300, 300, 100, 300, 300, 50, 300} })
		b.want(8*time.Hour, nil)
	})
	onBed(t, cleanAtFive, func(b *bed) { // not later for little
		b.after(45*time.Minute, func() { b.values = []float64{300, 300, 300, 300, 300, 100, 300, 300, 99, 300} })
		b.want(5*time.Hour, nil)
	})
	onBed(t, cleanAtFive, func(b *bed) { // at once
		b.after(45*time.Minute, func() { b.values = []float64{300, 10, 10, 300, 300, 300, 300, 300, 300, 300} })
		b.want(time.Hour, nil, "starts at once: CleanNow")
	})
}

// TestWaitWithoutProvider: the planned start stands when nothing more is known, and a provider that hangs delays nothing.
func TestWaitWithoutProvider(t *testing.T) {
	onBed(t, cleanAtFive, func(b *bed) {
		b.after(45*time.Minute, func() { b.values, b.readErr = nil, errors.New("down\nagain") })
		b.want(5*time.Hour, nil, "warning: the forecast cannot be read again: down; again")
		if n := strings.Count(b.out.String(), "warning"); n != 1 {
			t.Errorf("%d warnings of one error", n)
		}
	})
	onBed(t, cleanAtFive, func(b *bed) {
		b.hang = true
		b.want(5*time.Hour, nil)
	})
}

func TestWaitSignals(t *testing.T) {
	for s, want := range map[os.Signal]os.Signal{
		syscall.SIGUSR1: nil, syscall.SIGINT: syscall.SIGINT, syscall.SIGTERM: syscall.SIGTERM, syscall.SIGHUP: syscall.SIGHUP, syscall.SIGQUIT: syscall.SIGQUIT,
	} {
		onBed(t, cleanAtFive, func(b *bed) {
			b.after(time.Minute+time.Millisecond, func() { b.w.signals <- s })
			b.want(time.Minute+time.Millisecond, want)
		})
	}
	onBed(t, cleanAtFive, func(b *bed) { // no business of the wait
		b.after(time.Minute, func() { b.w.signals <- syscall.SIGUSR2 })
		b.want(5*time.Hour, nil)
	})
	onBed(t, []float64{100, 300, 300, 300, 300, 300, 300, 300, 300, 300}, func(b *bed) { // a signal before a start at once
		b.w.signals <- syscall.SIGUSR2
		b.w.signals <- syscall.SIGTERM
		b.want(0, syscall.SIGTERM)
	})
}

func TestWaitAsks(t *testing.T) {
	interrupt := func(b *bed) func() { return func() { b.w.signals <- syscall.SIGINT } }
	onBed(t, cleanAtFive, func(b *bed) { // Ctrl-C twice
		b.terminal.there.Store(true)
		b.after(time.Minute, interrupt(b))
		b.after(time.Minute+5*time.Second, interrupt(b))
		b.want(time.Minute+5*time.Second, syscall.SIGINT, "press Enter to run the command now, or Ctrl-C again to cancel")
	})
	onBed(t, cleanAtFive, func(b *bed) { // Enter
		b.terminal.there.Store(true)
		b.after(time.Minute, interrupt(b))
		b.after(time.Minute+4*time.Second, func() { b.terminal.typed.Store(true) })
		if got, by := b.wait(); by != nil || got < time.Minute+4*time.Second || got > time.Minute+5*time.Second {
			t.Errorf("%v, %v", got, by)
		}
	})
	onBed(t, cleanAtFive, func(b *bed) { // no answer
		b.terminal.there.Store(true)
		b.after(time.Minute, interrupt(b))
		b.want(5*time.Hour, nil, "still waits until")
	})
	onBed(t, cleanAtFive, func(b *bed) { // what was typed before the question is no answer
		b.terminal.there.Store(true)
		b.terminal.typed.Store(true)
		b.want(5*time.Hour, nil)
	})
	onBed(t, []float64{900, 800, 700, 600, 500, 400, 300, 200, 100, 5}, func(b *bed) { // the question does not outlast the latest start
		b.terminal.there.Store(true)
		b.after(9*time.Hour-time.Second-time.Millisecond, interrupt(b))
		if got, by := b.wait(); by != nil || got > 9*time.Hour+askStep {
			t.Errorf("%v, %v", got, by)
		}
	})
}

// TestWaitEndsByTheWallClock: timers stand still while the machine is asleep, and the wall clock goes on.
func TestWaitEndsByTheWallClock(t *testing.T) {
	onBed(t, cleanAtFive, func(b *bed) { // awake before the start
		b.after(time.Hour+time.Second, func() { b.asleep = 2 * time.Hour })
		b.want(5*time.Hour, nil, "was asleep")
		if len(b.reads) < 3 || b.reads[2] < 3*time.Hour || b.reads[2] > 3*time.Hour+time.Minute {
			t.Errorf("read at %v, not when it woke", b.reads)
		}
	})
	two := []float64{300, 300, 300, 300, 300, 100, 300, 300, 110, 300}
	onBed(t, two, func(b *bed) { // the best start is past, there is another
		b.after(time.Hour+time.Second, func() { b.asleep = 6 * time.Hour })
		b.want(8*time.Hour, nil, "was asleep", "by the present forecast, waits until")
	})
	onBed(t, two, func(b *bed) { // nothing is known: at once
		b.after(time.Hour+time.Second, func() { b.asleep, b.values = 6*time.Hour, nil })
		if got, by := b.wait(); by != nil || got > 7*time.Hour+time.Minute {
			t.Errorf("%v, %v", got, by)
		}
	})
	onBed(t, two, func(b *bed) { // the provider hangs: soon
		b.after(time.Hour+time.Second, func() { b.asleep, b.hang = 6*time.Hour, true })
		if got, by := b.wait(); by != nil || got > 7*time.Hour+2*time.Minute {
			t.Errorf("%v, %v", got, by)
		}
	})
	onBed(t, cleanAtFive, func(b *bed) { // beyond the latest start
		b.after(time.Hour+time.Second, func() { b.asleep = 20 * time.Hour })
		if got, by := b.wait(); by != nil || got > 21*time.Hour+time.Minute {
			t.Errorf("%v, %v", got, by)
		}
	})
	onBed(t, cleanAtFive, func(b *bed) { // the clock is set back: the start is by the wall clock
		b.after(time.Hour+time.Second, func() { b.asleep = -30 * time.Minute })
		b.want(5*time.Hour, nil)
	})
}

func TestRanText(t *testing.T) {
	for took, want := range map[time.Duration]string{-time.Second: "1ms", 0: "1ms", 17*time.Millisecond + 600*time.Microsecond: "18ms", 1400 * time.Millisecond: "1s", 2*time.Hour + 51*time.Minute + 7*time.Second: "2h51m"} {
		if got := ranText(took); got != want {
			t.Errorf("%v: %s, want %s", took, got, want)
		}
	}
}

func TestAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, values: cleanAtFive}
		b.submit = b.now()
		w := &bestTime{now: b.submit, length: time.Hour, within: 10 * time.Hour, cfg: source.Config{Zone: "DE"}}
		w.Start = b.submit.Add(5 * time.Hour)
		for name, tc := range map[string]struct {
			started, took time.Duration
			watts         float64
			want          string
		}{
			"as planned":   {5 * time.Hour, time.Hour, 200, "emitted 20 gCO2eq: 200 Wh at 100 gCO2eq/kWh; intensity by OwnForecast\nsaved 66.7 %, 40 gCO2eq against a start at once, Sat 2000-01-01 00:00 UTC, at 300 gCO2eq/kWh"},
			"too late":     {6 * time.Hour, time.Hour, 200, "saved nothing against a start at once, Sat 2000-01-01 00:00 UTC\nthe best start, by present data, was Sat 2000-01-01 05:00 UTC: 66.7 % less than a start at once"},
			"no time":      {5 * time.Hour, 0, 200, "saved 66.7 %"},
			"beyond data":  {9 * time.Hour, 40 * 24 * time.Hour, 200, "emissions are not stated: the carbon intensity of the run is not known"},
			"filled hours": {11 * time.Hour, time.Hour, 200, "emissions are not stated"},
		} {
			got := strings.Join(account(b.outlook(), w, b.submit.Add(tc.started), tc.took, tc.watts), "\n")
			if best := strings.Contains(got, "best start"); !strings.Contains(got, tc.want) || best != strings.Contains(tc.want, "best start") {
				t.Errorf("%s: %s", name, got)
			}
		}
		if got := account(source.Outlook{}, w, b.submit, time.Hour, 1); len(got) != 1 || got[0] != "emissions are not stated: the carbon intensity of DE is not known" {
			t.Errorf("%q", got)
		}
	})
}
