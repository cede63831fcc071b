package autoscale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// status is what cluster-autoscaler writes of two node groups. One has no nodes.
const status = `time: 2026-03-01 11:59:55.123456789 +0000 UTC
autoscalerStatus: Running
clusterWide: {health: {status: Healthy}}
nodeGroups:
- name: https://example.com/groups/batch
  health:
    status: Healthy
    nodeCounts: {registered: {total: 0, ready: 0}, longUnregistered: 0, unregistered: 0}
    cloudProviderTarget: 0
    minSize: 0
    maxSize: 10
- name: web
  health:
    status: Healthy
    nodeCounts: {registered: {total: 3, ready: 2}}
    cloudProviderTarget: 3
    minSize: 1
    maxSize: 5
- name: broken
  health: {status: Unhealthy, nodeCounts: {registered: {total: 1, ready: 1}}, maxSize: 9}
`

func TestGroups(t *testing.T) {
	got, err := parseGroups(status, now)
	want := map[string]Group{"https://example.com/groups/batch": {0, 10}, "web": {2, 5}, "broken": {1, 1}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for name, tc := range map[string]struct {
		text string
		now  time.Time
		want string
	}{
		"the text before v1.30": {"Cluster-autoscaler status at 2023-01-01 00:00:00 +0000 UTC:\nCluster-wide:\n  Health: Healthy", now, "since v1.30"},
		"nothing":               {"", now, "since v1.30"},
		"old":                   {status, now.Add(time.Hour), "more than 10m0s ago"},
		"no time":               {strings.Replace(status, "time: 2026-03-01 11:59:55.123456789 +0000 UTC", "time: soon", 1), now, `status.time: "soon"`},
		"not running":           {strings.Replace(status, "Running", "Initializing", 1), now, "accepted: Running"},
		"a negative size":       {strings.Replace(status, "maxSize: 10", "maxSize: -1", 1), now, "maxSize -1, ready 0; accepted: 0 to 100000"},
		"a size out of bounds":  {strings.Replace(status, "maxSize: 10", "maxSize: 1000000", 1), now, "accepted: 0 to 100000"},
		"a size that is text":   {strings.Replace(status, "maxSize: 10", "maxSize: many", 1), now, "since v1.30"},
		"large":                 {strings.Repeat("x", mostBytes+1), now, "accepted: up to 1048576"},
	} {
		if got, err := parseGroups(tc.text, tc.now); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v; want an error with %q", name, got, err, tc.want)
		}
	}
}

// reads answers with NodePools and a ConfigMap, or with errors.
type reads struct {
	client.Reader
	limits  map[string]map[string]any
	more    string
	status  string
	err     error
	listed  int
	blocked bool
}

func (r *reads) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	r.listed++
	if r.blocked {
		<-ctx.Done()
		return ctx.Err()
	}
	u, _ := list.(*unstructured.UnstructuredList)
	u.SetContinue(r.more)
	for name, limits := range r.limits {
		pool := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"limits": limits}}}
		u.Items = append(u.Items, pool)
	}
	return r.err
}

func (r *reads) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	m, _ := o.(*corev1.ConfigMap)
	m.Data = map[string]string{"status": r.status}
	return r.err
}

func TestPools(t *testing.T) {
	pools, err := readPools(t.Context(), &reads{limits: map[string]map[string]any{"a": {"cpu": "20", "memory": "1Gi"}, "b": {"cpu": int64(3)}, "c": nil}})
	if err != nil || len(pools) != 3 || !maps.Equal(pools["a"], Pool{"cpu": 20, "memory": 1 << 30}) || !maps.Equal(pools["b"], Pool{"cpu": 3}) || len(pools["c"]) > 0 {
		t.Errorf("%v, %v", pools, err)
	}
	gr := schema.GroupResource{Resource: "x"}
	for want, r := range map[string]*reads{
		"NodePool a: spec.limits.cpu: lots; accepted: a quantity of 0 to 1E": {limits: map[string]map[string]any{"a": {"cpu": "lots"}}},
		"spec.limits.cpu: -1; accepted":                                      {limits: map[string]map[string]any{"a": {"cpu": "-1"}}},
		"spec.limits.cpu: 1e30; accepted":                                    {limits: map[string]map[string]any{"a": {"cpu": "1e30"}}},
		"more than 500":                                                      {more: "next"},
		"Lull may not list them: install its rights":                         {err: apierrors.NewForbidden(gr, "", nil)},
		"does not serve karpenter.sh/v1":                                     {err: apierrors.NewNotFound(gr, "")},
	} {
		if _, err := readPools(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error with %q", err, want)
		}
	}
	for want, err := range map[string]error{
		"kube-system/cluster-autoscaler-status is not there": apierrors.NewNotFound(gr, ""),
		"Lull may not read it: install its rights":           apierrors.NewForbidden(gr, "", nil),
	} {
		if _, err := readGroups(t.Context(), &reads{err: err}, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error with %q", err, want)
		}
	}
}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func amounts(pairs ...string) map[corev1.ResourceName]v1alpha1.Amount {
	out := map[corev1.ResourceName]v1alpha1.Amount{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = v1alpha1.Amount(pairs[i+1])
	}
	return out
}

// TestAmountsThatTakeForever: the API server takes any text that looks like a quantity, of a CarbonPolicy and of a NodePool. None
// of them keeps Lull from its work.
func TestAmountsThatTakeForever(t *testing.T) {
	for _, text := range []string{"1e-2000000000", "1E-30000000", "0." + strings.Repeat("0", 1<<20) + "1", "1e2000000000", "NaN", "-0", "+1", "", "null"} {
		var spec v1alpha1.AutoscalingSpec
		if err := json.Unmarshal([]byte(`{"ceiling": {"cpu": "`+text+`"}}`), &spec); err != nil {
			t.Fatal(err)
		}
		now, err := Ceiling([]corev1.Node{node("", true, "3")}, &spec, Seen{})
		if err == nil || len(err.Error()) > 200 || now["cpu"] != 3 {
			t.Errorf("%.20q: %v, %v", text, now, err)
		}
		if _, err := kube.ReadAmount(text); err == nil {
			t.Errorf("%.20q is accepted", text)
		}
	}
	for text, want := range map[string]float64{`200`: 200, `"15500m"`: 15.5, `"60Gi"`: 60 << 30, `"1.5E"`: -1, `-4`: -1, `1e3`: 1000, `1.5`: 1.5, `null`: -1, `{}`: -1} {
		var spec v1alpha1.AutoscalingSpec
		if err := json.Unmarshal([]byte(`{"ceiling": {"cpu": `+text+`}}`), &spec); err != nil {
			t.Fatal(err)
		}
		if got, err := amount("ceiling", "cpu", spec.Ceiling["cpu"]); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

func node(pool string, ready bool, cpu string) corev1.Node {
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{poolLabel: pool}},
		Status: corev1.NodeStatus{
			Capacity: list("cpu", cpu), Allocatable: list("cpu", cpu),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is}},
		},
	}
}

func TestCeiling(t *testing.T) {
	nodes := []corev1.Node{node("", true, "4"), node("batch", true, "8"), node("batch", false, "8")}
	seen := Seen{
		Pools:  map[string]Pool{"batch": {"cpu": 100, "memory": 1000}, "full": {"cpu": 0}, "gpu": {"nvidia.com/gpu": 16}},
		Groups: map[string]Group{"web": {Ready: 2, Max: 5}, "over": {Ready: 3, Max: 2}},
	}
	karpenter := func(names ...string) *v1alpha1.KarpenterSpec { return &v1alpha1.KarpenterSpec{NodePools: names} }
	groups := func(names ...string) *v1alpha1.ClusterAutoscalerSpec {
		out := &v1alpha1.ClusterAutoscalerSpec{}
		for _, name := range names {
			out.NodeGroups = append(out.NodeGroups, v1alpha1.NodeGroup{Name: name, Allocatable: amounts("cpu", "10", "nvidia.com/gpu", "2")})
		}
		return out
	}
	for name, tc := range map[string]struct {
		spec v1alpha1.AutoscalingSpec
		seen Seen
		want map[string]float64
		err  string
	}{
		"nothing is named":            {v1alpha1.AutoscalingSpec{}, seen, map[string]float64{"cpu": 12}, ""},
		"a pool":                      {v1alpha1.AutoscalingSpec{Karpenter: karpenter("batch")}, seen, map[string]float64{"cpu": 12 + 84, "memory": 1000}, ""},
		"all pools":                   {v1alpha1.AutoscalingSpec{Karpenter: karpenter()}, seen, map[string]float64{"cpu": 12 + 84, "memory": 1000, "nvidia.com/gpu": 16}, "NodePools without a limit of cpu, which add none: gpu"},
		"with a ceiling":              {v1alpha1.AutoscalingSpec{Karpenter: karpenter(), Ceiling: amounts("cpu", "50")}, seen, map[string]float64{"cpu": 50, "memory": 1000, "nvidia.com/gpu": 16}, ""},
		"no such pool":                {v1alpha1.AutoscalingSpec{Karpenter: karpenter("bach")}, seen, map[string]float64{"cpu": 12}, `there is no NodePool "bach"`},
		"pools cannot be read":        {v1alpha1.AutoscalingSpec{Karpenter: karpenter()}, Seen{PoolsErr: errors.New("no rights")}, map[string]float64{"cpu": 12}, "no rights"},
		"a ceiling below what is now": {v1alpha1.AutoscalingSpec{Ceiling: amounts("cpu", "2", "memory", "5")}, seen, map[string]float64{"cpu": 12, "memory": 5}, ""},
		"a group":                     {v1alpha1.AutoscalingSpec{ClusterAutoscaler: groups("web", "over")}, seen, map[string]float64{"cpu": 42, "nvidia.com/gpu": 6}, ""},
		"no such group":               {v1alpha1.AutoscalingSpec{ClusterAutoscaler: groups("wbe")}, seen, map[string]float64{"cpu": 12}, `there is no node group "wbe"`},
		"groups cannot be read":       {v1alpha1.AutoscalingSpec{ClusterAutoscaler: groups("web")}, Seen{GroupsErr: errors.New("stale")}, map[string]float64{"cpu": 12}, "stale"},
		"a ceiling below 0":           {v1alpha1.AutoscalingSpec{Ceiling: amounts("cpu", "-1")}, seen, map[string]float64{"cpu": 12}, "spec.autoscaling.ceiling.cpu: -1; accepted: a quantity of 0 to 1E"},
		"a ceiling beyond all":        {v1alpha1.AutoscalingSpec{Ceiling: amounts("cpu", "2E")}, seen, map[string]float64{"cpu": 12}, "spec.autoscaling.ceiling.cpu: 2E; accepted: a quantity of 0 to 1E"},
	} {
		got, err := Ceiling(nodes, &tc.spec, tc.seen)
		for r, v := range got {
			if v == 0 {
				delete(got, r)
			}
		}
		if !maps.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, %v; want %v, %q", name, got, err, tc.want, tc.err)
		}
	}
}

// TestStoreReadsOnDemand: what is asked for is read at once and then every half minute, until nobody asks for it; an API server that does
// not answer keeps nobody waiting for good.
func TestStoreReadsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &reads{limits: map[string]map[string]any{"a": {"cpu": "20"}}}
		s := NewStore(r, clock.RealClock{})
		done := make(chan error)
		go func() { done <- s.Start(ctx) }()
		spec := &v1alpha1.AutoscalingSpec{Karpenter: &v1alpha1.KarpenterSpec{}}
		get := func(want string) {
			t.Helper()
			synctest.Wait()
			seen, ready := s.Get(spec)
			if got := fmt.Sprint(ready, seen.Pools["a"]["cpu"], seen.PoolsErr); got != want {
				t.Errorf("%s; want %s", got, want)
			}
		}
		if _, ready := s.Get(&v1alpha1.AutoscalingSpec{}); !ready {
			t.Error("a policy waits for what it does not name")
		}
		time.Sleep(time.Minute)
		if r.listed > 0 {
			t.Error("read though nobody asks for it")
		}
		get("false 0 <nil>")
		get("true 20 <nil>")
		r.limits["a"]["cpu"] = "30"
		time.Sleep(refresh)
		get("true 30 <nil>")
		r.blocked = true
		time.Sleep(refresh + within)
		get("true 0 NodePools: context deadline exceeded")
		r.blocked = false
		time.Sleep(wanted + 2*refresh)
		listed := r.listed
		time.Sleep(time.Hour)
		if r.listed != listed {
			t.Error("read though nobody has asked for it for long")
		}
		get("false 30 <nil>")
		get("true 30 <nil>")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
