package ledger

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
)

// past is a settled workload: what says whether an intensity may concern it. Of a hundred thousand of them, no more is kept.
type past struct {
	uid string
	// zone is whose time it was submitted in. zones are those by whose intensities it is counted; nil if its entry does not say, so that they may be any.
	zone  string
	zones []string
	// from its submission or first start to its end, as it ran or as submitted (seconds).
	from, to int64
	// after is the number of the last entry that its figures rest on.
	after int64
	// incomplete says that some of its time had no known intensity, outdated that it was settled by a method that left that out.
	incomplete, outdated bool
	// gone says that it is no longer one of pasts.
	gone bool
}

// everyDay is where pasts has workloads that took more than mostDays.
const (
	everyDay = math.MinInt64
	mostDays = 100
)

// anyZone is where pasts has workloads whose zones are not known.
const anyZone = ""

const secondsOfDay = 24 * secondsOfHour

// pasts are settled workloads, by UID, and by zone and by each day (since 1970) from their submission to their end.
type pasts struct {
	of    map[string]*past
	by    map[string]map[int64][]*past
	lists map[string][]string // of zones: a hundred thousand workloads share a few
}

func newPasts() *pasts {
	return &pasts{of: map[string]*past{}, by: map[string]map[int64][]*past{}, lists: map[string][]string{}}
}

// set puts a workload in the place of the one with its UID. Complexity: O(its days x its zones).
func (ps *pasts) set(p *past) {
	if p.zones != nil {
		key := strings.Join(p.zones, "\n")
		if ps.lists[key] == nil {
			ps.lists[key] = p.zones
		}
		p.zones = ps.lists[key]
	}
	if before := ps.of[p.uid]; before != nil {
		if before.from == p.from && before.to == p.to && slices.Equal(before.zones, p.zones) {
			*before = *p
			return
		}
		before.gone = true
	}
	ps.of[p.uid] = p
	ps.index(p)
}

func (ps *pasts) index(p *past) {
	zones := p.zones
	if zones == nil {
		zones = []string{anyZone}
	}
	for _, zone := range zones {
		if ps.by[zone] == nil {
			ps.by[zone] = map[int64][]*past{}
		}
		if p.to-p.from > mostDays*secondsOfDay {
			ps.by[zone][everyDay] = append(ps.by[zone][everyDay], p)
			continue
		}
		for day := p.from / secondsOfDay; day*secondsOfDay < p.to; day++ {
			ps.by[zone][day] = append(ps.by[zone][day], p)
		}
	}
}

// forget drops workloads. Complexity: O(all).
func (ps *pasts) forget(which func(*past) bool) {
	before := len(ps.of)
	maps.DeleteFunc(ps.of, func(_ string, p *past) bool { return which(p) })
	if len(ps.of) == before {
		return
	}
	ps.by, ps.lists = map[string]map[int64][]*past{}, map[string][]string{}
	for _, p := range ps.of {
		if p.zones != nil {
			ps.lists[strings.Join(p.zones, "\n")] = p.zones
		}
		ps.index(p)
	}
}

// setSettled notes that a workload is settled, and forgets what it rests on.
func (s *Settler) setSettled(uid string, b *Settled) {
	first, last := b.From, b.To
	for _, at := range []time.Time{b.Of.At, b.Counterfactual.From} {
		if at.Before(first) {
			first = at
		}
	}
	if b.Counterfactual.To.After(last) {
		last = b.Counterfactual.To
	}
	p := &past{
		uid: uid, zone: b.Of.Zone, zones: b.Zones, from: first.Unix(), to: last.Unix() + 1, after: b.After,
		incomplete: b.incomplete(), outdated: b.Method != account.Method && b.leavesOut(),
	}
	s.past.set(p)
	s.outdated = s.outdated || p.outdated
	delete(s.works, uid)
}

// zonesOf are the zones by whose intensities a workload is counted, beside those that other zones name.
func zonesOf(b *Settled, stretches []stretch) []string {
	zones := []string{b.Of.Zone, b.Counterfactual.Zone}
	for i := range stretches {
		zones = append(zones, stretches[i].Zone)
	}
	slices.Sort(zones)
	zones = slices.DeleteFunc(slices.Compact(zones), func(zone string) bool { return zone == "" })
	if len(zones) == 0 {
		return nil
	}
	return slices.Clip(zones)
}

// hours are times of intensities, by hours since 1970: the number of the last entry that touches each.
type hours map[int64]int64

const secondsOfHour = int64(time.Hour / time.Second)

func (h hours) add(from, to time.Time, seq int64) {
	for at := from.Unix() / secondsOfHour; at*secondsOfHour < to.Unix(); at++ {
		h[at] = max(h[at], seq)
	}
}

// touch says whether an entry later than one touches a stretch of seconds.
func (h hours) touch(from, to, after int64) bool {
	for at := from / secondsOfHour; len(h) > 0 && at*secondsOfHour < to; at++ {
		if h[at] > after {
			return true
		}
	}
	return false
}

// news are the times at which the intensity of a zone is another than before: own are those of intensities that came, filled those
// without an intensity for which one of them stands in by carbon.FillRule.
type news struct{ own, filled hours }

// newsOf returns the news of each zone.
//
// Complexity: O(new intensities x days of carbon.FillReach x log(intensities)).
func (s *Settler) newsOf() map[string]news {
	out := map[string]news{}
	for _, list := range [][]published{s.revised, s.arrived} {
		for i := range list {
			x := &list[i]
			n, there := out[x.Zone]
			if !there {
				n = news{hours{}, hours{}}
				out[x.Zone] = n
			}
			series, to := s.series(x.Zone), x.until
			n.own.add(x.From, to, x.seq)
			for days := -maxFillDays; days <= maxFillDays; days++ {
				if days != 0 && standsIn(series, x.From, to, days) {
					shift := time.Duration(days) * 24 * time.Hour
					n.filled.add(x.From.Add(shift), to.Add(shift), x.seq)
				}
			}
		}
	}
	return out
}

// maxFillDays is how many days away an intensity may stand in.
const maxFillDays = int(carbon.FillReach / (24 * time.Hour))

// standsIn says whether an intensity may stand in for one that is missing so many days later: false where none is missing, or where
// carbon.FillRule takes the value of another day.
func standsIn(series *carbon.Series, from, to time.Time, days int) bool {
	if series.Len() == 0 { // forgotten since
		return false
	}
	known := func(day int) bool {
		shift := time.Duration(day) * 24 * time.Hour
		_, known := series.Mean(from.Add(shift), to.Add(shift))
		return known == to.Sub(from)
	}
	if known(days) {
		return false
	}
	// The days that the rule prefers, counted from the intensity: those between, and all earlier ones if it is of a later day.
	for back := 1; back <= maxFillDays; back++ {
		if day := days - back; day == 0 {
			return true
		} else if known(day) {
			return false
		}
	}
	for day := days + 1; day < 0; day++ {
		if known(day) {
			return false
		}
	}
	return true
}

// cut notes how far intensities change what was known: one that began before another ends where that begins, so what it had after that may be missing now.
func (s *Settler) cut() {
	for _, list := range [][]published{s.revised, s.arrived, s.refined} {
		for i := range list {
			x := &list[i]
			series := s.series(x.Zone)
			if k := series.IndexAt(x.From); k > 0 {
				if before := s.zones[x.Zone].of[series.Sample(k-1).From.Unix()]; before.To.After(x.until) {
					x.until = before.To
				}
			}
		}
	}
}

// concerned returns the settled workloads that intensities may concern, in order: those that are counted by a zone with news, at a time of
// these. Those with a known intensity for all of their time are not concerned by what stands in for one.
//
// Complexity: that of newsOf, and O(workloads that are counted by these zones on the days of the news, and their hours).
func (s *Settler) concerned() (uids []string) {
	if !s.outdated && len(s.revised)+len(s.arrived) == 0 {
		return nil
	}
	found := map[string]bool{}
	if s.outdated {
		for uid, p := range s.past.of {
			if p.outdated {
				found[uid] = true
			}
		}
	}
	s.cut()
	fresh := s.newsOf()
	for zone, byDay := range s.past.by {
		for other, n := range fresh {
			if zone != anyZone && zone != other && s.besideOf(zone) != other {
				continue
			}
			days := map[int64]bool{everyDay: true}
			for _, h := range []hours{n.own, n.filled} {
				for hour := range h {
					days[hour*secondsOfHour/secondsOfDay] = true
				}
			}
			for day := range days {
				for _, p := range byDay[day] {
					if !p.gone && !found[p.uid] && (n.own.touch(p.from, p.to, p.after) || p.incomplete && n.filled.touch(p.from, p.to, p.after)) {
						found[p.uid] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
