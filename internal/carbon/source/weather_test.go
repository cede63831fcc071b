package source

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// hoursOfWeather is n hours of weather from a start, with wind from first upwards.
func hoursOfWeather(start time.Time, first, n int) provider.Weather {
	w := provider.Weather{Start: start, Wind: make([]float64, n), Temperature: make([]float64, n), Irradiance: make([]float64, n)}
	for i := range w.Wind {
		w.Wind[i] = float64(first + i)
	}
	return w
}

// TestWeatherIsKept: newer weather stands over older, and older hours stay, up to as many as
// the own forecast learns from. Weather after a gap begins anew.
func TestWeatherIsKept(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	joined := joinWeather(hoursOfWeather(start, 0, 100), hoursOfWeather(start.Add(24*time.Hour), 1000, 100))
	if !joined.Start.Equal(start) || len(joined.Wind) != 124 || len(joined.Temperature) != 124 || joined.Wind[23] != 23 || joined.Wind[24] != 1000 {
		t.Errorf("joined: %v, %d hours, %v", joined.Start, len(joined.Wind), joined.Wind[20:30])
	}
	later := hoursOfWeather(start.Add(200*time.Hour), 0, 10)
	if got := joinWeather(joined, later); !got.Start.Equal(later.Start) || len(got.Wind) != 10 {
		t.Errorf("after a gap: %v, %d hours", got.Start, len(got.Wind))
	}
	long := joinWeather(hoursOfWeather(start, 0, learnAtMost+500), hoursOfWeather(start.Add((learnAtMost+200)*time.Hour), 0, 10))
	if len(long.Wind) != learnAtMost+10 || long.Wind[0] != 200 {
		t.Errorf("long: %d hours from %v", len(long.Wind), long.Wind[0])
	}
}

// TestOwnForecastKnowsTheWeather: a zone whose intensity follows the wind is forecast three
// days ahead from the wind to come, which without weather nobody can know.
func TestOwnForecastKnowsTheWeather(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	const past, all = 85 * 24, 92 * 24
	rng := rand.New(rand.NewPCG(1, 2))
	w := hoursOfWeather(start, 0, all)
	wind := 5.0
	for i := range w.Wind {
		wind = math.Min(16, math.Max(0, wind+0.1*(5-wind)+0.6*rng.NormFloat64()))
		w.Wind[i] = wind
	}
	intensity := func(i int) float64 { return 500 - 25*w.Wind[i] }
	var history []carbon.Sample
	for i := range past {
		at := start.Add(time.Duration(i) * time.Hour)
		history = append(history, carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(intensity(i))})
	}
	off := func(weather provider.Weather) float64 {
		f := newFeed(Config{Zone: "DE"}, nil, "")
		series, err := carbon.NewSeries(carbon.Provenance{Zone: "DE"}, slices.Clone(history))
		if err != nil {
			t.Fatal(err)
		}
		f.series, f.weather = series, weather
		pieces := f.ownPieces()
		if len(pieces) != ownLeads {
			t.Fatalf("%d hours of forecast", len(pieces))
		}
		sum := 0.0
		for i, p := range pieces[48:72] {
			sum += math.Abs(float64(p.Value)-intensity(past+48+i)) / 24
		}
		return sum
	}
	if with, without := off(w), off(provider.Weather{}); with > 0.5*without {
		t.Errorf("off by %.1f with weather, %.1f without", with, without)
	}
}

// windyWorld is a world of 430 days in which the wind makes the intensity: Open-Meteo's wind fits the intensity of each hour. Its
// source publishes no forecast.
func windyWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldOf(t, 430)
	w.cfg.Provider = provider.Prometheus{Endpoint: w.url, Query: `ci{zone="DE"}`, Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle}
	w.cfg.Weather = &provider.OpenMeteo{Endpoint: w.url, HistoryEndpoint: w.url, Places: []provider.Place{{Latitude: 50, Longitude: 9}, {Latitude: 53, Longitude: 8}}}
	return w
}

// off is the mean error of the own forecast on the third day, gCO2eq/kWh.
func (w *world) off() float64 {
	w.t.Helper()
	f := w.feed()
	f.mu.Lock()
	defer f.mu.Unlock()
	pieces := f.ownPieces()
	if len(pieces) != ownLeads {
		w.t.Fatalf("%d hours of forecast", len(pieces))
	}
	sum := 0.0
	for _, p := range pieces[48:72] {
		truth, known := w.grid.Zones["DE"].Mean(p.From, p.To)
		if known == 0 {
			w.t.Fatalf("nothing is known of %v", p.From)
		}
		sum += math.Abs(float64(p.Value-truth)) / 24
	}
	return sum
}

// TestAYearOfWeatherSurvivesARestart: a feed with weather learns from a year of intensities and of weather that had been forecast.
// After a restart, one refresh brings both back without a request for any month, and the forecast is that of the regression with weather.
func TestAYearOfWeatherSurvivesARestart(t *testing.T) {
	w := windyWorld(t)
	w.pass(24)
	f := w.feed()
	if days := w.at.Sub(f.history[0].From).Hours() / 24; days < 364 || len(f.past.months) < 13 || f.past.err != nil {
		t.Fatalf("%.0f days of intensities, %d months of weather, %v", days, len(f.past.months), f.past.err)
	}
	before := w.off()
	w.restart()
	asked := w.grid.Requests("openMeteo", "forecast")
	w.pass(1)
	f = w.feed()
	if n := w.grid.Requests("openMeteo", "forecast") - asked; n > 1 || len(f.past.months) < 13 {
		t.Errorf("after a restart, %d requests brought %d months of weather; want one, for the coming days", n, len(f.past.months))
	}
	h := f.weatherOn(w.at.Add(-hours(learnLong)).Truncate(time.Hour), learnLong+ownLeads)
	for name, column := range map[string][]float64{"wind": h.Wind, "temperature": h.Temperature, "irradiance": h.Irradiance} {
		if i := slices.IndexFunc(column[:learnLong+96], math.IsNaN); i >= 0 {
			t.Errorf("%s is not known %d hours after the beginning of the year", name, i)
		}
	}
	with := w.off()
	w.cfg.Weather = nil
	w.restart()
	w.pass(1)
	if without := w.off(); with > 0.3*without || before > 0.3*without {
		t.Errorf("off by %.1f gCO2eq/kWh with a year of weather, %.1f after a restart, %.1f without weather", before, with, without)
	}
}

// TestPastWeatherFailsAlone: if there are no forecasts of the past, the feed goes on with the 92 days that it had before, says what is
// missing, and asks again an hour later.
func TestPastWeatherFailsAlone(t *testing.T) {
	w := windyWorld(t)
	w.cfg.Weather.HistoryEndpoint = w.url + "/nothing"
	o := w.hours(3)
	f := w.feed()
	if !o.Degraded || !strings.Contains(o.Why, "less weather than it should") || !strings.Contains(o.Why, "404") || o.Err != nil || f.failures > 0 || len(f.weather.Wind) < 92*24 {
		t.Errorf("degraded %v (%s), %v, %d failures, %d hours of weather", o.Degraded, o.Why, o.Err, f.failures, len(f.weather.Wind))
	}
	w.cfg.Weather.HistoryEndpoint = w.url
	if o = w.hours(2); o.Degraded || len(f.past.months) == 0 {
		t.Errorf("then: degraded %v (%s), %d months of weather", o.Degraded, o.Why, len(f.past.months))
	}
}

// TestMonthsOnDiskOutliveAnOutage: if the service does not answer after a restart, and the file of the feed is lost, the answers on disk
// are read all the same. The month that failed does not keep others from being asked for, and none of those on disk is asked for again.
func TestMonthsOnDiskOutliveAnOutage(t *testing.T) {
	w := windyWorld(t)
	w.pass(10)
	months := len(w.feed().past.months)
	w.at = w.at.Add(day) // so one request is needed, for yesterday
	must(t, os.Remove(w.feed().path))
	w.restart()
	down := errors.New("the service is down")
	w.feeds.Get = getterFunc(func(ctx context.Context, r fetch.Request) (fetch.Response, error) {
		if strings.Contains(r.URL, "start_date=2023-05-01") {
			return fetch.Response{}, down
		}
		return w.client.Get(ctx, r)
	})
	asked := w.grid.Requests("openMeteo", "forecast")
	w.pass(3)
	f := w.feed()
	if n := w.grid.Requests("openMeteo", "forecast") - asked; len(f.past.months) != months-1 || !errors.Is(f.past.err, down) || n != 3 {
		t.Errorf("%d requests, %d months of weather, %v; want 3 requests, for the coming days, %d months, and %v", n, len(f.past.months), f.past.err, months-1, down)
	}
}

// TestMonthsAreKeptWithTheFeed: the bounded cache of answers may have removed the months, as nobody reads them while the controller runs.
// After a restart they are there all the same, value by value. Months that cannot be read are asked for again.
func TestMonthsAreKeptWithTheFeed(t *testing.T) {
	w := windyWorld(t)
	w.pass(8)
	before := w.feed().past.months
	before[begin.AddDate(0, -2, -9).Truncate(day).Unix()].Wind[5] = math.NaN() // the first of March
	w.feed().dirty = true
	w.pass(1)
	must(t, os.RemoveAll(filepath.Join(w.dir, "answers")))
	w.restart()
	asked := w.grid.Requests("openMeteo", "forecast")
	w.pass(1)
	if n := w.grid.Requests("openMeteo", "forecast") - asked; n != 1 {
		t.Errorf("%d requests after a restart, want 1, for the coming days", n)
	}
	after := w.feed().past.months
	if len(after) != len(before) || len(after) < 13 {
		t.Fatalf("%d months, want %d", len(after), len(before))
	}
	for first, want := range before {
		got := after[first]
		equal := func(a, b float64) bool { return math.Abs(a-b) < 1e-3 || math.IsNaN(a) && math.IsNaN(b) }
		if !got.Start.Equal(want.Start) || !slices.EqualFunc(got.Wind, want.Wind, equal) || !slices.EqualFunc(got.Temperature, want.Temperature, equal) ||
			!slices.EqualFunc(got.Irradiance, want.Irradiance, equal) {
			t.Errorf("%s: %d hours from %s differ", want.Start, len(got.Wind), got.Start)
		}
	}
	w.cfg.Weather.Places = w.cfg.Weather.Places[:1]
	w.restart()
	if n := len(w.feed().past.months); n > 0 {
		t.Errorf("%d months of the weather of other places", n)
	}
	good := toMonths(before)
	bad := slices.Clone(good)
	bad[0].Start, bad[1].Wind, bad[2].Temperature, bad[3].Irradiance = bad[0].Start+3600, bad[1].Wind[1:], nil, append(bad[3].Irradiance, 0, 0, 0, 0)
	if got := fromMonths(bad); len(got) != len(good)-4 {
		t.Errorf("%d of %d months are read, want %d", len(got), len(good), len(good)-4)
	}
}

// TestClockStepsBack: after a clock was days ahead, the feed forgets what it took for past weather, and does not wait for the hour of a
// failure that lies in the future.
func TestClockStepsBack(t *testing.T) {
	w := windyWorld(t)
	w.pass(2)
	w.at = w.at.Add(5 * day)
	w.pass(1)
	good := w.cfg.Weather.HistoryEndpoint
	w.cfg.Weather.HistoryEndpoint = w.url + "/nothing"
	w.pass(1)
	f := w.feed()
	if f.past.err == nil || !f.past.end(time.Date(2023, 5, 1, 0, 0, 0, 0, time.UTC)).Equal(w.at.Truncate(day)) {
		t.Fatalf("%v, %d months", f.past.err, len(f.past.months))
	}
	w.cfg.Weather.HistoryEndpoint = good
	w.at = w.at.Add(-5 * day)
	w.pass(2)
	f = w.feed()
	if end := f.past.end(time.Date(2023, 5, 1, 0, 0, 0, 0, time.UTC)); f.past.err != nil || !end.Equal(w.at.Truncate(day)) {
		t.Errorf("%v, this month is known until %v, now it is %v", f.past.err, end, w.at)
	}
}

// TestUsedUpQuotaIsNoLongWait: if many zones use up the quota, those that get nothing ask at the next refresh.
func TestUsedUpQuotaIsNoLongWait(t *testing.T) {
	w := windyWorld(t)
	w.cfg.Refresh = 5 * time.Minute
	full := true
	w.feeds.Get = getterFunc(func(ctx context.Context, r fetch.Request) (fetch.Response, error) {
		if full && r.Quota.Requests > 0 {
			return fetch.Response{}, fetch.ErrQuota
		}
		return w.client.Get(ctx, r)
	})
	w.pass(1)
	f := w.feed()
	if !errors.Is(f.past.err, fetch.ErrQuota) {
		t.Fatalf("%v, want %v", f.past.err, fetch.ErrQuota)
	}
	full = false
	_ = f.Refresh(context.Background(), w.at.Add(5*time.Minute))
	if f.past.err != nil || len(f.past.months) != monthsAtOnce {
		t.Errorf("five minutes later: %v, %d months", f.past.err, len(f.past.months))
	}
}

// getterFunc is a provider.Getter.
type getterFunc func(context.Context, fetch.Request) (fetch.Response, error)

func (g getterFunc) Get(ctx context.Context, r fetch.Request) (fetch.Response, error) {
	return g(ctx, r)
}

// TestMonthsAreAskedForOnce: months of weather are asked for two at a time, and each one once; of this month, yesterday is asked for
// every day.
func TestMonthsAreAskedForOnce(t *testing.T) {
	w := windyWorld(t)
	asked := w.grid.Requests("openMeteo", "forecast")
	w.pass(1)
	if n := w.grid.Requests("openMeteo", "forecast") - asked; n != 1+monthsAtOnce {
		t.Errorf("%d requests in the first hour, want one for the coming days and %d for months", n, monthsAtOnce)
	}
	w.pass(9)
	months := len(w.feed().past.months)
	asked = w.grid.Requests("openMeteo", "forecast")
	w.pass(24)
	if n := w.grid.Requests("openMeteo", "forecast") - asked; n != 25 || months < 13 || len(w.feed().past.months) != months {
		t.Errorf("%d requests in a day, %d months, then %d; want one an hour and one for yesterday", n, months, len(w.feed().past.months))
	}
	if end := w.feed().past.end(time.Date(2023, 5, 1, 0, 0, 0, 0, time.UTC)); !end.Equal(w.at.Truncate(day)) {
		t.Errorf("this month is known until %v, now it is %v", end, w.at)
	}
}

// TestAFitKeepsNoOtherZoneWaiting: while the own forecast of a feed is computed, which takes seconds with a year of weather, other
// zones get their feeds.
func TestAFitKeepsNoOtherZoneWaiting(t *testing.T) {
	w := newWorld(t)
	f := w.feed()
	f.mu.Lock() // as in Outlook
	same := make(chan struct{})
	go func() {
		defer close(same)
		_, _ = w.feeds.Feed("another zone of the same source", w.cfg)
	}()
	inside := func() bool {
		if !w.feeds.mu.TryLock() {
			return false
		}
		defer w.feeds.mu.Unlock()
		return len(w.feeds.users) == 2
	}
	for end := time.Now().Add(limit); !inside(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.mu.Unlock()
			t.Fatal("the feeds of all zones are locked while one of them is computed")
		}
	}
	f.mu.Unlock()
	<-same
}
