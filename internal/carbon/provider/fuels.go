package provider

import (
	"maps"
	"time"
)

// Fuels is in how many hours a zone reported each type of generation. It is kept with the feed: one answer may be short,
// and its newest hours are still being filled.
type Fuels struct {
	// Hours are those that were counted, Of those in which a type was reported.
	Hours float64
	Of    map[string]float64
	// Until is the end of the last hour that was counted, so that each one counts once.
	Until time.Time
}

const (
	// usualShare is in which share of the hours a type must have been reported so that a slot without it
	// counts as incomplete.
	usualShare = 0.9
	// settledAfter is how old an hour must be to be counted: until then, types may be late.
	settledAfter = 48 * time.Hour
	// leastFuelHours are needed to judge by; with fewer, an answer is judged by itself.
	leastFuelHours = 24.0
	// mostFuelHours is when half of the hours are forgotten, so that a type which the zone has no more is missed for a few days only.
	mostFuelHours = 1000.0
)

// count returns f with the settled hours of slots that are new to it; f itself does not change.
func (f Fuels) count(slots []slotMix, now time.Time) Fuels {
	f.Of = maps.Clone(f.Of)
	if f.Of == nil {
		f.Of = map[string]float64{}
	}
	since := f.Until
	for _, x := range slots {
		if x.from.Before(since) || x.to.After(now.Add(-settledAfter)) {
			continue
		}
		f.add(x)
		f.Until = x.to
	}
	for f.Hours > mostFuelHours {
		f.Hours /= 2
		for kind := range f.Of {
			f.Of[kind] /= 2
		}
	}
	return f
}

func (f *Fuels) add(x slotMix) {
	hours := x.to.Sub(x.from).Hours()
	f.Hours += hours
	for kind := range x.mix {
		f.Of[kind] += hours
	}
}

// usual are the types with a factor that the zone nearly always reports.
func (f Fuels) usual(factors map[string]float64) []string {
	var out []string
	for kind, hours := range f.Of {
		if _, known := factors[kind]; known && hours >= usualShare*f.Hours {
			out = append(out, kind)
		}
	}
	return out
}

// judge marks the slots that lack a type which the zone usually reports: the provider is still filling them, so that their
// mean would be wrong. It returns what is known of the zone's fuels now.
func (f Fuels) judge(slots []slotMix, factors map[string]float64, now time.Time) Fuels {
	f = f.count(slots, now)
	of := f
	if f.Hours < leastFuelHours {
		of = Fuels{Of: map[string]float64{}}
		for _, x := range slots {
			of.add(x)
		}
	}
	usual := of.usual(factors)
	for i := range slots {
		for _, kind := range usual {
			if _, there := slots[i].mix[kind]; !there {
				slots[i].incomplete = true
			}
		}
	}
	return f
}
