package kinds

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// Lengths in bytes up to which values of annotations are read.
const (
	maxValue    = 256
	maxList     = 4096
	maxDecision = 8192
	// maxUnknown is how many annotations of Lull's domain that it does not read are kept by name.
	maxUnknown = 4
)

// maxLengths are the annotations that Lull reads, and how long their values may be. Objects of anybody
// stand in the caches: what they hold of each is bounded.
var maxLengths = map[string]int{
	v1alpha1.AnnotationMaxDelay: maxValue, v1alpha1.AnnotationDeadline: maxValue, v1alpha1.AnnotationRuntime: maxValue, v1alpha1.AnnotationRuntimeP95: maxValue,
	v1alpha1.AnnotationInterruptible: maxValue, v1alpha1.AnnotationMinWorkers: maxValue, v1alpha1.AnnotationMaxWorkers: maxValue, v1alpha1.AnnotationProfile: maxValue,
	v1alpha1.AnnotationProgress: maxValue, v1alpha1.AnnotationProgressQuery: maxList, v1alpha1.AnnotationTandem: maxValue, v1alpha1.AnnotationFamily: maxValue,
	v1alpha1.AnnotationClusters: maxList, v1alpha1.AnnotationZones: maxList, v1alpha1.AnnotationMigratable: maxValue, v1alpha1.AnnotationTransferKWh: maxValue,
	v1alpha1.AnnotationGroupSize: maxValue, v1alpha1.AnnotationPolicy: maxValue, v1alpha1.AnnotationHold: maxValue, v1alpha1.AnnotationDecision: maxDecision,
	v1alpha1.AnnotationLatestStart: maxValue, v1alpha1.AnnotationStatedStart: maxValue, v1alpha1.AnnotationRan: maxValue, v1alpha1.AnnotationChanged: maxValue,
	v1alpha1.AnnotationCluster: maxValue, v1alpha1.AnnotationWorkers: maxValue, v1alpha1.AnnotationGovernBy: maxValue, batchv1.CronJobScheduledTimestampAnnotation: maxValue,
	kueue.AnnotationGates: maxList, kueue.AnnotationElastic: maxValue, kueue.AnnotationReplaces: maxList,
}

func init() {
	for _, x := range excluded {
		maxLengths[x.annotation] = maxValue
	}
}

// MaxLength is how long the value of an annotation may be; 0 for one that Lull does not read.
func MaxLength(annotation string) int { return maxLengths[annotation] }

// TooLong reports whether the value of an annotation is longer than Lull reads.
func TooLong(annotation, value string) bool {
	most := maxLengths[annotation]
	return most > 0 && len(value) > most
}

// Trimmed is what a cache keeps of the annotations of an object of a kind, nil for any: those that Lull
// reads, and the names of a few that it does not read though they are in its domain, so that somebody can say so.
// A value that is too long is cut to one that is too long by a byte, so that it is refused all the
// same. The result is never nil: a patch must not take the annotations that it leaves out for absent.
func (k *Kind) Trimmed(annotations map[string]string) map[string]string {
	out := map[string]string{}
	var unknown []string
	for name, value := range annotations {
		most := maxLengths[name]
		if most == 0 && k != nil && k.readsAnnotation(name) {
			most = maxValue
		}
		switch {
		case most == 0:
			if strings.HasPrefix(name, "lull.dev/") {
				unknown = append(unknown, name)
			}
		case len(value) > most:
			out[name] = strings.Clone(value[:most+1])
		default:
			out[name] = value
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown[:min(maxUnknown, len(unknown))] {
		out[name] = ""
	}
	return out
}

// readsAnnotation reports whether a path of the kind leads to an annotation.
func (k *Kind) readsAnnotation(name string) bool {
	for _, p := range k.paths() {
		if rest, inside := p.below(annotationPath(name)); inside && len(rest) == 0 {
			return true
		}
	}
	return false
}

// TrimAnnotations trims those of an object in place.
func (k *Kind) TrimAnnotations(obj map[string]any) {
	metadata, _ := obj["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		return
	}
	text := make(map[string]string, len(annotations))
	for name, value := range annotations {
		text[name], _ = value.(string)
	}
	trimmed := make(map[string]any, len(text))
	for name, value := range k.Trimmed(text) {
		trimmed[name] = value
	}
	metadata["annotations"] = trimmed
}

// TrimMetadata drops the annotations, the labels and the managed fields of an object in a cache, where none of them is read:
// of Lull's own resources, and of what else is cached by its Go type or as CarbonPolicies are stored. Anybody who may
// create such an object may fill them. Write a trimmed object by a patch only: an update would take them from its owner.
func TrimMetadata(o metav1.Object) {
	o.SetAnnotations(nil)
	o.SetLabels(nil)
	o.SetManagedFields(nil)
}

// heldLabels are the labels that holding and releasing an object depends on.
var heldLabels = []string{kueue.LabelQueue, v1alpha1.LabelGroup}

// cronOwner is the reference to the CronJob that controls an object, by its metadata, with values cut where they are
// longer than any of Kubernetes' own; nil for an object that none controls.
func cronOwner(metadata map[string]any) map[string]any {
	list, _ := metadata["ownerReferences"].([]any)
	for _, x := range list {
		owner, _ := x.(map[string]any)
		if owner["controller"] != true || owner["kind"] != "CronJob" {
			continue
		}
		out := map[string]any{"controller": true, "kind": "CronJob"}
		for _, field := range []string{"apiVersion", "name", "uid"} {
			text, _ := owner[field].(string)
			out[field] = strings.Clone(text[:min(len(text), maxValue)])
		}
		return out
	}
	return nil
}

// Holds is what holding and releasing an object depends on, for those who do nothing else: who it is, its
// marks, and the fields that keep it from running, scale it and tell its end. Of an object without a mark
// of Lull only the first remains.
func (k *Kind) Holds(obj map[string]any) map[string]any {
	old, _ := obj["metadata"].(map[string]any)
	metadata := map[string]any{}
	for _, field := range []string{"name", "namespace", "uid", "resourceVersion"} {
		if v, ok := old[field]; ok {
			metadata[field] = v
		}
	}
	out := map[string]any{"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
	if annotation(obj, v1alpha1.AnnotationPolicy) == "" && annotation(obj, v1alpha1.AnnotationHold) == "" {
		return out
	}
	for _, field := range []string{"creationTimestamp", "deletionTimestamp", "annotations"} {
		if v, ok := old[field]; ok {
			metadata[field] = v
		}
	}
	if owner := cronOwner(old); owner != nil {
		metadata["ownerReferences"] = []any{owner}
	}
	k.TrimAnnotations(out)
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, v1alpha1.AnnotationDecision)
	labels, _ := old["labels"].(map[string]any)
	kept := map[string]any{}
	for _, name := range heldLabels {
		if v, ok := labels[name]; ok {
			kept[name] = v
		}
	}
	metadata["labels"] = kept
	for _, p := range slices.Concat([]path{k.suspend, k.replicas, k.limit}, k.tandem) {
		p.graft(out, obj)
	}
	if k.Spec.Hold.Gate {
		path{{key: "spec", index: -1}, {key: "schedulingGates", index: -1}}.graft(out, obj)
	}
	for i := range k.finished {
		if c := k.finished[i].find(obj); c != nil {
			path{{key: "status", index: -1}, {key: "conditions", index: -1}}.graft(out, map[string]any{"status": map[string]any{
				"conditions": []any{map[string]any{"type": c["type"], "status": c["status"]}},
			}})
		}
		k.finished[i].path.graft(out, obj)
	}
	return out
}
