package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kube"
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
}

// randomWorld returns a world with jobs and faults from a seed. There is room for all Jobs at the same time, so that
// running as submitted misses no deadline.
func randomWorld(ctx context.Context, seed uint64) *World {
	rng := rand.New(rand.NewPCG(seed, 0x6c6f6f70))
	f := Faults{Lag: between(rng, 0, 20*time.Second), Latency: between(rng, 0, 200*time.Millisecond)}
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
	w := NewWorld(ctx, seed, f)
	if rng.IntN(8) == 0 {
		w.Leaders = true
		w.Faults.Kill /= 20 // at most one of 200 writes: a leader writes every two seconds
	}
	for range rng.IntN(3) {
		from := between(rng, time.Minute, coming)
		w.outages = append(w.outages, span{from, from + between(rng, time.Second, 2*time.Minute)})
	}
	if rng.IntN(3) == 0 { // the controller is away for long
		from := between(rng, 0, coming)
		w.away = span{from, from + between(rng, time.Minute, 3*time.Hour)}
	}
	start := time.Now().UTC()
	csv := "time,intensity_gco2eq_per_kwh\n"
	for i := range 24 * 2 {
		csv += fmt.Sprintf("%s,%.1f\n", start.Add(time.Duration(i)*30*time.Minute).Format(time.RFC3339), 20+500*rng.Float64()*rng.Float64())
	}
	w.Create("Namespace", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	w.Create("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: "team"}, Data: map[string]string{"s.csv": csv}})
	w.Create("GridZone", &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "zone"}, Spec: v1alpha1.GridZoneSpec{
		Zone: "TEST", Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: "team", Name: "series", Key: "s.csv"}},
	}})
	planners := []v1alpha1.PlannerSpec{{}, {Name: "cheapest"}, {Name: "cheapest"}, {Name: "carbonscaler"}, {Name: "waitawhile-deadline"}, {Name: "asap"}}
	w.Create("CarbonPolicy", &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: "team"}, Spec: v1alpha1.CarbonPolicySpec{
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: "zone", MinRun: &metav1.Duration{Duration: 2 * time.Minute}, MinPause: &metav1.Duration{Duration: 2 * time.Minute}, Planner: planners[rng.IntN(len(planners))],
		Slot: &metav1.Duration{Duration: []time.Duration{10 * time.Minute, 15 * time.Minute, 30 * time.Minute}[rng.IntN(3)]},
	}})
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
		annotations := map[string]string{v1alpha1.AnnotationRuntime: p.length.String(), v1alpha1.AnnotationMaxDelay: p.delay.String()}
		if p.interruptible {
			annotations[v1alpha1.AnnotationInterruptible] = "true"
		}
		p.job = &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%d", i), Namespace: "team", Labels: map[string]string{"team": "batch"}, Annotations: annotations},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{RunTime: p.length.String()}},
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
					Name: "work", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity(fmt.Sprint(n))}},
				}}},
			}},
		}
		w.jobs = append(w.jobs, p)
	}
	var nodes []string
	for range cpus/4 + 2 {
		nodes = append(nodes, "8")
	}
	c := NewCluster(w.Store, seed, nodes...)
	w.Go(func() { c.Run(ctx) })
	w.administrate()
	return w
}

// administrate has the administrator replace the policy and the zone in some worlds, as "kubectl replace --force" does.
// With watches that tell changes soon, nothing may be released for it.
func (w *World) administrate() {
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
			if sleep(w.ctx, at) != nil {
				return
			}
			r := w.Store.Resource(kind)
			old := w.Store.Get(r, key)
			if old == nil || w.Store.Delete("user", r, key, "") != nil || sleep(w.ctx, away) != nil {
				return
			}
			next := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": old.GetAPIVersion(), "kind": kind, "metadata": map[string]any{"name": key.Name}, "spec": old.Object["spec"],
			}}
			next.SetNamespace(key.Namespace)
			mustStore(w.Store.Create("user", r, next))
			w.mu.Lock()
			w.replaced++
			w.mu.Unlock()
		})
	}
}

// play runs the world until all should be done, and records what is violated.
func (w *World) play() {
	if !w.nobody {
		w.Controller()
		w.Watchdog()
	}
	last := time.Duration(0)
	for _, p := range w.jobs {
		w.Go(func() { w.live(p) })
		last = max(last, p.at+p.length+p.delay)
	}
	time.Sleep(last + 5*time.Minute)
	for _, p := range w.jobs {
		u := w.Store.Get(w.Store.Resource("Job"), nameOf(p.job))
		if u == nil {
			w.breaks("%s is gone", p.job.Name)
			continue
		}
		var job batchv1.Job
		typed(u, &job)
		at, done := finished(&job)
		deadline := job.CreationTimestamp.Add(p.length + p.delay)
		switch {
		case !done:
			w.breaks("%s was not done by its deadline %s: suspended %v, annotations %v", job.Name, deadline.Format(time.TimeOnly), *job.Spec.Suspend, job.Annotations)
		case at.Sub(deadline) > allow:
			w.breaks("%s was done at %s, its deadline was %s (length %v, delay %v, interruptible %v)", job.Name, at.Format(time.TimeOnly), deadline.Format(time.TimeOnly), p.length, p.delay, p.interruptible)
		}
	}
	w.count()
	if !w.nobody {
		w.settle()
	}
}

// settle lets the programs run without faults for a while. What they show must then be what is.
func (w *World) settle() {
	w.calm.Store(true)
	time.Sleep(max(0, w.away.to-time.Since(w.start)) + settles)
	for _, p := range w.jobs {
		name := types.NamespacedName{Namespace: p.job.Namespace, Name: kube.PlanNameOf("Job", p.job.Name)}
		u := w.Store.Get(w.Store.Resource("CarbonPlan"), name)
		if u == nil {
			continue // it ended before it was stated
		}
		var plan v1alpha1.CarbonPlan
		typed(u, &plan)
		if plan.Status.State != v1alpha1.PlanFinished {
			w.breaks("the plan of %s, which is done, says %s: %s", p.job.Name, plan.Status.State, plan.Status.Message)
		}
	}
}

// settles is how long a new controller takes at most until all that it shows is true.
const settles = 10 * time.Minute

// live is the life of a Job: its user submits it, and may open it or take its delay back.
func (w *World) live(p *planned) {
	if sleep(w.ctx, p.at) != nil {
		return
	}
	w.Submit(p.job)
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
		if sleep(w.ctx, edit.at-p.at) != nil {
			return
		}
		if _, err := w.Store.Change("user", w.Store.Resource("Job"), nameOf(p.job), false, edit.change); err == nil {
			w.mu.Lock()
			w.edits++
			w.mu.Unlock()
		}
	}
}

// count counts holds and pauses.
func (w *World) count() {
	running := map[types.NamespacedName]bool{}
	for _, e := range w.Store.Since(0) {
		if e.Resource.Kind != "Job" {
			continue
		}
		suspended, _, _ := unstructured.NestedBool(e.Object.Object, "spec", "suspend")
		key := nameOf(e.Object)
		decision := e.Object.GetAnnotations()[v1alpha1.AnnotationDecision]
		if w.replaces && !w.nobody && e.Before != nil && e.Before.GetAnnotations()[v1alpha1.AnnotationDecision] != decision &&
			(strings.Contains(decision, `"PolicyGone"`) || strings.Contains(decision, `"NoCarbonData"`)) {
			w.breaks("%s was released although what was deleted came back within seconds: %s", key.Name, decision)
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

// span is a time of a world, from its beginning.
type span struct{ from, to time.Duration }

func (s span) has(d time.Duration) bool { return s.from <= d && d < s.to }

// between draws a duration.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)+1))
}
