package decide_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// emissions of phases, per worker and unit of power.
func emissions(series *carbon.Series, phases []decide.Phase) (sum float64) {
	for _, p := range phases {
		for at := p.From; at.Before(p.To); {
			next := at.Truncate(time.Minute).Add(time.Minute)
			if next.After(p.To) {
				next = p.To
			}
			x, _ := series.At(at)
			sum += float64(x.Value) * next.Sub(at).Hours() * float64(max(1, p.Workers))
			at = next
		}
	}
	return sum
}

// restarts is what the restarts of a task on the first cluster emit, per unit of its power, as emissions is.
func restarts(s *decide.Snapshot, i int, phases []decide.Phase) (sum float64) {
	t := &s.Tasks[i]
	for k := 1; k < len(phases); k++ {
		if from := phases[k].From; from.After(phases[k-1].To) {
			mean, _ := s.Clusters[0].Carbon.Mean(from, from.Add(s.Slot))
			sum += t.RestartKWh * 1000 / float64(s.Clusters[0].Power.Of(t.Request)) * float64(mean)
		}
	}
	return sum
}

// TestRefinedPlansEmitNoMore: a plan that is refined emits no more than the plan in slots, restarts included, keeps every deadline, and the decision
// breaks no invariant.
func TestRefinedPlansEmitNoMore(t *testing.T) {
	const seeds = 200
	moved, before, after := 0, 0.0, 0.0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 23))
		now := at(0).Add(time.Duration(rng.Int64N(int64(24 * time.Hour))))
		s := snapshot(t, now)
		s.Clusters[0].Capacity = map[string]float64{"cpu": float64(2 + rng.IntN(8))}
		s.Clusters[0].Carbon = randomHours(t, rng)
		s.Slot = []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour}[rng.IntN(3)]
		s.Margin = time.Duration(rng.IntN(2)) * 5 * time.Minute
		if rng.IntN(2) == 0 {
			s.MinRun, s.MinPause = 5*time.Minute, 5*time.Minute
		}
		for i := range 1 + rng.IntN(6) {
			x := task(fmt.Sprint("t", i), now, now.Add(8*time.Hour+time.Duration(rng.Int64N(int64(24*time.Hour)))), time.Minute+time.Duration(rng.Int64N(int64(6*time.Hour))))
			switch rng.IntN(3) {
			case 1:
				x.Kind = workload.Interruptible
				x.RestartKWh = float64(rng.IntN(2)) * 0.001
			case 2:
				x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 0.9, 0.8, 0.4}}
			}
			s.Tasks = append(s.Tasks, x)
		}
		for name, planner := range map[string]plan.Planner{"joint": joint.Planner{Effort: 0.1}, "cheapest": cheapest.Planner{}, "guarded joint": plan.Guarded{Planner: joint.Planner{Effort: 0.1}, Probability: 0.95}} {
			coarse, err := decide.Decide(t.Context(), s, plan.InSlots{Planner: planner})
			if err != nil {
				t.Fatal(err)
			}
			fine, err := decide.Decide(t.Context(), s, planner)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range decide.Verify(s, fine) {
				t.Errorf("seed %d, %s: %v", seed, name, v)
			}
			for i := range s.Tasks {
				a, b := coarse.Actions[i].Phases, fine.Actions[i].Phases
				if len(a) == 0 || len(b) == 0 {
					if len(a) != len(b) {
						t.Errorf("seed %d, %s, task %d: phases %v, in slots %v", seed, name, i, b, a)
					}
					continue
				}
				x, y := emissions(s.Clusters[0].Carbon, a)+restarts(&s, i, a), emissions(s.Clusters[0].Carbon, b)+restarts(&s, i, b)
				before, after = before+x, after+y
				if y > x*(1+1e-6) {
					t.Errorf("seed %d, %s, task %d (%s): refined to %v g/kW from %v: %v from %v", seed, name, i, s.Tasks[i].Kind, y, x, b, a)
				}
				if end := b[len(b)-1].To; b[0].From.Before(now) || end.After(s.Tasks[i].Deadline.Add(-s.Margin)) && end.After(a[len(a)-1].To) {
					t.Errorf("seed %d, %s, task %d: refined to %v from %v, due %v", seed, name, i, b, a, s.Tasks[i].Deadline)
				}
				if y < x*(1-1e-6) {
					moved++
				}
			}
		}
	}
	if moved < seeds {
		t.Errorf("%d plans were refined; want at least %d", moved, seeds)
	}
	t.Logf("%d plans were refined; all emit %.2f %% less", moved, 100*(1-after/before))
}

// TestSlotsOfAnHourLoseNothing: plans in slots of an hour emit at most 0.1 % of the emissions as submitted more than plans in slots of
// five minutes, for each kind of task. So a plan may use the clean minutes between its last whole slot and its deadline.
func TestSlotsOfAnHourLoseNothing(t *testing.T) {
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic} {
		t.Run(string(kind), func(t *testing.T) {
			sums := map[time.Duration]float64{}
			submitted := 0.0
			for seed := range uint64(100) {
				rng := rand.New(rand.NewPCG(seed, 29))
				now := at(0).Add(time.Duration(rng.Int64N(int64(24 * time.Hour))))
				s := snapshot(t, now)
				s.Clusters[0].Capacity = map[string]float64{"cpu": 1000}
				s.Clusters[0].Carbon = randomHours(t, rng)
				for i := range 5 {
					length := 10*time.Minute + time.Duration(rng.Int64N(int64(8*time.Hour)))
					x := task(fmt.Sprint("t", i), now, now.Add(length+time.Duration(rng.Int64N(int64(24*time.Hour)))), length)
					if x.Kind = kind; kind == workload.Elastic {
						x.Scaling = &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 0.9, 0.8, 0.4}}
					}
					s.Tasks = append(s.Tasks, x)
					submitted += emissions(s.Clusters[0].Carbon, []decide.Phase{{From: now, To: now.Add(length), Workers: 1}})
				}
				for _, s.Slot = range []time.Duration{time.Hour, 5 * time.Minute} {
					d, err := decide.Decide(t.Context(), s, joint.Planner{})
					if err != nil {
						t.Fatal(err)
					}
					for i := range s.Tasks {
						sums[s.Slot] += emissions(s.Clusters[0].Carbon, d.Actions[i].Phases)
					}
				}
			}
			lost := 100 * (sums[time.Hour] - sums[5*time.Minute]) / submitted
			t.Logf("slots of an hour lose %.3f points; in slots of 5 minutes %.2f %% are saved", lost, 100*(1-sums[5*time.Minute]/submitted))
			if lost > 0.1 {
				t.Errorf("plans in slots of an hour emit %.3f %% of the emissions as submitted more than in slots of 5 minutes; want at most 0.1 %%", lost)
			}
		})
	}
}

// TestRefinedPlansKeepTheHorizon: no intensity is known after the horizon, and the last one before it is clean. Refined plans end by it.
func TestRefinedPlansKeepTheHorizon(t *testing.T) {
	var samples []carbon.Sample
	for h := range 48 {
		v := units.CarbonIntensity(500)
		if h < 11 {
			v = 100
		} else if h == 11 {
			v = 50
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: v})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible} {
		x := task("x", at(0), at(48), 4*time.Hour)
		x.Kind = kind
		s := snapshot(t, at(0), x)
		s.Slot, s.Horizon, s.Clusters[0].Carbon = time.Hour, 12*time.Hour, series
		d, err := decide.Decide(t.Context(), s, joint.Planner{})
		if err != nil {
			t.Fatal(err)
		}
		if p := d.Actions[0].Phases; len(p) == 0 || p[len(p)-1].To.After(at(12)) {
			t.Errorf("%s: it is to run %v; want it to end by the horizon, 12:00", kind, p)
		}
	}
}

// TestElasticPlansTheCleanHour: at 7:47 the slots of an hour begin at 47 minutes past. The hour from 8:00 is clean: the plan is to run then.
func TestElasticPlansTheCleanHour(t *testing.T) {
	now := at(7).Add(47 * time.Minute)
	var samples []carbon.Sample
	for h := range 48 {
		v := units.CarbonIntensity(500)
		if h == 8 {
			v = 50
		}
		samples = append(samples, carbon.Sample{From: at(float64(h)), To: at(float64(h + 1)), Value: v})
	}
	series, err := carbon.NewSeries(carbon.Provenance{}, samples)
	if err != nil {
		t.Fatal(err)
	}
	x := task("elastic", now, now.Add(24*time.Hour), 8*time.Hour)
	x.Kind, x.Scaling = workload.Elastic, &decide.Scaling{MinWorkers: 1, MaxWorkers: 8, Curve: []float64{1, 1, 1, 1, 1, 1, 1, 1}}
	s := snapshot(t, now, x)
	s.Slot, s.Margin, s.MinRun, s.MinPause = time.Hour, 5*time.Minute, 5*time.Minute, 5*time.Minute
	s.Clusters[0].Capacity, s.Clusters[0].Carbon = map[string]float64{"cpu": 100}, series
	d, err := decide.Decide(t.Context(), s, joint.Planner{})
	if err != nil {
		t.Fatal(err)
	}
	if p := d.Actions[0].Phases; len(p) != 1 || !p[0].From.Equal(at(8)) || !p[0].To.Equal(at(9)) || p[0].Workers != 8 {
		t.Errorf("it is to run %v; want 8 workers from 8:00 to 9:00", p)
	}
}

// TestRefinedPausesAreWorthIt: a plan is refined with a pause that saves much, and not with one that saves less than 1 %.
func TestRefinedPausesAreWorthIt(t *testing.T) {
	world := func(dirty units.CarbonIntensity) decide.Snapshot {
		s := snapshot(t, at(8), task("a", at(8), at(10.5), 2*time.Hour))
		s.Slot, s.Tasks[0].Kind = time.Hour, workload.Interruptible
		s.Clusters[0].Capacity = map[string]float64{"cpu": 100}
		var samples []carbon.Sample
		for k := range 96 { // half hours: 8:00 to 9:00 and 9:30 to 13:00 are clean
			v := units.CarbonIntensity(900)
			switch {
			case k == 18:
				v = dirty
			case k >= 16 && k < 26:
				v = 333.3
			}
			samples = append(samples, carbon.Sample{From: at(float64(k) / 2), To: at(float64(k+1) / 2), Value: v})
		}
		series, err := carbon.NewSeries(carbon.Provenance{}, samples)
		if err != nil {
			t.Fatal(err)
		}
		s.Clusters[0].Carbon = series
		return s
	}
	for _, tc := range []struct {
		name  string
		dirty units.CarbonIntensity
		runs  int
	}{
		{"half an hour is dirty", 900, 2},
		{"half an hour is 2 % dirtier, a pause saves 0.5 %", 340, 1},
	} {
		for name, planner := range map[string]plan.Planner{"joint": joint.Planner{}, "cheapest": cheapest.Planner{}} {
			s := world(tc.dirty)
			d, err := decide.Decide(t.Context(), s, planner)
			if err != nil {
				t.Fatal(err)
			}
			if p := d.Actions[0].Phases; len(p) != tc.runs {
				t.Errorf("%s, %s: it is to run %v; want %d runs", tc.name, name, p, tc.runs)
			}
		}
	}
}
