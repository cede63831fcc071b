package curve

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

// nodesTarget is a set of nodes. It cordons idle ones.
type nodesTarget struct {
	curve, resource string
	maximum         float64
	selector        labels.Selector
	cached          client.Reader
	write           client.Client
}

// node is what is known of a node.
type node struct {
	*corev1.Node
	size float64
	// idle says that nothing runs there but what runs on every node; ours that Lull has cordoned it,
	// left that others have made it take pods again since.
	idle, ours, left bool
}

func (n *nodesTarget) list(ctx context.Context) ([]node, map[string]float64, error) {
	var all corev1.NodeList
	if err := n.cached.List(ctx, &all); err != nil {
		return nil, nil, err
	}
	var pods corev1.PodList
	if err := n.cached.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, err
	}
	busy := map[string]bool{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && !everywhere(p) {
			busy[p.Spec.NodeName] = true
		}
	}
	var out []node
	totals := map[string]float64{}
	for i := range all.Items {
		x := &all.Items[i]
		if !n.selector.Matches(labels.Set(x.Labels)) {
			continue
		}
		m, marked := markOf(x)
		ours := marked && m.Curve == n.curve
		amounts := kube.Amounts(x.Status.Allocatable)
		it := node{Node: x, size: amounts[n.resource], idle: !busy[x.Name], ours: ours && x.Spec.Unschedulable, left: ours && !x.Spec.Unschedulable}
		if !kube.Offers(x) && !it.ours {
			continue // not ready, or cordoned by others
		}
		for r, v := range amounts {
			totals[r] += v
		}
		out = append(out, it)
	}
	slices.SortFunc(out, func(a, b node) int { return strings.Compare(a.Name, b.Name) })
	return out, totals, nil
}

// everywhere says that a pod is one of a DaemonSet, or of the node itself.
func everywhere(p *corev1.Pod) bool {
	for _, o := range p.OwnerReferences {
		if o.Kind == "DaemonSet" || o.Kind == "Node" {
			return true
		}
	}
	return false
}

func (n *nodesTarget) totals(ctx context.Context) (map[string]float64, map[string]bool, error) {
	nodes, totals, err := n.list(ctx)
	names := make(map[string]bool, len(nodes))
	for _, x := range nodes {
		names[x.Name] = true
	}
	// No more than the maximum, however much the nodes have.
	if have := totals[n.resource]; have > n.maximum {
		for r := range totals {
			totals[r] *= n.maximum / have
		}
	}
	return totals, names, err
}

// set cordons idle nodes, the last by name first, as long as the capacity is there without them, and
// lets those that it has cordoned take pods again, the first by name first, where it is not.
func (n *nodesTarget) set(ctx context.Context, capacity float64) (string, error) {
	nodes, _, err := n.list(ctx)
	if err != nil {
		return "", err
	}
	if len(nodes) == 0 {
		return "", fmt.Errorf("nodes: %w: no node that the selector picks is ready", errAbsent)
	}
	const eps = 1e-9
	have, left := 0.0, 0
	for _, x := range nodes {
		if !x.ours {
			have += x.size
		}
		if x.left {
			left++
		}
	}
	for i := range nodes {
		if x := &nodes[i]; x.ours && have < capacity-eps {
			if err := n.cordon(ctx, x.Node, false); err != nil {
				return "", err
			}
			have, x.ours = have+x.size, false
		}
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		if x := &nodes[i]; !x.ours && !x.left && x.idle && have-x.size >= capacity-eps {
			if err := n.cordon(ctx, x.Node, true); err != nil {
				return "", err
			}
			have -= x.size
		}
	}
	var notes []string
	if have > capacity+eps {
		notes = append(notes, fmt.Sprintf("%s of %s offered: Lull cordons only whole nodes without pods", trim(have), n.resource))
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("%d nodes that others uncordoned are left alone", left))
	}
	return strings.Join(notes, "; "), nil
}

// cordon makes a node take no pods, or take them again.
func (n *nodesTarget) cordon(ctx context.Context, x *corev1.Node, on bool) error {
	var value any
	if on {
		text, err := json.Marshal(mark{Curve: n.curve})
		if err != nil {
			return err
		}
		value = string(text)
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": x.ResourceVersion, "annotations": map[string]any{v1alpha1.AnnotationCapacity: value}},
		"spec":     map[string]any{"unschedulable": on},
	})
	if err != nil {
		return err
	}
	return n.write.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: x.Name}}, client.RawPatch(types.MergePatchType, body))
}

func (n *nodesTarget) adopt(ctx context.Context) error {
	nodes, _, err := n.list(ctx)
	if err != nil {
		return err
	}
	for _, x := range nodes {
		if x.left {
			if err := n.cordon(ctx, x.Node, false); err != nil { // takes the mark away
				return err
			}
		}
	}
	return nil
}

func (n *nodesTarget) restore(ctx context.Context) error {
	nodes, _, err := n.list(ctx)
	if err != nil {
		return err
	}
	for _, x := range nodes {
		if x.ours || x.left {
			if err := n.cordon(ctx, x.Node, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// trim writes a number without needless decimals.
func trim(v float64) string { return strconv.FormatFloat(rounded(v), 'f', -1, 64) }
