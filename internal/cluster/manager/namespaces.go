package manager

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Namespaces are those that a program is bound to; none for all. It has no rights to namespaced objects elsewhere, except that the
// controller and the extender may read Pods.
type Namespaces []string

// Check returns an error if one of them is not the name of a namespace, or is there twice.
func (n Namespaces) Check() error {
	for i, name := range n {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("--namespaces: %q; accepted: names of namespaces, separated by commas: %s", name, strings.Join(problems, "; "))
		}
		if slices.Contains(n[:i], name) {
			return fmt.Errorf("--namespaces: %q: there twice; accepted: each namespace once", name)
		}
	}
	return nil
}

// Has reports whether a namespace is one of them.
func (n Namespaces) Has(name string) bool { return len(n) == 0 || slices.Contains(n, name) }

// Bind returns cache options with which namespaced objects are watched in these namespaces only. New and NewCache make such caches.
func (n Namespaces) Bind(o cache.Options) cache.Options {
	if len(n) == 0 {
		return o
	}
	o.DefaultNamespaces = map[string]cache.Config{}
	for _, name := range n {
		o.DefaultNamespaces[name] = cache.Config{}
	}
	return o
}

// BindButPods is Bind, except that Pods are watched in all namespaces: those of others are load.
func (n Namespaces) BindButPods(o cache.Options) cache.Options {
	if len(n) == 0 {
		return o
	}
	by, pods := map[client.Object]cache.ByObject{}, cache.ByObject{}
	for object, options := range o.ByObject {
		if _, is := object.(*corev1.Pod); is {
			pods = options
			continue
		}
		by[object] = options
	}
	pods.Namespaces = map[string]cache.Config{cache.AllNamespaces: {}}
	by[&corev1.Pod{}] = pods
	o.ByObject = by
	return n.Bind(o)
}

// NewCache returns a cache as cache.New does. With options from Bind, the cache has no objects of other namespaces. A bound namespace that
// the program may not list, for example because it does not exist, counts as empty.
func NewCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	return newCache(config, o, false)
}

func newCache(config *rest.Config, o cache.Options, certain bool) (cache.Cache, error) {
	if len(o.DefaultNamespaces) == 0 {
		return cache.New(config, o)
	}
	if o.HTTPClient == nil {
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("create a client of HTTP: %w", err)
		}
		o.HTTPClient = c
	}
	if o.Mapper == nil {
		mapper, err := mapperOf(config, o.HTTPClient)
		if err != nil {
			return nil, err
		}
		o.Mapper = mapper
	}
	c := &boundCache{scopes: scopes{o.Scheme, o.Mapper}, namespaces: o.DefaultNamespaces}
	for object, options := range o.ByObject {
		if _, everywhere := options.Namespaces[cache.AllNamespaces]; everywhere {
			gvk, _ := c.scopes.namespaced(object)
			c.everywhere = append(c.everywhere, gvk)
		}
	}
	o.NewInformer = newInformer(c.bound, certain)
	var err error
	c.Cache, err = cache.New(config, o)
	return c, err
}

func mapperOf(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(config, c)
	if err != nil {
		return nil, fmt.Errorf("create a mapper of kinds: %w", err)
	}
	return mapper, nil
}

// scopes tells which objects are namespaced.
type scopes struct {
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

// namespaced reports whether an object, or those of a list, are namespaced, and their kind. Those of a kind that the API server
// does not serve are not.
func (s scopes) namespaced(o runtime.Object) (schema.GroupVersionKind, bool) {
	gvk, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		return gvk, false
	}
	if _, list := o.(client.ObjectList); list {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	is, err := apiutil.IsGVKNamespaced(gvk, s.mapper)
	return gvk, err == nil && is
}

// boundCache is a cache of some namespaces, and of some kinds in all of them.
type boundCache struct {
	cache.Cache
	scopes     scopes
	namespaces map[string]cache.Config
	everywhere []schema.GroupVersionKind
}

// bound reports whether the cache has objects of these namespaces only.
func (c *boundCache) bound(o runtime.Object) bool {
	gvk, namespaced := c.scopes.namespaced(o)
	return namespaced && !slices.Contains(c.everywhere, gvk)
}

// Get implements client.Reader. An object of another namespace is not found.
func (c *boundCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, has := c.namespaces[key.Namespace]; !has && c.bound(o) {
		gvk, _ := c.scopes.namespaced(o)
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.String())
	}
	return c.Cache.Get(ctx, key, o, options...)
}

// List implements client.Reader. Another namespace has no objects.
func (c *boundCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if _, has := c.namespaces[o.Namespace]; o.Namespace != "" && !has && c.bound(list) {
		return meta.SetList(list, nil)
	}
	if o.Namespace == "" && c.bound(list) {
		if err := c.startAll(ctx, list); err != nil {
			return err
		}
	}
	return c.Cache.List(ctx, list, options...)
}

// startAll starts the informers of all namespaces for the kind of a list. A list starts one after another, and waits until it is filled: one that
// may not list would keep those from starting that show that the API server knows who has which rights (tolerant).
func (c *boundCache) startAll(ctx context.Context, list client.ObjectList) error {
	gvk, _ := c.scopes.namespaced(list)
	var o client.Object
	switch list.(type) {
	case *unstructured.UnstructuredList:
		o = &unstructured.Unstructured{}
	case *metav1.PartialObjectMetadataList:
		o = &metav1.PartialObjectMetadata{}
	default:
		typed, err := c.scopes.scheme.New(gvk)
		if err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
		o = typed.(client.Object) //nolint:forcetypeassert // what lists have are objects
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	_, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false))
	return err
}

// Reader returns a reader that lists these namespaces, one after another, where all namespaces are asked for. It skips a namespace in which
// listing the kind is forbidden, and calls left with it, unless left is nil. If all are forbidden, it returns the error.
func (n Namespaces) Reader(r client.Reader, scheme *runtime.Scheme, mapper meta.RESTMapper, left func(namespace string, err error)) client.Reader {
	if len(n) == 0 {
		return r
	}
	return &boundReader{Reader: r, scopes: scopes{scheme, mapper}, namespaces: n, left: left}
}

// Client returns a client that reads as Reader does.
func (n Namespaces) Client(c client.Client, left func(namespace string, err error)) client.Client {
	if len(n) == 0 {
		return c
	}
	return &boundClient{Client: c, reader: n.Reader(c, c.Scheme(), c.RESTMapper(), left)}
}

type boundClient struct {
	client.Client
	reader client.Reader
}

// List implements client.Reader.
func (c *boundClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return c.reader.List(ctx, list, options...)
}

type boundReader struct {
	client.Reader
	scopes     scopes
	namespaces Namespaces
	left       func(namespace string, err error)
}

// List implements client.Reader. A page of a list is of one namespace; the token of the next page begins with the number of its namespace.
func (r *boundReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if _, namespaced := r.scopes.namespaced(list); o.Namespace != "" || !namespaced {
		return r.Reader.List(ctx, list, options...)
	}
	first, token := 0, ""
	if o.Continue != "" {
		number, rest, _ := strings.Cut(o.Continue, "/")
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n >= len(r.namespaces) {
			return fmt.Errorf("list: token %q: not one of this reader", o.Continue)
		}
		first, token = n, rest
	}
	var items []runtime.Object
	var forbidden error
	next, listed := "", first > 0
	for i := first; i < len(r.namespaces) && next == ""; i++ {
		one := o
		one.Namespace, one.Continue, token = r.namespaces[i], token, ""
		part, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("list: %T is not a list", list)
		}
		err := r.Reader.List(ctx, part, &one)
		if apierrors.IsForbidden(err) {
			if r.left != nil {
				r.left(r.namespaces[i], err)
			}
			forbidden = err
			continue
		}
		if err != nil {
			return err
		}
		more, err := meta.ExtractList(part)
		if err != nil {
			return err
		}
		items, listed = append(items, more...), true
		switch {
		case part.GetContinue() != "":
			next = fmt.Sprintf("%d/%s", i, part.GetContinue())
		case o.Limit > 0 && i+1 < len(r.namespaces):
			next = fmt.Sprintf("%d/", i+1)
		}
	}
	if !listed {
		return forbidden
	}
	list.SetContinue(next)
	return meta.SetList(list, items)
}
