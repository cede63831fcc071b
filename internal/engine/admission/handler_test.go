package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/mutate"
)

// holding is a handler that knows Jobs, and one CarbonPolicy in namespace team.
func holding(t *testing.T) *handler {
	t.Helper()
	of, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := mutate.NewHolder(of[0], kinds.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	by := holders{schema.GroupResource{Group: "batch", Resource: "jobs"}: holder{h, of[0]}}
	policy := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "clean", "namespace": "team"}, "spec": map[string]any{"zone": "de", "criticalPriorityClasses": []any{"urgent"}},
	}}
	out, err := newHandler(kinds.DefaultNamespace, func() holders { return by }, func(_ context.Context, namespace string) ([]*unstructured.Unstructured, error) {
		switch namespace {
		case "team", "kube-system", kinds.DefaultNamespace:
			return []*unstructured.Unstructured{policy}, nil
		case "broken":
			return nil, errors.New("no cache")
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out.slots = make(chan struct{}, 2)
	return out
}

// review is a request about a Job.
func review(change func(*admissionv1.AdmissionRequest)) []byte {
	r := &admissionv1.AdmissionRequest{
		UID: "u1", Operation: admissionv1.Create, Namespace: "team", Resource: metav1.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
		Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"x","namespace":"team"},"spec":{"parallelism":2}}`)},
	}
	if change != nil {
		change(r)
	}
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: r})
	if err != nil {
		panic(err)
	}
	return text
}

func ask(h http.Handler, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path+"?timeout=2s", bytes.NewReader(body)))
	return w
}

// TestAdmissionAllowsEveryObject: whatever is asked, the object is allowed, and patched only if it is to be held.
func TestAdmissionAllowsEveryObject(t *testing.T) {
	h := holding(t)
	with := func(object string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(object) }
	}
	for name, c := range map[string]struct {
		change func(*admissionv1.AdmissionRequest)
		patch  string
	}{
		"a Job":             {nil, `"value":"admission"`},
		"a critical one":    {with(`{"metadata":{},"spec":{"template":{"spec":{"priorityClassName":"urgent"}}}}`), `"value":"clean"`},
		"one of a user":     {with(`{"metadata":{},"spec":{"suspend":true}}`), ""},
		"another namespace": {func(r *admissionv1.AdmissionRequest) { r.Namespace = "other" }, ""},
		"kube-system":       {func(r *admissionv1.AdmissionRequest) { r.Namespace = "kube-system" }, ""},
		"kube-system, by govern-by": {func(r *admissionv1.AdmissionRequest) {
			r.Namespace = "kube-system"
			with(`{"metadata":{"annotations":{"lull.dev/govern-by":"clean"}},"spec":{}}`)(r)
		}, ""},
		"Lull's own namespace":       {func(r *admissionv1.AdmissionRequest) { r.Namespace = kinds.DefaultNamespace }, ""},
		"an update":                  {func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, ""},
		"a subresource":              {func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }, ""},
		"a kind that is not held":    {func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "cronjobs" }, ""},
		"no namespace":               {func(r *admissionv1.AdmissionRequest) { r.Namespace = "" }, ""},
		"no object":                  {func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }, ""},
		"a list":                     {with(`[1]`), ""},
		"no metadata":                {with(`{"spec":{}}`), ""},
		"metadata of another type":   {with(`{"metadata":"x","spec":{}}`), ""},
		"a specification of another": {with(`{"metadata":{},"spec":[]}`), ""},
		"no policies to be had":      {func(r *admissionv1.AdmissionRequest) { r.Namespace = "broken" }, ""},
	} {
		w := ask(h, review(c.change))
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || got.Response == nil || !got.Response.Allowed || got.Response.UID != "u1" || got.APIVersion != "admission.k8s.io/v1" || got.Kind != "AdmissionReview" {
			t.Errorf("%s: %d %s, %v", name, w.Code, w.Body, err)
			continue
		}
		patch := string(got.Response.Patch)
		if (patch == "") != (c.patch == "") || !strings.Contains(patch, c.patch) || (patch == "") != (got.Response.PatchType == nil) {
			t.Errorf("%s: patch %s, want %s", name, patch, c.patch)
		}
	}
}

// TestRequestsThatAreNoReviewsAreRefused: what is no AdmissionReview gets an error that says what is accepted.
func TestRequestsThatAreNoReviewsAreRefused(t *testing.T) {
	h := holding(t)
	for name, c := range map[string]struct {
		method, path string
		body         []byte
		status       int
		says         string
	}{
		"GET":          {http.MethodGet, Path, nil, http.StatusMethodNotAllowed, "accepted: POST"},
		"another path": {http.MethodPost, "/", review(nil), http.StatusNotFound, "accepted: /hold"},
		"no JSON":      {http.MethodPost, Path, []byte("x"), http.StatusBadRequest, "accepted: an AdmissionReview"},
		"empty":        {http.MethodPost, Path, nil, http.StatusBadRequest, "accepted: an AdmissionReview"},
		"v1beta1":      {http.MethodPost, Path, []byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}`), http.StatusBadRequest, "admission.k8s.io/v1 with a request"},
		"no request":   {http.MethodPost, Path, []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), http.StatusBadRequest, "request set: false"},
		"too large":    {http.MethodPost, Path, bytes.Repeat([]byte(" "), maxBody+1), http.StatusRequestEntityTooLarge, "more than 4194304 bytes"},
		"deep":         {http.MethodPost, Path, bytes.Repeat([]byte("["), 1<<20), http.StatusBadRequest, "accepted: an AdmissionReview"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, bytes.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s; want %d %s", name, w.Code, w.Body, c.status, c.says)
		}
	}
}

// TestSlotsAreBounded: more requests at the same time than there are slots wait, and end with their time.
func TestSlotsAreBounded(t *testing.T) {
	h := holding(t)
	for range cap(h.slots) {
		h.slots <- struct{}{}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path+"?timeout=10ms", bytes.NewReader(review(nil))))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	<-h.slots
	if w := ask(h, review(nil)); w.Code != http.StatusOK || len(h.slots) != cap(h.slots)-1 {
		t.Errorf("%d; %d slots taken", w.Code, len(h.slots))
	}
}

func TestTimeout(t *testing.T) {
	for query, want := range map[string]time.Duration{"": mostTime, "?timeout=1s": time.Second, "?timeout=30s": mostTime, "?timeout=-1s": mostTime, "?timeout=x": mostTime} {
		if got := timeoutOf(httptest.NewRequest(http.MethodPost, Path+query, nil)); got != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	if pointer := "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AnnotationHold, "/", "~1"); pointer != holdPointer {
		t.Errorf("the annotation that marks a hold is at %s", pointer)
	}
}

// counting counts how often CarbonPolicies are evaluated.
type counting struct {
	patcher
	times int
}

func (c *counting) Patch(ctx context.Context, namespace string, object map[string]any, policies []*unstructured.Unstructured) ([]mutate.Operation, error) {
	c.times++
	return c.patcher.Patch(ctx, namespace, object, policies)
}

// TestFailedPolicyIsEvaluatedOnce: a CarbonPolicy that fails whatever the object is costs one evaluation of a request, and the others of its namespace still hold. Only if a patch
// does not fit is the whole object evaluated: that patch changes what no expression reads.
func TestFailedPolicyIsEvaluatedOnce(t *testing.T) {
	of, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	job, err := mutate.NewHolder(of[0], kinds.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	policy := func(name string, criticalPriorityClasses any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name, "namespace": "team"}, "spec": map[string]any{"zone": "de", "criticalPriorityClasses": criticalPriorityClasses},
		}}
	}
	for name, c := range map[string]struct {
		policies []*unstructured.Unstructured
		object   string
		times    int
		held     bool
	}{
		"none fails":             {[]*unstructured.Unstructured{policy("b", []any{"urgent"})}, `{"metadata":{},"spec":{"parallelism":2}}`, 1, true},
		"one fails":              {[]*unstructured.Unstructured{policy("a", int64(1))}, `{"metadata":{},"spec":{"parallelism":2}}`, 1, false},
		"another one holds":      {[]*unstructured.Unstructured{policy("a", int64(1)), policy("b", []any{"urgent"})}, `{"metadata":{},"spec":{"parallelism":2}}`, 1, true},
		"a patch does not fit":   {[]*unstructured.Unstructured{policy("b", []any{"urgent"})}, `{"metadata":{}}`, 2, false},
		"what cannot be decoded": {[]*unstructured.Unstructured{policy("b", []any{"urgent"})}, `[1]`, 0, false},
	} {
		count := &counting{patcher: job}
		h, err := newHandler(kinds.DefaultNamespace, func() holders {
			return holders{schema.GroupResource{Group: "batch", Resource: "jobs"}: holder{count, of[0]}}
		}, func(context.Context, string) ([]*unstructured.Unstructured, error) { return c.policies, nil })
		if err != nil {
			t.Fatal(err)
		}
		w := ask(h, review(func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(c.object) }))
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !got.Response.Allowed {
			t.Fatalf("%s: %s, %v", name, w.Body, err)
		}
		if held := strings.Contains(string(got.Response.Patch), "suspend"); count.times != c.times || held != c.held {
			t.Errorf("%s: evaluated %d times, want %d; patch %s", name, count.times, c.times, got.Response.Patch)
		}
	}
}

// FuzzHandler: no body makes the handler panic or refuse an object.
func FuzzHandler(f *testing.F) {
	f.Add(review(nil))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"operation":"CREATE","namespace":"team","resource":{"group":"batch","resource":"jobs"},"object":{"metadata":{"annotations":{"lull.dev/policy":1}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := ask(holding(t), body)
		if w.Code == http.StatusOK && !strings.Contains(w.Body.String(), `"allowed":true`) {
			t.Errorf("%s", w.Body)
		}
	})
}

// TestSaysThatItHolds: of a dry run of the controller lull admission says that it has held it; an object that is really created, and one that is not held, it
// does not mark so.
func TestSaysThatItHolds(t *testing.T) {
	h, yes := holding(t), true
	const probe = `{"metadata":{"annotations":{"lull.dev/probe":"true"}},"spec":{"parallelism":2}}`
	for name, c := range map[string]struct {
		change func(*admissionv1.AdmissionRequest)
		said   bool
	}{
		"a dry run": {func(r *admissionv1.AdmissionRequest) { r.Object.Raw, r.DryRun = []byte(probe), &yes }, true},
		"no probe":  {func(r *admissionv1.AdmissionRequest) { r.DryRun = &yes }, false},
		"created":   {func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(probe) }, false},
		"not held": {func(r *admissionv1.AdmissionRequest) {
			r.Object.Raw, r.DryRun, r.Namespace = []byte(probe), &yes, "other"
		}, false},
	} {
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(ask(h, review(c.change)).Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(string(got.Response.Patch), `"/metadata/annotations/lull.dev~1probe","value":"webhook"`); said != c.said {
			t.Errorf("%s: %s", name, got.Response.Patch)
		}
	}
}
