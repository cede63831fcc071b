package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/units"
)

// The planners used where none is named: by "lull plan", and by policies and the demo.
const (
	DefaultPlan    = "joint"
	DefaultPlanner = "joint"
)

// standing is the revision of plans that controllers do: they stand until something changes.
const standing = "changes"

// NewPlanner builds the named planner (DefaultPlanner where it is empty) of a CarbonPolicy. Unknown names
// and parameters are errors that list what there is; parameters that name files are
// unknown here.
func NewPlanner(name string, values map[string]string, criticalClasses []string) (plan.Planner, error) {
	if name == "" {
		name = DefaultPlanner
	}
	pl, err := newPlanner(name, policyParameters(name, values), criticalClasses, false)
	if err != nil {
		return nil, err
	}
	return plan.Guarded{Planner: pl, Probability: plan.SafeProbability}, nil
}

// policyParameters returns the parameters of a planner in a CarbonPolicy that states values.
func policyParameters(name string, values map[string]string) map[string]string {
	out := maps.Clone(values)
	for _, m := range methods {
		for _, p := range m.parameters {
			if _, stated := values[p.name]; m.name == name && p.policy != "" && !stated {
				if out == nil {
					out = map[string]string{}
				}
				out[p.name] = p.policy
			}
		}
	}
	return out
}

// asPolicy returns a planner as a CarbonPolicy runs it that states the same.
func asPolicy(p scenario.Planner) scenario.Planner {
	p.Parameters, p.Revise = policyParameters(p.Name, p.Parameters), standing
	return p
}

// policyDefault returns the planner of a CarbonPolicy that states none. Its label is what --planner of lull
// simulate accepts for it.
func policyDefault() scenario.Planner {
	p := asPolicy(scenario.Planner{Name: DefaultPlanner})
	p.Label = parametersText(p, ",") + ",revise=" + p.Revise
	return p
}

// policyPlanner is the field planner of a CarbonPolicy that plans as p, as YAML that can be copied. The error says why
// there is none.
func policyPlanner(p scenario.Planner) (string, error) {
	if _, err := NewPlanner(p.Name, p.Parameters, nil); err != nil {
		return "", err
	}
	stated := maps.Clone(p.Parameters)
	if stated == nil {
		stated = map[string]string{}
	}
	for name, value := range policyParameters(p.Name, nil) { // what a policy does by default, and the command line does not
		switch own, given := p.Parameters[name]; {
		case !given:
			stated[name] = commandLineDefaults[name]
		case own == value:
			delete(stated, name)
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(stated)) {
		parts = append(parts, fmt.Sprintf("%s: %q", name, stated[name]))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("planner: {name: %s}", p.Name), nil
	}
	return fmt.Sprintf("planner: {name: %s, parameters: {%s}}", p.Name, strings.Join(parts, ", ")), nil
}

// commandLineDefaults are the values of parameters whose default differs in a CarbonPolicy.
var commandLineDefaults = map[string]string{"reserve": "0"}

// isPolicyDefault reports whether a CarbonPolicy that states none runs this planner.
func isPolicyDefault(p scenario.Planner) bool {
	d := policyDefault()
	return p.Name == d.Name && p.Revise == d.Revise && maps.Equal(p.Parameters, d.Parameters)
}

// parametersText is a planner with its parameters in the order of their names, each after a separator.
func parametersText(p scenario.Planner, separator string) string {
	parts := []string{p.Name}
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		parts = append(parts, fmt.Sprintf("%s=%s", name, p.Parameters[name]))
	}
	return strings.Join(parts, separator)
}

// check refuses a number that is not finite, and one that is not above 0 where the parameter takes no other.
func (m method) check(key, text string) error {
	v, notNumber := strconv.ParseFloat(text, 64)
	d, notDuration := units.ParseDuration(text)
	switch {
	case notNumber == nil:
	case notDuration == nil:
		v = d.Seconds()
	default:
		return nil // a text, or an error of who reads it
	}
	for _, p := range m.parameters {
		switch {
		case p.name != key:
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("parameter %s of planner %s: %q; accepted: a finite number", key, m.name, text)
		case p.positive && v <= 0:
			return fmt.Errorf("parameter %s of planner %s: %s; accepted: above 0, or leave it out for the default", key, m.name, text)
		}
	}
	return nil
}
