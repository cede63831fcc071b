package carbon

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// days returns n days of hourly values: 100 per day and 1 per hour, so that each
// value says where it comes from.
func days(n int) []float64 {
	var out []float64
	for d := range n {
		for h := range 24 {
			out = append(out, float64(100*(d+1)+h))
		}
	}
	return out
}

func hour(h float64) time.Time { return t0.Add(time.Duration(h * float64(time.Hour))) }

func TestFilledMean(t *testing.T) {
	nan := math.NaN()
	gap := days(4)
	for h := 36; h < 48; h++ {
		gap[h] = nan // the second half of day 2
	}
	long := days(20)
	for h := 48; h < 18*24; h++ {
		long[h] = nan // days 3 to 18
	}
	for name, tc := range map[string]struct {
		values   []float64
		from, to float64
		want     FilledMean
	}{
		"known":                   {days(3), 1, 3, FilledMean{Mean: 101.5, Known: 2 * time.Hour}},
		"the end of the series":   {days(2), 47, 49, FilledMean{Mean: (223 + 200) / 2.0, Known: time.Hour, Filled: time.Hour}},
		"beyond the end":          {days(2), 50, 52, FilledMean{Mean: 202.5, Filled: 2 * time.Hour}},
		"six days beyond the end": {days(2), 48 + 6*24, 48 + 6*24 + 1, FilledMean{Mean: 200, Filled: time.Hour}},
		"seven days at most":      {days(2), 48 + 6*24 + 23, 48 + 7*24 + 1, FilledMean{Mean: 223, Filled: time.Hour, Unknown: time.Hour}},
		"before the start":        {days(2), -2, 0, FilledMean{Mean: 122.5, Filled: 2 * time.Hour}},
		"a gap of 12 h":           {gap, 36, 48, FilledMean{Mean: 117.5, Filled: 12 * time.Hour}},
		"a later day":             {gap[36:], 0, 12, FilledMean{Mean: 317.5, Filled: 12 * time.Hour}},
		"days: the day before":    {long, 50, 51, FilledMean{Mean: 202, Filled: time.Hour}},
		"days: a week before":     {long, 48 + 6*24 + 5, 48 + 6*24 + 6, FilledMean{Mean: 205, Filled: time.Hour}},
		"days: neither":           {long, 48 + 7*24, 48 + 8*24, FilledMean{Unknown: 24 * time.Hour}},
		"days: a week after":      {long, 11 * 24, 11*24 + 1, FilledMean{Mean: 1900, Filled: time.Hour}},
		"wholly outside":          {days(2), 1000, 1010, FilledMean{Unknown: 10 * time.Hour}},
		"parts of hours":          {days(1), 24.25, 24.75, FilledMean{Mean: 100, Filled: 30 * time.Minute}},
		"an empty interval":       {days(1), 3, 3, FilledMean{}},
		"reversed":                {days(1), 4, 3, FilledMean{}},
		"no series":               {nil, 0, 2, FilledMean{Unknown: 2 * time.Hour}},
	} {
		s := hourly(t, tc.values...)
		got := s.FilledMean(hour(tc.from), hour(tc.to))
		if math.Abs(float64(got.Mean-tc.want.Mean)) > 1e-9 || got.Known != tc.want.Known || got.Filled != tc.want.Filled || got.Unknown != tc.want.Unknown {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestFilledMeanHalfHours checks that the step of the series does not matter, nor that
// a nearer day has only a part of the hour.
func TestFilledMeanHalfHours(t *testing.T) {
	var samples []Sample
	add := func(day, half int, v float64) {
		from := t0.Add(time.Duration(day)*24*time.Hour + time.Duration(half)*30*time.Minute)
		samples = append(samples, Sample{From: from, To: from.Add(30 * time.Minute), Value: units.CarbonIntensity(v)})
	}
	add(0, 0, 100)
	add(0, 1, 200)
	add(1, 1, 400) // day 1 lacks its first half hour
	s, err := NewSeries(Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	got := s.FilledMean(hour(48), hour(49))
	if got.Mean != 250 || got.Filled != time.Hour {
		t.Errorf("%+v, want 100 of day 0 and 400 of day 1", got)
	}
}

// TestFilledMeanAgainstBruteForce compares with a loop over minutes.
func TestFilledMeanAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 30 {
		values := make([]float64, 24*25)
		for i := range values {
			values[i] = math.Round(rng.Float64() * 500)
		}
		for range 4 {
			at := rng.IntN(len(values))
			for i := at; i < min(len(values), at+rng.IntN(24*16)); i++ {
				values[i] = math.NaN()
			}
		}
		s := hourly(t, values...)
		from := t0.Add(time.Duration(rng.IntN(30*24*60)-3*24*60) * time.Minute)
		to := from.Add(time.Duration(rng.IntN(2000)) * time.Minute)
		var want FilledMean
		sum := 0.0
		for at := from; at.Before(to); at = at.Add(time.Minute) {
			v, where := minuteValue(s, at)
			switch where {
			case 0:
				want.Known += time.Minute
			case 1:
				want.Filled += time.Minute
			default:
				want.Unknown += time.Minute
			}
			sum += v
		}
		if n := want.Known + want.Filled; n > 0 {
			want.Mean = units.CarbonIntensity(sum / n.Minutes())
		}
		got := s.FilledMean(from, to)
		if math.Abs(float64(got.Mean-want.Mean)) > 1e-6 || got.Known != want.Known || got.Filled != want.Filled || got.Unknown != want.Unknown {
			t.Errorf("%s to %s: %+v, want %+v", from, to, got, want)
		}
	}
}

// minuteValue is the rule, read aloud.
func minuteValue(s *Series, at time.Time) (v float64, where int) {
	if x, ok := s.At(at); ok {
		return float64(x.Value), 0
	}
	for _, sign := range []int{-1, 1} {
		for day := 1; day <= 7; day++ {
			if x, ok := s.At(at.Add(time.Duration(sign*day) * 24 * time.Hour)); ok {
				return float64(x.Value), 1
			}
		}
	}
	return 0, 2
}

// TestFillSlotsGoesOnByDays checks that decisions and prices fill by one rule: a planner
// that knows the series plans on the values that its plan is priced at. Beyond 7 days a
// decision still needs values: the last filled day goes on.
func TestFillSlotsGoesOnByDays(t *testing.T) {
	values := days(2)
	s := hourly(t, values...)
	filled, ok := FillSlots(s, timegrid.Grid{Start: hour(-24), Slot: time.Hour, N: 24 * 14})
	if !ok {
		t.Fatal("nothing filled")
	}
	for slot, v := range filled.Values {
		at := slot - 24
		want, method := 200+float64(at%24), FillDayBefore
		switch {
		case at < 0:
			want, method = values[at+24], FillDayAfter
		case at < 48:
			want, method = values[at], ""
		}
		if v != want || filled.Filled[slot] != method {
			t.Errorf("slot %d: %v (%s), want %v (%s)", slot, v, filled.Filled[slot], want, method)
		}
		if p := s.FilledMean(hour(float64(at)), hour(float64(at+1))); p.Unknown == 0 && float64(p.Mean) != v {
			t.Errorf("slot %d: decided on %v, priced at %v", slot, v, p.Mean)
		}
	}
}

func BenchmarkFilledMean(b *testing.B) {
	var samples []Sample
	for h := range 8760 {
		samples = append(samples, Sample{From: hour(float64(h)), To: hour(float64(h + 1)), Value: units.CarbonIntensity(float64(h % 300))})
	}
	s, err := NewSeries(Provenance{}, samples)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("mean", func(b *testing.B) {
		for b.Loop() {
			s.Mean(hour(100.5), hour(106.25))
		}
	})
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			s.FilledMean(hour(100.5), hour(106.25))
		}
	})
	b.Run("filled", func(b *testing.B) {
		for b.Loop() {
			s.FilledMean(hour(8800.5), hour(8806.25))
		}
	})
}
