package operations

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func job(name string, annotations map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"labels": map[string]any{"team": "batch"}}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	return object("batch/v1", "Job", name, map[string]any{"metadata": meta, "spec": map[string]any{"template": map[string]any{"spec": podSpec("Never")}}})
}

func podSpec(restart string) map[string]any {
	return map[string]any{"restartPolicy": restart, "containers": []any{map[string]any{"name": "work", "image": "example.invalid/work"}}}
}

func policy(name string, spec map[string]any) *unstructured.Unstructured {
	return object("lull.dev/v1alpha1", "CarbonPolicy", name, map[string]any{"spec": spec})
}

// admitted is what a dry run makes of an object: its annotations, and a field.
func (e *Env) admitted(r schema.GroupVersionResource, obj *unstructured.Unstructured, path ...string) string {
	out, err := e.on(r, e.ns).Create(e.ctx, obj, metav1.CreateOptions{DryRun: []string{"All"}})
	if err != nil {
		return outcome(err)
	}
	annotations := out.GetAnnotations()
	delete(annotations, "batch.kubernetes.io/job-tracking")
	text, err := json.Marshal(annotations)
	if err != nil {
		return err.Error()
	}
	return string(text) + " " + fields(out, path...)
}

// governed creates a policy, and waits until admission knows it.
func (e *Env) governed(spec map[string]any) {
	e.t.Helper()
	spec["zone"] = "zone"
	spec["selector"] = map[string]any{"matchLabels": map[string]any{"team": "batch"}}
	e.create(policies, e.ns, policy("clean", spec))
	e.eventually("admission to know the policy", func() bool { return len(e.admitted(jobs, job("probe", nil), "spec", "suspend")) > len("null false") })
}

func admissionCases() []Case {
	suspend := []string{"spec", "suspend"}
	held, marked, free := `{"lull.dev/hold":"admission","lull.dev/policy":"clean"} `, `{"lull.dev/policy":"clean"} `, `null `
	return []Case{
		{"defaults and pruning", func(e *Env) []string {
			made := e.create(policies, e.ns, policy("a", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"team": "batch"}}, "zone": "z", "unknown": "x", "power": map[string]any{"other": "y"}, "mode": nil}))
			plain := job("a", nil)
			plain.SetLabels(map[string]string{"team": "other"})
			job := e.create(jobs, e.ns, plain)
			out := []string{fields(made, "spec")}
			for _, f := range []string{"parallelism", "completions", "backoffLimit", "completionMode", "suspend", "podReplacementPolicy"} {
				out = append(out, f+" "+fields(job, "spec", f))
			}
			return out
		}, []string{
			`{"defaultRuntime":"1h","holdExisting":"Never","kinds":["Job","JobSet","MPIJob","PyTorchJob","TrainJob","RayJob","AppWrapper"],"maxDelay":"24h","minPause":"5m","minRun":"5m","minSaving":0.01,"mode":"Enforce",` +
				`"planner":{"name":"joint"},"power":{"pue":1},"replanThreshold":0.05,"scaleUpPatience":"5m","selector":{"matchLabels":{"team":"batch"}},` +
				`"slot":"15m","startMargin":"5m","via":"Hold","zone":"z"}`,
			"parallelism 1", "completions 1", "backoffLimit 6", `completionMode "NonIndexed"`, "suspend false", `podReplacementPolicy "TerminatingOrFailed"`,
		}},
		{"admission", func(e *Env) []string {
			e.governed(map[string]any{"criticalPriorityClasses": []any{"operations"}, "kinds": []any{"Job", "Pod", "Deployment"}})
			mine := job("x", nil)
			mine.Object["spec"].(map[string]any)["suspend"] = true
			critical := job("x", nil)
			_ = unstructured.SetNestedField(critical.Object, "operations", "spec", "template", "spec", "priorityClassName")
			other := job("x", nil)
			other.SetLabels(nil)
			owned := job("x", nil)
			yes := true
			owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Other", Name: "o", UID: "u", Controller: &yes}})
			hook := job("x", map[string]any{"helm.sh/hook": "pre-install"})
			named := job("x", map[string]any{"lull.dev/govern-by": "other"})
			pod := object("v1", "Pod", "x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "batch"}}, "spec": podSpec("Never")})
			deployment := object("apps/v1", "Deployment", "x", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "batch"}}, "spec": map[string]any{
				"replicas": int64(3), "selector": map[string]any{"matchLabels": map[string]any{"app": "x"}},
				"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": podSpec("Always")},
			}})
			return []string{
				e.admitted(jobs, job("x", nil), suspend...), e.admitted(jobs, mine, suspend...), e.admitted(jobs, critical, suspend...), e.admitted(jobs, other, suspend...),
				e.admitted(jobs, owned, suspend...), e.admitted(jobs, hook, suspend...), e.admitted(jobs, named, suspend...),
				e.admitted(pods, pod, "spec", "schedulingGates"), e.admitted(deployments, deployment, "spec", "replicas"),
			}
		}, []string{
			held + "true", free + "true", marked + "false", free + "false",
			free + "false", `{"helm.sh/hook":"pre-install"} false`, `{"lull.dev/govern-by":"other"} false`,
			held + `[{"name":"lull.dev/hold"}]`, `{"lull.dev/hold":"admission","lull.dev/policy":"clean","lull.dev/workers":"3"} 0`,
		}},
		{"shadow", func(e *Env) []string {
			e.governed(map[string]any{"mode": "Shadow"})
			return []string{e.admitted(jobs, job("x", nil), suspend...)}
		}, []string{marked + "false"}},
		{"paused", func(e *Env) []string {
			e.governed(map[string]any{"paused": true})
			return []string{e.admitted(jobs, job("x", map[string]any{"a": "b"}), suspend...)}
		}, []string{`{"a":"b","lull.dev/policy":"clean"} false`}},
	}
}
