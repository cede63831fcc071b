package extender

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/pkg/plan/window"
)

// Code is why a Pod passes or waits.
type Code string

// The reasons there are. A Pod that Algorithm 1 keeps waiting is OutsideWindow or NoRoom.
const (
	NotGoverned   Code = "NotGoverned"   // no policy holds for it
	PolicyPaused  Code = "Paused"        // policy or zone are paused, or the policy is in shadow
	Critical      Code = "Critical"      // of a critical priority class
	Stale         Code = "Stale"         // has waited as long as it may
	NoCarbonData  Code = "NoCarbonData"  // nothing is known of the intensity
	InWindow      Code = "InWindow"      // inside the cleanest window, with room
	OutsideWindow Code = "OutsideWindow" // the cleanest window is still to come
	NoRoom        Code = "NoRoom"        // inside it, but the cluster is at its limit
)

// Pod is what is looked at of a Pod.
type Pod struct {
	UID               types.UID
	Namespace         string
	Labels            labels.Set
	PriorityClassName string
	Created           time.Time
	// Runtime is how long it is stated to run; 0 where that is not known.
	Runtime time.Duration
	// Request is what it asks for, in base units.
	Request map[string]float64
}

// Answer is the decision on a Pod.
type Answer struct {
	Pass bool
	Code Code
	// Message says it in words where the Pod waits.
	Message string
}

// Admit is Algorithm 1: a Pod passes if its priority class is critical, if it has waited for
// longer than it may, or if now is inside the window of its time frame with the lowest mean
// intensity and use stays under the limit with it; otherwise it waits. The window is that of the
// 24 hours from its creation (package window); use is what is asked for on nodes, of each resource
// that the Pod asks for; the limit leaves 5 % free, and 10 % more where the load of this hour is
// forecast at 100 %.
//
// What is in shadow passes; so does what nothing is known of.
//
// Complexity: O(hours of the time frame + policies of the namespace).
func (s *State) Admit(p *Pod) Answer {
	s.mu.RLock()
	a, r := s.judge(p)
	s.mu.RUnlock()
	if a.Pass && a.Code == InWindow && r != nil {
		return s.take(p, r)
	}
	return a
}

// take lets a Pod pass and counts it as used at once; another may have taken the room meanwhile.
func (s *State) take(p *Pod, r *rule) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	s.expire(now)
	if old, again := s.let[p.UID]; again {
		add(s.used, old.request, -1)
		delete(s.let, p.UID)
	}
	if full := s.full(p, r, now); full != "" {
		return Answer{Code: NoRoom, Message: full}
	}
	s.let[p.UID] = placed{request: p.Request, at: now}
	add(s.used, p.Request, 1)
	return Answer{Pass: true, Code: InWindow}
}

// judge says whether a Pod passes by all but the room there is.
func (s *State) judge(p *Pod) (Answer, *rule) {
	r := s.rule(p)
	if r == nil {
		return Answer{Pass: true, Code: NotGoverned}, nil
	}
	z := s.zones[r.zone]
	switch {
	case r.idle() || z != nil && z.paused:
		return Answer{Pass: true, Code: PolicyPaused}, r
	case r.spares(p):
		return Answer{Pass: true, Code: Critical}, r
	case z == nil:
		return Answer{Pass: true, Code: NoCarbonData}, r
	}
	now := z.timeline.ToGrid(s.Clock.Now())
	created := z.timeline.ToGrid(p.Created)
	stale := created.Add(r.stale)
	if limit := created.Add(s.MaxDelay); s.MaxDelay > 0 && limit.Before(stale) {
		stale = limit
	}
	if !now.Before(stale) {
		return Answer{Pass: true, Code: Stale}, r
	}
	starts, mean, known := z.window(created, now, r.frame, r.window)
	switch {
	case !known:
		return Answer{Pass: true, Code: NoCarbonData}, r
	case now.Before(starts):
		if stale.Before(starts) {
			starts = stale
		}
		return Answer{Code: OutsideWindow, Message: fmt.Sprintf("Lull: waits until %s, %.0f gCO2eq/kWh then", starts.UTC().Format(time.RFC3339), mean)}, r
	}
	return Answer{Pass: true, Code: InWindow}, r
}

// rule is that of a Pod, if several of its namespace select it: one that has it wait rather than one that does not, then the
// first by name, as at admission. Without policies in the namespace it is that of the file.
func (s *State) rule(p *Pod) *rule {
	of := s.byName[p.Namespace]
	var first *rule
	for _, r := range of {
		if !r.governs(s.System, p.Namespace, p.Labels) {
			continue
		}
		if !r.idle() && !r.spares(p) {
			return r
		}
		first = cmp.Or(first, r)
	}
	if first != nil {
		return first
	}
	if len(of) == 0 && s.fallback != nil && s.fallback.governs(s.System, p.Namespace, p.Labels) {
		return s.fallback
	}
	return nil
}

// window is the one to which what was created is bound now: its start, and its mean intensity. It
// is looked for from the first hour on that is known; known is false where that is not even this
// hour.
func (z *zone) window(created, now time.Time, frame, length time.Duration) (starts time.Time, mean float64, known bool) {
	first, this := hourOf(created), hourOf(now)
	last := min(hourOf(created.Add(frame)), first+remembered)
	for ; first <= this; first++ {
		if _, ok := z.hours[first]; ok {
			break
		}
	}
	if _, ok := z.hours[this]; !ok || first > this {
		return now, 0, false
	}
	var buffer [48]float64
	values := buffer[:0]
	for h := first; h < max(last, this+1); h++ {
		v, ok := z.hours[h]
		if !ok {
			break
		}
		values = append(values, v)
	}
	n := max(1, int(math.Round(length.Hours())))
	at := window.Next(values, n, int(this-first))
	sum, count := 0.0, 0
	for _, v := range values[min(at, len(values)):min(at+n, len(values))] {
		sum, count = sum+v, count+1
	}
	return time.Unix((first+int64(at))*3600, 0), sum / float64(max(1, count)), true
}

// full names the resource of which there is no room under the limit, in words; "" where there is.
func (s *State) full(p *Pod, r *rule, now time.Time) string {
	reserve := window.Reserve
	load := r.load
	if load < 0 {
		load = s.load.expected(now)
	}
	if load >= wholly {
		reserve += window.CriticalReserve
	}
	for name, q := range p.Request {
		c := s.capacity[name]
		if c > 0 && s.used[name]+q > (1-reserve)*c+tiny*c {
			return fmt.Sprintf("Lull: waits for room, Pods request %.4g of %.4g %s, limit %.0f %%", s.used[name], c, name, 100*(1-reserve))
		}
	}
	return ""
}

const (
	// wholly is the forecast load that counts as all of the capacity.
	wholly = 0.995
	// tiny is what sums of requests may be off, a share.
	tiny = 1e-9
)

// leastCPU stands for Pods that ask for no CPU, as in kube-scheduler.
const leastCPU = 0.1

// usualRuntime is how long a Pod is taken to run that does not state it.
const usualRuntime = time.Hour

// amount is how much of a resource a Pod asks for.
type amount struct {
	resource string
	quantity float64
}

// amounts are what a Pod asks for, at least a little CPU, in order of the resources.
func (p *Pod) amounts() []amount {
	out := []amount{{cpu, math.Max(leastCPU, p.Request[cpu])}}
	for _, r := range slices.Sorted(maps.Keys(p.Request)) {
		if r != cpu {
			out = append(out, amount{r, p.Request[r]})
		}
	}
	return out
}

// Rank scores nodes by what a Pod would emit there: from 10 for the least to 0 for the most, all
// the same where nothing tells them apart. A node of which nothing is known is scored like the
// worst. grams is memory as long as scores.
//
// Complexity: O(nodes).
func (s *State) Rank(p *Pod, names *Names, scores []int8, grams []float64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	intensity, regions := make(map[string]float64, len(s.zones)), make(map[string]float64, len(s.zones))
	home := ""
	if r := s.rule(p); r != nil {
		home = r.zone
	}
	now := s.Clock.Now()
	runtime := p.Runtime
	if runtime <= 0 {
		runtime = usualRuntime
	}
	for name, z := range s.zones {
		if v, ok := z.mean(z.timeline.ToGrid(now), runtime); ok {
			intensity[name], regions[z.region] = v, v
		}
	}
	s.powers.each(names, p.amounts(), home, intensity, regions, grams)
	score(grams, scores)
}

// mean intensity over a run time, as far as the hours are known.
func (z *zone) mean(from time.Time, runtime time.Duration) (float64, bool) {
	sum, weight := 0.0, 0.0
	to := from.Add(runtime)
	for h := hourOf(from); h*3600 < to.Unix() && h < hourOf(from)+remembered; h++ {
		v, ok := z.hours[h]
		if !ok {
			break
		}
		begin, end := max(from.Unix(), h*3600), min(to.Unix(), (h+1)*3600)
		sum, weight = sum+v*float64(end-begin), weight+float64(end-begin)
	}
	return sum / weight, weight > 0
}
