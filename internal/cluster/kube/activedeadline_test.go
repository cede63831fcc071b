package kube

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/timegrid"
)

// TestNoRunExceedsItsActiveDeadline: no run is expected to take longer than Kubernetes lets it, whatever is stated or learned, so
// that its latest start is not too early. The watchdog knows the same.
func TestNoRunExceedsItsActiveDeadline(t *testing.T) {
	limit := func(seconds int64) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &seconds }
	}
	deadline := now.Add(24 * time.Hour)
	stated := annotate(v1alpha1.AnnotationDeadline, deadline.Format(time.RFC3339))
	replay, err := timegrid.NewTimeline(now.Add(-90*time.Minute), now.Add(-1000*time.Hour), 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		tl        timegrid.Timeline
		job       []func(*batchv1.Job)
		remaining time.Duration
		note      string
	}{
		"none":                 {timegrid.Timeline{}, nil, 2 * time.Hour, ""},
		"beyond its run time":  {timegrid.Timeline{}, []func(*batchv1.Job){limit(10_800)}, 2 * time.Hour, ""},
		"below the policy's":   {timegrid.Timeline{}, []func(*batchv1.Job){limit(3600)}, time.Hour, ""},
		"below its own":        {timegrid.Timeline{}, []func(*batchv1.Job){limit(3600), annotate(v1alpha1.AnnotationRuntime, "6h")}, time.Hour, "lull.dev/runtime 6h0m0s counts as 1h0m0s"},
		"below its longest":    {timegrid.Timeline{}, []func(*batchv1.Job){limit(3600), annotate(v1alpha1.AnnotationRuntimeP95, "9h")}, time.Hour, ""},
		"half of it has run":   {timegrid.Timeline{}, []func(*batchv1.Job){limit(3600), running}, 30 * time.Minute, ""},
		"twice as fast":        {replay, []func(*batchv1.Job){limit(3600 / 4)}, 30 * time.Minute, ""},
		"it may scale instead": {timegrid.Timeline{}, []func(*batchv1.Job){limit(3600), annotate(v1alpha1.AnnotationMaxWorkers, "8")}, 2 * time.Hour, ""},
	} {
		job := newJob("a", append([]func(*batchv1.Job){stated}, tc.job...)...)
		v := observe(t, policy, tc.tl, job)
		if len(v.Snapshot.Tasks) != 1 {
			t.Fatalf("%s: %v", name, v.Invalid)
		}
		task := &v.Snapshot.Tasks[0]
		if task.Remaining != tc.remaining {
			t.Errorf("%s: %v remain, want %v", name, task.Remaining, tc.remaining)
		}
		for _, q := range task.Quantiles {
			if q.Remaining > tc.remaining {
				t.Errorf("%s: %v with probability %v, though it is ended after %v", name, q.Remaining, q.P, tc.remaining)
			}
		}
		if got := v.Progress[0].Note; (got == "") != (tc.note == "") || !strings.Contains(got, tc.note) {
			t.Errorf("%s: note %q, want %q", name, got, tc.note)
		}
		w := workloadOf(t, &job)
		w.Facts = w.Kind.Read(w.Kind.Holds(w.Objects[0].Object))
		if grid, err := LatestStart(w, &policy, 0, tc.tl); err != nil || wallText(tc.tl, grid) != v.Progress[0].StatedStart {
			t.Errorf("%s: the watchdog's latest start is %s, %v; stated %s", name, wallText(tc.tl, grid), err, v.Progress[0].StatedStart)
		}
	}
}

// TestActiveDeadlineOfGroup: a group of Pods ends by force when the last of them does; one without a limit has none.
func TestActiveDeadlineOfGroup(t *testing.T) {
	named, err := kinds.Named([]string{"Pod"})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name string, seconds int64) *Workload {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", Labels: map[string]string{v1alpha1.LabelGroup: "g"}}}
		if seconds > 0 {
			p.Spec.ActiveDeadlineSeconds = &seconds
		}
		u, err := PodObject(&p)
		if err != nil {
			t.Fatal(err)
		}
		return NewWorkload(named[0], u)
	}
	for _, tc := range []struct {
		seconds []int64
		want    time.Duration
	}{{[]int64{60, 90, 30}, 90 * time.Second}, {[]int64{0, 90}, 0}, {[]int64{60, 0, 90}, 0}, {[]int64{60}, time.Minute}} {
		var pods []*Workload
		for i, s := range tc.seconds {
			pods = append(pods, pod(string(rune('a'+i)), s))
		}
		if g := Group(pods); len(g) != 1 || g[0].Facts.Limit != tc.want {
			t.Errorf("%v: %v, want %v", tc.seconds, g[0].Facts.Limit, tc.want)
		}
	}
}
