package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// throttlePrefix begins the resource of an array whose tasks share a throttle: as many of it as tasks may run at a time.
const throttlePrefix = "array@"

// IsThrottle reports whether a resource of a snapshot stands for the throttle of an array.
func IsThrottle(resource string) bool { return strings.HasPrefix(resource, throttlePrefix) }

func throttleOf(number int) string { return throttlePrefix + strconv.Itoa(number) }

// throttles are the throttles of arrays, by number, that have more than one line in the queue: tasks that run, or that differ. A line alone is
// bounded by its width.
func throttles(q *Queue) map[int]int {
	out, lines := map[int]int{}, map[int]int{}
	for i := range q.Jobs {
		j := &q.Jobs[i]
		if !j.Pending() && !j.uses() {
			continue
		}
		lines[j.Number]++
		if j.Throttle > 0 {
			out[j.Number] = j.Throttle
		}
	}
	for number := range out {
		if lines[number] < 2 {
			delete(out, number)
		}
	}
	return out
}

// UserThrottle is how many tasks of an array its user lets run at a time; 0 for all.
func UserThrottle(j *Job) int {
	if m := ReadMark(j.AdminComment); m.Set > 0 && m.Set == j.Throttle {
		return m.Limit
	}
	return j.Throttle
}

// restore is the throttle that an array gets back from Lull, and takes it out of the mark; nil for one that has its own.
func restore(j *Job, m *Mark) *int {
	limit, has := m.Limit, m.Set > 0 && m.Set == j.Throttle
	m.Limit, m.Set = 0, 0
	if !has {
		return nil
	}
	return &limit
}

// unscale gives back the throttle of an array that is not scaled any more, or notes that its user has changed it.
func (c *changes) unscale(g *Governed) bool {
	if g.Scale != nil || g.Mark.Set == 0 || !g.Job.Pending() || g.Job.Tasks == 1 && g.Job.Throttle == 0 { // squeue shows no throttle of a single task
		return false
	}
	m := g.Mark
	m.Own = m.Set != g.Job.Throttle
	u := Update{}
	u.throttle(g.Job, restore(g.Job, &m), m, m.Text)
	c.add(g.Job.ID, u)
	return true
}

// throttle sets a throttle, nil for none, and the mark. Its text is another one if the user of the array has set a throttle since the look.
func (u *Update) throttle(j *Job, to *int, m Mark, otherwise string) {
	u.Throttle, u.Comment = to, m.String()
	if to != nil {
		m.Limit, m.Set, m.Own, m.Text = 0, 0, true, otherwise
		u.Saw, u.Otherwise = j.Throttle, m.String()
	}
}

// Arrays are the arrays whose throttle an update sets, by number.
func (u *Update) Arrays() (out []int) {
	if u.Throttle == nil {
		return nil
	}
	for _, id := range u.IDs {
		if n := arrayOf(id); n > 0 && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// arrayOf is the number of the array of 12_[4-9]; 0 if it cannot be read.
func arrayOf(id string) int {
	number, _, _ := strings.Cut(id, "_")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
}

// Split divides an update by the throttles that are in force when it is about to be made. An array that has another one than the decision saw keeps it, and
// gets the rest of the update, with Otherwise. An array without a throttle in now has no tasks that wait for it: of the last task, Slurm states none.
func (u *Update) Split(now map[int]int) []Update {
	if u.Throttle == nil {
		return []Update{*u}
	}
	as, theirs := *u, *u
	as.IDs, theirs.IDs = nil, nil
	theirs.Throttle, theirs.Comment = nil, u.Otherwise
	for _, id := range u.IDs {
		if throttle, known := now[arrayOf(id)]; known && throttle != u.Saw {
			theirs.IDs = append(theirs.IDs, id)
		} else {
			as.IDs = append(as.IDs, id)
		}
	}
	return slices.DeleteFunc([]Update{as, theirs}, func(u Update) bool { return len(u.IDs) == 0 })
}

// Parts divides an update that sets throttles into parts of as many jobs as one command changes, so that little time passes between a look at their
// throttles and the change.
func (u *Update) Parts() (out []Update) {
	if u.Throttle == nil {
		return []Update{*u}
	}
	for ids := range slices.Chunk(u.IDs, atOnce) {
		part := *u
		part.IDs = ids
		out = append(out, part)
	}
	return out
}

// sentence is what a mark says of an array that is scaled.
func sentence(now time.Time, tasks, of int, why string) string {
	const most = 150
	if tasks < of {
		return fmt.Sprintf("released at %s: %d of at most %d tasks at a time for cleaner power", clock(now), tasks, of)
	}
	return fmt.Sprintf("released at %s: %s", clock(now), strings.ToValidUTF8(why[:min(most, len(why))], ""))
}
