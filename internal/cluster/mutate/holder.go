package mutate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// Holder decides how objects of a kind are created: held or not, and by which CarbonPolicy. It evaluates the admission policy of the
// kind, the one that Lull installs where the API server evaluates it.
type Holder struct {
	policy *Policy
	reads  fields
}

// NewHolder returns the holder of a kind. own is the namespace of Lull, in which nothing is held. The error wraps ErrPolicy or
// kinds.ErrKind.
func NewHolder(k *kinds.Kind, own string) (*Holder, error) {
	p, err := k.AdmissionPolicy(own)
	if err != nil {
		return nil, err
	}
	compiled, err := Compile(p)
	if err != nil {
		return nil, err
	}
	out := &Holder{policy: compiled}
	out.reads.add([]string{"metadata", "annotations"})
	out.reads.merge(&compiled.reads)
	return out, nil
}

// Decode decodes of an object in JSON what the admission policy reads, and the annotations: for Patch. What Patch returns of it, its error too, is what it returns of the whole object,
// unless the error wraps ErrDoesNotFit: then decode the whole object, as a patch may change what no expression reads. The error is one of JSON.
func (h *Holder) Decode(text []byte) (map[string]any, error) { return decode(text, &h.reads) }

// Patch returns what is to be changed of an object that is created in a namespace, given all CarbonPolicies of that namespace: nil for
// nothing. Their order does not matter. An error is that of one or several policies, which then count as absent; the
// patch is that of the others. It wraps ErrDoesNotFit if the patch of one does not fit. If ctx ends, the patch is nil. No argument is changed.
func (h *Holder) Patch(ctx context.Context, namespace string, object map[string]any, policies []*unstructured.Unstructured) ([]Operation, error) {
	ordered := slices.SortedFunc(slices.Values(policies), func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	request := map[string]any{"namespace": namespace, "operation": "CREATE"}
	var patch []Operation
	var errs []error
	for _, p := range ordered {
		operations, changed, err := h.policy.Mutate(ctx, request, object, p.Object)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		patch, object = append(patch, operations...), changed
	}
	return patch, errors.Join(errs...)
}

// HeldBy returns the CarbonPolicy, of all of a namespace, that would hold an object if it were created there now; nil if none would. Its arguments
// are those of Patch. An error is that of one or several policies, which then count as absent.
func (h *Holder) HeldBy(ctx context.Context, namespace string, object map[string]any, policies []v1alpha1.CarbonPolicy) (*v1alpha1.CarbonPolicy, error) {
	params := make([]*unstructured.Unstructured, len(policies))
	for i := range policies {
		o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&policies[i])
		if err != nil {
			return nil, fmt.Errorf("CarbonPolicy %s: %w", policies[i].Name, err)
		}
		params[i] = &unstructured.Unstructured{Object: o}
	}
	patch, err := h.Patch(ctx, namespace, object, params)
	held, name := false, ""
	for _, o := range patch {
		switch o.Path {
		case policyPointer:
			name, _ = o.Value.(string)
		case holdPointer:
			held = true
		}
	}
	if i := slices.IndexFunc(policies, func(p v1alpha1.CarbonPolicy) bool { return p.Name == name }); held && i >= 0 {
		return &policies[i], err
	}
	return nil, err
}

// The JSON pointers to the annotations that an admission policy writes.
const (
	policyPointer = "/metadata/annotations/lull.dev~1policy"
	holdPointer   = "/metadata/annotations/lull.dev~1hold"
)
