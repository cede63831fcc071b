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

	"lull.dev/lull/internal/fleet/rank"
	"lull.dev/lull/internal/studies/scenario"
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
	"lull.dev/lull/pkg/plan/ksearch"
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
	// positive marks a number or duration that must be above 0: the packages of the planners take 0 as "not stated".
	positive bool
	// policy is the value in a CarbonPolicy that does not state the parameter; empty for that of the
	// command line.
	policy string
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
		parameters: []parameter{{name: "reserve", help: reserveHelp + " (0)"}},
		build:      buildCheapest,
	},
	{
		name: "window", source: window.Source,
		parameters: []parameter{
			{name: "time-frame", help: "how far ahead of its arrival a job looks for a window (24h)", positive: true},
			{name: "window-frame", help: "length of the window (6h)", positive: true},
			{name: "max-stale", help: "wait after which a job is treated as critical (24h)", positive: true},
			{name: "expected-load", help: "share of the capacity expected in use, 0..1; at 1 another 10 % is kept for critical jobs (0)"},
		},
		build: buildWindow,
	},
	{
		name: "waitawhile-threshold", source: waitawhile.Source,
		parameters: []parameter{
			{name: "percentile", help: "of the intensities ahead below which a job runs, above 0 to 100 (30)", positive: true},
			{name: "ahead", help: "how far those intensities reach (24h)", positive: true},
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
		parameters: []parameter{{name: "mean-length", help: "what every job is taken to run for, in slots (the mean of the jobs planned)", positive: true}},
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
			{name: "neighbours", help: "cases looked up for a decision (5)", positive: true},
			{name: "tolerance", help: "share of delayed jobs from which capacity is raised, above 0 to 1 (0.05)", positive: true},
			{name: "distance", help: "mean distance of cases, in standard deviations, beyond which they are not trusted then (2)", positive: true},
		},
		build: buildCarbonFlex,
	},
	vccMethod("vcc", false),
	vccMethod("vcc-scaling", true),
	{
		name: "cap", source: ksearch.Source,
		parameters: []parameter{{name: "floor", help: "share of the capacity that may always be used, 0 to 1 (0.2)"}},
		build:      buildCap,
	},
	{
		name: "follow", source: follow.Source,
		parameters: []parameter{
			{name: "score", help: "CEL expression over signals, the highest is the best (intensity, then temperature)"},
			{name: "signals", help: "names of further signals, separated by spaces (temperature irradiance wind)"},
			{name: "equal", help: "relative difference of intensities that counts as none (0.05)", positive: true},
			{name: "threshold", help: "least relative improvement worth a move (0)"},
			{name: "every", help: "how often places are ranked (30m)", positive: true},
			{name: "dwell", help: "least stay after a move (1h)", positive: true},
			{name: "stay", help: "how long the better place is expected to stay so (dwell)", positive: true},
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
			{name: "reserve", help: reserveHelp + " (0; in a CarbonPolicy learned)", policy: learnedReserve},
		},
		build: func(values map[string]string, _ []string) (plan.Planner, error) {
			v := numbers{values: values, planner: "joint"}
			effort, gap := v.number("effort", 1), v.number("gap", 0)
			reserve, learned := v.reserve()
			if v.err != nil {
				return nil, v.err
			}
			p, err := joint.New(effort, gap, reserve)
			p.Learned, p.Now = learned, time.Now
			return p, err
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

// learnedReserve is the value of parameter reserve that has it learned from the recent past.
const learnedReserve = "learned"

const reserveHelp = "share of the capacity kept free for work that may not wait: 0 to below 1, or learned (not by lull plan) from what came in the past week"

// reserve reads parameter reserve: a share, or learned.
func (v *numbers) reserve() (share float64, learned bool) {
	text, given := v.values["reserve"]
	if !given {
		return 0, false
	}
	if text == learnedReserve {
		return 0, true
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil && v.err == nil {
		v.err = fmt.Errorf("parameter reserve of planner %s: %q; accepted: a number of 0 to below 1, or learned", v.planner, text)
	}
	return share, false
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
			{name: "peak", help: "largest share of the capacity in any slot, above 0 to 1 (1)", positive: true},
			{name: "margin", help: "share by which the day's work is raised against a forecast that is too low (0.05)", positive: true},
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

func buildCap(values map[string]string, _ []string) (plan.Planner, error) {
	v := numbers{values: values, planner: "cap"}
	params := ksearch.Params{Floor: v.number("floor", ksearch.DefaultFloor)}
	if v.err != nil {
		return nil, v.err
	}
	return ksearch.New(params)
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

func newPlanner(name string, values map[string]string, criticalClasses []string, files bool) (plan.Planner, error) {
	for _, m := range methods {
		if m.name != name {
			continue
		}
		for key, text := range values {
			if key == "revise" {
				return nil, fmt.Errorf("%w parameter: planner %s: revise=%s; accepted: by lull simulate alone: the plans of a CarbonPolicy stand until something changes, leave it out", ErrPlanner, name, text)
			}
			if err := m.check(key, text); err != nil {
				return nil, err
			}
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
	v := numbers{values: values, planner: "cheapest"}
	reserve, learned := v.reserve()
	if v.err != nil {
		return nil, v.err
	}
	p, err := cheapest.New(reserve)
	p.Learned = learned
	return p, err
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
			{name: "mean-length", help: "what every job is taken to run for (the mean of the jobs planned)", positive: true},
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
