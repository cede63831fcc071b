package operations

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// deletionCases are about what goes with an object, and what keeps it.
func deletionCases() []Case {
	return []Case{finalizersOfWhatIsOwnedCase(), twoOwnersCase(), ownerThatIsGoneCase(), preconditionsOfDeletionsCase(), namespaceCase(), dryRunsCase(), kindsOfPatchesCase()}
}

// ownedBy makes an object an owned one.
func ownedBy(u *unstructured.Unstructured, owners ...*unstructured.Unstructured) *unstructured.Unstructured {
	var list []metav1.OwnerReference
	for _, o := range owners {
		list = append(list, metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()})
	}
	u.SetOwnerReferences(list)
	return u
}

// finalizer is a finalizer of nobody here.
const finalizer = "lull.dev/test"

func finalizersOfWhatIsOwnedCase() Case {
	return Case{"finalizers of what is owned", func(e *Env) []string {
		owner := e.create(configMaps, e.ns, configMap("owner", nil))
		owned := ownedBy(plan("owned"), owner)
		owned.SetFinalizers([]string{finalizer})
		owned = e.create(plans, e.ns, owned)
		e.create(configMaps, e.ns, ownedBy(configMap("below", nil), owned))
		out := []string{"delete: " + outcome(e.on(configMaps, e.ns).Delete(e.ctx, "owner", metav1.DeleteOptions{}))}
		e.eventually("what it owned to be deleted", func() bool { return e.get(plans, "owned").GetDeletionTimestamp() != nil })
		out = append(out, "below: "+e.found(configMaps, "below"))
		_, added := e.merge(plans, "owned", `{"metadata":{"finalizers":["lull.dev/test","lull.dev/other"]}}`)
		_, changed := e.merge(plans, "owned", `{"spec":{"policy":"other"}}`)
		again := e.on(plans, e.ns).Delete(e.ctx, "owned", metav1.DeleteOptions{})
		_, removed := e.merge(plans, "owned", `{"metadata":{"finalizers":null}}`)
		e.goes(configMaps, "below")
		return append(out, "finalizer added: "+added, "changed: "+changed, "deleted again: "+outcome(again), "finalizer removed: "+removed, "owned: "+e.found(plans, "owned"))
	}, []string{
		"delete: ok",
		"below: ok",
		"finalizer added: 422 Invalid",
		"changed: ok",
		"deleted again: ok",
		"finalizer removed: ok",
		"owned: 404 NotFound",
	}}
}

func twoOwnersCase() Case {
	return Case{"two owners", func(e *Env) []string {
		a, b := e.create(configMaps, e.ns, configMap("a", nil)), e.create(configMaps, e.ns, configMap("b", nil))
		e.create(plans, e.ns, ownedBy(plan("owned"), a, b))
		_ = e.on(configMaps, e.ns).Delete(e.ctx, "a", metav1.DeleteOptions{})
		e.eventually("the reference to the first owner to go", func() bool { return len(e.get(plans, "owned").GetOwnerReferences()) == 1 })
		out := []string{"left: " + e.get(plans, "owned").GetOwnerReferences()[0].Name}
		_ = e.on(configMaps, e.ns).Delete(e.ctx, "b", metav1.DeleteOptions{})
		e.goes(plans, "owned")
		return out
	}, []string{
		"left: b",
	}}
}

func ownerThatIsGoneCase() Case {
	return Case{"owner that is gone", func(e *Env) []string {
		owner := e.create(configMaps, e.ns, configMap("owner", nil))
		_ = e.on(configMaps, e.ns).Delete(e.ctx, "owner", metav1.DeleteOptions{})
		_, err := e.on(plans, e.ns).Create(e.ctx, ownedBy(plan("owned"), owner), metav1.CreateOptions{})
		e.goes(plans, "owned")
		e.create(configMaps, e.ns, configMap("owner", nil)) // another one of that name
		_, again := e.on(plans, e.ns).Create(e.ctx, ownedBy(plan("owned"), owner), metav1.CreateOptions{})
		e.goes(plans, "owned")
		return []string{outcome(err), outcome(again)}
	}, []string{
		"ok",
		"ok",
	}}
}

func preconditionsOfDeletionsCase() Case {
	return Case{"preconditions of deletions", func(e *Env) []string {
		made := e.create(plans, e.ns, plan("a"))
		uid, other, old := made.GetUID(), types.UID("another"), made.GetResourceVersion()
		now, _ := e.merge(plans, "a", `{"metadata":{"labels":{"x":"1"}}}`)
		version := now.GetResourceVersion()
		remove := func(what string, p metav1.Preconditions, dryRun ...string) string {
			return what + ": " + outcome(e.on(plans, e.ns).Delete(e.ctx, "a", metav1.DeleteOptions{Preconditions: &p, DryRun: dryRun}))
		}
		return []string{
			remove("another UID", metav1.Preconditions{UID: &other}), remove("an old version", metav1.Preconditions{ResourceVersion: &old}),
			remove("its UID and an old version", metav1.Preconditions{UID: &uid, ResourceVersion: &old}),
			remove("an old version, dry run", metav1.Preconditions{ResourceVersion: &old}, "All"), e.found(plans, "a"),
			remove("its UID and version", metav1.Preconditions{UID: &uid, ResourceVersion: &version}), e.found(plans, "a"),
		}
	}, []string{
		"another UID: 409 Conflict",
		"an old version: 409 Conflict",
		"its UID and an old version: 409 Conflict",
		"an old version, dry run: 409 Conflict",
		"ok",
		"its UID and version: ok",
		"404 NotFound",
	}}
}

func namespaceCase() Case {
	return Case{"namespace", func(e *Env) []string {
		ns := &Env{ctx: e.ctx, t: e.t, client: e.client, ns: e.ns + "-gone"}
		e.create(namespaces, "", object("v1", "Namespace", ns.ns, nil))
		kept := plan("kept")
		kept.SetFinalizers([]string{finalizer})
		ns.create(plans, ns.ns, kept)
		ns.create(plans, ns.ns, plan("other"))
		ns.create(configMaps, ns.ns, configMap("a", nil))
		out := []string{
			"dry run: " + outcome(ns.on(namespaces, "").Delete(ns.ctx, ns.ns, metav1.DeleteOptions{DryRun: []string{"All"}})),
			"delete: " + outcome(ns.on(namespaces, "").Delete(ns.ctx, ns.ns, metav1.DeleteOptions{})),
		}
		ns.goes(plans, "other")
		ns.goes(configMaps, "a")
		ns.eventually("the plan to be deleted", func() bool { return ns.get(plans, "kept").GetDeletionTimestamp() != nil })
		space, err := ns.on(namespaces, "").Get(ns.ctx, ns.ns, metav1.GetOptions{})
		if err != nil {
			return append(out, outcome(err))
		}
		_, created := ns.on(configMaps, ns.ns).Create(ns.ctx, configMap("late", nil), metav1.CreateOptions{})
		_, changed := ns.merge(plans, "kept", `{"metadata":{"labels":{"x":"1"}}}`)
		_, removed := ns.merge(plans, "kept", `{"metadata":{"finalizers":null}}`)
		ns.eventually("the namespace to go", func() bool {
			_, err := ns.on(namespaces, "").Get(ns.ctx, ns.ns, metav1.GetOptions{})
			return outcome(err) == gone
		})
		_, late := ns.on(configMaps, ns.ns).Create(ns.ctx, configMap("late", nil), metav1.CreateOptions{})
		return append(out, fields(space, "status", "phase"), "create: "+outcome(created), "change: "+changed, "finalizer removed: "+removed, "create later: "+outcome(late))
	}, []string{
		"dry run: ok",
		"delete: ok",
		`"Terminating"`,
		"create: 403 Forbidden",
		"change: ok",
		"finalizer removed: ok",
		"create later: 404 NotFound",
	}}
}

func dryRunsCase() Case {
	return Case{"dry runs", func(e *Env) []string {
		all := []string{"All"}
		made := e.create(plans, e.ns, plan("a"))
		changed := made.DeepCopy()
		_ = unstructured.SetNestedField(changed.Object, "other", "spec", "policy")
		put, err := e.on(plans, e.ns).Update(e.ctx, changed, metav1.UpdateOptions{DryRun: all})
		out := []string{"update: " + outcome(err) + " " + fields(put, "spec", "policy") + " generation " + fmt.Sprint(put.GetGeneration())}
		patched, err := e.on(plans, e.ns).Patch(e.ctx, "a", types.MergePatchType, []byte(`{"spec":{"policy":"third"}}`), metav1.PatchOptions{DryRun: all})
		out = append(out, "patch: "+outcome(err)+" "+fields(patched, "spec", "policy"))
		status, err := e.on(plans, e.ns).Patch(e.ctx, "a", types.MergePatchType, []byte(`{"status":{"message":"m"}}`), metav1.PatchOptions{DryRun: all}, "status")
		out = append(out, "patch of the status: "+outcome(err)+" "+fields(status, "status", "message"))
		_, err = e.on(plans, e.ns).Patch(e.ctx, "a", types.MergePatchType, []byte(`{"spec":{"policy":null}}`), metav1.PatchOptions{DryRun: all})
		out = append(out, "patch that is refused: "+outcome(err))
		out = append(out, "delete: "+outcome(e.on(plans, e.ns).Delete(e.ctx, "a", metav1.DeleteOptions{DryRun: all})), same(made, e.get(plans, "a")))
		_, err = e.on(plans, e.ns).Patch(e.ctx, "a", types.MergePatchType, []byte(`{"spec":{"policy":"third"}}`), metav1.PatchOptions{DryRun: []string{"Some"}})
		out = append(out, "unknown dry run of a patch: "+outcome(err))
		out = append(out, "unknown dry run of a deletion: "+outcome(e.on(plans, e.ns).Delete(e.ctx, "a", metav1.DeleteOptions{DryRun: []string{"Some"}})), e.found(plans, "a"))
		return out
	}, []string{
		`update: ok "other" generation 2`,
		`patch: ok "third"`,
		`patch of the status: ok "m"`,
		"patch that is refused: 422 Invalid",
		"delete: ok",
		"the same version",
		"unknown dry run of a patch: 422 Invalid",
		"unknown dry run of a deletion: 422 Invalid",
		"ok",
	}}
}

func kindsOfPatchesCase() Case {
	return Case{"kinds of patches", func(e *Env) []string {
		e.create(plans, e.ns, plan("a"))
		e.create(jobs, e.ns, held())
		send := func(r resource, kind types.PatchType, body string) string {
			_, err := e.on(r, e.ns).Patch(e.ctx, "a", kind, []byte(body), metav1.PatchOptions{})
			return body + ": " + outcome(err)
		}
		strategic := types.StrategicMergePatchType
		finalizers := func(names string) string { return `{"metadata":{"finalizers":[` + names + `]}}` }
		e.create(configMaps, e.ns, configMap("a", nil))
		out := []string{
			send(plans, strategic, `{"metadata":{"labels":{"x":"1"}}}`), send(jobs, strategic, finalizers(`"example.com/a"`)), send(jobs, strategic, finalizers(`"example.com/b"`)),
			fields(e.get(jobs, "a"), "metadata", "finalizers"),
			send(jobs, strategic, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/a","example.com/b"]}}`), fields(e.get(jobs, "a"), "metadata", "finalizers"),
			send(configMaps, strategic, `{"data":{"$patch":"replace","b":"2"}}`), fields(e.get(configMaps, "a"), "data"),
			send(jobs, strategic, `{"spec":{"suspend":"yes"}}`), send(jobs, strategic, `[]`),
			send(plans, types.MergePatchType, `[]`), send(plans, types.MergePatchType, `{`), send(plans, types.JSONPatchType, `{}`), send(plans, types.JSONPatchType, `[{"op":"replace","path":"/spec/none/x","value":1}]`),
			send(plans, types.JSONPatchType, `[{"op":"remove","path":"/spec/none"}]`), send(plans, "text/plain", `{}`),
		}
		uid := string(e.get(plans, "a").GetUID())
		for _, test := range []string{"another", uid} {
			_, err := e.on(plans, e.ns).Patch(e.ctx, "a", types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/uid","value":"`+test+`"},{"op":"add","path":"/metadata/labels","value":{"x":"1"}}]`), metav1.PatchOptions{})
			out = append(out, "test of a UID: "+outcome(err))
		}
		return out
	}, []string{
		`{"metadata":{"labels":{"x":"1"}}}: 415 UnsupportedMediaType`,
		`{"metadata":{"finalizers":["example.com/a"]}}: ok`,
		`{"metadata":{"finalizers":["example.com/b"]}}: ok`,
		`["example.com/b","example.com/a"]`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/a","example.com/b"]}}: ok`,
		"null",
		`{"data":{"$patch":"replace","b":"2"}}: ok`,
		`{"b":"2"}`,
		`{"spec":{"suspend":"yes"}}: 422 Invalid`,
		"[]: 400 BadRequest",
		"[]: 400 BadRequest",
		"{: 400 BadRequest",
		"{}: 400 BadRequest",
		`[{"op":"replace","path":"/spec/none/x","value":1}]: 422 Invalid`,
		`[{"op":"remove","path":"/spec/none"}]: 422 Invalid`,
		"{}: 415 UnsupportedMediaType",
		"test of a UID: 422 Invalid",
		"test of a UID: ok",
	}}
}

const gone = "404 NotFound"

// found is the outcome of reading an object.
func (e *Env) found(r resource, name string) string {
	_, err := e.on(r, e.ns).Get(e.ctx, name, metav1.GetOptions{})
	return outcome(err)
}

// goes waits until an object is gone.
func (e *Env) goes(r resource, name string) {
	e.t.Helper()
	e.eventually(r.Resource+" "+name+" to go", func() bool { return e.found(r, name) == gone })
}
