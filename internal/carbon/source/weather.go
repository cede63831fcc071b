package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
)

const (
	// weatherWanted is how many days of past weather are asked for while the past is not known as it had been forecast: all that
	// Open-Meteo gives. weatherRenewed is how many are asked for else: the forecasts of the past end yesterday.
	weatherWanted, weatherRenewed = 92, 2
	// monthsAtOnce is how many months of past weather a refresh asks the service for; more that are kept on disk are read at once.
	monthsAtOnce = 2
	// monthsAgain is when months that failed are asked for again.
	monthsAgain = time.Hour
	// monthsFresh is how long a month is kept: what had been forecast does not change.
	monthsFresh = 400 * day
)

// pastWeather is the weather of the past as it had been forecast.
type pastWeather struct {
	months map[int64]provider.Weather // by the first second of the month; the newest one may end early
	err    error                      // why months could not be had at the last try
	failed []time.Time                // when these months begin
	tried  time.Time                  // when that was, in grid time
}

// end is the end of the month that begins at first, as far as it is known.
func (p *pastWeather) end(first time.Time) time.Time {
	w, known := p.months[first.Unix()]
	if !known {
		return first
	}
	return weatherEnd(w)
}

// missing are the months, or their beginnings, that lie in the past of today and are not known yet, the newest first. The oldest one
// contains the beginning of the history that the own forecast learns from.
func (p *pastWeather) missing(today time.Time) []carbon.Interval {
	var out []carbon.Interval
	oldest := today.Add(-hours(learnLongAtMost))
	for first := today.AddDate(0, 0, 1-today.Day()); ; first = first.AddDate(0, -1, 0) {
		end := first.AddDate(0, 1, 0)
		if end.After(today) {
			end = today
		}
		if p.end(first).Before(end) {
			out = append(out, carbon.Interval{From: first, To: end})
		}
		if !first.After(oldest) {
			return out
		}
	}
}

// covers says whether all months of the given days before today are known.
func (p *pastWeather) covers(days int, today time.Time) bool {
	from := today.AddDate(0, 0, -days)
	return !slices.ContainsFunc(p.missing(today), func(x carbon.Interval) bool { return x.To.After(from) })
}

// weatherAnswer is what a refresh brings of weather.
type weatherAnswer struct {
	live    provider.Weather
	err     error // of live
	months  []provider.Weather
	asked   bool  // whether months were asked for, if any are missing
	pastErr error // of the first month of failed
	failed  []time.Time
}

// fetchWeather asks for the weather of the coming days, and for some months of the past that are missing. The caller holds refreshing.
func (f *Feed) fetchWeather(ctx context.Context, cfg Config, now time.Time, fresh time.Duration) (a weatherAnswer) {
	if cfg.Weather == nil {
		return a
	}
	today := now.UTC().Truncate(day)
	days := weatherWanted
	if f.past.covers(weatherWanted, today) {
		days = weatherRenewed
	}
	a.live, a.err = cfg.Weather.Fetch(ctx, f.get, days, int(cfg.Horizon/day)+2, max(fresh, cfg.Timeline.WallDuration(30*time.Minute)))
	// After ErrQuota the client itself leaves the service alone for as long as needed.
	waits := !now.Before(f.past.tried) && now.Sub(f.past.tried) < monthsAgain
	if f.past.err != nil && !errors.Is(f.past.err, fetch.ErrQuota) && waits {
		return a
	}
	a.asked = true
	asked := 0
	for _, month := range f.past.missing(today) {
		keep := monthsFresh
		if slices.ContainsFunc(f.past.failed, month.From.Equal) {
			keep = 0 // what was kept may be the very answer that could not be read
		}
		w, kept, err := cfg.Weather.Past(ctx, f.get, month, keep)
		if err == nil {
			a.months = append(a.months, w)
		} else { // older months may be on disk
			a.failed = append(a.failed, month.From)
			a.pastErr = cmp.Or(a.pastErr, fmt.Errorf("weather that had been forecast for the past: %w", err))
		}
		if !kept {
			asked++
		}
		if asked == monthsAtOnce {
			break
		}
	}
	return a
}

// takeWeather adds an answer to what is known. f.mu is held.
func (f *Feed) takeWeather(a weatherAnswer, now time.Time) {
	if len(a.live.Wind) > 0 {
		f.weather = joinWeather(f.weather, a.live)
	}
	if a.asked {
		f.past.tried, f.past.err, f.past.failed = now, a.pastErr, a.failed
	}
	if f.past.months == nil {
		f.past.months = map[int64]provider.Weather{}
	}
	for _, w := range a.months {
		f.past.months[w.Start.Unix()] = w
		f.dirty = true
	}
	for first, w := range f.past.months {
		// A month that ends in the future was asked for while the clock was ahead.
		if first < now.Add(-hours(learnLongAtMost+32*24)).Unix() || weatherEnd(w).After(now) {
			delete(f.past.months, first)
		}
	}
}

// weatherOn puts the weather on n hours from start: for the past as it had been forecast, as far as that is known, else as it was
// analysed. NaN where it is not known; nil if nothing is.
func (f *Feed) weatherOn(start time.Time, n int) *forecast.Weather {
	if len(f.weather.Wind) == 0 && len(f.past.months) == 0 {
		return nil
	}
	out := &forecast.Weather{Wind: unknown(n), Temperature: unknown(n), Irradiance: unknown(n)}
	lay := func(w provider.Weather) {
		shift := int(w.Start.Sub(start) / time.Hour)
		for _, c := range []struct{ to, from []float64 }{{out.Wind, w.Wind}, {out.Temperature, w.Temperature}, {out.Irradiance, w.Irradiance}} {
			for i, v := range c.from {
				if k := i + shift; k >= 0 && k < n && !math.IsNaN(v) {
					c.to[k] = v
				}
			}
		}
	}
	lay(f.weather)
	for _, w := range f.past.months {
		lay(w)
	}
	return out
}

// unknown is n values that are not known.
func unknown(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

func weatherEnd(w provider.Weather) time.Time {
	return w.Start.Add(time.Duration(len(w.Wind)) * time.Hour)
}

// joinWeather is newer with the hours before it that older has, at most as many as the own
// forecast learns from where it knows no more.
func joinWeather(older, newer provider.Weather) provider.Weather {
	ahead := int(newer.Start.Sub(older.Start) / time.Hour)
	if len(older.Wind) == 0 || ahead <= 0 || ahead > len(older.Wind) {
		return newer
	}
	from := max(0, ahead-learnAtMost)
	join := func(old, recent []float64) []float64 { return slices.Concat(old[from:ahead], recent) }
	return provider.Weather{
		Start:      older.Start.Add(time.Duration(from) * time.Hour),
		Irradiance: join(older.Irradiance, newer.Irradiance), Wind: join(older.Wind, newer.Wind), Temperature: join(older.Temperature, newer.Temperature),
	}
}
