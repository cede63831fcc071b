package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
)

// Errors of answers that are well formed and yet not believed.
var (
	// ErrClock: the provider speaks of the future as of the past.
	ErrClock = errors.New("the provider's clock is wrong")
	// ErrImplausible: values are so far from what was known that the unit must
	// have changed.
	ErrImplausible = errors.New("implausible values")
)

const (
	// historyKept is how much of the past is kept, historyWanted how much is asked
	// for at the start: what the forecasters learn from.
	historyKept   = 400 * 24 * time.Hour
	historyWanted = 60 * 24 * time.Hour
	// overlap is asked for again at each refresh: providers revise what is recent.
	overlap = 6 * time.Hour
	// clockTolerance is how far a provider's clock may be ahead.
	clockTolerance = 10 * time.Minute
	// implausible is the factor between known and new values that no revision has.
	implausible = 20.0
)

// Feed is what is known of one zone from one source, kept across restarts. It is
// safe for concurrent use: zones that share a source share the feed.
type Feed struct {
	get  provider.Getter
	path string // of its file, or empty

	refreshing sync.Mutex // held while the provider is asked
	mu         sync.Mutex
	cfg        Config
	history    []carbon.Sample
	forecast   []carbon.Sample // the provider's last one
	issuedAt   time.Time       // of forecast
	fetchedAt  time.Time       // when it came
	weather    provider.Weather
	past       pastWeather
	issues     []issue
	scored     time.Time // until when issues are compared with the history
	errors     *forecast.Errors
	own        ownForecast
	published  forecastPaths
	series     *carbon.Series // SetSeries

	lastAttempt time.Time
	lastErr     error
	failures    int
	refused     bool // the plan has no forecast
	backfilled  bool // all the history that there is has been asked for
	revisions   int
	fuels       provider.Fuels
	asked       map[int64]asked // of a day, by its first second
	againAfter  time.Time       // nothing is asked for again before
	changes     int             // how often values of the history have come or changed
	handedOn    handedOn
	saved       time.Time
	dirty       bool
}

// newFeed returns a feed with what its file holds.
func newFeed(cfg Config, get provider.Getter, path string) *Feed {
	f := &Feed{cfg: cfg.withDefaults(), get: get, path: path, errors: forecast.NewErrors(maxLeads)}
	f.load()
	return f
}

// SetSeries replaces the provider: the series is both history and forecast.
func (f *Feed) SetSeries(s *carbon.Series, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastErr = err
	if err == nil {
		f.series = s
	}
}

// Known reports whether anything has been read of the zone, now or before a
// restart.
func (f *Feed) Known() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.history) > 0 || len(f.forecast) > 0 || f.series != nil
}

// Due says how long, in grid time, until the provider should be asked.
func (f *Feed) Due(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.due(now)
}

func (f *Feed) due(now time.Time) time.Duration {
	if f.lastAttempt.IsZero() || now.Before(f.lastAttempt) {
		return 0
	}
	wait := f.cfg.Refresh
	if f.failures > 0 {
		// Sooner than usual after the first failures, later after many.
		wait = time.Duration(math.Min(8, math.Pow(2, float64(f.failures-4))) * float64(f.cfg.Refresh))
	}
	return max(0, f.lastAttempt.Add(wait).Sub(now))
}

// Refresh asks the provider if that is due, and keeps what it says. A second
// caller at the same time waits for the first. The error is also part of the
// state: the feed goes on with what it has.
func (f *Feed) Refresh(ctx context.Context, now time.Time) error {
	f.refreshing.Lock()
	defer f.refreshing.Unlock()
	f.mu.Lock()
	if f.cfg.Provider == nil || f.due(now) > 0 {
		err := f.lastErr
		f.mu.Unlock()
		return err
	}
	cfg := f.cfg
	since := now.Add(-historyWanted)
	if n := len(f.history); n > 0 && (f.backfilled || f.history[0].From.Before(since.Add(24*time.Hour))) {
		since = f.history[n-1].To.Add(-overlap)
	}
	if floor := now.Add(-historyWanted); since.Before(floor) {
		since = floor
	}
	q := provider.Query{Now: now, Since: since.Truncate(time.Hour), Horizon: cfg.Horizon, Fuels: f.fuels}
	q.Again = f.again(now, q.Since)
	if n := len(q.Again); n > 0 && q.Again[n-1].To.Equal(q.Since) {
		q.Since, q.Again = q.Again[n-1].From, q.Again[:n-1]
	}
	fresh := cfg.Timeline.WallDuration(cfg.Refresh) / 2
	if f.failures > 0 {
		fresh = 0 // what was kept may be the very answer that could not be read
	}
	q.Fresh = fresh
	f.mu.Unlock()

	answer, err := cfg.Provider.Fetch(ctx, f.get, q)
	weather := f.fetchWeather(ctx, cfg, now, fresh)
	if weather.err != nil {
		err = errors.Join(err, fmt.Errorf("weather: %w", weather.err))
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastAttempt = now
	f.noteAsked(q, answer.Bad)
	f.noteBad(answer.Bad, now)
	if vetErr := f.vet(answer, now); vetErr != nil {
		answer, err = provider.Answer{}, errors.Join(err, vetErr)
	}
	doubtErr := f.doubt(&answer, now)
	err = errors.Join(err, doubtErr)
	f.takeWeather(weather, now)
	f.take(answer, now)
	// What the plan does not include will not come by asking again.
	partial := errors.Is(err, fetch.ErrRefused) && len(answer.Past) > 0 && doubtErr == nil
	f.refused = partial && len(answer.Forecast) == 0
	f.backfilled = f.backfilled || (len(answer.Past) > 0 && (err == nil || partial))
	f.lastErr = err
	if err != nil && !partial {
		f.failures++
	} else {
		f.failures = 0
	}
	f.save(now)
	return err
}

// take adds an answer to what is known.
func (f *Feed) take(a provider.Answer, now time.Time) {
	if len(a.Past) > 0 {
		for _, x := range a.Past {
			i, same := slices.BinarySearchFunc(f.history, x, func(a, b carbon.Sample) int { return a.From.Compare(b.From) })
			if same && math.Abs(float64(f.history[i].Value-x.Value)) > 1e-6 {
				f.revisions++
			}
		}
		f.changes++
		f.history = provider.Merge(f.history, a.Past)
		if floor := now.Add(-historyKept); f.history[0].From.Before(floor) {
			f.history = after(f.history, floor)
		}
		f.dirty = true
	}
	if a.Fuels.Hours > 0 {
		f.fuels, f.dirty = a.Fuels, true
	}
	if len(a.Forecast) > 0 {
		f.forecast, f.fetchedAt, f.issuedAt = a.Forecast, now, a.Forecast[0].Of.IssuedAt
		if f.issuedAt.IsZero() {
			f.issuedAt = now
		}
		f.remember(issue{At: f.issuedAt, samples: a.Forecast})
		f.dirty = true
	}
	f.score()
}

// after returns the samples that begin at or after at.
func after(s []carbon.Sample, at time.Time) []carbon.Sample {
	return s[sort.Search(len(s), func(i int) bool { return !s[i].From.Before(at) }):]
}
