package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
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
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/units"
)

const (
	// maxWithin bounds --within: no forecast tells more.
	maxWithin = 14 * 24 * time.Hour
	// defaultMinSaving is the least saving, in percent, for which a run waits.
	defaultMinSaving = 5
	// readTimeout bounds reading a forecast. A command that may start at any moment does not wait for a provider.
	readTimeout = 30 * time.Second
	// zoneVariable names the zone where --zone is not given.
	zoneVariable = "LULL_ZONE"
)

// whenOptions say what is to run, where, and by when.
type whenOptions struct {
	forecastOptions
	within, length time.Duration
	minSaving      float64 // percent
}

func newWhenCommand() *cobra.Command {
	var o whenOptions
	cmd := &cobra.Command{
		Use:   "when --length DURATION",
		Short: "Print the best time to run something, on any machine",
		Long: `When prints the time at which a run of --length emits least, if it ends within
--within from now. It needs no cluster and no key: without --source it uses the
climatology of the zone, a mean day of each month. "lull run" waits for that time and
runs a command. If no carbon intensity is known, the best time is now, with a warning.

Output: text; json; yaml; ical, an event for a calendar; sbatch, as sbatch --begin takes it;
at, as at -t takes it. The last two are in the local time of this machine.

Sources: ` + strings.Join(sourceNames(), ", ") + `,
or a CSV or JSON file; see "lull forecast --help".`,
		Example: `  lull when --within 24h --length 3h --zone DE
  sbatch --begin="$(lull when --within 24h --length 3h --zone DE -o sbatch)" job.sh
  at -t "$(lull when --within 24h --length 3h --zone DE -o at)" -f job.sh
  lull when --within 2d --length 90m --zone GB --source ukCarbonIntensity -o ical > run.ics`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			zone, err := o.prepare(cmd.Flags())
			if err != nil {
				return err
			}
			now := time.Now().Round(0)
			if o.at != "" {
				if now, err = parseDayOrTime(o.at); err != nil {
					return fmt.Errorf("--at: %w", err)
				}
				now = now.Local()
			}
			// Besides the context, which does not say which signal ended it.
			r := &runner{stderr: cmd.ErrOrStderr(), signals: make(chan os.Signal, 2)}
			signal.Notify(r.signals, os.Interrupt, syscall.SIGTERM)
			defer r.close()
			w, err := o.find(cmd.Context(), zone, now, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if cmd.Context().Err() != nil {
				return r.canceled(r.pending(time.Second), "")
			}
			return w.write(cmd.OutOrStdout(), o.output)
		},
	}
	f := cmd.Flags()
	o.register(f)
	f.StringVar(&o.at, "at", "", "time to start from, RFC 3339 or a day (default: now)")
	textFlag(f, &o.output, "ical", "sbatch", "at")
	return cmd
}

// register adds the flags that "when" and "run" share.
func (o *whenOptions) register(f *pflag.FlagSet) {
	duration(f, &o.within, "within", 24*time.Hour, "time from now within which the run must end; up to 14d")
	duration(f, &o.length, "length", 0, "longest time that the run takes; required")
	number(f, &o.minSaving, "min-saving", defaultMinSaving, between(0, 100), "least saving in percent, against a start now, for which the run waits; with 0 it waits for any saving")
	o.sourceFlags(f)
	f.Lookup("zone").Usage += " (default $" + zoneVariable + ")"
	f.Lookup("length").DefValue = ""
}

// prepare checks the flags.
func (o *whenOptions) prepare(f *pflag.FlagSet) (*zoneFeed, error) {
	switch {
	case !f.Changed("length"):
		return nil, errors.New("--length: missing; accepted: how long the run takes at most, e.g. --length 3h")
	case o.length < time.Second:
		return nil, fmt.Errorf("--length: %v; accepted: at least 1s", o.length)
	case o.within < time.Second || o.within > maxWithin:
		return nil, fmt.Errorf("--within: %s; accepted: 1s to 14d", scenario.ShortDuration(o.within))
	case o.length > o.within:
		return nil, fmt.Errorf("--length: %s; accepted: at most --within, %s, because the run must end within it", scenario.ShortDuration(o.length), scenario.ShortDuration(o.within))
	}
	if o.zone = cmp.Or(o.zone, os.Getenv(zoneVariable)); o.zone == "" {
		return nil, fmt.Errorf("--zone: missing, and %s is not set; accepted: a grid zone, e.g. DE, or the region of a cloud, e.g. aws/eu-central-1. "+
			"Zones that need no provider: %s. lull forecast regions lists the regions of clouds", zoneVariable, strings.Join(climatology.Zones(), ", "))
	}
	o.horizon = o.within + time.Hour
	zone, err := o.open()
	if err != nil {
		return nil, err
	}
	if o.source == "climatology" && math.IsNaN(o.constant) && !slices.Contains(climatology.Zones(), zone.cfg.Zone) {
		return nil, fmt.Errorf("--zone: %q has no built-in intensities; accepted without --source: %s; other zones need --source or --fallback", zone.cfg.Zone, strings.Join(climatology.Zones(), ", "))
	}
	return zone, nil
}

// find reads what is known and chooses the window. Without data the window starts now: only flags are errors.
func (o *whenOptions) find(ctx context.Context, zone *zoneFeed, now time.Time, stderr io.Writer) (*bestTime, error) {
	w := &bestTime{now: now, length: o.length, within: o.within, minSaving: o.minSaving / 100, cfg: zone.cfg}
	if slack := o.within - o.length; slack > 0 || o.output != "" { // a run without slack does not wait for a provider
		limit := readTimeout
		if o.output == "" {
			limit = min(limit, slack)
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		var err error
		if w.outlook, err = zone.read(limited, now); err != nil && ctx.Err() == nil {
			fmt.Fprintf(stderr, "lull: warning: %s\n", oneLine(err))
		}
		warnOld(o.forecastOptions, w.outlook, now, stderr)
	}
	var err error
	w.Choice, err = bestwindow.Find(w.outlook.Expected, w.request())
	return w, err
}

// bestTime is a window, and what it rests on.
type bestTime struct {
	bestwindow.Choice
	now            time.Time // in the location in which times are printed
	length, within time.Duration
	minSaving      float64 // share
	cfg            source.Config
	outlook        source.Outlook
}

func (w *bestTime) request() bestwindow.Request {
	return bestwindow.Request{Now: w.now, EndBy: w.now.Add(w.within), Length: w.length, MinSaving: w.minSaving}
}

// message says when the run starts, and why.
func (w *bestTime) message() string {
	switch w.Reason {
	case bestwindow.CleanerLater:
		return fmt.Sprintf("start %s, in %s, to save %s: %s over the run instead of %s for a start now",
			clockText(w.Start, w.now), roughly(w.Start.Sub(w.now)), percentText(w.Saving()), intensityText(w.Mean), intensityText(w.MeanNow))
	case bestwindow.CleanNow:
		return fmt.Sprintf("start now: no start until %s emits less; %s over the run", clockText(w.LatestStart, w.now), intensityText(w.Mean))
	case bestwindow.SavingTooSmall:
		return fmt.Sprintf("start now: the best start, %s, saves %s, which is less than --min-saving %s; %s over the run",
			clockText(w.Best.From, w.now), percentText(w.BestSaving()), shown(100*w.minSaving), intensityText(w.Mean))
	case bestwindow.NoSlack:
		return "start now: --length takes all of --within"
	}
	return fmt.Sprintf("start now: the carbon intensity of %s is not known for the next %s", w.cfg.Zone, scenario.ShortDuration(w.length))
}

// basis says what the intensity of the window rests on, "" if none is known.
func (w *bestTime) basis() (carbon.Basis, string) {
	if w.outlook.Expected == nil {
		return "", ""
	}
	x, ok := w.outlook.Expected.At(w.Start)
	if !ok {
		return "", ""
	}
	if x.Of == nil {
		return w.outlook.Basis, w.outlook.Source
	}
	return x.Of.Basis, cmp.Or(x.Of.Source, w.outlook.Source)
}

// basisText is basis in words, "" if none is known.
func (w *bestTime) basisText() string {
	basis, from := w.basis()
	if from == "" {
		return string(basis)
	}
	return string(basis) + ": " + from
}

// quantiles are the 10 % and 90 % quantiles of the intensity over the window.
func (w *bestTime) quantiles() (low, high units.CarbonIntensity) {
	if w.outlook.Low == nil || w.outlook.High == nil {
		return w.Mean, w.Mean
	}
	low, _ = w.outlook.Low.Mean(w.Start, w.End)
	high, _ = w.outlook.High.Mean(w.Start, w.End)
	return low, high
}

// known reports whether the intensity over the window is known.
func (w *bestTime) known() bool {
	if w.outlook.Expected == nil {
		return false
	}
	_, covered := w.outlook.Expected.Mean(w.Start, w.End)
	return covered >= w.length
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// intensityText prints an intensity without digits that no forecast has.
func intensityText(ci units.CarbonIntensity) string {
	if ci < 100 {
		return units.Number("%.3g gCO2eq/kWh", float64(ci))
	}
	return units.Number("%.0f gCO2eq/kWh", float64(ci))
}

func percentText(share float64) string { return units.Number("%.1f", 100*share) + " %" }

// clockText prints a time as people read it, in the location of now.
func clockText(t, now time.Time) string {
	return t.In(now.Location()).Format("Mon 2006-01-02 15:04 MST")
}

// roughly prints a duration in minutes, or in seconds if it is short.
func roughly(d time.Duration) string {
	to := time.Minute
	if d < 10*time.Minute {
		to = time.Second
	}
	return scenario.ShortDuration(d.Round(to))
}
