//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// byKilling: processes end or stop at the moments at which they write most.
func (s *siege) byKilling() {
	ctx := context.Background()
	s.t.Run("kill -9 in a wave of releases and entries", func(t *testing.T) {
		b := newBed(t, dirtyDay(), nil)
		const jobs = 20
		for i := range jobs {
			b.submit(b.job(fmt.Sprintf("wave-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "40h"}))
		}
		random := rand.New(rand.NewPCG(1, 2))
		finished := func() (n int) {
			for i := range jobs {
				if b.finished(fmt.Sprintf("wave-%d", i)) {
					n++
				}
			}
			return n
		}
		for range 15 {
			if finished() == jobs {
				break
			}
			time.Sleep(time.Duration(1000+random.IntN(4000)) * time.Millisecond) // a moment of its choice
			kill(s.controller)
			s.startController()
		}
		b.eventually("all to end", func() bool { return finished() == jobs })
		b.eventually("all to be settled", func() bool {
			_, all := entries(t, s.database)
			for i := range jobs {
				if count(all, "settled", b.get(fmt.Sprintf("wave-%d", i)).UID) == 0 {
					return false
				}
			}
			return true
		})
		all := audited(t, s.database)
		for i := range jobs {
			uid := b.get(fmt.Sprintf("wave-%d", i)).UID
			for _, kind := range []string{"submitted", "started", "ended", "finished"} {
				if n := count(all, kind, uid); n != 1 {
					t.Errorf("wave-%d: %d entries %s, want 1", i, n, kind)
				}
			}
		}
	})
	s.t.Run("a controller that stops while a user takes a Job back", func(t *testing.T) {
		b := newStandingBed(t, dirtyThenClean(), nil)
		for _, name := range []string{"mine", "beside"} {
			b.submit(b.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
		}
		b.eventually("decisions", func() bool { return b.decision("mine") == "CleanerLater" && b.decision("beside") == "CleanerLater" })
		must(t, s.controller.Process.Signal(syscall.SIGSTOP))
		suspend := func(is bool) {
			must(t, env.client.Patch(ctx, b.get("mine"), client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"suspend":%v}}`, is)))))
		}
		suspend(false)
		b.eventually("the watchdog to remove the mark", func() bool { return b.get("mine").Annotations[v1alpha1.AnnotationHold] == "" })
		suspend(true)
		b.jump(8)
		must(t, s.controller.Process.Signal(syscall.SIGCONT))
		b.eventually("the Job beside it to be released", func() bool { return !b.suspended("beside") })
		if !b.suspended("mine") {
			t.Errorf("what its user suspended was resumed: %v", b.get("mine").Annotations)
		}
	})
	s.t.Run("kill -9 of all while the API server stands still", func(t *testing.T) {
		b := newStandingBed(t, dirtyThenClean(), nil)
		kill(s.controller) // which would release at once what nothing cleaner can be found for
		var latest time.Time
		const jobs = 10
		for i := range jobs {
			b.submit(b.job(fmt.Sprintf("late-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "2h20s"}))
			latest = b.get(fmt.Sprintf("late-%d", i)).CreationTimestamp.Add(20 * time.Second)
		}
		server := stateOf(t, filepath.Join(env.dir, "lab")).Components["kube-apiserver"]
		if server == 0 {
			t.Fatal("the lab does not say which process its API server is")
		}
		for i := range jobs {
			if !b.suspended(fmt.Sprintf("late-%d", i)) {
				t.Errorf("late-%d is not held", i)
			}
		}
		must(t, syscall.Kill(server, syscall.SIGSTOP))
		kill(s.watchdog)
		time.Sleep(time.Until(latest) + time.Second) // the holds end while nobody can write
		s.startWatchdog()
		must(t, syscall.Kill(server, syscall.SIGCONT))
		continued := time.Now()
		for i := range jobs {
			b.eventually("each to be released by the watchdog", func() bool {
				var j batchv1.Job
				return env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: fmt.Sprintf("late-%d", i)}, &j) == nil && !*j.Spec.Suspend
			})
		}
		t.Logf("all released %v after the API server went on", time.Since(continued).Round(100*time.Millisecond))
		s.startController()
		s.unharmedElsewhere(t)
	})
	s.t.Run("a ledger that another process has locked", func(t *testing.T) {
		b := newStandingBed(t, dirtyThenClean(), nil)
		locked := exec.Command("python3", "-c", `
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("begin immediate")
print("locked", flush=True)
time.sleep(15)
c.execute("rollback")
`, s.database)
		out, err := locked.StdoutPipe()
		must(t, err)
		must(t, locked.Start())
		_, err = out.Read(make([]byte, 6))
		must(t, err)
		urgent := b.job("urgent", nil)
		urgent.Spec.Template.Spec.PriorityClassName = "urgent"
		b.submit(urgent)
		b.submit(b.job("held", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
		b.eventually("decisions while the ledger is locked", func() bool { return b.decision("held") == "CleanerLater" })
		must(t, locked.Wait())
		uid := b.get("urgent").UID
		b.eventually("the run in the ledger", func() bool {
			_, all := entries(t, s.database)
			return count(all, "submitted", uid) == 1 && count(all, "started", uid) == 1 && count(all, "ended", uid) == 1 && count(all, "finished", uid) == 1
		})
	})
}

// unharmedElsewhere checks that a namespace without attackers is decided.
func (s *siege) unharmedElsewhere(t *testing.T) {
	b := newStandingBed(t, dirtyThenClean(), nil)
	b.submit(b.job("elsewhere", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	b.eventually("a decision elsewhere", func() bool { return b.decision("elsewhere") == "CleanerLater" })
}
