package slurm

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
)

// Measure says how the energy counts that Slurm measures on the nodes of jobs.
type Measure struct {
	// PUE is the power usage effectiveness of the site, 1 and more.
	PUE float64
	// WattsPerCPU and WattsPerGPU are the power of the parts of a node that Slurm does not measure there, in W without PUE; 0 of those that it does.
	WattsPerCPU, WattsPerGPU float64
}

const (
	// fromSlurm and fromBoth name the source of energy in the ledger.
	fromSlurm, fromBoth = "slurm", "slurm+model"
	// energyLate is how long the energy of a job that is over is waited for if the accounting answers, energyNever if it does not. Both count from the first look that waits.
	energyLate, energyNever = 5 * time.Minute, time.Hour
	// mostAsked is how many jobs a question names, those first that have waited longest, and atOnce a command of it: a slow slurmdbd answers some of them in time.
	mostAsked, atOnce = 200, 50
)

// energies has the jobs that are over wait for what Slurm has measured. Their submission and runs are in the ledger at once, their end is not: a controller that starts
// finds it in the queue, or in the accounting, as it finds what ended while no controller ran.
type energies struct {
	*accounting[slurm.Used]
	Measure
	waiting map[string]*waiting
	// done are the jobs that were recorded with their energy, as long as they are seen.
	done map[string]bool
	// told are the reasons that were logged.
	told map[slurm.NotMeasured]bool
}

// waiting is a job that waits for its energy.
type waiting struct {
	ledger.JobSeen
	since time.Time // the first look
	// noted says that its submission and runs are recorded, over that all of it is, if the look is.
	noted, over bool
}

func newEnergies(m *Measure) *energies {
	if m == nil {
		return nil
	}
	return &energies{newAccounting(mostAsked, func(u *slurm.Used) string { return u.ID }), *m, map[string]*waiting{}, map[string]bool{}, map[slurm.NotMeasured]bool{}}
}

// asks bounds a question to the accounting, and asks it of some jobs at once. What was answered before an error counts.
func asks[T any](ctx context.Context, question func(context.Context, []string) ([]T, error), atOnce int) func([]string) ([]T, int, error) {
	return func(ids []string) (out []T, answered int, err error) {
		limited, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		for part := range slices.Chunk(ids, atOnce) {
			of, err := question(limited, part)
			if err != nil {
				return out, answered, err
			}
			out, answered = append(out, of...), answered+len(part)
		}
		return out, answered, nil
	}
}

// waitsForEnergy marks the jobs that wait as seen: nothing else is to be noted of them.
func (r *round) waitsForEnergy() {
	if r.energies == nil {
		return
	}
	for uid := range r.energies.waiting {
		r.seen[uid] = true
	}
}

// waits reports whether a job waits for its energy from now on.
func (r *round) waits(x *ledger.JobSeen) bool {
	k := r.energies
	if k == nil || x.Over.IsZero() || k.done[x.UID] || len(x.Runs)+len(r.open[x.UID].Began) == 0 || idOf(x.UID) == "" {
		return false
	}
	k.waiting[x.UID] = &waiting{JobSeen: *x, since: r.in.Now}
	return true
}

// measured notes the jobs whose energy is known, or is not waited for any more.
func (r *round) measured() {
	k := r.energies
	if k == nil {
		return
	}
	maps.DeleteFunc(k.done, func(uid string, _ bool) bool { return !r.seen[uid] })
	if len(k.waiting) == 0 {
		return
	}
	uids := slices.SortedFunc(maps.Keys(k.waiting), func(a, b string) int {
		return cmp.Or(k.waiting[a].since.Compare(k.waiting[b].since), k.waiting[a].Over.Compare(k.waiting[b].Over), strings.Compare(a, b))
	})
	ids := make([]string, len(uids))
	for i, uid := range uids {
		ids[i] = idOf(uid)
	}
	before := k.last.err
	a := k.of(uids, ids, r.in.Now)
	none := errors.Is(a.err, slurm.ErrNoAccounting)
	if a.err != nil && before == nil {
		r.log.Error("The accounting of Slurm does not say what jobs have used", "jobs", names(ids), "error", a.err.Error())
	}
	byID := map[string][]slurm.Used{}
	for _, u := range a.of {
		byID[u.ID] = append(byID[u.ID], u)
	}
	for i, uid := range uids {
		x := k.waiting[uid]
		began := r.begun(&x.JobSeen)
		age := r.in.Now.Sub(x.since)
		answered := !none && a.uids[uid]
		whole := answered && r.takes(&x.JobSeen, byID[ids[i]], began)
		if !whole && !none && (age < energyLate || !answered && age < energyNever) {
			if answered {
				k.again(uid)
			}
			if !x.noted {
				early := x.JobSeen
				early.Energy, early.Waits = nil, true
				r.out = append(r.out, early)
			}
			continue
		}
		x.over = true
		r.out = append(r.out, x.JobSeen)
	}
}

// recorded says whether the look is: if the ledger did not take it, what it has found waits on.
func (k *energies) recorded(taken bool) {
	if k == nil {
		return
	}
	for uid, x := range k.waiting {
		if x.noted = x.noted || taken; x.over && taken {
			delete(k.waiting, uid)
			k.done[uid] = true
		}
		x.over = false
	}
}

// begun is when the runs of a job began that the ledger has, or will have.
func (r *round) begun(x *ledger.JobSeen) []time.Time {
	out := slices.Clone(r.open[x.UID].Began)
	for i := range x.Runs {
		if at := x.Runs[i].Started.At; !at.IsZero() {
			out = append(out, at)
		}
	}
	return out
}

// takes notes what was measured of the runs that the ledger has: energy without a run would count on one side only. It reports whether all that can be known
// of the last run is.
func (r *round) takes(x *ledger.JobSeen, of []slurm.Used, began []time.Time) (whole bool) {
	k := r.energies
	last := slices.MaxFunc(began, time.Time.Compare)
	x.Energy = nil
	for i := range of {
		u := &of[i]
		same := func(at time.Time) bool { return !u.Started.IsZero() && at.Sub(u.Started).Abs() <= sameStart }
		if u.Ended.IsZero() || !slices.ContainsFunc(began, same) {
			continue
		}
		whole = whole || same(last)
		why := u.Why
		if e, ok := k.entry(x, u); ok {
			e.Zone = r.in.Zone
			x.Energy = append(x.Energy, e)
		} else if why == "" {
			why = noGPUs
		}
		if why != "" && !k.told[why] {
			k.told[why] = true
			r.log.Info("The energy of a job is that of the power model; others for the same reason are not named", "job", u.ID, "reason", string(why))
		}
	}
	return whole
}

// noGPUs is why a run counts by the model whose nodes were measured.
const noGPUs slurm.NotMeasured = "Slurm does not measure GPUs here, and has forgotten how many it had"

// entry is what the ledger has of a run; ok is false if the power model counts.
func (k *energies) entry(x *ledger.JobSeen, u *slurm.Used) (e ledger.Energy, ok bool) {
	if u.Joules <= 0 || k.WattsPerGPU > 0 && x.Submitted.Kind == "" {
		return e, false
	}
	const joulesInKWh = 3.6e6
	watts := k.WattsPerCPU*float64(u.CPUs) + k.WattsPerGPU*x.Submitted.Request["gpu"]
	e = ledger.Energy{From: u.Started.UTC(), To: u.Ended.UTC(), Source: fromSlurm, ModelKWh: k.PUE * watts * u.Ended.Sub(u.Started).Seconds() / joulesInKWh}
	if e.KWh = k.PUE*u.Joules/joulesInKWh + e.ModelKWh; e.ModelKWh > 0 {
		e.Source = fromBoth
	}
	return e, true
}
