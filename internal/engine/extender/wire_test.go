package extender

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"lull.dev/lull/api/v1alpha1"
)

const nodesConfig = `
apiVersion: lull.dev/v1alpha1
kind: ExtenderConfiguration
nodes:
- selector: {matchLabels: {size: large}}
  idleWatts: 212
  maxWatts: 597
  pue: 1.5
- selector: {matchLabels: {in: fr}}
  zone: fr
  idleWatts: 100
  wattsPerUnit: {cpu: 10, nvidia.com/gpu: 300}
`

// TestRankMatchesEmissionsWorkedByHand compares with the emissions worked out by hand.
func TestRankMatchesEmissionsWorkedByHand(t *testing.T) {
	b := newBed(t, nodesConfig)
	b.zone("fr", func(int) float64 { return 50 })
	b.SetNode(testNode("n0", 10, map[string]string{"size": "large"}))
	b.SetNode(testNode("n1", 10, map[string]string{"in": "fr"}))
	b.SetNode(testNode("n2", 10, nil))
	names := namesOf("n0", "n1", "n2", "n3", "unknown")
	p := &Pod{Namespace: "batch", Labels: map[string]string{"shift": "yes"}, Request: map[string]float64{"cpu": 2}}
	scores, grams := make([]int8, names.Len()), make([]float64, names.Len())
	b.Rank(p, names, scores, grams)
	// n0: 400 (2 x 38.5 + 212) 1.5 = 173.4 g; n1: 50 (2 x 10 + 100) = 6 g; n2, n3: 400 x 7 = 2.8 g.
	if want := []int8{0, 10, 10, 10, 0}; fmt.Sprint(scores) != fmt.Sprint(want) { // 9.8 rounds to 10
		t.Errorf("scores %v, want %v", scores, want)
	}
	// Not idle any more: n0 is at 46.2 g, a DaemonSet's Pod wakes nobody.
	b.SetPod(testPod("x", "1", midnight, func(p *corev1.Pod) { p.Spec.NodeName = "n0" }))
	yes := true
	b.SetPod(testPod("ds", "1", midnight, func(p *corev1.Pod) {
		p.Spec.NodeName, p.OwnerReferences = "n1", []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &yes}}
	}))
	p.Request["nvidia.com/gpu"] = 1 // n1: 50 (20 + 300 + 100) = 21 g
	b.Rank(p, names, scores, grams)
	if want := []int8{0, 6, 10, 10, 0}; fmt.Sprint(scores) != fmt.Sprint(want) { // (46.2 - 21) / (46.2 - 2.8)
		t.Errorf("scores %v, want %v", scores, want)
	}
	// By the region of a cloud.
	z := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "se"}, Spec: v1alpha1.GridZoneSpec{CloudRegion: "aws/eu-north-1"}}
	z.Status.Forecast = []v1alpha1.ForecastPoint{{Time: metav1.NewTime(midnight), Intensity: 20}}
	b.SetZone(z)
	b.SetNode(testNode("n3", 10, map[string]string{corev1.LabelTopologyRegion: "eu-north-1"}))
	b.Rank(&Pod{Namespace: "batch", Labels: p.Labels}, namesOf("n2", "n3"), scores[:2], grams[:2])
	if scores[0] != 0 || scores[1] != 10 {
		t.Errorf("scores %v; want the node in the cleaner region first", scores[:2])
	}
	// Nothing tells them apart.
	b.Rank(&Pod{Namespace: "else"}, namesOf("n2", "n2"), scores[:2], grams[:2])
	if scores[0] != scores[1] {
		t.Errorf("equal nodes are scored %v", scores[:2])
	}
}

func namesOf(names ...string) *Names {
	out := &Names{}
	for _, name := range names {
		out.add(name)
	}
	return out
}

// TestExtenderSpeaksTheSchedulersTypes speaks kube-scheduler's own types, by names and by whole nodes.
func TestExtenderSpeaksTheSchedulersTypes(t *testing.T) {
	b := newBed(t, "")
	srv := httptest.NewServer(&Handler{State: b.State})
	defer srv.Close()
	names := []string{"n0", "n1"}
	nodes := &corev1.NodeList{Items: []corev1.Node{*testNode("n0", 10, nil), *testNode("n1", 10, nil)}}
	waits, passes := testPod("w", "1", midnight, nil), testPod("p", "1", midnight, func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	for _, x := range []struct {
		args extenderv1.ExtenderArgs
		want int // nodes
	}{
		{extenderv1.ExtenderArgs{Pod: passes, NodeNames: &names}, 2},
		{extenderv1.ExtenderArgs{Pod: waits, NodeNames: &names}, 0},
		{extenderv1.ExtenderArgs{Pod: passes, Nodes: nodes}, 2},
		{extenderv1.ExtenderArgs{Pod: waits, Nodes: nodes}, 0},
	} {
		var got extenderv1.ExtenderFilterResult
		post(t, srv.URL+FilterPath, x.args, &got)
		n := 0
		if got.NodeNames != nil {
			n = len(*got.NodeNames)
		} else if got.Nodes != nil {
			n = len(got.Nodes.Items)
		} else {
			t.Error("neither nodes nor names")
		}
		if n != x.want || got.Error != "" || len(got.FailedNodes) != 0 || (x.want == 0) != (len(got.FailedAndUnresolvableNodes) == 1) {
			t.Errorf("%+v, want %d nodes", got, x.want)
		}
		if x.want == 0 && !strings.HasPrefix(got.FailedAndUnresolvableNodes["n0"], "Lull: waits until ") {
			t.Errorf("why: %v", got.FailedAndUnresolvableNodes)
		}
		var list extenderv1.HostPriorityList
		post(t, srv.URL+PrioritizePath, x.args, &list)
		if list == nil || len(list) != 0 {
			t.Errorf("nothing tells nodes apart: %+v", list)
		}
	}
}

// TestRankByTheWire: what is listed are the nodes better than the worst, kube-scheduler adding nothing
// to the others.
func TestRankByTheWire(t *testing.T) {
	b := newBed(t, nodesConfig)
	b.zone("fr", func(int) float64 { return 50 })
	b.SetNode(testNode("n0", 10, map[string]string{"size": "large"}))
	b.SetNode(testNode("n1", 10, map[string]string{"in": "fr"}))
	srv := httptest.NewServer(&Handler{State: b.State})
	defer srv.Close()
	var list extenderv1.HostPriorityList
	post(t, srv.URL+PrioritizePath, extenderv1.ExtenderArgs{Pod: testPod("a", "2", midnight, nil), NodeNames: &[]string{"n0", "n1", "unknown"}}, &list)
	if want := (extenderv1.HostPriorityList{{Host: "n1", Score: 10}}); !slices.Equal(list, want) {
		t.Errorf("%+v, want %+v", list, want)
	}
	post(t, srv.URL+PrioritizePath, extenderv1.ExtenderArgs{Pod: testPod("a", "2", midnight, nil), NodeNames: &[]string{}}, &list)
	if len(list) != 0 {
		t.Errorf("no nodes: %+v", list)
	}
}

func post(t testing.TB, url string, args extenderv1.ExtenderArgs, into any) {
	t.Helper()
	body, err := json.Marshal(args)
	must(t, err)
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, resp.Status)
	}
	must(t, json.NewDecoder(resp.Body).Decode(into))
}

// TestRequestsCountAsInTheScheduler: what a Pod asks for is counted as kube-scheduler counts it.
func TestRequestsCountAsInTheScheduler(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ask := func(cpus, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus), corev1.ResourceMemory: resource.MustParse(memory)}}
	}
	p := testPod("a", "500m", midnight, func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Resources: ask("1", "1Gi")})
		p.Spec.InitContainers = []corev1.Container{
			{Name: "i", Resources: ask("3", "1Mi")}, {Name: "s", RestartPolicy: &always, Resources: ask("250m", "128Mi")}, {Name: "j", Resources: ask("100m", "2Gi")},
		}
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	})
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: p, NodeNames: &[]string{"n0"}})
	must(t, err)
	c, err := read(body, nil)
	must(t, err)
	b := newBed(t, "")
	p.Spec.NodeName = "n0"
	b.SetPod(p)
	for r, q := range b.pods[p.UID].request {
		if math.Abs(c.pod.Request[r]-q) > 1e-9 {
			t.Errorf("%s: %v by the wire, %v by Kubernetes", r, c.pod.Request[r], q)
		}
	}
	if len(c.pod.Request) != 2 || math.Abs(c.pod.Request["cpu"]-3.01) > 1e-9 {
		t.Errorf("asks for %v", c.pod.Request)
	}
}

func TestBadRequests(t *testing.T) {
	srv := httptest.NewServer(&Handler{State: newBed(t, "").State})
	defer srv.Close()
	for body, want := range map[string]string{
		"":                                   "not a JSON object",
		"[]":                                 "not a JSON object",
		`{"Pod":{}}`:                         "NodeNames: not set",
		`{"Pod":null,"NodeNames":["a"]}`:     "Pod: not set",
		`{"NodeNames":["a"]}`:                "Pod: not set",
		`{"Pod":3,"NodeNames":[]}`:           "Pod:",
		`{"Pod":{},"NodeNames":"a"}`:         "not a list",
		`{"Pod":{},"NodeNames":["a\"b"]}`:    "not names of nodes",
		`{"Pod":{},"NodeNames":["a"]`:        "invalid request",
		`{"Pod":{},"NodeNames":["a" "b"]}`:   "not names of nodes",
		`{"Pod":{},"NodeNames":["a",]}`:      "not names of nodes",
		`{"Pod":{},"NodeNames":[],}`:         "invalid request",
		`{"Pod":{},"NodeNames":[]}]`:         "nothing after the object",
		`{"Pod":{},"pod":{},"NodeNames":[]}`: "each once",
		`{"Pod":{} "NodeNames":[]}`:          "a comma",
		`{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a\"b"}}]}}`:                                "not names of nodes",
		`{"Pod":{},"Nodes":{"items":[7]}}`:                                                           "Nodes:",
		`{"Pod":{"spec":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}},"NodeNames":[]}`: "Pod:",
	} {
		resp, err := http.Post(srv.URL+FilterPath, "application/json", strings.NewReader(body))
		must(t, err)
		var text bytes.Buffer
		_, err = text.ReadFrom(resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text.String(), want) {
			t.Errorf("%s: %s: %s; want 400, %q", body, resp.Status, text.String(), want)
		}
	}
	for path, want := range map[string]int{FilterPath: http.StatusMethodNotAllowed, "/bind": http.StatusNotFound} {
		resp, err := http.Get(srv.URL + path)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %s, want %d", path, resp.Status, want)
		}
	}
	large, err := http.Post(srv.URL+FilterPath, "application/json", strings.NewReader(`{"Pod":"`+strings.Repeat("x", maxBody)))
	must(t, err)
	large.Body.Close()
	if large.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %s", large.Status)
	}
}
