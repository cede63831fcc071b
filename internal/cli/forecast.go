package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/zones"
)

type forecastOptions struct {
	zone, source, endpoint, credential, signal string
	user, query, location                      string
	at, cacheDir, output                       string
	horizon                                    time.Duration
	latitude, longitude                        float64
	constant                                   float64
}

func newForecastCommand() *cobra.Command {
	var o forecastOptions
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Show and judge forecasts of carbon intensity",
		Long: `Forecast prints the carbon intensity of a zone now and in the coming hours, with 10 % and
90 % quantiles. For each hour it uses the best basis: the forecast of the source, a
forecast that Lull makes from past values, climatology, or a declared constant. It uses the
same code as the controller.

Sources: ` + strings.Join(sourceNames(), ", ") + `,
or a CSV or JSON file. Credentials come from a file (--credential-file) or from the
environment ($LULL_CREDENTIAL), never from the command line.`,
		Example: `  lull forecast --zone GB --source ukCarbonIntensity
  lull forecast --zone aws/eu-central-1 --source electricityMaps --credential-file token --horizon 72h
  lull forecast --zone DE --source de-2023.csv --at 2023-05-10 -o html > de.html
  lull forecast --zone DE --source climatology
  lull forecast backtest 2022.csv 2023.csv --from 2023-01-01`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runForecast(cmd.Context(), o, time.Now(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.sourceFlags(f)
	f.StringVar(&o.at, "at", "", "time to forecast at, RFC 3339 or a day (default: now)")
	duration(f, &o.horizon, "horizon", 96*time.Hour, "how far ahead to forecast")
	tableFlag(f, &o.output, "csv", "html")
	cmd.AddCommand(newBacktestCommand(), newRegionsCommand())
	return cmd
}

// sourceFlags adds the flags that say which zone is meant and where its intensity comes from.
func (o *forecastOptions) sourceFlags(f *pflag.FlagSet) {
	f.StringVar(&o.zone, "zone", "", "grid zone, or a cloud region (aws/eu-central-1); for WattTime its region, for EIA the respondent, for ENTSO-E ZONE=EIC")
	f.StringVar(&o.source, "source", "climatology", "where the intensity comes from")
	f.StringVar(&o.endpoint, "endpoint", "", "address of the service (default: the public one)")
	f.StringVar(&o.credential, "credential-file", "", "file with the token, key or password (default $LULL_CREDENTIAL)")
	f.StringVar(&o.user, "user", "", "user name, for WattTime")
	f.StringVar(&o.query, "query", "", "query that returns one series, for Prometheus")
	f.StringVar(&o.location, "location", "", "name of the location in the Carbon Aware SDK")
	f.StringVar(&o.signal, "signal", "", "average or marginal, for sources that publish both (default average; marginal for WattTime)")
	f.StringVar(&o.cacheDir, "cache-dir", "", "folder that keeps answers of the source (default: none)")
	number(f, &o.latitude, "latitude", math.NaN(), between(-90, 90), "latitude of a place whose weather drives the intensity (with --longitude)")
	number(f, &o.longitude, "longitude", math.NaN(), between(-180, 180), "longitude of that place (with --latitude)")
	number(f, &o.constant, "fallback", math.NaN(), between(0, float64(units.MaxCarbonIntensity)), "intensity to assume if nothing is known, gCO2eq/kWh")
}

// regionRow is a region of a cloud.
type regionRow struct {
	Region string `json:"region"`
	Zone   string `json:"zone"`
	Place  string `json:"place"`
}

func newRegionsCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:     "regions",
		Short:   "List cloud regions and their grid zones",
		Example: "  lull forecast regions | grep aws",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var rows []regionRow
			for _, r := range zones.Regions() {
				rows = append(rows, regionRow{r.Cloud + "/" + r.Name, r.Zone, r.Place})
			}
			return writeRows(cmd.OutOrStdout(), format, []column[regionRow]{
				{head: "REGION", cell: func(r *regionRow) string { return r.Region }},
				{head: "ZONE", cell: func(r *regionRow) string { return r.Zone }},
				{head: "PLACE", cell: func(r *regionRow) string { return r.Place }},
			}, rows)
		},
	}
	tableFlag(cmd.Flags(), &format)
	return cmd
}

func sourceNames() []string {
	return []string{"climatology", "electricityMaps", "electricityMaps-v4", "wattTime", "ukCarbonIntensity", "entsoE", "eia", "carbonAwareSDK", "prometheus"}
}

func runForecast(ctx context.Context, o forecastOptions, now time.Time, stdout, stderr io.Writer) error {
	if o.horizon < time.Hour || o.horizon > 14*24*time.Hour {
		return fmt.Errorf("--horizon: %v; accepted: 1h to 336h", o.horizon)
	}
	if o.at != "" {
		at, err := parseDayOrTime(o.at)
		if err != nil {
			return fmt.Errorf("--at: %w", err)
		}
		now = at
	}
	zone, err := o.open()
	if err != nil {
		return err
	}
	out, err := zone.read(ctx, now)
	if ctx.Err() != nil {
		return fmt.Errorf("canceled: %w", context.Cause(ctx))
	}
	if errors.As(err, new(fileError)) {
		return err
	}
	if err != nil {
		fmt.Fprintln(stderr, "lull:", err)
	}
	warnOld(o, out, now, stderr)
	cfg := zone.cfg
	if out.Expected == nil {
		return fmt.Errorf("nothing is known of %s; --fallback declares an intensity", cfg.Zone)
	}
	return printOutlook(o, cfg, out, now, stdout)
}

// fileError is an error about a file of intensities.
type fileError struct{ error }

func (e fileError) Unwrap() error { return e.error }

// zoneFeed is what is known of the zone of a command.
type zoneFeed struct {
	options forecastOptions
	cfg     source.Config
	feed    *source.Feed
}

// open checks the flags and prepares to read. It asks nobody yet.
func (o forecastOptions) open() (*zoneFeed, error) {
	cfg, err := o.config()
	if err != nil {
		return nil, err
	}
	feeds := &source.Feeds{Get: &fetch.Client{Cache: fetch.NewCache(o.cacheDir), Quote: true}, Dir: o.cacheDir}
	feed, err := feeds.Feed("cli", cfg)
	if err != nil {
		return nil, err
	}
	return &zoneFeed{options: o, cfg: cfg, feed: feed}, nil
}

// read asks the provider, or reads the file, and returns what is known at now. With an error this is what was known before.
// An error about a file is a fileError.
func (z *zoneFeed) read(ctx context.Context, now time.Time) (source.Outlook, error) {
	err := z.refresh(ctx, now)
	return z.feed.Outlook(now, z.cfg), err
}

func (z *zoneFeed) refresh(ctx context.Context, now time.Time) error {
	if z.cfg.Provider != nil {
		err := z.feed.Refresh(ctx, now)
		if secret, _ := z.options.secret(); secret == "" && errors.Is(err, fetch.ErrRefused) {
			return fmt.Errorf("%w; no credential is stated; accepted: --credential-file FILE, or LULL_CREDENTIAL in the environment", err)
		}
		return err
	}
	if !z.options.isFile() {
		return nil
	}
	series, err := z.options.file(z.cfg.Zone, now)
	if err != nil {
		return fileError{err}
	}
	z.feed.SetSeries(series, nil)
	return nil
}

// checkEndpoint checks the address of the service, which a provider would otherwise try each time.
func (o forecastOptions) checkEndpoint() error {
	if o.endpoint == "" {
		return nil
	}
	if u, err := url.Parse(o.endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--endpoint: %q; accepted: an http or https URL with a host, e.g. http://127.0.0.1:8080", o.endpoint)
	}
	return nil
}

// sourceHint names the source that is meant by one in other letters, "" for none.
func sourceHint(name string) string {
	for _, known := range sourceNames() {
		if strings.EqualFold(name, known) {
			return "; did you mean " + known + "?"
		}
	}
	return ""
}

// notAFile says why there is no file to read by a name, "" if there is one.
func notAFile(name string) string {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "no such file"
	case err != nil:
		return errors.Unwrap(err).Error()
	case info.IsDir():
		return "a folder"
	}
	return ""
}

func acceptedSources() string {
	return strings.Join(sourceNames(), ", ") + ", or a file that ends in .csv or .json"
}

// warnOld says that a file ended longer ago than a source may be behind.
func warnOld(o forecastOptions, out source.Outlook, now time.Time, stderr io.Writer) {
	if !o.isFile() || !out.Stale || out.Newest.IsZero() {
		return
	}
	ago := now.Sub(out.Newest)
	age := roughly(ago)
	if days := ago.Hours() / 24; days >= 2 {
		age = fmt.Sprintf("%.0f days", math.Floor(days))
	}
	fmt.Fprintf(stderr, "lull: warning: %s ends at %s, %s ago: it does not say how clean power is now. The hours to come rest on %s\n",
		o.source, out.Newest.UTC().Format(time.RFC3339), age, cmp.Or(string(out.Basis), "nothing"))
}

// isFile reports whether the source is a file.
func (o forecastOptions) isFile() bool {
	return strings.HasSuffix(o.source, ".csv") || strings.HasSuffix(o.source, ".json")
}

// file reads a recorded series up to the time of the forecast: what comes after
// is what is to be forecast.
func (o forecastOptions) file(zone string, now time.Time) (*carbon.Series, error) {
	s, err := source.ReadFiles(o.source)
	if err != nil {
		return nil, err
	}
	var known []carbon.Sample
	for i := range s.Len() {
		if x := s.Sample(i); o.at == "" || !x.To.After(now) {
			known = append(known, x)
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("--at: %s has nothing before %s", o.source, now.UTC().Format(time.RFC3339))
	}
	return carbon.NewSeries(carbon.Provenance{Zone: zone, Source: o.source}, known)
}

func (o forecastOptions) address(standard string) string {
	if o.endpoint != "" {
		return strings.TrimSuffix(o.endpoint, "/")
	}
	return standard
}

func (o forecastOptions) secret() (string, error) {
	if o.credential == "" {
		return os.Getenv("LULL_CREDENTIAL"), nil
	}
	text, err := os.ReadFile(o.credential)
	if err != nil {
		return "", fmt.Errorf("--credential-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// forecastHour is a line of the output.
type forecastHour struct {
	Time   time.Time `json:"time"`
	Low    float64   `json:"low"`
	Value  float64   `json:"value"`
	High   float64   `json:"high"`
	Basis  string    `json:"basis"`
	Source string    `json:"source"`
}

func printOutlook(o forecastOptions, cfg source.Config, out source.Outlook, now time.Time, w io.Writer) error {
	var list []forecastHour
	for at := now.UTC().Truncate(time.Hour); at.Before(now.Add(o.horizon)); at = at.Add(time.Hour) {
		mean, covered := out.Expected.Mean(at, at.Add(time.Hour))
		if covered == 0 {
			continue
		}
		low, _ := out.Low.Mean(at, at.Add(time.Hour))
		high, _ := out.High.Mean(at, at.Add(time.Hour))
		h := forecastHour{Time: at, Low: tenth(float64(low)), Value: tenth(float64(mean)), High: tenth(float64(high))}
		for _, moment := range []time.Time{at, now} { // the first hour may begin before what is known
			if x, ok := out.Expected.At(moment); ok && x.Of != nil {
				h.Basis, h.Source = string(x.Of.Basis), x.Of.Source
				break
			}
		}
		list = append(list, h)
	}
	switch o.output {
	case formatJSON, formatYAML:
		return writeStructured(w, o.output, map[string]any{"zone": cfg.Zone, "signal": cfg.Signal, "factor": cfg.Factor, "basis": out.Basis, "stale": out.Stale, "degraded": out.Degraded, "unit": "gCO2eq/kWh", "hours": list})
	case "csv":
		fmt.Fprintln(w, "time,intensity_gco2eq_per_kwh,low_gco2eq_per_kwh,high_gco2eq_per_kwh,basis")
		for _, h := range list {
			fmt.Fprintf(w, "%s,%g,%g,%g,%s\n", h.Time.Format(time.RFC3339), h.Value, h.Low, h.High, h.Basis)
		}
		return nil
	case "html":
		page := report.Forecast{
			Title: "Carbon intensity of " + cfg.Zone,
			Intro: fmt.Sprintf("%s, %s emissions, gCO2eq/kWh, from %s for %.0f hours.", cfg.Signal, cfg.Factor, now.UTC().Format("2 January 2006 15:04 UTC"), o.horizon.Hours()),
		}
		for _, h := range list {
			page.Hours = append(page.Hours, report.ForecastHour{Time: h.Time, Low: h.Low, Value: h.Value, High: h.High, Basis: h.Basis, Source: h.Source})
		}
		return report.WriteForecast(w, page)
	}
	return printForecastTable(cfg, out, list, w)
}

func tenth(v float64) float64 { return math.Round(v*10) / 10 }

func printForecastTable(cfg source.Config, out source.Outlook, list []forecastHour, w io.Writer) error {
	fmt.Fprintf(w, "%s, %s, %s emissions, gCO2eq/kWh\n", cfg.Zone, cfg.Signal, cfg.Factor)
	state := ""
	if cfg.Provider != nil { // what was asked for, and how far it is from that
		state = " (current)"
		switch {
		case out.Degraded && out.Stale:
			state = " (stale, degraded: see above)"
		case out.Degraded:
			state = " (degraded: " + out.Why + ")"
		case out.Stale:
			state = " (stale)"
		}
	}
	fmt.Fprintf(w, "%s: %s%s\n", out.Basis, out.Source, state)
	if out.Scored > 0 {
		fmt.Fprintf(w, "recent forecasts up to a day ahead were %.1f %% off in the mean\n", 100*out.MAPE)
	}
	var values []float64
	for _, h := range list {
		values = append(values, h.Value)
	}
	fmt.Fprintln(w)
	for from := 0; from < len(list); from += 24 {
		to := min(from+24, len(list))
		low, high, clean := math.Inf(1), 0.0, from
		for i := from; i < to; i++ {
			if values[i] < low {
				low, clean = values[i], i
			}
			high = math.Max(high, values[i])
		}
		fmt.Fprintf(w, "%s  %s  %5.0f to %5.0f, cleanest %s\n", list[from].Time.Format("Mon 2006-01-02 15:04"), sparkline(values[from:to], values), low, high, list[clean].Time.Format("15:04"))
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "time (UTC)\t10 %%\texpected\t90 %%\t  basis\n")
	for _, h := range list {
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.0f\t  %s\n", h.Time.Format("Mon 2006-01-02 15:04"), h.Low, h.Value, h.High, h.Basis)
	}
	return tw.Flush()
}

// sparkline draws values as bars, on the scale of all.
func sparkline(values, all []float64) string {
	const bars = "▁▂▃▄▅▆▇█"
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range all {
		low, high = math.Min(low, v), math.Max(high, v)
	}
	var b strings.Builder
	for _, v := range values {
		step := 0
		if high > low {
			step = int((v - low) / (high - low) * 7.999)
		}
		b.WriteRune([]rune(bars)[step])
	}
	return b.String()
}
