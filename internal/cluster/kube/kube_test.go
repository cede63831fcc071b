package kube

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newJob(name string, change ...func(*batchv1.Job)) batchv1.Job {
	yes := true
	j := batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission},
		},
		Spec: batchv1.JobSpec{Suspend: &yes, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}},
		}}}}},
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

func annotate(key, value string) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Annotations[key] = value }
}

// running is a Job released half an hour ago.
func running(j *batchv1.Job) {
	no := false
	j.Spec.Suspend = &no
	delete(j.Annotations, v1alpha1.AnnotationHold)
	started := metav1.NewTime(now.Add(-30 * time.Minute))
	j.Status.StartTime, j.Status.Active = &started, 1
}

// workloadOf is a Job as the cache holds it.
func workloadOf(t testing.TB, job *batchv1.Job) *Workload {
	t.Helper()
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		t.Fatal(err)
	}
	return NewWorkload(jobKind(t), &unstructured.Unstructured{Object: obj})
}

func jobKind(t testing.TB) *kinds.Kind {
	t.Helper()
	named, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	return named[0]
}

func observe(t *testing.T, policy v1alpha1.CarbonPolicySpec, tl timegrid.Timeline, jobs ...batchv1.Job) View {
	t.Helper()
	var workloads []*Workload
	for i := range jobs {
		workloads = append(workloads, workloadOf(t, &jobs[i]))
	}
	node := corev1.Node{Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	v, err := Observe(Input{Now: now, Timeline: tl, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: workloads, Nodes: []corev1.Node{node}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func hours(h float64) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(h * float64(time.Hour))}
}

var policy = v1alpha1.CarbonPolicySpec{Zone: "z", DefaultRuntime: hours(2), MaxDelay: hours(10), CriticalPriorityClasses: []string{"urgent"}}

func TestObserve(t *testing.T) {
	created := now.Add(-time.Hour)
	for name, tc := range map[string]struct {
		job  batchv1.Job
		want decide.Task // zero ID: not a task
	}{
		"held with the policy's defaults": {newJob("a"), decide.Task{
			State: decide.Waiting, Kind: workload.Rigid, Remaining: 2 * time.Hour, Deadline: created.Add(12 * time.Hour)}},
		"own run time and delay": {newJob("a", annotate(v1alpha1.AnnotationRuntime, "PT3H"), annotate(v1alpha1.AnnotationMaxDelay, "90m")), decide.Task{
			State: decide.Waiting, Kind: workload.Rigid, Remaining: 3 * time.Hour, Deadline: created.Add(270 * time.Minute)}},
		"own deadline": {newJob("a", annotate(v1alpha1.AnnotationDeadline, "2026-03-03T00:00:00Z")), decide.Task{
			State: decide.Waiting, Kind: workload.Rigid, Remaining: 2 * time.Hour, Deadline: time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)}},
		"the earlier of deadline and delay": {newJob("a", annotate(v1alpha1.AnnotationDeadline, "2026-03-03T00:00:00Z"), annotate(v1alpha1.AnnotationMaxDelay, "1h")), decide.Task{
			State: decide.Waiting, Kind: workload.Rigid, Remaining: 2 * time.Hour, Deadline: created.Add(3 * time.Hour)}},
		"running": {newJob("a", running), decide.Task{
			State: decide.Running, Kind: workload.Rigid, Remaining: 90 * time.Minute, Deadline: created.Add(12 * time.Hour)}},
		"running longer than stated": {newJob("a", running, annotate(v1alpha1.AnnotationRuntime, "10m")), decide.Task{
			State: decide.Running, Kind: workload.Rigid, Remaining: 0, Deadline: created.Add(10*time.Hour + 10*time.Minute)}},
		"paused after half an hour": {newJob("a", annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused),
			annotate(v1alpha1.AnnotationRan, "30m0s"), annotate(v1alpha1.AnnotationInterruptible, "true")), decide.Task{
			State: decide.Waiting, Paused: true, Kind: workload.Interruptible, Remaining: 90 * time.Minute, Deadline: created.Add(12 * time.Hour)}},
		"progress from completions": {newJob("a", running, func(j *batchv1.Job) {
			four := int32(4)
			j.Spec.Completions, j.Status.Succeeded = &four, 3
		}), decide.Task{State: decide.Running, Kind: workload.Rigid, Remaining: 30 * time.Minute, Deadline: created.Add(12 * time.Hour)}},
		"critical": {newJob("a", running, func(j *batchv1.Job) { j.Spec.Template.Spec.PriorityClassName = "urgent" }), decide.Task{
			State: decide.Running, Kind: workload.Rigid, Remaining: 90 * time.Minute}},
		"suspended by its user": {newJob("", func(j *batchv1.Job) { delete(j.Annotations, v1alpha1.AnnotationHold) }), decide.Task{}},
		"finished": {newJob("", func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}), decide.Task{}},
		"being deleted": {newJob("", func(j *batchv1.Job) { t := metav1.NewTime(now); j.DeletionTimestamp = &t }), decide.Task{}},
	} {
		v := observe(t, policy, timegrid.Timeline{}, tc.job)
		if tc.job.Name == "" {
			if len(v.Snapshot.Tasks) != 0 {
				t.Errorf("%s: became a task", name)
			}
			continue
		}
		if len(v.Snapshot.Tasks) != 1 {
			t.Errorf("%s: %d tasks, invalid %v", name, len(v.Snapshot.Tasks), v.Invalid)
			continue
		}
		got := v.Snapshot.Tasks[0]
		if got.State != tc.want.State || got.Paused != tc.want.Paused || got.Kind != tc.want.Kind ||
			got.Remaining.Round(time.Second) != tc.want.Remaining || !got.Deadline.Equal(tc.want.Deadline) || got.Request["cpu"] != 1.5 {
			t.Errorf("%s: task %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestObserveReplay: in a replay, times are those of the series.
func TestObserveReplay(t *testing.T) {
	start := time.Date(2021, 5, 10, 0, 0, 0, 0, time.UTC)
	tl, err := timegrid.NewTimeline(now.Add(-time.Minute), start, 60)
	if err != nil {
		t.Fatal(err)
	}
	j := newJob("a", func(j *batchv1.Job) { j.CreationTimestamp = metav1.NewTime(now.Add(-30 * time.Second)) })
	v := observe(t, policy, tl, j)
	if want := start.Add(time.Hour); !v.Snapshot.Now.Equal(want) {
		t.Errorf("now %v, want a minute of wall time after the start, %v", v.Snapshot.Now, want)
	}
	if want := start.Add(30*time.Minute + 12*time.Hour); !v.Snapshot.Tasks[0].Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", v.Snapshot.Tasks[0].Deadline, want)
	}
}

func TestShadowSwitchReleases(t *testing.T) {
	shadow := policy
	shadow.Mode = v1alpha1.ModeShadow
	v := observe(t, shadow, timegrid.Timeline{}, newJob("a"))
	if !v.Snapshot.Tasks[0].Deadline.IsZero() {
		t.Error("a Job still held when its policy turned to Shadow may wait on")
	}
}

// TestLoadBeside: of the pods of others those count that use the same capacity.
func TestLoadBeside(t *testing.T) {
	pod := func(node string) corev1.Pod {
		p := corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{}}}}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		return p
	}
	node := corev1.Node{Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	in := Input{Now: now, Timeline: timegrid.Timeline{}, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Nodes: []corev1.Node{node}, Pods: []corev1.Pod{pod("a"), pod("b"), pod("b")}}
	for want, beside := range map[float64]func(*corev1.Pod) bool{6: nil, 4: func(p *corev1.Pod) bool { return p.Spec.NodeName == "b" }, 0: func(*corev1.Pod) bool { return false }} {
		in.Beside = beside
		v, err := Observe(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Snapshot.Clusters[0].Load["cpu"]; got != want {
			t.Errorf("load %v, want %v", got, want)
		}
	}
}

func TestRequestAndLoad(t *testing.T) {
	three := int32(3)
	j := newJob("a", func(j *batchv1.Job) {
		j.Spec.Parallelism = &three
		j.Spec.Template.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	})
	if got := workloadOf(t, &j).whole()["cpu"]; got != 6 {
		t.Errorf("3 pods whose init container wants 2 CPUs ask for %v, want 6", got)
	}
	empty := newJob("b", func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	if got := workloadOf(t, &empty).whole()["cpu"]; got != kinds.AssumedCPU {
		t.Errorf("a pod that asks for nothing counts as %v CPUs, want %v", got, kinds.AssumedCPU)
	}
	pod := func(phase corev1.PodPhase, owner string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owner)}}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}}}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	pods := []corev1.Pod{pod(corev1.PodRunning, "x"), pod(corev1.PodPending, "y"), pod(corev1.PodSucceeded, "z"), pod(corev1.PodRunning, "ours")}
	ours := func(pod *corev1.Pod) bool { return pod.OwnerReferences[0].UID == "ours" }
	nobodys := func(*corev1.Pod) bool { return false }
	if got := Load(pods, ours)["cpu"]; got != 8 {
		t.Errorf("load %v, want 8: finished pods and our own do not count", got)
	}
	for _, reason := range []string{corev1.PodReasonUnschedulable, corev1.PodReasonSchedulingGated} {
		without := pod(corev1.PodPending, "y")
		without.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason}}
		if got := Load(append(pods, without), ours)["cpu"]; got != 8 {
			t.Errorf("%s: load %v, want 8: what has no node takes nothing", reason, got)
		}
	}
	if got := upTo(Load(pods, nobodys), map[string]float64{"cpu": 10})["cpu"]; got != 10 {
		t.Errorf("load %v exceeds the capacity 10", got)
	}
	down := corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9")}}}
	if got := Capacity([]corev1.Node{down})["cpu"]; got != 0 {
		t.Errorf("a node that is not ready offers %v CPUs", got)
	}
}

func TestInvalidAnnotationsNameEverything(t *testing.T) {
	for key, value := range map[string]string{
		v1alpha1.AnnotationRuntime: "0s", v1alpha1.AnnotationMaxDelay: "a while", v1alpha1.AnnotationDeadline: "2026-03-01",
		v1alpha1.AnnotationInterruptible: "yes", v1alpha1.AnnotationTransferKWh: "-1", v1alpha1.AnnotationMigratable: "maybe",
	} {
		v := observe(t, policy, timegrid.Timeline{}, newJob("a", annotate(key, value)))
		if len(v.Invalid) != 1 || !errors.Is(v.Invalid[0].Err, ErrAnnotation) {
			t.Errorf("%s: %q was accepted", key, value)
			continue
		}
		for _, part := range []string{key, `"` + value + `"`, "accepted: "} {
			if !strings.Contains(v.Invalid[0].Err.Error(), part) {
				t.Errorf("%q lacks %q", v.Invalid[0].Err, part)
			}
		}
	}
}

func TestObjective(t *testing.T) {
	p := policy
	v := observe(t, p, timegrid.Timeline{}, newJob("a"))
	if o, h := v.Snapshot.Objective, v.Snapshot.Horizon; o.Kind != "" || h != 0 {
		t.Errorf("by default the objective is %+v over %v", o, h)
	}
	two := 2.0
	p.Objective = &v1alpha1.ObjectiveSpec{Kind: v1alpha1.ObjectiveMOSP, Carbon: &two}
	j := newJob("a", annotate(v1alpha1.AnnotationRuntime, "2h"), annotate(v1alpha1.AnnotationMaxDelay, "3h"))
	v = observe(t, p, timegrid.Timeline{}, j)
	if o, h := v.Snapshot.Objective, v.Snapshot.Horizon; o.Kind != plan.MOSP || o.Weights != [3]float64{2, 1, 1} || h != 24*time.Hour {
		t.Errorf("the objective is %+v over %v", o, h)
	}
	// Nobody but the planner may hold it back, and not beyond its deadline.
	created := j.CreationTimestamp.Time
	if at, err := LatestStart(workloadOf(t, &j), &p, 0, timegrid.Timeline{}); err != nil || !at.Equal(created.Add(5*time.Hour)) {
		t.Errorf("with soft deadlines it starts at %v (%v) at the latest, want its deadline", at, err)
	}
}

func FuzzReadOptions(f *testing.F) {
	f.Add("2h", "PT6H", "2026-03-01T06:00:00Z", "true")
	f.Add("-1h", "", "never", "TRUE")
	f.Fuzz(func(t *testing.T, runtime, delay, deadline, interruptible string) {
		j := newJob("a", annotate(v1alpha1.AnnotationRuntime, runtime), annotate(v1alpha1.AnnotationMaxDelay, delay),
			annotate(v1alpha1.AnnotationDeadline, deadline), annotate(v1alpha1.AnnotationInterruptible, interruptible))
		o, err := ReadOptions(j.Annotations, &policy, jobKind(t))
		if err != nil {
			if !errors.Is(err, ErrAnnotation) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		if o.Runtime <= 0 || o.MaxDelay < 0 {
			t.Fatalf("accepted %+v", o)
		}
		v := observe(t, policy, timegrid.Timeline{}, j)
		if len(v.Snapshot.Tasks) != 1 || v.Snapshot.Tasks[0].Remaining < 0 || math.IsNaN(v.Snapshot.Tasks[0].Request["cpu"]) {
			t.Fatalf("view %+v", v)
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	a := decide.Action{Verb: decide.Wait, Reason: decide.Reason{
		Code: decide.CodeCleanerLater, PlannedStart: now.Add(time.Hour), LatestStart: now.Add(5 * time.Hour),
		IntensityNow: 400, IntensityThen: 100, ExpectedG: 10, ImmediateG: 40, Source: "x",
	}}
	rec := newRecord(a, &Progress{}, now)
	w := &Workload{record: &rec, annotations: map[string]string{}}
	if Tells(w, &a, "") {
		t.Error("the same wait a minute later is told again")
	}
	b := a
	b.Reason.PlannedStart = now.Add(2 * time.Hour)
	if !Tells(w, &b, "") {
		t.Error("another planned start is not told")
	}
	if rec.ExpectedSaving != 0.75 {
		t.Errorf("saving %v, want 0.75", rec.ExpectedSaving)
	}
	broken := newJob("a", annotate(v1alpha1.AnnotationDecision, "{"))
	if _, ok := ReadRecord(broken.Annotations); ok {
		t.Error("a broken record was read")
	}
}

// learned is what a test says was learned.
type learned struct {
	points    []v1alpha1.ObservedPoint
	quantiles []workload.RunTimeQuantile
}

func (learned) Runtime(_ *Workload, prior, _ time.Duration) time.Duration { return prior }
func (learned) Startup(*Workload) time.Duration                           { return 0 }
func (l learned) Observed(*Workload) []v1alpha1.ObservedPoint             { return l.points }
func (learned) MostWorkers(*Workload) int                                 { return 0 }
func (l learned) Quantiles(*Workload, time.Duration) []workload.RunTimeQuantile {
	return l.quantiles
}

// TestObservedThroughputIsRelativeToTheLeastScale: what a workload of at least four workers
// was seen to do counts against what four were declared to do, with a profile and without.
func TestObservedThroughputIsRelativeToTheLeastScale(t *testing.T) {
	profile := &v1alpha1.ScalingProfile{Spec: v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{
		{Workers: 1, Throughput: 10}, {Workers: 4, Throughput: 40}, {Workers: 8, Throughput: 80},
	}}}
	for _, name := range []string{"", "p"} {
		j := newJob("a", annotate(v1alpha1.AnnotationMinWorkers, "4"), annotate(v1alpha1.AnnotationMaxWorkers, "8"))
		if name != "" {
			j.Annotations[v1alpha1.AnnotationProfile] = name
		}
		w := workloadOf(t, &j)
		o, err := ReadOptions(w.Annotations(), &policy, w.Kind)
		if err != nil {
			t.Fatal(err)
		}
		in := Input{
			Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Profiles: map[string]*v1alpha1.ScalingProfile{"p": profile},
			Learned: learned{points: []v1alpha1.ObservedPoint{{Workers: 4, Throughput: 0.5}, {Workers: 8, Throughput: 1}}},
		}
		s, speed, err := scalingOf(in, w, &o)
		if err != nil || math.Abs(speed-0.5) > 1e-9 || math.Abs(s.Rate(8)-2) > 1e-9 {
			t.Errorf("profile %q: half as fast at four workers, as fast as declared for four at eight: speed %v, %v times as fast at eight, %v", name, speed, s.Rate(8), err)
		}
	}
}

// meter is what a test says is measured.
type meter struct {
	reading *Reading
	power   PodPower
}

func (m meter) Progress(types.UID) (Reading, bool) {
	if m.reading == nil {
		return Reading{}, false
	}
	return *m.reading, true
}
func (m meter) Power(string, string) PodPower { return m.power }

// TestMeasured: what a query gives counts before the model, and goes on by it until it is
// read again; measured power counts with PUE, what nobody measures as the model says.
func TestMeasured(t *testing.T) {
	j := newJob("a", annotate(v1alpha1.AnnotationProgressQuery, "q"), annotate(v1alpha1.AnnotationRuntime, "10h"))
	j.Spec.Template.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("2")
	no := false
	j.Spec.Suspend = &no
	start := metav1.NewTime(now.Add(-4 * time.Hour))
	j.Status.StartTime, j.Status.Active = &start, 1
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a-1", Namespace: j.Namespace, OwnerReferences: []metav1.OwnerReference{{UID: j.UID}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start}}
	p := policy
	p.Power = v1alpha1.PowerSpec{WattsPerUnit: map[string]float64{"cpu": 10, "nvidia.com/gpu": 300}, PUE: 1.5}
	cpus := j.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64()
	for name, tc := range map[string]struct {
		m      Measured
		share  float64
		source string
		drawn  float64
		from   string
	}{
		"nothing":     {meter{}, 0.4, FromModel, 0, ""},
		"read now":    {meter{reading: &Reading{0.2, now}}, 0.2, FromPrometheus, 0, ""},
		"a while ago": {meter{reading: &Reading{0.2, now.Add(-3 * time.Minute)}}, 0.205, FromPrometheus, 0, ""},
		"long ago":    {meter{reading: &Reading{0.2, now.Add(-time.Hour)}}, 0.3, FromModel, 0, ""},
		"processors":  {meter{power: PodPower{CPU: 40, CPUSource: "kepler"}}, 0.4, FromModel, 1.5 * 640, "kepler+model"},
		"all":         {meter{power: PodPower{CPU: 40, CPUSource: "kepler", GPU: 500, GPUSource: "dcgm"}}, 0.4, FromModel, 1.5 * 540, "kepler+dcgm"},
		"accelerator": {meter{power: PodPower{GPU: 500, GPUSource: "dcgm"}}, 0.4, FromModel, 1.5 * (10*cpus + 500), "model+dcgm"},
	} {
		v, err := Observe(Input{Now: now, Timeline: timegrid.Timeline{}, Policy: &v1alpha1.CarbonPolicy{Spec: p}, Workloads: []*Workload{workloadOf(t, &j)}, Pods: []corev1.Pod{pod}, Measured: tc.m})
		if err != nil || len(v.Progress) != 1 {
			t.Fatalf("%s: %d tasks, %v", name, len(v.Progress), err)
		}
		got := v.Progress[0]
		if math.Abs(got.Share-tc.share) > 1e-6 || got.Source != tc.source || math.Abs(got.Drawn-tc.drawn) > 1e-6 || got.DrawnFrom != tc.from {
			t.Errorf("%s: %v by %s, %v W by %s; want %+v", name, got.Share, got.Source, got.Drawn, got.DrawnFrom, tc)
		}
	}
	long := newJob("b", annotate(v1alpha1.AnnotationProgressQuery, strings.Repeat("x", kinds.MaxLength(v1alpha1.AnnotationProgressQuery)+1)))
	if _, err := ReadOptions(long.Annotations, &policy, nil); !errors.Is(err, ErrAnnotation) || ProgressQuery(workloadOf(t, &long)) != "" {
		t.Errorf("a query without bounds: %v", err)
	}
}

// TestPatience: a pod without a node counts as denied once the policy's patience is over; until then
// it is known when that will be.
func TestPatience(t *testing.T) {
	j := newJob("a", running)
	refused := func(ago time.Duration) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: j.UID}}},
			Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(now.Add(-ago)),
			}}},
		}
	}
	hurried := policy
	hurried.ScaleUpPatience = &metav1.Duration{}
	for name, tc := range map[string]struct {
		policy v1alpha1.CarbonPolicySpec
		denied int
		next   time.Time
	}{
		"by default": {policy, 1, now.Add(time.Minute)},
		"none":       {hurried, 3, time.Time{}},
	} {
		v, err := Observe(Input{Now: now, Timeline: timegrid.Timeline{}, Policy: &v1alpha1.CarbonPolicy{Spec: tc.policy}, Workloads: []*Workload{workloadOf(t, &j)}, Pods: []corev1.Pod{refused(time.Minute), refused(6 * time.Minute), refused(4 * time.Minute)}})
		if err != nil {
			t.Fatal(err)
		}
		if p := v.Progress[0]; p.Denied != tc.denied || p.Pending != 3 || !v.DeniedAt.Equal(tc.next) {
			t.Errorf("%s: %d of %d denied, the next at %v; want %+v", name, p.Denied, p.Pending, v.DeniedAt, tc)
		}
		use := UseOf(&v, timegrid.Timeline{}, func(*Workload) []decide.Phase { return nil })
		if without := tc.denied == 3; v.Snapshot.Tasks[0].Unscheduled != without || len(use.Stretches) != 0 != !without {
			t.Errorf("%s: unscheduled %v, takes %+v", name, v.Snapshot.Tasks[0].Unscheduled, use.Stretches)
		}
	}
}

// TestWorkersThatLackRoom: of the workers that an elastic Job asks for, those whose Pods were denied count as lacking. If
// no Pod runs, the Job is unscheduled instead.
func TestWorkersThatLackRoom(t *testing.T) {
	four := int32(4)
	j := newJob("a", running, annotate(v1alpha1.AnnotationMinWorkers, "1"), annotate(v1alpha1.AnnotationMaxWorkers, "4"), func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = &four, nil })
	pod := func(found bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: j.UID}}}}
		if p.Status.Phase = corev1.PodRunning; !found {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		}
		return p
	}
	for name, tc := range map[string]struct {
		pods    []corev1.Pod
		lacking int
	}{
		"all run":   {[]corev1.Pod{pod(true), pod(true), pod(true), pod(true)}, 0},
		"two run":   {[]corev1.Pod{pod(true), pod(true), pod(false), pod(false)}, 2},
		"none runs": {[]corev1.Pod{pod(false), pod(false), pod(false), pod(false)}, 0},
	} {
		v, err := Observe(Input{Now: now, Timeline: timegrid.Timeline{}, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{workloadOf(t, &j)}, Pods: tc.pods})
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Snapshot.Tasks[0]; got.Lacking != tc.lacking || got.Workers != 4 {
			t.Errorf("%s: %d of %d workers lack room, want %d of 4", name, got.Lacking, got.Workers, tc.lacking)
		}
	}
}

// TestHoldOut: about the share that is asked for runs as submitted, and stays so.
func TestHoldOut(t *testing.T) {
	share := 0.2
	held := policy
	held.HoldOut = &share
	var jobs []batchv1.Job
	for i := range 2000 {
		jobs = append(jobs, newJob(fmt.Sprint("j", i), annotate(v1alpha1.AnnotationRuntime, "1h")))
	}
	v := observe(t, held, timegrid.Timeline{}, jobs...)
	n := 0
	for i := range v.Snapshot.Tasks {
		task := &v.Snapshot.Tasks[i]
		if task.HeldOut != task.Deadline.IsZero() {
			t.Fatalf("held out %v, deadline %v", task.HeldOut, task.Deadline)
		}
		if task.HeldOut {
			n++
		}
	}
	if n < 346 || n > 454 { // 20 %, and three standard deviations
		t.Errorf("%d of 2000 held out, want 400", n)
	}
	if v := observe(t, policy, timegrid.Timeline{}, jobs[:50]...); slices.ContainsFunc(v.Snapshot.Tasks, func(task decide.Task) bool { return task.HeldOut }) {
		t.Error("held out without being asked for")
	}
}

// TestRan: a pod ran from when its first container did to when its last one ended, once it is over.
func TestRan(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(minute) * time.Minute)) }
	running := func(from int) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(from)}}}
	}
	ended := func(from, to int) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(from), FinishedAt: at(to)}}}
	}
	for name, tc := range map[string]struct {
		phase      corev1.PodPhase
		containers []corev1.ContainerStatus
		from, to   int // -1: not
	}{
		"pending":            {corev1.PodPending, []corev1.ContainerStatus{{}}, -1, -1},
		"runs":               {corev1.PodRunning, []corev1.ContainerStatus{running(2), running(1)}, 1, -1},
		"one of two is done": {corev1.PodRunning, []corev1.ContainerStatus{ended(1, 5), running(2)}, 1, -1},
		"between restarts":   {corev1.PodRunning, []corev1.ContainerStatus{ended(1, 5)}, 1, -1},
		"is over":            {corev1.PodSucceeded, []corev1.ContainerStatus{ended(1, 5), ended(2, 9)}, 1, 9},
		"failed":             {corev1.PodFailed, []corev1.ContainerStatus{ended(3, 4)}, 3, 4},
	} {
		from, to, ran := Ran(&corev1.Pod{Status: corev1.PodStatus{Phase: tc.phase, ContainerStatuses: tc.containers}})
		is := func(got time.Time, want int) bool {
			return want < 0 && got.IsZero() || want >= 0 && got.Equal(at(want).Time)
		}
		if ran != (tc.from >= 0) || !is(from, tc.from) || !is(to, tc.to) {
			t.Errorf("%s: from %v to %v, %v", name, from, to, ran)
		}
	}
}

// TestEndedBeforeTheStatusSaysSo: the pod of a Job has succeeded, and the Job controller has not counted it yet. The
// work is done: nothing is left to pause. Pods of an earlier run, failed pods and pods beside one that runs say nothing.
func TestEndedBeforeTheStatusSaysSo(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(minute) * time.Minute)) }
	j := newJob("a", running, annotate(v1alpha1.AnnotationInterruptible, "true"), annotate(v1alpha1.AnnotationRan, "15m0s"))
	pod := func(phase corev1.PodPhase, from, to int) corev1.Pod {
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(from)}}
		if phase != corev1.PodRunning {
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(from), FinishedAt: at(to)}}
		}
		start := at(from)
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: j.UID}}},
			Status:     corev1.PodStatus{Phase: phase, StartTime: &start, ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
		}
	}
	for name, tc := range map[string]struct {
		pods      []corev1.Pod
		ran, left time.Duration
		source    string
	}{
		"it runs":              {[]corev1.Pod{pod(corev1.PodRunning, -20, 0)}, 35 * time.Minute, 85 * time.Minute, FromModel},
		"it has succeeded":     {[]corev1.Pod{pod(corev1.PodSucceeded, -20, -2)}, 33 * time.Minute, 0, FromCompletions},
		"it has failed":        {[]corev1.Pod{pod(corev1.PodFailed, -20, -2)}, 15 * time.Minute, 105 * time.Minute, FromModel},
		"of an earlier run":    {[]corev1.Pod{pod(corev1.PodSucceeded, -50, -40)}, 15 * time.Minute, 105 * time.Minute, FromModel},
		"beside one that runs": {[]corev1.Pod{pod(corev1.PodSucceeded, -20, -2), pod(corev1.PodRunning, -1, 0)}, 16 * time.Minute, 104 * time.Minute, FromModel},
		"no pod":               {[]corev1.Pod{}, 15 * time.Minute, 105 * time.Minute, FromModel},
	} {
		v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{workloadOf(t, &j)}, Pods: tc.pods})
		if err != nil || len(v.Progress) != 1 {
			t.Fatalf("%s: %d tasks, %v", name, len(v.Progress), err)
		}
		if p, left := v.Progress[0], v.Snapshot.Tasks[0].Remaining; p.Ran != tc.ran || left != tc.left || p.Source != tc.source {
			t.Errorf("%s: ran %v, %v left, by %s; want %v, %v, %s", name, p.Ran, left, p.Source, tc.ran, tc.left, tc.source)
		}
	}
	// Of two workers one has succeeded, and the other has failed and does not run again yet.
	two := int32(2)
	j.Spec.Parallelism, j.Spec.Completions = &two, nil
	v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{workloadOf(t, &j)}, Pods: []corev1.Pod{pod(corev1.PodSucceeded, -20, -2), pod(corev1.PodFailed, -20, -2)}})
	if err != nil || len(v.Progress) != 1 || v.Snapshot.Tasks[0].Remaining != 105*time.Minute {
		t.Errorf("one of two workers has ended: %+v, %v; want 1h45m left", v.Snapshot.Tasks, err)
	}
}

// TestProfileLearns: what was observed of a profile replaces its points, and changes how
// fast a workload is taken to be at no scale but those.
func TestProfileLearns(t *testing.T) {
	watts := 7.0
	profile := &v1alpha1.ScalingProfile{Spec: v1alpha1.ScalingProfileSpec{Points: []v1alpha1.ScalingPoint{{Workers: 1, Throughput: 10, Watts: &watts}, {Workers: 4, Throughput: 40, Watts: &watts}}}}
	profile.Status.Observed = []v1alpha1.ObservedPoint{{Workers: 3, Throughput: 2}}
	j := newJob("a", annotate(v1alpha1.AnnotationMaxWorkers, "4"), annotate(v1alpha1.AnnotationProfile, "p"))
	w := workloadOf(t, &j)
	o, err := ReadOptions(w.Annotations(), &policy, w.Kind)
	if err != nil {
		t.Fatal(err)
	}
	s, speed, err := scalingOf(Input{Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Profiles: map[string]*v1alpha1.ScalingProfile{"p": profile}}, w, &o)
	if err != nil || speed != 1 || math.Abs(s.Rate(3)-2) > 1e-9 || math.Abs(s.Rate(4)-4) > 1e-9 || len(s.Watts) != 4 {
		t.Errorf("speed %v, rates %v %v, watts %v, %v", speed, s.Rate(3), s.Rate(4), s.Watts, err)
	}
	if v, err := Throughput(profile, 3); err != nil || v != 2 {
		t.Errorf("throughput %v %v", v, err)
	}
}

// TestPlanNames: the plans of two kinds that share their kind, but not their group, do not share a name.
func TestPlanNames(t *testing.T) {
	spec := v1alpha1.WorkloadKindSpec{Group: "batch.volcano.sh", Version: "v1alpha1", Kind: "Job", Resource: "jobs", Hold: v1alpha1.HoldSpec{Suspend: "spec.suspend"}}
	volcano, err := kinds.New("volcano", &spec)
	if err != nil {
		t.Fatal(err)
	}
	job := newJob("train")
	ours := workloadOf(t, &job)
	theirs := NewWorkload(volcano, ours.Objects[0])
	if a, b := PlanName(ours), PlanName(theirs); a != "job-train" || b != "job.batch.volcano.sh-train" {
		t.Errorf("plans are called %s and %s", a, b)
	}
}
