package kube

import (
	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// Size is what a workload runs at: Workers pods at a time, and Others beside them that do not scale. Each worker asks
// for Request, which has its part of what the others ask for: all pods ask for Workers times Request.
//
// Plans, the ledger and exports all read the size of an object here.
type Size struct {
	Workers, Others int
	Request         map[string]float64
}

// Pods is how many pods that is.
func (s Size) Pods() int { return s.Workers + s.Others }

// Size is that of the workload as it is: no more workers than parts are left.
func (w *Workload) Size() Size {
	if n := len(w.Objects); n > 1 {
		n = 0
		for _, o := range w.Objects {
			if !w.Kind.Read(o.Object).Finished {
				n++
			}
		}
		return shared(w.Facts.Request, max(1, n))
	}
	return w.sized(w.Workers())
}

// SizeAsSubmitted is that of the workload as it came: before parts of it were done, before it was held at no
// workers, and before Kueue admitted fewer of them than it asked for.
func (w *Workload) SizeAsSubmitted() Size {
	if n := len(w.Objects); n > 1 {
		sum := map[string]float64{}
		for _, o := range w.Objects {
			for r, q := range w.Kind.Read(o.Object).Request {
				sum[r] += q
			}
		}
		return shared(sum, n)
	}
	n := w.parallel(w.asked(), 0)
	if w.Queued != nil && w.Facts.Workers > 0 && w.Annotations()[kueue.AnnotationElastic] != "true" {
		n = max(n, w.Queued.Pods-w.Facts.Pods)
	}
	return w.sized(n)
}

// Resumable says that the workload loses no work with a pod: its user has declared that it may pause, and so that
// it keeps checkpoints.
func (w *Workload) Resumable() bool {
	return w.Annotations()[v1alpha1.AnnotationInterruptible] == "true" || w.Annotations()[v1alpha1.AnnotationMaxWorkers] != ""
}

// sized is the size at a number of workers.
func (w *Workload) sized(workers int) Size {
	if w.Facts.Workers == 0 && !w.Kind.Spec.Hold.Zero {
		return shared(w.Facts.Request, max(1, w.Facts.Pods))
	}
	return Size{workers, w.Facts.Pods, w.perWorker(workers)}
}

// shared is what some pods ask for together, as so many equal ones.
func shared(request map[string]float64, pods int) Size {
	s := Size{Workers: pods, Request: make(map[string]float64, len(request))}
	for r, q := range request {
		s.Request[r] = q / float64(pods)
	}
	return s
}

// asked is how many workers the object asks for, or did before it was held at none.
func (w *Workload) asked() int {
	switch {
	case w.Facts.Workers > 0:
		return w.Facts.Workers
	case w.Kind.Spec.Hold.Zero:
		return heldWorkers(w)
	}
	return 1
}

// parallel is how many of some workers run at a time once some parts are done: no more than parts are left.
func (w *Workload) parallel(workers, done int) int {
	if w.Facts.Of > 0 {
		return min(workers, max(1, w.Facts.Of-done))
	}
	return workers
}

// Workers is how many workers run at a time, no more than parts are left; 1 for kinds without workers.
func (w *Workload) Workers() int { return w.parallel(w.asked(), w.Facts.Done) }

// Evicted reports whether a pod has ended because the cluster took it away: for a pod of higher priority, for want of
// room or memory on its node, by the eviction API, or with its node.
func Evicted(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	switch pod.Status.Reason {
	case "Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated":
		return true
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
