package failsafe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
)

// TestWatchdogReleasesAllInTime: at the rate that the watchdog counts on, all holds are released within a look of their ends, whatever these are. A single hold
// is not released early.
func TestWatchdogReleasesAllInTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const every = 5 * time.Second
	for n := range 300 {
		var ends []time.Time
		last := now.Add(20 * time.Minute)
		for range 1 + rng.IntN(3000) {
			end := last
			if rng.IntN(3) == 0 {
				end = now.Add(10*time.Minute + time.Duration(rng.Int64N(int64(10*time.Minute))))
			}
			ends = append(ends, end)
		}
		slices.SortFunc(ends, time.Time.Compare)
		at, perSecond := now, []float64{releasesPerSecond, 20, 5}[n%3]
		for at.Before(last) && len(ends) > 0 {
			until := cutoff(slices.Clone(ends), at, every, perSecond)
			writing := at
			for len(ends) > 0 && !ends[0].After(until) {
				if writing = writing.Add(time.Duration(float64(time.Second) / perSecond)); writing.After(ends[0].Add(every)) {
					t.Fatalf("case %d: a hold that ends at %s is released at %s", n, ends[0], writing)
				}
				ends = ends[1:]
			}
			next := at.Add(every)
			if writing.After(next) {
				next = writing
			}
			at = next
		}
	}
	one := []time.Time{now.Add(time.Hour)}
	if until := cutoff(one, now, every, releasesPerSecond); !until.Equal(now) {
		t.Errorf("a hold that ends in an hour is released by %s", until)
	}
}

// TestSlowReleasesBeginEarlier: the watchdog counts on half of the rate that it measured last over enough releases, for a day, and on no more than it assumes at
// first.
func TestSlowReleasesBeginEarlier(t *testing.T) {
	var r rate
	at := now
	check := func(want float64) {
		t.Helper()
		if got := r.counted(at); got != want {
			t.Errorf("counts on %v a second, want %v", got, want)
		}
	}
	check(releasesPerSecond)
	r.measure(fewestMeasured-1, 0, time.Hour, at)
	check(releasesPerSecond)
	r.measure(1000, 0, 50*time.Second, at)
	check(10)
	r.measure(1000, 0, time.Hour, at)
	check(1)
	at = at.Add(measuredFor - time.Second)
	check(1)
	at = at.Add(time.Second)
	check(releasesPerSecond)
	r.measure(1000, 0, 50*time.Second, at)
	check(10)
	at = at.Add(-time.Minute) // the clock was set back
	check(10)
	r.measure(10_000, 0, 10*time.Second, at)
	check(releasesPerSecond)
	r.measure(100, 900, 50*time.Second, at) // those that took too long took time all the same
	check(1)
	r.measure(0, fewestMeasured, 100*time.Second, at)
	check(1)
	at = at.Add(outageFor - time.Second)
	check(1)
	at = at.Add(time.Second) // an outage counts no longer
	check(releasesPerSecond)
}

// TestOnlyReleasesThatTookTheirTimeAreMeasured: those that the API server refuses, or that somebody else has changed, and marks that hold nothing, say nothing of how
// long a release takes. Those that took too long do.
func TestOnlyReleasesThatTookTheirTimeAreMeasured(t *testing.T) {
	const many = 2 * fewestMeasured
	for name, tc := range map[string]struct {
		// fails are the patches that fail, and how; each patch takes a tenth of a second.
		fails int
		with  error
		clear int
		want  float64
	}{
		"all are made":                             {0, nil, 0, 5},
		"half are refused":                         {many / 2, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", nil), 0, 2.5},
		"too few are made":                         {many/2 + 1, apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", nil), 0, releasesPerSecond},
		"too few, as others were faster":           {many/2 + 1, apierrors.NewConflict(schema.GroupResource{Resource: "jobs"}, "x", nil), 0, releasesPerSecond},
		"all take too long":                        {many, context.DeadlineExceeded, 0, 1},
		"a tenth is made, the rest takes too long": {many * 9 / 10, apierrors.NewTimeoutError("x", 1), 0, 1},
		"too few, and marks that hold nothing":     {0, nil, many/2 + 1, releasesPerSecond},
	} {
		var objects []client.Object
		for i := range many {
			j := job(fmt.Sprint(i), with(v1alpha1.AnnotationLatestStart, at(-time.Hour)))
			if i < tc.clear {
				runs(j)
			}
			objects = append(objects, j)
		}
		b := newBed(t, objects...)
		var mu sync.Mutex
		fails := tc.fails
		live := interceptor.NewClient(b.dog.Client.(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				mu.Lock()
				fails--
				failed := fails >= 0
				b.clock.Step(100 * time.Millisecond)
				mu.Unlock()
				if failed {
					return tc.with
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		})
		b.dog.Client, b.dog.Applier.Client = live, live
		_ = b.dog.Look(context.Background()) // what is refused is an error
		if got := b.dog.rate.counted(b.clock.Now()); got != tc.want {
			t.Errorf("%s: counts on %v a second; want %v", name, got, tc.want)
		}
	}
}

// lease puts the lease of a controller beside a watchdog. renew renews it; while broken is set it cannot be read.
func (b *bed) lease(broken *bool) (renew func()) {
	scheme := kruntime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		b.t.Fatal(err)
	}
	seconds := int32(15)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: controllerLease, Namespace: "lull"}, Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds}}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease).Build()
	b.dog.Lease = &ControllerLease{Namespace: "lull", Reader: interceptor.NewClient(store, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if *broken {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})}
	return func() {
		renewed := metav1.NewMicroTime(b.clock.Now())
		lease.Spec.RenewTime = &renewed
		if err := store.Update(context.Background(), lease); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestNoGraceForADeadController: a hold whose latest start has come is left to a controller that lives for the grace, and to one whose
// lease has run out not at all. A policy that has just gone has its grace all the same: it may be replaced.
func TestNoGraceForADeadController(t *testing.T) {
	broken := false
	orphan := job("orphan", with(v1alpha1.AnnotationPolicy, "gone"), with(v1alpha1.AnnotationLatestStart, at(time.Hour)))
	b := newBed(t, job("due", with(v1alpha1.AnnotationLatestStart, at(18*time.Second))), job("later", with(v1alpha1.AnnotationLatestStart, at(time.Hour))), orphan, job("moves", with(v1alpha1.AnnotationLatestStart, at(time.Hour))))
	renew := b.lease(&broken)
	held := func(name string) bool { return *b.job(name).Spec.Suspend }
	look := func() {
		b.clock.Step(4 * time.Second)
		if err := b.dog.Look(context.Background()); err != nil && !broken {
			t.Fatal(err)
		}
	}
	for range 5 { // it lives
		renew()
		look()
	}
	if !held("due") {
		t.Error("a controller that lives has no grace")
	}
	broken = true
	look()
	broken = false
	for range 4 { // 16 s since the API server answered again
		look()
	}
	if !held("due") {
		t.Error("a controller is taken for dead because the API server did not answer")
	}
	b.patch(job("moves"), `{"metadata":{"annotations":{"lull.dev/policy":"going"}}}`)
	look()
	if !held("moves") {
		t.Error("a policy that has just gone has no grace")
	}
	if held("due") {
		t.Error("a dead controller has grace")
	}
	if !held("later") || b.job("later").Annotations[v1alpha1.AnnotationLatestStart] == "" {
		t.Error("what is not due was released")
	}
	if held("orphan") {
		t.Error("the hold of a policy that is gone since 40 s is kept")
	}
}

// TestManyHoldsOfADeadController: holds that end together are released before their end, if they are too many for the time left then, and
// say so.
func TestManyHoldsOfADeadController(t *testing.T) {
	broken := false
	var objects []client.Object
	for _, name := range strings.Fields(strings.Repeat("x ", 10*releasesPerSecond)) {
		objects = append(objects, job(name+"-"+time.Duration(len(objects)).String(), with(v1alpha1.AnnotationLatestStart, at(30*time.Second))))
	}
	b := newBed(t, objects...)
	renew := b.lease(&broken)
	b.dog.Options.Every = 5 * time.Second
	b.look()
	renew()
	b.look()
	b.clock.Step(10 * time.Second)
	b.look()
	if n := b.patches.Load(); n != 0 {
		t.Fatalf("%d were released while the lease holds", n)
	}
	b.clock.Step(6 * time.Second) // 14 s before their end; they take 10 s
	b.look()
	if n := b.patches.Load(); n != int64(len(objects)) {
		t.Errorf("%d of %d were released before their end", n, len(objects))
	}
	if text := b.job(objects[0].GetName()).Annotations[v1alpha1.AnnotationDecision]; !strings.Contains(text, "the controller is dead") {
		t.Errorf("the decision does not say why: %s", text)
	}
}

// TestOldLeaseIsOfADeadController: a lease that nobody has renewed since the watchdog started is of a controller without leader election, or of one that was
// there before. Holds keep their grace. A lease that is given up at a shutdown, for a second, is one that another controller takes over.
func TestOldLeaseIsOfADeadController(t *testing.T) {
	broken := false
	b := newBed(t, job("due", with(v1alpha1.AnnotationLatestStart, at(time.Minute))))
	renew := b.lease(&broken)
	for range 4 {
		b.clock.Step(16 * time.Second) // up to 4 s after the latest start
		b.look()
	}
	if !*b.job("due").Spec.Suspend {
		t.Error("a controller without a lease has no grace")
	}
	renew()
	b.look()
	b.clock.Step(14 * time.Second)
	b.look()
	if !*b.job("due").Spec.Suspend {
		t.Error("a controller has no grace 14 s after its last renewal")
	}
}
