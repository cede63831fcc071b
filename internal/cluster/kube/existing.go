package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/decide"
)

// CodeMissedAdmission is the reason for what is done with a workload that a policy would have held at creation, and nobody did.
const CodeMissedAdmission decide.Code = "MissedAdmission"

// VerbHold suspends a workload that nobody held at creation.
const VerbHold decide.Verb = "Hold"

// Begun says why a workload counts as started, given pods of its namespace; "" if nothing of it has started: no pod of it has been on a node, and no
// part of it has ended. A workload that was suspended before and runs now was released by its user, and counts as started.
func Begun(w *Workload, pods []corev1.Pod) string {
	if w.Facts.Finished {
		return "it has ended"
	}
	if w.Facts.Done > 0 {
		return "parts of it are done"
	}
	for _, o := range w.Objects {
		status, _ := o.Object["status"].(map[string]any)
		if why := startedBy("status", status); why != "" {
			return why
		}
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			c, _ := c.(map[string]any)
			switch c["type"] {
			case "Suspended":
				return "it has been suspended and resumed"
			case "Running", "Restarting": // also if it is False now
				return fmt.Sprintf("it has a condition %s", c["type"])
			}
		}
		if o.GetGeneration() > 1 { // as by its user who has resumed it: not every kind has a condition for that
			return "its spec has been changed since its creation"
		}
	}
	index := newPodIndex([]*Workload{w})
	var own []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		_, ours := index.of(pod)
		if !ours { // an operator may create pods without a controller: in doubt they are of the workload, which is left alone then
			_, ours = index.labelled(pod)
		}
		if !ours {
			continue
		}
		own = append(own, pod)
		if pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" {
			return "its pod " + pod.Name + " has been on a node"
		}
	}
	if len(w.head().podLabels) == 0 && (w.Facts.Active || !w.Facts.Started.IsZero()) {
		return "its pods are not known, and its status says that it is active"
	}
	return replaced(w, own)
}

// promptly is how long after the start of a workload its first pods are created.
const promptly = 10 * time.Second

// replaced says why pods of a workload may have run and been replaced without a trace in its status; "" if they have not. The status of a Job counts each pod that
// fails or is evicted, except under a rule of podFailurePolicy with the action Ignore. No other kind does: the status of a JobSet counts Jobs, and operators of Kubeflow and Ray replace a pod that is
// deleted. What is left are the pods: one that took the place of another is created later, and until then one is missing. Whether one is missing is only asked
// where failures are ignored, as others make their pods one after another.
func replaced(w *Workload, own []*corev1.Pod) string {
	rule := "its status does not count pods, and "
	job := w.Kind.GroupKind() == (schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"})
	ignores := ignoresFailures(w.Objects)
	switch {
	case ignores:
		rule = "its podFailurePolicy ignores failures, and "
	case job:
		return ""
	}
	began := w.Facts.Started
	if began.IsZero() {
		began = w.Created()
	}
	for _, pod := range own {
		for _, a := range []string{batchv1.JobIndexIgnoredFailureCountAnnotation, batchv1.JobIndexFailureCountAnnotation} {
			if n := pod.Annotations[a]; n != "" && n != "0" {
				return fmt.Sprintf("its pod %s replaces another: annotation %s is %s", pod.Name, a, clippedTo(n, 20))
			}
		}
		if late := pod.CreationTimestamp.Sub(began); late > promptly {
			return fmt.Sprintf("%sits pod %s was created %v after its start: it may replace one that ran", rule, pod.Name, late.Round(time.Second))
		}
	}
	if ignores && (!w.Facts.Started.IsZero() || !job && (w.Facts.Active || len(own) > 0)) {
		if asked := podsAtOnce(w); len(own) < asked {
			return fmt.Sprintf("%s%d of its %d pods exist: others may have run", rule, len(own), asked)
		}
	}
	return ""
}

// ignoresFailures reports whether a podFailurePolicy, at any depth in the spec, has a rule with the action Ignore.
func ignoresFailures(objects []*unstructured.Unstructured) bool {
	var in func(part any) bool
	in = func(part any) bool {
		switch part := part.(type) {
		case map[string]any:
			if policy, is := part["podFailurePolicy"].(map[string]any); is {
				rules, _ := policy["rules"].([]any)
				for _, r := range rules {
					if r, _ := r.(map[string]any); r["action"] == string(batchv1.PodFailurePolicyActionIgnore) {
						return true
					}
				}
			}
			for _, v := range part {
				if in(v) {
					return true
				}
			}
		case []any:
			return slices.ContainsFunc(part, in)
		}
		return false
	}
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return in(o.Object["spec"]) })
}

// podsAtOnce is how many pods a workload that has begun has, before any of them ends.
func podsAtOnce(w *Workload) int { return w.SizeAsSubmitted().Pods() }

// clippedTo is a text of others, so long at most.
func clippedTo(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// counts are the numbers in the status of some kind, at any depth, that tell of more than pods that wait.
var counts = []string{"ready", "succeeded", "failed", "terminating", "restarts", "retries"}

// startedBy names the first of counts in a part of a status that is above 0; "" for none.
func startedBy(at string, part any) string {
	switch part := part.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(part)) {
			inside := at + "." + field
			if n := fmt.Sprint(part[field]); slices.Contains(counts, field) && isNumber(part[field]) && n != "0" {
				return inside + " is " + n
			}
			if list, _ := part[field].([]any); field == "succeeded" && len(list) > 0 || field == "failed" && len(list) > 0 {
				return inside + " names pods" // status.uncountedTerminatedPods of a Job
			}
			if why := startedBy(inside, part[field]); why != "" {
				return why
			}
		}
	case []any:
		for i := range part {
			if why := startedBy(fmt.Sprintf("%s[%d]", at, i), part[i]); why != "" {
				return why
			}
		}
	}
	return ""
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// CanHold says why a workload cannot be suspended once it exists; "" if it can. Pods cannot be gated then, and what has replicas but no
// field to suspend it has started some of them.
func CanHold(w *Workload) string {
	switch {
	case w.Kind.Spec.Hold.Suspend == "":
		return fmt.Sprintf("an existing %s cannot be suspended", w.Kind.Name)
	case w.Facts.Queue != "":
		return "it waits in a queue of Kueue"
	}
	return ""
}

// MissedMessage says that a workload is left alone that a policy would have held at creation, and why.
func MissedMessage(policy *v1alpha1.CarbonPolicy, why string) string {
	return fmt.Sprintf("it should have been held at creation by CarbonPolicy %s, but was not, and Lull leaves it alone: %s", policy.Name, why)
}

// NotAsked is why it is left alone if its policy does not ask for more.
const NotAsked = "spec.holdExisting of the policy is Never; with Unstarted, Lull suspends workloads that have not started"

// NotBound is why it is left alone if nothing is to hold its kind at creation.
const NotBound = "no admission policy or webhook holds its kind at creation"

// PodsOf lists the pods of which some may be a workload's: by its labels, or all of its namespace.
func PodsOf(ctx context.Context, reader client.Reader, w *Workload) ([]corev1.Pod, error) {
	options := []client.ListOption{client.InNamespace(w.Namespace())}
	if labels := w.head().podLabels; len(labels) > 0 {
		options = append(options, client.MatchingLabels(labels))
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, options...); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", describe(w), err)
	}
	return pods.Items, nil
}

// HoldExisting suspends a workload that was not held at creation, as if its policy had held it then. latest is its latest safe start (wall time,
// RFC 3339), for the watchdog. The write fails with a conflict if the object has changed since it was read.
func (ap *Applier) HoldExisting(ctx context.Context, w *Workload, policy *v1alpha1.CarbonPolicy, latest string) error {
	for _, o := range w.Objects {
		patch := kinds.NewPatch(o.Object)
		patch.Annotate(v1alpha1.AnnotationPolicy, policy.Name)
		patch.Annotate(v1alpha1.AnnotationHold, v1alpha1.HoldAdmission)
		patch.Annotate(v1alpha1.AnnotationLatestStart, latest)
		w.Kind.Hold(patch)
		target, err := ap.send(ctx, w, o, patch)
		if err != nil {
			return err
		}
		if !ap.Events.records(string(VerbHold), corev1.EventTypeNormal) {
			continue
		}
		ap.Recorder.Eventf(target, nil, corev1.EventTypeNormal, string(VerbHold), string(CodeMissedAdmission),
			"it was not held at creation, and nothing of it has started: Lull suspends it now, as spec.holdExisting of CarbonPolicy %s asks", policy.Name)
	}
	return nil
}

// RecordMissed records an Event that says why a workload is left alone.
func (ap *Applier) RecordMissed(w *Workload, policy *v1alpha1.CarbonPolicy, why string) {
	if ap.Events.records("NotHeld", corev1.EventTypeNormal) {
		ap.Recorder.Eventf(w.Objects[0], nil, corev1.EventTypeNormal, "NotHeld", string(CodeMissedAdmission), "%s", MissedMessage(policy, why))
	}
}

// forgetStart takes the time of its start off a Job that ran before and is suspended, so that it can be resumed: see kinds.Kind.KeepsStart. It returns the workload as it is
// then. If the API server refuses the change, the Job is resumed all the same: only a conflict, or a Job that is gone, is an error.
func (ap *Applier) forgetStart(ctx context.Context, w *Workload) (*Workload, error) {
	if !w.Kind.KeepsStart() || w.Facts.Started.IsZero() || !w.Facts.Suspended || w.Facts.Finished || w.Facts.Queue != "" {
		return w, nil
	}
	o := w.Objects[0]
	target := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.Kind.GVK().GroupVersion().String(), "kind": w.Kind.Spec.Kind,
		"metadata": map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()},
	}}
	patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":{"startTime":null}}`, o.GetResourceVersion())
	switch err := ap.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch))); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s: %w", describe(w), err)
	case err != nil:
		return w, nil //nolint:nilerr // resumed all the same
	}
	out := NewWorkload(w.Kind, target)
	out.Next = w.Next
	return out, nil
}
