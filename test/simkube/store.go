// Package simkube is a simulated cluster in which the real controller and watchdog of Lull run: an API server
// (Store, Process), and a Job controller, a scheduler and kubelets (Cluster). Time is virtual (testing/synctest), so
// that days pass in seconds, and faults come from a seed. Tests begin with Test.
//
// The model of the API server speaks HTTP to an http.RoundTripper, so that everything of client-go and
// controller-runtime runs as in production: reflectors, caches, work queues, leader election.
package simkube

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

// Event is a change of an object. Objects of events are never changed.
type Event struct {
	At      time.Time
	Version int64
	// Nth counts the changes of the resource.
	Nth      uint64
	Type     watch.EventType
	Resource *Resource
	// Object is as after the change, Before as before it; nil if it was created.
	Object, Before *unstructured.Unstructured
	// By is the name of the process that made the change; empty for the cluster itself.
	By string
}

// Store is what an API server keeps: objects, with resource versions, and all changes of them. It is safe
// for concurrent use.
type Store struct {
	mu        sync.Mutex
	resources []*Resource
	objects   map[*Resource]map[types.NamespacedName]*unstructured.Unstructured
	log       []Event
	version   int64
	nth       map[*Resource]uint64        // how many changes there were
	changed   map[*Resource]chan struct{} // closed at the next change of a resource; nil is any
	rights    rights
	// compacted is the version before which no watch can begin.
	compacted int64
	// cut ends all watches when it is closed.
	cut chan struct{}
	// made counts what was created, by resource and name: names and UIDs do not depend on what else was created.
	made map[string]int
	// Check is called with each change that a process asks for, before it is stored; nil for none.
	Check func(e *Event)
	// Refused is called with each call for something that this model does not have; nil for none.
	Refused func(what string)
}

// NewStore returns an empty store that serves the given resources.
func NewStore(resources []*Resource) *Store {
	s := &Store{objects: map[*Resource]map[types.NamespacedName]*unstructured.Unstructured{}, changed: map[*Resource]chan struct{}{nil: make(chan struct{})}, nth: map[*Resource]uint64{}, made: map[string]int{}, cut: make(chan struct{})}
	s.Serve(resources...)
	return s
}

// Serve serves more resources. Those that are served already are left as they are.
func (s *Store) Serve(resources ...*Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range resources {
		if slices.ContainsFunc(s.resources, func(x *Resource) bool { return x.Group == r.Group && x.Name == r.Name }) {
			continue
		}
		s.resources = append(s.resources, r)
		s.objects[r], s.changed[r] = map[types.NamespacedName]*unstructured.Unstructured{}, make(chan struct{})
	}
	slices.SortStableFunc(s.resources, func(a, b *Resource) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name)) })
}

// Resource returns the resource of a kind; it panics if there is none, which is a fault of the test.
func (s *Store) Resource(kind string) *Resource {
	r, served := s.resource(kind)
	if !served {
		panic("no resource of kind " + kind)
	}
	return r
}

func (s *Store) resource(kind string) (*Resource, bool) {
	for _, r := range s.resources {
		if r.Kind == kind {
			return r, true
		}
	}
	return nil, false
}

// Cut ends all watches, as an API server that is killed.
func (s *Store) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = make(chan struct{})
}

// Compact forgets the changes up to now: a watch from a version before is too old.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.version
}

// Changed returns a channel that is closed at the next change of a resource, or of any where it is nil.
func (s *Store) Changed(r *Resource) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed[r]
}

// Get returns an object, which the caller must not change; nil if there is none.
func (s *Store) Get(r *Resource, key types.NamespacedName) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[r][key]
}

// List returns the objects of a resource by name, of a namespace or of all, and the version of the store.
// The caller must not change the objects.
func (s *Store) List(r *Resource, namespace string) ([]*unstructured.Unstructured, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*unstructured.Unstructured
	for key, obj := range s.objects[r] {
		if namespace == "" || key.Namespace == namespace {
			out = append(out, obj)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out, s.version
}

// Since returns the changes after a version.
func (s *Store) Since(version int64) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.log, version+1, func(e Event, v int64) int { return cmp.Compare(e.Version, v) })
	return s.log[i:]
}

// Create stores a new object. It returns the stored one, or an AlreadyExists error. What a process creates goes
// through defaults and admission, as in an API server; what the cluster itself creates does not.
func (s *Store) Create(by string, r *Resource, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.create(by, r, obj, false)
}

// create is Create; with dryRun nothing is stored.
func (s *Store) create(by string, r *Resource, obj *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	s.mu.Lock()
	defer s.mu.Unlock()
	name := obj.GetName()
	if name == "" {
		if obj.GetGenerateName() == "" {
			return nil, apierrors.NewInvalid(r.gk(), "", field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
		}
		name = fmt.Sprintf("%s%05d", obj.GetGenerateName(), s.count(r, obj.GetNamespace(), obj.GetGenerateName()+"*"))
		obj.SetName(name)
	}
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}
	if namespaces, served := s.resource("Namespace"); served && r.Namespaced && s.objects[namespaces][types.NamespacedName{Name: key.Namespace}] == nil {
		return nil, apierrors.NewNotFound(namespaces.gr(), key.Namespace)
	}
	if _, space := s.terminating(key.Namespace); space != nil {
		return nil, apierrors.NewForbidden(r.gr(), name, fmt.Errorf("namespace %s is being terminated", key.Namespace))
	}
	if by != "" {
		if err := r.identified(obj, key.Namespace); err != nil {
			return nil, err
		}
		obj.SetDeletionTimestamp(nil)
	}
	obj.SetAPIVersion(r.apiVersion())
	obj.SetKind(r.Kind)
	obj.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	if !r.plain {
		obj.SetGeneration(1)
	}
	if by != "" {
		if r.status() {
			unstructured.RemoveNestedField(obj.Object, "status")
		}
		r.complete(obj)
		if err := s.admit(r, obj); err != nil {
			return nil, apierrors.NewForbidden(r.gr(), name, err)
		}
		r.complete(obj)
		if err := s.validate(by, r, obj, nil); err != nil {
			return nil, err
		}
	}
	if s.objects[r][key] != nil {
		return nil, apierrors.NewAlreadyExists(r.gr(), name)
	}
	obj.SetUID(uidOf(r, key, s.count(r, key.Namespace, name)))
	if dryRun {
		return obj, nil
	}
	if err := s.put(Event{Type: watch.Added, Resource: r, Object: obj, By: by}); err != nil {
		return nil, err
	}
	return obj, s.collect(r, obj)
}

// count counts objects that are created under a name. The caller holds mu.
func (s *Store) count(r *Resource, namespace, name string) int {
	key := r.Group + "/" + r.Name + "/" + namespace + "/" + name
	s.made[key]++
	return s.made[key]
}

// uidOf is the UID of the n-th object of a name.
func uidOf(r *Resource, key types.NamespacedName, n int) types.UID {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s %s", r.Group, r.Name, key)
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012d", h.Sum64()>>32, n))
}

// complete prunes an object that a process writes, and sets its defaults.
func (r *Resource) complete(obj *unstructured.Unstructured) {
	meta, _ := obj.Object["metadata"].(map[string]any)
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		switch x := meta[name].(type) {
		case map[string]any:
			if len(x) == 0 {
				delete(meta, name)
			}
		case []any:
			if len(x) == 0 {
				delete(meta, name)
			}
		}
	}
	if r.schema != nil {
		prune(r.schema, obj.Object, true)
		setDefaults(r.schema, obj.Object)
		return
	}
	builtinDefaults(r, obj.Object)
}

// status reports whether objects have a status that is written by itself.
func (r *Resource) status() bool { return !r.plain || r.Kind == "Node" || r.Kind == "Namespace" }

// Change stores what f makes of an object. f may return an error, which ends the change. Changes of the
// status are kept only with status, all others only without. It returns the object as stored, or a NotFound error. What a process
// changes is validated, as in an API server; what the cluster itself changes is not.
func (s *Store) Change(by string, r *Resource, key types.NamespacedName, status bool, f func(obj *unstructured.Unstructured) error) (*unstructured.Unstructured, error) {
	return s.change(by, r, key, status, false, f)
}

// change is Change; with dryRun nothing is stored.
func (s *Store) change(by string, r *Resource, key types.NamespacedName, status, dryRun bool, f func(obj *unstructured.Unstructured) error) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects[r][key]
	if before == nil {
		return nil, apierrors.NewNotFound(r.gr(), key.Name)
	}
	asked := before.DeepCopy()
	if err := f(asked); err != nil {
		return nil, err
	}
	if v := asked.GetResourceVersion(); v != "" && v != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.gr(), key.Name, fmt.Errorf("version %s, asked to change %s", before.GetResourceVersion(), v))
	}
	if by != "" {
		if asked.GetName() != key.Name {
			return nil, apierrors.NewBadRequest("the name of the object does not match the name of the path")
		}
		if err := r.identified(asked, key.Namespace); err != nil {
			return nil, err
		}
		r.complete(asked)
	}
	obj := asked
	if status && by != "" && r.schema == nil && !equalJSON(asked.Object["metadata"], before.Object["metadata"]) {
		// Some built-in kinds take labels and annotations with their status. Those of custom resources do not.
		return nil, s.refuse(by, "change "+r.Name+" "+key.String(), "metadata in a status of a built-in kind")
	}
	if status {
		obj = before.DeepCopy()
		if obj.Object["status"] = asked.Object["status"]; obj.Object["status"] == nil {
			delete(obj.Object, "status")
		}
	} else if was, is := before.Object["status"]; is && by != "" && r.status() {
		obj.Object["status"] = was
	} else if by != "" && r.status() {
		delete(obj.Object, "status")
	}
	obj.SetAPIVersion(r.apiVersion())
	obj.SetKind(r.Kind)
	for _, same := range []string{"creationTimestamp", "deletionTimestamp", "generation", "namespace"} {
		if v, is := before.Object["metadata"].(map[string]any)[same]; is {
			obj.Object["metadata"].(map[string]any)[same] = v
		} else {
			delete(obj.Object["metadata"].(map[string]any), same)
		}
	}
	if obj.GetUID() == "" {
		obj.SetUID(before.GetUID())
	}
	if by != "" {
		if err := s.validate(by, r, obj, before); err != nil {
			return nil, err
		}
	}
	if !r.plain && !equalJSON(before.Object["spec"], obj.Object["spec"]) {
		obj.SetGeneration(before.GetGeneration() + 1)
	}
	obj.SetResourceVersion(before.GetResourceVersion())
	switch {
	case equalJSON(before.Object, obj.Object):
		return before, nil // as an API server, which stores no change
	case dryRun:
		return obj, nil
	case obj.GetDeletionTimestamp() != nil && !s.waits(r, obj):
		return obj, s.remove(by, r, before)
	}
	if err := s.put(Event{Type: watch.Modified, Resource: r, Object: obj, Before: before, By: by}); err != nil {
		return nil, err
	}
	return obj, s.collect(r, obj)
}

// put stores an event and its object. The caller holds mu and has made Object, which is not changed afterwards.
func (s *Store) put(e Event) error {
	if e.By != "" && s.Check != nil {
		s.Check(&e)
	}
	s.version++
	s.nth[e.Resource]++
	e.At, e.Version, e.Nth = time.Now(), s.version, s.nth[e.Resource]
	e.Object.SetResourceVersion(strconv.FormatInt(s.version, 10))
	key := types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()}
	if e.Type == watch.Deleted {
		delete(s.objects[e.Resource], key)
	} else {
		s.objects[e.Resource][key] = e.Object
	}
	s.log = append(s.log, e)
	for _, r := range []*Resource{nil, e.Resource} {
		close(s.changed[r])
		s.changed[r] = make(chan struct{})
	}
	return nil
}
