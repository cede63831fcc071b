package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/internal/cluster/kinds"
)

// TestBegun: a workload has started if a pod of it has been on a node, or if its status tells of more than pods that wait.
func TestBegun(t *testing.T) {
	pod := func(name, of, node string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, OwnerReferences: []metav1.OwnerReference{{UID: "other"}}, Labels: map[string]string{"batch.kubernetes.io/job-name": of, "ray.io/cluster": of}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	waits := pod("p", "x", "", corev1.PodPending)
	for name, tc := range map[string]struct {
		kind   string
		status map[string]any
		pods   []corev1.Pod
		want   string // part of why; "" for not started
	}{
		"nothing yet":            {"Job", nil, nil, ""},
		"its pods wait":          {"Job", map[string]any{"active": int64(1), "startTime": "2026-11-27T00:00:00Z", "ready": int64(0)}, []corev1.Pod{waits}, ""},
		"bound":                  {"Job", map[string]any{"active": int64(1)}, []corev1.Pod{waits, pod("q", "x", "node", corev1.PodPending)}, "its pod q has been on a node"},
		"failed without a node":  {"Job", nil, []corev1.Pod{pod("q", "x", "", corev1.PodFailed)}, "its pod q"},
		"pods of others":         {"Job", nil, []corev1.Pod{pod("q", "y", "node", corev1.PodRunning)}, ""},
		"ready":                  {"Job", map[string]any{"ready": int64(1)}, nil, "status.ready is 1"},
		"failed before":          {"Job", map[string]any{"failed": int64(2)}, nil, "status.failed is 2"},
		"ending":                 {"Job", map[string]any{"terminating": int64(1)}, nil, "status.terminating is 1"},
		"done in part":           {"Job", map[string]any{"succeeded": int64(1)}, nil, "parts of it are done"},
		"ended":                  {"Job", map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}, nil, "it has ended"},
		"resumed":                {"Job", map[string]any{"conditions": []any{map[string]any{"type": "Suspended", "status": "False"}}}, nil, "suspended and resumed"},
		"pods known later":       {"RayJob", nil, nil, ""},
		"pods known, they run":   {"RayJob", map[string]any{"rayClusterName": "x"}, []corev1.Pod{pod("q", "x", "node", corev1.PodRunning)}, "its pod q"},
		"pods known, none bound": {"RayJob", map[string]any{"rayClusterName": "x"}, []corev1.Pod{waits}, ""},
	} {
		named, err := kinds.Named([]string{tc.kind})
		if err != nil {
			t.Fatal(err)
		}
		o := map[string]any{"metadata": map[string]any{"namespace": "n", "name": "x", "uid": "u"}, "spec": map[string]any{"completions": int64(3)}}
		if tc.status != nil {
			o["status"] = tc.status
		}
		why := Begun(NewWorkload(named[0], &unstructured.Unstructured{Object: o}), tc.pods)
		if (why == "") != (tc.want == "") || !strings.Contains(why, tc.want) {
			t.Errorf("%s: %q, want %q", name, why, tc.want)
		}
	}
}
