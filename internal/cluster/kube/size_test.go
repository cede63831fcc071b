package kube

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
)

// read reads objects from YAML as a workload of a kind.
func read(t *testing.T, kind string, texts ...string) *Workload {
	t.Helper()
	named, err := kinds.Named([]string{kind})
	if err != nil {
		t.Fatal(err)
	}
	var list []*Workload
	for _, text := range texts {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		list = append(list, NewWorkload(named[0], u))
	}
	list = Group(list)
	if len(list) != 1 {
		t.Fatalf("%d workloads, want 1", len(list))
	}
	return list[0]
}

func podOf(cpu string) string {
	return "{spec: {containers: [{name: c, resources: {requests: {cpu: " + cpu + "}}}]}}"
}

// TestSizeIsReadAsIsAndAsSubmitted: what a workload runs at, as it is and as it was submitted. A Job never runs more pods than it has parts
// left, a Deployment is held at no replicas, what Kueue admits in part asked for more, and the pods of a kind
// without workers are all counted.
func TestSizeIsReadAsIsAndAsSubmitted(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, spec, status, annotations string
		queued                          *kueue.Workload
		now, submitted                  Size
	}{
		"a Job with fewer parts than workers": {kind: "Job", spec: "{parallelism: 40, completions: 2, template: " + podOf("8") + "}",
			now: Size{2, 0, map[string]float64{"cpu": 8}}, submitted: Size{2, 0, map[string]float64{"cpu": 8}}},
		"an Indexed Job with fewer parts than workers": {kind: "Job", spec: "{parallelism: 40, completions: 2, completionMode: Indexed, template: " + podOf("8") + "}",
			now: Size{2, 0, map[string]float64{"cpu": 8}}, submitted: Size{2, 0, map[string]float64{"cpu": 8}}},
		"a suspended Job with fewer parts than workers": {kind: "Job", spec: "{suspend: true, parallelism: 40, completions: 3, template: " + podOf("8") + "}", status: "{succeeded: 1}",
			now: Size{2, 0, map[string]float64{"cpu": 8}}, submitted: Size{3, 0, map[string]float64{"cpu": 8}}},
		"a Job with fewer parts than workers in a queue": {kind: "Job", spec: "{parallelism: 40, completions: 2, template: " + podOf("8") + "}", queued: &kueue.Workload{Pods: 2, Admitted: true},
			now: Size{2, 0, map[string]float64{"cpu": 8}}, submitted: Size{2, 0, map[string]float64{"cpu": 8}}},
		"a Job that Kueue admitted in part, with its completions": {kind: "Job", spec: "{parallelism: 3, completions: 3, completionMode: Indexed, template: " + podOf("8") + "}", queued: &kueue.Workload{Pods: 10, Admitted: true},
			annotations: "{kueue.x-k8s.io/job-min-parallelism: '2', kueue.x-k8s.io/job-completions-equal-parallelism: 'true'}",
			now:         Size{3, 0, map[string]float64{"cpu": 8}}, submitted: Size{10, 0, map[string]float64{"cpu": 8}}},
		"a Job with parts and one worker": {kind: "Job", spec: "{completions: 5, template: " + podOf("8") + "}", status: "{succeeded: 1}",
			now: Size{1, 0, map[string]float64{"cpu": 8}}, submitted: Size{1, 0, map[string]float64{"cpu": 8}}},
		"a JobSet whose Jobs state no parts": {kind: "JobSet", spec: "{replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 4, template: " + podOf("2") + "}}}]}",
			now: Size{8, 0, map[string]float64{"cpu": 2}}, submitted: Size{8, 0, map[string]float64{"cpu": 2}}},
		"a suspended JobSet": {kind: "JobSet", spec: "{suspend: true, replicatedJobs: [{name: w, replicas: 3, template: {spec: {parallelism: 40, completions: 2, completionMode: Indexed, template: " + podOf("2") + "}}}]}",
			now: Size{6, 0, map[string]float64{"cpu": 2}}, submitted: Size{6, 0, map[string]float64{"cpu": 2}}},
		"a JobSet that Kueue has admitted": {kind: "JobSet", spec: "{replicatedJobs: [{name: w, replicas: 3, template: {spec: {parallelism: 40, completions: 2, template: " + podOf("2") + "}}}]}", queued: &kueue.Workload{Pods: 6, Admitted: true},
			now: Size{6, 0, map[string]float64{"cpu": 2}}, submitted: Size{6, 0, map[string]float64{"cpu": 2}}},
		"a Job with one part left": {kind: "Job", spec: "{parallelism: 4, completions: 5, completionMode: Indexed, template: " + podOf("8") + "}", status: "{succeeded: 4}",
			now: Size{1, 0, map[string]float64{"cpu": 8}}, submitted: Size{4, 0, map[string]float64{"cpu": 8}}},
		"a Job that is done": {kind: "Job", spec: "{parallelism: 4, completions: 5, template: " + podOf("8") + "}", status: "{succeeded: 5}",
			now: Size{1, 0, map[string]float64{"cpu": 8}}, submitted: Size{4, 0, map[string]float64{"cpu": 8}}},
		"a Job without completions": {kind: "Job", spec: "{parallelism: 4, template: " + podOf("8") + "}", status: "{succeeded: 3}",
			now: Size{4, 0, map[string]float64{"cpu": 8}}, submitted: Size{4, 0, map[string]float64{"cpu": 8}}},
		"a Job that says nothing": {kind: "Job", spec: "{template: " + podOf("8") + "}",
			now: Size{1, 0, map[string]float64{"cpu": 8}}, submitted: Size{1, 0, map[string]float64{"cpu": 8}}},
		"a Job that Kueue admitted in part": {kind: "Job", spec: "{parallelism: 3, completions: 20, template: " + podOf("8") + "}", queued: &kueue.Workload{Pods: 10, Admitted: true},
			now: Size{3, 0, map[string]float64{"cpu": 8}}, submitted: Size{10, 0, map[string]float64{"cpu": 8}}},
		"an elastic Job in a queue": {kind: "Job", spec: "{parallelism: 3, completions: 20, template: " + podOf("8") + "}", annotations: "{kueue.x-k8s.io/elastic-job: 'true'}", queued: &kueue.Workload{Pods: 10, Admitted: true},
			now: Size{3, 0, map[string]float64{"cpu": 8}}, submitted: Size{3, 0, map[string]float64{"cpu": 8}}},
		"a Deployment": {kind: "Deployment", spec: "{replicas: 3, template: " + podOf("2") + "}",
			now: Size{3, 0, map[string]float64{"cpu": 2}}, submitted: Size{3, 0, map[string]float64{"cpu": 2}}},
		"a Deployment that is held": {kind: "Deployment", spec: "{replicas: 0, template: " + podOf("2") + "}", annotations: "{lull.dev/workers: '3'}",
			now: Size{3, 0, map[string]float64{"cpu": 2}}, submitted: Size{3, 0, map[string]float64{"cpu": 2}}},
		"a JobSet": {kind: "JobSet", spec: "{replicatedJobs: [{name: driver, template: {spec: {template: " + podOf("2") + "}}}, {name: w, replicas: 2, template: {spec: {parallelism: 40, completions: 2, template: " + podOf("2") + "}}}]}",
			now: Size{5, 0, map[string]float64{"cpu": 2}}, submitted: Size{5, 0, map[string]float64{"cpu": 2}}},
		"an AppWrapper": {kind: "AppWrapper", spec: "{components: [{template: {kind: Job, spec: {parallelism: 40, completions: 2, template: " + podOf("2") + "}}}, {template: {kind: JobSet, spec: {replicatedJobs: [{replicas: 2, template: {spec: {parallelism: 7, completions: 1, template: " + podOf("2") + "}}}]}}}]}",
			now: Size{4, 0, map[string]float64{"cpu": 2}}, submitted: Size{4, 0, map[string]float64{"cpu": 2}}},
		"an MPIJob": {kind: "MPIJob", spec: "{mpiReplicaSpecs: {Launcher: {template: " + podOf("2") + "}, Worker: {replicas: 4, template: " + podOf("8") + "}}}",
			now: Size{4, 1, map[string]float64{"cpu": 8.5}}, submitted: Size{4, 1, map[string]float64{"cpu": 8.5}}},
		"a PyTorchJob of a master alone": {kind: "PyTorchJob", spec: "{pytorchReplicaSpecs: {Master: {replicas: 1, template: " + podOf("8") + "}}}",
			now: Size{1, 0, map[string]float64{"cpu": 8}}, submitted: Size{1, 0, map[string]float64{"cpu": 8}}},
		"a Pod": {kind: "Pod", spec: "{containers: [{name: c, resources: {requests: {cpu: 3}}}]}",
			now: Size{1, 0, map[string]float64{"cpu": 3}}, submitted: Size{1, 0, map[string]float64{"cpu": 3}}},
	} {
		spec, status, annotations := tc.spec, tc.status, tc.annotations
		if status == "" {
			status = "{}"
		}
		if annotations == "" {
			annotations = "{}"
		}
		w := read(t, tc.kind, "{metadata: {name: a, annotations: "+annotations+"}, spec: "+spec+", status: "+status+"}")
		w.Queued = tc.queued
		for what, x := range map[string]struct{ got, want Size }{"now": {w.Size(), tc.now}, "as submitted": {w.SizeAsSubmitted(), tc.submitted}} {
			if x.got.Workers != x.want.Workers || x.got.Others != x.want.Others || !maps.Equal(x.got.Request, x.want.Request) {
				t.Errorf("%s, %s: %+v, want %+v", name, what, x.got, x.want)
			}
		}
		// The plan counts the same: all of it asks for what its workers ask for together.
		if got, want := w.whole()["cpu"], float64(tc.now.Workers)*tc.now.Request["cpu"]; got != want {
			t.Errorf("%s: the plan counts %v CPUs, want %v", name, got, want)
		}
	}
	pod := func(name, phase string) string {
		return "{metadata: {name: " + name + ", labels: {lull.dev/pod-group: g}}, spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}, status: {phase: " + phase + "}}"
	}
	w := read(t, "Pod", pod("a", "Succeeded"), pod("b", "Running"), pod("c", "Running"))
	if now, as := w.Size(), w.SizeAsSubmitted(); now.Workers != 2 || now.Request["cpu"] != 3 || as.Workers != 3 || as.Request["cpu"] != 3 {
		t.Errorf("a group of Pods, one of which is done: %+v; as submitted %+v", now, as)
	}
	w = read(t, "Pod", pod("a", "Succeeded"), pod("b", "Succeeded"))
	if as := w.SizeAsSubmitted(); as.Workers != 2 || as.Request["cpu"] != 3 {
		t.Errorf("a group of Pods that is done: as submitted %+v", as)
	}
}
