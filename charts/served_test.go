package charts

import (
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kinds"
)

// servedByAll are the API versions and kinds of what Lull installs that each supported version of Kubernetes serves: TestAdmissionWebhook creates all of
// them on real API servers. With admission.mode=policy there are servedSince136 too.
var (
	servedByAll = []string{
		"v1 Namespace", "v1 ServiceAccount", "v1 Secret", "v1 Service", "v1 ConfigMap", "v1 PersistentVolumeClaim",
		"apps/v1 Deployment", "coordination.k8s.io/v1 Lease", "policy/v1 PodDisruptionBudget", "networking.k8s.io/v1 NetworkPolicy", "apiextensions.k8s.io/v1 CustomResourceDefinition",
		"rbac.authorization.k8s.io/v1 ClusterRole", "rbac.authorization.k8s.io/v1 ClusterRoleBinding", "rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 RoleBinding",
		"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding",
	}
	servedSince136 = []string{"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding"}
	// ofOperators are those of the Prometheus operator, for who asks for them.
	ofOperators = []string{"monitoring.coreos.com/v1 PodMonitor", "monitoring.coreos.com/v1 PrometheusRule"}
)

// served is the set of API versions and kinds of some lists.
func served(lists ...[]string) map[string]bool {
	out := map[string]bool{}
	for _, list := range lists {
		for _, x := range list {
			out[x] = true
		}
	}
	return out
}

// apiVersions are the API versions and kinds of YAML documents.
func apiVersions(t *testing.T, text string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "" {
			out[o.APIVersion+" "+o.Kind] = true
		}
	}
	return out
}

// TestManifestsAreServed: all that lull manifests prints, with any options, exists on the API server for which it prints it: with --webhook on each supported
// one, without on those that have admission policies.
func TestManifestsAreServed(t *testing.T) {
	for n := range 1 << 7 {
		on := func(bit int) bool { return n>>bit&1 == 1 }
		o := Options{Webhook: on(0), Kueue: on(1), Extender: on(2), Capacity: on(3), Autoscaling: on(4), Web: on(5)}
		if on(6) {
			o.Image, o.Namespaces = "a/b:c", []string{"team"}
		}
		text, err := Manifests(kinds.Builtin(), o)
		if err != nil {
			t.Fatal(err)
		}
		is := served(servedByAll)
		if !o.Webhook {
			is = served(servedByAll, servedSince136)
		}
		for kind := range apiVersions(t, text) {
			if !is[kind] {
				t.Errorf("%+v: %s", o, kind)
			}
		}
	}
}

// TestChartIsServed: the same of the chart, on each version.
func TestChartIsServed(t *testing.T) {
	for _, c := range []struct {
		version, mode string
		policies      bool
	}{
		{"v1.32.0", "auto", false}, {"v1.33.0", "auto", false}, {"v1.34.0", "auto", false}, {"v1.35.4", "auto", false},
		{"v1.36.0", "auto", true}, {"v1.36.0", "policy", true}, {"v1.36.0", "webhook", false},
	} {
		capabilities, err := kubernetes(c.version)
		if err != nil {
			t.Fatal(err)
		}
		hooks, manifests, err := renderOn(capabilities, common.ReleaseOptions{Name: "lull", Namespace: "green", IsInstall: true}, nil, set(everything(), "admission.mode", c.mode))
		if err != nil {
			t.Fatal(err)
		}
		is := served(servedByAll, ofOperators, []string{"batch/v1 Job"})
		if c.policies {
			is = served(servedByAll, servedSince136, ofOperators, []string{"batch/v1 Job"})
		}
		var all []string
		for _, m := range manifests {
			all = append(all, m.Content)
		}
		for _, h := range hooks {
			all = append(all, h.Manifest)
		}
		found := apiVersions(t, strings.Join(all, "\n---\n"))
		for kind := range found {
			if !is[kind] {
				t.Errorf("%+v: %s", c, kind)
			}
		}
		if found[servedSince136[0]] != c.policies {
			t.Errorf("%+v: policies %v", c, found[servedSince136[0]])
		}
		clears := strings.Contains(strings.Join(all, ""), "- --nominations\n")
		if policy := strings.Contains(strings.Join(all, ""), "name: "+kinds.NominationsName+"\n"); policy != c.policies || clears == policy {
			t.Errorf("%+v: nominations are cleared by a policy: %v, by the webhook: %v", c, policy, clears)
		}
	}
}

// TestLeaseOfTheWatchdog: the controller may read the lease of the watchdog only where it serves the page, which shows it.
func TestLeaseOfTheWatchdog(t *testing.T) {
	for _, web := range []bool{false, true} {
		text, err := Manifests(nil, Options{Web: web})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for doc := range strings.SplitSeq(text, "\n---\n") {
			if strings.Contains(doc, "kind: Role\n") && strings.Contains(doc, "failsafe.lull.dev") && !strings.Contains(doc, "name: lull-failsafe\n") {
				n++
			}
		}
		if want := map[bool]int{true: 1}[web]; n != want {
			t.Errorf("with the page %v: %d roles beside the watchdog's own, want %d", web, n, want)
		}
	}
}
