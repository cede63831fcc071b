package mutate

import (
	"encoding/json"
	"maps"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// apply returns a copy of an object with the operations applied. What they leave as it is, the copy shares with the object.
func apply(object map[string]any, operations []Operation) (map[string]any, error) {
	out := object
	for _, o := range operations {
		changed, ok := added(out, o)
		if !ok {
			return applyAny(object, operations)
		}
		out = changed
	}
	return out, nil
}

// added returns a copy of an object with a member added or replaced. ok is false if the operation is another one, if it leads into anything but objects, or if it does not fit.
// Nearly all operations of Lull's policies are additions to objects.
func added(object map[string]any, o Operation) (out map[string]any, ok bool) {
	if o.Op != "add" || len(o.Path) < 2 || o.Path[0] != '/' || !asDecoded(o.Value) {
		return nil, false
	}
	names := strings.Split(o.Path[1:], "/")
	out = maps.Clone(object)
	for at := out; ; names = names[1:] {
		name := unescape.Replace(names[0])
		if len(names) == 1 {
			at[name] = o.Value
			return out, true
		}
		inner, ok := at[name].(map[string]any)
		if !ok || inner == nil {
			return nil, false
		}
		inner = maps.Clone(inner)
		at[name], at = inner, inner
	}
}

// unescape replaces the escapes of a JSON pointer (RFC 6901).
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// asDecoded reports whether a value is the same after it has been encoded in JSON and decoded again.
func asDecoded(v any) bool {
	switch v := v.(type) {
	case string, bool, int64:
		return true
	case map[string]any:
		for _, inner := range v {
			if !asDecoded(inner) {
				return false
			}
		}
		return v != nil
	case []any:
		for _, inner := range v {
			if !asDecoded(inner) {
				return false
			}
		}
		return v != nil
	}
	return false
}

// applyAny is apply for any operations.
func applyAny(object map[string]any, operations []Operation) (map[string]any, error) {
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, utiljson.Unmarshal(after, &out)
}
