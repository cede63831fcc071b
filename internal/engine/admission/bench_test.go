package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/mutate"
)

// jobReview is what an API server of Kubernetes 1.35 asks about a Job of two containers that kubectl creates.
const jobReview = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"5f2f4c7e-6d61-4c3b-9f0a-5d0c1a6b7e21","kind":{"group":"batch","version":"v1","kind":"Job"},` +
	`"resource":{"group":"batch","version":"v1","resource":"jobs"},"requestKind":{"group":"batch","version":"v1","kind":"Job"},"requestResource":{"group":"batch","version":"v1","resource":"jobs"},` +
	`"name":"train-000123","namespace":"team","operation":"CREATE","userInfo":{"username":"alice@example.com","uid":"1001","groups":["research","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["X509SHA256=0b8c"]}},` +
	`"object":{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"train-000123","generateName":"train-","namespace":"team","uid":"0a6f0c0e-3b5e-4f0e-8a3d-9d5d7f6f5c11","generation":1,"creationTimestamp":"2026-06-01T10:00:00Z",` +
	`"labels":{"app":"train","batch.kubernetes.io/controller-uid":"0a6f0c0e-3b5e-4f0e-8a3d-9d5d7f6f5c11","batch.kubernetes.io/job-name":"train-000123","team":"b"},"annotations":{"lull.dev/max-delay":"20h","lull.dev/length":"2h","note":"the third of \"nine\""},` +
	`"managedFields":[{"manager":"kubectl-create","operation":"Update","apiVersion":"batch/v1","time":"2026-06-01T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:lull.dev/max-delay":{},"f:lull.dev/length":{}},"f:labels":{".":{},"f:app":{},"f:team":{}}},` +
	`"f:spec":{"f:backoffLimit":{},"f:completionMode":{},"f:completions":{},"f:parallelism":{},"f:suspend":{},"f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:command":{},"f:env":{".":{},"k:{\"name\":\"SEED\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{".":{},"f:limits":{},"f:requests":{}},"f:volumeMounts":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}}}}]},` +
	`"spec":{"parallelism":2,"completions":2,"backoffLimit":6,"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"0a6f0c0e-3b5e-4f0e-8a3d-9d5d7f6f5c11"}},"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"train","batch.kubernetes.io/controller-uid":"0a6f0c0e-3b5e-4f0e-8a3d-9d5d7f6f5c11","batch.kubernetes.io/job-name":"train-000123"}},` +
	`"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}},{"name":"tmp","emptyDir":{"sizeLimit":"1Gi"}}],"containers":[{"name":"main","image":"registry.example/train:1.4.2","command":["python","-m","train","--epochs","90"],"env":[{"name":"SEED","value":"123"},{"name":"NODE","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}}],` +
	`"resources":{"limits":{"memory":"16Gi","nvidia.com/gpu":"1"},"requests":{"cpu":"4","memory":"16Gi","nvidia.com/gpu":"1"}},"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"tmp","mountPath":"/tmp"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}},` +
	`{"name":"metrics","image":"registry.example/exporter:2.0","resources":{"requests":{"cpu":"50m","memory":"64Mi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Never","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{"runAsNonRoot":true,"runAsUser":1000},"schedulerName":"default-scheduler"}},` +
	`"completionMode":"NonIndexed","suspend":false,"podReplacementPolicy":"TerminatingOrFailed"},"status":{}},"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-create","fieldValidation":"Strict"}}}`

// BenchmarkHandler is what one request costs without the connection: in a namespace with one CarbonPolicy, with three (one is about the Job), and with
// none that is.
func BenchmarkHandler(b *testing.B) {
	of, err := kinds.Named([]string{"Job"})
	if err != nil {
		b.Fatal(err)
	}
	held, err := mutate.NewHolder(of[0], kinds.DefaultNamespace)
	if err != nil {
		b.Fatal(err)
	}
	by := holders{schema.GroupResource{Group: "batch", Resource: "jobs"}: holder{held, of[0]}}
	policy := func(name, team string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name, "namespace": "team", "labels": map[string]any{}},
			"spec":     map[string]any{"zone": "de", "mode": "Enforce", "via": "Hold", "selector": map[string]any{"matchLabels": map[string]any{"team": team}}, "criticalPriorityClasses": []any{"urgent"}},
		}}
	}
	for _, c := range []struct {
		name     string
		policies []*unstructured.Unstructured
		holds    bool
	}{
		{"policies=1", []*unstructured.Unstructured{policy("b", "b")}, true},
		{"policies=3", []*unstructured.Unstructured{policy("a", "a"), policy("b", "b"), policy("c", "c")}, true},
		{"none", []*unstructured.Unstructured{policy("a", "a")}, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, err := newHandler(kinds.DefaultNamespace, func() holders { return by }, func(context.Context, string) ([]*unstructured.Unstructured, error) { return c.policies, nil })
			if err != nil {
				b.Fatal(err)
			}
			w := ask(h, []byte(jobReview))
			var got struct{ Response struct{ Patch []byte } }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || c.holds != bytes.Contains(got.Response.Patch, []byte("suspend")) {
				b.Fatal(w.Body.String(), err)
			}
			b.ReportAllocs()
			used := cpuTime(b)
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path+"?timeout=2s", bytes.NewReader([]byte(jobReview))))
			}
			b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is the CPU time that the process has used: on a busy machine it says more than the time that passes.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
