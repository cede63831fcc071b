package kube

import (
	"fmt"
	"slices"
	"strings"

	"lull.dev/lull/api/v1alpha1"
)

// domain is before the name of each annotation of Lull.
const domain = "lull.dev/"

// userAnnotations are those that users and what runs in their pods may set.
var userAnnotations = []string{
	v1alpha1.AnnotationMaxDelay, v1alpha1.AnnotationDeadline, v1alpha1.AnnotationRuntime, v1alpha1.AnnotationRuntimeP95, v1alpha1.AnnotationInterruptible,
	v1alpha1.AnnotationMinWorkers, v1alpha1.AnnotationMaxWorkers, v1alpha1.AnnotationProfile, v1alpha1.AnnotationProgress, v1alpha1.AnnotationProgressQuery,
	v1alpha1.AnnotationTandem, v1alpha1.AnnotationFamily, v1alpha1.AnnotationClusters, v1alpha1.AnnotationZones, v1alpha1.AnnotationMigratable,
	v1alpha1.AnnotationTransferKWh, v1alpha1.AnnotationGroupSize, v1alpha1.AnnotationPolicy, v1alpha1.AnnotationGovernBy,
}

// ownAnnotations are those that Lull sets.
var ownAnnotations = []string{
	v1alpha1.AnnotationHold, v1alpha1.AnnotationPausedByRelease, v1alpha1.AnnotationProviderHosts, v1alpha1.AnnotationDecision, v1alpha1.AnnotationLatestStart, v1alpha1.AnnotationStatedStart,
	v1alpha1.AnnotationRan, v1alpha1.AnnotationChanged, v1alpha1.AnnotationCluster, v1alpha1.AnnotationWorkers, v1alpha1.AnnotationCapacity, v1alpha1.AnnotationKeep, v1alpha1.AnnotationProbe,
}

// UnknownAnnotations says which annotations of Lull's domain have no meaning, each with the one whose name is nearest;
// "" where there is none. The text is that of an Event or a condition.
func UnknownAnnotations(annotations map[string]string) string {
	var unknown []string
	for name := range annotations {
		if strings.HasPrefix(name, domain) && !slices.Contains(userAnnotations, name) && !slices.Contains(ownAnnotations, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for i, name := range unknown {
		unknown[i] = fmt.Sprintf("annotation %s is unknown and has no effect; the nearest is %s", name, nearest(name, userAnnotations))
	}
	return strings.Join(unknown, "; ")
}

// UnknownAnnotations is the function of that name on the annotations of the workload.
func (w *Workload) UnknownAnnotations() string {
	if w.unknown == nil {
		text := UnknownAnnotations(w.Annotations())
		w.unknown = &text
	}
	return *w.unknown
}

// nearest is the text of the list with the least edit distance; the first of several.
func nearest(text string, list []string) string {
	best, least := "", -1
	for _, x := range list {
		if d := distance(text, x); least < 0 || d < least {
			best, least = x, d
		}
	}
	return best
}

// distance is that of Levenshtein: how many bytes must be added, left out or replaced. O(len(a) len(b)).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
