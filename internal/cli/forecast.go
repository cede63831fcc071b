package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
)

func newForecastCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "forecast",
		Short:   "Judge forecasts of carbon intensity",
		Long:    "Forecast measures how good forecasts made from past intensities are for scheduling.",
		Example: "  lull forecast backtest 2022.csv 2023.csv --from 2023-01-01",
	}
	cmd.AddCommand(newBacktestCommand())
	return cmd
}

type backtestOptions struct {
	from                 string
	lead, stride, window time.Duration
}

func newBacktestCommand() *cobra.Command {
	var o backtestOptions
	cmd := &cobra.Command{
		Use:   "backtest TRACE...",
		Short: "Replay traces and score every forecaster",
		Long: `Backtest issues a forecast at regular times over recorded series (CSV or JSON,
consecutive files of one zone), each from what lies before alone, and compares it
with what came: error (MAPE, MAE, bias), rank correlation within the forecast, and
regret: how much more the window of least forecast intensity emits than the truly
best one. Where forecasts serve scheduling, regret is what matters.`,
		Example: `  lull forecast backtest 2022.csv 2023.csv --from 2023-01-01
  lull forecast backtest de.csv --lead 48h --window 3h --stride 1h`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBacktest(o, args, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "first day to issue forecasts on (default: 14 days after the first value)")
	f.DurationVar(&o.lead, "lead", 24*time.Hour, "how far each forecast reaches")
	f.DurationVar(&o.stride, "stride", time.Hour, "time between forecasts")
	f.DurationVar(&o.window, "window", 6*time.Hour, "length of the windows that regret compares")
	return cmd
}

// backtestStep is the resolution of a backtest.
const backtestStep = time.Hour

// leastPast is the past that is left to the models at the start, two weeks.
const leastPast = 14 * 24 * time.Hour

func runBacktest(o backtestOptions, files []string, stdout io.Writer) error {
	series, err := readTraces(files)
	if err != nil {
		return err
	}
	from := series.Start().UTC().Truncate(backtestStep)
	issue := from.Add(leastPast)
	if o.from != "" {
		if issue, err = time.Parse("2006-01-02", o.from); err != nil {
			return fmt.Errorf("--from: %q; accepted: a day, e.g. 2023-01-01", o.from)
		}
	}
	for flag, d := range map[string]time.Duration{"--lead": o.lead, "--stride": o.stride, "--window": o.window} {
		if d < backtestStep || d%backtestStep != 0 {
			return fmt.Errorf("%s: %v; accepted: whole hours, at least one", flag, d)
		}
	}
	h, err := forecast.FromSeries(series, series.End().UTC().Truncate(backtestStep), backtestStep, int(series.End().Sub(from)/backtestStep))
	if err != nil {
		return err
	}
	const perDay = int(24 * time.Hour / backtestStep)
	models := []struct {
		name  string
		model forecast.Model
	}{
		{"persistence", forecast.Persistence{}},
		{"same hour, day before", forecast.SeasonalNaive{Days: 1}},
		{"same hour, week before", forecast.SeasonalNaive{Days: 7}},
		{"moving average, 24 h (Piontek Eq. 8)", forecast.MovingAverage{N: perDay}},
		{"days 4:2:1 (Piontek, past only)", forecast.DayWeighted{}},
		{"days centred (Piontek; sees the future)", forecast.Hindsight{Values: forecast.Centred(h.Values, perDay)}},
		{"perfect foresight", forecast.Hindsight{Values: h.Values}},
	}
	tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "MAPE\tMAE g/kWh\tbias g/kWh\trank\tregret\tforecasts\tskipped\t  forecaster\n")
	for _, m := range models {
		s, err := forecast.Backtest(m.model, h, int(issue.Sub(from)/backtestStep), int(o.lead/backtestStep), int(o.stride/backtestStep), int(o.window/backtestStep))
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Fprintf(tw, "%.1f %%\t%.1f\t%+.1f\t%.2f\t%.2f %%\t%d\t%d\t  %s\n", 100*s.MAPE, s.MAE, s.Bias, s.Rank, 100*s.Regret, s.Forecasts, s.Skipped, m.name)
		if m.name == "perfect foresight" {
			fmt.Fprintf(tw, "\t\t\t\t%.2f %%\t\t\t  starting at once\n", 100*s.RegretAgnostic)
		}
	}
	return tw.Flush()
}

// readTraces reads consecutive files of one zone into one series.
func readTraces(files []string) (*carbon.Series, error) {
	var samples []carbon.Sample
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		s, err := source.Read(f, file, carbon.Provenance{Source: file})
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i := range s.Len() {
			samples = append(samples, s.Sample(i))
		}
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		return nil, fmt.Errorf("the files in this order: %w", err)
	}
	return series, nil
}
