package source

import (
	"errors"
	"slices"
	"sort"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
)

const (
	day = 24 * time.Hour
	// againAtMost is how many days of the past are asked for again in a refresh.
	againAtMost = 20
	// againLeast is the least time between two requests for a day of the past that has gaps or estimates.
	againLeast = time.Hour
	// againShare is the share of its age that such a day waits: a value that is final after three days is asked for
	// within the next three hours, at whatever age.
	againShare = 24
	// refusedFor is how long nothing is asked for again after a refusal: the plan does not include the past.
	refusedFor = day
	// EarlierReach is how old the oldest earlier value of an outlook is: what is settled again ended in the last sixty
	// days, and may have run for a month.
	EarlierReach = 90 * day
)

// again returns the days before since that have gaps or estimates, or are not known at all, and are due: the newest ones of them, as
// intervals in order of time. So a history that the own forecast learns from with weather grows to a year, by some days at each
// refresh.
//
// Complexity: O(days + samples).
func (f *Feed) again(now, since time.Time) []carbon.Interval {
	if len(f.history) == 0 || now.Before(f.againAfter) {
		return nil
	}
	first := now.Add(-historyWanted)
	if f.cfg.Weather != nil {
		first = now.Add(-hours(learnLong))
	}
	if f.history[0].From.Before(first) {
		first = f.history[0].From
	}
	var out []carbon.Interval
	for end, n := since, 0; end.After(first) && n < againAtMost; {
		begin := end.Add(-1).Truncate(day)
		if f.dueAgain(now, begin) && !f.final(begin, end) {
			n++
			// Days that failed are asked for one by one: one of them may spoil the others.
			alone := f.asked[begin.Unix()].Failed
			if k := len(out); k > 0 && out[k-1].From.Equal(end) && !alone && !f.asked[end.Unix()].Failed {
				out[k-1].From = begin
			} else {
				out = append(out, carbon.Interval{From: begin, To: end})
			}
		}
		end = begin
	}
	slices.Reverse(out)
	return out
}

// dueAgain says whether a day was last asked for long enough ago.
func (f *Feed) dueAgain(now, begin time.Time) bool {
	wait := max(againLeast, now.Sub(begin.Add(day))/againShare)
	return now.Sub(f.asked[begin.Unix()].At) >= wait
}

// final says whether all of [from, to) is known, and none of it an estimate.
func (f *Feed) final(from, to time.Time) bool {
	i := sort.Search(len(f.history), func(i int) bool { return f.history[i].To.After(from) })
	for at := from; at.Before(to); i++ {
		if i == len(f.history) || f.history[i].From.After(at) || f.history[i].Estimated {
			return false
		}
		at = f.history[i].To
	}
	return true
}

// asked is when a day was last asked for, and whether that failed.
type asked struct {
	At     time.Time
	Failed bool `json:",omitempty"`
}

// noteAsked keeps when the days of a query were asked for, and which of them failed. A day of which a part was left out is
// due again as before.
func (f *Feed) noteAsked(q provider.Query, bad []provider.BadSpan) {
	if f.asked == nil {
		f.asked = map[int64]asked{}
	}
	for _, x := range append(slices.Clone(q.Again), carbon.Interval{From: q.Since, To: q.Now}) {
		begin := x.From.Truncate(day)
		if begin.Before(x.From) {
			begin = begin.Add(day)
		}
		for ; begin.Before(x.To); begin = begin.Add(day) {
			f.asked[begin.Unix()] = asked{q.Now, slices.ContainsFunc(bad, func(b provider.BadSpan) bool {
				return b.From.Before(begin.Add(day)) && begin.Before(b.To)
			})}
		}
	}
	for at := range f.asked {
		if at < q.Now.Add(-historyKept).Unix() {
			delete(f.asked, at)
		}
	}
}

// noteBad keeps that the past is refused.
func (f *Feed) noteBad(bad []provider.BadSpan, now time.Time) {
	for _, x := range bad {
		if errors.Is(x.Err, fetch.ErrRefused) {
			f.againAfter = now.Add(refusedFor)
		}
	}
}

// earlier are the values of the history from before the past of an outlook, as they are now.
//
// Complexity: O(log samples), and O(samples) if one has changed since the last call.
func (f *Feed) earlier(now time.Time) []carbon.Sample {
	list := after(f.history, now.Add(-EarlierReach))
	list = list[:len(list)-len(after(list, now.Add(-past)))]
	e := &f.handedOn
	if n := len(list); n == 0 {
		*e = handedOn{}
	} else if e.changes != f.changes || len(e.samples) != n || !e.samples[0].From.Equal(list[0].From) {
		prov := f.provenance(carbon.Measured, "", time.Time{})
		*e = handedOn{f.changes, make([]carbon.Sample, n)}
		for i, x := range list {
			e.samples[i] = measuredSample(x, prov)
		}
	}
	return e.samples
}

// handedOn are the values that earlier has made of the history as it was after a number of changes.
type handedOn struct {
	changes int
	samples []carbon.Sample
}
