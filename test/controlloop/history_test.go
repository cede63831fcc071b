package controlloop

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/power"
)

// A world keeps each change of each object. What must hold at any time is checked after the world, step by step.

// jobHistory is what is known of a Job at a step.
type jobHistory struct {
	*planned
	suspended bool
	// running are its pods that run, with when they began; done is how long the others ran.
	running map[types.UID]time.Time
	done    time.Duration
}

// checkHistory goes through all steps of a world:
//
//   - Lull suspends no Job with a running pod that may not be interrupted.
//   - No Job is suspended past its latest safe start, with the work that it has left then.
//   - A Job never has two pods that run.
func (w *randomWorld) checkHistory() {
	jobs := map[types.UID]*jobHistory{}
	for _, p := range w.jobs {
		jobs[p.job.UID] = &jobHistory{planned: p, running: map[types.UID]time.Time{}}
	}
	for _, e := range w.Store.Since(0) {
		switch e.Resource.Kind {
		case "Job":
			h := jobs[e.Object.GetUID()]
			if h == nil {
				continue
			}
			var job batchv1.Job
			typed(e.Object, &job)
			was := h.suspended
			h.suspended = job.Spec.Suspend != nil && *job.Spec.Suspend && e.Type != watch.Deleted
			byLull := e.By != "" && e.By != "user"
			switch {
			case h.suspended && !was && byLull && len(h.running) > 0 && !h.interruptible:
				w.Violate("at %s %s suspended %s, which runs and may not be interrupted", e.At.Format(time.TimeOnly), e.By, job.Name)
			case was && !h.suspended && byLull:
				w.checkResumed(h, e.At)
			}
		case "Pod":
			var pod corev1.Pod
			typed(e.Object, &pod)
			for _, o := range pod.OwnerReferences {
				if h := jobs[o.UID]; h != nil {
					w.follow(h, &pod, e.Type == watch.Deleted, e.At)
				}
			}
		}
	}
	for _, h := range jobs {
		u := w.Store.Get(w.Store.Resource("Job"), nameOf(h.job))
		if u == nil || w.nobody {
			continue
		}
		if hold := u.GetAnnotations()[v1alpha1.AnnotationHold]; hold != "" {
			w.Violate("%s is done and is still marked as held: %s", h.job.Name, hold)
		}
	}
}

// follow follows a pod of a Job.
func (w *randomWorld) follow(h *jobHistory, pod *corev1.Pod, gone bool, at time.Time) {
	from, to, ran := kube.Ran(pod)
	_, known := h.running[pod.UID]
	switch {
	case ran && to.IsZero() && !gone && !known:
		h.running[pod.UID] = from
		if len(h.running) > 1 {
			w.Violate("at %s %s has %d pods that run", at.Format(time.TimeOnly), h.job.Name, len(h.running))
		}
	case known && (gone || !to.IsZero()):
		if to.IsZero() {
			to = at
		}
		h.done += to.Sub(from)
		delete(h.running, pod.UID)
	}
}

// checkResumed checks that a Job was resumed in time.
func (w *randomWorld) checkResumed(h *jobHistory, at time.Time) {
	left := h.length
	if h.interruptible {
		left -= h.done
	}
	if latest := w.deadlineAsOf(h.planned, at).Add(-left); at.Sub(latest) > allow {
		w.Violate("%s was suspended until %s, its latest safe start was %s", h.job.Name, at.Format(time.TimeOnly), latest.Format(time.TimeOnly))
	}
}

// checkLedger compares the ledger with what ran: each Job that is done is settled once, with as many runs as it had, and with the
// energy of their times where the controller saw all ends. The chain must hold.
func (w *randomWorld) checkLedger() {
	lines := func() []string {
		return slices.Collect(strings.Lines(lull(w.T, "ledger", "export", "--database", w.ledger, "--format", "json")))
	}
	for range 60 {
		if len(lines()) >= len(w.jobs) || !w.Sleep(time.Minute) {
			break
		}
	}
	lull(w.T, "ledger", "verify", "--database", w.ledger)
	settled := map[string]int{}
	for _, line := range lines() {
		var r struct {
			Namespace, Name    string
			KWh                float64
			Runs, InferredEnds int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			w.Violate("the ledger says %q: %v", line, err)
			continue
		}
		i := slices.IndexFunc(w.jobs, func(p *planned) bool { return p.job.Name == r.Name && p.job.Namespace == r.Namespace })
		if i < 0 {
			continue
		}
		settled[r.Name]++
		p := w.jobs[i]
		if p.again > 0 {
			continue // two Jobs of one name
		}
		ran, runs, deleted := ranIn(w.Store, r.Name)
		kWh := func(d time.Duration) float64 { return d.Hours() * float64(p.cpus) * power.DefaultWattsPerCPU / 1000 }
		want := kWh(ran)
		// The status of a pod that is deleted while it runs has no end. The ledger takes the time at which the controller sees the deletion.
		told := kWh(time.Duration(deleted) * (w.Faults.Lag + w.Faults.Latency + time.Second))
		if r.Runs > runs || r.InferredEnds == 0 && r.Runs == runs && math.Abs(r.KWh-want) > told+1e-9*want {
			w.Violate("the ledger says of %s: %d runs, %v kWh, %d ends inferred; the API server: %d runs, %v kWh", r.Name, r.Runs, r.KWh, r.InferredEnds, runs, want)
		}
		w.runs, w.unseen = w.runs+runs, w.unseen+runs-r.Runs
	}
	for _, p := range w.jobs {
		if n := settled[p.job.Name]; n == 0 || n > 1 && p.again == 0 {
			w.Violate("%s is done, and the ledger settled it %d times", p.job.Name, n)
		}
	}
}
