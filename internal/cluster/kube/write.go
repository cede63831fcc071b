package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// maxMessage bounds the message of a record: caches keep records of a bounded length.
const maxMessage = 2048

// write patches the objects with the record and the change, and records a normal Event
// once the API server has taken it. It releases an object that has no room for the record.
func (ap *Applier) write(ctx context.Context, w *Workload, rec Record, event string, change func(*kinds.Patch)) (bool, error) {
	wrote, bare, err := ap.writeEach(ctx, w, rec, event, corev1.EventTypeNormal, change)
	if err == nil && bare {
		err = ap.unpark(ctx, w)
	}
	return wrote, err
}

// writeEach is write without a change of a Workload of Kueue. bare says that it has released an object without the record.
func (ap *Applier) writeEach(ctx context.Context, w *Workload, rec Record, reason, eventType string, change func(*kinds.Patch)) (wrote, bare bool, err error) {
	var first *unstructured.Unstructured
	for _, o := range w.Objects {
		patch, err := rec.patch(o, change)
		if err != nil {
			return false, false, err
		}
		target, err := ap.send(ctx, w, o, patch)
		switch {
		case NoRoom(err): // the other Pods of a group go on
			released, err := ap.releaseWithoutRecord(ctx, w, o)
			if err != nil {
				return false, false, err
			}
			bare = bare || released
		case err != nil:
			return false, false, err
		case first == nil:
			first = target
		}
	}
	if first != nil && ap.Events.records(reason, eventType) {
		ap.Recorder.Eventf(first, nil, eventType, reason, string(rec.Reason), "%s", rec.Message)
	}
	return bare || first != nil, bare, nil
}

// patch returns the patch of an object that states the record and makes the change; nil for none.
func (rec Record) patch(o *unstructured.Unstructured, change func(*kinds.Patch)) (*kinds.Patch, error) {
	if len(rec.Message) > maxMessage {
		rec.Message = rec.Message[:maxMessage] + "..."
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	patch := kinds.NewPatch(o.Object)
	patch.Annotate(v1alpha1.AnnotationDecision, string(text))
	if change != nil {
		change(patch)
	}
	return patch, nil
}

// ScaleTo changes the number of workers of an object, for those who measure how it scales.
func (ap *Applier) ScaleTo(ctx context.Context, w *Workload, workers int) error {
	patch := kinds.NewPatch(w.Objects[0].Object)
	w.Kind.Scale(patch, workers)
	if patch.Empty() {
		return nil
	}
	_, err := ap.send(ctx, w, w.Objects[0], patch)
	return err
}

// send sends a patch of one object of a workload, and returns the object as it is then.
func (ap *Applier) send(ctx context.Context, w *Workload, o *unstructured.Unstructured, patch *kinds.Patch, options ...client.PatchOption) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	target := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.Kind.GVK().GroupVersion().String(), "kind": w.Kind.Spec.Kind,
		"metadata": map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()},
	}}
	if err := ap.Client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, body), options...); err != nil {
		return nil, fmt.Errorf("%s: %w", describe(w), err)
	}
	return target, nil
}
