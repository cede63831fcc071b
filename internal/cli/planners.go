package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/internal/rank"
	"lull.dev/lull/internal/scenario"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/asap"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/plan/carbonscaler"
	"lull.dev/lull/pkg/plan/caspian"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/plan/follow"
	"lull.dev/lull/pkg/plan/gaia"
	"lull.dev/lull/pkg/plan/joint"
	"lull.dev/lull/pkg/plan/staticscale"
	"lull.dev/lull/pkg/plan/vcc"
	"lull.dev/lull/pkg/plan/waitawhile"
	"lull.dev/lull/pkg/plan/window"
	"lull.dev/lull/pkg/units"
)

// ErrPlanner marks a planner or parameter that does not exist.
var ErrPlanner = errors.New("unknown planner")

// parameter is a named setting of a planner, as text: the same on the command
// line (--param NAME=VALUE) and in a CarbonPolicy (spec.planner.parameters).
type parameter struct {
	name, help string
	// file marks a parameter that names files of this machine: the command line's only.
	file bool
}

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
		parameters: []parameter{{name: "reserve", help: "share of the capacity kept free for work that may not wait, 0 to below 1 (0)"}},
		build:      buildCheapest,
	},
	{
		name: "window", source: window.Source,
		parameters: []parameter{
			{name: "time-frame", help: "how far ahead of its arrival a job looks for a window (24h)"},
			{name: "window-frame", help: "length of the window (6h)"},
			{name: "max-stale", help: "wait after which a job is treated as critical (24h)"},
			{name: "expected-load", help: "share of the capacity expected in use, 0..1; at 1 another 10 % is kept for critical jobs (0)"},
		},
		build: buildWindow,
	},
	{
		name: "waitawhile-threshold", source: waitawhile.Source,
		parameters: []parameter{
			{name: "percentile", help: "of the intensities ahead below which a job runs, above 0 to 100 (30)"},
			{name: "ahead", help: "how far those intensities reach (24h)"},
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
		parameters: []parameter{{name: "factor", help: "scale as a multiple of the least one, at least 1; 0 for the best of each job (0)"}},
		build: func(values map[string]string, _ []string) (plan.Planner, error) {
			v := numbers{values: values, planner: "staticscale"}
			factor := v.number("factor", 0)
			if v.err != nil {
				return nil, v.err
			}
			return staticscale.New(factor)
		},
	},
	{
		name: "carbonscaler", source: carbonscaler.Source,
		build: func(map[string]string, []string) (plan.Planner, error) { return carbonscaler.Planner{}, nil },
	},
	{
		name: "carbonscaler-multi", source: carbonscaler.MultiSource,
		parameters: []parameter{{name: "mean-length", help: "what every job is taken to run for, in slots (the mean of the jobs planned)"}},
		build: func(values map[string]string, _ []string) (plan.Planner, error) {
			v := numbers{values: values, planner: "carbonscaler-multi"}
			m := carbonscaler.Multi{MeanLength: v.number("mean-length", 0)}
			if v.err == nil && !(m.MeanLength >= 0) {
				v.err = fmt.Errorf("parameter mean-length of planner carbonscaler-multi: %v; accepted: above 0", m.MeanLength)
			}
			return m, v.err
		},
	},
	{
		name: "caspian", source: caspian.Source,
		parameters: []parameter{
			{name: "omega1", help: "weight of carbon where the instance has none (0.5)"},
			{name: "omega2", help: "weight of lateness where the instance has none (1)"},
			{name: "omega3", help: "weight of the completion time where the instance has none (1)"},
			{name: "lateness", help: "penalty of lateness: linear, quadratic or none (linear)"},
			{name: "completion", help: "penalty of the completion time: linear, root or none (linear)"},
			{name: "ties", help: "which of the clusters that score the same: spread (work is spread over them) or first (spread)"},
		},
		build: buildCaspian,
	},
	{
		name: "carbonflex", source: carbonflex.FlexSource,
		parameters: []parameter{
			{name: "history", help: "instance files to learn from, separated by colons (none: carbon-agnostic)", file: true},
			{name: "neighbours", help: "cases looked up for a decision (5)"},
			{name: "tolerance", help: "share of delayed jobs from which capacity is raised, 0 to 1 (0.05)"},
			{name: "distance", help: "mean distance of cases, in standard deviations, beyond which they are not trusted then (2)"},
		},
		build: buildCarbonFlex,
	},
	vccMethod("vcc", false),
	vccMethod("vcc-scaling", true),
	{
		name: "follow", source: follow.Source,
		parameters: []parameter{
			{name: "score", help: "CEL expression over signals, the highest is the best (intensity, then temperature)"},
			{name: "signals", help: "names of further signals, separated by spaces (temperature irradiance wind)"},
			{name: "equal", help: "relative difference of intensities that counts as none (0.05)"},
			{name: "threshold", help: "least relative improvement worth a move (0)"},
			{name: "every", help: "how often places are ranked (30m)"},
			{name: "dwell", help: "least stay after a move (1h)"},
			{name: "stay", help: "how long the better place is expected to stay so (dwell)"},
		},
		build: buildFollow,
	},
	{
		name: "exact", source: exact.Source,
		build: func(map[string]string, []string) (plan.Planner, error) { return exact.Planner{}, nil },
	},
	{
		name: "joint", source: joint.Source,
		parameters: []parameter{
			{name: "effort", help: "multiplies the work spent on prices and on mending the plan (1)"},
			{name: "gap", help: "proven gap at which the search ends, 0 to below 1 (0)"},
			{name: "reserve", help: "share of the capacity kept free for work that may not wait, 0 to below 1 (0)"},
		},
		build: func(values map[string]string, _ []string) (plan.Planner, error) {
			v := numbers{values: values, planner: "joint"}
			effort, gap, reserve := v.number("effort", 1), v.number("gap", 0), v.number("reserve", 0)
			if v.err != nil {
				return nil, v.err
			}
			return joint.New(effort, gap, reserve)
		},
	},
}

// numbers reads the numeric parameters of a planner and keeps the first fault.
type numbers struct {
	values  map[string]string
	planner string
	err     error
}

func (v *numbers) number(name string, otherwise float64) float64 {
	text, given := v.values[name]
	if !given {
		return otherwise
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && v.err == nil {
		v.err = fmt.Errorf("parameter %s of planner %s: %q; accepted: a number", name, v.planner, text)
	}
	return x
}

func (v *numbers) duration(name string) time.Duration {
	text, given := v.values[name]
	if !given {
		return 0
	}
	d, err := units.ParseDuration(text)
	if err != nil && v.err == nil {
		v.err = fmt.Errorf("parameter %s of planner %s: %w", name, v.planner, err)
	}
	return d
}

func buildCaspian(values map[string]string, _ []string) (plan.Planner, error) {
	v := numbers{values: values, planner: "caspian"}
	params := caspian.Params{Weights: [3]float64{v.number("omega1", 0.5), v.number("omega2", 1), v.number("omega3", 1)}}
	if v.err != nil {
		return nil, v.err
	}
	switch values["ties"] {
	case "", "spread":
	case "first":
		params.TiesToFirst = true
	default:
		return nil, fmt.Errorf("parameter ties of planner caspian: %q; accepted: spread or first", values["ties"])
	}
	if values["lateness"] != "" || values["completion"] != "" {
		var err error
		if params.Penalties, err = caspian.NamedPenalties(values["lateness"], values["completion"]); err != nil {
			return nil, err
		}
	}
	return caspian.New(params)
}

// learnShifts are the shifts of the grid, in slots, with which history is replayed.
var learnShifts = []int{6, 12, 18}

func buildCarbonFlex(values map[string]string, _ []string) (plan.Planner, error) {
	return newCarbonFlex(values, nil)
}

// newCarbonFlex builds planner carbonflex from its parameters, and teaches it past too
// where that is not nil.
func newCarbonFlex(values map[string]string, past *plan.Problem) (plan.Planner, error) {
	v := numbers{values: values, planner: "carbonflex"}
	params := carbonflex.Params{Neighbours: int(v.number("neighbours", 0)), Tolerance: v.number("tolerance", 0), Distance: v.number("distance", 0)}
	if v.err != nil {
		return nil, v.err
	}
	params.Knowledge = carbonflex.NewKnowledge(0)
	for _, file := range strings.FieldsFunc(values["history"], func(r rune) bool { return r == ':' }) {
		p, err := readInstance(file, nil)
		if err != nil {
			return nil, fmt.Errorf("parameter history of planner carbonflex: %w", err)
		}
		cases, err := carbonflex.Learn(context.Background(), p, learnShifts...)
		if err == nil {
			err = params.Knowledge.Add(cases...)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter history of planner carbonflex: %s: %w", file, err)
		}
	}
	if past != nil {
		shifts := make([]int, len(learnShifts)) // they are of hours
		for i, hours := range learnShifts {
			shifts[i] = int(math.Round(float64(hours) / past.Grid.Hours()))
		}
		cases, err := carbonflex.Learn(context.Background(), past, shifts...)
		if err == nil {
			err = params.Knowledge.Add(cases...)
		}
		if err != nil {
			return nil, fmt.Errorf("planner carbonflex: history of the trace: %w", err)
		}
	}
	return carbonflex.New(params)
}

// knowsNothing says whether a planner would start every job at once for lack of a
// history to learn from.
func knowsNothing(p scenario.Planner) bool {
	return p.Name == "carbonflex" && p.Parameters["history"] == ""
}

func vccMethod(name string, scaling bool) method {
	return method{
		name: name, source: vcc.Source,
		parameters: []parameter{
			{name: "floor", help: "least share of the capacity in every slot, 0 to 1 (0)"},
			{name: "peak", help: "largest share of the capacity in any slot, above 0 to 1 (1)"},
			{name: "margin", help: "share by which the day's work is raised against a forecast that is too low (0.05)"},
		},
		build: func(values map[string]string, _ []string) (plan.Planner, error) {
			v := numbers{values: values, planner: name}
			params := vcc.Params{Scaling: scaling, Floor: v.number("floor", 0), Peak: v.number("peak", 0), Margin: v.number("margin", 0)}
			if v.err != nil {
				return nil, v.err
			}
			return vcc.New(params)
		},
	}
}

func buildFollow(values map[string]string, _ []string) (plan.Planner, error) {
	v := numbers{values: values, planner: "follow"}
	params := follow.Params{
		Equal: v.number("equal", 0), Threshold: v.number("threshold", 0),
		Every: v.duration("every"), Dwell: v.duration("dwell"), Stay: v.duration("stay"),
	}
	if v.err != nil {
		return nil, v.err
	}
	if text, given := values["score"]; given {
		names := append([]string{follow.Temperature, "irradiance", "wind"}, strings.Fields(values["signals"])...)
		var err error
		if params.Score, err = rank.Expression(text, names); err != nil {
			return nil, err
		}
	}
	return follow.New(params)
}

// The planners used where none is named: by "lull plan", and by policies and the demo,
// which decide again every few seconds and keep a reserve.
const (
	DefaultPlan    = "joint"
	DefaultPlanner = "cheapest"
)

// safeProbability is that of the run time by which deadlines of jobs of uncertain
// length are guarded.
const safeProbability = 0.95

// NewPlanner builds the named planner (DefaultPlanner where it is empty). Unknown names
// and parameters are errors that list what there is; parameters that name files are
// unknown here.
func NewPlanner(name string, values map[string]string, criticalClasses []string) (plan.Planner, error) {
	if name == "" {
		name = DefaultPlanner
	}
	pl, err := newPlanner(name, values, criticalClasses, false)
	if err != nil {
		return nil, err
	}
	return plan.Guarded{Planner: pl, Probability: safeProbability}, nil
}

func newPlanner(name string, values map[string]string, criticalClasses []string, files bool) (plan.Planner, error) {
	for _, m := range methods {
		if m.name != name {
			continue
		}
		for key := range values {
			if !m.has(key, files) {
				return nil, fmt.Errorf("%w parameter: planner %s: %q; accepted: %s", ErrPlanner, name, key, m.parameterNames(files))
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

func (m method) has(key string, files bool) bool {
	for _, p := range m.parameters {
		if p.name == key && (files || !p.file) {
			return true
		}
	}
	return false
}

func (m method) parameterNames(files bool) string {
	var names []string
	for _, p := range m.parameters {
		if files || !p.file {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 {
		return "none"
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
			{name: "mean-length", help: "what every job is taken to run for (the mean of the jobs planned)"},
			{name: "oracle", help: "true: the true length of each job is known (false)"},
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
