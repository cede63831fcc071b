package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/carbon/fakegrid"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

type fakegridOptions struct {
	listen, start, epoch, tokenFile string
	traces                          map[string]string
	weather                         []string
	faults                          []string
	factor                          float64
	forecastError                   float64
	seed                            uint64
}

func newFakegridCommand() *cobra.Command {
	var o fakegridOptions
	cmd := &cobra.Command{
		Use:   "fakegrid",
		Short: "Stand in for the providers of carbon intensity",
		Long: `Fakegrid serves the wire formats of Electricity Maps (v3, v4), WattTime, the UK
Carbon Intensity API, ENTSO-E, EIA-930, the Carbon Aware SDK, Prometheus and
Open-Meteo from recorded series, as if they happened now, at any speed. Point the
endpoint of any client at it. It is for tests and demonstrations. Forecasts are the
recorded future with seeded errors. Generation by fuel is a mix of coal and wind that has
the recorded intensity. The weather is made up to fit.

You can inject faults at the start or at any time:
  curl -X PUT http://127.0.0.1:8089/-/faults -d '[{"kind":"500"}]'
Kinds: ` + strings.Join(fakegrid.Faults(), ", ") + `. A fault may name a
provider, a period (from, to) and how many answers it affects (times).
Providers: ` + strings.Join(fakegrid.Providers(), ", ") + `.`,
		Example: `  lull fakegrid
  lull fakegrid --trace DE=de-2023.csv --start 2023-05-10 --factor 900
  lull fakegrid --fault 429:electricityMaps --fault html:entsoE`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runFakegrid(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "bind-address", "127.0.0.1:8089", "address to listen on")
	f.StringToStringVar(&o.traces, "trace", nil, "ZONE=FILE, a CSV or JSON series; may be repeated (default: the climatology of every zone that has one)")
	f.StringVar(&o.start, "start", "", "time in the series at which the replay begins, RFC 3339 or a day (default: the real time)")
	f.StringVar(&o.epoch, "epoch", "", "wall time at which the replay begins, RFC 3339 (default: now)")
	number(f, &o.factor, "factor", 1, above0To(timegrid.MaxFactor), "how many seconds of the series pass in one second of wall time")
	number(f, &o.forecastError, "forecast-error", 0.1, between(0, 2), "relative error of forecasts a day ahead")
	number(f, &o.seed, "seed", 1, atLeast(0), "seed of the forecast errors")
	f.StringVar(&o.tokenFile, "token-file", "", "file with the credential that clients must present (default: any is accepted)")
	f.StringArrayVar(&o.weather, "weather", nil, "LATITUDE:LONGITUDE:FILE of recorded irradiance, CSV of time,irradiance_w_m2 by the hour; may be repeated (default: the sun of a clear sky)")
	f.StringArrayVar(&o.faults, "fault", nil, "KIND or KIND:PROVIDER to inject from the start; may be repeated")
	return cmd
}

func runFakegrid(ctx context.Context, o fakegridOptions, stdout io.Writer) error {
	server, err := newFakegrid(o, time.Now())
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("--bind-address: %w", err)
	}
	names := make([]string, 0, len(server.Zones))
	for name := range server.Zones {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(stdout, "fake grid on http://%s, zones %s\n", l.Addr(), strings.Join(names, ", "))
	s := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newFakegrid builds the server; now is the wall time.
func newFakegrid(o fakegridOptions, now time.Time) (*fakegrid.Server, error) {
	g := fakegrid.Options{Zones: map[string]*carbon.Series{}, ForecastError: o.forecastError, Seed: o.seed}
	if !(o.forecastError >= 0 && o.forecastError <= 2) {
		return nil, fmt.Errorf("--forecast-error: %v; accepted: 0 to 2", o.forecastError)
	}
	start, epoch := now, now
	var err error
	if o.start != "" {
		if start, err = parseDayOrTime(o.start); err != nil {
			return nil, fmt.Errorf("--start: %w", err)
		}
	}
	if o.epoch != "" {
		if epoch, err = parseDayOrTime(o.epoch); err != nil {
			return nil, fmt.Errorf("--epoch: %w", err)
		}
	}
	if o.start != "" || o.factor != 1 {
		if g.Timeline, err = timegrid.NewTimeline(epoch, start, o.factor); err != nil {
			return nil, fmt.Errorf("--factor: %w", err)
		}
	}
	for zone, file := range o.traces {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--trace: %w", err)
		}
		s, err := source.Read(f, file, carbon.Provenance{Zone: zone, Source: file})
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("--trace: %s: %w", file, err)
		}
		g.Zones[zone] = s
	}
	if len(o.traces) == 0 {
		for _, zone := range climatology.Zones() {
			if g.Zones[zone], err = climatology.Series(zone, start.AddDate(0, -4, 0), start.AddDate(1, 0, 0)); err != nil {
				return nil, err
			}
		}
	}
	for _, text := range o.weather {
		w, err := readWeather(text)
		if err != nil {
			return nil, fmt.Errorf("--weather: %w", err)
		}
		g.Weather = append(g.Weather, w)
	}
	if o.tokenFile != "" {
		text, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		g.Token = strings.TrimSpace(string(text))
	}
	server := fakegrid.New(g)
	var faults []fakegrid.Fault
	for _, text := range o.faults {
		kind, provider, _ := strings.Cut(text, ":")
		faults = append(faults, fakegrid.Fault{Kind: kind, Provider: provider})
	}
	if err := server.SetFaults(faults...); err != nil {
		return nil, fmt.Errorf("--fault: %w", err)
	}
	return server, nil
}

// parseDayOrTime reads "2023-05-10" or RFC 3339.
func parseDayOrTime(text string) (time.Time, error) {
	if at, err := time.Parse("2006-01-02", text); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q; accepted: a day (2023-05-10) or RFC 3339", text)
	}
	return at, nil
}

// readWeather reads recorded irradiance of a place.
func readWeather(text string) (fakegrid.Weather, error) {
	const accepted = "accepted: LATITUDE:LONGITUDE:FILE, e.g. 52.5:13.4:berlin.csv"
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return fakegrid.Weather{}, fmt.Errorf("%q; %s", text, accepted)
	}
	latitude, err1 := strconv.ParseFloat(parts[0], 64)
	longitude, err2 := strconv.ParseFloat(parts[1], 64)
	if err1 != nil || err2 != nil || !between(-90, 90).has(latitude) || !between(-180, 180).has(longitude) {
		return fakegrid.Weather{}, fmt.Errorf("%q; %s", text, accepted)
	}
	out := fakegrid.Weather{Latitude: latitude, Longitude: longitude}
	err := source.WithFile(parts[2], func(r io.Reader) error {
		text, err := units.PlainText(r)
		if err != nil {
			return err
		}
		rows, err := csv.NewReader(text).ReadAll()
		if err != nil {
			return err
		}
		for i, row := range rows {
			if i == 0 {
				continue // the names of the columns
			}
			at, err := time.Parse(time.RFC3339, row[0])
			if err != nil {
				return fmt.Errorf("row %d: time: %q; accepted: RFC 3339, e.g. 2023-05-10T00:00:00Z", i+1, row[0])
			}
			if i == 1 {
				out.Start = at
			}
			if want := out.Start.Add(time.Duration(i-1) * time.Hour); !at.Equal(want) {
				return fmt.Errorf("row %d: %s; accepted: %s, an hour after the one before", i+1, row[0], want.Format(time.RFC3339))
			}
			v, err := strconv.ParseFloat(row[len(row)-1], 64)
			if err != nil || !atLeast(0).has(v) {
				return fmt.Errorf("row %d: irradiance: %q; accepted: %s", i+1, row[len(row)-1], atLeast(0))
			}
			out.Irradiance = append(out.Irradiance, v)
		}
		return nil
	})
	return out, err // it names the file
}
