package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// TestEventsAreTheChosenOnes: a Job waits, is released, and has an annotation that cannot be read. The chosen decisions are recorded as Events, and
// warnings always. The annotation has each decision.
func TestEventsAreTheChosenOnes(t *testing.T) {
	for choice, want := range map[Events][]string{
		"":            {"Normal Wait", "Normal Release", "Warning InvalidAnnotation"},
		AllEvents:     {"Normal Wait", "Normal Release", "Warning InvalidAnnotation"},
		ChangeEvents:  {"Normal Release", "Warning InvalidAnnotation"},
		WarningEvents: {"Warning InvalidAnnotation"},
	} {
		ctx, now := context.Background(), time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
		tl, err := timegrid.NewTimeline(now, now, 1)
		if err != nil {
			t.Fatal(err)
		}
		scheme := runtime.NewScheme()
		if err := batchv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		job := newJob("job", annotate(v1alpha1.AnnotationHold, v1alpha1.HoldAdmission), func(j *batchv1.Job) { j.Namespace = "default" })
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&job).Build()
		recorder := events.NewFakeRecorder(10)
		ap := &Applier{Client: c, Recorder: recorder, Events: choice}
		read := func() *Workload {
			var stored batchv1.Job
			if err := c.Get(ctx, client.ObjectKeyFromObject(&job), &stored); err != nil {
				t.Fatal(err)
			}
			return workloadOf(t, &stored)
		}
		for _, verb := range []decide.Verb{decide.Wait, decide.Release} {
			a := decide.Action{Verb: verb, Reason: decide.Reason{Code: decide.CodeCleanerLater, LatestStart: now.Add(time.Hour)}}
			if _, err := ap.Apply(ctx, read(), a, Progress{}, Context{Policy: &v1alpha1.CarbonPolicy{}, Timeline: tl, Now: now}); err != nil {
				t.Fatal(err)
			}
			if got := read().Record().Verb; got != verb {
				t.Errorf("%q: the annotation says %q, want %q", choice, got, verb)
			}
		}
		if _, err := ap.ReleaseInvalid(ctx, read(), errors.New("annotation"), now); err != nil {
			t.Fatal(err)
		}
		close(recorder.Events)
		var got []string
		for e := range recorder.Events {
			got = append(got, strings.Join(strings.Fields(e)[:2], " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: events %q, want %q", choice, got, want)
		}
	}
}
