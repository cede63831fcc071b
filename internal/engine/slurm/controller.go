// Package slurm is the controller for a Slurm cluster: it observes the queue, decides by pkg/decide, and applies what was decided. It is to
// Slurm what package controller is to Kubernetes, and shares its decisions, its planners and its feeds.
package slurm

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"lull.dev/lull/internal/accounting/keeper"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/track"
)

// Options say what a Controller works with.
type Options struct {
	Client slurm.Client
	// Input has all that stays the same: the configuration, the zone, the slot, the power.
	Input   slurm.Input
	Planner plan.Planner
	// Outlook says what is known of the carbon intensity. It does not wait for a provider.
	Outlook func(now time.Time) source.Outlook
	// Interval is the longest time between two looks at the queue.
	Interval time.Duration
	// DecisionTime bounds a decision. A planner that takes longer is stopped. If it has no plan by then, Substitute plans, which is fast.
	DecisionTime time.Duration
	Substitute   plan.Planner
	// Ledger records what the jobs do and what they emit, under the name of the cluster; nil for no ledger.
	Ledger  *keeper.Keeper
	Cluster string
	// Measure has the energy of jobs be what Slurm has measured; nil leaves all to the power model.
	Measure *Measure
	// Capacity bounds how many CPUs the jobs use at a time; nil bounds nothing.
	Capacity *Capacity
	// DryRun changes and records nothing.
	DryRun bool
	Clock  clock.Clock
	Log    *slog.Logger
}

const (
	// shortest is the least time between two looks.
	shortest = time.Second
	// followUp is when a look follows one that requeues a job: 121 s after the requeue, Slurm starts the job by itself.
	followUp = 20 * time.Second
	// threshold is the relative deviation of progress, run time and forecast for which a job is planned anew.
	threshold = 0.05
)

// Controller decides on the jobs of one Slurm cluster. What it remembers only saves work: it may be stopped and started at any time.
type Controller struct {
	o        Options
	records  map[string]*track.Record
	outlooks track.Outlooks
	round    track.Round
	reported map[string]string
	ledger   *ledgerRecorder
	inherits inheritance
	// failed is a job whose update failed in the last round; empty for none.
	failed string
	// refused are the jobs whose licences could not be changed.
	refused refusals
	// requeuing says that a job was being requeued at the last look.
	requeuing bool
}

// New returns a Controller.
func New(o Options) (*Controller, error) {
	c := &Controller{o: o, records: map[string]*track.Record{}, reported: map[string]string{}, refused: refusals{}}
	c.o.Planner = plan.ForSequence(o.Planner)
	if o.Ledger != nil && !o.DryRun {
		c.ledger = newLedgerRecorder(o.Ledger, o.Cluster, o.Measure, o.Log)
	}
	if _, learned := plan.KeptReserve(o.Planner); learned {
		learner, err := reserve.New(reserve.Default())
		if err != nil {
			return nil, err
		}
		c.round.Reserve = learner
	}
	return c, nil
}

// Run reconciles until the context ends. While Slurm does not answer, it goes on trying: jobs that wait start by their begin times.
func (c *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := c.o.Interval
		wake, err := c.Reconcile(ctx)
		if err == nil || !wake.IsZero() {
			wait = min(wait, max(shortest, wake.Sub(c.o.Clock.Now())))
		}
		if err != nil && ctx.Err() == nil {
			metrics.SlurmErrors.Inc()
			c.o.Log.Error("Reconciling failed; jobs that wait start by their begin times", "error", err.Error())
		}
		timer := c.o.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

// Reconcile observes, decides and applies once. It returns when to do so again at the latest; with an error, a zero time unless a job is being requeued.
func (c *Controller) Reconcile(ctx context.Context) (wake time.Time, err error) {
	q, err := c.o.Client.Observe(ctx)
	switch {
	case err != nil && c.requeuing: // Slurm may answer again before it starts the job by itself
		return c.o.Clock.Now().Add(followUp), err
	case err != nil:
		return time.Time{}, err
	}
	if err := q.Readable(); err != nil {
		c.o.Log.Error("Slurm answers in another form; the jobs of lines that cannot be read are left to Slurm", "error", err.Error())
	}
	in := c.o.Input
	in.Interval = c.o.Interval
	if c.o.Capacity != nil {
		in.Kept, in.Leaves = c.kept(), c.o.Capacity.leaves()
	}
	in.Now, in.Queue = c.o.Clock.Now().Round(0), q
	out := c.o.Outlook(in.Now)
	in.Carbon = out.Outlook
	c.inherits.hear(out.Basis)
	view := slurm.Observe(in)
	c.report(&q, &view)
	count(&view)
	var b *bounded
	if c.o.Capacity != nil {
		is := c.look(ctx, &in, &view)
		b = &is
		if err := c.enforce(ctx, b, in.Now); err != nil { // jobs then run within the capacity of before
			metrics.SlurmErrors.Inc()
			c.o.Log.Error("The capacity cannot be set", "error", err.Error())
		}
	}
	d := c.decide(ctx, &in, &view, b)
	changes := slurm.Plan(&view, &d)
	applied := map[string]bool{}
	err = c.apply(ctx, &view, &changes, applied)
	if c.ledger != nil {
		c.ledger.accounting.ask = asks(ctx, c.o.Client.Ends, math.MaxInt)
		if c.ledger.energies != nil {
			c.ledger.energies.ask = asks(ctx, c.o.Client.Energy, atOnce)
		}
		c.ledger.record(&in, &view, &d, applied)
	}
	c.requeuing = requeues(&view, &changes)
	switch soon := in.Now.Add(followUp); {
	case c.requeuing && (err != nil || soon.Before(d.Wake)):
		return soon, err
	case err != nil:
		return time.Time{}, err
	}
	return d.Wake, nil
}

// requeues reports whether a job is being requeued, or about to be.
func requeues(view *slurm.View, changes *slurm.Changes) bool {
	pausing := func(g slurm.Governed) bool { return g.Mark.Phase == slurm.Pausing }
	return len(changes.Pauses) > 0 || slices.ContainsFunc(view.Jobs, pausing)
}

// decide follows the plans that stand and makes those that are missing. If it cannot, the jobs run.
func (c *Controller) decide(ctx context.Context, in *slurm.Input, view *slurm.View, b *bounded) decide.Decision {
	s := &view.Snapshot
	r := &c.round
	r.Snapshot, r.Seen, r.Records = s, view.Seen, r.Records[:0]
	r.Rules = track.Rules{Forecast: c.outlooks.Name(s.Clusters, s.Now, threshold), Threshold: threshold}
	known := make(map[string]*track.Record, len(s.Tasks))
	for i := range s.Tasks {
		rec := c.records[s.Tasks[i].ID]
		if rec == nil {
			rec = c.restored(in, view, i)
		}
		known[s.Tasks[i].ID] = rec
		r.Records = append(r.Records, rec)
	}
	c.records = known
	r.Prepare()
	c.inherits.prepare(in, view, r)
	planner := c.o.Planner
	if b != nil {
		b.replan(c.o.Capacity, r, &c.inherits)
		planner = b.planner(c.o.Capacity, planner)
	}
	d, err := c.decideWithin(ctx, *s, planner)
	if err != nil {
		c.o.Log.Error("The planner failed; jobs that wait start now", "error", err.Error())
		return decide.RunAll(*s, decide.CodePlannerFailed)
	}
	for _, v := range decide.Verify(*s, d) {
		c.o.Log.Error("A decision breaks an invariant", "rule", v.Rule, "task", v.Task, "message", v.Message)
	}
	d.Wake = r.Keep(&d, nil)
	if b != nil && b.now.End().Before(d.Wake) {
		d.Wake = b.now.End()
	}
	return d
}

// decideWithin decides within the time that a decision may take.
func (c *Controller) decideWithin(ctx context.Context, s decide.Snapshot, planner plan.Planner) (decide.Decision, error) {
	limited, cancel := context.WithCancel(ctx) // a deadline would have planner joint search until then
	defer cancel()
	timer := time.AfterFunc(c.o.DecisionTime, cancel)
	d, err := decide.Decide(limited, s, planner)
	if timer.Stop() || err == nil || ctx.Err() != nil {
		return d, err
	}
	c.o.Log.Warn("The planner takes too long; another one plans", "jobs", len(s.Tasks), "limit", c.o.DecisionTime.String())
	return decide.Decide(ctx, s, c.o.Substitute)
}

// apply carries changes out, up to the first error: a Slurm that does not answer would keep each command waiting. What is left is tried again after
// the next observation. An update that failed goes last then, so that it does not keep the others from being made. It notes the jobs that were
// changed.
func (c *Controller) apply(ctx context.Context, view *slurm.View, changes *slurm.Changes, applied map[string]bool) error {
	if c.o.DryRun {
		for _, u := range append(changes.Updates, changes.Pauses...) {
			c.o.Log.Info("Would change jobs", "jobs", names(u.IDs), "begin", beginText(u), "throttle", throttleText(u), "tasks", tasksText(u), "licences", u.Licences, "adminComment", u.Comment)
		}
		c.o.Log.Info("Changed nothing (dry run)", "jobs", len(view.Jobs), "left", len(view.Left), "updates", len(changes.Updates), "pauses", len(changes.Pauses))
		return nil
	}
	before := c.failed
	c.failed = ""
	slices.SortStableFunc(changes.Updates, func(a, b slurm.Update) int { return last(&a, before) - last(&b, before) })
	licensed := map[string]int{}
	now := c.o.Clock.Now()
	for _, u := range changes.Updates {
		if u.Licences != "" && u.Size == 0 && c.refused.waits(u.IDs, now) {
			continue
		}
		err := c.update(ctx, &u, applied, licensed)
		if u.Size > 0 && slurm.Refused(err) && ctx.Err() == nil {
			err = c.refuse(ctx, &u, applied, licensed)
		}
		switch {
		case err != nil && u.Licences != "" && u.Size == 0 && ctx.Err() == nil: // Slurm may know one of them no more: the job is released all the same
			metrics.SlurmErrors.Inc()
			c.refused.refuse(u.IDs, now)
			c.o.Log.Error("The licences of a job cannot be changed; it keeps those that it has", "jobs", names(u.IDs), "licences", u.Licences, "error", err.Error())
		case err != nil:
			c.failed = u.IDs[0]
			return err
		case u.Licences != "":
			c.refused.accept(u.IDs)
		}
	}
	for _, p := range changes.Pauses {
		if err := c.change(ctx, &p); err != nil {
			return err
		}
		if len(p.IDs) == 0 {
			continue
		}
		if err := c.o.Client.Requeue(ctx, p.IDs); err != nil {
			return err
		}
		note(applied, &p, "requeued")
		c.o.Log.Info("Requeued jobs", "jobs", names(p.IDs), "adminComment", p.Comment)
	}
	if !changes.Empty() {
		c.o.Log.Info("Reconciled", "jobs", len(view.Jobs), "left", len(view.Left), "updates", len(changes.Updates), "pauses", len(changes.Pauses))
	}
	return nil
}

// update makes one change. The throttles of arrays are read again right before they are set, by one more command each: a user may have changed one since the
// look, and who changes it has it. licensed are the licences that jobs have been given before, by name; what is written of them says so.
func (c *Controller) update(ctx context.Context, u *slurm.Update, applied map[string]bool, licensed map[string]int) error {
	if u.Licences != "" {
		return c.license(ctx, u, applied, licensed)
	}
	for _, part := range u.Parts() {
		var now map[int]int
		if arrays := part.Arrays(); len(arrays) > 0 {
			var err error
			if now, err = c.o.Client.Throttles(ctx, arrays); err != nil {
				return err
			}
		}
		for _, of := range part.Split(now) {
			for _, marked := range of.Marked(licensed) {
				if err := c.make(ctx, &marked, applied); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// refuse makes a change again after Slurm has refused its number of tasks for at least one job. It makes the change job by job. If Slurm refuses the number for a
// job, it makes the other changes of that job, which keeps the tasks that it has from then on. It takes no licences back before that: Slurm may have changed
// the other jobs, which have their new licences and tasks.
func (c *Controller) refuse(ctx context.Context, u *slurm.Update, applied map[string]bool, licensed map[string]int) error {
	now := map[string]string{}
	if u.Licences != "" {
		var err error
		if now, err = c.o.Client.LicencesOf(ctx, u.IDs); err != nil {
			return err
		}
	}
	for _, id := range u.IDs {
		of := *u
		of.IDs = []string{id}
		again := of.Again(now[id])
		err := c.update(ctx, &again, applied, licensed)
		if slurm.Refused(err) && ctx.Err() == nil {
			metrics.SlurmErrors.Inc()
			c.o.Log.Error("Slurm has refused a number of tasks; the job keeps those that it has", "jobs", id, "tasks", u.Size, "error", err.Error())
			if err := c.unlicense(ctx, &of, applied, licensed); err != nil {
				return err
			}
			of = of.WithoutSize()
			err = c.update(ctx, &of, applied, licensed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unlicense gives jobs back their licences if Slurm has changed them, though it has refused the rest of an update.
func (c *Controller) unlicense(ctx context.Context, u *slurm.Update, applied map[string]bool, licensed map[string]int) error {
	before := u.WithLicencesOfBefore()
	if len(before.IDs) == 0 {
		return nil
	}
	return c.license(ctx, &before, applied, licensed)
}

// license sets licences of jobs, with all else of the update. The licences are read again right before: what somebody has changed since
// the look stays, and such a job is left as it is until the next look.
func (c *Controller) license(ctx context.Context, u *slurm.Update, applied map[string]bool, licensed map[string]int) error {
	now, err := c.o.Client.LicencesOf(ctx, u.IDs)
	if err != nil {
		return err
	}
	for _, of := range u.Relicense(now) {
		if err := c.make(ctx, &of, applied); err != nil {
			return err
		}
		for _, id := range of.IDs {
			licensed[id] = of.Licensed
		}
	}
	return nil
}

// make makes a change, and notes it.
func (c *Controller) make(ctx context.Context, u *slurm.Update, applied map[string]bool) error {
	if err := c.change(ctx, u); err != nil || len(u.IDs) == 0 {
		return err
	}
	note(applied, u, change(u))
	c.reportLeft(u)
	c.o.Log.Info("Changed jobs", "jobs", names(u.IDs), "begin", beginText(*u), "throttle", throttleText(*u), "tasks", tasksText(*u), "licences", u.Licences, "adminComment", u.Comment)
	return nil
}

// change updates jobs, and leaves those in the update that were changed: others have started or ended since the look, and the next one sees them as they are.
func (c *Controller) change(ctx context.Context, u *slurm.Update) error {
	err := c.o.Client.Update(ctx, *u)
	var raced *slurm.RacedError
	if !errors.As(err, &raced) {
		return err
	}
	u.IDs = slices.DeleteFunc(slices.Clone(u.IDs), func(id string) bool { return slices.Contains(raced.IDs, id) })
	return nil
}

// note counts a change. What is decided of a job is not yet applied when it has its licences.
func note(applied map[string]bool, u *slurm.Update, change string) {
	for _, id := range u.IDs {
		if u.Licences == "" || u.Size > 0 {
			applied[id] = true
		}
	}
	metrics.SlurmChanges.WithLabelValues(change).Add(float64(len(u.IDs)))
}

// change names a change in metrics.
func change(u *slurm.Update) string {
	switch {
	case u.Left != "":
		return "left"
	case u.Now:
		return "released"
	case !u.Begin.IsZero():
		return "held"
	case u.Throttle != nil:
		return "throttled"
	case u.Licences != "":
		return "licences"
	}
	return "noted"
}

// count tells the metrics what Lull does with the jobs.
func count(view *slurm.View) {
	waiting, running := 0, 0
	for i := range view.Jobs {
		g := &view.Jobs[i]
		if g.Scale != nil {
			running += len(g.Scale.Running)
		}
		if g.Job.Pending() {
			waiting++
		} else {
			running++
		}
	}
	metrics.SlurmJobs.WithLabelValues("waiting").Set(float64(waiting))
	metrics.SlurmJobs.WithLabelValues("running").Set(float64(running))
	metrics.SlurmJobs.WithLabelValues("left").Set(float64(len(view.Left)))
}

// last is 1 for the update of a job that failed before.
func last(u *slurm.Update, failed string) int {
	if failed != "" && slices.Contains(u.IDs, failed) {
		return 1
	}
	return 0
}

// mostNames bounds the list of jobs in a line of the log.
const mostNames = 20

func names(ids []string) string {
	if len(ids) > mostNames {
		return strings.Join(ids[:mostNames], ",") + ",..."
	}
	return strings.Join(ids, ",")
}

func throttleText(u slurm.Update) string {
	if u.Throttle == nil {
		return ""
	}
	return strconv.Itoa(*u.Throttle)
}

func tasksText(u slurm.Update) string {
	if u.Size == 0 {
		return ""
	}
	return strconv.Itoa(u.Size)
}

func beginText(u slurm.Update) string {
	switch {
	case u.Now:
		return "now"
	case u.Begin.IsZero():
		return ""
	}
	return u.Begin.UTC().Format(time.RFC3339)
}

// report logs, once each, lines that cannot be read, and jobs that may wait and are left to Slurm.
func (c *Controller) report(q *slurm.Queue, view *slurm.View) {
	now := map[string]string{}
	tell := func(key, why, message string, args ...any) {
		if now[key] = why; c.reported[key] != why {
			c.o.Log.Info(message, args...)
		}
	}
	for _, b := range q.Bad {
		tell("line "+b.Line, b.Err.Error(), "Cannot read a line; its job is left to Slurm", "begins", b.Line, "error", b.Err.Error())
	}
	for _, l := range view.Left {
		if l.Why != slurm.NotOptedIn && l.Why != slurm.NoSlack {
			tell(l.Job.ID, string(l.Why), "Left a job to Slurm", "job", l.Job.ID, "reason", l.Why, "message", l.Message, "begin", l.Job.Begin)
		}
	}
	c.reported = now
}
