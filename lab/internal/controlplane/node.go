package controlplane

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A real node is one process, "node", in namespaces of its own (mounts, processes,
// network), that runs containerd and the kubelet: its end is the end of everything in it.
// What it needs of the network goes over two sockets in the lab's folder: the API server,
// which listens on the machine's loopback, and the kubelet's port.

// NodeRole is the component that is a real node.
const NodeRole = "node"

// Of a real node: its name, address on its own bridge, and that of its pods' network.
const (
	realNode   = "real-node"
	nodeBridge = "lull0"
	nodeIP     = "10.88.0.1"
	podCIDR    = "10.89.0.0/24"
	// serviceIP is the address of Service kubernetes, the first of serviceCIDR: the only Service that
	// pods of the node reach.
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"
	pauseImage  = "lull.dev/pause:lab"
)

// kubeletPort is that of the kubelet in its own network.
const kubeletPort = 10250

// nodeBinaries are what `make node` builds. With an older control plane, the kubelet is one of that version.
var nodeBinaries = []string{"kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "pause", "host-local", "loopback", "ptp"}

// nodeDir is the folder of those binaries, beside the lab's own.
func nodeDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(self), "node"), nil
}

// kubelet is the file of the kubelet: that of the control plane's version, as no kubelet may be newer than its API server.
func (o Options) kubelet() (string, error) {
	if o.Kubernetes != "" {
		dir, err := o.kubernetesDir()
		return filepath.Join(dir, "kubelet"), err
	}
	dir, err := nodeDir()
	return filepath.Join(dir, "kubelet"), err
}

// canRunNode says what a machine lacks for a real node.
func (o Options) canRunNode() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("--real-node: needs Linux and root, for namespaces, mounts and cgroups; without it the nodes are played by KWOK")
	}
	dir, err := nodeDir()
	if err != nil {
		return err
	}
	for _, name := range nodeBinaries {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("--real-node: %w (build it with: make node)", err)
		}
	}
	if kubelet, err := o.kubelet(); err != nil {
		return err
	} else if _, err := os.Stat(kubelet); err != nil {
		return fmt.Errorf("--real-node: %w (build it with: make bin/kubernetes/v%s/kubelet)", err, o.Kubernetes)
	}
	if _, err := exec.LookPath("runc"); err != nil {
		return fmt.Errorf("--real-node: %w (make node installs it)", err)
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil || !strings.Contains(string(filesystems), "overlay") {
		return errors.New("--real-node: this kernel has no overlayfs")
	}
	return tryNamespaces()
}

// tryNamespaces tries what a node does first in a process that ends at once.
func tryNamespaces() error {
	dir, err := os.MkdirTemp("", "lull-node-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o := Options{Dir: dir}
	defer o.removeCgroups()
	if err := errors.Join(os.MkdirAll(o.path("logs"), 0o700), os.MkdirAll(o.path("node", "sysctl"), 0o700), o.makeCgroups()); err != nil {
		return fmt.Errorf("--real-node: this machine does not let its cgroups be used: %w", err)
	}
	p, err := start(dir, component{name: NodeRole, args: []string{dir}, isolated: true})
	if err == nil {
		<-p.done
		err = p.err
	}
	if err != nil {
		return fmt.Errorf("--real-node: this machine gives no namespaces, mounts or bridges: %w\n%s", err, tail(logFile(dir, NodeRole), 5))
	}
	return nil
}

// cgroups are the hierarchies in which the node gets a subtree of its own: one with version
// 2, one for each controller with version 1.
func cgroups() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return []string{root}
	}
	entries, _ := os.ReadDir(root)
	var out []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "unified" {
			out = append(out, filepath.Join(root, e.Name()))
		}
	}
	return out
}

// cgroupName is that of the node's subtree: one for each lab.
func (o Options) cgroupName() string {
	return "lull-lab-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.Trim(o.Dir, "/")))
}

func (o Options) makeCgroups() error {
	for _, h := range cgroups() {
		dir := filepath.Join(h, o.cgroupName())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} { // version 1 begins without any
			if text, err := os.ReadFile(filepath.Join(h, name)); err == nil && len(strings.TrimSpace(string(text))) > 0 {
				_ = os.WriteFile(filepath.Join(dir, name), text, 0o644)
			}
		}
	}
	return nil
}

// removeCgroups removes what the node left, deepest first.
func (o Options) removeCgroups() {
	for _, h := range cgroups() {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join(h, o.cgroupName()), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs)
		for _, d := range dirs {
			for range 20 { // its processes may still be ending
				if err := os.Remove(d); err == nil || errors.Is(err, os.ErrNotExist) {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
}

// node prepares a real node. Its images are written here, where its binaries can be read.
func (o Options) node(p ports) (component, error) {
	dir, err := nodeDir()
	if err != nil {
		return component{}, err
	}
	for _, name := range []string{"images", "cni", "sysctl"} {
		if err := os.MkdirAll(o.path("node", name), 0o755); err != nil {
			return component{}, err
		}
	}
	images := map[string]string{pauseImage: filepath.Join(dir, "pause")}
	for _, text := range o.Images {
		name, binary, _ := strings.Cut(text, "=")
		images[name] = binary
	}
	i := 0
	for name, binary := range images {
		if err := o.putImage(fmt.Sprintf("%d.tar", i), name, binary); err != nil {
			return component{}, fmt.Errorf("image %s: %w", name, err)
		}
		i++
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return component{}, err
	}
	files := map[string]string{
		"containerd.toml": fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = %q
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%q]
    conf_dir = %q
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = %q
      SystemdCgroup = false
`, pauseImage, dir, o.path("node", "cni"), runc),
		"cni/10-lull.conflist": fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "lull", "plugins": [{"type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}}]}
`, podCIDR),
		"kubelet.yaml": fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
port: %d
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
resolvConf: ""
registerWithTaints: []
nodeStatusUpdateFrequency: 4s
evictionHard: {memory.available: 50Mi, nodefs.available: 0%%, nodefs.inodesFree: 0%%, imagefs.available: 0%%}
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
enableServer: true
healthzPort: 0
`, kubeletPort, o.path("pki", "ca.crt"), o.path("pki", "server.crt"), o.path("pki", "server.key"), o.cgroupName()),
	}
	for name, text := range files {
		if err := os.WriteFile(o.path("node", name), []byte(text), 0o600); err != nil {
			return component{}, err
		}
	}
	kubelet, err := o.kubelet()
	return component{name: NodeRole, args: []string{o.Dir, fmt.Sprint(p.apiserver), kubelet}, isolated: true}, err
}

// startNode starts a real node.
func (s *supervisor) startNode(p ports) error {
	if err := s.makeCgroups(); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	c, err := s.node(p)
	if err != nil {
		return err
	}
	if err := s.bridgeOut(p); err != nil {
		return err
	}
	return s.start(c)
}

// forward passes connections on until the process ends.
func forward(l net.Listener, network, address string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial(network, address)
			if err != nil {
				return
			}
			defer to.Close()
			join(from, to)
		}()
	}
}

// join copies both ways until one side ends.
func join(a, b net.Conn) {
	done := make(chan struct{}, 2)
	copyTo := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		done <- struct{}{}
	}
	go copyTo(a, b)
	go copyTo(b, a)
	<-done
}

// forwardToPods passes connections on, each to the address in its first line, until the process ends.
func forwardToPods(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			var address []byte
			for next := []byte{0}; ; address = append(address, next[0]) { // no more than the line: what follows is not for here
				if _, err := io.ReadFull(from, next); err != nil || len(address) > 64 {
					return
				} else if next[0] == '\n' {
					break
				}
			}
			to, err := net.Dial("tcp", string(address))
			if err != nil {
				return
			}
			defer to.Close()
			join(from, to)
		}()
	}
}

// egressConfig sends the API server's calls of kubelets through the tunnel.
const egressConfig = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %q}}}
`

// tunnel is the proxy by which the API server reaches the kubelet at its socket, for logs, exec and port-forward, pods of the node, which may be webhooks, by the socket pods, and everything
// else as it would by itself.
func tunnel(kubelet, pods string) http.Handler {
	own := netip.MustParsePrefix(podCIDR)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "accepted: CONNECT", http.StatusMethodNotAllowed)
			return
		}
		network, address, first := "tcp", r.URL.Host, ""
		if address == net.JoinHostPort(nodeIP, strconv.Itoa(kubeletPort)) {
			network, address = "unix", kubelet
		} else if pod, err := netip.ParseAddrPort(address); err == nil && own.Contains(pod.Addr()) {
			network, address, first = "unix", pods, address+"\n"
		}
		to, err := net.Dial(network, address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer to.Close()
		if _, err := io.WriteString(to, first); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer from.Close()
		if _, err := io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
			join(from, to)
		}
	})
}

// bridgeOut lets the node reach the API server, and others the kubelet.
func (s *supervisor) bridgeOut(p ports) error {
	inner, err := net.Listen("unix", s.path("node", "apiserver.sock"))
	if err != nil {
		return err
	}
	go forward(inner, "tcp", fmt.Sprintf("127.0.0.1:%d", p.apiserver))
	outer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.state.Kubelet = "https://" + outer.Addr().String()
	go forward(outer, "unix", s.path("node", "kubelet.sock"))
	egress, err := net.Listen("unix", s.path("node", "egress.sock"))
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(egress, tunnel(s.path("node", "kubelet.sock"), s.path("node", "pods.sock"))) }() // until the lab ends
	return nil
}
