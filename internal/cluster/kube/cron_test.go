package kube

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the time zones must not depend on the machine

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/timegrid"
)

// cronOf makes a CronJob with a schedule and a concurrency policy.
func cronOf(schedule string, policy batchv1.ConcurrencyPolicy, change ...func(*batchv1.CronJob)) *batchv1.CronJob {
	c := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "n", UID: "c"},
		Spec:       batchv1.CronJobSpec{Schedule: schedule, ConcurrencyPolicy: policy},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func zone(name string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.TimeZone = &name }
}

// byCron makes a Job that the CronJob created at a time.
func byCron(created time.Time) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Namespace, j.CreationTimestamp = "n", metav1.NewTime(created)
		j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "nightly", UID: "c", Controller: new(true)}}
	}
}

func scheduledAt(text string) func(*batchv1.Job) {
	return annotate(batchv1.CronJobScheduledTimestampAnnotation, text)
}

// listed are CronJobs as they are read from a cache that prunes them.
func listed(t testing.TB, jobs ...client.Object) CronJobs {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	out, err := ListCronJobs(context.Background(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(jobs...).Build(), "n")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCronJobStatesWhenItMustBeDone: when a Job of a CronJob must be done, by its concurrency policy, schedule and time zone.
func TestCronJobStatesWhenItMustBeDone(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const noon = "2026-03-01T12:00:00Z" // a Sunday
	suspended := func(c *batchv1.CronJob) { c.Spec.Suspend = new(true) }
	again := func(c *batchv1.CronJob) { c.UID = "again" }
	elsewhere := func(j *batchv1.Job) { j.OwnerReferences[0].APIVersion = "batch.volcano.sh/v1alpha1" }
	for name, tc := range map[string]struct {
		cron    *batchv1.CronJob
		created string
		job     []func(*batchv1.Job)
		want    string // "": not bounded
		err     string
	}{
		"Forbid":                         {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent), created: noon, want: "2026-03-01T13:00:00Z"},
		"Replace":                        {cron: cronOf("0 * * * *", batchv1.ReplaceConcurrent), created: noon, want: "2026-03-01T13:00:00Z"},
		"Allow":                          {cron: cronOf("0 * * * *", batchv1.AllowConcurrent), created: noon},
		"no policy":                      {cron: cronOf("0 * * * *", ""), created: noon},
		"suspended":                      {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent, suspended), created: noon},
		"gone":                           {cron: nil, created: noon},
		"made anew":                      {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent, again), created: noon},
		"never again":                    {cron: cronOf("0 0 30 2 *", batchv1.ForbidConcurrent), created: noon},
		"every":                          {cron: cronOf("@every 7m", batchv1.ForbidConcurrent), created: noon, want: "2026-03-01T12:07:00Z"},
		"late, of an @every":             {cron: cronOf("@every 1h", batchv1.ForbidConcurrent), created: "2026-03-01T12:20:00Z", job: []func(*batchv1.Job){scheduledAt(noon)}, want: "2026-03-01T13:00:00Z"},
		"late beyond the next":           {cron: cronOf("*/5 * * * *", batchv1.ForbidConcurrent), created: "2026-03-01T12:12:00Z", job: []func(*batchv1.Job){scheduledAt(noon)}, want: "2026-03-01T12:15:00Z"},
		"the API server's clock lags":    {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent), created: "2026-03-01T11:59:58Z", job: []func(*batchv1.Job){scheduledAt(noon)}, want: "2026-03-01T13:00:00Z"},
		"an annotation of the future":    {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent), created: noon, job: []func(*batchv1.Job){scheduledAt("2999-01-01T00:00:00Z")}, want: "2026-03-01T13:00:00Z"},
		"an annotation of long ago":      {cron: cronOf("* * * * *", batchv1.ForbidConcurrent), created: noon, job: []func(*batchv1.Job){scheduledAt("0001-01-01T00:00:00Z")}, want: "2026-03-01T12:01:00Z"},
		"an annotation nobody reads":     {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent), created: noon, job: []func(*batchv1.Job){scheduledAt("noon")}, want: "2026-03-01T13:00:00Z"},
		"in Berlin":                      {cron: cronOf("0 2 * * *", batchv1.ForbidConcurrent, zone("Europe/Berlin")), created: "2026-03-01T01:00:00Z", want: "2026-03-02T01:00:00Z"},
		"summer time begins in Berlin":   {cron: cronOf("0 4 * * *", batchv1.ForbidConcurrent, zone("Europe/Berlin")), created: "2026-03-28T03:00:00Z", want: "2026-03-29T02:00:00Z"},
		"in that of the controller":      {cron: cronOf("0 2 * * *", batchv1.ForbidConcurrent), created: noon, job: []func(*batchv1.Job){scheduledAt("2026-03-01T02:00:00-05:00")}, want: "2026-03-02T07:00:00Z"},
		"a zone in the schedule":         {cron: cronOf("TZ=Asia/Tokyo 0 2 * * *", batchv1.ForbidConcurrent), created: noon, want: "2026-03-01T17:00:00Z"},
		"a schedule nobody reads":        {cron: cronOf("soon", batchv1.ForbidConcurrent), created: noon, err: `invalid schedule "soon"`},
		"one that the library dies of":   {cron: cronOf("TZ=0", batchv1.ForbidConcurrent), created: noon, err: `invalid schedule "TZ=0"`},
		"a zone that nobody knows":       {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent, zone("Moon/Sea")), created: noon, err: `timeZone "Moon/Sea"`},
		"a CronJob of another API":       {cron: cronOf("0 * * * *", batchv1.ForbidConcurrent), created: noon, job: []func(*batchv1.Job){elsewhere}, err: "is of batch.volcano.sh/v1alpha1"},
		"a policy of a later Kubernetes": {cron: cronOf("0 * * * *", "Queue"), created: noon, want: "2026-03-01T13:00:00Z"},
	} {
		var all []client.Object
		if tc.cron != nil {
			all = append(all, tc.cron)
		}
		job := newJob("a", append([]func(*batchv1.Job){byCron(at(tc.created))}, tc.job...)...)
		got := workloadOf(t, &job).withCronJobs(listed(t, all...)).Next
		if (got.Err != nil) != (tc.err != "") || got.Err != nil && !strings.Contains(got.Err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", name, got.Err, tc.err)
		}
		if got.At.IsZero() != (tc.want == "") || tc.want != "" && !got.At.Equal(at(tc.want)) {
			t.Errorf("%s: next run %v, want %s", name, got.At, tc.want)
		}
	}
	job := newJob("a")
	if w := workloadOf(t, &job); w.withCronJobs(CronJobs{Err: errors.New("forbidden")}) != w || w.OfCronJob() {
		t.Error("a Job that no CronJob has created is bounded by one")
	}
}

// decided is what becomes of a Job in cheap and dirty hours that policies may wait out.
func decided(t *testing.T, of CronJobs, spec v1alpha1.CarbonPolicySpec, tl timegrid.Timeline, job batchv1.Job) (View, *Workload) {
	t.Helper()
	w := workloadOf(t, &job).withCronJobs(of)
	v, err := Observe(Input{Now: now, Timeline: tl, Policy: &v1alpha1.CarbonPolicy{Spec: spec}, Workloads: []*Workload{w}})
	if err != nil {
		t.Fatal(err)
	}
	return v, w
}

// TestCronJobEndsBeforeItsNextRun: the deadline of a Job of a CronJob is not later than its next run, with the room of its run time
// before; the watchdog knows the same.
func TestCronJobEndsBeforeItsNextRun(t *testing.T) {
	twice := cronOf("0 9,18 * * *", batchv1.ForbidConcurrent)
	created := now.Add(-time.Hour)
	replay, err := timegrid.NewTimeline(now.Add(-90*time.Minute), now.Add(-1000*time.Hour), 60)
	if err != nil {
		t.Fatal(err)
	}
	mosp := policy
	mosp.Objective = &v1alpha1.ObjectiveSpec{Kind: v1alpha1.ObjectiveMOSP}
	six18 := now.Add(6 * time.Hour)
	for name, tc := range map[string]struct {
		cron             *batchv1.CronJob
		spec             v1alpha1.CarbonPolicySpec
		job              []func(*batchv1.Job)
		deadline, latest time.Time
		note             string
	}{
		"by the next run":       {twice, policy, nil, six18, six18.Add(-2*time.Hour - 5*time.Minute), "must end by 2026-03-01T18:00:00Z, the next run of CronJob nightly (concurrencyPolicy Forbid)"},
		"its own is earlier":    {cronOf("0 0 * * *", batchv1.ForbidConcurrent), policy, []func(*batchv1.Job){annotate(v1alpha1.AnnotationMaxDelay, "4h")}, created.Add(6 * time.Hour), created.Add(4*time.Hour - 5*time.Minute), ""},
		"stated beyond":         {cronOf("0 18 * * *", batchv1.ForbidConcurrent), policy, []func(*batchv1.Job){annotate(v1alpha1.AnnotationDeadline, "2026-03-09T00:00:00Z")}, six18, six18.Add(-2*time.Hour - 5*time.Minute), "must end by"},
		"95 % of its runs":      {cronOf("0 18 * * *", batchv1.ReplaceConcurrent), policy, []func(*batchv1.Job){annotate(v1alpha1.AnnotationRuntimeP95, "4h")}, six18, six18.Add(-4*time.Hour - 5*time.Minute), "concurrencyPolicy Replace"},
		"a run of each":         {cronOf("0 18 * * *", batchv1.AllowConcurrent), policy, nil, created.Add(12 * time.Hour), created.Add(10*time.Hour - 5*time.Minute), ""},
		"deadlines may be late": {cronOf("0 18 * * *", batchv1.ForbidConcurrent), mosp, nil, six18.Add(-2*time.Hour - 5*time.Minute), six18.Add(-2*time.Hour - 5*time.Minute), "must end by"},
	} {
		of := listed(t, tc.cron)
		v, w := decided(t, of, tc.spec, timegrid.Timeline{}, newJob("a", append([]func(*batchv1.Job){byCron(created)}, tc.job...)...))
		if got := v.Snapshot.Tasks[0].Deadline; !got.Equal(tc.deadline) {
			t.Errorf("%s: deadline %v, want %v", name, got, tc.deadline)
		}
		if got := v.Progress[0].Note; (got == "") != (tc.note == "") || !strings.Contains(got, tc.note) {
			t.Errorf("%s: note %q, want %q", name, got, tc.note)
		}
		latest, err := LatestStart(w, &tc.spec, 0, timegrid.Timeline{})
		if err != nil || !latest.Equal(tc.latest) || wallText(timegrid.Timeline{}, latest) != v.Progress[0].StatedStart {
			t.Errorf("%s: the watchdog's latest start is %v, %v, want %v; stated %s", name, latest, err, tc.latest, v.Progress[0].StatedStart)
		}
		// A schedule counts in wall time, whatever the clock of the zone does.
		v, w = decided(t, of, tc.spec, replay, newJob("a", append([]func(*batchv1.Job){byCron(created)}, tc.job...)...))
		if at := w.Next.At; !at.IsZero() && !soft(&tc.spec) && v.Snapshot.Tasks[0].Deadline.After(replay.ToGrid(at)) {
			t.Errorf("%s: in a replay deadline %v, after the next run %v", name, v.Snapshot.Tasks[0].Deadline, replay.ToGrid(at))
		}
		if latest, err = LatestStart(w, &tc.spec, 0, replay); err != nil || wallText(replay, latest) != v.Progress[0].StatedStart {
			t.Errorf("%s: in a replay the watchdog's latest start is %v, %v; stated %s", name, latest, err, v.Progress[0].StatedStart)
		}
	}
}

// TestJobOfAnUnreadableCronJobMayNotWait: a Job whose CronJob cannot be read may not wait, and says why.
func TestJobOfAnUnreadableCronJobMayNotWait(t *testing.T) {
	v, _ := decided(t, CronJobs{Err: CronJobsForbidden("controller")}, policy, timegrid.Timeline{}, newJob("a", byCron(now)))
	d, err := decide.Decide(context.Background(), v.Snapshot, nil)
	if err != nil || len(d.Actions) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	a := d.Actions[0]
	if got := v.Progress[0].Message(a.Reason); a.Verb != decide.Release || a.Reason.Code != decide.CodeNoSlack || got != "may not wait; not held: CronJob nightly cannot be read: the controller may not list CronJobs: grant it list and watch of cronjobs.batch" {
		t.Errorf("%s %s: %s", a.Verb, a.Reason.Code, got)
	}
}

// TestPruneCronJob: the cache keeps of a CronJob what says when it runs next, and no more.
func TestPruneCronJob(t *testing.T) {
	c := cronOf("0 * * * *", batchv1.ForbidConcurrent, zone("Europe/Berlin"))
	c.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 100_000)}
	c.Spec.JobTemplate.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: strings.Repeat("x", 100_000)}}
	c.Status.Active = []corev1.ObjectReference{{UID: types.UID(strings.Repeat("x", 100_000))}}
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	PruneCronJob(obj)
	text, err := json.Marshal(obj)
	if err != nil || string(text) != `{"metadata":{"name":"nightly","namespace":"n","uid":"c"},"spec":{"concurrencyPolicy":"Forbid","schedule":"0 * * * *","timeZone":"Europe/Berlin"}}` {
		t.Errorf("%.1000s, %v", text, err)
	}
}

// TestCronFullCluster: a Job whose next run would be skipped is not held for want of room, as other late Jobs are: it
// is released at its latest start, and no earlier.
func TestCronFullCluster(t *testing.T) {
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "z"}, []carbon.Sample{{From: now.Add(-24 * time.Hour), To: now.Add(96 * time.Hour), Value: 500}})
	if err != nil {
		t.Fatal(err)
	}
	full := newJob("full", running, annotate(v1alpha1.AnnotationRuntime, "20h"))
	node := corev1.Node{Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("64Gi")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	mosp := policy
	mosp.Objective = &v1alpha1.ObjectiveSpec{Kind: v1alpha1.ObjectiveMOSP}
	for name, tc := range map[string]struct {
		spec     v1alpha1.CarbonPolicySpec
		schedule string
		release  bool
	}{
		"its latest start has come": {policy, "0 14 * * *", true},
		"it may wait for room":      {policy, "0 15 * * *", false},
		"its next run has come":     {policy, "30 11 * * *", true},
		"soft, its latest start":    {mosp, "0 14 * * *", true},
	} {
		job := newJob("a", byCron(now.Add(-time.Hour)), annotate(v1alpha1.AnnotationMaxDelay, "10h"))
		w := workloadOf(t, &job).withCronJobs(listed(t, cronOf(tc.schedule, batchv1.ReplaceConcurrent)))
		v, err := Observe(Input{
			Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: tc.spec}, Carbon: carbon.Outlook{Expected: series}, Workloads: []*Workload{workloadOf(t, &full), w}, Nodes: []corev1.Node{node},
		})
		if err != nil {
			t.Fatal(err)
		}
		d, err := decide.Decide(context.Background(), v.Snapshot, asap.Planner{})
		if err != nil {
			t.Fatal(err)
		}
		if a := d.Actions[1]; (a.Verb == decide.Release) != tc.release {
			t.Errorf("%s: %s, %s", name, a.Verb, v.Progress[1].Message(a.Reason))
		}
		if x := decide.Verify(v.Snapshot, d); len(x) > 0 {
			t.Errorf("%s: %v", name, x)
		}
	}
}
