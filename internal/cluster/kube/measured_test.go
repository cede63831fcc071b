package kube

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// learned is what a test says was learned.
type learned struct {
	points    []v1alpha1.ObservedPoint
	quantiles []workload.RunTimeQuantile
	startup   time.Duration
}

func (learned) Runtime(_ *Workload, prior, _ time.Duration) time.Duration { return prior }

func (l learned) Startup(*Workload) time.Duration { return l.startup }

func (l learned) Observed(*Workload) []v1alpha1.ObservedPoint { return l.points }

func (learned) MostWorkers(*Workload) int                         { return 0 }
func (learned) PodlessSince(*Workload, bool, time.Time) time.Time { return time.Time{} }

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

// TestMeasuredProgressCountsBeforeTheModel: what a query gives counts before the model, and goes on by it until it is
// read again; measured power counts with PUE, what nobody measures as the model says.
func TestMeasuredProgressCountsBeforeTheModel(t *testing.T) {
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

// TestStartupIsPartOfATask: how long its starts take, and their energy, without the PUE, which planners add.
func TestStartupIsPartOfATask(t *testing.T) {
	p := policy
	p.Power = v1alpha1.PowerSpec{WattsPerUnit: map[string]float64{"cpu": 100}, PUE: 1.5}
	for kind, want := range map[string]time.Duration{v1alpha1.AnnotationInterruptible: 6 * time.Minute, v1alpha1.AnnotationRuntime: 0} {
		j := newJob("a", annotate(kind, map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationRuntime: "2h"}[kind]))
		cpus := j.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().AsApproximateFloat64()
		v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: p}, Workloads: []*Workload{workloadOf(t, &j)}, Learned: learned{startup: 6 * time.Minute}})
		if err != nil || len(v.Snapshot.Tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(v.Snapshot.Tasks), err)
		}
		if task := &v.Snapshot.Tasks[0]; task.Restart != want || math.Abs(task.RestartKWh-0.1*want.Hours()*cpus) > 1e-12 {
			t.Errorf("with %s, %v CPUs: restarts of %v, %v kWh; want %v, %v", kind, cpus, task.Restart, task.RestartKWh, want, 0.1*want.Hours()*cpus)
		}
	}
}

// TestRestartUnderWay: a Job that has run before, and whose pods pull their images, has the rest of its start ahead. A Job that starts for the first
// time repeats nothing. Neither does a Job with a worker that runs.
func TestRestartUnderWay(t *testing.T) {
	node := metav1.NewTime(now.Add(-time.Minute))
	pulls := corev1.PodStatus{Phase: corev1.PodPending, StartTime: &node}
	early := metav1.NewTime(now.Add(-time.Hour))
	slow := corev1.PodStatus{Phase: corev1.PodPending, StartTime: &early}
	works := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &node, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: node}}}}}
	for name, tc := range map[string]struct {
		ran  string
		pods []corev1.PodStatus
		want time.Duration
	}{
		"again":             {"15m0s", []corev1.PodStatus{pulls}, 5 * time.Minute},
		"again, for long":   {"15m0s", []corev1.PodStatus{slow}, 0},
		"the first time":    {"", []corev1.PodStatus{pulls}, 0},
		"it runs":           {"15m0s", []corev1.PodStatus{works}, 0},
		"a worker runs":     {"15m0s", []corev1.PodStatus{works, pulls}, 0},
		"no pod is there":   {"15m0s", nil, 6 * time.Minute},
		"finds no node yet": {"15m0s", []corev1.PodStatus{{Phase: corev1.PodPending}}, 6 * time.Minute},
	} {
		j := newJob("a", running, annotate(v1alpha1.AnnotationInterruptible, "true"), annotate(v1alpha1.AnnotationRan, tc.ran))
		pods := []corev1.Pod{}
		for i := range tc.pods {
			pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: j.UID}}}, Status: tc.pods[i]})
		}
		v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{workloadOf(t, &j)}, Pods: pods, Learned: learned{startup: 6 * time.Minute}})
		if err != nil || len(v.Snapshot.Tasks) != 1 {
			t.Fatalf("%s: %d tasks, %v", name, len(v.Snapshot.Tasks), err)
		}
		if task := &v.Snapshot.Tasks[0]; task.Starting != tc.want || task.Restart != 6*time.Minute {
			t.Errorf("%s: starting %v of %v, want %v", name, task.Starting, task.Restart, tc.want)
		}
	}
}

// TestPodWithoutANodeIsDeniedAfterThePatience: a pod without a node counts as denied once the policy's patience is over; until then
// it is known when that will be.
func TestPodWithoutANodeIsDeniedAfterThePatience(t *testing.T) {
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

// TestPodRanWhileItsContainersDid: a pod ran from when its first container did to when its last one ended, once it is over.
func TestPodRanWhileItsContainersDid(t *testing.T) {
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

// TestStartsOfPods: a pod works when all its containers run. While images are pulled, nothing is done, although a first container runs. What a start
// takes is the time from its node until then, not the wait for the node.
func TestStartsOfPods(t *testing.T) {
	j := newJob("a", running, annotate(v1alpha1.AnnotationInterruptible, "true"), annotate(v1alpha1.AnnotationRan, "15m0s"))
	at := func(minute int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(minute) * time.Minute)) }
	up := func(minute int) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(minute)}}}
	}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(-16), FinishedAt: at(-3)}}}
	pulls := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	again, crashes := up(-2), pulls
	again.RestartCount, crashes.RestartCount = 1, 7
	for name, tc := range map[string]struct {
		states       []corev1.ContainerStatus
		started      int
		startup, ran time.Duration
	}{
		"both run":                  {[]corev1.ContainerStatus{up(-19), up(-12)}, 1, 8 * time.Minute, 27 * time.Minute},
		"one pulls its image":       {[]corev1.ContainerStatus{up(-19), pulls}, 0, 0, 15 * time.Minute},
		"the cache leaves that out": {[]corev1.ContainerStatus{up(-19)}, 0, 0, 15 * time.Minute},
		"one has ended":             {[]corev1.ContainerStatus{ended, up(-19)}, 1, 4 * time.Minute, 31 * time.Minute},
		"one starts again":          {[]corev1.ContainerStatus{up(-19), again}, 1, 0, 35 * time.Minute},
		"one crashes":               {[]corev1.ContainerStatus{up(-19), crashes}, 1, 0, 35 * time.Minute},
		"the status is empty":       {nil, 1, 0, 35 * time.Minute},
	} {
		node := at(-20)
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: j.UID}}, CreationTimestamp: at(-300)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x"}, {Name: "y"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &node, ContainerStatuses: tc.states},
		}
		v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{workloadOf(t, &j)}, Pods: []corev1.Pod{pod}})
		if err != nil || len(v.Progress) != 1 {
			t.Fatalf("%s: %d tasks, %v", name, len(v.Progress), err)
		}
		if p := v.Progress[0]; p.Running != 1 || p.Started != tc.started || p.Startup != tc.startup || p.Ran != tc.ran {
			t.Errorf("%s: %d of %d started after %v, ran %v; want %+v", name, p.Started, p.Running, p.Startup, p.Ran, tc)
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

// TestObservedPointsReplaceTheProfile: what was observed of a profile replaces its points, and changes how
// fast a workload is taken to be at no scale but those.
func TestObservedPointsReplaceTheProfile(t *testing.T) {
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
