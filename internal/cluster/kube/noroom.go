package kube

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"lull.dev/lull/internal/cluster/kinds"
)

// NoRoom reports whether the API server has refused a write because the object would be too large: its user's annotations, or the object itself, leave
// no room for Lull's annotations.
func NoRoom(err error) bool {
	if err == nil {
		return false
	}
	// etcd refuses what is larger than it takes; its API server has no reason of its own for that.
	if apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "etcdserver: request is too large") {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field == "metadata.annotations" && c.Type == metav1.CauseType(field.ErrorTypeTooLong) {
			return true
		}
	}
	return false
}

// releaseWithoutRecord releases an object on which no decision can be written, and only removes annotations of it. Lull cannot hold what cannot state its
// latest start. An object that Lull does not hold stays as it is. The policy continues to govern the object, so the ledger records what it runs.
func (ap *Applier) releaseWithoutRecord(ctx context.Context, w *Workload, o *unstructured.Unstructured) (bool, error) {
	if !w.holds(o) {
		return false, nil
	}
	if len(w.Objects) == 1 {
		fresh, err := ap.forgetStart(ctx, w)
		if err != nil {
			return false, err
		}
		o = fresh.Objects[0]
	}
	patch := kinds.NewPatch(o.Object)
	w.Kind.Release(patch, 0)
	clearMarks(patch)
	target, err := ap.send(ctx, w, o, patch)
	if err != nil {
		return false, err
	}
	ap.Recorder.Eventf(target, nil, corev1.EventTypeWarning, string(CodeInvalid), string(CodeInvalid),
		"the annotations or the size of the %s leave no room for Lull's annotations; it runs as if it were not governed. Shorten its annotations.", w.Kind.Name)
	return true, ap.unpark(ctx, w)
}
