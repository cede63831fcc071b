package slurm

import (
	"math"
	"slices"
	"testing"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
)

// measuring is a controller whose ledger has the energy that Slurm measures.
func measuring(t *testing.T, m Measure, jobs ...slurm.Job) *bed {
	b := withLedger(t, jobs...)
	b.c.o.Measure = &m
	b.step = time.Minute
	b.restart()
	return b
}

// modelled is the energy of an hour of a job of 8 CPUs by the model.
const modelled = hourOfCluster

func (b *bed) energy(s ledger.Settled, kWh, measured float64, sources ...string) {
	b.t.Helper()
	if math.Abs(s.KWh-kWh) > 1e-9 || math.Abs(s.MeasuredKWh-measured) > 1e-9 || math.Abs(s.Counterfactual.KWh-kWh) > 1e-9 || !slices.Equal(s.Sources, sources) {
		b.t.Errorf("%v kWh, %v measured, %v as submitted, by %v; want %v, %v, %v, %v; %+v", s.KWh, s.MeasuredKWh, s.Counterfactual.KWh, s.Sources, kWh, measured, kWh, sources, s)
	}
}

// TestLedgerHasTheEnergyThatSlurmMeasured: a job of an hour used 1 kWh. As submitted it would have used as much, and the emissions of both sides follow.
func TestLedgerHasTheEnergyThatSlurmMeasured(t *testing.T) {
	hour := slurm.Used{ID: "2", Started: clockAt(8, 0), Ended: clockAt(9, 0), CPUs: 8, Joules: 3.6e6}
	for name, tc := range map[string]struct {
		measure       Measure
		reading       slurm.Used
		kWh, measured float64
		sources       []string
	}{
		"whole nodes":         {Measure{PUE: 1}, hour, 1, 1, []string{"slurm"}},
		"with a PUE":          {Measure{PUE: 1.5}, hour, 1.5, 1.5, []string{"slurm"}},
		"GPUs by the model":   {Measure{PUE: 1.5, WattsPerGPU: 100}, hour, 1.5 * 1.2, 1.5, []string{"model", "slurm"}},
		"CPUs by the model":   {Measure{PUE: 1, WattsPerCPU: 10}, hour, 1.08, 1, []string{"model", "slurm"}},
		"it shared its nodes": {Measure{PUE: 1}, slurm.Used{ID: "2", Started: hour.Started, Ended: hour.Ended, Why: slurm.SharedNodes}, modelled, 0, []string{"model"}},
		"of another run":      {Measure{PUE: 1}, slurm.Used{ID: "2", Started: clockAt(7, 0), Ended: clockAt(7, 30), Joules: 3.6e6}, modelled, 0, []string{"model"}},
		"never":               {Measure{PUE: 1}, slurm.Used{ID: "2", Started: hour.Started}, modelled, 0, []string{"model"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := job("2", "lull:max-delay=12h")
			j.GPUs = 2
			b := measuring(t, tc.measure, j)
			b.f.lasts["2"] = time.Hour
			b.f.readings = []slurm.Used{tc.reading}
			b.until(15 * time.Hour)
			all := b.settled()
			b.energy(all["2"], tc.kWh, tc.measured, tc.sources...)
			if s := all["2"]; s.Inferred != 0 || s.Runs != 1 || math.Abs(s.Grams-100*tc.kWh) > 1e-9 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestEnergyThatIsKnownLate: a job ends at 9:00, and Slurm forgets it a minute later. Its energy is waited for, but not for ever, and its end stays observed.
func TestEnergyThatIsKnownLate(t *testing.T) {
	reading := slurm.Used{ID: "1", Started: clockAt(8, 0), Ended: clockAt(9, 0), CPUs: 8, Joules: 3.6e6}
	for name, tc := range map[string]struct {
		// the accounting is down, or has no reading yet, until then.
		down, late time.Duration
		measured   float64
		none       bool
	}{
		"soon":                      {0, 9*time.Hour + 2*time.Minute, 1, false},
		"too late":                  {0, 9*time.Hour + 20*time.Minute, 0, false},
		"slurmdbd is down":          {9*time.Hour + 40*time.Minute, 0, 1, false},
		"slurmdbd is down for long": {10*time.Hour + 20*time.Minute, 0, 0, false},
		"there is no slurmdbd":      {0, 0, 0, true},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				b := measuring(t, Measure{PUE: 1}, job("1", "lull:max-delay=12h"))
				b.f.lasts["1"], b.f.age = time.Hour, time.Minute
				b.until(8*time.Hour + 59*time.Minute)
				b.f.readings = []slurm.Used{reading}
				switch {
				case tc.none:
					b.f.noReadings = slurm.ErrNoAccounting
				case tc.down > 0:
					b.f.noReadings, b.f.noEnds = slurm.ErrCommand, slurm.ErrCommand
				case tc.late > 0:
					b.f.readings = []slurm.Used{{ID: "1", Started: reading.Started}}
				}
				if !tc.none {
					b.f.records = []slurm.Job{{ID: "1", Number: 1, Tasks: 1, CPUs: 8, State: "COMPLETED", Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(9, 0)}}
				}
				b.until(9*time.Hour + time.Minute)
				if restarts && !tc.none {
					b.restart()
				}
				b.until(max(tc.down, tc.late, 9*time.Hour+2*time.Minute))
				b.f.readings, b.f.noEnds = []slurm.Used{reading}, nil
				if !tc.none {
					b.f.noReadings = nil
				}
				b.until(11 * time.Hour)
				s := b.settled()["1"]
				if math.Abs(s.MeasuredKWh-tc.measured) > 1e-9 || s.Runs != 1 || math.Abs(s.WorkerHours-1) > 1e-9 || s.Inferred != 0 && tc.down < 10*time.Hour {
					t.Errorf("after a restart: %v: %+v", restarts, s)
				}
				for i := range b.f.measured {
					if i > 0 && !restarts && b.f.measured[i].Sub(b.f.measured[i-1]) < time.Minute {
						t.Errorf("asked at %v and at %v", b.f.measured[i-1], b.f.measured[i])
					}
				}
				if n := len(b.f.measured); n > 70 {
					t.Errorf("asked %d times", n)
				}
			})
		}
	}
}

// TestEnergyOfEachRun: a job was requeued, and both runs were measured; a third run that the ledger does not know counts on neither side.
func TestEnergyOfEachRun(t *testing.T) {
	b := measuring(t, Measure{PUE: 1}, job("1", "lull:max-delay=12h"))
	b.until(8*time.Hour + 20*time.Minute)
	if err := b.f.Requeue(t.Context(), []string{"1"}); err != nil {
		t.Fatal(err)
	}
	b.f.lasts["1"] = time.Hour
	b.step = 10 * time.Minute
	b.until(8*time.Hour + 40*time.Minute)
	b.restart()
	if b.f.jobs[0].Pending() {
		t.Fatalf("%+v", b.f.jobs[0])
	}
	again := b.f.jobs[0].Started
	b.f.readings = []slurm.Used{
		{ID: "1", Started: clockAt(7, 0), Ended: clockAt(7, 30), Joules: 7.2e6},
		{ID: "1", Started: clockAt(8, 0), Ended: clockAt(8, 20), Joules: 3.6e6},
		{ID: "1", Started: again, Ended: again.Add(time.Hour), Joules: 1.8e6},
	}
	b.until(11 * time.Hour)
	if s := b.settled()["1"]; s.Runs != 2 || math.Abs(s.MeasuredKWh-1.5) > 1e-9 || math.Abs(s.KWh-1.5) > 1e-3 {
		t.Errorf("%+v", s)
	}
}

// TestNoReadingIsAskedTwice: once a job is recorded, the accounting is not asked for as long as Slurm still lists it.
func TestNoReadingIsAskedTwice(t *testing.T) {
	never := job("2", "lull:max-delay=12h")
	never.State, never.Ended = "CANCELLED", clockAt(8, 0)
	b := measuring(t, Measure{PUE: 1}, job("1", "lull:max-delay=12h"))
	b.f.ended = []slurm.Job{never}
	b.f.lasts["1"] = time.Hour
	b.f.readings = []slurm.Used{{ID: "1", Started: clockAt(8, 0), Ended: clockAt(9, 0), Joules: 3.6e6}}
	b.until(12 * time.Hour)
	if len(b.f.measured) != 1 {
		t.Errorf("asked at %v", b.f.measured)
	}
}

// TestAsSubmittedAJobHasTheCPUsOfItsRun: of a job with --exclusive, squeue states the CPUs that it asked for until it starts, and those of its nodes then. As submitted it
// uses the same energy, also by the model.
func TestAsSubmittedAJobHasTheCPUsOfItsRun(t *testing.T) {
	for name, tc := range map[string]struct {
		readings      []slurm.Used
		kWh, measured float64
		sources       []string
	}{
		"measured":     {[]slurm.Used{{ID: "2", Started: clockAt(14, 0), Ended: clockAt(15, 0), CPUs: 8, Joules: 3.6e6}}, 1, 1, []string{"slurm"}},
		"by the model": {nil, modelled, 0, []string{"model"}},
	} {
		t.Run(name, func(t *testing.T) {
			first, j := job("1", "lull:max-delay=12h"), job("2", "lull:max-delay=12h")
			j.CPUs = 2
			b := measuring(t, Measure{PUE: 1}, first, j)
			b.f.lasts["1"], b.f.lasts["2"], b.f.grows = time.Hour, time.Hour, map[string]int{"2": 8}
			b.f.readings = tc.readings
			b.until(16 * time.Hour)
			b.energy(b.settled()["2"], tc.kWh, tc.measured, tc.sources...)
		})
	}
}
