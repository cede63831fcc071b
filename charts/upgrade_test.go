package charts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	release "helm.sh/helm/v4/pkg/release/v1"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kinds"
)

// everything turns on all that the chart installs.
func everything() map[string]any {
	on := map[string]any{"enabled": true}
	var names []any
	for _, k := range kinds.Builtin() {
		names = append(names, k.Name)
	}
	return map[string]any{
		"image": map[string]any{"repository": "a"}, "kinds": names, "kueue": on, "capacity": on, "autoscaling": on, "extender": on, "web": on,
		"monitoring": map[string]any{"podMonitor": true, "prometheusRule": true, "dashboards": true},
		"metrics":    map[string]any{"secure": true},
	}
}

func names(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	_, manifests, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range manifests {
		out[m.Head.Kind+" "+m.Head.Metadata.Name] = m.Content
	}
	return out
}

// set returns values with one changed, which is named by its path.
func set(values map[string]any, path string, to any) map[string]any {
	out := maps.Clone(values)
	name, rest, deeper := strings.Cut(path, ".")
	if deeper {
		inner, _ := out[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		to = set(inner, rest, to)
	}
	out[name] = to
	return out
}

// flags are the paths of all values that are true or false.
func flags(t *testing.T) (out []string) {
	t.Helper()
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var walk func(prefix string, values map[string]any)
	walk = func(prefix string, values map[string]any) {
		for name, v := range values {
			switch x := v.(type) {
			case bool:
				out = append(out, prefix+name)
			case map[string]any:
				walk(prefix+name+".", x)
			}
		}
	}
	walk("", c.Values)
	slices.Sort(out)
	return out
}

// TestRemovedChartValueDeletesNoWork: what Helm deletes when a value goes. Nothing of it holds what people or Lull have written. Objects of the kinds in plain
// can be made again at any time, and nobody waits for them; all others are listed by the value that takes them away.
func TestRemovedChartValueDeletesNoWork(t *testing.T) {
	plain := []string{"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor", "PrometheusRule", "ConfigMap"}
	roles := func(of ...string) (out []string) {
		for _, name := range of {
			out = append(out, "ClusterRole lull-"+name, "ClusterRoleBinding lull-controller-"+name)
		}
		return out
	}
	postgres := map[string]any{"url": "postgres://lull@db/lull"}
	type change struct {
		to   any
		goes []string // beside plain objects
	}
	changes := map[string]change{
		// Holds of the watchdog: its account, role and lease stay in all cases.
		"deploy": {to: false}, "crds.install": {to: false},
		"kueue.enabled": {to: false, goes: []string{ // the hook releases what is held in queues
			"ClusterRole lull-failsafe-fleet", "ClusterRole lull-fleet", "ClusterRoleBinding lull-controller-fleet", "ClusterRoleBinding lull-failsafe-failsafe-fleet",
			"MutatingAdmissionPolicy clear-nominations.lull.dev", "MutatingAdmissionPolicyBinding clear-nominations.lull.dev", "Role lull-fleet", "RoleBinding lull-controller-fleet",
		}},
		"capacity.enabled":    {to: false, goes: append(roles("capacity"), "Role lull-capacity", "RoleBinding lull-controller-capacity")}, // refused while there are CapacityCurves
		"autoscaling.enabled": {to: false, goes: append(roles("autoscaling"), "Role lull-autoscaling", "RoleBinding lull-controller-autoscaling")},
		"web.enabled":         {to: false, goes: append(roles("web"), "Role lull-web", "RoleBinding lull-controller-web")},
		"extender.enabled":    {to: false, goes: []string{"ClusterRole lull-extender", "ClusterRoleBinding lull-extender", "ClusterRoleBinding lull-extender-metrics", "ServiceAccount lull-extender"}},
		"metrics.secure":      {to: false, goes: append(roles("metrics"), "ClusterRole lull-metrics-reader", "ClusterRoleBinding lull-extender-metrics", "ClusterRoleBinding lull-failsafe-metrics")},
		"rbac.aggregate":      {to: false, goes: []string{"ClusterRole lull-edit", "ClusterRole lull-view"}},
		"ledger.postgres":     {to: postgres}, "ledger.volume.existingClaim": {to: "mine"}, "ledger.enabled": {to: false},
	}
	for _, path := range flags(t) {
		if _, is := changes[path]; !is {
			changes[path] = change{to: false}
		}
	}
	for _, k := range kinds.Builtin() {
		var goes []string
		resource := k.Spec.Resource
		if k.Spec.Group != "" && k.Spec.Group != "batch" && k.Spec.Group != "apps" {
			resource += "." + k.Spec.Group
		}
		for _, object := range []string{"MutatingAdmissionPolicy hold", "MutatingAdmissionPolicyBinding hold", "ValidatingAdmissionPolicy bound", "ValidatingAdmissionPolicyBinding bound"} {
			goes = append(goes, object+"-"+resource+".lull.dev")
		}
		if slices.Contains([]string{"Job", "Pod", "Deployment"}, k.Name) { // which the controller creates as a dry run
			goes = append(goes, "ClusterRole lull-probe-"+resource, "ValidatingAdmissionPolicy dry-run-"+resource+".lull.dev", "ValidatingAdmissionPolicyBinding dry-run-"+resource+".lull.dev")
		}
		changes["kinds: "+k.Name] = change{goes: append(goes, "ClusterRole lull-kind-"+resource)}
	}
	all := everything()
	before := names(t, all)
	for path, c := range changes {
		values := set(all, strings.TrimSuffix(path, ": "), c.to)
		if _, kind, is := strings.Cut(path, ": "); is {
			values = set(all, "kinds", slices.DeleteFunc(slices.Clone(all["kinds"].([]any)), func(x any) bool { return x == kind }))
		}
		after := names(t, values)
		var goes []string
		for name, content := range before {
			if _, stays := after[name]; stays || slices.Contains(plain, strings.Fields(name)[0]) || strings.Contains(content, "helm.sh/resource-policy: keep") {
				continue
			}
			goes = append(goes, name)
		}
		slices.Sort(goes)
		slices.Sort(c.goes)
		if !slices.Equal(goes, c.goes) {
			t.Errorf("%s takes away\n%q, want\n%q", path, goes, c.goes)
		}
	}
}

// TestHookReleasesRemovedKinds: before an upgrade a hook releases what is held of kinds that are not in the values, and in queues without Kueue, with
// the rights that it takes.
func TestHookReleasesRemovedKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(map[string]any) map[string]any
		args   string
	}{
		"all kinds and Kueue": {change: func(v map[string]any) map[string]any { return v }},
		"two kinds go": {func(v map[string]any) map[string]any {
			return set(v, "kinds", slices.DeleteFunc(slices.Clone(v["kinds"].([]any)), func(x any) bool { return x == "JobSet" || x == "Pod" }))
		}, "release --kinds=JobSet,Pod"},
		"Kueue goes": {func(v map[string]any) map[string]any { return set(v, "kueue", map[string]any{"enabled": false}) }, "release --queues"},
		"not wanted": {func(v map[string]any) map[string]any {
			return set(set(v, "kinds", []any{}), "hooks.releaseRemoved", false)
		}, ""},
	} {
		hooks, _, err := renderFor(common.ReleaseOptions{Name: "lull", Namespace: Namespace, IsUpgrade: true}, nil, tc.change(everything()))
		if err != nil {
			t.Fatal(err)
		}
		args, rules := "", ""
		for _, h := range hooks {
			var object struct {
				Rules any
				Spec  struct {
					Template struct {
						Spec struct{ Containers []struct{ Args []string } }
					}
				}
			}
			if err := yaml.Unmarshal([]byte(h.Manifest), &object); err != nil {
				t.Fatal(err)
			}
			if h.Name == "lull-release-removed" && len(h.Events) == 1 && h.Events[0] == release.HookPreUpgrade {
				args = strings.Join(object.Spec.Template.Spec.Containers[0].Args, " ")
			}
			if h.Kind == "ClusterRole" && slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return e == release.HookPreUpgrade }) {
				rules = fmt.Sprint(object.Rules)
			}
		}
		if args != tc.args {
			t.Errorf("%s: the hook runs %q, want %q", name, args, tc.args)
		}
		if want := "hold-jobsets.jobset.x-k8s.io.lull.dev hold-pods.lull.dev"; strings.Contains(tc.args, "--kinds") && !strings.Contains(rules, want) {
			t.Errorf("%s: the hook may not delete %s: %s", name, want, rules)
		}
		if strings.Contains(tc.args, "--queues") != strings.Contains(rules, "kueue.x-k8s.io") {
			t.Errorf("%s: rights to queues: %s", name, rules)
		}
	}
}

// cluster is what templates look up.
type cluster struct{ dynamic.Interface }

func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return c.Resource(gv.WithResource(strings.ToLower(kind) + "s")), kind == "PersistentVolumeClaim", err
}

// TestUpgradeThatStrandsWorkIsRefused: an upgrade that would delete policies or the ledger, or strand what a CapacityCurve has set, is refused.
func TestUpgradeThatStrandsWorkIsRefused(t *testing.T) {
	object := func(apiVersion, kind, namespace, name string, annotations map[string]string, finalizers ...string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetAnnotations(annotations)
		u.SetFinalizers(finalizers)
		return u
	}
	ours := map[string]string{"meta.helm.sh/release-name": "lull"}
	kept := map[string]string{"meta.helm.sh/release-name": "lull", "helm.sh/resource-policy": "keep"}
	crd := func(a map[string]string) runtime.Object {
		return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "carbonpolicies.lull.dev", a)
	}
	claim := func(a map[string]string) runtime.Object {
		return object("v1", "PersistentVolumeClaim", Namespace, "lull-ledger", a)
	}
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "lull-capacity", ours)
	base := map[string]any{"image": map[string]any{"repository": "a"}}
	for name, tc := range map[string]struct {
		values map[string]any
		there  []runtime.Object
		want   string
	}{
		"custom resources go":              {set(base, "crds.install", false), []runtime.Object{crd(ours)}, "an upgrade with crds.install and crds.keep true"},
		"custom resources are kept":        {set(base, "crds.install", false), []runtime.Object{crd(kept)}, ""},
		"custom resources of others":       {set(base, "crds.install", false), []runtime.Object{crd(nil)}, ""},
		"no custom resources":              {set(base, "crds.install", false), nil, ""},
		"the ledger goes":                  {set(base, "ledger.enabled", false), []runtime.Object{claim(ours)}, "kubectl annotate -n lull-system persistentvolumeclaim lull-ledger"},
		"the ledger goes to PostgreSQL":    {set(base, "ledger.postgres.url", "postgres://l@db/l"), []runtime.Object{claim(ours)}, "Helm would delete PersistentVolumeClaim lull-ledger"},
		"the ledger goes to another claim": {set(base, "ledger.volume.existingClaim", "mine"), []runtime.Object{claim(ours)}, "Helm would delete"},
		"the programs go":                  {set(base, "deploy", false), []runtime.Object{claim(ours)}, "Helm would delete"},
		"the ledger is kept":               {set(base, "deploy", false), []runtime.Object{claim(kept)}, ""},
		"the ledger stays":                 {base, []runtime.Object{claim(ours)}, ""},
		"curves lose their rights":         {base, []runtime.Object{role, object("lull.dev/v1alpha1", "CapacityCurve", "", "night", nil, "lull.dev/capacity")}, "CapacityCurve night sets the capacity"},
		"curves that set nothing":          {base, []runtime.Object{role, object("lull.dev/v1alpha1", "CapacityCurve", "", "night", nil)}, ""},
		"curves keep their rights":         {set(base, "capacity.enabled", true), []runtime.Object{role, object("lull.dev/v1alpha1", "CapacityCurve", "", "night", nil, "lull.dev/capacity")}, ""},
	} {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
			{Version: "v1", Resource: "persistentvolumeclaims"}:                                   "PersistentVolumeClaimList",
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}:         "ClusterRoleList",
			{Group: "lull.dev", Version: "v1alpha1", Resource: "capacitycurves"}:                  "CapacityCurveList",
		}, tc.there...)
		_, _, err := renderFor(common.ReleaseOptions{Name: "lull", Namespace: Namespace, IsUpgrade: true}, cluster{client}, tc.values)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}

}

// TestRolesAggregateToViewAndEdit: who may view or edit a namespace by the roles of Kubernetes may do so with what of Lull is in it, and no more: only the
// controller writes CarbonPlans and any status, and what is cluster-wide is for administrators.
func TestRolesAggregateToViewAndEdit(t *testing.T) {
	want := map[string]string{
		"lull-view": "rbac.authorization.k8s.io/aggregate-to-view=true: carbonpolicies,carbonplans,scalingprofiles [get list watch]; capacitycurves,gridzones,workloadkinds [get list watch]",
		"lull-edit": "rbac.authorization.k8s.io/aggregate-to-admin=true,rbac.authorization.k8s.io/aggregate-to-edit=true: carbonpolicies,scalingprofiles [create update patch delete deletecollection]",
	}
	got := map[string]string{}
	for name, content := range names(t, everything()) {
		if !strings.Contains(content, "rbac.authorization.k8s.io/aggregate-to-") {
			continue
		}
		var role struct {
			Metadata struct{ Labels map[string]string }
			Rules    []struct{ APIGroups, Resources, Verbs []string }
		}
		if err := yaml.Unmarshal([]byte(content), &role); err != nil {
			t.Fatal(err)
		}
		var labels, rules []string
		for k, v := range role.Metadata.Labels {
			labels = append(labels, k+"="+v)
		}
		slices.Sort(labels)
		for _, r := range role.Rules {
			if !slices.Equal(r.APIGroups, []string{"lull.dev"}) {
				t.Errorf("%s: %v", name, r.APIGroups)
			}
			rules = append(rules, strings.Join(r.Resources, ",")+" "+fmt.Sprint(r.Verbs))
		}
		got[strings.TrimPrefix(name, "ClusterRole ")] = strings.Join(labels, ",") + ": " + strings.Join(rules, "; ")
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
}
