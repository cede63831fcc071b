package source

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fakegrid"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/test/size"
)

// sources are all providers of intensity as feeds of the fake grid. What a fault
// means to one may differ: a provider without nulls leaves values out.
func sources(url string) map[string]func(*Config) {
	return map[string]func(*Config){
		"electricityMaps v3": func(*Config) {},
		"electricityMaps v4": func(c *Config) {
			c.Provider = provider.ElectricityMaps{Endpoint: url, Version: "v4", Zone: "DE", Factor: carbon.Lifecycle}
		},
		"wattTime": func(c *Config) {
			c.Provider, c.Signal, c.Factor = &provider.WattTime{Endpoint: url, Region: "DE", SignalType: "co2_moer", Username: "x", Password: "x"}, carbon.Marginal, carbon.Direct
		},
		"ukCarbonIntensity": func(c *Config) { c.Provider, c.Factor = provider.UKCarbonIntensity{Endpoint: url}, carbon.Direct },
		"entsoE": func(c *Config) {
			c.Provider = provider.EntsoE{Endpoint: url, Domain: "10Y1001A1001A82H", Zone: "DE"}
		},
		"eia": func(c *Config) { c.Provider = provider.EIA{Endpoint: url, Respondent: "DE"} },
		"carbonAwareSDK": func(c *Config) {
			c.Provider = provider.CarbonAwareSDK{Endpoint: url, Location: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle}
		},
		"prometheus": func(c *Config) {
			c.Provider = provider.Prometheus{Endpoint: url, Query: `x{zone="DE"}`, ForecastQuery: `y{zone="DE"}`, Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle}
		},
	}
}

// TestEveryFaultHasItsStatus: of each source, the status that results from each fault,
// nothing false taken in, nothing lost, and the recovery.
func TestEveryFaultHasItsStatus(t *testing.T) {
	// Faults of the whole answer: the feed goes on with what it has and says why.
	broken := map[string]string{
		fakegrid.FaultTooMany: "quota", fakegrid.FaultError: "500", fakegrid.FaultRefused: "refused", fakegrid.FaultTimeout: "Timeout",
		fakegrid.FaultHTML: "accepted", fakegrid.FaultTruncated: "unexpected", fakegrid.FaultUnits: "accepted", fakegrid.FaultSkew: "clock is wrong",
		fakegrid.FaultEmpty: "",
	}
	for name := range sources("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range fakegrid.Faults() {
				t.Run(kind, func(t *testing.T) { tryFault(t, name, kind, broken) })
			}
		})
	}
}

func tryFault(t *testing.T, name, kind string, broken map[string]string) {
	days := size.Of(40, 80) // Lull's own forecast learns from all of them, in each outlook
	if name == "entsoE" {
		days = 80 // it answers with an error where a period has no data
	}
	w := newWorldOf(t, days)
	w.grid.Zones["GB"] = w.grid.Zones["DE"]
	w.cfg.Horizon, w.cfg.Key = 12*time.Hour, name
	sources(w.url)[name](&w.cfg)
	best, tolerance := carbon.LiveForecast, 0.02
	if !w.cfg.Provider.Forecasts() {
		best = carbon.OwnForecast
	}
	if name == "ukCarbonIntensity" {
		tolerance = 0.51 // whole grams
	}
	w.pass(size.Of(8, 30))
	before := append([]carbon.Sample(nil), w.feed().history...)
	w.fault(fakegrid.Fault{Kind: kind, RetryAfter: 60})
	o := w.hours(4)
	w.whole(o)
	why, isBroken := broken[kind]
	switch {
	case isBroken && best == carbon.OwnForecast:
		if kind != fakegrid.FaultEmpty && (!o.Degraded || !strings.Contains(o.Why, why) || o.Basis != carbon.OwnForecast) {
			t.Errorf("%s degraded=%v (%s)", o.Basis, o.Degraded, o.Why)
		}
	case isBroken:
		if !o.Degraded || !strings.Contains(o.Why, why) || o.Basis != carbon.CachedForecast {
			t.Errorf("%s degraded=%v (%s); want the last forecast, and %q", o.Basis, o.Degraded, o.Why, why)
		}
	case o.Err != nil && kind != fakegrid.FaultLate: // no data of late is an error to some
		t.Errorf("%s degraded=%v (%s) %v", o.Basis, o.Degraded, o.Why, o.Err)
	}
	after := w.feed().history
	for i, x := range before[:len(before)-32] { // what is recent may be revised
		if !after[i].From.Equal(x.From) || after[i].Value != x.Value {
			t.Fatalf("history at %s was %v and is %v", x.From, x.Value, after[i].Value)
		}
	}
	for _, x := range after {
		if x.To.After(w.at.Add(time.Hour)) || x.Value > 1500 || x.Value < 5 {
			t.Fatalf("taken in: %+v", x)
		}
	}
	w.fault()
	o = w.hours(7)
	w.whole(o)
	if o.Basis != best || o.Stale || o.Degraded || o.Err != nil {
		t.Errorf("afterwards: %s stale=%v degraded=%v (%s) %v", o.Basis, o.Stale, o.Degraded, o.Why, o.Err)
	}
	if gaps := o.Expected.Gaps(w.at.Add(-48*time.Hour), w.at); len(gaps) > 0 {
		t.Errorf("gaps in the history afterwards: %v", gaps)
	}
	for _, x := range w.feed().history {
		if want, _ := w.grid.Zones["DE"].At(x.From); math.Abs(float64(want.Value-x.Value)) > tolerance {
			t.Errorf("afterwards %s has %v, want %v", x.From, x.Value, want.Value)
			break
		}
	}
	if kind == fakegrid.FaultRevised && o.Revisions == 0 {
		t.Error("revisions are not counted")
	}
}

// TestBrokenRecordIsLikeNone: a file that cannot be read is as good as none.
func TestBrokenRecordIsLikeNone(t *testing.T) {
	w := newWorld(t)
	w.hours(2)
	files, _ := filepath.Glob(filepath.Join(w.dir, "*.feed.json"))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	text, err := os.ReadFile(files[0])
	must(t, err)
	for name, broken := range map[string]string{
		"half": string(text[:len(text)/2]), "negative": strings.Replace(string(text), `"History":[[`, `"History":[[1,3600,-5,0],[`, 1),
		"other key": strings.Replace(string(text), "electricityMaps DE", "electricityMaps FR", 1), "empty": "",
	} {
		must(t, os.WriteFile(files[0], []byte(broken), 0o600))
		w.restart()
		if n := len(w.feed().history); n != 0 {
			t.Errorf("%s: %d values", name, n)
		}
		w.feeds.Forget("de")
	}
	must(t, os.WriteFile(files[0], text, 0o600))
	w.restart()
	if n := len(w.feed().history); n < 59*24 {
		t.Errorf("%d values after all", n)
	}
}

// TestWeatherHelps: with the weather of the place configured, it is fetched and
// used; without it being there, the feed goes on.
func TestWeatherFailsAlone(t *testing.T) {
	w := newWorld(t)
	w.cfg.Weather = &provider.OpenMeteo{Endpoint: w.url, HistoryEndpoint: w.url, Places: []provider.Place{{Latitude: 50, Longitude: 9}}}
	o := w.hours(2)
	w.whole(o)
	if o.Degraded || len(w.feed().weather.Wind) < 60*24 {
		t.Errorf("degraded=%v (%s), %d hours of weather", o.Degraded, o.Why, len(w.feed().weather.Wind))
	}
	w.fault(fakegrid.Fault{Kind: fakegrid.FaultError, Provider: "openMeteo"})
	o = w.hours(1)
	w.whole(o)
	if !o.Degraded || !strings.Contains(o.Why, "weather") || o.Stale {
		t.Errorf("degraded=%v (%s) stale=%v", o.Degraded, o.Why, o.Stale)
	}
}

// TestImplausibleFactorIsRefused: a factor that no revision has is refused.
func TestImplausibleFactorIsRefused(t *testing.T) {
	w := newWorld(t)
	w.hours(3)
	w.cfg.Provider = scaled{w.cfg.Provider}
	if o := w.hours(1); !errors.Is(o.Err, ErrImplausible) || !o.Degraded {
		t.Errorf("%v", o.Err)
	}
}

// scaled is a provider that has changed to kg/kWh without a word.
type scaled struct{ provider.Provider }

func (p scaled) Fetch(ctx context.Context, get provider.Getter, q provider.Query) (provider.Answer, error) {
	q.Since = q.Now.Add(-24 * time.Hour)
	a, err := p.Provider.Fetch(ctx, get, q)
	for i := range a.Past {
		a.Past[i].Value /= 1000
	}
	return a, err
}

// TestBadAnswerIsAskedForAgain: an answer that could not be read is not taken from
// the cache at the next try.
func TestBadAnswerIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.hours(2)
	w.fault(fakegrid.Fault{Kind: fakegrid.FaultHTML})
	if o := w.hours(1); o.Err == nil {
		t.Fatal("the fault does not show")
	}
	w.fault()
	w.at = w.at.Add(10 * time.Minute) // sooner than an answer ceases to be fresh
	w.clock.Store(w.at.UnixNano())
	if err := w.feed().Refresh(context.Background(), w.at); err != nil {
		t.Errorf("ten minutes later: %v", err)
	}
}
