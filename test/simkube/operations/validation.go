package operations

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// validationCases are about objects that the API server refuses.
func validationCases() []Case {
	return []Case{schemasCase(), schemasOfAStatusCase(), quantitiesAndFieldsThatStayCase(), numbersInRulesCase(), metadataCase(), typesOfBuiltInKindsCase()}
}

func schemasCase() Case {
	selector := map[string]any{"matchLabels": map[string]any{"team": "batch"}}
	return Case{"schemas", func(e *Env) []string {
		var out []string
		for _, x := range []struct {
			what string
			spec map[string]any
		}{
			{"no zone", map[string]any{"selector": selector}},
			{"a zone that is a number", map[string]any{"selector": selector, "zone": int64(5)}},
			{"a zone without a character", map[string]any{"selector": selector, "zone": ""}},
			{"an unknown mode", map[string]any{"selector": selector, "zone": "z", "mode": "Other"}},
			{"a threshold below the least", map[string]any{"selector": selector, "zone": "z", "replanThreshold": -0.5}},
			{"a kind twice", map[string]any{"selector": selector, "zone": "z", "kinds": []any{"Job", "Job"}}},
			{"a slot of a second", map[string]any{"selector": selector, "zone": "z", "slot": "1s"}},
			{"a slot that is no duration", map[string]any{"selector": selector, "zone": "z", "slot": "long"}},
			{"clusters without queues", map[string]any{"selector": selector, "zone": "z", "clusters": []any{"a"}}},
			{"a whole number where any is accepted", map[string]any{"selector": selector, "zone": "z", "replanThreshold": int64(0), "power": map[string]any{"wattsPerUnit": map[string]any{"cpu": int64(4)}}}},
		} {
			out = append(out, x.what+": "+e.dry(policies, policy("p", x.spec)))
		}
		e.create(policies, e.ns, policy("p", map[string]any{"selector": selector, "zone": "z"}))
		for _, patch := range []string{`{"spec":{"zone":null}}`, `{"spec":{"slot":"1s"}}`, `{"spec":{"slot":"30m"}}`} {
			_, outcome := e.merge(policies, "p", patch)
			out = append(out, patch+": "+outcome)
		}
		return out
	}, []string{
		"no zone: 422 Invalid",
		"a zone that is a number: 422 Invalid",
		"a zone without a character: 422 Invalid",
		"an unknown mode: 422 Invalid",
		"a threshold below the least: 422 Invalid",
		"a kind twice: 422 Invalid",
		"a slot of a second: 422 Invalid",
		"a slot that is no duration: 422 Invalid",
		"clusters without queues: 422 Invalid",
		"a whole number where any is accepted: ok",
		`{"spec":{"zone":null}}: 422 Invalid`,
		`{"spec":{"slot":"1s"}}: 422 Invalid`,
		`{"spec":{"slot":"30m"}}: ok`,
	}}
}

func schemasOfAStatusCase() Case {
	return Case{"schemas of a status", func(e *Env) []string {
		e.create(plans, e.ns, plan("a"))
		var out []string
		for _, patch := range []string{
			`{"status":{"state":"Other"}}`, `{"status":{"deadline":"tomorrow"}}`, `{"status":{"workers":1.5}}`, `{"status":{"workers":4294967296}}`,
			`{"status":{"trigger":{"reason":"r"}}}`, `{"status":{"observed":[{"workers":1,"throughput":1,"samples":1,"last":"2026-01-01T00:00:00Z"},{"workers":1,"throughput":2,"samples":1,"last":"2026-01-01T00:00:00Z"}]}}`,
			`{"status":{"state":"Waiting","deadline":"2026-01-01T00:00:00Z","expectedG":3,"unknown":1}}`,
		} {
			_, outcome := e.merge(plans, "a", patch, "status")
			out = append(out, patch+": "+outcome)
		}
		return append(out, fields(e.get(plans, "a"), "status"))
	}, []string{
		`{"status":{"state":"Other"}}: 422 Invalid`,
		`{"status":{"deadline":"tomorrow"}}: 422 Invalid`,
		`{"status":{"workers":1.5}}: 422 Invalid`,
		`{"status":{"workers":4294967296}}: 422 Invalid`,
		`{"status":{"trigger":{"reason":"r"}}}: 422 Invalid`,
		`{"status":{"observed":[{"workers":1,"throughput":1,"samples":1,"last":"2026-01-01T00:00:00Z"},{"workers":1,"throughput":2,"samples":1,"last":"2026-01-01T00:00:00Z"}]}}: 422 Invalid`,
		`{"status":{"state":"Waiting","deadline":"2026-01-01T00:00:00Z","expectedG":3,"unknown":1}}: ok`,
		`{"deadline":"2026-01-01T00:00:00Z","expectedG":3,"state":"Waiting"}`,
	}}
}

func quantitiesAndFieldsThatStayCase() Case {
	return Case{"quantities and fields that stay", func(e *Env) []string {
		curve := func(minimum, maximum any) *unstructured.Unstructured {
			return object("lull.dev/v1alpha1", "CapacityCurve", e.ns, map[string]any{"spec": map[string]any{
				"zone": "z", "minimum": minimum, "maximum": maximum, "target": map[string]any{"cohort": "a"}, "mode": "Shadow",
				"method": map[string]any{"schedule": []any{map[string]any{"from": "00:00", "to": "24:00", "capacity": int64(1)}}},
			}})
		}
		all := e.on(curves, "")
		patch := func(body string) string {
			_, outcome := e.mergeIn(curves, "", e.ns, body)
			return body + ": " + outcome
		}
		var out []string
		for _, x := range [][2]any{{"2", "1"}, {int64(2), "1500m"}, {"500m", "x"}, {"-1", "1"}, {"0", int64(0)}} {
			_, err := all.Create(e.ctx, curve(x[0], x[1]), metav1.CreateOptions{DryRun: []string{"All"}})
			out = append(out, fmt.Sprintf("%v to %v: %s", x[0], x[1], outcome(err)))
		}
		e.create(curves, "", curve("500m", int64(2)))
		out = append(out,
			patch(`{"spec":{"target":{"cohort":"b"}}}`), patch(`{"spec":{"target":{"cohort":null,"nodePool":"a"}}}`), patch(`{"spec":{"target":{"nodePool":"a"}}}`),
			patch(`{"spec":{"maximum":"100m"}}`), patch(`{"spec":{"method":{"schedule":[]}}}`), patch(`{"spec":{"maximum":"3"}}`))
		return append(out, "delete: "+outcome(all.Delete(e.ctx, e.ns, metav1.DeleteOptions{})))
	}, []string{
		"2 to 1: 422 Invalid",
		"2 to 1500m: 422 Invalid",
		"500m to x: 422 Invalid",
		"-1 to 1: 422 Invalid",
		"0 to 0: 422 Invalid",
		`{"spec":{"target":{"cohort":"b"}}}: 422 Invalid`,
		`{"spec":{"target":{"cohort":null,"nodePool":"a"}}}: 422 Invalid`,
		`{"spec":{"target":{"nodePool":"a"}}}: 422 Invalid`,
		`{"spec":{"maximum":"100m"}}: 422 Invalid`,
		`{"spec":{"method":{"schedule":[]}}}: 422 Invalid`,
		`{"spec":{"maximum":"3"}}: ok`,
		"delete: ok",
	}}
}

func numbersInRulesCase() Case {
	return Case{"numbers in rules", func(e *Env) []string {
		var out []string
		for _, x := range [][4]any{
			{int64(1), int64(10), int64(4), int64(30)}, {int64(1), 10.5, int64(4), int64(30)}, {int64(1), int64(10), int64(4), int64(100000000)},
			{int64(1), int64(10), int64(1), int64(30)}, {int64(4), int64(10), int64(1), int64(30)}, {int64(1), int64(0), int64(4), int64(30)}, {1.5, int64(1), int64(4), int64(30)},
		} {
			points := []any{map[string]any{"workers": x[0], "throughput": x[1]}, map[string]any{"workers": x[2], "throughput": x[3]}}
			out = append(out, fmt.Sprint(x, ": ", e.dry(profiles, object("lull.dev/v1alpha1", "ScalingProfile", "a", map[string]any{"spec": map[string]any{"points": points}}))))
		}
		var most, twice []any
		for n := range int64(256) {
			most = append(most, map[string]any{"workers": n + 1, "throughput": n + 1})
			twice = append(twice, map[string]any{"workers": min(n+1, 255), "throughput": n + 1})
		}
		for _, points := range [][]any{most, twice} {
			out = append(out, fmt.Sprint(len(points), " points: ", e.dry(profiles, object("lull.dev/v1alpha1", "ScalingProfile", "a", map[string]any{"spec": map[string]any{"points": points}}))))
		}
		return out
	}, []string{
		"[1 10 4 30]: ok",
		"[1 10.5 4 30]: ok",
		"[1 10 4 100000000]: 422 Invalid",
		"[1 10 1 30]: 422 Invalid",
		"[4 10 1 30]: 422 Invalid",
		"[1 0 4 30]: 422 Invalid",
		"[1.5 1 4 30]: 422 Invalid",
		"256 points: ok",
		"256 points: 422 Invalid",
	}}
}

func metadataCase() Case {
	return Case{"metadata", func(e *Env) []string {
		named := func(f func(u *unstructured.Unstructured)) string {
			u := plan("a")
			f(u)
			return e.dry(plans, u)
		}
		elsewhere := plan("a")
		elsewhere.SetNamespace("default")
		other := plan("a")
		other.SetKind("CarbonPolicy")
		versioned := plan("versioned")
		versioned.SetResourceVersion("1")
		_, stored := e.on(plans, e.ns).Create(e.ctx, versioned, metav1.CreateOptions{})
		out := []string{
			"a name with capitals: " + named(func(u *unstructured.Unstructured) { u.SetName("A") }),
			"a label with a space: " + named(func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b c"}) }),
			"an annotation without a name: " + named(func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"lull.dev/": "x"}) }),
			"a finalizer without a domain: " + named(func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"a b"}) }),
			"an owner without a UID: " + named(func(u *unstructured.Unstructured) {
				u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}})
			}),
			"another namespace: " + e.dry(plans, elsewhere), "another kind: " + e.dry(plans, other), "with a version, as a dry run: " + e.dry(plans, versioned), "with a version: " + outcome(stored),
		}
		made := e.create(plans, e.ns, plan("a"))
		_, label := e.merge(plans, "a", `{"metadata":{"labels":{"a":"b c"}}}`)
		_, renamed := e.merge(plans, "a", `{"metadata":{"name":"b"}}`)
		_, uid := e.merge(plans, "a", `{"metadata":{"uid":"00000000-0000-4000-8000-000000000000"}}`)
		_, nouid := e.merge(plans, "a", `{"metadata":{"uid":null}}`)
		_, noVersion := e.merge(plans, "a", `{"metadata":{"resourceVersion":null,"labels":{"x":"1"}}}`)
		fresh := e.get(plans, "a")
		fresh.SetUID("00000000-0000-4000-8000-000000000000")
		_, put := e.update(plans, fresh)
		mapped := e.create(configMaps, e.ns, configMap("a", nil))
		mapped.SetUID("00000000-0000-4000-8000-000000000000")
		mapped.SetResourceVersion("")
		_, putBuiltIn := e.update(configMaps, mapped)
		_, patchBuiltIn := e.merge(configMaps, "a", `{"metadata":{"uid":"00000000-0000-4000-8000-000000000000"}}`)
		same := "the same UID"
		if e.get(plans, "a").GetUID() != made.GetUID() {
			same = "another UID"
		}
		return append(out, "patched label: "+label, "patched name: "+renamed, "patched UID: "+uid, "patched without UID: "+nouid, "patched without version: "+noVersion, "put with another UID: "+put,
			"put of a built-in kind with another UID: "+putBuiltIn, "patched UID of a built-in kind: "+patchBuiltIn, same)
	}, []string{
		"a name with capitals: 422 Invalid",
		"a label with a space: 422 Invalid",
		"an annotation without a name: 422 Invalid",
		"a finalizer without a domain: 422 Invalid",
		"an owner without a UID: 422 Invalid",
		"another namespace: 400 BadRequest",
		"another kind: 422 Invalid",
		"with a version, as a dry run: ok",
		"with a version: 500 ",
		"patched label: 422 Invalid",
		"patched name: 400 BadRequest",
		"patched UID: 422 Invalid",
		"patched without UID: ok",
		"patched without version: 422 Invalid",
		"put with another UID: 409 Conflict",
		"put of a built-in kind with another UID: 409 Conflict",
		"patched UID of a built-in kind: 422 Invalid",
		"the same UID",
	}}
}

func typesOfBuiltInKindsCase() Case {
	return Case{"types of built-in kinds", func(e *Env) []string {
		bad := job("a", nil)
		_ = unstructured.SetNestedField(bad.Object, "yes", "spec", "suspend")
		e.create(jobs, e.ns, held())
		_, patched := e.merge(jobs, "a", `{"spec":{"suspend":"yes"}}`)
		_, number := e.merge(jobs, "a", `{"spec":{"parallelism":"2"}}`)
		_, half := e.merge(jobs, "a", `{"spec":{"parallelism":1.5}}`)
		_, annotation := e.merge(jobs, "a", `{"metadata":{"annotations":{"a":1}}}`)
		return []string{"created: " + e.dry(jobs, bad), "suspend: " + patched, "parallelism: " + number, "half a Pod: " + half, "annotation: " + annotation}
	}, []string{
		"created: 400 BadRequest",
		"suspend: 422 Invalid",
		"parallelism: 422 Invalid",
		"half a Pod: 422 Invalid",
		"annotation: 422 Invalid",
	}}
}

// dry is the outcome of a dry run of a creation.
func (e *Env) dry(r resource, obj *unstructured.Unstructured) string {
	_, err := e.on(r, e.ns).Create(e.ctx, obj, metav1.CreateOptions{DryRun: []string{"All"}})
	return outcome(err)
}
