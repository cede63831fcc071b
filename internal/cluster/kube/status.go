package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the status of obj if it differs from that of before, and reports whether it did. It compares them
// as the API server stores them, in JSON: there a time has neither a zone nor a part of a second, and a quantity has one
// form. With options such as MergeFromWithOptimisticLock the API server may refuse the patch.
func PatchStatus(ctx context.Context, c client.StatusClient, obj, before client.Object, options ...client.MergeFromOption) (wrote bool, err error) {
	data, err := client.MergeFrom(before).Data(obj)
	if err != nil {
		return false, fmt.Errorf("compare the status of %s: %w", obj.GetName(), err)
	}
	var differs struct {
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(data, &differs); err != nil {
		return false, fmt.Errorf("compare the status of %s: %w", obj.GetName(), err)
	}
	if differs.Status == nil {
		return false, nil
	}
	return true, c.Status().Patch(ctx, obj, client.MergeFromWithOptions(before, options...))
}
