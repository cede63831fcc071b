package decide_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// BenchmarkStanding is a decision while n tasks wait by standing plans and some have just come:
// with a planner that remembers nothing, and with planner joint that remembers its last plans. With
// both also right after a forecast was issued, when all tasks are planned anew, and the latter when
// many tasks came or one in a hundred has ended since the last forecast. With paths, waits must be sure enough.
//
// gap% is the proven gap of the plan, cpu-ms/op the processor time of a decision.
func BenchmarkStanding(b *testing.B) {
	for _, n := range []int{5000, 50_000} {
		for _, x := range []struct {
			name     string
			planner  plan.Planner
			warm     bool // the planner has planned all tasks before
			forecast bool
			came     int
			ended    bool
			paths    int
		}{
			{"planner=cheapest", cheapest.Planner{}, false, false, 10, false, 0},
			{"planner=joint", joint.Planner{}, false, false, 10, false, 0},
			{"planner=joint-warm", joint.NewWarm(joint.Planner{}), true, false, 10, false, 0},
			{"planner=joint-warm/came=500", joint.NewWarm(joint.Planner{}), true, false, 500, false, 0},
			{"planner=joint/forecast", joint.Planner{}, false, true, 10, false, 0},
			{"planner=joint-warm/forecast", joint.NewWarm(joint.Planner{}), true, true, 10, false, 0},
			{"planner=joint-warm/forecast/came=50", joint.NewWarm(joint.Planner{}), true, true, 50, false, 0},
			{"planner=joint-warm/forecast/came=500", joint.NewWarm(joint.Planner{}), true, true, 500, false, 0},
			{"planner=joint-warm/forecast/ended", joint.NewWarm(joint.Planner{}), true, true, 10, true, 0},
			{"planner=joint-warm/paths=50", joint.NewWarm(joint.Planner{}), true, false, 10, false, 50},
			{"planner=joint-warm/forecast/paths=50", joint.NewWarm(joint.Planner{}), true, true, 10, false, 50},
		} {
			b.Run(fmt.Sprintf("jobs=%d/%s", n, x.name), func(b *testing.B) {
				now := 2.0
				var standing []*decide.Standing
				if x.warm {
					s := standingTasks(b, n, now, nil, 0)
					withPaths(b, &s, x.paths)
					standing = decided(b, s, x.planner)
				}
				b.ReportAllocs()
				seconds, gap, round := 0.0, 0.0, 0
				for b.Loop() {
					b.StopTimer()
					now += 0.007 // a decision is some 25 seconds after the last
					round++
					s := standingTasks(b, n, now, standing, x.came)
					if x.ended {
						s.Tasks = slices.DeleteFunc(s.Tasks, func(t decide.Task) bool { return strings.HasSuffix(t.ID, fmt.Sprint(round%100)) })
					}
					for i := range s.Tasks {
						s.Tasks[i].Replan = x.forecast
					}
					if x.forecast {
						s.Clusters[0].Carbon = forecast(b, uint64(round))
					}
					withPaths(b, &s, x.paths)
					began := cpu(b)
					b.StartTimer()
					d, err := decide.Decide(context.Background(), s, x.planner)
					if err != nil {
						b.Fatal(err)
					}
					seconds += cpu(b) - began
					if d.Gap != nil {
						gap += *d.Gap
					}
				}
				b.ReportMetric(seconds*1000/float64(b.N), "cpu-ms/op")
				b.ReportMetric(100*gap/float64(b.N), "gap%")
			})
		}
	}
}

// BenchmarkLarge is a decision while n tasks wait by standing plans, ten have just come, and one that runs for 12 hours
// on the whole cluster, with several deadlines. With a forecast all are planned anew.
//
// joint-ms/op is the processor time of the planner, cpu-ms/op that of a decision.
func BenchmarkLarge(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		for _, deadline := range []float64{20, 40, 100} {
			for _, anew := range []bool{false, true} {
				b.Run(fmt.Sprintf("jobs=%d/deadline=%v/forecast=%v", n, deadline, anew), func(b *testing.B) {
					planner := &timedPlanner{Warm: joint.NewWarm(joint.Planner{}), b: b}
					now := 2.0
					standing := decided(b, standingTasks(b, n, now, nil, 0), planner)
					planner.seconds = 0
					seconds, round := 0.0, uint64(0)
					for b.Loop() {
						b.StopTimer()
						now += 0.007
						round++
						s := standingTasks(b, n, now, standing, 10)
						large := task("large", at(2), at(deadline), 12*time.Hour)
						large.Kind, large.Request = workload.Rigid, map[string]float64{"cpu": 0.12 * float64(n)}
						s.Tasks = append(s.Tasks, large)
						if anew {
							s.Clusters[0].Carbon = forecast(b, round)
							for i := range s.Tasks {
								s.Tasks[i].Replan = true
							}
						}
						began := cpu(b)
						b.StartTimer()
						if _, err := decide.Decide(context.Background(), s, planner); err != nil {
							b.Fatal(err)
						}
						seconds += cpu(b) - began
					}
					b.ReportMetric(seconds*1000/float64(b.N), "cpu-ms/op")
					b.ReportMetric(planner.seconds*1000/float64(b.N), "joint-ms/op")
				})
			}
		}
	}
}

// timedPlanner adds up the processor time of a planner with a memory.
type timedPlanner struct {
	*joint.Warm
	b       *testing.B
	seconds float64
}

func (t *timedPlanner) Plan(ctx context.Context, p *plan.Problem) (plan.Result, error) {
	began := cpu(t.b)
	defer func() { t.seconds += cpu(t.b) - began }()
	return t.Warm.Plan(ctx, p)
}

// BenchmarkQueue is a decision while n tasks wait by standing plans and a tenth of n, released, waits for
// room in the queue of the cluster: the queue is run forward.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprintf("jobs=%d/queued=%d", n, n/10), func(b *testing.B) {
			s := standingTasks(b, n, 2, nil, 0)
			full := task("full", at(0), time.Time{}, 4*time.Hour)
			full.State, full.Cluster, full.Kind = decide.Running, "c", workload.Rigid
			full.Request = map[string]float64{"cpu": 0.12*float64(n) - 1}
			s.Tasks = append(s.Tasks, full)
			for i := range n / 10 {
				x := task(fmt.Sprint("queued", i), at(0), time.Time{}, time.Duration(1+i%5)*time.Hour)
				x.State, x.Unscheduled, x.Kind = decide.Running, true, workload.Rigid
				x.Request = map[string]float64{"cpu": float64(2 + i%3)}
				s.Tasks = append(s.Tasks, x)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decide.Decide(context.Background(), s, cheapest.Planner{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFallingCapacity is a decision while n tasks wait, and the capacity will fall so far that some find no place in time.
func BenchmarkFallingCapacity(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			s := standingTasks(b, n, 2, nil, 0)
			all := s.Clusters[0].Capacity["cpu"]
			s.Clusters[0].CapacityAt = map[string][]float64{"cpu": {all, all, all / 20}}
			for b.Loop() {
				if _, err := decide.Decide(context.Background(), s, cheapest.Planner{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOverload is a decision on 5,000 tasks on a cluster with so small a share of the capacity that they need that most find no place in
// time, while 500 released tasks wait in its queue. With a forecast all are planned anew.
func BenchmarkOverload(b *testing.B) {
	const n, queued = 5000, 500
	for _, share := range []float64{2, 5, 20} {
		for _, anew := range []bool{false, true} {
			b.Run(fmt.Sprintf("jobs=%d/capacity=1:%g/forecast=%v", n, share, anew), func(b *testing.B) {
				small := func(now float64, standing []*decide.Standing, came int) decide.Snapshot {
					s := standingTasks(b, n, now, standing, came)
					s.Clusters[0].Capacity = map[string]float64{"cpu": s.Clusters[0].Capacity["cpu"] / share}
					return s
				}
				planner, now, seconds := joint.NewWarm(joint.Planner{}), 2.0, 0.0
				s := small(now, nil, 0)
				d, err := decide.Decide(context.Background(), s, planner)
				if err != nil {
					b.Fatal(err)
				}
				standing := make([]*decide.Standing, n)
				for i := range standing {
					standing[i] = d.Actions[i].Stands(&s.Tasks[i])
				}
				for b.Loop() {
					b.StopTimer()
					now += 0.007
					s := small(now, standing, 10)
					if anew {
						s.Clusters[0].Carbon = forecast(b, uint64(1000*now))
					}
					for i := range s.Tasks {
						s.Tasks[i].Replan = anew
					}
					for i := range queued {
						x := task(fmt.Sprint("queued", i), at(0), at(now+float64(1+i%40)), time.Duration(1+i%5)*time.Hour)
						x.State, x.Unscheduled, x.Kind = decide.Running, true, workload.Rigid
						x.Request = map[string]float64{"cpu": float64(2 + i%3)}
						s.Tasks = append(s.Tasks, x)
					}
					began := cpu(b)
					b.StartTimer()
					if _, err := decide.Decide(context.Background(), s, planner); err != nil {
						b.Fatal(err)
					}
					seconds += cpu(b) - began
				}
				b.ReportMetric(seconds*1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// BenchmarkVerify checks a decision on n tasks, as the controllers do after each.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{5000, 50_000} {
		s := standingTasks(b, n, 2, nil, 10)
		d, err := decide.Decide(context.Background(), s, cheapest.Planner{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("jobs=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if broken := decide.Verify(s, d); len(broken) > 0 {
					b.Fatal(broken[0])
				}
			}
		})
	}
}

// cpu is the processor time that the process has used, in seconds.
func cpu(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// forecast has intensities of 8 days. Issue 0 is the first; each later one differs from it by up to
// 5 % in every hour.
func forecast(b *testing.B, issue uint64) *carbon.Series {
	b.Helper()
	rng := rand.New(rand.NewPCG(issue, 7))
	var samples []carbon.Sample
	for h := range 24 * 8 {
		v := float64(100 + 37*(h%11))
		if issue > 0 {
			v *= 0.95 + 0.1*rng.Float64()
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: units.CarbonIntensity(v)})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		b.Fatal(err)
	}
	return series
}

// withPaths adds paths to the cluster, whose values are up to 30 % off for six hours, and asks for a confidence.
func withPaths(b *testing.B, s *decide.Snapshot, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(uint64(n), 9))
	values := make([][]float64, n)
	for p := range values {
		off := 1.0
		for h := range 24 * 8 {
			if h%6 == 0 {
				off = 0.7 + 0.6*rng.Float64()
			}
			v, _ := s.Clusters[0].Carbon.At(at(float64(h)))
			values[p] = append(values[p], off*float64(v.Value))
		}
	}
	paths, err := carbon.NewPaths(at(0), time.Hour, values)
	if err != nil {
		b.Fatal(err)
	}
	s.Clusters[0].CarbonPaths, s.SavingConfidence = paths, 0.9
}

// standingTasks has n tasks with standing plans, a default one where none is given, and some new ones. Their
// work is half of the capacity, and more than that of the cleanest hours.
func standingTasks(b *testing.B, n int, now float64, standing []*decide.Standing, fresh int) decide.Snapshot {
	b.Helper()
	s := decide.Snapshot{
		Now: at(now), Slot: 15 * time.Minute,
		Clusters: []decide.Cluster{{Name: "c", Capacity: map[string]float64{"cpu": 0.12 * float64(n)}, Power: power.PerUnit{Watts: map[string]float64{"cpu": 10}, PUE: 1}, Carbon: forecast(b, 0)}},
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
