package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// RunNode is the process "node": args are the lab's folder, the port of the API server, and the file of the kubelet;
// without a port and what follows it only tries whether it could.
func RunNode(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := Options{Dir: args[0]}
	err := errors.Join(o.ownMounts(), ownNetwork())
	if err == nil && len(args) > 2 {
		err = runNode(ctx, o, args[1], args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	return 0
}

func runNode(ctx context.Context, o Options, apiPort, kubeletFile string) error {
	for _, address := range []string{"0.0.0.0:" + apiPort, serviceIP + ":443"} {
		api, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go forward(api, "unix", o.path("node", "apiserver.sock"))
	}
	kubelet, err := net.Listen("unix", o.path("node", "kubelet.sock"))
	if err != nil {
		return err
	}
	go forward(kubelet, "tcp", fmt.Sprintf("127.0.0.1:%d", kubeletPort))
	pods, err := net.Listen("unix", o.path("node", "pods.sock"))
	if err != nil {
		return err
	}
	go forwardToPods(pods)
	dir, err := nodeDir()
	if err != nil {
		return err
	}
	path := "PATH=" + dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	ended := make(chan error, 2)
	run := func(file string, args ...string) error {
		cmd := exec.Command(file, args...)
		cmd.Env = append(os.Environ(), path)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { ended <- fmt.Errorf("%s ended: %w", filepath.Base(file), cmd.Wait()) }()
		return nil
	}
	if err := run(filepath.Join(dir, "containerd"), "--config", o.path("node", "containerd.toml"), "--log-level", "warn"); err != nil {
		return err
	}
	ctr := func(args ...string) ([]byte, error) {
		cmd := exec.Command(filepath.Join(dir, "ctr"), append([]string{"--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io"}, args...)...)
		cmd.Env = append(os.Environ(), path)
		return cmd.CombinedOutput()
	}
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := ctr("version"); err == nil {
			break
		} else if time.Now().After(deadline) {
			return errors.New("containerd does not answer")
		}
	}
	images, err := filepath.Glob(o.path("node", "images", "*.tar"))
	if err != nil {
		return err
	}
	for _, image := range images {
		if out, err := ctr("images", "import", image); err != nil {
			return fmt.Errorf("import %s: %w: %s", image, err, out)
		}
	}
	if err := run(kubeletFile, "--config="+o.path("node", "kubelet.yaml"), "--kubeconfig="+Kubeconfig(o.Dir), "--hostname-override="+realNode,
		"--node-ip="+nodeIP, "--node-labels=lull.dev/real=true", "--root-dir=/var/lib/kubelet", "--housekeeping-interval=1s"); err != nil {
		return err
	}
	// The end of this process is the end of all in its namespace.
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// ownMounts makes private what the node writes: /run, /var/lib, /var/log, and the settings
// of the kernel that the kubelet would change for the whole machine.
func (o Options) ownMounts() error {
	type mount struct {
		source, target, kind string
		flags                uintptr
	}
	list := []mount{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/lib", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
	}
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1", "vm/panic_on_oom": "0"} {
		file := o.path("node", "sysctl", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		list = append(list, mount{file, "/proc/sys/" + name, "", unix.MS_BIND})
	}
	for _, m := range list {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount on %s: %w", m.target, err)
		}
	}
	return nil
}

// ownNetwork brings up loopback and a bridge with the node's address, by which a default
// route goes: without one the kubelet knows no address of its own.
func ownNetwork() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = nodeBridge
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return err
	}
	for _, text := range []string{nodeIP + "/24", serviceIP + "/32"} {
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(bridge, address); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		return err
	}
	_, everywhere, err := net.ParseCIDR("0.0.0.0/0")
	if err != nil {
		return err
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: bridge.Attrs().Index, Dst: everywhere, Src: net.ParseIP(nodeIP), Scope: netlink.SCOPE_LINK}); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}
