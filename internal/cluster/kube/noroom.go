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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
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

// hasRoom reports whether the object of a queue has room for a record and a change, by a dry run. Kueue evicts an object as soon as its Workload is
// inactive: if the object could not state that, Lull would have to resume it at once, and evict it again and again. If the dry run fails for another
// reason, so does the write that follows.
func (ap *Applier) hasRoom(ctx context.Context, w *Workload, rec Record, change func(*kinds.Patch)) (bool, error) {
	patch, err := rec.patch(w.Objects[0], change)
	if err != nil {
		return false, err
	}
	_, err = ap.send(ctx, w, w.Objects[0], patch, client.DryRunAll)
	return !NoRoom(err), nil
}

// releasable returns the workload as its release must find it: an object in a queue with the whole list of its gates (the cache keeps only the beginning of
// a long one), and a suspended Job without the time of its start.
func (ap *Applier) releasable(ctx context.Context, w *Workload) (*Workload, error) {
	if w.Facts.Queue != "" && kinds.TooLong(kueue.AnnotationGates, w.Annotations()[kueue.AnnotationGates]) {
		live, err := Fetch(ctx, ap.Client, w.Kind, client.ObjectKeyFromObject(w.Objects[0]))
		if err != nil {
			return nil, err
		}
		w = live
	}
	return ap.forgetStart(ctx, w)
}

// releaseWithoutRecord releases an object on which no decision can be written, and reports whether it did. It only removes annotations of the object. Lull
// cannot hold what cannot state its latest start. An object that Lull does not hold stays as it is. The policy continues to govern the object, so the ledger
// records what it runs. The caller makes its Workload of Kueue active.
func (ap *Applier) releaseWithoutRecord(ctx context.Context, w *Workload, o *unstructured.Unstructured) (bool, error) {
	if !w.holds(o) {
		return false, nil
	}
	if len(w.Objects) == 1 {
		fresh, err := ap.releasable(ctx, w)
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
	return true, nil
}
