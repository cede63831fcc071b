package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
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
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/units"
)

// scene is what a recorder looks at.
type scene struct {
	t    *testing.T
	l    *Ledger
	r    *Recorder
	job  *batchv1.Job
	pods []*corev1.Pod
	verb decide.Verb
	// drawn is measured power, in watts.
	drawn float64
	// modelled is the part of drawn that is the model's.
	modelled float64
	place    string // of the workload, where it runs on other clusters
	value    float64
	// earlier are the values from before the series.
	earlier []carbon.Sample
	dir     string
	// kind and object are another workload than the Job, where they are set.
	kind   string
	object map[string]any
	queued *kueue.Workload
	room   float64 // beside that of the others
	mode   v1alpha1.Mode
}

func newScene(t *testing.T) *scene {
	dir := t.TempDir()
	l := open(t, filepath.Join(dir, "ledger.db"))
	parallel := int32(1)
	return &scene{t: t, l: l, dir: dir, r: NewRecorder(l), verb: decide.Continue, value: 300, job: &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "ns", UID: "job", CreationTimestamp: metav1.NewTime(at(0)), Labels: map[string]string{"team": "x"}, Annotations: map[string]string{}},
		Spec: batchv1.JobSpec{Parallelism: &parallel, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
		}}}}},
	}}
}

func runningPod(uid string, from float64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "ns", UID: types.UID(uid), OwnerReferences: []metav1.OwnerReference{{UID: "job"}}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at(from))},
		}}}},
	}
}

func endedPod(uid string, from, to float64) *corev1.Pod {
	pod := runningPod(uid, from)
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(at(from)), FinishedAt: metav1.NewTime(at(to))}}
	return pod
}

// look lets the recorder look at an hour.
func (s *scene) look(hour float64) {
	s.t.Helper()
	s.write() // what is open, first
	s.record(hour)
	s.write()
}

// write writes what waits.
func (s *scene) write() {
	s.t.Helper()
	if err := s.r.Write(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// record lets the recorder look at an hour, without a write.
func (s *scene) record(hour float64) {
	s.t.Helper()
	text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.job)
	if err != nil {
		s.t.Fatal(err)
	}
	kind := "Job"
	if s.kind != "" {
		kind, text = s.kind, s.object
	}
	named, err := kinds.Named([]string{kind})
	if err != nil {
		s.t.Fatal(err)
	}
	w := kube.NewWorkload(named[0], &unstructured.Unstructured{Object: text})
	w.Queued = s.queued
	policy := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: v1alpha1.CarbonPolicySpec{Zone: "z", Mode: s.mode}}
	series, err := carbon.NewSeries(carbon.Provenance{Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle, Basis: carbon.Measured}, []carbon.Sample{{From: at(0), To: at(1), Value: units.CarbonIntensity(s.value)}, {From: at(1), To: at(200), Value: 100}})
	if err != nil {
		s.t.Fatal(err)
	}
	cluster := decide.Cluster{Name: "local", Zone: "z", Power: power.PerUnit{Watts: map[string]float64{"cpu": 50}, PUE: 1}, Carbon: series, Capacity: map[string]float64{"cpu": 8 + s.room}, Load: map[string]float64{"cpu": 3}}
	task := decide.Task{ID: "t", Submitted: at(0), Deadline: at(48), State: decide.Running, Cluster: "local"}
	if s.place != "" {
		policy.Spec.Clusters = []string{"a", "b"}
		cluster.Name, task.Cluster = s.place, s.place
	}
	k := &Look{
		Context: kube.Context{Policy: policy, Now: at(hour)}, All: []*kube.Workload{w}, Decision: &decide.Decision{}, Pods: map[types.UID][]*corev1.Pod{"job": s.pods},
		View:   &kube.View{Snapshot: decide.Snapshot{Now: at(hour), Slot: time.Hour, Clusters: []decide.Cluster{cluster}}},
		Phases: func(*kube.Workload) []decide.Phase { return nil }, Zones: map[string]carbon.Outlook{"z": {Expected: series, Earlier: s.earlier}},
	}
	if !w.Facts.Finished {
		p := kube.Progress{Runtime: time.Hour, Drawn: s.drawn, Modelled: s.modelled}
		if s.drawn > 0 {
			p.DrawnFrom = "kepler"
		}
		k.View.Workloads, k.View.Progress, k.View.Snapshot.Tasks = []*kube.Workload{w}, []kube.Progress{p}, []decide.Task{task}
		k.Decision.Actions = []decide.Action{{Task: "t", Verb: s.verb}}
	}
	s.r.Record(k)
}

func (s *scene) finish(hour float64) {
	end := metav1.NewTime(at(hour))
	s.job.Status.CompletionTime = &end
	s.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: end}}
}

// story are the entries of a kind, as text.
func (s *scene) story(kind Kind) []string {
	s.t.Helper()
	var out []string
	for e, err := range s.l.Read(context.Background(), Query{Kind: kind}) {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, string(e.Body))
	}
	return out
}

func (s *scene) ends() map[string]Ended {
	out := map[string]Ended{}
	for _, text := range s.story(KindEnded) {
		var b Ended
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			s.t.Fatal(err)
		}
		out[b.Run] = b
	}
	return out
}

// TestRecorderFollowsAJobOverPods: a Job runs in several pods, is paused, and looked at by one controller after the other.
func TestRecorderFollowsAJobOverPods(t *testing.T) {
	s := newScene(t)
	s.look(0.5)
	s.pods = []*corev1.Pod{runningPod("p1", 1)}
	s.drawn = 80
	for _, hour := range []float64{1.5, 1.75, 2.25} {
		s.look(hour)
	}
	s.drawn = 0
	s.look(2.25)
	// p1 is deleted; p2 comes and goes between two looks.
	gone := runningPod("p1", 1)
	deleted := metav1.NewTime(at(2.5))
	gone.DeletionTimestamp = &deleted
	s.r.PodGone(gone, at(2.6))
	s.r.PodGone(endedPod("p2", 2.6, 2.7), at(2.8))
	s.pods = []*corev1.Pod{runningPod("p3", 3), runningPod("p4", 3)}
	s.look(3)
	// The controller is killed. p3 is gone then: Lull had paused the Job at 3:30.
	s.r = NewRecorder(s.l)
	s.job.Annotations[v1alpha1.AnnotationChanged] = at(3.5).Format(time.RFC3339)
	s.pods = []*corev1.Pod{endedPod("p4", 3, 4)}
	s.look(4)
	s.look(4.1)
	s.look(4.2)
	s.pods = append(s.pods, endedPod("p5", 5, 6))
	s.finish(6)
	s.look(6)
	s.look(6.5)
	s.r = NewRecorder(s.l)
	s.look(7)

	ends := s.ends()
	for run, want := range map[string]Ended{
		"p1": {At: at(2.5), How: Observed}, "p2": {At: at(2.7), How: Observed, Succeeded: true}, "p3": {At: at(3.5), How: Inferred},
		"p4": {At: at(4), How: Observed, Succeeded: true}, "p5": {At: at(6), How: Observed, Succeeded: true},
	} {
		if got := ends[run]; !got.At.Equal(want.At) || got.How != want.How || got.Succeeded != want.Succeeded {
			t.Errorf("%s ended %+v, want %+v", run, got, want)
		}
	}
	started := strings.Join(s.story(KindStarted), "\n")
	if len(ends) != 5 || len(s.story(KindStarted)) != 5 || strings.Count(started, `"watts":100`) != 5 {
		t.Errorf("%d ends; started:\n%s", len(ends), started)
	}
	if got := s.story(KindSubmitted); len(got) != 1 || !strings.Contains(got[0], `"labels":{"team":"x"},"policy":"ns/p","at":"2026-03-01T00:00:00Z","workers":1,"request":{"cpu":2},"watts":100`) {
		t.Errorf("submitted: %s", got)
	}
	// 80 W from 1:30 to 2:15, written when the hour is over.
	if got := s.story(KindEnergy); len(got) != 1 || !strings.Contains(got[0], `"kWh":0.06,`) {
		t.Errorf("energy: %s", got)
	}
	if got := s.story(KindFinished); len(got) != 1 || !strings.Contains(got[0], `"at":"2026-03-01T06:00:00Z","how":"finished"`) {
		t.Errorf("finished: %s", got)
	}
	if got := s.story(KindCapacity); len(got) == 0 || !strings.Contains(got[0], `"free":{"cpu":5}`) {
		t.Errorf("capacity: %s", got)
	}
	if got := s.story(KindDecided); len(got) != 2 { // one each by the first two controllers
		t.Errorf("decided: %s", got)
	}
	if got := s.story(KindIntensity); len(got) != 1 || !strings.Contains(got[0], `"value":300,"signal":"average","factor":"lifecycle"`) {
		t.Errorf("intensities: %s", got)
	}
	s.value = 310
	s.look(8)
	s.look(9)
	if got := s.story(KindIntensity); len(got) != 2 || !strings.Contains(got[1], `"value":310`) || !strings.Contains(got[1], `"revision":1`) {
		t.Errorf("intensities, one revised: %s", got)
	}
}

// TestRunsOnOtherClustersAreRecorded: runs on other clusters are told apart by cluster and scale.
func TestRunsOnOtherClustersAreRecorded(t *testing.T) {
	s := newScene(t)
	s.place = "a"
	began := metav1.NewTime(at(1))
	s.job.Status.StartTime, s.job.Status.Active = &began, 1
	s.look(1)
	s.look(2)
	three := int32(3)
	one := s.job.Spec.Parallelism
	s.job.Spec.Parallelism = &three
	s.look(3)
	s.job.Spec.Parallelism = one
	s.look(4)
	s.r = NewRecorder(s.l)
	s.look(5)
	s.finish(6)
	s.look(6)
	got := s.story(KindStarted)
	if len(got) != 4 || len(s.ends()) != 4 || !strings.Contains(got[1], `"workers":3,"watts":300`) || !strings.Contains(got[0], `"at":"2026-03-01T01:00:00Z","cluster":"a"`) {
		t.Errorf("%s\n%+v", strings.Join(got, "\n"), s.ends())
	}
	sum := 0.0
	var starts []Started
	for _, text := range got {
		var b Started
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		starts = append(starts, b)
	}
	for _, b := range starts {
		sum += s.ends()[b.Run].At.Sub(b.At).Hours() * float64(b.Workers)
	}
	if !near(sum, 2+3+2) {
		t.Errorf("%v worker hours, want 7", sum)
	}
}

// TestRecordWithoutDatabase: a database that cannot be written keeps no look waiting; what was found is
// written once it can be. The time is virtual: it passes only while everything waits.
func TestRecordWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.look(0.5)
		other := open(t, filepath.Join(s.dir, "ledger.db"))
		tx, err := other.db.BeginTx(t.Context(), nil) // takes the only lock
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		s.pods = []*corev1.Pod{runningPod("p1", 1)}
		s.record(1)
		s.pods = []*corev1.Pod{endedPod("p1", 1, 2)}
		for _, hour := range []float64{2, 2.5, 3} {
			s.record(hour)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("four looks waited %v", took)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.r.Write(short); !errors.Is(err, ErrDatabase) {
			t.Errorf("written too early: %v", err)
		}
		if took := time.Since(begin); took == 0 {
			t.Error("the write did not wait for the database")
		}
		if h := s.r.Health(); h.Queued == 0 || h.Problem == "" || h.Since.IsZero() || h.LostLooks > 0 {
			t.Errorf("while it cannot be written: %+v", h)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		s.write()
		if h := s.r.Health(); h.Queued > 0 || h.Problem != "" {
			t.Errorf("once it can be written: %+v", h)
		}
		s.finish(4)
		s.look(4)
		if len(s.story(KindStarted)) != 1 || len(s.ends()) != 1 || len(s.story(KindFinished)) != 1 {
			t.Errorf("%d starts, %d ends", len(s.story(KindStarted)), len(s.ends()))
		}
		if _, err := Verify(s.l.Read(t.Context(), Query{})); err != nil {
			t.Error(err)
		}
	})
}

// TestRecordOfPartlyMeasured: an entry says which part of its energy is the model's.
func TestRecordOfPartlyMeasured(t *testing.T) {
	s := newScene(t)
	s.pods = []*corev1.Pod{runningPod("p1", 1)}
	s.drawn, s.modelled = 80, 20
	for _, hour := range []float64{1, 1.5, 2} {
		s.look(hour)
	}
	var e Energy
	if story := s.story(KindEnergy); len(story) != 1 || json.Unmarshal([]byte(story[0]), &e) != nil || !near(e.KWh, 0.08) || !near(e.ModelKWh, 0.02) {
		t.Errorf("%v; want 0.08 kWh, 0.02 of them by the model", story)
	}
}

// TestShadowIsRecorded: the entry of a submission says that the policy was in Shadow mode, and says nothing of a policy that enforces.
func TestShadowIsRecorded(t *testing.T) {
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeShadow, v1alpha1.ModeEnforce, ""} {
		s := newScene(t)
		s.mode = mode
		s.look(1)
		var b Submitted
		if story := s.story(KindSubmitted); len(story) != 1 || json.Unmarshal([]byte(story[0]), &b) != nil || b.Shadow != (mode == v1alpha1.ModeShadow) {
			t.Errorf("mode %q: %v", mode, story)
		}
	}
}
