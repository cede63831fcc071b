package kinds

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// TestManifestsParse: what is generated for every kind is YAML with the objects it should be.
func TestManifestsParse(t *testing.T) {
	for _, k := range Builtin() {
		kinds := map[string]int{}
		for _, doc := range strings.Split(k.Manifests(), "\n---\n") {
			var obj struct{ Kind string }
			if err := yaml.Unmarshal([]byte(doc), &obj); err != nil {
				t.Fatalf("%s: %v\n%s", k.Name, err, doc)
			}
			kinds[obj.Kind]++
		}
		further := 0 // what a dry run takes
		if k.probed() {
			further = 1
		}
		if len(kinds) != 5 || kinds["ClusterRole"] != 1+further || kinds["MutatingAdmissionPolicy"] != 1 || kinds["MutatingAdmissionPolicyBinding"] != 1 ||
			kinds["ValidatingAdmissionPolicy"] != 1+further || kinds["ValidatingAdmissionPolicyBinding"] != 1+further {
			t.Errorf("%s: %v", k.Name, kinds)
		}
	}
}

// TestQuietObjectSaysThatNothingRuns: the status of each kind that goes through queues is made to say that nothing runs, once.
func TestQuietObjectSaysThatNothingRuns(t *testing.T) {
	busy := map[string]string{
		"Job":        `{"active": 2, "ready": 1, "succeeded": 3}`,
		"JobSet":     `{"replicatedJobsStatus": [{"name": "w", "active": 2}]}`,
		"TrainJob":   `{"jobsStatus": [{"name": "n", "active": 1}]}`,
		"MPIJob":     `{"replicaStatuses": {"Worker": {"active": 2}}}`,
		"PyTorchJob": `{"replicaStatuses": {"Worker": {"active": 2}}}`,
		"RayJob":     `{"jobDeploymentStatus": "Running"}`,
		"AppWrapper": `{"conditions": [{"type": "QuotaReserved", "status": "True"}]}`,
	}
	of, err := Named(DefaultNames)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range of {
		text, known := busy[k.Name]
		if !known {
			t.Errorf("%s: no busy status in this test", k.Name)
			continue
		}
		var status map[string]any
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			t.Fatal(err)
		}
		obj := map[string]any{"status": status}
		patch := k.Quieten(obj)
		if len(patch) == 0 {
			t.Errorf("%s: %s is taken for idle", k.Name, text)
			continue
		}
		body, err := json.Marshal(map[string]any{"status": patch})
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		after, err := jsonpatch.MergePatch(before, body)
		if err != nil {
			t.Fatal(err)
		}
		var quiet map[string]any
		if err := json.Unmarshal(after, &quiet); err != nil {
			t.Fatal(err)
		}
		if again := k.Quieten(quiet); again != nil {
			t.Errorf("%s: %s still needs %v", k.Name, after, again)
		}
		if k.Name == "Job" && !strings.Contains(string(after), `"succeeded":3`) {
			t.Errorf("what is done is lost: %s", after)
		}
		if none := k.Quieten(map[string]any{}); k.Name != "RayJob" && none != nil {
			t.Errorf("%s: no status needs %v", k.Name, none)
		}
	}
	if _, err := Parse([]byte("apiVersion: lull.dev/v1alpha1\nkind: WorkloadKind\nmetadata: {name: x}\nspec: {version: v1, kind: X, resource: xs, hold: {suspend: spec.suspend}, idle: [1]}")); err == nil {
		t.Error("a list is taken for fields of the status")
	}
}

// further is a WorkloadKind of a group and kind, by name.
func further(t *testing.T, name, group, kind string) *Kind {
	t.Helper()
	k, err := New(name, &v1alpha1.WorkloadKindSpec{Group: group, Version: "v1", Kind: kind, Resource: strings.ToLower(kind) + "s", Hold: v1alpha1.HoldSpec{Suspend: "spec.suspend"}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKindsByGroup: a kind of another group does not replace a built-in one of the same name, and gets
// another name. Of two kinds with one name the second is refused, by an error that names both.
func TestKindsByGroup(t *testing.T) {
	volcano, mine := further(t, "volcano", "batch.volcano.sh", "Job"), further(t, "mine", "batch", "Job")
	podGroup := further(t, "podgroups", "scheduling.volcano.sh", "PodGroup")
	all, refused := With([]*Kind{volcano, mine, further(t, "again", "batch", "Job"), further(t, "a", "x.dev", "Train"), further(t, "b", "y.dev", "Train"), podGroup})
	byName := map[string]*Kind{}
	for _, k := range all {
		if byName[k.Name] != nil {
			t.Errorf("two kinds are called %s", k.Name)
		}
		byName[k.Name] = k
	}
	if len(all) != len(Builtin())+3 {
		t.Errorf("%d kinds", len(all))
	}
	if byName["Job"] != mine || byName["Job.batch.volcano.sh"] != volcano || byName["PodGroup.scheduling.volcano.sh"] != podGroup || byName["Train"].From != "a" {
		t.Errorf("kinds by name: %v", byName)
	}
	if len(refused) != 2 || !errors.Is(refused["again"], ErrKind) || !strings.Contains(refused["again"].Error(), `"mine"`) || !strings.Contains(refused["b"].Error(), "Train.x.dev") {
		t.Errorf("refused: %v", refused)
	}
	for _, k := range Builtin() {
		if group, ok := builtinGroups[k.Spec.Kind]; !ok || group != k.Spec.Group || k.Name != k.Spec.Kind {
			t.Errorf("%s: built in as %s, group %q known %v", k.GroupKind(), k.Name, group, ok)
		}
	}
}

// TestPathsInTemplates: what Prune takes out of the objects in memory can be neither read nor patched, so
// no field of a kind may stand there.
func TestPathsInTemplates(t *testing.T) {
	spec := func(suspend v1alpha1.Path) *v1alpha1.WorkloadKindSpec {
		return &v1alpha1.WorkloadKindSpec{
			Group: "x.dev", Version: "v1", Kind: "Thing", Resource: "things", Hold: v1alpha1.HoldSpec{Suspend: suspend},
			Workers: &v1alpha1.WorkersSpec{Replicas: "spec.replicas", Template: "spec.template"},
			Pods:    []v1alpha1.PodsSpec{{Each: "spec.groups[*]", Template: "template"}},
		}
	}
	for suspend, accepted := range map[v1alpha1.Path]bool{
		"spec.suspend": true, "spec.template.suspend": true, "spec.templates.spec.suspend": true,
		"spec.template.spec.suspend": false, "spec.template.metadata.annotations['x.dev/suspend']": false, "spec.template": false,
		"spec.template.spec.nodeSelector.suspend": false, "spec.groups[0].template.spec.suspend": false, "spec.groups[0].suspend": true,
	} {
		k, err := New("things", spec(suspend))
		if accepted != (err == nil) {
			t.Errorf("%s: %v", suspend, err)
			continue
		}
		if !accepted {
			if !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), string(suspend)) {
				t.Errorf("%s: %v", suspend, err)
			}
			continue
		}
		obj := object(t, `{metadata: {name: a}, spec: {replicas: 1, template: {spec: {nodeSelector: {a: b}}}, groups: [{template: {spec: {}}}]}}`)
		k.suspend.put(obj, true)
		k.Prune(obj)
		if !k.Read(obj).Suspended {
			t.Errorf("%s: pruned it reads not suspended", suspend)
		}
	}
}

// TestPatchOverwritesNoMap: the API server refuses a patch that would replace a map which its author has not
// seen.
func TestPatchOverwritesNoMap(t *testing.T) {
	k, err := New("things", &v1alpha1.WorkloadKindSpec{Group: "x.dev", Version: "v1", Kind: "Thing", Resource: "things", Hold: v1alpha1.HoldSpec{Suspend: "spec.policy.suspend"}})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPatch(object(t, `{metadata: {name: a, resourceVersion: "1"}, spec: {}}`))
	k.Hold(p)
	p.Annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused)
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	for there, fits := range map[string]bool{
		`{"metadata": {"resourceVersion": "1"}, "spec": {}}`:                                    true,
		`{"metadata": {"resourceVersion": "1"}, "spec": {"policy": {"mine": 1}}}`:               false,
		`{"metadata": {"resourceVersion": "1", "annotations": {"mine": "1"}}, "spec": {}}`:      false,
		`{"metadata": {"resourceVersion": "1", "annotations": null}, "spec": {"policy": null}}`: true,
	} {
		if _, err := patch.Apply([]byte(there)); (err == nil) != fits {
			t.Errorf("%s on %s: %v", text, there, err)
		}
	}
}

// TestCachesKeepOnlyAnnotationsInUse: caches keep the annotations that Lull reads, cut where they are absurd, and never
// take the map of annotations for absent.
func TestCachesKeepOnlyAnnotationsInUse(t *testing.T) {
	job, long := named(t, "Job"), strings.Repeat("1h", 120_000)
	obj := object(t, samples["Job"].text)
	obj["metadata"].(map[string]any)["annotations"] = map[string]any{
		v1alpha1.AnnotationMaxDelay: long, v1alpha1.AnnotationProgressQuery: long, v1alpha1.AnnotationDecision: long, "lull.dev/other": long, "mine": long, v1alpha1.AnnotationRuntime: "2h",
	}
	job.Prune(obj)
	text, err := json.Marshal(obj)
	if err != nil || len(text) > 16_384 {
		t.Errorf("keeps %d bytes, %v", len(text), err)
	}
	for name, want := range map[string]int{v1alpha1.AnnotationMaxDelay: maxValue + 1, v1alpha1.AnnotationProgressQuery: maxList + 1, v1alpha1.AnnotationDecision: maxDecision + 1, "lull.dev/other": 0, "mine": 0, v1alpha1.AnnotationRuntime: 2} {
		value := annotation(obj, name)
		if len(value) != want || TooLong(name, value) != (want > 2) {
			t.Errorf("%s: %d bytes, want %d; too long: %v", name, len(value), want, TooLong(name, value))
		}
	}
	obj["metadata"].(map[string]any)["annotations"] = map[string]any{"mine": "x"}
	job.Prune(obj)
	if a, ok := obj["metadata"].(map[string]any)["annotations"].(map[string]any); !ok || len(a) != 0 {
		t.Errorf("annotations are %v, want an empty map", a)
	}
	k, err := New("x", &v1alpha1.WorkloadKindSpec{Version: "v1", Kind: "X", Resource: "xs", Hold: v1alpha1.HoldSpec{Suspend: "spec.suspend"}, PodLabels: map[string]v1alpha1.Path{"x": "metadata.annotations['x.dev/name']"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := k.Trimmed(map[string]string{"x.dev/name": "a", "mine": "x"}); len(got) != 1 || got["x.dev/name"] != "a" {
		t.Errorf("keeps %v of what the kind reads", got)
	}
}

// TestTimeLimitsAreReadOfEachKind: how long a run may take is read where the kinds that end one by force state it, and is in all caches.
func TestTimeLimitsAreReadOfEachKind(t *testing.T) {
	for name, spec := range map[string]string{
		"Job": `{activeDeadlineSeconds: 90, template: {}}`, "Pod": `{activeDeadlineSeconds: 90, schedulingGates: [{name: lull.dev/hold}]}`, "RayJob": `{activeDeadlineSeconds: 90}`, "TrainJob": `{activeDeadlineSeconds: 90}`,
		"MPIJob": `{runPolicy: {activeDeadlineSeconds: 90, backoffLimit: 1}}`, "PyTorchJob": `{runPolicy: {activeDeadlineSeconds: 90}}`,
		"Deployment": `{activeDeadlineSeconds: 90}`, // has none
	} {
		k, want := named(t, name), 90*time.Second
		if name == "Deployment" {
			want = 0
		}
		obj := object(t, `{metadata: {name: a, annotations: {lull.dev/hold: admission}}, spec: `+spec+`}`)
		kept := k.Holds(obj)
		if got := k.Read(obj).Limit; got != want || k.Read(kept).Limit != want {
			t.Errorf("%s: %v, to the watchdog %v, want %v", name, got, k.Read(kept).Limit, want)
		}
		k.Prune(obj)
		if got := k.Read(obj).Limit; got != want {
			t.Errorf("%s: pruned %v, want %v", name, got, want)
		}
	}
	for seconds, want := range map[string]time.Duration{"-5": 0, "0": 0, "9223372036854775807": 0, `"5"`: 0, "31536000": 365 * 24 * time.Hour} {
		if got := named(t, "Job").Read(object(t, `{metadata: {name: a}, spec: {activeDeadlineSeconds: `+seconds+`}}`)).Limit; got != want {
			t.Errorf("%s: %v, want %v", seconds, got, want)
		}
	}
}
