package provider

import (
	"context"
	"errors"
	"slices"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// BadSpan is a part of the past that was asked for in vain: a gap, to be asked for again.
type BadSpan struct {
	carbon.Interval
	Err error
}

// ErrNoData marks an answer which says that there is no data.
var ErrNoData = errors.New("no data")

// mostFailures is how many spans in succession may fail before the others are left for another time. An answer which
// says that there is no data does not count: the service is there.
const mostFailures = 3

// past returns the parts of the past that are wanted from since until to, and again before since, cut into spans of
// at most length, the newest first.
func (q Query) past(since, to time.Time, length time.Duration) []carbon.Interval {
	out := spans(since, to, length)
	for _, x := range q.Again {
		if x.To.After(since) && since.Before(to) {
			x.To = since
		}
		out = append(out, spans(x.From, x.To, length)...)
	}
	slices.SortFunc(out, func(a, b carbon.Interval) int { return b.From.Compare(a.From) })
	return out
}

// askEach asks for spans, the newest first. A span that fails costs no other. What it returns are the spans that failed, except the
// newest: its error is that of the answer. It gives up, and lists the spans that are left as bad ones, when the provider
// refuses or its quota is used up, when ctx is done, and after mostFailures.
func askEach(ctx context.Context, spans []carbon.Interval, ask func(carbon.Interval) error) (bad []BadSpan, newest error) {
	failures := 0
	for i, span := range spans {
		err := ask(span)
		switch {
		case err == nil:
			failures = 0
			continue
		case i == 0:
			newest = err
		default:
			bad = append(bad, BadSpan{span, err})
		}
		if errors.Is(err, ErrNoData) {
			failures = 0
			continue
		}
		failures++
		if failures == mostFailures || ctx.Err() != nil || errors.Is(err, fetch.ErrRefused) || errors.Is(err, fetch.ErrQuota) {
			for _, left := range spans[i+1:] {
				bad = append(bad, BadSpan{left, err})
			}
			break
		}
	}
	return bad, newest
}

// spans cuts [from, to) into parts of at most length.
func spans(from, to time.Time, length time.Duration) []carbon.Interval {
	var out []carbon.Interval
	for from.Before(to) {
		end := from.Add(length)
		if end.After(to) {
			end = to
		}
		out = append(out, carbon.Interval{From: from, To: end})
		from = end
	}
	return out
}
