package meter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/power"
)

func vector(series ...string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
}

func series(labels, value string) string {
	return fmt.Sprintf(`{"metric":{%s},"value":[1767225600.5,"%s"]}`, labels, value)
}

func job(t *testing.T, name, query string) *kube.Workload {
	t.Helper()
	named, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	return kube.NewWorkload(named[0], &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": name, "namespace": "ns", "uid": name, "annotations": map[string]any{"lull.dev/progress-query": query}},
	}})
}

// TestMeterReadsThreeGenerationsOfExporters: power of pods from three generations of exporters, progress by query, what
// cannot be read is left out, and what was read lasts while Prometheus is down, power not
// for ever.
func TestMeterReadsThreeGenerationsOfExporters(t *testing.T) {
	var down atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/prom/api/v1/query" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		switch q := r.URL.Query().Get("query"); {
		case strings.Contains(q, "kepler_pod_cpu_watts"):
			fmt.Fprint(w, vector(series(`"pod_namespace":"ns","pod_name":"a","zone":"package"`, "40"), series(`"pod_namespace":"ns","pod_name":"odd","zone":"package"`, "NaN"), series(`"pod_name":"nowhere","zone":"package"`, "7")))
		case strings.Contains(q, "kepler_container_package"):
			fmt.Fprint(w, vector(series(`"container_namespace":"ns","pod_name":"a","zone":"package"`, "41"), series(`"container_namespace":"ns","pod_name":"b","zone":"package"`, "30")))
		case strings.Contains(q, "kepler"):
			fmt.Fprint(w, vector())
		case strings.Contains(q, "DCGM"):
			fmt.Fprint(w, vector(series(`"UUID":"GPU-1","exported_namespace":"ns","exported_pod":"a","namespace":"gpu","pod":"dcgm-1"`, "200"), series(`"UUID":"GPU-2","exported_namespace":"ns","exported_pod":"a","namespace":"gpu","pod":"dcgm-2"`, "100")))
		case q == `done{ns="ns",job="good"}`:
			fmt.Fprint(w, vector(series(``, "0.25")))
		case q == "two":
			fmt.Fprint(w, vector(series(``, "0.25"), series(``, "0.5")))
		case q == "much":
			fmt.Fprint(w, vector(series(``, "42")))
		default:
			t.Errorf("query %q", q)
		}
	}))
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := testclock.NewFakeClock(time.Now())
	m := New(server.URL+"/prom/", token, time.Minute, &fetch.Client{Cache: fetch.NewCache("")}, clock)
	policy := types.NamespacedName{Namespace: "ns", Name: "p"}
	m.Want(policy, []*kube.Workload{job(t, "good", `done{ns="$namespace",job="$name"}`), job(t, "two", "two"), job(t, "much", "much"), job(t, "none", "")})
	ctx := context.Background()
	m.ask(ctx)

	for pod, want := range map[string]kube.PodPower{
		"a":   {CPU: 40, CPUSource: "kepler", GPU: 300, GPUSource: "dcgm"},
		"b":   {CPU: 30, CPUSource: "kepler"},
		"odd": {}, "nowhere": {},
	} {
		if got := m.Power("ns", pod); got != want {
			t.Errorf("pod %s: %+v, want %+v", pod, got, want)
		}
	}
	measured, err := m.Measure(ctx, "ns", []string{"a", "b", "odd"})
	if watts, source := kube.Drawn(measured, nil, power.PerUnit{PUE: 1}); err != nil || watts != 35*3+300*3 || source != "kepler+dcgm" {
		t.Errorf("measured %v W by %s, %v", watts, source, err)
	}
	r, ok := m.Progress("good")
	if !ok || r.Share != 0.25 || !r.At.Equal(time.UnixMilli(1767225600500)) {
		t.Errorf("progress %+v %v", r, ok)
	}
	for _, uid := range []types.UID{"two", "much", "none"} {
		if r, ok := m.Progress(uid); ok {
			t.Errorf("%s: progress %+v", uid, r)
		}
	}
	if !strings.Contains(m.told["two"], "2 series") || !strings.Contains(m.told["much"], "42") {
		t.Errorf("told %v", m.told)
	}

	down.Store(true)
	m.ask(ctx)
	if _, ok := m.Progress("good"); !ok || m.Power("ns", "a").CPU != 40 {
		t.Error("what was read is gone with Prometheus")
	}
	clock.Step(stale + time.Second)
	if got := m.Power("ns", "a"); got != (kube.PodPower{}) {
		t.Errorf("stale power %+v", got)
	}
	m.Want(policy, nil)
	if _, ok := m.Progress("good"); ok || len(m.told) > 1 {
		t.Errorf("a workload that is gone is remembered: %v", m.told)
	}
}

// TestQueriesForProgressAreBoundedByNamespace: a namespace with many workloads keeps no other from being asked about, and all namespaces together have a bound.
func TestQueriesForProgressAreBoundedByNamespace(t *testing.T) {
	m := New("http://127.0.0.1:1", "", time.Second, nil, testclock.NewFakeClock(time.Unix(0, 0)))
	fill := func(namespace string, policies, workloads int) {
		for p := range policies {
			of := map[types.UID]string{}
			for i := range workloads {
				of[types.UID(fmt.Sprintf("%s-%d-%04d", namespace, p, i))] = "q"
			}
			m.wanted[types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("p", p)}] = of
		}
	}
	fill("a-greedy", 3, 900)
	fill("small", 1, 5)
	count := func() (by map[string]int, all int) {
		by = map[string]int{}
		queries, uids := m.queries(context.Background())
		for _, uid := range uids {
			if queries[uid] != "q" {
				t.Errorf("%s: query %q", uid, queries[uid])
			}
			by[uidNamespace(uid)]++
		}
		return by, len(uids)
	}
	if by, _ := count(); by["a-greedy"] != mostOfNamespace || by["small"] != 5 {
		t.Errorf("asked about %v; want %d of a-greedy and 5 of small", by, mostOfNamespace)
	}
	asked := map[types.UID]bool{}
	for range 14 { // 2,700 workloads, 200 at a time
		_, uids := m.queries(context.Background())
		for _, uid := range uids {
			asked[uid] = true
		}
	}
	if len(asked) != 2705 {
		t.Errorf("asked about %d workloads in turn, want all 2705", len(asked))
	}
	if text := m.told["progress of a-greedy"]; !strings.Contains(text, "2700 workloads of namespace a-greedy") {
		t.Errorf("told %q", text)
	}
	for i := range 15 {
		fill(fmt.Sprint("n", i), 1, 300)
	}
	if _, all := count(); all != mostQueries {
		t.Errorf("asked about %d, want %d", all, mostQueries)
	}
	delete(m.wanted, types.NamespacedName{Namespace: "a-greedy", Name: "p0"})
	fill("a-greedy", 3, 10)
	count()
	if text := m.told["progress of a-greedy"]; text != "" {
		t.Errorf("a namespace within its bound: told %q", text)
	}
}

// TestProblemsGoWithTheirNamespace: what was logged of namespaces and workloads that are gone is kept no longer.
func TestProblemsGoWithTheirNamespace(t *testing.T) {
	m := New("http://127.0.0.1:1", "", time.Second, nil, testclock.NewFakeClock(time.Unix(0, 0)))
	for n := range 50 {
		of := map[types.UID]string{}
		for i := range mostOfNamespace + 1 {
			of[types.UID(fmt.Sprintf("%d-%d", n, i))] = "q"
		}
		policy := types.NamespacedName{Namespace: fmt.Sprint("n", n), Name: "p"}
		m.wanted[policy] = of
		m.queries(t.Context())
		if m.told["progress of "+policy.Namespace] == "" {
			t.Errorf("nothing is said of namespace %s", policy.Namespace)
		}
		m.Want(policy, nil)
		m.tell(t.Context(), fmt.Sprintf("%d-0", n), errors.New("the answer to a query that was under way"))
	}
	m.tell(t.Context(), "power", errors.New("no answer"))
	if m.queries(t.Context()); len(m.told) != 1 || m.told["power"] == "" {
		t.Errorf("%d problems are kept: %v", len(m.told), m.told)
	}
}

// uidNamespace is the namespace in a UID that a test made.
func uidNamespace(uid types.UID) string {
	parts := strings.Split(string(uid), "-")
	return strings.Join(parts[:len(parts)-2], "-")
}
