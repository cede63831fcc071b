package kube

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/timegrid"
)

// TestNoDelayIsLongerThanAllowed: no policy and no annotation asks for a longer delay than the administrator allows. The watchdog knows the same. (A Job with max-delay 720h under a policy of 1h was held for a month.)
func TestNoDelayIsLongerThanAllowed(t *testing.T) {
	const longest, runtime = 24 * time.Hour, 2 * time.Hour
	maxDelay := func(text string) func(*batchv1.Job) { return annotate(v1alpha1.AnnotationMaxDelay, text) }
	deadline := func(after time.Duration) func(*batchv1.Job) {
		return annotate(v1alpha1.AnnotationDeadline, now.Add(after).Format(time.RFC3339))
	}
	month := policy
	month.MaxDelay = hours(720)
	soft := policy
	soft.Objective = &v1alpha1.ObjectiveSpec{Kind: v1alpha1.ObjectiveMOSP}
	for name, tc := range map[string]struct {
		policy v1alpha1.CarbonPolicySpec
		job    []func(*batchv1.Job)
		want   time.Duration // the deadline, after the creation
		noted  bool
	}{
		"less is asked for":       {policy, nil, 12 * time.Hour, false},
		"as much is asked for":    {policy, []func(*batchv1.Job){maxDelay("24h")}, 26 * time.Hour, false},
		"by max-delay":            {policy, []func(*batchv1.Job){maxDelay("720h")}, longest + runtime, true},
		"by a deadline":           {policy, []func(*batchv1.Job){deadline(720 * time.Hour)}, longest + runtime, true},
		"by both":                 {policy, []func(*batchv1.Job){deadline(720 * time.Hour), maxDelay("800h")}, longest + runtime, true},
		"by both, one is earlier": {policy, []func(*batchv1.Job){deadline(720 * time.Hour), maxDelay("1h")}, 3 * time.Hour, false},
		"by its policy":           {month, nil, longest + runtime, true},
		"a long run":              {policy, []func(*batchv1.Job){maxDelay("720h"), annotate(v1alpha1.AnnotationRuntime, "100h")}, longest + 100*time.Hour, true},
		"it may pause":            {policy, []func(*batchv1.Job){maxDelay("720h"), annotate(v1alpha1.AnnotationInterruptible, "true")}, longest + runtime, true},
		"part of it is done":      {policy, []func(*batchv1.Job){maxDelay("720h"), annotate(v1alpha1.AnnotationRuntime, "100h"), annotate(v1alpha1.AnnotationProgress, "0.99")}, longest + time.Hour, true},
		"a soft deadline":         {soft, []func(*batchv1.Job){maxDelay("720h")}, longest, true},
	} {
		job := newJob("a", tc.job...)
		job.CreationTimestamp = metav1.NewTime(now)
		w := workloadOf(t, &job)
		v, err := Observe(Input{Now: now, Longest: longest, Policy: &v1alpha1.CarbonPolicy{Spec: tc.policy}, Workloads: []*Workload{w}})
		if err != nil || len(v.Snapshot.Tasks) != 1 {
			t.Fatalf("%s: %v, %v", name, err, v.Invalid)
		}
		if got := v.Snapshot.Tasks[0].Deadline.Sub(now); got != tc.want {
			t.Errorf("%s: deadline after %v, want %v", name, got, tc.want)
		}
		if got := v.Progress[0].Note; strings.Contains(got, "the latest that the administrator allows") != tc.noted {
			t.Errorf("%s: note %q, want one: %v", name, got, tc.noted)
		}
		stated := v1alpha1.CarbonPolicy{Spec: tc.policy, Status: v1alpha1.CarbonPolicyStatus{LongestDelay: hours(longest.Hours())}}
		if got := DeadlineOf(w, &stated, timegrid.Timeline{}); got.Before(v.Snapshot.Tasks[0].Deadline) || got.Sub(now) > longest+v.Progress[0].Runtime {
			t.Errorf("%s: the ledger's deadline is after %v, want %v, or later if part of the work is done", name, got.Sub(now), tc.want)
		}
		if at, err := LatestStart(w, &tc.policy, longest, timegrid.Timeline{}); err != nil || wallText(timegrid.Timeline{}, at) != v.Progress[0].StatedStart || at.Sub(now) > longest {
			t.Errorf("%s: the watchdog's latest start is after %v, %v; the controller states %s", name, at.Sub(now), err, v.Progress[0].StatedStart)
		}
	}
}
