package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
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
	patcher
	kind *kinds.Kind
}

// patcher is what a mutate.Holder does.
type patcher interface {
	Decode(text []byte) (map[string]any, error)
	Patch(ctx context.Context, namespace string, object map[string]any, policies []*unstructured.Unstructured) ([]mutate.Operation, error)
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
	buffer := buffers.Get().(*bytes.Buffer)
	defer release(buffer)
	request, status, err := read(http.MaxBytesReader(w, r.Body, maxBody), buffer)
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
	buffer.Reset() // which ends the request
	if err := writeReview(buffer, request.uid, patch); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	metrics.AdmissionRequests.WithLabelValues(kind, outcome).Inc()
	metrics.AdmissionSeconds.Observe(time.Since(begin).Seconds())
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(buffer.Bytes()); err != nil {
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

// answer decides about a new object (decide), or clears the nominations of a Workload whose status is updated (clear). Only clear returns an error.
func (h *handler) answer(ctx context.Context, r *request) (patch []mutate.Operation, kind, outcome string, err error) {
	if r.resource == kinds.NominatedResource {
		patch, outcome, err = h.clear(ctx, r)
		return patch, "Workload", outcome, err
	}
	patch, kind, outcome = h.decide(ctx, r)
	return patch, kind, outcome, nil
}

// clear returns what is to be changed of a Workload whose status is updated.
func (h *handler) clear(ctx context.Context, r *request) ([]mutate.Operation, string, error) {
	if r.operation != string(admissionv1.Update) || r.subResource != "status" {
		return nil, outcomeUnchanged, nil
	}
	var object, old map[string]any
	if err := errors.Join(utiljson.Unmarshal(r.object, &object), utiljson.Unmarshal(r.oldObject, &old)); err != nil {
		return nil, outcomeFailed, fmt.Errorf("request.object, oldObject: %w; accepted: objects in JSON", err)
	}
	patch, _, err := h.nominations.MutateUpdate(ctx, map[string]any{"namespace": r.namespace, "operation": "UPDATE"}, object, old)
	switch {
	case err != nil:
		return nil, outcomeFailed, err
	case len(patch) == 0:
		return nil, outcomeUnchanged, nil
	}
	return patch, outcomeCleared, nil
}

// decide returns what is to be changed of an object, and for the metrics its kind and what came of it.
func (h *handler) decide(ctx context.Context, r *request) (patch []mutate.Operation, kind, outcome string) {
	of, known := h.holders()[r.resource]
	if !known {
		return nil, "other", outcomeUnchanged
	}
	kind = of.kind.Name
	if r.operation != string(admissionv1.Create) || r.subResource != "" || r.namespace == "" || !kinds.Asked(h.namespace, r.namespace) {
		return nil, kind, outcomeUnchanged
	}
	failed := func(err error) ([]mutate.Operation, string, string) {
		log.FromContext(ctx).Error(err, "Failed to change an object: the API server creates it as its user wrote it", "kind", kind, "namespace", r.namespace)
		return nil, kind, outcomeFailed
	}
	policies, err := h.policies(ctx, r.namespace)
	if err != nil {
		return failed(err)
	}
	object, err := of.Decode(r.object)
	whole := err != nil
	if !whole {
		patch, err = of.Patch(ctx, r.namespace, object, policies)
		whole = errors.Is(err, mutate.ErrDoesNotFit) && ctx.Err() == nil // as Decode says. What fails otherwise fails again
	}
	if whole {
		object = nil
		if err := utiljson.Unmarshal(r.object, &object); err != nil {
			return failed(fmt.Errorf("request.object: %w; accepted: an object in JSON", err))
		}
		patch, err = of.Patch(ctx, r.namespace, object, policies)
	}
	switch {
	case err != nil && len(patch) == 0:
		return failed(err)
	case err != nil:
		log.FromContext(ctx).Error(err, "A CarbonPolicy cannot be evaluated", "kind", kind, "namespace", r.namespace)
	}
	if o := (&unstructured.Unstructured{Object: object}); len(patch) > 0 && r.dryRun && o.GetAnnotations()[v1alpha1.AnnotationProbe] != "" {
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
