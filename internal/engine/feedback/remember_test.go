package feedback

import (
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/kube"
)

// TestRememberedRunCountsOnce: run times that an earlier controller recorded are those of their family. A workload of them that is still in the
// cluster does not count again, nor does one that was learned before the ledger could be read.
func TestRememberedRunCountsOnce(t *testing.T) {
	ended := func(uid string, hours int) *kube.View {
		return &kube.View{Finished: []*kube.Workload{job(t, fmt.Sprintf(`{metadata: {name: %s, namespace: ns, uid: %s, annotations: {lull.dev/family: f}}, spec: {},
			status: {startTime: "2026-03-01T00:00:00Z", completionTime: "2026-03-01T%02d:00:00Z", conditions: [{type: Complete, status: "True"}]}}`, uid, uid, hours))}}
	}
	m := New()
	next := job(t, `{metadata: {name: next, namespace: ns, uid: next, annotations: {lull.dev/family: f}}}`)
	family, length := Ran(ended("a", 3).Finished[0], kube.Context{})
	if family != "ns/f" || length != 3*time.Hour {
		t.Fatalf("%q ran for %v", family, length)
	}
	m.Ended(ended("a", 3), kube.Context{})
	if m.Remembers() {
		t.Error("it remembers what nobody has told")
	}
	m.Remember([]ledger.RunLength{{Workload: "a", Family: "ns/f", Length: 3 * time.Hour}, {Workload: "b", Family: "ns/f", Length: time.Hour}, {Workload: "c", Family: "ns/g", Length: 9 * time.Hour}})
	m.Ended(ended("b", 1), kube.Context{})
	// 3 h and 1 h; with one of them twice, the mean would differ.
	if got, want := m.Runtime(next, 2*time.Hour, 0), 2*time.Hour; !m.Remembers() || (got-want).Abs() > time.Minute {
		t.Errorf("expected is %v, want %v", got, want)
	}
}
