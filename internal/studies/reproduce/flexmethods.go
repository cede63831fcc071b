package reproduce

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/workload"
)

// This file runs the methods that the experiments of CarbonFlex compare, each on a week.

// The methods of the experiments.
const (
	mAgnostic  = "agnostic"
	mOracle    = "CarbonFlex (oracle)"
	mFlex      = "CarbonFlex"
	mScaler    = "CarbonScaler"
	mWait      = "Wait Awhile"
	mGaia      = "GAIA"
	mNoScaling = "oracle without scaling"
	mVCC       = "VCC"
	mVCCScale  = "VCC (scaling)"
	mCAP       = "CAP"
	mJoint     = "joint"
	// mWaitDeadline knows the mean length of each queue and plans up to the deadline.
	mWaitDeadline = "Wait Awhile (deadline)"
	// mRefined is joint as Lull runs it: it refines plans within slots. joint plans in the slots of the other methods.
	mRefined  = "joint (refined)"
	mUnscaled = "joint (jobs may not scale)"
	mRoom     = "joint (room for all)"
	mDefault  = "joint (CarbonPolicy)"
	// mObserved is mDefault after it has run the week before: it has learned its reserve then.
	mObserved = "joint (CarbonPolicy after a week)"
	mLengths  = "joint (lengths known)"
	mFull     = "joint (full knowledge)"
	// forecastMark at the end of a method's name says that it knows the days to come from a model alone.
	forecastMark = " (forecast)"
)

// jointEffort is how hard planner joint works each hour of a week.
const jointEffort = "0.5"

// run is a method on a week.
func (w *week) run(ctx context.Context, env *Env, method string) (score, error) {
	history, err := w.history(env)
	if err != nil {
		return score{}, err
	}
	if name, marked := strings.CutSuffix(method, forecastMark); marked {
		method = name
		if w, err = w.forecast(); err != nil {
			return score{}, err
		}
	}
	planner := func(name string, params map[string]string) plan.Planner {
		p, e := env.Planner(name, params)
		if e != nil && err == nil {
			err = e
		}
		return p
	}
	roll := func(p plan.Planner) (score, error) {
		if err != nil {
			return score{}, err
		}
		return w.rollOut(ctx, p)
	}
	switch method {
	case mAgnostic:
		return w.live(ctx, nil, workload.Rigid, false, history)
	case mOracle:
		return roll(planner("carbonflex-oracle", nil))
	case mNoScaling:
		p := planner("carbonflex-oracle", nil)
		if err != nil {
			return score{}, err
		}
		return w.unscaled().rollOut(ctx, p)
	case mFlex:
		p, err := env.Learn(ctx, history)
		if err != nil {
			return score{}, err
		}
		return w.rollOut(ctx, p)
	case mScaler:
		return roll(planner("carbonscaler-multi", map[string]string{"mean-length": fmt.Sprint(meanLength(history))}))
	case mVCC:
		return roll(planner("vcc", nil))
	case mVCCScale:
		return roll(planner("vcc-scaling", nil))
	case mCAP:
		return roll(planner("cap", nil))
	case mWait:
		return w.live(ctx, planner("waitawhile-threshold", nil), workload.Interruptible, false, history)
	case mWaitDeadline:
		return w.live(ctx, planner("waitawhile-deadline", nil), workload.Interruptible, false, history)
	case mGaia:
		return w.live(ctx, planner("gaia-lowest-window", nil), workload.Rigid, false, history)
	}
	return w.runJoint(ctx, env, method, history)
}

// runJoint runs planner joint on a week, with what it knows by the name of the method.
func (w *week) runJoint(ctx context.Context, env *Env, method string, history []*plan.Problem) (score, error) {
	params := map[string]string{"effort": jointEffort}
	if method == mDefault || method == mObserved {
		params = map[string]string{"reserve": "learned"}
	}
	p, err := env.Planner("joint", params)
	if err != nil {
		return score{}, err
	}
	if in, ok := p.(plan.InSlots); ok && method != mJoint {
		p = in.Planner
	}
	switch method {
	case mJoint, mRefined:
		return w.live(ctx, p, workload.Elastic, true, history)
	case mUnscaled:
		return w.live(ctx, p, workload.Interruptible, true, history)
	case mRoom:
		return w.withRoom().live(ctx, p, workload.Elastic, true, history)
	case mDefault:
		return w.asPolicy(ctx, p, history)
	case mObserved:
		return w.afterAWeek(ctx, env, p)
	case mLengths:
		return w.knownLengths(ctx, p)
	case mFull:
		return w.full(ctx, p)
	}
	return score{}, fmt.Errorf("no method %q", method)
}

func meanLength(history []*plan.Problem) float64 {
	sum, n := 0.0, 0.0
	for _, p := range history {
		for i := range p.Jobs {
			sum += p.Jobs[i].Length
			n++
		}
	}
	return sum / math.Max(1, n)
}

// table runs methods on weeks, as many at once as there are processors; scores[w][m].
func table(ctx context.Context, env *Env, specs []weekSpec, methods []string) ([][]score, error) {
	out := make([][]score, len(specs))
	errs := make([]error, len(specs)*len(methods))
	weeks := make([]*week, len(specs))
	for i, s := range specs {
		w, err := s.build(env)
		if err != nil {
			return nil, err
		}
		weeks[i], out[i] = w, make([]score, len(methods))
	}
	limit := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))
	var wg sync.WaitGroup
	var lock sync.Mutex
	done := 0
	for i := range specs {
		for m := range methods {
			limit <- struct{}{}
			wg.Go(func() {
				defer func() { <-limit }()
				s, err := weeks[i].run(ctx, env, methods[m])
				lock.Lock()
				defer lock.Unlock()
				done++
				out[i][m] = s
				if err == nil && s.planned != len(weeks[i].jobs) {
					err = fmt.Errorf("%d of %d jobs done", s.planned, len(weeks[i].jobs))
				}
				if err != nil {
					errs[i*len(methods)+m] = fmt.Errorf("%s, week %d, %s: %w", specs[i].trace, specs[i].week, methods[m], err)
				}
				env.progress(done, len(specs)*len(methods))
			})
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// outcome is the mean over weeks of a method.
type outcome struct {
	saving, low, high, delay, wait float64
	late                           int
}

// outcomes are the savings of methods against the first one, over weeks.
func outcomes(scores [][]score, methods []string) map[string]outcome {
	out := map[string]outcome{}
	for m, name := range methods {
		o := outcome{low: math.Inf(1), high: math.Inf(-1)}
		n := float64(len(scores))
		for w := range scores {
			v := 1 - scores[w][m].grams/scores[w][0].grams
			o.saving += v / n
			o.low, o.high = min(o.low, v), max(o.high, v)
			o.delay += scores[w][m].delay / n
			o.wait += scores[w][m].wait / n
			o.late += scores[w][m].late
		}
		out[name] = o
	}
	return out
}
