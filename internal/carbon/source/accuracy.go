package source

import (
	"time"

	"lull.dev/lull/pkg/carbon"
)

const (
	// maxLeads bounds the lead times, in hours, of which errors are kept.
	maxLeads = 6 * 24
	// issuesKept is how long forecasts are kept to learn their errors from after a
	// restart; older than a day, only one of six hours.
	issuesKept = 14 * 24 * time.Hour
	issuesThin = 24 * time.Hour
)

// issue is a forecast as the provider published it.
type issue struct {
	At      time.Time
	samples []carbon.Sample
}

// remember keeps a forecast, one for each hour at the most.
func (f *Feed) remember(x issue) {
	if n := len(f.issues); n > 0 && x.At.Sub(f.issues[n-1].At) < time.Hour {
		return
	}
	var kept []issue
	for _, old := range f.issues {
		age := x.At.Sub(old.At)
		if age < issuesThin || (age < issuesKept && old.At.Truncate(time.Hour).Hour()%6 == 0) {
			kept = append(kept, old)
		}
	}
	kept = append(kept, x)
	f.issues = kept
}

// score compares the forecasts with the hours of the history that are new.
//
// Complexity: O(new hours x issues x log n).
func (f *Feed) score() {
	if len(f.history) == 0 || len(f.issues) == 0 {
		return
	}
	actual, err := carbon.NewSeries(carbon.Provenance{}, f.history)
	if err != nil {
		return // the history is in order: it was merged from series
	}
	end := actual.End().Truncate(time.Hour)
	from := f.issues[0].At.Truncate(time.Hour)
	if f.scored.After(from) {
		from = f.scored
	}
	if !from.Before(end) {
		return
	}
	for _, x := range f.issues {
		expected, err := carbon.NewSeries(carbon.Provenance{}, x.samples)
		if err != nil {
			continue
		}
		for at := from; at.Before(end); at = at.Add(time.Hour) {
			if at.Before(x.At.Truncate(time.Hour)) {
				continue
			}
			was, known := actual.Mean(at, at.Add(time.Hour))
			said, forecast := expected.Mean(at, at.Add(time.Hour))
			if known == time.Hour && forecast == time.Hour {
				f.errors.Add(int(at.Sub(x.At)/time.Hour), float64(said), float64(was))
			}
		}
	}
	f.scored = end
}
