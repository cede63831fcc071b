package services

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/api/v1alpha1"
)

// errNotAllowed says that a ComputeCluster does not let a Follow place its objects.
var errNotAllowed = errors.New("the administrator does not allow it")

// defaultKinds are the kinds of a FollowAccess that was created without the API server's defaults.
var defaultKinds = []string{"ConfigMap", "Deployment.apps", "Service"}

// allowed returns an error if Follows of a namespace may not place these objects on a ComputeCluster.
func allowed(access *v1alpha1.FollowAccess, cluster, namespace string, objects []*unstructured.Unstructured) error {
	if access == nil {
		return fmt.Errorf("%w: ComputeCluster %s has no spec.follow, so it takes no Follows", errNotAllowed, cluster)
	}
	if !slices.Contains(access.Namespaces, namespace) {
		return fmt.Errorf("%w: namespace %q is not in spec.follow.namespaces of ComputeCluster %s", errNotAllowed, namespace, cluster)
	}
	kinds := access.Kinds
	if len(kinds) == 0 {
		kinds = defaultKinds
	}
	for _, obj := range objects {
		if kind := obj.GroupVersionKind().GroupKind().String(); !slices.Contains(kinds, kind) {
			return fmt.Errorf("%w: %s %s: kind %s is not in spec.follow.kinds of ComputeCluster %s; accepted: %s", errNotAllowed, obj.GetKind(), obj.GetName(), kind, cluster, strings.Join(kinds, ", "))
		}
	}
	return nil
}
