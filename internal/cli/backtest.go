package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/zones"
)

type backtestOptions struct {
	from, zone, recorded, output  string
	weather, factor               string
	lead, stride, window, horizon time.Duration
}

func newBacktestCommand() *cobra.Command {
	var o backtestOptions
	cmd := &cobra.Command{
		Use:   "backtest TRACE...",
		Short: "Replay traces and score every forecaster",
		Long: `Backtest issues a forecast at regular times over recorded series (CSV or JSON,
files of one zone). Each forecast uses only the values before it. Backtest compares it
with the values that followed: error (MAPE, MAE, bias), rank correlation within the
forecast, and regret: how much more the window of least forecast intensity emits than the
best one. For scheduling, regret matters most. A second table shows errors by lead time.

With --recorded, forecasts that somebody published (CSV, also gzipped:
issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh) are scored beside the others.
Every forecaster then works on the recorded actual values and at the same times. Traces
are optional then.

With --weather, the blend and a ridge regression that know weather and generation are
scored beside the others, by default 96 hours ahead, once a day. FILE is CSV by the hour,
also gzipped: time, wind_speed_ms, temperature_c or _k, dewpoint_c or _k, irradiance_w_m2
or dswrf_wm2, and generation in MW (coal, nat_gas, wind and others, or names that end in
_mw). Rows and cells may be missing. Weather should be what was forecast at the time, not
what came; --weather-horizon says how far ahead those forecasts reached. If FILE has
intensities as well (names that end in _gco2eq_per_kwh), traces may be left out.`,
		Example: `  lull forecast backtest 2022.csv 2023.csv --from 2023-01-01 --zone DE
  lull forecast backtest de.csv --lead 48h --window 3h --stride 1h -o html > de.html
  lull forecast backtest --recorded DE-2023_96h.csv.gz --from 2023-03-01
  lull forecast backtest --weather DE.csv.gz --factor direct --from 2021-07-03`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.weather != "" {
				if !cmd.Flags().Changed("lead") {
					o.lead = 96 * time.Hour
				}
				if !cmd.Flags().Changed("stride") {
					o.stride = 24 * time.Hour
				}
			}
			return runBacktest(o, args, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "first day to issue forecasts on (default: 14 days after the first value, 270 with --weather)")
	f.StringVar(&o.zone, "zone", "", "grid zone, whose local time the daily and weekly patterns follow (default: UTC)")
	f.StringVar(&o.recorded, "recorded", "", "published forecasts to score beside the others")
	f.StringVar(&o.weather, "weather", "", "file of weather and generation for forecasts that use them")
	f.StringVar(&o.factor, "factor", "", "column of intensities of the file of weather: lifecycle or direct (default: its only one, or lifecycle)")
	duration(f, &o.horizon, "weather-horizon", 0, "how far ahead of its issue a forecast may use weather (default: no limit)")
	duration(f, &o.lead, "lead", 24*time.Hour, "how far each forecast reaches (with --weather 96h)")
	duration(f, &o.stride, "stride", time.Hour, "time between forecasts (with --weather 24h)")
	duration(f, &o.window, "window", 6*time.Hour, "length of the windows that regret compares")
	tableFlag(f, &o.output, "html")
	return cmd
}

// backtestStep is the resolution of a backtest.
const backtestStep = time.Hour

// leastPast is the past that is left to the models at the start, two weeks.
const leastPast = 14 * 24 * time.Hour

// weatherPast is the same for models that use weather, which have all features then.
const weatherPast = 270 * 24 * time.Hour

// backtestResult is a line of the table.
type backtestResult struct {
	Forecaster string `json:"forecaster"`
	// Live says that the forecaster sees nothing but the past.
	Live   bool            `json:"live"`
	Scores forecast.Scores `json:"scores"`
}

func (o backtestOptions) validate(files []string) error {
	for flag, d := range map[string]time.Duration{"--lead": o.lead, "--stride": o.stride, "--window": o.window} {
		if d < backtestStep || d%backtestStep != 0 {
			return fmt.Errorf("%s: %v; accepted: whole hours, at least one", flag, d)
		}
	}
	switch {
	case o.output != "table" && o.output != "json" && o.output != "html":
		return fmt.Errorf("--output: %q; accepted: table, json or html", o.output)
	case o.horizon < 0 || o.horizon%backtestStep != 0:
		return fmt.Errorf("--weather-horizon: %v; accepted: whole hours, or 0 for no limit", o.horizon)
	case o.weather == "" && (o.factor != "" || o.horizon != 0):
		return errors.New("--factor, --weather-horizon: they are about a file of weather; accepted: with --weather")
	case o.factor != "" && o.factor != string(carbon.Lifecycle) && o.factor != string(carbon.Direct):
		return fmt.Errorf("--factor: %q; accepted: %s or %s", o.factor, carbon.Lifecycle, carbon.Direct)
	case len(files) > 0 && o.factor != "":
		return errors.New("--factor: it picks the intensities of the file of weather; accepted: no traces with it")
	case o.recorded != "" && o.weather != "":
		return errors.New("--recorded: accepted: without --weather")
	case len(files) == 0 && o.recorded == "" && o.weather == "":
		return errors.New("nothing to replay; accepted: trace files, --recorded, or --weather with intensities")
	case len(files) > 0 && o.recorded != "":
		return errors.New("--recorded: its actual values are the trace; accepted: no other traces with it")
	}
	return nil
}

func runBacktest(o backtestOptions, files []string, stdout io.Writer) error {
	if err := o.validate(files); err != nil {
		return err
	}
	h, issued, err := o.history(files)
	if err != nil {
		return err
	}
	if o.zone != "" {
		clock, ok := zones.Clock(o.zone)
		if !ok {
			return fmt.Errorf("--zone: %q has no known local time; accepted: a zone of lull forecast regions, or none%s", o.zone, zones.Hint(o.zone))
		}
		h.Location = clock
	}
	from := h.Start.Add(leastPast)
	if o.weather != "" {
		from = h.Start.Add(weatherPast)
	}
	if o.from != "" {
		if from, err = time.Parse("2006-01-02", o.from); err != nil {
			return fmt.Errorf("--from: %q; accepted: a day, e.g. 2023-01-01", o.from)
		}
	}
	stride := o.stride
	if issued != nil { // the others forecast when the recorded ones did
		for len(issued) > 0 && issued[0].At.Before(from) {
			issued = issued[1:]
		}
		if len(issued) < 2 {
			return fmt.Errorf("--from: %s leaves fewer than two recorded forecasts", from.Format("2006-01-02"))
		}
		from, stride = issued[0].At, issued[1].At.Sub(issued[0].At)
	}
	results, err := o.score(h, issued, int(from.Sub(h.Start)/h.Step), int(stride/h.Step))
	if err != nil {
		return err
	}
	return o.print(results, stdout)
}

// history reads what is replayed, and the recorded forecasts if there are any.
func (o backtestOptions) history(files []string) (forecast.History, []forecast.Issued, error) {
	if o.recorded != "" {
		issued, err := source.ReadRecorded(o.recorded)
		if err != nil {
			return forecast.History{}, nil, err
		}
		h, err := forecast.Actuals(issued)
		if err == nil && h.Step != backtestStep {
			err = fmt.Errorf("--recorded: %s: a step of %v; accepted: hours", o.recorded, h.Step)
		}
		return h, issued, err
	}
	if o.weather != "" {
		h, err := o.withWeather(files)
		return h, nil, err
	}
	h, err := traces(files)
	return h, nil, err
}

// traces reads recorded series.
func traces(files []string) (forecast.History, error) {
	series, err := source.ReadFiles(files...)
	if err != nil {
		return forecast.History{}, err
	}
	from := series.Start().UTC().Truncate(backtestStep)
	return forecast.FromSeries(series, series.End().UTC().Truncate(backtestStep), backtestStep, int(series.End().Sub(from)/backtestStep))
}

// score runs every forecaster, as many at once as there are processors.
func (o backtestOptions) score(h forecast.History, issued []forecast.Issued, start, stride int) ([]backtestResult, error) {
	const perDay = int(24 * time.Hour / backtestStep)
	weather := h
	h.Weather = nil
	models := []struct {
		name    string
		live    bool
		model   forecast.Model
		history forecast.History
	}{
		{"persistence", true, forecast.Persistence{}, h},
		{"same hour, day before", true, forecast.SeasonalNaive{Days: 1}, h},
		{"same hour, week before", true, forecast.SeasonalNaive{Days: 7}, h},
		{"moving average, 24 h (Piontek Eq. 8)", true, forecast.MovingAverage{N: perDay}, h},
		{"days 4:2:1 (Piontek, past only)", true, forecast.DayWeighted{}, h},
		{"Holt-Winters, day and week", true, &forecast.HoltWinters{}, h},
		{"ridge regression", true, &forecast.Ridge{}, h},
		{"blend", true, forecast.NewBlend(), h},
		{"ridge regression with weather", true, &forecast.WeatherRidge{}, weather},
		{"blend with weather", true, forecast.NewBlend(), weather},
		{"days centred (Piontek; sees the future)", false, forecast.Hindsight{Values: forecast.Centred(h.Values, perDay)}, h},
		{"perfect foresight", false, forecast.Hindsight{Values: h.Values}, h},
	}
	if weather.Weather == nil {
		models = slices.Delete(models, 8, 10)
	}
	results := make([]backtestResult, len(models))
	errs := make([]error, len(models))
	var wg sync.WaitGroup
	lead, window := int(o.lead/backtestStep), int(o.window/backtestStep)
	for i, m := range models {
		wg.Go(func() {
			s, err := forecast.Backtest(m.model, m.history, start, lead, stride, window)
			switch {
			case errors.Is(err, forecast.ErrGaps):
				errs[i] = err
			case err != nil:
				errs[i] = fmt.Errorf("%s: %w", m.name, err)
			}
			results[i] = backtestResult{m.name, m.live, s}
		})
	}
	wg.Wait()
	if issued != nil {
		s, err := forecast.BacktestRecorded(issued, lead, window)
		if err != nil {
			errs = append(errs, fmt.Errorf("recorded: %w", err))
		}
		results = append([]backtestResult{{"recorded: " + o.recorded, true, s}}, results...)
	}
	for _, err := range errs {
		if errors.Is(err, forecast.ErrGaps) { // the values have them, whoever forecasts
			return nil, err
		}
	}
	return results, errors.Join(errs...)
}

func (o backtestOptions) print(results []backtestResult, stdout io.Writer) error {
	switch o.output {
	case formatJSON, formatYAML:
		for i := range results {
			if math.IsNaN(results[i].Scores.Coverage) {
				results[i].Scores.Coverage = 0 // JSON knows no NaN; a share of 0 is never a model's
			}
		}
		return writeStructured(stdout, o.output, results)
	case "html":
		return report.WriteBacktest(stdout, o.chart(results))
	}
	tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "MAPE\tMAE g/kWh\tbias g/kWh\trank\tregret\tin band\tforecasts\tskipped\t  forecaster\n")
	for _, r := range results {
		s := r.Scores
		fmt.Fprintf(tw, "%s\t%.1f\t%s\t%s\t%s\t%s\t%d\t%d\t  %s\n", percent(s.MAPE), s.MAE, units.Number("%+.1f", s.Bias), units.Number("%.2f", s.Rank), units.Number("%.2f %%", 100*s.Regret), percent(s.Coverage), s.Forecasts, s.Skipped, r.Forecaster)
	}
	fmt.Fprintf(tw, "\t\t\t\t%s\t\t\t\t  starting at once\n", units.Number("%.2f %%", 100*results[len(results)-1].Scores.RegretAgnostic))
	if err := tw.Flush(); err != nil {
		return err
	}
	leads := o.leads()
	fmt.Fprintf(stdout, "\nBy lead time: MAPE, bias in g/kWh, rank correlation\n")
	tw = tabwriter.NewWriter(stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	for _, k := range leads {
		fmt.Fprintf(tw, "%d h\t\t\t", k)
	}
	fmt.Fprintf(tw, "  forecaster\n")
	for _, r := range results {
		for _, k := range leads {
			l := r.Scores.Leads[k-1]
			fmt.Fprintf(tw, "%s\t%s\t%s\t", percent(l.MAPE), units.Number("%+.1f", l.Bias), units.Number("%.2f", l.Rank))
		}
		fmt.Fprintf(tw, "  %s\n", r.Forecaster)
	}
	if err := tw.Flush(); err != nil || o.lead < 48*time.Hour {
		return err
	}
	return o.printDays(results, stdout)
}

// printDays prints errors by day ahead, and the regret of windows within a day and within
// all of a forecast.
func (o backtestOptions) printDays(results []backtestResult, stdout io.Writer) error {
	days := int(o.lead / (24 * time.Hour))
	fmt.Fprintf(stdout, "\nBy day ahead: MAPE; regret of windows within 24 h and %.0f h\n", o.lead.Hours())
	tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', tabwriter.AlignRight)
	for d := range days {
		fmt.Fprintf(tw, "day %d\t", d+1)
	}
	fmt.Fprintf(tw, "24 h\t%.0f h\t  forecaster\n", o.lead.Hours())
	for _, r := range results {
		for d := range days {
			mape := 0.0
			for _, l := range r.Scores.Leads[24*d : 24*(d+1)] {
				mape += l.MAPE / 24
			}
			fmt.Fprintf(tw, "%s\t", percent(mape))
		}
		within := "-"
		if o.window <= 24*time.Hour {
			within = units.Number("%.2f %%", 100*r.Scores.RegretDay)
		}
		fmt.Fprintf(tw, "%s\t%s\t  %s\n", within, units.Number("%.2f %%", 100*r.Scores.Regret), r.Forecaster)
	}
	return tw.Flush()
}

// percent prints a share, or a dash where there is none.
func percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// leads are the lead times of the second table, in hours.
func (o backtestOptions) leads() []int {
	var out []int
	for _, k := range []int{1, 6, 12, 24, 48, 72, 96} {
		if time.Duration(k)*time.Hour <= o.lead {
			out = append(out, k)
		}
	}
	return out
}

func (o backtestOptions) chart(results []backtestResult) report.Backtest {
	page := report.Backtest{Title: "Forecast backtest", Intro: fmt.Sprintf("Forecasts of %.0f hours, windows of %.0f hours.", o.lead.Hours(), o.window.Hours())}
	if o.zone != "" {
		page.Title += ": " + o.zone
	}
	for _, r := range results {
		row := report.BacktestRow{Name: r.Forecaster, MAPE: 100 * r.Scores.MAPE, MAE: r.Scores.MAE, Bias: r.Scores.Bias, Rank: r.Scores.Rank, Regret: 100 * r.Scores.Regret, Live: r.Live}
		for _, l := range r.Scores.Leads {
			row.Leads = append(row.Leads, 100*l.MAPE)
		}
		page.Rows = append(page.Rows, row)
	}
	page.Agnostic = 100 * results[len(results)-1].Scores.RegretAgnostic
	return page
}
