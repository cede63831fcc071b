package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// component is one process of the control plane.
type component struct {
	name string
	args []string
	// binary is that of a component which is not the lab's own, env what its environment has
	// beside the lab's.
	binary string
	env    []string
	// isolated components get namespaces of their own: mounts, processes, network.
	isolated bool
}

// ports are the loopback ports of one lab.
type ports struct{ etcdClient, etcdPeer, apiserver, kueueWebhook, kueueHealth int }

// Ports of labs lie below those that the kernel gives to connections (net.ipv4.ip_local_port_range begins at 32768): between the choice of
// a port and the start of the component that listens on it, no connection takes it.
const firstPort, lastPort = 20_000, 32_767

// freePorts chooses ports nobody listens on. They are held open together, so that they differ.
func freePorts() (ports, error) {
	var p ports
	var open []net.Listener
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for _, port := range []*int{&p.etcdClient, &p.etcdPeer, &p.apiserver, &p.kueueWebhook, &p.kueueHealth} {
		l, err := listenOnAny()
		if err != nil {
			return p, fmt.Errorf("find a free port: %w", err)
		}
		open = append(open, l)
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

// ports are free ones. If data are kept, the API server listens where it did before, unless somebody else does so now.
func (o Options) ports() (ports, error) {
	p, err := freePorts()
	if err != nil || !o.KeepData {
		return p, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig(o.Dir))
	if err != nil {
		return p, nil //nolint:nilerr // there was no lab before
	}
	before, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(config.Host, "https://"))
	if err != nil {
		return p, nil //nolint:nilerr // nor one that can be reached
	}
	if slices.Contains([]int{p.etcdClient, p.etcdPeer, p.kueueWebhook, p.kueueHealth}, before.Port) {
		return p, nil
	}
	if l, err := net.ListenTCP("tcp", before); err == nil {
		p.apiserver = before.Port
		return p, l.Close()
	}
	return p, nil
}

// listenOnAny listens on a random port of those for labs.
func listenOnAny() (l net.Listener, err error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// controllers are those that batch work needs; the rest would only cost memory.
var controllers = []string{
	"job-controller", "cronjob-controller", "garbage-collector-controller", "namespace-controller",
	"serviceaccount-controller", "node-lifecycle-controller", "taint-eviction-controller",
	"pod-garbage-collector-controller", "ttl-after-finished-controller", "deployment-controller", "replicaset-controller",
	"clusterrole-aggregation-controller", "root-ca-certificate-publisher-controller",
}

// nodeControllers are what volumes and Services of pods that really run take beside them.
var nodeControllers = []string{"endpoints-controller", "endpointslice-controller", "persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"}

// etcd is first to start and last to stop.
func (o Options) etcd(p ports) (component, error) {
	file := o.path("config", "etcd.yaml")
	text := fmt.Sprintf(`name: lab
data-dir: %q
listen-client-urls: http://127.0.0.1:%d
advertise-client-urls: http://127.0.0.1:%d
listen-peer-urls: http://127.0.0.1:%d
initial-advertise-peer-urls: http://127.0.0.1:%d
initial-cluster: lab=http://127.0.0.1:%d
log-level: warn
quota-backend-bytes: 1073741824
`, o.path("etcd"), p.etcdClient, p.etcdClient, p.etcdPeer, p.etcdPeer, p.etcdPeer)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return component{}, err
	}
	return component{name: "etcd", args: []string{"--config-file=" + file}}, nil
}

func (o Options) apiserver(p ports) (component, error) {
	var toNode []string
	if o.RealNode {
		file := o.path("config", "egress.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, egressConfig, o.path("node", "egress.sock")), 0o600); err != nil {
			return component{}, err
		}
		// Nothing serves the addresses of Services: webhooks are asked at their pods.
		toNode = []string{
			"--enable-aggregator-routing=true",
			"--egress-selector-config-file=" + file, "--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=" + o.path("pki", "ca.crt"),
			"--kubelet-client-certificate=" + o.path("pki", "admin.crt"), "--kubelet-client-key=" + o.path("pki", "admin.key"),
		}
	}
	return component{name: "kube-apiserver", args: append([]string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", p.etcdClient),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.apiserver),
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + o.path("pki", "server.crt"), "--tls-private-key-file=" + o.path("pki", "server.key"),
		"--client-ca-file=" + o.path("pki", "ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + o.path("pki", "sa.pub"), "--service-account-signing-key-file=" + o.path("pki", "sa.key"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=" + serviceCIDR,
		"--enable-priority-and-fairness=false", "--profiling=false",
	}, slices.Concat(toNode, o.APIServerFlags)...)}, nil
}

// rest are the components that need the API server, in the order of start.
func (o Options) rest() ([]component, error) {
	file := o.path("config", "kwok.yaml")
	if err := os.WriteFile(file, []byte(kwokConfig(o.TimeFactor)), 0o600); err != nil {
		return nil, err
	}
	kubeconfig := Kubeconfig(o.Dir)
	as := func(more ...string) []string {
		return append([]string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--leader-elect=false", "--secure-port=0", "--profiling=false", "--kube-api-qps=300", "--kube-api-burst=500",
		}, more...)
	}
	run := controllers
	if o.RealNode {
		run = slices.Concat(controllers, nodeControllers)
	}
	scheduler, err := o.schedulerArgs(kubeconfig, as)
	if err != nil {
		return nil, err
	}
	return []component{
		{name: "kube-controller-manager", args: as(
			"--service-account-private-key-file="+o.path("pki", "sa.key"), "--root-ca-file="+o.path("pki", "ca.crt"),
			"--controllers="+strings.Join(run, ","), "--concurrent-job-syncs=10",
		)},
		{name: "kube-scheduler", args: scheduler},
		{name: "kwok", args: []string{"--kubeconfig=" + kubeconfig, "--config=" + file}},
	}, nil
}
