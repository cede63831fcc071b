// Command extender measures "lull extender" under load, as a process of its own on a real control
// plane (the lab): time of calls, errors, memory. It writes a table in Markdown.
//
//	make build && go run ./bench/extender
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/studies/demo"
)

type options struct {
	lab, binary string
	nodes, rate int
	span        time.Duration
}

func main() {
	o := options{}
	flag.StringVar(&o.lab, "lab", "bin/lab", "the lab's binary")
	flag.StringVar(&o.binary, "lull", "bin/lull", "Lull's binary")
	flag.IntVar(&o.nodes, "nodes", 1000, "nodes of the cluster, all in each call")
	flag.IntVar(&o.rate, "rate", 2000, "calls a second, half of each verb")
	flag.DurationVar(&o.span, "for", 10*time.Minute, "how long")
	flag.Parse()
	runtime.LockOSThread() // the lab ends with this thread
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "extender:", err)
		os.Exit(1)
	}
}

const zone = "bench"

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "lull-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return err
	}
	s, err := demo.Raise(ctx, dir, demo.Setup{Lab: o.lab, Nodes: o.nodes, CPUs: 64, Factor: 1, Binary: binary})
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := setUp(ctx, s.Client); err != nil {
		return err
	}
	address, err := free()
	if err != nil {
		return err
	}
	metrics, err := free()
	if err != nil {
		return err
	}
	cmd := exec.Command(binary, "extender", "--kubeconfig", filepath.Join(dir, "lab", "kubeconfig"), "--bind-address", address, "--metrics-bind-address", metrics, "--health-probe-bind-address", "0")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	bodies, err := calls(ctx, s.Client)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the extender does not listen: %w", err)
		}
	}
	load(o, address, cmd.Process.Pid, bodies)
	return own(metrics)
}

// free returns an address that nobody listens at.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// own prints how many calls the extender has answered in time, by its own clock.
func own(metrics string) error {
	resp, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return err
	}
	for _, m := range families["lull_extender_request_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		fmt.Printf("%s, by the extender's own clock: %d calls, on average %.2f ms; within", m.GetLabel()[0].GetValue(), h.GetSampleCount(), 1000*h.GetSampleSum()/float64(h.GetSampleCount()))
		for _, b := range h.GetBucket() {
			fmt.Printf(" %g ms %.2f %%,", 1000*b.GetUpperBound(), 100*float64(b.GetCumulativeCount())/float64(h.GetSampleCount()))
		}
		fmt.Println()
	}
	return nil
}

// setUp makes a zone and a policy for the extender.
func setUp(ctx context.Context, c client.Client) error {
	from := time.Now().UTC().Truncate(24 * time.Hour)
	series := "time,intensity_gco2eq_per_kwh\n"
	for h := range 24 * 4 {
		series += fmt.Sprintf("%s,%.1f\n", from.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 300-150*math.Cos(2*math.Pi*float64(h)/24))
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: zone}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: zone}, Data: map[string]string{"s.csv": series}},
		&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: zone}, Spec: v1alpha1.GridZoneSpec{
			Zone: "BENCH", Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: zone, Name: "series", Key: "s.csv"}},
		}},
		&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shift", Namespace: zone}, Spec: v1alpha1.CarbonPolicySpec{
			Via: v1alpha1.ViaExtender, Zone: zone, Planner: v1alpha1.PlannerSpec{Name: "window"},
		}},
	} {
		if err := c.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var z v1alpha1.GridZone
		if err := c.Get(ctx, client.ObjectKey{Name: zone}, &z); err == nil && len(z.Status.Forecast) > 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("nothing is known of the zone after a minute")
		}
	}
}

// calls are bodies of different Pods, each with all nodes of the cluster.
func calls(ctx context.Context, c client.Client) ([][]byte, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, err
	}
	var names []string
	for i := range nodes.Items {
		names = append(names, nodes.Items[i].Name)
	}
	var out [][]byte
	for i := range 64 {
		name := fmt.Sprintf("pod-%d", i)
		body, err := json.Marshal(extenderv1.ExtenderArgs{NodeNames: &names, Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: zone, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Duration(i) * 20 * time.Minute))},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "example.invalid/work", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")},
			}}}},
		}})
		if err != nil {
			return nil, err
		}
		out = append(out, body)
	}
	return out, nil
}

// workers send calls side by side.
const workers = 8

// load sends calls at a rate and prints what came of them. A call that cannot be sent in time is sent
// late, and its time counts from when it was due.
func load(o options, address string, pid int, bodies [][]byte) {
	var mu sync.Mutex
	var times []time.Duration
	failures := map[string]int{}
	httpClient := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	ask := func(path string, body []byte) error {
		resp, err := httpClient.Post("http://"+address+path, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %w", resp.Status, err)
		}
		return nil
	}
	begin := time.Now()
	first := ask("/filter", bodies[0])
	cold := time.Since(begin)
	if first != nil {
		failures[first.Error()]++
	}
	memory := []float64{}
	var group sync.WaitGroup
	begin = time.Now()
	interval := time.Second * workers / time.Duration(o.rate)
	for w := range workers {
		group.Go(func() {
			var own []time.Duration
			for n := 0; ; n++ {
				due := begin.Add(time.Duration(n)*interval + time.Duration(w)*interval/workers)
				if due.Sub(begin) >= o.span {
					break
				}
				time.Sleep(time.Until(due))
				err := ask([]string{"/filter", "/prioritize"}[n%2], bodies[(n+w)%len(bodies)])
				own = append(own, time.Since(due))
				if err != nil {
					mu.Lock()
					failures[err.Error()]++
					mu.Unlock()
				}
			}
			mu.Lock()
			times = append(times, own...)
			mu.Unlock()
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for time.Since(begin) < o.span {
			time.Sleep(min(30*time.Second, o.span/10))
			memory = append(memory, resident(pid))
		}
	}()
	group.Wait()
	took := time.Since(begin)
	<-done
	slices.Sort(times)
	at := func(share float64) float64 {
		return float64(times[min(len(times)-1, int(share*float64(len(times))))]) / float64(time.Millisecond)
	}
	failed := 0
	for text, n := range failures {
		failed += n
		fmt.Fprintf(os.Stderr, "%d times: %s\n", n, text)
	}
	fmt.Printf("| nodes | calls | a second | failed | first call, ms | p50, ms | p99, ms | p99.9, ms | memory, MiB: first, most, last |\n|---|---|---|---|---|---|---|---|---|\n")
	fmt.Printf("| %d | %d | %.0f | %d | %.2f | %.2f | %.2f | %.2f | %.0f, %.0f, %.0f |\n", o.nodes, len(times), float64(len(times))/took.Seconds(), failed,
		float64(cold)/float64(time.Millisecond), at(0.5), at(0.99), at(0.999), memory[0], slices.Max(memory), memory[len(memory)-1])
}

// resident is the memory of a process, MiB.
func resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return math.NaN()
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			return kib / 1024
		}
	}
	return math.NaN()
}
