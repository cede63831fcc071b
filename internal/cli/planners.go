package cli

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/gaia"
	"lull.dev/lull/pkg/plan/staticscale"
	"lull.dev/lull/pkg/plan/waitawhile"
	"lull.dev/lull/pkg/plan/window"
	"lull.dev/lull/pkg/units"
)

// ErrPlanner marks a planner or parameter that does not exist.
var ErrPlanner = errors.New("unknown planner")

// parameter is a named setting of a planner, as text: the same on the command
// line (--param NAME=VALUE) and in a CarbonPolicy (spec.planner.parameters).
type parameter struct{ name, help string }

// method is an entry of the list of planners: the one place where they are
// known by name.
type method struct {
	name, source string
	parameters   []parameter
	build        func(values map[string]string, criticalClasses []string) (plan.Planner, error)
}

var methods = []method{
	{
		name: "asap", source: asap.Source,
		build: func(map[string]string, []string) (plan.Planner, error) { return asap.Planner{}, nil },
	},
	{
		name: "cheapest", source: cheapest.Source,
		parameters: []parameter{{"reserve", "share of the capacity kept free for work that may not wait, 0 to below 1 (0)"}},
		build:      buildCheapest,
	},
	{
		name: "window", source: window.Source,
		parameters: []parameter{
			{"time-frame", "how far ahead of its arrival a job looks for a window (24h)"},
			{"window-frame", "length of the window (6h)"},
			{"max-stale", "wait after which a job is treated as critical (24h)"},
			{"expected-load", "share of the capacity expected in use, 0..1; at 1 another 10 % is kept for critical jobs (0)"},
		},
		build: buildWindow,
	},
	{
		name: "waitawhile-threshold", source: waitawhile.Source,
		parameters: []parameter{
			{"percentile", "of the intensities ahead below which a job runs, above 0 to 100 (30)"},
			{"ahead", "how far those intensities reach (24h)"},
		},
		build: buildWaitAwhile,
	},
	{
		name: "waitawhile-deadline", source: waitawhile.Source,
		build: func(map[string]string, []string) (plan.Planner, error) { return waitawhile.Deadline{}, nil },
	},
	gaiaMethod("gaia-lowest-slot", gaia.LowestSlot),
	gaiaMethod("gaia-lowest-window", gaia.LowestWindow),
	gaiaMethod("gaia-saving", gaia.Saving),
	{
		name: "carbonflex-oracle", source: carbonflex.Source,
		build: func(map[string]string, []string) (plan.Planner, error) { return carbonflex.Oracle{}, nil },
	},
	{
		name: "staticscale", source: staticscale.Source,
		parameters: []parameter{{"factor", "scale as a multiple of the least one, at least 1; 0 for the best of each job (0)"}},
		build: func(values map[string]string, _ []string) (plan.Planner, error) {
			factor := 0.0
			if text, ok := values["factor"]; ok {
				var err error
				if factor, err = strconv.ParseFloat(text, 64); err != nil {
					return nil, fmt.Errorf("parameter factor of planner staticscale: %q; accepted: a number", text)
				}
			}
			return staticscale.New(factor)
		},
	},
	{
		name: "carbonscaler", source: carbonscaler.Source,
		build: func(map[string]string, []string) (plan.Planner, error) { return carbonscaler.Planner{}, nil },
	},
}

// DefaultPlanner is used where none is named.
const DefaultPlanner = "cheapest"

// NewPlanner builds the named planner. Unknown names and parameters are errors
// that list what there is.
func NewPlanner(name string, values map[string]string, criticalClasses []string) (plan.Planner, error) {
	if name == "" {
		name = DefaultPlanner
	}
	for _, m := range methods {
		if m.name != name {
			continue
		}
		for key := range values {
			if !m.has(key) {
				return nil, fmt.Errorf("%w parameter: planner %s: %q; accepted: %s", ErrPlanner, name, key, m.parameterNames())
			}
		}
		return m.build(values, criticalClasses)
	}
	return nil, fmt.Errorf("%w: %q; accepted: %s", ErrPlanner, name, strings.Join(plannerNames(), ", "))
}

func plannerNames() []string {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = m.name
	}
	return names
}

func (m method) has(key string) bool {
	for _, p := range m.parameters {
		if p.name == key {
			return true
		}
	}
	return false
}

func (m method) parameterNames() string {
	if len(m.parameters) == 0 {
		return "none"
	}
	names := make([]string, len(m.parameters))
	for i, p := range m.parameters {
		names[i] = p.name
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

func buildCheapest(values map[string]string, _ []string) (plan.Planner, error) {
	reserve := 0.0
	if text, ok := values["reserve"]; ok {
		var err error
		if reserve, err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("parameter reserve of planner cheapest: %q; accepted: a number of 0 to below 1", text)
		}
	}
	return cheapest.New(reserve)
}

func buildWindow(values map[string]string, criticalClasses []string) (plan.Planner, error) {
	params := window.Params{CriticalClasses: criticalClasses}
	for key, text := range values {
		var err error
		switch key {
		case "time-frame":
			params.TimeFrame, err = units.ParseDuration(text)
		case "window-frame":
			params.WindowFrame, err = units.ParseDuration(text)
		case "max-stale":
			params.MaxStale, err = units.ParseDuration(text)
		case "expected-load":
			if params.ExpectedLoad, err = strconv.ParseFloat(text, 64); err != nil {
				err = fmt.Errorf("%q; accepted: a number of 0 to 1", text)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s of planner window: %w", key, err)
		}
	}
	return window.New(params)
}

func buildWaitAwhile(values map[string]string, _ []string) (plan.Planner, error) {
	var params waitawhile.Params
	for key, text := range values {
		var err error
		switch key {
		case "percentile":
			if params.Percentile, err = strconv.ParseFloat(text, 64); err != nil || params.Percentile == 0 {
				err = fmt.Errorf("%q; accepted: a number above 0, at most 100", text)
			}
		case "ahead":
			params.Ahead, err = units.ParseDuration(text)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s of planner waitawhile-threshold: %w", key, err)
		}
	}
	return waitawhile.NewThreshold(params)
}

// gaiaMethod is the entry of one of GAIA's policies.
func gaiaMethod(name string, policy gaia.Policy) method {
	return method{
		name: name, source: gaia.Source,
		parameters: []parameter{
			{"mean-length", "what every job is taken to run for (the mean of the jobs planned)"},
			{"oracle", "true: the true length of each job is known (false)"},
		},
		build: func(values map[string]string, _ []string) (plan.Planner, error) {
			params := gaia.Params{Policy: policy}
			for key, text := range values {
				var err error
				switch key {
				case "mean-length":
					params.MeanLength, err = units.ParseDuration(text)
				case "oracle":
					if params.Oracle, err = strconv.ParseBool(text); err != nil {
						err = fmt.Errorf("%q; accepted: true or false", text)
					}
				}
				if err != nil {
					return nil, fmt.Errorf("parameter %s of planner %s: %w", key, name, err)
				}
			}
			return gaia.New(params)
		},
	}
}
