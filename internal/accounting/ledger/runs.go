package ledger

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/decide"
)

// takeGone notes the ends of pods that were deleted since the last look.
func (r *Recorder) takeGone(k *Look) {
	policy := policyName(k.Policy)
	for uid, g := range r.gone {
		of := r.runs[uid]
		if of == "" {
			of = r.began(k, g.pod) // between two looks
		}
		if of == "" {
			if k.Now.Sub(g.at) > patience {
				delete(r.gone, uid) // of nobody governed
			}
			continue
		}
		if w := r.workloads[of]; w != nil && w.policy == policy {
			r.endPod(k, g.pod, of, endOf(g))
			delete(r.gone, uid)
		}
	}
}

// began notes the run of a pod whose workload is known by who owns it, and returns that; "" where none
// does.
func (r *Recorder) began(k *Look, pod *corev1.Pod) types.UID {
	for _, owner := range pod.OwnerReferences {
		w := r.workloads[owner.UID]
		if w == nil || w.policy != policyName(k.Policy) {
			continue
		}
		if _, known := w.runs[pod.UID]; !known {
			r.beginPod(k, pod, owner.UID)
			return owner.UID
		}
	}
	return ""
}

// ran notes runs of pods that have begun or ended.
func (r *Recorder) ran(k *Look, w *kube.Workload, o *observed) {
	for _, pod := range k.Pods[w.UID()] {
		_, to, ran := kube.Ran(pod)
		if !ran {
			continue
		}
		x := o.runs[pod.UID]
		if x != nil && x.ended {
			continue
		}
		if x == nil {
			r.beginPod(k, pod, w.UID())
		}
		if !to.IsZero() {
			r.endPod(k, pod, w.UID(), to)
		}
	}
}

// beginPod notes the run of a pod.
func (r *Recorder) beginPod(k *Look, pod *corev1.Pod, workload types.UID) {
	from, _, _ := kube.Ran(pod)
	r.begin(Started{
		Run: string(pod.UID), At: k.Timeline.ToGrid(from).UTC(), Zone: k.Policy.Spec.Zone, Node: pod.Spec.NodeName, Workers: 1,
		Watts: k.watts("", kinds.RequestsOf(&pod.Spec)),
	}, workload)
}

func (r *Recorder) begin(b Started, workload types.UID) {
	id := types.UID(b.Run)
	r.runs[id], r.workloads[workload].runs[id] = workload, &run{from: b.At}
	r.add(KindStarted, "started/"+b.Run, workload, b)
}

// end notes the end of a run (wall time).
func (r *Recorder) end(k *Look, id, workload types.UID, at time.Time, how How, succeeded bool) {
	r.ended(k, workload, at, Ended{Run: string(id), How: how, Succeeded: succeeded})
}

// endPod notes the end of a pod that was observed (wall time).
func (r *Recorder) endPod(k *Look, pod *corev1.Pod, workload types.UID, at time.Time) {
	b := Ended{Run: string(pod.UID), How: Observed, Succeeded: succeeded(pod), Lost: lostOf(pod)}
	if !b.Succeeded && r.workloads[workload].evicted {
		b.Lost = Evicted
	}
	r.ended(k, workload, at, b)
}

func (r *Recorder) ended(k *Look, workload types.UID, at time.Time, b Ended) {
	id := types.UID(b.Run)
	b.At = k.Timeline.ToGrid(at).UTC()
	delete(r.runs, id)
	r.workloads[workload].runs[id].ended = true
	r.add(KindEnded, "ended/"+b.Run, workload, b)
}

// lostOf says whether a pod that has ended has failed, and how.
func lostOf(pod *corev1.Pod) Lost {
	switch {
	case kube.Evicted(pod):
		return Evicted
	case pod.Status.Phase == corev1.PodFailed && pod.DeletionTimestamp == nil:
		return Failed
	}
	return ""
}

// missed notes that pods are gone of whose end nobody heard, as no controller ran: they have ended when
// Lull last paused or scaled the workload, if that was since they began, else when they were missed.
func (r *Recorder) missed(k *Look, w *kube.Workload, o *observed) {
	const settles = 2 * time.Second // an end that is about to be heard of
	for id, x := range o.runs {
		switch {
		case x.ended || slices.ContainsFunc(k.Pods[w.UID()], func(pod *corev1.Pod) bool { return pod.UID == id }):
		case x.missed.IsZero():
			x.missed = k.Now
		case k.Now.Sub(x.missed) >= settles:
			at := x.missed
			if changed, known := kube.Changed(w); known && changed.Before(at) && k.Timeline.ToGrid(changed).After(x.from) {
				at = changed
			}
			r.end(k, id, w.UID(), at, Inferred, false)
		}
	}
}

func succeeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

// endOf is when a pod that is gone has ended: as its containers say, else when its deletion was seen.
func endOf(g goneRun) time.Time {
	if _, to, _ := kube.Ran(g.pod); !to.IsZero() {
		return to
	}
	if d := g.pod.DeletionTimestamp; d != nil && d.Time.Before(g.at) {
		return d.Time
	}
	return g.at
}

// ranElsewhere notes runs on another cluster, whose pods cannot be seen: a run is a stretch on one
// cluster at one scale.
func (r *Recorder) ranElsewhere(k *Look, w *kube.Workload, t *decide.Task, o *observed) {
	as := ""
	if t.State == decide.Running && w.Facts.Active && !w.Facts.Started.IsZero() {
		as = fmt.Sprintf("%d/%s/%d", w.Facts.Started.Unix(), t.Cluster, w.Size().Pods())
	}
	if as == o.remoteAs && (as == "") == (o.remote == "") {
		return
	}
	from := w.Facts.Started
	if o.remote != "" {
		from = k.Now
		r.end(k, types.UID(o.remote), w.UID(), k.Now, Observed, false)
	}
	o.remote, o.remoteAs = "", as
	if as == "" {
		return
	}
	c, size := k.place(t.Cluster), w.Size()
	o.remote = fmt.Sprintf("%s/%d", w.UID(), from.UnixNano())
	r.begin(Started{
		Run: o.remote, At: k.Timeline.ToGrid(from).UTC(), Cluster: c.Name, Zone: c.Zone, Workers: size.Pods(),
		Watts: float64(size.Workers) * k.watts(c.Name, size.Request),
	}, w.UID())
}

// patience is how long (wall time) the ends of pods are waited for once their workload is over.
const patience = time.Minute

// finished notes that a workload is over, once its runs are.
func (r *Recorder) finished(k *Look, w *kube.Workload, o *observed) bool {
	at := w.Facts.Ended
	if at.IsZero() {
		at = k.Now
	}
	for id, x := range o.runs {
		switch {
		case x.ended:
		case string(id) == o.remote:
			r.end(k, id, w.UID(), at, Observed, true)
		case k.Now.Sub(at) < patience:
			return false
		default:
			r.end(k, id, w.UID(), at, Inferred, false)
		}
	}
	r.writeEnergy(w.UID(), o)
	b := Finished{At: k.Timeline.ToGrid(at).UTC(), How: "finished"}
	if k.Ran != nil {
		if family, length := k.Ran(w); length > 0 {
			b.Policy, b.Family, b.RanSeconds = o.policy, family, length.Seconds()
		}
	}
	r.add(KindFinished, "finished/"+string(w.UID()), w.UID(), b)
	return true
}

// vanished notes that a workload is not there any more.
func (r *Recorder) vanished(k *Look, uid types.UID, o *observed) {
	for id, x := range o.runs {
		if x.ended {
			continue
		}
		if g, known := r.gone[id]; known {
			r.endPod(k, g.pod, uid, endOf(g))
			delete(r.gone, id)
			continue
		}
		r.end(k, id, uid, k.Now, Inferred, false)
	}
	r.writeEnergy(uid, o)
	r.add(KindFinished, "finished/"+string(uid), uid, Finished{At: k.Timeline.ToGrid(k.Now).UTC(), How: "gone"})
	delete(r.workloads, uid)
}
