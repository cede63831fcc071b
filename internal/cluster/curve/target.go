package curve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/cluster/kueue"
)

var (
	// errAbsent: the target, or what serves its kind, is not there.
	errAbsent = errors.New("not there")
	// errEdited: others have changed what Lull has set.
	errEdited = errors.New("edited by others")
	// errTaken: another curve sets it.
	errTaken = errors.New("another CapacityCurve sets it")
)

// target is what has a capacity.
type target interface {
	// totals is what it offers at the curve's maximum, by resource, and the nodes that do, where those
	// are known: what policies plan under.
	totals(ctx context.Context) (map[string]float64, map[string]bool, error)
	// set makes of the target what a capacity says, and says what it has become where that is not
	// quite what was asked for.
	set(ctx context.Context, capacity float64) (note string, err error)
	// adopt takes what others have changed for what Lull has set: it may be changed again.
	adopt(ctx context.Context) error
	// restore makes of it what it was before Lull.
	restore(ctx context.Context) error
}

// targetOf is the target of a curve. live reads the API server; nodes and pods are read from a cache.
func targetOf(c *v1alpha1.CapacityCurve, live client.Reader, cached client.Reader, write client.Client) (target, error) {
	maximum := kube.AmountOf(c.Spec.Maximum)
	t := &c.Spec.Target
	quota := func(gvk schema.GroupVersionKind, name string, list func(*unstructured.Unstructured) (entries, error)) target {
		return &quotaTarget{curve: c.Name, resource: c.Spec.Resource, maximum: maximum, gvk: gvk, name: name, list: list, live: live, write: write}
	}
	switch {
	case t.ClusterQueue != "":
		return quota(kueue.GroupVersion.WithKind("ClusterQueue"), t.ClusterQueue, nominalQuotas), nil
	case t.Cohort != "":
		return quota(kueue.GroupVersion.WithKind("Cohort"), t.Cohort, nominalQuotas), nil
	case t.NodePool != "":
		return quota(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, t.NodePool, limitsOf(c.Spec.Resource)), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(t.Nodes)
	if err != nil {
		return nil, fmt.Errorf("spec.target.nodes: %w", err)
	}
	return &nodesTarget{curve: c.Name, resource: c.Spec.Resource, maximum: maximum, selector: selector, cached: cached, write: write}, nil
}

// entry is a quantity in an object; nil where it is not stated.
type entry struct {
	resource string
	get      func() string
	put      func(value string) // "" removes it
}

// entries are the quantities of an object by where they stand.
type entries map[string]entry

// nominalQuotas are those of a ClusterQueue or Cohort, by flavor and resource.
func nominalQuotas(u *unstructured.Unstructured) (entries, error) {
	out := entries{}
	found, _, err := unstructured.NestedFieldNoCopy(u.Object, "spec", "resourceGroups")
	if err != nil {
		return nil, err
	}
	groups, _ := found.([]any)
	for _, g := range groups {
		group, _ := g.(map[string]any)
		flavors, _ := group["flavors"].([]any)
		for _, f := range flavors {
			flavor, _ := f.(map[string]any)
			resources, _ := flavor["resources"].([]any)
			for _, r := range resources {
				res, ok := r.(map[string]any)
				if !ok {
					continue
				}
				name, _ := res["name"].(string)
				out[fmt.Sprint(flavor["name"])+"/"+name] = entry{
					resource: name,
					get:      func() string { return fmt.Sprint(res["nominalQuota"]) },
					put:      func(v string) { res["nominalQuota"] = v },
				}
			}
		}
	}
	return out, nil
}

// limitsOf are those of a NodePool; that of the curve's resource may have to be made.
func limitsOf(name string) func(*unstructured.Unstructured) (entries, error) {
	return func(u *unstructured.Unstructured) (entries, error) {
		limits, _, err := unstructured.NestedMap(u.Object, "spec", "limits")
		if err != nil {
			return nil, err
		}
		if limits == nil {
			limits = map[string]any{}
		}
		spec, ok := u.Object["spec"].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("spec: %T", u.Object["spec"])
		}
		spec["limits"] = limits
		out := entries{}
		for _, r := range append(slices.Collect(maps.Keys(limits)), name) {
			out[r] = entry{
				resource: r,
				get: func() string {
					if v, stated := limits[r]; stated {
						return fmt.Sprint(v)
					}
					return ""
				},
				put: func(v string) {
					if v == "" {
						delete(limits, r)
					} else {
						limits[r] = v
					}
					if len(limits) == 0 {
						delete(spec, "limits")
					}
				},
			}
		}
		return out, nil
	}
}

// mark is what the annotation of a target says.
type mark struct {
	Curve string `json:"curve"`
	// Before are the quantities that were there before Lull, Set those that Lull has set.
	Before map[string]string `json:"before,omitempty"`
	Set    map[string]string `json:"set,omitempty"`
}

func markOf(o metav1.Object) (mark, bool) {
	var m mark
	text, marked := o.GetAnnotations()[v1alpha1.AnnotationCapacity]
	if !marked || json.Unmarshal([]byte(text), &m) != nil {
		return mark{}, false
	}
	return m, true
}

func (m mark) put(o metav1.Object) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationCapacity] = string(text)
	o.SetAnnotations(annotations)
	return nil
}

func unmark(o metav1.Object) {
	annotations := maps.Clone(o.GetAnnotations())
	delete(annotations, v1alpha1.AnnotationCapacity)
	o.SetAnnotations(annotations)
}

// quotaTarget is an object with quantities: a ClusterQueue, a Cohort, a NodePool.
type quotaTarget struct {
	curve, resource string
	maximum         float64
	gvk             schema.GroupVersionKind
	name            string
	list            func(*unstructured.Unstructured) (entries, error)
	live            client.Reader
	write           client.Client
}

func (q *quotaTarget) String() string { return q.gvk.Kind + " " + q.name }

// object returns the object with its quantities.
func (q *quotaTarget) object(ctx context.Context) (*unstructured.Unstructured, entries, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(q.gvk)
	switch err := q.live.Get(ctx, client.ObjectKey{Name: q.name}, u); {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, nil, fmt.Errorf("%s: %w", q, errAbsent)
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", q, err)
	}
	now, err := q.list(u)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", q, err)
	}
	return u, now, nil
}

// read returns the object, its quantities, and what they were before Lull.
func (q *quotaTarget) read(ctx context.Context) (u *unstructured.Unstructured, now entries, before map[string]string, err error) {
	if u, now, err = q.object(ctx); err != nil {
		return nil, nil, nil, err
	}
	before = map[string]string{}
	for at, e := range now {
		before[at] = e.get()
	}
	if m, marked := markOf(u); marked {
		if m.Curve != q.curve {
			return nil, nil, nil, fmt.Errorf("%s: %w: %s", q, errTaken, m.Curve)
		}
		before = m.Before
		if err := m.unchanged(now); err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", q, err)
		}
	}
	return u, now, before, nil
}

// unchanged returns an error where quantities are not those that Lull has set.
func (m mark) unchanged(now entries) error {
	var found []string
	for at, e := range now {
		if was, set := m.Set[at]; !set && e.get() != "" || set && !sameQuantity(was, e.get()) {
			found = append(found, fmt.Sprintf("%s is %s, set was %s", at, orNone(e.get()), orNone(was)))
		}
	}
	for at := range m.Set {
		if _, there := now[at]; !there {
			found = append(found, at+" is gone")
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	return fmt.Errorf("%w: %s", errEdited, strings.Join(found, "; "))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func sameQuantity(a, b string) bool {
	x, errX := resource.ParseQuantity(a)
	y, errY := resource.ParseQuantity(b)
	return errX == nil && errY == nil && x.Cmp(y) == 0
}

func number(quantity string) float64 {
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return 0
	}
	return q.AsApproximateFloat64()
}

func (q *quotaTarget) adopt(ctx context.Context) error {
	u, now, err := q.object(ctx)
	if err != nil {
		return err
	}
	m, marked := markOf(u)
	if !marked || m.Curve != q.curve || m.unchanged(now) == nil {
		return nil
	}
	before := m.Before
	m.Before, m.Set = map[string]string{}, map[string]string{}
	for at, e := range now {
		m.Before[at], m.Set[at] = before[at], e.get()
		if _, known := before[at]; !known {
			m.Before[at] = e.get()
		}
	}
	if err := m.put(u); err != nil {
		return err
	}
	return q.write.Update(ctx, u)
}

func (q *quotaTarget) totals(ctx context.Context) (map[string]float64, map[string]bool, error) {
	_, now, before, err := q.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	out := map[string]float64{}
	for at, e := range now {
		out[e.resource] += number(before[at])
	}
	out[q.resource] = q.maximum
	return out, nil, nil
}

// set makes the quantities of the curve's resource sum to the capacity; the others keep their proportion
// to the maximum.
func (q *quotaTarget) set(ctx context.Context, capacity float64) (string, error) {
	if q.maximum <= 0 {
		return "", fmt.Errorf("%s: spec.maximum of CapacityCurve %s: 0, or not readable; accepted: an amount above 0", q, q.curve)
	}
	u, now, before, err := q.read(ctx)
	if err != nil {
		return "", err
	}
	sum, stated := 0.0, false
	for at, e := range now {
		if e.resource == q.resource {
			sum, stated = sum+number(before[at]), true
		}
	}
	if !stated || sum == 0 && q.gvk.Kind != "NodePool" {
		return "", fmt.Errorf("%s: no quota of %s; accepted: one above 0", q, q.resource)
	}
	m := mark{Curve: q.curve, Before: before, Set: map[string]string{}}
	changed := false
	for at, e := range now {
		amount := number(before[at]) * capacity / q.maximum
		switch {
		case e.resource == q.resource && sum > 0:
			amount = number(before[at]) * capacity / sum
		case e.resource == q.resource:
			amount = capacity
		}
		value := quantityOf(e.resource, amount)
		if !sameQuantity(value, e.get()) {
			changed = true
			e.put(value)
		}
		m.Set[at] = value
	}
	if _, marked := markOf(u); marked && !changed {
		return "", nil
	}
	if err := m.put(u); err != nil {
		return "", err
	}
	return "", q.write.Update(ctx, u)
}

func (q *quotaTarget) restore(ctx context.Context) error {
	u, now, before, err := q.read(ctx)
	switch {
	case errors.Is(err, errAbsent) || errors.Is(err, errTaken) || errors.Is(err, errEdited):
		return nil // nothing of it is ours any more
	case err != nil:
		return err
	}
	if _, marked := markOf(u); !marked {
		return nil
	}
	for at, e := range now {
		e.put(before[at])
	}
	unmark(u)
	return q.write.Update(ctx, u)
}

// quantityOf writes an amount of a resource, rounded up to what can be asked for of it.
func quantityOf(name string, amount float64) string {
	const eps = 1e-9
	if name == string(corev1.ResourceCPU) {
		return resource.NewMilliQuantity(int64(math.Ceil(amount*1000-eps)), resource.DecimalSI).String()
	}
	return resource.NewQuantity(int64(math.Ceil(amount-eps)), resource.DecimalSI).String()
}
