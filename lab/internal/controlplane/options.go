// Package controlplane runs a real Kubernetes control plane as processes on
// loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// KWOK, which plays the kubelets. Everything a lab is lives in one folder.
package controlplane

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Options describe a lab.
type Options struct {
	// Dir is the folder that holds everything.
	Dir string `json:"dir"`
	// Nodes is the number of fake nodes; CPU, Memory and GPUs are what each offers.
	Nodes  int    `json:"nodes"`
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	GPUs   int    `json:"gpus"`
	// TimeFactor is how many seconds of run time pass in a second: a pod that
	// states one hour completes after an hour divided by it.
	TimeFactor float64 `json:"timeFactor"`
	// Restart starts a component again that ends by itself, as a kubelet does with static
	// pods; else that is the end of the lab.
	Restart bool `json:"restart,omitempty"`
	// RealNode adds a node that really runs pods: a kubelet with containerd. Images are
	// those it has beside its own, each NAME=BINARY of a static binary.
	RealNode bool     `json:"realNode,omitempty"`
	Images   []string `json:"images,omitempty"`
}

// DefaultOptions is a cluster of four nodes of 16 CPUs at real time.
func DefaultOptions() Options {
	return Options{Dir: ".lab", Nodes: 4, CPU: "16", Memory: "64Gi", TimeFactor: 1}
}

// maxNodes bounds a lab: what KWOK serves comfortably on two cores.
const maxNodes = 5000

// Validate reports the first option that makes no sense.
func (o *Options) Validate() error {
	if o.Dir == "" {
		return fmt.Errorf("--dir: empty; accepted: a folder")
	}
	abs, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	o.Dir = abs
	if o.Nodes < 0 || o.Nodes > maxNodes {
		return fmt.Errorf("--nodes: %d; accepted: 0 to %d", o.Nodes, maxNodes)
	}
	for flag, text := range map[string]string{"--cpu": o.CPU, "--memory": o.Memory} {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() <= 0 {
			return fmt.Errorf("%s: %q; accepted: a Kubernetes quantity above 0, e.g. 16 or 64Gi", flag, text)
		}
	}
	if o.GPUs < 0 || o.GPUs > 1024 {
		return fmt.Errorf("--gpus: %d; accepted: 0 to 1024", o.GPUs)
	}
	for _, text := range o.Images {
		name, binary, ok := strings.Cut(text, "=")
		if info, err := os.Stat(binary); !ok || !strings.Contains(name, ":") || err != nil || info.IsDir() {
			return fmt.Errorf("--image: %q; accepted: NAME:TAG=BINARY, of a static binary", text)
		}
	}
	if o.RealNode {
		if err := canRunNode(); err != nil {
			return err
		}
	}
	if math.IsNaN(o.TimeFactor) || o.TimeFactor <= 0 || o.TimeFactor > 1e6 {
		return fmt.Errorf("--time-factor: %v; accepted: above 0, at most 1e6", o.TimeFactor)
	}
	return nil
}

// Paths inside a lab's folder.
func (o Options) path(name ...string) string {
	return filepath.Join(append([]string{o.Dir}, name...)...)
}

// Kubeconfig is the administrator's kubeconfig of the lab in dir.
func Kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

func logFile(dir, component string) string { return filepath.Join(dir, "logs", component+".log") }

// prepareDir makes the folders and removes what an earlier lab left, logs
// included.
func (o Options) prepareDir() error {
	for _, name := range []string{"etcd", "pki", "logs", "config", "node"} {
		if err := os.RemoveAll(o.path(name)); err != nil {
			return err
		}
		if err := os.MkdirAll(o.path(name), 0o700); err != nil {
			return err
		}
	}
	return nil
}
