package curve

import (
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/plan/vcc"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/track"
	"lull.dev/lull/pkg/workload"
)

// moment is what a method sees at a look.
type moment struct {
	spec    *v1alpha1.CapacityCurveSpec
	now     time.Time // of the zone's series
	slot    time.Duration
	maximum float64
	minimum float64
	outlook carbon.Outlook
	demands []Demand
	history *History
	flex    *carbonflex.Knowledge // nil where nothing has been learned
	// standing are the capacities that were wanted for slots to come, as last stated.
	standing []v1alpha1.CapacityPoint
}

// wish is what a method wants.
type wish struct {
	capacity float64
	ahead    []v1alpha1.CapacityPoint // from the next slot on
	message  string
	cold     bool
	decision *carbonflex.Decision
	state    carbonflex.State
	delayed  float64
}

func (m *moment) start() time.Time { return timegrid.Align(m.now, m.slot) }

// want asks the method.
func (m *moment) want() wish {
	method := &m.spec.Method
	switch {
	case method.CarbonFlex != nil:
		return m.carbonFlex(method.CarbonFlex)
	case method.VCC != nil:
		return m.vcc(method.VCC)
	case method.Planned != nil:
		return m.planned(method.Planned)
	}
	return m.schedule(method.Schedule)
}

// daySlots are the slots of a day.
func (m *moment) daySlots() int { return max(1, int(24*time.Hour/m.slot)) }

// intensity is that of n slots from a time on.
func (m *moment) intensity(from time.Time, n int) ([]float64, bool) {
	grid, err := timegrid.New(from, m.slot, n)
	if err != nil {
		return nil, false
	}
	filled, ok := carbon.FillSlots(m.outlook.Expected, grid)
	return filled.Values, ok
}

// carbonFlex is Algorithm 2 on the state of the policies' workloads. Without cases, or without any
// intensity, all of the maximum is wanted: carbon-agnostic.
func (m *moment) carbonFlex(spec *v1alpha1.CarbonFlexMethod) wish {
	w := wish{capacity: m.maximum, cold: true, decision: &carbonflex.Decision{Capacity: 1, Rho: 0}}
	ci, ok := m.intensity(m.start().Add(-m.slot), m.daySlots()+1)
	if !ok {
		w.message = "no intensity is known: carbon-agnostic"
		return w
	}
	w.state, w.delayed = m.state()
	w.state.Intensity, w.state.Gradient, w.state.Rank = ci[1], ci[1]-ci[0], carbonflex.Rank(ci[1:])
	if m.flex == nil || m.flex.Len() == 0 {
		w.message = "nothing has been learned yet: carbon-agnostic"
		return w
	}
	params := carbonflex.Params{Knowledge: m.flex, Neighbours: int(spec.Neighbours)}
	if spec.Tolerance != nil {
		params.Tolerance = *spec.Tolerance
	}
	if spec.Distance != nil {
		params.Distance = *spec.Distance
	}
	planner, err := carbonflex.New(params)
	if err != nil {
		w.message = err.Error()
		return w
	}
	d := planner.Provision(w.state, w.delayed)
	w.decision, w.cold, w.capacity = &d, false, m.maximum*math.Min(1, math.Max(0, d.Capacity))
	w.message = fmt.Sprintf("%s (%d)", d.Why, len(d.Matches))
	if d.Rho > 0 {
		w.message += fmt.Sprintf("; a worker must add at least %.2f of the throughput of the first", d.Rho)
	}
	return w
}

// state is that of the workloads, and the share of them whose allowed delay was used up before this
// slot.
func (m *moment) state() (carbonflex.State, float64) {
	var in carbonflex.InSystem
	n, delayed := 0.0, 0.0
	for i := range m.demands {
		d := &m.demands[i]
		for j := range d.Tasks {
			t := &d.Tasks[j]
			curve := []float64{1}
			if t.Scaling != nil {
				curve = t.Scaling.Curve
			}
			p := pastOf(t, d.Runtime[j])
			in.Add(p.Delay, curve)
			n++
			if !t.Deadline.IsZero() && !m.now.Before(t.Deadline.Add(m.slot-d.Runtime[j])) {
				delayed++
			}
		}
	}
	return in.State(), delayed / math.Max(1, n)
}

// vcc is the curve of the day, made at its beginning and kept through it.
func (m *moment) vcc(spec *v1alpha1.VCCMethod) wish {
	start := m.start()
	day := start.UTC().Truncate(24 * time.Hour)
	end := day.Add(24 * time.Hour)
	for _, p := range m.standing {
		if p.From.Time.Equal(start) && m.covers(end) {
			return wish{capacity: p.Capacity, ahead: after(m.standing, start), message: "the curve of " + day.Format("2006-01-02")}
		}
	}
	days, quantile := 14, 0.9
	if spec.Days > 0 {
		days = int(spec.Days)
	}
	if spec.Quantile != nil {
		quantile = *spec.Quantile
	}
	need, known := m.dayWork(day, days, quantile)
	if known == 0 {
		return wish{capacity: m.maximum, cold: true, message: "no whole day has been observed yet: carbon-agnostic"}
	}
	n := int(end.Sub(start) / m.slot)
	ci, ok := m.intensity(start, n)
	if !ok || n == 0 {
		return wish{capacity: m.maximum, cold: true, message: "no intensity is known: carbon-agnostic"}
	}
	capacity := make([]float64, n)
	for t := range capacity {
		capacity[t] = m.maximum * m.slot.Hours() // work of a slot, in units times hours
	}
	// What is left of what has come, and what is still to come today.
	ahead := need * float64(n) / float64(m.daySlots())
	left := m.left()
	shares, over := vcc.Day(ci, capacity, left+ahead, m.minimum/m.maximum, 1)
	points := make([]v1alpha1.CapacityPoint, n)
	for t, share := range shares {
		points[t] = v1alpha1.CapacityPoint{From: metav1.NewTime(start.Add(time.Duration(t) * m.slot).UTC()), Capacity: rounded(share * m.maximum)}
	}
	message := fmt.Sprintf("curve of %s: %.4g %s hours of work left, %.4g more expected, from the work of %d earlier days", day.Format("2006-01-02"), left, m.spec.Resource, ahead, known)
	if over > 0 {
		message += fmt.Sprintf("; %.4g do not fit", over)
	}
	return wish{capacity: points[0].Capacity, ahead: points[1:], message: message}
}

// covers says that the standing curve goes on to a time.
func (m *moment) covers(end time.Time) bool {
	last := m.standing[len(m.standing)-1]
	return !last.From.Add(m.slot).Before(end)
}

// after are the points after a time.
func after(points []v1alpha1.CapacityPoint, at time.Time) []v1alpha1.CapacityPoint {
	return slices.DeleteFunc(slices.Clone(points), func(p v1alpha1.CapacityPoint) bool { return !p.From.After(at) })
}

// dayWork is the quantile of the work that came on the days before a day, as far as each was seen
// whole; known is how many were.
func (m *moment) dayWork(day time.Time, days int, quantile float64) (work float64, known int) {
	if len(m.history.past) == 0 {
		return 0, 0
	}
	first := m.history.past[0].Submitted
	var all []float64
	for i := 1; i <= days; i++ {
		from := day.AddDate(0, 0, -i)
		if from.Before(first.Truncate(24 * time.Hour)) {
			break
		}
		all = append(all, m.history.work(m.spec.Resource, from, from.AddDate(0, 0, 1)))
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(math.Ceil(quantile*float64(len(all)))-1))], len(all)
}

// left is the work that is left of what has come, in units of the resource times hours.
func (m *moment) left() float64 {
	sum := 0.0
	for i := range m.demands {
		for j := range m.demands[i].Tasks {
			t := &m.demands[i].Tasks[j]
			sum += t.Remaining.Hours() * use(t, m.spec.Resource, 1)
		}
	}
	return sum
}

// planned is what the plans of the policies use, with a reserve.
func (m *moment) planned(spec *v1alpha1.PlannedMethod) wish {
	reserve := 0.1
	if spec.Reserve != nil {
		reserve = *spec.Reserve
	}
	const most = 168
	sum := make([]float64, 1)
	add := func(from, to time.Time, amount float64) {
		for t := max(0, int(from.Sub(m.start())/m.slot)); t < most && m.start().Add(time.Duration(t)*m.slot).Before(to); t++ {
			for len(sum) <= t {
				sum = append(sum, 0)
			}
			sum[t] += amount
		}
	}
	for i := range m.demands {
		d := &m.demands[i]
		for j := range d.Tasks {
			t := &d.Tasks[j]
			for _, ph := range d.Phases[j] {
				add(ph.From, ph.To, use(t, m.spec.Resource, ph.Workers))
			}
			if len(d.Phases[j]) == 0 && t.State == decide.Running {
				add(m.now, m.now.Add(max(m.slot, t.Remaining)), use(t, m.spec.Resource, t.Workers))
			}
		}
	}
	w := wish{capacity: sum[0] * (1 + reserve), message: "the planned capacity, and a reserve"}
	for t := 1; t < len(sum); t++ {
		w.ahead = append(w.ahead, v1alpha1.CapacityPoint{From: metav1.NewTime(m.start().Add(time.Duration(t) * m.slot).UTC()), Capacity: rounded(sum[t] * (1 + reserve))})
	}
	return w
}

// schedule is the largest capacity of the windows that a slot touches; the minimum outside of them.
func (m *moment) schedule(windows []v1alpha1.CapacityWindow) wish {
	at := func(t time.Time) float64 {
		c := m.minimum
		for i := range windows {
			if w := &windows[i]; contains(w, t) {
				c = math.Max(c, kube.AmountOf(w.Capacity))
			}
		}
		return c
	}
	w := wish{capacity: at(m.now), message: "by the schedule"}
	for t := 1; t <= m.daySlots() && t <= 168; t++ {
		from := m.start().Add(time.Duration(t) * m.slot)
		w.ahead = append(w.ahead, v1alpha1.CapacityPoint{From: metav1.NewTime(from.UTC()), Capacity: at(from)})
	}
	return w
}

// contains says whether a time of the day (UTC) is in a window.
func contains(w *v1alpha1.CapacityWindow, t time.Time) bool {
	clock := t.UTC().Format("15:04")
	if w.From < w.To {
		return w.From <= clock && clock < w.To
	}
	return w.From <= clock || clock < w.To
}

// use is what a task uses of a resource with some workers; those of one that does not scale are in its
// request.
func use(t *decide.Task, resource string, workers int) float64 {
	if t.Scaling == nil {
		return t.Request[resource]
	}
	return t.Request[resource] * float64(max(workers, t.Scaling.MinWorkers))
}

// floor is what may not wait: what runs and cannot be paused, what comes to its latest start within
// the slot or until the capacity can be raised again, at the scale that it needs by then, and what others need.
func (m *moment) floor(margin time.Duration) float64 {
	sum := 0.0
	for i := range m.demands {
		sum += m.demands[i].Beside
		next := m.start().Add(m.slot)
		if m.demands[i].Until.After(next) {
			next = m.demands[i].Until
		}
		for j := range m.demands[i].Tasks {
			t := &m.demands[i].Tasks[j]
			if t.State == decide.Running && t.Kind == workload.Rigid || t.Deadline.IsZero() {
				sum += use(t, m.spec.Resource, max(1, t.Workers))
				continue
			}
			if n := track.Needs(t, next, margin); n > 0 {
				sum += use(t, m.spec.Resource, n)
			}
		}
	}
	return sum
}

func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }
