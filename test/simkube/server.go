package simkube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// call is a request to the API server.
type call struct {
	by       string
	verb     string // get, list, watch, create, update, patch, delete
	resource *Resource
	key      types.NamespacedName
	status   bool // of the status subresource
	meta     bool // only metadata is asked for
	query    url.Values
	patch    types.PatchType
	body     []byte
}

// writes reports whether the call may change something.
func (c *call) writes() bool {
	return c.verb == "create" || c.verb == "update" || c.verb == "patch" || c.verb == "delete"
}

func (c *call) String() string {
	return fmt.Sprintf("%s %s %s", c.verb, c.resource.Name, c.key)
}

// answer is what an API server answers: a status code and a value that is sent as JSON.
type answer struct {
	code  int
	value any
}

func failed(err error) answer {
	var is apierrors.APIStatus
	if !errors.As(err, &is) {
		is = apierrors.NewInternalError(err)
	}
	status := is.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return answer{int(status.Code), status}
}

// parse understands a request; nil with an answer if it is not about an object.
func (s *Store) parse(by string, req *http.Request, body []byte) (*call, answer) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	var group, version string
	switch {
	case parts[0] == "version":
		return nil, answer{http.StatusOK, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}}
	case parts[0] == "api" && len(parts) < 3, parts[0] == "apis" && len(parts) < 4:
		return nil, s.discover(parts)
	case parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, answer{http.StatusNotFound, nil}
	}
	c := &call{by: by, query: req.URL.Query(), body: body, meta: strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata")}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.key.Namespace, parts = parts[1], parts[2:]
	}
	for _, r := range s.resources {
		if r.Group == group && r.Version == version && r.Name == parts[0] {
			c.resource = r
		}
	}
	if c.resource == nil {
		return nil, answer{http.StatusNotFound, nil}
	}
	if len(parts) > 1 {
		c.key.Name = parts[1]
	}
	if len(parts) > 2 {
		if parts[2] != "status" {
			return nil, answer{http.StatusNotFound, nil}
		}
		c.status = true
	}
	switch req.Method {
	case http.MethodGet:
		switch c.verb = "get"; {
		case c.query.Get("watch") == "true" || c.query.Get("watch") == "1":
			c.verb = "watch"
		case c.key.Name == "":
			c.verb = "list"
		}
	case http.MethodPost:
		c.verb = "create"
	case http.MethodPut:
		c.verb = "update"
	case http.MethodPatch:
		c.verb, c.patch = "patch", types.PatchType(req.Header.Get("Content-Type"))
	case http.MethodDelete:
		c.verb = "delete"
	}
	return c, answer{}
}

// discover answers what is served.
func (s *Store) discover(parts []string) answer {
	if parts[0] == "api" && len(parts) == 1 {
		return answer{http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}}
	}
	if len(parts) == 1 {
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, r := range s.resources {
			known := r.Group == "" || len(list.Groups) > 0 && list.Groups[len(list.Groups)-1].Name == r.Group
			if !known {
				v := metav1.GroupVersionForDiscovery{GroupVersion: r.apiVersion(), Version: r.Version}
				list.Groups = append(list.Groups, metav1.APIGroup{Name: r.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		return answer{http.StatusOK, list}
	}
	group, version := "", parts[1]
	if parts[0] == "apis" {
		if group = parts[1]; len(parts) == 2 {
			return answer{http.StatusNotFound, nil}
		}
		version = parts[2]
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: strings.Trim(group+"/"+version, "/")}
	for _, r := range s.resources {
		if r.Group == group && r.Version == version {
			verbs := metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"}
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: r.Name, SingularName: strings.ToLower(r.Kind), Kind: r.Kind, Namespaced: r.Namespaced, Verbs: verbs},
				metav1.APIResource{Name: r.Name + "/status", Kind: r.Kind, Namespaced: r.Namespaced, Verbs: metav1.Verbs{"get", "update", "patch"}})
		}
	}
	if len(list.APIResources) == 0 {
		return answer{http.StatusNotFound, nil}
	}
	return answer{http.StatusOK, list}
}

// serve does what a call asks for. Watches are served by stream.
func (s *Store) serve(c *call) answer {
	if c.resource.Namespaced && c.key.Namespace == "" && c.verb != "list" {
		return failed(apierrors.NewBadRequest("a namespace is required"))
	}
	var obj *unstructured.Unstructured
	var err error
	switch c.verb {
	case "get":
		if obj = s.Get(c.resource, c.key); obj == nil {
			err = apierrors.NewNotFound(c.resource.gr(), c.key.Name)
		}
	case "list":
		return s.list(c)
	case "create":
		asked := &unstructured.Unstructured{}
		if err = utiljson.Unmarshal(c.body, &asked.Object); err != nil {
			return failed(apierrors.NewBadRequest(err.Error()))
		}
		if c.resource.Namespaced {
			asked.SetNamespace(c.key.Namespace)
		}
		obj, err = s.create(c.by, c.resource, asked, c.query.Get("dryRun") != "")
	case "update":
		obj, err = s.Change(c.by, c.resource, c.key, c.status, func(x *unstructured.Unstructured) error {
			var asked map[string]any
			if err := utiljson.Unmarshal(c.body, &asked); err != nil {
				return apierrors.NewBadRequest(err.Error())
			}
			x.Object = asked
			if x.GetResourceVersion() == "" && c.resource.schema != nil {
				kind := schema.GroupKind{Group: c.resource.Group, Kind: c.resource.Kind}
				return apierrors.NewInvalid(kind, c.key.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
			}
			return nil
		})
	case "patch":
		obj, err = s.Change(c.by, c.resource, c.key, c.status, c.apply)
	case "delete":
		var options metav1.DeleteOptions
		if len(c.body) > 0 {
			_ = json.Unmarshal(c.body, &options)
		}
		var uid types.UID
		if p := options.Preconditions; p != nil && p.UID != nil {
			uid = *p.UID
		}
		if err = s.Delete(c.by, c.resource, c.key, uid); err == nil {
			return answer{http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}}
		}
	}
	if err != nil {
		return failed(err)
	}
	return answer{http.StatusOK, c.shown(obj)}
}

// apply applies the patch of a call.
func (c *call) apply(x *unstructured.Unstructured) error {
	before, err := json.Marshal(x.Object)
	if err != nil {
		return err
	}
	var after []byte
	switch c.patch {
	case types.MergePatchType, types.StrategicMergePatchType:
		after, err = jsonpatch.MergePatch(before, c.body)
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(c.body); err == nil {
			if after, err = p.Apply(before); err != nil {
				return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
			}
		}
	default:
		err = fmt.Errorf("patch type %s: not served by this model", c.patch)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	x.Object = nil
	return utiljson.Unmarshal(after, &x.Object)
}

// list answers a list, with what the selectors let through.
func (s *Store) list(c *call) answer {
	matches, err := c.matches()
	if err != nil {
		return failed(apierrors.NewBadRequest(err.Error()))
	}
	if c.query.Get("sendInitialEvents") != "" {
		return failed(apierrors.NewBadRequest("sendInitialEvents: not served by this model"))
	}
	objects, version := s.List(c.resource, c.key.Namespace)
	items := []any{}
	for _, obj := range objects {
		if matches(obj) {
			items = append(items, c.shown(obj))
		}
	}
	kind, api := c.resource.Kind+"List", c.resource.apiVersion()
	if c.meta {
		kind, api = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return answer{http.StatusOK, map[string]any{
		"kind": kind, "apiVersion": api, "metadata": map[string]any{"resourceVersion": strconv.FormatInt(version, 10)}, "items": items,
	}}
}

// shown is an object as the call asked for it.
func (c *call) shown(obj *unstructured.Unstructured) any {
	if !c.meta {
		return obj.Object
	}
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj.Object["metadata"]}
}

// matches returns whether an object is one of those that a list or watch asks for.
func (c *call) matches() (func(*unstructured.Unstructured) bool, error) {
	selector, err := labels.Parse(c.query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	name := ""
	if field := c.query.Get("fieldSelector"); field != "" {
		var is bool
		if name, is = strings.CutPrefix(field, "metadata.name="); !is {
			return nil, fmt.Errorf("fieldSelector %s: not served by this model", field)
		}
	}
	return func(obj *unstructured.Unstructured) bool {
		return (c.key.Namespace == "" || obj.GetNamespace() == c.key.Namespace) && (name == "" || obj.GetName() == name) &&
			selector.Matches(labels.Set(obj.GetLabels()))
	}, nil
}

// equalJSON compares values of decoded JSON.
func equalJSON(a, b any) bool { return reflect.DeepEqual(a, b) }
