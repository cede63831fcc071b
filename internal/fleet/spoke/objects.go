package spoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Why an object is not applied.
var (
	// ErrForeign says that an object belongs to somebody else.
	ErrForeign = errors.New("it exists already, and Lull did not create it")
	// ErrClusterScoped says that it belongs to no namespace.
	ErrClusterScoped = errors.New("it belongs to no namespace; accepted: objects of a namespace")
)

// fieldManager is the name under which objects are applied.
const fieldManager = "lull-follow"

// Objects applies objects and removes them again, each marked by an annotation with its owner.
// What does not bear that mark is never touched.
type Objects struct {
	client client.Client
	// annotation names the owner, owner is the UID of what the objects are made for.
	annotation string
	owner      types.UID
}

// NewObjects returns a way to apply the objects of an owner.
func NewObjects(c client.Client, annotation string, owner types.UID) Objects {
	return Objects{c, annotation, owner}
}

// Objects applies objects of an owner on the cluster, as a service account of there.
func (c *Cluster) Objects(as types.NamespacedName, annotation string, owner types.UID) (Objects, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.accounts[as]; ok {
		return NewObjects(known, annotation, owner), nil
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + as.Namespace + ":" + as.Name}
	made, err := client.New(config, client.Options{Mapper: c.mapper})
	if err != nil {
		return Objects{}, fmt.Errorf("act as service account %s: %w", as, err)
	}
	c.accounts[as] = made
	return NewObjects(made, annotation, owner), nil
}

// Apply applies an object by server-side apply, without force, and returns it as it is then.
// Errors: ones wrapping ErrForeign and ErrClusterScoped, and those of the API server; each names
// the object.
func (o Objects) Apply(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if namespaced, err := o.client.IsObjectNamespaced(obj); err != nil || !namespaced {
		return nil, naming(obj, cmp.Or(err, ErrClusterScoped))
	}
	there, err := o.get(ctx, obj)
	if err != nil {
		return nil, naming(obj, err)
	}
	if there != nil && there.GetDeletionTimestamp() != nil {
		return nil, naming(obj, errors.New("it is being deleted"))
	}
	applied := obj.DeepCopy()
	annotations := applied.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[o.annotation] = string(o.owner)
	applied.SetAnnotations(annotations)
	if there != nil {
		// Whatever takes its place in the meantime is not touched.
		applied.SetUID(there.GetUID())
	}
	if err := o.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(fieldManager)); err != nil {
		return nil, naming(obj, err)
	}
	return applied, nil
}

// get returns an object of the owner; nil where there is none.
func (o Objects) get(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(obj.GroupVersionKind())
	err := o.client.Get(ctx, client.ObjectKeyFromObject(obj), there)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case there.GetAnnotations()[o.annotation] != string(o.owner):
		return there, ErrForeign
	}
	return there, nil
}

// Ready says whether an object is there and ready, by the conventions of its kind (kstatus), and
// if not why.
func (o Objects) Ready(ctx context.Context, obj *unstructured.Unstructured) (ready bool, why string, err error) {
	there, err := o.get(ctx, obj)
	if err != nil {
		return false, "", naming(obj, err)
	}
	if there == nil {
		return false, name(obj) + ": it is not there", nil
	}
	result, err := status.Compute(there)
	if err != nil {
		return false, "", naming(obj, err)
	}
	return result.Status == status.CurrentStatus, name(obj) + ": " + result.Message, nil
}

// Remove deletes an object and reports whether it is gone. With a UID only that very object; what
// belongs to somebody else counts as gone.
func (o Objects) Remove(ctx context.Context, obj *unstructured.Unstructured) (gone bool, err error) {
	there, err := o.get(ctx, obj)
	if errors.Is(err, ErrForeign) || err == nil && (there == nil || obj.GetUID() != "" && there.GetUID() != obj.GetUID()) {
		return true, nil
	}
	if err != nil {
		return false, naming(obj, err)
	}
	if there.GetDeletionTimestamp() != nil {
		return false, nil
	}
	uid := there.GetUID()
	err = o.client.Delete(ctx, there, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return false, naming(obj, err)
	}
	return false, nil // seen to be gone the next time
}

func name(obj *unstructured.Unstructured) string { return obj.GetKind() + " " + obj.GetName() }

func naming(obj *unstructured.Unstructured, err error) error {
	return fmt.Errorf("%s: %w", name(obj), err)
}
