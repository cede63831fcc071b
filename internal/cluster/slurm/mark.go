package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Phase is what Lull has done to a job.
type Phase string

// The phases of a job. A job without a mark has none.
const (
	// Held: its begin time is Lull's, or that of job_submit.lua.
	Held Phase = "held"
	// Released: its begin time has come, or Lull has set it to now.
	Released Phase = "released"
	// Pausing: it is about to be requeued, or has been, and its begin time is still that of Slurm.
	Pausing Phase = "pausing"
	// Paused: it has been requeued, and its begin time is Lull's.
	Paused Phase = "paused"
	// HandedOver: somebody else has given it another begin time. Lull leaves it to Slurm from then on.
	HandedOver Phase = "left"
	// Noted: Lull has changed nothing of it. The mark only says why the job is left to Slurm, such as what is wrong with its comment.
	Noted Phase = "noted"
)

// Mark is what Lull keeps of a job in its AdminComment, behind the words that people read:
//
//	lull: waits until 2026-06-01T13:00Z for cleaner power; starts by 2026-06-01T17:00Z at the latest [begin=1780318800 phase=held]
//
// Users cannot change an AdminComment.
type Mark struct {
	Phase Phase
	// Begin is the begin time that was set. If the job has another one, somebody else has set that. With Released, it is when Lull has released the job; zero if it
	// has not, as the time had come by itself.
	Begin time.Time
	// Since is when the job was submitted: Slurm states the time of its last requeue. Zero if it was never paused.
	Since time.Time
	// Done is the work that earlier runs have saved, as run time. With Pausing, Ran is what the present run adds to it once the job has
	// been requeued, which it is when it has more than Runs restarts.
	Done, Ran time.Duration
	Runs      int
	// Set is the throttle that Lull has given an array instead of Limit, which is that of its user (0 for none); 0 if it has that. Of is how many tasks the
	// array had. Own says that its user has changed the throttle since: Lull sets none any more.
	Limit, Set, Of int
	Own            bool
	// Size is how many tasks Lull has given a job that is no array, instead of User, which is how many its user asked for, with Each CPUs each; 0 if it has those.
	// Was is how many it had when Lull set Size: a job that has started just then keeps those. To is how many it is to have after the requeue of Pausing. User and Each
	// stay once they are known. Kept says why Lull sets no number any more; empty if it does.
	Size, User, Each, Was, To int
	Kept                      Kept
	// Licences are how many of the bound Lull or job_submit.lua has last set at least, one for each CPU; 0 if neither has. If the job has fewer, an operator has taken
	// them away: to its user, job_submit.lua leaves as many.
	Licences int
	// Text is what people read.
	Text string
	// Before is what others have written into the AdminComment. It is kept.
	Before string
}

const markWord = "lull: "

// untouched reports whether Lull has changed nothing of the job, and job_submit.lua has not either: its begin time is Slurm's or its user's.
func (m *Mark) untouched() bool { return m.Phase == "" || m.Phase == Noted }

// Kept says why Lull leaves the number of tasks of a job as it is from now on.
type Kept string

// The reasons for which Lull sets no number of tasks any more.
const (
	// OwnSize: the user of the job, or an operator, has changed the number of its tasks or CPUs since Lull set it.
	OwnSize Kept = "own"
	// RefusedSize: Slurm has refused a number of tasks.
	RefusedSize Kept = "refused"
	// UnlicensedSize: the licences of the capacity have not followed the number of tasks that Lull has set, as an operator has lowered them or the site keeps them.
	UnlicensedSize Kept = "licences"
	// LimitSize: a run with fewer tasks has saved no work before its time limit. With as few, it would be requeued for ever and gain nothing: it has all of them.
	LimitSize Kept = "limit"
)

// ReadMark reads an AdminComment. One that has no mark, or one that cannot be read, is all Before.
func ReadMark(comment string) Mark {
	none := Mark{Before: comment}
	at := strings.LastIndex(comment, markWord)
	if at < 0 {
		return none
	}
	m := Mark{Before: strings.TrimSuffix(comment[:at], " ")}
	text, state, found := cutLast(comment[at+len(markWord):], " [")
	if !found || !strings.HasSuffix(state, "]") {
		return none
	}
	m.Text = text
	for _, field := range strings.Fields(strings.TrimSuffix(state, "]")) {
		key, value, _ := strings.Cut(field, "=")
		if key == "phase" {
			m.Phase = Phase(value)
			continue
		}
		if key == "tasks" {
			if k := Kept(value); keptMessages[k] != "" {
				m.Kept = k
			}
			continue
		}
		if key == "throttle" {
			m.Own = value == "own"
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n > mostUnix {
			return none
		}
		switch key {
		case "begin":
			m.Begin = time.Unix(n, 0).UTC()
		case "since":
			m.Since = time.Unix(n, 0).UTC()
		case "done":
			m.Done = seconds(n)
		case "ran":
			m.Ran = seconds(n)
		case "runs":
			m.Runs = int(n)
		case "limit":
			m.Limit = int(min(n, mostTasks))
		case "set":
			m.Set = int(min(n, mostTasks))
		case "size", "user", "each", "was", "to":
			*map[string]*int{"size": &m.Size, "user": &m.User, "each": &m.Each, "was": &m.Was, "to": &m.To}[key] = int(min(n, mostTasks))
		case "licences":
			m.Licences = int(min(n, mostCount))
		case "of":
			m.Of = int(min(n, mostTasks))
		}
	}
	switch m.Phase {
	case Held, Released, Pausing, Paused, HandedOver, Noted:
		return m
	}
	return none
}

// mostUnix is the end of the year 9999.
const mostUnix = 253402300799

func seconds(n int64) time.Duration { return min(time.Duration(n), longest/time.Second) * time.Second }

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// String is the mark as an AdminComment.
func (m Mark) String() string {
	var b strings.Builder
	if m.Before != "" {
		b.WriteString(m.Before + " ")
	}
	fmt.Fprintf(&b, "%s%s [", markWord, m.Text)
	if !m.Begin.IsZero() {
		fmt.Fprintf(&b, "begin=%d ", m.Begin.Unix())
	}
	if !m.Since.IsZero() {
		fmt.Fprintf(&b, "since=%d ", m.Since.Unix())
	}
	if m.Done > 0 {
		fmt.Fprintf(&b, "done=%d ", int64(m.Done/time.Second))
	}
	if m.Phase == Pausing {
		fmt.Fprintf(&b, "ran=%d runs=%d ", int64(m.Ran/time.Second), m.Runs)
	}
	if m.Set > 0 {
		fmt.Fprintf(&b, "limit=%d set=%d ", m.Limit, m.Set)
	}
	if m.Of > 0 {
		fmt.Fprintf(&b, "of=%d ", m.Of)
	}
	if m.Size > 0 {
		fmt.Fprintf(&b, "size=%d ", m.Size)
	}
	if m.User > 0 {
		fmt.Fprintf(&b, "user=%d each=%d ", m.User, m.Each)
	}
	if m.Size > 0 && m.Was > 0 {
		fmt.Fprintf(&b, "was=%d ", m.Was)
	}
	if m.Phase == Pausing && m.To > 0 {
		fmt.Fprintf(&b, "to=%d ", m.To)
	}
	if m.Licences > 0 {
		fmt.Fprintf(&b, "licences=%d ", m.Licences)
	}
	if m.Kept != "" {
		fmt.Fprintf(&b, "tasks=%s ", m.Kept)
	}
	if m.Own {
		b.WriteString("throttle=own ")
	}
	return b.String() + "phase=" + string(m.Phase) + "]"
}
