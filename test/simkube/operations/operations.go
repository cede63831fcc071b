// Package operations is a table of operations on an API server, with what it answers. The same table runs against the model
// (test/simkube) and against a real API server (test/integration), and both must answer alike.
package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Case is an operation, or a few, and what they return.
type Case struct {
	Name string
	Do   func(e *Env) []string
	Want []string
}

// Env is what cases work on: an API server with Lull installed.
type Env struct {
	ctx    context.Context //nolint:containedctx // that of the test
	t      *testing.T
	client dynamic.Interface
	ns     string
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	policies    = schema.GroupVersionResource{Group: "lull.dev", Version: "v1alpha1", Resource: "carbonpolicies"}
	plans       = schema.GroupVersionResource{Group: "lull.dev", Version: "v1alpha1", Resource: "carbonplans"}
	profiles    = schema.GroupVersionResource{Group: "lull.dev", Version: "v1alpha1", Resource: "scalingprofiles"}
	curves      = schema.GroupVersionResource{Group: "lull.dev", Version: "v1alpha1", Resource: "capacitycurves"}
)

type resource = schema.GroupVersionResource

// Run runs all cases against an API server, each in a namespace of its own.
func Run(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Cases() {
		e := &Env{ctx: t.Context(), t: t, client: client, ns: "op-" + strings.ToLower(strings.ReplaceAll(c.Name, " ", "-"))}
		e.create(namespaces, "", object("v1", "Namespace", e.ns, nil))
		if got := c.Do(e); !slices.Equal(got, c.Want) {
			t.Errorf("%s: the API server answers\n\t%s\nwant\n\t%s", c.Name, strings.Join(got, "\n\t"), strings.Join(c.Want, "\n\t"))
		}
		_ = client.Resource(namespaces).Delete(e.ctx, e.ns, metav1.DeleteOptions{})
	}
}

func object(apiVersion, kind, name string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	for k, v := range fields {
		if k == "metadata" {
			for field, value := range v.(map[string]any) {
				u.Object["metadata"].(map[string]any)[field] = value
			}
			continue
		}
		u.Object[k] = v
	}
	return u
}

func configMap(name string, labels map[string]any) *unstructured.Unstructured {
	return object("v1", "ConfigMap", name, map[string]any{"metadata": map[string]any{"labels": labels}, "data": map[string]any{"a": "1"}})
}

func plan(name string) *unstructured.Unstructured {
	return object("lull.dev/v1alpha1", "CarbonPlan", name, map[string]any{"spec": map[string]any{
		"policy": "clean", "workload": map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "u"},
	}})
}

func (e *Env) on(r schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return e.client.Resource(r)
	}
	return e.client.Resource(r).Namespace(namespace)
}

// create creates an object, which must work.
func (e *Env) create(r schema.GroupVersionResource, namespace string, obj *unstructured.Unstructured) *unstructured.Unstructured {
	e.t.Helper()
	out, err := e.on(r, namespace).Create(e.ctx, obj, metav1.CreateOptions{})
	if err != nil {
		e.t.Fatalf("create %s %s: %v", r.Resource, obj.GetName(), err)
	}
	return out
}

func (e *Env) get(r schema.GroupVersionResource, name string) *unstructured.Unstructured {
	e.t.Helper()
	out, err := e.on(r, e.ns).Get(e.ctx, name, metav1.GetOptions{})
	if err != nil {
		e.t.Fatalf("get %s %s: %v", r.Resource, name, err)
	}
	return out
}

// merge applies a merge patch, and returns the result and the outcome.
func (e *Env) merge(r schema.GroupVersionResource, name, patch string, sub ...string) (*unstructured.Unstructured, string) {
	return e.mergeIn(r, e.ns, name, patch, sub...)
}

func (e *Env) mergeIn(r schema.GroupVersionResource, namespace, name, patch string, sub ...string) (*unstructured.Unstructured, string) {
	out, err := e.on(r, namespace).Patch(e.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...)
	return out, outcome(err)
}

func (e *Env) update(r schema.GroupVersionResource, obj *unstructured.Unstructured) (*unstructured.Unstructured, string) {
	out, err := e.on(r, e.ns).Update(e.ctx, obj, metav1.UpdateOptions{})
	return out, outcome(err)
}

// outcome is the code and reason of an error.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var is apierrors.APIStatus
	if errors.As(err, &is) {
		return fmt.Sprintf("%d %s", is.Status().Code, is.Status().Reason)
	}
	return err.Error()
}

// patience bounds each wait on a real API server: generous, for slow machines.
const patience = 4 * time.Minute

// eventually waits until done, for as long as patience.
func (e *Env) eventually(what string, done func() bool) {
	e.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	e.t.Fatalf("gave up waiting for %s", what)
}

// events are the first n events of a watch from a version, as "TYPE name", or the reason of an error.
func (e *Env) events(r schema.GroupVersionResource, n int, o metav1.ListOptions) (out []string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, patience)
	defer cancel()
	w, err := e.on(r, e.ns).Watch(ctx, o)
	if err != nil {
		return []string{outcome(err)}
	}
	defer w.Stop()
	for len(out) < n {
		event, open := <-w.ResultChan()
		if !open {
			return append(out, "end")
		}
		switch x := event.Object.(type) {
		case *unstructured.Unstructured:
			if x.GetKind() == "Status" {
				code, _, _ := unstructured.NestedInt64(x.Object, "code")
				reason, _, _ := unstructured.NestedString(x.Object, "reason")
				out = append(out, fmt.Sprintf("%d %s", code, reason))
				continue
			}
			out = append(out, fmt.Sprintf("%s %s", event.Type, x.GetName()))
		default:
			out = append(out, outcome(apierrors.FromObject(event.Object)))
		}
	}
	return out
}

// fields are fields of an object as JSON.
func fields(u *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func same(a, b *unstructured.Unstructured) string {
	if a.GetResourceVersion() == b.GetResourceVersion() {
		return "the same version"
	}
	return "a new version"
}
