package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// bounds returns the validations of the policy that bounds the controller's account, ready to be evaluated.
func bounds(t *testing.T, k *Kind) (all []cel.Program) {
	t.Helper()
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("request", cel.DynType), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range strings.Split(k.Manifests(), "\n---\n") {
		var policy struct {
			Kind string
			Spec struct {
				Validations []struct{ Expression string }
			}
		}
		if !strings.Contains(doc, "\n  name: bound-") {
			continue
		}
		if err := yaml.Unmarshal([]byte(doc), &policy); err != nil {
			t.Fatal(err)
		}
		for _, v := range policy.Spec.Validations {
			ast, issues := env.Compile(v.Expression)
			if issues.Err() != nil {
				t.Fatalf("%s: %s: %v", k.Name, v.Expression, issues.Err())
			}
			program, err := env.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, program)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s: nothing bounds the controller", k.Name)
	}
	return all
}

// allowed reports whether the controller may make the change.
func allowed(t *testing.T, all []cel.Program, old, object map[string]any) bool {
	t.Helper()
	return allowedBy(t, map[string]any{"operation": "UPDATE"}, all, old, object)
}

func allowedBy(t *testing.T, request map[string]any, all []cel.Program, old, object map[string]any) bool {
	t.Helper()
	for _, p := range all {
		out, _, err := p.Eval(map[string]any{"request": request, "object": object, "oldObject": old})
		if err != nil || out.Value() != true { // failurePolicy is Fail
			return false
		}
	}
	return true
}

// grown is what is at a path, with something beside each part of it.
func grown(at any, p path) any {
	if len(p) == 0 {
		return int64(1)
	}
	if p[0].index >= 0 {
		list, _ := at.([]any)
		for len(list) < p[0].index+2 {
			list = append(list, map[string]any{"beside": "item"})
		}
		list[p[0].index] = grown(list[p[0].index], p[1:])
		return list
	}
	m, _ := at.(map[string]any)
	if m == nil {
		m = map[string]any{"beside": "x"}
	}
	m[p[0].key] = grown(m[p[0].key], p[1:])
	return m
}

// fullObject is an object of a kind that has something beside each field that Lull changes.
func fullObject(t *testing.T, k *Kind) map[string]any {
	t.Helper()
	obj := object(t, `{apiVersion: v1, metadata: {name: a, namespace: team, resourceVersion: "1", labels: {app: x}, finalizers: [f], ownerReferences: [{name: o}],
		annotations: {mine: "1", lull.dev/policy: green}}, status: {observed: 1}, spec: {other: {x: 1, list: [1, 2]}, schedulingGates: [{name: x/other}, {name: lull.dev/hold}]}}`)
	for _, p := range k.changed() {
		grown(obj, p)
	}
	return obj
}

// otherwise returns copies of an object, each with one thing changed, added or removed, by where it differs.
func otherwise(t *testing.T, obj map[string]any) map[string]map[string]any {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	// find leads from a fresh copy to what is at a place.
	var visit func(at any, where string, find func(any) any)
	visit = func(at any, where string, find func(any) any) {
		differ := func(what string, change func(at any)) {
			fresh := object(t, string(text))
			change(find(fresh))
			out[where+what] = fresh
		}
		switch x := at.(type) {
		case map[string]any:
			differ(".added", func(at any) { at.(map[string]any)["added"] = int64(1) })
			for key, value := range x {
				differ("."+key+" removed", func(at any) { delete(at.(map[string]any), key) })
				differ("."+key+" changed", func(at any) { at.(map[string]any)[key] = "changed" })
				visit(value, where+"."+key, func(root any) any { return find(root).(map[string]any)[key] })
			}
		case []any:
			for i, value := range x {
				differ(fmt.Sprintf("[%d] changed", i), func(at any) { at.([]any)[i] = "changed" })
				visit(value, fmt.Sprintf("%s[%d]", where, i), func(root any) any { return find(root).([]any)[i] })
			}
		}
	}
	visit(obj, "", func(root any) any { return root })
	return out
}

// TestControllerMayChangeOnlyItsFields: what Lull does to an object of each kind is allowed to the controller's account; anything else is refused.
func TestControllerMayChangeOnlyItsFields(t *testing.T) {
	for _, k := range Builtin() {
		all, obj := bounds(t, k), fullObject(t, k)
		for name, change := range map[string]func(*Patch){
			"hold": k.Hold, "release": func(p *Patch) { k.Release(p, 3) }, "scale": func(p *Patch) { k.Scale(p, 5) },
			"annotate": func(p *Patch) {
				p.Annotate(v1alpha1.AnnotationPolicy, "")
				p.Annotate(v1alpha1.AnnotationHold, v1alpha1.HoldPaused)
			},
		} {
			olds := []map[string]any{obj}
			if !slices.ContainsFunc(k.changed(), func(p path) bool { return slices.ContainsFunc(p, func(s step) bool { return s.index >= 0 }) }) {
				olds = append(olds, object(t, `{metadata: {name: a, resourceVersion: "1"}, spec: {schedulingGates: [{name: lull.dev/hold}]}}`))
			}
			for _, old := range olds {
				p := NewPatch(old)
				change(p)
				if !allowed(t, all, old, applied(t, p, old)) {
					t.Errorf("%s: the controller may not %s", k.Name, name)
				}
			}
		}
		may := []string{".metadata.resourceVersion", ".metadata.annotations.lull.dev"}
		if k.Spec.Hold.Gate {
			may = append(may, ".spec.schedulingGates[1]") // its own
		}
		for _, p := range k.changed() {
			may = append(may, "."+p.String())
		}
		n := 0
		for where, changed := range otherwise(t, obj) {
			if slices.ContainsFunc(may, func(m string) bool { return strings.HasPrefix(where, m) }) {
				continue
			}
			n++
			if allowed(t, all, obj, changed) {
				t.Errorf("%s: the controller may change %s", k.Name, where)
			}
		}
		status := map[string]any{"operation": "UPDATE", "subResource": "status"}
		for where, changed := range otherwise(t, obj) {
			if allowedBy(t, status, all, obj, changed) && !slices.ContainsFunc(may, func(m string) bool { return strings.HasPrefix(where, m) }) {
				t.Errorf("%s: the controller may change the status at %s", k.Name, where)
			}
		}
		if n < 30 {
			t.Errorf("%s: only %d changes were tried", k.Name, n)
		}
	}
}

// TestBoundOfGates: the controller may take away its own scheduling gate, and none of others.
func TestBoundOfGates(t *testing.T) {
	of, err := Named([]string{"Pod"})
	if err != nil {
		t.Fatal(err)
	}
	gates := func(names ...string) map[string]any {
		var list []any
		for _, n := range names {
			list = append(list, map[string]any{"name": n})
		}
		return map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"schedulingGates": list}}
	}
	all, before := bounds(t, of[0]), gates("x/other", v1alpha1.Gate)
	for name, tc := range map[string]struct {
		after map[string]any
		want  bool
	}{
		"its own":          {gates("x/other"), true},
		"that of others":   {gates(v1alpha1.Gate), false},
		"all":              {gates(), false},
		"one of another's": {gates("x/mine", v1alpha1.Gate), false},
	} {
		if got := allowed(t, all, before, tc.after); got != tc.want {
			t.Errorf("%s: allowed %v", name, got)
		}
	}
}

// TestDryRunOnly: the controller may create Jobs, Pods and Deployments as a dry run only; it has no right to create another kind.
func TestDryRunOnly(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	var probed []string
	for _, k := range Builtin() {
		creates, allowed := strings.Contains(k.Manifests(), `verbs: ["create"]`), map[bool]bool{}
		if bounded := strings.Contains(k.Rights(), "name: dry-run-"+k.objectName()+".lull.dev"); bounded != creates {
			t.Errorf("%s: may be created: %v, as a dry run only: %v", k.Name, creates, bounded)
		}
		if !creates {
			continue
		}
		probed = append(probed, k.Name)
		for _, doc := range strings.Split(k.dryRun(), "\n---\n") {
			var policy struct {
				Spec struct {
					FailurePolicy string
					Validations   []struct{ Expression string }
				}
			}
			if err := yaml.Unmarshal([]byte(doc), &policy); err != nil {
				t.Fatal(err)
			}
			for _, v := range policy.Spec.Validations {
				ast, issues := env.Compile(v.Expression)
				if issues.Err() != nil || policy.Spec.FailurePolicy != "Fail" {
					t.Fatalf("%s: %v, failurePolicy %s", k.Name, issues.Err(), policy.Spec.FailurePolicy)
				}
				program, err := env.Program(ast)
				if err != nil {
					t.Fatal(err)
				}
				for _, request := range []map[string]any{{}, {"dryRun": false}, {"dryRun": true}} {
					out, _, err := program.Eval(map[string]any{"request": request})
					if err != nil {
						t.Fatal(err)
					}
					dry, _ := request["dryRun"].(bool)
					allowed[dry] = allowed[dry] || out.Value().(bool)
				}
			}
		}
		if allowed[false] || !allowed[true] {
			t.Errorf("%s: allowed by whether it is a dry run: %v", k.Name, allowed)
		}
	}
	if !slices.Equal(probed, []string{"Deployment", "Job", "Pod"}) {
		t.Errorf("the controller may create %v", probed)
	}
}

// TestLongListKeepsNoWorkHeld: the controller may release an object with a list of more than maxItems items, as that changes none of them.
func TestLongListKeepsNoWorkHeld(t *testing.T) {
	of, err := Named([]string{"RayJob"})
	if err != nil {
		t.Fatal(err)
	}
	k := of[0]
	var groups []string
	for i := range maxItems + 20 {
		groups = append(groups, fmt.Sprintf("{groupName: g%d, replicas: 1}", i))
	}
	old := object(t, `{metadata: {name: a}, spec: {suspend: true, rayClusterSpec: {workerGroupSpecs: [`+strings.Join(groups, ", ")+`]}}}`)
	p := NewPatch(old)
	k.Release(p, 0)
	if !allowed(t, bounds(t, k), old, applied(t, p, old)) {
		t.Error("the controller may not release it")
	}
}
