package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/internal/ledger"
	"lull.dev/lull/internal/metrics"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
)

// settleEvery is how often workloads that are over are settled.
const settleEvery = 5 * time.Second

// books keep the ledger of a controller: what policies see is recorded, and what is over is settled by
// whoever leads.
type books struct {
	recorder *ledger.Recorder
	settler  *ledger.Settler
	zones    *Zones
	now      func() time.Time
}

// newBooks keeps a ledger. A database that cannot be opened yet keeps no controller from starting.
func newBooks(l *ledger.Ledger, zones *Zones, now func() time.Time) *books {
	return &books{settler: ledger.NewSettler(l), recorder: ledger.NewRecorder(l), zones: zones, now: now}
}

// watch hears of pods that are deleted, with their last state.
func (b *books) watch(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if pod, ok := obj.(*corev1.Pod); ok {
			b.recorder.PodGone(pod, b.now())
		}
	}})
	return err
}

// Start implements manager.Runnable: it settles until ctx ends.
func (b *books) Start(ctx context.Context) error {
	for {
		n, err := b.settler.Settle(ctx, b.gridNow)
		if err != nil && ctx.Err() == nil {
			metrics.LedgerErrors.Inc()
			log.FromContext(ctx).Error(err, "Settle")
		}
		metrics.LedgerSettled.Add(float64(n))
		if err := b.recorder.Retry(ctx); err != nil && ctx.Err() == nil {
			metrics.LedgerErrors.Inc()
			log.FromContext(ctx).Error(err, "Record again")
		}
		metrics.LedgerPending.Set(float64(b.recorder.Pending()))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settleEvery):
		}
	}
}

// gridNow is the time of a zone's series; zero where the zone has not been looked at, or is not there.
func (b *books) gridNow(name string) time.Time {
	zone, looked := b.zones.Get(name)
	if !looked {
		return time.Time{}
	}
	return zone.Timeline.ToGrid(b.now())
}

// sight are the pods of a look.
type sight map[types.UID][]*corev1.Pod

func (s sight) saw(w *kube.Workload, pod *corev1.Pod) { s[w.UID()] = append(s[w.UID()], pod) }

// record writes what a look has found. What cannot be written waits for the next look: the database
// never keeps work from being scheduled.
func (b *books) record(ctx context.Context, c kube.Context, all []*kube.Workload, view *kube.View, d *decide.Decision, due map[int]v1alpha1.PlanTrigger, wrote []bool, phases func(*kube.Workload) []decide.Phase, pods sight) {
	zones, beside := map[string]carbon.Outlook{}, map[string]string{}
	for _, name := range append([]string{c.Policy.Spec.Zone}, zonesOf(&view.Snapshot)...) {
		zone, known := b.zones.Get(name)
		if !known {
			continue
		}
		zones[name] = zone.Outlook
		if other, known := b.zones.Get(zone.Beside); known && zone.Beside != name {
			zones[zone.Beside], beside[name] = other.Outlook, zone.Beside
		}
	}
	err := b.recorder.Record(ctx, &ledger.Look{
		Context: c, All: all, View: view, Decision: d, Due: due, Applied: wrote, Phases: phases, Pods: pods, Zones: zones, Beside: beside,
	})
	if err != nil {
		metrics.LedgerErrors.Inc()
		log.FromContext(ctx).Error(err, "Record")
	}
	metrics.LedgerPending.Set(float64(b.recorder.Pending()))
}

func zonesOf(s *decide.Snapshot) (out []string) {
	for i := range s.Clusters {
		out = append(out, s.Clusters[i].Zone)
	}
	return out
}
