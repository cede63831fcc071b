package simkube

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kueue"
)

// Resource is a kind of object that the API server serves. Every kind has a status subresource.
type Resource struct {
	Group, Version, Name, Kind string
	Namespaced                 bool
	// plain says that the server counts no generations of these objects.
	plain bool
	// schema is that of the CustomResourceDefinition; nil for a built-in kind.
	schema map[string]any
	// validator validates objects against the schema.
	validator *validate.SchemaValidator
}

func (r *Resource) apiVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

func (r *Resource) gr() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Name}
}

func (r *Resource) gk() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// BuiltIn are the resources of Kubernetes itself that Lull knows.
func BuiltIn() []*Resource {
	return []*Resource{
		{Version: "v1", Name: "namespaces", Kind: "Namespace", plain: true},
		{Version: "v1", Name: "nodes", Kind: "Node", plain: true},
		{Version: "v1", Name: "pods", Kind: "Pod", Namespaced: true},
		{Version: "v1", Name: "configmaps", Kind: "ConfigMap", Namespaced: true, plain: true},
		{Version: "v1", Name: "resourcequotas", Kind: "ResourceQuota", Namespaced: true, plain: true},
		{Version: "v1", Name: "secrets", Kind: "Secret", Namespaced: true, plain: true},
		{Version: "v1", Name: "events", Kind: "Event", Namespaced: true, plain: true},
		{Group: "events.k8s.io", Version: "v1", Name: "events", Kind: "Event", Namespaced: true, plain: true},
		{Group: "coordination.k8s.io", Version: "v1", Name: "leases", Kind: "Lease", Namespaced: true, plain: true},
		{Group: "batch", Version: "v1", Name: "jobs", Kind: "Job", Namespaced: true},
		{Group: "batch", Version: "v1", Name: "cronjobs", Kind: "CronJob", Namespaced: true},
		{Group: "apps", Version: "v1", Name: "deployments", Kind: "Deployment", Namespaced: true},
		{Group: "apps", Version: "v1", Name: "replicasets", Kind: "ReplicaSet", Namespaced: true},
		{Group: "scheduling.k8s.io", Version: "v1", Name: "priorityclasses", Kind: "PriorityClass"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Name: "mutatingadmissionpolicies", Kind: "MutatingAdmissionPolicy"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Name: "mutatingadmissionpolicybindings", Kind: "MutatingAdmissionPolicyBinding"},
	}
}

// Operators are the resources of all operators whose kinds Lull governs, and of Kueue. There are no objects of these
// kinds, and no operators.
func Operators() []*Resource {
	var out []*Resource
	for _, k := range kinds.Builtin() {
		out = append(out, &Resource{Group: k.Spec.Group, Version: k.Spec.Version, Name: k.Spec.Resource, Kind: k.Spec.Kind, Namespaced: true})
	}
	for _, x := range []struct {
		kind, name string
		namespaced bool
	}{
		{"Workload", "workloads", true}, {"LocalQueue", "localqueues", true}, {"ClusterQueue", "clusterqueues", false}, {"Cohort", "cohorts", false},
		{"MultiKueueCluster", "multikueueclusters", false}, {"AdmissionCheck", "admissionchecks", false}, {"MultiKueueConfig", "multikueueconfigs", false},
	} {
		out = append(out, &Resource{Group: kueue.GroupVersion.Group, Version: kueue.GroupVersion.Version, Name: x.name, Kind: x.kind, Namespaced: x.namespaced})
	}
	return out
}

// Install stores manifests, a stream of YAML: it serves the custom resources that they define, and creates their
// objects. Roles and their bindings are the rights of programs. Other kinds that are not served are left out.
func (s *Store) Install(manifests string) error {
	reader := yamlutil.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &u.Object); err != nil {
			return err
		}
		if u.GetKind() == "CustomResourceDefinition" {
			if err := s.define(u); err != nil {
				return err
			}
			continue
		}
		s.rights.add(u)
		if r, served := s.resource(u.GetKind()); served && r.apiVersion() == u.GetAPIVersion() {
			if _, err := s.Create("installer", r, u); err != nil {
				return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
			}
		}
	}
}

// define serves the custom resources of a CustomResourceDefinition of one version.
func (s *Store) define(crd *unstructured.Unstructured) error {
	get := func(fields ...string) string {
		out, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, fields...)...)
		return out
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if len(versions) != 1 {
		return fmt.Errorf("%s has %d versions; this model serves one", crd.GetName(), len(versions))
	}
	version, _ := versions[0].(map[string]any)
	name, _ := version["name"].(string)
	openAPI, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	if openAPI == nil || name == "" {
		return fmt.Errorf("%s has no schema", crd.GetName())
	}
	if _, has, _ := unstructured.NestedMap(version, "subresources", "status"); !has {
		return fmt.Errorf("%s has no status subresource; this model serves one for each custom resource", crd.GetName())
	}
	r := &Resource{Group: get("group"), Version: name, Name: get("names", "plural"), Kind: get("names", "kind"), Namespaced: get("scope") == "Namespaced", schema: openAPI}
	if err := r.compile(); err != nil {
		return fmt.Errorf("%s: %w", crd.GetName(), err)
	}
	s.Serve(r)
	return nil
}
