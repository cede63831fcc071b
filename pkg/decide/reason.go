package decide

import (
	"fmt"
	"math"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// Code is why an action was taken: one word, stable, used as the reason of
// events and metrics.
type Code string

// The reasons there are.
const (
	// CodeCleanNow: the plan uses the current slot.
	CodeCleanNow Code = "CleanNow"
	// CodeCleanerLater: the plan starts or resumes the task later, when power is cleaner.
	CodeCleanerLater Code = "CleanerLater"
	// CodeSharedCapacity: the plan starts the task later, although power is not cleaner then, so that all tasks that share
	// the capacity have a place.
	CodeSharedCapacity Code = "SharedCapacity"
	// CodePauseDoesNotPay: the task runs on, because a pause would lose more than the cleaner
	// hours would save.
	CodePauseDoesNotPay Code = "PauseDoesNotPay"
	// CodeLatestStart: the latest safe start has come. If the task waits longer, it may miss its deadline.
	CodeLatestStart Code = "LatestStart"
	// CodeNoSlack: the task may not wait at all.
	CodeNoSlack Code = "NoSlack"
	// CodeHeldOut: the task runs as submitted; the others are compared with it.
	CodeHeldOut Code = "HeldOut"
	// CodeDeadlineAtRisk: the planner found no place before the deadline. The task runs at once or, if PlannedStart is set, as soon as
	// there is room that no other deadline needs.
	CodeDeadlineAtRisk Code = "DeadlineAtRisk"
	// CodeClusterQueue: released work waits for room on the cluster, so the task is released in the order of
	// the cluster's queue.
	CodeClusterQueue Code = "ClusterQueue"
	// CodeNoRoom: work outside the snapshot leaves no room for the task in time, even if no other task of the snapshot ran. To wait
	// in Lull would gain nothing, so the task is released to the queue of its cluster.
	CodeNoRoom Code = "NoRoom"
	// CodeNoCarbonData: the intensity is not known, so the task runs.
	CodeNoCarbonData Code = "NoCarbonData"
	// CodePlannerFailed: the planner failed, so the task runs.
	CodePlannerFailed Code = "PlannerFailed"
	// CodeTooSoon: a change is due, but the last one is too recent or still under way.
	CodeTooSoon Code = "TooSoon"
	// CodeMoveDoesNotPay: another cluster is cleaner, but a move there would emit more than it saves.
	CodeMoveDoesNotPay Code = "MoveDoesNotPay"
	// CodeSavingTooSmall: the task could wait, pause or move, but that would save less than the least saving, or in too few of the cases
	// that the forecast leaves open.
	CodeSavingTooSmall Code = "SavingTooSmall"
	// CodeNextPeriod: the task arrived after the plan of this period. The plan of the next period
	// includes it.
	CodeNextPeriod Code = "NextPeriod"
	// CodePaused: the policy or zone is paused, so its tasks run as if no policy governed them.
	CodePaused Code = "Paused"
	// CodeRunning: the task runs and cannot be paused, or the capacity fell and evict is Never.
	CodeRunning Code = "Running"
	// CodeUnscheduled: the task has been released, but has no pods, or no node has room for them.
	CodeUnscheduled Code = "Unscheduled"
)

// Reason explains one decision; log, event, annotation and report are all
// rendered from it. Fields that do not apply are zero.
type Reason struct {
	Code Code
	// PlannedStart is when the task starts or resumes.
	PlannedStart time.Time
	// LatestStart is the latest safe start: the task starts by then, whatever the grid does.
	LatestStart time.Time
	// Guard is the quantile of the run time that LatestStart leaves room for; zero if that is the
	// expected run time.
	Guard Quantile
	// IntensityNow is that of the current slot, IntensityThen the mean over the
	// planned run.
	IntensityNow, IntensityThen units.CarbonIntensity
	// ThenLow and ThenHigh are the 10 % and 90 % quantiles of IntensityThen; zero
	// if they are not known.
	ThenLow, ThenHigh units.CarbonIntensity
	// ExpectedG is what the planned run emits, ImmediateG what it would emit in
	// one piece from now on.
	ExpectedG, ImmediateG units.Emissions
	// Odds are those of a plan that waits, against a start at once.
	Odds Odds
	// Reserve is the share of the capacity that the plan keeps free for work to come; 0 if that is not
	// learned.
	Reserve float64
	// Source names the source of the intensity at the planned start, and Basis its
	// basis. Estimated says that the series has no value there, so that Decide uses
	// the value of an earlier day.
	Source    string
	Basis     carbon.Basis
	Estimated bool
}

// Saving is the share of emissions that the plan saves against running at once,
// 0 where nothing is saved or known.
func (r Reason) Saving() float64 {
	if r.ImmediateG <= 0 || r.ExpectedG >= r.ImmediateG {
		return 0
	}
	return 1 - float64(r.ExpectedG/r.ImmediateG)
}

// SavingRange is the 10 % and the 90 % quantile of the saving over the paths of the forecast. Without paths it is the saving if the
// planned run turns out at the 90 % and at the 10 % quantile of its intensity, where the run that begins at once counts as forecast: a
// forecast errs less for the hours that come first. The low one is negative if waiting may turn out to emit more. ok is false if neither
// is known.
func (r Reason) SavingRange() (low, high float64, ok bool) {
	if r.Odds.Paths > 0 {
		return r.Odds.Low, r.Odds.High, true
	}
	if r.ThenLow <= 0 || r.ThenHigh < r.ThenLow || r.IntensityThen <= 0 || r.ImmediateG <= 0 {
		return 0, 0, false
	}
	at := func(then units.CarbonIntensity) float64 {
		return 1 - float64(r.ExpectedG/r.ImmediateG)*float64(then/r.IntensityThen)
	}
	return at(r.ThenHigh), at(r.ThenLow), true
}

// savings says what waiting saves, and in which range if quantiles are known.
func (r Reason) savings() string {
	text := fmt.Sprintf("saves %.0f %% against starting at once", 100*r.Saving())
	if low, high, ok := r.SavingRange(); ok {
		text += fmt.Sprintf(" (%.0f to %.0f %% in 8 of 10 cases", 100*low, 100*high)
		if r.Odds.Paths > 0 {
			text += fmt.Sprintf(", emits more in %d of %d", r.Odds.Worse, r.Odds.Paths)
		}
		text += ")"
	}
	return text
}

// basisWords name the basis of a value, if it is worse than a forecast of the source.
var basisWords = map[carbon.Basis]string{
	carbon.CachedForecast: " (by an older forecast)",
	carbon.OwnForecast:    " (by a forecast made here)",
	carbon.Climatology:    " (usual at this time of the year)",
	carbon.Constant:       " (declared, nothing else is known)",
}

// Message says the reason in words.
func (r Reason) Message() string {
	estimated := basisWords[r.Basis]
	if r.Estimated {
		estimated = " (estimated from an earlier day)"
	}
	switch r.Code {
	case CodeCleanNow:
		return fmt.Sprintf("runs now at %s%s", r.IntensityNow, estimated)
	case CodeCleanerLater:
		return fmt.Sprintf("waits until %s: %s%s over the run instead of %s now, %s; %s",
			r.PlannedStart.UTC().Format(time.RFC3339), r.IntensityThen, estimated, r.IntensityNow,
			r.savings(), r.latest())
	case CodeSharedCapacity:
		kept := ""
		if r.Reserve > 0 {
			kept = fmt.Sprintf(" (%.0f %% of it is kept free for new work)", 100*r.Reserve)
		}
		return fmt.Sprintf("waits until %s, as in the plan of all workloads that share the capacity%s: %s%s over the run, %s now; %s",
			r.PlannedStart.UTC().Format(time.RFC3339), kept, r.IntensityThen, estimated, r.IntensityNow, r.latest())
	case CodePauseDoesNotPay:
		return fmt.Sprintf("runs on at %s: a pause would lose more than it saves", r.IntensityNow)
	case CodeLatestStart:
		return fmt.Sprintf("latest safe start %s has come%s", r.LatestStart.UTC().Format(time.RFC3339), r.guarded())
	case CodeNoSlack:
		return "may not wait"
	case CodeHeldOut:
		return "runs as submitted: it is in the share of work that other work is compared with"
	case CodeDeadlineAtRisk:
		if r.PlannedStart.IsZero() {
			return "runs at once: there is no place before the deadline"
		}
		return fmt.Sprintf("starts at %s, when there is room that no other deadline needs: there is no place before the deadline", r.PlannedStart.UTC().Format(time.RFC3339))
	case CodeClusterQueue:
		return "runs in the order of the cluster's queue: released work waits for room there"
	case CodeNoRoom:
		return "is released: other work leaves no room for it before its deadline, so it waits in the queue of its cluster"
	case CodeNoCarbonData:
		return "runs at once: no carbon data"
	case CodePlannerFailed:
		return "runs at once: the planner failed"
	case CodeTooSoon:
		return "stays as it is: the last change is too recent"
	case CodeMoveDoesNotPay:
		return "stays: another cluster is cleaner, but a move there would emit more than it saves"
	case CodeSavingTooSmall:
		return fmt.Sprintf("runs now at %s%s: a wait, a pause or a move would save less than the least saving, or not surely enough", r.IntensityNow, estimated)
	case CodeNextPeriod:
		return fmt.Sprintf("waits for the plan of %s, which includes all waiting work", r.PlannedStart.UTC().Format(time.RFC3339))
	case CodePaused:
		return "the policy or zone is paused: runs as if not governed"
	case CodeRunning:
		return "running"
	case CodeUnscheduled:
		return "has been released, but has no pods, or no node has room for them"
	}
	return string(r.Code)
}

// latest says when the task starts at the latest, and for which run time.
func (r Reason) latest() string {
	return fmt.Sprintf("starts by %s at the latest%s", r.LatestStart.UTC().Format(time.RFC3339), r.guarded())
}

// guarded says which run time the latest safe start leaves room for; nothing if that is the expected one.
func (r Reason) guarded() string {
	if r.Guard == (Quantile{}) {
		return ""
	}
	return fmt.Sprintf(", as it may still take %v (%.4g %% quantile)", r.Guard.Remaining.Round(time.Second), 100*r.Guard.P)
}

// guardOf is the quantile that the latest safe start of a task leaves room for; zero if that is the
// expected run time, or if its plan starts later, with a part of the guard given up.
func (w *decider) guardOf(i int, latest time.Time) Quantile {
	remaining, p := w.s.Tasks[i].Guarded()
	if p == 0 || latest.IsZero() || w.s.soft() || !latest.Equal(w.items[i].latest) {
		return Quantile{}
	}
	return Quantile{P: p, Remaining: remaining}
}

// reason states why the decision on a task is what it is.
func (w *decider) reason(i int) Reason {
	r := w.reasonOf(i)
	if r.Code == CodeDeadlineAtRisk && r.PlannedStart.After(w.s.Now) && !r.LatestStart.After(w.s.Now) {
		r.LatestStart = r.PlannedStart // no start is safe any more
	}
	r.Guard = w.guardOf(i, r.LatestStart)
	return r
}

func (w *decider) reasonOf(i int) Reason {
	t, x := &w.s.Tasks[i], &w.items[i]
	r := Reason{Code: x.code, LatestStart: x.latest}
	if w.s.soft() {
		r.LatestStart = t.Deadline // the fail-safe releases it then
	}
	switch x.state {
	case committed:
		switch x.code {
		case CodeRunning, CodeNoSlack, CodeHeldOut, CodeNoRoom, CodeNoCarbonData:
			r.LatestStart = time.Time{}
		case CodeNextPeriod:
			r.PlannedStart = timegrid.Align(w.s.Now, w.s.Slot).Add(w.s.Slot)
		}
		return r
	case followed:
		return w.followedReason(i)
	case unplaced:
		r.Code = CodeDeadlineAtRisk
		if len(x.phases) > 0 && x.phases[0].From.After(w.s.Now) {
			r.PlannedStart = x.phases[0].From
			r.LatestStart = w.latestOf(i)
		}
		return r
	}
	if len(x.phases) == 0 {
		r.Code = CodeDeadlineAtRisk
		return r
	}
	first := &x.phases[0]
	r.LatestStart = w.latestOf(i)
	if c := w.place(first.Cluster); w.curves[c] != nil {
		w.weigh(i, c, &r)
	}
	switch {
	case !w.s.soft() && !t.LatestStart.IsZero() && first.From.After(t.LatestStart) && first.From.After(w.s.Now):
		r.Code, r.PlannedStart = CodeDeadlineAtRisk, first.From // it waits for longer than it may
	case x.code != "" && first.From.After(w.s.Now):
		r.PlannedStart = first.From
	case x.code != "":
		r.PlannedStart = w.s.Now
	case !first.From.After(w.s.Now) && x.urgent:
		r.Code, r.PlannedStart = CodeLatestStart, w.s.Now
	case !first.From.After(w.s.Now):
		r.Code, r.PlannedStart = w.goOnCode(i), w.s.Now
	default:
		r.Code, r.PlannedStart = CodeCleanerLater, first.From
		if !w.s.soft() && r.ExpectedG >= r.ImmediateG {
			r.Code, r.Reserve = CodeSharedCapacity, w.s.Reserve
		}
	}
	return r
}

// weigh states the intensities and emissions of a plan that begins on a cluster with carbon data.
func (w *decider) weigh(i, c int, r *Reason) {
	t, x := &w.s.Tasks[i], &w.items[i]
	first := &x.phases[0]
	r.IntensityNow = units.CarbonIntensity(w.curves[c].Mean(w.s.Now, w.s.Now.Add(min(w.s.Slot, max(time.Second, t.Remaining)))))
	r.IntensityThen = meanOver(x.phases, func(p *Phase) float64 { return float64(p.Intensity) })
	w.barsOver(x.phases, r)
	r.Source, r.Basis = w.s.basisAt(c, first.From)
	_, r.Estimated = w.filled[c].Filled[w.grid.SlotOf(first.From)]
	r.ExpectedG = units.Emissions(w.grams(i, x.phases))
	atOnce := []Phase{w.phase(i, c, x.earliest, t.Remaining-t.AtRisk, t.least())}
	r.ImmediateG = units.Emissions(w.grams(i, atOnce))
	if first.From.After(w.s.Now) {
		r.Odds = w.odds(i, x.phases, atOnce)
	}
}

// latestOf is the latest safe start of a task with a plan. A plan that gives up a part of the
// margin starts after it: then it is the start of the plan. So it is if no other start is known to be safe.
func (w *decider) latestOf(i int) time.Time {
	t, x := &w.s.Tasks[i], &w.items[i]
	switch first := x.phases[0].From; {
	case w.s.soft():
		return t.Deadline
	case first.After(x.latest) && (t.LatestStart.IsZero() || !first.After(t.LatestStart)):
		return first
	case x.unsafe && first.After(w.s.Now):
		return first
	}
	return x.latest
}

// followedReason is that of the standing plan, as of now.
func (w *decider) followedReason(i int) Reason {
	t, x := &w.s.Tasks[i], &w.items[i]
	r := t.Standing.Reason
	r.LatestStart = w.latestOf(i)
	first := &x.phases[0]
	waits := first.From.After(w.s.Now)
	if phases, plan := w.expected(i); w.lateBy(i, phases) || plan != nil && !w.s.soft() && t.lags(phases, w.s.Now) {
		if r.Code, r.PlannedStart = CodeDeadlineAtRisk, (time.Time{}); waits {
			r.PlannedStart = first.From
		}
		return r
	}
	if waits {
		r.PlannedStart = first.From
		if r.Code != CodeSharedCapacity || t.State == Running || t.Paused {
			r.Code = CodeCleanerLater
		}
	} else {
		r.Code, r.PlannedStart, r.Odds = CodeCleanNow, w.s.Now, Odds{}
		if c := &w.s.Clusters[w.place(first.Cluster)]; c.Carbon != nil {
			if v, ok := c.Carbon.At(w.s.Now); ok {
				r.IntensityNow = v.Value
			}
		}
	}
	if x.code != "" {
		r.Code = x.code
	}
	return r
}

// lateBy reports whether a task that does some phases is done later, or starts later, than it should.
func (w *decider) lateBy(i int, phases []Phase) bool {
	t := &w.s.Tasks[i]
	switch {
	case t.Deadline.IsZero():
		return false
	case len(phases) == 0:
		return true
	case w.s.soft():
		return false
	case !t.LatestStart.IsZero() && phases[0].From.After(t.LatestStart):
		return true
	}
	return t.endOf(phases, w.s.Now).After(t.Deadline.Add(rounding))
}

// least is the least number of workers.
func (t *Task) least() int {
	if t.Scaling == nil {
		return 1
	}
	return t.Scaling.MinWorkers
}

// meanOver is the mean of a value of phases, weighted by their length.
func meanOver(phases []Phase, of func(*Phase) float64) units.CarbonIntensity {
	sum, hours := 0.0, 0.0
	for k := range phases {
		h := phases[k].To.Sub(phases[k].From).Hours()
		sum, hours = sum+h*of(&phases[k]), hours+h
	}
	if hours == 0 {
		return 0
	}
	return units.CarbonIntensity(sum / hours)
}

// barsOver states the error bars of the planned run, if the cluster of each phase has some.
func (w *decider) barsOver(phases []Phase, r *Reason) {
	for k := range phases {
		if c := &w.s.Clusters[w.place(phases[k].Cluster)]; c.CarbonLow == nil || c.CarbonHigh == nil {
			return
		}
	}
	over := func(series func(*Cluster) *carbon.Series, farther func(a, b float64) float64) units.CarbonIntensity {
		return meanOver(phases, func(p *Phase) float64 {
			c := w.place(p.Cluster)
			s := series(&w.s.Clusters[c])
			if v, covered := s.Mean(p.From, p.To); covered == p.To.Sub(p.From) && !w.estimated(c, p) {
				return float64(v)
			}
			bars := w.barsOf(c, s, farther)
			sum, n := 0.0, 0
			for t := max(0, w.grid.SlotOf(p.From)); t < min(w.grid.N, max(w.grid.CeilSlot(p.To), w.grid.SlotOf(p.From)+1)); t++ {
				sum, n = sum+bars[t], n+1
			}
			if n == 0 {
				return float64(p.Intensity)
			}
			return sum / float64(n)
		})
	}
	r.ThenLow = over(func(c *Cluster) *carbon.Series { return c.CarbonLow }, math.Min)
	r.ThenHigh = over(func(c *Cluster) *carbon.Series { return c.CarbonHigh }, math.Max)
}

// estimated reports whether the intensity of a phase was filled from another day in part.
func (w *decider) estimated(cluster int, p *Phase) bool {
	for t := max(0, w.grid.SlotOf(p.From)); t < w.grid.CeilSlot(p.To); t++ {
		if _, made := w.filled[cluster].Filled[t]; made {
			return true
		}
	}
	return false
}
