package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// Caspian's experiment (Section V) live: the workloads and places of package reproduce on a hub
// with three spokes, each mode on control planes of its own.
const (
	gpuResource  = "nvidia.com/gpu"
	gpusPerSpoke = 32
	cpusPerSpoke = 256
	// dispatchTime is by how much workloads are shorter than whole hours, live and simulated. At the
	// demo's time factor it is twelve seconds: what starting a Job through two Kueues takes, and until
	// the hub knows that it has ended. A plan made at the full hour must know who has.
	dispatchTime = 40 * time.Minute
	// caspianHorizon is how far ahead Caspian plans.
	caspianHorizon = 24 * time.Hour
	// caspianTail is how long after the last arrival stragglers are waited for.
	caspianTail = 48 * time.Hour
	// caspianLimit is the largest relative difference of savings that is taken for the same.
	caspianLimit = 0.05
	fleetQueue   = "lab"
)

// caspianPaper is what Section V reports for a mode.
type caspianPaper struct{ saving, onTime, alpha, makespan string }

var caspianPapers = map[float64]caspianPaper{
	0: {"-", "100", "0.49", "29"}, 0.5: {"33.21", "98.28", "0.60", "-"}, 1: {"38.2", "92.8", "0.72", "39"},
}

// outcome is what came of a mode, live or simulated.
type outcome struct {
	grams           units.Emissions
	onTime, alpha   float64
	makespan        float64 // hours from the first submission to the last completion
	unfinished      []string
	twice, overfull int           // moments at which a workload ran twice, a cluster was over its quota
	use             [][]gpuChange // of each cluster
	gpuHours        []float64     // of each cluster
}

// gpuChange is the GPUs in use from a time (hours) on.
type gpuChange struct{ at, gpus float64 }

// caspianRun is a run of the experiment.
type caspianRun struct {
	Options
	omegas   []float64
	series   []*carbon.Series
	zones    []string
	jobs     []sim.Job
	arrival  []float64 // hours from the start
	deadline []float64
}

// Multicluster runs Caspian's experiment live for each weight of carbon, the first of which is
// the baseline, and beside it in the simulator. The baseline of the paper is omega1 = 0, where planner
// caspian spreads workloads over the clusters, as all score the same (Section V-B). It returns an error wrapping ErrDemo where a
// workload did not finish, ran twice at once or beyond the quota, or where savings differ by more
// than 5 % of the simulated.
func Multicluster(ctx context.Context, o Options, omegas []float64, planner controller.PlannerFactory) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &caspianRun{Options: o, omegas: omegas}
	if err := r.places(); err != nil {
		return err
	}
	r.workloads()
	var live, simulated []outcome
	for _, omega := range omegas {
		s, err := r.simulate(ctx, omega, planner)
		if err != nil {
			return err
		}
		simulated = append(simulated, s)
		l, err := r.play(ctx, omega)
		if err != nil {
			return err
		}
		live = append(live, l)
	}
	return r.conclude(live, simulated)
}

// workloads draws the workloads of the seed.
func (r *caspianRun) workloads() {
	r.jobs, r.arrival, r.deadline = reproduce.CaspianJobs(r.Seed, reproduce.CaspianStart)
	r.jobs, r.arrival, r.deadline = r.jobs[:r.Jobs], r.arrival[:r.Jobs], r.deadline[:r.Jobs]
	for i := range r.jobs {
		j := &r.jobs[i]
		j.Length -= dispatchTime
		j.Estimate = j.Length
		// As its Pod asks for, so that the simulator plans the same.
		j.Request = map[string]float64{gpuResource: j.Request["gpu"], string(corev1.ResourceCPU): 1}
	}
}

// places reads the intensities: those of the evaluation data where it is there, else the
// climatology of like zones.
func (r *caspianRun) places() error {
	data := EvaluationData()
	from, to := reproduce.CaspianStart.Add(-24*time.Hour), reproduce.CaspianStart.Add(7*24*time.Hour)
	recorded := true
	for _, zone := range reproduce.CaspianZones {
		s, err := readYear(filepath.Join(data, "carbon", zone, fmt.Sprint(reproduce.CaspianStart.Year())+".csv"), zone)
		if errors.Is(err, os.ErrNotExist) {
			recorded = false
			break
		}
		if err != nil {
			return err
		}
		r.zones, r.series = append(r.zones, zone), append(r.series, s)
	}
	if recorded {
		return nil
	}
	fmt.Fprintf(r.Out, "No recorded intensities in %s: the built-in climatology, with US-MIDA-PJM for JP-KN.\n", data)
	r.zones, r.series = []string{"CA-ON", "US-MIDA-PJM", "DE"}, nil
	for _, zone := range r.zones {
		s, err := climatology.Series(zone, from, to)
		if err != nil {
			return err
		}
		r.series = append(r.series, s)
	}
	return nil
}

// readYear reads a recorded year of a zone.
func readYear(file, zone string) (out *carbon.Series, err error) {
	err = source.WithFile(file, func(f io.Reader) error {
		out, err = source.Read(f, file, carbon.Provenance{Zone: zone, Source: file})
		return err
	})
	return out, err
}

// objective is that of a mode.
func objectiveOf(omega float64) plan.Objective {
	return plan.Objective{Kind: plan.MOSP, Weights: [3]float64{omega, 1, 1}}
}

// simulate says what the simulator expects of a mode.
func (r *caspianRun) simulate(ctx context.Context, omega float64, factory controller.PlannerFactory) (outcome, error) {
	planner, err := factory(r.Planner, r.Parameters, nil)
	if err != nil {
		return outcome{}, err
	}
	cfg := sim.Config{
		Planner: planner, Slot: time.Hour, Horizon: caspianHorizon, Revise: sim.EverySlot, Objective: objectiveOf(omega), Jobs: r.jobs,
	}
	for i, zone := range r.zones {
		cfg.Clusters = append(cfg.Clusters, sim.Cluster{
			Name: zone, Zone: zone, Capacity: map[string]float64{gpuResource: gpusPerSpoke, string(corev1.ResourceCPU): cpusPerSpoke}, Power: r.power(i), Forecast: r.series[i], Actual: r.series[i],
		})
	}
	res, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return outcome{}, fmt.Errorf("simulate: %w", err)
	}
	out := outcome{grams: res.Emissions}
	out.gpuHours = make([]float64, len(r.zones))
	for i := range res.Jobs {
		out.finished(r, i, res.At(res.Jobs[i].Finish))
		for _, x := range res.Jobs[i].Runs {
			out.gpuHours[x.Cluster] += (x.To - x.From).Hours() * r.jobs[i].Request[gpuResource]
		}
	}
	return out, nil
}

func (r *caspianRun) power(cluster int) power.PerUnit {
	return power.PerUnit{Watts: map[string]float64{gpuResource: reproduce.CaspianWatts[cluster]}, PUE: 1}
}

// finished counts the end of a workload.
func (out *outcome) finished(r *caspianRun, i int, at time.Time) {
	hours := at.Sub(reproduce.CaspianStart).Hours()
	alpha := reproduce.CaspianAlpha(hours, r.arrival[i], r.deadline[i])
	out.alpha += alpha / float64(len(r.jobs))
	if alpha <= 1+1e-9 {
		out.onTime += 1 / float64(len(r.jobs))
	}
	out.makespan = math.Max(out.makespan, hours-math.Floor(slices.Min(r.arrival)))
}

// play runs a mode on a hub with three spokes.
func (r *caspianRun) play(ctx context.Context, omega float64) (out outcome, err error) {
	dir, leave, err := r.folder()
	if err != nil {
		return out, err
	}
	defer leave(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(r.Out, "omega1 = %g: %d workloads on a hub with %d spokes of %d GPUs, %d times as fast ...\n", omega, len(r.jobs), len(r.zones), gpusPerSpoke, r.Factor)
	st, err := Raise(ctx, dir, Setup{Lab: r.Lab, Nodes: 1, CPUs: cpusPerSpoke, GPUs: gpusPerSpoke, Spokes: len(r.zones), Factor: r.Factor})
	if err != nil {
		return out, err
	}
	defer st.Stop()
	timeline, err := r.setUp(ctx, st, omega)
	if err != nil {
		return out, errors.Join(err, st.Ended())
	}
	hub, err := watch(ctx, st.Config, st.Client.Scheme())
	if err != nil {
		return out, err
	}
	var at []*recorder
	for _, s := range st.Spokes {
		rec, err := watch(ctx, s.Config, s.Client.Scheme())
		if err != nil {
			return out, err
		}
		at = append(at, rec)
	}
	if err := r.submit(ctx, st, timeline, hub); err != nil {
		return out, err
	}
	return r.observe(timeline, hub, at)
}

// setUp makes zones, clusters, queues and the policy.
func (r *caspianRun) setUp(ctx context.Context, st *Stage, omega float64) (timegrid.Timeline, error) {
	queue := &unstructured.Unstructured{}
	queue.SetGroupVersionKind(kueue.GroupVersion.WithKind("LocalQueue"))
	queue.SetNamespace(namespace)
	queue.SetName(fleetQueue)
	if err := unstructured.SetNestedField(queue.Object, fleetQueue, "spec", "clusterQueue"); err != nil {
		return timegrid.Timeline{}, err
	}
	clients := []client.Client{st.Client}
	for _, s := range st.Spokes {
		clients = append(clients, s.Client)
	}
	for _, c := range clients {
		for _, obj := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, queue.DeepCopy()} {
			if err := c.Create(ctx, obj); err != nil {
				return timegrid.Timeline{}, fmt.Errorf("create %s: %w", obj.GetName(), err)
			}
		}
	}
	epoch := time.Now().Truncate(time.Second).Add(8 * time.Second)
	start := reproduce.CaspianStart
	var names []string
	var objects []client.Object
	for i := range r.zones {
		name := st.Spokes[i].Name
		names = append(names, name)
		objects = append(objects,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string]string{"series.csv": seriesCSV(r.series[i], start.Add(-24*time.Hour), start.Add(6*24*time.Hour))}},
			&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.GridZoneSpec{
				Zone:   r.zones[i],
				Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: namespace, Name: name, Key: "series.csv"}},
				Replay: &v1alpha1.Replay{Start: metav1.NewTime(start), Factor: r.Factor, Epoch: &metav1.Time{Time: epoch}},
			}},
			&v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ComputeClusterSpec{
				Zone: name, Access: v1alpha1.ClusterAccess{MultiKueueCluster: name}, Queue: fleetQueue,
				Power: v1alpha1.PowerSpec{WattsPerUnit: map[string]float64{gpuResource: reproduce.CaspianWatts[i]}, PUE: 1}, Refresh: &metav1.Duration{Duration: 2 * time.Second},
			}})
	}
	one := 1.0
	objects = append(objects, &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "caspian", Namespace: namespace}, Spec: v1alpha1.CarbonPolicySpec{
		Queues: []string{fleetQueue}, Clusters: names, Zone: names[0], Planner: v1alpha1.PlannerSpec{Name: r.Planner, Parameters: r.Parameters},
		Slot: &metav1.Duration{Duration: time.Hour}, StartMargin: &metav1.Duration{},
		Objective: &v1alpha1.ObjectiveSpec{
			Kind: v1alpha1.ObjectiveMOSP, Carbon: &omega, Lateness: &one, Completion: &one, Horizon: &metav1.Duration{Duration: caspianHorizon},
		},
	}})
	for _, obj := range objects {
		if err := st.Client.Create(ctx, obj); err != nil {
			return timegrid.Timeline{}, fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	if err := poll(ctx, "the clusters to be looked at and Jobs to be gated", func() bool {
		for _, name := range names {
			var cc v1alpha1.ComputeCluster
			if st.Client.Get(ctx, client.ObjectKey{Name: name}, &cc) != nil || !meta.IsStatusConditionFalse(cc.Status.Conditions, v1alpha1.ConditionStale) {
				return false
			}
		}
		probe := r.job(0)
		return st.Client.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[kueue.AnnotationGates] == v1alpha1.Gate
	}); err != nil {
		return timegrid.Timeline{}, err
	}
	return timegrid.NewTimeline(epoch, start, float64(r.Factor))
}

// job is a workload as its user submits it.
func (r *caspianRun) job(i int) *batchv1.Job {
	j := &r.jobs[i]
	no := int32(0)
	gpus := *resource.NewQuantity(int64(j.Request[gpuResource]), resource.DecimalSI)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: j.ID, Namespace: namespace, Labels: map[string]string{kueue.LabelQueue: fleetQueue},
			Annotations: map[string]string{v1alpha1.AnnotationRuntime: j.Estimate.String(), v1alpha1.AnnotationDeadline: j.Deadline.UTC().Format(time.RFC3339)},
		},
		Spec: batchv1.JobSpec{BackoffLimit: &no, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{runtimeAnnotation: j.Length.String()}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "work", Image: "example.invalid/work", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), gpuResource: gpus}, Limits: corev1.ResourceList{gpuResource: gpus},
				},
			}}},
		}},
	}
}

// submitted is when a workload is submitted: when it arrives, but for the first and the last moments of
// the hour. Creation times have whole seconds, so what comes in the first one looks as if it had come
// by the full hour; and Kueue must have taken note of it when the next hour's plan is made.
func (r *caspianRun) submitted(i int) time.Time {
	const moments = 0.1
	hour := math.Floor(r.arrival[i])
	at := math.Max(hour+moments, math.Min(r.arrival[i], hour+1-moments))
	return reproduce.CaspianStart.Add(time.Duration(at * float64(time.Hour)))
}

// submit submits the workloads at their times and waits until all are done.
func (r *caspianRun) submit(ctx context.Context, st *Stage, timeline timegrid.Timeline, hub *recorder) error {
	order := make([]int, len(r.jobs))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return r.arrival[order[a]] < r.arrival[order[b]] })
	last := r.submitted(order[len(order)-1])
	end := timeline.ToWall(last.Add(caspianTail))
	told := time.Now()
	for next := 0; ; {
		now := time.Now()
		for next < len(order) && !now.Before(timeline.ToWall(r.submitted(order[next]))) {
			if err := st.Client.Create(ctx, r.job(order[next])); err != nil {
				return fmt.Errorf("submit %s: %w", r.jobs[order[next]].ID, err)
			}
			next++
		}
		if err := st.Ended(); err != nil {
			return err
		}
		c := hub.counts()
		if next == len(order) && c.done+c.failed == len(order) || now.After(end) {
			return nil
		}
		if now.Sub(told) > 20*time.Second {
			told = now
			fmt.Fprintf(r.Out, "  hour %2.0f: submitted %d, waiting %d, running %d, done %d\n", timeline.ToGrid(now).Sub(timeline.Grid).Hours(), c.submitted, c.waiting, c.running, c.done)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// observe reads what came of it from the timestamps of the API servers; it returns the errors of priced.
func (r *caspianRun) observe(timeline timegrid.Timeline, hub *recorder, at []*recorder) (outcome, error) {
	var out outcome
	now := time.Now()
	byCluster := make([][]gpuRun, len(at))
	out.gpuHours = make([]float64, len(at))
	for i := range r.jobs {
		j := &r.jobs[i]
		done := hub.job(j.ID)
		if !done.succeeded {
			out.unfinished = append(out.unfinished, j.ID)
			continue
		}
		var all []gpuRun
		for c, rec := range at {
			for _, x := range rec.runs(j.ID, timeline, now) {
				grams, err := priced(r.power(c).Of(j.Request), r.series[c], x.start, x.end)
				if err != nil {
					return out, err
				}
				out.grams += grams
				out.gpuHours[c] += x.end.Sub(x.start).Hours() * j.Request[gpuResource]
				all = append(all, gpuRun{x, j.Request[gpuResource]})
				byCluster[c] = append(byCluster[c], gpuRun{x, j.Request[gpuResource]})
			}
		}
		for _, level := range levels(all) {
			if level.gpus > j.Request[gpuResource] {
				out.twice++
			}
		}
		end := time.Time{}
		for _, x := range all {
			if x.end.After(end) {
				end = x.end
			}
		}
		out.finished(r, i, end)
	}
	for c := range byCluster {
		use := levels(byCluster[c])
		for i := range use {
			if use[i].gpus > gpusPerSpoke {
				out.overfull++
			}
			use[i].at -= float64(reproduce.CaspianStart.Unix()) / 3600
		}
		out.use = append(out.use, use)
	}
	return out, nil
}
