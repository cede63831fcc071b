package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
)

const (
	// settleEvery is how often workloads that are over are settled.
	settleEvery = 5 * time.Second
	// writeAgain is how long the ledger waits after a write that failed.
	writeAgain = 5 * time.Second
	// flushWithin bounds what is written at the end.
	flushWithin = 10 * time.Second
	// loadWithin is how long decisions wait, at a start, for the ledger to be read.
	loadWithin = 2 * time.Second
	// behindAfter is how long an entry may wait before the ledger counts as behind.
	behindAfter = 30 * time.Second
)

// ledgerRecorder records in the ledger what the policies of a controller observe. Workloads that are over are settled by
// the leader.
type ledgerRecorder struct {
	recorder *ledger.Recorder
	settler  *ledger.Settler
	zones    *Zones
	now      func() time.Time
	// began is when the controller did (wall time).
	began time.Time

	mu sync.Mutex
	// counted is what the metrics have of what is lost and in quarantine.
	counted ledger.Health
}

// newLedgerRecorder returns a recorder for a ledger. A database that cannot be opened yet keeps no controller from starting.
func newLedgerRecorder(l *ledger.Ledger, zones *Zones, now func() time.Time) *ledgerRecorder {
	return &ledgerRecorder{settler: ledger.NewSettler(l), recorder: ledger.NewRecorder(l), zones: zones, now: now, began: time.Now()}
}

// watch records the last state of pods that are deleted.
func (b *ledgerRecorder) watch(ctx context.Context, mgr ctrl.Manager) error {
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

// loading says whether a decision should wait, as the ledger is being read.
func (b *ledgerRecorder) loading() bool {
	return time.Since(b.began) < loadWithin && !b.recorder.Health().Loaded
}

// Start implements manager.Runnable: it writes and settles until ctx ends, and writes then what is left.
func (b *ledgerRecorder) Start(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { b.write(ctx) })
	for ctx.Err() == nil {
		n, err := b.settler.Settle(ctx, b.gridNow)
		if err != nil && ctx.Err() == nil {
			metrics.LedgerErrors.Inc()
			log.FromContext(ctx).Error(err, "Settle")
		}
		metrics.LedgerSettled.Add(float64(n))
		b.count()
		select {
		case <-ctx.Done():
		case <-time.After(settleEvery):
		}
	}
	group.Wait()
	return nil
}

// write writes what is recorded, beside the decisions.
func (b *ledgerRecorder) write(ctx context.Context) {
	for ctx.Err() == nil {
		var again <-chan time.Time
		if err := b.recorder.Write(ctx); err != nil && ctx.Err() == nil {
			metrics.LedgerErrors.Inc()
			log.FromContext(ctx).Error(err, "Record")
			again = time.After(writeAgain)
		}
		b.count()
		queued := b.recorder.Queued()
		if again != nil {
			queued = nil // a database that fails is not asked at each decision
		}
		select {
		case <-ctx.Done():
		case <-queued:
		case <-again:
		}
	}
	b.flush(context.WithoutCancel(ctx))
}

// flush writes what is left. It is called again once the last decision has ended.
func (b *ledgerRecorder) flush(ctx context.Context) {
	if !b.recorder.Health().Loaded {
		return // nothing was recorded, as this replica has not led, say
	}
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	if err := b.recorder.Flush(ctx); err != nil {
		log.FromContext(ctx).Error(err, "Write what is left", "entries", b.recorder.Health().Queued)
	}
}

// count tells the metrics how the ledger is.
func (b *ledgerRecorder) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.recorder.Health()
	metrics.LedgerPending.Set(float64(h.Queued))
	lag := 0.0
	if h.Queued > 0 {
		lag = time.Since(h.Since).Seconds()
	}
	metrics.LedgerLag.Set(lag)
	metrics.LedgerLost.WithLabelValues("look").Add(float64(h.LostLooks - b.counted.LostLooks))
	metrics.LedgerLost.WithLabelValues("pod").Add(float64(h.LostPods - b.counted.LostPods))
	metrics.LedgerQuarantined.Add(float64(h.Quarantine.Entries - b.counted.Quarantine.Entries))
	b.counted = h
}

// problem says what is wrong with the ledger, for the status of policies; nothing where nothing is. The
// texts do not count, so that a status is not written at each decision.
func (b *ledgerRecorder) problem() (reason, message string) {
	h := b.recorder.Health()
	switch {
	case h.Problem != "":
		return "Behind", "entries wait for the ledger's database: " + h.Problem
	case h.Queued > 0 && time.Since(h.Since) > behindAfter:
		return "Behind", fmt.Sprintf("entries have waited for the ledger's database for more than %v", behindAfter)
	case h.LostLooks+h.LostPods > 0:
		return "Lost", "observations could not be recorded since the controller started: see the metric lull_ledger_lost_observations_total"
	case h.Quarantine.Entries > 0:
		return "Quarantined", fmt.Sprintf("entries of the ledger went into quarantine since the controller started, the last of kind %s: see lull ledger export --entries", h.Quarantine.Last.Kind)
	}
	return "", ""
}

// gridNow is the time of a zone's series; zero where the zone has not been looked at, or is not there.
func (b *ledgerRecorder) gridNow(name string) time.Time {
	zone, looked := b.zones.Get(name)
	if !looked {
		return time.Time{}
	}
	return zone.Timeline.ToGrid(b.now())
}

// observation is the pods that a reconcile has read, by the UID of their workload.
type observation map[types.UID][]*corev1.Pod

func (s observation) saw(w *kube.Workload, pod *corev1.Pod) { s[w.UID()] = append(s[w.UID()], pod) }

// record queues what a look has found: the database never keeps work from being scheduled.
func (b *ledgerRecorder) record(c kube.Context, all []*kube.Workload, view *kube.View, d *decide.Decision, due map[int]v1alpha1.PlanTrigger, wrote []bool, phases func(*kube.Workload) []decide.Phase, pods observation) {
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
	b.recorder.Record(&ledger.Look{
		Context: c, All: all, View: view, Decision: d, Due: due, Applied: wrote, Phases: phases, Pods: pods, Zones: zones, Beside: beside,
	})
}

func zonesOf(s *decide.Snapshot) (out []string) {
	for i := range s.Clusters {
		out = append(out, s.Clusters[i].Zone)
	}
	return out
}
