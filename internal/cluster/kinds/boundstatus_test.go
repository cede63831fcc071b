package kinds

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"lull.dev/lull/api/v1alpha1"
)

// TestBoundOfStatus: the controller may say in a status that nothing of an object runs, and remove the start of a Job. It may say nothing else there, or it
// could end work that runs.
func TestBoundOfStatus(t *testing.T) {
	request := map[string]any{"operation": "UPDATE", "subResource": "status"}
	for _, k := range Builtin() {
		all, text := bounds(t, k), `{metadata: {name: a}, status: {active: 2, ready: 1, startTime: "2026-01-01T00:00:00Z", conditions: [{type: Running, status: "True"}], replicaStatuses: {Worker: {active: 1}},
			jobsStatus: [{name: j, active: 1}], replicatedJobsStatus: [{name: j, active: 1}], jobDeploymentStatus: Running, other: 1}}`
		old := object(t, text)
		try := func(change map[string]any) bool {
			changed := object(t, text)
			status := changed["status"].(map[string]any)
			for field, value := range change {
				if value == nil {
					delete(status, field)
				} else {
					status[field] = value
				}
			}
			return allowedBy(t, request, all, old, changed)
		}
		if quiet := k.Quieten(old); quiet != nil && !try(quiet) {
			said, _ := json.Marshal(quiet)
			t.Errorf("%s: the controller may not say %s", k.Name, said)
		}
		if got := try(map[string]any{"startTime": nil}); got != k.KeepsStart() {
			t.Errorf("%s: the controller may remove the start: %v", k.Name, got)
		}
		ended := func(name string) []any { return []any{map[string]any{"type": name, "status": "True"}} }
		for name, change := range map[string]map[string]any{
			"failed": {"conditions": ended("Failed")}, "about to fail": {"active": int64(0), "ready": int64(0), "conditions": ended("FailureTarget")}, "complete": {"conditions": ended("Complete"), "completionTime": "2026-01-01T00:00:00Z"},
			"another start": {"startTime": "2020-01-01T00:00:00Z"}, "more runs": {"active": int64(3)}, "failed pods": {"failed": int64(100)}, "a deployment": {"jobDeploymentStatus": "Failed"},
			"replicas": {"replicaStatuses": map[string]any{}}, "anything": {"other": int64(2)},
		} {
			if try(change) {
				t.Errorf("%s: the controller may say: %s", k.Name, name)
			}
		}
	}
}

// TestBoundOfIdle: whatever values the idle status of a WorkloadKind has, the controller may write exactly these.
func TestBoundOfIdle(t *testing.T) {
	request := map[string]any{"operation": "UPDATE", "subResource": "status"}
	const status = `{note: runs, ok: true, ratio: 1.5, count: 7, big: 5, list: [{a: 1}], empty: {a: 1}, replicas: {worker: {active: 2, failed: 1}, head: {active: 1}}, conditions: [x]}`
	for name, x := range map[string]struct {
		idle    string
		refused []string
	}{
		"text":    {`{note: "it's \"quiet\""}`, []string{`{note: other}`, `{note: null}`}},
		"bool":    {`{ok: false}`, []string{`{ok: text}`}},
		"float":   {`{ratio: 0.5}`, []string{`{ratio: 0.25}`}},
		"int":     {`{count: 1000000, big: 30000000000}`, []string{`{count: 1000001}`}},
		"list":    {`{list: [1, a, {b: 2}]}`, []string{`{list: [1, a]}`, `{list: null}`}},
		"no list": {`{list: []}`, []string{`{list: [1]}`}},
		"no map":  {`{new: {}}`, []string{`{new: {a: 1}}`}},
		"nested":  {`{replicas: {worker: {active: 0}, head: null}}`, []string{`{replicas: {worker: {failed: 2}}}`, `{replicas: {worker: {active: 1}}}`, `{replicas: {other: 1}}`, `{replicas: null}`, `{conditions: [y]}`}},
	} {
		spec := v1alpha1.WorkloadKindSpec{Group: "x.y", Version: "v1", Kind: "Z", Resource: "zs", Hold: v1alpha1.HoldSpec{Suspend: "spec.suspend"}}
		raw, err := json.Marshal(object(t, x.idle))
		if err != nil {
			t.Fatal(err)
		}
		spec.Idle = &runtime.RawExtension{Raw: raw}
		k, err := New("zs.x.y", &spec)
		if err != nil {
			t.Fatal(err)
		}
		all, old := bounds(t, k), object(t, "{metadata: {name: a}, status: "+status+"}")
		try := func(change map[string]any) bool {
			changed := object(t, "{metadata: {name: a}, status: "+status+"}")
			merged(changed["status"].(map[string]any), change)
			return allowedBy(t, request, all, old, changed)
		}
		if quiet := k.Quieten(old); quiet == nil || !try(integers(quiet).(map[string]any)) {
			t.Errorf("%s: the controller may not write %v", name, quiet)
		}
		for _, r := range x.refused {
			if try(object(t, r)) {
				t.Errorf("%s: the controller may write %s", name, r)
			}
		}
	}
}

// merged makes a change as a JSON merge patch does.
func merged(at, change map[string]any) {
	for k, v := range change {
		next, isMap := v.(map[string]any)
		switch {
		case v == nil:
			delete(at, k)
		case isMap:
			inner, _ := at[k].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			merged(inner, next)
			at[k] = inner
		default:
			at[k] = v
		}
	}
}
