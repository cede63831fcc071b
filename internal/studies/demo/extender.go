package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// The four scenarios of Piontek et al. live: Pods on one node of 36 cores, which kube-scheduler
// starts as the extender tells it, or which a scheduling gate holds.
const (
	// mostPodsASecond bounds how fast Pods are submitted, and with it how fast time passes.
	mostPodsASecond = 12
	// extenderTail is how long after the last arrival Pods are waited for: the longest wait, the
	// longest run, and what kube-scheduler takes to ask again.
	extenderTail = 30 * time.Hour
)

// extenderDay is the day of the demo.
var extenderDay = time.Date(2022, 6, 8, 0, 0, 0, 0, time.UTC)

// schedulerConfig is kube-scheduler's, as docs/extender.md has it.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 15
extenders:
- urlPrefix: http://%s
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1
  nodeCacheCapable: true
  ignorable: true
  httpTimeout: 500ms
`

// shifted is what came of a scenario in one way.
type shifted struct {
	grams  float64
	waited time.Duration // mean of those that may wait
	late   int           // those that waited for longer than they may
	starts map[string]time.Time
}

// extenderRun is a scenario.
type extenderRun struct {
	Options
	number int
	cfg    sim.Config
	series *carbon.Series
	start  time.Time
	factor int64
}

// Extender runs scenarios of Piontek et al., Table 2, numbered from 1, live by way of kube-scheduler's
// extender and by scheduling gates, beside the simulator and what Table 3 found. It returns an error
// wrapping ErrDemo where a Pod did not run.
func Extender(ctx context.Context, o Options, scenarios []int, planner controller.PlannerFactory) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	series, recorded, err := extenderSeries()
	if err != nil {
		return err
	}
	if !recorded {
		fmt.Fprintf(o.Out, "No recorded intensities in %s: the built-in climatology of DE.\n", EvaluationData())
	}
	head := []string{"scenario", "Pods", "", "CO2 less, %", "mean wait, h", "waited too long"}
	var rows [][]string
	for _, number := range scenarios {
		r := &extenderRun{Options: o, number: number, series: series, start: extenderDay}
		if r.cfg, err = reproduce.PiontekScenarios[number-1].Config(o.Seed, r.start); err != nil {
			return err
		}
		r.cfg.Clusters[0].Forecast, r.cfg.Clusters[0].Actual = series, series
		r.factor = min(o.Factor, int64(mostPodsASecond*3600/reproduce.PiontekScenarios[number-1].PerHour))
		if r.cfg.Planner, err = planner("window", nil, []string{reproduce.CriticalClass}); err != nil {
			return err
		}
		plain, simulated, err := r.simulate(ctx)
		if err != nil {
			return err
		}
		add := func(name, less string, s *shifted) {
			rows = append(rows, []string{fmt.Sprint("#", number), fmt.Sprint(len(r.cfg.Jobs)), name, less, fmt.Sprintf("%.1f", s.waited.Hours()), fmt.Sprint(s.late)})
		}
		rows = append(rows, []string{fmt.Sprint("#", number), "-", "paper", fmt.Sprintf("%.2f", reproduce.PiontekScenarios[number-1].Paper), "-", "-"})
		less := func(s *shifted) string { return units.Number("%.2f", 100*(1-s.grams/plain.grams)) }
		add("simulated", less(simulated), simulated)
		for _, via := range []v1alpha1.Via{v1alpha1.ViaExtender, v1alpha1.ViaHold} {
			live, err := r.play(ctx, via)
			if err != nil {
				return fmt.Errorf("scenario %d, via %s: %w", number, via, err)
			}
			add("live, via: "+string(via), less(live), live)
		}
	}
	fmt.Fprintf(o.Out, "\n| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		fmt.Fprintf(o.Out, "| %s |\n", strings.Join(row, " | "))
	}
	doc := report.Document{
		Title:    "Time-shifting through kube-scheduler, live",
		Intro:    fmt.Sprintf("Piontek et al., the scenarios of Table 2 on one node of %d cores, %s, seed %d.", reproduce.PiontekCores, extenderDay.Format("2 January 2006"), o.Seed),
		Sections: []report.Section{{Title: "Table 3", Head: head, Rows: rows, Notes: []string{"CO2 of the server over the day, idle power included, against the same Pods started as they come (simulated). Live: from the API server's timestamps."}}},
	}
	if err := o.writeReport(doc); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\nreport: %s\n", o.Report)
	return nil
}

// extenderSeries is the intensity of DE around the day, recorded where the evaluation data is there.
func extenderSeries() (s *carbon.Series, recorded bool, err error) {
	s, err = readYear(filepath.Join(EvaluationData(), "carbon", "DE", strconv.Itoa(extenderDay.Year())+".csv"), "DE")
	if errors.Is(err, os.ErrNotExist) {
		s, err = climatology.Series("DE", extenderDay.Add(-24*time.Hour), extenderDay.Add(5*24*time.Hour))
		return s, false, err
	}
	return s, true, err
}

// simulate says what the simulator expects, without shifting and with it.
func (r *extenderRun) simulate(ctx context.Context) (plain, aware *shifted, err error) {
	a, err := sim.AsSubmitted(ctx, r.cfg)
	if err != nil {
		return nil, nil, err
	}
	b, err := sim.Simulate(ctx, r.cfg)
	if err != nil {
		return nil, nil, err
	}
	if plain, err = r.outcome(ofSimulated(&a, r.cfg.Jobs)); err != nil {
		return nil, nil, err
	}
	aware, err = r.outcome(ofSimulated(&b, r.cfg.Jobs))
	return plain, aware, err
}

// ofSimulated is when each job ran.
func ofSimulated(res *sim.Result, jobs []sim.Job) map[string]run {
	out := map[string]run{}
	for i := range res.Jobs {
		for _, x := range res.Jobs[i].Runs {
			out[jobs[i].ID] = run{res.At(x.From), res.At(x.To)}
		}
	}
	return out
}

// outcome sums the emissions of runs, with the idle power of the day; it returns the errors of priced.
func (r *extenderRun) outcome(runs map[string]run) (*shifted, error) {
	out := &shifted{starts: map[string]time.Time{}}
	idle, err := priced(units.Power(reproduce.PiontekIdle), r.series, r.start, r.start.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	out.grams = float64(idle)
	n := 0
	for i := range r.cfg.Jobs {
		j := &r.cfg.Jobs[i]
		x, ran := runs[j.ID]
		if !ran {
			continue
		}
		grams, err := priced(r.cfg.Clusters[0].Power.Of(j.Request), r.series, x.start, x.end)
		if err != nil {
			return nil, err
		}
		out.grams += float64(grams)
		out.starts[j.ID] = x.start
		if j.PriorityClass == "" {
			n++
			out.waited += x.start.Sub(j.Submitted)
			// What kube-scheduler takes to ask again is a quarter of an hour at most at this speed.
			if x.start.Sub(j.Submitted) > j.MaxDelay+time.Duration(r.factor)*30*time.Second {
				out.late++
			}
		}
	}
	out.waited /= time.Duration(max(1, n))
	return out, nil
}

// play runs the scenario on a lab of its own.
func (r *extenderRun) play(ctx context.Context, via v1alpha1.Via) (out *shifted, err error) {
	dir, leave, err := r.folder()
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(r.Out, "Scenario #%d, via: %s: %d Pods on %d cores, %d times as fast ...\n", r.number, via, len(r.cfg.Jobs), reproduce.PiontekCores, r.factor)
	setup := Setup{Lab: r.Lab, Nodes: 1, CPUs: reproduce.PiontekCores, Factor: r.factor, Kinds: []string{"Pod"}}
	if via == v1alpha1.ViaExtender {
		if setup.Extender, err = loopback.FreeAddress(); err != nil {
			return nil, err
		}
		setup.Scheduler = filepath.Join(dir, "scheduler.yaml")
		if err := os.WriteFile(setup.Scheduler, fmt.Appendf(nil, schedulerConfig, setup.Extender), 0o600); err != nil {
			return nil, err
		}
	}
	st, err := Raise(ctx, dir, setup)
	if err != nil {
		return nil, err
	}
	defer st.Stop()
	timeline, err := r.setUp(ctx, st, via)
	if err != nil {
		return nil, errors.Join(err, st.Ended())
	}
	rec, err := watch(ctx, st.Config, st.Client.Scheme())
	if err != nil {
		return nil, err
	}
	if err := r.submit(ctx, st, timeline, rec); err != nil {
		return nil, err
	}
	runs, missing := map[string]run{}, 0
	for i := range r.cfg.Jobs {
		j := &r.cfg.Jobs[i]
		of := rec.job(j.ID).runs
		if len(of) != 1 {
			missing++
		}
		for _, p := range of {
			x := run{timeline.ToGrid(p.start), timeline.ToGrid(p.end)}
			if !x.end.After(x.start) { // within a second, which is all that timestamps tell apart
				x.end = x.start.Add(j.Length)
			}
			runs[j.ID] = x
		}
	}
	if missing > 0 {
		return nil, fmt.Errorf("%w: %d of %d Pods did not run once", ErrDemo, missing, len(r.cfg.Jobs))
	}
	return r.outcome(runs)
}

// setUp makes the zone and the policy.
func (r *extenderRun) setUp(ctx context.Context, st *Stage, via v1alpha1.Via) (timegrid.Timeline, error) {
	epoch := time.Now().Truncate(time.Second).Add(8 * time.Second)
	// A critical Pod waits for room: a Pod that was preempted nobody would make again.
	never := corev1.PreemptNever
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shift", Namespace: namespace}, Spec: v1alpha1.CarbonPolicySpec{
		Via: via, Zone: zoneName, CriticalPriorityClasses: []string{reproduce.CriticalClass}, Planner: v1alpha1.PlannerSpec{Name: "window"},
		Slot: &metav1.Duration{Duration: 5 * time.Minute}, MaxDelay: &metav1.Duration{Duration: 24 * time.Hour}, StartMargin: &metav1.Duration{},
	}}
	if via == v1alpha1.ViaHold {
		policy.Spec.Kinds = []string{"Pod"}
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: reproduce.CriticalClass}, Value: 1000, PreemptionPolicy: &never},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: zoneName, Namespace: namespace}, Data: map[string]string{"series.csv": seriesCSV(r.series, r.start.Add(-24*time.Hour), r.start.Add(4*24*time.Hour))}},
		&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: zoneName}, Spec: v1alpha1.GridZoneSpec{
			Zone:   "DE",
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: namespace, Name: zoneName, Key: "series.csv"}},
			Replay: &v1alpha1.Replay{Start: metav1.NewTime(r.start), Factor: r.factor, Epoch: &metav1.Time{Time: epoch}},
		}},
		policy,
	} {
		if err := st.Client.Create(ctx, obj); err != nil {
			return timegrid.Timeline{}, fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	if err := poll(ctx, "the zone to be known, and Pods to be governed", func() bool {
		var z v1alpha1.GridZone
		if st.Client.Get(ctx, client.ObjectKey{Name: zoneName}, &z) != nil || len(z.Status.Forecast) == 0 {
			return false
		}
		if st.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}) != nil {
			return false
		}
		probe := r.pod(0)
		probe.Spec.PriorityClassName = ""
		return st.Client.Create(ctx, probe, client.DryRunAll) == nil && (via == v1alpha1.ViaExtender || len(probe.Spec.SchedulingGates) > 0)
	}); err != nil {
		return timegrid.Timeline{}, err
	}
	return timegrid.NewTimeline(epoch, r.start, float64(r.factor))
}

// pod is a job of the scenario.
func (r *extenderRun) pod(i int) *corev1.Pod {
	j := &r.cfg.Jobs[i]
	cores := *resource.NewMilliQuantity(int64(math.Round(1000*j.Request[trace.CPU])), resource.DecimalSI)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: j.ID, Namespace: namespace, Annotations: map[string]string{v1alpha1.AnnotationRuntime: j.Length.Round(time.Second).String(), runtimeAnnotation: j.Length.String()}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, PriorityClassName: j.PriorityClass, Containers: []corev1.Container{{
			Name: "work", Image: "example.invalid/work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: cores}},
		}}},
	}
}

// submit submits the Pods as they come and waits until all have run.
func (r *extenderRun) submit(ctx context.Context, st *Stage, timeline timegrid.Timeline, rec *recorder) error {
	end := timeline.ToWall(r.cfg.Jobs[len(r.cfg.Jobs)-1].Submitted.Add(extenderTail))
	told := time.Now()
	for next := 0; ; {
		now := time.Now()
		for next < len(r.cfg.Jobs) && !now.Before(timeline.ToWall(r.cfg.Jobs[next].Submitted)) {
			if err := st.Client.Create(ctx, r.pod(next)); err != nil {
				return fmt.Errorf("submit %s: %w", r.cfg.Jobs[next].ID, err)
			}
			next++
		}
		if err := st.Ended(); err != nil {
			return err
		}
		begun, ended := rec.ranPods()
		if ended == len(r.cfg.Jobs) || now.After(end) {
			return nil
		}
		if now.Sub(told) > 30*time.Second {
			told = now
			fmt.Fprintf(r.Out, "  hour %2.0f: submitted %d, waiting %d, running %d, done %d\n", timeline.ToGrid(now).Sub(timeline.Grid).Hours(), next, next-begun, begun-ended, ended)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
