package kube

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// queued is a Job in a queue, gated by Lull.
func queued(j *batchv1.Job) {
	j.Labels = map[string]string{kueue.LabelQueue: "q"}
	j.Annotations[kueue.AnnotationGates] = "x/other," + v1alpha1.Gate
}

// released has been let go to a cluster, and is suspended by Kueue.
func released(to string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		queued(j)
		delete(j.Annotations, kueue.AnnotationGates)
		delete(j.Annotations, v1alpha1.AnnotationHold)
		j.Annotations[v1alpha1.AnnotationCluster] = to
	}
}

func constant(t *testing.T, v units.CarbonIntensity) *carbon.Series {
	t.Helper()
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "x"}, []carbon.Sample{{From: now.Add(-48 * time.Hour), To: now.Add(48 * time.Hour), Value: v}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// clusters are far, which is cleaner, and near; one without room is lost.
func clusters(t *testing.T, farRoom, nearRoom float64) []decide.Cluster {
	t.Helper()
	place := func(name string, intensity units.CarbonIntensity, room float64) decide.Cluster {
		c := decide.Cluster{Name: name, Zone: "z-" + name, Power: power.PerUnit{Watts: map[string]float64{"cpu": 5}, PUE: 1}, Carbon: constant(t, intensity)}
		if room > 0 {
			c.Capacity = map[string]float64{"cpu": room}
		}
		return c
	}
	return []decide.Cluster{place("far", 50, farRoom), place("near", 300, nearRoom)}
}

func observeQueue(t *testing.T, places []decide.Cluster, of map[types.UID]*kueue.Workload, jobs ...batchv1.Job) View {
	t.Helper()
	var workloads []*Workload
	for i := range jobs {
		workloads = append(workloads, workloadOf(t, &jobs[i]))
	}
	v, err := Observe(Input{Now: now, Timeline: timegrid.Timeline{}, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: workloads, Clusters: places, Queued: of})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestObserveQueue(t *testing.T) {
	long := now.Add(-2 * NominationTimeout)
	reserved := func(cluster string, nominated ...string) *kueue.Workload {
		return &kueue.Workload{Active: true, Reserved: true, ReservedAt: long, Cluster: cluster, Nominated: nominated}
	}
	parked := &kueue.Workload{Annotations: map[string]string{v1alpha1.AnnotationHold: v1alpha1.HoldPaused}}
	for name, tc := range map[string]struct {
		job    batchv1.Job
		kueue  *kueue.Workload
		state  decide.State
		at     string
		paused bool
		only   []string
		left   time.Duration // 0: not looked at
	}{
		"gated":                  {job: newJob("a", queued), state: decide.Waiting},
		"let go":                 {job: newJob("a", released("far")), kueue: &kueue.Workload{Active: true}, state: decide.Running, at: "far", left: 2 * time.Hour},
		"on its way":             {job: newJob("a", released("far")), kueue: &kueue.Workload{Active: true, Reserved: true, ReservedAt: now, Nominated: []string{"far"}}, state: decide.Running, at: "far"},
		"taken":                  {job: newJob("a", released("far")), kueue: reserved("near"), state: decide.Running, at: "near"},
		"not taken in time":      {job: newJob("a", released("far")), kueue: reserved("", "far"), state: decide.Waiting, only: []string{"near"}, left: 2 * time.Hour},
		"paused":                 {job: newJob("a", released("far"), annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused)), kueue: parked, state: decide.Waiting, paused: true, at: "far"},
		"let go in part":         {job: newJob("a", released("far")), kueue: parked, state: decide.Waiting, paused: true, at: "far"},
		"moving":                 {job: newJob("a", released("near"), annotate(v1alpha1.AnnotationHold, v1alpha1.HoldMoving)), kueue: parked, state: decide.Waiting, paused: true, at: "near"},
		"set inactive by others": {job: newJob("a", released("far")), kueue: &kueue.Workload{}, state: decide.Running, at: "far"},
		"bound to a zone":        {job: newJob("a", queued, annotate(v1alpha1.AnnotationZones, "z-near,z-x")), state: decide.Waiting, only: []string{"near"}},
		"bound to clusters":      {job: newJob("a", queued, annotate(v1alpha1.AnnotationClusters, " far , other")), state: decide.Waiting, only: []string{"far"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := observeQueue(t, clusters(t, 8, 8), map[types.UID]*kueue.Workload{"a": tc.kueue}, tc.job)
			if len(v.Snapshot.Tasks) != 1 {
				t.Fatalf("%d tasks, %v", len(v.Snapshot.Tasks), v.Invalid)
			}
			got := v.Snapshot.Tasks[0]
			if got.State != tc.state || got.Cluster != tc.at || got.Paused != tc.paused || !reflect.DeepEqual(got.Clusters, tc.only) {
				t.Errorf("%s at %q, paused %v, of %v; want %s at %q, paused %v, of %v", got.State, got.Cluster, got.Paused, got.Clusters, tc.state, tc.at, tc.paused, tc.only)
			}
			if tc.left > 0 && got.Remaining != tc.left {
				t.Errorf("%v of work left, want %v", got.Remaining, tc.left)
			}
		})
	}

	if v := observeQueue(t, clusters(t, 8, 8), nil, newJob("a", queued, annotate(v1alpha1.AnnotationZones, "none"))); len(v.Invalid) != 1 ||
		!strings.Contains(v.Invalid[0].Err.Error(), "far in z-far, near in z-near") {
		t.Errorf("bound to where there is no cluster: %+v", v.Invalid)
	}

	// A Kueue that knows the gate keeps it out of its queue, another goes on.
	for name, tc := range map[string]struct {
		kueue             *kueue.Workload
		honoured, ignored int
	}{
		"not seen yet": {&kueue.Workload{Active: true}, 0, 0},
		"kept out":     {&kueue.Workload{Active: true, Considered: true, Gated: true}, 1, 0},
		"queued":       {&kueue.Workload{Active: true, Considered: true}, 0, 1},
		"set inactive": {&kueue.Workload{Considered: true, Annotations: map[string]string{v1alpha1.AnnotationHold: "admission"}}, 0, 0},
	} {
		v := observeQueue(t, clusters(t, 8, 8), map[types.UID]*kueue.Workload{"a": tc.kueue}, newJob("a", queued))
		if v.GatesHonoured != tc.honoured || v.GatesIgnored != tc.ignored || v.Snapshot.Tasks[0].State != decide.Waiting {
			t.Errorf("%s: %d honoured, %d ignored, %s", name, v.GatesHonoured, v.GatesIgnored, v.Snapshot.Tasks[0].State)
		}
	}

	// A cluster that is lost keeps what it has taken, but nothing that was only sent there.
	lost := clusters(t, 0, 8)
	v := observeQueue(t, lost, map[types.UID]*kueue.Workload{"a": {Active: true, Reserved: true, ReservedAt: now}, "b": {Active: true, Reserved: true, Cluster: "far"}},
		newJob("a", released("far")), newJob("b", released("far"), func(j *batchv1.Job) { j.UID = "b" }))
	if a := v.Snapshot.Tasks[0]; a.State != decide.Waiting || !reflect.DeepEqual(a.Clusters, []string{"near"}) {
		t.Errorf("sent to a lost cluster: %s, of %v", a.State, a.Clusters)
	}
	if b := v.Snapshot.Tasks[1]; b.State != decide.Running || b.Cluster != "far" {
		t.Errorf("taken by a lost cluster: %s at %q", b.State, b.Cluster)
	}
}

func TestPlace(t *testing.T) {
	small := func(name string, change ...func(*batchv1.Job)) batchv1.Job {
		return newJob(name, append([]func(*batchv1.Job){queued, func(j *batchv1.Job) { j.UID = types.UID(name) }}, change...)...)
	}
	v := observeQueue(t, clusters(t, 2, 8), nil, small("a"), small("b"), small("c", annotate(v1alpha1.AnnotationZones, "z-far")), small("d"))
	d := decide.Decision{Actions: []decide.Action{{Verb: decide.Release}, {Verb: decide.Release}, {Verb: decide.Release}, {Verb: decide.Wait}}}
	Place(&v, &d)
	// 1.5 CPUs each: the cleaner cluster has room for one, the other for the next; what may go
	// nowhere else goes there all the same.
	for i, want := range []string{"far", "near", "far", ""} {
		if got := d.Actions[i].Cluster; got != want {
			t.Errorf("task %d goes to %q, want %q", i, got, want)
		}
	}

	v = observeQueue(t, clusters(t, 0, 1), nil, small("a"))
	d = decide.Decision{Actions: []decide.Action{{Verb: decide.Release}}}
	Place(&v, &d)
	if d.Actions[0].Cluster != "near" {
		t.Errorf("goes to %q, want the one that answers, full as it is", d.Actions[0].Cluster)
	}
}

// TestKueueCannotResize: Lull changes no scale while Kueue takes up another change, or once a worker has no part left to do.
func TestKueueCannotResize(t *testing.T) {
	elastic := newJob("a", released("far"), annotate(v1alpha1.AnnotationMinWorkers, "1"), annotate(v1alpha1.AnnotationMaxWorkers, "4"), annotate(kueue.AnnotationElastic, "true"), func(j *batchv1.Job) {
		two, started := int32(2), metav1.NewTime(now.Add(-time.Hour))
		j.Spec.Parallelism, j.Status.StartTime, j.Status.Active = &two, &started, 2
	})
	fresh := *elastic.DeepCopy()
	fresh.Status.StartTime = nil
	parts := func(done, of int32) batchv1.Job {
		j := *elastic.DeepCopy()
		j.Spec.Completions, j.Status.Succeeded = &of, done
		return j
	}
	at := func(pods int, change func(*kueue.Workload)) *kueue.Workload {
		w := &kueue.Workload{Active: true, Considered: true, Reserved: true, Admitted: true, Cluster: "far", Pods: pods, ReservedAt: now.Add(-time.Second)}
		if change != nil {
			change(w)
		}
		return w
	}
	for name, tc := range map[string]struct {
		job   batchv1.Job
		kueue *kueue.Workload
		want  bool
	}{
		"at rest":                 {elastic, at(2, nil), false},
		"not seen by Kueue yet":   {elastic, at(1, nil), true},
		"no Workload yet":         {fresh, nil, true},
		"not considered yet":      {fresh, &kueue.Workload{Active: true, Pods: 2}, true},
		"slice waits":             {elastic, at(2, func(w *kueue.Workload) { w.Replaces, w.Admitted = true, false }), true},
		"slice taken":             {elastic, at(2, func(w *kueue.Workload) { w.Replaces = true }), false},
		"admitted, not begun yet": {fresh, at(2, nil), true},
		"waits for quota":         {fresh, at(2, func(w *kueue.Workload) { w.Reserved, w.Admitted, w.Cluster = false, false, "" }), false},
		"a part for each worker":  {parts(2, 4), at(2, nil), false},
		"a worker without a part": {parts(3, 4), at(2, nil), true},
		"never had a part":        {parts(0, 1), at(1, nil), false},
	} {
		v := observeQueue(t, clusters(t, 8, 8), map[types.UID]*kueue.Workload{"a": tc.kueue}, tc.job)
		if len(v.Snapshot.Tasks) != 1 {
			t.Fatalf("%s: %v", name, v.Invalid)
		}
		if got := v.Snapshot.Tasks[0].Changing; got != tc.want {
			t.Errorf("%s: changing %v", name, got)
		}
		if !tc.want {
			continue
		}
		// No client: a write would panic.
		if wrote, err := (&Applier{}).Apply(context.Background(), v.Workloads[0], decide.Action{Verb: decide.Scale, Workers: 3}, Progress{}, Context{Policy: &v1alpha1.CarbonPolicy{}}); wrote || err != nil {
			t.Errorf("%s: scaled, %v", name, err)
		}
	}
}

// elasticBench is a bench with an elastic Job of one worker in a queue, and its Workload with the given conditions.
func elasticBench(t *testing.T, change func(*batchv1.Job), pods int, conditions ...any) (*bench, *Applier) {
	t.Helper()
	job := newJob("a", change, annotate(kueue.AnnotationElastic, "true"), annotate(v1alpha1.AnnotationMinWorkers, "1"), annotate(v1alpha1.AnnotationMaxWorkers, "4"))
	job.Namespace = "default"
	var q map[string]any
	if conditions != nil {
		q = workloadObject("a", true, map[string]any{})
		q["spec"].(map[string]any)["podSets"] = []any{map[string]any{"count": int64(pods)}}
		q["status"] = map[string]any{"conditions": conditions}
	}
	b := newBench(t, &job, q)
	return b, &Applier{Client: b.client, Recorder: silent{}}
}

func condition(kind, status, reason string, since time.Time) any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "lastTransitionTime": since.UTC().Format(time.RFC3339)}
}

// TestNotScaledBeforeKueue: an elastic Job that is released before Kueue has looked at its Workload is released at its own scale. Kueue may
// make two Workloads of one that is scaled then, and never starts it.
func TestNotScaledBeforeKueue(t *testing.T) {
	one := func(j *batchv1.Job) {
		queued(j)
		workers := int32(1)
		j.Spec.Parallelism = &workers
	}
	for name, tc := range map[string]struct {
		conditions []any
		want       int
	}{
		"no Workload":    {nil, 1},
		"not considered": {[]any{}, 1},
		"considered":     {[]any{condition("QuotaReserved", "False", "AdmissionGated", now)}, 2},
	} {
		b, ap := elasticBench(t, one, 1, tc.conditions...)
		if _, err := ap.Apply(context.Background(), b.fetch(), decide.Action{Verb: decide.Release, Workers: 2}, Progress{}, Context{Policy: &v1alpha1.CarbonPolicy{}, Now: now}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w := b.fetch(); w.Facts.Suspended || w.Facts.Workers != tc.want || w.Record().Workers != tc.want {
			t.Errorf("%s: suspended %v, %d workers, %d recorded; want %d", name, w.Facts.Suspended, w.Facts.Workers, w.Record().Workers, tc.want)
		}
	}
}

// TestAskedOfKueue: pods that do not scale are admitted too. Of an object at rest nothing is under way.
func TestAskedOfKueue(t *testing.T) {
	of, err := kinds.Named([]string{"PyTorchJob"})
	if err != nil {
		t.Fatal(err)
	}
	replica := func(n int64) map[string]any {
		return map[string]any{"replicas": n, "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c"}}}}}
	}
	w := NewWorkload(of[0], &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": "a", "labels": map[string]any{kueue.LabelQueue: "q"}, "annotations": map[string]any{kueue.AnnotationElastic: "true"},
		},
		"spec":   map[string]any{"runPolicy": map[string]any{"suspend": false}, "pytorchReplicaSpecs": map[string]any{"Master": replica(1), "Worker": replica(2)}},
		"status": map[string]any{"startTime": now.Format(time.RFC3339)},
	}})
	w.Queued = &kueue.Workload{Active: true, Considered: true, Reserved: true, Admitted: true, Pods: 3}
	if w.resizing() {
		t.Errorf("%d pods are admitted and %d are asked for, started %v", w.Queued.Pods, w.askedOfKueue(), w.Facts.Started)
	}
	if w.Queued.Pods = 4; !w.resizing() {
		t.Error("a pod too many is at rest")
	}
}
