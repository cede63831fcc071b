package simkube

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/charts"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/controller"
)

// World is a simulated cluster with Lull installed, and the programs of Lull that run in it.
type World struct {
	T    *testing.T
	Seed uint64
	// Began is when the world began.
	Began time.Time
	Store *Store
	// Cluster runs pods.
	Cluster *Cluster
	// Client is that of users and administrators: its calls take no time and never fail.
	Client client.Client
	// Faults are those of the calls of programs that start from now on.
	Faults Faults
	// Webhooks are how long admission webhooks take for each write of a program in a namespace.
	Webhooks map[string]time.Duration
	// Second is a second API server for programs that start from now on; nil for none.
	Second *Second
	// Leaders says that the programs elect leaders, which costs two calls every two seconds.
	Leaders bool
	// Namespaces are those that Lull is installed for; none for all.
	Namespaces []string

	ctx    context.Context //nolint:containedctx // the life of the world
	cancel context.CancelFunc
	group  sync.WaitGroup
	// outages are when no program reaches the API server. calm says that writes go wrong no more.
	outages []Span
	calm    atomic.Bool
	// hangs is until when the API server does not answer.
	hangs atomic.Int64

	mu      sync.Mutex
	broken  []string
	started map[string]int
}

// Typical are the delays of a cluster without faults.
var Typical = Faults{Latency: 40 * time.Millisecond, Lag: 40 * time.Millisecond}

// Test runs f in a world of its own, on a virtual clock. Time passes where f waits: in Run, Until, or time.Sleep. The
// world ends with f; what Violate and Always recorded fails the test.
func Test(t *testing.T, seed uint64, f func(w *World)) {
	t.Helper()
	TestIn(t, seed, nil, f)
}

// TestIn is Test in a world in which Lull is installed for some namespaces.
func TestIn(t *testing.T, seed uint64, namespaces []string, f func(w *World)) {
	t.Helper()
	Bubble(t, func(t *testing.T) {
		w := newWorld(t, seed, namespaces)
		defer w.Stop()
		f(w)
		for _, b := range w.Violations() {
			t.Errorf("seed %d: %s", seed, b)
		}
	})
}

// NewWorld returns a cluster with Lull installed, in which nothing runs yet. It must be made in a bubble of
// testing/synctest, and stopped there.
//
// It seeds the global random numbers of math/rand, of which client-go takes the jitter of retries, in programs that are
// built with the setting randseednop=0 (//go:debug).
func NewWorld(t *testing.T, seed uint64) *World { return newWorld(t, seed, nil) }

func newWorld(t *testing.T, seed uint64, namespaces []string) *World {
	rand.Seed(int64(seed)) //nolint:staticcheck,gosec // it is the global source that is seeded, on purpose
	w := &World{T: t, Seed: seed, Store: NewStore(BuiltIn()), Faults: Typical, Began: time.Now(), Namespaces: namespaces, started: map[string]int{}}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	w.Store.Check = w.checkFields
	w.Store.Refused = func(what string) { w.Violate("the simulated API server does not have what was asked for: %s", what) }
	if len(namespaces) == 0 {
		w.Install(manifests())
	} else {
		w.Install(manifestsFor(namespaces))
	}
	w.Store.Compact()
	scheme, err := controller.NewScheme()
	must(err)
	user := &Process{Name: "user", Store: w.Store, Seed: seed}
	w.Client, err = client.New(user.Config(), client.Options{Scheme: scheme})
	must(err)
	w.Cluster = NewCluster(w.Store, seed)
	w.Cluster.Hangs = w.hanging
	w.Go(func() { w.Cluster.Run(w.ctx) })
	return w
}

// manifests are those of the chart, with all that is optional.
var manifests = sync.OnceValue(func() string { return manifestsFor(nil) })

func manifestsFor(namespaces []string) string {
	out, err := charts.Manifests(kinds.Builtin(), charts.Options{Kueue: true, Extender: true, Capacity: true, Autoscaling: true, Web: true, Namespaces: namespaces})
	must(err)
	return out
}

// Install installs manifests, a stream of YAML.
func (w *World) Install(manifests string) { must(w.Store.Install(manifests)) }

// Stop ends all that runs in the world.
func (w *World) Stop() {
	w.cancel()
	w.group.Wait()
	time.Sleep(time.Minute) // for timers of client-go that no context ends
}

// Go runs f beside the test until the world ends. f must end with the context of Context.
func (w *World) Go(f func()) { w.group.Go(f) }

// Context ends with the world.
func (w *World) Context() context.Context { return w.ctx }

// Create creates objects as a user does; they are then as the API server stored them.
func (w *World) Create(objects ...client.Object) {
	w.T.Helper()
	for _, o := range objects {
		if err := w.Client.Create(w.ctx, o); err != nil {
			w.T.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// Patch applies a JSON merge patch to an object as a user does.
func (w *World) Patch(o client.Object, patch string) {
	w.T.Helper()
	if err := w.Client.Patch(w.ctx, o, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.T.Fatalf("patch %T %s: %v", o, o.GetName(), err)
	}
}

// Run lets time pass.
func (w *World) Run(d time.Duration) { w.Sleep(d) }

// Sleep waits; it reports whether the world has not ended.
func (w *World) Sleep(d time.Duration) bool { return sleep(w.ctx, d) == nil }

// After runs f when some time has passed.
func (w *World) After(d time.Duration, f func()) {
	w.Go(func() {
		if w.Sleep(d) {
			f()
		}
	})
}

// At runs f at a time.
func (w *World) At(t time.Time, f func()) { w.After(time.Until(t), f) }

// Always checks again and again that f returns no error; it records the first one.
func (w *World) Always(every time.Duration, f func() error) {
	w.Go(func() {
		for w.Sleep(every) {
			if err := f(); err != nil {
				w.Violate("%v", err)
				return
			}
		}
	})
}

// patience is for how long of the simulated time Until waits: five days of a zone whose hour is a minute, which take a few real
// seconds.
const patience = 2 * time.Hour

// Until lets time pass until done, which it asks every quarter of a second. After patience it gives up.
func (w *World) Until(what string, done func() bool) {
	w.T.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if done() {
			return
		}
	}
	w.T.Fatalf("gave up waiting for %s after %v of simulated time; %v", what, patience, w.Violations())
}

// Violate records that something is as it must never be.
func (w *World) Violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, time.Now().UTC().Format("2006-01-02T15:04:05 ")+fmt.Sprintf(format, args...))
}

// Violations returns what was recorded.
func (w *World) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

// Revoke deletes the RoleBindings of a namespace, as its administrator may. What a program asks for there from now on is no
// violation.
func (w *World) Revoke(namespace string) { w.Store.rights.revoke(namespace) }

// Outage keeps all programs from reaching the API server in a span of time; their watches end.
func (w *World) Outage(s Span) {
	w.outages = append(w.outages, s)
	w.After(s.From-time.Since(w.Began), w.Store.Cut)
}

// Hang keeps the API server from answering anybody for some time from now on. Nothing happens in the cluster.
func (w *World) Hang(d time.Duration) {
	until := time.Now().Add(d).UnixNano()
	w.hangs.Store(until)
}

func (w *World) hanging() bool { return time.Now().UnixNano() < w.hangs.Load() }

// Down reports whether the API server cannot be reached.
func (w *World) Down() bool {
	return slices.ContainsFunc(w.outages, func(s Span) bool { return s.Has(time.Since(w.Began)) })
}

// Calm ends all faults of writes.
func (w *World) Calm() { w.calm.Store(true) }

// checkFields reports writes of Lull to Jobs that change more than Lull may: whether they are suspended, their scale, and
// annotations of Lull.
func (w *World) checkFields(e *Event) {
	if e.Before == nil || e.Resource.Kind != "Job" || e.By == "user" {
		return
	}
	if !equalJSON(others(e.Before), others(e.Object)) {
		w.Violate("%s changed a field of %s that is not Lull's", e.By, e.Object.GetName())
	}
}

// Span is a time of a world, from its beginning.
type Span struct{ From, To time.Duration }

// Has reports whether a time lies in the span.
func (s Span) Has(d time.Duration) bool { return s.From <= d && d < s.To }

// realClock is the clock of the bubble.
var realClock = clock.RealClock{}

// must panics on an error: a fault of the test.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
