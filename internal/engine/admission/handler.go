package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/mutate"
)

// Path is where API servers ask.
const Path = "/hold"

const (
	// maxBody bounds a request, in bytes. An object of more than 1.5 MB cannot be stored.
	maxBody = 4 << 20
	// atOnce bounds the requests that are read and answered at the same time.
	atOnce = 32
	// mostTime is how long an answer may take if the API server states nothing shorter.
	mostTime = 2 * time.Second
)

// What came of a request, as the metrics call it.
const (
	outcomeHeld, outcomeMarked, outcomeUnchanged, outcomeFailed, outcomeCleared = "held", "marked", "unchanged", "failed", "cleared"
)

// holders are what decides for each kind, by what API servers call it.
type holders map[schema.GroupResource]holder

type holder struct {
	*mutate.Holder
	kind *kinds.Kind
}

// handler answers API servers.
type handler struct {
	namespace string // Lull's own
	holders   func() holders
	// policies returns the CarbonPolicies of a namespace, which must not be changed.
	policies func(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error)
	slots    chan struct{}
	// nominations clears those of Workloads of Kueue.
	nominations *mutate.Policy
}

func newHandler(namespace string, of func() holders, policies func(ctx context.Context, namespace string) ([]*unstructured.Unstructured, error)) (*handler, error) {
	policy, err := kinds.NominationsPolicy()
	if err != nil {
		return nil, err
	}
	compiled, err := mutate.Compile(policy)
	if err != nil {
		return nil, err
	}
	return &handler{namespace: namespace, holders: of, policies: policies, slots: make(chan struct{}, atOnce), nominations: compiled}, nil
}

// ServeHTTP implements http.Handler. It never refuses an object: what it cannot decide is created as its user wrote it.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != Path {
		http.Error(w, "accepted: "+Path, http.StatusNotFound)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "accepted: POST", http.StatusMethodNotAllowed)
		return
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(r))
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		http.Error(w, "too many requests at the same time", http.StatusServiceUnavailable)
		return
	}
	request, status, err := read(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	patch, kind, outcome, err := h.answer(ctx, request)
	if err != nil { // Kueue tries again
		metrics.AdmissionRequests.WithLabelValues(kind, outcome).Inc()
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	if len(patch) > 0 {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		if response.Patch, err = json.Marshal(patch); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		response.PatchType = &jsonPatch
	}
	metrics.AdmissionRequests.WithLabelValues(kind, outcome).Inc()
	metrics.AdmissionSeconds.Observe(time.Since(begin).Seconds())
	w.Header().Set("Content-Type", "application/json")
	answer := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: response}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.FromContext(ctx).V(1).Info("Answer the API server", "error", err.Error())
	}
}

// timeoutOf is how long the API server waits for an answer.
func timeoutOf(r *http.Request) time.Duration {
	if d, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && d > 0 {
		return min(d, mostTime)
	}
	return mostTime
}

// read reads the request of an AdmissionReview. The error says what is accepted, and comes with a status of HTTP.
func read(body io.Reader) (*admissionv1.AdmissionRequest, int, error) {
	text, err := io.ReadAll(body)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("body: more than %d bytes", large.Limit)
	} else if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("body: %w", err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("body: %w; accepted: an AdmissionReview", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "AdmissionReview" || review.Request == nil {
		return nil, http.StatusBadRequest, fmt.Errorf("body: apiVersion %.80q, kind %.80q, request set: %t; accepted: AdmissionReview of %s with a request", review.APIVersion, review.Kind, review.Request != nil, want)
	}
	return review.Request, 0, nil
}

// answer decides about a new object (decide), or clears the nominations of a Workload whose status is updated (clear). Only clear returns an error.
func (h *handler) answer(ctx context.Context, r *admissionv1.AdmissionRequest) (patch []mutate.Operation, kind, outcome string, err error) {
	if (schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}) == kinds.NominatedResource {
		patch, outcome, err = h.clear(ctx, r)
		return patch, "Workload", outcome, err
	}
	patch, kind, outcome = h.decide(ctx, r)
	return patch, kind, outcome, nil
}

// clear returns what is to be changed of a Workload whose status is updated.
func (h *handler) clear(ctx context.Context, r *admissionv1.AdmissionRequest) ([]mutate.Operation, string, error) {
	if r.Operation != admissionv1.Update || r.SubResource != "status" {
		return nil, outcomeUnchanged, nil
	}
	var object, old map[string]any
	if err := errors.Join(utiljson.Unmarshal(r.Object.Raw, &object), utiljson.Unmarshal(r.OldObject.Raw, &old)); err != nil {
		return nil, outcomeFailed, fmt.Errorf("request.object, oldObject: %w; accepted: objects in JSON", err)
	}
	patch, _, err := h.nominations.MutateUpdate(ctx, map[string]any{"namespace": r.Namespace, "operation": "UPDATE"}, object, old)
	switch {
	case err != nil:
		return nil, outcomeFailed, err
	case len(patch) == 0:
		return nil, outcomeUnchanged, nil
	}
	return patch, outcomeCleared, nil
}

// decide returns what is to be changed of an object, and for the metrics its kind and what came of it.
func (h *handler) decide(ctx context.Context, r *admissionv1.AdmissionRequest) (patch []mutate.Operation, kind, outcome string) {
	of, known := h.holders()[schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}]
	if !known {
		return nil, "other", outcomeUnchanged
	}
	kind = of.kind.Name
	if r.Operation != admissionv1.Create || r.SubResource != "" || r.Namespace == "" || !kinds.Asked(h.namespace, r.Namespace) {
		return nil, kind, outcomeUnchanged
	}
	failed := func(err error) ([]mutate.Operation, string, string) {
		log.FromContext(ctx).Error(err, "An object is created as its user wrote it", "kind", kind, "namespace", r.Namespace)
		return nil, kind, outcomeFailed
	}
	var object map[string]any
	if err := utiljson.Unmarshal(r.Object.Raw, &object); err != nil {
		return failed(fmt.Errorf("request.object: %w; accepted: an object in JSON", err))
	}
	policies, err := h.policies(ctx, r.Namespace)
	if err != nil {
		return failed(err)
	}
	patch, err = of.Patch(ctx, r.Namespace, object, policies)
	switch {
	case err != nil && len(patch) == 0:
		return failed(err)
	case err != nil:
		log.FromContext(ctx).Error(err, "A CarbonPolicy cannot be evaluated", "kind", kind, "namespace", r.Namespace)
	}
	if o := (&unstructured.Unstructured{Object: object}); len(patch) > 0 && r.DryRun != nil && *r.DryRun && o.GetAnnotations()[v1alpha1.AnnotationProbe] != "" {
		patch = append(patch, mutate.Operation{Op: "add", Path: probePointer, Value: v1alpha1.ProbeWebhook})
	}
	return patch, kind, outcomeOf(patch)
}

// outcomeOf says what a patch does.
func outcomeOf(patch []mutate.Operation) string {
	switch {
	case len(patch) == 0:
		return outcomeUnchanged
	case slices.ContainsFunc(patch, func(o mutate.Operation) bool { return o.Path == holdPointer }):
		return outcomeHeld
	}
	return outcomeMarked
}

// probePointer is the JSON pointer to the annotation by which the controller learns who has held what it creates as a dry run.
const probePointer = "/metadata/annotations/lull.dev~1probe"

// holdPointer is the JSON pointer to the annotation that marks what is held.
const holdPointer = "/metadata/annotations/lull.dev~1hold"
