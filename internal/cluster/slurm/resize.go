package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lull.dev/lull/pkg/decide"
)

// mostWords bounds the reason in the mark of a job whose size Lull sets: squeue shows adminWidth characters.
const mostWords = 90

// queuedFor is how long a job waits in the queue for a node with room for all of its tasks before it gets as many as find room.
const queuedFor = 2 * time.Minute

// keptMessages say why Lull sets no number of tasks any more.
var keptMessages = map[Kept]string{
	OwnSize:        "its number of tasks stays as its user or an operator has set it",
	RefusedSize:    "its number of tasks stays as it is, since Slurm has refused another one",
	UnlicensedSize: "its number of tasks stays as it is, since its licences did not follow another number",
	LimitSize:      "it keeps all of its tasks, since a run with fewer saved no work before its time limit",
}

// starts reports whether a decision starts a job now, or a job is being requeued, which needs the room that it had or more.
func starts(v *View, d *decide.Decision) bool {
	for _, i := range d.Order {
		if v.Snapshot.Tasks[i].Changing {
			return true
		}
		if a := &d.Actions[i]; (a.Verb == decide.Release || a.Verb == decide.Resume) && v.Jobs[i].Job.Pending() {
			return true
		}
	}
	return false
}

// resize sets the number of tasks of a job that waits, and its licences of the capacity, in an update and in the mark.
func (c *changes) resize(u *Update, g *Governed, m *Mark, n int) {
	s := g.Size
	if m.Size, m.Was = n, 0; n != s.Now {
		u.Size, u.CPUs, m.Was = n, n*s.Each, s.Now
		c.follow(u, g.Job, m, u.CPUs)
	}
}

// withTasks says with how many tasks a job runs; nothing if it is as many as its user asked for.
func (s *Size) withTasks(n int) string {
	if n >= s.User {
		return ""
	}
	return fmt.Sprintf(", with %d of its %d tasks", n, s.User)
}

// withoutTasks is a text of a mark without what withTasks has said.
func withoutTasks(text string) string {
	if i := strings.LastIndex(text, ", with "); i >= 0 && strings.Contains(text[i:], "of its") {
		_, after, _ := strings.Cut(text[i:], "tasks")
		return text[:i] + after
	}
	return text
}

// size carries out what is decided on a job that may have fewer tasks than its user asked for.
func (c *changes) size(g *Governed, t *decide.Task, a *decide.Action, now time.Time) {
	s := g.Size
	blind := a.Reason.Code == decide.CodePlannerFailed || a.Reason.Code == decide.CodeNoCarbonData
	if !g.Job.Pending() {
		if !t.Changing {
			c.sizeOfRunning(g, t, a, now, blind)
		}
		return
	}
	if a.Verb == decide.Wait || a.Verb == decide.Pause {
		if begin := planned(g, a, now); begin.After(now) {
			wanted := s.User
			if keeps := a.Keeps(); len(keeps) > 0 {
				wanted = s.wanted(keeps[0].Workers)
			}
			c.waitWith(g, now, begin, a.Reason.Code, s.need(wanted, begin, s.restarts(g)))
			return
		}
		blind = true // its latest safe start has come
	}
	wanted, queued := s.wanted(a.Workers), g.Mark.Phase == Released && !g.ahead(now)
	if queued {
		wanted = s.queued(g, wanted, now)
	}
	n := s.User
	if !blind {
		n = s.need(wanted, now, s.restarts(g))
	}
	if g.Job.Restarts > 0 { // with fewer tasks than it needs, it ends late, but goes on; one that has not started waits for the licences
		n = s.within(n)
	}
	if queued && (n == s.Now || n < s.Now && n > s.fits) || g.justRequeued(now) {
		return
	}
	m := g.next(Released)
	m.Begin = now
	m.Text = fmt.Sprintf("released at %s%s: %s", clock(now), s.withTasks(n), clippedTo(Message(&a.Reason), mostWords))
	u := Update{Now: true}
	c.resize(&u, g, &m, n)
	u.Comment = m.String()
	c.add(g.Job.ID, u)
}

// queued is how many tasks are wanted for a job in the queue of Slurm: as many as it has, or as find room on a node if it has waited for a while. One that waits for licences
// of the capacity gets as many as the plan wants, if these are fewer.
func (s *Size) queued(g *Governed, planned int, now time.Time) int {
	if g.lacksLicences() {
		return min(planned, s.Now)
	}
	if g.Job.Reason == reasonResources && !s.crowded && s.fits >= s.Least*s.Step && s.fits < s.Now && !g.Mark.Begin.IsZero() && now.Sub(g.Mark.Begin) >= queuedFor {
		return s.tasks(s.workers(s.fits))
	}
	return s.Now
}

// lacksLicences reports whether a job whose number of tasks Lull sets waits in the queue of Slurm for licences, which that number may change.
func (g *Governed) lacksLicences() bool {
	return g.Size.bound != "" && g.Job.Pending() && strings.HasPrefix(g.Job.Reason, reasonLicences)
}

// beyond reports whether a plan pauses a job to go on with more tasks than an operator leaves licences for. The job could not get them: it would be paused again and again.
func (s *Size) beyond(a *decide.Action) bool {
	keeps := a.Keeps()
	return s.leaves > 0 && len(keeps) > 0 && s.tasks(keeps[0].Workers) > s.leaves
}

// sizeOfRunning requeues a running job that is to be paused, or to go on with another number of tasks: one in a look, as it needs the room that it leaves.
func (c *changes) sizeOfRunning(g *Governed, t *decide.Task, a *decide.Action, now time.Time, blind bool) {
	s := g.Size
	if a.Verb == decide.Pause && g.Latest.After(now) && s.mayPause(now) && !s.beyond(a) {
		s.requeues = true
		c.pause(g, t, now, a)
		return
	}
	n := s.Now
	if a.Verb == decide.Scale && !blind && !c.starts {
		n = s.resized(s.wanted(a.Workers), now)
	}
	near, kept := s.limitNear(g.saved()), Kept("")
	switch {
	case near && s.saves():
		n = s.within(s.User)
	case near: // if an operator leaves no licences for all of its tasks, it waits for them
		n, kept = s.User, LimitSize
	}
	if n != s.Now || near { // also with as many tasks: after a requeue, Slurm counts the time limit anew
		c.starts, s.requeues = true, true
		m := g.requeued()
		m.To, m.Kept = n, kept
		m.Text = fmt.Sprintf("stops at %s to go on with %d of its %d tasks", clock(now), n, s.User)
		c.Pauses = append(c.Pauses, Update{IDs: []string{g.Job.ID}, Comment: m.String()})
		return
	}
	if g.Mark.Phase != Released {
		c.release(g, now, a)
	}
}

// unsize gives back the tasks of a job that waits and is not sized any more, or notes that its user has changed their number.
func (c *changes) unsize(g *Governed) bool {
	if g.Size != nil || g.Mark.Size == 0 || !g.Mark.gives() || !g.Job.Pending() {
		return false
	}
	u, m, changed := Update{}, g.Mark, true
	if !m.ofLull(g.Job) {
		m.Kept, m.Size, m.Was = OwnSize, 0, 0
	} else if changed = c.giveBack(&u, g.Job, &m); changed && g.unsized == unlicensed { // else, it would be sized again at the next look
		m.Kept, m.Text = UnlicensedSize, withoutTasks(m.Text)
	}
	if changed {
		u.Comment = m.String()
		c.add(g.Job.ID, u)
	}
	return changed
}

// gives reports whether a job may get back the tasks that its user asked for.
func (m *Mark) gives() bool { return m.Kept == "" || m.Kept == LimitSize }

// givesBack reports whether a job waits with another number of tasks than its user asked for, from Lull.
func (m *Mark) givesBack(j *Job) bool {
	return m.Size > 0 && m.Size != m.User && m.gives() && j.Pending() && m.ofLull(j)
}

// giveBack gives a job that waits the tasks that its user asked for, and the licences of the capacity for them, if it has another number from Lull. It reports whether it
// does.
func (c *changes) giveBack(u *Update, j *Job, m *Mark) bool {
	if !m.givesBack(j) {
		return false
	}
	u.Size, u.CPUs = m.User, m.User*m.Each
	c.follow(u, j, m, u.CPUs)
	m.Was, m.Size = m.Size, m.User
	return true
}

// Refused reports whether Slurm has refused an update, rather than not answered.
func Refused(err error) bool {
	if !errors.Is(err, ErrCommand) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	for _, text := range []string{"Unable to contact", "Socket timed out", "Connection refused", "ermission denied", "Zero Bytes", "Message send failure", "Message receive failure", "authentication error", "temporarily unavailable", "backup controller", "standby mode"} {
		if strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}

// WithoutSize is an update of a job whose number of tasks Slurm has refused: all else of it, and a note that Lull sets none any more.
func (u Update) WithoutSize() Update {
	m := ReadMark(u.Comment)
	m.Size, m.Was, m.Kept = m.Was, 0, RefusedSize
	m.Text = withoutTasks(m.Text)
	if u.Licences != "" {
		m.Licences = u.licensedBefore()
	}
	u.Size, u.CPUs, u.Licences, u.SawLicences, u.Licensed, u.Comment = 0, 0, "", "", 0, m.String()
	return u
}

// Sized is a job as the ledger has it whose number of tasks Lull may change, or might: how many its user asked for, and the share of its work that they do side by
// side. ok is false for other jobs.
func (g *Governed) Sized() (tasks int, parallel float64, ok bool) {
	tasks = g.Mark.User
	if g.Size != nil {
		tasks = g.Size.User
	}
	parallel = g.Options.Parallel
	if parallel == 0 {
		parallel = 1
	}
	return tasks, parallel, tasks > 0 && g.Job.Size > 0 && !g.Job.ofArray()
}

// AsSubmitted is the job with as many tasks as its user asked for.
func (g *Governed) AsSubmitted() *Job {
	j := *g.Job
	switch tasks, _, sized := g.Sized(); {
	case !sized:
	case g.Size != nil:
		j.Size, j.CPUs = tasks, tasks*g.Size.Each
		if g.Size.bound != "" {
			j.Licences = withCount(j.Licences, g.Size.bound, j.CPUs)
		}
	default:
		j.Size, j.CPUs = tasks, tasks*g.Mark.Each
	}
	if !j.Pending() && g.Job.Size > 0 { // of a job that waits, Slurm states the memory that it was submitted with
		j.Memory = int64(float64(j.Memory) * float64(j.Size) / float64(g.Job.Size))
	}
	return &j
}
