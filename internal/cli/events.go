package cli

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventRecorder writes the Events of a command at once: it may end before a queue is empty. After an Event that is forbidden, it
// writes no more: who may release workloads need not be allowed to create Events.
type eventRecorder struct {
	ctx     context.Context //nolint:containedctx // kube.Recorder has none
	client  client.Client
	refused atomic.Bool
}

// mostNote is the longest note that the API server accepts.
const mostNote = 1024

// Eventf implements kube.Recorder.
func (r *eventRecorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	o, ok := regarding.(client.Object)
	if !ok || r.refused.Load() {
		return
	}
	gvk, err := r.client.GroupVersionKindFor(o)
	if err != nil {
		return
	}
	now := time.Now()
	text := fmt.Sprintf(note, args...)
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: fmt.Sprintf("%.200s.%x", o.GetName(), now.UnixNano())},
		EventTime:  metav1.NewMicroTime(now), ReportingController: "lull-cli", ReportingInstance: "lull-cli",
		Action: action, Reason: reason, Type: eventType, Note: strings.ToValidUTF8(text[:min(len(text), mostNote)], ""),
		Regarding: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		},
	}
	if err := r.client.Create(r.ctx, event); apierrors.IsForbidden(err) {
		r.refused.Store(true)
	}
}
