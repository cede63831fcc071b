//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/cluster/kinds"
)

// setting is a number of the environment, or what it is by default.
func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q; accepted: a number above 0", name, text)
	}
	return n
}

// load creates Jobs at a rate, whatever the API server takes for each.
type load struct {
	t       *testing.T
	clients []client.Client
	rate    int
	next    int
}

// what came of Jobs that were created.
type outcome struct {
	took []time.Duration
	held int
	errs map[string]int
	span time.Duration
	cpu  map[string]float64 // seconds of each program
	busy float64            // seconds of all cores, of this and anything else
}

func (o *outcome) add(other outcome) {
	o.took, o.held, o.span = append(o.took, other.took...), o.held+other.held, o.span+other.span
	o.cpu, o.busy = sum(o.cpu, other.cpu), o.busy+other.busy
	if o.errs == nil {
		o.errs = map[string]int{}
	}
	for text, n := range other.errs {
		o.errs[text] += n
	}
}

// quantile is that of the times in milliseconds.
func (o *outcome) quantile(q float64) float64 {
	if len(o.took) == 0 {
		return 0
	}
	slices.Sort(o.took)
	return float64(o.took[min(int(q*float64(len(o.took))), len(o.took)-1)].Microseconds()) / 1000
}

// row is a line of a table in Markdown.
func (o *outcome) row(what string) string {
	return fmt.Sprintf("| %s | %d | %.0f | %d | %.1f | %.1f | %.1f | %v |", what, len(o.took), float64(len(o.took))/o.span.Seconds(), o.held, o.quantile(0.5), o.quantile(0.99), o.quantile(1), o.errs)
}

// cost is a line of a table in Markdown: how busy the cores of the machine were, how much of that was not for this test, and what one creation costs each program, in
// milliseconds of CPU time.
func (o *outcome) cost(what string) string {
	all, ours, row := 0.0, 0.0, ""
	cores := o.span.Seconds() * float64(runtime.NumCPU())
	for _, program := range slices.Sorted(maps.Keys(o.cpu)) {
		each := 1000 * o.cpu[program] / float64(len(o.took))
		all, ours = all+each, ours+o.cpu[program]
		row += fmt.Sprintf(" %s %.2f,", program, each)
	}
	return fmt.Sprintf("| %s | %.0f%% | %.0f%% | %.2f ms:%s |", what, 100*o.busy/cores, 100*max(0, o.busy-ours)/cores, all, strings.TrimSuffix(row, ","))
}

// newLoad has some clients, each with connections of its own, as different users have.
func newLoad(t *testing.T, rate int) *load {
	t.Helper()
	l := &load{t: t, rate: rate}
	for i := range 4 {
		config := rest.CopyConfig(env.config)
		config.QPS, config.UserAgent = -1, fmt.Sprintf("load-%d", i)
		c, err := client.New(config, client.Options{Scheme: env.client.Scheme()})
		must(t, err)
		l.clients = append(l.clients, c)
	}
	return l
}

// create creates Jobs for a while, and returns when the API server has answered for all. They have no pods, so that little else runs.
func (l *load) create(b bed, span time.Duration) (out outcome) {
	l.t.Helper()
	out.errs = map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	none := int32(0)
	tick := time.NewTicker(time.Second / time.Duration(l.rate))
	defer tick.Stop()
	began, used, busy := time.Now(), cpuSeconds(l.t), machineSeconds(l.t)
	for time.Since(began) < span {
		job := b.job(fmt.Sprintf("load-%06d", l.next), map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
		job.Spec.Parallelism = &none
		c := l.clients[l.next%len(l.clients)]
		l.next++
		all.Go(func() {
			from := time.Now()
			err := c.Create(context.Background(), job)
			took := time.Since(from)
			mu.Lock()
			defer mu.Unlock()
			out.took = append(out.took, took)
			if err != nil {
				out.errs[strings.ReplaceAll(err.Error(), job.Name, "NAME")]++
			} else if job.Annotations[v1alpha1.AnnotationHold] == v1alpha1.HoldAdmission {
				out.held++
			}
		})
		<-tick.C
	}
	all.Wait()
	out.span, out.cpu, out.busy = time.Since(began), since(used, cpuSeconds(l.t)), machineSeconds(l.t)-busy
	return out
}

// asked is what the API server has counted of Lull's webhook for Jobs.
type asked struct {
	calls, slow, slowest, rejected, failedOpen float64
}

// slowCall and slowestCall are bounds of the API server's histogram: webhooks of Lull have two seconds, the API server's own default is ten.
const slowCall, slowestCall = 2.5, 10.0

func askedOf(t *testing.T, name string) (out asked) {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(env.config)
	must(t, err)
	text, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	must(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	must(t, err)
	for _, f := range []string{"apiserver_admission_webhook_admission_duration_seconds", "apiserver_admission_webhook_rejection_count", "apiserver_admission_webhook_fail_open_count"} {
		if families[f] == nil {
			continue // nothing was counted
		}
		for _, m := range families[f].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["name"] != name {
				continue
			}
			switch {
			case m.GetHistogram() != nil:
				n := float64(m.GetHistogram().GetSampleCount())
				out.calls, out.slow, out.slowest = out.calls+n, out.slow+n, out.slowest+n
				for _, b := range m.GetHistogram().GetBucket() {
					switch b.GetUpperBound() {
					case slowCall:
						out.slow -= float64(b.GetCumulativeCount())
					case slowestCall:
						out.slowest -= float64(b.GetCumulativeCount())
					}
				}
			case strings.HasSuffix(f, "rejection_count"):
				out.rejected += m.GetCounter().GetValue()
			default:
				out.failedOpen += m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// replicas are two of lull admission behind a balancer.
type replicas struct {
	t         *testing.T
	addresses []string
	service   *balancer
	run       []*exec.Cmd
}

func startReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{t: t, run: make([]*exec.Cmd, 2)}
	for range r.run {
		address, err := loopback.FreeAddress()
		must(t, err)
		r.addresses = append(r.addresses, address)
	}
	r.service = newBalancer(t, r.addresses...)
	for i := range r.run {
		r.start(i)
	}
	return r
}

func (r *replicas) start(i int) {
	r.run[i] = start(r.t, []string{"admission", "--kubeconfig", env.admission, "--bind-address", r.addresses[i], "--url", "https://" + r.service.l.Addr().String(), "--kinds", builtinNames()})
}

// busiest is the replica to which most connections lead: API servers keep them.
func (r *replicas) busiest() int {
	n := r.service.connections()
	if n[r.addresses[1]] > n[r.addresses[0]] {
		return 1
	}
	return 0
}

// steady waits until both replicas hold what is created.
func (r *replicas) steady(b bed) {
	r.t.Helper()
	b.eventually("both replicas to hold", func() bool {
		for range 20 {
			probe := b.job("probe", nil)
			if err := env.client.Create(context.Background(), probe, client.DryRunAll); err != nil || probe.Annotations[v1alpha1.AnnotationHold] != v1alpha1.HoldAdmission {
				return false
			}
		}
		return true
	})
}

// TestAdmissionUnderLoad: Jobs are created at a rate, with lull admission in two replicas and without, and while one of the replicas is killed, stopped, and cut off.
// No creation fails, and the API server waits no longer than timeoutSeconds for Lull. What each creation takes is printed, as a table: it says nothing of another machine.
// LULL_ADMISSION_RATE and LULL_ADMISSION_SECONDS say how many a second, and for how long: 50 and 5 by default.
func TestAdmissionUnderLoad(t *testing.T) {
	webhookLab(t)
	ctx := context.Background()
	l := newLoad(t, setting(t, "LULL_ADMISSION_RATE", 50))
	span := time.Duration(setting(t, "LULL_ADMISSION_SECONDS", 5)) * time.Second
	r := startReplicas(t)
	with := newStandingBed(t, dirtyThenClean(), nil)
	must(t, env.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "free"}}))
	free := bed{t: t, ns: "free"}
	free.eventually("the namespace to be there", func() bool { return env.client.Create(ctx, free.job("probe", nil), client.DryRunAll) == nil })
	r.steady(with)
	hook := "hold-jobs.lull.dev"
	before := askedOf(t, hook)

	outcomes := map[string]*outcome{}
	const rounds = 5 // in turn, as others use the machine too
	for range rounds {
		for what, b := range map[string]bed{"1 without the webhook": free, "2 with the webhook, two replicas": with} {
			if outcomes[what] == nil {
				outcomes[what] = &outcome{}
			}
			outcomes[what].add(l.create(b, span/rounds))
		}
	}
	calm := askedOf(t, hook)
	fault := func(what string, begin, end func(i int)) {
		r.steady(with)
		warm := l.create(with, span/rounds) // so that there are connections
		i := r.busiest()
		begin(i)
		o := l.create(with, span)
		end(i)
		o.add(outcome{errs: warm.errs})
		outcomes[what] = &o
	}
	fault("3 one replica killed", func(i int) { must(t, r.run[i].Process.Kill()); _ = r.run[i].Wait() }, r.start)
	fault("4 one replica stopped (SIGSTOP)", func(i int) { must(t, r.run[i].Process.Signal(syscall.SIGSTOP)) }, func(i int) { must(t, r.run[i].Process.Signal(syscall.SIGCONT)) })
	fault("5 one replica cut off", func(i int) { r.service.partition(r.addresses[i], true) }, func(i int) { r.service.partition(r.addresses[i], false) })
	r.steady(with)

	table := "\n| | Jobs | a second | held | p50 ms | p99 ms | most ms | errors |\n|---|---|---|---|---|---|---|---|"
	for _, what := range slices.Sorted(maps.Keys(outcomes)) {
		o := outcomes[what]
		table += "\n" + o.row(what)
		if len(o.errs) > 0 {
			t.Errorf("%s: creations failed: %v", what, o.errs)
		}
	}
	t.Log(table)
	table = "\n| | cores busy | by others | CPU time of one creation |\n|---|---|---|---|"
	for _, what := range slices.Sorted(maps.Keys(outcomes)) {
		table += "\n" + outcomes[what].cost(what)
	}
	t.Log(table)
	if o := outcomes["1 without the webhook"]; o.held > 0 {
		t.Errorf("%d Jobs are held without a policy", o.held)
	}
	if o, all := outcomes["5 one replica cut off"], outcomes["4 one replica stopped (SIGSTOP)"]; o.held == len(o.took) && all.held == len(all.took) {
		t.Error("neither a replica that is stopped nor one that is cut off was asked: the test has not tried what it is about")
	}
	for _, what := range []string{"4 one replica stopped (SIGSTOP)", "5 one replica cut off"} {
		if o := outcomes[what]; o.held == 0 {
			t.Errorf("%s: no Job is held: the API server does not leave the replica that does not answer", what)
		}
	}
	if o := outcomes["2 with the webhook, two replicas"]; o.held == 0 {
		t.Error("no Job is held")
	}
	for what, n := range map[string]asked{"calm": calm, "in all": askedOf(t, hook)} {
		t.Logf("%s: the API server asked %.0f times, %.0f times without an answer, %.0f times for longer than %v s", what, n.calls-before.calls, n.failedOpen-before.failedOpen, n.slow-before.slow, slowCall)
		if n.rejected > 0 {
			t.Errorf("%s: Lull has refused %.0f Jobs", what, n.rejected)
		}
		// A machine that has no time for the API server measures too much, but not of one call in ten. Without timeoutSeconds, half of the calls would take ten seconds while a replica is stopped.
		if n.slow-before.slow > 0.1*(n.calls-before.calls) || n.slowest > before.slowest {
			t.Errorf("%s: the API server waited %.0f times of %.0f longer than %v s, %.0f times longer than %v s: timeoutSeconds is 2", what, n.slow, n.calls, slowCall, n.slowest, slowestCall)
		}
	}
	for _, w := range configuration(t).Webhooks {
		if w.Name != kinds.NominationsName && (*w.TimeoutSeconds != 2 || *w.FailurePolicy != "Ignore") {
			t.Errorf("%s: %d s, %s", w.Name, *w.TimeoutSeconds, *w.FailurePolicy)
		}
	}
}
