// Package rank compiles expressions that rate a place by its signals.
package rank

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

// ErrExpression marks an expression that cannot be used.
var ErrExpression = errors.New("invalid ranking expression")

// maxExpression bounds the length of an expression.
const maxExpression = 4096

// Expression compiles a CEL expression that yields a number from a place's signals, such
// as "irradiance - 0.1 * intensity"; the highest is the best. The names are those that it
// may use; "intensity" always is one.
//
// Errors: those of the expression, wrapping ErrExpression; of the score: a signal that the
// place lacks, or a result that is no number.
func Expression(text string, names []string) (func(signals map[string]float64) (float64, error), error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("%w: %d bytes; accepted: at most %d", ErrExpression, len(text), maxExpression)
	}
	known := map[string]bool{"intensity": true}
	for _, n := range names {
		known[n] = true
	}
	sorted := make([]string, 0, len(known))
	for n := range known {
		sorted = append(sorted, n)
	}
	sort.Strings(sorted)
	var options []cel.EnvOption
	for _, n := range sorted {
		options = append(options, cel.Variable(n, cel.DoubleType))
	}
	env, err := cel.NewEnv(append(options, cel.CrossTypeNumericComparisons(true))...)
	if err != nil {
		return nil, fmt.Errorf("%w: signals %s: %w", ErrExpression, strings.Join(sorted, ", "), err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%w: %q: %w; signals: %s", ErrExpression, text, issues.Err(), strings.Join(sorted, ", "))
	}
	switch ast.OutputType().Kind() {
	case cel.DoubleKind, cel.IntKind:
	default:
		return nil, fmt.Errorf("%w: %q yields %s; accepted: a number", ErrExpression, text, ast.OutputType())
	}
	program, err := env.Program(ast, cel.CostLimit(100_000))
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrExpression, text, err)
	}
	return func(signals map[string]float64) (float64, error) {
		vars := make(map[string]any, len(signals))
		for n, v := range signals {
			vars[n] = v
		}
		out, _, err := program.Eval(vars)
		if err != nil {
			return 0, fmt.Errorf("expression %q: %w", text, err)
		}
		return number(out)
	}, nil
}

func number(v ref.Val) (float64, error) {
	switch x := v.Value().(type) {
	case float64:
		return x, nil
	case int64:
		return float64(x), nil
	}
	return 0, fmt.Errorf("%v is no number", v)
}
