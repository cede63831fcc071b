package controller

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"lull.dev/lull/api/v1alpha1"
)

// TestOnlyDecisionChanged: an update with nothing but a decision of Lull causes no other decision, or each would cause the next. All other
// updates do: changes by others at the same time, a release, and an edit of the latest start.
func TestOnlyDecisionChanged(t *testing.T) {
	yes, no := true, false
	job := func(version string, suspend *bool, annotations map[string]string) client.Object {
		j := &batchv1.Job{
			TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
			ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: version, Annotations: annotations}, Spec: batchv1.JobSpec{Suspend: suspend},
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(j)
		if err != nil {
			t.Fatal(err)
		}
		return &unstructured.Unstructured{Object: object}
	}
	before := job("1", &yes, map[string]string{v1alpha1.AnnotationDecision: "waits", v1alpha1.AnnotationLatestStart: "noon", "team": "a"})
	for name, c := range map[string]struct {
		after client.Object
		want  bool
	}{
		"another decision":                  {job("2", &yes, map[string]string{v1alpha1.AnnotationDecision: "still waits", v1alpha1.AnnotationLatestStart: "one", v1alpha1.AnnotationStatedStart: "one", "team": "a"}), true},
		"a release":                         {job("2", &no, map[string]string{v1alpha1.AnnotationDecision: "runs", "team": "a"}), false},
		"a decision, and an edit by others": {job("2", &yes, map[string]string{v1alpha1.AnnotationDecision: "still waits", v1alpha1.AnnotationLatestStart: "noon", "team": "b"}), false},
		"an edit of the latest start":       {job("2", &yes, map[string]string{v1alpha1.AnnotationDecision: "waits", v1alpha1.AnnotationLatestStart: "night", "team": "a"}), false},
		"nothing, as at a resync":           {job("1", &yes, before.GetAnnotations()), false},
		"the first decision":                {job("2", &yes, map[string]string{v1alpha1.AnnotationDecision: "other", v1alpha1.AnnotationHold: "admission", "team": "a"}), false},
	} {
		if got := onlyDecisionChanged(before, c.after); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if before.GetAnnotations()[v1alpha1.AnnotationDecision] != "waits" || before.GetResourceVersion() != "1" {
		t.Error("the objects of the cache have changed")
	}
}

// requested are the requests that were added to a queue.
type requested struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	all []reconcile.Request
}

func (q *requested) Add(r reconcile.Request) { q.all = append(q.all, r) }

func (q *requested) AddAfter(r reconcile.Request, _ time.Duration) { q.all = append(q.all, r) }

// TestReleaseByAnOperatorIsCounted: lull release takes a workload out of its policy. The policy is decided again, and counts it as waiting no more.
func TestReleaseByAnOperatorIsCounted(t *testing.T) {
	yes, no := true, false
	job := func(suspend *bool, annotations map[string]string) client.Object {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", Annotations: annotations}, Spec: batchv1.JobSpec{Suspend: suspend}}
	}
	held := job(&yes, map[string]string{v1alpha1.AnnotationPolicy: "late", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission})
	released := job(&no, map[string]string{v1alpha1.AnnotationDecision: `{"verb":"Release","reason":"Released"}`})
	q := &requested{}
	soon(policyOf).Update(t.Context(), event.UpdateEvent{ObjectOld: held, ObjectNew: released}, q)
	if len(q.all) != 1 || q.all[0].Name != "late" || q.all[0].Namespace != "n" {
		t.Errorf("asked to decide %v, want n/late", q.all)
	}
}
