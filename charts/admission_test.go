package charts

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"

	"lull.dev/lull/internal/cluster/kinds"
)

// TestOnlyOneOfPoliciesAndWebhookHolds: work is held by policies or by lull admission, never by both; where the chart is to choose, by policies if the cluster has them.
func TestOnlyOneOfPoliciesAndWebhookHolds(t *testing.T) {
	live := []string{"v1/Pod", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"} // of a cluster that Helm asks
	for _, c := range []struct {
		mode, version string
		apis          []string
		webhook       bool
	}{
		{"auto", "v1.36.0", nil, false},
		{"auto", "v1.35.4", nil, true},
		{"auto", "v1.35.4-gke.1", nil, true},
		{"auto", "v1.36.0", live, true},
		{"auto", "v1.36.0", append(slices.Clone(live), "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"), false},
		{"policy", "v1.33.0", live, false},
		{"webhook", "v1.36.0", nil, true},
	} {
		capabilities, err := kubernetes(c.version, c.apis...)
		if err != nil {
			t.Fatal(err)
		}
		values := set(everything(), "admission.mode", c.mode)
		values = set(values, "kueue.enabled", false) // which has a policy of its own
		_, manifests, err := renderOn(capabilities, common.ReleaseOptions{Name: "lull", Namespace: "green", IsInstall: true}, nil, values)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		policies := 0
		for _, m := range manifests {
			all[m.Head.Kind+" "+m.Head.Metadata.Name] = m.Content
			if strings.HasPrefix(m.Head.Kind, "MutatingAdmissionPolicy") {
				policies++
			}
		}
		parts := []string{
			"ServiceAccount lull-admission", "ClusterRole lull-admission", "ClusterRoleBinding lull-admission", "Role lull-admission", "RoleBinding lull-admission",
			"MutatingWebhookConfiguration hold.lull.dev", "Secret lull-admission-tls", "Deployment lull-admission", "Service lull-admission",
			"PodDisruptionBudget lull-admission", "NetworkPolicy lull-admission", "ClusterRoleBinding lull-admission-metrics",
		}
		there := slices.DeleteFunc(slices.Clone(parts), func(name string) bool { return all[name] == "" })
		want := 2 * len(kinds.Builtin())
		if c.webhook {
			want = 0
		} else {
			parts = []string{}
		}
		if policies != want || !slices.Equal(there, parts) {
			t.Errorf("%+v: %d policies, %q; want %d, %q", c, policies, there, want, parts)
		}
		for _, k := range kinds.Builtin() { // what else a kind needs does not depend on it
			name := strings.TrimSuffix(k.Spec.Resource+"."+k.Spec.Group, ".")
			if !strings.Contains(name, ".") || !strings.Contains(k.Spec.Group, ".") {
				name = k.Spec.Resource
			}
			if all["ClusterRole lull-kind-"+name] == "" || all["ValidatingAdmissionPolicy bound-"+name+".lull.dev"] == "" {
				t.Errorf("%+v: %s: no rights, or not bound", c, k.Name)
			}
		}
	}
}

// TestAdmissionIsNarrow: the account of lull admission may write two objects, and create none. A certificate that somebody else keeps it may read only.
func TestAdmissionIsNarrow(t *testing.T) {
	values := set(everything(), "admission.mode", "webhook")
	all := names(t, values)
	for _, name := range []string{"ClusterRole lull-admission", "Role lull-admission"} {
		for _, verb := range []string{"create", "patch", "delete", `"*"`} {
			if strings.Contains(all[name], verb) {
				t.Errorf("%s may %s:\n%s", name, verb, all[name])
			}
		}
	}
	if strings.Contains(all["MutatingWebhookConfiguration hold.lull.dev"], "\nwebhooks:") || strings.Contains(all["Secret lull-admission-tls"], "\ndata:") {
		t.Error("an upgrade would write over what lull admission has written")
	}
	text := all["Deployment lull-admission"]
	for _, want := range []string{"--kinds=", "Job", "--certificates=self", "replicas: 2", "readOnlyRootFilesystem: true"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	values = set(set(set(values, "admission.certificates", "secret"), "admission.tlsSecret", "mine"), "admission.kinds", []any{"Crunch", "Job.batch.volcano.sh"})
	other := names(t, values)
	role := other["Role lull-admission"]
	if strings.Contains(role, "update") || !strings.Contains(role, "[mine]") || other["Secret mine"] != "" || !strings.Contains(other["Deployment lull-admission"], "Crunch,Job.batch.volcano.sh\n") {
		t.Errorf("%v\n%s\n%s", slices.Sorted(maps.Keys(other)), role, other["Deployment lull-admission"])
	}
}

// TestManifestsWithWebhook: lull manifests --webhook prints what lull admission needs, and no policy that holds.
func TestManifestsWithWebhook(t *testing.T) {
	of, err := kinds.Named([]string{"Job", "Pod"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := Manifests(of, Options{Webhook: true, Image: "a/b:c", Namespaces: []string{"team"}})
	if err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]int{"kind: MutatingAdmissionPolicy\n": 0, "kind: MutatingWebhookConfiguration\n": 1, "- --kinds=Job,Pod\n": 1, "- --namespaces=team\n": 3, "name: bound-jobs.lull.dev\n": 2} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q %d times, want %d", want, got, n)
		}
	}
}

// TestChartAcceptsTestedVersions: the chart accepts the versions of Kubernetes on which the integration tests run, the oldest of the lab's modules at least, and there it needs no
// MutatingAdmissionPolicy, with any option.
func TestChartAcceptsTestedVersions(t *testing.T) {
	modules, err := filepath.Glob("../lab/kubernetes/v1.*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("%d modules, %v", len(modules), err)
	}
	oldest := filepath.Base(filepath.Dir(modules[0]))
	text, err := os.ReadFile("lull/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := `kubeVersion: ">=` + strings.TrimPrefix(oldest, "v") + `.0-0"`; !strings.Contains(string(text), want) {
		t.Errorf("Chart.yaml does not have %s", want)
	}
	for version, want := range map[string]int{oldest + ".0": 0, "v1.35.9": 0, "v1.36.0": 2*len(kinds.Builtin()) + 2} {
		capabilities, err := kubernetes(version)
		if err != nil {
			t.Fatal(err)
		}
		_, manifests, err := renderOn(capabilities, common.ReleaseOptions{Name: "lull", Namespace: "green", IsInstall: true}, nil, everything())
		if err != nil {
			t.Fatal(err)
		}
		policies := 0
		for _, m := range manifests {
			if strings.HasPrefix(m.Head.Kind, "MutatingAdmissionPolicy") {
				policies++
			}
		}
		if policies != want {
			t.Errorf("%s: %d admission policies and bindings, want %d", version, policies, want)
		}
	}
}
