package kinds

import (
	"fmt"
	"slices"
	"strings"

	"lull.dev/lull/api/v1alpha1"
)

// exclusion is an annotation of objects for whose end something else waits.
type exclusion struct{ annotation, why string }

// excluded are those objects. A tool that deploys goes on only when they have run: held, they make it time out.
var excluded = []exclusion{
	{"helm.sh/hook", "a hook of Helm"},
	{"argocd.argoproj.io/hook", "a hook of Argo CD"},
	{"argocd.argoproj.io/sync-wave", "part of a sync wave of Argo CD"},
}

// kubeSystem is the namespace of Kubernetes' own components.
const kubeSystem = "kube-system"

// DefaultNamespace is that of Lull, unless it is installed elsewhere.
const DefaultNamespace = "lull-system"

// Excluded says why a policy of a namespace does not govern an object, given the object's annotations; "" for
// one that it may govern. own is Lull's own namespace. An object that names the policy in lull.dev/govern-by
// is governed by it, wherever it is and whatever it is for; one that names another policy is not.
//
// The admission policies decide the same: see notExcluded.
func Excluded(own, namespace, policy string, annotations map[string]string) string {
	if asked, ok := annotations[v1alpha1.AnnotationGovernBy]; ok {
		if asked == policy {
			return ""
		}
		return fmt.Sprintf("it asks for the CarbonPolicy %q", clip(asked))
	}
	if slices.Contains(excludedNamespaces(own), namespace) {
		return fmt.Sprintf("work in the namespace %s is not governed", namespace)
	}
	for _, x := range excluded {
		if _, ok := annotations[x.annotation]; ok {
			return fmt.Sprintf("it is %s (%s)", x.why, x.annotation)
		}
	}
	return ""
}

// excludedNamespaces are those of Kubernetes' own components and of Lull. Where own is empty Lull has none.
func excludedNamespaces(own string) []string {
	if own == "" {
		return []string{kubeSystem}
	}
	return []string{kubeSystem, own}
}

func clip(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// notExcluded is Excluded in CEL, as a condition that is true for what may be governed.
func notExcluded(own string) string {
	var names []string
	for _, x := range excluded {
		names = append(names, x.annotation)
	}
	list := func(of []string) string { return "['" + strings.Join(of, "', '") + "']" }
	return fmt.Sprintf(
		"'%[1]s' in object.metadata.?annotations.orValue({}) ? object.metadata.annotations['%[1]s'] == params.metadata.name : "+
			"!(request.namespace in %[2]s) && !%[3]s.exists(a, a in object.metadata.?annotations.orValue({}))",
		v1alpha1.AnnotationGovernBy, list(excludedNamespaces(own)), list(names))
}
