package forecast

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/test/data"
	"lull.dev/lull/test/size"
)

// benchDays is the length of the test period of a region of forecast-bench, whose last day
// is left out.
const benchDays = 181

// benchRegion reads the direct intensity, weather and generation of a region, and the slot
// at which its test period begins.
func benchRegion(t *testing.T, region string) (h History, start int) {
	t.Helper()
	file, err := os.Open(filepath.Join(data.Folder(t, "forecast-bench"), "forecast-bench", region+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ReadWeather(text)
	if err != nil {
		t.Fatal(err)
	}
	h = History{Start: f.Start, Step: time.Hour}
	h.Values = f.Intensities["direct_gco2eq_per_kwh"]
	h.Values = h.Values[:len(h.Values)-24]
	if h.Weather, err = f.On(h, len(h.Values)); err != nil {
		t.Fatal(err)
	}
	return h, len(h.Values) - benchDays*24
}

// dayMAPE is the mean absolute percentage error of a day ahead, 1 the first, in percent.
func dayMAPE(s Scores, day int) float64 {
	sum := 0.0
	for _, l := range s.Leads[24*(day-1) : 24*day] {
		sum += 100 * l.MAPE / 24
	}
	return sum
}

// backtestSums is Backtest of a blend over a history without gaps, by the day for four days,
// and the share of sums of 6 h, back to back, that come between the 10 % and the 90 % quantiles
// of its paths.
func backtestSums(t *testing.T, m *Blend, h History, start int) (scores Scores, covered float64) {
	t.Helper()
	const lead, window = 96, 6
	s, n := NewScorer(lead, window), 0.0
	s.FirstDay(24)
	for at := start; at+lead <= len(h.Values); at += 24 {
		b, err := m.Band(h.until(at), lead)
		if err != nil {
			t.Fatal(err)
		}
		truth := h.Values[at : at+lead]
		s.Add(b.Expected, b.Low, b.High, truth)
		paths, err := m.Paths(h.until(at), lead)
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from+window <= lead; from += window {
			var sums []float64
			for _, p := range paths {
				sums = append(sums, windowMean(p, from, window))
			}
			slices.Sort(sums)
			low := conformal(LowQuantile, len(sums))
			if came := windowMean(truth, from, window); came >= quantile(sums, low) && came <= quantile(sums, 1-low) {
				covered++
			}
			n++
		}
	}
	scores, err := s.Scores()
	if err != nil {
		t.Fatal(err)
	}
	return scores, covered / n
}

// TestWeatherOfARegion: on four weeks of Germany, the ridge with weather errs far less
// than the day before does, and than the published 13.3 % on the first day.
func TestWeatherOfARegion(t *testing.T) {
	h, start := benchRegion(t, "DE")
	h = h.until(start + 31*24)
	s, err := Backtest(&WeatherRidge{}, h, start, 96, 24, 6)
	if err != nil {
		t.Fatal(err)
	}
	naive, err := Backtest(SeasonalNaive{Days: 1}, h, start, 96, 24, 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range []int{1, 4} {
		if with, before := dayMAPE(s, day), dayMAPE(naive, day); with > 0.6*before {
			t.Errorf("day %d: MAPE %.1f %%, the day before %.1f %%", day, with, before)
		}
	}
	if s.Regret > 0.5*naive.Regret {
		t.Errorf("regret %.1f %%, of the day before %.1f %%", 100*s.Regret, 100*naive.Regret)
	}
}

// TestWeatherGate: over half a year of six regions, forecast at 00:00 UTC for four days,
// the blend with weather keeps what docs/forecasts.md states. The parameters were chosen on
// the half year before. Only in the large run: it takes minutes.
func TestWeatherGate(t *testing.T) {
	if !size.Large() {
		t.Skipf("set %s to run it: six regions take minutes", size.Variable)
	}
	var day1, day4, regretDay, regret, coverage, covered float64
	regions := []string{"CISO", "PJM", "ERCO", "DE", "SE", "NL"}
	for _, region := range regions {
		h, start := benchRegion(t, region)
		s, sums := backtestSums(t, NewBlend(), h, start)
		t.Logf("%s: MAPE %.2f / %.2f %%, regret %.2f / %.2f %%, in band %.0f %%, sums of 6 h %.0f %%", region, dayMAPE(s, 1), dayMAPE(s, 4), 100*s.RegretDay, 100*s.Regret, 100*s.Coverage, 100*sums)
		covered += sums / float64(len(regions))
		n := float64(len(regions))
		day1, day4, regretDay, regret, coverage = day1+dayMAPE(s, 1)/n, day4+dayMAPE(s, 4)/n, regretDay+100*s.RegretDay/n, regret+100*s.Regret/n, coverage+100*s.Coverage/n
	}
	t.Logf("mean: MAPE %.2f / %.2f %%, regret %.2f / %.2f %%, in band %.0f %%, sums of 6 h %.0f %%", day1, day4, regretDay, regret, coverage, 100*covered)
	if covered < 0.7 || covered > 0.88 || coverage < 70 || coverage > 88 {
		t.Errorf("%.0f %% of sums of 6 h and %.0f %% of hours lie in the band; accepted: 70 to 88 %%", 100*covered, coverage)
	}
	for what, c := range map[string]struct{ got, most float64 }{
		"MAPE of day 1": {day1, 6.9}, "MAPE of day 4": {day4, 9.6}, "regret within 24 h": {regretDay, 2.2}, "regret within 96 h": {regret, 7.0},
	} {
		if c.got > c.most {
			t.Errorf("%s: %.2f %%; accepted: %.1f %%", what, c.got, c.most)
		}
	}
}
