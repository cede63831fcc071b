package kinds

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// condition returns a match condition of the admission policy of a kind, ready to be evaluated.
func condition(t *testing.T, k *Kind, name string) cel.Program {
	t.Helper()
	for _, doc := range strings.Split(k.Manifests(), "\n---\n") {
		var policy struct {
			Kind string
			Spec struct {
				MatchConditions []struct{ Name, Expression string }
			}
		}
		if err := yaml.Unmarshal([]byte(doc), &policy); err != nil {
			t.Fatal(err)
		}
		for _, c := range policy.Spec.MatchConditions {
			if c.Name != name {
				continue
			}
			env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("params", cel.DynType))
			if err != nil {
				t.Fatal(err)
			}
			ast, issues := env.Compile(c.Expression)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			program, err := env.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			return program
		}
	}
	t.Fatalf("%s: no match condition %q", k.Name, name)
	return nil
}

// TestHooksAndForeignNamespacesAreNotGoverned: hooks and what is in the namespaces of others are not governed unless they name the policy,
// and the admission policy of every kind decides as Excluded does.
func TestHooksAndForeignNamespacesAreNotGoverned(t *testing.T) {
	type annotations = map[string]string
	for name, tc := range map[string]struct {
		namespace   string
		annotations annotations
		want        string // "": governed
	}{
		"no annotations":           {"team", nil, ""},
		"others":                   {"team", annotations{"helm.sh/resource-policy": "keep", "argocd.argoproj.io/tracking-id": "x"}, ""},
		"Helm hook":                {"team", annotations{"helm.sh/hook": "pre-upgrade"}, "a hook of Helm (helm.sh/hook)"},
		"Helm test":                {"team", annotations{"helm.sh/hook": "test"}, "a hook of Helm"},
		"Argo CD hook":             {"team", annotations{"argocd.argoproj.io/hook": "PreSync"}, "a hook of Argo CD (argocd.argoproj.io/hook)"},
		"Argo CD sync wave":        {"team", annotations{"argocd.argoproj.io/sync-wave": "2"}, "sync wave of Argo CD"},
		"kube-system":              {"kube-system", annotations{"mine": "x"}, "namespace kube-system"},
		"Lull's own":               {"lull-system", nil, "namespace lull-system"},
		"like kube-system":         {"kube-systems", nil, ""},
		"hook by name":             {"team", annotations{"helm.sh/hook": "post-install", v1alpha1.AnnotationGovernBy: "green"}, ""},
		"kube-system by name":      {"kube-system", annotations{v1alpha1.AnnotationGovernBy: "green"}, ""},
		"hook, another policy":     {"team", annotations{"helm.sh/hook": "post-install", v1alpha1.AnnotationGovernBy: "brown"}, `asks for the CarbonPolicy "brown"`},
		"ordinary, another policy": {"team", annotations{v1alpha1.AnnotationGovernBy: "brown"}, `asks for the CarbonPolicy "brown"`},
		"no name":                  {"team", annotations{v1alpha1.AnnotationGovernBy: ""}, `asks for the CarbonPolicy ""`},
	} {
		got := Excluded(DefaultNamespace, tc.namespace, "green", tc.annotations)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		metadata := map[string]any{"name": "a"}
		if tc.annotations != nil {
			all := map[string]any{}
			for k, v := range tc.annotations {
				all[k] = v
			}
			metadata["annotations"] = all
		}
		for _, k := range Builtin() {
			out, _, err := condition(t, k, "not-excluded").Eval(map[string]any{
				"object": map[string]any{"metadata": metadata}, "request": map[string]any{"namespace": tc.namespace},
				"params": map[string]any{"metadata": map[string]any{"name": "green"}},
			})
			if err != nil || out.Value() != (got == "") {
				t.Errorf("%s: the admission policy of %s says %v, %v; Excluded says %q", name, k.Name, out, err, got)
			}
		}
	}
}

// TestExclusionsAreCached: what Excluded reads survives the caches, however long it is.
func TestExclusionsAreCached(t *testing.T) {
	for _, x := range excluded {
		for _, value := range []string{"", "x", strings.Repeat("x", 100_000)} {
			before := map[string]string{x.annotation: value}
			var unknown *Kind
			if after := unknown.Trimmed(before); Excluded("", "n", "p", after) == "" || len(after[x.annotation]) > maxValue+1 {
				t.Errorf("%s of %d bytes: %d are kept", x.annotation, len(value), len(after[x.annotation]))
			}
		}
	}
}
