//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// documented returns the objects of the example on a page of docs/kinds, as printed there.
func documented(t *testing.T, page string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "kinds", page+".md"))
	must(t, err)
	_, block, ok := strings.Cut(string(text), "```yaml\n")
	block, _, closed := strings.Cut(block, "```")
	if !ok || !closed {
		t.Fatalf("docs/kinds/%s.md has no example", page)
	}
	return decoded(t, block)
}

func decoded(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for _, doc := range strings.Split(text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(doc), &obj.Object))
		if len(obj.Object) > 0 {
			out = append(out, obj)
		}
	}
	return out
}

// live gives every pod template of an object the run time that the lab's nodes keep, an hour,
// except those that run until they are ended.
func live(obj any, endless bool) {
	switch x := obj.(type) {
	case map[string]any:
		if template, ok := x["template"].(map[string]any); ok {
			if spec, ok := template["spec"].(map[string]any); ok && spec["containers"] != nil && !endless {
				m, _ := template["metadata"].(map[string]any)
				if m == nil {
					m = map[string]any{}
				}
				m["annotations"] = map[string]any{"lab.lull.dev/runtime": "1h"}
				template["metadata"] = m
			}
		}
		for _, v := range x {
			live(v, endless)
		}
	case []any:
		for _, v := range x {
			live(v, endless)
		}
	}
}

// narrow is clean for one hour of the day only, and dirtiest before it: what can scale does.
func narrow() []float64 {
	out := make([]float64, 24)
	for h := range out {
		out[h] = 500
		switch {
		case h < 8:
			out[h] = 600
		case h == 8:
			out[h] = 50
		}
	}
	return out
}

// asPrinted is how the example of a kind must live.
type asPrinted struct {
	page, kind string
	// plan is the name of its CarbonPlan.
	plan string
	// endless pods run until they are ended; unfinished kinds are not waited for.
	endless, unfinished bool
	// change is applied to the objects before they are created.
	change func(*unstructured.Unstructured)
}

// run applies the example and follows it from its hold to its end.
func (x asPrinted) run(t *testing.T) {
	t.Helper()
	t.Parallel() // each has a namespace, a zone and a policy of its own
	ctx := context.Background()
	kind := kindNamed(t, x.kind)
	b := newBed(t, narrow(), func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"}
		if p.Spec.Kinds = []string{"Job"}; x.kind != "Job" {
			p.Spec.Kinds = append(p.Spec.Kinds, x.kind)
		}
		p.Spec.StartMargin.Duration = 15 * time.Minute
	})
	objects := documented(t, x.page)
	for i, obj := range objects {
		obj.SetNamespace(b.ns)
		live(obj.Object, x.endless)
		if x.kind == "Pod" {
			a := obj.GetAnnotations()
			a["lab.lull.dev/runtime"] = "1h"
			obj.SetAnnotations(a)
		}
		if x.change != nil {
			x.change(obj)
		}
		var err error
		t.Cleanup(func() {
			if t.Failed() && err != nil {
				t.Logf("the last dry run: %v", err)
			}
		})
		b.eventually("admission to know the kind", func() bool {
			probe := obj.DeepCopy()
			err = env.client.Create(ctx, probe, client.DryRunAll)
			return err == nil && probe.GetAnnotations()[v1alpha1.AnnotationPolicy] != ""
		})
		if i == 0 {
			b.beginAgain() // an operator may have taken long to start
		}
		must(t, env.client.Create(ctx, obj))
		if f := kind.Read(obj.Object); !f.Suspended || obj.GetAnnotations()[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission {
			t.Fatalf("%s was created with facts %+v, annotations %v", x.kind, f, obj.GetAnnotations())
		}
	}
	read := func() kinds.Facts {
		var f kinds.Facts
		for i, obj := range objects {
			now := &unstructured.Unstructured{}
			now.SetGroupVersionKind(kind.GVK())
			must(t, env.client.Get(ctx, client.ObjectKeyFromObject(obj), now))
			g := kind.Read(now.Object)
			if i == 0 {
				f = g
			}
			f.Suspended = f.Suspended || g.Suspended
			f.Finished = f.Finished && g.Finished
		}
		return f
	}
	b.eventually("a plan", func() bool {
		s := b.plan(x.plan).Status
		return s.State == v1alpha1.PlanWaiting && len(s.Phases) > 0
	})
	planned := b.plan(x.plan).Status
	most := 0
	b.eventually("it to be released", func() bool {
		f := read()
		most = max(most, f.Workers)
		return !f.Suspended
	})
	// A release that comes late, on a slow machine, may be by another plan than the first.
	released := b.plan(x.plan).Status
	if at := b.gridTime(time.Now()); at.Before(gridStart.Add(7*time.Hour + 40*time.Minute)) {
		t.Errorf("released at %v of the series, the clean hour begins at 08:00; plan %+v", at, planned.Phases)
	}
	b.eventually("its plan to run with pods", func() bool {
		f := read()
		most = max(most, f.Workers)
		s := b.plan(x.plan).Status
		return s.State == v1alpha1.PlanFinished || s.State == v1alpha1.PlanRunning && s.EmittedG > 0
	})
	if kind.Elastic() && len(released.Phases) > 0 && released.Phases[0].Workers > 1 && most < 2 {
		t.Errorf("planned with %d workers, seen with at most %d", released.Phases[0].Workers, most)
	}
	if kind.Elastic() && workersAt(planned.Phases, gridStart.Add(8*time.Hour+30*time.Minute)) < 2 {
		t.Errorf("plan %+v: want more than the least in the clean hour", planned.Phases)
	}
	if !x.unfinished {
		b.eventually("it to finish", func() bool { return read().Finished })
		b.eventually("the plan to say so", func() bool { return b.plan(x.plan).Status.State == v1alpha1.PlanFinished })
	}
	for _, obj := range objects {
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(kind.GVK())
		must(t, env.client.Get(ctx, client.ObjectKeyFromObject(obj), now))
		if x.unfinished {
			continue
		}
		if now.GetAnnotations()[v1alpha1.AnnotationHold] != "" {
			t.Errorf("%s still carries a hold", now.GetName())
		}
	}
	t.Logf("%s: %s, next %s, at most %d workers", x.kind, planned.Shown.Saves, planned.Shown.Next, most)
}

// workersAt is the scale of a plan at a time, 0 if it does not run then. What work the clean hour leaves may be done
// before it or after it.
func workersAt(phases []v1alpha1.PlanPhase, at time.Time) int {
	for i := range phases {
		if p := &phases[i]; !p.From.After(at) && p.To.After(at) {
			return int(p.Workers)
		}
	}
	return 0
}

func kindNamed(t *testing.T, name string) *kinds.Kind {
	t.Helper()
	if name == "Crunch" {
		return crunchKind(t)
	}
	of, err := kinds.Named([]string{name})
	must(t, err)
	return of[0]
}

// TestKindsAsPrinted applies the examples of the kinds that every cluster has.
func TestKindsAsPrinted(t *testing.T) {
	startController(t)
	for _, x := range []asPrinted{
		{page: "job", kind: "Job", plan: "job-render"},
		{page: "pod", kind: "Pod", plan: "podgroup-pair"},
		{page: "deployment", kind: "Deployment", plan: "deployment-transcoders", endless: true, unfinished: true},
	} {
		t.Run(x.kind, x.run)
	}
}

func crunchKind(t *testing.T) *kinds.Kind {
	t.Helper()
	text, err := yaml.Marshal(documented(t, "other")[0].Object)
	must(t, err)
	k, err := kinds.Parse(text)
	must(t, err)
	return k
}

// crunchCRD is a kind that nobody has ever heard of.
var crunchCRD = crdOf("example.com", "crunches", "Crunch")

// crdOf defines a kind whose objects may be anything.
func crdOf(group, plural, kind string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[1]s}
spec:
  group: %[1]s
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[2]s, singular: %[4]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, group, plural, kind, strings.ToLower(kind))
}

// TestAnyOtherKind: a custom resource is governed by a WorkloadKind alone, applied while
// everything runs, with the rights that "lull manifests --kind-file" grants.
func TestAnyOtherKind(t *testing.T) {
	startController(t)
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "crunch.yaml")
	text, err := yaml.Marshal(documented(t, "other")[0].Object)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	b := newBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"Job", "Crunch"} })
	manifests := []string{"manifests", "--kinds", "Job", "--kind-file", file}
	if older() != "" {
		manifests = append(manifests, "--webhook")
	}
	for _, obj := range append(decoded(t, crunchCRD), decoded(t, command(t, manifests...))...) {
		must(t, env.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"), client.ForceOwnership))
	}
	t.Cleanup(func() {
		for _, obj := range decoded(t, crunchCRD) {
			_ = env.client.Delete(ctx, obj)
		}
		_ = env.client.Delete(ctx, &v1alpha1.WorkloadKind{ObjectMeta: metav1.ObjectMeta{Name: "crunches.example.com"}})
	})
	crunch := func() *unstructured.Unstructured {
		return decoded(t, `{apiVersion: example.com/v1, kind: Crunch, metadata: {name: numbers, namespace: `+b.ns+`, labels: {team: batch}, annotations: {lull.dev/runtime: 2h, lull.dev/max-delay: 12h, lull.dev/max-workers: "4"}}, spec: {size: 1, template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}}}`)[0]
	}
	b.eventually("admission to know the kind", func() bool {
		probe := crunch()
		return env.client.Create(ctx, probe, client.DryRunAll) == nil && probe.GetAnnotations()[v1alpha1.AnnotationHold] != ""
	})
	must(t, env.client.Create(ctx, crunch()))
	read := func() (*unstructured.Unstructured, kinds.Facts) {
		u := crunch()
		must(t, env.client.Get(ctx, client.ObjectKeyFromObject(u), u))
		return u, crunchKind(t).Read(u.Object)
	}
	b.eventually("a plan", func() bool { return len(b.plan("crunch-numbers").Status.Phases) > 0 })
	b.eventually("it to be released", func() bool { _, f := read(); return !f.Suspended })
	if at := b.gridTime(time.Now()); at.Before(gridStart.Add(7*time.Hour + 40*time.Minute)) {
		t.Errorf("released at %v of the series, want the clean hours from 08:00", at)
	}
	u, _ := read()
	patch := client.MergeFrom(u.DeepCopy())
	must(t, unstructured.SetNestedField(u.Object, "Done", "status", "phase"))
	must(t, env.client.Patch(ctx, u, patch))
	b.eventually("the plan to be finished", func() bool { return b.plan("crunch-numbers").Status.State == v1alpha1.PlanFinished })
}
