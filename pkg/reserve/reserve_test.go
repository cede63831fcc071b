package reserve_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/reserve"
)

var monday = time.Date(2024, 2, 26, 0, 0, 0, 0, time.UTC) // the week has a leap day

func learner(t testing.TB) *reserve.Learner {
	t.Helper()
	l, err := reserve.New(reserve.Default())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// urgent is work that takes a share of the capacity for a while.
func urgent(share float64, length time.Duration) reserve.Arrival {
	return reserve.Arrival{Share: share, Alone: share, Length: length}
}

// TestReserveIsAtLeastTheStart: as long as most of the week is not known, the reserve is what it was at the start, or more.
func TestReserveIsAtLeastTheStart(t *testing.T) {
	l := learner(t)
	start := reserve.Default().Start
	if got := l.Share(); got != start {
		t.Errorf("before the first observation: %v; want %v", got, start)
	}
	for hour := range reserve.Hours - 10 {
		l.Observe(monday.Add(time.Duration(hour)*time.Hour), nil)
		if got := l.Share(); got != start {
			t.Fatalf("after %d hours: %v; want %v", hour, got, start)
		}
	}
	for hour := reserve.Hours - 10; hour < reserve.Hours+1; hour++ {
		l.Observe(monday.Add(time.Duration(hour)*time.Hour), nil)
	}
	if got, want := l.Share(), reserve.Default().Least; got != want {
		t.Errorf("after a week without arrivals: %v; want %v", got, want)
	}
}

// TestReserveIsExceededInOneHourAtMost: one hour of a week may exceed the reserve, two hours are more than 1 % of it.
func TestReserveIsExceededInOneHourAtMost(t *testing.T) {
	l := learner(t)
	for hour := range 2 * reserve.Hours {
		at := monday.Add(time.Duration(hour) * time.Hour)
		l.Observe(at, nil)
		switch hour % reserve.Hours {
		case 30:
			l.Observe(at.Add(time.Minute), []reserve.Arrival{urgent(0.45, time.Hour)})
		case 31:
			l.Observe(at.Add(time.Minute), []reserve.Arrival{urgent(0.4, time.Hour)})
		}
	}
	// 0.99 x 168 hours = 166.3: the 167th of 168 peaks is the second largest.
	if got := l.Share(); got != 0.4 {
		t.Errorf("%v; want 0.4", got)
	}
}

// TestArrivalsAddUpWhileTheyRun: arrivals add up while they run, for an hour at most; a single one counts by the cluster
// that has most room for it.
func TestArrivalsAddUpWhileTheyRun(t *testing.T) {
	for _, x := range []struct {
		name string
		at   []time.Duration
		came [][]reserve.Arrival
		want int // of the hour, in thousandths
	}{
		{"one after the other", []time.Duration{1 * time.Minute, 20 * time.Minute}, [][]reserve.Arrival{{urgent(0.2, 5*time.Minute)}, {urgent(0.1, time.Minute)}}, 200},
		{"at the same time", []time.Duration{1 * time.Minute, 20 * time.Minute}, [][]reserve.Arrival{{urgent(0.2, 30*time.Minute)}, {urgent(0.1, time.Minute)}}, 300},
		{"in one decision", []time.Duration{7 * time.Minute}, [][]reserve.Arrival{{urgent(0.1, time.Minute), urgent(0.15, time.Minute)}}, 250},
		{"on one of four clusters", []time.Duration{7 * time.Minute}, [][]reserve.Arrival{{{Share: 0.1, Alone: 0.4, Length: time.Minute}}}, 400},
		{"more than there is", []time.Duration{7 * time.Minute}, [][]reserve.Arrival{{urgent(0.8, time.Hour), urgent(0.7, time.Hour)}}, 1000},
		{"rounded up", []time.Duration{7 * time.Minute}, [][]reserve.Arrival{{urgent(0.12345, time.Hour)}}, 124},
	} {
		t.Run(x.name, func(t *testing.T) {
			l := learner(t)
			l.Observe(monday, nil)
			for i, at := range x.at {
				l.Observe(monday.Add(at), x.came[i])
			}
			if s := l.State(); s.Peaks[len(s.Peaks)-1] != x.want {
				t.Errorf("peak %v; want %d", s.Peaks, x.want)
			}
		})
	}
}

// TestOldArrivalsAreKnownToPlans: what came more than an hour ago is known to plans.
func TestOldArrivalsAreKnownToPlans(t *testing.T) {
	l := learner(t)
	l.Observe(monday, nil)
	l.Observe(monday.Add(50*time.Minute), []reserve.Arrival{urgent(0.3, 10*time.Hour)})
	l.Observe(monday.Add(100*time.Minute), []reserve.Arrival{urgent(0.1, time.Minute)})
	l.Observe(monday.Add(121*time.Minute), []reserve.Arrival{urgent(0.1, time.Minute)})
	if got, want := l.State().Peaks, []int{300, 400, 100}; !slices.Equal(got, want) {
		t.Errorf("peaks %v; want %v", got, want)
	}
}

// plain is the definition, without bins of bounded number: it keeps all arrivals.
type plain struct {
	params reserve.Params
	begun  bool
	last   time.Time
	came   []stamped
	peaks  map[int64]float64
	first  int64
}

type stamped struct {
	from, to int64 // bins of five minutes
	share    float64
}

func (p *plain) observe(now time.Time, came []reserve.Arrival) {
	if !p.begun {
		p.begun, p.last, p.peaks, p.first = true, now, map[int64]float64{}, now.Unix()/3600
		return
	}
	if now.After(p.last) {
		p.last = now
	}
	k := p.last.Unix() / 300
	highest := 0.0
	for _, a := range came {
		last := k
		for last < k+12 && time.Duration(last+1-k)*5*time.Minute < a.Length {
			last++
		}
		p.came = append(p.came, stamped{k, last, a.Share})
		highest = max(highest, a.Alone)
	}
	if len(came) == 0 {
		return
	}
	sum := 0.0
	for _, s := range p.came {
		if s.from <= k && k <= s.to {
			sum += s.share
		}
	}
	h := p.last.Unix() / 3600
	p.peaks[h] = max(p.peaks[h], min(1, max(highest, sum)))
}

func (p *plain) share() float64 {
	var all []float64
	hour := p.last.Unix() / 3600
	for h := hour - reserve.Hours + 1; h <= hour; h++ {
		v := p.params.Start
		if p.begun && h >= p.first {
			v = math.Ceil(p.peaks[h]*1000-1e-9) / 1000
		}
		all = append(all, v)
	}
	slices.Sort(all)
	exceeded := func(v float64) float64 { // share of the hours whose peak exceeds v
		n := 0
		for _, x := range all {
			if x > v {
				n++
			}
		}
		return float64(n) / reserve.Hours
	}
	for _, v := range all {
		if exceeded(v) <= 1-p.params.Quantile+1e-9 {
			return min(p.params.Most, max(p.params.Least, v))
		}
	}
	return math.NaN()
}

// TestLearnerMatchesItsDefinition compares the Learner with its definition on random arrivals, and a Learner that is
// restored at random times with one that is not.
func TestLearnerMatchesItsDefinition(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		params := reserve.Params{Quantile: 0.5 + rng.Float64()/2, Least: 0.1 * rng.Float64(), Start: 0.1 + 0.3*rng.Float64(), Most: 0.5 + 0.4*rng.Float64()}
		l, err := reserve.New(params)
		if err != nil {
			t.Fatal(err)
		}
		other, want := l, &plain{params: params}
		now := monday.Add(time.Duration(rng.IntN(1e6)) * time.Second)
		for range 400 {
			var came []reserve.Arrival
			for range rng.IntN(4) {
				share := rng.Float64() * rng.Float64()
				came = append(came, reserve.Arrival{Share: share, Alone: min(1, share*(1+rng.Float64())), Length: time.Duration(rng.IntN(7200)) * time.Second})
			}
			l.Observe(now, came)
			want.observe(now, came)
			if other != l {
				other.Observe(now, came)
			}
			if got := l.Share(); math.Abs(got-want.share()) > 1e-12 {
				t.Fatalf("seed %d, %s: %v; want %v", seed, now, got, want.share())
			}
			if !reflect.DeepEqual(other.State().Peaks, l.State().Peaks) && other.Share() < l.Share()-1e-12 {
				t.Fatalf("seed %d, %s: restored %v, not restored %v", seed, now, other.Share(), l.Share())
			}
			if rng.IntN(50) == 0 { // a controller starts: the work of the last hour is all it does not know
				if other, err = reserve.Restore(params, l.State()); err != nil {
					t.Fatal(err)
				}
				if other.Share() != l.Share() || !other.Since().Equal(l.State().Until) {
					t.Fatalf("seed %d: restored: share %v since %s; want %v since %s", seed, other.Share(), other.Since(), l.Share(), l.State().Until)
				}
				now = now.Add(2 * time.Hour).Truncate(time.Hour) // until nothing of the last hour counts
				l.Observe(now, nil)
				want.observe(now, nil)
				other.Observe(now, nil)
				continue
			}
			switch rng.IntN(40) {
			case 0:
				now = now.Add(time.Duration(rng.IntN(12*24)) * time.Hour)
			default:
				now = now.Add(time.Duration(rng.IntN(3600)) * time.Second)
			}
		}
	}
}

// TestHoursOfAnOutageCountAsTheStart: hours in which nobody observed count as the start does.
func TestHoursOfAnOutageCountAsTheStart(t *testing.T) {
	l := learner(t)
	for hour := range reserve.Hours + 5 {
		l.Observe(monday.Add(time.Duration(hour)*time.Hour), nil)
	}
	if got := l.Share(); got != reserve.Default().Least {
		t.Fatalf("%v; want %v", got, reserve.Default().Least)
	}
	state := l.State()
	for _, down := range []time.Duration{time.Minute, 90 * time.Minute, 5 * time.Hour, 40 * 24 * time.Hour} {
		r, err := reserve.Restore(reserve.Default(), state)
		if err != nil {
			t.Fatal(err)
		}
		r.Observe(state.Until.Add(down), nil)
		want := reserve.Default().Least
		if down >= 5*time.Hour {
			want = reserve.Default().Start
		}
		if got := r.Share(); got != want {
			t.Errorf("down for %v: %v; want %v", down, got, want)
		}
	}
}

// TestHostileInputKeepsTheShareInBounds: no input makes the share anything but one within the bounds, or the state more than a week.
func TestHostileInputKeepsTheShareInBounds(t *testing.T) {
	p := reserve.Default()
	for _, zone := range []time.Time{monday, {}, time.Unix(-1e9, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		l := learner(t)
		rng := rand.New(rand.NewPCG(1, 2))
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 5e-324, 1e300, 0.2}
		now := zone
		for range 2000 {
			var came []reserve.Arrival
			for range rng.IntN(5) {
				came = append(came, reserve.Arrival{Share: odd[rng.IntN(len(odd))], Alone: odd[rng.IntN(len(odd))], Length: time.Duration(rng.Uint64())})
			}
			l.Observe(now, came)
			s := l.State()
			if got := l.Share(); !(got >= p.Least && got <= p.Most) || len(s.Peaks) > reserve.Hours || len(s.Peaks) == 0 && !s.Until.IsZero() {
				t.Fatalf("from %s, at %s: share %v, %d peaks", zone, now, got, len(s.Peaks))
			}
			if _, err := reserve.Restore(p, s); err != nil {
				t.Fatal(err)
			}
			switch rng.IntN(10) {
			case 0:
				now = now.Add(-time.Duration(rng.IntN(1e15)))
			case 1:
				now = now.Add(time.Duration(rng.Int64()))
			default:
				now = now.Add(time.Duration(rng.IntN(1e13)))
			}
		}
	}
}

func TestErrors(t *testing.T) {
	good := reserve.Default()
	for _, x := range []struct {
		change func(p *reserve.Params)
		want   string
	}{
		{func(p *reserve.Params) { p.Quantile = 0 }, "quantile: 0; accepted: above 0, at most 1"},
		{func(p *reserve.Params) { p.Quantile = math.NaN() }, "quantile: NaN; accepted: above 0, at most 1"},
		{func(p *reserve.Params) { p.Least = -0.1 }, "least: -0.1; accepted: 0 to most (0.7)"},
		{func(p *reserve.Params) { p.Most = 1 }, "most: 1; accepted: below 1"},
		{func(p *reserve.Params) { p.Start = 0.01 }, "start: 0.01; accepted: least to most (0.05 to 0.7)"},
	} {
		p := good
		p.Most, p.Start = 0.7, 0.5
		x.change(&p)
		if _, err := reserve.New(p); !errors.Is(err, reserve.ErrParams) || err.Error() != reserve.ErrParams.Error()+": "+x.want {
			t.Errorf("%+v: error %v; want %s", p, err, x.want)
		}
	}
	for _, x := range []struct {
		state reserve.State
		want  string
	}{
		{reserve.State{Until: monday, Peaks: make([]int, reserve.Hours+1)}, "peaks: 169; accepted: at most 168"},
		{reserve.State{Until: monday, Peaks: []int{0, -1}}, "peaks[1]: -1; accepted: 0 to 1000"},
		{reserve.State{Until: monday, Peaks: []int{1001}}, "peaks[0]: 1001; accepted: 0 to 1000"},
		{reserve.State{Until: monday}, "until: 2024-02-26T00:00:00Z with 0 peaks; accepted: a time with peaks, or neither"},
		{reserve.State{Peaks: []int{1}}, "until: 0001-01-01T00:00:00Z with 1 peaks; accepted: a time with peaks, or neither"},
	} {
		if _, err := reserve.Restore(good, x.state); !errors.Is(err, reserve.ErrState) || err.Error() != reserve.ErrState.Error()+": "+x.want {
			t.Errorf("%+v: error %v; want %s", x.state, err, x.want)
		}
	}
}

// TestStateIsACopy: what a caller does with a state changes no Learner.
func TestStateIsACopy(t *testing.T) {
	l := learner(t)
	l.Observe(monday, nil)
	l.Observe(monday.Add(time.Minute), []reserve.Arrival{urgent(0.4, time.Hour)})
	s := l.State()
	r, err := reserve.Restore(reserve.Default(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.Peaks[0] = 7
	if l.State().Peaks[0] != 400 || r.State().Peaks[0] != 400 {
		t.Errorf("a state is shared: %v, %v", l.State(), r.State())
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprintf("arrivals=%d", n), func(b *testing.B) {
			l := learner(b)
			came := make([]reserve.Arrival, n)
			for i := range came {
				came[i] = urgent(0.001, time.Duration(i%90)*time.Minute)
			}
			now := monday
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Minute)
				l.Observe(now, came)
				_ = l.Share()
			}
		})
	}
}
