package mutate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lull.dev/lull/internal/cluster/kinds"
)

// policyOf is a policy with conditions and one mutation.
func policyOf(mutation string, conditions ...string) *admissionv1.MutatingAdmissionPolicy {
	p := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for i, c := range conditions {
		p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{Name: fmt.Sprint(i), Expression: c})
	}
	p.Spec.Variables = []admissionv1.Variable{{Name: "n", Expression: "object.?n.orValue(0)"}}
	p.Spec.Mutations = []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: mutation}}}
	return p
}

const addX = `[JSONPatch{op: "add", path: "/x", value: variables.n + 1}]`

func TestMutate(t *testing.T) {
	for name, c := range map[string]struct {
		policy *admissionv1.MutatingAdmissionPolicy
		patch  []Operation
		err    string
	}{
		"no condition":                        {policyOf(addX), []Operation{{Op: "add", Path: "/x", Value: int64(6)}}, ""},
		"true":                                {policyOf(addX, "object.n == 5 && params.a == 'b' && request.namespace == 'team'"), []Operation{{Op: "add", Path: "/x", Value: int64(6)}}, ""},
		"false":                               {policyOf(addX, "object.n == 6"), nil, ""},
		"a condition that fails":              {policyOf(addX, "object.none == 6"), nil, "matchConditions[0]: no such key"},
		"false decides though one fails":      {policyOf(addX, "object.none == 6", "false"), nil, ""},
		"a mutation that fails":               {policyOf(`[JSONPatch{op: "add", path: "/x", value: object.none}]`), nil, "mutations[0]: no such key"},
		"a patch that does not fit":           {policyOf(`[JSONPatch{op: "add", path: "/none/x", value: 1}]`), nil, "mutations[0]: the patch does not fit the object: add operation"},
		"values of all types":                 {policyOf(`[JSONPatch{op: "add", path: "/x", value: {"a": ["s"], "b": []}}, JSONPatch{op: "remove", path: "/n"}]`), []Operation{{Op: "add", Path: "/x", Value: map[string]any{"a": []any{"s"}, "b": []any{}}}, {Op: "remove", Path: "/n"}}, ""},
		"a condition that costs too much":     {policyOf(addX, "object.list.all(a, object.list.all(b, a >= 0 && b >= 0))"), nil, "cost limit exceeded"},
		"false does not decide at that price": {policyOf(addX, heavy, heavy, "false", heavy), nil, "cost too much together"},
	} {
		p, err := Compile(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		list := make([]any, 2000)
		for i := range list {
			list[i] = int64(i)
		}
		obj := map[string]any{"n": int64(5), "list": list}
		patch, after, err := p.Mutate(t.Context(), map[string]any{"namespace": "team"}, obj, map[string]any{"a": "b"})
		if !reflect.DeepEqual(patch, c.patch) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want %v, %q", name, patch, err, c.patch, c.err)
		}
		if len(patch) == 0 != (reflect.ValueOf(after).Pointer() == reflect.ValueOf(obj).Pointer()) || len(obj) != 2 {
			t.Errorf("%s: the object is %v", name, after)
		}
	}
}

// heavy costs more than a third of what all conditions may cost, and less than one may.
var heavy = "object.list.all(a, [" + strings.Repeat("1, ", 63) + "1].all(b, a >= 0 && b >= 0))"

// TestMutateEndsInTime: an evaluation whose time is over ends, as an API server does not wait for it.
func TestMutateEndsInTime(t *testing.T) {
	p, err := Compile(policyOf(addX, heavy))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	list := make([]any, 1000)
	for i := range list {
		list[i] = int64(i)
	}
	if patch, _, err := p.Mutate(ctx, nil, map[string]any{"list": list}, nil); !errors.Is(err, context.Canceled) || patch != nil {
		t.Errorf("%v, %v", patch, err)
	}
}

func TestCompileNamesWhatItRefuses(t *testing.T) {
	merge := policyOf(addX)
	merge.Spec.Mutations[0].PatchType, merge.Spec.Mutations[0].JSONPatch = admissionv1.PatchTypeApplyConfiguration, nil
	variable := policyOf(addX)
	variable.Spec.Variables[0].Expression = "("
	for want, p := range map[string]*admissionv1.MutatingAdmissionPolicy{
		"matchConditions[1]": policyOf(addX, "true", "nothing.of.that"), "mutations[0]: ERROR": policyOf("JSONPatch{"), "variables[n]": variable,
		`mutations[0].patchType: "ApplyConfiguration"; accepted: JSONPatch`: merge, "undefined field 'where'": policyOf(`[JSONPatch{op: "add", where: "/x"}]`),
	} {
		if _, err := Compile(p); !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"p"`) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// BenchmarkHolder is what one creation costs in a namespace with three policies.
func BenchmarkHolder(b *testing.B) {
	for _, k := range kinds.Builtin() {
		if k.Name != "Job" {
			continue
		}
		h, err := NewHolder(k, own)
		if err != nil {
			b.Fatal(err)
		}
		policies, obj := benchmarkInput()
		for b.Loop() {
			if patch, err := h.Patch(b.Context(), "team", obj, policies); err != nil || len(patch) == 0 {
				b.Fatal(patch, err)
			}
		}
	}
}

func benchmarkInput() ([]*unstructured.Unstructured, map[string]any) {
	var policies []*unstructured.Unstructured
	for _, name := range []string{"a", "b", "c"} {
		policies = append(policies, &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"team": name}}, "zone": "de"},
		}})
	}
	return policies, map[string]any{
		"metadata": map[string]any{"name": "x", "namespace": "team", "labels": map[string]any{"team": "b"}}, "spec": map[string]any{"template": map[string]any{}},
	}
}
