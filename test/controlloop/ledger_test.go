package controlloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cli"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/pkg/power"
	"lull.dev/lull/test/child"
	"lull.dev/lull/test/simkube"
)

// runs is how long the pods of a Job ran in all (wall time), and how many did, as the API server tells it.
func (b *bed) runs(job string) (sum time.Duration, runs int) {
	sum, runs, _ = ranIn(b.Store, job)
	return sum, runs
}

// ranIn is how long the pods of a Job ran in all, how many did, and how many of them were deleted while they ran.
func ranIn(store *simkube.Store, job string) (sum time.Duration, runs, deleted int) {
	seen := map[types.UID][2]time.Time{}
	for _, e := range store.Since(0) {
		if e.Resource.Kind != "Pod" {
			continue
		}
		var pod corev1.Pod
		typed(e.Object, &pod)
		from, to, ran := kube.Ran(&pod)
		if pod.Labels[batchv1.JobNameLabel] != job || !ran {
			continue
		}
		if to.IsZero() && e.Type == watch.Deleted {
			to, deleted = e.At, deleted+1
		}
		seen[pod.UID] = [2]time.Time{from, to}
	}
	for _, x := range seen {
		sum, runs = sum+x[1].Sub(x[0]), runs+1
	}
	return sum, runs, deleted
}

// lull runs a command of Lull that must succeed and returns what it printed.
func lull(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Main(args, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("lull %s: %d\n%s%s", strings.Join(args, " "), code, out.String(), errs.String())
	}
	return out.String()
}

// marginal puts marginal intensities beside those of the bed's zone: 700 gCO2eq/kWh throughout.
func (b *bed) marginal() {
	b.t.Helper()
	series := "time,intensity_gco2eq_per_kwh\n"
	for h := range 97 {
		series += at(h).Format(time.RFC3339) + ",700\n"
	}
	b.Create(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "marginal", Namespace: b.ns}, Data: map[string]string{"s.csv": series}},
		&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "marginal"}, Spec: v1alpha1.GridZoneSpec{
			Zone: "TEST", Signal: v1alpha1.SignalMarginal, Factor: v1alpha1.FactorDirect,
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: b.ns, Name: "marginal", Key: "s.csv"}},
			Replay: &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Factor: factor},
		}},
	)
	b.Patch(&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone}}, `{"spec":{"beside":"marginal"}}`)
}

// TestLedgerHasWhatRanThoughKilled: what ran is in the ledger as the API server tells it, though the controller is killed again and again; the
// chain holds, all is settled, and an auditor finds the same from the export alone.
func TestLedgerHasWhatRanThoughKilled(t *testing.T) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	const kills = 60
	onBed(t, []float64{500, 400, 300, 200, 100, 200, 300, 400}, func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "joint"}
	}, func(b *bed) {
		begin := func() *simkube.Program {
			return b.Controller(func(o *controller.Options) { o.Ledger = database })
		}
		c := begin()
		b.marginal()
		rnd := rand.New(rand.NewPCG(7, 7))
		var names []string
		submit := func(j *batchv1.Job) {
			b.Create(j)
			names = append(names, j.Name)
		}
		for i := range 8 {
			submit(b.job(fmt.Sprintf("whole-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: fmt.Sprintf("%dh", 4+2*i)}))
		}
		for i := range 3 {
			j := b.job(fmt.Sprintf("pauses-%d", i), map[string]string{v1alpha1.AnnotationInterruptible: "true", v1alpha1.AnnotationMaxDelay: "14h", v1alpha1.AnnotationRuntime: "3h"})
			j.Spec.Template.Annotations[simkube.RunTime] = "3h"
			submit(j)
		}
		submit(b.elasticJob("scales", 6, 3, map[string]string{v1alpha1.AnnotationMaxDelay: "16h"}))
		for kill := range kills {
			b.Run(time.Duration(500+rnd.IntN(15_000)) * time.Millisecond)
			c.Kill()
			c = begin()
			if kill%8 == 0 {
				submit(b.job(fmt.Sprintf("whole-later-%d", kill), map[string]string{v1alpha1.AnnotationMaxDelay: fmt.Sprintf("%dh", 2+rnd.IntN(16))}))
			}
		}
		b.Until("all to finish", func() bool { return b.finished(names...) })
		settled := func() []string {
			return slices.Collect(strings.Lines(lull(t, "ledger", "export", "--database", database, "--format", "json")))
		}
		for range 60 {
			if len(settled()) >= len(names) {
				break
			}
			b.Run(time.Minute)
		}
		c.Kill()
		t.Logf("%d kills; %s", kills, strings.TrimSpace(lull(t, "ledger", "verify", "--database", database)))
		lines := settled()
		if len(lines) != len(names) {
			t.Errorf("%d settled, want %d", len(lines), len(names))
		}
		for _, line := range lines {
			b.checkSettled(line, names)
		}
	})

	export := filepath.Join(t.TempDir(), "ledger.jsonl")
	lull(t, "ledger", "export", "--database", database, "--entries", "-o", export)
	if out, err := exec.Command("python3", child.Reads(t, "../../examples/audit/audit.py"), export).CombinedOutput(); err != nil {
		t.Errorf("the auditor: %v\n%s", err, out)
	}
	story := lull(t, "ledger", "show", "pauses-0", "-n", "test", "--export", export)
	for _, want := range []string{"submitted: Job", "runs: ", "a run ends", "is over (finished)", "settled, revision 0"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story does not tell %q:\n%s", want, story)
		}
	}
}

// checkSettled compares a line of the ledger with what ran.
func (b *bed) checkSettled(line string, names []string) {
	t := b.t
	var r struct {
		Name               string
		KWh                float64
		Runs, InferredEnds int
		BesideSignal       string
		BesideGCO2eq       float64
	}
	b.must(json.Unmarshal([]byte(line), &r))
	ran, runs := b.runs(r.Name)
	want := ran.Hours() * factor * power.DefaultWattsPerCPU / 1000 // one CPU a pod
	if !slices.Contains(names, r.Name) || r.Runs != runs {
		t.Errorf("%s: %d runs, the API server tells of %d", r.Name, r.Runs, runs)
	}
	if r.BesideSignal != "marginal" || math.Abs(r.BesideGCO2eq-700*r.KWh) > 1e-6*r.BesideGCO2eq {
		t.Errorf("%s: %v g by %q intensities, %v kWh", r.Name, r.BesideGCO2eq, r.BesideSignal, r.KWh)
	}
	if strings.HasPrefix(r.Name, "whole") && (r.InferredEnds > 0 || math.Abs(r.KWh-want) > 1e-9*want) {
		t.Errorf("%s: %v kWh, %d ends inferred; by the API server's times %v", r.Name, r.KWh, r.InferredEnds, want)
	}
}
