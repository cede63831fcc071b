package operations

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// held is a suspended Job of the name a.
func held() *unstructured.Unstructured {
	out := job("a", nil)
	_ = unstructured.SetNestedField(out.Object, true, "spec", "suspend")
	return out
}

// patchAll applies merge patches to the object a, one after the other, and returns each with its outcome.
func (e *Env) patchAll(r resource, patches ...string) (out []string) {
	for _, patch := range patches {
		_, outcome := e.merge(r, "a", patch)
		out = append(out, patch+": "+outcome)
	}
	return out
}

// started waits until a Job has started, or until it has not.
func (e *Env) started(name string, want bool) {
	e.t.Helper()
	e.eventually("the Job to start or stop", func() bool {
		at, _, _ := unstructured.NestedString(e.get(jobs, name).Object, "status", "startTime")
		return (at != "") == want
	})
}

// workloadCases are about fields of Jobs, Pods and Deployments that can be changed, and those that cannot.
func workloadCases() []Case {
	return []Case{newJobsCase(), suspendedJobCase(), startedJobCase(), indexedJobCase(), podsCase(), deploymentCase()}
}

func newJobsCase() Case {
	return Case{"new Jobs", func(e *Env) []string {
		var out []string
		for _, x := range []struct {
			what  string
			value any
			path  []string
		}{
			{"parallelism below zero", int64(-1), []string{"spec", "parallelism"}},
			{"completions below zero", int64(-1), []string{"spec", "completions"}},
			{"indexed without completions", "Indexed", []string{"spec", "completionMode"}},
			{"unknown completion mode", "Other", []string{"spec", "completionMode"}},
			{"active deadline below zero", int64(-1), []string{"spec", "activeDeadlineSeconds"}},
			{"backoff limit below zero", int64(-1), []string{"spec", "backoffLimit"}},
			{"Pods that start anew always", "Always", []string{"spec", "template", "spec", "restartPolicy"}},
			{"no containers", []any{}, []string{"spec", "template", "spec", "containers"}},
			{"a container without a name", []any{map[string]any{"image": "example.invalid/work"}}, []string{"spec", "template", "spec", "containers"}},
			{"a container without an image", []any{map[string]any{"name": "work"}}, []string{"spec", "template", "spec", "containers"}},
			{"parallelism zero", int64(0), []string{"spec", "parallelism"}},
		} {
			j := job("a", nil)
			if x.what == "indexed without completions" {
				_ = unstructured.SetNestedField(j.Object, int64(2), "spec", "parallelism")
			}
			_ = unstructured.SetNestedField(j.Object, x.value, x.path...)
			out = append(out, x.what+": "+e.dry(jobs, j))
		}
		return out
	}, []string{
		"parallelism below zero: 422 Invalid",
		"completions below zero: 422 Invalid",
		"indexed without completions: 422 Invalid",
		"unknown completion mode: 422 Invalid",
		"active deadline below zero: 422 Invalid",
		"backoff limit below zero: 422 Invalid",
		"Pods that start anew always: 422 Invalid",
		"no containers: 422 Invalid",
		"a container without a name: 422 Invalid",
		"a container without an image: 422 Invalid",
		"parallelism zero: ok",
	}}
}

func suspendedJobCase() Case {
	return Case{"suspended Job", func(e *Env) []string {
		e.create(jobs, e.ns, held())
		return e.patchAll(
			jobs, `{"spec":{"parallelism":3}}`, `{"spec":{"parallelism":0}}`, `{"spec":{"parallelism":-1}}`, `{"spec":{"parallelism":null}}`, `{"spec":{"completions":3}}`, `{"spec":{"completions":null}}`, `{"spec":{"completionMode":"Indexed"}}`,
			`{"spec":{"backoffLimit":2}}`, `{"spec":{"activeDeadlineSeconds":100}}`, `{"spec":{"selector":{"matchLabels":{"a":"b"}}}}`,
			`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`, `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`,
			`{"spec":{"template":{"spec":{"schedulingGates":[{"name":"example.com/a"}]}}}}`,
			`{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"work","image":"example.invalid/other"}]}}}}`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"work","image":"example.invalid/work","resources":{"requests":{"cpu":"1"}}}]}}}}`,
		)
	}, []string{
		`{"spec":{"parallelism":3}}: ok`,
		`{"spec":{"parallelism":0}}: ok`,
		`{"spec":{"parallelism":-1}}: 422 Invalid`,
		`{"spec":{"parallelism":null}}: ok`,
		`{"spec":{"completions":3}}: 422 Invalid`,
		`{"spec":{"completions":null}}: 422 Invalid`,
		`{"spec":{"completionMode":"Indexed"}}: 422 Invalid`,
		`{"spec":{"backoffLimit":2}}: ok`,
		`{"spec":{"activeDeadlineSeconds":100}}: ok`,
		`{"spec":{"selector":{"matchLabels":{"a":"b"}}}}: 422 Invalid`,
		`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}: ok`,
		`{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}: ok`,
		`{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}: ok`,
		`{"spec":{"template":{"spec":{"schedulingGates":[{"name":"example.com/a"}]}}}}: ok`,
		`{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}}: 422 Invalid`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"work","image":"example.invalid/other"}]}}}}: 422 Invalid`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"work","image":"example.invalid/work","resources":{"requests":{"cpu":"1"}}}]}}}}: ok`,
	}}
}

func startedJobCase() Case {
	return Case{"started Job", func(e *Env) []string {
		e.create(jobs, e.ns, job("a", nil))
		out := e.patchAll(jobs, `{"spec":{"template":{"metadata":{"annotations":{"early":"b"}}}}}`)
		e.started("a", true)
		out = append(out, e.patchAll(
			jobs, `{"spec":{"parallelism":2}}`, `{"spec":{"completions":2}}`, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`, `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`,
			`{"spec":{"suspend":true,"template":{"metadata":{"annotations":{"a":"b"}}}}}`, `{"spec":{"suspend":true}}`,
		)...)
		e.started("a", false)
		return append(out, e.patchAll(
			jobs, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`, `{"spec":{"suspend":false,"template":{"metadata":{"annotations":{"a":"c"}}}}}`,
		)...)
	}, []string{
		`{"spec":{"template":{"metadata":{"annotations":{"early":"b"}}}}}: 422 Invalid`,
		`{"spec":{"parallelism":2}}: ok`,
		`{"spec":{"completions":2}}: 422 Invalid`,
		`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}: 422 Invalid`,
		`{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}: 422 Invalid`,
		`{"spec":{"suspend":true,"template":{"metadata":{"annotations":{"a":"b"}}}}}: 422 Invalid`,
		`{"spec":{"suspend":true}}: ok`,
		`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}: ok`,
		`{"spec":{"suspend":false,"template":{"metadata":{"annotations":{"a":"c"}}}}}: ok`,
	}}
}

func indexedJobCase() Case {
	return Case{"indexed Job", func(e *Env) []string {
		j := held()
		for field, value := range map[string]any{"completionMode": "Indexed", "completions": int64(2), "parallelism": int64(2)} {
			_ = unstructured.SetNestedField(j.Object, value, "spec", field)
		}
		e.create(jobs, e.ns, j)
		return e.patchAll(
			jobs, `{"spec":{"completions":3}}`, `{"spec":{"completions":3,"parallelism":3}}`, `{"spec":{"completions":null}}`, `{"spec":{"parallelism":1}}`, `{"spec":{"completions":1}}`,
			`{"spec":{"suspend":false,"completions":2,"parallelism":2}}`,
		)
	}, []string{
		`{"spec":{"completions":3}}: 422 Invalid`,
		`{"spec":{"completions":3,"parallelism":3}}: ok`,
		`{"spec":{"completions":null}}: 422 Invalid`,
		`{"spec":{"parallelism":1}}: ok`,
		`{"spec":{"completions":1}}: ok`,
		`{"spec":{"suspend":false,"completions":2,"parallelism":2}}: ok`,
	}}
}

func podsCase() Case {
	return Case{"Pods", func(e *Env) []string {
		pod := object("v1", "Pod", "a", map[string]any{"spec": podSpec("Never")})
		_ = unstructured.SetNestedSlice(pod.Object, []any{map[string]any{"name": "example.com/a"}, map[string]any{"name": "example.com/b"}}, "spec", "schedulingGates")
		e.create(pods, e.ns, pod)
		gate := func(body string) string {
			_, err := e.on(pods, e.ns).Patch(e.ctx, "a", types.JSONPatchType, []byte(body), metav1.PatchOptions{})
			return body + ": " + outcome(err)
		}
		out := e.patchAll(pods, `{"spec":{"restartPolicy":"Always"}}`, `{"spec":{"nodeSelector":{"a":"b"}}}`, `{"spec":{"terminationGracePeriodSeconds":5}}`, `{"spec":{"priority":5}}`, `{"metadata":{"labels":{"a":"b"}}}`)
		out = append(out, gate(`[{"op":"add","path":"/spec/schedulingGates/-","value":{"name":"example.com/c"}}]`), gate(`[{"op":"remove","path":"/spec/schedulingGates/0"}]`))
		out = append(out, fields(e.get(pods, "a"), "spec", "schedulingGates"))
		_ = unstructured.SetNestedSlice(pod.Object, []any{map[string]any{"name": "work"}}, "spec", "containers")
		pod.SetName("b")
		return append(out, "without an image: "+e.dry(pods, pod))
	}, []string{
		`{"spec":{"restartPolicy":"Always"}}: 422 Invalid`,
		`{"spec":{"nodeSelector":{"a":"b"}}}: ok`,
		`{"spec":{"terminationGracePeriodSeconds":5}}: 422 Invalid`,
		`{"spec":{"priority":5}}: 422 Invalid`,
		`{"metadata":{"labels":{"a":"b"}}}: ok`,
		`[{"op":"add","path":"/spec/schedulingGates/-","value":{"name":"example.com/c"}}]: 422 Invalid`,
		`[{"op":"remove","path":"/spec/schedulingGates/0"}]: ok`,
		`[{"name":"example.com/b"}]`,
		"without an image: 422 Invalid",
	}}
}

func deploymentCase() Case {
	return Case{"Deployment", func(e *Env) []string {
		e.create(deployments, e.ns, object("apps/v1", "Deployment", "a", map[string]any{"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": "x"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": podSpec("Always")},
		}}))
		return e.patchAll(deployments, `{"spec":{"replicas":-1}}`, `{"spec":{"selector":{"matchLabels":{"a":"b"}}}}`, `{"spec":{"template":{"metadata":{"labels":{"app":"y"}}}}}`, `{"spec":{"replicas":0,"paused":true}}`)
	}, []string{
		`{"spec":{"replicas":-1}}: 422 Invalid`,
		`{"spec":{"selector":{"matchLabels":{"a":"b"}}}}: 422 Invalid`,
		`{"spec":{"template":{"metadata":{"labels":{"app":"y"}}}}}: 422 Invalid`,
		`{"spec":{"replicas":0,"paused":true}}: ok`,
	}}
}
