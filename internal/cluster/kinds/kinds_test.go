package kinds

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// object reads YAML as the API server's JSON comes: numbers are int64.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return integers(out).(map[string]any)
}

func integers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = integers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = integers(x[i])
		}
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}

func named(t testing.TB, name string) *Kind {
	t.Helper()
	k, err := Named([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return k[0]
}

const template = `{spec: {priorityClassName: low, containers: [{name: c, image: x, env: [{name: A, value: b}], resources: {requests: {cpu: 500m, memory: 1Gi}}}]}}`

// samples are objects of every built-in kind, running with three workers where they scale.
var samples = map[string]struct {
	text                string
	workers             int
	cpu, fixed          float64
	labels              map[string]string
	suspendedPath       string
	elastic, ends, gate bool
}{
	"Job": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {parallelism: 3, completions: 8, template: ` + template + `}, status: {active: 3, succeeded: 2, startTime: "2026-03-01T10:00:00Z"}}`,
		workers: 3, cpu: 0.5, labels: map[string]string{"batch.kubernetes.io/job-name": "a"}, suspendedPath: "/spec/suspend", elastic: true, ends: true},
	"JobSet": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {replicatedJobs: [{name: d, template: {spec: {template: ` + template + `}}}, {name: w, replicas: 2, template: {spec: {parallelism: 3, template: ` + template + `}}}]}}`,
		cpu: 3.5, labels: map[string]string{"jobset.sigs.k8s.io/jobset-name": "a"}, suspendedPath: "/spec/suspend", ends: true},
	"MPIJob": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {mpiReplicaSpecs: {Launcher: {replicas: 1, template: ` + template + `}, Worker: {replicas: 3, template: ` + template + `}}}, status: {conditions: [{type: Running, status: "True"}]}}`,
		workers: 3, cpu: 0.5, fixed: 0.5, labels: map[string]string{"training.kubeflow.org/job-name": "a"}, suspendedPath: "/spec/runPolicy/suspend", elastic: true, ends: true},
	"PyTorchJob": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {pytorchReplicaSpecs: {Master: {template: ` + template + `}, Worker: {replicas: 3, template: ` + template + `}}}}`,
		workers: 3, cpu: 0.5, fixed: 0.5, labels: map[string]string{"training.kubeflow.org/job-name": "a"}, suspendedPath: "/spec/runPolicy/suspend", elastic: true, ends: true},
	"TrainJob": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {trainer: {numNodes: 3, resourcesPerNode: {requests: {cpu: 2}}}}}`,
		workers: 3, cpu: 2, labels: map[string]string{"jobset.sigs.k8s.io/jobset-name": "a"}, suspendedPath: "/spec/suspend", ends: true},
	"AppWrapper": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {components: [{template: {kind: Job, spec: {parallelism: 3, template: ` + template + `}}}, {template: {kind: PyTorchJob, spec: {pytorchReplicaSpecs: {Master: {template: ` + template + `}, Worker: {replicas: 2, template: ` + template + `}}}}}, {template: {kind: RayCluster, spec: {headGroupSpec: {template: ` + template + `}, workerGroupSpecs: [{replicas: 2, template: ` + template + `}]}}}]}, status: {phase: Running}}`,
		cpu: 4.5, labels: map[string]string{"workload.codeflare.dev/appwrapper": "a"}, suspendedPath: "/spec/suspend", ends: true},
	"RayJob": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {rayClusterSpec: {headGroupSpec: {template: ` + template + `}, workerGroupSpecs: [{replicas: 3, template: ` + template + `}]}}, status: {rayClusterName: a-x}}`,
		workers: 3, cpu: 0.5, fixed: 0.5, labels: map[string]string{"ray.io/cluster": "a-x"}, suspendedPath: "/spec/suspend", elastic: true, ends: true},
	"RayCluster": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {headGroupSpec: {template: ` + template + `}, workerGroupSpecs: [{replicas: 3, template: ` + template + `}]}}`,
		workers: 3, cpu: 0.5, fixed: 0.5, labels: map[string]string{"ray.io/cluster": "a"}, suspendedPath: "/spec/suspend", elastic: true},
	"Deployment": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {replicas: 3, template: ` + template + `}, status: {replicas: 3}}`,
		workers: 3, cpu: 0.5, labels: map[string]string{}, elastic: true},
	"Pod": {text: `{metadata: {name: a, namespace: n, resourceVersion: "7"}, spec: {schedulingGates: [{name: other}, {name: lull.dev/hold}], priorityClassName: low, containers: [{name: c, image: x, resources: {requests: {cpu: 500m}}}]}}`,
		cpu: 0.5, labels: map[string]string{}, ends: true, gate: true},
}

func TestEveryBuiltinKind(t *testing.T) {
	for _, k := range Builtin() {
		s, ok := samples[k.Name]
		if !ok {
			t.Errorf("%s: no sample", k.Name)
			continue
		}
		obj := object(t, s.text)
		before := k.Read(obj)
		k.Prune(obj)
		f := k.Read(obj)
		if !reflect.DeepEqual(before, f) {
			t.Errorf("%s: pruned it reads %+v, before %+v", k.Name, f, before)
		}
		if text, err := json.Marshal(obj); err != nil || strings.Contains(string(text), "env") && k.Name != "Pod" {
			t.Errorf("%s: pruned it still holds %s", k.Name, text)
		}
		if f.Workers != s.workers || f.Request["cpu"] != s.cpu || f.Fixed["cpu"] != s.fixed || f.Finished || f.Suspended != s.gate {
			t.Errorf("%s: facts %+v", k.Name, f)
		}
		if k.Elastic() != s.elastic || k.Ends() != s.ends || k.Pausable() == s.gate {
			t.Errorf("%s: elastic %v, ends %v, pausable %v", k.Name, k.Elastic(), k.Ends(), k.Pausable())
		}
		if got := k.PodLabels(obj); !reflect.DeepEqual(got, s.labels) {
			t.Errorf("%s: pod labels %v, want %v", k.Name, got, s.labels)
		}
		if k.Name != "TrainJob" && k.Name != "JobSet" && f.PriorityClass != "low" {
			t.Errorf("%s: priority class %q", k.Name, f.PriorityClass)
		}
		roundTrip(t, k, obj)
	}
}

// roundTrip holds, releases and scales an object with the patches, applied as the API server
// applies them.
func roundTrip(t *testing.T, k *Kind, obj map[string]any) {
	t.Helper()
	if k.Pausable() {
		p := NewPatch(obj)
		p.Annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused)
		k.Hold(p)
		obj = applied(t, p, obj)
		if f := k.Read(obj); !f.Suspended || annotation(obj, v1alpha1.AnnotationHold) != v1alpha1.HoldPaused {
			t.Errorf("%s: held it reads %+v", k.Name, f)
		}
	}
	p := NewPatch(obj)
	p.Annotate(v1alpha1.AnnotationHold, "")
	workers := 0
	if k.Elastic() {
		workers = 5
	}
	k.Release(p, workers)
	obj = applied(t, p, obj)
	f := k.Read(obj)
	if f.Suspended || f.Workers != samples[k.Name].workers && f.Workers != 5 || k.Elastic() && f.Workers != 5 {
		t.Errorf("%s: released it reads %+v", k.Name, f)
	}
	if annotation(obj, v1alpha1.AnnotationHold) != "" {
		t.Errorf("%s: released it still carries the hold", k.Name)
	}
	p = NewPatch(obj)
	k.Scale(p, f.Workers)
	if !p.Empty() {
		t.Errorf("%s: scaling to what it has changes it", k.Name)
	}
}

func applied(t *testing.T, p *Patch, obj map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	before, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		t.Fatalf("%s on %s: %v", text, before, err)
	}
	return object(t, string(after))
}

// TestPodsAtATime: a Job within another object runs no more pods at a time than it has parts.
func TestPodsAtATime(t *testing.T) {
	job := func(spec string) string { return "{" + spec + ", template: " + template + "}" }
	for name, tc := range map[string]struct {
		kind, spec string
		cpu        float64 // 0.5 a pod
		pods       int
	}{
		"fewer parts than workers":         {"JobSet", "{replicatedJobs: [{template: {spec: " + job("parallelism: 40, completions: 2") + "}}]}", 1, 2},
		"fewer parts, of several replicas": {"JobSet", "{replicatedJobs: [{replicas: 3, template: {spec: " + job("parallelism: 40, completions: 2, completionMode: Indexed") + "}}]}", 3, 6},
		"more parts than workers":          {"JobSet", "{replicatedJobs: [{replicas: 3, template: {spec: " + job("parallelism: 2, completions: 40") + "}}]}", 3, 6},
		"no parts":                         {"JobSet", "{replicatedJobs: [{template: {spec: " + job("parallelism: 4") + "}}]}", 2, 4},
		"no workers":                       {"JobSet", "{replicatedJobs: [{template: {spec: " + job("completions: 4") + "}}]}", 0.5, 1},
		"no replicas":                      {"JobSet", "{replicatedJobs: [{replicas: 0, template: {spec: " + job("parallelism: 4") + "}}]}", 0, 0},
		"suspended":                        {"JobSet", "{suspend: true, replicatedJobs: [{template: {spec: " + job("suspend: true, parallelism: 40, completions: 2") + "}}]}", 1, 2},
		"a Job in an AppWrapper":           {"AppWrapper", "{components: [{template: {kind: Job, spec: " + job("parallelism: 40, completions: 2") + "}}]}", 1, 2},
	} {
		var kind *Kind
		for _, k := range Builtin() {
			if k.Name == tc.kind {
				kind = k
			}
		}
		if f := kind.Read(object(t, "{metadata: {name: a}, spec: "+tc.spec+"}")); f.Request["cpu"] != tc.cpu || f.Pods != tc.pods {
			t.Errorf("%s: %d pods ask for %v CPUs, want %d, %v", name, f.Pods, f.Request["cpu"], tc.pods, tc.cpu)
		}
	}
}

// TestCompletionsFollowWorkersWhereStated: completions follow workers only where the object says so.
func TestCompletionsFollowWorkersWhereStated(t *testing.T) {
	k := named(t, "Job")
	for annotations, want := range map[string]int64{`{}`: 3, `{lull.dev/completions-follow-workers: "true"}`: 5} {
		obj := object(t, `{metadata: {name: a, resourceVersion: "1", annotations: `+annotations+`}, spec: {parallelism: 3, completions: 3, completionMode: Indexed, template: `+template+`}}`)
		p := NewPatch(obj)
		k.Scale(p, 5)
		after := applied(t, p, obj)
		if got := after["spec"].(map[string]any)["completions"]; got != want {
			t.Errorf("annotations %s: %v completions, want %d", annotations, got, want)
		}
	}
}

func TestFinished(t *testing.T) {
	for name, status := range map[string]string{
		"Job":        `{conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-03-01T12:00:00Z"}]}`,
		"JobSet":     `{conditions: [{type: Completed, status: "True", lastTransitionTime: "2026-03-01T12:00:00Z"}]}`,
		"MPIJob":     `{completionTime: "2026-03-01T12:00:00Z", conditions: [{type: Succeeded, status: "True"}]}`,
		"PyTorchJob": `{conditions: [{type: Failed, status: "True", lastTransitionTime: "2026-03-01T12:00:00Z"}]}`,
		"TrainJob":   `{conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-03-01T12:00:00Z"}]}`,
		"RayJob":     `{jobDeploymentStatus: Complete, endTime: "2026-03-01T12:00:00Z"}`,
	} {
		f := named(t, name).Read(object(t, `{spec: {}, status: `+status+`}`))
		if !f.Finished || f.Ended.Hour() != 12 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := named(t, "Job").Read(object(t, `{spec: {}, status: {conditions: [{type: Complete, status: "False"}]}}`)); f.Finished {
		t.Error("a condition that is False counts")
	}
}

func TestInvalidKinds(t *testing.T) {
	for change, part := range map[string]func(*v1alpha1.WorkloadKindSpec){
		"spec.hold: 2 ways": func(s *v1alpha1.WorkloadKindSpec) { s.Hold.Zero = true; s.Hold.Suspend = "spec.suspend" },
		"spec.hold: 0 ways": func(s *v1alpha1.WorkloadKindSpec) { s.Hold = v1alpha1.HoldSpec{} },
		"spec.hold.suspend": func(s *v1alpha1.WorkloadKindSpec) { s.Hold.Suspend = "spec..x" },
		"without [*]":       func(s *v1alpha1.WorkloadKindSpec) { s.PriorityClass = "spec.a[*].b" },
		"spec.finished[0]":  func(s *v1alpha1.WorkloadKindSpec) { s.Finished[0].Path = "a" },
		"Pod only":          func(s *v1alpha1.WorkloadKindSpec) { s.Hold = v1alpha1.HoldSpec{Gate: true} },
	} {
		spec := named(t, "Job").Spec.DeepCopy()
		part(spec)
		if _, err := New("x", spec); !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), change) {
			t.Errorf("want %q, got %v", change, err)
		}
	}
	if _, err := Named([]string{"Jobs"}); !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), "JobSet") {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := Parse([]byte("kind: WorkloadKind\nspek: 1\n")); !errors.Is(err, ErrKind) {
		t.Errorf("unknown field: %v", err)
	}
}

func TestPaths(t *testing.T) {
	obj := object(t, `{a: {b: [{c: 1}, {c: 2}], "x/y.z": v}}`)
	for text, want := range map[string]string{
		"a.b[0].c": "[1]", "a.b[*].c": "[1,2]", "a['x/y.z']": `["v"]`, "a.q": "null", "a.b[7].c": "null",
	} {
		p, err := parsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(p.each(obj)); string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	p, err := parsePath("a['x/y.z'].b[3]")
	if err != nil || p.pointer(4) != "/a/x~1y.z/b/3" || p.cel() != "object.?a[?'x/y.z'].?b[?3]" {
		t.Errorf("pointer %s, cel %s, %v", p.pointer(4), p.cel(), err)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"spec.suspend", "a[0].b[*]['c.d']", "[", "a[", "a['", "a..b", "a[-1]", "a['x']y"} {
		f.Add(s)
	}
	obj := object(f, `{a: {b: [{c: 1}, {c: 2}], "x": v}, spec: [1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			if !errors.Is(err, ErrPath) {
				t.Fatal(err)
			}
			return
		}
		p.each(obj)
		p.get(obj)
		p.number(obj, 1)
		if ptr := p.pointer(len(p)); !strings.HasPrefix(ptr, "/") {
			t.Fatal(ptr)
		}
	})
}

// TestReducedObjectIsReleasedLikeTheWhole: what the watchdog keeps of an object reads, and is released, as the object itself is; without a
// mark of Lull only its identity is kept.
func TestReducedObjectIsReleasedLikeTheWhole(t *testing.T) {
	for _, k := range Builtin() {
		obj := object(t, samples[k.Name].text)
		if free := k.Holds(obj); len(free) != 3 || len(free["metadata"].(map[string]any)) != 3 {
			t.Errorf("%s: of an object without marks %v is kept", k.Name, free)
		}
		metadata := obj["metadata"].(map[string]any)
		metadata["annotations"] = map[string]any{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: "admission", v1alpha1.AnnotationDecision: "{}", "mine": "x"}
		metadata["labels"] = map[string]any{"mine": "x", v1alpha1.LabelGroup: "g"}
		if k.Pausable() {
			p := NewPatch(obj)
			k.Hold(p)
			obj = applied(t, p, obj)
		}
		kept := k.Holds(obj)
		if text, err := json.Marshal(kept); err != nil || strings.Contains(string(text), "mine") || strings.Contains(string(text), "image") || strings.Contains(string(text), "decision") {
			t.Errorf("%s: holds %s", k.Name, text)
		}
		if !k.Read(kept).Suspended {
			t.Errorf("%s: %v reads not suspended", k.Name, kept)
		}
		p, q := NewPatch(obj), NewPatch(kept)
		for _, x := range []*Patch{p, q} {
			k.Release(x, 0)
			x.Annotate(v1alpha1.AnnotationHold, "")
		}
		if a, b := applied(t, p, obj), applied(t, q, obj); !reflect.DeepEqual(a, b) || k.Read(b).Suspended {
			t.Errorf("%s: released to\n%v, by what is kept of it to\n%v", k.Name, a, b)
		}
	}
	job := named(t, "Job")
	for text, want := range map[string]bool{`conditions: [{type: Complete, status: "True", message: x}]`: true, `conditions: [{type: Complete, status: "False"}]`: false, `active: 1`: false} {
		kept := job.Holds(object(t, `{metadata: {name: a, annotations: {lull.dev/hold: paused}}, spec: {}, status: {`+text+`}}`))
		if job.Read(kept).Finished != want {
			t.Errorf("%s: finished %v", text, !want)
		}
	}
}
