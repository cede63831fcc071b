package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
)

// prober proves that work is held at creation: at start, after each change of a policy, and every ten minutes it creates objects that the policy governs, as a
// dry run, which must come back held. That a policy is installed proves nothing: an API server may serve it and not evaluate it. Reconcilers
// ask, others try beside them: a webhook of a tenant may be slow.
type prober struct {
	client client.Client // creates
	clock  clock.Clock
	// namespace is Lull's own, in which nothing is held.
	namespace string
	todo      chan *v1alpha1.CarbonPolicy
	// enqueue has a policy reconciled, so that it says what has been found out. Set it before the first reconciliation.
	enqueue func(types.NamespacedName)

	mu     sync.Mutex
	probes map[types.NamespacedName]*probe
}

// probe is what is known of a policy.
type probe struct {
	generation int64
	busy       bool      // one is under way
	next       time.Time // when to try again
	unheld     int       // how many in succession came back unheld
	verdict    verdict
}

// verdict is what a condition says. A verdict without a status is none.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// Who holds learns of a policy within a second or two, and may miss its time on a busy machine: one object that comes back unheld proves nothing.
const (
	probeAfter   = 5 * time.Second // after a policy was changed, or the start
	probeEvery   = 10 * time.Minute
	probeAgain   = 10 * time.Second // after an object came back unheld, until it is certain
	probeUnheld  = time.Minute      // while it is certain
	probeRefused = 10 * time.Minute // while the API server refuses
	// probesUnheld is how many in succession make it certain.
	probesUnheld = 3
	// probeTimeout bounds one request, probersAtOnce the policies that are tried at a time.
	probeTimeout  = 30 * time.Second
	probersAtOnce = 4
)

func newProber(c client.Client, clock clock.Clock, namespace string) *prober {
	return &prober{client: c, clock: clock, namespace: namespace, todo: make(chan *v1alpha1.CarbonPolicy, probersAtOnce), probes: map[types.NamespacedName]*probe{}}
}

// Start implements manager.Runnable. It is run by the leader alone.
func (x *prober) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for range probersAtOnce {
		group.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case policy := <-x.todo:
					x.run(ctx, policy)
				}
			}
		})
	}
	group.Wait()
	return nil
}

// state writes what is known of a policy into its conditions and the metrics, and has it tried if it is time to.
func (x *prober) state(policy *v1alpha1.CarbonPolicy) {
	key := client.ObjectKeyFromObject(policy)
	conditions := &policy.Status.Conditions
	if policy.Spec.Via == v1alpha1.ViaExtender || !kinds.Asked(x.namespace, policy.Namespace) {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionHeldAtCreation)
		x.forget(key)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.clock.Now()
	p := x.probes[key]
	if p == nil {
		p = &probe{}
		x.probes[key] = p
	}
	if p.generation != policy.Generation {
		*p = probe{generation: policy.Generation, busy: p.busy, next: now.Add(probeAfter)}
	}
	if !p.busy && !now.Before(p.next) {
		select {
		case x.todo <- policy.DeepCopy():
			p.busy = true
		default: // all are at work: the next reconciliation asks again
		}
	}
	if v := p.verdict; v.status != "" {
		if was := meta.FindStatusCondition(*conditions, v1alpha1.ConditionHeldAtCreation); was != nil && was.Reason != v.reason {
			meta.RemoveStatusCondition(conditions, v1alpha1.ConditionHeldAtCreation) // the time of a condition is that of its reason
		}
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: v1alpha1.ConditionHeldAtCreation, Status: v.status, Reason: v.reason, Message: v.message, ObservedGeneration: policy.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	if c := meta.FindStatusCondition(*conditions, v1alpha1.ConditionHeldAtCreation); c != nil {
		x.tell(key, c)
	}
}

// tell sets the metric of a policy.
func (x *prober) tell(key types.NamespacedName, c *metav1.Condition) {
	for _, by := range []string{v1alpha1.ReasonAdmissionPolicy, v1alpha1.ReasonWebhook, v1alpha1.ReasonNotHeld, v1alpha1.ReasonNotTried, v1alpha1.ReasonCannotTry} {
		if by == c.Reason {
			metrics.HeldAtCreation.WithLabelValues(key.Namespace, key.Name, by).Set(float64(c.LastTransitionTime.Unix()))
		} else {
			metrics.HeldAtCreation.DeleteLabelValues(key.Namespace, key.Name, by)
		}
	}
}

// forget drops what is known of a policy that is gone.
func (x *prober) forget(key types.NamespacedName) {
	x.mu.Lock()
	delete(x.probes, key)
	x.mu.Unlock()
	metrics.HeldAtCreation.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "policy": key.Name})
}

// run tries a policy and keeps what came of it.
func (x *prober) run(ctx context.Context, policy *v1alpha1.CarbonPolicy) {
	v, err := x.try(ctx, policy)
	x.mu.Lock()
	defer x.mu.Unlock()
	key := client.ObjectKeyFromObject(policy)
	p := x.probes[key]
	if p == nil {
		return
	}
	p.busy = false
	now := x.clock.Now()
	switch {
	case p.generation != policy.Generation: // tried again as it is now
		return
	case err != nil: // the API server does not answer: that says nothing
		log.FromContext(ctx).Info("Try whether work is held at creation, to be tried again", "policy", key.String(), "error", err.Error())
		p.next = now.Add(probeUnheld)
		return
	case v.status != metav1.ConditionFalse:
		p.unheld = 0
	default:
		p.unheld++
	}
	switch {
	case v.status == metav1.ConditionTrue:
		p.next = now.Add(probeEvery)
	case v.status == metav1.ConditionUnknown:
		p.next = now.Add(probeRefused)
	case p.unheld < probesUnheld:
		p.next = now.Add(probeAgain)
		return
	default:
		p.next = now.Add(probeUnheld)
	}
	changed := p.verdict.reason != v.reason
	p.verdict = v
	if changed {
		log.FromContext(ctx).Info("Work held at creation", "policy", key.String(), "status", v.status, "reason", v.reason, "message", v.message)
		x.enqueue(key)
	}
}

// try creates an object of each kind of a policy as a dry run. An error says that the API server did not answer.
func (x *prober) try(ctx context.Context, policy *v1alpha1.CarbonPolicy) (verdict, error) {
	var held, unheld, refused []string
	way, why := "", ""
	probes := kube.Probes(policy)
	for _, kind := range slices.Sorted(maps.Keys(probes)) {
		obj := probes[kind]
		err := x.create(ctx, obj)
		switch status := apierrors.APIStatus(nil); {
		case err != nil && (!errors.As(err, &status) || passes(err)):
			return verdict{}, err
		case err != nil:
			if refused = append(refused, kind); why == "" {
				why = err.Error()
			}
			continue
		}
		by, is := kube.Held(policy, obj)
		if is {
			held, way = append(held, kind), by
		} else {
			unheld = append(unheld, kind)
		}
	}
	list := func(of []string) string { return strings.Join(of, ", ") }
	note := ""
	if len(refused) > 0 {
		note = fmt.Sprintf("; not known for %s, because the API server refuses a dry run: %s", list(refused), why)
	}
	switch {
	case len(unheld) > 0:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNotHeld, clipped(fmt.Sprintf("a dry run of %s came back unchanged: such work starts as its user wrote it. See troubleshooting.md%s", list(unheld), note), mostMessage)}, nil
	case len(held) > 0:
		return verdict{metav1.ConditionTrue, way, clipped(fmt.Sprintf("a dry run of %s comes back held%s", list(held), note), mostMessage)}, nil
	case len(refused) > 0:
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonNotTried, clipped(strings.TrimPrefix(note, "; "), mostMessage)}, nil
	}
	return verdict{metav1.ConditionUnknown, v1alpha1.ReasonCannotTry, "no dry run is possible; accepted: a policy with one of the kinds Job, Pod, Deployment, and with a selector that some labels match"}, nil
}

// create creates an object as a dry run.
func (x *prober) create(ctx context.Context, obj client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return x.client.Create(ctx, obj, client.DryRunAll)
}

// passes reports whether an error of the API server says nothing of the object, and passes by itself.
func passes(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnauthorized(err)
}
