// Command cluster measures Lull's controller on a cluster with many governed Jobs, on a real
// control plane (the lab), and writes docs/benchmark-cluster.md: time of reconciliations,
// memory, CPU and calls of the API.
//
//	make build && go run ./bench/cluster
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/studies/demo"
)

func main() {
	o := options{}
	flag.StringVar(&o.lab, "lab", "bin/lab", "the lab's binary")
	flag.StringVar(&o.binary, "lull", "bin/lull", "Lull's binary")
	flag.IntVar(&o.waiting, "waiting", 5000, "Jobs that wait")
	flag.IntVar(&o.running, "running", 200, "Jobs that run")
	flag.IntVar(&o.policies, "policies", 10, "policies, each of a namespace, among which the Jobs are")
	flag.DurationVar(&o.rest, "rest", 5*time.Minute, "how long the controller is watched at rest")
	flag.StringVar(&o.out, "o", "docs/benchmark-cluster.md", "file to write")
	flag.Parse()
	runtime.LockOSThread() // the lab ends with this thread
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

type options struct {
	lab, binary, out string
	waiting, running int
	policies         int
	rest             time.Duration
}

// zone is that of all policies; namespaces are called after it.
const zone = "bench"

func namespace(policy int) string { return fmt.Sprintf("%s-%d", zone, policy) }

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "lull-bench-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	metrics := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return err
	}
	s, err := demo.Raise(ctx, dir, demo.Setup{Lab: o.lab, Nodes: 10, CPUs: 64, Factor: 1, Binary: binary, Flags: []string{"--metrics-bind-address", metrics}})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := setUp(ctx, s.Client, o.policies); err != nil {
		return err
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
	}
	say("submitting %d Jobs", o.waiting+o.running)
	begin := time.Now()
	if err := submit(ctx, s.Client, o); err != nil {
		return err
	}
	say("submitted in %v", time.Since(begin).Round(time.Second))
	settled := func() (bool, error) {
		var plans v1alpha1.CarbonPlanList
		if err := s.Client.List(ctx, &plans); err != nil {
			return false, err
		}
		waiting, running := 0, 0
		for i := range plans.Items {
			switch plans.Items[i].Status.State {
			case v1alpha1.PlanWaiting:
				waiting++
			case v1alpha1.PlanRunning:
				running++
			}
		}
		say("%d plans of waiting Jobs, %d of running ones", waiting, running)
		return waiting >= o.waiting && running >= o.running, nil
	}
	for {
		done, err := settled()
		if err != nil {
			return err
		}
		if done {
			break
		}
		if err := s.Ended(); err != nil {
			return err
		}
		if time.Since(begin) > 15*time.Minute {
			return errors.New("not all Jobs have a plan after 15 minutes")
		}
		time.Sleep(5 * time.Second)
	}
	burst := time.Since(begin)
	time.Sleep(30 * time.Second)
	first, err := look(metrics, s.Controller)
	if err != nil {
		return err
	}
	say("at rest for %v", o.rest)
	time.Sleep(o.rest)
	last, err := look(metrics, s.Controller)
	if err != nil {
		return err
	}
	return write(o, burst, first, last)
}

func setUp(ctx context.Context, c client.Client, policies int) error {
	from := time.Now().UTC().Truncate(24 * time.Hour)
	series := "time,intensity_gco2eq_per_kwh\n"
	for h := range 24 * 7 {
		series += fmt.Sprintf("%s,%.1f\n", from.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 300-150*math.Cos(2*math.Pi*float64(h)/24))
	}
	var objects []client.Object
	for i := range policies {
		ns := namespace(i)
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: ns}, Spec: v1alpha1.CarbonPolicySpec{Zone: zone}})
	}
	objects = append(objects,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: namespace(0)}, Data: map[string]string{"s.csv": series}},
		&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: zone}, Spec: v1alpha1.GridZoneSpec{
			Zone: "BENCH", Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: namespace(0), Name: "series", Key: "s.csv"}},
		}})
	for _, obj := range objects {
		if err := c.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		held := 0
		for i := range policies {
			probe := job("probe", namespace(i), true)
			if c.Create(ctx, probe, client.DryRunAll) == nil && probe.Spec.Suspend != nil && *probe.Spec.Suspend {
				held++
			}
		}
		if held == policies {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the admission policy does not hold Jobs")
		}
	}
}

// job waits for days, or runs at once and does not end.
func job(name, namespace string, waits bool) *batchv1.Job {
	delay := "0s"
	if waits {
		delay = "72h"
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{v1alpha1.AnnotationRuntime: "2h", v1alpha1.AnnotationMaxDelay: delay}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "work", Image: "example.invalid/work",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		}}}}},
	}
}

func submit(ctx context.Context, c client.Client, o options) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range o.waiting + o.running {
		group.Go(func() error {
			return c.Create(ctx, job(fmt.Sprintf("job-%05d", i), namespace(i%o.policies), i >= o.running))
		})
	}
	return group.Wait()
}

// figures are what the controller has used so far.
type figures struct {
	at             time.Time
	cpu            float64 // s
	rss, most      float64 // MiB
	calls          map[string]float64
	reconciles     uint64
	seconds        float64
	buckets        map[float64]uint64 // cumulative, by upper bound
	decisions      uint64
	decisionSecond float64
}

func look(metrics string, pid int) (f figures, err error) {
	f = figures{at: time.Now(), calls: map[string]float64{}, buckets: map[float64]uint64{}}
	res, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		return f, err
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return f, err
	}
	label := func(m *dto.Metric, name string) string {
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				return l.GetValue()
			}
		}
		return ""
	}
	for _, m := range families["controller_runtime_reconcile_time_seconds"].GetMetric() {
		if label(m, "controller") != "carbonpolicy" {
			continue
		}
		h := m.GetHistogram()
		f.reconciles, f.seconds = h.GetSampleCount(), h.GetSampleSum()
		for _, b := range h.GetBucket() {
			f.buckets[b.GetUpperBound()] = b.GetCumulativeCount()
		}
	}
	for _, m := range families["lull_decision_duration_seconds"].GetMetric() {
		f.decisions, f.decisionSecond = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
	}
	for _, m := range families["rest_client_requests_total"].GetMetric() {
		f.calls[label(m, "method")] += m.GetCounter().GetValue()
	}
	f.cpu = families["process_cpu_seconds_total"].GetMetric()[0].GetCounter().GetValue()
	f.rss = families["process_resident_memory_bytes"].GetMetric()[0].GetGauge().GetValue() / (1 << 20)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			f.most = kib / 1024
		}
	}
	return f, nil
}

// quantile is the upper bound of the bucket in which a share of the reconciliations between
// two looks lies.
func quantile(from, to figures, share float64) float64 {
	best := math.Inf(1)
	want := share * float64(to.reconciles-from.reconciles)
	for bound, n := range to.buckets {
		if float64(n-from.buckets[bound]) >= want {
			best = math.Min(best, bound)
		}
	}
	return best
}

func (f figures) all() float64 {
	sum := 0.0
	for _, n := range f.calls {
		sum += n
	}
	return sum
}

func write(o options, burst time.Duration, first, last figures) error {
	rest := last.at.Sub(first.at)
	jobs := float64(o.waiting + o.running)
	mean := func(seconds float64, n uint64) float64 { return 1000 * seconds / math.Max(1, float64(n)) }
	var b bytes.Buffer
	fmt.Fprintf(&b, `# A cluster with many Jobs

For administrators of large clusters: what a controller with thousands of Jobs costs in time, CPU and API calls.

`+"`go run ./bench/cluster -policies %d`"+` writes this page: %d governed Jobs that wait and %d that run, on the
lab's real control plane, all on %d cores of a shared machine, which the control plane uses
as well. A reconciliation is that of a policy, which decides for all its Jobs at once;
quantiles are upper bounds of their histogram's buckets.

| | while submitted and planned | at rest (%s) |
|---|---|---|
| reconciliations | %d | %d |
| p50, at most | %.3g s | %.3g s |
| p99, at most | %.3g s | %.3g s |
| mean | %.0f ms | %.0f ms |
| of that deciding | %.0f ms | %.0f ms |
| CPU | %.2f cores | %.2f cores |
| calls of the API | %.0f (%.1f a Job) | %.0f (%.2f a Job and hour) |

Time until each Job had its plan in the API: %s. Memory: %.0f MiB at rest, %.0f MiB at most.
`, o.policies, o.waiting, o.running, runtime.NumCPU(), rest.Round(time.Second),
		first.reconciles, last.reconciles-first.reconciles,
		quantile(figures{}, first, 0.5), quantile(first, last, 0.5),
		quantile(figures{}, first, 0.99), quantile(first, last, 0.99),
		mean(first.seconds, first.reconciles), mean(last.seconds-first.seconds, last.reconciles-first.reconciles),
		mean(first.decisionSecond, first.decisions), mean(last.decisionSecond-first.decisionSecond, last.decisions-first.decisions),
		first.cpu/(burst+30*time.Second).Seconds(), (last.cpu-first.cpu)/rest.Seconds(),
		first.all(), first.all()/jobs, last.all()-first.all(), (last.all()-first.all())/jobs/rest.Hours(),
		burst.Round(time.Second), last.rss, last.most)
	fmt.Print(b.String())
	return os.WriteFile(o.out, b.Bytes(), 0o644)
}
