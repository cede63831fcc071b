package curve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

var t0 = time.Date(2026, 3, 2, 10, 20, 0, 0, time.UTC)

// daily is a series whose intensity at hour h of each day is 100 + 10 h.
func daily(t testing.TB) carbon.Outlook {
	t.Helper()
	var samples []carbon.Sample
	for h := -24 * 20; h < 24*4; h++ {
		from := t0.Truncate(24 * time.Hour).Add(time.Duration(h) * time.Hour)
		samples = append(samples, carbon.Sample{From: from, To: from.Add(time.Hour), Value: units.CarbonIntensity(100 + 10*from.Hour())})
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "x"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	return carbon.Outlook{Expected: s}
}

func rigid(id string, state decide.State, cpu float64, left, slack time.Duration) decide.Task {
	return decide.Task{ID: id, Submitted: t0.Add(-time.Hour), Deadline: t0.Add(left + slack), Remaining: left, Kind: workload.Rigid, State: state, Request: map[string]float64{"cpu": cpu}}
}

func elastic(id string, state decide.State, workers int, left, slack time.Duration) decide.Task {
	t := rigid(id, state, 2, left, slack)
	t.Kind, t.Workers = workload.Elastic, workers
	t.Scaling = &decide.Scaling{MinWorkers: 1, MaxWorkers: 4, Curve: []float64{1, 1, 0.5, 0.1}}
	return t
}

func demandOf(tasks ...decide.Task) Demand {
	d := Demand{Tasks: tasks, Runtime: make([]time.Duration, len(tasks)), Phases: make([][]decide.Phase, len(tasks)), Power: power.PerUnit{Watts: map[string]float64{"cpu": 5}, PUE: 1}}
	for i := range tasks {
		d.Runtime[i] = tasks[i].Remaining
	}
	return d
}

func at(t testing.TB, method v1alpha1.CapacityMethod, demands ...Demand) *moment {
	return &moment{
		spec: &v1alpha1.CapacityCurveSpec{Resource: "cpu", Maximum: v1alpha1.Amount("100"), Method: method},
		now:  t0, slot: time.Hour, maximum: 100, minimum: 10, outlook: daily(t), demands: demands, history: &History{},
	}
}

func TestSchedule(t *testing.T) {
	m := at(t, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{
		{From: "22:00", To: "06:00", Capacity: v1alpha1.Amount("80")},
		{From: "05:00", To: "11:00", Capacity: v1alpha1.Amount("30")},
		{From: "23:00", To: "24:00", Capacity: v1alpha1.Amount("90")},
	}})
	w := m.want()
	if w.capacity != 30 || len(w.ahead) != 24 {
		t.Fatalf("now %v, %d hours ahead", w.capacity, len(w.ahead))
	}
	want := map[int]float64{11: 10, 21: 10, 22: 80, 23: 90, 0: 80, 5: 80, 6: 30, 10: 30}
	for _, p := range w.ahead {
		if v, stated := want[p.From.Hour()]; stated && v != p.Capacity {
			t.Errorf("at %v: %v, want %v", p.From, p.Capacity, v)
		}
	}
}

func TestPlanned(t *testing.T) {
	d := demandOf(rigid("a", decide.Running, 5, 90*time.Minute, time.Hour), elastic("b", decide.Waiting, 0, 2*time.Hour, 9*time.Hour))
	d.Phases[1] = []decide.Phase{{From: t0.Truncate(time.Hour).Add(2 * time.Hour), To: t0.Truncate(time.Hour).Add(3 * time.Hour), Workers: 3}}
	reserve := 0.5
	w := at(t, v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{Reserve: &reserve}}, d).want()
	// The first runs until 11:50, the other has 3 workers of 2 CPUs at 12.
	if w.capacity != 7.5 || len(w.ahead) != 2 || w.ahead[0].Capacity != 7.5 || w.ahead[1].Capacity != 9 {
		t.Errorf("now %v, ahead %v; want 7.5, then 7.5 and 9", w.capacity, w.ahead)
	}
}

// TestVCCKeepsTheDaysWork: a day's work goes into its cleanest hours, and the curve of a day stands.
func TestVCCKeepsTheDaysWork(t *testing.T) {
	m := at(t, v1alpha1.CapacityMethod{VCC: &v1alpha1.VCCMethod{}})
	if w := m.want(); !w.cold || w.capacity != 100 {
		t.Fatalf("without history: %+v", w)
	}
	// 480 CPU hours a day came on each of three days.
	for day := 1; day <= 3; day++ {
		task := rigid(fmt.Sprint(day), decide.Waiting, 48, 10*time.Hour, time.Hour)
		task.Submitted = t0.AddDate(0, 0, -day)
		m.history.see(&task, 10*time.Hour)
	}
	w := m.want()
	if w.cold {
		t.Fatal(w.message)
	}
	sum := w.capacity
	for _, p := range w.ahead {
		sum += p.Capacity
	}
	// 14 of 24 hours are left: 280 CPU hours are to come, half of which fit the 10 CPUs that are always
	// there. Intensity rises with the hour: the rest is done at once.
	if math.Abs(sum-280) > 0.01 || w.capacity != 100 || w.ahead[0].Capacity != 60 || w.ahead[1].Capacity != 10 {
		t.Errorf("%v now, then %v: %v in all", w.capacity, w.ahead, sum)
	}
	m.standing = append([]v1alpha1.CapacityPoint{{From: metav1.NewTime(m.start()), Capacity: w.capacity}}, w.ahead...)
	m.now = m.now.Add(3 * time.Hour)
	m.history.past = nil // the curve stands, whatever is known by now
	if later := m.want(); later.capacity != w.ahead[2].Capacity || len(later.ahead) != len(w.ahead)-3 {
		t.Errorf("three hours later %+v, want %v", later, w.ahead[2])
	}
	m.now = m.now.Add(24 * time.Hour)
	if next := m.want(); !next.cold {
		t.Errorf("the curve of yesterday stands: %+v", next)
	}
}

func TestCarbonFlex(t *testing.T) {
	m := at(t, v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{Neighbours: 2}}, demandOf(elastic("a", decide.Running, 2, time.Hour, 30*time.Hour), rigid("b", decide.Waiting, 1, 2*time.Hour, -time.Hour)))
	if w := m.want(); !w.cold || w.capacity != 100 {
		t.Fatalf("cold: %+v", w)
	}
	m.flex = carbonflex.NewKnowledge(0)
	if err := m.flex.Add(
		carbonflex.Case{State: carbonflex.State{Intensity: 200}, Capacity: 0.2, Rho: 0.4, At: t0},
		carbonflex.Case{State: carbonflex.State{Intensity: 210}, Capacity: 0.6, Rho: 0.8, At: t0},
		carbonflex.Case{State: carbonflex.State{Intensity: 900}, Capacity: 0, Rho: 1, At: t0},
	); err != nil {
		t.Fatal(err)
	}
	w := m.want()
	// At 10:20 the intensity is 200, 10 more than an hour ago. 13 of the 23 hours after it are dirtier,
	// 10 cleaner. One of two workloads has no slack left: the most of the two cases.
	if w.state.Intensity != 200 || w.state.Gradient != 10 || math.Abs(w.state.Rank-10.0/23) > 1e-9 || w.state.Queue != [3]float64{1, 0, 1} || w.delayed != 0.5 {
		t.Errorf("state %+v, %v delayed", w.state, w.delayed)
	}
	if w.cold || math.Abs(w.capacity-60) > 1e-9 || math.Abs(w.decision.Rho-0.6) > 1e-9 {
		t.Errorf("capacity %v, decision %+v; want 60 and 0.6", w.capacity, w.decision)
	}
}

func TestFloor(t *testing.T) {
	margin := 5 * time.Minute
	for name, c := range map[string]struct {
		task decide.Task
		want float64
	}{
		"may wait":                      {rigid("a", decide.Waiting, 3, time.Hour, 5*time.Hour), 0},
		"must begin within the hour":    {rigid("a", decide.Waiting, 3, time.Hour, 30*time.Minute), 3},
		"runs and cannot be paused":     {rigid("a", decide.Running, 3, time.Hour, 5*time.Hour), 3},
		"elastic, may still catch up":   {elastic("a", decide.Waiting, 0, 4*time.Hour, time.Hour), 0},
		"elastic, must begin":           {elastic("a", decide.Waiting, 0, 4*time.Hour, -2*time.Hour), 2},
		"elastic, as fast as it can":    {elastic("a", decide.Waiting, 0, 2*time.Hour, -100*time.Minute), 8},
		"elastic that runs, with slack": {elastic("a", decide.Running, 4, 4*time.Hour, 9*time.Hour), 0},
	} {
		if got := at(t, v1alpha1.CapacityMethod{}, demandOf(c.task)).floor(margin); got != c.want {
			t.Errorf("%s: floor %v, want %v", name, got, c.want)
		}
	}
	free := rigid("a", decide.Waiting, 3, time.Hour, 0)
	free.Deadline = time.Time{}
	if got := at(t, v1alpha1.CapacityMethod{}, demandOf(free)).floor(margin); got != 3 {
		t.Errorf("without a deadline it may not wait: floor %v, want 3", got)
	}
}

func TestNowCapacity(t *testing.T) {
	n := Now{Start: t0.Truncate(time.Hour), Slot: time.Hour, Shares: []float64{0.5, 0.2}, Totals: map[string]float64{"cpu": 40, "memory": 10}}
	got := n.Capacity(t0.Truncate(30*time.Minute).Add(-30*time.Minute), 30*time.Minute)
	if want := map[string][]float64{"cpu": {20, 20, 20, 8, 8, 40}, "memory": {5, 5, 5, 2, 2, 10}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := n.Capacity(t0.Add(9*time.Hour), time.Hour); !reflect.DeepEqual(got["cpu"], []float64{40}) {
		t.Errorf("beyond what is known: %v", got)
	}
}

func TestBeside(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	if n := (&Now{Nodes: map[string]bool{"n": true}}); !n.Beside(pod) {
		t.Error("a pod on its nodes uses nothing of them")
	}
	if n := (&Now{}); n.Beside(pod) {
		t.Error("a pod of others uses a quota")
	}
}

func TestReplans(t *testing.T) {
	waiting, running, victim, fixed := rigid("w", decide.Waiting, 1, time.Hour, 0), elastic("r", decide.Running, 1, time.Hour, 0), elastic("v", decide.Running, 1, time.Hour, 0), rigid("f", decide.Running, 1, time.Hour, 0)
	plain, flex := Now{Victims: map[string]bool{"v": true}}, Now{Planner: carbonflex.Planner{}}
	for _, c := range []struct {
		now  Now
		task decide.Task
		want bool
	}{{plain, waiting, true}, {plain, running, false}, {plain, victim, true}, {flex, running, true}, {flex, fixed, false}} {
		if got := c.now.Replans(&c.task); got != c.want {
			t.Errorf("%s: planned anew %v", c.task.ID, got)
		}
	}
}

func TestStore(t *testing.T) {
	s := NewStore()
	p, q := types.NamespacedName{Namespace: "a", Name: "p"}, types.NamespacedName{Namespace: "a", Name: "q"}
	if refused := s.bind("one", []types.NamespacedName{p, q}); refused != nil {
		t.Fatal(refused)
	}
	if refused := s.bind("two", []types.NamespacedName{q}); !reflect.DeepEqual(refused, []types.NamespacedName{q}) {
		t.Errorf("refused %v, want %v", refused, q)
	}
	s.set("one", &Now{Revision: "one"})
	if now, ok := s.Of(q); !ok || now.Revision != "one" {
		t.Errorf("%v, %v", now, ok)
	}
	s.bind("one", []types.NamespacedName{p})
	if _, ok := s.Of(q); ok {
		t.Error("a policy that was let go is bounded")
	}
	if refused := s.bind("two", []types.NamespacedName{q}); refused != nil {
		t.Errorf("refused %v", refused)
	}
	if _, missing := s.demand([]types.NamespacedName{p}); !missing {
		t.Error("a policy that has not been decided on is not missed")
	}
	s.Report(p, demandOf())
	if d, missing := s.demand([]types.NamespacedName{p}); missing || len(d) != 1 {
		t.Errorf("%v, missing %v", d, missing)
	}
	s.set("one", nil)
	if _, ok := s.Of(p); ok {
		t.Error("a curve that bounds nothing bounds")
	}
}

func TestVictimsKeepDeadlines(t *testing.T) {
	safe, due := elastic("safe", decide.Running, 4, time.Hour, 9*time.Hour), elastic("due", decide.Running, 4, 4*time.Hour, -2*time.Hour)
	fixed := rigid("fixed", decide.Running, 8, time.Hour, 9*time.Hour)
	got := victims([]Demand{demandOf(fixed, due, safe)}, "cpu", 12, t0.Add(time.Hour))
	if !reflect.DeepEqual(got, map[string]bool{"safe": true}) {
		t.Errorf("%v make room; want safe alone", got)
	}
	// What has no node uses nothing, so that pausing it makes no room.
	safe.Unscheduled = true
	all := []Demand{demandOf(fixed, due, safe)}
	if got := victims(all, "cpu", 12, t0.Add(time.Hour)); got["safe"] {
		t.Error("what has no node is to make room")
	}
	if running, waiting := used(all, "cpu"); running != 16 || waiting == 0 {
		t.Errorf("%v CPUs are used, %v waited for; want 16 used", running, waiting)
	}
}

func TestHistory(t *testing.T) {
	var h History
	task := elastic("a", decide.Waiting, 0, 3*time.Hour, 10*time.Hour)
	h.see(&task, 3*time.Hour)
	h.see(&task, 3*time.Hour)
	if len(h.past) != 1 || h.past[0].Delay != 11*time.Hour {
		t.Fatalf("%+v", h.past)
	}
	h.changed = false
	h.see(&task, 4*time.Hour)
	if len(h.past) != 1 || h.past[0].Hours != 4 || !h.changed {
		t.Errorf("an estimate that was corrected: %+v", h.past)
	}
	old := rigid("old", decide.Waiting, 1, time.Hour, time.Hour)
	old.Submitted = t0.AddDate(0, 0, -9)
	h.see(&old, time.Hour)
	h.forget(t0.AddDate(0, 0, -5))
	if len(h.past) != 1 || h.past[0].ID != "a" {
		t.Errorf("after forgetting %+v", h.past)
	}
	text, err := pack(stored{Past: h.past, Jobs: 7, LearnedAt: t0})
	if err != nil {
		t.Fatal(err)
	}
	if back, err := unpack(text); err != nil || !reflect.DeepEqual(back.Past, h.past) || back.Jobs != 7 || !back.LearnedAt.Equal(t0) {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestNewestIsKeptOfMoreThanFits: the newest is kept of more than fits.
func TestNewestIsKeptOfMoreThanFits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var past []Past
	for i := range 4000 {
		task := elastic(fmt.Sprintf("%x-%x", rng.Uint64(), rng.Uint64()), decide.Waiting, 0, time.Hour, time.Hour)
		task.Submitted = t0.Add(time.Duration(i) * time.Minute)
		past = append(past, pastOf(&task, time.Hour))
	}
	const most = 60_000
	text, err := packWithin(stored{Past: past}, most)
	if err != nil || len(text) > most {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	v, err := unpack(text)
	if err != nil || len(v.Past) < 1000 || v.Past[len(v.Past)-1].ID != past[len(past)-1].ID {
		t.Errorf("%d of %d left, %v", len(v.Past), len(past), err)
	}
	all, err := packWithin(stored{Past: past}, maxPacked)
	if v, _ = unpack(all); err != nil || len(v.Past) != len(past) {
		t.Errorf("%d of %d left, %v", len(v.Past), len(past), err)
	}
}

// TestArrivalsBecomeCases: what came becomes cases of the oracle.
func TestArrivalsBecomeCases(t *testing.T) {
	var h History
	for i := range 40 {
		task := elastic(fmt.Sprint(i), decide.Waiting, 0, 3*time.Hour, 20*time.Hour)
		task.Submitted = t0.Add(-time.Duration(i) * 2 * time.Hour)
		task.Deadline = task.Submitted.Add(24 * time.Hour)
		h.see(&task, 3*time.Hour)
	}
	m := at(t, v1alpha1.CapacityMethod{})
	p, ok := h.problem(t0.AddDate(0, 0, -3), t0, time.Hour, "cpu", 16, power.PerUnit{Watts: map[string]float64{"cpu": 5}, PUE: 1}, func(g timegrid.Grid) ([]float64, bool) {
		return m.intensity(g.Start, g.N)
	})
	if !ok {
		t.Fatal("no problem")
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(p.Jobs) != 36 { // of three days, every two hours
		t.Errorf("%d jobs", len(p.Jobs))
	}
	cases, err := carbonflex.Learn(t.Context(), p, 6)
	if err != nil || len(cases) != 2*p.Grid.N {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	var night, day float64
	for _, c := range cases[:72] {
		if c.At.Hour() < 12 {
			night += c.Capacity
		} else {
			day += c.Capacity
		}
	}
	if !(night > day) { // the cleaner half
		t.Errorf("capacity in the cleaner half of days %v, else %v", night, day)
	}
}

func FuzzUnpack(f *testing.F) {
	text, err := pack(stored{Past: []Past{pastOf(&decide.Task{ID: "a", Kind: workload.Rigid, Request: map[string]float64{"cpu": 1}}, time.Hour)}, Cases: []carbonflex.Case{{At: t0}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := unpack(text)
		if err != nil {
			return
		}
		for _, p := range v.Past {
			if p.MinWorkers < 1 || len(p.Curve) == 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}

const clusterQueue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: batch}
spec:
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: large
      resources:
      - {name: cpu, nominalQuota: "60"}
      - {name: memory, nominalQuota: 100Gi}
    - name: small
      resources:
      - {name: cpu, nominalQuota: 20}
      - {name: memory, nominalQuota: 10Gi}
`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestQuotas(t *testing.T) {
	u := object(t, clusterQueue)
	e, err := nominalQuotas(u)
	if err != nil || len(e) != 4 {
		t.Fatalf("%v, %v", e, err)
	}
	m := mark{Curve: "c", Set: map[string]string{}}
	for at, x := range e {
		x.put(quantityOf(x.resource, number(x.get())/3))
		m.Set[at] = x.get()
	}
	if err := m.unchanged(e); err != nil {
		t.Error(err)
	}
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`nominalQuota: "20"`, "nominalQuota: 6667m", `nominalQuota: "35791394134"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	e["large/cpu"].put("50")
	if err := m.unchanged(e); err == nil || !strings.Contains(err.Error(), "large/cpu is 50, set was 20") {
		t.Errorf("edited: %v", err)
	}
	if _, err := nominalQuotas(object(t, "spec: {}")); err != nil {
		t.Errorf("without quotas: %v", err)
	}
	for _, odd := range []string{"spec: {resourceGroups: 3}", "spec: {resourceGroups: [3, {flavors: 3}, {flavors: [3, {resources: [3]}]}]}", "spec: 3"} {
		if e, _ := nominalQuotas(object(t, odd)); len(e) != 0 {
			t.Errorf("%s: %v", odd, e)
		}
	}
}

func TestLimits(t *testing.T) {
	u := object(t, "kind: NodePool\nspec: {limits: {memory: 10Gi}}")
	e, err := limitsOf("cpu")(u)
	if err != nil {
		t.Fatal(err)
	}
	if e["cpu"].get() != "" || e["memory"].get() != "10Gi" {
		t.Errorf("cpu %q, memory %q", e["cpu"].get(), e["memory"].get())
	}
	e["cpu"].put("8")
	e["memory"].put("")
	if got, _, _ := unstructured.NestedMap(u.Object, "spec", "limits"); !reflect.DeepEqual(got, map[string]any{"cpu": "8"}) {
		t.Errorf("limits %v", got)
	}
	e["cpu"].put("")
	if _, there, _ := unstructured.NestedMap(u.Object, "spec", "limits"); there {
		t.Error("limits that are empty are not limits that are absent")
	}
}

func TestQuantityOf(t *testing.T) {
	for _, c := range []struct {
		resource string
		amount   float64
		want     string
	}{{"cpu", 2.5, "2500m"}, {"cpu", 1.0 / 3, "334m"}, {"nvidia.com/gpu", 2.1, "3"}, {"nvidia.com/gpu", 2, "2"}, {"memory", 1024.5, "1025"}} {
		if got := quantityOf(c.resource, c.amount); got != c.want {
			t.Errorf("%v of %s: %s, want %s", c.amount, c.resource, got, c.want)
		}
	}
}

func BenchmarkWant(b *testing.B) {
	tasks := make([]decide.Task, 1000)
	for i := range tasks {
		tasks[i] = elastic(fmt.Sprint(i), decide.Running, 2, time.Hour, 30*time.Hour)
	}
	m := at(b, v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}, demandOf(tasks...))
	m.flex = carbonflex.NewKnowledge(0)
	for i := range 1344 {
		if err := m.flex.Add(carbonflex.Case{State: carbonflex.State{Intensity: float64(100 + i%300), Rank: float64(i%24) / 24}, Capacity: float64(i%10) / 10, At: t0.Add(time.Duration(i) * time.Hour)}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		m.want()
	}
}
