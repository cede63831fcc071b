package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

// CarbonScaler compares real runs with its advisor (Section 5.1: less than 5 % apart on
// average). Ours are on a real control plane whose pods only seem to run.
const (
	fidelityLength = 24 * time.Hour
	fidelityMost   = 8 // workers
	fidelitySlot   = time.Hour
	// fidelityMargin is kept before deadlines, live and simulated: a few seconds of wall
	// time for what starting pods takes.
	fidelityMargin = 30 * time.Minute
	// fidelityLimit is how far live and simulated emissions may be apart in all.
	fidelityLimit = 0.05
	dataFolder    = "../shared/data"
)

// paperSaving is the saving over carbon-agnostic runs that the paper states for such a job, ""
// where it states none.
func (t *trial) paperSaving() string {
	resnet := t.elastic.name == "resnet18"
	switch {
	case t.zone == "NL" && t.slack > 0 && resnet:
		return "51 (Section 5.4)"
	case t.zone == "CA-ON" && t.slack > 0 && resnet:
		return "36 (Section 5.4)"
	case t.zone == "CA-ON" && t.slack == 0:
		return "33 (mean of Section 5.3)"
	}
	return ""
}

var (
	fidelityProfiles = []string{"nbody10k", "nbody100k", "resnet18", "densenet121", "resnet50", "mobilenet_v2"}
	fidelityPlaces   = []struct {
		zone  string
		start time.Time
	}{
		{"NL", time.Date(2022, 5, 10, 0, 0, 0, 0, time.UTC)},
		{"CA-ON", time.Date(2022, 5, 10, 0, 0, 0, 0, time.UTC)},
	}
	fidelitySlacks = []time.Duration{0, 12 * time.Hour}
)

// trial is a job of the experiment.
type trial struct {
	spec
	zone     string
	series   *carbon.Series
	start    time.Time // of the replay of its zone
	timeline timegrid.Timeline

	live, simulated, agnostic units.Emissions
	late                      bool
}

// Fidelity runs the same elastic jobs live and in the simulator, writes a table and compares.
// It returns an error wrapping ErrDemo where they differ by more than 5 % in all, or where a
// job did not finish in time.
func Fidelity(ctx context.Context, o Options, planner controller.PlannerFactory) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	trials, err := fidelityTrials()
	if err != nil {
		return err
	}
	for _, t := range trials {
		if err := t.simulate(ctx, o, planner); err != nil {
			return err
		}
	}
	dir, leave, err := o.folder()
	if err != nil {
		return err
	}
	defer leave(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(o.Out, "%d elastic Jobs of %s, %d times as fast, live on a real control plane ...\n", len(trials), fidelityLength, o.Factor)
	const nodes, cpus = 8, 64
	s, err := Raise(ctx, dir, Setup{Lab: o.Lab, Nodes: nodes, CPUs: cpus, Factor: o.Factor})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := s.playTrials(ctx, o, trials); err != nil {
		return err
	}
	return conclude(o, trials)
}

// EvaluationData is the folder of the recorded traces.
func EvaluationData() string { return cmp.Or(os.Getenv("LULL_DATA"), dataFolder) }

func fidelityTrials() ([]*trial, error) {
	data := EvaluationData()
	var out []*trial
	for _, place := range fidelityPlaces {
		name := filepath.Join(data, "carbon", place.zone, fmt.Sprint(place.start.Year())+".csv")
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%w (recorded intensities; LULL_DATA names their folder)", err)
		}
		series, err := source.Read(f, name, carbon.Provenance{Zone: place.zone, Source: name})
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		for _, profile := range fidelityProfiles {
			p, err := readScaling(filepath.Join(data, "profiles", profile+".csv"), profile)
			if err != nil {
				return nil, err
			}
			for _, slack := range fidelitySlacks {
				name := strings.ToLower(fmt.Sprintf("%s-%s-%d", place.zone, strings.ReplaceAll(profile, "_", "-"), int(slack.Hours())))
				out = append(out, &trial{
					spec: spec{name: name, arrival: time.Hour, length: fidelityLength, estimate: fidelityLength, slack: slack, cpus: 1, elastic: p},
					zone: place.zone, series: series, start: place.start,
				})
			}
		}
	}
	return out, nil
}

// readScaling reads a measured profile up to fidelityMost workers.
func readScaling(file, name string) (*scaling, error) {
	out := &scaling{name: strings.ReplaceAll(name, "_", "-"), source: filepath.Base(file)}
	return out, source.WithFile(file, func(r io.Reader) error {
		p, err := trace.ReadProfile(r)
		if err != nil {
			return err
		}
		m, err := p.Scale(1, fidelityMost)
		if err != nil {
			return err
		}
		out.throughput = workload.Throughputs(m.Curve)
		out.watts = m.Watts
		return nil
	})
}

// simulate says what the simulator expects, with the planner and at once.
func (t *trial) simulate(ctx context.Context, o Options, planner controller.PlannerFactory) error {
	p, err := planner(o.Planner, nil, nil)
	if err != nil {
		return err
	}
	submitted := t.start.Add(t.arrival)
	cfg := sim.Config{
		Clusters: []sim.Cluster{{Name: "lab", Zone: t.zone, Power: power.PerUnit{Watts: map[string]float64{"cpu": wattsPerCPU}, PUE: 1}, Forecast: t.series, Actual: t.series}},
		Jobs:     []sim.Job{t.spec.simulated(submitted, submitted.Add(t.length+t.slack))},
		Planner:  p, Slot: fidelitySlot, Margin: fidelityMargin,
	}
	res, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return fmt.Errorf("simulate %s: %w", t.name, err)
	}
	atOnce, err := sim.AsSubmitted(ctx, cfg)
	if err != nil {
		return fmt.Errorf("simulate %s at once: %w", t.name, err)
	}
	t.simulated, t.agnostic = res.Emissions, atOnce.Emissions
	return nil
}

// playTrials runs the trials live.
func (s *Stage) playTrials(ctx context.Context, o Options, trials []*trial) error {
	if err := s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	epoch := time.Now().Truncate(time.Second).Add(3 * time.Second)
	known := map[string]bool{}
	for _, t := range trials {
		if !known[t.elastic.name] {
			known[t.elastic.name] = true
			if err := s.Client.Create(ctx, t.elastic.object(namespace)); err != nil {
				return err
			}
		}
		if !known[t.zone] {
			known[t.zone] = true
			if err := s.place(ctx, o, t, epoch); err != nil {
				return err
			}
		}
		tl, err := timegrid.NewTimeline(epoch, t.start, float64(o.Factor))
		if err != nil {
			return err
		}
		t.timeline = tl
	}
	if err := poll(ctx, "the controller to read the zones and the admission policy to hold Jobs", func() bool {
		for _, place := range fidelityPlaces {
			var zone v1alpha1.GridZone
			if s.Client.Get(ctx, client.ObjectKey{Name: strings.ToLower(place.zone)}, &zone) != nil || !meta.IsStatusConditionTrue(zone.Status.Conditions, v1alpha1.ConditionReady) {
				return false
			}
		}
		probe := trials[0].object()
		return s.Client.Create(ctx, probe, client.DryRunAll) == nil && probe.Spec.Suspend != nil && *probe.Spec.Suspend
	}); err != nil {
		return err
	}
	rec, err := watch(ctx, s.Config, s.Client.Scheme())
	if err != nil {
		return err
	}
	// All replays run on the same wall clock.
	player := &Player{Client: s.Client, Namespace: namespace, Timeline: trials[0].timeline, Running: rec.pods, Every: 2 * reportEvery}
	submit := trials[0].timeline.ToWall(trials[0].start.Add(trials[0].arrival))
	time.Sleep(time.Until(submit))
	for _, t := range trials {
		if err := s.Client.Create(ctx, t.object()); err != nil {
			return fmt.Errorf("submit %s: %w", t.name, err)
		}
		player.Add(t.work())
	}
	end := submit.Add(trials[0].timeline.WallDuration(fidelityLength+fidelitySlacks[len(fidelitySlacks)-1]) + time.Minute)
	told := time.Now()
	for rec.counts().done < len(trials) && time.Now().Before(end) {
		now := time.Now()
		if err := player.Step(ctx, now); err != nil {
			return err
		}
		if err := s.Ended(); err != nil {
			return err
		}
		if now.Sub(told) > 20*time.Second {
			told = now
			c := rec.counts()
			fmt.Fprintf(o.Out, "  %s into the jobs: %d wait, %d run, %d are done\n", trials[0].timeline.GridDuration(now.Sub(submit)).Round(time.Hour), c.waiting, c.running, c.done)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, t := range trials {
		job := rec.job(t.name)
		t.late = !job.succeeded || t.timeline.ToGrid(job.finished).After(t.start.Add(t.arrival+t.length+t.slack))
		if t.live, _, err = t.used(rec.runs(t.name, t.timeline, time.Now()), power.PerUnit{PUE: 1}, t.series); err != nil {
			return err
		}
	}
	return nil
}

// zoneLabel says which policy governs a job of the experiment.
const zoneLabel = "lull.dev/fidelity-zone"

// object is the job with the label of its zone.
func (t *trial) object() *batchv1.Job {
	j := t.job()
	j.Labels[zoneLabel] = strings.ToLower(t.zone)
	return j
}

// place makes the zone and the policy of a trial.
func (s *Stage) place(ctx context.Context, o Options, t *trial, epoch time.Time) error {
	name := strings.ToLower(t.zone)
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series-" + name, Namespace: namespace}, Data: map[string]string{"series.csv": seriesCSV(t.series, t.start.Add(-24*time.Hour), t.start.Add(5*24*time.Hour))}},
		&v1alpha1.CarbonPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec: v1alpha1.CarbonPolicySpec{
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{zoneLabel: name}}, Zone: name,
				Planner: v1alpha1.PlannerSpec{Name: o.Planner}, Slot: &metav1.Duration{Duration: fidelitySlot}, StartMargin: &metav1.Duration{Duration: fidelityMargin}, MinSaving: new(0.0),
				Power: v1alpha1.PowerSpec{WattsPerUnit: map[string]float64{"cpu": wattsPerCPU}, PUE: 1},
			},
		},
		&v1alpha1.GridZone{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.GridZoneSpec{
				Zone:   t.zone,
				Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: namespace, Name: "series-" + name, Key: "series.csv"}},
				Replay: &v1alpha1.Replay{Start: metav1.NewTime(t.start), Factor: o.Factor, Epoch: &metav1.Time{Time: epoch}},
			},
		},
	}
	for _, obj := range objects {
		if err := s.Client.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

// conclude writes the table and judges it.
func conclude(o Options, trials []*trial) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Live against simulated

For readers who want to know whether to trust the simulator: the same Jobs live and simulated, side by side.

`+"`lull demo fidelity`"+` writes this page. It runs elastic Jobs of 24 h (1 to %d workers, measured profiles and power) on a
real control plane (pods on KWOK nodes; the work of their pods is played at the profile's
throughput), with planner %s and recorded intensities of 2022 (Electricity Maps, life-cycle) %d
times as fast, and in the engine of `+"`lull simulate`"+`. Live emissions are computed from the API
server's timestamps of pods. Savings are against the same Jobs run at once with one worker, simulated.
The paper of CarbonScaler reports that its simulator is within 5 %% of real runs on average (Section 5.1). The
last column has its savings for the same place and slack, if it states them (its traces are of other years).

| zone | T | profile | live, g | simulated, g | difference, %% | saved live, %% | saved simulated, %% | paper, %% |
|---|---|---|---|---|---|---|---|---|
`, fidelityMost, o.Planner, o.Factor)
	var live, simulated units.Emissions
	var late []string
	worst := 0.0
	for _, t := range trials {
		off := float64(t.live/t.simulated) - 1
		worst = math.Max(worst, math.Abs(off))
		live += t.live
		simulated += t.simulated
		if t.late {
			late = append(late, t.name)
		}
		fmt.Fprintf(&b, "| %s | %.1f l | %s | %.0f | %.0f | %s | %s | %s | %s |\n", t.zone, float64(t.length+t.slack)/float64(t.length), t.elastic.name,
			float64(t.live), float64(t.simulated), units.Number("%+.1f", 100*off), units.Number("%.1f", 100*(1-float64(t.live/t.agnostic))), units.Number("%.1f", 100*(1-float64(t.simulated/t.agnostic))), t.paperSaving())
	}
	total := float64(live/simulated) - 1
	fmt.Fprintf(&b, "\nIn total, live emissions are %s those simulated. For a single Job, they differ by at most %.1f %%. %d of %d Jobs finished in time.\n", against(total), 100*worst, len(trials)-len(late), len(trials))
	if err := outfile.WriteFile(o.Report, []byte(b.String())); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\n%s\ntable: %s\n", b.String(), o.Report)
	switch {
	case len(late) > 0:
		return fmt.Errorf("%w: late or not finished: %s", ErrDemo, strings.Join(late, ", "))
	case math.Abs(total) > fidelityLimit:
		return fmt.Errorf("%w: live emissions are %s those simulated; accepted: a difference of at most %.0f %%", ErrDemo, against(total), 100*fidelityLimit)
	}
	return nil
}

// against states a relative difference in words: "0.4 % above".
func against(share float64) string {
	word := "above"
	if share < 0 {
		word = "below"
	}
	return units.Number("%.1f %% ", 100*math.Abs(share)) + word
}
