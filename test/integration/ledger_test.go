//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/pkg/power"
)

// history is what the API server says of the pods of a namespace: by Job, when each ran.
type history struct {
	mu   sync.Mutex
	runs map[string]map[types.UID][2]time.Time
}

// watchPods keeps the history of the bed's pods until the end of the test.
func (b bed) watchPods() *history {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	c, err := client.NewWithWatch(env.config, client.Options{Scheme: scheme.Scheme})
	must(b.t, err)
	w, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(b.ns))
	must(b.t, err)
	h := &history{runs: map[string]map[types.UID][2]time.Time{}}
	go func() {
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			from, to, ran := kube.Ran(pod)
			if !ran {
				continue
			}
			if to.IsZero() && e.Type == watch.Deleted {
				to = time.Now()
			}
			h.mu.Lock()
			job := pod.Labels[batchv1.JobNameLabel]
			if h.runs[job] == nil {
				h.runs[job] = map[types.UID][2]time.Time{}
			}
			h.runs[job][pod.UID] = [2]time.Time{from, to}
			h.mu.Unlock()
		}
	}()
	return h
}

// of is how long the pods of a Job ran in all (wall time), and how many did.
func (h *history) of(job string) (sum time.Duration, runs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.runs[job] {
		sum, runs = sum+x[1].Sub(x[0]), runs+1
	}
	return sum, runs
}

// lull runs a command that must succeed and returns what it printed.
func lull(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Getenv("LULL_BIN"), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lull %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// TestLedger: what ran is in the ledger as the API server tells it, though the controller is killed again
// and again; the chain holds, all is settled, and an auditor finds the same from the export alone.
func TestLedger(t *testing.T) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	begin := func() *exec.Cmd { return startController(t, "--ledger", database) }
	controller := begin()
	b := newBed(t, []float64{500, 400, 300, 200, 100, 200, 300, 400}, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"}
	})
	b.marginal()
	seen := b.watchPods()
	rnd := rand.New(rand.NewPCG(7, 7))
	whole := func(name string) bool { return strings.HasPrefix(name, "whole") }
	var names []string
	for i := range 8 {
		name := fmt.Sprintf("whole-%d", i)
		b.submit(b.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: fmt.Sprintf("%dh", 4+2*i)}))
		names = append(names, name)
	}
	for i := range 3 {
		name := fmt.Sprintf("pauses-%d", i)
		j := b.job(name, map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationMaxDelay: "14h", v1alpha1.AnnotationRuntime: "3h"})
		j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "3h"
		b.submit(j)
		names = append(names, name)
	}
	j := b.elasticJob("scales", 6, 3, map[string]string{v1alpha1.AnnotationMaxDelay: "16h"})
	b.submit(j)
	names = append(names, "scales")
	const kills = 100
	for kill := range kills {
		time.Sleep(time.Duration(500+rnd.IntN(2500)) * time.Millisecond) // a start takes a second
		must(t, controller.Process.Kill())
		_ = controller.Wait() // it was killed
		controller = begin()
		if kill%8 == 0 {
			name := fmt.Sprintf("whole-later-%d", kill)
			b.submit(b.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: fmt.Sprintf("%dh", 2+rnd.IntN(16))}))
			names = append(names, name)
		}
	}
	b.eventually("all to finish", func() bool { return b.allFinished(names) })
	ours := func() (lines []string) { // workloads that other tests have left are in the ledger too
		for line := range strings.Lines(lull(t, "ledger", "export", "--database", database, "--format", "json")) {
			if strings.Contains(line, `"namespace":"`+b.ns+`"`) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	b.eventually("all to be settled", func() bool { return len(ours()) == len(names) })
	must(t, controller.Process.Kill())
	_ = controller.Wait() // it was killed
	t.Logf("%d kills; %s", kills, strings.TrimSpace(lull(t, "ledger", "verify", "--database", database)))

	var settled int
	for _, line := range ours() {
		var r struct {
			Name                string
			KWh                 float64
			Runs, InferredEnds  int
			OnTime              bool
			SavedGCO2eq, GCO2eq float64
			BesideSignal        string
			BesideGCO2eq        float64
		}
		must(t, json.Unmarshal([]byte(line), &r))
		settled++
		ran, runs := seen.of(r.Name)
		want := ran.Hours() * factor * power.DefaultWattsPerCPU / 1000 // one CPU a pod
		t.Logf("%s: %d runs, %.4f kWh (%.4f), %.1f g, saved %.1f, %d ends inferred", r.Name, r.Runs, r.KWh, want, r.GCO2eq, r.SavedGCO2eq, r.InferredEnds)
		if !slices.Contains(names, r.Name) || r.Runs != runs {
			t.Errorf("%s: %d runs, the API server tells of %d", r.Name, r.Runs, runs)
		}
		if r.BesideSignal != "marginal" || math.Abs(r.BesideGCO2eq-700*r.KWh) > 1e-6*r.BesideGCO2eq {
			t.Errorf("%s: %v g by %q intensities, %v kWh", r.Name, r.BesideGCO2eq, r.BesideSignal, r.KWh)
		}
		if whole(r.Name) && (r.InferredEnds > 0 || math.Abs(r.KWh-want) > 1e-9*want) {
			t.Errorf("%s: %v kWh, %d ends inferred; by the API server's times %v", r.Name, r.KWh, r.InferredEnds, want)
		}
	}
	if settled != len(names) {
		t.Errorf("%d settled, want %d", settled, len(names))
	}

	export := filepath.Join(t.TempDir(), "ledger.jsonl")
	lull(t, "ledger", "export", "--database", database, "--entries", "-o", export)
	if out, err := exec.Command("python3", filepath.Join("..", "..", "examples", "audit", "audit.py"), export).CombinedOutput(); err != nil {
		t.Errorf("the auditor: %v\n%s", err, out)
	}
	story := lull(t, "ledger", "show", "pauses-0", "-n", b.ns, "--export", export)
	for _, want := range []string{"submitted: Job", "runs: ", "a run ends", "is over (finished)", "settled, revision 0"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story does not tell %q:\n%s", want, story)
		}
	}
}

// marginal puts marginal intensities beside those of the bed's zone: 700 gCO2eq/kWh throughout.
func (b bed) marginal() {
	b.t.Helper()
	ctx := context.Background()
	series := "time,intensity_gco2eq_per_kwh\n"
	for h := range 97 {
		series += gridStart.Add(time.Duration(h)*time.Hour).Format(time.RFC3339) + ",700\n"
	}
	must(b.t, env.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "marginal", Namespace: b.ns}, Data: map[string]string{"s.csv": series}}))
	beside := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone + "-marginal"}, Spec: v1alpha1.GridZoneSpec{
		Zone: "TEST", Signal: v1alpha1.SignalMarginal, Factor: v1alpha1.FactorDirect,
		Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: b.ns, Name: "marginal", Key: "s.csv"}},
		Replay: &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Factor: factor},
	}}
	must(b.t, env.client.Create(ctx, beside))
	b.t.Cleanup(func() { _ = env.client.Delete(ctx, beside) })
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone}}
	patch := func(name string) error {
		return env.client.Patch(ctx, zone, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"beside":%q}}`, name)))
	}
	if err := patch(b.zone); err == nil || !strings.Contains(err.Error(), "another GridZone") {
		b.t.Errorf("a zone beside itself: %v", err)
	}
	must(b.t, patch(beside.Name))
}

func (b bed) allFinished(names []string) bool {
	for _, name := range names {
		if !b.finished(name) {
			return false
		}
	}
	return true
}

// TestLedgerDocs: what docs/ledger.md prints is accepted.
func TestLedgerDocs(t *testing.T) {
	for _, text := range manifestsIn(t, "ledger.md", "CarbonPolicy") {
		var p v1alpha1.CarbonPolicy
		must(t, yaml.UnmarshalStrict([]byte(text), &p))
		p.Namespace = "default"
		if err := env.client.Create(context.Background(), &p, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// TestPlugin: the binary is a plugin of kubectl.
func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink(os.Getenv("LULL_BIN"), filepath.Join(dir, "kubectl-lull")))
	run := func(args ...string) string {
		cmd := exec.Command(os.Getenv("LULL_LAB"), append([]string{"kubectl"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+dir, "KUBECONFIG="+env.kubeconfig)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out := run("lull", "status", "--system-namespace", "default"); !strings.Contains(out, "controller") {
		t.Errorf("kubectl lull status:\n%s", out)
	}
	if out := run("lull", "plans", "--help"); !strings.Contains(out, "kubectl lull plans [flags]") {
		t.Errorf("kubectl lull plans --help:\n%s", out)
	}
}
