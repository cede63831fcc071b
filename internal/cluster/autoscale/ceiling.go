package autoscale

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// poolLabel is the label by which Karpenter says to which NodePool a node belongs.
const poolLabel = "karpenter.sh/nodepool"

// Ceiling returns what nodes can become, by resource: what they offer, and what NodePools and node groups may still add; for
// the resources of spec.ceiling that instead, or what the nodes offer where that is more. The error says what could not be
// counted: it adds nothing.
//
// A NodePool may still add its limit less what its nodes have, ready or not, as Karpenter counts.
func Ceiling(nodes []corev1.Node, spec *v1alpha1.AutoscalingSpec, seen Seen) (map[string]float64, error) {
	now := kube.Capacity(nodes)
	out := maps.Clone(now)
	var errs []error
	if spec.Karpenter != nil {
		errs = append(errs, addPools(out, nodes, spec, seen))
	}
	if spec.ClusterAutoscaler != nil {
		errs = append(errs, addGroups(out, spec.ClusterAutoscaler, seen))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Ceiling)) {
		v, err := amount("spec.autoscaling.ceiling", name, spec.Ceiling[name])
		errs = append(errs, err)
		if err == nil {
			out[string(name)] = max(v, now[string(name)])
		}
	}
	return out, errors.Join(errs...)
}

func amount(field string, name corev1.ResourceName, a v1alpha1.Amount) (float64, error) {
	v, err := kube.ReadAmount(string(a))
	if err != nil {
		return 0, fmt.Errorf("%s.%s: %w", field, name, err)
	}
	return v, nil
}

// addPools adds what NodePools may still add.
func addPools(out map[string]float64, nodes []corev1.Node, spec *v1alpha1.AutoscalingSpec, seen Seen) error {
	if seen.PoolsErr != nil {
		return seen.PoolsErr
	}
	names := spec.Karpenter.NodePools
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(seen.Pools))
	}
	used := map[string]map[string]float64{}
	for i := range nodes {
		pool := nodes[i].Labels[poolLabel]
		if _, known := seen.Pools[pool]; !known {
			continue
		}
		if used[pool] == nil {
			used[pool] = map[string]float64{}
		}
		offers := nodes[i].Status.Capacity
		if len(offers) == 0 {
			offers = nodes[i].Status.Allocatable
		}
		for r, v := range kube.Amounts(offers) {
			used[pool][r] += v
		}
	}
	var errs []error
	var unlimited []string
	for _, name := range names {
		pool, known := seen.Pools[name]
		if !known {
			errs = append(errs, fmt.Errorf("spec.autoscaling.karpenter.nodePools: there is no NodePool %q", name))
			continue
		}
		if _, limited := pool[string(corev1.ResourceCPU)]; !limited {
			unlimited = append(unlimited, name)
		}
		for r, limit := range pool {
			out[r] += max(0, limit-used[name][r])
		}
	}
	if _, stated := spec.Ceiling[corev1.ResourceCPU]; len(unlimited) > 0 && !stated {
		const most = 10
		errs = append(errs, fmt.Errorf("NodePools without a limit of cpu, which add none: %s: state spec.limits.cpu of them, or spec.autoscaling.ceiling", strings.Join(unlimited[:min(len(unlimited), most)], ", ")))
	}
	return errors.Join(errs...)
}

// addGroups adds what node groups may still add.
func addGroups(out map[string]float64, spec *v1alpha1.ClusterAutoscalerSpec, seen Seen) error {
	if seen.GroupsErr != nil {
		return seen.GroupsErr
	}
	var errs []error
	for i := range spec.NodeGroups {
		g := &spec.NodeGroups[i]
		found, known := seen.Groups[g.Name]
		if !known {
			errs = append(errs, fmt.Errorf("spec.autoscaling.clusterAutoscaler.nodeGroups: there is no node group %q in the status of cluster-autoscaler", g.Name))
			continue
		}
		for _, r := range slices.Sorted(maps.Keys(g.Allocatable)) {
			v, err := amount("spec.autoscaling.clusterAutoscaler.nodeGroups["+g.Name+"].allocatable", r, g.Allocatable[r])
			if err != nil {
				errs = append(errs, err)
				continue
			}
			out[string(r)] += v * float64(max(0, found.Max-found.Ready))
		}
	}
	return errors.Join(errs...)
}
