package ledger

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kueue"
)

// one is the only entry of a kind.
func one[T any](s *scene, kind Kind) (b T) {
	s.t.Helper()
	got := s.story(kind)
	if len(got) != 1 {
		s.t.Fatalf("%d entries %s, want 1", len(got), kind)
	}
	if err := json.Unmarshal([]byte(got[0]), &b); err != nil {
		s.t.Fatal(err)
	}
	return b
}

// sized is a pod that ran, with its request of CPUs; "" for one that states none.
func sized(uid string, from, to float64, cpu string) *corev1.Pod {
	pod := endedPod(uid, from, to)
	pod.Spec.Containers[0].Resources.Requests = nil
	if cpu != "" {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity(cpu)}
	}
	return pod
}

// TestAsSubmittedIsWhatRan: what ran at once, as it was submitted, saves nothing, whatever kind it is of: the side
// as submitted has as many pods, and takes as long.
func TestAsSubmittedIsWhatRan(t *testing.T) {
	pod := func(cpu string) string {
		return "{spec: {containers: [{name: c, resources: {requests: {cpu: " + cpu + "}}}]}}"
	}
	for name, tc := range map[string]struct {
		kind, spec, status, ended string
		pods                      []*corev1.Pod
		workers, others           int
	}{
		"a Job with fewer parts than workers": {"Job", "{parallelism: 40, completions: 2, template: " + pod("2") + "}", "{active: 2}", "{succeeded: 2, completionTime: '2026-03-01T03:00:00Z', conditions: [{type: Complete, status: 'True'}]}",
			[]*corev1.Pod{sized("a", 0, 3, "2"), sized("b", 0, 3, "2")}, 2, 0},
		"a Job without a request": {"Job", "{template: {spec: {containers: [{name: c}]}}}", "{active: 1}", "{succeeded: 1, completionTime: '2026-03-01T03:00:00Z', conditions: [{type: Complete, status: 'True'}]}",
			[]*corev1.Pod{sized("a", 0, 3, "")}, 1, 0},
		"a JobSet": {"JobSet", "{replicatedJobs: [{name: driver, template: {spec: {template: " + pod("2") + "}}}, {name: w, replicas: 2, template: {spec: {parallelism: 40, completions: 1, template: " + pod("2") + "}}}]}", "{}", "{conditions: [{type: Completed, status: 'True', lastTransitionTime: '2026-03-01T03:00:00Z'}]}",
			[]*corev1.Pod{sized("a", 0, 3, "2"), sized("b", 0, 3, "2"), sized("c", 0, 3, "2")}, 3, 0},
		"an MPIJob": {"MPIJob", "{mpiReplicaSpecs: {Launcher: {template: " + pod("1") + "}, Worker: {replicas: 2, template: " + pod("2") + "}}}", "{}", "{completionTime: '2026-03-01T03:00:00Z', conditions: [{type: Succeeded, status: 'True'}]}",
			[]*corev1.Pod{sized("l", 0, 3, "1"), sized("a", 0, 3, "2"), sized("b", 0, 3, "2")}, 2, 1},
		"a PyTorchJob of a master alone": {"PyTorchJob", "{pytorchReplicaSpecs: {Master: {replicas: 1, template: " + pod("2") + "}}}", "{}", "{completionTime: '2026-03-01T03:00:00Z', conditions: [{type: Succeeded, status: 'True'}]}",
			[]*corev1.Pod{sized("a", 0, 3, "2")}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.kind, s.room = tc.kind, 92
			object := func(status string) {
				s.object = nil
				if err := yaml.Unmarshal([]byte("{metadata: {name: j, namespace: ns, uid: job, creationTimestamp: '2026-03-01T00:00:00Z'}, spec: "+tc.spec+", status: "+status+"}"), &s.object); err != nil {
					t.Fatal(err)
				}
			}
			object(tc.status)
			s.look(0)
			object(tc.ended)
			s.pods = tc.pods
			s.look(3)
			if got := one[Submitted](s, KindSubmitted); got.Workers != tc.workers || got.Others != tc.others {
				t.Errorf("submitted: %d workers and %d others, want %d and %d", got.Workers, got.Others, tc.workers, tc.others)
			}
			if _, err := NewSettler(s.l).Settle(t.Context(), func(string) time.Time { return at(100 * 24) }); err != nil {
				t.Fatal(err)
			}
			b := one[Settled](s, KindSettled)
			if c := &b.Counterfactual; !near(b.KWh, c.KWh) || !near(b.SavedGrams, 0) || b.KWh == 0 || !c.To.Equal(at(3)) || c.Beyond {
				t.Errorf("%v kWh, as submitted %v, from %v to %v, saved %v g; want the same from 0:00 to 3:00", b.KWh, c.KWh, c.From, c.To, b.SavedGrams)
			}
		})
	}
}

// TestSubmittedBeforeKueue: a Job that Kueue admitted in part asked for more.
func TestSubmittedBeforeKueue(t *testing.T) {
	s := newScene(t)
	three := int32(3)
	s.job.Spec.Parallelism = &three
	s.queued = &kueue.Workload{Pods: 10, Admitted: true}
	s.look(1)
	if got := one[Submitted](s, KindSubmitted); got.Workers != 10 {
		t.Errorf("submitted: %d workers, want 10", got.Workers)
	}
}

// TestElsewhereCappedByParts: a Job on another cluster runs no more pods than it has parts left.
func TestElsewhereCappedByParts(t *testing.T) {
	s := newScene(t)
	s.place = "a"
	forty, three := int32(40), int32(3)
	began := metav1.NewTime(at(1))
	s.job.Spec.Parallelism, s.job.Spec.Completions, s.job.Status.StartTime, s.job.Status.Active = &forty, &three, &began, 3
	s.look(1)
	s.job.Status.Succeeded = 2
	s.look(2)
	s.finish(3)
	s.look(3)
	got := strings.Join(s.story(KindStarted), "\n")
	if !strings.Contains(got, `"workers":3,"watts":300`) || !strings.Contains(got, `"workers":1,"watts":100`) || strings.Count(got, "\n") != 1 {
		t.Errorf("started:\n%s", got)
	}
}

// TestLostIsApart: the ledger counts the hours of pods that failed, of pods that were evicted and of pods that were paused
// separately. The work of a pod that was lost counts once: that of the pod which did it again.
func TestLostIsApart(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		s := newScene(t)
		if resumable {
			s.job.Annotations["lull.dev/interruptible"] = "true"
		}
		s.look(0)
		failed, evicted := endedPod("failed", 0, 1), endedPod("evicted", 1, 3)
		failed.Status.Phase, evicted.Status.Phase = corev1.PodFailed, corev1.PodFailed
		evicted.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler"}}
		s.pods = []*corev1.Pod{failed, evicted}
		s.look(3)
		paused := endedPod("paused", 3, 3.5)
		paused.Status.Phase = corev1.PodFailed
		gone := metav1.NewTime(at(3.5))
		paused.DeletionTimestamp = &gone
		s.r.PodGone(paused, at(3.5))
		s.look(3.6)
		// Kueue takes the quota away.
		s.queued = &kueue.Workload{Active: true, Evicted: true}
		preempted := runningPod("preempted", 4)
		s.pods = append(s.pods, preempted)
		s.look(4)
		s.pods = s.pods[:2]
		preempted.DeletionTimestamp = &gone
		s.r.PodGone(preempted, at(4.5))
		s.look(4.6)
		s.queued = nil
		s.pods = append(s.pods, endedPod("well", 5, 9))
		s.finish(9)
		s.look(9)
		want := map[string]Lost{"failed": Failed, "evicted": Evicted, "paused": "", "preempted": Evicted, "well": ""}
		ends := s.ends()
		for run, lost := range want {
			if ends[run].Lost != lost {
				t.Errorf("%s is lost as %q, want %q", run, ends[run].Lost, lost)
			}
		}
		if _, err := NewSettler(s.l).Settle(t.Context(), func(string) time.Time { return at(100 * 24) }); err != nil {
			t.Fatal(err)
		}
		b := one[Settled](s, KindSettled)
		length := 4.5 // the last pod, and the paused one
		if resumable {
			length = b.WorkerHours
		}
		if !near(b.FailedHours, 1) || !near(b.EvictedHours, b.WorkerHours-1-0.5-4) || b.EvictedHours < 2 || !near(b.Counterfactual.To.Sub(b.Counterfactual.From).Hours(), length) {
			t.Errorf("resumable %v: %v h, of which %v failed and %v were evicted; as submitted from %v to %v, want %v h", resumable, b.WorkerHours, b.FailedHours, b.EvictedHours, b.Counterfactual.From, b.Counterfactual.To, length)
		}
	}
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }
