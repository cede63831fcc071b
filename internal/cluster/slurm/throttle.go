package slurm

import (
	"strconv"
	"strings"
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
func UserThrottle(j *Job) int { return j.Throttle }
