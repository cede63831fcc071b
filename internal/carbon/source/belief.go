package source

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
)

const (
	// unheardOf is how many times above the most, or below the least, that a zone ever had a value must be so that it is
	// not believed.
	unheardOf = 10.0
	// nearZero, gCO2eq/kWh: a zone that had values below it may well have a zero.
	nearZero = 10.0
	// leastMost is the least value that counts as the most a zone ever had: ten times nothing is nothing.
	leastMost = 50.0
	// longHistory is how much of the past tells what a zone has; with less, the answer itself and climatology count too.
	longHistory = 7 * 24 * time.Hour
	// commonShare is the share of the values of a first answer that are left out at both ends: an outage may be among them.
	commonShare = 0.05
)

// vet refuses an answer as a whole that cannot be true.
func (f *Feed) vet(a provider.Answer, now time.Time) error {
	if n := len(a.Past); n > 0 {
		last := a.Past[n-1]
		if limit := now.Add(last.To.Sub(last.From) + clockTolerance); last.To.After(limit) {
			return fmt.Errorf("%w: the source states a value of the past until %s, but the time is %s", ErrClock, last.To.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	if len(a.Forecast) > 0 {
		if at := a.Forecast[0].Of.IssuedAt; at.After(now.Add(clockTolerance)) {
			return fmt.Errorf("%w: the source states a forecast issued at %s, but the time is %s", ErrClock, at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	if len(f.history) == 0 {
		return nil
	}
	known, err := carbon.NewSeries(carbon.Provenance{}, f.history)
	if err != nil {
		return err
	}
	var ratios []float64
	for _, x := range a.Past {
		if mean, covered := known.Mean(x.From, x.To); covered > 0 && mean > 0 && x.Value > 0 {
			ratios = append(ratios, float64(x.Value/mean))
		}
	}
	if len(ratios) < 3 {
		return nil
	}
	sort.Float64s(ratios)
	if r := ratios[len(ratios)/2]; r > implausible || r < 1/implausible {
		return fmt.Errorf("%w: the values of the same hours are %.3g times the earlier ones; has the unit changed?", ErrImplausible, r)
	}
	return nil
}

// doubt takes the values out of an answer that are far from all that the zone has ever had, as those of an outage
// are, and returns an error that names them.
func (f *Feed) doubt(a *provider.Answer, now time.Time) error {
	least, most, known := f.usualRange(a.Past, now)
	if !known {
		return nil
	}
	var first *carbon.Sample
	n := 0
	doubtful := func(x carbon.Sample) bool {
		v := float64(x.Value)
		low := f.cfg.Signal != carbon.Marginal && least > nearZero && v < least/unheardOf
		if !low && v <= unheardOf*max(most, leastMost) {
			return false
		}
		if n++; first == nil {
			first = &x
		}
		return true
	}
	// The slices may be the provider's own.
	a.Past = slices.DeleteFunc(slices.Clone(a.Past), doubtful)
	a.Forecast = slices.DeleteFunc(slices.Clone(a.Forecast), doubtful)
	if first == nil {
		return nil
	}
	return fmt.Errorf("%w: %.3g gCO2eq/kWh from %s, and %d more values; the zone has had %.3g to %.3g", ErrImplausible, float64(first.Value), first.From.UTC().Format(time.RFC3339), n-1, least, most)
}

// usualRange is the least and the most that the zone has ever had, gCO2eq/kWh. A short history is
// complemented by climatology and by most of the answer: zeros, and a share of the others at both ends, are left out.
func (f *Feed) usualRange(answer []carbon.Sample, now time.Time) (least, most float64, known bool) {
	least, most = math.Inf(1), math.Inf(-1)
	add := func(v float64) { least, most = min(least, v), max(most, v) }
	covered := time.Duration(0)
	for _, x := range f.history {
		add(float64(x.Value))
		covered += x.To.Sub(x.From)
	}
	if covered < longHistory {
		var values []float64
		for _, x := range answer {
			if x.Value > 0 {
				values = append(values, float64(x.Value))
			}
		}
		sort.Float64s(values)
		if k := int(commonShare * float64(len(values))); len(values) >= 24 {
			add(values[k])
			add(values[len(values)-1-k])
		}
		if f.cfg.Signal == carbon.Average && f.cfg.Factor != carbon.Direct {
			if s, err := climatology.Series(f.cfg.Zone, now.AddDate(-1, 0, 0), now); err == nil {
				for i := range s.Len() {
					add(float64(s.Sample(i).Value))
				}
			}
		}
	}
	return least, most, most >= 0
}
