package ledger

import (
	"maps"
	"math"
	"slices"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/decide"
)

// work is what is known of a workload.
type work struct {
	uid      string
	of       Submitted
	started  map[string]Started
	ended    map[string]Ended
	energy   []Energy
	lost     time.Duration
	paused   bool
	modes    []mode
	finished *Finished
	settled  *Settled
	// quarantined is why an entry of it could not be written; "" where all could.
	quarantined string
	// read are the keys of entries taken up: a drop writes them again.
	read map[string]bool
}

// useful are the stretches that have done the work: of one in parts those that succeeded. Of another one all but those
// whose work was done again: what a pod lost without checkpoints, where another one has succeeded.
func (w *work) useful(stretches []stretch) (out []account.Stretch) {
	again := !w.of.Resumable && slices.ContainsFunc(stretches, func(x stretch) bool { return x.succeeded })
	for _, x := range stretches {
		if w.of.Parts && x.succeeded || !w.of.Parts && (x.lost == "" || !again) {
			out = append(out, x.Stretch)
		}
	}
	return out
}

// watts is the power of the work as submitted, by the model: what it was submitted with, or the mean of the runs that have done it.
func (w *work) watts(stretches []stretch) float64 {
	energy, hours := 0.0, 0.0
	if w.of.AsRun {
		for _, x := range w.useful(stretches) {
			h := x.To.Sub(x.From).Hours()
			energy, hours = energy+x.Watts*float64(x.Workers)*h, hours+h
		}
	}
	if hours <= 0 {
		return w.of.Watts * float64(w.of.Workers)
	}
	return energy / hours
}

// mode is the mode of the policy at a decision; released says that the decision released the workload.
type mode struct {
	at       time.Time
	mode     v1alpha1.Mode
	released bool
}

// decided notes a decision. It keeps those that say something new of the mode.
func (w *work) decided(b *Decided) {
	if b.Applied {
		w.lost += time.Duration(b.LostSeconds * float64(time.Second))
		w.paused = w.paused || b.Verb == string(decide.Pause)
	}
	x := mode{b.At, b.Mode, b.Applied && (b.Verb == string(decide.Release) || b.Verb == string(decide.Resume))}
	if n := len(w.modes); b.Mode != "" && (n == 0 || x.released || w.modes[n-1].mode != x.mode || x.at.Before(w.modes[n-1].at)) {
		w.modes = append(w.modes, x)
	}
}

// modeAt is the mode of the policy when the workload was released for a run that starts at a time: that of the last release before, or of
// the last decision before if none released it, as it was never held. It is "" if it is not known. Decisions need not be in the order of
// time: a drop writes those on open work again.
func (w *work) modeAt(start time.Time) v1alpha1.Mode {
	var out mode
	for _, x := range w.modes {
		if !x.at.After(start) && (x.released && !out.released || x.released == out.released && !x.at.Before(out.at)) {
			out = x
		}
	}
	return out.mode
}

// firstStart is when the first run started, though it may have ended at once; the end of the workload if it never ran.
func (w *work) firstStart() time.Time {
	out := w.finished.At
	for i, run := range slices.Collect(maps.Values(w.started)) {
		if i == 0 || run.At.Before(out) {
			out = run.At
		}
	}
	return out
}

// stretch is a run of a workload.
type stretch struct {
	account.Stretch
	succeeded bool
	lost      Lost
}

// stretches are when a workload ran; an end that is missing is that of the workload.
func (w *work) stretches() (out []stretch, inferred int) {
	for _, run := range slices.Sorted(maps.Keys(w.started)) {
		b := w.started[run]
		to := w.finished.At
		e, known := w.ended[run]
		if known {
			to = e.At
			if e.How == Inferred {
				inferred++
			}
		} else {
			inferred++
		}
		if to.After(b.At) {
			out = append(out, stretch{account.Stretch{From: b.At, To: to, Zone: b.Zone, Workers: b.Workers, Watts: b.Watts}, e.Succeeded, e.Lost})
		}
	}
	slices.SortStableFunc(out, func(a, b stretch) int { return a.From.Compare(b.From) })
	return out, inferred
}

// length is how long the same work takes as submitted. Where it was paused, it may have done some of it
// twice: then it is no more than was expected at first.
func (w *work) length(stretches []account.Stretch) time.Duration {
	curve := account.Curve{MinWorkers: w.of.MinWorkers, Marginal: w.of.Curve, Others: w.of.Others}
	out := account.Length(stretches, curve, w.of.Workers, w.lost)
	if !w.paused || w.of.Runtime <= 0 {
		return out
	}
	expected := w.of.Runtime
	if len(curve.Marginal) > 0 {
		expected *= curve.Rate(curve.MinWorkers) / curve.Rate(w.of.Workers)
	}
	return min(out, time.Duration(math.Round(expected*float64(time.Second))))
}
