package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/bestwindow"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// runOptions say what is to run, where, by when, and what it draws.
type runOptions struct {
	whenOptions
	watts float64
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run --length DURATION -- COMMAND [ARGUMENT...]",
		Short: "Wait for the best time on this machine, then run a command",
		Long: `Run waits for the time at which a run of --length emits least, if it ends within
--within from now, runs the command, and reports what that emitted and saved against a
start at once. It needs no cluster and no key: without --source it uses the climatology of
the zone, a mean day of each month. "lull when" only prints the time.

The command starts at once if the best time saves less than --min-saving, or if no carbon
intensity is known. It starts at the latest when a run of --length still ends in time.
While it waits, run reads the forecast again every half hour, and when the machine has
been asleep.

While it waits:
  Ctrl-C    on a terminal asks: Enter runs the command now, Ctrl-C again cancels
  SIGINT    without a terminal cancels (exit status 130), as do SIGTERM (143) and
            SIGHUP (129) always
  SIGUSR1   runs the command now

The command gets the input, the output, the signals and the environment of run, and run
ends with its exit status: 128 plus the number of the signal if a signal ended it, 127 if
it is not found, 126 if it cannot be executed. Run writes its own messages to standard error.`,
		Example: `  lull run --within 24h --length 3h --zone DE -- make train
  lull run --within 12h --length 30m --zone GB --source ukCarbonIntensity --watts 250 -- ./backup.sh
  LULL_ZONE=FR lull run --length 2h --min-saving 10 -- python3 train.py --epochs 3`,
		Args: takes(1, math.MaxInt, "a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			zone, err := o.prepare(cmd.Flags())
			if err != nil {
				return afterCommand(err, cmd.Flags(), args[1:])
			}
			if _, err := exec.LookPath(args[0]); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "lull: %v%s\n", err, shellHint(args))
				return exitStatus(startStatus(err))
			}
			r := newRunner(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			defer r.close()
			return r.run(cmd.Context(), &o, zone, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the command are the command's
	o.register(f)
	number(f, &o.watts, "watts", math.NaN(), above0(), "power of the run, to state emissions in grams; without it they are stated per kWh")
	return cmd
}

// afterCommand adds a hint to an error of the flags, if a flag of lull run stands after the command.
func afterCommand(err error, f *pflag.FlagSet, args []string) error {
	for _, a := range args {
		name, isFlag := strings.CutPrefix(a, "--")
		if name, _, _ = strings.Cut(name, "="); isFlag && f.Lookup(name) != nil {
			return fmt.Errorf("%w. Flags after the command belong to the command", err)
		}
	}
	return err
}

// shellHint is what to write for a command that is for a shell: a line of a script, or a command that is part of the shell.
func shellHint(args []string) string {
	name := args[0]
	builtin := slices.Contains([]string{"alias", "cd", "eval", "exec", "export", "set", "source", ".", "time", "ulimit", "umask", "wait"}, name)
	assigns, _, isAssignment := strings.Cut(name, "=")
	if builtin || strings.ContainsAny(name, " \t;|&<>$*`") || isAssignment && assigns != "" {
		return "; no shell reads the command; accepted: a program and its arguments, or a shell with a script: sh -c '...'"
	}
	return "; accepted: a program in PATH, or its path"
}

// runner is this machine, as far as a run has to do with it.
type runner struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time // wall clock, without a monotonic reading: that stops while a machine is asleep
	signals        chan os.Signal
	terminal       terminal
}

func newRunner(stdin io.Reader, stdout, stderr io.Writer) *runner {
	r := &runner{stdin: stdin, stdout: stdout, stderr: stderr, now: func() time.Time { return time.Now().Round(0) }, signals: make(chan os.Signal, 8), terminal: terminalOf(stdin)}
	for _, s := range passedOn {
		if !signal.Ignored(s) { // nohup ignores SIGHUP, and so does what it runs
			signal.Notify(r.signals, s)
		}
	}
	return r
}

func (r *runner) close() { signal.Stop(r.signals) }

func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(r.stderr, "lull: "+format+"\n", args...)
}

// run waits, runs the command, and reports.
func (r *runner) run(ctx context.Context, o *runOptions, zone *zoneFeed, args []string) error {
	submitted := r.now()
	w, err := o.find(ctx, zone, submitted, r.stderr)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // a signal came while the forecast was read
		return r.canceled(r.pending(time.Second), notRun)
	}
	if w.Reason == bestwindow.NoCarbonData {
		r.say("warning: %s", w.message())
	} else {
		text := w.message()
		if from := w.basisText(); from != "" {
			text += " (" + from + ")"
		}
		r.say("%s", text)
	}
	if w.Start.After(submitted) {
		r.say("%s", r.terminal.howTo(os.Getpid()))
	}
	waiting := waiter{runner: r, zone: zone.read, choice: w}
	// Signals come through a channel; the context ends with the first of them, and reading goes on.
	if by := waiting.wait(context.WithoutCancel(ctx)); by != nil {
		return r.canceled(by, notRun)
	}
	started := r.now()
	if late := started.Sub(w.LatestStart); late > time.Minute {
		r.say("starts %s after the latest start that ends in time", roughly(late))
	}
	status, err := r.command(args)
	ended := r.now()
	if err != nil {
		r.say("%v", err)
		return exitStatus(startStatus(err))
	}
	r.report(ctx, o, zone, w, started, ended)
	if status != 0 {
		return exitStatus(status)
	}
	return nil
}

// pending returns a signal that cancels and that came already, or comes within a moment; nil for none.
func (r *runner) pending(moment time.Duration) os.Signal {
	timer := time.NewTimer(moment)
	defer timer.Stop()
	for {
		select { // what is there goes before the timer
		case s := <-r.signals:
			if cancels(s) {
				return s
			}
			continue
		default:
		}
		select {
		case s := <-r.signals:
			if cancels(s) {
				return s
			}
		case <-timer.C:
			return nil
		}
	}
}

// notRun is what follows from a signal that cancels lull run.
const notRun = ": the command did not run"

// canceled says that a signal ended the command of lull, and what follows. A context that ended without a signal counts as SIGTERM.
func (r *runner) canceled(by os.Signal, follows string) error {
	s, ok := by.(syscall.Signal)
	if !ok {
		s = syscall.SIGTERM
	}
	r.say("canceled (%v)%s", s, follows)
	return exitStatus(exitSignal + int(s))
}

// report says what the run emitted and saved, by its actual run time and what is known of the intensity by now.
func (r *runner) report(ctx context.Context, o *runOptions, zone *zoneFeed, w *bestTime, started, ended time.Time) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	go func() {
		select {
		case <-r.signals: // who wants it to end does not want to wait for a provider
			cancel()
		case <-limited.Done():
		}
	}()
	if err := zone.refresh(limited, ended); err != nil {
		r.say("warning: %s", oneLine(err))
	}
	// The outlook of then, with all that has been measured since.
	cfg := zone.cfg
	cfg.Horizon = max(cfg.Horizon, ended.Sub(w.now)+time.Hour)
	outlook := zone.feed.Outlook(w.now, cfg)
	if !covers(outlook, w.now, ended) && w.outlook.Expected != nil {
		outlook = w.outlook
	}
	took := ended.Sub(started)
	r.say("ran %s, from %s to %s", ranText(took), started.In(w.now.Location()).Format("Mon 2006-01-02 15:04:05"), ended.In(w.now.Location()).Format("Mon 2006-01-02 15:04:05 MST"))
	if took > o.length {
		text := "that is longer than --length " + scenario.ShortDuration(o.length)
		if late := ended.Sub(w.now.Add(w.within)); late > 0 {
			text += ", and ended " + roughly(late) + " after --within"
		}
		r.say("%s", text)
	}
	for _, line := range account(outlook, w, started, took, o.watts) {
		r.say("%s", line)
	}
}

// ranText prints how long a command ran, "0s" never: one that ends at once takes milliseconds.
func ranText(took time.Duration) string {
	if took < time.Second {
		return max(took.Round(time.Millisecond), time.Millisecond).String()
	}
	return roughly(took)
}

// covers reports whether the intensity of all of an interval is known.
func covers(o source.Outlook, from, to time.Time) bool {
	return o.Expected != nil && len(o.Expected.Gaps(from, to)) == 0
}

// account says what a run emitted, against the same run from when it was submitted on. Hours without an intensity are filled
// as everywhere (carbon.FillRule).
func account(outlook source.Outlook, w *bestTime, started time.Time, took time.Duration, watts float64) []string {
	if took <= 0 {
		took = time.Nanosecond
	}
	if outlook.Expected == nil {
		return []string{"emissions are not stated: the carbon intensity of " + w.cfg.Zone + " is not known"}
	}
	run := outlook.Expected.FilledMean(started, started.Add(took))
	if run.Unknown > 0 {
		return []string{"emissions are not stated: the carbon intensity of the run is not known"}
	}
	text := "the mean carbon intensity was " + intensityText(run.Mean)
	energy := units.Power(watts).Over(took)
	if !math.IsNaN(watts) {
		text = fmt.Sprintf("emitted %s: %s at %s", energy.At(run.Mean), energy, intensityText(run.Mean))
	}
	lines := []string{text + "; " + basesText(outlook.Expected, started, started.Add(took))}
	baseline := outlook.Expected.FilledMean(w.now, w.now.Add(took))
	saving := bestwindow.Saving(run.Mean, baseline.Mean)
	switch {
	case !w.Start.After(w.now):
		return append(lines, "saved nothing: it started at once")
	case baseline.Unknown > 0:
		return append(lines, "the saving is not known: the carbon intensity of a start at once is not known")
	case math.Abs(saving) < leastShown:
		lines = append(lines, "saved nothing against a start at once, "+clockText(w.now, w.now))
	default:
		verb, share := "saved", saving
		if saving < 0 {
			verb, share = "cost", -saving
		}
		if text = verb + " " + percentText(share); !math.IsNaN(watts) {
			text += ", " + energy.At(units.CarbonIntensity(math.Abs(float64(baseline.Mean-run.Mean)))).String()
		}
		lines = append(lines, fmt.Sprintf("%s against a start at once, %s, at %s", text, clockText(w.now, w.now), intensityText(baseline.Mean)))
	}
	// What the best start would have saved bounds what any could.
	best, err := bestwindow.Find(outlook.Expected, bestwindow.Request{Now: w.now, EndBy: w.now.Add(max(w.within, took)), Length: took})
	if err == nil && best.Reason == bestwindow.CleanerLater && best.Saving() > saving+leastShown {
		lines = append(lines, fmt.Sprintf("the best start, by present data, was %s: %s less than a start at once", clockText(best.Start, w.now), percentText(best.Saving())))
	}
	return lines
}

// leastShown is the least saving, as a share, that does not print as 0.0 %.
const leastShown = 0.0005

// basesText says what the intensity of an interval rests on, and for how long of it if that differs.
func basesText(s *carbon.Series, from, to time.Time) string {
	var order []carbon.Basis
	shares := map[carbon.Basis]time.Duration{}
	for i := s.IndexAt(from); i < s.Len() && s.Sample(i).From.Before(to); i++ {
		x, basis := s.Sample(i), s.ProvenanceOf(i).Basis
		if shares[basis] == 0 {
			order = append(order, basis)
		}
		shares[basis] += minTime(x.To, to).Sub(maxTime(x.From, from))
	}
	var parts []string
	for _, basis := range order {
		if len(order) == 1 {
			parts = append(parts, string(basis))
		} else {
			parts = append(parts, fmt.Sprintf("%s for %s", basis, roughly(shares[basis])))
		}
	}
	if len(parts) == 0 {
		return "the intensity is that of the same hours on another day"
	}
	return "intensity by " + strings.Join(parts, ", ")
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// startStatus is the exit status for a command that could not be started, as shells have it.
func startStatus(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}
