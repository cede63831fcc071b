package mutate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/test/creations"
	"lull.dev/lull/test/size"
)

const own = kinds.DefaultNamespace

// outcome is what a creation comes to.
type outcome struct {
	governed, held bool
	policy         string
}

// rule is the rule of admission in words of Go: it shares no expression with the policies.
type rule struct {
	k   *kinds.Kind
	obj *unstructured.Unstructured
}

func (r rule) at(path v1alpha1.Path) (any, bool) {
	v, ok, err := unstructured.NestedFieldNoCopy(r.obj.Object, strings.Split(string(path), ".")...)
	return v, ok && err == nil
}

// runs reports whether nobody holds the object as it was written.
func (r rule) runs() bool {
	switch {
	case r.k.Spec.Hold.Gate:
		gates, _, _ := unstructured.NestedSlice(r.obj.Object, "spec", "schedulingGates")
		return len(gates) == 0
	case r.k.Spec.Hold.Zero:
		n, ok := r.at(r.k.Spec.Workers.Replicas)
		return !ok || n.(int64) > 0
	}
	suspended, _ := r.at(r.k.Spec.Hold.Suspend)
	return suspended != true
}

// may reports whether a policy may govern the object.
func (r rule) may(p *v1alpha1.CarbonPolicy, namespace string) bool {
	queue, queued := r.obj.GetLabels()[kueue.LabelQueue]
	named := p.Spec.Kinds
	if len(named) == 0 {
		named = kinds.DefaultNames
	}
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.Selector)
	if err != nil {
		panic(err)
	}
	if m := r.k.Spec.ManagedBy; m != nil {
		manager, stated := r.at(m.Path)
		if stated && !slices.Contains(append(slices.Clone(m.Own), "", kueue.ManagedByMultiKueue), manager.(string)) {
			return false
		}
	}
	for _, o := range r.obj.GetOwnerReferences() {
		if o.Controller != nil && *o.Controller && !slices.Contains(r.k.Spec.Owners, o.Kind) {
			return false
		}
	}
	_, sent := r.obj.GetLabels()[kueue.LabelOrigin]
	inQueue := len(p.Spec.Queues) == 0 && !queued || r.k.Queues() && queued && slices.Contains(p.Spec.Queues, queue)
	return (p.Spec.Via == "" || p.Spec.Via == v1alpha1.ViaHold) && slices.Contains(named, r.k.Name) && selector.Matches(labels.Set(r.obj.GetLabels())) &&
		inQueue && !sent && kinds.Excluded(own, namespace, p.Name, r.obj.GetAnnotations()) == ""
}

// holds reports whether a policy holds the object if it governs it.
func (r rule) holds(p *v1alpha1.CarbonPolicy) bool {
	class := ""
	if path := r.k.Spec.PriorityClass; !strings.Contains(string(path), "[") {
		text, _ := r.at(path)
		class, _ = text.(string)
	}
	return (p.Spec.Mode == "" || p.Spec.Mode == v1alpha1.ModeEnforce) && !p.Spec.Paused && p.DeletionTimestamp == nil && !slices.Contains(p.Spec.CriticalPriorityClasses, class)
}

// decide returns what the policies of a namespace make of the object.
func (r rule) decide(policies []*v1alpha1.CarbonPolicy, namespace string) outcome {
	a := r.obj.GetAnnotations()
	_, queued := r.obj.GetLabels()[kueue.LabelQueue]
	before, marked := a[v1alpha1.AnnotationPolicy]
	for _, mark := range []string{v1alpha1.AnnotationDecision, v1alpha1.AnnotationRan, v1alpha1.AnnotationChanged} {
		if _, decided := a[mark]; decided {
			return outcome{}
		}
	}
	inQueue := queued && r.k.Queues()
	free := r.runs() || inQueue
	isHeld := marked && before != "" && a[v1alpha1.AnnotationHold] == v1alpha1.HoldAdmission && (inQueue || !r.runs())
	if marked && before == "" || !free && !isHeld {
		return outcome{}
	}
	out := outcome{policy: before}
	sorted := slices.SortedFunc(slices.Values(policies), func(a, b *v1alpha1.CarbonPolicy) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range sorted {
		first := out.policy == "" || p.Name < out.policy
		wins := out.policy == "" || (r.holds(p) || first) && !isHeld || r.holds(p) && first
		if !wins || !r.may(p, namespace) {
			continue
		}
		out.governed, out.policy = true, p.Name
		if r.holds(p) {
			out.held = out.held || !isHeld
			isHeld = true
		}
	}
	return out
}

// TestHolderFollowsTheRule: random and hostile creations come to what the rule of admission, written in Go, says. Whatever the order of the
// policies, and nothing else of the object is changed.
func TestHolderFollowsTheRule(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 1))
	seen := map[outcome]int{}
	for _, k := range kinds.Builtin() {
		h, err := NewHolder(k, own)
		if err != nil {
			t.Fatal(err)
		}
		for i := range size.Of(400, 40_000) {
			namespace := []string{"team", "team", "team", "team", "team", "team", "kube-system", own}[r.IntN(8)]
			policies := creations.Policies(r, namespace)
			if len(policies) > 0 && r.IntN(8) == 0 {
				policies[0].DeletionTimestamp = &metav1.Time{}
			}
			obj := creations.Object(r, k, namespace, fmt.Sprintf("x%d", i), false)
			want := rule{k, obj}.decide(policies, namespace)
			before := obj.DeepCopy()
			patch, err := h.Patch(t.Context(), namespace, obj.Object, asObjects(t, policies))
			if err != nil || !reflect.DeepEqual(before.Object, obj.Object) {
				t.Fatalf("%s: error %v, or the object itself is changed: %s", k.Name, err, text(t, before))
			}
			changed := patched(t, obj, patch)
			if got := effect(k, obj, changed); got != want && (want.governed || got.governed) {
				t.Fatalf("%s: %+v, want %+v\nobject %s\npolicies %s\npatch %s", k.Name, got, want, text(t, obj), text(t, policies), text(t, patch))
			}
			onlyMarks(t, k, obj, changed)
			want.policy = ""
			seen[want]++
		}
	}
	t.Logf("outcomes: %v", seen)
	for _, o := range []outcome{{}, {governed: true}, {governed: true, held: true}} {
		if seen[o] < 100 {
			t.Errorf("outcome %+v only %d times: %v", o, seen[o], seen)
		}
	}
}

// TestHostileObjectsAreLeftAlone: fields of other types than a kind has never lead to a patch that does not fit, since the API server would
// refuse the object for it.
func TestHostileObjectsAreLeftAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 2))
	failed := 0
	for _, k := range kinds.Builtin() {
		h, err := NewHolder(k, own)
		if err != nil {
			t.Fatal(err)
		}
		for i := range size.Of(400, 40_000) {
			obj := creations.Object(r, k, "team", fmt.Sprintf("x%d", i), true)
			patch, err := h.Patch(t.Context(), "team", obj.Object, asObjects(t, creations.Policies(r, "team")))
			if err != nil {
				failed++
			}
			onlyMarks(t, k, obj, patched(t, obj, patch))
		}
	}
	if failed < 20 {
		t.Errorf("only %d objects could not be evaluated", failed)
	}
}

func asObjects(t *testing.T, policies []*v1alpha1.CarbonPolicy) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, p := range policies {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &unstructured.Unstructured{Object: m})
	}
	return out
}

func patched(t *testing.T, obj *unstructured.Unstructured, patch []Operation) *unstructured.Unstructured {
	t.Helper()
	if len(patch) == 0 {
		return obj.DeepCopy()
	}
	out, err := apply(obj.Object, patch)
	if err != nil {
		t.Fatalf("the patch does not fit: %v\n%s\n%s", err, text(t, obj), text(t, patch))
	}
	return &unstructured.Unstructured{Object: out}
}

// effect is what a creation came to.
func effect(k *kinds.Kind, before, after *unstructured.Unstructured) outcome {
	if reflect.DeepEqual(before.Object, after.Object) {
		return outcome{policy: before.GetAnnotations()[v1alpha1.AnnotationPolicy]}
	}
	out := outcome{governed: true, policy: after.GetAnnotations()[v1alpha1.AnnotationPolicy]}
	out.held = after.GetAnnotations()[v1alpha1.AnnotationHold] == v1alpha1.HoldAdmission
	if _, queued := after.GetLabels()[kueue.LabelQueue]; queued && k.Queues() {
		out.held = out.held && before.GetAnnotations()[kueue.AnnotationGates] != after.GetAnnotations()[kueue.AnnotationGates]
	} else {
		out.held = out.held && rule{k, before}.runs() && !rule{k, after}.runs()
	}
	return out
}

// onlyMarks fails if anything but what marks and holds an object is changed.
func onlyMarks(t *testing.T, k *kinds.Kind, before, after *unstructured.Unstructured) {
	t.Helper()
	a, b := before.DeepCopy(), after.DeepCopy()
	for _, u := range []*unstructured.Unstructured{a, b} {
		an := u.GetAnnotations()
		for _, name := range []string{v1alpha1.AnnotationPolicy, v1alpha1.AnnotationHold, v1alpha1.AnnotationWorkers, kueue.AnnotationGates, kueue.AnnotationElastic} {
			delete(an, name)
		}
		u.SetAnnotations(an)
		if len(an) == 0 {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		}
		switch {
		case k.Spec.Hold.Gate:
			unstructured.RemoveNestedField(u.Object, "spec", "schedulingGates")
		case k.Spec.Hold.Zero:
			unstructured.RemoveNestedField(u.Object, strings.Split(string(k.Spec.Workers.Replicas), ".")...)
		default:
			at := strings.Split(string(k.Spec.Hold.Suspend), ".")
			unstructured.RemoveNestedField(u.Object, at...)
			for n := len(at) - 1; n > 1; n-- { // maps that were made for the field
				if m, ok, _ := unstructured.NestedMap(u.Object, at[:n]...); ok && len(m) == 0 {
					unstructured.RemoveNestedField(u.Object, at[:n]...)
				}
			}
		}
	}
	if !reflect.DeepEqual(a.Object, b.Object) {
		t.Fatalf("%s: more is changed:\n%s\n%s", k.Name, text(t, before), text(t, after))
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
