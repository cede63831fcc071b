package account_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func at(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }

// hourly has the intensity 100 in hour 0, 200 in hour 1 and so on.
func hourly(t testing.TB, n int) func(string) *carbon.Series {
	t.Helper()
	var samples []carbon.Sample
	for h := range n {
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(100 * (h + 1))})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "z"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return func(string) *carbon.Series { return s }
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(1, math.Abs(b)) }

func TestUse(t *testing.T) {
	of := hourly(t, 6)
	stretches := []account.Stretch{{From: at(0), To: at(2), Zone: "z", Workers: 1, Watts: 500}, {From: at(1), To: at(1.5), Zone: "z", Workers: 1, Watts: 1000}}
	for name, tc := range map[string]struct {
		measured []account.Measured
		want     account.Usage
	}{
		// 0.5 kW for an hour at 100 and one at 200, 1 kW for half an hour at 200.
		"by the model": {nil, account.Usage{KWh: 1.5, ModelKWh: 1.5, Grams: 50 + 100 + 100}},
		// From 0:30 to 1:30, 2 kWh: half at 100, half at 200. Beside it the first runs for half an hour at 100, and half an
		// hour at 200; nothing is left of the second.
		"measured within": {[]account.Measured{{From: at(0.5), To: at(1.5), Zone: "z", KWh: 2}}, account.Usage{KWh: 2.5, MeasuredKWh: 2, ModelKWh: 1.5, Grams: 25 + 300 + 50}},
		"measured twice":  {[]account.Measured{{From: at(1), To: at(2), Zone: "z", KWh: 1}, {From: at(0), To: at(1), Zone: "z", KWh: 3}}, account.Usage{KWh: 4, MeasuredKWh: 4, ModelKWh: 1.5, Grams: 500}},
		// The first reading has 3 kWh until 2:00; of the second, 2 kW from 1:30 to 2:30, the half hour after that counts.
		"measured by two, one later":  {[]account.Measured{{From: at(1.5), To: at(2.5), Zone: "z", KWh: 2}, {From: at(0), To: at(2), Zone: "z", KWh: 3}}, account.Usage{KWh: 4, MeasuredKWh: 4, ModelKWh: 1.5, Grams: 450 + 300}},
		"measured by two, one within": {[]account.Measured{{From: at(0.5), To: at(1), Zone: "z", KWh: 7}, {From: at(0), To: at(2), Zone: "z", KWh: 3}, {From: at(1), To: at(2), Zone: "z", KWh: 7}}, account.Usage{KWh: 3, MeasuredKWh: 3, ModelKWh: 1.5, Grams: 450}},
		"measured by two at once":     {[]account.Measured{{From: at(0), To: at(2), Zone: "z", KWh: 3}, {From: at(0), To: at(1), Zone: "z", KWh: 1}}, account.Usage{KWh: 2.5, MeasuredKWh: 2.5, ModelKWh: 1.5, Grams: 100 + 300}},
		"measured beside":             {[]account.Measured{{From: at(4), To: at(5), Zone: "z", KWh: 1}}, account.Usage{KWh: 2.5, MeasuredKWh: 1, ModelKWh: 1.5, Grams: 250 + 500}},
	} {
		u := account.Use(stretches, tc.measured, of)
		if !near(u.KWh, tc.want.KWh) || !near(u.MeasuredKWh, tc.want.MeasuredKWh) || !near(u.ModelKWh, tc.want.ModelKWh) || !near(u.Grams, tc.want.Grams) || u.Filled != 0 || u.Unknown != 0 {
			t.Errorf("%s: %+v, want %+v", name, u, tc.want)
		}
	}
}

// TestUseFillsByTheRule checks that time without an intensity has the price that
// carbon.FillRule gives it, and that time beyond that rule has none and says so.
func TestUseFillsByTheRule(t *testing.T) {
	of := hourly(t, 6)
	run := func(from, to float64) []account.Stretch {
		return []account.Stretch{{From: at(from), To: at(to), Zone: "z", Watts: 1000}}
	}
	for name, tc := range map[string]struct {
		stretches []account.Stretch
		measured  []account.Measured
		want      account.Usage
	}{
		"the day after":        {run(24, 26), nil, account.Usage{KWh: 2, ModelKWh: 2, Grams: 100 + 200, Filled: 2 * time.Hour}},
		"half of it known":     {run(-19, -17), nil, account.Usage{KWh: 2, ModelKWh: 2, Grams: 600, Filled: time.Hour, Unknown: time.Hour}},
		"measured":             {nil, []account.Measured{{From: at(24), To: at(26), Zone: "z", KWh: 4}}, account.Usage{KWh: 4, MeasuredKWh: 4, Grams: 200 + 400, Filled: 2 * time.Hour}},
		"at an hour of no day": {run(5, 8), nil, account.Usage{KWh: 3, ModelKWh: 3, Grams: 600, Unknown: 2 * time.Hour}},
		"eight days later":     {run(8*24, 8*24+1), nil, account.Usage{KWh: 1, ModelKWh: 1, Unknown: time.Hour}},
	} {
		if u := account.Use(tc.stretches, tc.measured, of); u != tc.want {
			t.Errorf("%s: %+v, want %+v", name, u, tc.want)
		}
	}
}

// TestUseInventsNoSaving checks that the same work has the same emissions in an hour of
// the series and in the hour a day later, which is missing: moving work to hours
// without data saves nothing.
func TestUseInventsNoSaving(t *testing.T) {
	of := hourly(t, 24)
	moved := account.Use([]account.Stretch{{From: at(23), To: at(25), Zone: "z", Watts: 1000}}, nil, of)
	inside := account.Use([]account.Stretch{{From: at(23), To: at(24), Zone: "z", Watts: 1000}, {From: at(0), To: at(1), Zone: "z", Watts: 1000}}, nil, of)
	if !near(moved.Grams, inside.Grams) || moved.Unknown != 0 {
		t.Errorf("%v g partly in a missing hour, %v g in hours with the same intensity", moved.Grams, inside.Grams)
	}
}

func TestLength(t *testing.T) {
	run := func(from, to float64, workers int) account.Stretch {
		return account.Stretch{From: at(from), To: at(to), Workers: workers}
	}
	concave := account.Curve{MinWorkers: 1, Marginal: []float64{1, 0.5}}
	for name, tc := range map[string]struct {
		stretches []account.Stretch
		curve     account.Curve
		workers   int
		lost      time.Duration
		want      float64
	}{
		"in one piece":        {[]account.Stretch{run(0, 2, 1)}, account.Curve{}, 1, 0, 2},
		"in two pieces":       {[]account.Stretch{run(0, 2, 1), run(5, 6, 1)}, account.Curve{}, 1, 0, 3},
		"with what was lost":  {[]account.Stretch{run(0, 2, 1), run(5, 6, 1)}, account.Curve{}, 1, time.Hour, 2},
		"two pods at once":    {[]account.Stretch{run(0, 2, 1), run(0, 2, 1)}, account.Curve{}, 2, 0, 2},
		"two pods in turn":    {[]account.Stretch{run(0, 2, 1), run(2, 4, 1)}, account.Curve{}, 2, 0, 2},
		"scaled up":           {[]account.Stretch{run(0, 2, 1), run(0, 2, 1)}, concave, 1, 0, 3},
		"as submitted at two": {[]account.Stretch{run(0, 3, 1)}, concave, 2, 0, 2},
		"more than the curve": {[]account.Stretch{run(0, 2, 1), run(0, 2, 1), run(0, 2, 1)}, concave, 1, 0, 3},
		"fewer than least":    {[]account.Stretch{run(0, 4, 1)}, account.Curve{MinWorkers: 2, Marginal: []float64{1}}, 2, 0, 2},
		"nothing":             {nil, concave, 1, 0, 0},
		"at no scale":         {[]account.Stretch{run(0, 4, 1)}, concave, 0, 0, 0},
	} {
		if got := account.Length(tc.stretches, tc.curve, tc.workers, tc.lost).Hours(); !near(got, tc.want) {
			t.Errorf("%s: %v h, want %v", name, got, tc.want)
		}
	}
}

// TestJobIsPlacedAsEarlyAsItFits: what is placed is as early as it can be, and no more is ever used than there is, against a
// search minute by minute.
func TestJobIsPlacedAsEarlyAsItFits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		const n = 400 // minutes
		var pool account.Pool
		var total, used [n]float64
		change := 0
		for m := range total {
			if m == change {
				total[m] = float64(rnd.IntN(8))
				pool.Offer("c", start.Add(time.Duration(m)*time.Minute), map[string]float64{"cpu": total[m], "memory": 100})
				change = m + 1 + rnd.IntN(60)
			} else if m > 0 {
				total[m] = total[m-1]
			}
		}
		submitted := 0
		for range 30 {
			submitted = min(n-1, submitted+rnd.IntN(10))
			length, cpus := 1+rnd.IntN(60), float64(1+rnd.IntN(4))
			fits := func(from int) bool {
				for m := from; m < from+length; m++ {
					if used[min(m, n-1)]+cpus > total[min(m, n-1)] {
						return false
					}
				}
				return true
			}
			want := submitted
			for want < 2*n && !fits(want) {
				want++
			}
			cluster, from, ok := pool.Place(nil, start.Add(time.Duration(submitted)*time.Minute), time.Duration(length)*time.Minute, map[string]float64{"cpu": cpus, "memory": 1})
			if ok != (want < 2*n) {
				t.Fatalf("round %d: placed %v, want %v", round, ok, want < 2*n)
			}
			if !ok {
				continue
			}
			if got := int(from.Sub(start) / time.Minute); got != want || cluster != "c" {
				t.Fatalf("round %d: at minute %d of %s, want %d", round, got, cluster, want)
			}
			pool.Take(cluster, from, from.Add(time.Duration(length)*time.Minute), map[string]float64{"cpu": cpus, "memory": 1})
			for m := want; m < min(n, want+length); m++ {
				used[m] += cpus
			}
			if want+length >= n {
				break // beyond what is searched
			}
		}
	}
}

func TestPlaceOnSeveralClusters(t *testing.T) {
	var pool account.Pool
	pool.Offer("b", start, map[string]float64{"cpu": 4})
	pool.Offer("a", start, map[string]float64{"cpu": 2})
	for i, tc := range []struct {
		clusters []string
		cpus     float64
		cluster  string
		from     float64
		ok       bool
	}{
		{nil, 2, "a", 0, true},
		{nil, 2, "b", 0, true},
		{[]string{"a"}, 1, "a", 1, true},
		{nil, 4, "b", 1, true},
		{nil, 5, "", 0, false},
		{[]string{"nowhere"}, 1, "", 0, false},
	} {
		cluster, from, ok := pool.Place(tc.clusters, start, time.Hour, map[string]float64{"cpu": tc.cpus})
		if cluster != tc.cluster || ok != tc.ok || ok && !from.Equal(at(tc.from)) {
			t.Errorf("%d: %s at %v, %v; want %+v", i, cluster, from, ok, tc)
		}
		pool.Take(cluster, from, from.Add(time.Hour), map[string]float64{"cpu": tc.cpus})
	}
	// What lies behind may be forgotten.
	pool.Forget(at(1.5))
	if cluster, from, ok := pool.Place(nil, at(2), time.Hour, map[string]float64{"cpu": 4}); !ok || cluster != "b" || !from.Equal(at(2)) {
		t.Errorf("after forgetting: %s at %v", cluster, from)
	}
}

// BenchmarkPlace places jobs one after the other: in a crowd there is room for 50 at a time and 60 ask, so that the
// queue grows; with room each starts as it comes.
func BenchmarkPlace(b *testing.B) {
	for _, crowd := range []struct {
		name string
		cpus float64
	}{{"crowded", 100}, {"room", 1000}} {
		for _, jobs := range []int{1000, 4000, 16000} {
			b.Run(fmt.Sprintf("%s/jobs=%d", crowd.name, jobs), func(b *testing.B) {
				for b.Loop() {
					var pool account.Pool
					pool.Offer("c", start, map[string]float64{"cpu": crowd.cpus})
					for i := range jobs {
						request := map[string]float64{"cpu": 2}
						cluster, from, _ := pool.Place(nil, start.Add(time.Duration(i)*time.Minute), time.Hour, request)
						pool.Take(cluster, from, from.Add(time.Hour), request)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(jobs), "ns/job")
			})
		}
	}
}
