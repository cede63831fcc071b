package decide_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
)

// mutant is a good decision and a copy in which a mutation changes the action on one task. It computes what a mutation asks
// about the decision from the snapshot, and uses nothing of package decide but the rates of scales.
type mutant struct {
	rng  *rand.Rand
	s    *decide.Snapshot
	good *decide.Decision
	d    *decide.Decision
	i    int
	t    *decide.Task
	a    *decide.Action
}

func (m *mutant) runs() bool    { return m.a.Verb != decide.Wait && m.a.Verb != decide.Pause }
func (m *mutant) held() bool    { return !m.runs() }
func (m *mutant) begins() bool  { return m.a.Verb == decide.Release || m.a.Verb == decide.Resume }
func (m *mutant) hasPlan() bool { return len(m.a.Phases) > 0 }
func (m *mutant) arrived() bool { return !m.t.NotBefore.After(m.s.Now) }
func (m *mutant) soft() bool    { return m.s.Objective.Kind == plan.MOSP }

// now reports whether the plan runs now.
func (m *mutant) now() bool { return m.hasPlan() && !m.a.Phases[0].From.After(m.s.Now) }

// later reports whether the plan begins later than now by more than times are rounded.
func (m *mutant) later() bool {
	return m.hasPlan() && m.a.Phases[0].From.Sub(m.s.Now) > time.Millisecond
}

// queued reports whether the task is released and waits for room.
func (m *mutant) queued() bool { return m.runs() && !m.now() }

func (m *mutant) last() *decide.Phase { return &m.a.Phases[len(m.a.Phases)-1] }

func (m *mutant) rate(workers int) float64 {
	if m.t.Scaling == nil {
		return 1
	}
	return m.t.Scaling.Rate(workers)
}

// surplus is how much more than the work that is left the phases do, if no pause loses anything.
func (m *mutant) surplus() time.Duration {
	sum := m.t.AtRisk - m.t.Remaining
	for _, p := range m.a.Phases {
		sum += time.Duration(m.rate(p.Workers) * float64(p.To.Sub(p.From)))
	}
	return sum
}

// inTime reports whether the plan is complete and ends by a hard deadline that is not bounded by a delay.
func (m *mutant) inTime() bool {
	return m.hasPlan() && !m.soft() && !m.t.Deadline.IsZero() && m.t.LatestStart.IsZero() && !m.last().To.After(m.t.Deadline) &&
		m.good.Actions[m.i].Planned && m.surplus() > -time.Millisecond
}

// chosen reports whether the reason says that Lull has chosen the plan.
func (m *mutant) chosen() bool {
	switch m.a.Reason.Code {
	case decide.CodeCleanNow, decide.CodeCleanerLater, decide.CodeSharedCapacity, decide.CodePauseDoesNotPay, decide.CodeMoveDoesNotPay:
		return true
	}
	return false
}

// may reports whether the task may use a cluster.
func (m *mutant) may(name string) bool {
	if m.t.Cluster == name {
		return true
	}
	return (m.t.Cluster == "" || m.t.Migratable) && (m.t.Clusters == nil || slices.Contains(m.t.Clusters, name))
}

// free is what a cluster has free of a resource at a time, next to all tasks of a decision but one.
func (m *mutant) free(d *decide.Decision, cluster, resource string, at time.Time, without int) float64 {
	c := &m.s.Clusters[slices.IndexFunc(m.s.Clusters, func(c decide.Cluster) bool { return c.Name == cluster })]
	slot := int(at.Sub(m.s.Now.Truncate(m.s.Slot)) / m.s.Slot)
	out := c.Capacity[resource]
	if v := c.CapacityAt[resource]; len(v) > 0 {
		out = v[min(slot, len(v)-1)]
	}
	out -= c.Load[resource]
	if v := c.LoadAt[resource]; slot < len(v) {
		out -= v[slot]
	}
	for k := range d.Actions {
		t := &m.s.Tasks[k]
		for _, p := range d.Actions[k].Phases {
			if k == without || p.Cluster != cluster || p.From.After(at) || !p.To.After(at) {
				continue
			}
			if t.Scaling != nil {
				out -= float64(p.Workers) * t.Request[resource]
			} else {
				out -= t.Request[resource]
			}
		}
	}
	return out
}

// fitsNow reports whether there is room for a task now, next to all others, on the cluster of its action, or if that names
// none, on any that it may use.
func (m *mutant) fitsNow(d *decide.Decision, without ...int) bool {
	for c := range m.s.Clusters {
		name, fits := m.s.Clusters[c].Name, m.may(m.s.Clusters[c].Name) && (m.a.Cluster == "" || m.a.Cluster == m.s.Clusters[c].Name)
		for r, q := range m.t.Request {
			n := 1.0
			if m.t.Scaling != nil {
				n = float64(m.t.Scaling.MinWorkers)
			}
			more := 0.0
			for _, k := range without { // tasks that have not begun yet when it is released
				if x := &d.Actions[k]; len(x.Phases) > 0 && x.Phases[0].Cluster == name && !x.Phases[0].From.After(m.s.Now) {
					more += m.s.Tasks[k].Request[r] * max(1, float64(x.Workers))
				}
			}
			fits = fits && n*q <= m.free(d, name, r, m.s.Now, m.i)+more+1e-9
		}
		if fits {
			return true
		}
	}
	return false
}

// excess is how much more than there is a decision uses, in resource-hours: zero of a decision that fits. What is released
// and waits in a queue does not count: the queue starts nothing without room.
func (m *mutant) excess(d *decide.Decision) float64 {
	planned := *d
	planned.Actions = slices.Clone(d.Actions)
	for k := range planned.Actions {
		if a := &planned.Actions[k]; a.Verb != decide.Wait && a.Verb != decide.Pause && len(a.Phases) > 0 && a.Phases[0].From.After(m.s.Now) {
			a.Phases = nil
		}
	}
	times := []time.Time{m.s.Now}
	for k := range d.Actions {
		for _, p := range d.Actions[k].Phases {
			times = append(times, p.From, p.To)
		}
	}
	start := m.s.Now.Truncate(m.s.Slot)
	for slot := range 16 { // varied changes capacity and load within 16 slots
		times = append(times, start.Add(time.Duration(slot)*m.s.Slot))
	}
	slices.SortFunc(times, time.Time.Compare)
	sum := 0.0
	for k := 1; k < len(times); k++ {
		from, to := times[k-1], times[k]
		if from.Before(m.s.Now) || to.Sub(from) < time.Millisecond {
			continue
		}
		for c := range m.s.Clusters {
			for _, r := range []string{"cpu", "memory"} {
				sum += max(0, -1e-9-m.free(&planned, m.s.Clusters[c].Name, r, from.Add(to.Sub(from)/2), -1)) * to.Sub(from).Hours()
			}
		}
	}
	return sum
}

// overcommits reports whether the mutant uses more than there is where the good decision does not.
func (m *mutant) overcommits() bool { return m.excess(m.d) > m.excess(m.good)+1e-6 }

// alone is the time at which the task must start at the latest even if it had every cluster for itself.
func (m *mutant) alone() time.Time {
	rate := 1.0
	if m.t.Scaling != nil {
		for n := m.t.Scaling.MinWorkers; n <= m.t.Scaling.MaxWorkers; n++ {
			rate = max(rate, m.t.Scaling.Rate(n))
		}
	}
	return m.t.Deadline.Add(-time.Duration(float64(m.t.Remaining) / rate))
}

// nextChange is the first time at which a plan changes something or a held task reaches its latest start.
func (m *mutant) nextChange() time.Time {
	next := m.s.Now.Add(24 * time.Hour)
	for k := range m.good.Actions {
		a := &m.good.Actions[k]
		if len(a.Phases) == 0 || m.s.Tasks[k].Unscheduled {
			continue
		}
		held := a.Verb == decide.Wait || a.Verb == decide.Pause
		arrived := !m.s.Tasks[k].NotBefore.After(m.s.Now)
		for _, at := range []time.Time{a.Phases[0].From, a.Phases[0].To, a.Reason.LatestStart} {
			changes := held && (at.Equal(a.Phases[0].From) || arrived && !m.soft())
			if at.Equal(a.Phases[0].To) {
				changes = !a.Phases[0].From.After(m.s.Now)
			}
			if changes && at.After(m.s.Now) && at.Before(next) {
				next = at
			}
		}
	}
	return next
}

func (m *mutant) shift(by time.Duration) {
	for k := range m.a.Phases {
		m.a.Phases[k].From, m.a.Phases[k].To = m.a.Phases[k].From.Add(by), m.a.Phases[k].To.Add(by)
	}
}

// move has all phases, or those from one on, and the action name a cluster.
func (m *mutant) move(from int, name string) {
	for k := from; k < len(m.a.Phases); k++ {
		m.a.Phases[k].Cluster = name
	}
	if from == 0 && m.a.Cluster != "" {
		m.a.Cluster = name
	}
}

func (m *mutant) other(allowed bool) string {
	for _, c := range m.s.Clusters {
		if m.may(c.Name) == allowed && (!m.hasPlan() || c.Name != m.a.Phases[0].Cluster) {
			return c.Name
		}
	}
	return ""
}

// mutate applies a mutation of a kind to each task of a decision, and returns how often the meaning changed and how often
// Verify noticed.
func mutate(t *testing.T, rng *rand.Rand, s *decide.Snapshot, d *decide.Decision, kind mutation, missed func(m *mutant)) (tried, noticed int) {
	t.Helper()
	for i := range d.Actions {
		x := decide.Decision{Actions: slices.Clone(d.Actions), Order: slices.Clone(d.Order), Wake: d.Wake, Status: d.Status, Gap: d.Gap}
		x.Actions[i].Phases = slices.Clone(x.Actions[i].Phases)
		m := &mutant{rng: rng, s: s, good: d, d: &x, i: i, t: &s.Tasks[i], a: &x.Actions[i]}
		if !kind.apply(m) {
			continue
		}
		tried++
		if len(decide.Verify(*s, x)) > 0 {
			noticed++
		} else {
			missed(m)
		}
		if kind.once {
			break
		}
	}
	return tried, noticed
}

// TestVerifyNoticesMutations changes good decisions in each way in which a decision can be wrong. Verify must notice
// each. A change that leaves the decision valid, by a definition that does not use Verify, does not count.
func TestVerifyNoticesMutations(t *testing.T) {
	tried, noticed, decisions := make([]int, len(mutations)), make([]int, len(mutations)), 0
	seeds := []uint64{245} // a plan of one phase that ends when its least pause does
	for seed := range 40 * worlds() {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		step := 0
		eachDecision(t, seed, func(s decide.Snapshot, d decide.Decision) {
			step++
			if len(decide.Verify(s, d)) > 0 {
				return // for TestNoFalseAlarms
			}
			decisions++
			for k, kind := range mutations {
				if tried[k] > 200 && rng.IntN(16) > 0 {
					continue
				}
				n, found := mutate(t, rng, &s, &d, kind, func(m *mutant) {
					if tried[k]-noticed[k] < 3 {
						t.Errorf("%s: not noticed, seed %d, decision %d at %s, task %s (%s %s), %s\nwas %s", kind.name, seed, step, s.Now.Format(time.TimeOnly), m.t.ID, m.t.Kind, m.t.State, brief(m.a), brief(&m.good.Actions[m.i]))
					}
				})
				tried[k], noticed[k] = tried[k]+n, noticed[k]+found
			}
		})
	}
	var b strings.Builder
	for k, kind := range mutations {
		fmt.Fprintf(&b, "%-56s %7d %7d\n", kind.name, tried[k], noticed[k])
		if tried[k] == 0 {
			t.Errorf("%s: never tried", kind.name)
		}
	}
	t.Logf("%d decisions\n%-56s %7s %7s\n%s", decisions, "mutation", "tried", "noticed", b.String())
}

func brief(a *decide.Action) string {
	out := fmt.Sprintf("%s cluster %q workers %d code %s latest %s planned %v:", a.Verb, a.Cluster, a.Workers, a.Reason.Code, a.Reason.LatestStart.Format(time.TimeOnly), a.Planned)
	for _, p := range a.Phases {
		out += fmt.Sprintf(" %s-%s at %s x%d", p.From.Format(time.TimeOnly), p.To.Format(time.TimeOnly), p.Cluster, p.Workers)
	}
	return out
}
