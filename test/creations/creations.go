// Package creations draws what may be created in a namespace with CarbonPolicies: objects of each kind, as users write them and as
// nobody should, and policies that compete for them. It is for tests that compare two ways to decide what is held.
package creations

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
)

// Names are those that policies have, and that objects name, in their order and one that no policy has.
var Names = []string{"a", "b", "c", "clean", "other"}

// The other values that policies ask for and objects have.
var (
	priorities = []string{"urgent", "lull-test-low"}
	queues     = []string{"fast", "slow"}
)

// Priorities are the PriorityClasses that objects name: they must exist where Pods are created.
func Priorities() []string { return slices.Clone(priorities) }

// dice draws.
type dice struct{ *rand.Rand }

// one draws one of several values.
func one[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// in is true once in n times.
func (d dice) in(n int) bool { return d.IntN(n) == 0 }

// Policies draws up to four CarbonPolicies of a namespace, valid ones, with different names.
func Policies(r *rand.Rand, namespace string) []*v1alpha1.CarbonPolicy {
	d := dice{r}
	names := slices.Clone(Names[:4])
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var out []*v1alpha1.CarbonPolicy
	for _, name := range names[:one(d, 0, 1, 2, 2, 3, 4)] {
		p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: v1alpha1.CarbonPolicySpec{Zone: "de"}}
		if d.in(3) {
			p.Spec.Selector.MatchLabels = map[string]string{"team": one(d, "batch", "web")}
		}
		if d.in(3) {
			p.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{requirement(d)}
		}
		if !d.in(4) {
			for _, k := range kinds.Builtin() {
				if !d.in(4) {
					p.Spec.Kinds = append(p.Spec.Kinds, k.Name)
				}
			}
		}
		if d.in(4) {
			p.Spec.Queues = one(d, queues, queues[:1], queues[1:])
		}
		if d.in(3) {
			p.Spec.CriticalPriorityClasses = priorities[:1]
		}
		p.Spec.Mode = one(d, "", "", v1alpha1.ModeEnforce, v1alpha1.ModeEnforce, v1alpha1.ModeShadow)
		p.Spec.Via = one(d, "", "", "", v1alpha1.ViaHold, v1alpha1.ViaHold, v1alpha1.ViaExtender)
		if p.Spec.Via == v1alpha1.ViaExtender { // with which no other planner is valid, and no queue
			p.Spec.Planner.Name, p.Spec.Queues = "window", nil
		}
		p.Spec.Paused = d.in(6)
		out = append(out, p)
	}
	return out
}

func requirement(d dice) metav1.LabelSelectorRequirement {
	switch d.IntN(4) {
	case 0:
		return metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpExists}
	case 1:
		return metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist}
	case 2:
		return metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"batch", "x"}}
	}
	return metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web"}}
}

// Object draws an object of a kind. With hostile a custom resource may have fields of types that its kind does not have: custom
// resources are checked only after they have been changed at admission. All others are valid.
func Object(r *rand.Rand, k *kinds.Kind, namespace, name string, hostile bool) *unstructured.Unstructured {
	d := dice{r}
	obj := map[string]any{"apiVersion": strings.TrimPrefix(k.Spec.Group+"/"+k.Spec.Version, "/"), "kind": k.Spec.Kind}
	meta := map[string]any{"name": name, "namespace": namespace}
	obj["metadata"], obj["spec"] = meta, spec(k)
	if a := annotations(d); len(a) > 0 || d.in(2) {
		meta["annotations"] = a
	}
	if l := labels(d); len(l) > 0 {
		meta["labels"] = l
	}
	if d.in(8) {
		owner := map[string]any{"apiVersion": "x.dev/v1", "kind": one(d, "CronJob", "Workflow", "TaskRun", "JobSet"), "name": "o", "uid": "u"}
		if !d.in(3) {
			owner["controller"] = d.in(2)
		}
		meta["ownerReferences"] = []any{owner}
	}
	fields(d, k, obj, hostile && custom(k))
	return &unstructured.Unstructured{Object: obj}
}

// custom is true for a custom resource.
func custom(k *kinds.Kind) bool { return strings.Contains(k.Spec.Group, ".") }

func annotations(d dice) map[string]any {
	out := map[string]any{}
	draw := func(n int, name string, values ...string) {
		if d.in(n) {
			out[name] = one(d, values...)
		}
	}
	names := append(slices.Clone(Names), "")
	draw(8, v1alpha1.AnnotationPolicy, names...)
	draw(5, v1alpha1.AnnotationHold, v1alpha1.HoldAdmission, v1alpha1.HoldPaused, "")
	draw(40, v1alpha1.AnnotationDecision, "{}")
	draw(40, v1alpha1.AnnotationRan, "1h")
	draw(40, v1alpha1.AnnotationChanged, "x")
	draw(6, v1alpha1.AnnotationGovernBy, names...)
	draw(30, "helm.sh/hook", "pre-install")
	draw(30, "argocd.argoproj.io/hook", "Sync")
	draw(30, "argocd.argoproj.io/sync-wave", "1")
	draw(4, v1alpha1.AnnotationMaxWorkers, "4")
	draw(8, kueue.AnnotationGates, "x.dev/gate", "")
	draw(3, "note", `it's "quoted" \ / ~0 ~1 <&> `+"\u2028\n", strings.Repeat("x", 3000))
	return out
}

func labels(d dice) map[string]any {
	out := map[string]any{}
	if !d.in(3) {
		out["team"] = one(d, "batch", "batch", "web", "x", "")
	}
	if d.in(6) {
		out[kueue.LabelQueue] = one(d, append(slices.Clone(queues), "none")...)
	}
	if d.in(30) {
		out[kueue.LabelOrigin] = "hub"
	}
	return out
}

// fields draws what the policies of a kind read beside metadata.
func fields(d dice, k *kinds.Kind, obj map[string]any, hostile bool) {
	value := func(values ...any) any {
		if hostile && d.in(6) {
			return one[any](d, "text", int64(1), 1.5, true, nil, []any{}, []any{"x"}, map[string]any{}, map[string]any{"a": "b"})
		}
		return values[d.IntN(len(values))]
	}
	if p := string(k.Spec.Hold.Suspend); p != "" && !d.in(3) {
		set(obj, p, value(true, false, false, false))
		if at := strings.Split(p, "."); hostile && len(at) > 2 && d.in(6) { // also what the field should be in
			set(obj, strings.Join(at[:len(at)-1], "."), one[any](d, "text", int64(1), nil, []any{}))
		}
	}
	if w := k.Spec.Workers; w != nil && !d.in(3) && !strings.Contains(string(w.Replicas), "[") {
		set(obj, string(w.Replicas), value(int64(1), int64(3), int64(7), int64(0)))
	}
	if k.Spec.Hold.Gate && d.in(4) {
		obj["spec"].(map[string]any)["schedulingGates"] = one(d, []any{}, []any{map[string]any{"name": "x.dev/gate"}}, []any{map[string]any{"name": v1alpha1.Gate}})
	}
	if p := string(k.Spec.PriorityClass); p != "" && d.in(3) && !strings.Contains(p, "[") {
		set(obj, p, value(priorities[0], priorities[1]))
	}
	if m := k.Spec.ManagedBy; m != nil && d.in(8) {
		managers := []any{"x.dev/other", kueue.ManagedByMultiKueue}
		for _, own := range m.Own {
			managers = append(managers, own)
		}
		set(obj, string(m.Path), value(managers...))
	}
}

// set sets a field, and makes the maps that lead there; nothing where something else than a map leads there.
func set(obj map[string]any, path string, value any) {
	at := strings.Split(path, ".")
	for _, name := range at[:len(at)-1] {
		next, ok := obj[name].(map[string]any)
		if !ok {
			if obj[name] != nil {
				return
			}
			next = map[string]any{}
			obj[name] = next
		}
		obj = next
	}
	obj[at[len(at)-1]] = value
}

// spec is a specification that the API server accepts.
func spec(k *kinds.Kind) map[string]any {
	pod := func(more map[string]any) map[string]any {
		out := map[string]any{"containers": []any{map[string]any{"name": "work", "image": "example.invalid/work"}}}
		maps.Copy(out, more)
		return out
	}
	switch k.Name {
	case "Pod":
		return pod(nil)
	case "Job":
		return map[string]any{"template": map[string]any{"spec": pod(map[string]any{"restartPolicy": "Never"})}}
	case "Deployment":
		return map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "x"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": pod(nil)},
		}
	}
	return map[string]any{"name": fmt.Sprintf("of-%s", strings.ToLower(k.Name))}
}
