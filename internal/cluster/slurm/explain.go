package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Explanation is what a job does, why, and until when it waits at the latest.
type Explanation struct {
	// Job is its name, State and Reason are those of Slurm.
	Job    string `json:"job"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Does is waiting (for its begin time), queued (in the queue of Slurm), running, or left (to Slurm). Why says why it is left to Slurm.
	Does string `json:"does"`
	Why  Why    `json:"why,omitempty"`
	// Submitted is its first submission. Begin is the begin time of one that waits, LatestStart the latest that Lull sets.
	Submitted   time.Time  `json:"submitted"`
	Begin       *time.Time `json:"begin,omitempty"`
	LatestStart *time.Time `json:"latestStart,omitempty"`
	// Tasks are those of an array that it stands for, Throttle how many of them run at a time; 0 for all.
	Tasks    int `json:"tasks"`
	Throttle int `json:"throttle,omitempty"`
	// Size is how many tasks (--ntasks) it has, and UserSize how many its user asked for, where Lull sets their number.
	Size     int `json:"size,omitempty"`
	UserSize int `json:"userSize,omitempty"`
	// Request is what each task asks for, by resource and place; memory is in bytes.
	Request map[string]float64 `json:"request"`
	// Message says it in words.
	Message string `json:"message"`
	// Note says what the answer leaves out, if it was made without the configuration of the controller. Message has it too.
	Note string `json:"note,omitempty"`
}

// The words of Explanation.Does.
const (
	doesWait  = "waiting"
	doesQueue = "queued"
	doesRun   = "running"
	doesLeft  = "left"
)

// Explain explains each job of a name, which is that of a job or of a task of an array, or the number of an array for all of its tasks. None: the
// queue has no such job.
func (v *View) Explain(name string, now time.Time) []Explanation {
	var out []Explanation
	add := func(g *Governed) {
		if g.Job.named(name) {
			does, message := g.explain(now, "")
			x := v.explanation(g, does, message, now)
			if does == doesWait {
				x.LatestStart = &g.Latest
			}
			out = append(out, x)
		}
	}
	for i := range v.Jobs {
		g := &v.Jobs[i]
		if add(g); g.Scale != nil {
			for k := range g.Scale.Running {
				add(&g.Scale.Running[k])
			}
		}
	}
	for i := range v.Dependent {
		add(&v.Dependent[i])
	}
	for i := range v.Left {
		l := &v.Left[i]
		if !l.Job.named(name) || l.Why == Depends && v.dependent(l.Job) {
			continue
		}
		out = append(out, v.left(l, now))
	}
	return out
}

// The notes of an answer that was made without the configuration of the controller.
const (
	noteDefaults = "This answer leaves out the defaults of a configuration file, which may let the job wait. State the file of the controller with --config."
	noteWaits    = "A configuration of the controller lets it wait, which this answer leaves out. State its file with --config."
)

// left explains a job that is left to Slurm by the configuration that is known. If none is, its mark says what the controller has done to it.
func (v *View) left(l *Left, now time.Time) Explanation {
	g := &Governed{Job: l.Job, Mark: l.mark, Options: l.options}
	why, message, note := l.Why, l.Message, ""
	depends := l.dependsOnDefaults()
	if depends && v.noConfig {
		note = noteDefaults
		if marked := g.Mark.Phase != "" && !strings.Contains(g.Mark.Text, textLeft); marked {
			other := g.leftTo(now, l.Why != NotOptedIn)
			if other == "" || other == Depends && g.WaitedForOthers() {
				does, message := g.explain(now, noteWaits)
				x := v.explanation(g, does, message, now)
				x.Note = noteWaits
				return x
			}
			why, message, note = other, messages[other], ""
		} else if l.Why == NotOptedIn {
			message = "its comment does not let it wait"
		}
	}
	line := fmt.Sprintf("Job %s (%s) is left to Slurm: %s", l.Job.ID, strings.ToLower(l.Job.State), message)
	x := v.explanation(g, doesLeft, "", now)
	if x.Begin != nil {
		line += "; its begin time is " + x.Begin.Format(time.RFC3339)
	}
	x.Why, x.Message, x.Note = why, line+".", note
	switch {
	case note != "":
		x.Message += " " + note
	case v.noConfig && l.Why == BadComment && l.releases(now):
		x.Message += " The controller releases it within --interval. If it still waits after that, no controller runs."
	case (depends || l.Why == BadComment) && l.releases(now):
		x.Message += " A controller with this configuration releases it within --interval. If it still waits after that, no controller runs, or it has another configuration."
	}
	return x
}

// dependsOnDefaults reports whether the defaults of another configuration may let a job wait. They may complete what its comment states, such as a checkpoint
// without interruptible, but correct no entry that cannot be read.
func (l *Left) dependsOnDefaults() bool {
	switch l.Why {
	case NotOptedIn:
		return true
	case NoSlack:
		return !l.options.Off
	case BadComment:
		o, _, err := ReadComment(l.Job.Comment, Options{Interruptible: true, MinTasks: 1}, l.Job.ofArray())
		return err == nil && !o.Off
	}
	return false
}

func (v *View) explanation(g *Governed, does, message string, now time.Time) Explanation {
	j := g.Job
	x := Explanation{
		Job: j.ID, State: j.State, Reason: j.Reason, Does: does, Submitted: g.Submitted(), Tasks: j.Tasks, Throttle: j.Throttle, Request: v.Request(j), Message: message,
	}
	if g.Size != nil {
		x.Size, x.UserSize = g.Size.Now, g.Size.User
	}
	if j.Pending() && j.Begin.After(now) {
		x.Begin = &j.Begin
	}
	return x
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

// explain says what a job does that Lull decides on, in one word and in a line, with a note if there is one.
func (g *Governed) explain(now time.Time, note string) (does, message string) {
	j, noted := g.Job, ""
	if note != "" {
		noted = " " + note
	}
	text := g.Mark.Text
	if text == "" || g.Mark.Phase == Noted {
		text = "waits: Lull has not planned it yet"
	}
	if why := keptMessages[g.Mark.Kept]; why != "" {
		text += "; " + why
	}
	if g.unsized != "" {
		text += "; its number of tasks stays as it is: " + g.unsized
	}
	switch {
	case !j.Pending():
		return doesRun, fmt.Sprintf("Job %s (%s): %s.%s", j.ID, strings.ToLower(j.State), text, noted)
	case g.released(now):
		return doesQueue, fmt.Sprintf("Job %s is in the queue of Slurm (%s): %s.%s", j.ID, j.Reason, text, noted)
	}
	begin := ""
	if j.Begin.After(now) {
		begin = fmt.Sprintf("Slurm starts it from %s on, with or without Lull. ", j.Begin.Format(time.RFC3339))
	}
	if !g.Latest.IsZero() {
		begin += fmt.Sprintf("Its latest safe start is %s. ", g.Latest.Format(time.RFC3339))
	}
	if note != "" {
		begin += note + " "
	}
	return doesWait, fmt.Sprintf("Job %s %s. %sTo start it now: scontrol update JobId=%s StartTime=now", j.ID, text, begin, j.ID)
}
