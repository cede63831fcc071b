package provider_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fakegrid"
	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

const token = "s3cret-token"

// now is the time at which the fake grid stands, ten minutes past the hour.
var now = time.Date(2023, 5, 10, 12, 10, 0, 0, time.UTC)

// truth is an hourly series that is not symmetric in anything.
func truth(zone string) *carbon.Series {
	var samples []carbon.Sample
	for i := range 24 * 60 {
		from := now.Truncate(time.Hour).Add(time.Duration(i-24*50) * time.Hour)
		v := 300 + 150*math.Sin(float64(i)/24*2*math.Pi) + float64(i%7)
		samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(math.Round(v))})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: zone}, samples)
	if err != nil {
		panic(err)
	}
	return s
}

// bench is a fake grid with a client whose clock can be moved.
type bench struct {
	grid   *fakegrid.Server
	url    string
	client *fetch.Client
	clock  *atomic.Int64 // seconds past now
}

func (b bench) pass(d time.Duration) { b.clock.Add(int64(d / time.Second)) }
func (b bench) now() time.Time       { return now.Add(time.Duration(b.clock.Load()) * time.Second) }

// limit is how long a request may take on a busy machine.
const limit = 5 * time.Minute

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{clock: &atomic.Int64{}}
	zones := map[string]*carbon.Series{}
	for _, zone := range []string{"DE", "GB", "US-CAL-CISO"} {
		zones[zone] = truth(zone)
	}
	b.grid = fakegrid.New(fakegrid.Options{Zones: zones, Now: b.now, Token: token, ForecastError: 0.1})
	server := httptest.NewServer(b.grid)
	t.Cleanup(server.Close)
	b.url = server.URL
	b.client = &fetch.Client{
		HTTP: &http.Client{Timeout: limit}, Cache: fetch.NewCache(t.TempDir()), Now: b.now,
		Sleep: func(context.Context, time.Duration) error { return nil },
	}
	return b
}

// kinds are all providers of intensity, configured for the fake grid.
var kinds = []struct {
	name      string
	make      func(url string) provider.Provider
	zone      string
	tolerance float64 // of the wire format, g/kWh
}{
	{"electricityMaps", func(u string) provider.Provider {
		return provider.ElectricityMaps{Endpoint: u, Version: "v3", Zone: "DE", Factor: carbon.Lifecycle, Token: token}
	}, "DE", 0.01},
	{"electricityMaps", func(u string) provider.Provider {
		return provider.ElectricityMaps{Endpoint: u, Version: "v4", Zone: "DE", Factor: carbon.Lifecycle, Token: token}
	}, "DE", 0.01},
	{"wattTime", func(u string) provider.Provider {
		return &provider.WattTime{Endpoint: u, Region: "CAISO_NORTH", SignalType: "co2_moer", Username: "me", Password: token}
	}, "US-CAL-CISO", 0.01},
	{"ukCarbonIntensity", func(u string) provider.Provider { return provider.UKCarbonIntensity{Endpoint: u} }, "GB", 0.51},
	{"ukCarbonIntensity", func(u string) provider.Provider { return provider.UKCarbonIntensity{Endpoint: u, Region: 3} }, "GB", 0.51},
	{"entsoE", func(u string) provider.Provider {
		return provider.EntsoE{Endpoint: u, Domain: "10Y1001A1001A82H", Zone: "DE", Token: token}
	}, "DE", 0.01},
	{"eia", func(u string) provider.Provider {
		return provider.EIA{Endpoint: u, Respondent: "CISO", Key: token}
	}, "US-CAL-CISO", 0.01},
	{"carbonAwareSDK", func(u string) provider.Provider {
		return provider.CarbonAwareSDK{Endpoint: u, Location: "germanywestcentral", Signal: carbon.Average, Factor: carbon.Lifecycle}
	}, "DE", 0.01},
	{"prometheus", func(u string) provider.Provider {
		return provider.Prometheus{Endpoint: u, Query: `ci{zone="DE"}`, ForecastQuery: `forecast{zone="DE"}`, Zone: "DE", Signal: carbon.Average, Token: token}
	}, "DE", 0.01},
}

func each(t *testing.T, run func(t *testing.T, b bench, p provider.Provider, zone string, tolerance float64)) {
	for i, k := range kinds {
		t.Run(fmt.Sprintf("%d-%s", i, k.name), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			run(t, b, k.make(b.url), k.zone, k.tolerance)
		})
	}
}

// days40 asks for more history than any provider gives at once.
func days40(b bench) provider.Query {
	return provider.Query{Now: b.now(), Since: b.now().Add(-40 * 24 * time.Hour).Truncate(time.Hour), Horizon: 72 * time.Hour}
}

// check compares samples with the truth and returns how many hours they cover.
func check(t *testing.T, samples []carbon.Sample, zone string, tolerance, share float64) float64 {
	t.Helper()
	hours, series := 0.0, truth(zone)
	for i, x := range samples {
		want, ok := series.At(x.From)
		if !ok || math.Abs(float64(x.Value-want.Value)) > tolerance+share*float64(want.Value) {
			t.Errorf("%s: %.2f, want %.2f", x.From.Format(time.RFC3339), float64(x.Value), float64(want.Value))
			return 0
		}
		if i > 0 && x.From.Before(samples[i-1].To) {
			t.Errorf("sample %d overlaps", i)
		}
		if x.Of == nil || x.Of.Source == "" || x.Of.Signal == "" {
			t.Errorf("sample %d has no provenance: %+v", i, x.Of)
			return 0
		}
		hours += x.To.Sub(x.From).Hours()
	}
	return hours
}

// TestEverySourceGivesFortyDays: forty days of history over as many requests or pages as it
// takes, and a forecast, are what the recorded series says.
func TestEverySourceGivesFortyDays(t *testing.T) {
	each(t, func(t *testing.T, b bench, p provider.Provider, zone string, tolerance float64) {
		a, err := p.Fetch(context.Background(), b.client, days40(b))
		if err != nil {
			t.Fatal(err)
		}
		if hours := check(t, a.Past, zone, tolerance, 0); hours < 40*24-2 || hours > 40*24+1 {
			t.Errorf("%.1f hours of history, want 960", hours)
		}
		if end := a.Past[len(a.Past)-1].To; end.Before(now.Add(-90*time.Minute)) || end.After(now.Add(50*time.Minute)) {
			t.Errorf("the history ends at %s", end)
		}
		if !p.Forecasts() {
			if len(a.Forecast) != 0 {
				t.Error("a forecast from a source that has none")
			}
			return
		}
		if hours := check(t, a.Forecast, zone, tolerance, 0.7); hours < 23 {
			t.Errorf("%.1f hours of forecast", hours)
		}
		if p.Provenance().Signal != a.Forecast[0].Of.Signal {
			t.Errorf("signal %q of %q", a.Forecast[0].Of.Signal, p.Provenance().Signal)
		}
	})
}

// TestSpoiltValuesCostOnlyThemselves: faults in the values cost these values and no others.
func TestSpoiltValuesCostOnlyThemselves(t *testing.T) {
	each(t, func(t *testing.T, b bench, p provider.Provider, zone string, tolerance float64) {
		for kind, least := range map[string]float64{fakegrid.FaultNulls: 0.74, fakegrid.FaultGaps: 0.79} {
			if err := b.grid.SetFaults(fakegrid.Fault{Kind: kind}); err != nil {
				t.Fatal(err)
			}
			a, err := p.Fetch(context.Background(), b.client, days40(b))
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			if hours := check(t, a.Past, zone, tolerance, 0); hours < least*960-3 || hours > (least+0.02)*960+3 {
				t.Errorf("%s: %.0f hours of history, want %.0f", kind, hours, (least+0.01)*960)
			}
		}
		must(t, b.grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultLate}))
		a, err := p.Fetch(context.Background(), b.client, days40(b))
		if err != nil {
			t.Errorf("late: %v", err)
		}
		if hours := check(t, a.Past, zone, tolerance, 0); hours < 40*24-8 || a.Past[len(a.Past)-1].To.After(now.Add(-5*time.Hour)) {
			t.Errorf("late: %.0f hours, the last until %s", hours, a.Past[len(a.Past)-1].To)
		}
		// Preliminary values are replaced by the final ones.
		must(t, b.grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultRevised}))
		preliminary, err := p.Fetch(context.Background(), b.client, days40(b))
		must(t, err)
		last := preliminary.Past[len(preliminary.Past)-1]
		if want, _ := truth(zone).At(last.From); float64(last.Value) < 1.1*float64(want.Value) {
			t.Errorf("revised: %v is not preliminary", last)
		}
		must(t, b.grid.SetFaults())
		final, err := p.Fetch(context.Background(), b.client, days40(b))
		must(t, err)
		if hours := check(t, provider.Merge(preliminary.Past, final.Past), zone, tolerance, 0); hours < 40*24-2 {
			t.Errorf("revised: %.0f hours after the revision", hours)
		}
	})
}

// TestBrokenAnswerIsAnErrorOfItsKind: faults of the answer as a whole are errors of the stated
// kind; nothing false is returned; the next answer is good again.
func TestBrokenAnswerIsAnErrorOfItsKind(t *testing.T) {
	each(t, func(t *testing.T, b bench, p provider.Provider, zone string, tolerance float64) {
		for _, tc := range []struct {
			kind string
			want error
		}{
			{fakegrid.FaultHTML, provider.ErrWire}, {fakegrid.FaultTruncated, provider.ErrWire}, {fakegrid.FaultUnits, provider.ErrWire},
			{fakegrid.FaultError, nil}, {fakegrid.FaultTimeout, nil}, {fakegrid.FaultRefused, fetch.ErrRefused}, {fakegrid.FaultTooMany, fetch.ErrQuota},
		} {
			must(t, b.grid.SetFaults(fakegrid.Fault{Kind: tc.kind, RetryAfter: 30}))
			if tc.kind == fakegrid.FaultTimeout { // no request is answered: no machine is too slow for that
				b.client.HTTP.Timeout = 20 * time.Millisecond
			}
			a, err := p.Fetch(context.Background(), b.client, days40(b))
			b.client.HTTP.Timeout = limit
			if err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("%s: error %v, want %v", tc.kind, err, tc.want)
			}
			if len(a.Past)+len(a.Forecast) > 0 {
				t.Errorf("%s: %d and %d samples", tc.kind, len(a.Past), len(a.Forecast))
			}
			must(t, b.grid.SetFaults())
			if tc.kind == fakegrid.FaultTooMany {
				if _, err := p.Fetch(context.Background(), b.client, days40(b)); !errors.Is(err, fetch.ErrQuota) {
					t.Errorf("asked again before Retry-After was over: %v", err)
				}
				b.pass(31 * time.Second)
			}
			if a, err = p.Fetch(context.Background(), b.client, days40(b)); err != nil {
				t.Errorf("after %s: %v", tc.kind, err)
			}
			if hours := check(t, a.Past, zone, tolerance, 0); hours < 40*24-3 {
				t.Errorf("after %s: %.0f hours of history", tc.kind, hours)
			}
		}
		// One failure among answers is tried again and not noticed.
		must(t, b.grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultError, Times: 1}))
		if _, err := p.Fetch(context.Background(), b.client, days40(b)); err != nil {
			t.Errorf("a single 500: %v", err)
		}
		// No data at all is no data, said or not.
		must(t, b.grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultEmpty}))
		if a, _ := p.Fetch(context.Background(), b.client, days40(b)); len(a.Past)+len(a.Forecast) > 0 {
			t.Errorf("empty: %d samples", len(a.Past)+len(a.Forecast))
		}
		// A clock that runs ahead shifts what it says; the feed notices.
		must(t, b.grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultSkew}))
		a, err := p.Fetch(context.Background(), b.client, days40(b))
		must(t, err)
		if n := len(a.Past); n == 0 || !a.Past[n-1].To.After(b.now().Add(90*time.Minute)) {
			t.Errorf("skew: the provider hides that its clock runs ahead (%d values)", n)
		}
	})
}

// TestWrongCredentialsAreRefusedAndNotShown: what has a credential is refused without it, and no
// error shows one.
func TestWrongCredentialsAreRefusedAndNotShown(t *testing.T) {
	b := newBench(t)
	for name, p := range map[string]provider.Provider{
		"electricityMaps": provider.ElectricityMaps{Endpoint: b.url, Version: "v3", Zone: "DE", Factor: carbon.Lifecycle, Token: "wr0ng"},
		"wattTime":        &provider.WattTime{Endpoint: b.url, Region: "CAISO_NORTH", SignalType: "co2_moer", Username: "me", Password: "wr0ng"},
		"entsoE":          provider.EntsoE{Endpoint: b.url, Domain: "10Y1001A1001A82H", Token: "wr0ng"},
		"eia":             provider.EIA{Endpoint: b.url, Respondent: "CISO", Key: "wr0ng"},
		"prometheus":      provider.Prometheus{Endpoint: b.url, Query: `x{zone="DE"}`, Token: "wr0ng"},
	} {
		_, err := p.Fetch(context.Background(), b.client, days40(b))
		if !errors.Is(err, fetch.ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "wr0ng") {
			t.Errorf("%s: the error shows the credential: %s", name, text)
		}
	}
}

// TestWattTimeRenewsItsToken: after half an hour the old one is refused.
func TestWattTimeRenewsItsToken(t *testing.T) {
	b := newBench(t)
	p := &provider.WattTime{Endpoint: b.url, Region: "CAISO_NORTH", SignalType: "co2_moer", Username: "me", Password: token}
	for range 3 {
		if _, err := p.Fetch(context.Background(), b.client, days40(b)); err != nil {
			t.Fatal(err)
		}
		b.pass(31 * time.Minute)
	}
	if n := b.grid.Requests("wattTime", "login"); n != 3 {
		t.Errorf("%d logins, want one for each half hour", n)
	}
}

// TestLatestValueIsAskedForAlone: where no history is missing, the latest value is asked for.
func TestLatestValueIsAskedForAlone(t *testing.T) {
	b := newBench(t)
	p := provider.ElectricityMaps{Endpoint: b.url, Version: "v3", Zone: "DE", Factor: carbon.Lifecycle, Token: token}
	a, err := p.Fetch(context.Background(), b.client, provider.Query{Now: b.now(), Since: b.now().Add(-time.Hour), Horizon: 24 * time.Hour})
	if err != nil || len(a.Past) != 1 {
		t.Errorf("%d samples, %v; want the latest", len(a.Past), err)
	}
	if n := b.grid.Requests("electricityMaps", "history") + b.grid.Requests("electricityMaps", "past-range"); n != 0 {
		t.Errorf("%d requests for history that is not missing", n)
	}
}

func TestWeather(t *testing.T) {
	b := newBench(t)
	p := provider.OpenMeteo{Endpoint: b.url, Places: []provider.Place{{Latitude: 50.1, Longitude: 8.7}}}
	get := func() (provider.Weather, error) { return p.Fetch(context.Background(), b.client, 30, 5, 0) }
	w, err := get()
	if err != nil || len(w.Wind) != 35*24 {
		t.Fatalf("%d hours, %v; want 840", len(w.Wind), err)
	}
	for _, kind := range []string{fakegrid.FaultHTML, fakegrid.FaultTruncated, fakegrid.FaultUnits, fakegrid.FaultGaps, fakegrid.FaultEmpty} {
		must(t, b.grid.SetFaults(fakegrid.Fault{Kind: kind}))
		if _, err := get(); !errors.Is(err, provider.ErrWire) {
			t.Errorf("%s: %v, want ErrWire", kind, err)
		}
	}
	must(t, b.grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultNulls}))
	if w, err = get(); err != nil || !math.IsNaN(w.Wind[0]) || math.IsNaN(w.Wind[1]) {
		t.Errorf("nulls: %v, %v", w.Wind[:2], err)
	}
	must(t, b.grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultError}))
	if _, err = get(); err == nil {
		t.Error("500: no error")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
