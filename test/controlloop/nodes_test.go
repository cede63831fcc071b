package controlloop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// loseNodes takes nodes from some worlds, one after another: a node is deleted, as a spot instance is, or its kubelet falls silent for
// minutes. A new node or its answer comes within minutes. There is one node more than all Jobs need, so there is still room for all.
func (w *randomWorld) loseNodes(nodes int) {
	rng := rand.New(rand.NewPCG(w.Seed, 0x6e6f646573))
	if rng.IntN(3) > 0 {
		return
	}
	w.AddNode(simkube.Node("node-spare", "8"))
	at := between(rng, time.Minute, coming)
	for n := range 1 + rng.IntN(6) {
		name, away := fmt.Sprintf("node-%d", rng.IntN(nodes)), between(rng, 10*time.Second, 12*time.Minute)
		deleted := rng.IntN(2) == 0
		w.After(at, func() { w.loseNode(name, fmt.Sprintf("%s-again-%d", name, n), deleted, away) })
		at += away + between(rng, time.Minute, coming)
	}
}

func (w *randomWorld) loseNode(name, next string, deleted bool, away time.Duration) {
	if w.Store.Get(w.Store.Resource("Node"), types.NamespacedName{Name: name}) == nil {
		return // it is gone already
	}
	w.mu.Lock()
	w.nodesLost++
	w.mu.Unlock()
	if deleted {
		w.DeleteNode(name)
		if w.Sleep(away) {
			w.AddNode(simkube.Node(next, "8"))
		}
		return
	}
	w.SetReady(name, false)
	if w.Sleep(away) {
		w.SetReady(name, true)
	}
}

// meddle has others change Jobs in some worlds: a controller that labels them again and again, and users who delete a Job and submit
// it again under its name.
func (w *randomWorld) meddle() {
	rng := rand.New(rand.NewPCG(w.Seed, 0x6d6564646c65))
	jobs := w.Store.Resource("Job")
	if rng.IntN(3) == 0 {
		every := between(rng, 2*time.Second, 3*time.Minute)
		w.Go(func() {
			for n := 0; w.Sleep(every); n++ {
				key := nameOf(w.jobs[n%len(w.jobs)].job)
				_, _ = w.Store.Change("user", jobs, key, false, func(u *unstructured.Unstructured) error {
					labels := u.GetLabels()
					labels["cost-centre"] = fmt.Sprint(n)
					u.SetLabels(labels)
					return unstructured.SetNestedField(u.Object, fmt.Sprint(n), "metadata", "annotations", "example.com/seen")
				})
			}
		})
	}
	for _, p := range w.jobs {
		if rng.IntN(12) == 0 {
			p.again = p.at + between(rng, time.Second, p.length+p.delay)
		}
	}
}

// submitAgain deletes the Job of p, if it is not done, and submits it again.
func (w *randomWorld) submitAgain(p *planned) {
	u := w.Store.Get(w.Store.Resource("Job"), nameOf(p.job))
	if u == nil {
		return
	}
	var old batchv1.Job
	typed(u, &old)
	if _, done := simkube.Finished(&old); done {
		return
	}
	next := p.submits(p.job.Name, p.cpus)
	if err := w.Client.Delete(w.Context(), &old, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		w.Violate("delete %s: %v", old.Name, err)
		return
	}
	if err := w.Client.Create(w.Context(), next); err != nil {
		w.Violate("submit %s again: %v", next.Name, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.job = next
	w.edits++
}

// deadline is when a Job must be done. Work that is lost with a node, and the time until another pod starts, come on top: no
// schedule could keep the deadline.
func (w *randomWorld) deadline(p *planned) time.Time { return w.deadlineAsOf(p, time.Now()) }

// deadlineAsOf is the deadline with what was lost by a time.
func (w *randomWorld) deadlineAsOf(p *planned, at time.Time) time.Time {
	lost, times := w.Cluster.Lost(p.job.UID, at)
	return p.job.CreationTimestamp.Add(p.length + p.delay + lost + time.Duration(times)*restarts)
}

// restarts is how long it takes at most until another pod runs.
const restarts = 5 * time.Second

// untilLostIsMadeGood waits for the last deadline.
func (w *randomWorld) untilLostIsMadeGood() {
	for again := true; again; {
		again = false
		for _, p := range w.jobs {
			if wait := time.Until(w.deadline(p).Add(time.Minute)); wait > 0 && w.Sleep(wait) {
				again = true
			}
		}
	}
	for _, p := range w.jobs {
		_, times := w.Cluster.Lost(p.job.UID, time.Now())
		w.lost += times
	}
}

// TestALateJobCausesNoStorm: a Job is late for good, as its work was lost with a node. Each decision makes the plans of the others anew, which
// is said of each of them, and asks for no other decision: those of the resync are all that there are.
func TestALateJobCausesNoStorm(t *testing.T) {
	slots := func(p *v1alpha1.CarbonPolicy) { // those of a new plan begin now, so that its hours move with the time
		p.Spec.Planner, p.Spec.Slot = v1alpha1.PlannerSpec{Name: "carbonscaler"}, &metav1.Duration{Duration: 30 * time.Minute}
	}
	onBed(t, []float64{500, 480, 460, 440, 420, 400, 380, 260, 100, 150, 300, 500}, slots, func(b *bed) {
		c := b.Controller()
		late := b.job("late", map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationRuntime: "3h", v1alpha1.AnnotationDeadline: at(4).Format(time.RFC3339)})
		late.Spec.Template.Annotations[simkube.RunTime] = "3h"
		b.Create(late)
		for i := range 6 {
			b.submit(fmt.Sprintf("job-%d", i), map[string]string{v1alpha1.AnnotationRuntime: "100m", v1alpha1.AnnotationDeadline: at(12).Format(time.RFC3339)})
		}
		b.Run(at(3).Sub(b.gridTime(time.Now())) / factor)
		c.Kill()
		b.DeleteNode("node-1")
		b.Run(10 * time.Second)
		b.Controller() // which sees how long the Job's new pod has run
		b.Run(10 * time.Second)
		if _, lost := b.Cluster.Lost(late.UID, time.Now()); lost == 0 {
			t.Fatal("the Job did not run on the node")
		}
		_, from := b.Store.List(b.Store.Resource("Job"), "")
		b.Run(time.Minute)
		writes := 0
		for _, e := range b.Store.Since(from) {
			if e.Resource.Kind == "Job" && strings.HasPrefix(e.By, "controller") {
				writes++
			}
		}
		if decisions := 4; writes > 7*decisions {
			t.Errorf("%d writes of 7 Jobs in a minute in which nothing happened", writes)
		}
	})
}
