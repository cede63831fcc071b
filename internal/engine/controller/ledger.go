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
	"lull.dev/lull/internal/accounting/keeper"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/feedback"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
)

// ledgerRecorder records in the ledger what the policies of a controller observe. Workloads that are over are settled by
// the leader: Start implements manager.Runnable.
type ledgerRecorder struct {
	*keeper.Keeper
	zones *Zones
	now   func() time.Time
}

// newLedgerRecorder returns a recorder for a ledger. A database that cannot be opened yet keeps no controller from starting.
func newLedgerRecorder(l *ledger.Ledger, zones *Zones, now func() time.Time) *ledgerRecorder {
	b := &ledgerRecorder{zones: zones, now: now}
	b.Keeper = keeper.New(l, b.gridNow, func(ctx context.Context, err error, message string, args ...any) {
		log.FromContext(ctx).Error(err, message, args...)
	})
	return b
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
			b.Recorder.PodGone(pod, b.now())
		}
	}})
	return err
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
	b.Recorder.Record(&ledger.Look{
		Context: c, All: all, View: view, Decision: d, Due: due, Applied: wrote, Phases: phases, Pods: pods, Zones: zones, Beside: beside,
		Ran: func(w *kube.Workload) (string, time.Duration) { return feedback.Ran(w, c) },
	})
}

// remember has a policy learn the run times that earlier controllers recorded, once the ledger has been read. b may be nil.
func (b *ledgerRecorder) remember(m *feedback.Memory, policy types.NamespacedName) {
	if b == nil || m.Remembers() {
		return
	}
	if list, loaded := b.Recorder.Lengths(policy.String()); loaded {
		m.Remember(list)
	}
}

func zonesOf(s *decide.Snapshot) (out []string) {
	for i := range s.Clusters {
		out = append(out, s.Clusters[i].Zone)
	}
	return out
}
