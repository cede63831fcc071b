package source

import (
	"errors"
	"slices"
	"sort"
	"time"

	"lull.dev/lull/internal/source/fetch"
	"lull.dev/lull/internal/source/provider"
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
	// lateFor is how long an outlook carries values that came or changed when they were older than its past.
	lateFor = day
)

// again returns the days before since that have gaps or estimates and are due, the newest ones of them, as intervals in
// order of time.
//
// Complexity: O(days + samples).
func (f *Feed) again(now, since time.Time) []carbon.Interval {
	if len(f.history) == 0 || now.Before(f.againAfter) {
		return nil
	}
	first := now.Add(-historyWanted)
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

// late is a value that came or changed when it was older than the past of an outlook.
type late struct{ From, At time.Time }

// noteLate keeps which of some values, that are about to be merged, the outlook does not show any more.
func (f *Feed) noteLate(changed []carbon.Sample, now time.Time) {
	f.late = slices.DeleteFunc(f.late, func(x late) bool {
		return now.Sub(x.At) >= lateFor || slices.ContainsFunc(changed, func(c carbon.Sample) bool { return c.From.Equal(x.From) })
	})
	for _, x := range changed {
		if x.From.Before(now.Add(-past)) && x.From.After(f.history[0].From) {
			f.late = append(f.late, late{x.From, now})
		}
	}
}

// lateSamples are those values, as they are now.
func (f *Feed) lateSamples(now time.Time) []carbon.Sample {
	prov := f.provenance(carbon.Measured, "", time.Time{})
	var out []carbon.Sample
	for _, x := range f.late {
		i, there := slices.BinarySearchFunc(f.history, x.From, func(s carbon.Sample, at time.Time) int { return s.From.Compare(at) })
		if !there || now.Sub(x.At) >= lateFor {
			continue
		}
		out = append(out, measuredSample(f.history[i], prov))
	}
	return out
}
