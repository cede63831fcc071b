package simkube

import (
	"maps"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// rights are the roles and bindings of installed manifests.
type rights struct {
	roles    map[string]rbacv1.ClusterRole // by namespace/name; those of the cluster have no namespace
	bindings []rbacv1.RoleBinding          // those of the cluster have no namespace

	mu      sync.Mutex
	revoked []string // the namespaces whose bindings are gone
}

// add takes in an object of manifests; others than roles and bindings are left out.
func (x *rights) add(u *unstructured.Unstructured) {
	switch u.GetKind() {
	case "ClusterRole", "Role":
		var role rbacv1.ClusterRole // a Role has the fields of one
		typed(u, &role)
		if x.roles == nil {
			x.roles = map[string]rbacv1.ClusterRole{}
		}
		x.roles[role.Namespace+"/"+role.Name] = role
	case "ClusterRoleBinding", "RoleBinding":
		var binding rbacv1.RoleBinding
		typed(u, &binding)
		x.bindings = append(x.bindings, binding)
	}
}

// rules are those of a role, with those that it aggregates.
func (x *rights) rules(role rbacv1.ClusterRole) []rbacv1.PolicyRule {
	if role.AggregationRule == nil {
		return role.Rules
	}
	var out []rbacv1.PolicyRule
	for _, selector := range role.AggregationRule.ClusterRoleSelectors {
		for _, name := range slices.Sorted(maps.Keys(x.roles)) {
			if labels.SelectorFromSet(selector.MatchLabels).Matches(labels.Set(x.roles[name].Labels)) {
				out = append(out, x.roles[name].Rules...)
			}
		}
	}
	return out
}

// revoke deletes the bindings of a namespace.
func (x *rights) revoke(namespace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.revoked = append(x.revoked, namespace)
}

func (x *rights) isRevoked(namespace string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.revoked, namespace)
}

// allow reports whether a service account of Lull's namespace may make a call.
func (x *rights) allow(account string, c *call) bool {
	for _, b := range x.bindings {
		if b.Namespace != "" && (b.Namespace != c.key.Namespace || x.isRevoked(b.Namespace)) || !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Kind == rbacv1.ServiceAccountKind && s.Name == account }) {
			continue
		}
		key := "/" + b.RoleRef.Name
		if b.RoleRef.Kind == "Role" {
			key = b.Namespace + key
		}
		if slices.ContainsFunc(x.rules(x.roles[key]), c.allowedBy) {
			return true
		}
	}
	return false
}

// allowedBy reports whether a rule allows the call.
func (c *call) allowedBy(rule rbacv1.PolicyRule) bool {
	name := c.resource.Name
	if c.status {
		name += "/status"
	}
	has := func(list []string, x string) bool { return slices.Contains(list, "*") || slices.Contains(list, x) }
	return has(rule.Verbs, c.verb) && has(rule.APIGroups, c.resource.Group) && has(rule.Resources, name) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, c.key.Name))
}
