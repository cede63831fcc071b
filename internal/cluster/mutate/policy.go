// Package mutate evaluates MutatingAdmissionPolicies outside of an API server, with the rules of the API server: the same
// language, the same conditions, the same limits of cost. `lull admission` answers with it where the API server itself has no
// such policies, and the tests' model of an API server uses it too.
package mutate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// ErrPolicy marks a policy that cannot be used.
var ErrPolicy = errors.New("invalid admission policy")

// ErrDoesNotFit marks a patch that an object does not accept, as a field that it changes is not there.
var ErrDoesNotFit = errors.New("the patch does not fit the object")

// The limits of the API server (k8s.io/apiserver/pkg/apis/cel). A unit of cost is about 100 ns.
const (
	// mostOfOne is what one expression may cost.
	mostOfOne = 1_000_000
	// mostOfConditions is what all conditions of a policy may cost together, for one object and one parameter.
	mostOfConditions = 2_500_000
	// mostOfMutation is what a mutation and the variables that it uses may cost together.
	mostOfMutation = 10_000_000
	// checkEach is after how many steps of a loop an evaluation notices that its time is over.
	checkEach = 100
)

// Policy is a compiled MutatingAdmissionPolicy. It is immutable, and safe for use by several goroutines.
type Policy struct {
	name       string
	conditions []expression
	variables  []expression
	mutations  []expression
	reads      fields // of the object
}

// expression is a compiled expression, with its name or number.
type expression struct {
	name    string
	program cel.Program
}

// Operation is one operation of a JSON patch (RFC 6902). Policies of Lull use "add" and "remove".
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from,omitempty"`
	Value any    `json:"value,omitempty"`
}

// Compile compiles the expressions of a policy. The error wraps ErrPolicy, and names the policy and the expression that cannot be
// compiled. Only mutations of type JSONPatch are accepted.
func Compile(p *admissionv1.MutatingAdmissionPolicy) (*Policy, error) {
	out := &Policy{name: p.Name}
	for _, c := range p.Spec.MatchConditions {
		if err := out.compile(&out.conditions, "matchConditions["+c.Name+"]", c.Expression); err != nil {
			return nil, err
		}
	}
	for _, v := range p.Spec.Variables {
		if err := out.compile(&out.variables, "variables["+v.Name+"]", v.Expression); err != nil {
			return nil, err
		}
		out.variables[len(out.variables)-1].name = v.Name
	}
	for i, m := range p.Spec.Mutations {
		if m.PatchType != admissionv1.PatchTypeJSONPatch || m.JSONPatch == nil {
			return nil, fmt.Errorf("%w %q: mutations[%d].patchType: %q; accepted: JSONPatch", ErrPolicy, p.Name, i, m.PatchType)
		}
		if err := out.compile(&out.mutations, fmt.Sprintf("mutations[%d]", i), m.JSONPatch.Expression); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compile adds a compiled expression to a list.
func (p *Policy) compile(to *[]expression, name, text string) error {
	c, err := compiled(text)
	if err != nil {
		return fmt.Errorf("%w %q: %s: %w", ErrPolicy, p.name, name, err)
	}
	*to = append(*to, expression{name, c.program})
	p.reads.merge(&c.reads)
	return nil
}

// Mutate evaluates the policy for an object that is created, with one parameter: for a policy of Lull, a CarbonPolicy of the
// object's namespace. request is what the expressions read of the AdmissionRequest: its namespace at least. params is nil for a
// policy without a parameter. No argument is changed.
//
// Mutate returns the patch, and the object as the patch leaves it, which shares with the object what the patch does not change. It returns no patch and the object itself if the policy does
// not match. If an expression fails, costs too much or leads to a patch that does not fit the object (ErrDoesNotFit), it returns an error:
// for a policy whose failurePolicy is Ignore, the object stays as it was. As in the API server, a condition that is false
// decides, also if another condition fails.
func (p *Policy) Mutate(ctx context.Context, request, object, params map[string]any) ([]Operation, map[string]any, error) {
	vars := map[string]any{"object": object, "oldObject": nil, "request": request, "params": nil}
	if params != nil {
		vars["params"] = params
	}
	return p.mutate(ctx, vars)
}

// MutateUpdate evaluates a policy without a parameter for an object that is updated; old is the object before. All else is as of Mutate.
func (p *Policy) MutateUpdate(ctx context.Context, request, object, old map[string]any) ([]Operation, map[string]any, error) {
	return p.mutate(ctx, map[string]any{"object": object, "oldObject": old, "request": request, "params": nil})
}

// mutate evaluates the policy for the values of its variables.
func (p *Policy) mutate(ctx context.Context, vars map[string]any) ([]Operation, map[string]any, error) {
	object, _ := vars["object"].(map[string]any)
	matches, err := p.matches(ctx, vars)
	if err != nil || !matches {
		return nil, object, err
	}
	var patch []Operation
	for _, m := range p.mutations {
		budget := uint64(mostOfMutation)
		variables := map[string]any{}
		vars["variables"] = variables
		for _, v := range p.variables { // the API server evaluates them when they are used; those of Lull always are
			if variables[v.name], err = p.evaluate(ctx, v, vars, &budget); err != nil {
				return nil, object, err
			}
		}
		value, err := p.evaluate(ctx, m, vars, &budget)
		if err != nil {
			return nil, object, err
		}
		operations, err := operationsOf(value)
		if err != nil {
			return nil, object, fmt.Errorf("policy %s: %s: %w", p.name, m.name, err)
		}
		before, _ := vars["object"].(map[string]any)
		changed, err := apply(before, operations)
		if err != nil {
			return nil, object, fmt.Errorf("policy %s: %s: %w: %w", p.name, m.name, ErrDoesNotFit, err)
		}
		vars["object"] = changed
		patch = append(patch, operations...)
	}
	return patch, vars["object"].(map[string]any), nil
}

// matches evaluates the conditions.
func (p *Policy) matches(ctx context.Context, vars map[string]any) (bool, error) {
	budget := uint64(mostOfConditions)
	var errs []error
	no := false
	for _, c := range p.conditions { // all of them, as what one costs counts for all
		value, err := p.evaluate(ctx, c, vars, &budget)
		switch {
		case errors.Is(err, errBudget):
			return false, err
		case err != nil:
			errs = append(errs, err)
		case value != types.True:
			no = true
		}
	}
	if no {
		return false, nil
	}
	return len(errs) == 0, errors.Join(errs...)
}

// errBudget is the end of what the expressions of a policy may cost together.
var errBudget = errors.New("the expressions cost too much together")

// evaluate evaluates an expression and takes its cost from a budget.
func (p *Policy) evaluate(ctx context.Context, e expression, vars map[string]any, budget *uint64) (ref.Val, error) {
	value, details, err := e.program.ContextEval(ctx, vars)
	cost := uint64(math.MaxUint64)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("policy %s: %s: %w", p.name, e.name, ctx.Err())
	case details != nil && cost > *budget:
		return nil, fmt.Errorf("policy %s: %s: %w", p.name, e.name, errBudget)
	case err != nil:
		return nil, fmt.Errorf("policy %s: %s: %w", p.name, e.name, err)
	}
	*budget -= min(cost, *budget)
	return value, nil
}
