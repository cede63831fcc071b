package admission

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"lull.dev/lull/internal/cluster/kinds"
)

// TestClearsNominations: the nominations of a Workload are cleared when a cluster has taken it, or when it is evicted, and at no other time. What cannot be read is
// an error, so that Kueue tries again.
func TestClearsNominations(t *testing.T) {
	h := holding(t)
	const nominated, cleared = `"nominatedClusterNames":["a","b"]`, `[{"op":"remove","path":"/status/nominatedClusterNames"}]`
	workload := func(status string) []byte { return []byte(`{"metadata":{"name":"x"},"status":{` + status + `}}`) }
	for name, c := range map[string]struct {
		old, now string
		change   func(*admissionv1.AdmissionRequest)
		want     string
	}{
		"taken":             {nominated, nominated + `,"clusterName":"a"`, nil, cleared},
		"taken before":      {nominated + `,"clusterName":"a"`, nominated + `,"clusterName":"a"`, nil, ""},
		"nominated":         {"", nominated, nil, ""},
		"without any":       {"", `"clusterName":"a"`, nil, ""},
		"evicted":           {nominated, nominated + `,"conditions":[{"type":"Evicted","status":"True"}]`, nil, cleared},
		"evicted before":    {nominated + `,"conditions":[{"type":"Evicted","status":"True"}]`, nominated + `,"conditions":[{"type":"Evicted","status":"True"}]`, nil, ""},
		"not evicted":       {nominated, nominated + `,"conditions":[{"type":"Evicted","status":"False"}]`, nil, ""},
		"not of the status": {nominated, nominated + `,"clusterName":"a"`, func(r *admissionv1.AdmissionRequest) { r.SubResource = "" }, ""},
		"a creation":        {nominated, nominated + `,"clusterName":"a"`, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Create }, ""},
	} {
		answer := ask(h, review(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.SubResource = admissionv1.Update, "status"
			r.Resource = metav1.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
			r.Object, r.OldObject = runtime.RawExtension{Raw: workload(c.now)}, runtime.RawExtension{Raw: workload(c.old)}
			if c.change != nil {
				c.change(r)
			}
		}))
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.Response == nil || !got.Response.Allowed {
			t.Fatalf("%s: %d %s, %v", name, answer.Code, answer.Body, err)
		}
		if patch := string(got.Response.Patch); patch != c.want {
			t.Errorf("%s: %s, want %s", name, patch, c.want)
		}
	}
	for _, bad := range []string{"", "[]", `"x"`} {
		answer := ask(h, review(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.SubResource = admissionv1.Update, "status"
			r.Resource = metav1.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
			r.Object = runtime.RawExtension{Raw: workload(nominated)}
			if bad != "" {
				r.OldObject = runtime.RawExtension{Raw: []byte(bad)}
			}
		}))
		if answer.Code != http.StatusInternalServerError || !strings.Contains(answer.Body.String(), "accepted: objects in JSON") {
			t.Errorf("%q: %d %s", bad, answer.Code, answer.Body.String())
		}
	}
}

// TestKeepsNominations: on a hub API servers ask about the status of Workloads too, in all namespaces but those of Kubernetes and of Lull, or in those that
// Lull governs; with or without any CarbonPolicy. Without an answer the update is refused.
func TestKeepsNominations(t *testing.T) {
	for _, c := range []struct {
		namespaces []string
		operator   metav1.LabelSelectorOperator
		values     []string
	}{
		{nil, metav1.LabelSelectorOpNotIn, []string{"kube-system", kinds.DefaultNamespace}},
		{[]string{"a", "b"}, metav1.LabelSelectorOpIn, []string{"a", "b"}},
	} {
		w := newWorld(t)
		k := w.keeper(w.Client, func(o *Options) { o.Nominations, o.Namespaces = true, c.namespaces })
		configuration := w.keep(k)
		if len(configuration.Webhooks) != 1 || len(configured(configuration)) != 0 {
			t.Fatalf("%+v", configuration.Webhooks)
		}
		h := configuration.Webhooks[0]
		in := h.NamespaceSelector.MatchExpressions[0]
		if h.Name != kinds.NominationsName || *h.FailurePolicy != admissionregistrationv1.Fail || h.Rules[0].Resources[0] != "workloads/status" || len(h.MatchConditions) != 2 || in.Operator != c.operator || !slices.Equal(slices.Sorted(slices.Values(in.Values)), c.values) {
			t.Errorf("%+v", h)
		}
		w.policy("a", "x")
		if again := w.keep(k); len(again.Webhooks) != 3 || !slices.Equal(configured(again), []string{"a"}) {
			t.Errorf("%+v", again.Webhooks)
		}
		writes := w.writes
		if w.keep(k); w.writes != writes {
			t.Error("written without need")
		}
	}
}
