package demo

import (
	"context"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/timegrid"
)

// run is one run of a pod, by the API server's own timestamps (whole seconds of
// wall time). End is zero while it runs.
type run struct{ start, end time.Time }

// observed is what the API says of one Job.
type observed struct {
	created   time.Time
	finished  time.Time // completion time of the Job
	succeeded bool
	failure   string // why the Job failed, if it did
	running   bool
	held      bool
	runs      map[string]run // of pods, by UID
}

// recorder watches Jobs and pods of the demo and keeps their timestamps, also
// those of pods that are deleted when a Job is paused.
type recorder struct {
	mu   sync.Mutex
	jobs map[string]*observed
}

func watch(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*recorder, error) {
	informers, err := cache.New(config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, err
	}
	r := &recorder{jobs: map[string]*observed{}}
	for _, obj := range []client.Object{&batchv1.Job{}, &corev1.Pod{}} {
		informer, err := informers.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: r.see, UpdateFunc: func(_, now any) { r.see(now) }, DeleteFunc: r.gone,
		}); err != nil {
			return nil, err
		}
	}
	go func() { _ = informers.Start(ctx) }()
	informers.WaitForCacheSync(ctx)
	return r, nil
}

func (r *recorder) entry(job string) *observed {
	o := r.jobs[job]
	if o == nil {
		o = &observed{runs: map[string]run{}}
		r.jobs[job] = o
	}
	return o
}

func (r *recorder) see(obj any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch x := obj.(type) {
	case *batchv1.Job:
		o := r.entry(x.Name)
		_, held := x.Annotations[v1alpha1.AnnotationHold]
		o.created, o.held, o.running = x.CreationTimestamp.Time, held, x.Status.Active > 0
		if finished(x) {
			o.running = false
			if x.Status.CompletionTime != nil {
				o.finished, o.succeeded = x.Status.CompletionTime.Time, true
			} else {
				o.finished, o.failure = x.CreationTimestamp.Time, failure(x)
			}
		}
	case *corev1.Pod:
		r.ran(x, false)
	}
}

// finished reports whether a Job has completed or failed for good.
func finished(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// failure is what the Job's conditions say of its failure.
func failure(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func (r *recorder) gone(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran(pod, true)
	}
}

// ran keeps when the pod's container ran. A pod that is deleted while it runs
// ended when its deletion was asked for.
func (r *recorder) ran(pod *corev1.Pod, gone bool) {
	job := pod.Labels[batchv1.JobNameLabel]
	if job == "" { // a bare one
		job = pod.Name
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return
	}
	o := r.entry(job)
	p := o.runs[string(pod.UID)]
	switch state := pod.Status.ContainerStatuses[0].State; {
	case state.Running != nil:
		p.start = state.Running.StartedAt.Time
	case state.Terminated != nil:
		p = run{state.Terminated.StartedAt.Time, state.Terminated.FinishedAt.Time}
	default:
		return
	}
	if p.end.IsZero() && pod.DeletionTimestamp != nil {
		// The deletion timestamp includes the grace period.
		grace := time.Duration(0)
		if s := pod.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		p.end = pod.DeletionTimestamp.Add(-grace)
	} else if p.end.IsZero() && gone {
		p.end = time.Now()
	}
	o.runs[string(pod.UID)] = p
}

// counts are what the live display shows.
type counts struct{ submitted, waiting, running, done, failed int }

func (r *recorder) counts() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	var c counts
	for _, o := range r.jobs {
		if o.created.IsZero() {
			continue // a pod was seen before its Job
		}
		c.submitted++
		switch {
		case !o.finished.IsZero() && o.succeeded:
			c.done++
		case !o.finished.IsZero():
			c.failed++
		case o.running:
			c.running++
		default:
			c.waiting++
		}
	}
	return c
}

// runs returns the runs of a Job in grid time; those still going on end at now.
func (r *recorder) runs(job string, tl timegrid.Timeline, now time.Time) []run {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.jobs[job]
	if o == nil {
		return nil
	}
	var out []run
	for _, p := range o.runs {
		end := p.end
		if end.IsZero() {
			end = now
		}
		if end.After(p.start) {
			out = append(out, run{tl.ToGrid(p.start), tl.ToGrid(end)})
		}
	}
	return out
}

// pods counts the pods of a Job that run now.
func (r *recorder) pods(job string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	if o := r.jobs[job]; o != nil {
		for _, p := range o.runs {
			if p.end.IsZero() {
				n++
			}
		}
	}
	return n
}

// ranPods counts the Pods that have begun to run, and those that have ended.
func (r *recorder) ranPods() (begun, ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.jobs {
		for _, p := range o.runs {
			begun++
			if !p.end.IsZero() {
				ended++
			}
		}
	}
	return begun, ended
}

// job returns a copy of what is known of a Job.
func (r *recorder) job(name string) observed {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.jobs[name]; o != nil {
		return *o
	}
	return observed{}
}
