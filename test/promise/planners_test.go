// Package promise_test tries to make Lull break its promises: a deadline that running as
// submitted keeps, the capacity of a cluster, and honest savings. It uses the public
// interfaces of pkg/sim and pkg/decide only and knows nothing of how they decide.
//
// Environment:
//
//	LULL_PROMISE_JOBS     simulated jobs in each random test, over all planners. By default each has few small
//	                      instances: see defaultSeeds
//	LULL_PROMISE_SKIP     leaves out as many instances at the start of each random test, so that a large run can be split
//	LULL_PROMISE_SEED     replays one instance, as a failure prints it: with LULL_PROMISE_JOBS where it was large
//	LULL_LARGE            makes the other tests large: see package size
//	LULL_PROMISE_PLANNER  names the planners to try, separated by commas (default: all)
//	LULL_PROMISE_DETAIL   prints a row for each planner, kind and load
//	LULL_PROMISE_SHRINK   shrinks the first broken promise of each planner and prints it
//	LULL_DATA             folder of recorded data (default ../shared/data); without one, recorded intensities are left out
package promise_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

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
)

// method is a planner as the command line builds it. A planner may learn, so each
// simulation builds its own.
type method struct {
	name  string
	build func() (plan.Planner, error)
	// most bounds the jobs of an instance; 0 means no bound.
	most int
	// mostElastic bounds those with elastic jobs further; 0 means no further.
	mostElastic int
}

// reserve is the share of capacity that the planners with a reserve keep free.
const reserve = 0.2

// reserved is the planner whose promise on unknown arrivals is bounded: that of a CarbonPolicy that names
// none.
const reserved = "joint+learned reserve"

// ready builds a planner without parameters.
func ready(p plan.Planner) func() (plan.Planner, error) {
	return func() (plan.Planner, error) { return p, nil }
}

// built hides the type of a planner that its constructor returns.
func built[P plan.Planner](make func() (P, error)) func() (plan.Planner, error) {
	return func() (plan.Planner, error) { return make() }
}

// methods are all planners that the command line knows, see TestEveryPlannerIsTried.
var methods = []method{
	{name: "asap", build: ready(asap.Planner{})},
	{name: "cheapest", build: built(func() (cheapest.Planner, error) { return cheapest.New(0) })},
	{name: "cheapest+reserve", build: built(func() (cheapest.Planner, error) { return cheapest.New(reserve) })},
	{name: "window", build: func() (plan.Planner, error) { return window.New(window.Params{}) }},
	{name: "waitawhile-threshold", build: func() (plan.Planner, error) { return waitawhile.NewThreshold(waitawhile.Params{}) }},
	{name: "waitawhile-deadline", build: ready(waitawhile.Deadline{})},
	{name: "gaia-lowest-slot", build: func() (plan.Planner, error) { return gaia.New(gaia.Params{Policy: gaia.LowestSlot}) }},
	{name: "gaia-lowest-window", build: func() (plan.Planner, error) { return gaia.New(gaia.Params{Policy: gaia.LowestWindow}) }},
	{name: "gaia-saving", build: func() (plan.Planner, error) { return gaia.New(gaia.Params{Policy: gaia.Saving}) }},
	{name: "carbonflex-oracle", build: ready(carbonflex.Oracle{}), most: 16},
	{name: "staticscale", build: func() (plan.Planner, error) { return staticscale.New(0) }},
	{name: "carbonscaler", build: ready(carbonscaler.Planner{})},
	{name: "carbonscaler-multi", build: ready(carbonscaler.Multi{}), most: 16},
	{name: "caspian", build: func() (plan.Planner, error) {
		return caspian.New(caspian.Params{Weights: [3]float64{0.5, 1, 1}})
	}, most: 16},
	{name: "carbonflex", build: func() (plan.Planner, error) {
		return carbonflex.New(carbonflex.Params{Knowledge: carbonflex.NewKnowledge(0)})
	}},
	{name: "vcc", build: func() (plan.Planner, error) { return vcc.New(vcc.Params{Margin: 0.05}) }},
	{name: "vcc-scaling", build: func() (plan.Planner, error) { return vcc.New(vcc.Params{Scaling: true, Margin: 0.05}) }, most: 16},
	{name: "cap", build: func() (plan.Planner, error) { return ksearch.New(ksearch.Params{Floor: ksearch.DefaultFloor}) }},
	{name: "follow", build: func() (plan.Planner, error) { return follow.New(follow.Params{}) }},
	{name: "exact", build: ready(exact.Planner{MaxSchedules: 2000, MaxSteps: 200_000}), most: 3},
	{name: "joint", build: func() (plan.Planner, error) { return joint.New(1, 0, 0) }, mostElastic: 8},
	{name: "joint+reserve", build: func() (plan.Planner, error) { return joint.New(1, 0, reserve) }, mostElastic: 8},
	{name: reserved, build: ready(joint.Planner{Effort: 1, Learned: true}), mostElastic: 8},
}

// few bounds the jobs of an instance by defaultJobs.
func (m method) few() method {
	if m.most == 0 || m.most > defaultJobs {
		m.most = defaultJobs
	}
	if m.mostElastic > m.most {
		m.mostElastic = 0
	}
	return m
}

// replay is the environment that runs the instance of a seed again.
func (m method) replay(seed uint64) string {
	jobs := ""
	if n := os.Getenv("LULL_PROMISE_JOBS"); n != "" {
		jobs = "LULL_PROMISE_JOBS=1 "
	}
	return fmt.Sprintf("%sLULL_PROMISE_SEED=%d LULL_PROMISE_PLANNER=%q", jobs, seed, m.name)
}

// planner builds the method as "lull simulate" does.
func (m method) planner(t testing.TB) plan.Planner {
	t.Helper()
	p, err := m.build()
	if err != nil {
		t.Fatalf("planner %s: %v", m.name, err)
	}
	return plan.Guarded{Planner: p, Probability: plan.SafeProbability}
}

// byName returns the methods of the names.
func byName(t testing.TB, names ...string) []method {
	t.Helper()
	var out []method
	for _, name := range names {
		i := slices.IndexFunc(methods, func(m method) bool { return m.name == name })
		if i < 0 {
			t.Fatalf("planner %q; accepted: those of this package's list of methods", name)
		}
		out = append(out, methods[i])
	}
	return out
}

// tried returns the methods that LULL_PROMISE_PLANNER names, all where it is empty.
func tried(t testing.TB) []method {
	t.Helper()
	if names := os.Getenv("LULL_PROMISE_PLANNER"); names != "" {
		return byName(t, strings.Split(names, ",")...)
	}
	return methods
}

// TestEveryPlannerIsTried: a planner that the command line gains must be tried here too.
func TestEveryPlannerIsTried(t *testing.T) {
	source, err := os.ReadFile("../../internal/cli/planners.go")
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`name: "([a-z-]+)", source:|(?:gaia|vcc)Method\("([a-z-]+)"`)
	found := entry.FindAllStringSubmatch(string(source), -1)
	if len(found) < 15 {
		t.Fatalf("internal/cli/planners.go: %d planners found; accepted: at least 15, or adapt the pattern", len(found))
	}
	for _, f := range found {
		name := f[1] + f[2]
		if !slices.ContainsFunc(methods, func(m method) bool { return m.name == name }) {
			t.Errorf("planner %s of the command line is not tried here", name)
		}
	}
}
