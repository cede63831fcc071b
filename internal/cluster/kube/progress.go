package kube

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/power"
)

// measure finds out how far the workload is: by what it says of itself, by what its query
// gives, by its finished parts, else by the time it has run at the scales it had.
func (p *Progress) measure(in Input, w *Workload, o *Options, scaling *decide.Scaling, pods podCount) {
	p.Runtime = o.Runtime
	modelled := work(in, w, scaling, p.Speed, pods)
	if in.Learned != nil && !o.RuntimeStated {
		p.Runtime = o.limited(in.Learned.Runtime(w, o.Runtime, modelled))
	}
	p.Ran, p.quantiles, p.Note = modelled, quantilesOf(in, w, o, modelled), cmp.Or(ignoredP95(o, p.Runtime), o.limitedNote())
	share := func(v float64, source string) {
		p.Share, p.Source = v, source
		p.Done = time.Duration(v * float64(p.Runtime))
	}
	reading, read := Reading{}, false
	if in.Measured != nil && ProgressQuery(w) != "" {
		reading, read = in.Measured.Progress(w.UID())
	}
	switch {
	case pods.done(w):
		// The Job controller has still to count the pod.
		p.Done, p.Share, p.Source = p.Runtime, 1, FromCompletions
	case o.Progress >= 0:
		share(o.Progress, FromAnnotation)
	case read:
		share(reading.Share, FromPrometheus)
		if in.Now.Sub(reading.At) > oldReading {
			p.Source = FromModel
		}
		// On from when it was read, by the model.
		since := sinceOf(w)
		if since.Before(reading.At) {
			since = reading.At
		}
		if !w.Facts.Suspended && pods.running > 0 && in.Now.After(since) {
			rate := p.Speed
			if scaling != nil {
				rate *= scaling.Rate(w.Workers())
			}
			p.Done += time.Duration(rate * float64(in.Timeline.GridDuration(in.Now.Sub(since))))
			p.Share = math.Min(1, float64(p.Done)/float64(p.Runtime))
		}
	case w.Facts.Of > 1:
		// Between finished parts and those begun too, as far as the model says.
		done, of := float64(min(w.Facts.Done, w.Facts.Of)), float64(w.Facts.Of)
		begun := math.Min(of, done+float64(p.Running))
		share(math.Min(math.Max(float64(modelled)/float64(p.Runtime), done/of), begun/of), FromCompletions)
	default:
		p.Done, p.Source = modelled, FromModel
		p.Share = min(1, float64(modelled)/float64(p.Runtime))
	}
}

// oldReading is the age (wall time) from which what lies after a reading counts for more than
// the reading: progress is then said to be known by the model.
const oldReading = 5 * time.Minute

// work is the work that a workload has done by the model: as run time at its least number
// of workers, in grid time, earlier runs included. Where the pods are known, nothing is done
// while none runs: its controller may be down, or no node may have room.
func work(in Input, w *Workload, scaling *decide.Scaling, speed float64, pods podCount) time.Duration {
	// The annotation is Lull's own and absent before the first change; one that somebody
	// broke counts as none, which errs on the side of the deadline.
	sum, _ := time.ParseDuration(w.Annotations()[v1alpha1.AnnotationRan])
	since := sinceOf(w)
	if w.Facts.Suspended || since.IsZero() {
		return max(0, sum)
	}
	until := in.Now
	if in.Pods != nil && w.Facts.Of <= 1 {
		first := pods.first
		switch { // while images are pulled, nothing is done
		case pods.done(w):
			first, until = pods.began, pods.ended
		case pods.started == 0:
			return max(0, sum)
		}
		if first.After(since) {
			since = first
		}
	}
	rate := 1.0
	if scaling != nil {
		rate = speed * scaling.Rate(w.Workers())
	}
	return max(0, sum) + max(0, time.Duration(rate*float64(in.Timeline.GridDuration(until.Sub(since)))))
}

// sinceOf is when the present run at the present scale began (wall time); zero where it
// does not run.
func sinceOf(w *Workload) time.Time {
	since := w.Facts.Started
	if w.Facts.Queue != "" && since.IsZero() {
		return since // released, but still in the queue
	}
	if at, ok := Changed(w); ok && at.After(since) && w.Annotations()[v1alpha1.AnnotationHold] == "" {
		since = at
	}
	return since
}

// Changed is when the workload last started, paused or changed its scale (wall time); false where that is
// not known.
func Changed(w *Workload) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, w.Annotations()[v1alpha1.AnnotationChanged])
	return at, err == nil
}

// add counts a pod of a workload. One that finds no node is denied after the patience (wall time).
func (c *podCount) add(pod *corev1.Pod, measured Measured, now time.Time, patience time.Duration) {
	if node := pod.Status.StartTime; node != nil && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending) && pod.DeletionTimestamp == nil {
		c.taken = earlier(c.taken, node.Time)
	}
	switch {
	case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
		c.running++
		if measured != nil {
			p := measured.Power(pod.Namespace, pod.Name)
			c.cpu.add(p.CPU, p.CPUSource)
			c.gpu.add(p.GPU, p.GPUSource)
		}
		at := started(pod)
		if at.IsZero() {
			return
		}
		c.started, c.first = c.started+1, earlier(c.first, at)
		if node := pod.Status.StartTime; node != nil {
			c.startup = max(c.startup, at.Sub(node.Time))
		}
	case pod.Status.Phase == corev1.PodSucceeded:
		c.succeeded++
		from, to, _ := Ran(pod)
		c.began = earlier(c.began, from)
		if to.After(c.ended) {
			c.ended = to
		}
	case pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil:
		c.pending++
		if x := unscheduled(pod); x != nil && x.Reason == corev1.PodReasonUnschedulable {
			if until := x.LastTransitionTime.Add(patience); until.After(now) {
				c.deniedAt = earlier(c.deniedAt, until)
			} else {
				c.denied++
			}
		}
	}
}

// podlessPatience is for how long (wall time) a released workload may have no pod before it takes no capacity. It is longer than
// Kubernetes waits between a pod of a Job that has failed and the next (six minutes), and no tenant can change it.
const podlessPatience = 10 * time.Minute

// podless counts a released workload whose pods nobody can make, for example for want of a ServiceAccount or because a
// ResourceQuota refuses them, like one whose pods find no node: it takes no capacity. Otherwise it would keep room from others for as
// long as it exists.
func (c *podCount) podless(w *Workload, learned Learned, now time.Time) {
	if learned == nil {
		return
	}
	inQueue := w.Facts.Queue != "" && w.Facts.Started.IsZero()
	none := c.running+c.pending == 0 && !w.Facts.Suspended && !w.Facts.Active && w.Kind.TellsActive() && !inQueue
	since := learned.PodlessSince(w, none, now)
	if !none {
		return
	}
	if until := since.Add(podlessPatience); until.After(now) {
		c.deniedAt = earlier(c.deniedAt, until)
	} else {
		c.unmade = true
	}
}

// done reports whether a workload of one part has ended, although its status does not say so yet: as many of its pods as
// it has workers have succeeded, the last in the present run, and no other pod runs or waits.
func (c *podCount) done(w *Workload) bool {
	since := sinceOf(w)
	return w.Facts.Of <= 1 && !w.Facts.Suspended && c.succeeded >= w.Workers() && c.running+c.pending == 0 && !since.IsZero() && !c.ended.Before(since)
}

// unscheduled is the condition of a pod that has no node, as none has room or as it is gated; nil for others,
// and for one that the scheduler has not come to.
func unscheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if x := &pod.Status.Conditions[i]; x.Type == corev1.PodScheduled && x.Status == corev1.ConditionFalse {
			return x
		}
	}
	return nil
}

// Drawn is the measured power of some pods that each ask for request, PUE included, and by
// whom it is measured; "" where nothing is. Pods that are not measured (yet) count as the mean
// of the others; what of them nobody measures, as the model says.
func Drawn(pods []PodPower, request map[string]float64, model power.PerUnit) (watts float64, source string) {
	c := podCount{running: len(pods)}
	for _, p := range pods {
		c.cpu.add(p.CPU, p.CPUSource)
		c.gpu.add(p.GPU, p.GPUSource)
	}
	watts, _, source = c.drawn(request, model)
	return watts, source
}

// drawn is as Drawn, of the pods that were counted; modelled is the part of watts that is the model's.
func (c *podCount) drawn(request map[string]float64, model power.PerUnit) (watts, modelled float64, source string) {
	if c.cpu.pods+c.gpu.pods == 0 {
		return 0, 0, ""
	}
	var sources []string
	sum := func(m *metered, gpu bool) {
		if m.pods > 0 {
			watts += m.watts / float64(m.pods) * float64(c.running)
			sources = append(sources, m.source)
			return
		}
		part := map[string]float64{}
		for r, q := range request {
			if strings.Contains(r, "gpu") == gpu {
				part[r] = q
			}
		}
		if w := float64(c.running) * power.Sum(part, model.Watts); w > 0 {
			watts += w
			modelled += w
			sources = append(sources, FromModel)
		}
	}
	sum(&c.cpu, false)
	sum(&c.gpu, true)
	pue := max(1, model.PUE)
	return watts * pue, modelled * pue, strings.Join(slices.Compact(sources), "+")
}

// metered sums what some pods draw.
type metered struct {
	watts  float64
	pods   int
	source string
}

func (m *metered) add(watts float64, source string) {
	if source != "" {
		m.watts += watts
		m.pods++
		m.source = source
	}
}

// earlier is the earlier of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// restarts tells a task how long starts after pauses and moves take, their energy, and what is left of one under way. taken is when its pods came to
// their nodes; zero if none has one.
func (p *Progress) restarts(in Input, w *Workload, t *decide.Task, pue float64, taken time.Time) {
	t.Restart = min(in.Learned.Startup(w), decide.MaxRestart)
	if t.State == decide.Running && p.Ran > 0 && in.Pods != nil && p.Started == 0 {
		t.Starting = t.Restart
		if !taken.IsZero() {
			t.Starting = max(0, t.Restart-max(0, in.Timeline.GridDuration(in.Now.Sub(taken))))
		}
	}
	t.RestartKWh = t.Restart.Hours() * p.Watts / max(1, pue) / 1000 // planners add the PUE
}

// started is when the last of a pod's containers started: zero while one of them has not. A pod whose status tells nothing of its containers, or of
// which one has run before, started when its node took it: when it first worked is not known.
func started(pod *corev1.Pod) (at time.Time) {
	states := pod.Status.ContainerStatuses
	again := func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 }
	if (len(states) == 0 || slices.ContainsFunc(states, again)) && pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	if len(states) < len(pod.Spec.Containers) {
		return time.Time{}
	}
	for i := range states {
		var of time.Time
		switch state := &states[i].State; {
		case state.Running != nil:
			of = state.Running.StartedAt.Time
		case state.Terminated != nil:
			of = state.Terminated.StartedAt.Time
		default:
			return time.Time{}
		}
		if of.After(at) {
			at = of
		}
	}
	return at
}

// Ran is when a pod's containers ran, by its status: to is zero while they do. False where none has
// begun, and where the status does not say.
func Ran(pod *corev1.Pod) (from, to time.Time, ran bool) {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	for i := range pod.Status.ContainerStatuses {
		state := &pod.Status.ContainerStatuses[i].State
		switch {
		case state.Running != nil:
			from, over = earlier(from, state.Running.StartedAt.Time), false
		case state.Terminated != nil:
			from = earlier(from, state.Terminated.StartedAt.Time)
			if state.Terminated.FinishedAt.After(to) {
				to = state.Terminated.FinishedAt.Time
			}
		}
	}
	if !over {
		to = time.Time{}
	}
	return from, to, !from.IsZero()
}
