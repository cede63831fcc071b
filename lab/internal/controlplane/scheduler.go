package controlplane

import (
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// unschedulableFor is how long kube-scheduler leaves a Pod alone that found no node and whose chances
// nothing has changed since (its default).
const unschedulableFor = 5 * time.Minute

// schedulerArgs are those of kube-scheduler. It looks at Pods that found no node again as much sooner
// as time passes faster, though not sooner than half a minute.
func (o Options) schedulerArgs(kubeconfig string, as func(more ...string) []string) ([]string, error) {
	again := max(time.Second, min(unschedulableFor, time.Duration(float64(unschedulableFor)/o.TimeFactor)))
	flag := "--pod-max-in-unschedulable-pods-duration=" + again.String()
	if o.SchedulerConfig == "" {
		return as(flag), nil
	}
	config, err := readSchedulerConfig(o.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig, "qps": 300, "burst": 500}
	config["leaderElection"] = map[string]any{"leaderElect": false}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := o.path("config", "scheduler.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	return []string{
		"--config=" + file, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig, "--secure-port=0", flag,
	}, nil
}

// readSchedulerConfig reads a KubeSchedulerConfiguration.
func readSchedulerConfig(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if config["kind"] != "KubeSchedulerConfiguration" {
		return nil, fmt.Errorf("%s: kind: %v; accepted: KubeSchedulerConfiguration", file, config["kind"])
	}
	return config, nil
}
