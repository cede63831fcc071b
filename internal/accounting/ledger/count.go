package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
)

// besideOf is the zone by whose intensities those of a zone are stated too; "" for none.
func (s *Settler) besideOf(zone string) string {
	if z := s.zones[zone]; z != nil {
		return z.beside
	}
	return ""
}

// withheld says why emissions over a time without an intensity are not stated; "" for none.
func withheld(unknown time.Duration) string {
	if unknown <= 0 {
		return ""
	}
	return fmt.Sprintf("%.4g h have no known carbon intensity, nor has the same hour of any day within %.0f days: emissions over them would be invented", unknown.Hours(), carbon.FillReach.Hours()/24)
}

// beside counts both sides by the intensities beside those that were planned with; nil where there are none.
func (s *Settler) beside(b *Settled, stretches []account.Stretch, measured []account.Measured) *Beside {
	zone := s.besideOf(b.Of.Zone)
	if zone == "" {
		return nil
	}
	series := func(zone string) *carbon.Series { return s.series(s.besideOf(zone)) }
	c := &b.Counterfactual
	u := account.Use(stretches, measured, series)
	as := account.Use([]account.Stretch{{From: c.From, To: c.To, Zone: c.Zone, Watts: c.Watts}}, nil, series)
	out := &Beside{Zone: zone, FilledSeconds: (u.Filled + as.Filled).Seconds(), MissingSeconds: (u.Unknown + as.Unknown).Seconds(), Withheld: withheld(u.Unknown + as.Unknown)}
	if out.Withheld == "" {
		out.Grams, out.AsSubmittedGrams, out.SavedGrams = u.Grams, as.Grams, as.Grams-u.Grams
	}
	out.Signal, out.Factor = s.signal(zone, b.From)
	return out
}

// sources say how far energy may be off at 90 %, a share, by who measures it: Kepler and DCGM by what
// evaluations of them report, Slurm as Kepler, as both mostly read RAPL, the model of a power per core by how widely servers differ.
var sources = map[string]float64{"dcgm": 0.05, "kepler": 0.15, "slurm": 0.15, "model": 0.4}

// count sums both sides. The emissions of both rest on all of their time: time without an
// intensity is filled by carbon.FillRule, and where that has no value either, none is stated.
func (s *Settler) count(b *Settled, w *work, stretches []stretch) {
	var measured []account.Measured
	by := map[string]float64{}
	for _, e := range w.energy {
		measured = append(measured, account.Measured{From: e.From, To: e.To, Zone: e.Zone, KWh: e.KWh, Modelled: e.ModelKWh, Source: e.Source})
	}
	measured = account.Apart(measured)
	for i := range measured {
		share(by, &measured[i])
	}
	ran := make([]account.Stretch, len(stretches))
	for i := range stretches {
		ran[i] = stretches[i].Stretch
	}
	u := account.Use(ran, measured, s.series)
	b.Method, b.KWh, b.MeasuredKWh = account.Method, u.KWh, u.MeasuredKWh
	b.Sources, b.Uncertainty = uncertainty(by, u.KWh-u.MeasuredKWh)
	c := &b.Counterfactual
	c.Watts = w.watts(stretches)
	if u.ModelKWh > 0 {
		c.Watts *= u.KWh / u.ModelKWh // as far off the model as the work itself was
	}
	as := account.Use([]account.Stretch{{From: c.From, To: c.To, Zone: c.Zone, Watts: c.Watts}}, nil, s.series)
	c.KWh = as.KWh
	b.FilledSeconds, c.FilledSeconds = u.Filled.Seconds(), as.Filled.Seconds()
	b.MissingSeconds, b.Withheld = (u.Unknown + as.Unknown).Seconds(), withheld(u.Unknown+as.Unknown)
	b.Grams, c.Grams, b.SavedGrams = 0, 0, 0
	if b.Withheld == "" {
		b.Grams, c.Grams, b.SavedGrams = u.Grams, as.Grams, as.Grams-u.Grams
	}
	b.Signal, b.Factor = s.signal(w.of.Zone, b.From)
	b.Beside = s.beside(b, ran, measured)
	b.Refused = false
	if w.quarantined != "" {
		b.refuse(inQuarantine(w.quarantined))
	} else if why := b.impossible(); why != "" {
		b.refuse(why)
	}
	b.After, b.Zones = s.after, zonesOf(b, stretches)
}

// share adds the energy of a reading, except what the model says of it, to the sources that it names. It counts
// for the least certain of them: a reading does not state the shares of those that measure.
func share(by map[string]float64, m *account.Measured) {
	least := ""
	for _, source := range strings.Split(m.Source, "+") {
		if source == "model" && m.Modelled > 0 {
			continue
		}
		by[source] += 0 // to name it
		if least == "" || off(source) > off(least) {
			least = source
		}
	}
	by[least] += m.KWh - m.Modelled
}

// off is how far energy by a source may be off at 90 %, a share.
func off(source string) float64 {
	if share, stated := sources[source]; stated {
		return share
	}
	return sources["model"]
}

// uncertainty returns the sources of energy, in order, and how far their sum may be off at
// 90 %, a share. by is the energy measured by each source, model that of the power model.
func uncertainty(by map[string]float64, model float64) (names []string, share float64) {
	if model > 0 {
		by["model"] += model
	}
	names = slices.Sorted(maps.Keys(by))
	total := 0.0
	for _, source := range names { // in order, so that equal entries give equal sums
		share += off(source) * by[source]
		total += by[source]
	}
	if total > 0 {
		share /= total
	}
	return names, share
}

// signal is what the intensities of a zone count at a time; where it has none then, at the
// nearest time that it has.
func (s *Settler) signal(zone string, at time.Time) (signal, factor string) {
	z := s.zones[zone]
	if z == nil {
		return "", ""
	}
	var nearest Intensity
	least := time.Duration(-1)
	for _, b := range z.of {
		off := max(0, b.From.Sub(at), at.Sub(b.To)+1)
		if least < 0 || off < least || off == least && b.From.Before(nearest.From) {
			nearest, least = b, off
		}
	}
	return nearest.Signal, nearest.Factor
}

// oldest returns the begin of the first intensity of each zone; nil where nothing was
// dropped, so that all that were ever written are there.
func (s *Settler) oldest() map[string]time.Time {
	if !s.dropped {
		return nil
	}
	out := map[string]time.Time{}
	for name, z := range s.zones {
		for _, b := range z.of {
			if first, there := out[name]; !there || b.From.Before(first) {
				out[name] = b.From
			}
		}
	}
	return out
}
