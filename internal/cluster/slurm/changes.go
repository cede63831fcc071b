package slurm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/pkg/decide"
)

// Update is one change of the begin time or the AdminComment of jobs.
type Update struct {
	IDs []string
	// Begin is the begin time to set; zero leaves it. Now lets the jobs start now.
	Begin time.Time
	Now   bool
	// Throttle is how many tasks of an array may run at a time, 0 for all; nil leaves it.
	Throttle *int
	// Size is how many tasks a job is to have (--ntasks), with CPUs in all; 0 leaves both.
	Size, CPUs int
	// Licences are all that the jobs ask for; empty leaves them.
	Licences string
	// SawLicences are those that the decision rests on, if Licences sets others. See Relicense.
	SawLicences string
	// Licensed is how many of the bound Licences are. The other updates of the jobs state it only if this one is made. See Marked.
	Licensed int
	// Comment is the AdminComment; empty leaves it.
	Comment string
	// Saw is the throttle that the decision rests on, if Throttle sets another one. If there is a third one by now, its user has set that: it stays, and
	// Otherwise is the AdminComment. See Split.
	Saw       int
	Otherwise string
	// Left says why Lull leaves jobs to Slurm that it releases; empty for others.
	Left Why
}

// Changes are what a decision changes, in the order in which to carry them out.
type Changes struct {
	Updates []Update
	// Pauses are the jobs to be requeued after their AdminComment says so: a job whose comment cannot be written is not paused.
	Pauses []Update
}

// Empty reports whether nothing is to be changed.
func (c *Changes) Empty() bool { return len(c.Updates) == 0 && len(c.Pauses) == 0 }

// rounding is by how much a begin time may differ from the one that is wanted.
const rounding = time.Second

// Plan says what a decision on a view changes. A job that is as the decision wants it is left as it is.
//
//   - A job that waits gets the time of its plan as its begin time, or its latest safe start if that is earlier, or if it has no plan:
//     Slurm starts it then, with or without Lull.
//   - A job that is released gets the begin time now; once more if the clocks were set back before it.
//   - A running job that is paused is requeued. Until the next look it has the begin time that Slurm sets, two minutes ahead.
//   - A job that waits for other jobs gets its latest safe start.
//   - A job that is left to Slurm while it has a begin time of Lull or of job_submit.lua is released.
//   - A job whose begin time somebody else has changed keeps it, and gets a mark that says so.
//   - A job that waits, and has fewer licences of the bound than CPUs, gets one for each, unless an operator has lowered them since Lull or job_submit.lua set them.
//   - A job whose size is set gets, while it waits, the number of tasks of the plan, or a larger one with which it would end in time without Lull. If it runs, it is
//     requeued, and gets them at the next look. Its licences of the bound follow, in the same update.
//   - An array that is scaled gets the throttle of the plan, or a larger one with which it would end in time without Lull. One that waits, or is not scaled any
//     more, gets back that of its user.
//
// Jobs that need the same change share an update.
func Plan(v *View, d *decide.Decision) Changes {
	c := changes{starts: starts(v, d), licence: v.places.licence, most: int(v.Snapshot.Clusters[0].Capacity[LicenceResource])}
	now := v.Snapshot.Now
	for _, i := range d.Order {
		g, t, a := &v.Jobs[i], &v.Snapshot.Tasks[i], &d.Actions[i]
		c.licences(g)
		if c.unscale(g) || c.unsize(g) {
			continue
		}
		if g.Size != nil {
			c.size(g, t, a, now)
			continue
		}
		if g.Scale != nil {
			c.scale(g, a, now)
			continue
		}
		switch a.Verb {
		case decide.Wait:
			c.wait(g, now, planned(g, a, now), a.Reason.Code)
		case decide.Pause:
			if g.Job.Pending() {
				c.wait(g, now, planned(g, a, now), a.Reason.Code)
			} else if !t.Changing && g.Latest.After(now) && g.pace == 0 {
				c.pause(g, t, now, a)
			}
		case decide.Release, decide.Resume:
			c.release(g, now, a)
		case decide.Continue:
			if (g.Mark.Phase != Released || g.ahead(now) || g.wasLeft()) && !t.Changing {
				c.release(g, now, a)
			}
		}
	}
	for i := range v.Dependent {
		g := &v.Dependent[i]
		c.licences(g)
		c.wait(g, now, g.Latest, codeDepends)
	}
	dependent := v.Dependent
	for i := range v.Left {
		waits := len(dependent) > 0 && dependent[0].Job == v.Left[i].Job
		if waits {
			dependent = dependent[1:]
		}
		c.left(&v.Left[i], waits, now)
	}
	slices.SortStableFunc(c.Updates, func(a, b Update) int { return order(&a) - order(&b) })
	return c.Changes
}

// order puts releases first: should Slurm stop answering midway, no job that may start waits. Licences come before the release of their job.
func order(u *Update) int {
	switch {
	case u.Licences != "" && u.Size == 0:
		return 0
	case u.Now:
		return 1
	}
	return 2
}

// codeDepends is the reason of a job that waits for other jobs first.
const codeDepends decide.Code = "Depends"

// textLeft is in what the mark of a job says that is left to Slurm.
const textLeft = "left to Slurm"

// textDepends begins what the mark of such a job says.
const textDepends = "waits for other jobs"

// planned is the begin time of a job that waits.
func planned(g *Governed, a *decide.Action, now time.Time) time.Time {
	at := a.Reason.PlannedStart
	if keeps := a.Keeps(); len(keeps) > 0 && keeps[0].From.After(now) {
		at = keeps[0].From
	}
	if !at.After(now) || at.After(g.Latest) {
		at = g.Latest
	}
	return at.Truncate(time.Second) // the grain of Slurm
}

// changes collects updates that are the same.
type changes struct {
	Changes
	at map[change]int
	// starts says that a job may take room which another one leaves for a moment: one starts now, or is being requeued.
	starts bool
	// licence is the name of the licence that bounds the capacity, and most is how many of it there are; empty without a capacity.
	licence string
	most    int
}

// change is what updates that are the same have in common.
type change struct {
	begin    int64
	now      bool
	throttle int // -1 for none
	size     int
	saw      int
	licences string
	had      string
	comment  string
}

func (c *changes) add(id string, u Update) {
	key := change{now: u.Now, throttle: -1, size: u.Size, licences: u.Licences, had: u.SawLicences, comment: u.Comment}
	if u.Throttle != nil {
		key.throttle, key.saw = *u.Throttle, u.Saw
	}
	if !u.Begin.IsZero() {
		key.begin = u.Begin.Unix()
	}
	if i, known := c.at[key]; known {
		c.Updates[i].IDs = append(c.Updates[i].IDs, id)
		return
	}
	if c.at == nil {
		c.at = map[change]int{}
	}
	c.at[key] = len(c.Updates)
	u.IDs = []string{id}
	c.Updates = append(c.Updates, u)
}

// reasons say what a job waits for.
var reasons = map[decide.Code]string{
	decide.CodeCleanerLater:   "for cleaner power",
	decide.CodeSharedCapacity: "by the plan of all jobs that share the cluster",
	decide.CodeClusterQueue:   "as the queue is full",
	decide.CodeDeadlineAtRisk: "for room",
	decide.CodeTooSoon:        "as it was paused a moment ago",
	codeDepends:               "for other jobs",
}

// clock is a time as people read it. The minute that has begun is not later than the time itself.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04Z") }

// wait sets the begin time of a job.
func (c *changes) wait(g *Governed, now, begin time.Time, code decide.Code) {
	c.waitWith(g, now, begin, code, 0)
}

// waitWith sets the begin time of a job, and its number of tasks; 0 leaves that.
func (c *changes) waitWith(g *Governed, now, begin time.Time, code decide.Code, tasks int) {
	if !begin.After(now) {
		c.startNow(g, now)
		return
	}
	m := g.next(Held)
	if g.paused() || !m.Since.IsZero() {
		m.Phase = Paused
	}
	m.Begin = begin
	why := reasons[code]
	if why == "" {
		why = "by its plan"
	}
	m.Text = fmt.Sprintf("%s %s %s; starts by %s at the latest", textWaits, clock(begin), why, clock(g.Latest))
	if code == codeDepends {
		m.Text = fmt.Sprintf("%s, then for cleaner power; starts by %s at the latest", textDepends, clock(g.Latest))
	}
	u := Update{Begin: begin}
	if tasks > 0 {
		m.Text += g.Size.withTasks(tasks)
		c.resize(&u, g, &m, tasks)
	}
	same := u.Size == 0 && g.Job.Begin.Sub(begin).Abs() <= rounding && g.Mark.Phase == m.Phase && g.Mark.Begin.Equal(g.Job.Begin)
	if same && g.Mark.Text == m.Text && m.Set == 0 {
		return
	}
	u.throttle(g.Job, restore(g.Job, &m), m, m.Text)
	c.add(g.Job.ID, u)
}

// left changes a job that Lull does not plan. One whose begin time somebody else has changed gets a note of that: without it nobody could tell once that time
// has come. One that waits by a begin time of Lull or of job_submit.lua, such as one whose comment cannot be read, is released: what nobody plans must not wait.
// A job that is held, or that waits for other jobs, does not start. An array gets back the throttle of its user. What is wrong with a comment is noted, so that the
// user can read it after the end too. If the comment is mended, and the job is left to Slurm all the same, the note says why. A job that waits for other jobs,
// and for clean power after them, has the mark of wait instead.
func (c *changes) left(l *Left, waits bool, now time.Time) {
	j, m, u := l.Job, l.mark, Update{}
	switch {
	case l.Why == BeginChanged && m.Phase != HandedOver:
		m.Phase, m.Begin, m.Text = HandedOver, time.Time{}, textLeft+": "+l.Message
	case l.releases(now):
		m.Phase, m.Begin, u.Now, u.Left = Released, time.Time{}, true, l.Why
		text := fmt.Sprintf("released at %s: %s (%s)", clock(now), textLeft, l.Why)
		if why := text + ": " + clippedTo(l.Message, mostReason); l.Why == BadComment && m.fitsWith(why) {
			text = why
		}
		m.Text = text
	case l.notes(), !waits && l.mended():
		if m.Text = l.note(); m.Phase == "" {
			m.Phase = Noted
		}
	case m.Set == 0 && !m.givesBack(j) || !j.Pending():
		return
	}
	c.giveBack(&u, j, &m)
	u.throttle(j, restore(j, &m), m, m.Text)
	c.add(j.ID, u)
}

// fitsWith reports whether squeue shows all of a mark with a text, also if it gets the number of tasks that the job had before (was=).
func (m *Mark) fitsWith(text string) bool {
	return len(m.String())-len(m.Text)+len(text)+len("was=512 ") < adminWidth
}

// mostReason bounds what the mark of a job says of its comment: squeue shows adminWidth characters.
const mostReason = 150

// note is the text of a mark that says why a job is left to Slurm.
func (l *Left) note() string { return textLeft + ": " + clippedTo(l.Message, mostReason) }

// notes reports whether the mark of a job is to say what is wrong with its comment, and does not yet, or says what was wrong with another one. Of an array,
// only the tasks that have not started get the note: each other one would need an update.
func (l *Left) notes() bool {
	j, m := l.Job, &l.mark
	alive := j.Pending() || j.uses() && j.State != stateCompleting && !j.ofArray()
	said := strings.Contains(m.Text, textLeft) && strings.HasSuffix(m.Text, ": "+clippedTo(l.Message, mostReason))
	return l.Why == BadComment && alive && m.Phase != Pausing && !said && m.fitsWith(l.note())
}

// mended reports whether a note is to say why a job whose comment can be read is left to Slurm all the same, and says something else. A job whose begin time
// somebody has changed may have got a note on its comment since.
func (l *Left) mended() bool {
	m := &l.mark
	noted := m.Phase == Noted && l.Why != BadComment || m.Phase == HandedOver && l.Why == BeginChanged
	return noted && l.Job.Pending() && m.Text != l.note() && m.fitsWith(l.note())
}

func (l *Left) releases(now time.Time) bool {
	switch l.Why {
	case NotOptedIn, NoSlack, BadComment, Heterogeneous, Interactive, TooLong, Invalid:
	default:
		return false
	}
	j, m := l.Job, &l.mark
	return (m.Phase == Held || m.Phase == Paused) && j.Pending() && !j.Held() && j.Begin.After(now) && j.Begin.Equal(m.Begin)
}

// startNow pulls back the begin time of a job whose latest safe start has come, such as after a change of its time limit.
func (c *changes) startNow(g *Governed, now time.Time) {
	if !g.Job.Begin.After(now) {
		return // it starts as it is
	}
	m := g.next(Released)
	m.Begin = now
	m.Text = fmt.Sprintf("released at %s: its latest safe start was %s", clock(now), clock(g.Latest))
	c.add(g.Job.ID, Update{Now: true, Comment: m.String()})
}

// wasLeft reports whether the mark of a job says that it is left to Slurm, which is so no more: its user has mended its comment.
func (g *Governed) wasLeft() bool { return strings.Contains(g.Mark.Text, textLeft) }

// ahead reports whether a job would wait for its begin time.
func (g *Governed) ahead(now time.Time) bool { return g.Job.Pending() && g.Job.Begin.After(now) }

// settles is how long after a requeue a job is not started: Slurm 22.05 may still remove the script of its last run, and the job then fails at once (seen on starts in
// the second of the requeue).
const settles = 5 * time.Second

// justRequeued reports whether a job was requeued a moment ago. Its submission is the time of its requeue.
func (g *Governed) justRequeued(now time.Time) bool {
	return g.Job.Pending() && g.Mark.Phase == Pausing && g.Job.Restarts > 0 && now.Sub(g.Job.Submitted).Abs() < settles &&
		!g.Job.Begin.After(g.Job.Submitted.Add(3*time.Minute)) // Slurm starts it by itself
}

// release lets a job start now, and notes that. Also one whose begin time has come gets the begin time now: Slurm looks at begin times once in
// a minute by default, but at once at a job that is changed.
func (c *changes) release(g *Governed, now time.Time, a *decide.Action) {
	if g.Mark.Phase == Released && !g.ahead(now) && !g.wasLeft() || g.justRequeued(now) {
		return
	}
	m := g.next(Released)
	why := Message(&a.Reason)
	m.Text = fmt.Sprintf("released at %s: %s", clock(now), clippedTo(why, 150))
	if g.Size != nil {
		m.Text = fmt.Sprintf("released at %s%s: %s", clock(now), g.Size.withTasks(g.Size.Now), clippedTo(why, mostWords))
	}
	u := Update{Now: g.Job.Pending()}
	if u.Now {
		m.Begin = now
	}
	u.Comment = m.String()
	c.add(g.Job.ID, u)
}

// clippedTo is a text of so many bytes at most.
func clippedTo(text string, most int) string {
	return strings.ToValidUTF8(text[:min(most, len(text))], "")
}

// Message says a reason in the words of Slurm.
func Message(r *decide.Reason) string {
	switch r.Code {
	case decide.CodeUnscheduled:
		return "waits in the queue of Slurm"
	case decide.CodeNoRoom:
		return "other jobs leave no room for it in time, so it waits in the queue of Slurm"
	}
	return r.Message()
}

// pause requeues a running job.
func (c *changes) pause(g *Governed, t *decide.Task, now time.Time, a *decide.Action) {
	m := g.requeued()
	if g.Size == nil {
		m.Ran = max(0, now.Sub(g.Job.Started)-t.AtRisk)
	}
	m.Text = "is paused at " + clock(now)
	if at := a.Reason.PlannedStart; at.After(now) {
		m.Text += fmt.Sprintf(", goes on at %s", clock(at))
	}
	m.Text += fmt.Sprintf(", by %s at the latest", clock(g.Latest))
	c.Pauses = append(c.Pauses, Update{IDs: []string{g.Job.ID}, Comment: m.String()})
}

// requeued is the mark of a job that is about to be requeued.
func (g *Governed) requeued() Mark {
	m := g.next(Pausing)
	m.Since, m.Runs = g.Submitted(), g.Job.Restarts
	if g.Size != nil {
		m.Ran = g.Size.runSaved
	}
	return m
}

// next is the mark of a job in another phase.
func (g *Governed) next(p Phase) Mark {
	m := Mark{Phase: p, Since: g.Mark.Since, Done: g.saved(), Before: g.Mark.Before, Limit: g.Mark.Limit, Set: g.Mark.Set, Of: g.Mark.Of, Own: g.Mark.Own, Licences: g.Mark.Licences}
	m.Size, m.User, m.Each, m.Kept = g.Mark.Size, g.Mark.User, g.Mark.Each, g.Mark.Kept
	if s := g.Size; s != nil {
		m.Size, m.User, m.Each, m.Kept = s.Now, s.User, s.Each, "" // not the size of Mark.Was
		if s.bound != "" {
			m.Licences = g.Job.CPUs
		}
	}
	if g.Scale != nil {
		m.Of = g.Scale.Of
	}
	return m
}

// Jobs lists the jobs that are changed.
func (c *Changes) Jobs() []string {
	var out []string
	for i := range c.Updates {
		out = append(out, c.Updates[i].IDs...)
	}
	for i := range c.Pauses {
		out = append(out, c.Pauses[i].IDs...)
	}
	slices.Sort(out)
	return out
}
