package scenario

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/sim"
)

// Submitted is the label of the baseline: every job starts when it is submitted, or as
// soon as there is room.
const Submitted = "as submitted"

// Entry is a planner that is to be simulated.
type Entry struct {
	Label   string
	Planner plan.Planner
	Revise  sim.Revision
	// Knowing says that the planner knows all but arrivals: see KnowsAll.
	Knowing bool
}

// Trial is what came of a planner.
type Trial struct {
	Label string
	sim.Result
	// Load is the mean use of the first resource by slot and cluster: Load[c][t].
	Load [][]float64
}

// Run simulates the baseline and all entries, as many at once as there are processors,
// on the same jobs. The first trial is the baseline. progress is told the share done.
func Run(ctx context.Context, cfg sim.Config, entries []Entry, progress func(share float64)) ([]Trial, error) {
	trials := make([]Trial, len(entries)+1)
	errs := make([]error, len(trials))
	done := make([]float64, len(trials))
	var lock sync.Mutex
	limit := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	resource := mainResource(cfg)
	var wg sync.WaitGroup
	for i := range trials {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			run := cfg
			run.Progress = func(n, all int) {
				lock.Lock()
				defer lock.Unlock()
				done[i] = float64(n) / float64(max(1, all))
				if progress != nil {
					sum := 0.0
					for _, v := range done {
						sum += v
					}
					progress(sum / float64(len(done)))
				}
			}
			t := &trials[i]
			t.Label = Submitted
			t.Load = make([][]float64, len(cfg.Clusters))
			first := firstSlot(cfg)
			run.Observe = func(s sim.Slot) {
				at := int(s.At.Sub(first) / cfg.Slot)
				for len(t.Load[s.Cluster]) < at {
					t.Load[s.Cluster] = append(t.Load[s.Cluster], 0)
				}
				t.Load[s.Cluster] = append(t.Load[s.Cluster], s.Use[resource])
			}
			run.Lengths = freshLengths(cfg.Lengths)
			if i == 0 {
				t.Result, errs[i] = sim.AsSubmitted(ctx, run)
			} else {
				e := entries[i-1]
				if e.Knowing {
					run = knowing(run)
				}
				t.Label, run.Planner, run.Revise = e.Label, e.Planner, e.Revise
				t.Result, errs[i] = sim.Simulate(ctx, run)
			}
			if errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", t.Label, errs[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	results := make([]*sim.Result, len(trials))
	for i := range trials {
		results[i] = &trials[i].Result
	}
	sim.SameSpan(cfg, results...)
	return trials, nil
}

// freshLengths gives every trial estimates of its own.
func freshLengths(l sim.Lengths) sim.Lengths {
	if learned, ok := l.(*sim.Learned); ok {
		return &sim.Learned{Class: learned.Class}
	}
	return l
}

// firstSlot is the slot in which the first job comes.
func firstSlot(cfg sim.Config) time.Time {
	first := cfg.Jobs[0].Submitted
	for i := range cfg.Jobs {
		if cfg.Jobs[i].Submitted.Before(first) {
			first = cfg.Jobs[i].Submitted
		}
	}
	return first.Truncate(cfg.Slot)
}

// mainResource is the one that most jobs ask for.
func mainResource(cfg sim.Config) string {
	counts := map[string]int{}
	for i := range cfg.Jobs {
		for r := range cfg.Jobs[i].Request {
			counts[r]++
		}
	}
	best := ""
	for r, n := range counts {
		if best == "" || n > counts[best] || n == counts[best] && r < best {
			best = r
		}
	}
	return best
}

// Saving is the share of the baseline's emissions that is not emitted.
func Saving[T ~float64](baseline, emitted T) float64 {
	if baseline <= 0 {
		return 0
	}
	return 1 - float64(emitted)/float64(baseline)
}

// quantile of ascending values: the least one that share of them do not exceed.
func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}
