package controlloop

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/test/simkube"
)

// coming is how long Jobs are submitted.
const coming = 2 * time.Hour

// allow is how long after its deadline a Job may end: its times are kept in whole seconds.
const allow = 2 * time.Second

// planned is a Job of a world.
type planned struct {
	job            *batchv1.Job
	at             time.Duration
	length, delay  time.Duration
	interruptible  bool
	opened, edited time.Duration // when its user opens it, or takes its delay back; 0 for never
	again          time.Duration // when its user deletes it and submits it again; 0 for never
	cpus           int
}

// randomWorld is a world with jobs and faults from a seed. There is room for all Jobs at the same time, so that
// running as submitted misses no deadline.
type randomWorld struct {
	*simkube.World
	jobs []*planned
	// away is when the controller is stopped. nobody says that there is neither controller nor watchdog.
	away   simkube.Span
	nobody bool
	// replaces says that objects that the administrator replaces come back before anybody may take them for deleted.
	replaces bool
	outages  []simkube.Span
	// ledger is the database of the ledger; "" for none.
	ledger string

	mu                                    sync.Mutex
	held, paused, killed, edits, replaced int
	nodesLost, lost                       int
	// runs are those in the worlds that keep a ledger; unseen are those of them that are not in it.
	runs, unseen int
}

func newRandomWorld(t *testing.T, seed uint64) *randomWorld {
	rng := rand.New(rand.NewPCG(seed, 0x6c6f6f70))
	f := simkube.Faults{Lag: between(rng, 0, 20*time.Second), Latency: between(rng, 0, 200*time.Millisecond)}
	if rng.IntN(4) > 0 {
		worst := 0.3 * rng.Float64()
		f.Fail, f.Lose, f.Conflict = worst*rng.Float64(), worst*rng.Float64(), worst*rng.Float64()
	}
	if rng.IntN(2) == 0 {
		f.Kill = 0.1 * rng.Float64()
	}
	if rng.IntN(2) == 0 {
		f.Break = between(rng, time.Minute, 10*time.Minute)
	}
	w := &randomWorld{World: simkube.NewWorld(t, seed)}
	if seed%8 != 0 {
		w.Store.Serve(simkube.Operators()...)
	}
	w.Faults = f
	if rng.IntN(8) == 0 {
		w.Leaders = true
		w.Faults.Kill /= 20 // at most one of 200 writes: a leader writes every two seconds
	}
	for range rng.IntN(3) {
		from := between(rng, time.Minute, coming)
		w.outages = append(w.outages, simkube.Span{From: from, To: from + between(rng, time.Second, 2*time.Minute)})
	}
	if rng.IntN(3) == 0 { // the controller is away for long
		from := between(rng, 0, coming)
		w.away = simkube.Span{From: from, To: from + between(rng, time.Minute, 3*time.Hour)}
	}
	start := time.Now().UTC()
	csv := "time,intensity_gco2eq_per_kwh\n"
	for i := range 24 * 2 {
		csv += fmt.Sprintf("%s,%.1f\n", start.Add(time.Duration(i)*30*time.Minute).Format(time.RFC3339), 20+500*rng.Float64()*rng.Float64())
	}
	planners := []v1alpha1.PlannerSpec{{}, {Name: "cheapest"}, {Name: "cheapest"}, {Name: "carbonscaler"}, {Name: "waitawhile-deadline"}, {Name: "asap"}}
	w.Create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: "team"}, Data: map[string]string{"s.csv": csv}},
		&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "zone"}, Spec: v1alpha1.GridZoneSpec{
			Zone: "TEST", Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: "team", Name: "series", Key: "s.csv"}},
		}},
		&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: "team"}, Spec: v1alpha1.CarbonPolicySpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: "zone", MinRun: &metav1.Duration{Duration: 2 * time.Minute}, MinPause: &metav1.Duration{Duration: 2 * time.Minute}, Planner: planners[rng.IntN(len(planners))],
			Slot: &metav1.Duration{Duration: []time.Duration{10 * time.Minute, 15 * time.Minute, 30 * time.Minute}[rng.IntN(3)]},
		}},
	)
	cpus := 0
	for i := range 3 + rng.IntN(18) {
		p := &planned{at: between(rng, 0, coming), length: between(rng, time.Minute, 2*time.Hour).Truncate(time.Second), delay: between(rng, 0, 6*time.Hour).Truncate(time.Second), interruptible: rng.IntN(2) == 0}
		n := 1 + rng.IntN(4)
		cpus += n
		switch rng.IntN(8) {
		case 0:
			p.opened = p.at + between(rng, 0, p.delay)
		case 1:
			p.edited = p.at + between(rng, 0, p.delay)
		}
		p.cpus, p.job = n, p.submits(fmt.Sprintf("job-%d", i), n)
		w.jobs = append(w.jobs, p)
	}
	for i := range cpus/4 + 2 {
		w.AddNode(simkube.Node(fmt.Sprintf("node-%d", i), "8"))
	}
	w.administrate()
	w.tenant()
	w.meddle()
	w.loseNodes(cpus/4 + 2)
	if rng := rand.New(rand.NewPCG(seed, 0x71756f7461)); rng.IntN(3) == 0 { // all Jobs at the same time have room in it
		w.Create(quotaOf("team", fmt.Sprint(cpus)))
	}
	if seed%4 == 0 {
		w.ledger = filepath.Join(t.TempDir(), "ledger.db")
	}
	for _, s := range w.outages {
		w.Outage(s)
	}
	return w
}

// submits is the Job that the user submits.
func (p *planned) submits(name string, cpus int) *batchv1.Job {
	annotations := map[string]string{v1alpha1.AnnotationRuntime: p.length.String(), v1alpha1.AnnotationMaxDelay: p.delay.String()}
	if p.interruptible {
		annotations[v1alpha1.AnnotationInterruptible] = "true"
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{"team": "batch"}, Annotations: annotations},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{simkube.RunTime: p.length.String()}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "work", Image: "example.invalid/work",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(cpus))}},
			}}},
		}},
	}
}

// administrate has the administrator replace the policy and the zone in some worlds, as "kubectl replace --force" does.
// With watches that tell changes soon, nothing may be released for it.
func (w *randomWorld) administrate() {
	rng := rand.New(rand.NewPCG(w.Seed, 0x61646d696e))
	if rng.IntN(3) > 0 {
		return
	}
	if rng.IntN(2) == 0 {
		w.Faults.Lag, w.Faults.Latency, w.outages = w.Faults.Lag/40, w.Faults.Latency/2, nil
	}
	w.replaces = w.Faults.Lag+w.Faults.Latency < time.Second && len(w.outages) == 0
	for range 1 + rng.IntN(3) {
		at, away := between(rng, time.Minute, coming), between(rng, 0, 5*time.Second)
		kind, key := "CarbonPolicy", types.NamespacedName{Namespace: "team", Name: "clean"}
		if rng.IntN(3) == 0 {
			kind, key = "GridZone", types.NamespacedName{Name: "zone"}
		}
		w.Go(func() {
			if !w.Sleep(at) {
				return
			}
			r := w.Store.Resource(kind)
			old := w.Store.Get(r, key)
			if old == nil || w.Store.Delete("user", r, key, "") != nil || !w.Sleep(away) {
				return
			}
			next := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": old.GetAPIVersion(), "kind": kind, "metadata": map[string]any{"name": key.Name}, "spec": old.Object["spec"],
			}}
			next.SetNamespace(key.Namespace)
			if _, err := w.Store.Create("user", r, next); err != nil {
				w.Violate("replace %s: %v", key.Name, err)
			}
			w.mu.Lock()
			w.replaced++
			w.mu.Unlock()
		})
	}
}

// play runs the world until all should be done, and records what is violated.
func (w *randomWorld) play() {
	if !w.nobody {
		w.Keep(w.controller)
		w.Keep(func() *simkube.Program { return w.counted(w.Watchdog()) })
	}
	last := time.Duration(0)
	for _, p := range w.jobs {
		w.Go(func() { w.live(p) })
		last = max(last, max(p.at, p.again)+p.length+p.delay)
	}
	time.Sleep(last + 5*time.Minute)
	w.untilLostIsMadeGood()
	for _, p := range w.jobs {
		u := w.Store.Get(w.Store.Resource("Job"), nameOf(p.job))
		if u == nil {
			w.Violate("%s is gone", p.job.Name)
			continue
		}
		var job batchv1.Job
		typed(u, &job)
		at, done := simkube.Finished(&job)
		deadline := w.deadline(p)
		switch {
		case !done:
			w.Violate("%s was not done by its deadline %s: suspended %v, annotations %v", job.Name, deadline.Format(time.TimeOnly), *job.Spec.Suspend, job.Annotations)
		case at.Sub(deadline) > allow:
			w.Violate("%s was done at %s, its deadline was %s (length %v, delay %v, interruptible %v)", job.Name, at.Format(time.TimeOnly), deadline.Format(time.TimeOnly), p.length, p.delay, p.interruptible)
		}
	}
	w.count()
	w.checkHistory()
	if !w.nobody {
		w.settle()
	}
}

// settle lets the programs run without faults for a while. What they show must then be what is.
func (w *randomWorld) settle() {
	w.Calm()
	time.Sleep(max(0, w.away.To-time.Since(w.Began)) + settles)
	for _, p := range w.jobs {
		name := types.NamespacedName{Namespace: p.job.Namespace, Name: kube.PlanNameOf("Job", p.job.Name)}
		u := w.Store.Get(w.Store.Resource("CarbonPlan"), name)
		if u == nil {
			continue // it ended before it was stated
		}
		var plan v1alpha1.CarbonPlan
		typed(u, &plan)
		if plan.Status.State != v1alpha1.PlanFinished {
			w.Violate("the plan of %s, which is done, says %s: %s", p.job.Name, plan.Status.State, plan.Status.Message)
		}
	}
	if w.ledger != "" {
		w.checkLedger()
	}
}

// settles is how long a new controller takes at most until all that it shows is true.
const settles = 10 * time.Minute

// live is the life of a Job: its user submits it, and may open it or take its delay back.
func (w *randomWorld) live(p *planned) {
	if !w.Sleep(p.at) {
		return
	}
	if err := w.Client.Create(w.Context(), p.job); err != nil {
		w.Violate("submit %s: %v", p.job.Name, err)
		return
	}
	for _, edit := range []struct {
		at     time.Duration
		change func(u *unstructured.Unstructured) error
	}{
		{p.opened, func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, false, "spec", "suspend")
		}},
		{p.edited, func(u *unstructured.Unstructured) error {
			return unstructured.SetNestedField(u.Object, "0s", "metadata", "annotations", v1alpha1.AnnotationMaxDelay)
		}},
	} {
		if edit.at == 0 {
			continue
		}
		if !w.Sleep(edit.at - p.at) {
			return
		}
		if _, err := w.Store.Change("user", w.Store.Resource("Job"), nameOf(p.job), false, edit.change); err == nil {
			w.mu.Lock()
			w.edits++
			w.mu.Unlock()
		}
	}
	if last := max(p.at, p.opened, p.edited); p.again > last && w.Sleep(p.again-last) {
		w.submitAgain(p)
	}
}

// count counts holds and pauses.
func (w *randomWorld) count() {
	running := map[types.NamespacedName]bool{}
	for _, e := range w.Store.Since(0) {
		if e.Resource.Kind != "Job" {
			continue
		}
		suspended, _, _ := unstructured.NestedBool(e.Object.Object, "spec", "suspend")
		key := nameOf(e.Object)
		decision := e.Object.GetAnnotations()[v1alpha1.AnnotationDecision]
		if w.replaces && !w.nobody && key.Namespace != hostile && // whose zone may not exist
			e.Before != nil && e.Before.GetAnnotations()[v1alpha1.AnnotationDecision] != decision &&
			(strings.Contains(decision, `"PolicyGone"`) || strings.Contains(decision, `"NoCarbonData"`)) {
			w.Violate("%s was released although what was deleted came back within seconds: %s", key.Name, decision)
		}
		switch {
		case suspended && e.Before == nil:
			w.held++
		case suspended && running[key]:
			w.paused++
		}
		running[key] = !suspended
	}
}

// controller starts a controller, once it is not away any more, and ends it when it goes away.
func (w *randomWorld) controller() *simkube.Program {
	if w.away.Has(time.Since(w.Began)) {
		w.Sleep(w.away.To - time.Since(w.Began))
	}
	p := w.Controller(func(o *controller.Options) { o.Ledger = w.ledger })
	if leaves := w.away.From - time.Since(w.Began); leaves > 0 {
		w.After(leaves, p.Kill)
	}
	return w.counted(p)
}

// counted counts a program if it is killed.
func (w *randomWorld) counted(p *simkube.Program) *simkube.Program {
	w.Go(func() {
		p.Wait()
		if p.Dead() {
			w.mu.Lock()
			w.killed++
			w.mu.Unlock()
		}
	})
	return p
}

func typed(u *unstructured.Unstructured, into any) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		panic(err)
	}
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// between draws a duration.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)+1))
}
