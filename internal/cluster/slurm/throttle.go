package slurm

import (
	"fmt"
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
	c.add(g.Job.ID, Update{Throttle: restore(g.Job, &m), Comment: m.String()})
	return true
}

// sentence is what a mark says of an array that is scaled.
func sentence(now time.Time, tasks, of int, why string) string {
	const most = 150
	if tasks < of {
		return fmt.Sprintf("released at %s: %d of at most %d tasks at a time for cleaner power", clock(now), tasks, of)
	}
	return fmt.Sprintf("released at %s: %s", clock(now), strings.ToValidUTF8(why[:min(most, len(why))], ""))
}
