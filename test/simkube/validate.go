package simkube

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// validate returns the error with which an API server refuses an object that a process creates, or changes from before. It is
// nil if the object is accepted. The caller holds mu.
func (s *Store) validate(by string, r *Resource, obj, before *unstructured.Unstructured) error {
	err := r.validate(obj, before)
	if runtime.IsStrictDecodingError(err) { // an API server drops the fields
		return s.refuse(by, "write "+r.Name+" "+nameOf(obj).String(), "pruning of built-in kinds: "+err.Error())
	}
	return err
}

// validate returns the error about an object, or a strict decoding error if a built-in kind has fields that are not known.
func (r *Resource) validate(obj, before *unstructured.Unstructured) error {
	var meta metav1.ObjectMeta
	fields, _ := obj.Object["metadata"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &meta); err != nil {
		return undecodable(err)
	}
	name := apivalidation.NameIsDNSSubdomain
	if r.Kind == "Namespace" {
		name = apivalidation.NameIsDNSLabel
	}
	path := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMeta(&meta, r.Namespaced, name, path)
	if before != nil {
		var was metav1.ObjectMeta
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(before.Object["metadata"].(map[string]any), &was))
		errs = append(errs, apivalidation.ValidateObjectMetaUpdate(&meta, &was, path)...)
	}
	if r.schema != nil {
		errs = append(errs, r.validateCustom(obj, before)...)
	} else {
		more, err := r.validateBuiltin(obj, before)
		if err != nil {
			return err
		}
		errs = append(errs, more...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(r.gk(), obj.GetName(), errs)
	}
	return nil
}

// mistyped is the error about an object with a field of another type. An API server answers it otherwise if a patch made the
// object.
type mistyped struct{ *apierrors.StatusError }

func undecodable(err error) error { return &mistyped{apierrors.NewBadRequest(err.Error())} }

// identified returns an error if an object in the body of a call is not one that the path of the call names.
func (r *Resource) identified(obj *unstructured.Unstructured, namespace string) error {
	kind, version := obj.GetKind(), obj.GetAPIVersion()
	switch {
	case r.schema != nil && (kind == "" || version == ""):
		return apierrors.NewBadRequest("apiVersion and kind are required")
	case kind != "" && kind != r.Kind, version != "" && version != r.apiVersion():
		if r.schema == nil {
			return apierrors.NewBadRequest(fmt.Sprintf("%s %s does not match the kind of the path", version, kind))
		}
		return apierrors.NewInvalid(r.gk(), obj.GetName(), field.ErrorList{field.Invalid(field.NewPath("kind"), kind, "must be "+r.Kind)})
	case r.Namespaced && obj.GetNamespace() != "" && obj.GetNamespace() != namespace:
		return apierrors.NewBadRequest("the namespace of the object does not match the namespace of the path")
	}
	return nil
}

// typed is an empty object of a built-in kind; nil for a kind of which the model knows no type.
func (r *Resource) typed() runtime.Object {
	if r.schema != nil {
		return nil
	}
	out, err := scheme.Scheme.New(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind})
	if err != nil {
		return nil // an operator's kind
	}
	return out
}

// validateCustom validates an object against the schema of its CustomResourceDefinition. Unlike an API server, it also refuses an
// invalid field that the change leaves as it was.
func (r *Resource) validateCustom(obj, before *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	for _, err := range r.validator.Validate(obj.Object).Errors {
		errs = append(errs, field.Invalid(field.NewPath(""), "", err.Error()))
	}
	if len(errs) > 0 {
		return errs // rules take for granted that the types are right
	}
	var was any
	if before != nil {
		was = before.Object
	}
	return checkRules(r.schema, obj.Object, was, nil)
}

// compile prepares the validation of a custom resource. It returns an error if the schema has what the model does not know.
func (r *Resource) compile() error {
	text, err := json.Marshal(r.schema)
	if err != nil {
		return err
	}
	var known spec.Schema
	if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	r.validator = validate.NewSchemaValidator(&known, nil, "", strfmt.Default)
	return compileRules(r.schema, true)
}

// rulesOf are the expressions of the x-kubernetes-validations of a schema.
func rulesOf(s map[string]any) (out []string) {
	list, _ := s["x-kubernetes-validations"].([]any)
	for _, x := range list {
		rule, _ := x.(map[string]any)
		expression, _ := rule["rule"].(string)
		out = append(out, expression)
	}
	return out
}

// compileRules compiles all rules of a schema. correlated says that the value before a change is known.
func compileRules(s map[string]any, correlated bool) error {
	for _, rule := range rulesOf(s) {
		if _, err := compiled(rule); err != nil {
			return fmt.Errorf("rule %s: %w", rule, err)
		}
		if !correlated && strings.Contains(rule, "oldSelf") {
			return fmt.Errorf("rule %s: this model knows no oldSelf of elements", rule)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for _, x := range properties {
		if property, is := x.(map[string]any); is {
			if err := compileRules(property, correlated); err != nil {
				return err
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, is := s[key].(map[string]any); is {
			if err := compileRules(inner, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRules checks the rules of a schema, and that the elements of sets and lists of maps differ.
func checkRules(s map[string]any, x, before any, path *field.Path) (errs field.ErrorList) {
	for _, rule := range rulesOf(s) {
		if before == nil && strings.Contains(rule, "oldSelf") {
			continue
		}
		value, err := evaluate(rule, map[string]any{"self": asTyped(s, x), "oldSelf": asTyped(s, before)})
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path, "", fmt.Sprintf("rule %s: %v", rule, err)))
		case value != types.True:
			errs = append(errs, field.Invalid(path, "", "failed rule: "+rule))
		}
	}
	switch x := x.(type) {
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		others, _ := s["additionalProperties"].(map[string]any)
		was, _ := before.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(x)) {
			value := x[key]
			if property, known := properties[key].(map[string]any); known {
				errs = append(errs, checkRules(property, value, was[key], path.Child(key))...)
			} else if others != nil {
				errs = append(errs, checkRules(others, value, nil, path.Key(key))...)
			}
		}
	case []any:
		items, _ := s["items"].(map[string]any)
		var seen []any
		for i, value := range x {
			errs = append(errs, checkRules(items, value, nil, path.Index(i))...)
			key, distinct := keyOf(s, value)
			if distinct && slices.ContainsFunc(seen, func(x any) bool { return equalJSON(x, key) }) {
				errs = append(errs, field.Duplicate(path.Index(i), key))
			}
			seen = append(seen, key)
		}
	}
	return errs
}

// keyOf is what tells an element of a list from the others; false if the elements of the list may be the same.
func keyOf(s map[string]any, x any) (any, bool) {
	switch s["x-kubernetes-list-type"] {
	case "set":
		return x, true
	case "map":
		element, _ := x.(map[string]any)
		names, _ := s["x-kubernetes-list-map-keys"].([]any)
		key := []any{}
		for _, name := range names {
			key = append(key, element[name.(string)])
		}
		return key, true
	}
	return nil, false
}

// asTyped is a value as rules see it: whole numbers are fractional ones where the schema says so. Times stay strings.
func asTyped(s map[string]any, x any) any {
	switch x := x.(type) {
	case int64:
		if s["type"] == "number" {
			return float64(x)
		}
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		others, _ := s["additionalProperties"].(map[string]any)
		out := make(map[string]any, len(x))
		for key, value := range x {
			inner, known := properties[key].(map[string]any)
			if !known {
				inner = others
			}
			out[key] = asTyped(inner, value)
		}
		return out
	case []any:
		items, _ := s["items"].(map[string]any)
		out := make([]any, len(x))
		for i, value := range x {
			out[i] = asTyped(items, value)
		}
		return out
	}
	return x
}

// refuse returns the error about an operation that needs what this model does not have. It is recorded as well: a program might
// try again and go on.
func (s *Store) refuse(by, operation, what string) error {
	if s.Refused != nil {
		s.Refused(fmt.Sprintf("%s by %s: %s", operation, by, what))
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented", Message: fmt.Sprintf("%s: this model does not have %s", operation, what),
	}}
}
