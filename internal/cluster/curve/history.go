package curve

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// Past is a workload that has come, as a method learns from it. Times are those of the zone's
// series.
type Past struct {
	ID        string        `json:"id"`
	Kind      workload.Kind `json:"kind"`
	Submitted time.Time     `json:"at"`
	// Delay is by how much its start was allowed to wait, Hours its run time at MinWorkers.
	Delay   time.Duration      `json:"delay"`
	Hours   float64            `json:"hours"`
	Request map[string]float64 `json:"request"` // of one worker
	// MinWorkers, and the marginal throughput of it and of each further one.
	MinWorkers int       `json:"min"`
	Curve      []float64 `json:"curve"`
	Watts      []float64 `json:"watts,omitempty"`
}

// maxPast bounds what is remembered.
const maxPast = 20_000

// pastOf is a task as a method learns from it; runtime is that of all of it at its least scale.
func pastOf(t *decide.Task, runtime time.Duration) Past {
	p := Past{ID: t.ID, Kind: t.Kind, Submitted: t.Submitted.UTC(), Hours: runtime.Hours(), Request: t.Request, MinWorkers: 1, Curve: []float64{1}}
	if t.Scaling != nil {
		p.MinWorkers, p.Curve, p.Watts = t.Scaling.MinWorkers, t.Scaling.Curve, t.Scaling.Watts
	}
	if !t.Deadline.IsZero() {
		p.Delay = max(0, t.Deadline.Sub(t.Submitted)-runtime)
	}
	return p
}

// power is what it draws at each scale, by all resources that it asks for: the one that a curve sets may draw none itself, such as a licence.
func (p *Past) power(watts map[string]float64) []float64 {
	if p.Watts != nil {
		return p.Watts
	}
	worker := power.Sum(p.Request, watts)
	out := make([]float64, len(p.Curve))
	for k := range out {
		out[k] = worker * float64(p.MinWorkers+k)
	}
	return out
}

// History is what has come, oldest first.
type History struct {
	past  []Past
	index map[string]int
	// changed says that it differs from what was stored last.
	changed bool
}

// see adds a task, or corrects what is known of it.
func (h *History) see(t *decide.Task, runtime time.Duration) {
	if i, known := h.index[t.ID]; known {
		if old := &h.past[i]; math.Abs(old.Hours-runtime.Hours()) > 0.01*old.Hours {
			*old, h.changed = pastOf(t, runtime), true
		}
		return
	}
	if h.index == nil {
		h.index = map[string]int{}
	}
	h.index[t.ID] = len(h.past)
	h.past, h.changed = append(h.past, pastOf(t, runtime)), true
}

// forget drops what came before a time, and the oldest of too many.
func (h *History) forget(before time.Time) {
	keep := slices.DeleteFunc(slices.Clone(h.past), func(p Past) bool { return p.Submitted.Before(before) })
	sort.SliceStable(keep, func(a, b int) bool { return keep[a].Submitted.Before(keep[b].Submitted) })
	if len(keep) > maxPast {
		keep = keep[len(keep)-maxPast:]
	}
	if len(keep) != len(h.past) {
		h.changed = true
	}
	h.past, h.index = keep, make(map[string]int, len(keep))
	for i := range keep {
		h.index[keep[i].ID] = i
	}
}

// work is the work that came in an interval, in units of a resource times hours at the least scale.
func (h *History) work(resource string, from, to time.Time) float64 {
	sum := 0.0
	for i := range h.past {
		if p := &h.past[i]; !p.Submitted.Before(from) && p.Submitted.Before(to) {
			sum += p.Hours * p.Request[resource] * float64(p.MinWorkers)
		}
	}
	return sum
}

// tail is how long after its last arrival a stretch of the past goes on, for what came last.
const tail = 48 * time.Hour

// problem is a stretch of the past as an instance: the capacity is the maximum in every slot.
// intensity gives the slots of a grid. False where nothing came.
func (h *History) problem(from, to time.Time, slot time.Duration, resource string, maximum float64, watts power.PerUnit, intensity func(timegrid.Grid) ([]float64, bool)) (*plan.Problem, bool) {
	from, to = timegrid.Align(from, slot), timegrid.Align(to, slot)
	arrivals := int(to.Sub(from) / slot)
	grid, err := timegrid.New(from, slot, arrivals+int(tail/slot))
	if err != nil {
		return nil, false
	}
	p := &plan.Problem{Grid: grid, Objective: plan.Objective{Kind: plan.Carbon}}
	most := map[string]float64{}
	for i := range h.past {
		past := &h.past[i]
		if past.Submitted.Before(from) || !past.Submitted.Before(to) || past.Request[resource] <= 0 || past.Hours <= 0 {
			continue
		}
		arrival := grid.CeilSlot(past.Submitted)
		length := past.Hours * float64(time.Hour) / float64(slot)
		// The resource that is set stands for all: the others follow it in proportion, and draw power (see power).
		request := map[string]float64{resource: past.Request[resource]}
		most[resource] = math.Max(most[resource], request[resource]*float64(past.MinWorkers))
		j := workload.Job{
			ID: fmt.Sprint(i), Kind: past.Kind, Arrival: arrival, Length: length, Request: request,
			MinWorkers: past.MinWorkers, MaxWorkers: past.MinWorkers + len(past.Curve) - 1, Curve: past.Curve, Watts: past.power(watts.Watts),
		}
		j.Deadline = min(grid.N, arrival+int(past.Delay/slot)+j.Slots())
		if j.Deadline-arrival < j.Slots() {
			continue // it goes on beyond the end
		}
		p.Jobs = append(p.Jobs, j)
	}
	values, ok := intensity(grid)
	if len(p.Jobs) == 0 || !ok {
		return nil, false
	}
	capacity := make([]float64, grid.N)
	for t := range capacity {
		capacity[t] = math.Max(maximum, most[resource])
	}
	p.Clusters = []plan.Cluster{{
		Name: "target", Capacity: map[string][]float64{resource: capacity}, Watts: watts.Watts, PUE: math.Max(1, watts.PUE), Intensity: values,
	}}
	return p, true
}

// stored is what survives a restart.
type stored struct {
	Past      []Past            `json:"past,omitempty"`
	Cases     []carbonflex.Case `json:"cases,omitempty"`
	LearnedAt time.Time         `json:"learnedAt"`
	Jobs      int               `json:"jobs,omitempty"`
}

// maxStored bounds what is read back, unpacked.
const maxStored = 64 << 20

// pack compresses what is stored.
func pack(v stored) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxPacked is what fits a ConfigMap, with room for the rest of it.
const maxPacked = 900 << 10

// packWithin compresses what fits a size: the newest of what has come.
func packWithin(v stored, most int) ([]byte, error) {
	for {
		text, err := pack(v)
		if err != nil || len(text) <= most || len(v.Past) == 0 {
			return text, err
		}
		v.Past = v.Past[(len(v.Past)+1)/2:]
	}
}

// unpack reads what was stored, and drops what makes no sense.
func unpack(b []byte) (stored, error) {
	var v stored
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return v, err
	}
	if err := json.NewDecoder(io.LimitReader(z, maxStored)).Decode(&v); err != nil {
		return stored{}, err
	}
	v.Past = slices.DeleteFunc(v.Past, func(p Past) bool {
		kind := p.Kind == workload.Rigid || p.Kind == workload.Interruptible || p.Kind == workload.Elastic
		return !kind || p.MinWorkers < 1 || len(p.Curve) == 0 || len(p.Curve) > workload.MaxScale || !(p.Curve[0] > 0) || !(p.Hours >= 0) || p.Delay < 0 ||
			p.Watts != nil && len(p.Watts) != len(p.Curve)
	})
	return v, nil
}

// Seed is what a curve finds when it first looks as if it had seen these workloads come: history from
// elsewhere, for its first learning.
func Seed(namespace, curve string, past []Past) (*corev1.ConfigMap, error) {
	text, err := packWithin(stored{Past: past}, maxPacked)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configMapName(curve)},
		BinaryData: map[string][]byte{historyKey: text},
	}, nil
}

// configMapName is where what is known of a curve is kept.
func configMapName(curve string) string { return "lull-capacity-" + curve }
