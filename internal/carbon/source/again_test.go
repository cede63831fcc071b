package source

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
)

// publisher is a provider of hourly values: 300 and estimated until they are lag old, then 400; nothing for the hours that
// are missing now.
type publisher struct {
	lag     time.Duration
	missing func(at, now time.Time) bool
	refuses bool      // what lies before Since
	broken  time.Time // a span that contains it fails, if that is not the newest one
	spans   int       // asked for
	again   int       // of these, older ones
}

func (p *publisher) Name() string { return "publisher" }
func (p *publisher) Provenance() carbon.Provenance {
	return carbon.Provenance{Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle, Source: "a test"}
}
func (p *publisher) Identity() []string { return nil }
func (p *publisher) Forecasts() bool    { return false }

func (p *publisher) Fetch(_ context.Context, _ provider.Getter, q provider.Query) (a provider.Answer, _ error) {
	spans := append([]carbon.Interval(nil), q.Again...)
	for from := q.Since; from.Before(q.Now); from = from.Add(10 * day) {
		to := from.Add(10 * day)
		if to.After(q.Now) {
			to = q.Now
		}
		spans = append(spans, carbon.Interval{From: from, To: to})
	}
	for i, span := range spans {
		p.spans++
		if !span.From.After(p.broken) && p.broken.Before(span.To) && i < len(spans)-1 {
			a.Bad = append(a.Bad, provider.BadSpan{Interval: span, Err: provider.ErrWire})
			continue
		}
		if i < len(q.Again) {
			if len(a.Bad) == 0 || !p.refuses { // no request follows a refusal
				p.again++
			}
			if p.refuses {
				a.Bad = append(a.Bad, provider.BadSpan{Interval: span, Err: fetch.ErrRefused})
				continue
			}
		}
		for at := span.From; at.Add(time.Hour).Before(span.To) || at.Add(time.Hour).Equal(span.To); at = at.Add(time.Hour) {
			x := carbon.Sample{From: at, To: at.Add(time.Hour), Value: 400, Of: &carbon.Provenance{Source: "a test"}}
			if x.Estimated = q.Now.Sub(at) < p.lag; x.Estimated {
				x.Value = 300
			}
			if p.missing == nil || !p.missing(at, q.Now) {
				a.Past = append(a.Past, x)
			}
		}
	}
	return a, nil
}

// publishes replaces the provider of a world and lets hours pass.
func publishes(t *testing.T, p *publisher, hours int) *world {
	t.Helper()
	w := newWorldOf(t, 1)
	w.cfg.Key, w.cfg.Provider = "publisher", p
	w.pass(hours)
	return w
}

// oldestOpen is how old, in hours, the oldest value is that is not final.
func (w *world) oldestOpen() float64 {
	f := w.feed()
	for at := f.history[0].From; at.Before(w.at); at = at.Add(time.Hour) {
		if !f.final(at, at.Add(time.Hour)) {
			return w.at.Sub(at).Hours()
		}
	}
	return 0
}

// TestEstimatesBecomeFinal: however late a provider is, an estimate is asked for again until the measured value is
// there, at the latest a share of its age later; with few requests.
func TestEstimatesBecomeFinal(t *testing.T) {
	for _, lag := range []time.Duration{2 * time.Hour, 36 * time.Hour, 5 * day, 20 * day} {
		t.Run(lag.String(), func(t *testing.T) {
			p := &publisher{lag: lag}
			hours := int(lag.Hours()) + 30
			w := publishes(t, p, hours)
			latest := lag.Hours()*(1+1.0/againShare) + 25 + 2 // a day is asked for as a whole
			if open := w.oldestOpen(); open > latest {
				t.Errorf("a value that is %.0f hours old is not final, want at most %.0f", open, latest)
			}
			if p.spans > 3*hours {
				t.Errorf("%d spans in %d hours", p.spans, hours)
			}
			w.restart() // what was asked when is kept
			before := p.again
			if _ = w.feed().Refresh(context.Background(), w.at); p.again > before+1 {
				t.Errorf("after a restart, %d older spans are asked for at once", p.again-before)
			}
		})
	}
}

// TestGapsAreAskedAgain: hours that are published days later come in.
func TestGapsAreAskedAgain(t *testing.T) {
	from, to := begin.AddDate(0, 0, -3), begin.AddDate(0, 0, -2)
	p := &publisher{missing: func(at, now time.Time) bool {
		return at.After(from) && at.Before(to) && now.Before(begin.AddDate(0, 0, 4))
	}}
	w := publishes(t, p, 4*24-1)
	if open := w.oldestOpen(); open < 6*24 {
		t.Fatalf("the gap is not there: %.0f hours", open)
	}
	before := p.again
	w.pass(10)
	if open := w.oldestOpen(); open > 7 {
		t.Errorf("the gap is still there: %.0f hours", open)
	}
	if p.again > 120 || p.again-before > 10 {
		t.Errorf("%d older spans asked for", p.again)
	}
}

// TestOneBadDay: a day that spoils each request which contains it costs that day alone, in the end.
func TestOneBadDay(t *testing.T) {
	bad := begin.AddDate(0, 0, -25)
	p := &publisher{broken: bad}
	w := publishes(t, p, 1)
	s, err := carbon.NewSeries(carbon.Provenance{}, w.feed().history)
	must(t, err)
	if gaps := s.Gaps(s.Start(), s.End()); len(gaps) != 1 || gaps[0].To.Sub(gaps[0].From) != 10*day {
		t.Fatalf("at first: gaps %v, want one of ten days", gaps)
	}
	w.pass(40)
	s, err = carbon.NewSeries(carbon.Provenance{}, w.feed().history)
	must(t, err)
	if gaps := s.Gaps(s.Start(), s.End()); len(gaps) != 1 || !gaps[0].From.Equal(bad.Truncate(day)) || gaps[0].To.Sub(gaps[0].From) != day {
		t.Errorf("after two days: gaps %v, want that day", gaps)
	}
	if p.again > 60 {
		t.Errorf("%d older spans asked for", p.again)
	}
}

// TestNoHistoryInThePlan: what is refused is not asked for every hour.
func TestNoHistoryInThePlan(t *testing.T) {
	p := &publisher{lag: 30 * day, refuses: true}
	w := publishes(t, p, 100)
	if p.again > 2*100/24+3 {
		t.Errorf("%d refused requests in 100 hours", p.again)
	}
	if o := w.feed().Outlook(w.at, w.cfg); o.Err != nil {
		t.Errorf("%v", o.Err)
	}
}

// TestFinalValuesAreHandedOn: what becomes final when the expected series does not show it any more is handed on as long as the ledger may
// rest on it, however long ago it came, after a restart, and if the files of the feed were lost.
func TestFinalValuesAreHandedOn(t *testing.T) {
	p := &publisher{lag: 12 * day, missing: func(at, _ time.Time) bool { return at.Before(begin.AddDate(0, 0, -15)) }}
	w := publishes(t, p, 48)
	final := begin.AddDate(0, 0, -13).Truncate(time.Hour)
	check := func(when string) {
		t.Helper()
		o := w.feed().Outlook(w.at, w.cfg)
		found := false
		for i, x := range o.Earlier {
			if x.Of.Basis != carbon.Measured || !x.From.Before(w.at.Add(-past)) || x.From.Before(w.at.Add(-EarlierReach)) || i > 0 && !x.From.After(o.Earlier[i-1].From) {
				t.Fatalf("%s: %+v", when, x)
			}
			found = found || x.From.Equal(final) && x.Value == 400 && !x.Estimated
		}
		if !found {
			t.Errorf("%s: the final value of %v is not handed on", when, final)
		}
		if o.Expected == nil || len(o.Earlier) > 0 && o.Earlier[len(o.Earlier)-1].From.Add(time.Hour).Before(o.Expected.Start()) {
			t.Errorf("%s: there is a gap before the expected series", when)
		}
	}
	check("at once")
	w.restart()
	check("after a restart")
	w.pass(3 * 24)
	check("three days later")
	w.dir = t.TempDir()
	w.restart()
	w.pass(1)
	check("after the files were lost")
	newest := w.feed().history[len(w.feed().history)-1].From
	for _, x := range []struct {
		age  time.Duration
		want bool
	}{{past - time.Minute, false}, {past + time.Minute, true}, {EarlierReach, true}, {EarlierReach + time.Minute, false}} {
		if got := slices.ContainsFunc(w.feed().earlier(newest.Add(x.age)), func(s carbon.Sample) bool { return s.From.Equal(newest) }); got != x.want {
			t.Errorf("a value that is %v old is handed on: %v", x.age, got)
		}
	}
}

// TestProvidersPageStatesTheNumbersInUse: docs/providers.md states the numbers that feeds use.
func TestProvidersPageStatesTheNumbersInUse(t *testing.T) {
	text, err := os.ReadFile("../../../docs/providers.md")
	must(t, err)
	for _, want := range []string{
		fmt.Sprintf("after 1/%d of its age", againShare), fmt.Sprintf("asks for %d such days at most", againAtMost), fmt.Sprintf("the history is kept (%g days)", historyKept.Hours()/24),
		fmt.Sprintf("had values below %g gCO2eq/kWh", nearZero),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/providers.md does not say %q", want)
		}
	}
	if againLeast != time.Hour || overlap != 6*time.Hour || refusedFor != day || unheardOf != 10 {
		t.Error("docs/providers.md says an hour, six hours, a day, a tenth and ten times")
	}
}
