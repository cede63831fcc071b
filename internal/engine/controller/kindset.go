package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
)

// KindSet watches the kinds of workloads that the API server serves: the built-in ones and
// those of WorkloadKinds. It is safe for concurrent use.
type KindSet struct {
	cache  cache.Cache
	live   client.Reader
	status client.StatusWriter
	// watch wakes policies for changes of a kind.
	watch func(ctx context.Context, obj client.Object) error

	mu      sync.RWMutex
	known   map[schema.GroupVersionKind]*kinds.Kind
	watched map[schema.GroupVersionKind]watched
	looked  bool              // once, at what is served
	told    map[string]string // the last problem of each kind
	// seen are the objects of each policy as they were last read.
	seen map[types.NamespacedName]map[types.UID]seen

	// further are the WorkloadKinds as last compiled, by name.
	further map[string]compiled
	// crons watches CronJobs.
	crons cronWatch
}

type watched struct {
	informer cache.Informer
	since    time.Time
}

type compiled struct {
	version string
	kind    *kinds.Kind
	err     error
}

// seen is an object as it was read.
type seen struct {
	version  string
	kind     *kinds.Kind
	workload *kube.Workload
}

// lookForKinds is how often is asked whether further kinds are served.
const lookForKinds = 15 * time.Second

// NewKindSet returns a set that watches nothing yet.
func NewKindSet() *KindSet {
	s := &KindSet{
		known: map[schema.GroupVersionKind]*kinds.Kind{}, watched: map[schema.GroupVersionKind]watched{},
		told: map[string]string{}, seen: map[types.NamespacedName]map[types.UID]seen{}, further: map[string]compiled{},
	}
	for _, k := range kinds.Builtin() {
		s.known[k.GVK()] = k
	}
	return s
}

// Transform shortens what the cache keeps of workloads.
func (s *KindSet) Transform(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return stripMetadata(o)
	}
	k := s.Of(u.GroupVersionKind())
	switch {
	case k != nil:
		k.Prune(u.Object)
	case u.GroupVersionKind() == kube.CronJobGVK:
		kube.PruneCronJob(u.Object)
	case u.GroupVersionKind() == kueue.GroupVersion.WithKind("Workload"):
		kueue.Prune(u.Object)
		k.TrimAnnotations(u.Object)
	}
	return o, nil
}

// Of is the kind of some objects; nil for one that is not known.
func (s *KindSet) Of(gvk schema.GroupVersionKind) *kinds.Kind {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[gvk]
}

// use connects the set to controllers that are woken by its kinds: watch begins to watch objects like one. live reads from the API server.
func (s *KindSet) use(mgr manager.Manager, live client.Reader, watch func(ctx context.Context, obj client.Object) error) {
	s.cache, s.live, s.status, s.watch = mgr.GetCache(), live, mgr.GetClient().Status(), watch
}

// Start implements manager.Runnable.
func (s *KindSet) Start(ctx context.Context) error {
	for {
		s.sync(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookForKinds):
		}
	}
}

// sync begins to watch kinds that are served and not watched yet, and drops those that are
// no longer served.
func (s *KindSet) sync(ctx context.Context) {
	all := map[schema.GroupVersionKind]*kinds.Kind{}
	var list v1alpha1.WorkloadKindList
	if err := s.cache.List(ctx, &list); err != nil {
		s.tell(ctx, "WorkloadKinds", err)
		return
	}
	kube.SortKinds(list.Items)
	var further []*kinds.Kind
	for i := range list.Items {
		w := &list.Items[i]
		c := s.further[w.Name]
		if version := fmt.Sprintf("%s/%d", w.UID, w.Generation); c.version != version {
			k, err := kinds.New(w.Name, &w.Spec)
			c = compiled{version, k, err}
			s.further[w.Name] = c
		}
		if c.kind != nil {
			further = append(further, c.kind)
		}
	}
	usable, refused := kinds.With(further)
	for _, k := range usable {
		all[k.GVK()] = k
	}
	s.forget(list.Items, usable)
	for i := range list.Items {
		w := &list.Items[i]
		problem := cmp.Or(s.further[w.Name].err, refused[w.Name])
		s.tell(ctx, w.Name, cmp.Or(problem, s.state(ctx, w, problem)))
	}
	s.mu.Lock()
	s.known = all
	s.mu.Unlock()
	for _, k := range usable { // in their order, which is the same each time
		gvk := k.GVK()
		if k.Spec.Hold.Gate || all[gvk] != k {
			continue // Pods are watched anyway
		}
		service, err := kube.ServiceOf(ctx, s.live, k)
		switch {
		case err != nil:
			s.tell(ctx, k.Name, err)
		case service == kube.Served:
			s.tell(ctx, k.Name, s.begin(ctx, gvk))
		default:
			s.drop(ctx, gvk)
		}
	}
	s.syncCronJobs(ctx)
	s.mu.RLock()
	var gone []schema.GroupVersionKind
	for gvk := range s.watched {
		if all[gvk] == nil {
			gone = append(gone, gvk)
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(gone, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	for _, gvk := range gone {
		s.drop(ctx, gvk)
	}
	s.mu.Lock()
	s.looked = true
	s.mu.Unlock()
}

// state writes into a WorkloadKind whether it is used.
func (s *KindSet) state(ctx context.Context, w *v1alpha1.WorkloadKind, problem error) error {
	before := w.DeepCopy()
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Accepted", ObservedGeneration: w.Generation}
	if problem != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Refused", problem.Error()
	}
	if !meta.SetStatusCondition(&w.Status.Conditions, ready) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.status.Patch(ctx, w, patch); err != nil && !apierrors.IsConflict(err) {
		return client.IgnoreNotFound(err)
	}
	return nil
}

// begin watches a kind.
func (s *KindSet) begin(ctx context.Context, gvk schema.GroupVersionKind) error {
	s.mu.RLock()
	_, is := s.watched[gvk]
	s.mu.RUnlock()
	if is {
		return nil
	}
	obj := empty(gvk)
	if err := s.cache.IndexField(ctx, obj, policyIndex, policyNameOf); err != nil {
		return fmt.Errorf("index %s: %w", gvk.Kind, err)
	}
	informer, err := s.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	if err := s.watch(ctx, obj); err != nil {
		return fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	s.mu.Lock()
	s.watched[gvk] = watched{informer, time.Now()}
	s.mu.Unlock()
	log.FromContext(ctx).Info("Watch workloads", "kind", gvk.Kind, "group", gvk.Group)
	return nil
}

// drop stops watching a kind.
func (s *KindSet) drop(ctx context.Context, gvk schema.GroupVersionKind) {
	s.mu.Lock()
	_, was := s.watched[gvk]
	delete(s.watched, gvk)
	s.mu.Unlock()
	if was {
		if err := s.cache.RemoveInformer(ctx, empty(gvk)); err != nil {
			log.FromContext(ctx).Error(err, "Failed to stop the watch", "kind", gvk.Kind)
		}
	}
}

// forget drops what is kept of WorkloadKinds that are gone.
func (s *KindSet) forget(there []v1alpha1.WorkloadKind, usable []*kinds.Kind) {
	names := map[string]bool{}
	for i := range there {
		names[there[i].Name] = true
	}
	maps.DeleteFunc(s.further, func(name string, _ compiled) bool { return !names[name] })
	for _, k := range usable {
		names[k.Name] = true
	}
	maps.DeleteFunc(s.told, func(name, _ string) bool { return !names[name] })
}

// tell logs a problem with a kind once.
func (s *KindSet) tell(ctx context.Context, kind string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if s.told[kind] != text {
		s.told[kind] = text
		if err != nil {
			log.FromContext(ctx).Error(err, "Workload kind", "kind", kind)
		}
	}
}

// listed is how long a kind may take to be listed before the others are decided without it.
const listed = 20 * time.Second

// holdable are the kinds that are watched and have a field to suspend them.
func (s *KindSet) holdable() (out []*kinds.Kind) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for gvk, w := range s.watched {
		if k := s.known[gvk]; k != nil && k.Spec.Hold.Suspend != "" && w.informer.HasSynced() {
			out = append(out, k)
		}
	}
	return out
}

// ready reports whether it is known which kinds are served, and all of them have been listed
// once, or do not let themselves be listed.
func (s *KindSet) ready() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, w := range s.watched {
		if !w.informer.HasSynced() && time.Since(w.since) < listed {
			return false
		}
	}
	return s.looked && s.crons.ready()
}

// Workloads returns those that name a policy, in the order of their creation, with the next runs of the CronJobs that
// have created them. What has not changed since is not read again. A kind that is not (yet) allowed to be listed has none.
func (s *KindSet) Workloads(ctx context.Context, policy types.NamespacedName) ([]*kube.Workload, error) {
	s.mu.RLock()
	type active struct {
		kind     *kinds.Kind
		informer cache.Informer
	}
	var list []active
	var pod *kinds.Kind
	for gvk, k := range s.known {
		if k.Spec.Hold.Gate {
			pod = k
		} else if w, ok := s.watched[gvk]; ok {
			list = append(list, active{k, w.informer})
		}
	}
	before := s.seen[policy]
	s.mu.RUnlock()
	now := make(map[types.UID]seen, len(before))
	var out []*kube.Workload
	options := []client.ListOption{client.InNamespace(policy.Namespace), client.MatchingFields{policyIndex: policy.Name}, client.UnsafeDisableDeepCopy}
	for _, a := range list {
		if !a.informer.HasSynced() {
			continue
		}
		objects := &unstructured.UnstructuredList{}
		gvk := a.kind.GVK()
		gvk.Kind += "List"
		objects.SetGroupVersionKind(gvk)
		if err := s.cache.List(ctx, objects, options...); err != nil {
			return nil, fmt.Errorf("list %s: %w", a.kind.Name, err)
		}
		for i := range objects.Items {
			out = append(out, read(a.kind, &objects.Items[i], before, now))
		}
	}
	if pod != nil {
		var pods corev1.PodList
		if err := s.cache.List(ctx, &pods, options...); err != nil {
			return nil, fmt.Errorf("list Pods: %w", err)
		}
		for i := range pods.Items {
			u, err := kube.PodObject(&pods.Items[i])
			if err != nil {
				return nil, err
			}
			out = append(out, read(pod, u, before, now))
		}
	}
	s.mu.Lock()
	s.seen[policy] = now
	if len(now) == 0 {
		delete(s.seen, policy)
	}
	s.mu.Unlock()
	// Planners take ties in the order of the workloads, which is the same each time: the older first.
	slices.SortFunc(out, func(a, b *kube.Workload) int {
		return cmp.Or(a.Created().Compare(b.Created()), strings.Compare(a.Namespace(), b.Namespace()), strings.Compare(a.Name(), b.Name()), strings.Compare(string(a.UID()), string(b.UID())))
	})
	return kube.WithCronJobs(kube.Group(out), func() kube.CronJobs { return s.cronJobs(ctx, policy.Namespace) }), nil
}

// read reads an object, unless this version of it has been read before.
func read(kind *kinds.Kind, u *unstructured.Unstructured, before, now map[types.UID]seen) *kube.Workload {
	uid, version := u.GetUID(), u.GetResourceVersion()
	x, ok := before[uid]
	if !ok || x.version != version || x.kind != kind {
		obj := *u
		x = seen{version, kind, kube.NewWorkload(kind, &obj)}
	}
	now[uid] = x
	return x.workload
}

func empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

func policyNameOf(o client.Object) []string {
	if name := o.GetAnnotations()[v1alpha1.AnnotationPolicy]; name != "" {
		return []string{name}
	}
	return nil
}
