package simkube

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	namespaced "k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// admit changes an object that is about to be created as the MutatingAdmissionPolicies in the store say. It evaluates
// their expressions; it knows no rule of its own. A policy that cannot be evaluated changes nothing if its
// failurePolicy is Ignore, else the object is refused. The caller holds mu.
func (s *Store) admit(r *Resource, obj *unstructured.Unstructured) error {
	policies, served := s.resource("MutatingAdmissionPolicy")
	bindings, _ := s.resource("MutatingAdmissionPolicyBinding")
	if !served {
		return nil
	}
	for _, u := range s.sorted(policies, "") {
		var policy admissionv1.MutatingAdmissionPolicy
		typed(u, &policy)
		if !constrains(policy.Spec.MatchConstraints, r) || !s.selects(policy.Spec.MatchConstraints.NamespaceSelector, obj.GetNamespace()) {
			continue
		}
		for _, v := range s.sorted(bindings, "") {
			var binding admissionv1.MutatingAdmissionPolicyBinding
			typed(v, &binding)
			if binding.Spec.PolicyName != policy.Name {
				continue
			}
			for _, params := range s.params(&policy, &binding, obj) {
				changed, err := mutate(&policy, obj, params)
				switch {
				case err == nil:
					obj.Object = changed
				case policy.Spec.FailurePolicy == nil || *policy.Spec.FailurePolicy != admissionv1.Ignore:
					return fmt.Errorf("policy %s: %w", policy.Name, err)
				}
			}
		}
	}
	return nil
}

// constrains reports whether a policy is about objects of a resource that are created.
func constrains(m *admissionv1.MatchResources, r *Resource) bool {
	has := func(list []string, x string) bool { return slices.Contains(list, "*") || slices.Contains(list, x) }
	return m != nil && slices.ContainsFunc(m.ResourceRules, func(rule admissionv1.NamedRuleWithOperations) bool {
		return has(rule.APIGroups, r.Group) && has(rule.APIVersions, r.Version) && has(rule.Resources, r.Name) &&
			(slices.Contains(rule.Operations, admissionv1.Create) || slices.Contains(rule.Operations, admissionv1.OperationAll))
	})
}

// selects reports whether a selector of namespaces selects one of this name; none selects all. The caller holds mu.
func (s *Store) selects(selector *metav1.LabelSelector, namespace string) bool {
	if selector == nil || namespace == "" {
		return true
	}
	of := labels.Set{}
	if r, served := s.resource("Namespace"); served {
		if u := s.objects[r][namespaced.NamespacedName{Name: namespace}]; u != nil {
			of = labels.Merge(of, u.GetLabels())
		}
	}
	of[corev1.LabelMetadataName] = namespace // which the API server sets
	selects, err := metav1.LabelSelectorAsSelector(selector)
	must(err)
	return selects.Matches(of)
}

// params are the parameters with which a policy is evaluated, each in its turn: those of the object's own namespace
// that the binding selects. The API server takes them from a map, so in any order: here in one that follows from the object.
func (s *Store) params(policy *admissionv1.MutatingAdmissionPolicy, binding *admissionv1.MutatingAdmissionPolicyBinding, obj *unstructured.Unstructured) []*unstructured.Unstructured {
	if policy.Spec.ParamKind == nil || binding.Spec.ParamRef == nil {
		return []*unstructured.Unstructured{nil}
	}
	r, served := s.resource(policy.Spec.ParamKind.Kind)
	if !served {
		return nil
	}
	out := s.sorted(r, obj.GetNamespace())
	hash := fnv.New64a()
	hash.Write([]byte(obj.GetKind() + "/" + obj.GetName()))
	rand.New(rand.NewPCG(hash.Sum64(), 0)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] }) //nolint:gosec // no secret
	return out
}

// mutate evaluates a policy for an object, and returns the object as changed by it.
func mutate(policy *admissionv1.MutatingAdmissionPolicy, obj, params *unstructured.Unstructured) (map[string]any, error) {
	variables := map[string]any{}
	vars := map[string]any{
		"object": obj.Object, "oldObject": nil, "variables": variables,
		"request": map[string]any{"namespace": obj.GetNamespace(), "name": obj.GetName(), "operation": "CREATE"},
	}
	if params != nil {
		vars["params"] = params.Object
	}
	var failure error
	for _, c := range policy.Spec.MatchConditions {
		value, err := evaluate(c.Expression, vars)
		switch {
		case err != nil:
			failure = err
		case value != types.True:
			return obj.Object, nil // also where another condition fails
		}
	}
	if failure != nil {
		return nil, failure
	}
	for _, v := range policy.Spec.Variables {
		value, err := evaluate(v.Expression, vars)
		if err != nil {
			return nil, err
		}
		variables[v.Name] = value
	}
	out := obj.Object
	for _, m := range policy.Spec.Mutations {
		if m.JSONPatch == nil {
			return nil, fmt.Errorf("patch type %s: not served by this model", m.PatchType)
		}
		value, err := evaluate(m.JSONPatch.Expression, vars)
		if err != nil {
			return nil, err
		}
		if out, err = applyJSONPatch(out, plain(value)); err != nil {
			return nil, err
		}
		vars["object"] = out
	}
	return out, nil
}

// applyJSONPatch returns a changed copy of an object.
func applyJSONPatch(obj map[string]any, operations any) (map[string]any, error) {
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(obj)
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

// programs are compiled expressions.
var programs sync.Map // string -> func() (cel.Program, error)

// evaluate evaluates an expression of an admission policy or of a schema.
func evaluate(expression string, vars map[string]any) (ref.Val, error) {
	program, err := compiled(expression)
	if err != nil {
		return nil, err
	}
	out, _, err := program.Eval(vars)
	return out, err
}

// compiled compiles an expression once.
func compiled(expression string) (cel.Program, error) {
	compile, _ := programs.LoadOrStore(expression, sync.OnceValues(func() (cel.Program, error) {
		env, err := environment()
		if err != nil {
			return nil, err
		}
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			return nil, issues.Err()
		}
		return env.Program(ast)
	}))
	return compile.(func() (cel.Program, error))()
}

// environment is what expressions of admission policies and schemas may use.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.HomogeneousAggregateLiterals(),
		cel.CustomTypeAdapter(registry), cel.CustomTypeProvider(patchType{registry}), ext.TwoVarComprehensions(),
	}
	for _, name := range []string{"object", "oldObject", "params", "request", "variables", "self", "oldSelf"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	return cel.NewEnv(append(options, quantities()...)...)
})

// patchType adds the type JSONPatch, whose values are maps: the native types of cel-go refuse a field of any type.
type patchType struct{ *types.Registry }

var jsonPatchType = types.NewObjectType("JSONPatch")

func (p patchType) FindStructType(name string) (*types.Type, bool) {
	if name == jsonPatchType.TypeName() {
		return types.NewTypeTypeWithParam(jsonPatchType), true
	}
	return p.Registry.FindStructType(name)
}

func (p patchType) FindStructFieldNames(name string) ([]string, bool) {
	if name == jsonPatchType.TypeName() {
		return []string{"op", "path", "from", "value"}, true
	}
	return p.Registry.FindStructFieldNames(name)
}

func (p patchType) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != jsonPatchType.TypeName() {
		return p.Registry.FindStructFieldType(name, field)
	}
	switch field {
	case "op", "path", "from":
		return &types.FieldType{Type: types.StringType}, true
	case "value":
		return &types.FieldType{Type: types.DynType}, true
	}
	return nil, false
}

func (p patchType) NewValue(name string, fields map[string]ref.Val) ref.Val {
	if name != jsonPatchType.TypeName() {
		return p.Registry.NewValue(name, fields)
	}
	out := map[ref.Val]ref.Val{}
	for field, value := range fields {
		out[types.String(field)] = value
	}
	return types.NewRefValMap(p.Registry, out)
}

// plain converts a value of CEL to one of JSON.
func plain(v ref.Val) any {
	switch v := v.(type) {
	case types.Int:
		return int64(v)
	case traits.Mapper:
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			out[fmt.Sprint(key.Value())] = plain(v.Get(key))
		}
		return out
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = append(out, plain(it.Next()))
		}
		return out
	}
	return v.Value()
}

// sorted are the objects of a resource in a namespace, or in all, by name. The caller holds mu.
func (s *Store) sorted(r *Resource, namespace string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	keys := slices.SortedFunc(maps.Keys(s.objects[r]), func(a, b namespaced.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if namespace == "" || key.Namespace == namespace {
			out = append(out, s.objects[r][key])
		}
	}
	return out
}

// object converts a typed object, typed converts it back.
func object(o runtime.Object) *unstructured.Unstructured {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	must(err)
	return &unstructured.Unstructured{Object: m}
}

func typed(u *unstructured.Unstructured, into runtime.Object) {
	must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into))
}
