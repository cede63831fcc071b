package simkube

import "k8s.io/apimachinery/pkg/runtime"

// prune removes what a schema of a CustomResourceDefinition does not know, as the API server does.
func prune(schema map[string]any, x any, root bool) {
	switch x := x.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		others, open := schema["additionalProperties"].(map[string]any)
		keep, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool)
		for key, value := range x {
			if root && (key == "apiVersion" || key == "kind" || key == "metadata") {
				continue
			}
			property, known := properties[key].(map[string]any)
			switch {
			case known:
				prune(property, value, false)
			case open:
				prune(others, value, false)
			case !keep:
				delete(x, key)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, value := range x {
			prune(items, value, false)
		}
	}
}

// setDefaults sets the defaults of a schema, and removes nulls that it does not allow, as the API server does.
func setDefaults(schema map[string]any, x any) {
	switch x := x.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		others, _ := schema["additionalProperties"].(map[string]any)
		for key, value := range properties {
			property, _ := value.(map[string]any)
			nullable, _ := property["nullable"].(bool)
			is, present := x[key]
			if present && is == nil && !nullable {
				delete(x, key)
				present = false
			}
			if fallback, has := property["default"]; has && !present {
				x[key] = runtime.DeepCopyJSONValue(fallback)
			}
		}
		for key, value := range x {
			if property, known := properties[key].(map[string]any); known {
				setDefaults(property, value)
			} else if others != nil {
				setDefaults(others, value)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for _, value := range x {
			setDefaults(items, value)
		}
	}
}

// builtinDefaults sets the defaults of a built-in kind that Lull depends on.
func builtinDefaults(r *Resource, obj map[string]any) {
	if r.Kind != "Job" {
		return
	}
	spec, is := obj["spec"].(map[string]any)
	if !is {
		spec = map[string]any{}
		obj["spec"] = spec
	}
	set := func(key string, value any) {
		if was, is := spec[key]; !is || was == nil {
			spec[key] = value
		}
	}
	_, completions := spec["completions"]
	_, parallelism := spec["parallelism"]
	if !completions && !parallelism {
		set("completions", int64(1))
	}
	set("parallelism", int64(1))
	set("backoffLimit", int64(6))
	set("completionMode", "NonIndexed")
	set("suspend", false)
	set("podReplacementPolicy", "TerminatingOrFailed")
	set("manualSelector", false)
}
