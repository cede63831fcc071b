package decide_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
)

// BenchmarkStanding is a decision while n tasks wait by standing plans and ten have just come:
// with a planner that remembers nothing, and with planner joint that remembers its last plans. With
// the latter also right after a forecast was issued, when all tasks are planned anew: cold, and
// with the plans of the last forecast remembered.
func BenchmarkStanding(b *testing.B) {
	for _, n := range []int{5000, 50_000} {
		for _, x := range []struct {
			name     string
			planner  plan.Planner
			warm     bool // the planner has planned all tasks before
			forecast bool
		}{
			{"planner=cheapest", cheapest.Planner{}, false, false},
			{"planner=joint", joint.Planner{}, false, false},
			{"planner=joint-warm", joint.NewWarm(joint.Planner{}), true, false},
			{"planner=joint/forecast", joint.Planner{}, false, true},
			{"planner=joint-warm/forecast", joint.NewWarm(joint.Planner{}), true, true},
		} {
			b.Run(fmt.Sprintf("jobs=%d/%s", n, x.name), func(b *testing.B) {
				now := 2.0
				var standing []*decide.Standing
				if x.warm {
					standing = decided(b, standingTasks(b, n, now, nil, 0), x.planner)
				}
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					now += 0.007 // a decision is some 25 seconds after the last
					s := standingTasks(b, n, now, standing, 10)
					for i := range s.Tasks {
						s.Tasks[i].Replan = x.forecast
					}
					if x.forecast {
						s.Clusters[0].Carbon = forecast(b, 1+0.05*float64(b.N%2))
					}
					b.StartTimer()
					if _, err := decide.Decide(context.Background(), s, x.planner); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// forecast has intensities of 8 days. Those of every other hour are multiplied.
func forecast(b *testing.B, every float64) *carbon.Series {
	b.Helper()
	var samples []carbon.Sample
	for h := range 24 * 8 {
		v := float64(100 + 37*(h%11))
		if h%2 == 0 {
			v *= every
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(v)})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		b.Fatal(err)
	}
	return series
}

// standingTasks has n tasks with standing plans, a default one where none is given, and some new ones. Their
// work is half of the capacity, and more than that of the cleanest hours.
func standingTasks(b *testing.B, n int, now float64, standing []*decide.Standing, fresh int) decide.Snapshot {
	b.Helper()
	s := decide.Snapshot{
		Now: at(now), Slot: 15 * time.Minute,
		Clusters: []decide.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 0.12 * float64(n)}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: forecast(b, 1)}},
	}
	for i := range n + fresh {
		x := task(fmt.Sprint(i), at(2), at(30+float64(i%100)), time.Duration(1+i%5)*time.Hour)
		switch from := 20 + float64(i%100); {
		case i >= n:
			x.ID = fmt.Sprint(i, now)
		case standing != nil:
			x.Standing = standing[i]
		default:
			x.Standing = &decide.Standing{Phases: []decide.Phase{{From: at(from), To: at(from + float64(1+i%5)), Cluster: "c", Workers: 1}}}
		}
		s.Tasks = append(s.Tasks, x)
	}
	return s
}

// decided has all tasks planned anew and returns their plans.
func decided(b *testing.B, s decide.Snapshot, planner plan.Planner) []*decide.Standing {
	b.Helper()
	for i := range s.Tasks {
		s.Tasks[i].Replan = true
	}
	d, err := decide.Decide(context.Background(), s, planner)
	if err != nil {
		b.Fatal(err)
	}
	out := make([]*decide.Standing, len(d.Actions))
	for i := range out {
		out[i] = &decide.Standing{Phases: d.Actions[i].Phases, Reason: d.Actions[i].Reason}
	}
	return out
}
