package kube

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestForgedLabelsMakeNoPodOfAJob: a pod that somebody creates with the labels of another's Job is not a pod of that Job. One that a controller has made is, also
// if it is of an object between them.
func TestForgedLabelsMakeNoPodOfAJob(t *testing.T) {
	job := newJob("honest", func(j *batchv1.Job) { j.Namespace, j.UID = "n", "honest" })
	index := newPodIndex([]*Workload{workloadOf(t, &job)})
	yes := true
	owner := func(uid types.UID, controls *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: "Job", Name: "x", UID: uid, Controller: controls}}
	}
	for name, x := range map[string]struct {
		namespace string
		owners    []metav1.OwnerReference
		ours      bool
	}{
		"forged":                  {"n", nil, false},
		"owned, by no controller": {"n", owner("other", nil), false},
		"of an object between":    {"n", owner("other", &yes), true},
		"its own":                 {"n", owner("honest", &yes), true},
		"of another namespace":    {"m", owner("other", &yes), false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.namespace, Name: "p", UID: "p", Labels: map[string]string{batchv1.JobNameLabel: "honest"}, OwnerReferences: x.owners}}
		if _, ours := index.of(pod); ours != x.ours {
			t.Errorf("%s: a pod of the Job: %v", name, ours)
		}
	}
}
