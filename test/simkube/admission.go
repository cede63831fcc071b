package simkube

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	namespaced "k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/internal/cluster/mutate"
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
				changed, err := mutated(&policy, obj, params)
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

// mutated evaluates a policy for an object, and returns the object as changed by it.
func mutated(policy *admissionv1.MutatingAdmissionPolicy, obj, params *unstructured.Unstructured) (map[string]any, error) {
	compiled, err := mutate.Compile(policy)
	if err != nil {
		return nil, err
	}
	var with map[string]any
	if params != nil {
		with = params.Object
	}
	request := map[string]any{"namespace": obj.GetNamespace(), "name": obj.GetName(), "operation": "CREATE"}
	_, changed, err := compiled.Mutate(context.Background(), request, obj.Object, with)
	return changed, err
}

// programs are compiled expressions.
var programs sync.Map // string -> func() (cel.Program, error)

// evaluate evaluates an expression of a schema.
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

// environment is what expressions of schemas may use: what Kubernetes 1.32 has, the oldest that Lull supports.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.HomogeneousAggregateLiterals()}
	for _, name := range []string{"self", "oldSelf"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	return cel.NewEnv(slices.Concat(options, quantities(), lists())...)
})

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
