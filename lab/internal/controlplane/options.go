// Package controlplane runs a real Kubernetes control plane as processes on
// loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// KWOK, which plays the kubelets. Everything a lab is lives in one folder.
package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	// SchedulerConfig is a file with a KubeSchedulerConfiguration, of its extenders say; the lab adds
	// how the API server is reached. Without it kube-scheduler runs as it comes.
	SchedulerConfig string `json:"schedulerConfig,omitempty"`
	// RealNode adds a node that really runs pods: a kubelet with containerd. Images are
	// those it has beside its own, each NAME=BINARY of a static binary, or NAME=FILE.tar as
	// "docker save" writes it.
	RealNode bool     `json:"realNode,omitempty"`
	Images   []string `json:"images,omitempty"`
	// Kueue runs beside the scheduler and manages Frameworks, whose kinds must be served by
	// all clusters: Manifests are files of such, installed before it starts. Spokes is the number of clusters of a hub: each as
	// described here, while the hub has no nodes of its own and reaches them by MultiKueue.
	Kueue      bool     `json:"kueue,omitempty"`
	Frameworks []string `json:"frameworks,omitempty"`
	Manifests  []string `json:"manifests,omitempty"`
	// KueueFeatures are feature gates of Kueue, NAME=true or NAME=false.
	KueueFeatures []string `json:"kueueFeatures,omitempty"`
	Spokes        int      `json:"spokes,omitempty"`
	// Kubernetes is an older minor version, 1.33 say, whose kube-apiserver, kube-controller-manager and kube-scheduler run instead of the lab's
	// own; "" for the lab's own. Spokes run it too.
	Kubernetes string `json:"kubernetes,omitempty"`
	// APIServerFlags are further flags of kube-apiserver, --NAME=VALUE each. Spokes have them too.
	APIServerFlags []string `json:"apiServerFlags,omitempty"`
	// KeepData has the API server serve what an earlier lab in Dir has stored, at the same address if nobody else listens there, with the same
	// certificates and keys: clients of before need no other kubeconfig.
	KeepData bool `json:"keepData,omitempty"`
}

// DefaultOptions is a cluster of four nodes of 16 CPUs at real time.
func DefaultOptions() Options {
	return Options{Dir: ".lab", Nodes: 4, CPU: "16", Memory: "64Gi", TimeFactor: 1, Frameworks: []string{"batch/job"}}
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
			return fmt.Errorf("--image: %q; accepted: NAME:TAG=BINARY, of a static binary, or NAME:TAG=FILE.tar", text)
		}
	}
	if o.Kubernetes != "" && !slices.Contains(olderMinors, o.Kubernetes) {
		return fmt.Errorf("--kubernetes: %q; accepted: %s", o.Kubernetes, strings.Join(olderMinors, ", "))
	}
	if o.Spokes < 0 || o.Spokes > maxSpokes {
		return fmt.Errorf("--spokes: %d; accepted: 0 to %d", o.Spokes, maxSpokes)
	}
	if o.Spokes > 0 && (!o.Kueue || o.RealNode) {
		return errors.New("--spokes: needs --kueue, which sends work to them, and no --real-node")
	}
	for _, name := range o.Frameworks {
		if kueueFrameworks[name] == "" {
			return fmt.Errorf("--framework: %q; accepted: %s", name, strings.Join(slices.Sorted(maps.Keys(kueueFrameworks)), ", "))
		}
	}
	for _, text := range o.KueueFeatures {
		if name, value, ok := strings.Cut(text, "="); !ok || name == "" || value != "true" && value != "false" {
			return fmt.Errorf("--kueue-feature-gates: %q; accepted: NAME=true or NAME=false", text)
		}
	}
	if i := slices.IndexFunc(o.APIServerFlags, isNoFlag); i >= 0 {
		return fmt.Errorf("--api-server-flag: %q; accepted: --NAME=VALUE", o.APIServerFlags[i])
	}
	if o.SchedulerConfig != "" {
		if o.SchedulerConfig, err = filepath.Abs(o.SchedulerConfig); err != nil {
			return fmt.Errorf("--scheduler-config: %w", err)
		}
		if _, err := readSchedulerConfig(o.SchedulerConfig); err != nil {
			return fmt.Errorf("--scheduler-config: %w", err)
		}
	}
	for i, name := range o.Manifests {
		if o.Manifests[i], err = filepath.Abs(name); err != nil {
			return fmt.Errorf("--manifests: %w", err)
		}
		if _, err := os.Stat(name); err != nil || !o.Kueue {
			return fmt.Errorf("--manifests: %s; accepted: files, with --kueue", name)
		}
	}
	if o.Kueue {
		if err := canRunKueue(); err != nil {
			return err
		}
	}
	if o.RealNode {
		if err := o.canRunNode(); err != nil {
			return err
		}
	}
	if math.IsNaN(o.TimeFactor) || o.TimeFactor <= 0 || o.TimeFactor > 1e6 {
		return fmt.Errorf("--time-factor: %v; accepted: above 0, at most 1e6", o.TimeFactor)
	}
	return nil
}

// isNoFlag reports whether a text is anything but a flag with a value, --NAME=VALUE.
func isNoFlag(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	return !ok || len(name) < 3 || !strings.HasPrefix(name, "--")
}

// Paths inside a lab's folder.
func (o Options) path(name ...string) string {
	return filepath.Join(append([]string{o.Dir}, name...)...)
}

// Kubeconfig is the administrator's kubeconfig of the lab in dir.
func Kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

func logFile(dir, component string) string { return filepath.Join(dir, "logs", component+".log") }

// prepareDir makes the folders and removes what an earlier lab left, logs
// included, except the data of etcd and the certificates if they are to be kept.
func (o Options) prepareDir() error {
	for _, name := range []string{"etcd", "pki", "logs", "config", "node", "spokes"} {
		if name != "etcd" && name != "pki" || !o.KeepData {
			if err := os.RemoveAll(o.path(name)); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(o.path(name), 0o700); err != nil {
			return err
		}
	}
	return nil
}
