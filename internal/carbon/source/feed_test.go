package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fakegrid"
	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/units"
)

var begin = time.Date(2023, 5, 10, 12, 2, 0, 0, time.UTC)

// world is a fake grid and a feed, on one clock that the test moves.
type world struct {
	t      *testing.T
	at     time.Time
	clock  atomic.Int64 // at, for the server and the client
	grid   *fakegrid.Server
	truth  *carbon.Series // what it replays
	url    string
	client *fetch.Client
	dir    string
	feeds  *Feeds
	cfg    Config
}

// newWorld replays a series that is climatology with weather in it, with more history than a feed asks for.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, 80)
}

// newWorldOf is newWorld with a history of some days.
func newWorldOf(t *testing.T, days int) *world {
	t.Helper()
	w := &world{t: t, at: begin, dir: t.TempDir()}
	w.clock.Store(begin.UnixNano())
	base, err := climatology.Series("DE", begin.AddDate(0, 0, -days), begin.AddDate(0, 0, 40))
	must(t, err)
	samples := make([]carbon.Sample, base.Len())
	for i := range samples {
		samples[i] = base.Sample(i)
		samples[i].Estimated = false
		samples[i].Value *= units.CarbonIntensity(1 + 0.25*math.Sin(float64(i)/37) + 0.1*math.Sin(float64(i)/11))
	}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "DE"}, samples)
	must(t, err)
	w.truth = series
	w.grid = fakegrid.New(fakegrid.Options{Zones: map[string]*carbon.Series{"DE": series}, Now: w.now, ForecastError: 0.08})
	server := httptest.NewServer(w.grid)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.cfg = Config{
		Key: "electricityMaps DE", Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle, Refresh: time.Hour, Horizon: 96 * time.Hour,
		Constant: &Constant{Value: 400, Low: 100, High: 900},
		Provider: provider.ElectricityMaps{Endpoint: w.url, Version: "v3", Zone: "DE", Factor: carbon.Lifecycle},
	}
	w.restart()
	return w
}

func (w *world) now() time.Time { return time.Unix(0, w.clock.Load()).UTC() }

// restart forgets all that is in memory.
func (w *world) restart() {
	w.client = &fetch.Client{
		HTTP: &http.Client{Timeout: limit}, Cache: fetch.NewCache(filepath.Join(w.dir, "answers")),
		Now: w.now, Sleep: func(context.Context, time.Duration) error { return nil },
	}
	w.feeds = &Feeds{Get: w.client, Dir: w.dir}
}

func (w *world) feed() *Feed {
	w.t.Helper()
	f, err := w.feeds.Feed("de", w.cfg)
	must(w.t, err)
	return f
}

// hours lets time pass, with a refresh every hour, and returns the outlook.
func (w *world) hours(n int) Outlook {
	w.t.Helper()
	w.pass(n)
	return w.feed().Outlook(w.at, w.cfg)
}

// pass lets time pass, with a refresh every hour.
func (w *world) pass(n int) {
	w.t.Helper()
	f := w.feed()
	for range n {
		w.at = w.at.Add(time.Hour)
		w.clock.Store(w.at.UnixNano())
		_ = f.Refresh(context.Background(), w.at) // also in the outlook
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// limit is how long a request may take on a busy machine.
const limit = 5 * time.Minute

// fault sets the faults of the provider. Requests time out soon only if none of them is answered: else a busy
// machine would decide which ones are.
func (w *world) fault(f ...fakegrid.Fault) {
	w.t.Helper()
	must(w.t, w.grid.SetFaults(f...))
	w.client.HTTP.Timeout = limit
	if len(f) == 1 && f[0].Kind == fakegrid.FaultTimeout {
		w.client.HTTP.Timeout = 20 * time.Millisecond
	}
}

// whole checks that an outlook covers all of the horizon, in order, with error
// bars around every value.
func (w *world) whole(o Outlook) {
	w.t.Helper()
	if o.Expected == nil {
		w.t.Fatal("no outlook")
	}
	if gaps := o.Expected.Gaps(w.at, w.at.Add(w.cfg.Horizon)); len(gaps) > 0 {
		w.t.Errorf("gaps %v", gaps)
	}
	for i := range o.Expected.Len() {
		low, v, high := o.Low.Sample(i).Value, o.Expected.Sample(i).Value, o.High.Sample(i).Value
		if low > v || v > high {
			w.t.Fatalf("sample %d: %v outside %v to %v", i, v, low, high)
		}
		if p := o.Expected.ProvenanceOf(i); p.Basis == "" || p.Signal != w.cfg.Signal {
			w.t.Fatalf("sample %d has provenance %+v", i, p)
		}
	}
}

// spread is the mean relative width of the error bars some hours ahead.
func (w *world) spread(o Outlook, fromHour, toHour int) float64 {
	from, to := w.at.Add(time.Duration(fromHour)*time.Hour), w.at.Add(time.Duration(toHour)*time.Hour)
	low, _ := o.Low.Mean(from, to)
	mid, _ := o.Expected.Mean(from, to)
	high, _ := o.High.Mean(from, to)
	return float64((high - low) / mid)
}

// TestFallbackChain goes down the whole chain and up again, with a restart in
// the middle of the outage.
func TestFallbackChain(t *testing.T) {
	w := newWorld(t)
	o := w.hours(48)
	w.whole(o)
	if o.Basis != carbon.LiveForecast || o.Stale || o.Degraded || o.Err != nil {
		t.Fatalf("at first: %s stale=%v degraded=%v (%s) %v", o.Basis, o.Stale, o.Degraded, o.Why, o.Err)
	}
	if o.Scored < 24 || o.MAPE <= 0 || o.MAPE > 0.2 {
		t.Errorf("accuracy %.3f of %d", o.MAPE, o.Scored)
	}
	if last, _ := o.Expected.At(w.at.Add(80 * time.Hour)); last.Of.Basis != carbon.OwnForecast {
		t.Errorf("beyond the provider's 72 hours: %s, want the own forecast", last.Of.Basis)
	}
	bars := []float64{w.spread(o, 1, 12)}
	history := len(w.feed().history)

	w.fault(fakegrid.Fault{Kind: fakegrid.FaultError})
	o = w.hours(1)
	w.whole(o)
	if o.Basis != carbon.CachedForecast || o.Stale || !o.Degraded || !strings.Contains(o.Why, "500") || o.Err == nil {
		t.Errorf("an hour into the outage: %s stale=%v degraded=%v (%s)", o.Basis, o.Stale, o.Degraded, o.Why)
	}
	o = w.hours(23)
	w.whole(o)
	if o.Basis != carbon.CachedForecast || !o.Stale || !o.Degraded {
		t.Errorf("a day into the outage: %s stale=%v degraded=%v", o.Basis, o.Stale, o.Degraded)
	}
	bars = append(bars, w.spread(o, 1, 12))

	w.restart()
	o = w.hours(1)
	w.whole(o)
	if o.Basis != carbon.CachedForecast || len(w.feed().history) != history {
		t.Errorf("after a restart in the outage: %s, %d values of history, want %d", o.Basis, len(w.feed().history), history)
	}
	o = w.hours(49)
	w.whole(o)
	if o.Basis != carbon.OwnForecast || !o.Stale || !o.Degraded {
		t.Errorf("three days into the outage: %s stale=%v degraded=%v", o.Basis, o.Stale, o.Degraded)
	}
	bars = append(bars, w.spread(o, 1, 12))
	o = w.hours(100)
	w.whole(o)
	if o.Basis != carbon.Climatology {
		t.Errorf("a week into the outage: %s", o.Basis)
	}
	bars = append(bars, w.spread(o, 1, 12))
	for i := 1; i < len(bars); i++ {
		if bars[i] < bars[i-1] {
			t.Errorf("error bars %.2f do not grow with the outage", bars)
		}
	}
	w.cfg.Zone = "XX" // a zone without climatology
	o = w.hours(1)
	w.whole(o)
	if o.Basis != carbon.Constant {
		t.Errorf("without climatology: %s", o.Basis)
	}
	w.cfg.Constant = nil
	if o = w.hours(1); o.Expected != nil && len(o.Expected.Gaps(w.at, w.at.Add(time.Hour))) == 0 {
		t.Error("an intensity was invented")
	}
	w.cfg.Zone, w.cfg.Constant = "DE", &Constant{Value: 400, Low: 100, High: 900}

	w.fault()
	o = w.hours(9) // the pause between tries has grown to eight hours
	w.whole(o)
	if o.Basis != carbon.LiveForecast || o.Stale || o.Degraded || o.Err != nil {
		t.Errorf("after the outage: %s stale=%v degraded=%v (%s) %v", o.Basis, o.Stale, o.Degraded, o.Why, o.Err)
	}
	if gaps := o.Expected.Gaps(w.at.AddDate(0, 0, -7), w.at); len(gaps) > 0 {
		t.Errorf("the history of the outage was not fetched afterwards: %v", gaps)
	}
}

// TestPlanWithoutForecast: a key that includes no forecasts is no defect.
func TestPlanWithoutForecast(t *testing.T) {
	w := newWorld(t)
	w.cfg.Provider = free{w.cfg.Provider}
	o := w.hours(30)
	w.whole(o)
	if o.Basis != carbon.OwnForecast || o.Degraded || o.Stale || o.Scored == 0 {
		t.Errorf("%s degraded=%v (%s) stale=%v, accuracy of %d values", o.Basis, o.Degraded, o.Why, o.Stale, o.Scored)
	}
}

// free is a provider whose plan has no forecasts.
type free struct{ provider.Provider }

func (p free) Fetch(ctx context.Context, get provider.Getter, q provider.Query) (provider.Answer, error) {
	a, err := p.Provider.Fetch(ctx, get, q)
	a.Forecast = nil
	return a, errors.Join(err, fmt.Errorf("forecast: %w: 403", fetch.ErrRefused))
}

// TestZonesOfASourceShareAFeed: zones of one source share a feed and its requests; the last one
// that leaves ends it.
func TestZonesOfASourceShareAFeed(t *testing.T) {
	w := newWorld(t)
	a, err := w.feeds.Feed("a", w.cfg)
	must(t, err)
	b, err := w.feeds.Feed("b", w.cfg)
	must(t, err)
	if a != b {
		t.Fatal("two feeds of one source")
	}
	for range 3 {
		must(t, a.Refresh(context.Background(), w.at))
		must(t, b.Refresh(context.Background(), w.at))
	}
	if n := w.grid.Requests("electricityMaps", "forecast"); n != 1 {
		t.Errorf("%d requests", n)
	}
	if d := a.Due(w.at); d != time.Hour {
		t.Errorf("due in %v", d)
	}
	// What each zone wants to see of it is its own.
	short := w.cfg
	short.Constant, short.Horizon, short.StaleAfter = nil, 5*time.Hour, time.Nanosecond
	if o := a.Outlook(w.at, short); o.Expected.End().After(w.at.Add(6*time.Hour)) && !o.Stale {
		t.Errorf("until %s, stale=%v", o.Expected.End(), o.Stale)
	}
	if o := b.Outlook(w.at, w.cfg); o.Stale || len(o.Expected.Gaps(w.at, w.at.Add(96*time.Hour))) > 0 {
		t.Errorf("the other zone: until %s, stale=%v", o.Expected.End(), o.Stale)
	}
	w.feeds.Forget("a")
	w.feeds.Forget("a")
	if c, _ := w.feeds.Feed("c", w.cfg); c != b {
		t.Error("the feed ended while a zone used it")
	}
	w.feeds.Forget("b")
	other := w.cfg
	other.Key = "other"
	if _, err := w.feeds.Feed("c", other); err != nil {
		t.Error(err)
	}
	if d, _ := w.feeds.Feed("d", w.cfg); d == b {
		t.Error("the feed outlived its last zone")
	}
	wrong := w.cfg
	wrong.Signal = carbon.Marginal
	if _, err := w.feeds.Feed("e", wrong); !errors.Is(err, ErrSource) || !strings.Contains(err.Error(), "publishes average intensities, the zone states marginal") {
		t.Errorf("signals were mixed: %v", err)
	}
}

// TestSeriesWithoutProvider: a recorded series is the outlook, and what follows
// its end is forecast from it.
func TestSeriesWithoutProvider(t *testing.T) {
	w := newWorld(t)
	w.cfg.Provider, w.cfg.Key, w.cfg.Horizon = nil, "file", 10*24*time.Hour
	f := w.feed()
	f.SetSeries(nil, errors.New("not there yet"))
	if o := f.Outlook(w.at, w.cfg); o.Basis != carbon.Climatology || !o.Stale || !o.Degraded || o.Why != "not there yet" {
		t.Errorf("before it is read: %s stale=%v degraded=%v (%s)", o.Basis, o.Stale, o.Degraded, o.Why)
	}
	f.SetSeries(w.grid.Zones["DE"], nil)
	w.at = begin.AddDate(0, 0, 35)
	o := f.Outlook(w.at, w.cfg)
	w.whole(o)
	if o.Basis != carbon.LiveForecast || o.Stale || o.Degraded {
		t.Errorf("%s stale=%v degraded=%v (%s)", o.Basis, o.Stale, o.Degraded, o.Why)
	}
	if x, _ := o.Expected.At(begin.AddDate(0, 0, 41)); x.Of.Basis != carbon.OwnForecast {
		t.Errorf("beyond its end: %s", x.Of.Basis)
	}
	w.at = begin.AddDate(0, 0, 41)
	if o = f.Outlook(w.at, w.cfg); o.Basis != carbon.OwnForecast || !o.Stale || !o.Degraded {
		t.Errorf("after its end: %s stale=%v degraded=%v", o.Basis, o.Stale, o.Degraded)
	}
}
