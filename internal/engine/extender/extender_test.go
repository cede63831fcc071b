package extender

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"lull.dev/lull/api/v1alpha1"
)

// midnight is when the tests' days begin.
var midnight = time.Date(2022, 6, 1, 0, 0, 0, 0, time.UTC)

// bed is a state with a clock.
type bed struct {
	*State
	clock *clocktesting.FakePassiveClock
}

// newBed knows a zone "de" whose intensity is 400 but for 100 from 10:00 to 16:00, four nodes of
// ten cores, and a policy of namespace "batch".
func newBed(t testing.TB, config string) *bed {
	t.Helper()
	c := Configuration{}
	if config != "" {
		var err error
		if c, err = ReadConfiguration(strings.NewReader(config)); err != nil {
			t.Fatal(err)
		}
	}
	clk := clocktesting.NewFakePassiveClock(midnight)
	s, err := NewState(c, clk)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{s, clk}
	b.zone("de", func(h int) float64 {
		if h%24 >= 10 && h%24 < 16 {
			return 100
		}
		return 400
	})
	for i := range 4 {
		b.SetNode(testNode(fmt.Sprint("n", i), 10, nil))
	}
	if err := b.SetPolicy(testPolicy(nil)); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) zone(name string, intensity func(hour int) float64) {
	z := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: name}}
	from := b.clock.Now().Truncate(time.Hour)
	for h := range 48 {
		at := from.Add(time.Duration(h) * time.Hour)
		z.Status.Forecast = append(z.Status.Forecast, v1alpha1.ForecastPoint{Time: metav1.NewTime(at), Intensity: intensity(int(at.Sub(midnight).Hours()))})
	}
	b.SetZone(z)
}

func testPolicy(change func(*v1alpha1.CarbonPolicySpec)) *v1alpha1.CarbonPolicy {
	p := &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "batch"}, Spec: v1alpha1.CarbonPolicySpec{
		Via: v1alpha1.ViaExtender, Zone: "de", CriticalPriorityClasses: []string{"high"}, Planner: v1alpha1.PlannerSpec{Name: "window"},
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"shift": "yes"}},
	}}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

func testNode(name string, cores int64, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cores, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Gi")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

func testPod(name string, cpus string, created time.Time, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "batch", UID: types.UID(name), CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{"shift": "yes"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)},
		}}}},
	}
	if change != nil {
		change(p)
	}
	if p.Spec.NodeName != "" { // as the API server says of what a scheduler binds
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	}
	return p
}

// ask asks by the wire, as kube-scheduler does, with names of nodes.
func (b *bed) ask(t testing.TB, p *corev1.Pod) Answer {
	t.Helper()
	names := []string{"n0", "n1", "n2", "n3"}
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: p, NodeNames: &names})
	if err != nil {
		t.Fatal(err)
	}
	c, err := read(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b.Admit(&c.pod)
}

func TestAdmit(t *testing.T) {
	critical := func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }
	other := func(p *corev1.Pod) { p.Labels = nil }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "else" }
	for _, x := range []struct {
		name    string
		created time.Duration // since midnight
		now     time.Duration
		change  func(*corev1.Pod)
		want    Code
	}{
		{"before the window", 0, time.Hour, nil, OutsideWindow},
		{"just before it", 0, 10*time.Hour - time.Second, nil, OutsideWindow},
		{"inside it", 0, 10 * time.Hour, nil, InWindow},
		{"at its end", 0, 16*time.Hour - time.Second, nil, InWindow},
		{"came inside it", 12 * time.Hour, 12 * time.Hour, nil, InWindow}, // four hours of it are better than two of the next day's
		{"came at its end", 15 * time.Hour, 15 * time.Hour, nil, OutsideWindow},
		{"critical", 0, time.Hour, critical, Critical},
		{"not selected", 0, time.Hour, other, NotGoverned},
		{"without a policy", 0, time.Hour, elsewhere, NotGoverned},
		{"has waited for a day", 0, 24 * time.Hour, nil, Stale},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t, "")
			b.clock.SetTime(midnight.Add(x.now))
			if a := b.ask(t, testPod("a", "1", midnight.Add(x.created), x.change)); a.Code != x.want || a.Pass != (x.want != OutsideWindow) {
				t.Errorf("%+v, want %s", a, x.want)
			}
		})
	}
}

func TestAdmitSaysUntilWhen(t *testing.T) {
	b := newBed(t, "")
	if a, want := b.ask(t, testPod("a", "1", midnight, nil)), "Lull: waits until 2022-06-01T10:00:00Z, 100 gCO2eq/kWh then"; a.Message != want {
		t.Errorf("%q, want %q", a.Message, want)
	}
	must(t, b.SetPolicy(testPolicy(func(s *v1alpha1.CarbonPolicySpec) { s.Planner.Parameters = map[string]string{"max-stale": "2h"} })))
	if a := b.ask(t, testPod("a", "1", midnight, nil)); !strings.Contains(a.Message, "until 2022-06-01T02:00:00Z") {
		t.Errorf("%q, want until it is stale", a.Message)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWaitingPodsLeaveRoom: Pods that wait never use the last 5 %, and 15 % where the hour is expected to be full.
func TestWaitingPodsLeaveRoom(t *testing.T) {
	b := newBed(t, "")
	b.clock.SetTime(midnight.Add(11 * time.Hour))
	pass := func(want int) {
		t.Helper()
		n := 0
		for i := range 60 {
			if a := b.ask(t, testPod(fmt.Sprint("p", i), "1", midnight, nil)); a.Pass {
				n++
			} else if a.Code != NoRoom || !strings.Contains(a.Message, "of 40 cpu") {
				t.Fatalf("%+v", a)
			}
		}
		if n != want {
			t.Errorf("%d Pods of a core each pass on 40 cores, want %d", n, want)
		}
	}
	pass(38)
	// Those that were not seen on a node make room again; those that were do not, until they end.
	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	for i := range 10 {
		b.SetPod(testPod(fmt.Sprint("on", i), "2", midnight, func(p *corev1.Pod) { p.Spec.NodeName = "n0" }))
	}
	pass(18)
	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	b.SetPod(testPod("on0", "2", midnight, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "n0", corev1.PodSucceeded }))
	b.DeletePod("on1")
	pass(22)
	// A node that takes no Pods counts on neither side.
	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	cordoned := testNode("n3", 10, nil)
	cordoned.Spec.Unschedulable = true
	b.SetNode(cordoned)
	if a := b.ask(t, testPod("q", "13", midnight, nil)); a.Code != NoRoom || !strings.Contains(a.Message, "16 of 30 cpu") {
		t.Errorf("with a node cordoned: %+v", a)
	}
	b.SetNode(testNode("n3", 10, nil))
	must(t, b.SetPolicy(testPolicy(func(s *v1alpha1.CarbonPolicySpec) { s.Planner.Parameters = map[string]string{"expected-load": "1"} })))
	b.clock.SetTime(b.clock.Now().Add(time.Minute))
	pass(18) // 85 % of 40, less the 16 that run
}

// TestForecastLoad: an hour that was full on the days before is expected to be full.
func TestForecastLoad(t *testing.T) {
	var h history
	at := midnight.Add(11 * time.Hour)
	if h.expected(at) != 0 {
		t.Error("expects a load of which nothing is known")
	}
	for day := range 3 {
		h.add(at.AddDate(0, 0, day), 1)
		h.add(at.AddDate(0, 0, day).Add(time.Hour), 0.25)
	}
	h.add(at.AddDate(0, 0, 2).Add(time.Hour), 0.75) // the mean of the hour is 0.5
	if v := h.expected(at.AddDate(0, 0, 3)); v != 1 {
		t.Errorf("expects %v, want 1", v)
	}
	// Weights 6, 5, 4 from the latest day on.
	if v, want := h.expected(at.AddDate(0, 0, 3).Add(time.Hour)), (6*0.5+5*0.25+4*0.25)/15; math.Abs(v-want) > 1e-12 {
		t.Errorf("expects %v, want %v", v, want)
	}
	if v := h.expected(at.AddDate(0, 0, 30)); v != 0 {
		t.Errorf("expects %v from what is a month old", v)
	}
}

// TestExtenderFailsOpen: what nothing is known of, what is paused and what is in shadow passes.
func TestExtenderFailsOpen(t *testing.T) {
	p := testPod("a", "1", midnight, nil)
	b := newBed(t, "")
	must(t, b.SetPolicy(testPolicy(func(s *v1alpha1.CarbonPolicySpec) { s.Paused = true })))
	if a := b.ask(t, p); !a.Pass || a.Code != PolicyPaused {
		t.Errorf("paused: %+v", a)
	}
	must(t, b.SetPolicy(testPolicy(func(s *v1alpha1.CarbonPolicySpec) { s.Mode = v1alpha1.ModeShadow })))
	if a := b.ask(t, p); !a.Pass || a.Code != PolicyPaused {
		t.Errorf("shadow: %+v", a)
	}
	if err := b.SetPolicy(testPolicy(func(s *v1alpha1.CarbonPolicySpec) { s.Planner.Parameters = map[string]string{"window-frame": "soon"} })); !errors.Is(err, ErrConfig) {
		t.Errorf("a parameter that cannot be read: %v", err)
	}
	if a := b.ask(t, p); !a.Pass || a.Code != NotGoverned {
		t.Errorf("a policy that cannot be carried out: %+v", a)
	}
	must(t, b.SetPolicy(testPolicy(nil)))
	stale := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "de"}}
	b.SetZone(stale)
	if a := b.ask(t, p); !a.Pass || a.Code != NoCarbonData {
		t.Errorf("a zone of which nothing is known: %+v", a)
	}
	b.zone("de", func(int) float64 { return 1 })
	b.clock.SetTime(midnight.Add(72 * time.Hour)) // beyond what is known
	if a := b.ask(t, testPod("b", "1", b.clock.Now(), nil)); !a.Pass || a.Code != NoCarbonData {
		t.Errorf("beyond the forecast: %+v", a)
	}
	must(t, b.SetPolicy(testPolicy(func(s *v1alpha1.CarbonPolicySpec) { s.Via = v1alpha1.ViaHold })))
	if a := b.ask(t, p); a.Code != NotGoverned {
		t.Errorf("a policy that holds: %+v", a)
	}
}

func TestConfiguration(t *testing.T) {
	const head = "apiVersion: lull.dev/v1alpha1\nkind: ExtenderConfiguration\n"
	for text, want := range map[string]string{
		"kind: X":             "apiVersion, kind",
		head + "defaults: {}": "defaults",
		head + "default: {}":  "zone: not set",
		head + "default: {zone: de, parameters: {window-frame: 30h}}":                 "at most time-frame",
		head + "default: {zone: de, parameters: {expected-load: \"2\"}}":              "expected-load",
		head + "default: {zone: de, parameters: {window: 1h}}":                        "accepted: expected-load",
		head + "default: {zone: de, selector: {matchExpressions: [{operator: Xor}]}}": "selector",
		head + "nodes: [{idleWatts: 10, maxWatts: 5}]":                                "maxWatts",
		head + "nodes: [{pue: 0.5}]":                                                  "pue",
		head + "nodes: [{wattsPerUnit: {cpu: -1}}]":                                   "wattsPerUnit.cpu",
	} {
		if _, err := ReadConfiguration(strings.NewReader(text)); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	b := newBed(t, head+"default: {zone: de, parameters: {window-frame: 2h}}")
	elsewhere := testPod("a", "1", midnight, func(p *corev1.Pod) { p.Namespace = "else" })
	if a := b.ask(t, elsewhere); a.Code != OutsideWindow {
		t.Errorf("by the file: %+v", a)
	}
	for _, namespace := range []string{"kube-system", "lull-system"} {
		if a := b.ask(t, testPod("a", "1", midnight, func(p *corev1.Pod) { p.Namespace = namespace })); a.Code != NotGoverned {
			t.Errorf("%s by the file: %+v", namespace, a)
		}
	}
	if a := b.ask(t, testPod("a", "1", midnight, func(p *corev1.Pod) { p.Labels = nil })); a.Code != NotGoverned {
		t.Errorf("a namespace with a policy by the file: %+v", a)
	}
}

// TestOnlyExplicitRulesGovernSystemNamespaces: a rule governs kube-system and Lull's own namespace only if it is of the file and names them.
func TestOnlyExplicitRulesGovernSystemNamespaces(t *testing.T) {
	spec := RuleSpec{Zone: "de"}
	for _, tc := range []struct {
		policy, own string
		names       []string
		want        map[string]bool
	}{
		{"", "lull-system", nil, map[string]bool{"kube-system": false, "lull-system": false, "team": true}},
		{"", "green", nil, map[string]bool{"kube-system": false, "lull-system": true, "green": false}},
		{"", "lull-system", []string{"kube-system"}, map[string]bool{"kube-system": true, "lull-system": false, "team": false}},
		{"p", "lull-system", []string{"kube-system"}, map[string]bool{"kube-system": false, "team": false}},
		{"p", "lull-system", []string{"team"}, map[string]bool{"team": true, "else": false}},
	} {
		spec.Namespaces = tc.names
		r, err := spec.rule()
		if err != nil {
			t.Fatal(err)
		}
		r.name = tc.policy
		for namespace, want := range tc.want {
			if got := r.governs(tc.own, namespace, nil); got != want {
				t.Errorf("%+v governs %s: %v", tc, namespace, got)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for _, x := range []struct {
		o    Options
		good bool
	}{
		{Options{Address: "127.0.0.1:8888"}, true}, {Options{Address: "localhost:0"}, true}, {Options{Address: "[::1]:1"}, true},
		{Options{Address: ":8888"}, false}, {Options{Address: "10.0.0.1:8888"}, false}, {Options{Address: "8888"}, false},
		{Options{Address: ":8888", CertFile: "a", KeyFile: "b"}, false}, {Options{Address: ":8888", CertFile: "a", KeyFile: "b", ClientCAFile: "c"}, true},
	} {
		if err := x.o.Check(); (err == nil) != x.good || err != nil && !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", x.o, err)
		}
	}
}

// FuzzFilter: no body makes the handler panic or write what is not JSON, and none that is not JSON is
// answered.
func FuzzFilter(f *testing.F) {
	b := newBed(f, nodesConfig)
	h := &Handler{State: b.State}
	good, err := json.Marshal(extenderv1.ExtenderArgs{Pod: testPod("a", "1", midnight, nil), NodeNames: &[]string{"n0", "n1"}})
	must(f, err)
	whole, err := json.Marshal(extenderv1.ExtenderArgs{Pod: testPod("a", "1", midnight, nil), Nodes: &corev1.NodeList{Items: []corev1.Node{*testNode("n0", 1, nil)}}})
	must(f, err)
	f.Add(good)
	f.Add(whole)
	f.Add([]byte(" { \"Pod\" : {} ,\n\"NodeNames\" : [ \"a\" , \"b\" ] } "))
	f.Add([]byte(`{"Pod":{"metadata":{"creationTimestamp":"9999-12-31T23:59:59Z"}},"NodeNames":["",1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{FilterPath, PrioritizePath} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
			if w.Code == http.StatusOK && (!json.Valid(w.Body.Bytes()) || !json.Valid(body)) {
				t.Errorf("%s: %s, to %s", path, w.Body, body)
			}
		}
	})
}

// BenchmarkFilter and BenchmarkPrioritize are whole calls but for the network.
func BenchmarkFilter(b *testing.B)     { benchmark(b, FilterPath) }
func BenchmarkPrioritize(b *testing.B) { benchmark(b, PrioritizePath) }

func benchmark(b *testing.B, path string) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			bed := newBed(b, nodesConfig)
			bed.clock.SetTime(midnight.Add(11 * time.Hour))
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("gke-pool-1-%08x-node-%05d", i*2654435761, i)
				bed.SetNode(testNode(names[i], 64, map[string]string{"in": []string{"fr", "de"}[i%2]}))
			}
			body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: testPod("a", "1", midnight, nil), NodeNames: &names})
			must(b, err)
			h := &Handler{State: bed.State}
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				w := httptest.NewRecorder()
				w.Body.Grow(len(body))
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
