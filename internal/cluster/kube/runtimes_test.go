package kube

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// TestQuantilesOfTheRunTime: which quantiles a task gets of what is stated and learned. The deadline is
// 24 hours from now, the run time 2 hours unless stated.
func TestQuantilesOfTheRunTime(t *testing.T) {
	const h = time.Hour
	due := annotate(v1alpha1.AnnotationDeadline, now.Add(24*h).Format(time.RFC3339))
	p95 := func(text string) func(*batchv1.Job) { return annotate(v1alpha1.AnnotationRuntimeP95, text) }
	pauses := annotate(v1alpha1.AnnotationInterruptible, "true")
	family := []workload.RunTimeQuantile{{P: 0.5, Length: 1 * h}, {P: 0.95, Length: 7 * h}}
	one := func(d time.Duration) []decide.Quantile { return []decide.Quantile{{P: 0.95, Remaining: d}} }
	for name, tc := range map[string]struct {
		job     batchv1.Job
		learned []workload.RunTimeQuantile
		want    []decide.Quantile
	}{
		"nothing known":               {newJob("a", due), nil, nil},
		"stated":                      {newJob("a", due, p95("5h")), nil, one(5 * h)},
		"stated, over learned":        {newJob("a", due, p95("5h")), family, one(5 * h)},
		"learned":                     {newJob("a", due), family, []decide.Quantile{{P: 0.5, Remaining: h}, {P: 0.95, Remaining: 7 * h}}},
		"a stated run time is so":     {newJob("a", due, annotate(v1alpha1.AnnotationRuntime, "3h")), family, nil},
		"no deadline but the delay":   {newJob("a", p95("5h")), family, nil},
		"running, cannot be paused":   {newJob("a", due, p95("5h"), running), family, nil},
		"running for half an hour":    {newJob("a", due, p95("5h"), running, pauses), nil, one(4*h + h/2)},
		"longer than any it knows of": {newJob("a", due, p95("20m"), running, pauses), nil, one(0)},
		"a quarter is done": {newJob("a", due, p95("8h"), running, pauses, func(j *batchv1.Job) {
			j.Annotations[v1alpha1.AnnotationProgress] = "0.25"
		}), nil, one(6 * h)},
		// Created an hour ago: by its delay the deadline is in 10 + 2 hours less one, and moves with the run
		// time. The stated one, 13 hours later, is reached by a run of 15.
		"delay and deadline": {newJob("a", due, annotate(v1alpha1.AnnotationMaxDelay, "10h"), p95("20h")), nil, one(7 * h)},
	} {
		w := workloadOf(t, &tc.job)
		v, err := Observe(Input{Now: now, Policy: &v1alpha1.CarbonPolicy{Spec: policy}, Workloads: []*Workload{w}, Learned: learned{quantiles: tc.learned}})
		if err != nil || len(v.Snapshot.Tasks) != 1 {
			t.Fatalf("%s: %d tasks, %v, invalid %v", name, len(v.Snapshot.Tasks), err, v.Invalid)
		}
		task := &v.Snapshot.Tasks[0]
		if !slices.Equal(task.Quantiles, tc.want) {
			t.Errorf("%s: quantiles %v, want %v (remaining %v, deadline %v)", name, task.Quantiles, tc.want, task.Remaining, task.Deadline.Sub(now))
		}
	}
}

// TestRuntimeP95Annotation: what is not accepted names the annotation, the value and what is.
func TestRuntimeP95Annotation(t *testing.T) {
	for _, tc := range []struct{ value, runtime, want string }{
		{"5h", "", ""},
		{"PT5H", "5h", ""},
		{"8760h", "", ""},
		{"8761h", "", "at most 8760h"},
		{"0s", "", "above 0"},
		{"-1h", "", "above 0"},
		{"", "", "above 0"},
		{"NaN", "", "above 0"},
		{"9999999999h", "", "above 0"},
		{"4h59m", "5h", "at least lull.dev/runtime, 5h0m0s"},
	} {
		annotations := map[string]string{v1alpha1.AnnotationRuntimeP95: tc.value}
		if tc.runtime != "" {
			annotations[v1alpha1.AnnotationRuntime] = tc.runtime
		}
		o, err := ReadOptions(annotations, &policy, nil)
		switch {
		case tc.want == "" && (err != nil || o.RuntimeP95 == 0):
			t.Errorf("%q: %v, %v", tc.value, o.RuntimeP95, err)
		case tc.want != "" && (!errors.Is(err, ErrAnnotation) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "lull.dev/runtime-p95")):
			t.Errorf("%q with run time %q: error %v, want one that names the annotation and %q", tc.value, tc.runtime, err, tc.want)
		}
	}
}

// TestLatestStartAgrees: the latest start by the annotations alone, which the fail-safe uses, is that of
// the decision.
func TestLatestStartAgrees(t *testing.T) {
	for _, changes := range [][]func(*batchv1.Job){
		{annotate(v1alpha1.AnnotationDeadline, now.Add(24*time.Hour).Format(time.RFC3339))},
		{annotate(v1alpha1.AnnotationDeadline, now.Add(24*time.Hour).Format(time.RFC3339)), annotate(v1alpha1.AnnotationRuntimeP95, "9h")},
		{annotate(v1alpha1.AnnotationDeadline, now.Add(24*time.Hour).Format(time.RFC3339)), annotate(v1alpha1.AnnotationRuntimeP95, "20h"), annotate(v1alpha1.AnnotationMaxDelay, "10h")},
		{annotate(v1alpha1.AnnotationRuntimeP95, "9h")},
	} {
		j := newJob("a", changes...)
		v := observe(t, policy, timegrid.Timeline{}, j)
		task := &v.Snapshot.Tasks[0]
		guarded, _ := task.Guarded()
		want := task.Deadline.Add(-guarded - v.Snapshot.Margin)
		got, err := LatestStart(workloadOf(t, &j), &policy, 0, timegrid.Timeline{})
		if err != nil || !got.Equal(want) {
			t.Errorf("%v: latest start %v, %v; the decision's is %v", j.Annotations, got, err, want)
		}
	}
}

// TestRuntimeP95BelowTheExpected: one that has no effect, as more is expected of the workload, is reported
// with each decision on it.
func TestRuntimeP95BelowTheExpected(t *testing.T) {
	const below = "lull.dev/runtime-p95 1h0m0s is ignored: it is below the expected run time 2h0m0s, and no lull.dev/runtime is stated"
	p95 := func(text string) func(*batchv1.Job) { return annotate(v1alpha1.AnnotationRuntimeP95, text) }
	for name, tc := range map[string]struct {
		job  batchv1.Job
		want string
	}{
		"below the default":                  {newJob("a", p95("1h")), below},
		"at the default":                     {newJob("a", p95("2h")), ""},
		"none":                               {newJob("a"), ""},
		"below the default, with a run time": {newJob("a", p95("1h"), annotate(v1alpha1.AnnotationRuntime, "30m")), ""},
	} {
		v := observe(t, policy, timegrid.Timeline{}, tc.job)
		if got := v.Progress[0].Note; got != tc.want {
			t.Errorf("%s: note %q, want %q", name, got, tc.want)
		}
		a := decide.Action{Verb: decide.Wait, Reason: decide.Reason{Code: decide.CodeNoCarbonData}}
		if got := newRecord(a, &v.Progress[0], now).Message; strings.HasSuffix(got, "; "+tc.want) != (tc.want != "") {
			t.Errorf("%s: told %q", name, got)
		}
	}
}
