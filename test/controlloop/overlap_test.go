package controlloop

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// TestOverlappingPolicies: the API server evaluates the policies of a namespace in any order. Which of several governs a
// workload does not depend on it: one that holds it rather than one that does not, and among equals the first by name.
// (Before, each of two policies got some of twenty Jobs.)
func TestOverlappingPolicies(t *testing.T) {
	const jobs = 12 // 3 policies have 6 orders
	shadow := func(p *v1alpha1.CarbonPolicy) { p.Spec.Mode = v1alpha1.ModeShadow }
	paused := func(p *v1alpha1.CarbonPolicy) { p.Spec.Paused = true }
	urgent := func(p *v1alpha1.CarbonPolicy) { p.Spec.CriticalPriorityClasses = []string{"urgent"} }
	asked := func(policy string) func(client.Object) {
		return func(o client.Object) { o.SetAnnotations(map[string]string{v1alpha1.AnnotationGovernBy: policy}) }
	}
	deleted := func(p *v1alpha1.CarbonPolicy) { p.Finalizers = []string{"example.com/slow"} }
	marked := func(with map[string]string) func(client.Object) {
		return func(o client.Object) { o.SetAnnotations(maps.Clone(with)) }
	}
	for _, tc := range []struct {
		name     string
		policies map[string]func(*v1alpha1.CarbonPolicy)
		object   func(client.Object)
		want     string
		held     bool
	}{
		{"the first by name", map[string]func(*v1alpha1.CarbonPolicy){"a": nil, "b": nil, "c": nil}, nil, "a", true},
		{"one that holds", map[string]func(*v1alpha1.CarbonPolicy){"a": shadow, "b": nil, "c": nil}, nil, "b", true},
		{"one that is not paused", map[string]func(*v1alpha1.CarbonPolicy){"a": paused, "b": shadow, "c": nil}, nil, "c", true},
		{"a policy for which it is not critical", map[string]func(*v1alpha1.CarbonPolicy){"a": urgent, "b": paused, "c": nil}, func(o client.Object) {
			podSpec(o).PriorityClassName = "urgent"
		}, "c", true},
		{"none that holds", map[string]func(*v1alpha1.CarbonPolicy){"a": paused, "b": shadow, "c": paused}, nil, "a", false},
		{"the one that is asked for", map[string]func(*v1alpha1.CarbonPolicy){"a": nil, "b": nil, "c": nil}, asked("c"), "c", true},
		{"the one that is asked for does not hold", map[string]func(*v1alpha1.CarbonPolicy){"a": nil, "b": shadow, "c": nil}, asked("b"), "b", false},
		{"not one that is being deleted", map[string]func(*v1alpha1.CarbonPolicy){"a": deleted, "b": nil, "c": nil}, nil, "b", true},
		{"a copy of what Lull has released stays as it is", map[string]func(*v1alpha1.CarbonPolicy){"a": nil, "b": nil, "c": nil}, marked(map[string]string{
			v1alpha1.AnnotationPolicy: "b", v1alpha1.AnnotationDecision: "{}",
		}), "b", false},
		{"a copy of what has run stays as it is", map[string]func(*v1alpha1.CarbonPolicy){"a": nil, "b": nil, "c": nil}, marked(map[string]string{
			v1alpha1.AnnotationPolicy: "b", v1alpha1.AnnotationRan: "5h", v1alpha1.AnnotationChanged: "2026-01-01T00:00:00Z",
		}), "b", false},
		{"a mark of its user's", map[string]func(*v1alpha1.CarbonPolicy){"a": shadow, "b": nil, "c": nil}, marked(map[string]string{
			v1alpha1.AnnotationPolicy: "aa", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission,
		}), "b", true},
		{"none, as asked", map[string]func(*v1alpha1.CarbonPolicy){"a": nil, "b": nil, "c": shadow}, func(o client.Object) {
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationPolicy: ""})
		}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *simkube.World) {
				w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test"}})
				for name, change := range tc.policies {
					p := &v1alpha1.CarbonPolicy{
						ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test"},
						Spec:       v1alpha1.CarbonPolicySpec{Zone: "none", Kinds: []string{"Job", "Pod", "Deployment"}},
					}
					if change != nil {
						change(p)
					}
					w.Create(p)
					if len(p.Finalizers) > 0 {
						if err := w.Client.Delete(w.Context(), p); err != nil {
							t.Fatal(err)
						}
					}
				}
				for n := range jobs {
					for _, o := range oneOfEach(fmt.Sprint("w", n)) {
						if tc.object != nil {
							tc.object(o)
						}
						w.Create(o)
						if got := o.GetAnnotations()[v1alpha1.AnnotationPolicy]; got != tc.want {
							t.Errorf("%T %s: governed by %q, want %q", o, o.GetName(), got, tc.want)
						}
						says := o.GetAnnotations()[v1alpha1.AnnotationHold] != ""
						if is := isHeld(o); is != tc.held || says != tc.held {
							t.Errorf("%T %s: held: %v, marked as held: %v, want %v", o, o.GetName(), is, says, tc.held)
						}
						if workers := o.GetAnnotations()[v1alpha1.AnnotationWorkers]; workers == "0" {
							t.Errorf("%T %s: its number of replicas is lost", o, o.GetName())
						}
					}
				}
			})
		})
	}
}

// TestOverlapsAreStated: policies that may select the same workloads say so in a condition, each as soon as the other comes
// or changes.
func TestOverlapsAreStated(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		other := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: b.ns}, Spec: v1alpha1.CarbonPolicySpec{Zone: b.zone}}
		stated := func(name string) string {
			var p v1alpha1.CarbonPolicy
			b.read(name, &p)
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionOverlaps)
			if c == nil || c.Status != metav1.ConditionTrue {
				return ""
			}
			return c.Message
		}
		b.Until("the policy is looked at", func() bool { return len(b.policy().Status.Conditions) > 0 })
		if text := stated("clean"); text != "" {
			t.Errorf("the only policy overlaps: %s", text)
		}
		b.Create(other)
		b.Until("both policies name the other", func() bool {
			return strings.HasPrefix(stated("clean"), "other may ") && strings.HasPrefix(stated("other"), "clean may ")
		})
		b.read("other", other)
		other.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"team": "interactive"}}
		b.must(b.Client.Update(b.Context(), other))
		b.Until("neither names the other any more", func() bool { return stated("clean") == "" && stated("other") == "" })
	})
}

// oneOfEach is a workload of each way to hold one.
func oneOfEach(name string) []client.Object {
	object := metav1.ObjectMeta{Name: name, Namespace: "test"}
	labels := map[string]string{"app": name}
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "example.invalid/work"}}}
	always := *spec.DeepCopy()
	always.RestartPolicy = corev1.RestartPolicyAlways
	return []client.Object{
		&batchv1.Job{ObjectMeta: object, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: *spec.DeepCopy()}}},
		&corev1.Pod{ObjectMeta: object, Spec: spec},
		&appsv1.Deployment{ObjectMeta: object, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: always},
		}},
	}
}

func podSpec(o client.Object) *corev1.PodSpec {
	switch o := o.(type) {
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *corev1.Pod:
		return &o.Spec
	}
	panic(fmt.Sprintf("no pod in a %T", o))
}

func isHeld(o client.Object) bool {
	switch o := o.(type) {
	case *batchv1.Job:
		return o.Spec.Suspend != nil && *o.Spec.Suspend
	case *appsv1.Deployment:
		return *o.Spec.Replicas == 0
	case *corev1.Pod:
		return len(o.Spec.SchedulingGates) > 0
	}
	panic(fmt.Sprintf("cannot hold a %T", o))
}
