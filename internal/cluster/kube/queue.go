package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/decide"
)

// What waits in a queue of Kueue is held by Kueue's admission gate before it was first released,
// and by its Workload being inactive, with Lull's mark on it, afterwards. Neither holds quota.

// A Kueue that does not know the gate, or has it switched off, queues what is gated: it is then
// held the second way from the start.

// GateIgnored reports whether Kueue goes on with a workload that Lull's gate should keep out of
// its queue.
func (w *Workload) GateIgnored() bool {
	q := w.Queued
	return q != nil && q.Active && q.Considered && !q.Gated && w.Facts.Suspended
}

// NominationTimeout is how long a cluster may take to reserve quota for a workload that it was
// nominated for; after that another place is planned.
const NominationTimeout = 5 * time.Minute

// Parked reports whether Lull has set a Workload of Kueue inactive: one without Lull's mark is
// its user's, or Kueue's own.
func Parked(w *kueue.Workload) bool {
	return !w.Active && w.Annotations[v1alpha1.AnnotationHold] != ""
}

// WithQueued returns the workload with what Kueue keeps of it; nil for one that Kueue does not
// know (yet).
func (w *Workload) WithQueued(of map[types.UID]*kueue.Workload) *Workload {
	if w.Facts.Queue == "" {
		return w
	}
	out := *w
	if out.Queued = of[w.UID()]; out.Queued != nil {
		out.Facts.Suspended = out.Facts.Suspended || Parked(out.Queued)
	}
	return &out
}

// opened reports whether a workload of a queue goes on though its object says that Lull holds it: its
// Workload was made anew. Object and Workload are seen one after the other: what Lull has just written is
// waited for.
func (w *Workload) opened(in Input) bool {
	q := w.Queued
	return w.Facts.Queue != "" && !w.Facts.Suspended && !w.Facts.Finished && marked(w.Objects[0]) && q != nil && q.Active && q.Considered &&
		in.Timeline.ToGrid(in.Now).Sub(w.Record().At) > in.Timeline.GridDuration(settling)
}

// Target is the cluster that a workload was released to; "" where it was not, or to this one.
func (w *Workload) Target() string { return w.Annotations()[v1alpha1.AnnotationCluster] }

// place is where a workload of a queue is, or is on its way to. stuck says that the cluster
// it was nominated for has not taken it in time.
func (w *Workload) place(now time.Time) (cluster string, stuck bool) {
	q := w.Queued
	switch {
	case q == nil:
		return w.Target(), false
	case q.Cluster != "":
		return q.Cluster, false
	}
	waits := q.Active && q.Reserved && !q.Admitted && len(q.Nominated) > 0
	return w.Target(), waits && now.Sub(q.ReservedAt) > NominationTimeout
}

// park sets the Workload of a queue inactive, with a mark that says who did, and until when at most.
func (ap *Applier) park(ctx context.Context, w *Workload, mark, latest string) error {
	if w.Queued == nil {
		return fmt.Errorf("%s: Kueue has no Workload for it yet", describe(w))
	}
	return ap.patchQueued(ctx, w.Queued, false, map[string]any{
		v1alpha1.AnnotationHold: mark, v1alpha1.AnnotationLatestStart: latest,
		kueue.AnnotationReplaces: nil, // MultiKueue leaves the copy of a slice that replaces another where it is
	})
}

// unpark takes Lull's marks off the Workload of a queue: it is active again if Lull has set it inactive.
func (ap *Applier) unpark(ctx context.Context, w *Workload) error {
	if w.Queued == nil {
		return nil
	}
	gated := w.gateStays()
	if !gated && !markedQueue(w.Queued) {
		return nil
	}
	return ap.UnparkQueued(ctx, w.Queued, gated)
}

// markedQueue reports whether Lull's mark is on a Workload that has not ended.
func markedQueue(q *kueue.Workload) bool {
	return q != nil && !q.Finished && q.Annotations[v1alpha1.AnnotationHold] != ""
}

// gateStays reports whether Lull's gate is on the Workload of an elastic object: Kueue v0.19 takes
// the gates of an object over when it makes the Workload, and with workload slices never again.
func (w *Workload) gateStays() bool {
	q := w.Queued
	return q != nil && w.Annotations()[kueue.AnnotationElastic] == "true" && slices.Contains(kueue.Gates(q.Annotations[kueue.AnnotationGates]), v1alpha1.Gate)
}

// inSlices reports whether Kueue resizes the object, through slices of its Workload.
func (w *Workload) inSlices() bool {
	return w.Facts.Queue != "" && w.Annotations()[kueue.AnnotationElastic] == "true"
}

// unseen reports whether Kueue has not looked yet at the Workload of an object that it resizes. If Lull scales an object before that,
// Kueue v0.19 may create a second Workload that does not replace the first. Kueue then ends the second one. It cannot create it again,
// because the name comes from the object's generation and is taken. So Kueue never starts the object.
func (w *Workload) unseen() bool {
	return w.inSlices() && (w.Queued == nil || !w.Queued.Considered)
}

// askedOfKueue is how many pods Kueue has to admit: workers, and what does not scale.
func (w *Workload) askedOfKueue() int {
	if w.Facts.Of > 0 {
		return min(w.Facts.Workers, w.Facts.Of) + w.Facts.Pods
	}
	return w.Facts.Workers + w.Facts.Pods
}

// resizing reports whether Kueue is about to take up an elastic object, or a change of its scale. One that
// is changed again meanwhile is stuck: see unseen, and MultiKueue (as of v0.19.2) carries a slice to the other
// cluster only while its name is that of the object's latest generation.
func (w *Workload) resizing() bool {
	if w.Facts.Suspended || !w.inSlices() {
		return false
	}
	q := w.Queued
	return w.unseen() || q.Replaces && !q.Admitted || q.Admitted && (q.Pods != w.askedOfKueue() || w.Facts.Started.IsZero())
}

// keepsSize reports whether Lull must leave the scale of a running object as it is for now: Kueue is about to take up a change, or the
// object has fewer parts left than workers. Kueue v0.19 has given back the quota of the spare workers then (status.reclaimablePods of the
// Workload). If the object is scaled down, Kueue wants to take that entry back, refuses its own write, and the object stands still.
func (w *Workload) keepsSize() bool {
	return w.resizing() || w.inSlices() && !w.Facts.Suspended && w.Facts.Done > 0 && w.Facts.Of-w.Facts.Done < w.Facts.Workers
}

// UnparkOrphan takes Lull's marks off one of Marks.Orphans. If nothing owns it, the gate goes too: Kueue takes the gates of a Workload that has an
// owner from there.
func (ap *Applier) UnparkOrphan(ctx context.Context, q *kueue.Workload) error {
	return ap.UnparkQueued(ctx, q, len(q.OwnedBy) == 0)
}

// UnparkQueued takes Lull's marks off a Workload of Kueue, its gate too where asked to.
func (ap *Applier) UnparkQueued(ctx context.Context, q *kueue.Workload, gate bool) error {
	annotations := map[string]any{v1alpha1.AnnotationHold: nil, v1alpha1.AnnotationLatestStart: nil}
	if gate {
		annotations[kueue.AnnotationGates] = nil
		if others := kueue.Without(q.Annotations[kueue.AnnotationGates], v1alpha1.Gate); others != "" {
			annotations[kueue.AnnotationGates] = others
		}
	}
	return ap.patchQueued(ctx, q, q.Active || Parked(q), annotations)
}

// patchQueued sets annotations of a Workload of Kueue, nil to remove one, and whether it is active.
func (ap *Applier) patchQueued(ctx context.Context, q *kueue.Workload, active bool, annotations map[string]any) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": q.Version, "annotations": annotations},
		"spec":     map[string]any{"active": active},
	})
	if err != nil {
		return err
	}
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(kueue.GroupVersion.WithKind("Workload"))
	target.SetNamespace(q.Namespace)
	target.SetName(q.Name)
	if err := ap.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("Workload %s/%s of Kueue: %w", q.Namespace, q.Name, err)
	}
	return nil
}

// allowed are the clusters to which a workload may go, of those there are; nil for all. None is
// an error: what must stay somewhere goes nowhere else.
func allowed(w *Workload, o *Options, clusters []decide.Cluster) ([]string, error) {
	if len(o.Clusters) == 0 && len(o.Zones) == 0 {
		return nil, nil
	}
	var out, there []string
	for i := range clusters {
		c := &clusters[i]
		there = append(there, c.Name+" in "+c.Zone)
		if (len(o.Clusters) == 0 || slices.Contains(o.Clusters, c.Name)) && (len(o.Zones) == 0 || slices.Contains(o.Zones, c.Zone)) {
			out = append(out, c.Name)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	name := v1alpha1.AnnotationClusters
	if len(o.Zones) > 0 {
		name = v1alpha1.AnnotationZones
	}
	return nil, annotationError(name, w.Annotations()[name], "one of the clusters of the policy: "+strings.Join(there, ", "))
}

// Names splits a list of names, separated by commas.
func Names(text string) []string {
	var out []string
	for _, n := range strings.Split(text, ",") {
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// counted are the pods of a workload that runs on another cluster, as its object tells.
func (w *Workload) counted() podCount {
	var c podCount
	if w.Facts.Active && !w.Facts.Started.IsZero() {
		c.running, c.started, c.first = w.Workers(), w.Workers(), w.Facts.Started
	}
	return c
}

// Place chooses a cluster for what starts without a plan, as its latest start has come or it
// may not wait: of those with room for it now the one with the least intensity, else the one
// with the most room. With one cluster there is nothing to choose.
func Place(v *View, d *decide.Decision) {
	s := &v.Snapshot
	if len(s.Clusters) < 2 {
		return
	}
	free := make([]map[string]float64, len(s.Clusters))
	for j := range s.Clusters {
		c := &s.Clusters[j]
		free[j] = make(map[string]float64, len(c.Capacity))
		for r, q := range c.Capacity {
			free[j][r] = q - c.Load[r]
			if at := c.LoadAt[r]; len(at) > 0 {
				free[j][r] -= at[0]
			}
		}
	}
	take := func(j int, t *decide.Task, workers int) {
		for r, q := range t.Request {
			free[j][r] -= q * float64(max(1, workers))
		}
	}
	index := func(name string) int {
		return slices.IndexFunc(s.Clusters, func(c decide.Cluster) bool { return c.Name == name })
	}
	var open []int
	for i := range d.Actions {
		a, t := &d.Actions[i], &s.Tasks[i]
		starts := a.Verb == decide.Release || a.Verb == decide.Resume
		at := t.Cluster
		if starts && a.Cluster != "" {
			at = a.Cluster
		}
		switch j := index(at); {
		case j >= 0 && (starts || t.State == decide.Running):
			a.Cluster = at
			take(j, t, a.Workers)
		case starts:
			open = append(open, i)
		}
	}
	for _, i := range open {
		a, t := &d.Actions[i], &s.Tasks[i]
		best, bestFits, bestValue := -1, false, 0.0
		for j := range s.Clusters {
			c := &s.Clusters[j]
			if len(c.Capacity) == 0 || t.Clusters != nil && !slices.Contains(t.Clusters, c.Name) {
				continue
			}
			fits, room := true, 1.0
			for r, q := range t.Request {
				need := q * float64(max(1, a.Workers))
				if need > 0 {
					fits = fits && free[j][r] >= need
					room = min(room, free[j][r]/need)
				}
			}
			value := room
			if fits {
				value = 0
				if c.Carbon != nil {
					if x, ok := c.Carbon.At(s.Now); ok {
						value = -float64(x.Value) * float64(c.Power.Of(t.Request))
					}
				}
			}
			if best < 0 || fits && !bestFits || fits == bestFits && value > bestValue {
				best, bestFits, bestValue = j, fits, value
			}
		}
		if best >= 0 {
			a.Cluster = s.Clusters[best].Name
			take(best, t, a.Workers)
		}
	}
}
