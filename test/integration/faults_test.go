//go:build integration

package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cli"
	"lull.dev/lull/internal/controller"
)

// batch is a mix of Jobs under observation: rigid, interruptible and elastic ones with
// deadlines all over the time to come.
type batch struct {
	bed
	jobs      []*batchv1.Job // as the API server took them in
	deadlines map[string]time.Time

	mu       sync.Mutex
	held     map[string]bool
	releases map[string]int
}

// submitBatch submits n Jobs, whose deadlines lie between two hours of the series.
func submitBatch(b bed, n int, from, to time.Duration) *batch {
	x := &batch{bed: b, deadlines: map[string]time.Time{}, held: map[string]bool{}, releases: map[string]int{}}
	must(b.t, env.client.Create(context.Background(), concave(b.ns)))
	for i := range n {
		name := fmt.Sprintf("job-%d", i)
		deadline := gridStart.Add(from + time.Duration(i)*(to-from)/time.Duration(n))
		stated := map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339)}
		j := b.job(name, stated)
		switch i % 3 {
		case 1:
			j = b.elasticJob(name, 3, 4, stated)
		case 2:
			j = b.elasticJob(name, 3, 1, stated)
			delete(j.Annotations, v1alpha1.AnnotationMinWorkers)
			delete(j.Annotations, v1alpha1.AnnotationMaxWorkers)
			j.Annotations[v1alpha1.AnnotationInterruptible] = "true"
		}
		b.submit(j)
		x.jobs = append(x.jobs, j)
		x.deadlines[name] = deadline
	}
	go x.watch(b.t.Context())
	return x
}

// watch counts how often each Job is released.
func (x *batch) watch(ctx context.Context) {
	for ctx.Err() == nil {
		var list batchv1.JobList
		if env.client.List(ctx, &list, client.InNamespace(x.ns)) == nil {
			x.mu.Lock()
			for i := range list.Items {
				j := &list.Items[i]
				held := j.Spec.Suspend != nil && *j.Spec.Suspend
				if x.held[j.Name] && !held {
					x.releases[j.Name]++
				}
				x.held[j.Name] = held
			}
			x.mu.Unlock()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// audit waits for all Jobs and checks what must hold whatever happened: none is left held,
// each has finished in time, none that may not pause was released twice, and nothing of what
// its user wrote is lost.
func (x *batch) audit() {
	t := x.t
	t.Helper()
	for _, was := range x.jobs {
		x.eventually(was.Name+" to finish", func() bool { return x.finished(was.Name) })
		now := x.get(was.Name)
		if at := x.gridTime(now.Status.CompletionTime.Time); at.After(x.deadlines[was.Name]) {
			t.Errorf("%s finished at %s of the series, its deadline is %s", was.Name, at, x.deadlines[was.Name])
		}
		if _, held := now.Annotations[v1alpha1.AnnotationHold]; held {
			t.Errorf("%s has finished and is still marked as held", was.Name)
		}
		if !equality.Semantic.DeepEqual(was.Spec.Template, now.Spec.Template) {
			t.Errorf("%s: the pod template has changed:\n%+v\n%+v", was.Name, was.Spec.Template, now.Spec.Template)
		}
		if !equality.Semantic.DeepEqual(was.Spec.Completions, now.Spec.Completions) || !equality.Semantic.DeepEqual(was.Spec.BackoffLimit, now.Spec.BackoffLimit) {
			t.Errorf("%s: completions or backoffLimit have changed: %+v", was.Name, now.Spec)
		}
		if _, elastic := was.Annotations[v1alpha1.AnnotationMaxWorkers]; !elastic && *was.Spec.Parallelism != *now.Spec.Parallelism {
			t.Errorf("%s: parallelism was %d, is %d", was.Name, *was.Spec.Parallelism, *now.Spec.Parallelism)
		}
		for k, v := range was.Annotations {
			if k != v1alpha1.AnnotationHold && now.Annotations[k] != v {
				t.Errorf("%s: annotation %s was %q, is %q", was.Name, k, v, now.Annotations[k])
			}
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, was := range x.jobs {
		if n := x.releases[was.Name]; n > 1 && was.Spec.CompletionMode == nil || n > 1 && *was.Spec.CompletionMode == batchv1.NonIndexedCompletion {
			t.Errorf("%s was released %d times", was.Name, n)
		}
	}
}

// failsafe runs the watchdog, as beside every controller.
func failsafe(t *testing.T) {
	start(t, []string{"failsafe", "--kubeconfig", env.failsafe, "--grace", "0s", "--every", "500ms"})
}

// TestKilledFiftyTimes: the controller is killed at random moments, fifty times.
func TestKilledFiftyTimes(t *testing.T) {
	b := newBed(t, dirtyThenClean(), nil)
	failsafe(t)
	x := submitBatch(b, 24, 8*time.Hour, 36*time.Hour)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		p := startController(t)
		time.Sleep(time.Duration(200+rng.IntN(2600)) * time.Millisecond)
		must(t, p.Process.Signal(syscall.SIGKILL))
		_ = p.Wait()
	}
	startController(t)
	x.audit()
}

// TestLeaderKilled: of two replicas the leader is killed, and the other goes on.
func TestLeaderKilled(t *testing.T) {
	b := newBed(t, dirtyThenClean(), nil)
	replicas := []func(){}
	lead := func() string {
		var lease coordinationv1.Lease
		if env.client.Get(context.Background(), client.ObjectKey{Namespace: "lull-system", Name: "controller.lull.dev"}, &lease) != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	before := lead()
	for range 2 {
		p := startController(t, "--leader-elect=true")
		replicas = append(replicas, func() { must(t, p.Process.Signal(syscall.SIGKILL)); _ = p.Wait() })
		if len(replicas) == 1 {
			b.eventually("the first to lead", func() bool { return lead() != before && lead() != "" })
		}
	}
	first := lead()
	x := submitBatch(b, 9, 16*time.Hour, 30*time.Hour)
	b.eventually("decisions", func() bool { return b.decision("job-8") != "" })
	replicas[0]()
	b.eventually("the other to lead", func() bool { return lead() != first })
	x.audit()
}

// faulty stands between Lull and the API server and makes trouble: watches are cut after a
// second or two, some requests are refused for their number, some writes as conflicts.
type faulty struct {
	proxy               *httputil.ReverseProxy
	cut, many, conflict atomic.Int64
	mu                  sync.Mutex
	rng                 *rand.Rand
}

func (f *faulty) chance(share float64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.Float64() < share
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := func(code int, reason metav1.StatusReason) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"injected"}`, reason, code)
	}
	switch {
	case r.URL.Query().Get("watch") != "":
		f.cut.Add(1)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second+time.Duration(f.cut.Load()%10)*100*time.Millisecond)
		defer cancel()
		defer func() { _ = recover() }() // the proxy's way to end a cut answer
		f.proxy.ServeHTTP(w, r.WithContext(ctx))
	case r.Method != http.MethodGet && f.chance(0.15):
		f.conflict.Add(1)
		status(http.StatusConflict, metav1.StatusReasonConflict)
	case f.chance(0.15):
		f.many.Add(1)
		w.Header().Set("Retry-After", "1")
		status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	default:
		f.proxy.ServeHTTP(w, r)
	}
}

// startFaulty returns the proxy and a kubeconfig that goes through it.
func startFaulty(t *testing.T, kubeconfig string) (*faulty, string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	must(t, err)
	target, err := url.Parse(env.config.Host)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(env.config.CAData)
	f := &faulty{proxy: httputil.NewSingleHostReverseProxy(target), rng: rand.New(rand.NewPCG(3, 4))}
	f.proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	f.proxy.FlushInterval = -1
	f.proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {}
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	for _, c := range config.Clusters {
		c.Server = server.URL
		c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, file))
	return f, file
}

// TestFaultyAPI: watches that drop, refusals and conflicts, all the time.
func TestFaultyAPI(t *testing.T) {
	f, kubeconfig := startFaulty(t, env.restricted)
	start(t, []string{"controller", "--kubeconfig", kubeconfig})
	b := newBed(t, dirtyThenClean(), nil)
	x := submitBatch(b, 12, 10*time.Hour, 24*time.Hour)
	x.audit()
	t.Logf("%d watches cut, %d requests refused, %d conflicts", f.cut.Load(), f.many.Load(), f.conflict.Load())
	if f.cut.Load() == 0 || f.many.Load() == 0 || f.conflict.Load() == 0 {
		t.Error("some fault was not injected")
	}
}

// TestDeletedEditedAndMadeAgain: in the middle of its plan a Job gets another deadline by its
// user, one is deleted, and one is deleted and made again under its name.
func TestDeletedEditedAndMadeAgain(t *testing.T) {
	startController(t)
	b := newBed(t, dirtyThenClean(), nil)
	ctx := context.Background()
	x := submitBatch(b, 6, 20*time.Hour, 30*time.Hour)
	b.eventually("plans", func() bool { return b.plan("job-job-5").Status.State != "" })
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)

	edited := x.jobs[0].Name
	x.deadlines[edited] = gridStart.Add(14 * time.Hour)
	text := x.deadlines[edited].Format(time.RFC3339)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationDeadline, text)
	must(t, env.client.Patch(ctx, b.get(edited), client.RawPatch("application/merge-patch+json", patch)))
	x.jobs[0].Annotations[v1alpha1.AnnotationDeadline] = text
	b.eventually("a plan for the new deadline", func() bool {
		d := b.plan("job-" + edited).Status.Deadline
		return d != nil && d.Time.Equal(x.deadlines[edited])
	})

	deleted := x.jobs[1]
	must(t, env.client.Delete(ctx, b.get(deleted.Name), background))
	b.eventually("the plan of the deleted Job to go", func() bool { return b.plan("job-"+deleted.Name).Name == "" })

	again := b.job(x.jobs[3].Name, map[string]string{v1alpha1.AnnotationDeadline: x.deadlines[x.jobs[3].Name].Format(time.RFC3339)})
	old := b.get(again.Name).UID
	must(t, env.client.Delete(ctx, b.get(again.Name), background))
	b.eventually("the name to be free", func() bool { return env.client.Create(ctx, again) == nil })
	b.eventually("a plan of the new Job", func() bool {
		p := b.plan("job-" + again.Name)
		return p.Name != "" && p.Spec.Workload.UID == again.UID && again.UID != old && p.Status.State != ""
	})
	x.jobs[3] = again
	x.mu.Lock()
	delete(x.held, again.Name)
	delete(x.releases, again.Name)
	x.mu.Unlock()
	x.jobs = append(x.jobs[:1], x.jobs[2:]...)
	x.audit()
}

// jumpy is a clock that can be set.
type jumpy struct {
	clock.RealClock
	by atomic.Int64
}

func (c *jumpy) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.by.Load())) }

// TestClockJumps: the controller's clock is set an hour back, right, and an hour ahead: what it
// releases early is in time all the same, and nothing is held for the hour.
func TestClockJumps(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", env.restricted)
	must(t, err)
	c := &jumpy{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, config, controller.Options{
			MetricsAddress: "0", HealthAddress: "0", Namespace: "lull-system", Planner: cli.NewPlanner, Clock: c,
		})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	b := newBed(t, dirtyThenClean(), nil)
	x := submitBatch(b, 6, 14*time.Hour, 24*time.Hour)
	b.eventually("plans", func() bool { return b.plan("job-job-5").Status.State != "" })
	failsafe(t) // whose clock is right
	c.by.Store(-int64(time.Hour))
	time.Sleep(5 * time.Second)
	c.by.Store(0)
	time.Sleep(5 * time.Second)
	c.by.Store(int64(time.Hour))
	x.audit()
}

// ownLab gives the test a lab of its own.
func ownLab(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	dir = bareLab(t, flags...)
	must(t, connect(slices.Contains(flags, "--kueue")))
	return dir
}

// bareLab is ownLab without Lull.
func bareLab(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	runtime.LockOSThread()
	before := env
	dir = filepath.Join(t.TempDir(), "lab")
	env.dir = t.TempDir()
	down, err := bootLab(dir, flags...)
	must(t, err)
	t.Cleanup(func() {
		down()
		env = before
		runtime.UnlockOSThread()
	})
	must(t, dial())
	return dir
}

// TestControlPlaneFails: the API server is killed and comes back; later etcd does not answer
// for a minute.
func TestControlPlaneFails(t *testing.T) {
	dir := ownLab(t, "--restart")
	startController(t)
	failsafe(t)
	// A day of the series is 96 s; etcd stands still from about hour 12 to hour 27.
	b := newBed(t, []float64{500, 500, 500, 500, 100, 100, 500, 500, 500, 500}, nil)
	x := submitBatch(b, 12, 34*time.Hour, 46*time.Hour)
	b.eventually("plans", func() bool { return b.plan("job-job-11").Status.State != "" })

	pid := stateOf(t, dir).Components["kube-apiserver"]
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	b.t.Logf("killed the API server (%d)", pid)
	b.eventually("the API server to come back", func() bool {
		if stateOf(t, dir).Components["kube-apiserver"] == pid {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return env.client.List(ctx, &corev1.NamespaceList{}) == nil
	})

	etcd := stateOf(t, dir).Components["etcd"]
	must(t, syscall.Kill(etcd, syscall.SIGSTOP))
	time.Sleep(60 * time.Second)
	must(t, syscall.Kill(etcd, syscall.SIGCONT))
	b.eventually("etcd to answer", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return env.client.List(ctx, &corev1.NamespaceList{}) == nil
	})
	x.audit()
}
