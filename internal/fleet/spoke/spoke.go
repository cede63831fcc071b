// Package spoke looks at the clusters of a hub: what their nodes offer, what others than the
// hub's workloads ask for, and what quota their queues have. All that it writes there is the
// claim of its hub, and objects of services that follow clean power; all that it removes are
// those and copies of the hub's workloads.
package spoke

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
)

// ErrKubeconfig marks a kubeconfig that is not used.
var ErrKubeconfig = errors.New("kubeconfig")

// maxKubeconfig bounds one; a Secret holds at most 1 MiB.
const maxKubeconfig = 1 << 20

// page is how many objects are asked for at a time.
const page = 500

// Config reads a kubeconfig that stands by itself: one that runs programs, reads files or
// trusts any certificate is refused, as by MultiKueue. Errors wrap ErrKubeconfig and never
// show its secrets.
func Config(text []byte) (*rest.Config, error) {
	if len(text) > maxKubeconfig {
		return nil, fmt.Errorf("%w: %d bytes; accepted: at most %d", ErrKubeconfig, len(text), maxKubeconfig)
	}
	in, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("%w: cannot be read as YAML of kind Config", ErrKubeconfig)
	}
	context := in.Contexts[in.CurrentContext]
	if context == nil {
		return nil, fmt.Errorf("%w: current-context: %q; accepted: one of its contexts", ErrKubeconfig, in.CurrentContext)
	}
	if err := alone(in.Clusters[context.Cluster], in.AuthInfos[context.AuthInfo]); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*in, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w: names no server, or certificates that cannot be read", ErrKubeconfig)
	}
	config.Timeout = requestTimeout
	config.QPS, config.Burst = 20, 40
	config.UserAgent = "lull"
	return config, nil
}

// requestTimeout bounds one request to a cluster that may be far away, or gone.
const requestTimeout = 10 * time.Second

func alone(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	refused := func(field string) error {
		return fmt.Errorf("%w: %s: set; accepted: a kubeconfig with embedded certificates or tokens", ErrKubeconfig, field)
	}
	switch {
	case cluster == nil || user == nil:
		return fmt.Errorf("%w: its context names a cluster or a user that it does not have", ErrKubeconfig)
	case cluster.InsecureSkipTLSVerify:
		return refused("insecure-skip-tls-verify")
	case cluster.CertificateAuthority != "":
		return refused("certificate-authority")
	case cluster.ProxyURL != "":
		return refused("proxy-url")
	case user.ClientCertificate != "" || user.ClientKey != "":
		return refused("client-certificate, client-key")
	case user.TokenFile != "":
		return refused("tokenFile")
	case user.Exec != nil:
		return refused("exec")
	case user.AuthProvider != nil:
		return refused("auth-provider")
	}
	return nil
}

// Cluster is one cluster. It is safe for concurrent use.
type Cluster struct {
	client    client.Client
	discovery discovery.DiscoveryInterface
	config    *rest.Config
	// mapper knows any kind, which it asks for once that is needed.
	mapper meta.RESTMapper

	mu sync.Mutex
	// accounts are the clients that act as service accounts.
	accounts map[types.NamespacedName]client.Client
}

// Connect prepares to reach the cluster of a kubeconfig; nothing is asked yet.
func Connect(kubeconfig []byte) (*Cluster, error) {
	config, err := Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	return connect(config)
}

func connect(config *rest.Config) (*Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	direct, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, err
	}
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, http)
	if err != nil {
		return nil, err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: direct, discovery: asked, config: config, mapper: mapper, accounts: map[types.NamespacedName]client.Client{}}, nil
}

// Look is what a cluster was like at a time. Quantities are in base units: cores, bytes,
// pieces.
type Look struct {
	At time.Time
	// Capacity is what the ready, schedulable nodes offer, at most the quota of the queue.
	Capacity map[string]float64
	// Load is what live pods ask for that do not belong to the hub's workloads.
	Load    map[string]float64
	Nodes   int
	Version string
}

// Look looks at the cluster; queue names the ClusterQueue through which the hub's workloads
// come, "" for none. A cluster that does not answer is an error, one without that queue too.
// Complexity: O(nodes + pods), pages of 500.
func (c *Cluster) Look(ctx context.Context, queue string, now time.Time) (Look, error) {
	version, err := c.discovery.ServerVersion()
	if err != nil {
		return Look{}, fmt.Errorf("ask for its version: %w", err)
	}
	out := Look{At: now, Version: version.GitVersion}
	var nodes []corev1.Node
	err = pages(func(more string) (string, error) {
		var list corev1.NodeList
		err := c.client.List(ctx, &list, client.Limit(page), client.Continue(more))
		nodes = append(nodes, list.Items...)
		return list.Continue, err
	})
	if err != nil {
		return Look{}, fmt.Errorf("list nodes: %w", err)
	}
	out.Capacity = kube.Capacity(nodes)
	for i := range nodes {
		if kube.Offers(&nodes[i]) {
			out.Nodes++
		}
	}
	// With Kueue, what its workloads have been given counts, whether their pods are there yet
	// or not, and of pods only those of nobody's workload.
	of := func(*corev1.Pod) bool { return false }
	if queue != "" {
		of = kueue.OfWorkload
	}
	out.Load = map[string]float64{}
	err = pages(func(more string) (string, error) {
		var list corev1.PodList
		err := c.client.List(ctx, &list, client.Limit(page), client.Continue(more))
		for r, q := range kube.Load(list.Items, of) {
			out.Load[r] += q
		}
		return list.Continue, err
	})
	if err != nil {
		return Look{}, fmt.Errorf("list pods: %w", err)
	}
	if queue == "" {
		return out, nil
	}
	return out, c.lookAtQueue(ctx, queue, &out)
}

// lookAtQueue adds what the workloads of others have been given, and bounds the capacity by
// the quota.
func (c *Cluster) lookAtQueue(ctx context.Context, queue string, out *Look) error {
	err := pages(func(more string) (string, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kueue.GroupVersion.WithKind("WorkloadList"))
		if err := c.client.List(ctx, list, client.Limit(page), client.Continue(more)); err != nil {
			return "", err
		}
		for i := range list.Items {
			w, err := kueue.Read(&list.Items[i])
			if err != nil {
				return "", err
			}
			if w.OfHub || w.Finished || !w.Reserved {
				continue
			}
			for r, q := range w.Usage {
				out.Load[r] += q
			}
		}
		return list.GetContinue(), nil
	})
	if err != nil {
		return fmt.Errorf("list its Workloads: %w", err)
	}
	q := &unstructured.Unstructured{}
	q.SetGroupVersionKind(kueue.GroupVersion.WithKind("ClusterQueue"))
	if err := c.client.Get(ctx, client.ObjectKey{Name: queue}, q); err != nil {
		return fmt.Errorf("read its ClusterQueue %q: %w", queue, err)
	}
	quota, err := kueue.Quota(q)
	if err != nil {
		return err
	}
	for r := range out.Capacity {
		// Nothing is admitted that asks for what the quota does not cover.
		out.Capacity[r] = min(out.Capacity[r], quota[r])
	}
	return nil
}

// pages asks for one page after the other.
func pages(next func(more string) (string, error)) error {
	more := ""
	for {
		var err error
		if more, err = next(more); err != nil || more == "" {
			return err
		}
	}
}
