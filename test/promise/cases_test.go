package promise_test

import (
	"context"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// kilowatt makes an hour of a CPU a kilowatt-hour, so that grams equal intensities.
var kilowatt = power.PerUnit{Watts: map[string]float64{"cpu": 1000}, PUE: 1}

// cpu asks for, or offers, some CPUs.
func cpu(n float64) map[string]float64 { return map[string]float64{"cpu": n} }

// single is a simulation on one cluster.
func single(cpus float64, w wave, slot, margin time.Duration, jobs ...sim.Job) *instance {
	s := w.series("X")
	for i := range jobs {
		if jobs[i].Estimate == 0 {
			jobs[i].Estimate = jobs[i].Length
		}
	}
	return &instance{waves: []wave{w}, cfg: sim.Config{
		Slot: slot, Margin: margin, Jobs: jobs,
		Clusters: []sim.Cluster{{Name: "c", Zone: "X", Capacity: cpu(cpus), Power: kilowatt, Forecast: s, Actual: s}},
	}}
}

// mustSimulate runs an instance and audits the result.
func mustSimulate(t *testing.T, in *instance, m method) (sim.Config, sim.Result) {
	t.Helper()
	cfg := in.with(t, m)
	res, err := sim.Simulate(context.Background(), cfg)
	if err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	if err := audit(&cfg, &res); err != nil {
		t.Errorf("%s: %v", m.name, err)
	}
	return cfg, res
}

// expectInTime fails for each job that ends after its deadline.
func expectInTime(t *testing.T, cfg *sim.Config, res *sim.Result, planner string) {
	t.Helper()
	for i := range cfg.Jobs {
		if by := late(cfg, res, i); by > 0 {
			t.Errorf("%s: job %s is late by %v; want in time. Runs: %v", planner, cfg.Jobs[i].ID, by, res.Jobs[i].Runs)
		}
	}
}

// patientAndUrgent has a task that runs and can wait, and one that needs its place and has
// some slack.
func patientAndUrgent(slack time.Duration) decide.Snapshot {
	now := at("5h")
	return decide.Snapshot{
		Now: now, Slot: time.Hour,
		Clusters: []decide.Cluster{{Name: "c", Zone: "X", Capacity: cpu(1), Power: kilowatt, Carbon: flat(300).series("X")}},
		Tasks: []decide.Task{
			{
				ID: "patient", Kind: workload.Interruptible, Request: cpu(1), State: decide.Running, Cluster: "c",
				Submitted: at("0h"), Remaining: 5 * time.Hour, Deadline: now.Add(20 * time.Hour),
			},
			{
				ID: "urgent", Kind: workload.Interruptible, Request: cpu(1), State: decide.Waiting,
				Submitted: now, Remaining: time.Hour, Deadline: now.Add(time.Hour + slack),
			},
		},
	}
}

// runs says whether a task runs after an action.
func runs(v decide.Verb) bool {
	switch v {
	case decide.Release, decide.Resume, decide.Continue, decide.Scale, decide.Move:
		return true
	}
	return false
}

// TestUrgentTaskDisplacesPatientOne (C1): with flat intensity and room for one, a task
// that can wait pauses for one that cannot. The two never run together.
func TestUrgentTaskDisplacesPatientOne(t *testing.T) {
	for _, m := range byName(t, "cheapest", "cheapest+reserve", "joint", reserved, "carbonscaler", "waitawhile-deadline") {
		for _, slack := range []time.Duration{0, 30 * time.Minute} {
			d, err := decide.Decide(context.Background(), patientAndUrgent(slack), m.planner(t))
			if err != nil {
				t.Fatal(err)
			}
			patient, urgent := d.Actions[0].Verb, d.Actions[1].Verb
			if runs(patient) && runs(urgent) {
				t.Errorf("%s, slack %v: patient %s, urgent %s: both run; there is room for one", m.name, slack, patient, urgent)
			}
			if slack == 0 && (patient != decide.Pause || urgent != decide.Release) {
				t.Errorf("%s, no slack: patient %s, urgent %s; want Pause and Release", m.name, patient, urgent)
			}
		}
	}
}

// TestUrgentJobIsOnTime (C1) is the same in a simulation: both deadlines can be kept.
func TestUrgentJobIsOnTime(t *testing.T) {
	for _, m := range tried(t) {
		if m.name == "follow" || m.name == "exact" { // deployments never pause; 5 min slots are too many
			continue
		}
		for _, slot := range slots {
			in := single(1, flat(300), slot, 0,
				sim.Job{ID: "patient", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("0h"), Length: 5 * time.Hour, Deadline: at("20h")},
				sim.Job{ID: "urgent", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("2h"), Length: time.Hour, Deadline: at("3h30m")})
			cfg, res := mustSimulate(t, in, m)
			expectInTime(t, &cfg, &res, m.name+", slot "+slot.String())
		}
	}
}

// TestClusterWithoutDataIsNoError (C2): a cluster of which no intensity is known neither
// fails the decision nor releases what waits for clean hours elsewhere.
func TestClusterWithoutDataIsNoError(t *testing.T) {
	for _, m := range byName(t, "cheapest", "joint", reserved) {
		for _, only := range [][]string{nil, {"dark", "known"}, {"known"}} {
			s := decide.Snapshot{
				Now: at("5h"), Slot: time.Hour, Margin: 5 * time.Minute,
				Clusters: []decide.Cluster{
					{Name: "dark", Zone: "Y", Capacity: cpu(4), Power: kilowatt},
					{Name: "known", Zone: "X", Capacity: cpu(4), Power: kilowatt, Carbon: sunny().series("X")},
				},
				Tasks: []decide.Task{{
					ID: "task", Kind: workload.Rigid, Request: cpu(1), State: decide.Waiting, Clusters: only,
					Submitted: at("5h"), Remaining: time.Hour, Deadline: at("20h"),
				}},
			}
			d, err := decide.Decide(context.Background(), s, m.planner(t))
			if err != nil {
				t.Errorf("%s, clusters %v: %v", m.name, only, err)
				continue
			}
			if a := d.Actions[0]; a.Verb != decide.Wait {
				t.Errorf("%s, clusters %v: %s because %s; want Wait for the clean hours of cluster known", m.name, only, a.Verb, a.Reason.Code)
			}
		}
	}
}

// ending is clean from 10 to 11 h and from 15 to 17 h, dirty else.
func ending() wave {
	w := flat(500)
	w.values = make([]float64, 24)
	for h := range w.values {
		w.values[h] = 500
		if h == 10 || h == 15 || h == 16 {
			w.values[h] = 60
		}
	}
	return w
}

// TestBegunSlotIsWhatIsLeftOfIt (C4): at 10:50 a clean hour that ends at 11:00 has ten
// minutes to give. A job of an hour emits 427 g if it starts then, 60 g if it waits for
// the clean hour at 15:00.
func TestBegunSlotIsWhatIsLeftOfIt(t *testing.T) {
	for _, m := range byName(t, "cheapest", "joint", reserved, "carbonscaler", "waitawhile-deadline", "exact") {
		for _, kind := range []workload.Kind{workload.Rigid, workload.Interruptible} {
			in := single(4, ending(), time.Hour, 0,
				sim.Job{ID: "job", Kind: kind, Request: cpu(1), Submitted: at("10h50m"), Length: time.Hour, Deadline: at("20h")})
			cfg, res := mustSimulate(t, in, m)
			expectInTime(t, &cfg, &res, m.name)
			if g := float64(res.Emissions); g > 60.001 {
				t.Errorf("%s, %s: emits %.1f g; want 60 g, by waiting for 15:00. Runs: %v", m.name, kind, g, res.Jobs[0].Runs)
			}
		}
	}
}

// TestRunReachesIntoTheNextSlot (C4): what was released at 10:50 for an hour still runs
// after 11:00. A job that must start by 11:00 needs the place of another that waits.
func TestRunReachesIntoTheNextSlot(t *testing.T) {
	for _, m := range tried(t) {
		in := single(2, ending(), time.Hour, 0,
			sim.Job{ID: "first", Kind: workload.Rigid, Request: cpu(1), Submitted: at("10h50m"), Length: time.Hour, Deadline: at("11h50m")},
			sim.Job{ID: "other", Kind: workload.Interruptible, Request: cpu(1), Submitted: at("10h50m"), Length: 4 * time.Hour, Deadline: at("16h30m")},
			sim.Job{ID: "third", Kind: workload.Rigid, Request: cpu(1), Submitted: at("10h55m"), Length: 2 * time.Hour, Deadline: at("14h")})
		cfg, res := mustSimulate(t, in, m)
		expectInTime(t, &cfg, &res, m.name)
	}
}
