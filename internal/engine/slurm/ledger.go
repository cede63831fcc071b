package slurm

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"lull.dev/lull/internal/accounting/keeper"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
)

const (
	// missedFor is how long a job must be gone from the queue before it counts as over. missedBadly is the same while there are lines of
	// squeue that cannot be read, which may be those of the job.
	missedFor   = 30 * time.Second
	missedBadly = time.Hour
	// apiVersion and jobKind name jobs of Slurm in the ledger.
	apiVersion, jobKind = "slurm", "Job"
)

// ledgerRecorder records in the ledger what the controller observes. What it keeps in memory is of jobs that have not been recorded yet; all else
// it finds in the ledger after a restart.
type ledgerRecorder struct {
	*keeper.Keeper
	// policy names the cluster in the ledger, as "slurm/NAME".
	policy string
	// blocked are jobs that waited for other jobs, or were held by a user, when they were last seen, and their numbers: what they
	// waited is not Lull's doing.
	blocked map[string]int
	// freed is when the tasks of an array were seen first that had waited for other jobs.
	freed map[int]time.Time
	// arrays are those whose throttle is below their number of tasks, by number. began is the first look.
	arrays map[int]*array
	began  time.Time
	// missed is since when jobs of the ledger are not in the queue.
	missed map[string]time.Time
	// accounting knows how jobs ended that Slurm has forgotten.
	accounting *accounting[slurm.Job]
	// energies knows what Slurm has measured of jobs that are over; nil if nothing is measured.
	energies *energies
	log      *slog.Logger
}

func newLedgerRecorder(k *keeper.Keeper, cluster string, measure *Measure, log *slog.Logger) *ledgerRecorder {
	return &ledgerRecorder{Keeper: k, log: log, energies: newEnergies(measure), policy: "slurm/" + cluster, blocked: map[string]int{}, freed: map[int]time.Time{}, arrays: map[int]*array{}, missed: map[string]time.Time{}, accounting: newAccounting(math.MaxInt, func(j *slurm.Job) string { return j.ID })}
}

// round is what one look at the queue has, as it is recorded.
type round struct {
	*ledgerRecorder
	in   *slurm.Input
	open map[string]ledger.OpenJob
	// latest is the open job of a number, by what scontrol calls it.
	latest map[string]string
	seen   map[string]bool
	out    []ledger.JobSeen
	// beside is what jobs use that Lull decides on and that are not recorded, by resource.
	beside map[string]float64
	view   *slurm.View
}

// record queues what a look has found. applied are the jobs that were changed.
func (b *ledgerRecorder) record(in *slurm.Input, view *slurm.View, d *decide.Decision, applied map[string]bool) {
	open, _ := b.Recorder.OpenJobs(b.policy)
	r := round{ledgerRecorder: b, in: in, open: map[string]ledger.OpenJob{}, latest: map[string]string{}, seen: map[string]bool{}, beside: map[string]float64{}, view: view}
	for _, x := range open {
		r.open[x.UID] = x
		if id := idOf(x.UID); id != "" {
			r.latest[id] = x.UID // the last submission is that of the highest second
		}
	}
	r.waitsForEnergy()
	r.throttles()
	for i := range view.Jobs {
		g := &view.Jobs[i]
		if g.Scale != nil {
			for k := range g.Scale.Running {
				r.governed(&g.Scale.Running[k], &d.Actions[i], &view.Snapshot.Tasks[i], false)
			}
		}
		r.governed(g, &d.Actions[i], &view.Snapshot.Tasks[i], applied[g.Job.ID])
	}
	for i := range view.Left {
		r.left(&view.Left[i])
	}
	for i := range in.Queue.Ended {
		r.ended(&in.Queue.Ended[i])
	}
	r.gone()
	r.measured()
	s := view.Snapshot
	s.Clusters = slices.Clone(s.Clusters)
	s.Clusters[0].Load, s.Clusters[0].Capacity = maps.Clone(s.Clusters[0].Load), maps.Clone(s.Clusters[0].Capacity)
	maps.DeleteFunc(s.Clusters[0].Capacity, func(resource string, _ float64) bool { return slurm.IsThrottle(resource) })
	for name, amount := range r.beside {
		s.Clusters[0].Load[name] += amount
	}
	taken := b.Recorder.RecordJobs(&ledger.JobLook{
		Policy: b.policy, Now: in.Now, Snapshot: &s, Zones: map[string]carbon.Outlook{in.Zone: in.Carbon}, Jobs: r.out, Replanned: len(applied) > 0,
	})
	b.energies.recorded(taken)
}

// uid is the name of a job for all time: its number and when it was submitted first. Slurm uses numbers again, and states the time of the last
// requeue. sure says that the name is that of the ledger, if the job is there.
func (r *round) uid(g *slurm.Governed) (uid string, sure bool) {
	j := g.Job
	uid = fmt.Sprintf("%s/%s/%d", r.policy, j.ID, g.Submitted().Unix())
	if _, known := r.open[uid]; known || j.Restarts == 0 || !g.Mark.Since.IsZero() {
		return uid, true
	}
	if known := r.latest[j.ID]; known != "" {
		return known, true
	}
	return uid, false
}

// governed notes a job that Lull decides on.
func (r *round) governed(g *slurm.Governed, a *decide.Action, t *decide.Task, applied bool) {
	j := g.Job
	uid, _ := r.uid(g)
	_, known := r.open[uid]
	_, blocked := r.blocked[j.ID]
	waited := blocked || g.WaitedForOthers()
	delete(r.blocked, j.ID)
	if j.Tasks > 1 && waited {
		r.freed[j.Number] = r.in.Now
	}
	if j.Tasks > 1 || !known && r.leavesOut(j) {
		if !j.Pending() {
			for name, amount := range r.view.Request(j) {
				r.beside[name] += amount
			}
		}
		return // its tasks are noted as they start
	}
	of := r.submitted(g, !known && waited)
	x := ledger.JobSeen{UID: uid, Submitted: of, Runs: r.runs(g, uid)}
	x.Decided = &ledger.Decided{Verb: string(a.Verb), Reason: string(a.Reason.Code), Message: slurm.Message(&a.Reason), Workers: 1, Applied: applied}
	switch s := g.Size; {
	case j.Pending():
	case s != nil:
		if applied && s.Requeues() { // one for another size is a pause of no length
			x.Decided.Verb, x.Decided.LostSeconds = string(decide.Pause), s.Lost().Seconds()
		}
	case a.Verb == decide.Pause:
		x.Decided.LostSeconds = t.AtRisk.Seconds()
	}
	r.add(x)
}

// left notes a job that Lull leaves to Slurm: its runs, if it is in the ledger.
func (r *round) left(l *slurm.Left) {
	g := slurm.Governed{Job: l.Job, Mark: slurm.ReadMark(l.Job.AdminComment)}
	uid, _ := r.uid(&g)
	if _, known := r.open[uid]; known {
		r.add(ledger.JobSeen{UID: uid, Runs: r.runs(&g, uid)})
		return
	}
	if l.Job.Pending() && (l.Why == slurm.Depends || l.Why == slurm.UserHold) {
		r.blocked[l.Job.ID] = l.Job.Number
	}
}

// ended notes a job that is over, also one that came and went between two looks.
func (r *round) ended(j *slurm.Job) {
	g, governed := slurm.Ran(r.in, j)
	uid, sure := r.uid(&g)
	_, known := r.open[uid]
	_, blocked := r.blocked[j.ID]
	delete(r.blocked, j.ID)
	if !known && (!governed || !sure || r.leavesOut(j)) || j.Ended.IsZero() {
		return
	}
	x := ledger.JobSeen{UID: uid, Submitted: r.submitted(&g, false), Runs: r.runs(&g, uid), Over: j.Ended}
	if !known && blocked && !j.Started.IsZero() {
		x.Submitted.At = j.Started.UTC()
	}
	r.add(x)
}

func (r *round) add(x ledger.JobSeen) {
	delete(r.missed, x.UID)
	if r.seen[x.UID] {
		return
	}
	r.seen[x.UID] = true
	if !r.waits(&x) {
		r.out = append(r.out, x)
	}
}

// gone notes jobs of the ledger that Slurm has forgotten, as when no controller ran for longer than MinJobAge. They ended as the accounting of Slurm
// says. If it does not know them, they have run for as long as was expected, and no longer than until they were missed.
func (r *round) gone() {
	patience := missedFor
	if slices.ContainsFunc(r.in.Queue.Bad, func(b slurm.Bad) bool { return !b.Node }) {
		patience = missedBadly
	}
	gone := map[string]time.Time{}
	for uid := range r.open {
		if r.seen[uid] {
			continue
		}
		since, known := r.missed[uid]
		if !known {
			r.missed[uid], since = r.in.Now, r.in.Now
		}
		if r.in.Now.Sub(since) < patience {
			continue
		}
		gone[uid] = since
	}
	ends, told := r.endsOf(slices.Sorted(maps.Keys(gone)))
	for _, uid := range slices.Sorted(maps.Keys(gone)) {
		since, x := gone[uid], r.open[uid]
		if j := ends[uid]; j != nil {
			r.add(ledger.JobSeen{UID: uid, Runs: r.missedRuns(uid, j), Over: j.Ended})
			continue
		}
		if !told[uid] && r.in.Now.Sub(since) < missedBadly {
			continue
		}
		over := since
		for _, from := range x.Runs {
			if likely := from.Add(x.Runtime); x.Runtime > 0 && likely.Before(over) {
				over = likely
			}
		}
		r.add(ledger.JobSeen{UID: uid, Over: over})
	}
	maps.DeleteFunc(r.missed, func(uid string, _ time.Time) bool { _, open := r.open[uid]; return !open })
}

// submitted is a job as it came. One that had to wait for something else first counts from now on.
func (r *round) submitted(g *slurm.Governed, now bool) ledger.Submitted {
	j := g.Job
	at := g.Submitted()
	if freed := r.freed[j.Number]; freed.After(at) {
		at = freed
	}
	if now {
		at = r.in.Now
	}
	labels := map[string]string{}
	for name, value := range map[string]string{"user": j.User, "account": j.Account, "partition": j.Partition, "qos": j.QOS} {
		if value != "" {
			labels[name] = value
		}
	}
	if a := r.arrays[j.Number]; a != nil {
		at = at.Add(a.at[j.ID])
	}
	request := r.view.Request(g.AsSubmitted())
	out := ledger.Submitted{
		APIVersion: apiVersion, Kind: jobKind, Namespace: cmp.Or(j.Account, j.Partition), Name: j.ID, Labels: labels, At: at.UTC(),
		Workers: 1, Request: request, Watts: float64(r.in.Power.Of(request)), Runtime: g.Runtime(r.in).Seconds(), Deadline: g.Deadline(r.in).UTC(),
		Zone: r.in.Zone, Resumable: g.Resumable(), HeldOut: g.HeldOut(r.in.Config),
		AsRun: true, // until a job with --exclusive starts, Slurm states the CPUs that it asked for
	}
	if tasks, parallel, sized := g.Sized(); sized {
		scales(&out, tasks, parallel)
	}
	return out
}

// scales has a job be one whose number of tasks may change: a worker is a task. As submitted it has all of them, whatever it runs with.
func scales(of *ledger.Submitted, tasks int, parallel float64) {
	of.AsRun, of.Workers, of.Watts = false, tasks, of.Watts/float64(tasks)
	for name := range of.Request {
		of.Request[name] /= float64(tasks)
	}
	if parallel == 1 {
		return
	}
	of.MinWorkers, of.Runtime = 1, of.Runtime*slurm.SpeedOf(parallel, tasks)
	for n := 1; n <= tasks; n++ {
		adds := slurm.SpeedOf(parallel, n)
		if n > 1 {
			adds -= slurm.SpeedOf(parallel, n-1)
		}
		of.Curve = append(of.Curve, adds)
	}
}

// runs are the runs of a job that are known: the ones of the ledger that have ended since, and the last.
func (r *round) runs(g *slurm.Governed, uid string) (out []ledger.JobRun) {
	j := g.Job
	last := fmt.Sprintf("%s/%d", uid, j.Restarts)
	for id := range r.open[uid].Runs {
		if id == last {
			continue
		}
		// It was requeued, which Slurm states as its submission.
		e := ledger.Ended{At: j.Submitted.UTC(), How: ledger.Observed}
		if g.Mark.Since.IsZero() {
			e.Lost = ledger.Evicted
		}
		out = append(out, ledger.JobRun{Started: ledger.Started{Run: id}, Ended: &e})
	}
	if j.Pending() || j.Started.IsZero() || j.Over() && !j.Ended.After(j.Started) {
		return out
	}
	x := ledger.JobRun{Started: r.started(last, j)}
	if _, _, sized := g.Sized(); sized {
		x.Started.Workers = j.Size
	}
	if j.Over() {
		x.Ended = ended(j)
	}
	return append(out, x)
}

// started is the beginning of the last run of a job.
func (r *round) started(run string, j *slurm.Job) ledger.Started {
	return ledger.Started{Run: run, At: j.Started.UTC(), Zone: r.in.Zone, Workers: 1, Watts: float64(r.in.Power.Of(r.view.Request(j)))}
}

// ended is the end of the last run of a job that is over.
func ended(j *slurm.Job) *ledger.Ended {
	e := &ledger.Ended{At: j.Ended.UTC(), How: ledger.Observed, Succeeded: j.Succeeded()}
	switch {
	case j.Evicted():
		e.Lost = ledger.Evicted
	case j.Failed():
		e.Lost = ledger.Failed
	}
	return e
}
