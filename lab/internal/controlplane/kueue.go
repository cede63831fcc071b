package controlplane

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Kueue runs beside the scheduler, its webhooks reached over loopback: the binary and the
// manifests of its module, built by `make kueue` into a folder beside the lab's binary.

// Dispatcher is the name of the external dispatcher of MultiKueue on a hub.
const Dispatcher = "lull.dev/dispatcher"

// kueueNamespace is where Kueue looks for the kubeconfigs of its workers.
const kueueNamespace = "kueue-system"

// kueueFrameworks are the kinds that Kueue may manage in a lab: the names of its integrations
// and the ends of the paths of their webhooks.
var kueueFrameworks = map[string]string{
	"batch/job": "batch-v1-job", "jobset.x-k8s.io/jobset": "-jobset", "kubeflow.org/mpijob": "-mpijob", "kubeflow.org/pytorchjob": "-pytorchjob",
	"ray.io/rayjob": "-rayjob", "ray.io/raycluster": "-raycluster", "trainer.kubeflow.org/trainjob": "-trainjob", "workload.codeflare.dev/appwrapper": "-appwrapper",
}

// kueueOwn are the ends of the paths of the webhooks of Kueue's own kinds.
var kueueOwn = []string{"-clusterqueue", "-resourceflavor", "-cohort", "v1beta2-workload"}

// kueueDir is the folder of Kueue's binary and manifests, beside the lab's own.
func kueueDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(self), "kueue"), nil
}

// canRunKueue says what is missing for Kueue.
func canRunKueue() error {
	dir, err := kueueDir()
	if err != nil {
		return err
	}
	for _, name := range []string{"kueue", "manifests.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("--kueue: %w (build it with: make kueue)", err)
		}
	}
	return nil
}

// getOptions are the plain ones.
var getOptions = metav1.GetOptions{}

// resources of what Kueue's manifests hold.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":                      {Version: "v1", Resource: "namespaces"},
	"Secret":                         {Version: "v1", Resource: "secrets"},
	"CustomResourceDefinition":       {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"MutatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	"ValidatingWebhookConfiguration": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	"MutatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicies"},
	"MutatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingadmissionpolicybindings"},
	"ResourceFlavor":                 kueueResource("resourceflavors"),
	"ClusterQueue":                   kueueResource("clusterqueues"),
	"LocalQueue":                     kueueResource("localqueues"),
	"AdmissionCheck":                 kueueResource("admissionchecks"),
	"MultiKueueConfig":               kueueResource("multikueueconfigs"),
	"MultiKueueCluster":              kueueResource("multikueueclusters"),
}

func kueueResource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: name}
}

// create creates an object; nothing where it is there.
func create(ctx context.Context, client dynamic.Interface, obj *unstructured.Unstructured) error {
	gvr, ok := resources[obj.GetKind()]
	if !ok {
		return fmt.Errorf("%s %s: a kind the lab does not create", obj.GetKind(), obj.GetName())
	}
	_, err := client.Resource(gvr).Namespace(obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return nil
}

// documents splits manifests.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16)
	for {
		obj := &unstructured.Unstructured{}
		switch err := decoder.Decode(&obj.Object); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		case len(obj.Object) > 0:
			out = append(out, obj)
		}
	}
}

// startKueue installs Kueue, starts it and waits until it answers.
func (s *supervisor) startKueue(ctx context.Context, config *rest.Config, client kubernetes.Interface, ca []byte, p ports) error {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	dir, err := kueueDir()
	if err != nil {
		return err
	}
	manifests := []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": kueueNamespace}}}}
	for _, name := range append([]string{filepath.Join(dir, "manifests.yaml")}, s.Manifests...) {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		more, err := documents(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		manifests = append(manifests, more...)
	}
	// Kueue's own policy clears nominations. Before 1.36 no API server serves it, and Kueue's chart leaves it out too: lull admission --nominations does so there.
	if s.Kubernetes != "" {
		manifests = slices.DeleteFunc(manifests, func(o *unstructured.Unstructured) bool {
			return strings.HasPrefix(o.GetKind(), "MutatingAdmissionPolicy")
		})
	}
	for _, obj := range manifests {
		if strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
			if err := s.toLoopback(obj, fmt.Sprintf("https://127.0.0.1:%d", p.kueueWebhook), ca); err != nil {
				return fmt.Errorf("%s: %w", obj.GetKind(), err)
			}
		}
		if err := create(ctx, objects, obj); err != nil {
			return err
		}
	}
	// Kueue ends when its own kinds are not served yet.
	if err := s.until(ctx, "Kueue's kinds to be served", func() bool {
		list, err := client.Discovery().ServerResourcesForGroupVersion("kueue.x-k8s.io/v1beta2")
		return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "workloads" })
	}); err != nil {
		return err
	}
	c, err := s.kueue(filepath.Join(dir, "kueue"), p)
	if err != nil {
		return err
	}
	if err := s.start(c); err != nil {
		return err
	}
	// It answers for its webhooks too: whether they have started.
	ready := fmt.Sprintf("http://127.0.0.1:%d/readyz", p.kueueHealth)
	probe := http.Client{Timeout: 2 * time.Second}
	return s.until(ctx, "Kueue to be ready", func() bool {
		res, err := probe.Get(ready)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK && create(ctx, objects, flavor()) == nil
	})
}

// kueue is the component, with its configuration.
func (o Options) kueue(binary string, p ports) (component, error) {
	file, certificates := o.path("config", "kueue.yaml"), o.path("pki", "kueue")
	if err := os.MkdirAll(certificates, 0o700); err != nil {
		return component{}, err
	}
	for from, to := range map[string]string{"server.crt": "tls.crt", "server.key": "tls.key"} {
		text, err := os.ReadFile(o.path("pki", from))
		if err != nil {
			return component{}, err
		}
		if err := os.WriteFile(filepath.Join(certificates, to), text, 0o600); err != nil {
			return component{}, err
		}
	}
	names := make([]string, 0, len(o.Frameworks))
	for _, name := range o.Frameworks {
		names = append(names, fmt.Sprintf("%q", name))
	}
	features := []string{"VisibilityOnDemand: false"}
	for _, text := range o.KueueFeatures {
		features = append(features, strings.Replace(text, "=", ": ", 1))
	}
	text := fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: %s
health: {healthProbeBindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "0"}
webhook: {host: 127.0.0.1, port: %d, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
clientConnection: {qps: 300, burst: 500}
controller: {groupKindConcurrency: {Job.batch: 5, Pod: 5, Workload.kueue.x-k8s.io: 10, LocalQueue.kueue.x-k8s.io: 5, Cohort.kueue.x-k8s.io: 1, ClusterQueue.kueue.x-k8s.io: 5, ResourceFlavor.kueue.x-k8s.io: 1}}
featureGates: {%s}
integrations: {frameworks: [%s]}
`, kueueNamespace, p.kueueHealth, p.kueueWebhook, certificates, strings.Join(features, ", "), strings.Join(names, ", "))
	if o.Spokes > 0 {
		text += fmt.Sprintf("multiKueue: {gcInterval: 10s, workerLostTimeout: 5s, dispatcherName: %s}\n", Dispatcher)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return component{}, err
	}
	return component{
		name: "kueue", binary: binary, args: []string{"--config=" + file, "--kubeconfig=" + Kubeconfig(o.Dir)},
		env: []string{"KUEUE_METRICS_CERTS=" + certificates},
	}, nil
}

// toLoopback makes the API server reach webhooks at url, and drops those of kinds that are not
// managed.
func (o Options) toLoopback(obj *unstructured.Unstructured, url string, ca []byte) error {
	hooks, _, err := unstructured.NestedSlice(obj.Object, "webhooks")
	if err != nil {
		return err
	}
	wanted := slices.Clone(kueueOwn)
	for _, name := range o.Frameworks {
		wanted = append(wanted, kueueFrameworks[name])
	}
	var kept []any
	for _, h := range hooks {
		hook, ok := h.(map[string]any)
		if !ok {
			return errors.New("webhooks: not objects")
		}
		path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(wanted, func(end string) bool { return strings.HasSuffix(path, end) }) {
			continue
		}
		hook["clientConfig"] = map[string]any{"url": url + path, "caBundle": base64.StdEncoding.EncodeToString(ca)}
		kept = append(kept, hook)
	}
	if len(kept) == 0 {
		return errors.New("none of the webhooks that the lab knows")
	}
	return unstructured.SetNestedSlice(obj.Object, kept, "webhooks")
}

// flavor is the one ResourceFlavor of a lab.
func flavor() *unstructured.Unstructured {
	return object("ResourceFlavor", "", "default", map[string]any{})
}

// object is one of Kueue's.
func object(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}}
}
