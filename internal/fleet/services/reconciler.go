package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/fleet/hub"
	"lull.dev/lull/internal/fleet/spoke"
	"lull.dev/lull/pkg/timegrid"
)

// Reconciler keeps each Follow on the best of its clusters. All state is in the status of the
// Follow, which is read from the API server and written before what it says is done: whatever
// has been made on any cluster stands there, and a controller that is killed anywhere is
// followed by one that goes on.
type Reconciler struct {
	Client   client.Client
	Reader   client.Reader // of the API server
	Clusters *hub.Clusters
	Zone     hub.ZoneOf
	Clock    clock.Clock
	Recorder kube.Recorder
}

const (
	// movingAgain and settledAgain are how soon a service is looked at again, at most.
	movingAgain, settledAgain = 500 * time.Millisecond, 15 * time.Second
	// removingAgain is how soon it is tried again to remove what could not be removed.
	removingAgain = 5 * time.Second
	// placedAtOnce is how many services are looked at at a time.
	placedAtOnce = 8
	// callTimeout bounds a look at one service: a cluster that hangs keeps no other.
	callTimeout = 30 * time.Second
)

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.Follow{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, deleted))).
		WithOptions(controller.Options{MaxConcurrentReconciles: placedAtOnce}).
		Complete(r)
}

// deleted passes objects that are to go.
var deleted = predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })

// Reconcile takes a service one step on.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var f v1alpha1.Follow
	if err := r.Reader.Get(ctx, req.NamespacedName, &f); err != nil {
		if apierrors.IsNotFound(err) {
			metrics.ForgetService(req.Namespace, req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := f.DeepCopy()
	if f.DeletionTimestamp == nil {
		if changed, err := kube.SetFinalizer(ctx, r.Client, &f, v1alpha1.FollowFinalizer, true); err != nil {
			return r.again(err)
		} else if changed {
			before = f.DeepCopy()
		}
	}
	if f.DeletionTimestamp != nil && f.Annotations[v1alpha1.AnnotationKeep] == "true" {
		return r.removeFinalizer(ctx, &f)
	}
	s := &service{Reconciler: r, f: &f, now: r.Clock.Now()}
	var wait time.Duration
	if f.DeletionTimestamp == nil {
		wait = s.step(ctx)
	} else {
		wait = s.leave(ctx)
	}
	if wrote, err := kube.PatchStatus(ctx, r.Client, &f, before, client.MergeFromWithOptimisticLock{}); err != nil {
		return r.again(err)
	} else if wrote {
		s.tell()
	}
	if f.DeletionTimestamp != nil && len(f.Status.Placements) == 0 {
		return r.removeFinalizer(ctx, &f)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// again is what follows a write that failed: one of an object that somebody else has changed is made anew.
func (r *Reconciler) again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: movingAgain}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, f *v1alpha1.Follow) (ctrl.Result, error) {
	_, err := kube.SetFinalizer(ctx, r.Client, f, v1alpha1.FollowFinalizer, false)
	return r.again(err)
}

// service is a Follow at one look.
type service struct {
	*Reconciler
	f       *v1alpha1.Follow
	now     time.Time
	objects []*unstructured.Unstructured
	events  []event
	// unremoved says what could not be removed and why.
	unremoved []string
}

type event struct{ kind, reason, message string }

// note is told once the status is written.
func (s *service) note(kind, reason, message string) {
	s.events = append(s.events, event{kind, reason, message})
}

func (s *service) tell() {
	for _, e := range s.events {
		s.Recorder.Eventf(s.f, nil, e.kind, e.reason, e.reason, "%s", e.message)
	}
	metrics.ServiceMoves.WithLabelValues(s.f.Namespace, s.f.Name).Set(float64(s.f.Status.Moves))
	ready := 0.0
	if meta.IsStatusConditionTrue(s.f.Status.Conditions, v1alpha1.ConditionReady) {
		ready = 1
	}
	metrics.ServiceReady.WithLabelValues(s.f.Namespace, s.f.Name).Set(ready)
}

// step goes one step on, and returns when to go on. It does at most what the status, as it was
// read, says: what it decides is done at the next step.
func (s *service) step(ctx context.Context) time.Duration {
	st := &s.f.Status
	st.ObservedGeneration = s.f.Generation
	var err error
	if s.objects, err = manifests(ctx, s.Reader, s.f); err == nil {
		var c *choice
		if c, err = s.look(); err == nil {
			return s.advance(ctx, c)
		}
	}
	if errors.Is(err, errWaiting) {
		return movingAgain
	}
	// What is there stays there.
	s.condition(v1alpha1.ConditionConfigured, false, "NotConfigured", err.Error())
	return settledAgain
}

// advance moves the service, or decides that it moves.
func (s *service) advance(ctx context.Context, c *choice) time.Duration {
	st := &s.f.Status
	s.condition(v1alpha1.ConditionConfigured, true, "Configured", c.left)
	wait := settledAgain
	st.Refused = slices.DeleteFunc(st.Refused, func(r v1alpha1.FollowRefusal) bool { return !c.now.Before(r.Until.Time) })
	keeping := s.keep(ctx, c)
	switch {
	case st.Next != "":
		s.move(ctx, c)
		wait = movingAgain
	case s.decide(c):
		wait = movingAgain
	}
	if gone := s.clear(ctx); !gone && st.Next == "" {
		wait = movingAgain
		if st.State == v1alpha1.FollowSettled {
			st.State = v1alpha1.FollowRemoving
		}
	} else if gone && st.State == v1alpha1.FollowRemoving {
		st.State = v1alpha1.FollowSettled
	}
	if s.stateUnremoved() && st.Next == "" {
		wait = removingAgain
	}
	if !keeping {
		wait = min(wait, 2*time.Second)
	}
	return max(movingAgain, min(wait, c.due))
}

// keep sees to it that the service is as specified where it is; false while it is not ready there.
func (s *service) keep(ctx context.Context, c *choice) bool {
	st := &s.f.Status
	if st.Cluster == "" {
		s.condition(v1alpha1.ConditionReady, false, "Nowhere", "the service is on no cluster yet")
		return false
	}
	if _, known := s.Clusters.Get(st.Cluster); !known {
		return true // not looked at since the controller started: what is said of it stands
	}
	st.Intensity = nil
	if p, ok := c.places[st.Cluster]; ok && !math.IsNaN(p.Intensity) {
		v := math.Round(p.Intensity*10) / 10
		st.Intensity = &v
	}
	ready, why, err := s.apply(ctx, st.Cluster)
	if err != nil {
		ready, why = false, err.Error()
	}
	reason := "Ready"
	if !ready {
		reason = "NotReady"
	}
	s.condition(v1alpha1.ConditionReady, ready, reason, why)
	return ready
}

// move takes the service to its next cluster.
func (s *service) move(ctx context.Context, c *choice) {
	st := &s.f.Status
	cluster, known := s.Clusters.Get(st.Next)
	late := s.now.Sub(st.NextSince.Time) > kube.DurationOf(s.f.Spec.Patience, 10*time.Minute)
	switch {
	case !slices.Contains(s.f.Spec.Clusters, st.Next):
		s.refuse(c, "it is none of its clusters any more")
	case !known && !late: // not looked at since the controller started
	case !cluster.Answers && (late || !cluster.Provision):
		s.refuse(c, "it does not answer")
	case !cluster.Answers:
		st.State = v1alpha1.FollowProvisioning
	case st.State == v1alpha1.FollowProvisioning || st.State == v1alpha1.FollowPending:
		st.State = v1alpha1.FollowApplying
	default:
		ready, why, err := s.apply(ctx, st.Next)
		switch {
		case err != nil && (late || final(err)):
			s.refuse(c, err.Error())
		case err != nil:
			log.FromContext(ctx).Info("Apply", "cluster", st.Next, "error", err.Error())
		case ready:
			s.settle(c)
		case late:
			s.refuse(c, "not ready in time: "+why)
		default:
			st.State = v1alpha1.FollowWaiting
		}
	}
}

// final reports errors that do not pass.
func final(err error) bool {
	return errors.Is(err, errNotAllowed) || errors.Is(err, spoke.ErrForeign) || errors.Is(err, spoke.ErrClusterScoped) || meta.IsNoMatchError(err) ||
		apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err)
}

// settle ends a move: only now the old place is given up.
func (s *service) settle(c *choice) {
	st := &s.f.Status
	from := st.Cluster
	if from != "" && from != st.Next {
		st.Moves++
	}
	st.Cluster, st.Next, st.NextSince, st.State = st.Next, "", nil, v1alpha1.FollowSettled
	at := metav1.NewTime(c.now.Truncate(time.Second))
	st.SettledAt = &at
	s.condition(v1alpha1.ConditionReady, true, "Ready", "")
	s.note(corev1.EventTypeNormal, "Settled", fmt.Sprintf("ready on %s (before: %s)", st.Cluster, cmp.Or(from, "none")))
}

// refuse ends a move that has failed: the service stays where it is.
func (s *service) refuse(c *choice, why string) {
	st := &s.f.Status
	const most = 1000
	why = why[:min(len(why), most)]
	until := metav1.NewTime(c.now.Add(kube.DurationOf(s.f.Spec.Dwell, time.Hour)).Truncate(time.Second))
	st.Refused = slices.DeleteFunc(st.Refused, func(r v1alpha1.FollowRefusal) bool { return r.Cluster == st.Next })
	st.Refused = append(st.Refused, v1alpha1.FollowRefusal{Cluster: st.Next, Until: until, Message: why})
	s.note(corev1.EventTypeWarning, "Refused", st.Next+": "+why)
	st.Next, st.NextSince, st.State = "", nil, v1alpha1.FollowSettled
	if st.Cluster == "" {
		st.State = v1alpha1.FollowPending
	}
}

// apply applies the objects on a cluster, removes there what is no longer specified, and says
// whether all is ready. Objects that the status does not list yet are listed first and applied at
// the next step.
func (s *service) apply(ctx context.Context, cluster string) (ready bool, why string, err error) {
	if c, known := s.Clusters.Get(cluster); known {
		if err := allowed(c.Follow, cluster, s.f.Namespace, s.objects); err != nil {
			return false, "", err
		}
	}
	p := s.placement(cluster)
	listed := true
	for _, obj := range s.objects {
		if find(p, refOf(obj)) == nil {
			p.Objects, listed = append(p.Objects, refOf(obj)), false
		}
	}
	if !listed {
		return false, "to be applied", nil
	}
	there, known := s.Clusters.Get(cluster)
	if !known {
		return false, "", fmt.Errorf("cluster %s does not answer", cluster)
	}
	on, err := s.on(&there)
	if err != nil {
		return false, "", err
	}
	for _, obj := range s.objects {
		applied, err := on.Apply(ctx, obj)
		if err != nil {
			return false, "", err
		}
		find(p, refOf(obj)).UID = applied.GetUID()
	}
	if _, err := s.remove(ctx, on, p, func(ref v1alpha1.FollowObject) bool {
		return !slices.ContainsFunc(s.objects, func(o *unstructured.Unstructured) bool { return same(refOf(o), ref) })
	}); err != nil {
		return false, "", err
	}
	for _, obj := range s.objects {
		if ready, why, err := on.Ready(ctx, obj); err != nil || !ready {
			return false, why, err
		}
	}
	return true, "", nil
}

func (s *service) on(c *hub.Cluster) (spoke.Objects, error) {
	return c.Objects(s.f.Namespace, v1alpha1.FollowOwner, s.f.UID)
}

// placement is what the status says was made on a cluster.
func (s *service) placement(cluster string) *v1alpha1.FollowPlacement {
	all := &s.f.Status.Placements
	for i := range *all {
		if (*all)[i].Cluster == cluster {
			return &(*all)[i]
		}
	}
	*all = append(*all, v1alpha1.FollowPlacement{Cluster: cluster})
	return &(*all)[len(*all)-1]
}

func same(a, b v1alpha1.FollowObject) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name
}

func find(p *v1alpha1.FollowPlacement, ref v1alpha1.FollowObject) *v1alpha1.FollowObject {
	for i := range p.Objects {
		if same(p.Objects[i], ref) {
			return &p.Objects[i]
		}
	}
	return nil
}

// remove removes objects of a placement, the last applied first, and forgets those that are gone.
func (s *service) remove(ctx context.Context, on spoke.Objects, p *v1alpha1.FollowPlacement, which func(v1alpha1.FollowObject) bool) (all bool, err error) {
	all = true
	for i := len(p.Objects) - 1; i >= 0; i-- {
		if !which(p.Objects[i]) {
			continue
		}
		gone, err := on.Remove(ctx, objectOf(p.Objects[i], s.f.Namespace))
		if meta.IsNoMatchError(err) {
			gone, err = true, nil // its kind is not known there: nor can it be
		}
		if err != nil {
			return false, err
		}
		if !gone {
			all = false
			continue
		}
		p.Objects = slices.Delete(p.Objects, i, i+1)
	}
	return all, nil
}

// clear removes what is anywhere else than where the service is and goes to; it reports whether
// all of that is gone.
func (s *service) clear(ctx context.Context) bool {
	st := &s.f.Status
	all := true
	kept := st.Placements[:0]
	for _, p := range st.Placements {
		if p.Cluster == st.Cluster || p.Cluster == st.Next {
			kept = append(kept, p)
			continue
		}
		if !s.cleared(ctx, &p) {
			kept, all = append(kept, p), false
		}
	}
	st.Placements = kept
	return all
}

// cleared reports whether nothing is left of a placement, or of its cluster.
func (s *service) cleared(ctx context.Context, p *v1alpha1.FollowPlacement) bool {
	cluster, known := s.Clusters.Get(p.Cluster)
	if !known {
		err := s.Reader.Get(ctx, client.ObjectKey{Name: p.Cluster}, &v1alpha1.ComputeCluster{})
		if apierrors.IsNotFound(err) {
			s.note(corev1.EventTypeWarning, "LeftBehind", fmt.Sprintf("the ComputeCluster %s has been deleted; the objects of the service stay on that cluster", p.Cluster))
			return true
		}
		s.unremoved = append(s.unremoved, p.Cluster+": Lull has not read its state yet")
		return false
	}
	if cluster.Absent {
		return true // gone with its cluster
	}
	on, err := s.on(&cluster)
	if err != nil {
		s.unremoved = append(s.unremoved, err.Error())
		return false
	}
	all, err := s.remove(ctx, on, p, func(v1alpha1.FollowObject) bool { return true })
	if err != nil {
		s.unremoved = append(s.unremoved, p.Cluster+": "+err.Error())
		log.FromContext(ctx).Info("Remove", "cluster", p.Cluster, "error", err.Error())
	}
	return all && err == nil
}

// stateUnremoved states what could not be removed, and reports whether there is anything.
func (s *service) stateUnremoved() bool {
	conditions := &s.f.Status.Conditions
	if len(s.unremoved) == 0 {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionNotRemoved)
		return false
	}
	message := strings.Join(s.unremoved, "; ")
	if meta.FindStatusCondition(*conditions, v1alpha1.ConditionNotRemoved) == nil {
		s.note(corev1.EventTypeWarning, "NotRemoved", "the remaining objects of the service cannot be removed: "+message)
	}
	s.condition(v1alpha1.ConditionNotRemoved, true, "NotRemoved", message)
	return true
}

// leave removes all that was made.
func (s *service) leave(ctx context.Context) time.Duration {
	s.f.Status.Cluster, s.f.Status.Next = "", ""
	s.f.Status.State = v1alpha1.FollowRemoving
	s.clear(ctx)
	if s.stateUnremoved() {
		s.condition(v1alpha1.ConditionReady, false, "NotRemoved", strings.Join(s.unremoved, "; "))
	}
	return 2 * movingAgain
}

// condition states a condition.
func (s *service) condition(kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	const most = 1000
	meta.SetStatusCondition(&s.f.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message[:min(len(message), most)], ObservedGeneration: s.f.Generation,
	})
}

// timelineOf is that of the first cluster whose zone is known.
func (s *service) timelineOf() (timegrid.Timeline, bool) {
	for _, name := range s.f.Spec.Clusters {
		if c, ok := s.Clusters.Get(name); ok {
			if _, timeline, looked := s.Zone(c.Zone); looked {
				return timeline, true
			}
		}
	}
	return timegrid.Timeline{}, false
}
