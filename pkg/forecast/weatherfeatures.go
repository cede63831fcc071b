package forecast

import "math"

// base is what forecasts of an issue are relative to: the logarithm of the mean of the
// last week.
func (f *frame) base(end int) float64 {
	return math.Log(f.y.mean(end-f.from-7*f.perDay, end-f.from))
}

// features appends what is known when slot end begins about slot at. Their number
// depends on the columns that are known alone.
func (f *frame) features(x []float64, end, at int) []float64 {
	P, base := f.perDay, f.base(end)
	e := end - f.from
	logMean := func(from, to int) float64 { return math.Log(f.y.mean(from, to)) }
	last24 := logMean(e-P, e) - base
	x = append(x, f.log[e-1]-base, logMean(e-max(1, P/8), e)-base, last24,
		logMean(e-3*P, e)-base, logMean(e-28*P, e)-base, last24-(logMean(e-2*P, e-P)-base),
		f.log[e-1]-f.log[e-1-P])
	ahead := (at-end)/P + 1
	day := func(n int) float64 { return f.log[f.slot(at, n, end)] - base }
	week := 7 * ((ahead + 6) / 7)
	mean5, mean14 := 0.0, 0.0
	for n := range 14 {
		d := day(ahead + n)
		if n < 5 {
			mean5 += d / 5
		}
		mean14 += d / 14
	}
	lag := day(ahead)
	s := f.slot(at, ahead, end)
	near := (f.log[s]+f.log[max(0, s-1)]+f.log[min(e-1, s+1)])/3 - base
	x = append(x, lag, day(ahead+1), day(week), day(week+7), mean5, mean14, near)
	x = f.calendar(x, at, ahead)
	return f.weather(x, end, at, ahead, lag)
}

// slot is the index of the same local time the given number of days before slot at.
func (f *frame) slot(at, days, end int) int {
	return min(max(0, f.h.daysBefore(at, days, f.perDay)-f.from), end-1-f.from)
}

func (f *frame) calendar(x []float64, at, ahead int) []float64 {
	clock := slotClock{f.perDay}
	day := func(back int) float64 { return float64(clock.week(f.h, at-back*f.perDay) / f.perDay) }
	is := func(d, want float64) float64 {
		if d == want {
			return 1
		}
		return 0
	}
	weekend := func(d float64) float64 { return is(d, 5) + is(d, 6) }
	d := day(0)
	year := 2 * math.Pi * (float64(f.h.Start.YearDay()) + float64(at)/float64(f.perDay)) / 365.25
	return append(x, is(d, 5), is(d, 6), is(d, 0), is(d, 4), weekend(day(ahead)), is(day(ahead), 6), math.Sin(year), math.Cos(year))
}

func (f *frame) weather(x []float64, end, at, ahead int, lag float64) []float64 {
	P, e := f.perDay, end-f.from
	limit := f.h.Weather.limit(end) - f.from - 1 // a smoothed value knows the next one
	a := at - f.from
	index := func(v summed, i int) int {
		for i >= limit || i >= len(v.v) {
			i -= P
		}
		return max(0, i)
	}
	now := make([]float64, len(f.vars))
	for j, v := range f.vars {
		i := index(v, a)
		t := v.v[i]
		now[j] = t
		last := v.v[f.slot(at, ahead, end)]
		week := v.mean(e-7*P, e)
		daily := v.mean(i-P/2, min(i+P/2, limit))
		if f.few {
			x = append(x, t, last, week, daily)
			continue
		}
		five := 0.0
		for n := range 5 {
			five += v.v[f.slot(at, ahead+n, end)] / 5
		}
		x = append(x, t, last, v.v[f.slot(at, ahead+1, end)], five, v.mean(e-P, e), week, daily)
	}
	if f.few {
		return x
	}
	if f.wind >= 0 {
		x = append(x, now[f.wind]*lag)
	}
	if f.sun >= 0 {
		x = append(x, now[f.sun]*lag)
	}
	if f.wind >= 0 && f.sun >= 0 {
		x = append(x, now[f.wind]*now[f.sun])
	}
	for _, g := range f.shares {
		day := g.mean(e-P, e)
		x = append(x, g.v[e-1]-g.v[e-1-P], day-g.mean(e-7*P, e), g.v[f.slot(at, ahead, end)])
	}
	if f.shares != nil {
		x = append(x, math.Log(math.Max(1, f.total.mean(e-P, e))/math.Max(1, f.total.mean(e-7*P, e))))
	}
	return x
}
