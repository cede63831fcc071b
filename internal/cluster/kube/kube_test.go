package kube

import (
	"encoding/json"
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

// TestReplayTimesAreThoseOfTheSeries: in a replay, times are those of the series.
func TestReplayTimesAreThoseOfTheSeries(t *testing.T) {
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

// TestPodsOfTheSameCapacityCountAsLoad: of the pods of others those count that use the same capacity.
func TestPodsOfTheSameCapacityCountAsLoad(t *testing.T) {
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
	starting := pod(corev1.PodPending, "y")
	starting.Spec.NodeName = "n"
	starting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	pods := []corev1.Pod{pod(corev1.PodRunning, "x"), starting, pod(corev1.PodSucceeded, "z"), pod(corev1.PodRunning, "ours")}
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
	// While no scheduler runs, as during an upgrade of the control plane, pods of others that wait must not make all that is held appear to have no room.
	if got := Load(append(pods, pod(corev1.PodPending, "y")), ours)["cpu"]; got != 8 {
		t.Errorf("load %v with a pod that no scheduler has seen, want 8: what has no node takes nothing", got)
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
	if rec.ExpectedSaving != 0.75 || rec.Cases != 0 {
		t.Errorf("saving %v in %d cases, want 0.75, none", rec.ExpectedSaving, rec.Cases)
	}
	a.Reason.Odds = decide.Odds{Paths: 50, Worse: 3, Low: -0.0214, High: 0.8}
	text, err := json.Marshal(newRecord(a, &Progress{}, now))
	if err != nil {
		t.Fatal(err)
	}
	read, ok := ReadRecord(map[string]string{v1alpha1.AnnotationDecision: string(text)})
	if !ok || read.SavingLow != -0.021 || read.SavingHigh != 0.8 || read.Cases != 50 || read.CasesWorse != 3 {
		t.Errorf("odds are read as %v to %v, worse in %d of %d", read.SavingLow, read.SavingHigh, read.CasesWorse, read.Cases)
	}
	broken := newJob("a", annotate(v1alpha1.AnnotationDecision, "{"))
	if _, ok := ReadRecord(broken.Annotations); ok {
		t.Error("a broken record was read")
	}
}

// TestHeldOutShareIsAsAsked: about the share that is asked for runs as submitted, and stays so.
func TestHeldOutShareIsAsAsked(t *testing.T) {
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

// TestPlansOfTwoGroupsDoNotCollide: the plans of two kinds that share their kind, but not their group, do not share a name.
func TestPlansOfTwoGroupsDoNotCollide(t *testing.T) {
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
