package simkube

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// deletion is how an object is deleted: only if it has the UID and the resource version, where they are given.
type deletion struct {
	uid     types.UID
	version string
	dryRun  bool
}

// Delete removes an object, and those that it owns; one with finalizers waits for them. It returns a
// NotFound error if there is none, and a Conflict error if it is not the one of the UID, where that is given.
func (s *Store) Delete(by string, r *Resource, key types.NamespacedName, uid types.UID) error {
	return s.delete(by, r, key, deletion{uid: uid})
}

func (s *Store) delete(by string, r *Resource, key types.NamespacedName, how deletion) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj := s.objects[r][key]
	switch {
	case obj == nil:
		return apierrors.NewNotFound(r.gr(), key.Name)
	case how.uid != "" && how.uid != obj.GetUID():
		return apierrors.NewConflict(r.gr(), key.Name, fmt.Errorf("another object of that name"))
	case how.version != "" && how.version != obj.GetResourceVersion():
		return apierrors.NewConflict(r.gr(), key.Name, fmt.Errorf("version %s, asked to delete %s", obj.GetResourceVersion(), how.version))
	case how.dryRun:
		return nil
	}
	return s.end(by, r, obj)
}

// end deletes an object, or marks it as deleted if it waits for finalizers. A namespace waits for what is in it, which is deleted.
// The caller holds mu.
func (s *Store) end(by string, r *Resource, obj *unstructured.Unstructured) error {
	space := r.Kind == "Namespace"
	if !s.waits(r, obj) {
		return s.remove(by, r, obj)
	}
	if obj.GetDeletionTimestamp() != nil {
		return nil
	}
	ending := obj.DeepCopy()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	ending.SetDeletionTimestamp(&now)
	if !r.plain {
		ending.SetGeneration(obj.GetGeneration() + 1)
	}
	if space {
		must(unstructured.SetNestedField(ending.Object, "Terminating", "status", "phase"))
	}
	if err := s.put(Event{Type: watch.Modified, Resource: r, Object: ending, Before: obj, By: by}); err != nil || !space {
		return err
	}
	for _, inner := range s.resources {
		if !inner.Namespaced {
			continue
		}
		for _, x := range s.sorted(inner, obj.GetName()) {
			if s.objects[inner][nameOf(x)] != x {
				continue // it went, or changed, with its owner
			}
			if err := s.end("", inner, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// waits reports whether an object that is deleted stays for now: for its finalizers, or a namespace for what is in it. The caller
// holds mu.
func (s *Store) waits(r *Resource, obj *unstructured.Unstructured) bool {
	return len(obj.GetFinalizers()) > 0 || r.Kind == "Namespace" && s.filled(obj.GetName())
}

// filled reports whether there is anything in a namespace. The caller holds mu.
func (s *Store) filled(namespace string) bool {
	return slices.ContainsFunc(s.resources, func(r *Resource) bool { return r.Namespaced && len(s.sorted(r, namespace)) > 0 })
}

// terminating returns a namespace that is being deleted; nil if it is not. The caller holds mu.
func (s *Store) terminating(namespace string) (*Resource, *unstructured.Unstructured) {
	r, served := s.resource("Namespace")
	if !served {
		return nil, nil
	}
	obj := s.objects[r][types.NamespacedName{Name: namespace}]
	if obj == nil || obj.GetDeletionTimestamp() == nil {
		return nil, nil
	}
	return r, obj
}

// remove deletes an object, then what nobody else owns, and the namespace if it waited for the object. The caller holds mu.
func (s *Store) remove(by string, r *Resource, obj *unstructured.Unstructured) error {
	if err := s.put(Event{Type: watch.Deleted, Resource: r, Object: obj.DeepCopy(), Before: obj, By: by}); err != nil {
		return err
	}
	for _, owned := range s.resources {
		for _, x := range s.sorted(owned, "") {
			if !slices.ContainsFunc(x.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == obj.GetUID() }) || s.objects[owned][nameOf(x)] != x {
				continue
			}
			if err := s.collect(owned, x); err != nil {
				return err
			}
		}
	}
	if spaces, space := s.terminating(obj.GetNamespace()); space != nil && r.Namespaced && !s.waits(spaces, space) {
		return s.remove("", spaces, space)
	}
	return nil
}

// collect does what the garbage collector does with an object: it deletes it if all its owners are gone, and takes off the
// references to those that are. The caller holds mu.
func (s *Store) collect(r *Resource, obj *unstructured.Unstructured) error {
	owners := obj.GetOwnerReferences()
	left := slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return !s.lives(obj.GetNamespace(), o) })
	switch {
	case len(left) == len(owners):
		return nil
	case len(left) == 0:
		return s.end("", r, obj)
	}
	changed := obj.DeepCopy()
	changed.SetOwnerReferences(left)
	return s.put(Event{Type: watch.Modified, Resource: r, Object: changed, Before: obj})
}

// lives reports whether an owner of an object in a namespace is there, which it is for all that is known if its kind is not
// served. The caller holds mu.
func (s *Store) lives(namespace string, o metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(o.APIVersion)
	must(err)
	for _, r := range s.resources {
		if r.Group == version.Group && r.Version == version.Version && r.Kind == o.Kind {
			key := types.NamespacedName{Name: o.Name}
			if r.Namespaced {
				key.Namespace = namespace
			}
			owner := s.objects[r][key]
			return owner != nil && owner.GetUID() == o.UID
		}
	}
	return true
}
