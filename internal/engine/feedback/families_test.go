package feedback

import (
	"fmt"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/kube"
)

// TestFamiliesAreBounded: a label that is new with every run makes no more families than the bound. Those that are used, and those of workloads
// that are still there, stay.
func TestFamiliesAreBounded(t *testing.T) {
	m := New()
	ended := func(uid, family string) *kube.View {
		return &kube.View{Finished: []*kube.Workload{job(t, fmt.Sprintf(`{metadata: {name: %[1]s, namespace: ns, uid: %[1]s, annotations: {lull.dev/family: %[2]s}}, spec: {},
			status: {startTime: "2026-03-01T00:00:00Z", completionTime: "2026-03-01T03:00:00Z", conditions: [{type: Complete, status: "True"}]}}`, uid, family))}}
	}
	of := func(family string) *kube.Workload {
		return job(t, fmt.Sprintf(`{metadata: {name: next-%[1]s, namespace: ns, uid: next-%[1]s, annotations: {lull.dev/family: %[1]s}}}`, family))
	}
	there, used := of("there"), of("used")
	m.Ended(ended("t", "there"), kube.Context{})
	m.Ended(ended("u", "used"), kube.Context{})
	m.record(there)
	const prior = time.Hour
	for i := range 2*mostFamilies + 10 {
		m.Ended(ended(fmt.Sprint("run", i), fmt.Sprint("run", i)), kube.Context{})
		m.Runtime(used, prior, 0)
		m.Forget(&kube.View{Workloads: []*kube.Workload{there}})
	}
	if len(m.families) > mostFamilies+1 {
		t.Errorf("%d families are remembered, want at most %d and that of the workload", len(m.families), mostFamilies)
	}
	for _, w := range []*kube.Workload{there, used, of(fmt.Sprint("run", 2*mostFamilies+9))} {
		if got := m.Runtime(w, prior, 0); got <= prior {
			t.Errorf("%s: its family of 3 h is forgotten: %v is expected", w.Name(), got)
		}
	}
	if got := m.Runtime(of("run0"), prior, 0); got > prior+time.Minute {
		t.Errorf("the family used least recently is remembered: %v is expected", got)
	}
}

// TestFamiliesOfWorkloadsTakeNoRoom: however many families the workloads of a policy have, those of ended work are remembered beside them.
func TestFamiliesOfWorkloadsTakeNoRoom(t *testing.T) {
	m := New()
	var there []*kube.Workload
	for i := range mostFamilies + 1 {
		w := job(t, fmt.Sprintf(`{metadata: {name: w%[1]d, namespace: ns, uid: w%[1]d, annotations: {lull.dev/family: f%[1]d}}}`, i))
		m.record(w)
		there = append(there, w)
	}
	m.Ended(&kube.View{Finished: []*kube.Workload{job(t, `{metadata: {name: n, namespace: ns, uid: n, annotations: {lull.dev/family: night}}, spec: {},
		status: {startTime: "2026-03-01T00:00:00Z", completionTime: "2026-03-01T03:00:00Z", conditions: [{type: Complete, status: "True"}]}}`)}}, kube.Context{})
	for _, w := range there {
		m.Runtime(w, time.Hour, 0)
	}
	m.Forget(&kube.View{Workloads: there})
	next := job(t, `{metadata: {name: next, namespace: ns, uid: next, annotations: {lull.dev/family: night}}}`)
	if got := m.Runtime(next, time.Hour, 0); got <= time.Hour {
		t.Errorf("its family of 3 h is forgotten: %v is expected", got)
	}
}
