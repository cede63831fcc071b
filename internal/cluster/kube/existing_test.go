package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// TestBegun: a workload has started if a pod of it has been on a node, or if its status tells of more than pods that wait.
func TestBegun(t *testing.T) {
	pod := func(name, of, node string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, OwnerReferences: []metav1.OwnerReference{{UID: "other", Controller: new(true)}}, Labels: map[string]string{"batch.kubernetes.io/job-name": of, "ray.io/cluster": of}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	waits := pod("p", "x", "", corev1.PodPending)
	bare := pod("q", "x", "node", corev1.PodRunning)
	bare.OwnerReferences = nil
	for name, tc := range map[string]struct {
		kind   string
		status map[string]any
		pods   []corev1.Pod
		want   string // part of why; "" for not started
	}{
		"nothing yet":              {"Job", nil, nil, ""},
		"its pods wait":            {"Job", map[string]any{"active": int64(1), "startTime": "2026-11-27T00:00:00Z", "ready": int64(0)}, []corev1.Pod{waits}, ""},
		"bound":                    {"Job", map[string]any{"active": int64(1)}, []corev1.Pod{waits, pod("q", "x", "node", corev1.PodPending)}, "its pod q has been on a node"},
		"failed without a node":    {"Job", nil, []corev1.Pod{pod("q", "x", "", corev1.PodFailed)}, "its pod q"},
		"pods of others":           {"Job", nil, []corev1.Pod{pod("q", "y", "node", corev1.PodRunning)}, ""},
		"ready":                    {"Job", map[string]any{"ready": int64(1)}, nil, "status.ready is 1"},
		"failed before":            {"Job", map[string]any{"failed": int64(2)}, nil, "status.failed is 2"},
		"ending":                   {"Job", map[string]any{"terminating": int64(1)}, nil, "status.terminating is 1"},
		"done in part":             {"Job", map[string]any{"succeeded": int64(1)}, nil, "parts of it are done"},
		"ended":                    {"Job", map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}, nil, "it has ended"},
		"resumed":                  {"Job", map[string]any{"conditions": []any{map[string]any{"type": "Suspended", "status": "False"}}}, nil, "suspended and resumed"},
		"started before a restart": {"JobSet", map[string]any{"restarts": int64(1), "replicatedJobsStatus": []any{map[string]any{"name": "w", "active": int64(1)}}}, nil, "status.restarts is 1"},
		"a job of it is done":      {"JobSet", map[string]any{"restarts": int64(0), "replicatedJobsStatus": []any{map[string]any{"name": "w", "succeeded": int64(1)}}}, nil, "status.replicatedJobsStatus[0].succeeded is 1"},
		"a job of it waits":        {"JobSet", map[string]any{"restarts": int64(0), "replicatedJobsStatus": []any{map[string]any{"name": "w", "active": int64(1), "ready": int64(0)}}}, nil, ""},
		"a replica failed":         {"PyTorchJob", map[string]any{"replicaStatuses": map[string]any{"Worker": map[string]any{"failed": int64(1)}}}, nil, "status.replicaStatuses.Worker.failed is 1"},
		"ran, and restarts":        {"MPIJob", map[string]any{"conditions": []any{map[string]any{"type": "Running", "status": "False"}}}, nil, "condition Running"},
		"reset":                    {"AppWrapper", map[string]any{"phase": "Resuming", "retries": int64(1)}, nil, "status.retries is 1"},
		"resumed by its user":      {"RayJob", map[string]any{"generation": int64(2)}, nil, "spec has been changed"},
		"pods known later":         {"RayJob", nil, nil, ""},
		"pods known, they run":     {"RayJob", map[string]any{"rayClusterName": "x"}, []corev1.Pod{pod("q", "x", "node", corev1.PodRunning)}, "its pod q"},
		"pods of no controller":    {"RayJob", map[string]any{"rayClusterName": "x"}, []corev1.Pod{bare}, "its pod q"},
		"pods known, none bound":   {"RayJob", map[string]any{"rayClusterName": "x"}, []corev1.Pod{waits}, ""},
	} {
		named, err := kinds.Named([]string{tc.kind})
		if err != nil {
			t.Fatal(err)
		}
		generation := int64(1)
		if of, stated := tc.status["generation"].(int64); stated {
			generation = of
		}
		o := map[string]any{"metadata": map[string]any{"namespace": "n", "name": "x", "uid": "u", "generation": generation}, "spec": map[string]any{"completions": int64(3)}}
		if tc.status != nil {
			o["status"] = tc.status
		}
		why := Begun(NewWorkload(named[0], &unstructured.Unstructured{Object: o}), tc.pods)
		if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
			t.Errorf("%s: %q, want %q", name, why, tc.want)
		}
	}
}

// TestBegunThoughFailuresAreIgnored: a pod that was evicted under podFailurePolicy Ignore is in no count of its Job. A pod that may have taken its place, or
// one that is missing, says that work may have begun. Without such a policy, and right after the start, it does not.
func TestBegunThoughFailuresAreIgnored(t *testing.T) {
	start := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	pod := func(name string, after time.Duration, annotations map[string]string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(start.Add(after)), Annotations: annotations, OwnerReferences: []metav1.OwnerReference{{UID: "u"}}, Labels: map[string]string{"batch.kubernetes.io/job-name": "x"}},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
	}
	ignore := []any{map[string]any{"action": "FailJob"}, map[string]any{"action": "Ignore", "onPodConditions": []any{map[string]any{"type": "DisruptionTarget"}}}}
	first, again := pod("p", time.Second, nil), pod("q", time.Minute, nil)
	for name, tc := range map[string]struct {
		rules   []any
		pods    []corev1.Pod
		status  map[string]any
		started bool
		want    string
	}{
		"first pods":                    {ignore, []corev1.Pod{first, pod("p2", 2*time.Second, nil)}, nil, true, ""},
		"not started":                   {ignore, nil, nil, false, ""},
		"one replaced":                  {ignore, []corev1.Pod{first, again}, nil, true, "its pod q was created 1m0s after its start"},
		"one missing":                   {ignore, []corev1.Pod{first}, nil, true, "1 of its 2 pods exist"},
		"one of an index replaced":      {ignore, []corev1.Pod{first, pod("p2", 0, map[string]string{"batch.kubernetes.io/job-index-ignored-failure-count": "1"})}, nil, true, "replaces another"},
		"one replaced, other actions":   {[]any{map[string]any{"action": "FailJob"}}, []corev1.Pod{first, again}, nil, true, ""},
		"one replaced without a rule":   {nil, []corev1.Pod{first, again}, nil, true, ""},
		"ended, and not counted so far": {nil, []corev1.Pod{first}, map[string]any{"uncountedTerminatedPods": map[string]any{"failed": []any{"p"}}}, true, "status.uncountedTerminatedPods.failed names pods"},
	} {
		named, err := kinds.Named([]string{"Job"})
		if err != nil {
			t.Fatal(err)
		}
		status := map[string]any{"active": int64(2), "ready": int64(0)}
		for k, v := range tc.status {
			status[k] = v
		}
		if tc.started {
			status["startTime"] = start.Format(time.RFC3339)
		}
		o := map[string]any{
			"metadata": map[string]any{"namespace": "n", "name": "x", "uid": "u", "generation": int64(1), "creationTimestamp": start.Format(time.RFC3339)},
			"spec":     map[string]any{"parallelism": int64(2), "completions": int64(3)}, "status": status,
		}
		if tc.rules != nil {
			o["spec"].(map[string]any)["podFailurePolicy"] = map[string]any{"rules": tc.rules}
		}
		why := Begun(NewWorkload(named[0], &unstructured.Unstructured{Object: o}), tc.pods)
		if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
			t.Errorf("%s: %q, want %q", name, why, tc.want)
		}
	}
}

// TestBegunThoughPodsAreReplaced: of every kind that can be suspended, a pod that was created long after the first ones may have taken the place of one that ran, as no status but that of a Job
// counts pods that were deleted. If failures are ignored in any template, one that is missing says that too.
func TestBegunThoughPodsAreReplaced(t *testing.T) {
	start := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	const pod = "template: {spec: {containers: [{name: a}]}}"
	const ignore = "podFailurePolicy: {rules: [{action: Ignore}]}, "
	job := func(policy string) string { return "{parallelism: 2, completions: 2, " + policy + pod + "}" }
	sets := func(policy string) string {
		return "{replicatedJobs: [{name: w, template: {spec: " + job(policy) + "}}]}"
	}
	wraps := func(policy string) string {
		return "{components: [{template: {apiVersion: batch/v1, kind: Job, spec: " + job(policy) + "}}]}"
	}
	for _, tc := range []struct {
		kind, label, spec, status string
		late, missing             bool // whether these say that it has begun
	}{
		{"Job", "batch.kubernetes.io/job-name", job(""), "{}", false, false},
		{"Job", "batch.kubernetes.io/job-name", job(ignore), "{startTime: '2026-11-27T00:00:00Z'}", true, true},
		{"JobSet", "jobset.sigs.k8s.io/jobset-name", sets(""), "{}", true, false},
		{"JobSet", "jobset.sigs.k8s.io/jobset-name", sets(ignore), "{}", true, true},
		{"AppWrapper", "workload.codeflare.dev/appwrapper", wraps(""), "{}", true, false},
		{"AppWrapper", "workload.codeflare.dev/appwrapper", wraps(ignore), "{}", true, true},
		{"TrainJob", "jobset.sigs.k8s.io/jobset-name", "{runtimeRef: {name: r}, trainer: {numNodes: 2}}", "{}", true, false},
		{"PyTorchJob", "training.kubeflow.org/job-name", "{pytorchReplicaSpecs: {Worker: {replicas: 2, " + pod + "}}}", "{}", true, false},
		{"MPIJob", "training.kubeflow.org/job-name", "{mpiReplicaSpecs: {Worker: {replicas: 2, " + pod + "}}}", "{}", true, false},
		{"RayCluster", "ray.io/cluster", "{headGroupSpec: {" + pod + "}, workerGroupSpecs: [{replicas: 1, " + pod + "}]}", "{}", true, false},
		{"RayJob", "ray.io/cluster", "{rayClusterSpec: {headGroupSpec: {" + pod + "}, workerGroupSpecs: [{replicas: 1, " + pod + "}]}}", "{rayClusterName: x}", true, false},
	} {
		named, err := kinds.Named([]string{tc.kind})
		if err != nil {
			t.Fatal(err)
		}
		begun := func(created ...time.Duration) string {
			o := map[string]any{}
			if err := yaml.Unmarshal([]byte("{metadata: {namespace: 'n', name: x, uid: u, generation: 1, creationTimestamp: '2026-11-27T00:00:00Z'}, spec: "+tc.spec+", status: "+tc.status+"}"), &o); err != nil {
				t.Fatal(err)
			}
			var pods []corev1.Pod
			for i, after := range created {
				pods = append(pods, corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("p", i), CreationTimestamp: metav1.NewTime(start.Add(after)), OwnerReferences: []metav1.OwnerReference{{UID: "other", Controller: new(true)}}, Labels: map[string]string{tc.label: "x"}},
					Status:     corev1.PodStatus{Phase: corev1.PodPending},
				})
			}
			return Begun(NewWorkload(named[0], &unstructured.Unstructured{Object: o}), pods)
		}
		if why := begun(time.Second, 2*time.Second); why != "" {
			t.Errorf("%s %s with its first pods: %q", tc.kind, tc.spec, why)
		}
		if why := begun(time.Second, time.Minute); (why != "") != tc.late || tc.late && !strings.Contains(why, "its pod p1 was created 1m0s after its start") {
			t.Errorf("%s %s with a pod of a minute later: %q, want one: %v", tc.kind, tc.spec, why, tc.late)
		}
		if why := begun(time.Second); (why != "") != tc.missing || tc.missing && !strings.Contains(why, "1 of its 2 pods exist") {
			t.Errorf("%s %s with a pod less: %q, want one: %v", tc.kind, tc.spec, why, tc.missing)
		}
	}
}

// TestEventsOfWhatExistsAreTheChosenOnes: who wants warnings alone gets no Events of what is held late, or left alone.
func TestEventsOfWhatExistsAreTheChosenOnes(t *testing.T) {
	for choice, want := range map[Events]int{"": 2, AllEvents: 2, ChangeEvents: 2, WarningEvents: 0} {
		scheme := runtime.NewScheme()
		if err := batchv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		job := newJob("job", func(j *batchv1.Job) { j.Namespace = "default" })
		recorder := events.NewFakeRecorder(10)
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&job).Build()
		ap := &Applier{Client: c, Recorder: recorder, Events: choice}
		var stored batchv1.Job
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(&job), &stored); err != nil {
			t.Fatal(err)
		}
		policy := &v1alpha1.CarbonPolicy{}
		w := workloadOf(t, &stored)
		ap.RecordMissed(w, policy, NotAsked)
		if err := ap.HoldExisting(t.Context(), w, policy, "2026-03-01T08:00:00Z"); err != nil {
			t.Fatal(err)
		}
		if got := len(recorder.Events); got != want {
			t.Errorf("%q: %d Events, want %d", choice, got, want)
		}
	}
}
