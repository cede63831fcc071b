package scenario

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
)

// uncertainScenario is 40 jobs of log-normal lengths on a small cluster, on a grid whose level no model can foresee.
func uncertainScenario(t *testing.T, more string) *Scenario {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	intensities, level := "time,intensity_gco2eq_per_kwh\n", 300.0
	for h := range 80 * 24 {
		level = min(600, max(60, level+20*rng.NormFloat64()))
		intensities += fmt.Sprintf("%s,%.1f\n", time.Date(2023, 1, 1, h, 0, 0, 0, time.UTC).Format(time.RFC3339), level*(1+0.3*math.Cos(float64(h)*math.Pi/12)))
	}
	jobs := "id,arrival_s,length_s,cpus\n"
	for k := range 40 {
		jobs += fmt.Sprintf("j%d,%d,%.0f,1\n", k, k*9000, 3600*math.Exp(1+0.7*rng.NormFloat64()))
	}
	return read(t, fmt.Sprintf("uncertain: true\nslot: 1h\njobs: {file: %s, kind: interruptible, maxDelay: [{delay: 24h}]%s}\nclusters: [{zone: XX, carbon: [%s], capacity: {cpu: 8}}]\n",
		write(t, "jobs.csv", jobs), more, write(t, "carbon.csv", intensities)))
}

func TestUncertainScenarioKnowsForecastsAndLearnedLengthsOnly(t *testing.T) {
	s := uncertainScenario(t, "")
	cfg, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, learned := cfg.Lengths.(*sim.Learned); !learned || cfg.Clusters[0].Outlook == nil {
		t.Errorf("lengths %T, outlook set: %v; want learned lengths and a model's outlook", cfg.Lengths, cfg.Clusters[0].Outlook != nil)
	}
	start := cfg.Jobs[0].Submitted
	if want := time.Date(2023, 3, 2, 0, 0, 0, 0, time.UTC); !start.Equal(want) {
		t.Errorf("the first job comes at %s; want %s, 60 days after the carbon series begins", start, want)
	}
	series, _ := cfg.Clusters[0].Outlook().At(start)
	if series == nil || series.End().Before(start.Add(90*time.Hour)) {
		t.Fatalf("at the first job the model forecasts %v; want about 96 h", series)
	}
	differ := 0
	for h := range 90 {
		at := start.Add(time.Duration(h) * time.Hour)
		told, _ := series.At(at)
		real, _ := cfg.Clusters[0].Actual.At(at)
		if math.Abs(float64(told.Value-real.Value)) > 1 {
			differ++
		}
	}
	if differ < 45 {
		t.Errorf("%d of 90 hours ahead differ from what came; want most", differ)
	}
	if stated, err := uncertainScenario(t, ", estimate: {kind: exact}").Build(); err != nil || stated.Lengths != nil {
		t.Errorf("a stated estimate: %v, lengths %T; want exact lengths", err, stated.Lengths)
	}
}

func TestPerfectKnowledgeSavesMoreThanForecasts(t *testing.T) {
	cfg, err := uncertainScenario(t, "").Build()
	if err != nil {
		t.Fatal(err)
	}
	if !Unsure(cfg) {
		t.Error("a simulation with forecasts and learned lengths counts as one that knows all")
	}
	trials, err := Run(t.Context(), cfg, []Entry{
		{Label: "joint", Planner: joint.Planner{}}, {Label: KnowsAll, Planner: joint.Planner{}, Knowing: true},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	submitted, planned, full := trials[0].Emissions, trials[1].Emissions, trials[2].Emissions
	if !(full < planned && planned < submitted) {
		t.Errorf("as submitted %v, joint %v, with all known %v; want each less than the one before", submitted, planned, full)
	}
	if cfg.Lengths == nil || cfg.Clusters[0].Outlook == nil {
		t.Error("the trial in which all is known changed what the others know")
	}
	all := knowing(cfg)
	if Unsure(all) {
		t.Errorf("not all is known: lengths %v", all.Lengths)
	}
	if notes := strings.Join(Notes(cfg, Summarize(cfg, trials), trace.Reading{}), "\n"); !strings.Contains(notes, KnowsAll+" is what planner joint saves") {
		t.Errorf("the notes do not explain the row: %s", notes)
	}
}

// TestPerfectKnowledgeIsOfTrueCurves: errors of capacity curves are knowledge that planners lack, too.
func TestPerfectKnowledgeIsOfTrueCurves(t *testing.T) {
	wrong := &sim.Scale{MinWorkers: 1, MaxWorkers: 2, Curve: []float64{1, 0.9}, Actual: []float64{1, 0.2}}
	cfg := sim.Config{Jobs: []sim.Job{{ID: "a", Length: time.Hour, Estimate: time.Hour, Scale: wrong}, {ID: "b", Length: time.Hour, Estimate: time.Hour, Scale: wrong}}}
	if !Unsure(cfg) {
		t.Fatal("a curve with errors counts as known")
	}
	all := knowing(cfg)
	if Unsure(all) || all.Jobs[0].Scale.Curve[1] != 0.2 || all.Jobs[0].Scale != all.Jobs[1].Scale {
		t.Errorf("with all known: %+v, %+v; want one true curve", all.Jobs[0].Scale, all.Jobs[1].Scale)
	}
	if wrong.Actual == nil || wrong.Curve[1] != 0.9 {
		t.Errorf("the curve of the others became %+v", wrong)
	}
}

// TestPerfectKnowledgeOfLongTraces: over a year, jobs that wait for a clean hour of the day save as much as over a month.
func TestPerfectKnowledgeOfLongTraces(t *testing.T) {
	saved := func(days int) float64 {
		intensities, jobs := "time,intensity_gco2eq_per_kwh\n", "id,arrival_s,length_s,cpus\n"
		for h := range (days + 3) * 24 {
			intensities += fmt.Sprintf("%s,%d\n", time.Date(2023, 1, 1, h, 0, 0, 0, time.UTC).Format(time.RFC3339), 100+10*((h*h+3*h)%24))
		}
		for k := range days {
			jobs += fmt.Sprintf("j%d,%d,%d,1\n", k, k*86400, 3600*(1+k%4))
		}
		cfg, err := read(t, fmt.Sprintf("slot: 15m\njobs: {file: %s, kind: interruptible, maxDelay: [{delay: 24h}], estimate: {kind: mean}}\nclusters: [{zone: XX, carbon: [%s]}]\n",
			write(t, "jobs.csv", jobs), write(t, "carbon.csv", intensities))).Build()
		if err != nil {
			t.Fatal(err)
		}
		trials, err := Run(t.Context(), cfg, []Entry{{Label: KnowsAll, Planner: joint.Planner{}, Revise: sim.OnChange, Knowing: true}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return Saving(trials[0].Emissions, trials[1].Emissions)
	}
	month, year := saved(30), saved(365)
	if month < 0.2 || math.Abs(year-month) > 0.02 {
		t.Errorf("saved %.1f %% over a month, %.1f %% over a year; want about the same", 100*month, 100*year)
	}
}
