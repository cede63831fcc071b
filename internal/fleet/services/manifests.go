// Package services keeps services on the best of several clusters: make before break.
package services

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
)

// maxObjects bounds a service.
const maxObjects = 256

// manifests returns the objects of a service, in order. Errors name the field.
func manifests(ctx context.Context, reader client.Reader, f *v1alpha1.Follow) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	seen := map[string]bool{}
	add := func(field string, text []byte) error {
		text, err := yaml.YAMLToJSON(text)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		if string(text) == "null" {
			return nil // an empty document
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(text); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		if err := check(obj, f.Namespace); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		ref := refOf(obj)
		if key := ref.APIVersion + " " + ref.Kind + " " + ref.Name; seen[key] {
			return fmt.Errorf("%s: %s %s: named twice; accepted: once", field, ref.Kind, ref.Name)
		} else if seen[key] = true; len(seen) > maxObjects {
			return fmt.Errorf("%s: more than %d objects; accepted: at most that", field, maxObjects)
		}
		out = append(out, obj)
		return nil
	}
	for i := range f.Spec.Manifests {
		if err := add(fmt.Sprintf("spec.manifests[%d]", i), f.Spec.Manifests[i].Raw); err != nil {
			return nil, err
		}
	}
	for i, ref := range f.Spec.ManifestsFrom {
		field := fmt.Sprintf("spec.manifestsFrom[%d].configMap", i)
		var cm corev1.ConfigMap
		if err := reader.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: ref.ConfigMap}, &cm); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		keys := make([]string, 0, len(cm.Data))
		for key := range cm.Data {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if err := documents(cm.Data[key], func(text []byte) error { return add(field+" "+ref.ConfigMap+", key "+key, text) }); err != nil {
				return nil, err
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("spec.manifests, spec.manifestsFrom: no object; accepted: at least one")
	}
	return out, nil
}

// documents takes YAML apart.
func documents(text string, each func([]byte) error) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(document)
		}
		if err != nil {
			return err
		}
	}
}

// check completes an object, and refuses one that would reach beyond its namespace.
func check(obj *unstructured.Unstructured, namespace string) error {
	switch {
	case obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "":
		return errors.New("an object without apiVersion, kind or metadata.name")
	case obj.IsList():
		return errors.New("a List; accepted: one object after the other")
	case obj.GetNamespace() != "" && obj.GetNamespace() != namespace:
		return fmt.Errorf("metadata.namespace: %q; accepted: %q, that of the Follow", obj.GetNamespace(), namespace)
	}
	obj.SetNamespace(namespace)
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(obj.Object, "status")
	return nil
}

// refOf names an object.
func refOf(obj *unstructured.Unstructured) v1alpha1.FollowObject {
	return v1alpha1.FollowObject{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Name: obj.GetName()}
}

// objectOf is the object of a name.
func objectOf(ref v1alpha1.FollowObject, namespace string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(ref.APIVersion)
	obj.SetKind(ref.Kind)
	obj.SetNamespace(namespace)
	obj.SetName(ref.Name)
	obj.SetUID(ref.UID)
	return obj
}

// requests is what the pods of the objects ask for together: of everything with a pod template
// at spec.template, spec.replicas of them (one where that is not said).
func requests(objects []*unstructured.Unstructured) map[string]float64 {
	sum := map[string]float64{}
	for _, obj := range objects {
		template, ok, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec")
		if obj.GetKind() == "Pod" {
			template, ok, _ = unstructured.NestedMap(obj.Object, "spec")
		}
		if !ok || kinds.Readable(template) != nil {
			continue
		}
		var pod corev1.Pod
		if runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod.Spec) != nil {
			continue // the API server will say what is wrong with it
		}
		replicas, said, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
		if !said {
			replicas = 1
		}
		for r, q := range kube.Requests(&pod) {
			sum[r] += float64(replicas) * q
		}
	}
	return sum
}
