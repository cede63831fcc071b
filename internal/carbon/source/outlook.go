package source

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/zones"
)

// How far intensities may be off, as factors, where no past errors tell.
var (
	unknownForecast    = forecast.Spread{Low: 0.7, High: 1.4}
	unknownClimatology = forecast.Spread{Low: 0.4, High: 1.8}
)

const (
	// past is how much history an outlook carries along.
	past = 8 * 24 * time.Hour
	// ownLeads is how far, in hours, the own forecast reaches beyond the history.
	ownLeads = 6 * 24
	// learnFrom is the longest history, in hours, that the own forecast learns from, and
	// learnAtMost when it drops the older part; between the two it goes on with
	// what it has learnt. learnLong and learnLongAtMost are those of the regression with weather.
	learnFrom, learnAtMost     = 90 * 24, 120 * 24
	learnLong, learnLongAtMost = 365 * 24, 395 * 24
	// liveFor is how many refreshes a forecast counts as live.
	liveFor = 3
)

// Outlook is what is known of a zone at a moment, and how.
type Outlook struct {
	carbon.Outlook
	// Basis is what the hours to come rest on, at first.
	Basis carbon.Basis
	// Source names it in words.
	Source string
	// IssuedAt is when the forecast in use was published or made.
	IssuedAt time.Time
	// Newest is the newest information there is: a measured value or a forecast.
	Newest time.Time
	// Stale: Newest is older than the zone accepts.
	Stale bool
	// Degraded: the outlook rests on less than the source should give; Why says
	// what is missing.
	Degraded bool
	Why      string
	// MAPE is the recent mean absolute percentage error (a share) of forecasts a
	// day ahead on the present basis, over Scored values; 0 of 0 if not known.
	MAPE   float64
	Scored int
	// Revisions counts values that the provider has changed after the fact.
	Revisions int
	// Err is why the last refresh failed, if it did.
	Err error
}

// piece is a sample with its error bars.
type piece struct {
	carbon.Sample
	low, high float64
}

// Outlook composes what is known at now, for a zone configured as cfg says (as the
// feed was last configured, if cfg has no key): what was measured, then for each
// moment to come the best there is of the provider's forecast, the own forecast
// from history, climatology, and the declared constant.
//
// Complexity: O(n log n) for n samples, and the own forecast's cost for each new
// hour of history.
func (f *Feed) Outlook(now time.Time, cfg Config) Outlook {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cfg.Key == "" {
		cfg = f.cfg
	}
	cfg = cfg.withDefaults()
	o := Outlook{Err: f.lastErr, Revisions: f.revisions}
	end := now.Add(cfg.Horizon)
	measured := f.measured(now)
	published, live := f.publishedPieces(now, cfg)
	all := measured
	from := now
	if n := len(measured); n > 0 && measured[n-1].To.Before(now) {
		from = measured[n-1].To // what has happened and is not published yet
	}
	if floor := now.Add(-48 * time.Hour); from.Before(floor) {
		from = floor
	}
	all = fill(all, published, from, end)
	if open(all, from, end) {
		all = fill(all, f.ownPieces(), from, end)
	}
	if open(all, from, end) {
		all = fill(all, f.climatology(from, end), from, end)
	}
	if open(all, from, end) {
		all = fill(all, f.constant(cfg.Constant, from, end), from, end)
	}
	o.Newest = f.newest(measured)
	o.Stale = o.Newest.IsZero() || now.Sub(o.Newest) > cfg.StaleAfter
	f.judge(&o, all, now, live)
	f.compose(&o, all)
	o.Paths = f.paths(o.Basis)
	o.Earlier = f.earlier(now)
	return o
}

// measured are the samples of the past, as far as an outlook carries them.
func (f *Feed) measured(now time.Time) []piece {
	history := f.history
	if f.series != nil {
		history = f.seriesPart(func(x carbon.Sample) bool { return !x.From.After(now) })
	}
	prov := f.provenance(carbon.Measured, "", time.Time{})
	var out []piece
	for _, x := range after(history, now.Add(-past)) {
		x = measuredSample(x, prov)
		out = append(out, piece{x, float64(x.Value), float64(x.Value)})
	}
	return out
}

// measuredSample is a sample of the history with the provenance that it has in an outlook.
func measuredSample(x carbon.Sample, unless *carbon.Provenance) carbon.Sample {
	if x.Of == nil {
		x.Of = unless
		return x
	}
	of := *x.Of
	of.Basis = carbon.Measured
	x.Of = &of
	return x
}

// seriesPart are the samples of a series set by SetSeries that fit.
func (f *Feed) seriesPart(keep func(carbon.Sample) bool) []carbon.Sample {
	var out []carbon.Sample
	for i := range f.series.Len() {
		if x := f.series.Sample(i); keep(x) {
			out = append(out, x)
		}
	}
	return out
}

// publishedPieces are the provider's forecast with error bars from its past errors at
// each lead time, which grow as it ages; live says whether it is as fresh as it
// should be.
func (f *Feed) publishedPieces(now time.Time, cfg Config) (_ []piece, live bool) {
	if f.series != nil {
		// A recorded series stands for the truth; nothing tells how far it is off.
		samples := f.seriesPart(func(x carbon.Sample) bool { return x.From.After(now) })
		prov := f.provenance(carbon.LiveForecast, f.series.Source, f.series.IssuedAt)
		out := make([]piece, len(samples))
		for i, x := range samples {
			x.Of = prov
			out[i] = piece{x, float64(x.Value), float64(x.Value)}
		}
		return out, true
	}
	if len(f.forecast) == 0 {
		return nil, false
	}
	renewed := f.failures == 0 || f.fetchedAt.Equal(f.lastAttempt) // the past may have failed alone
	live = renewed && now.Sub(f.fetchedAt) <= liveFor*f.cfg.Refresh && now.Sub(f.issuedAt) <= cfg.StaleAfter
	basis := carbon.LiveForecast
	if !live {
		basis = carbon.CachedForecast
	}
	prov := *f.forecast[0].Of
	prov.Basis, prov.IssuedAt = basis, f.issuedAt
	out := make([]piece, 0, len(f.forecast))
	for _, x := range f.forecast {
		lead := max(0, int(x.From.Sub(f.issuedAt)/time.Hour))
		if lead >= maxLeads {
			break
		}
		x.Of = &prov
		b := f.errors.Around([]float64{float64(x.Value)}, lead, unknownForecast)
		out = append(out, piece{x, b.Low[0], b.High[0]})
	}
	return out, live
}

// newest is when the newest information is from.
func (f *Feed) newest(measured []piece) time.Time {
	if f.series != nil {
		return f.series.End()
	}
	at := f.issuedAt
	if n := len(measured); n > 0 && measured[n-1].To.After(at) {
		at = measured[n-1].To
	}
	return at
}

// judge says what the hours to come rest on and whether that is less than the
// source should give.
func (f *Feed) judge(o *Outlook, all []piece, now time.Time, live bool) {
	i := sort.Search(len(all), func(i int) bool { return all[i].From.After(now) })
	if i == len(all) {
		i--
	}
	if i >= 0 {
		o.Basis, o.Source, o.IssuedAt = all[i].Of.Basis, all[i].Of.Source, all[i].Of.IssuedAt
	}
	switch o.Basis {
	case carbon.OwnForecast:
		o.MAPE, o.Scored = f.own.blend.Accuracy(24)
	case carbon.LiveForecast, carbon.CachedForecast:
		o.MAPE, o.Scored = f.errors.MAPE(24)
	}
	best := carbon.OwnForecast
	if f.series != nil || (f.cfg.Provider != nil && f.cfg.Provider.Forecasts() && !f.refused) {
		best = carbon.LiveForecast
	}
	switch {
	case f.failures > 0 || (f.cfg.Provider == nil && f.lastErr != nil):
		o.Degraded, o.Why = true, fmt.Sprint(f.lastErr)
		if f.failures > 0 && o.Basis != "" {
			o.Why += fmt.Sprintf("; the hours to come rest on %s", o.Basis)
		}
	case best == carbon.LiveForecast && !live:
		o.Degraded, o.Why = true, "the provider has published no new forecast"
	case o.Basis != best && o.Basis != carbon.Measured:
		o.Degraded, o.Why = true, fmt.Sprintf("the hours to come rest on %s", o.Basis)
	case f.past.err != nil:
		o.Degraded, o.Why = true, fmt.Sprintf("the own forecast knows less weather than it should: %v", f.past.err)
	}
}

// compose builds the three series.
func (f *Feed) compose(o *Outlook, all []piece) {
	if len(all) == 0 {
		return
	}
	build := func(value func(piece) float64) *carbon.Series {
		samples := make([]carbon.Sample, len(all))
		for i, p := range all {
			samples[i] = p.Sample
			// A forecast, or its upper quantile, may lie beyond what any grid emits.
			samples[i].Value = min(units.CarbonIntensity(value(p)), units.MaxCarbonIntensity)
		}
		s, err := carbon.NewSeries(*f.provenance(o.Basis, o.Source, o.IssuedAt), samples)
		if err != nil {
			o.Err = errors.Join(o.Err, err)
			return nil
		}
		return s
	}
	o.Expected = build(func(p piece) float64 { return float64(p.Value) })
	o.Low = build(func(p piece) float64 { return p.low })
	o.High = build(func(p piece) float64 { return p.high })
}

func (f *Feed) provenance(basis carbon.Basis, source string, issued time.Time) *carbon.Provenance {
	return &carbon.Provenance{Zone: f.cfg.Zone, Signal: f.cfg.Signal, Factor: f.cfg.Factor, Source: source, IssuedAt: issued, Basis: basis}
}

// open reports whether [from, to) has gaps.
func open(all []piece, from, to time.Time) bool {
	at := from
	for _, p := range all {
		if p.From.After(at) {
			break
		}
		if p.To.After(at) {
			at = p.To
		}
	}
	return at.Before(to)
}

// fill puts the parts of more that lie in gaps of all within [from, to).
func fill(all, more []piece, from, to time.Time) []piece {
	if len(more) == 0 {
		return all
	}
	out := append([]piece(nil), all...)
	add := func(gapFrom, gapTo time.Time) {
		i := sort.Search(len(more), func(i int) bool { return more[i].To.After(gapFrom) })
		for ; i < len(more) && more[i].From.Before(gapTo); i++ {
			p := more[i]
			if p.From.Before(gapFrom) {
				p.From = gapFrom
			}
			if p.To.After(gapTo) {
				p.To = gapTo
			}
			out = append(out, p)
		}
	}
	at := from
	for _, p := range all {
		if p.From.After(at) && at.Before(to) {
			end := p.From
			if end.After(to) {
				end = to
			}
			add(at, end)
		}
		if p.To.After(at) {
			at = p.To
		}
	}
	if at.Before(to) {
		add(at, to)
	}
	sort.SliceStable(out, func(a, b int) bool { return out[a].From.Before(out[b].From) })
	return out
}

// climatology is what is usual, with error bars from how far the recent past was
// from it. It is of average life-cycle intensities and stands for no others.
func (f *Feed) climatology(from, to time.Time) []piece {
	if f.cfg.Signal != carbon.Average || f.cfg.Factor == carbon.Direct {
		return nil
	}
	s, err := climatology.Series(f.cfg.Zone, from, to)
	if err != nil {
		return nil // a zone that it does not know
	}
	errs := forecast.NewErrors(1)
	for _, x := range after(f.history, from.Add(-30*24*time.Hour)) {
		if usual, err := climatology.Series(f.cfg.Zone, x.From, x.To); err == nil && usual.Len() > 0 {
			errs.Add(0, float64(usual.Sample(0).Value), float64(x.Value))
		}
	}
	prov := f.provenance(carbon.Climatology, climatology.Source, time.Time{})
	out := make([]piece, s.Len())
	for i := range out {
		x := s.Sample(i)
		x.Of = prov
		b := errs.Around([]float64{float64(x.Value)}, 0, unknownClimatology)
		out[i] = piece{x, b.Low[0], b.High[0]}
	}
	return out
}

func (f *Feed) constant(c *Constant, from, to time.Time) []piece {
	if c == nil {
		return nil
	}
	prov := f.provenance(carbon.Constant, "declared constant", time.Time{})
	var out []piece
	for at := from; at.Before(to); {
		next := at.Truncate(time.Hour).Add(time.Hour)
		out = append(out, piece{carbon.Sample{From: at, To: next, Value: units.CarbonIntensity(c.Value), Estimated: true, Of: prov}, c.Low, c.High})
		at = next
	}
	return out
}

// ownForecast is the forecast from the zone's own past, made anew whenever the
// past has grown by an hour or was revised.
type ownForecast struct {
	blend  *forecast.Blend
	start  time.Time
	values []float64
	wind   time.Time // end of the weather that was used
	months int       // of past weather that were used
	pieces []piece
	paths  *carbon.Paths // as long as the pieces; nil while too few errors are known
}

func (f *Feed) ownPieces() []piece {
	history := f.history
	if f.series != nil {
		history = f.seriesPart(func(carbon.Sample) bool { return true })
	}
	if len(history) == 0 {
		return nil
	}
	end := history[len(history)-1].To.Truncate(time.Hour)
	s, err := carbon.NewSeries(carbon.Provenance{}, history)
	if err != nil {
		return nil
	}
	if f.own.blend == nil || f.own.months != len(f.past.months) { // with weather of other months, all was learnt from other weather
		f.own = ownForecast{blend: forecast.NewBlend(), months: len(f.past.months)}
	}
	most, atMost := learnFrom, learnAtMost
	if f.cfg.Weather != nil {
		f.own.blend.Window = learnFrom / 24
		most, atMost = learnLong, learnLongAtMost
	}
	// The start moves rarely: what has been learnt stands for one start.
	start := f.own.start
	if start.Before(s.Start().Add(-time.Hour)) || start.IsZero() || s.Start().Before(start.Add(-time.Hour)) && end.Sub(start) < hours(most) || end.Sub(start) > hours(atMost) {
		start = s.Start().Truncate(time.Hour)
		if floor := end.Add(-hours(most)); start.Before(floor) {
			start = floor
		}
	}
	n := int(end.Sub(start) / time.Hour)
	if n < 24 {
		return nil
	}
	h, err := forecast.FromSeries(s, end, time.Hour, n)
	if err != nil {
		return nil
	}
	if same(f.own.values, h.Values) && f.own.start.Equal(start) && f.own.wind.Equal(weatherEnd(f.weather)) {
		return f.own.pieces
	}
	h.Location, _ = zones.Clock(f.cfg.Zone)
	h.Weather = f.weatherOn(start, n+ownLeads)
	band, err := f.own.blend.Band(h, ownLeads)
	f.own.start, f.own.values, f.own.wind, f.own.pieces, f.own.paths = start, h.Values, weatherEnd(f.weather), nil, nil
	if err != nil {
		return nil
	}
	prov := f.provenance(carbon.OwnForecast, "own forecast from "+f.sourceName(), end)
	for i, v := range band.Expected {
		at := end.Add(time.Duration(i) * time.Hour)
		f.own.pieces = append(f.own.pieces, piece{
			carbon.Sample{From: at, To: at.Add(time.Hour), Value: units.CarbonIntensity(v), Estimated: true, Of: prov}, band.Low[i], band.High[i],
		})
	}
	if paths, err := f.own.blend.Paths(h, ownLeads); err == nil {
		f.own.paths, _ = carbon.NewPaths(end, time.Hour, paths) // without paths if a value is not finite
	}
	return f.own.pieces
}

func hours(n int) time.Duration { return time.Duration(n) * time.Hour }

func (f *Feed) sourceName() string {
	if f.cfg.Provider != nil {
		return f.cfg.Provider.Provenance().Source
	}
	return f.series.Source
}

// same compares two histories, gaps included.
func same(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !(math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return false
		}
	}
	return true
}
