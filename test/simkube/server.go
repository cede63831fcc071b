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
	"k8s.io/apimachinery/pkg/util/strategicpatch"
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
	// other is what the call asks for that this model does not have; empty for nothing.
	other string
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
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
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
	c.status = len(parts) == 3 && parts[2] == "status"
	if c.status && !c.resource.status() {
		return nil, answer{http.StatusNotFound, nil}
	}
	if len(parts) > 2 && !c.status {
		c.other = "the subresource " + strings.Join(parts[2:], "/")
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
		if c.verb = "delete"; c.key.Name == "" {
			c.other = "the deletion of collections"
		}
	default:
		c.other = "the method " + req.Method
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
	if c.other != "" {
		return failed(s.refuse(c.by, c.String(), c.other))
	}
	if c.resource.Namespaced && c.key.Namespace == "" && c.verb != "list" {
		return failed(apierrors.NewBadRequest("a namespace is required"))
	}
	if strict := c.query.Get("fieldValidation"); strict == "Strict" {
		return failed(s.refuse(c.by, c.String(), "fieldValidation "+strict))
	}
	dryRun, err := dryRunOf(c.query["dryRun"])
	if err != nil {
		return failed(err)
	}
	var obj *unstructured.Unstructured
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
		if err = c.resource.identified(asked, c.key.Namespace); err != nil {
			return failed(err)
		}
		if c.resource.Namespaced {
			asked.SetNamespace(c.key.Namespace)
		}
		if asked.GetResourceVersion() != "" && !dryRun {
			return failed(&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "resourceVersion should not be set on objects to be created"}})
		}
		obj, err = s.create(c.by, c.resource, asked, dryRun)
	case "update":
		obj, err = s.change(c.by, c.resource, c.key, c.status, dryRun, c.replace)
	case "patch":
		if c.patch == types.ApplyYAMLPatchType || c.patch == types.ApplyCBORPatchType {
			return failed(s.refuse(c.by, c.String(), "server-side apply"))
		}
		if obj, err = s.change(c.by, c.resource, c.key, c.status, dryRun, c.apply); apierrors.IsBadRequest(err) && errors.As(err, new(*mistyped)) {
			err = apierrors.NewInvalid(c.resource.gk(), c.key.Name, field.ErrorList{field.Invalid(field.NewPath("patch"), string(c.body), err.Error())})
		}
	case "delete":
		return s.serveDelete(c, dryRun)
	}
	if err != nil {
		return failed(err)
	}
	return answer{http.StatusOK, c.shown(obj)}
}

// dryRunOf reports whether a call is a dry run.
func dryRunOf(values []string) (bool, error) {
	for _, x := range values {
		if x != metav1.DryRunAll {
			return false, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.NotSupported(field.NewPath("dryRun"), x, []string{metav1.DryRunAll})})
		}
	}
	return len(values) > 0, nil
}

// serveDelete does what a call for a deletion asks for.
func (s *Store) serveDelete(c *call, dryRun bool) answer {
	var options metav1.DeleteOptions
	if len(c.body) > 0 {
		if err := json.Unmarshal(c.body, &options); err != nil {
			return failed(apierrors.NewBadRequest(err.Error()))
		}
	}
	dry, err := dryRunOf(options.DryRun)
	if err != nil {
		return failed(err)
	}
	policy := c.query.Get("propagationPolicy")
	if options.PropagationPolicy != nil {
		policy = string(*options.PropagationPolicy)
	}
	if orphan := options.OrphanDependents; orphan != nil && *orphan { //nolint:staticcheck // deprecated, and still served
		policy = string(metav1.DeletePropagationOrphan)
	}
	if policy != "" && policy != string(metav1.DeletePropagationBackground) {
		return failed(s.refuse(c.by, c.String(), "the deletion policy "+policy))
	}
	how := deletion{dryRun: dryRun || dry}
	if p := options.Preconditions; p != nil && p.UID != nil {
		how.uid = *p.UID
	}
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil {
		how.version = *p.ResourceVersion
	}
	if err := s.delete(c.by, c.resource, c.key, how); err != nil {
		return failed(err)
	}
	return answer{http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}}
}

// replace puts the object of a call in place of another. It must be the same one: an object that was deleted and made again has
// another UID.
func (c *call) replace(x *unstructured.Unstructured) error {
	version, uid := x.GetResourceVersion(), x.GetUID()
	var asked map[string]any
	if err := utiljson.Unmarshal(c.body, &asked); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	x.Object = asked
	if other := x.GetUID(); other != "" && other != uid {
		return apierrors.NewConflict(c.resource.gr(), c.key.Name, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", other, uid))
	}
	if c.resource.Namespaced && x.GetNamespace() == "" {
		x.SetNamespace(c.key.Namespace)
	}
	if x.GetResourceVersion() == "" && c.resource.schema == nil {
		x.SetResourceVersion(version) // built-in kinds can be replaced whatever their version
	}
	return nil
}

// apply applies the patch of a call.
func (c *call) apply(x *unstructured.Unstructured) error {
	before, err := json.Marshal(x.Object)
	if err != nil {
		return err
	}
	var after []byte
	switch c.patch {
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, c.body)
	case types.StrategicMergePatchType:
		is := c.resource.typed()
		if is == nil {
			return c.unsupported()
		}
		after, err = strategicpatch.StrategicMergePatch(before, c.body, is)
	case types.JSONPatchType:
		var p jsonpatch.Patch
		if p, err = jsonpatch.DecodePatch(c.body); err == nil {
			if after, err = p.Apply(before); err != nil {
				return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
			}
		}
	default:
		return c.unsupported()
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	x.Object = nil
	if err := utiljson.Unmarshal(after, &x.Object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// unsupported is the error about a type of patch that an API server does not take.
func (c *call) unsupported() error {
	return apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, c.verb, c.resource.gr(), c.key.Name, "patch type "+string(c.patch), 0, false)
}

// list answers a list, with what the selectors let through.
func (s *Store) list(c *call) answer {
	matches, err := s.matches(c)
	if err != nil {
		return failed(err)
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
func (s *Store) matches(c *call) (func(*unstructured.Unstructured) bool, error) {
	selector, err := labels.Parse(c.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	name := ""
	if field := c.query.Get("fieldSelector"); field != "" {
		var is bool
		if name, is = strings.CutPrefix(field, "metadata.name="); !is {
			return nil, s.refuse(c.by, c.String(), "the field selector "+field)
		}
	}
	return func(obj *unstructured.Unstructured) bool {
		return (c.key.Namespace == "" || obj.GetNamespace() == c.key.Namespace) && (name == "" || obj.GetName() == name) &&
			selector.Matches(labels.Set(obj.GetLabels()))
	}, nil
}

// equalJSON compares values of decoded JSON.
func equalJSON(a, b any) bool { return reflect.DeepEqual(a, b) }
