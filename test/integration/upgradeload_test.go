//go:build integration

package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/studies/demo"
)

// creator creates Jobs in a bed, one after another, and tries each again until the API server has it.
type creator struct {
	b       bed
	ctx     context.Context
	stop    context.CancelFunc
	done    chan struct{}
	mu      sync.Mutex
	created map[string]time.Time // when the API server was first asked for it
	held    map[string]bool      // those that came back held
	refused int                  // how often it could not be asked
}

// createEvery is the time between two Jobs of a creator.
const createEvery = 500 * time.Millisecond

// startCreator creates Jobs that no node takes: what nobody holds waits, and has not started.
func startCreator(b bed) *creator {
	ctx, stop := context.WithCancel(context.Background())
	c := &creator{b: b, ctx: ctx, stop: stop, done: make(chan struct{}), created: map[string]time.Time{}, held: map[string]bool{}}
	b.t.Cleanup(c.end)
	go func() {
		defer close(c.done)
		for i := 0; ctx.Err() == nil; i++ {
			c.create(fmt.Sprintf("load-%04d", i))
			time.Sleep(createEvery)
		}
	}()
	return c
}

// create has a Job of a name created. It fails the test if the API server refuses it because of Lull, or for longer than a new control plane may take to start.
func (c *creator) create(name string) {
	began := time.Now()
	for {
		job := c.b.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		job.Spec.Template.Spec.NodeSelector = map[string]string{"there-is": "none"}
		job.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1m") // as many as come have room in the clean hours
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := env.client.Create(ctx, job)
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) { // of an attempt whose answer was lost
			c.mu.Lock()
			c.created[name] = began
			c.held[name] = err == nil && job.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldAdmission
			c.mu.Unlock()
			return
		}
		if strings.Contains(err.Error(), "lull.dev") {
			c.b.t.Errorf("%s is refused because of Lull: %v", name, err)
		}
		c.mu.Lock()
		c.refused++
		c.mu.Unlock()
		if time.Since(began) > 3*patience {
			c.b.t.Errorf("%s: %v", name, err)
			c.stop()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// end returns when the last Job is created.
func (c *creator) end() {
	c.stop()
	<-c.done
}

// count is how many Jobs the API server has by now.
func (c *creator) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.created)
}

// jobs are those of the bed, by their names.
func (b bed) jobs() map[string]*batchv1.Job {
	b.t.Helper()
	var list batchv1.JobList
	must(b.t, env.client.List(context.Background(), &list, client.InNamespace(b.ns)))
	out := map[string]*batchv1.Job{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// unheld are the Jobs that no policy governs.
func (b bed) unheld() (out []*batchv1.Job) {
	b.t.Helper()
	for _, j := range b.jobs() {
		if j.Annotations[v1alpha1.AnnotationPolicy] == "" {
			out = append(out, j)
		}
	}
	return out
}

// state is what matters of a Job here.
func state(j *batchv1.Job) string {
	if j == nil {
		return "it is not there"
	}
	return fmt.Sprintf("%s %v, active %d, %v", j.UID, j.Annotations, j.Status.Active, j.Status.Conditions)
}

// resumed reports whether a Job runs, or has been resumed.
func resumed(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionFalse {
			return true
		}
	}
	return j.Spec.Suspend == nil || !*j.Spec.Suspend || j.Status.Active > 0
}

// heldByPolicies reports whether a Job that is created now is held by an admission policy: the webhook leaves a mark on a dry run that asks for it.
func (b bed) heldByPolicies() bool {
	b.t.Helper()
	probe := b.job("probe", map[string]string{v1alpha1.AnnotationProbe: "true"})
	must(b.t, env.client.Create(context.Background(), probe, client.DryRunAll))
	return probe.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldAdmission && probe.Annotations[v1alpha1.AnnotationProbe] != v1alpha1.ProbeWebhook
}

// upgradeWorld is a lab of an older version with the webhook, a controller that runs until the end of the test, held Jobs in two beds, and a creator in each.
type upgradeWorld struct {
	t        *testing.T
	dir      string
	down     func()
	address  string
	replica  *exec.Cmd
	never    bed // whose policy leaves alone what nobody held
	exists   bed // whose policy has it suspended
	creators []*creator
	waiting  map[*batchv1.Job]bed // held before all this
}

func newUpgradeWorld(t *testing.T) *upgradeWorld {
	t.Helper()
	ctx := context.Background()
	before := env
	w := &upgradeWorld{t: t, dir: filepath.Join(t.TempDir(), "lab"), waiting: map[*batchv1.Job]bed{}}
	t.Cleanup(func() { w.down(); env = before })
	env.dir = t.TempDir()
	var err error
	w.down, err = bootLab(w.dir)
	must(t, err)
	must(t, dial())
	must(t, demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{Webhook: true}))
	accounts(t)
	w.address, err = loopback.FreeAddress()
	must(t, err)
	w.startReplica()
	startController(t)
	w.never = newStandingBed(t, dirtyThenClean(), nil)
	w.exists = newStandingBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.HoldExisting = v1alpha1.HoldExistingUnstarted })
	for _, b := range []bed{w.never, w.exists} {
		for i := range 5 {
			job := b.job(fmt.Sprintf("held-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
			b.createHeld(job)
			w.waiting[job] = b
		}
		b.eventually("decisions on all", func() bool {
			for i := range 5 {
				if b.decision(fmt.Sprintf("held-%d", i)) != "CleanerLater" {
					return false
				}
			}
			return true
		})
		w.creators = append(w.creators, startCreator(b))
	}
	return w
}

// startReplica runs lull admission.
func (w *upgradeWorld) startReplica() {
	w.replica = start(w.t, []string{"admission", "--kubeconfig", env.admission, "--bind-address", w.address, "--url", "https://" + w.address, "--kinds", builtinNames()})
}

// endReplica kills it.
func (w *upgradeWorld) endReplica() {
	must(w.t, w.replica.Process.Kill())
	_ = w.replica.Wait()
}

// more waits until each creator has had so many more Jobs created.
func (w *upgradeWorld) more(what string, n int) {
	w.t.Helper()
	for _, c := range w.creators {
		from := c.count()
		c.b.eventually(fmt.Sprintf("%d Jobs %s", n, what), func() bool { return c.count() >= from+n })
	}
}

// exchange replaces the control plane by one of the lab's own version.
func (w *upgradeWorld) exchange() {
	w.t.Helper()
	w.down()
	w.down = func() {}
	version := os.Getenv("LULL_KUBERNETES")
	must(w.t, os.Unsetenv("LULL_KUBERNETES"))
	w.t.Cleanup(func() { _ = os.Setenv("LULL_KUBERNETES", version) })
	host := env.config.Host
	down, err := bootLab(w.dir, "--keep-data")
	must(w.t, err)
	w.down = down
	must(w.t, dial())
	if env.config.Host != host {
		w.t.Fatalf("the control plane has moved from %s to %s: clients do not follow", host, env.config.Host)
	}
}

// toPolicies has policies hold instead of the webhook, as an upgrade of the chart does: policies come, the webhook goes. It returns when all is held by policies.
func (w *upgradeWorld) toPolicies() (since time.Time) {
	w.t.Helper()
	ctx := context.Background()
	must(w.t, demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{}))
	must(w.t, env.client.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: kinds.WebhookConfiguration}}))
	w.endReplica()
	for _, b := range []bed{w.never, w.exists} {
		b.eventually("policies to hold", b.heldByPolicies)
	}
	return time.Now()
}

// check is what holds at any time until the clean hours: no Job is lost, none that was held is released, and what was held before is as it was.
func (w *upgradeWorld) check(when string) {
	w.t.Helper()
	for _, c := range w.creators {
		c.mu.Lock()
		jobs := c.b.jobs() // after what is known to have been created
		for name := range c.created {
			switch j := jobs[name]; {
			case j == nil:
				w.t.Errorf("%s: %s/%s is lost", when, c.b.ns, name)
			case c.held[name] && resumed(j):
				w.t.Errorf("%s: %s/%s was held, and is released: %s", when, j.Namespace, j.Name, state(j))
			}
		}
		c.mu.Unlock()
	}
	for was, b := range w.waiting {
		if j := b.jobs()[was.Name]; j == nil || j.UID != was.UID || resumed(j) || j.Annotations[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission {
			w.t.Errorf("%s: %s/%s, which waited before the upgrade: %s", when, b.ns, was.Name, state(j))
		}
	}
}

// TestControlPlaneIsUpgradedUnderLoad: a control plane before 1.36 becomes one of 1.36 while Jobs are created all the time. For a while nobody is there to hold them; then the webhook is back; then
// policies come instead of it. No Job is lost, none is refused because of Lull, none that was held is released early. All that are created when policies hold are held. Those that slipped
// through are suspended, or left alone and stated, as their policy says.
func TestControlPlaneIsUpgradedUnderLoad(t *testing.T) {
	if older() == "" {
		t.Skip("there is nothing to upgrade from: make test-kubernetes runs it")
	}
	w := newUpgradeWorld(t)
	w.more("on the old control plane", 10)
	w.endReplica() // with its node, say
	w.exchange()
	w.more("on the new control plane, with nobody to hold them", 10)
	w.check("after the exchange")
	w.startReplica()
	w.never.eventually("the webhook to hold again", func() bool {
		probe := w.never.job("probe", nil)
		must(t, env.client.Create(context.Background(), probe, client.DryRunAll))
		return probe.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldAdmission
	})
	w.more("with the webhook on the new control plane", 10)
	since := w.toPolicies()
	w.more("with policies", 20)
	for _, c := range w.creators {
		c.end()
	}
	w.check("with policies")
	after := 0
	for _, c := range w.creators {
		jobs := c.b.jobs()
		for name, began := range c.created {
			if !began.After(since) {
				continue
			}
			after++
			if j := jobs[name]; j != nil && (resumed(j) || j.Annotations[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission) {
				t.Errorf("%s/%s was created when policies held, and is not held: %v", c.b.ns, name, j.Annotations)
			}
		}
	}
	w.slipped()
	t.Logf("%d and %d Jobs, %d of them when policies held; asked in vain %d and %d times", w.creators[0].count(), w.creators[1].count(), after, w.creators[0].refused, w.creators[1].refused)
	for _, b := range []bed{w.never, w.exists} {
		b.jump(8)
	}
	for _, b := range []bed{w.never, w.exists} {
		b.eventually("all to be released in the clean hours", func() bool {
			for _, j := range b.jobs() {
				if *j.Spec.Suspend {
					return false
				}
			}
			return true
		})
	}
}

// slipped: what nobody held is suspended where the policy asks for it, and else stated.
func (w *upgradeWorld) slipped() {
	w.t.Helper()
	w.exists.eventually("what slipped through to be suspended", func() bool { return len(w.exists.unheld()) == 0 })
	suspended := 0
	for _, j := range w.exists.jobs() {
		if j.Generation > 1 { // its spec was changed after its creation
			suspended++
		}
	}
	left := w.never.unheld()
	if suspended == 0 || len(left) == 0 {
		w.t.Errorf("%d and %d Jobs slipped through: the test has not tried what it is about", suspended, len(left))
	}
	for _, j := range left {
		if *j.Spec.Suspend {
			w.t.Errorf("%s is suspended, which its policy does not ask for", j.Name)
		}
		out, err := exec.Command(os.Getenv("LULL_BIN"), "explain", "job/"+j.Name, "-n", j.Namespace, "--kubeconfig", env.kubeconfig).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "but was not, and Lull leaves it alone: spec.holdExisting of the policy is Never") {
			w.t.Errorf("lull explain: %s", out)
		}
	}
	w.t.Logf("%d Jobs slipped through and were suspended, %d were left alone", suspended, len(left))
}
