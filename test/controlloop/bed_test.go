package controlloop

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/failsafe"
	"lull.dev/lull/test/simkube"
)

// factor is how fast the beds' zones replay: an hour of the series in a minute. What the programs take for a decision,
// some tenths of a second, is less than a minute of the series.
const factor = 60

// minute is the resolution of a bed: timestamps of objects are whole seconds.
const minute = time.Minute

// gridStart is hour 0 of every bed's series.
var gridStart = time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)

// bed is a namespace with a zone and a policy of its own.
type bed struct {
	*simkube.World
	t      *testing.T
	ns     string
	zone   string
	begins time.Time // of the zone's series
}

// onBed runs f with a bed in a world with two nodes of 16 CPUs, and with a controller and a watchdog if they are wanted.
func onBed(t *testing.T, hourly []float64, change func(*v1alpha1.CarbonPolicy), f func(b *bed)) {
	t.Helper()
	inWorld(t, func(w *simkube.World) { f(newBed(w, "test", hourly, change)) })
}

func inWorld(t *testing.T, f func(w *simkube.World)) {
	t.Helper()
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Cluster.Factor = factor
		w.AddNode(simkube.Node("node-1", "16"))
		w.AddNode(simkube.Node("node-2", "16"))
		f(w)
	})
}

// newBed makes a zone that starts now at hour 0 of a series of the given hourly intensities (repeated for four days), and
// a policy for Jobs labelled team=batch.
func newBed(w *simkube.World, ns string, hourly []float64, change func(*v1alpha1.CarbonPolicy)) *bed {
	w.T.Helper()
	b := &bed{World: w, t: w.T, ns: ns, zone: ns}
	csv := "time,intensity_gco2eq_per_kwh\n"
	for h := range 96 {
		csv += fmt.Sprintf("%s,%g\n", at(h).Format(time.RFC3339), hourly[h%len(hourly)])
	}
	policy := &v1alpha1.CarbonPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: b.ns},
		Spec: v1alpha1.CarbonPolicySpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: b.zone,
			CriticalPriorityClasses: []string{"urgent"},
		},
	}
	if change != nil {
		change(policy)
	}
	zone := &v1alpha1.GridZone{
		ObjectMeta: metav1.ObjectMeta{Name: b.zone},
		Spec: v1alpha1.GridZoneSpec{
			Zone:   "TEST",
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: b.ns, Name: "series", Key: "s.csv"}},
			Replay: &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Factor: factor},
		},
	}
	w.Create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: b.ns}, Data: map[string]string{"s.csv": csv}},
		policy,
		zone,
	)
	b.begins = zone.CreationTimestamp.Time
	return b
}

// at is an hour of the series.
func at(hour int) time.Time { return gridStart.Add(time.Duration(hour) * time.Hour) }

// dirtyThenClean is dirty for eight hours and clean for sixteen.
func dirtyThenClean() []float64 {
	out := make([]float64, 24)
	for h := range out {
		out[h] = 500
		if h >= 8 {
			out[h] = 100
		}
	}
	return out
}

// quickWatchdog looks often and gives no grace: half a minute would be half an hour of the series.
func quickWatchdog(o *failsafe.Options) { o.Grace, o.Every = 0, 200*time.Millisecond }

// job is a Job of one hour of the series that the policy governs.
func (b *bed) job(name string, annotations map[string]string) *batchv1.Job {
	no := int32(0)
	a := map[string]string{v1alpha1.AnnotationRuntime: "1h"}
	for k, v := range annotations {
		a[k] = v
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns, Labels: map[string]string{"team": "batch"}, Annotations: a},
		Spec: batchv1.JobSpec{BackoffLimit: &no, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{simkube.RunTime: "1h"}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "work", Image: "example.invalid/work",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}}},
		}},
	}
}

// submit creates a Job, and returns it as the API server took it in.
func (b *bed) submit(name string, annotations map[string]string) *batchv1.Job {
	b.t.Helper()
	j := b.job(name, annotations)
	b.Create(j)
	return j
}

// dryRun returns a Job as the API server would take it in.
func (b *bed) dryRun(annotations map[string]string) *batchv1.Job {
	b.t.Helper()
	j := b.job("probe", annotations)
	b.must(b.Client.Create(b.Context(), j, client.DryRunAll))
	return j
}

// read reads an object of the bed.
func (b *bed) read(name string, into client.Object) {
	b.t.Helper()
	b.must(b.Client.Get(b.Context(), client.ObjectKey{Namespace: b.ns, Name: name}, into))
}

func (b *bed) get(name string) *batchv1.Job {
	b.t.Helper()
	var j batchv1.Job
	b.read(name, &j)
	return &j
}

func (b *bed) policy() *v1alpha1.CarbonPolicy {
	b.t.Helper()
	var p v1alpha1.CarbonPolicy
	b.read("clean", &p)
	return &p
}

// plan is a plan; an empty one where there is none.
func (b *bed) plan(name string) *v1alpha1.CarbonPlan {
	b.t.Helper()
	var p v1alpha1.CarbonPlan
	b.must(client.IgnoreNotFound(b.Client.Get(b.Context(), client.ObjectKey{Namespace: b.ns, Name: name}, &p)))
	return &p
}

func (b *bed) suspended(name string) bool {
	s := b.get(name).Spec.Suspend
	return s != nil && *s
}

func (b *bed) finished(names ...string) bool {
	for _, name := range names {
		if _, done := simkube.Finished(b.get(name)); !done {
			return false
		}
	}
	return true
}

// decision is the reason code of the last decision on a Job, "" when none.
func (b *bed) decision(name string) string {
	var r struct {
		Reason string `json:"reason"`
	}
	if text, is := b.get(name).Annotations[v1alpha1.AnnotationDecision]; is {
		b.must(json.Unmarshal([]byte(text), &r))
	}
	return r.Reason
}

// untilDecided waits for a decision on a Job, which must come within some seconds.
func (b *bed) untilDecided(name, reason string) {
	b.t.Helper()
	began := time.Now()
	b.Until("a decision on "+name, func() bool { return b.decision(name) == reason || time.Since(began) > 15*time.Second })
	if got := b.decision(name); got != reason {
		b.t.Fatalf("after %v the decision on %s is %q; want %q", time.Since(began), name, got, reason)
	}
}

// gridTime converts a wall time to the time of the bed's series. It makes no call, so that what Always checks may use it: a
// call fails where the world ends meanwhile.
func (b *bed) gridTime(wall time.Time) time.Time { return gridStart.Add(wall.Sub(b.begins) * factor) }

// starts checks when a Job started, to a few minutes of the series.
func (b *bed) starts(name string, hour int) {
	b.t.Helper()
	start := b.get(name).Status.StartTime
	if start == nil {
		b.t.Errorf("%s has not started", name)
	} else if is := b.gridTime(start.Time); is.Before(at(hour)) || is.After(at(hour).Add(3*minute)) {
		b.t.Errorf("%s started at %s of the series, want %s", name, is.Format("Mon 15:04"), at(hour).Format("Mon 15:04"))
	}
}

// neverSuspended returns an error if a Job is suspended, for Always.
func (b *bed) neverSuspended(name string) error {
	var j batchv1.Job
	if err := b.Client.Get(b.Context(), client.ObjectKey{Namespace: b.ns, Name: name}, &j); err != nil {
		return client.IgnoreNotFound(err)
	}
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return fmt.Errorf("%s is suspended", name)
	}
	return nil
}

// events lists the types, reasons and notes of a Job's events by Lull.
func (b *bed) events(job string) string {
	var list eventsv1.EventList
	b.must(b.Client.List(b.Context(), &list, client.InNamespace(b.ns)))
	out := ""
	for _, e := range list.Items {
		if e.Regarding.Name == job && e.ReportingController == "lull" {
			out += fmt.Sprintf("%s %s: %s\n", e.Type, e.Reason, e.Note)
		}
	}
	return out
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}
