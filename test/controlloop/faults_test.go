package controlloop

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/test/simkube"
)

// TestControllerKilled: killed in the middle of a run, twice; the same Jobs finish and no deadline is missed.
func TestControllerKilled(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		c := b.Controller()
		deadlines := map[string]time.Time{}
		for i := range 12 {
			name := fmt.Sprintf("job-%d", i)
			deadlines[name] = at(6 + 2*i)
			b.submit(name, map[string]string{v1alpha1.AnnotationDeadline: at(6 + 2*i).Format(time.RFC3339)})
		}
		b.Until("decisions", func() bool { return b.decision("job-11") != "" })
		for range 2 {
			b.Run(75 * time.Second) // an hour and a quarter of the series
			c.Kill()
			c = b.Controller()
		}
		for name, deadline := range deadlines {
			b.Until(name+" to finish", func() bool { return b.finished(name) })
			if end := b.gridTime(b.get(name).Status.CompletionTime.Time); end.After(deadline) {
				t.Errorf("%s finished at %s of the series, its deadline is %s", name, end, deadline)
			}
		}
	})
}

// TestKilledFiftyTimes: the controller is killed at random moments, fifty times.
func TestKilledFiftyTimes(t *testing.T) {
	onBed(t, dirtyThenClean(), wideMargin, func(b *bed) {
		b.Watchdog(quickWatchdog)
		x := submitBatch(b, 24, 8*time.Hour, 36*time.Hour)
		rng := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			c := b.Controller()
			b.Run(time.Duration(200+rng.IntN(30_000)) * time.Millisecond)
			c.Kill()
		}
		b.Controller()
		x.audit()
	})
}

// TestOtherReplicaTakesOver: of two replicas the leader is killed, and the other goes on when its lease has run out.
func TestOtherReplicaTakesOver(t *testing.T) {
	onBed(t, dirtyThenClean(), wideMargin, func(b *bed) {
		b.Leaders = true
		lead := func() string {
			var lease coordinationv1.Lease
			if b.Client.Get(b.Context(), client.ObjectKey{Namespace: "lull-system", Name: "controller.lull.dev"}, &lease) != nil || lease.Spec.HolderIdentity == nil {
				return ""
			}
			return *lease.Spec.HolderIdentity
		}
		leader := b.Controller()
		b.Until("the first to lead", func() bool { return lead() != "" })
		first := lead()
		b.Controller()
		x := submitBatch(b, 9, 16*time.Hour, 30*time.Hour)
		b.Until("decisions", func() bool { return b.decision("job-8") != "" })
		if lead() != first {
			t.Fatal("the second took the lease of a leader that lives")
		}
		leader.Kill()
		killed := time.Now()
		b.Until("the other to lead", func() bool { return lead() != first })
		if took := time.Since(killed); took > 20*time.Second {
			t.Errorf("the other led after %v; a lease lasts 15s", took)
		}
		x.audit()
	})
}

// TestFaultyAPILosesNoDeadline: watches that drop, refusals and conflicts, all the time.
func TestFaultyAPILosesNoDeadline(t *testing.T) {
	onBed(t, dirtyThenClean(), wideMargin, func(b *bed) {
		b.Faults.Break, b.Faults.Refuse, b.Faults.Conflict, b.Faults.Fail, b.Faults.Lose = time.Second, 0.15, 0.15, 0.05, 0.05
		c := b.Controller()
		x := submitBatch(b, 12, 10*time.Hour, 24*time.Hour)
		x.audit()
		t.Log(c.Injected)
		for _, fault := range []string{"break", "refuse", "conflict", "fail", "lose"} {
			if c.Injected[fault] == 0 {
				t.Errorf("fault %s was not injected", fault)
			}
		}
	})
}

// TestDeletedEditedAndMadeAgain: in the middle of its plan a Job gets another deadline by its user, one is deleted, and one
// is deleted and made again under its name.
func TestDeletedEditedAndMadeAgain(t *testing.T) {
	onBed(t, dirtyThenClean(), wideMargin, func(b *bed) {
		b.Controller()
		x := submitBatch(b, 6, 20*time.Hour, 30*time.Hour)
		b.Until("plans", func() bool { return b.plan("job-job-5").Status.State != "" })
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)

		edited := x.jobs[0].Name
		x.deadlines[edited] = at(14)
		text := at(14).Format(time.RFC3339)
		b.Patch(b.get(edited), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationDeadline, text))
		x.jobs[0].Annotations[v1alpha1.AnnotationDeadline] = text
		b.Until("a plan for the new deadline", func() bool {
			d := b.plan("job-" + edited).Status.Deadline
			return d != nil && d.Time.Equal(at(14))
		})

		deleted := x.jobs[1]
		b.must(b.Client.Delete(b.Context(), b.get(deleted.Name), background))
		b.Until("the plan of the deleted Job to go", func() bool { return b.plan("job-"+deleted.Name).Name == "" })

		again := b.job(x.jobs[3].Name, map[string]string{v1alpha1.AnnotationDeadline: x.deadlines[x.jobs[3].Name].Format(time.RFC3339)})
		old := b.get(again.Name).UID
		b.must(b.Client.Delete(b.Context(), b.get(again.Name), background))
		b.Create(again)
		b.Until("a plan of the new Job", func() bool {
			p := b.plan("job-" + again.Name)
			return p.Name != "" && p.Spec.Workload.UID == again.UID && again.UID != old && p.Status.State != ""
		})
		x.jobs[3] = again
		x.jobs = append(x.jobs[:1], x.jobs[2:]...)
		x.audit()
	})
}

// jumpy is a clock that can be set.
type jumpy struct {
	clock.RealClock
	by atomic.Int64
}

func (c *jumpy) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.by.Load())) }

// TestClockJumpsReleaseNothingLate: the controller's clock is set an hour back, right, and an hour ahead: what it releases early is in time
// all the same, and nothing is held for the hour.
func TestClockJumpsReleaseNothingLate(t *testing.T) {
	onBed(t, dirtyThenClean(), wideMargin, func(b *bed) {
		c := &jumpy{}
		b.Controller(func(o *controller.Options) { o.Clock = c })
		x := submitBatch(b, 6, 14*time.Hour, 24*time.Hour)
		b.Until("plans", func() bool { return b.plan("job-job-5").Status.State != "" })
		b.Watchdog(quickWatchdog) // whose clock is right
		for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
			c.by.Store(int64(by))
			b.Run(75 * time.Second)
		}
		x.audit()
	})
}

// TestControlPlaneFails: the API server is killed and comes back; later it does not answer for fifteen hours of the series.
func TestControlPlaneFails(t *testing.T) {
	onBed(t, []float64{500, 500, 500, 500, 100, 100, 500, 500, 500, 500}, wideMargin, func(b *bed) {
		b.Controller()
		b.Watchdog(quickWatchdog)
		x := submitBatch(b, 12, 34*time.Hour, 46*time.Hour)
		b.Until("plans", func() bool { return b.plan("job-job-11").Status.State != "" })
		now := time.Since(b.Began)
		b.Outage(simkube.Span{From: now, To: now + 3*time.Minute})
		b.Run(at(12).Sub(b.gridTime(time.Now())) / factor)
		b.Hang(15 * time.Minute)
		b.Run(15 * time.Minute)
		x.audit()
	})
}
