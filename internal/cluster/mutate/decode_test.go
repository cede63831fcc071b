package mutate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/test/creations"
	"lull.dev/lull/test/size"
)

// TestFieldsThatAreRead: what an expression reads of the object is found, whichever way it reads it.
func TestFieldsThatAreRead(t *testing.T) {
	for expression, want := range map[string]string{
		"object.metadata.name == 'x'":                                   "metadata.name",
		"object.spec.?template.?spec.?priorityClassName.orValue('')":    "spec.template.spec.priorityClassName",
		"has(object.metadata.annotations) && object.metadata.name > ''": "metadata.annotations metadata.name",
		"object.metadata.?labels.orValue({}).exists(k, k == 'a')":       "metadata.labels",
		"object.metadata.annotations['a'] == object.?spec.a":            "metadata.annotations spec.a",
		"object.spec.list[0].x == 1":                                    "spec.list",
		"[{'k': object.b}, {'l': object.c}].size() > 0":                 "b c",
		"{object.a: 1}.size() > 0":                                      "a",
		"JSONPatch{op: 'add', path: '/x', value: object.spec.a.b}":      "spec.a.b",
		"object.spec.a.b == 1 && object.spec.a == 2":                    "spec.a",
		"object == params":                                              "everything",
		"object['spec'].a == 1":                                         "everything",
		"[object].exists(o, o.spec.a == 1)":                             "everything",
		"oldObject.spec.a == params.object.b":                           "",
		"params.list.all(p, object.spec.n > p)":                         "spec.n",
	} {
		c, err := compiled(expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.reads.paths(""), " "); got != want {
			t.Errorf("%s reads %q, want %q", expression, got, want)
		}
	}
}

// paths are the fields as paths, sorted.
func (f *fields) paths(to string) (out []string) {
	if f.all {
		if to == "" {
			return []string{"everything"}
		}
		return []string{strings.TrimPrefix(to, ".")}
	}
	for _, name := range slices.Sorted(maps.Keys(f.of)) {
		out = append(out, f.of[name].paths(to+"."+name)...)
	}
	return out
}

// TestDecodedForPatch: what Patch returns of the fields that Decode decodes, its error too, is what it returns of the whole object, for random and hostile objects of each kind; unless a patch
// does not fit.
func TestDecodedForPatch(t *testing.T) {
	r := rand.New(rand.NewPCG(57, 2))
	patches, failures, smaller := 0, 0, 0
	for _, k := range kinds.Builtin() {
		h, err := NewHolder(k, own)
		if err != nil {
			t.Fatal(err)
		}
		for range size.Of(400, 40_000) {
			obj := creations.Object(r, k, "team", "x", r.IntN(3) == 0)
			policies := asObjects(t, creations.Policies(r, "team"))
			raw, err := json.Marshal(obj.Object)
			if err != nil {
				t.Fatal(err)
			}
			var whole map[string]any
			if err := json.Unmarshal(raw, &whole); err != nil {
				t.Fatal(err)
			}
			part, err := h.Decode(raw)
			if err != nil {
				t.Fatalf("%v: %s", err, raw)
			}
			want, wantErr := h.Patch(t.Context(), "team", obj.Object, policies)
			got, gotErr := h.Patch(t.Context(), "team", part, policies)
			if errors.Is(gotErr, ErrDoesNotFit) {
				continue // the whole object decides
			}
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) || text(t, got) != text(t, want) {
				t.Fatalf("%s: %s, %v, want %s, %v: %s", k.Name, text(t, got), gotErr, text(t, want), wantErr, raw)
			}
			if len(got) > 0 {
				patches++
			}
			if gotErr != nil {
				failures++
			}
			if left, _ := json.Marshal(part); len(left) < len(raw) {
				smaller++
			}
		}
	}
	if patches < 500 || failures < 10 || smaller < 500 {
		t.Errorf("only %d patches, %d failures, %d objects from which something was left out", patches, failures, smaller)
	}
}

// TestApply: what apply makes of an object is what the library of JSON patches makes of it, and the object itself stays as it is.
func TestApply(t *testing.T) {
	r := rand.New(rand.NewPCG(57, 3))
	paths := []string{"/a", "/a/b", "/a/b/c", "/list/0", "/list/-", "/list", "/none/x", "", "/", "/a/", "/x~1y", "/x~1y/z", "/m~0n", "/~01", "/text/x", "a", "/null/x"}
	values := []any{"s", true, int64(3), map[string]any{}, map[string]any{"k": []any{"v"}}, []any{}, 1.5, nil, uint64(2), map[string]any{"x": 1.0}}
	fits, fitsNot := 0, 0
	for range size.Of(20_000, 400_000) {
		object := map[string]any{"a": map[string]any{"b": map[string]any{"c": int64(1)}}, "list": []any{"x"}, "x/y": map[string]any{}, "m~n": "t", "text": "t", "null": nil}
		before := text(t, object)
		var operations []Operation
		for range 1 + r.IntN(4) {
			operations = append(operations, Operation{Op: []string{"add", "add", "add", "remove", "replace"}[r.IntN(5)], Path: paths[r.IntN(len(paths))], Value: values[r.IntN(len(values))]})
		}
		stated := text(t, operations)
		got, err := apply(object, operations)
		want, wantErr := applyAny(object, operations)
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %v %v, want %v %v", stated, got, err, want, wantErr)
		}
		if text(t, object) != before || text(t, operations) != stated {
			t.Fatalf("%s has changed its arguments: %s, %s", stated, text(t, object), text(t, operations))
		}
		if err == nil {
			fits++
		} else {
			fitsNot++
		}
	}
	if fits < 1000 || fitsNot < 1000 {
		t.Errorf("%d fit, %d do not", fits, fitsNot)
	}
}

// FuzzMembers: of an object in JSON, Members gives what encoding/json decodes. Of what is not JSON it may give anything, but ends.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, ` {"a" : 1 , "b\u0063":[{"x":"]}\\\""}, null] }`, `{"a":{"a":"\\"},"a":2}`, `{"a":tru}`, `[1]`, `{"a":"`, `{"a":[[`, `{"a" 1}`, `{"":-1.5e+3}x`, `null`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := map[string]json.RawMessage{}
		err := Members(body, func(name, value []byte) error { got[string(name)] = append(json.RawMessage{}, value...); return nil })
		var want map[string]json.RawMessage
		if !utf8.Valid(body) || !json.Valid(body) || json.Unmarshal(body, &want) != nil || want == nil {
			return
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("%v: %s, want %s", err, got, want)
		}
		for name, value := range want {
			if string(got[name]) != string(value) {
				t.Fatalf("%q: %s, want %s", name, got[name], value)
			}
		}
	})
}
