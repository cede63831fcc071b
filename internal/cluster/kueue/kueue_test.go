package kueue

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// dispatched is a Workload as Kueue v0.19.2 wrote it on a hub, shortened.
const dispatched = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: job-a-e911a
  namespace: team
  uid: w-1
  resourceVersion: "275"
  creationTimestamp: "2026-11-22T09:18:52Z"
  labels: {kueue.x-k8s.io/job-uid: j-1}
  annotations: {lull.dev/hold: paused}
  ownerReferences:
  - {apiVersion: batch/v1, kind: Job, name: a, uid: j-1, controller: true}
spec:
  active: false
  queueName: lab
  podSets:
  - {name: main, count: 2, template: {spec: {containers: [{name: a}]}}}
  - {name: extra, count: 1, template: {spec: {containers: [{name: b}]}}}
status:
  clusterName: spoke-1
  conditions:
  - {type: QuotaReserved, status: "True", reason: QuotaReserved, message: "", lastTransitionTime: "2026-11-22T09:19:00Z"}
  - {type: Admitted, status: "True", reason: Admitted, message: "", lastTransitionTime: "2026-11-22T09:19:01Z"}
  - {type: Evicted, status: "True", reason: Deactivated, message: "", lastTransitionTime: "2026-11-22T09:20:01Z"}
  admissionChecks:
  - {name: multikueue, state: Ready, message: "", lastTransitionTime: "2026-11-22T09:19:01Z"}
  admission:
    clusterQueue: lab
    podSetAssignments:
    - {name: main, count: 2, flavors: {cpu: default}, resourceUsage: {cpu: "3", nvidia.com/gpu: "2"}}
    - {name: extra, count: 1, flavors: {cpu: default}, resourceUsage: {cpu: 500m}}
`

func TestRead(t *testing.T) {
	w, err := Read(object(t, dispatched))
	if err != nil {
		t.Fatal(err)
	}
	if w.Namespace != "team" || w.Name != "job-a-e911a" || w.Queue != "lab" || w.Active || w.Gated || !w.Reserved || !w.Admitted || !w.Evicted || w.Finished || w.OfHub || w.Pods != 3 || w.Replaces {
		t.Errorf("read %+v", w)
	}
	if w.Cluster != "spoke-1" || w.Checks["multikueue"] != "Ready" || len(w.OwnedBy) != 1 || w.OwnedBy[0].UID != "j-1" {
		t.Errorf("read %+v", w)
	}
	if want := map[string]float64{"cpu": 3.5, "nvidia.com/gpu": 2}; !reflect.DeepEqual(w.Usage, want) {
		t.Errorf("usage %v, want %v", w.Usage, want)
	}
	gated := object(t, `{metadata: {name: g, labels: {kueue.x-k8s.io/multikueue-origin: multikueue}}, status: {conditions: [{type: QuotaReserved, status: "False", reason: AdmissionGated}]}}`)
	w, err = Read(gated)
	if err != nil || !w.Active || !w.Considered || !w.Gated || w.Reserved || !w.OfHub {
		t.Errorf("a gated one: %+v, %v", w, err)
	}
	if _, err := Read(object(t, `{metadata: {name: g}, spec: {active: "yes"}}`)); !errors.Is(err, ErrObject) {
		t.Errorf("a broken one: %v", err)
	}
}

func TestAfter(t *testing.T) {
	old, young := Workload{}, Workload{}
	old.Created = old.Created.AddDate(2026, 0, 0)
	young.Created = old.Created.AddDate(0, 0, 1)
	if !young.After(&old) || old.After(&young) {
		t.Error("the younger slice takes the place of the older")
	}
	young.Finished = true
	if young.After(&old) || !old.After(&young) {
		t.Error("a slice that has ended takes nobody's place")
	}
}

func TestQuota(t *testing.T) {
	text := `
metadata: {name: q}
spec:
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: a
      resources: [{name: cpu, nominalQuota: 8, borrowingLimit: 2}, {name: memory, nominalQuota: 1Gi}]
    - name: b
      resources: [{name: cpu, nominalQuota: 500m}, {name: memory, nominalQuota: 0}]
`
	got, err := Quota(object(t, text))
	if want := map[string]float64{"cpu": 10.5, "memory": 1 << 30}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("quota %v, %v; want %v", got, err, want)
	}
	got, err = Quota(object(t, text+"  stopPolicy: Hold\n"))
	if err != nil || got["cpu"] != 0 || got["memory"] != 0 {
		t.Errorf("quota of a stopped queue: %v, %v", got, err)
	}
	if _, err := Quota(object(t, `{metadata: {name: q}, spec: {resourceGroups: 3}}`)); !errors.Is(err, ErrObject) {
		t.Errorf("a broken one: %v", err)
	}
}

func TestGates(t *testing.T) {
	for _, c := range []struct{ value, gate, want string }{
		{"", "a/b", ""}, {"a/b", "a/b", ""}, {"x/y, a/b", "a/b", "x/y"}, {"x/y,a/b,z/w", "a/b", "x/y,z/w"}, {"x/y", "a/b", "x/y"},
	} {
		if got := Without(c.value, c.gate); got != c.want {
			t.Errorf("%q without %q is %q, want %q", c.value, c.gate, got, c.want)
		}
	}
}

func TestPruneKeepsWhatIsRead(t *testing.T) {
	u := object(t, dispatched)
	before, err := Read(u)
	if err != nil {
		t.Fatal(err)
	}
	Prune(u.Object)
	after, err := Read(u)
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("pruned: %+v, %v; want %+v", after, err, before)
	}
}

// FuzzRead: no object makes the reader panic, and what it reads makes sense.
func FuzzRead(f *testing.F) {
	u := object(f, dispatched)
	text, err := json.Marshal(u.Object)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"status":{"conditions":[{}],"admission":{"podSetAssignments":[{"resourceUsage":{"cpu":"x"}}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		u := &unstructured.Unstructured{}
		if json.Unmarshal(text, &u.Object) != nil || u.Object == nil {
			return
		}
		if w, err := Read(u); err == nil && w.Gated && w.Reserved {
			t.Error("gated and with quota")
		}
		_, _ = Quota(u)
	})
}
