package charts

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kinds"
)

// scopesOf returns the resources that files/scopes.yaml lists.
func scopesOf(t *testing.T) (out struct{ Cluster, Namespaced []string }) {
	t.Helper()
	text, err := files.ReadFile("lull/files/scopes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// bound collects the roles and bindings of a chart.
type bound struct {
	roles    map[string]rbacv1.ClusterRole // by namespace/name
	bindings []rbacv1.RoleBinding
}

func (b *bound) add(t *testing.T, text string) {
	t.Helper()
	var object struct{ Kind string }
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	switch object.Kind {
	case "ClusterRole", "Role":
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(text), &role); err != nil {
			t.Fatal(err)
		}
		b.roles[role.Namespace+"/"+role.Name] = role
	case "ClusterRoleBinding", "RoleBinding":
		var binding rbacv1.RoleBinding
		if err := yaml.Unmarshal([]byte(text), &binding); err != nil {
			t.Fatal(err)
		}
		b.bindings = append(b.bindings, binding)
	}
}

// granted are the rules that an account has in a namespace, "" for everywhere, each as "resource.group verb".
func (b *bound) granted(t *testing.T, account, namespace string) (out []string) {
	t.Helper()
	for _, binding := range b.bindings {
		if binding.Namespace != namespace || binding.Subjects[0].Name != account {
			continue
		}
		key := "/" + binding.RoleRef.Name
		if binding.RoleRef.Kind == "Role" {
			key = namespace + key
		}
		role, there := b.roles[key]
		if !there && !strings.HasPrefix(binding.RoleRef.Name, "lull-failsafe-fleet") {
			t.Errorf("%s of %s is bound, and is not there", key, account)
		}
		rules := role.Rules
		if role.AggregationRule != nil {
			for _, other := range b.roles {
				if other.Labels["lull.dev/aggregate"] == role.AggregationRule.ClusterRoleSelectors[0].MatchLabels["lull.dev/aggregate"] {
					rules = append(rules, other.Rules...)
				}
			}
		}
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					name, subresource, has := strings.Cut(resource, "/")
					name = strings.TrimSuffix(name+"."+rule.APIGroups[0], ".")
					if has {
						name += "/" + subresource
					}
					out = append(out, name+" "+verb)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestNamespacedAccountsHaveNoRightsElsewhere: with namespaces, no account of Lull has a right to namespaced objects elsewhere, except to read Pods and what it has in
// its own namespace, in kube-system and in that of Kueue. In each namespace it has all that it has without them.
func TestNamespacedAccountsHaveNoRightsElsewhere(t *testing.T) {
	collect := func(values map[string]any, upgrade bool) *bound {
		hooks, manifests, err := renderFor(common.ReleaseOptions{Name: "lull", Namespace: Namespace, IsInstall: !upgrade, IsUpgrade: upgrade}, nil, values)
		if err != nil {
			t.Fatal(err)
		}
		b := &bound{roles: map[string]rbacv1.ClusterRole{}}
		for _, m := range manifests {
			b.add(t, m.Content)
		}
		for _, h := range hooks {
			b.add(t, h.Manifest)
		}
		return b
	}
	scopes := scopesOf(t)
	for _, k := range kinds.Builtin() { // also those that no role names
		if name := strings.TrimSuffix(k.Spec.Resource+"."+k.Spec.Group, "."); !slices.Contains(scopes.Namespaced, name) {
			scopes.Namespaced = append(scopes.Namespaced, name)
		}
	}
	all := set(everything(), "hooks.releaseOnUpgrade", true)
	for name, values := range map[string]map[string]any{"everything": all, "webhook": set(all, "admission.mode", "webhook"), "few kinds": set(set(all, "kinds", []any{"Job"}), "kueue.enabled", false)} {
		for _, upgrade := range []bool{false, true} {
			before, after := collect(values, upgrade), collect(set(values, "namespaces", []any{"team-a", "team-b"}), upgrade)
			for _, account := range []string{"lull-controller", "lull-failsafe", "lull-extender", "lull-admission", "lull-retire"} {
				var wide, narrow []string
				for _, right := range before.granted(t, account, "") {
					resource, verb, _ := strings.Cut(right, " ")
					base, _, _ := strings.Cut(resource, "/")
					pods := resource == "pods" && verb != "patch" && verb != "create" && (account == "lull-controller" || account == "lull-extender")
					if slices.Contains(scopes.Namespaced, base) && !pods {
						narrow = append(narrow, right)
					} else {
						wide = append(wide, right)
					}
				}
				if got := after.granted(t, account, ""); !slices.Equal(got, wide) {
					t.Errorf("%s, upgrade %v: %s may everywhere\n%q, want\n%q", name, upgrade, account, got, wide)
				}
				for _, ns := range []string{"team-a", "team-b"} {
					got := after.granted(t, account, ns)
					got = slices.DeleteFunc(got, func(right string) bool { return slices.Contains(wide, right) }) // Pods that may be read everywhere
					if !slices.Equal(got, narrow) {
						t.Errorf("%s, upgrade %v: %s may in %s\n%q, want\n%q", name, upgrade, account, ns, got, narrow)
					}
				}
			}
			for _, binding := range after.bindings {
				if binding.Namespace != "" && !slices.Contains([]string{"team-a", "team-b", Namespace, "kube-system", "kueue-system"}, binding.Namespace) {
					t.Errorf("%s: RoleBinding %s in %s", name, binding.Name, binding.Namespace)
				}
			}
		}
	}
}

// TestNamespacesOfPolicies: the admission policies select the namespaces, from the chart as from "lull manifests", and the
// programs get --namespaces.
func TestNamespacesOfPolicies(t *testing.T) {
	values := set(everything(), "namespaces", []any{"team-a", "team-b"})
	rendered := names(t, values)
	text, err := Manifests(kinds.Builtin(), Options{Kueue: true, Namespaces: []string{"team-a", "team-b"}})
	if err != nil {
		t.Fatal(err)
	}
	policies := 0
	for name, content := range rendered {
		kind, _, _ := strings.Cut(name, " ")
		switch {
		case strings.HasSuffix(kind, "AdmissionPolicy"):
			policies++
			var policy struct {
				Spec struct {
					MatchConstraints struct {
						NamespaceSelector struct {
							MatchExpressions []struct {
								Key, Operator string
								Values        []string
							}
						}
						ResourceRules []any
					}
				}
			}
			if err := yaml.Unmarshal([]byte(content), &policy); err != nil {
				t.Fatal(err)
			}
			m := policy.Spec.MatchConstraints
			if e := m.NamespaceSelector.MatchExpressions; len(m.ResourceRules) != 1 || len(e) != 1 || e[0].Key != "kubernetes.io/metadata.name" || e[0].Operator != "In" || !slices.Equal(e[0].Values, []string{"team-a", "team-b"}) {
				t.Errorf("%s is about %+v", name, m)
			}
			if _, spec, _ := strings.Cut(content, "apiVersion: "); !strings.Contains(text, strings.TrimSpace(spec)) {
				t.Errorf("%s of the chart is not that of lull manifests", name)
			}
		case kind == "Deployment" && !strings.Contains(content, "- --namespaces=team-a,team-b\n"):
			t.Errorf("%s is not told the namespaces", name)
		}
	}
	const dryRun = 3 // of the kinds that the controller creates as a dry run
	if want := 2*len(kinds.Builtin()) + dryRun + 1; policies != want {
		t.Errorf("%d admission policies, want %d", policies, want)
	}
	hooks, _, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		if h.Kind == "Job" && !strings.Contains(h.Manifest, "- --namespaces=team-a,team-b\n") {
			t.Errorf("hook %s is not told the namespaces", h.Name)
		}
	}
	for _, wrong := range []any{[]any{"team-a", "team-a"}, []any{"Team"}, []any{""}, "team-a"} {
		if _, _, err := render(set(everything(), "namespaces", wrong)); err == nil || !strings.Contains(err.Error(), "/namespaces") {
			t.Errorf("namespaces: %v: %v", wrong, err)
		}
	}
}

// TestScopesAreKnown: a role with a resource that scopes.yaml does not list is not rendered with namespaces.
func TestScopesAreKnown(t *testing.T) {
	loaded, err := load()
	if err != nil {
		t.Fatal(err)
	}
	changed := *loaded
	changed.Files = nil
	for _, f := range loaded.Files {
		copied := *f
		if f.Name == "files/scopes.yaml" {
			copied.Data = []byte(strings.Replace(string(f.Data), "- gridzones.lull.dev\n", "", 1))
		}
		changed.Files = append(changed.Files, &copied)
	}
	values, err := util.ToRenderValues(&changed, set(everything(), "namespaces", []any{"a"}), common.ReleaseOptions{Name: "lull", Namespace: Namespace}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Render(&changed, values); err == nil || !strings.Contains(err.Error(), "resource gridzones.lull.dev; accepted with namespaces: those of files/scopes.yaml") {
		t.Error(err)
	}
}

// TestUpgradeThatStrandsHoldsIsRefused: an upgrade after which nobody could release what is held in a namespace is refused, until its policies are paused.
func TestUpgradeThatStrandsHoldsIsRefused(t *testing.T) {
	object := func(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "lull"})
		return u
	}
	const rbac = "rbac.authorization.k8s.io/v1"
	policy := func(paused bool) *unstructured.Unstructured {
		u := object("lull.dev/v1alpha1", "CarbonPolicy", "team-b", "clean")
		u.Object["spec"] = map[string]any{"paused": paused}
		return u
	}
	everywhere := object(rbac, "ClusterRoleBinding", "", "lull-failsafe-kinds")
	there := object(rbac, "RoleBinding", "team-b", "lull-failsafe-kinds")
	for name, tc := range map[string]struct {
		namespaces []any
		there      []runtime.Object
		refused    bool
	}{
		"all before":             {[]any{"team-a"}, []runtime.Object{everywhere, policy(false)}, true},
		"one goes":               {[]any{"team-a"}, []runtime.Object{there, policy(false)}, true},
		"released before":        {[]any{"team-a"}, []runtime.Object{there, policy(true)}, false},
		"it stays":               {[]any{"team-a", "team-b"}, []runtime.Object{there, policy(false)}, false},
		"it was never governed":  {[]any{"team-a"}, []runtime.Object{policy(false)}, false},
		"all are governed again": {[]any{}, []runtime.Object{there, policy(false)}, false},
	} {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}: "CustomResourceDefinitionList",
			{Version: "v1", Resource: "persistentvolumeclaims"}:                                   "PersistentVolumeClaimList",
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}:         "ClusterRoleList",
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}:  "ClusterRoleBindingList",
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}:         "RoleBindingList",
			{Group: "lull.dev", Version: "v1alpha1", Resource: "capacitycurves"}:                  "CapacityCurveList",
			{Group: "lull.dev", Version: "v1alpha1", Resource: "carbonpolicies"}:                  "CarbonPolicyList",
		})
		for _, o := range tc.there {
			u, _ := o.(*unstructured.Unstructured)
			resource := map[string]string{"CarbonPolicy": "carbonpolicies", "RoleBinding": "rolebindings", "ClusterRoleBinding": "clusterrolebindings"}[u.GetKind()]
			if err := client.Tracker().Create(u.GroupVersionKind().GroupVersion().WithResource(resource), u, u.GetNamespace()); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := renderFor(common.ReleaseOptions{Name: "lull", Namespace: Namespace, IsUpgrade: true}, plural{cluster{client}}, set(map[string]any{"image": map[string]any{"repository": "a"}}, "namespaces", tc.namespaces))
		if !tc.refused && err != nil || tc.refused && (err == nil || !strings.Contains(err.Error(), "accepted: first lull release --all -n team-b")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// plural is a cluster that also serves what is namespaced, and what is not called after its kind.
type plural struct{ cluster }

func (p plural) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if kind == "CarbonPolicy" {
		return p.Resource(schema.GroupVersionResource{Group: "lull.dev", Version: "v1alpha1", Resource: "carbonpolicies"}), true, nil
	}
	c, namespaced, err := p.cluster.GetClientFor(apiVersion, kind)
	return c, namespaced || kind == "RoleBinding", err
}
