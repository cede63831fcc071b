package services

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
)

// TestFollowIsBoundToKindsAndNamespaces: a Follow places only the kinds, and from the namespaces, that the ComputeCluster lists.
func TestFollowIsBoundToKindsAndNamespaces(t *testing.T) {
	object := func(version, kind string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(version)
		u.SetKind(kind)
		u.SetName("x")
		return u
	}
	deployment, service, pod := object("apps/v1", "Deployment"), object("v1", "Service"), object("v1", "Pod")
	binding, imposter := object("rbac.authorization.k8s.io/v1", "RoleBinding"), object("example.com/v1", "Deployment")
	web := &v1alpha1.FollowAccess{Namespaces: []string{"web", "api"}}
	for name, tc := range map[string]struct {
		access    *v1alpha1.FollowAccess
		namespace string
		object    *unstructured.Unstructured
		want      string
	}{
		"without access":            {nil, "web", deployment, "ComputeCluster toronto has no spec.follow"},
		"another namespace":         {web, "team-a", deployment, `namespace "team-a" is not in spec.follow.namespaces of ComputeCluster toronto`},
		"a default kind":            {web, "api", deployment, ""},
		"one of the core group":     {web, "web", service, ""},
		"a Pod":                     {web, "web", pod, "Pod x: kind Pod is not in spec.follow.kinds of ComputeCluster toronto; accepted: ConfigMap, Deployment.apps, Service"},
		"a RoleBinding":             {web, "web", binding, "kind RoleBinding.rbac.authorization.k8s.io is not in"},
		"the kind of another group": {web, "web", imposter, "kind Deployment.example.com is not in"},
		"a kind that is listed":     {&v1alpha1.FollowAccess{Namespaces: []string{"web"}, Kinds: []string{"Pod"}}, "web", pod, ""},
		"a default that is not":     {&v1alpha1.FollowAccess{Namespaces: []string{"web"}, Kinds: []string{"Pod"}}, "web", service, "accepted: Pod"},
		"one version or the other":  {web, "web", object("apps/v1beta1", "Deployment"), ""},
		"no namespace at all":       {&v1alpha1.FollowAccess{}, "web", deployment, "is not in spec.follow.namespaces"},
	} {
		err := allowed(tc.access, "toronto", tc.namespace, []*unstructured.Unstructured{tc.object})
		if (err == nil) != (tc.want == "") || err != nil && (!errors.Is(err, errNotAllowed) || !final(err) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}
