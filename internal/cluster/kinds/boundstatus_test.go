package kinds

import (
	"encoding/json"
	"testing"
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
