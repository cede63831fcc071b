package demo

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

const (
	// capacityNode is how many CPUs a node of the demo has.
	capacityNode = 3
	// capacityTail is how long after the week the last jobs may end.
	capacityTail = 72 * time.Hour
	// capacityMargin is kept before deadlines, live and simulated.
	capacityMargin = time.Hour
	// capacityMinRun keeps changes to the beginning of hours: each costs a start of pods, which is a sixth
	// of an hour at the demo's speed, and makes progress differ from the plan.
	capacityMinRun = 40 * time.Minute
	// capacityPatience is some seconds at the demo's speed: pods that others make way for need them.
	capacityPatience = 30 * time.Minute
	// capacityLimit is how far live and simulated emissions may be apart.
	capacityLimit = 0.05
	// poolLabel says which method a node or a job belongs to.
	poolLabel = "lull.dev/demo-method"
)

// provisioned is a method as it runs live: on nodes of its own, with jobs of its own.
type provisioned struct {
	key, name string // of objects, of the simulator
	label     string
	planner   v1alpha1.PlannerSpec
	method    *v1alpha1.CapacityMethod // nil has no policy: as submitted
	scales    bool

	grams, simulated float64
	late, lateThere  int
	unfinished       []string
	capacity         report.Series
	use              []stair
}

func provisionedMethods() []*provisioned {
	median := 0.5 // as simulated; a higher quantile takes less risk, and saves less
	return []*provisioned{
		{key: "agnostic", name: reproduce.CapacityAgnostic, label: "agnostic"},
		{key: "vcc", name: reproduce.CapacityVCC, label: "vcc", planner: v1alpha1.PlannerSpec{Name: "asap"}, method: &v1alpha1.CapacityMethod{VCC: &v1alpha1.VCCMethod{Quantile: &median}}},
		{key: "carbonflex", name: reproduce.CapacityFlex, label: "carbonFlex", planner: v1alpha1.PlannerSpec{Name: "carbonflex"}, method: &v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}, scales: true},
		{key: "planned", name: reproduce.CapacityPlanned, label: "planned (joint)", planner: v1alpha1.PlannerSpec{Name: "joint", Parameters: map[string]string{"effort": "0.5", "reserve": "0"}}, method: &v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{}}, scales: true},
	}
}

// capacityRun is the demo under way.
type capacityRun struct {
	Options
	week     *reproduce.CapacityWeek
	methods  []*provisioned
	oracle   reproduce.CapacityScore
	timeline timegrid.Timeline
	specs    map[string]spec // by name of the Job
}

// Capacity runs a week of elastic jobs four times at once on a real control plane, each time with
// the capacity of its nodes set another way, and in the simulator; it writes a table and the staircases
// over the intensity. It returns an error wrapping ErrDemo where a job did not finish, or where live
// and simulated emissions differ by more than 5 %.
func Capacity(ctx context.Context, o Options, env *reproduce.Env) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	week, err := reproduce.NewCapacityWeek(env, 0.25)
	if err != nil {
		return fmt.Errorf("%w (recorded jobs and intensities; LULL_DATA names their folder)", err)
	}
	r := &capacityRun{Options: o, week: week, methods: provisionedMethods(), specs: map[string]spec{}}
	fmt.Fprintf(o.Out, "%d jobs of a week, %d CPUs; simulating ...\n", len(week.Jobs), week.Servers)
	for _, m := range r.methods {
		s, err := r.simulate(ctx, m)
		if err != nil {
			return err
		}
		m.simulated, m.lateThere = s.Grams, s.Late
	}
	if r.oracle, err = week.Simulate(ctx, reproduce.CapacityOracle, 0); err != nil {
		return err
	}
	dir, leave, err := o.folder()
	if err != nil {
		return err
	}
	defer leave(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(o.Out, "live on a real control plane, %d times as fast ...\n", o.Factor)
	s, err := Raise(ctx, dir, Setup{Lab: o.Lab, Nodes: len(r.methods) * week.Servers / capacityNode, CPUs: capacityNode, Factor: o.Factor})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := r.prepare(ctx, s); err != nil {
		return err
	}
	if err := r.play(ctx, s); err != nil {
		return err
	}
	return r.conclude()
}

// simulate is what the simulator expects of a method. CarbonFlex learns each day, as it does live.
func (r *capacityRun) simulate(ctx context.Context, m *provisioned) (reproduce.CapacityScore, error) {
	if m.name != reproduce.CapacityFlex {
		return r.week.Simulate(ctx, m.name, capacityMargin)
	}
	planner, err := curve.Simulated(append(past(r.week.Past), past(r.week.Jobs)...), r.week.Start, float64(r.week.Servers), r.week.Watts, r.week.Series)
	if err != nil {
		return reproduce.CapacityScore{}, err
	}
	return r.week.RollOut(ctx, planner)
}

// prepare gives each method its nodes, zone, policy and curve.
func (r *capacityRun) prepare(ctx context.Context, s *Stage) error {
	if err := s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	if err := r.divide(ctx, s); err != nil {
		return err
	}
	epoch := time.Now().Truncate(time.Second).Add(15 * time.Second)
	var err error
	if r.timeline, err = timegrid.NewTimeline(epoch, r.week.Start, float64(r.Factor)); err != nil {
		return err
	}
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: namespace}, Data: map[string]string{"series.csv": seriesCSV(r.week.Series, r.week.Start.Add(-16*24*time.Hour), r.week.Start.Add(16*24*time.Hour))}},
		&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: zoneName}, Spec: v1alpha1.GridZoneSpec{
			Zone:   "AU-SA",
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: namespace, Name: "series", Key: "series.csv"}},
			Replay: &v1alpha1.Replay{Start: metav1.NewTime(r.week.Start), Factor: r.Factor, Epoch: &metav1.Time{Time: epoch}},
		}},
	}
	known := map[string]bool{}
	for _, j := range r.week.Jobs {
		if !known[j.Profile] {
			known[j.Profile] = true
			objects = append(objects, profileOf(&j).object(namespace))
		}
	}
	for _, m := range r.methods {
		if m.method == nil {
			continue
		}
		seed, err := curve.Seed("lull-system", m.key, past(r.week.Past))
		if err != nil {
			return err
		}
		objects = append(objects, seed, r.policy(m), r.curve(m))
	}
	for _, obj := range objects {
		if err := s.Client.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	return poll(ctx, "the curves to be set", func() bool {
		for _, m := range r.methods {
			var c v1alpha1.CapacityCurve
			if m.method == nil {
				continue
			}
			if s.Client.Get(ctx, client.ObjectKey{Name: m.key}, &c) != nil || !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) || meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionCold) {
				return false
			}
		}
		return true
	})
}

// divide gives each method as many nodes, which only its jobs tolerate.
func (r *capacityRun) divide(ctx context.Context, s *Stage) error {
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		key := r.methods[i%len(r.methods)].key
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}},"spec":{"taints":[{"key":%q,"value":%q,"effect":"NoSchedule"}]}}`, poolLabel, key, poolLabel, key)
		if err := s.Client.Patch(ctx, &nodes.Items[i], client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return err
		}
	}
	return nil
}

// past are jobs as a curve would have seen them.
func past(jobs []reproduce.CapacityJob) []curve.Past {
	var out []curve.Past
	for _, j := range jobs {
		out = append(out, curve.Past{
			ID: j.ID, Kind: workload.Elastic, Submitted: j.Submitted, Delay: j.Delay, Hours: j.Length.Hours(),
			Request: map[string]float64{"cpu": 1}, MinWorkers: 1, Curve: j.Curve,
		})
	}
	return out
}

func (r *capacityRun) policy(m *provisioned) *v1alpha1.CarbonPolicy {
	return &v1alpha1.CarbonPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: m.key, Namespace: namespace},
		Spec: v1alpha1.CarbonPolicySpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: m.key}}, Zone: zoneName, Planner: m.planner,
			Slot: &metav1.Duration{Duration: time.Hour}, StartMargin: &metav1.Duration{Duration: capacityMargin},
			MinRun: &metav1.Duration{Duration: capacityMinRun}, MinPause: &metav1.Duration{}, ScaleUpPatience: &metav1.Duration{Duration: capacityPatience}, MinSaving: new(0.0),
			Power: v1alpha1.PowerSpec{WattsPerUnit: map[string]float64{"cpu": r.week.Watts}, PUE: 1},
		},
	}
}

func (r *capacityRun) curve(m *provisioned) *v1alpha1.CapacityCurve {
	return &v1alpha1.CapacityCurve{
		ObjectMeta: metav1.ObjectMeta{Name: m.key},
		Spec: v1alpha1.CapacityCurveSpec{
			Zone: zoneName, Target: v1alpha1.CapacityTarget{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: m.key}}},
			Policies: []v1alpha1.PolicyReference{{Namespace: namespace, Name: m.key}},
			Maximum:  v1alpha1.Amount(strconv.FormatInt(int64(r.week.Servers), 10)), Method: *m.method,
		},
	}
}

// profileOf is the profile of a job.
func profileOf(j *reproduce.CapacityJob) *scaling {
	return &scaling{
		name: strings.ReplaceAll(j.Profile, "_", "-"), source: "CarbonScaler's measurements",
		throughput: workload.Throughputs(j.Curve),
	}
}

// job is a job of the week as a method gets it.
func (r *capacityRun) job(m *provisioned, i int) (spec, *batchv1.Job) {
	j := &r.week.Jobs[i]
	x := spec{name: fmt.Sprintf("%s-%03d", m.key, i), length: j.Length, estimate: j.Length, slack: j.Delay, cpus: 1, elastic: profileOf(j)}
	out := x.job()
	out.Labels[poolLabel] = m.key
	if !m.scales {
		delete(out.Annotations, v1alpha1.AnnotationMinWorkers)
		delete(out.Annotations, v1alpha1.AnnotationMaxWorkers)
		delete(out.Annotations, v1alpha1.AnnotationProfile)
		out.Annotations[v1alpha1.AnnotationInterruptible] = "true"
	}
	pod := &out.Spec.Template.Spec
	pod.NodeSelector = map[string]string{poolLabel: m.key}
	pod.Tolerations = []corev1.Toleration{{Key: poolLabel, Operator: corev1.TolerationOpExists}}
	return x, out
}

// play submits the jobs at their times, plays their work and looks at the curves each hour.
func (r *capacityRun) play(ctx context.Context, s *Stage) error {
	rec, err := watch(ctx, s.Config, s.Client.Scheme())
	if err != nil {
		return err
	}
	player := &Player{Client: s.Client, Namespace: namespace, Timeline: r.timeline, Running: rec.pods, Every: 4 * reportEvery}
	total, next := len(r.methods)*len(r.week.Jobs), 0
	end := r.timeline.ToWall(r.week.Start.Add(7*24*time.Hour + capacityTail))
	told, hour := time.Now(), -1
	for rec.counts().done < total && time.Now().Before(end) {
		now := time.Now()
		for ; next < len(r.week.Jobs) && !r.timeline.ToWall(r.week.Jobs[next].Submitted).After(now); next++ {
			for _, m := range r.methods {
				x, job := r.job(m, next)
				if err := s.Client.Create(ctx, job); err != nil {
					return fmt.Errorf("submit %s: %w", x.name, err)
				}
				r.specs[x.name] = x
				player.Add(x.work())
			}
		}
		if err := player.Step(ctx, now); err != nil {
			return err
		}
		if err := s.Ended(); err != nil {
			return err
		}
		if h := int(r.timeline.ToGrid(now).Sub(r.week.Start) / time.Hour); h > hour {
			hour = h
			r.look(ctx, s, float64(h))
		}
		if now.Sub(told) > 20*time.Second {
			told = now
			c := rec.counts()
			fmt.Fprintf(r.Out, "  hour %d: %d submitted, %d wait, %d run, %d are done\n", hour, c.submitted, c.waiting, c.running, c.done)
		}
		time.Sleep(50 * time.Millisecond)
	}
	model := power.PerUnit{Watts: map[string]float64{"cpu": r.week.Watts}, PUE: 1}
	for _, m := range r.methods {
		var all []run
		for i := range r.week.Jobs {
			j, name := &r.week.Jobs[i], fmt.Sprintf("%s-%03d", m.key, i)
			done := rec.job(name)
			switch {
			case !done.succeeded:
				m.unfinished = append(m.unfinished, name)
			case r.timeline.ToGrid(done.finished).After(j.Submitted.Add(j.Length + j.Delay + capacityMargin)):
				m.late++
			}
			runs := rec.runs(name, r.timeline, time.Now())
			all = append(all, runs...)
			x := r.specs[name]
			grams, _, err := x.used(runs, model, r.week.Series)
			if err != nil {
				return err
			}
			m.grams += float64(grams)
		}
		m.use = stairs(all)
	}
	return nil
}

// look notes the capacity of each curve.
func (r *capacityRun) look(ctx context.Context, s *Stage, hour float64) {
	for _, m := range r.methods {
		var c v1alpha1.CapacityCurve
		if m.method == nil || s.Client.Get(ctx, client.ObjectKey{Name: m.key}, &c) != nil {
			continue
		}
		m.capacity.X, m.capacity.Y = append(m.capacity.X, hour), append(m.capacity.Y, c.Status.Capacity)
	}
}

// conclude writes the table and the pictures, and judges.
func (r *capacityRun) conclude() error {
	head := []string{"capacity", "live, kg", "simulated, kg", "difference, %", "saved live, %", "saved simulated, %", "late live", "late simulated"}
	var rows [][]string
	var failed []string
	doc := report.Document{
		Title: "The size of a cluster, live",
		Intro: fmt.Sprintf("%d elastic jobs of a week (Azure, 2022; 1 to 24 h, up to 4 workers, measured profiles) on %d CPUs of a real control plane, AU-SA from %s, %d times as fast. Each method has its own nodes. The methods learn from the two weeks before.",
			len(r.week.Jobs), r.week.Servers, r.week.Start.Format("2 January 2006"), r.Factor),
	}
	base := r.methods[0]
	for _, m := range r.methods {
		off := m.grams/m.simulated - 1
		rows = append(rows, []string{
			m.label, fmt.Sprintf("%.2f", m.grams/1000), fmt.Sprintf("%.2f", m.simulated/1000), units.Number("%+.1f", 100*off),
			units.Number("%.1f", 100*(1-m.grams/base.grams)), units.Number("%.1f", 100*(1-m.simulated/base.simulated)), fmt.Sprint(m.late), fmt.Sprint(m.lateThere),
		})
		if len(m.unfinished) > 0 {
			failed = append(failed, fmt.Sprintf("%s: not finished: %s", m.label, strings.Join(m.unfinished, ", ")))
		}
		if math.Abs(off) > capacityLimit {
			failed = append(failed, fmt.Sprintf("%s: live emissions are %s those simulated; accepted: a difference of at most %.0f %%", m.label, against(off), 100*capacityLimit))
		}
		doc.Sections = append(doc.Sections, report.Section{Title: m.label, Picture: r.picture(m).SVG()})
	}
	rows = append(rows, []string{"oracle", "-", fmt.Sprintf("%.2f", r.oracle.Grams/1000), "-", "-", units.Number("%.1f", 100*(1-r.oracle.Grams/base.simulated)), "-", fmt.Sprint(r.oracle.Late)})
	doc.Sections = append([]report.Section{{Title: "Emissions", Head: head, Rows: rows, Notes: []string{
		"Live: from the API server's timestamps of pods. Simulated: vcc, carbonFlex and the oracle roll out over the week hour by hour; agnostic and joint run in the simulator. All methods know lengths and intensities. vcc expects that the work of the coming day is the median of the fourteen days before. carbonFlex learns again each day, live and simulated.",
		"Late: ended more than an hour after the allowed delay.",
	}}}, doc.Sections...)
	return r.publish(doc, head, rows, failed)
}

// picture shows capacity and use of a method over the intensity, which is scaled to the CPUs.
func (r *capacityRun) picture(m *provisioned) report.Chart {
	c := report.Chart{Title: "CPUs in use and capacity by method " + m.label + ", over the intensity", From: r.week.Start}
	use := report.Series{Name: "in use", Stairs: true}
	for i, x := range m.use {
		use.X, use.Y = append(use.X, x.from.Sub(r.week.Start).Hours()), append(use.Y, float64(x.pods))
		if i+1 == len(m.use) || m.use[i+1].from.After(x.to) { // nothing runs for a while
			use.X, use.Y = append(use.X, x.to.Sub(r.week.Start).Hours()), append(use.Y, 0)
		}
	}
	ci, most := report.Series{Name: "intensity (scaled)"}, 0.0
	for h := range 7*24 + int(capacityTail/time.Hour) {
		at, known := r.week.Series.At(r.week.Start.Add(time.Duration(h) * time.Hour))
		if !known {
			continue
		}
		most = max(most, float64(at.Value))
		ci.X, ci.Y = append(ci.X, float64(h)), append(ci.Y, float64(at.Value))
	}
	for i := range ci.Y {
		ci.Y[i] *= float64(r.week.Servers) / most
	}
	c.Series = []report.Series{ci, use}
	if m.method != nil {
		m.capacity.Name, m.capacity.Stairs = "capacity", true
		c.Series = append(c.Series, m.capacity)
	}
	return c
}
