package workload_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/pkg/workload"
)

func lengthsOf(d ...time.Duration) *workload.Lengths {
	l := &workload.Lengths{}
	for _, x := range d {
		l.Add(x)
	}
	l.Merge()
	return l
}

// TestQuantilesByHand: nine runs of 1 h to 9 h. The tenth exceeds the k-th shortest with probability 1 - k/10.
func TestQuantilesByHand(t *testing.T) {
	var nine []time.Duration
	for h := 9; h > 0; h-- {
		nine = append(nine, time.Duration(h)*time.Hour)
	}
	l := lengthsOf(nine...)
	for _, c := range []struct {
		name    string
		done    time.Duration
		running []time.Duration
		want    []time.Duration // of 0.5, 0.9 and 0.95
	}{
		{"new", 0, nil, []time.Duration{5 * time.Hour, 9 * time.Hour, 9 * time.Hour}},
		{"after 4 h", 4 * time.Hour, nil, []time.Duration{7 * time.Hour, 9 * time.Hour, 9 * time.Hour}},
		{"almost the longest", 9*time.Hour - 1, nil, []time.Duration{9 * time.Hour, 9 * time.Hour, 9 * time.Hour}},
		{"others run for long", 0, []time.Duration{20 * time.Hour, 30 * time.Hour}, []time.Duration{6 * time.Hour, 30 * time.Hour, 30 * time.Hour}},
		{"others have just begun", time.Minute, []time.Duration{time.Second, time.Minute}, []time.Duration{5 * time.Hour, 9 * time.Hour, 9 * time.Hour}},
	} {
		got := l.Quantiles(c.done, c.running, 0.5, 0.9, 0.95)
		if len(got) != 3 {
			t.Fatalf("%s: %v", c.name, got)
		}
		for k, q := range got {
			if q.Length != c.want[k] || q.P != []float64{0.5, 0.9, 0.95}[k] {
				t.Errorf("%s: quantile %v is %v, want %v", c.name, q.P, q.Length, c.want[k])
			}
		}
	}
	if got := l.Quantiles(9*time.Hour, nil, 0.5); got != nil {
		t.Errorf("longer than all that ended: %v, want none", got)
	}
	if got := lengthsOf(nine[:workload.QuantilesFrom-1]...).Quantiles(0, nil, 0.5); got != nil {
		t.Errorf("of too few runs: %v, want none", got)
	}
}

// kaplanMeier is the estimate by its definition, one run time after the other.
func kaplanMeier(ended, running []time.Duration, done time.Duration, p float64) time.Duration {
	longest, left := time.Duration(0), 1.0
	for _, d := range append(slices.Clone(ended), running...) {
		longest = max(longest, d)
	}
	times := slices.Clone(ended)
	slices.Sort(times)
	for _, x := range slices.Compact(times) {
		if x <= done {
			continue
		}
		equal, atRisk := 0.0, 1.0
		for _, d := range ended {
			if d == x {
				equal++
			}
			if d >= x {
				atRisk++
			}
		}
		for _, d := range running {
			if d >= x {
				atRisk++
			}
		}
		if left *= 1 - equal/atRisk; left <= 1-p+1e-9 {
			return x
		}
	}
	return longest
}

// TestQuantilesAreKaplanMeier compares with the definition, with ties and censored runs.
func TestQuantilesAreKaplanMeier(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	random := func(n int) (out []time.Duration) {
		for range n {
			out = append(out, time.Duration(1+rng.IntN(20))*time.Minute)
		}
		return out
	}
	checked := 0
	for range 20_000 {
		ended, running := random(workload.QuantilesFrom+rng.IntN(12)), random(rng.IntN(8))
		slices.Sort(running)
		done := time.Duration(rng.IntN(20)) * time.Minute
		probabilities := []float64{0.05 + 0.4*rng.Float64(), 0.5, 0.9, 0.95, 0.99}
		got := lengthsOf(ended...).Quantiles(done, running, probabilities...)
		if got == nil {
			if slices.Max(ended) > done {
				t.Fatalf("ended %v, done %v: none", ended, done)
			}
			continue
		}
		for k, q := range got {
			if want := kaplanMeier(ended, running, done, q.P); q.Length != want || q.P != probabilities[k] {
				t.Fatalf("ended %v, running %v, done %v: quantile %v is %v, want %v", ended, running, done, q.P, q.Length, want)
			}
			if q.Length <= done || k > 0 && q.Length < got[k-1].Length {
				t.Fatalf("done %v: quantiles %v do not rise above what is done", done, got)
			}
			checked++
		}
	}
	if checked < 50_000 {
		t.Errorf("only %d quantiles checked", checked)
	}
}

// TestQuantilesCoverTheStatedShare: of runs drawn alike, the share that the quantile of n earlier ones covers is what
// it says, on average, where n is enough; a part of the runs is censored at random.
func TestQuantilesCoverTheStatedShare(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	draw := func() time.Duration { return time.Duration(1 + rng.ExpFloat64()*float64(time.Hour)) }
	covered, all, naive := 0, 0, 0
	for range 4000 {
		var ended, running []time.Duration
		for range 60 {
			if x, watched := draw(), draw(); x <= watched {
				ended = append(ended, x)
			} else {
				running = append(running, watched)
			}
		}
		if len(ended) < workload.QuantilesFrom {
			continue
		}
		slices.Sort(running)
		next := draw()
		all++
		if next <= lengthsOf(ended...).Quantiles(0, running, 0.8)[0].Length {
			covered++
		}
		if next <= lengthsOf(ended...).Quantiles(0, nil, 0.8)[0].Length {
			naive++
		}
	}
	share, ignoring := float64(covered)/float64(all), float64(naive)/float64(all)
	if share < 0.77 || share > 0.84 {
		t.Errorf("the 80 %% quantile covers %.3f of the runs", share)
	}
	if ignoring > share-0.1 {
		t.Errorf("without the runs that have not ended it covers %.3f, with them %.3f: the test does not tell them apart", ignoring, share)
	}
}
