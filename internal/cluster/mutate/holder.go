package mutate

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/internal/cluster/kinds"
)

// Holder decides how objects of a kind are created: held or not, and by which CarbonPolicy. It evaluates the admission policy of the
// kind, the one that Lull installs where the API server evaluates it.
type Holder struct{ policy *Policy }

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
	return &Holder{compiled}, nil
}

// Patch returns what is to be changed of an object that is created in a namespace, given all CarbonPolicies of that namespace: nil for
// nothing. Their order does not matter. An error is that of one or several policies, which then count as absent; the
// patch is that of the others. If ctx ends, the patch is nil. No argument is changed.
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
