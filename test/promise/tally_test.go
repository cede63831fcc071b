package promise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/exact"
	"lull.dev/lull/pkg/sim"
)

// count is what became of the jobs of some simulations.
type count struct {
	jobs, kept, broken, excused int
	// unexplained are those broken that no arrival explains: see witness.
	unexplained int
	worst       time.Duration
	// before and after are the emissions as submitted and with the planner.
	before, after float64
}

func (c *count) add(o count) {
	c.jobs, c.kept, c.broken, c.excused = c.jobs+o.jobs, c.kept+o.kept, c.broken+o.broken, c.excused+o.excused
	c.unexplained += o.unexplained
	c.worst = max(c.worst, o.worst)
	c.before, c.after = c.before+o.before, c.after+o.after
}

// rate is the share of kept deadlines that were broken.
func (c *count) rate() float64 {
	if c.kept == 0 {
		return 0
	}
	return float64(c.broken) / float64(c.kept)
}

// row is what counts are split by.
type row struct {
	planner, kind string
	load          float64
	arrivals      string
	tight         bool
}

// tally gathers the counts of a test.
type tally struct {
	rows    map[row]*count
	seeds   map[string][]uint64 // of instances with a broken promise, by planner
	skipped map[string]int      // instances too large for a planner
	spent   map[string]time.Duration
}

func newTally() *tally {
	return &tally{rows: map[row]*count{}, seeds: map[string][]uint64{}, skipped: map[string]int{}, spent: map[string]time.Duration{}}
}

// add counts an instance, unchecked jobs excluded.
func (y *tally) add(m method, in *instance, c count) {
	k := row{m.name, in.class.kind, in.class.load, in.class.arrivals, in.class.tight}
	if y.rows[k] == nil {
		y.rows[k] = &count{}
	}
	y.rows[k].add(c)
	if c.broken > 0 {
		y.seeds[m.name] = append(y.seeds[m.name], in.seed)
	}
}

// sum adds the rows that fulfil a condition.
func (y *tally) sum(match func(row) bool) count {
	var out count
	for k, c := range y.rows {
		if match(k) {
			out.add(*c)
		}
	}
	return out
}

// seedsShown bounds the failing seeds that a table names for each planner.
const seedsShown = 4

// print writes a row for each planner: those of tight and of roomy deadlines, then those
// of each kind and load where asked for.
func (y *tally) print(t testing.TB) {
	t.Helper()
	var b strings.Builder
	line := func(name string, c count, more string) {
		saved := 0.0
		if c.before > 0 {
			saved = 100 * (1 - c.after/c.before)
		}
		fmt.Fprintf(&b, "%-46s %8d %8d %7d %8.3f %% %7d %12v %7.1f %%  %s\n",
			name, c.jobs, c.kept, c.broken, 100*c.rate(), c.excused, c.worst.Round(time.Second), saved, more)
	}
	fmt.Fprintf(&b, "%-46s %8s %8s %7s %10s %7s %12s %9s  %s\n", "planner", "jobs", "kept", "broken", "", "excused", "worst", "saved", "spent     seeds that fail")
	for _, m := range methods {
		all := y.sum(func(k row) bool { return k.planner == m.name })
		if all.jobs == 0 && y.skipped[m.name] == 0 {
			continue
		}
		seeds := y.seeds[m.name]
		more := fmt.Sprintf("%8v  ", y.spent[m.name].Round(10*time.Millisecond)) + strings.Trim(fmt.Sprint(seeds[:min(len(seeds), seedsShown)]), "[]")
		if n := y.skipped[m.name]; n > 0 {
			more += fmt.Sprintf(" (%d instances too large)", n)
		}
		line(m.name, all, more)
		line("  roomy deadlines", y.sum(func(k row) bool { return k.planner == m.name && !k.tight }), "")
	}
	for _, load := range loads {
		line(fmt.Sprintf("load %.2f, all planners", load), y.sum(func(k row) bool { return k.load == load }), "")
	}
	for _, kind := range kinds {
		line(kind+", all planners", y.sum(func(k row) bool { return k.kind == kind }), "")
	}
	if os.Getenv("LULL_PROMISE_DETAIL") != "" {
		keys := make([]row, 0, len(y.rows))
		for k := range y.rows {
			keys = append(keys, k)
		}
		sort.Slice(keys, func(a, b int) bool { return fmt.Sprint(keys[a]) < fmt.Sprint(keys[b]) })
		for _, k := range keys {
			line(k.planner+": "+class{k.kind, k.load, k.arrivals, k.tight}.String(), *y.rows[k], "")
		}
	}
	t.Logf("broken: deadlines kept as submitted and missed by Lull\n%s", b.String())
}

// Without LULL_PROMISE_JOBS, a random test has defaultSeeds instances of at most defaultJobs jobs for each planner, one of
// each kind and one at each load. Wild seeds, whose instances take minutes of planning, and crowds of up to 40 jobs belong
// to the large run, make test-seeds.
const (
	defaultSeeds = 4
	defaultJobs  = 8
)

// jobsWanted reads LULL_PROMISE_JOBS: the number of simulated jobs of a random test, over all planners. It is 0 where
// the variable is not set.
func jobsWanted(t testing.TB) int {
	t.Helper()
	return int(number(t, "LULL_PROMISE_JOBS", 1))
}

// number reads an environment variable; 0 where it is not set.
func number(t testing.TB, name string, least uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil || n < least {
		t.Fatalf("%s: %q; accepted: a whole number, at least %d", name, text, least)
	}
	return n
}

// seedWanted reads LULL_PROMISE_SEED.
func seedWanted(t testing.TB) (uint64, bool) {
	t.Helper()
	text := os.Getenv("LULL_PROMISE_SEED")
	if text == "" {
		return 0, false
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("LULL_PROMISE_SEED: %q; accepted: a seed that a failure printed", text)
	}
	return seed, true
}

var errInvariant = errors.New("a decision breaks an invariant")

// trial runs a planner on an instance and compares it with running as submitted. excuse
// names jobs that may be late whatever the planner does. An error is a fault of the
// result or of the simulation.
func trial(t testing.TB, in *instance, m method, base *sim.Result, excuse func(j *sim.Job) bool) (count, error) {
	t.Helper()
	cfg := in.with(t, m)
	var violations []decide.Violation
	saw := newWitness()
	cfg.Decided = func(s decide.Snapshot, d decide.Decision) {
		saw.observe(s, d)
		if len(violations) < 3 {
			violations = append(violations, decide.Verify(s, d)...)
		}
	}
	res, err := sim.Simulate(context.Background(), cfg)
	if err != nil {
		return count{}, err
	}
	if len(violations) > 0 {
		return count{}, fmt.Errorf("seed %d: %w: %v", in.seed, errInvariant, violations[0])
	}
	c := count{jobs: len(cfg.Jobs), before: float64(base.Emissions), after: float64(res.Emissions)}
	for i := range cfg.Jobs {
		if _, ok := deadline(&cfg.Jobs[i]); !ok || late(&cfg, base, i) > 0 {
			continue
		}
		c.kept++
		by := late(&cfg, &res, i)
		switch {
		case by == 0:
		case excuse != nil && excuse(&cfg.Jobs[i]):
			c.excused++
		default:
			c.broken++
			c.worst = max(c.worst, by)
			why, explained := saw.explain(cfg.Jobs[i].ID)
			if id, found := overrun(&cfg, &res, saw.lost[cfg.Jobs[i].ID].at); !explained && found {
				why, explained = why+", while "+id+" ran longer than it was said to", true
			}
			if !explained {
				c.unexplained++
			}
			if !explained || os.Getenv("LULL_PROMISE_DETAIL") != "" {
				t.Logf("seed %d, planner %s, job %s, late by %v: %s", in.seed, m.name, cfg.Jobs[i].ID, by, why)
			}
		}
	}
	return c, audit(&cfg, &res)
}

// random is a random test: what it runs and what it excuses.
type random struct {
	known bool
	// first seed, so that tests do not share instances.
	first uint64
	// change completes a generated instance, nil for none.
	change func(in *instance)
	excuse func(in *instance) func(j *sim.Job) bool
}

// run simulates instances with all planners: small ones, or until the jobs asked for are spent.
func (r random) run(t *testing.T) *tally {
	t.Helper()
	data, y, list := recorded(t), newTally(), tried(t)
	seed, replay := seedWanted(t)
	if !replay {
		seed = r.first + number(t, "LULL_PROMISE_SKIP", 0)
	}
	wanted := jobsWanted(t)
	large := wanted > 0
	shrunk := map[string]bool{}
	for left, n := wanted, 0; left > 0 || !large && n < defaultSeeds; seed++ {
		if !large && !replay && seed%wild == 0 {
			t.Logf("seed %d is wild: left to the large run", seed)
			continue
		}
		n++
		for _, m := range list {
			if !large {
				m = m.few()
			}
			in := generate(t, seed, r.known, m, data)
			if r.change != nil {
				r.change(in)
			}
			left -= len(in.cfg.Jobs)
			base, err := sim.AsSubmitted(context.Background(), in.cfg)
			if err != nil {
				t.Fatalf("seed %d: as submitted: %v", seed, err)
			}
			if err := audit(&in.cfg, &base); err != nil {
				t.Errorf("seed %d (%v): as submitted: %v", seed, in.class, err)
			}
			var excuse func(j *sim.Job) bool
			if r.excuse != nil {
				excuse = r.excuse(in)
			}
			began := time.Now()
			c, err := trial(t, in, m, &base, excuse)
			y.spent[m.name] += time.Since(began)
			switch {
			case errors.Is(err, exact.ErrTooLarge):
				y.skipped[m.name]++
				continue
			case err != nil:
				t.Errorf("seed %d (%v): %s: %v", seed, in.class, m.name, err)
			}
			y.add(m, in, c)
			if c.broken > 0 && !shrunk[m.name] && os.Getenv("LULL_PROMISE_SHRINK") != "" {
				shrunk[m.name] = true
				t.Logf("seed %d, planner %s, shrunk:\n%s", seed, m.name, literal(shrink(t, in, m), m))
			}
		}
		if replay {
			break
		}
	}
	y.print(t)
	return y
}
