package kinds

import "slices"

// kept are the fields of a pod's spec that planning reads, keptOfContainer those of its containers.
var (
	kept            = []string{"priorityClassName", "overhead", "resources", "schedulingGates"}
	keptOfContainer = []string{"name", "resources", "restartPolicy"}
	containerLists  = []string{"containers", "initContainers"}
)

// keeps reports whether Prune leaves what a path within a pod template leads to.
func keeps(within path) bool {
	if len(within) == 0 || within[0].key == "metadata" {
		return false
	}
	if within[0].key != "spec" {
		return true
	}
	if len(within) > 3 && slices.Contains(containerLists, within[1].key) {
		return slices.Contains(keptOfContainer, within[3].key)
	}
	return len(within) > 1 && slices.Contains(kept, within[1].key)
}

// pruned returns the part of a pod's spec that planning reads.
func pruned(spec map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range kept {
		if v, ok := spec[name]; ok {
			out[name] = v
		}
	}
	for _, name := range containerLists {
		list, _ := spec[name].([]any)
		short := make([]any, 0, len(list))
		for _, c := range list {
			c, _ := c.(map[string]any)
			s := map[string]any{}
			for _, field := range keptOfContainer {
				if v, ok := c[field]; ok {
					s[field] = v
				}
			}
			short = append(short, s)
		}
		if len(short) > 0 {
			out[name] = short
		}
	}
	return out
}

// Prune takes out of an object what planning does not read: most of its pod templates, the
// managed fields and annotations of others. Thousands of objects are kept in memory.
func (k *Kind) Prune(obj map[string]any) {
	if m, ok := obj["metadata"].(map[string]any); ok {
		delete(m, "managedFields")
	}
	k.TrimAnnotations(obj)
	shorten := func(t any) {
		if template, ok := t.(map[string]any); ok {
			if spec, ok := template["spec"].(map[string]any); ok {
				template["spec"] = pruned(spec)
			}
			delete(template, "metadata")
		}
	}
	if len(k.worker) > 0 {
		for _, t := range k.worker.each(obj) {
			shorten(t)
		}
	}
	for i := range k.pods {
		g := &k.pods[i]
		items := []any{obj}
		if len(g.each) > 0 {
			items = g.each.each(obj)
		}
		for _, item := range items {
			if t, ok := g.template.get(item); ok {
				shorten(t)
			}
		}
	}
}
