package demo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/timegrid"
)

// Work is what an elastic Job has to do.
type Work struct {
	Job string
	// Length is the run time with one worker, Throughput that of 1, 2, ... workers, in any
	// unit.
	Length     time.Duration
	Throughput []float64
}

// rate is how many times as fast as one worker n are.
func (w *Work) rate(n int) float64 {
	if n <= 0 {
		return 0
	}
	return w.Throughput[min(n, len(w.Throughput))-1] / w.Throughput[0]
}

// Player plays the workers of elastic Jobs where pods only seem to run: it does their work at
// the throughput of as many pods as run, reports the progress as a sidecar would, and lets
// the pods succeed when all is done. What is done survives a pause, as with checkpoints.
type Player struct {
	Client    client.Client
	Namespace string
	Timeline  timegrid.Timeline
	// Running is how many pods of a Job run now.
	Running func(job string) int
	// Every is the wall time between two reports.
	Every time.Duration

	works []*played
	last  time.Time
}

type played struct {
	Work
	done     time.Duration
	reported time.Time
	ended    bool
}

// Add gives the player another Job.
func (p *Player) Add(w Work) { p.works = append(p.works, &played{Work: w}) }

// Progress is the share of a Job's work that is done.
func (p *Player) Progress(job string) float64 {
	for _, w := range p.works {
		if w.Job == job {
			return min(1, float64(w.done)/float64(w.Length))
		}
	}
	return 0
}

// Step does the work between the last step and now.
func (p *Player) Step(ctx context.Context, now time.Time) error {
	passed := p.Timeline.GridDuration(now.Sub(p.last))
	first := p.last.IsZero()
	p.last = now
	if first {
		return nil
	}
	for _, w := range p.works {
		n := p.Running(w.Job)
		if n == 0 {
			continue
		}
		w.done += time.Duration(w.rate(n) * float64(passed))
		if w.done >= w.Length {
			if err := p.end(ctx, w); err != nil {
				return err
			}
			continue
		}
		if now.Sub(w.reported) >= p.Every {
			w.reported = now
			if err := p.report(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Player) report(ctx context.Context, w *played) error {
	share := strconv.FormatFloat(min(1, float64(w.done)/float64(w.Length)), 'f', 4, 64)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationProgress, share)
	job := &batchv1.Job{}
	job.Namespace, job.Name = p.Namespace, w.Job
	return client.IgnoreNotFound(p.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, patch)))
}

// end lets the running pods succeed: the first of them tells the Job controller that there
// is no more work.
func (p *Player) end(ctx context.Context, w *played) error {
	if !w.ended {
		w.ended = true
		if err := p.report(ctx, w); err != nil {
			return err
		}
	}
	var pods corev1.PodList
	if err := p.Client.List(ctx, &pods, client.InNamespace(p.Namespace), client.MatchingLabels{batchv1.JobNameLabel: w.Job}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		before := pod.DeepCopy()
		pod.Status.Phase = corev1.PodSucceeded
		for k := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[k]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status, c.Reason = corev1.ConditionFalse, "PodCompleted"
			}
		}
		for k := range pod.Status.ContainerStatuses {
			s := &pod.Status.ContainerStatuses[k]
			if s.State.Running != nil {
				ended := &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: s.State.Running.StartedAt}
				ended.FinishedAt.Time = p.last.Truncate(time.Second)
				s.State, s.Ready = corev1.ContainerState{Terminated: ended}, false
			}
		}
		if err := p.Client.Status().Patch(ctx, pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
