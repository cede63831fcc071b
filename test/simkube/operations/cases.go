package operations

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Cases are all cases.
func Cases() []Case {
	return slices.Concat(writeCases(), readCases(), admissionCases(), validationCases(), workloadCases(), deletionCases())
}

func writeCases() []Case {
	return []Case{
		{"create", func(e *Env) []string {
			e.create(configMaps, e.ns, configMap("a", nil))
			_, again := e.on(configMaps, e.ns).Create(e.ctx, configMap("a", nil), metav1.CreateOptions{})
			_, nowhere := e.on(configMaps, "no-such-namespace").Create(e.ctx, configMap("a", nil), metav1.CreateOptions{})
			_, nameless := e.on(configMaps, e.ns).Create(e.ctx, configMap("", nil), metav1.CreateOptions{})
			_, dry := e.on(configMaps, e.ns).Create(e.ctx, configMap("b", nil), metav1.CreateOptions{DryRun: []string{"All"}})
			_, missing := e.on(configMaps, e.ns).Get(e.ctx, "b", metav1.GetOptions{})
			gone := e.on(configMaps, e.ns).Delete(e.ctx, "b", metav1.DeleteOptions{})
			_, patched := e.merge(configMaps, "b", `{}`)
			return []string{outcome(again), outcome(nowhere), outcome(nameless), outcome(dry), outcome(missing), outcome(gone), patched}
		}, []string{"409 AlreadyExists", "404 NotFound", "422 Invalid", "ok", "404 NotFound", "404 NotFound", "404 NotFound"}},
		{"conflict", func(e *Env) []string {
			first := e.create(plans, e.ns, plan("a"))
			_, fresh := e.merge(plans, "a", `{"metadata":{"labels":{"x":"1"}}}`)
			_, old := e.update(plans, first)
			_, stated := e.merge(plans, "a", fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{"x":"2"}}}`, first.GetResourceVersion()))
			now := e.get(plans, "a")
			now.SetResourceVersion("")
			_, unstated := e.update(plans, now)
			uid := types.UID("another")
			other := e.on(plans, e.ns).Delete(e.ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			return []string{fresh, old, stated, unstated, outcome(other)}
		}, []string{"ok", "409 Conflict", "409 Conflict", "422 Invalid", "409 Conflict"}},
		{"no change", func(e *Env) []string {
			made := e.create(plans, e.ns, plan("a"))
			empty, _ := e.merge(plans, "a", `{}`)
			same1, _ := e.merge(plans, "a", `{"spec":{"policy":"clean"}}`)
			same2, _ := e.update(plans, made)
			pruned, _ := e.merge(plans, "a", `{"spec":{"unknown":1}}`)
			status, _ := e.merge(plans, "a", `{}`, "status")
			return []string{same(made, empty), same(made, same1), same(made, same2), same(made, pruned), same(made, status)}
		}, slices.Repeat([]string{"the same version"}, 5)},
		{"status", func(e *Env) []string {
			withStatus := plan("a")
			withStatus.Object["status"] = map[string]any{"message": "at creation"}
			made := e.create(plans, e.ns, withStatus)
			byMain, _ := e.merge(plans, "a", `{"status":{"message":"by the main resource"}}`)
			byStatus, _ := e.merge(plans, "a", `{"status":{"message":"by status"},"spec":{"policy":"other"},"metadata":{"labels":{"x":"1"}}}`, "status")
			return []string{fields(made, "status"), same(made, byMain), fields(byStatus, "status", "message"), fields(byStatus, "spec", "policy"), fields(byStatus, "metadata", "labels")}
		}, []string{"null", "the same version", `"by status"`, `"clean"`, "null"}},
		{"generation", func(e *Env) []string {
			made := e.create(plans, e.ns, plan("a"))
			label, _ := e.merge(plans, "a", `{"metadata":{"labels":{"x":"1"}}}`)
			status, _ := e.merge(plans, "a", `{"status":{"message":"m"}}`, "status")
			spec, _ := e.merge(plans, "a", `{"spec":{"policy":"other"}}`)
			plain := e.create(configMaps, e.ns, configMap("a", nil))
			job := e.create(jobs, e.ns, job("a", nil))
			scaled, _ := e.merge(jobs, "a", `{"spec":{"suspend":true}}`)
			var out []string
			for _, x := range []*unstructured.Unstructured{made, label, status, spec, plain, job, scaled} {
				out = append(out, fmt.Sprint(x.GetGeneration()))
			}
			return out
		}, []string{"1", "1", "1", "2", "0", "1", "2"}},
		{"patches", func(e *Env) []string {
			e.create(configMaps, e.ns, configMap("a", nil))
			null, _ := e.merge(configMaps, "a", `{"data":{"a":null,"b":"2"}}`)
			_, test := e.on(configMaps, e.ns).Patch(e.ctx, "a", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/b","value":"3"}]`), metav1.PatchOptions{})
			added, err := e.on(configMaps, e.ns).Patch(e.ctx, "a", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/b","value":"2"},{"op":"add","path":"/data/c","value":"3"}]`), metav1.PatchOptions{})
			if err != nil {
				return []string{outcome(err)}
			}
			return []string{fields(null, "data"), outcome(test), fields(added, "data")}
		}, []string{`{"b":"2"}`, "422 Invalid", `{"b":"2","c":"3"}`}},
		{"finalizers", func(e *Env) []string {
			x := plan("a")
			x.SetFinalizers([]string{"lull.dev/test"})
			e.create(plans, e.ns, x)
			deleted := e.on(plans, e.ns).Delete(e.ctx, "a", metav1.DeleteOptions{})
			waits := e.get(plans, "a")
			_, again := e.on(plans, e.ns).Create(e.ctx, plan("a"), metav1.CreateOptions{})
			_, removed := e.merge(plans, "a", `{"metadata":{"finalizers":null}}`)
			_, gone := e.on(plans, e.ns).Get(e.ctx, "a", metav1.GetOptions{})
			return []string{outcome(deleted), fmt.Sprint(waits.GetDeletionTimestamp() != nil), fmt.Sprint(waits.GetGeneration()), outcome(again), removed, outcome(gone)}
		}, []string{"ok", "true", "2", "409 AlreadyExists", "ok", "404 NotFound"}},
		{"owners", func(e *Env) []string {
			owner := e.create(configMaps, e.ns, configMap("owner", nil))
			owned := plan("owned")
			owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.GetUID()}})
			e.create(plans, e.ns, owned)
			if err := e.on(configMaps, e.ns).Delete(e.ctx, "owner", metav1.DeleteOptions{}); err != nil {
				return []string{outcome(err)}
			}
			e.eventually("what it owned to go", func() bool {
				_, err := e.on(plans, e.ns).Get(e.ctx, "owned", metav1.GetOptions{})
				return outcome(err) == "404 NotFound"
			})
			return nil
		}, nil},
	}
}

func readCases() []Case {
	return []Case{
		{"selectors", func(e *Env) []string {
			for name, team := range map[string]string{"a": "x", "b": "y", "c": "x"} {
				e.create(configMaps, e.ns, configMap(name, map[string]any{"team": team}))
			}
			names := func(o metav1.ListOptions) string {
				list, err := e.on(configMaps, e.ns).List(e.ctx, o)
				if err != nil {
					return outcome(err)
				}
				out := ""
				for i := range list.Items {
					if name := list.Items[i].GetName(); name != "kube-root-ca.crt" {
						out += name
					}
				}
				return out
			}
			return []string{
				names(metav1.ListOptions{}), names(metav1.ListOptions{LabelSelector: "team=x"}), names(metav1.ListOptions{LabelSelector: "team in (y),other notin (z)"}),
				names(metav1.ListOptions{FieldSelector: "metadata.name=b"}), names(metav1.ListOptions{LabelSelector: "team==="}),
			}
		}, []string{"abc", "ac", "b", "b", "400 BadRequest"}},
		{"watch", func(e *Env) []string {
			from := e.create(plans, e.ns, plan("a")).GetResourceVersion()
			e.create(plans, e.ns, plan("b"))
			_, _ = e.merge(plans, "b", `{"metadata":{"labels":{"team":"x"}}}`)
			_, _ = e.merge(plans, "b", `{}`)
			_, _ = e.merge(plans, "b", `{"metadata":{"labels":{"team":"y"}}}`)
			_ = e.on(plans, e.ns).Delete(e.ctx, "b", metav1.DeleteOptions{})
			e.create(plans, e.ns, plan("c"))
			out := e.events(plans, 5, metav1.ListOptions{ResourceVersion: from})
			out = append(out, e.events(plans, 2, metav1.ListOptions{ResourceVersion: from, LabelSelector: "team=x"})...)
			return append(out, e.events(plans, 1, metav1.ListOptions{ResourceVersion: from, FieldSelector: "metadata.name=c"})...)
		}, []string{"ADDED b", "MODIFIED b", "MODIFIED b", "DELETED b", "ADDED c", "ADDED b", "DELETED b", "ADDED c"}},
		{"too old", func(e *Env) []string {
			e.create(plans, e.ns, plan("a"))
			return e.events(plans, 1, metav1.ListOptions{ResourceVersion: "1"})
		}, []string{"410 Expired"}},
	}
}
