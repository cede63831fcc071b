package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Explain says, in a line for each job of a name, what it does, why, and until when it waits at the latest. The name is that of a job or of a
// task of an array, or the number of an array for all of its tasks. No lines: the queue has no such job.
func (v *View) Explain(name string, now time.Time) []string {
	var lines []string
	for i := range v.Jobs {
		if v.Jobs[i].Job.named(name) {
			lines = append(lines, v.Jobs[i].explain(now))
		}
	}
	for i := range v.Dependent {
		if v.Dependent[i].Job.named(name) {
			lines = append(lines, v.Dependent[i].explain(now))
		}
	}
	for i := range v.Left {
		l := &v.Left[i]
		if !l.Job.named(name) || l.Why == Depends && v.dependent(l.Job) {
			continue
		}
		line := fmt.Sprintf("Job %s (%s) is left to Slurm: %s", l.Job.ID, strings.ToLower(l.Job.State), l.Message)
		if l.Job.Pending() && l.Job.Begin.After(now) {
			line += "; its begin time is " + l.Job.Begin.Format(time.RFC3339)
		}
		lines = append(lines, line+".")
	}
	return lines
}

func (v *View) dependent(j *Job) bool {
	for i := range v.Dependent {
		if v.Dependent[i].Job == j {
			return true
		}
	}
	return false
}

// named reports whether a job is meant by a name.
func (j *Job) named(name string) bool {
	array, task, isTask := strings.Cut(name, "_")
	if !isTask {
		return name == j.ID || name == strconv.Itoa(j.Number)
	}
	if name == j.ID {
		return true
	}
	list, pending := strings.CutPrefix(j.ID, array+"_[")
	n, err := strconv.Atoi(task)
	return pending && err == nil && listed(strings.TrimSuffix(list, "]"), n)
}

// listed reports whether a list of tasks, such as 1,4-9:2, has a task.
func listed(list string, n int) bool {
	for _, part := range strings.Split(list, ",") {
		span, stride, _ := strings.Cut(part, ":")
		from, to, isSpan := strings.Cut(span, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		b, step := a, 1
		if isSpan {
			b, _ = strconv.Atoi(to)
		}
		if s, err := strconv.Atoi(stride); err == nil && s > 0 {
			step = s
		}
		if n >= a && n <= b && (n-a)%step == 0 {
			return true
		}
	}
	return false
}

// explain is the line of a job that Lull decides on.
func (g *Governed) explain(now time.Time) string {
	j := g.Job
	text := g.Mark.Text
	if text == "" {
		text = "waits: Lull has not planned it yet"
	}
	switch {
	case !j.Pending():
		return fmt.Sprintf("Job %s (%s): %s.", j.ID, strings.ToLower(j.State), text)
	case g.released(now):
		return fmt.Sprintf("Job %s is in the queue of Slurm (%s): %s.", j.ID, j.Reason, text)
	}
	begin := ""
	if j.Begin.After(now) {
		begin = fmt.Sprintf("Slurm starts it from %s on, with or without Lull. ", j.Begin.Format(time.RFC3339))
	}
	return fmt.Sprintf("Job %s %s. %sIts latest safe start is %s. To start it now: scontrol update JobId=%s StartTime=now",
		j.ID, text, begin, g.Latest.Format(time.RFC3339), j.ID)
}
