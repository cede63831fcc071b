package autoscale

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kube"
)

const (
	// mostPools, mostGroups and mostBytes bound what is read: NodePools, node groups, and the text of cluster-autoscaler.
	mostPools, mostGroups, mostBytes = 500, 5000, 1 << 20
	// mostNodes is the largest size of a node group.
	mostNodes = 100_000
	// staleAfter is how old the status of cluster-autoscaler may be. It is written every ten seconds.
	staleAfter = 10 * time.Minute
	// timeFormat is that of cluster-autoscaler.
	timeFormat = "2006-01-02 15:04:05.999999999 -0700 MST"
)

// statusMap is the ConfigMap of cluster-autoscaler, with its status under the key status.
var statusMap = client.ObjectKey{Namespace: "kube-system", Name: "cluster-autoscaler-status"}

var nodePools = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}

// Pool is a NodePool of Karpenter: its limits by resource, in base units.
type Pool map[string]float64

// Group is a node group of cluster-autoscaler: the number of its ready nodes, and the largest size that it may have.
type Group struct{ Ready, Max int }

const install = "install its rights (autoscaling.enabled of the chart, lull manifests --autoscaling), or state spec.autoscaling.ceiling"

// readPools reads the NodePools of Karpenter.
func readPools(ctx context.Context, r client.Reader) (map[string]Pool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nodePools.GroupVersion().WithKind("NodePoolList"))
	switch err := r.List(ctx, list, client.Limit(mostPools)); {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, errors.New("NodePools: the API server does not serve karpenter.sh/v1: install Karpenter, or state spec.autoscaling.ceiling")
	case apierrors.IsForbidden(err):
		return nil, errors.New("NodePools: Lull may not list them: " + install)
	case err != nil:
		return nil, fmt.Errorf("NodePools: %w", err)
	}
	if list.GetContinue() != "" {
		return nil, fmt.Errorf("NodePools: more than %d; accepted: up to %d", mostPools, mostPools)
	}
	out := make(map[string]Pool, len(list.Items))
	for i := range list.Items {
		u := &list.Items[i]
		limits, _, err := unstructured.NestedMap(u.Object, "spec", "limits")
		if err != nil {
			return nil, fmt.Errorf("NodePool %s: spec.limits: %w", u.GetName(), err)
		}
		pool := Pool{}
		for name, text := range limits {
			if pool[name], err = kube.ReadAmount(fmt.Sprint(text)); err != nil {
				return nil, fmt.Errorf("NodePool %s: spec.limits.%s: %w", u.GetName(), name, err)
			}
		}
		out[u.GetName()] = pool
	}
	return out, nil
}

// readGroups reads the node groups of cluster-autoscaler.
func readGroups(ctx context.Context, r client.Reader, now time.Time) (map[string]Group, error) {
	var m corev1.ConfigMap
	name := "ConfigMap " + statusMap.String()
	switch err := r.Get(ctx, statusMap, &m); {
	case apierrors.IsNotFound(err):
		return nil, errors.New(name + " is not there: does cluster-autoscaler run, with --write-status-configmap?")
	case apierrors.IsForbidden(err):
		return nil, errors.New(name + ": Lull may not read it: " + install)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out, err := parseGroups(m.Data["status"], now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// parseGroups reads the status that cluster-autoscaler writes since v1.30.
func parseGroups(text string, now time.Time) (map[string]Group, error) {
	if len(text) > mostBytes {
		return nil, fmt.Errorf("status: %d bytes; accepted: up to %d", len(text), mostBytes)
	}
	var status struct {
		Time             string `json:"time"`
		AutoscalerStatus string `json:"autoscalerStatus"`
		NodeGroups       []struct {
			Name   string `json:"name"`
			Health struct {
				Status     string `json:"status"`
				MaxSize    int    `json:"maxSize"`
				NodeCounts struct {
					Registered struct {
						Ready int `json:"ready"`
					} `json:"registered"`
				} `json:"nodeCounts"`
			} `json:"health"`
		} `json:"nodeGroups"`
	}
	if err := yaml.Unmarshal([]byte(text), &status); err != nil || status.AutoscalerStatus == "" {
		return nil, errors.New("status: cannot be read; accepted: what cluster-autoscaler writes since v1.30")
	}
	written, err := time.Parse(timeFormat, status.Time)
	if err != nil {
		return nil, fmt.Errorf("status.time: %q; accepted: a time like %q", status.Time, timeFormat)
	}
	if now.Sub(written) > staleAfter {
		return nil, fmt.Errorf("status.time: written at %s, more than %v ago: does cluster-autoscaler run?", written.UTC().Format(time.RFC3339), staleAfter)
	}
	if status.AutoscalerStatus != "Running" {
		return nil, fmt.Errorf("status.autoscalerStatus: %q; accepted: Running", status.AutoscalerStatus)
	}
	if len(status.NodeGroups) > mostGroups {
		return nil, fmt.Errorf("status.nodeGroups: %d; accepted: up to %d", len(status.NodeGroups), mostGroups)
	}
	out := make(map[string]Group, len(status.NodeGroups))
	for i := range status.NodeGroups {
		g := &status.NodeGroups[i]
		most, ready := g.Health.MaxSize, g.Health.NodeCounts.Registered.Ready
		if most < 0 || most > mostNodes || ready < 0 || ready > mostNodes {
			return nil, fmt.Errorf("status.nodeGroups: %s: maxSize %d, ready %d; accepted: 0 to %d", g.Name, most, ready, mostNodes)
		}
		if g.Health.Status != "Healthy" {
			most = ready // cluster-autoscaler adds no nodes to it
		}
		out[g.Name] = Group{Ready: ready, Max: most}
	}
	return out, nil
}
