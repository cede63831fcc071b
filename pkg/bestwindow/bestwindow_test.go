package bestwindow_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/bestwindow"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

var t0 = time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }

// curve returns a series of hours from t0; NaN is a gap.
func curve(t testing.TB, values ...float64) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for i, v := range values {
		if !math.IsNaN(v) {
			samples = append(samples, carbon.Sample{From: at(60 * i), To: at(60 * (i + 1)), Value: units.CarbonIntensity(v)})
		}
	}
	s, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFind(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		curve               *carbon.Series
		now, within, length int // minutes
		least               float64
		start               int
		mean, meanNow       float64
		reason              bestwindow.Reason
	}{
		"the clean hour":                {curve(t, 300, 200, 100, 300), 0, 240, 60, 0, 120, 100, 300, bestwindow.CleanerLater},
		"now is cleanest":               {curve(t, 100, 200, 300, 300), 0, 240, 60, 0, 0, 100, 100, bestwindow.CleanNow},
		"flat":                          {curve(t, 100, 100, 100), 0, 180, 60, 0, 0, 100, 100, bestwindow.CleanNow},
		"within bounds the end":         {curve(t, 300, 200, 100, 300), 0, 150, 60, 0, 90, 150, 300, bestwindow.CleanerLater},
		"the end meets a boundary":      {curve(t, 300, 100, 100, 300), 0, 240, 90, 0, 60, 100, 300 - 200.0/3, bestwindow.CleanerLater},
		"start between the hours":       {curve(t, 300, 200, 100, 400), 0, 240, 90, 0, 90, 400.0 / 3, 800.0 / 3, bestwindow.CleanerLater},
		"now within an hour":            {curve(t, 300, 200, 100, 300), 45, 195, 60, 0, 120, 100, 225, bestwindow.CleanerLater},
		"no slack":                      {curve(t, 300, 100), 0, 60, 60, 0, 0, 300, 300, bestwindow.NoSlack},
		"saves just enough":             {curve(t, 100, 95), 0, 120, 60, 0.05, 60, 95, 100, bestwindow.CleanerLater},
		"saves too little":              {curve(t, 100, 95.1), 0, 120, 60, 0.05, 0, 100, 100, bestwindow.SavingTooSmall},
		"all is too little":             {curve(t, 100, 1), 0, 120, 60, 1, 0, 100, 100, bestwindow.SavingTooSmall},
		"zero at last":                  {curve(t, 100, 0), 0, 120, 60, 1, 60, 0, 100, bestwindow.CleanerLater},
		"zero now":                      {curve(t, 0, 0, 5), 0, 180, 60, 0, 0, 0, 0, bestwindow.CleanNow},
		"no window over a gap":          {curve(t, 300, 10, nan, 10, 200, 200), 0, 360, 120, 0, 180, 105, 155, bestwindow.CleanerLater},
		"a gap now":                     {curve(t, nan, 10, 10), 0, 180, 60, 0, 0, 0, 0, bestwindow.NoCarbonData},
		"a gap later in a run from now": {curve(t, 300, nan, 10, 10), 0, 240, 120, 0, 0, 0, 0, bestwindow.NoCarbonData},
		"shorter than within":           {curve(t, 300, 200), 0, 1440, 60, 0, 60, 200, 300, bestwindow.CleanerLater},
		"shorter than the run":          {curve(t, 300), 0, 1440, 120, 0, 0, 0, 0, bestwindow.NoCarbonData},
		"empty":                         {curve(t), 0, 1440, 60, 0, 0, 0, 0, bestwindow.NoCarbonData},
		"nil":                           {nil, 0, 1440, 60, 0, 0, 0, 0, bestwindow.NoCarbonData},
		"all in the past":               {curve(t, 300, 100), 600, 240, 60, 0, 600, 0, 0, bestwindow.NoCarbonData},
		"nothing known, no slack":       {nil, 0, 60, 60, 0, 0, 0, 0, bestwindow.NoSlack},
	} {
		length := time.Duration(tc.length) * time.Minute
		c, err := bestwindow.Find(tc.curve, bestwindow.Request{Now: at(tc.now), EndBy: at(tc.now + tc.within), Length: length, MinSaving: tc.least})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !c.Start.Equal(at(tc.start)) || !c.End.Equal(at(tc.start).Add(length)) || c.Reason != tc.reason ||
			math.Abs(float64(c.Mean)-tc.mean) > 1e-9 || math.Abs(float64(c.MeanNow)-tc.meanNow) > 1e-9 {
			t.Errorf("%s: start %v, %v, %v now, %s; want %v, %v, %v, %s", name, c.Start.Sub(t0), float64(c.Mean), float64(c.MeanNow), c.Reason, at(tc.start).Sub(t0), tc.mean, tc.meanNow, tc.reason)
		}
	}
}

// TestSavingTooSmallNamesTheBest: a run that does not wait can still say what waiting would have saved.
func TestSavingTooSmallNamesTheBest(t *testing.T) {
	c, err := bestwindow.Find(curve(t, 100, 98, 97), bestwindow.Request{Now: t0, EndBy: at(180), Length: time.Hour, MinSaving: 0.05})
	if err != nil || !c.Best.From.Equal(at(120)) || math.Abs(c.BestSaving()-0.03) > 1e-12 || c.Saving() != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestHostileRequests(t *testing.T) {
	s := curve(t, 300, 100, 200)
	good := bestwindow.Request{Now: t0, EndBy: at(180), Length: time.Hour, MinSaving: 0.05}
	for name, change := range map[string]func(*bestwindow.Request){
		"longer than within": func(r *bestwindow.Request) { r.Length = 4 * time.Hour },
		"zero length":        func(r *bestwindow.Request) { r.Length = 0 },
		"negative length":    func(r *bestwindow.Request) { r.Length = -time.Hour },
		"longest length":     func(r *bestwindow.Request) { r.Length = math.MaxInt64 },
		"ends in the past":   func(r *bestwindow.Request) { r.EndBy = at(-5) },
		"NaN":                func(r *bestwindow.Request) { r.MinSaving = math.NaN() },
		"infinite":           func(r *bestwindow.Request) { r.MinSaving = math.Inf(1) },
		"negative saving":    func(r *bestwindow.Request) { r.MinSaving = -0.1 },
		"more than all":      func(r *bestwindow.Request) { r.MinSaving = 1.1 },
	} {
		r := good
		change(&r)
		if _, err := bestwindow.Find(s, r); !errors.Is(err, bestwindow.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := bestwindow.Revise(s, r, at(60)); !errors.Is(err, bestwindow.ErrRequest) {
			t.Errorf("%s: Revise: %v", name, err)
		}
	}
}

// random returns a curve of samples of unequal whole minutes with gaps, from an hour before t0 on.
func random(t *testing.T, rng *rand.Rand) *carbon.Series {
	var samples []carbon.Sample
	for m := -60; m < 24*60; {
		n := 1 + rng.IntN(90)
		if rng.IntN(12) > 0 {
			samples = append(samples, carbon.Sample{From: at(m), To: at(m + n), Value: units.CarbonIntensity(rng.IntN(6) * 100)})
		}
		m += n
	}
	s, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// minutes returns the intensity of each minute from t0 on, NaN for none: an independent view of a series.
func minutes(s *carbon.Series, n int) []float64 {
	out := make([]float64, n)
	for m := range out {
		out[m] = math.NaN()
		if x, ok := s.At(at(m)); ok {
			out[m] = float64(x.Value)
		}
	}
	return out
}

// brute returns the first start in [low, high] of least mean, minute by minute; -1 for none.
func brute(values []float64, low, high, length int) (start int, best float64) {
	start, best = -1, math.Inf(1)
	for s := low; s <= high; s++ {
		if m := meanOf(values, s, length); m < best-1e-6 { // false for NaN
			start, best = s, m
		}
	}
	return start, best
}

func meanOf(values []float64, start, length int) float64 {
	sum := 0.0
	for m := start; m < start+length; m++ {
		sum += values[m]
	}
	return sum / float64(length)
}

// TestAgainstBruteForce: all boundaries are whole minutes, so a search by the minute finds the optimum too.
func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	reasons := map[bestwindow.Reason]int{}
	for range 3000 {
		s := random(t, rng)
		length := 1 + rng.IntN(300)
		within := length + rng.IntN(1200)
		least := float64(rng.IntN(4)) / 10
		values := minutes(s, within)
		c, err := bestwindow.Find(s, bestwindow.Request{Now: t0, EndBy: at(within), Length: time.Duration(length) * time.Minute, MinSaving: least})
		if err != nil {
			t.Fatal(err)
		}
		reasons[c.Reason]++
		if c.Start.Before(t0) || c.End.After(at(within)) {
			t.Fatalf("%v to %v lies outside of %d minutes", c.Start, c.End, within)
		}
		now := meanOf(values, 0, length)
		if math.IsNaN(now) {
			if c.Reason != bestwindow.NoCarbonData && c.Reason != bestwindow.NoSlack || !c.Start.Equal(t0) {
				t.Fatalf("nothing known of a run now: %+v", c)
			}
			continue
		}
		start, best := brute(values, 0, within-length, length)
		if !c.Best.From.Equal(at(start)) || math.Abs(float64(c.BestMean)-best) > 1e-6 || math.Abs(float64(c.MeanNow)-now) > 1e-6 {
			t.Fatalf("best %v of %v, now %v; brute force %v of %v, now %v", c.Best.From.Sub(t0), c.BestMean, c.MeanNow, at(start).Sub(t0), best, now)
		}
		wait := start > 0 && 1-best/now >= least
		if margin := math.Abs(1 - best/now - least); margin > 1e-9 && c.Start.After(t0) != wait {
			t.Fatalf("starts at %v; now %v, best %v, least saving %v", c.Start.Sub(t0), now, best, least)
		}
	}
	for _, r := range []bestwindow.Reason{bestwindow.CleanerLater, bestwindow.CleanNow, bestwindow.SavingTooSmall, bestwindow.NoCarbonData} {
		if reasons[r] < 20 {
			t.Errorf("%s: only %d times", r, reasons[r])
		}
	}
}

func TestRevise(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		values         []float64
		planned, start int
		reason         bestwindow.Reason
	}{
		"nothing new":                     {[]float64{300, 200, 100, 300}, 120, 120, bestwindow.CleanerLater},
		"earlier, for nothing":            {[]float64{300, 100, 100, 300}, 120, 60, bestwindow.CleanerLater},
		"earlier, for little":             {[]float64{300, 99, 100, 300}, 120, 60, bestwindow.CleanerLater},
		"now":                             {[]float64{100, 300, 100, 300}, 120, 0, bestwindow.CleanNow},
		"stays for little":                {[]float64{101, 300, 100, 300}, 120, 120, bestwindow.CleanerLater},
		"later, for enough":               {[]float64{300, 100, 200, 89}, 60, 180, bestwindow.CleanerLater},
		"not later for little":            {[]float64{300, 100, 200, 91}, 60, 60, bestwindow.CleanerLater},
		"planned is not covered any more": {[]float64{300, 100, nan, 89}, 120, 120, bestwindow.CleanerLater},
		"planned is past":                 {[]float64{300, 300, 300, 300}, -60, 0, bestwindow.CleanNow},
		"nothing known, planned is past":  {nil, -60, 0, bestwindow.NoCarbonData},
		"planned is too late":             {nil, 500, 180, bestwindow.CleanerLater},
	} {
		c, err := bestwindow.Revise(curve(t, tc.values...), bestwindow.Request{Now: t0, EndBy: at(240), Length: time.Hour, MinSaving: 0.1}, at(tc.planned))
		if err != nil || !c.Start.Equal(at(tc.start)) || c.Reason != tc.reason {
			t.Errorf("%s: start %v, %s, %v; want %v, %s", name, c.Start.Sub(t0), c.Reason, err, at(tc.start).Sub(t0), tc.reason)
		}
	}
	c, err := bestwindow.Revise(nil, bestwindow.Request{Now: t0, EndBy: at(60), Length: time.Hour}, at(-5))
	if err != nil || c.Reason != bestwindow.NoSlack || !c.Start.Equal(t0) {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestReviseIsBounded: whatever curves come, a run ends in time, and each revision is later than the one before only by a
// saving of at least the least.
func TestReviseIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	for range 500 {
		length, within := 1+rng.IntN(120), 121+rng.IntN(1000)
		r := bestwindow.Request{Now: t0, EndBy: at(within), Length: time.Duration(length) * time.Minute, MinSaving: 0.1}
		c, err := bestwindow.Find(random(t, rng), r)
		for err == nil && c.Start.After(r.Now) {
			planned := c.Start
			r.Now = r.Now.Add(30 * time.Minute)
			if !r.Now.Before(planned) {
				break // it starts
			}
			s := random(t, rng)
			c, err = bestwindow.Revise(s, r, planned)
			if c.Start.Before(r.Now) || c.End.After(r.EndBy) {
				t.Fatalf("%v to %v; now %v, by %v", c.Start, c.End, r.Now, r.EndBy)
			}
			if c.Start.After(planned) {
				at, covered := s.Mean(planned, planned.Add(r.Length))
				if covered < r.Length || bestwindow.Saving(c.Mean, at) < r.MinSaving-1e-9 {
					t.Fatalf("put off from %v to %v for %v instead of %v", planned, c.Start, c.Mean, at)
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	values := make([]float64, 336)
	for h := range values {
		values[h] = float64(h * 37 % 300)
	}
	s := curve(b, values...)
	for b.Loop() {
		if _, err := bestwindow.Find(s, bestwindow.Request{Now: t0, EndBy: at(336 * 60), Length: 3 * time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
}
