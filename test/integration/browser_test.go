//go:build integration && browser

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/test/child"
)

// TestBrowser: each page in four sizes in a real Chromium: nothing on the console, nothing from elsewhere,
// headings, names and contrast for all, by keyboard, new workloads without a reload, and the states of an empty, a busy and a
// troubled cluster. Screenshots go to LULL_SCREENSHOTS, if it is set.
func TestBrowser(t *testing.T) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	daysBefore(t, database)
	startController(t, "--ledger", database)
	b := newBed(t, []float64{500, 100, 100, 500, 500, 500}, nil)
	b.capacityCurve(v1alpha1.CapacityCurveSpec{
		Target:   v1alpha1.CapacityTarget{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/os": "linux"}}},
		Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}}, Mode: v1alpha1.ModeShadow,
		Maximum: v1alpha1.Amount("32"), Method: v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{}},
	})
	url := serve(t, "--ledger", database)
	b.submit(b.job("seen", map[string]string{v1alpha1.AnnotationMaxDelay: "8h"}))
	b.submit(b.job("waits", map[string]string{v1alpha1.AnnotationMaxDelay: "90h"}))
	b.eventually("a workload to be settled", func() bool {
		return strings.Contains(lull(t, "ledger", "export", "--database", database), ",seen,")
	})
	folder := os.Getenv("LULL_SCREENSHOTS")
	if folder == "" {
		folder = t.TempDir()
	}
	cmd := exec.Command("node", "page.mjs", url, b.ns, "seen", folder)
	cmd.Dir = filepath.Join("..", "browser")
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, child.Start(cmd))
	done := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "ready":
			b.submit(b.job("late", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
		case line == "delete":
			must(t, env.client.Delete(t.Context(), b.job("seen", nil), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		case line == "done":
			done = true
		default:
			t.Error(line)
		}
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Errorf("the browser: %v", err)
	}
	if shots, err := filepath.Glob(filepath.Join(folder, "*.png")); err != nil || len(shots) != 4*(6+7) {
		t.Errorf("%d screenshots, %v", len(shots), err)
	}
	impactFramework(t, database)
}

// daysBefore puts three weeks of settled work into a ledger.
func daysBefore(t *testing.T, database string) {
	t.Helper()
	l, err := ledger.Open(context.Background(), database)
	must(t, err)
	for day := range 21 {
		from := gridStart.AddDate(0, 0, day-21)
		grams := 100 + 40*float64(day%7)
		b := ledger.Settled{
			Method: "1", Of: ledger.Submitted{Kind: "Job", Namespace: "past", Name: "etl", Policy: "past/nightly", At: from, Workers: 1, Request: map[string]float64{"cpu": 1}},
			From: from, To: from.Add(2 * time.Hour), Runs: 1, OnTime: true, WorkerHours: 2, KWh: 1, Grams: grams, Signal: "average", Factor: "lifecycle",
			Counterfactual: ledger.Counterfactual{From: from, To: from.Add(time.Hour), KWh: 1, Grams: 1.4 * grams}, SavedGrams: 0.4 * grams,
		}
		uid := fmt.Sprint("past-", day)
		_, err := l.Append(context.Background(), ledger.New{Kind: ledger.KindSettled, Key: "settled/" + uid + "/0", Workload: uid, Body: b})
		must(t, err)
	}
	must(t, l.Close())
}

// impactFramework has the Impact Framework work out the report's manifest: its sums are the report's.
func impactFramework(t *testing.T, database string) {
	t.Helper()
	flags := []string{"report", "--database", database, "--embodied-kg", "1300", "--unit", "worker-hour"}
	var want struct {
		All struct {
			Grams float64 `json:"gCO2eq"`
		}
		SCI struct {
			Embodied float64 `json:"embodiedGCO2eq"`
		}
	}
	must(t, json.Unmarshal([]byte(lull(t, append(flags, "--format", "json")...)), &want))
	manifest, result := filepath.Join(t.TempDir(), "lull.yaml"), filepath.Join(t.TempDir(), "out")
	must(t, os.WriteFile(manifest, []byte(lull(t, append(flags, "--format", "impact", "--by", "namespace")...)), 0o600))
	cmd := exec.Command("node_modules/.bin/if-run", "--manifest", manifest, "--output", result)
	cmd.Dir = filepath.Join("..", "browser")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("if-run: %v\n%s", err, out)
	}
	text, err := os.ReadFile(result + ".yaml")
	must(t, err)
	var got struct {
		Tree struct {
			Children map[string]struct{ Aggregated map[string]float64 }
		}
	}
	must(t, yaml.Unmarshal(text, &got))
	for name, is := range map[string]float64{"carbon-operational": want.All.Grams, "carbon-embodied": want.SCI.Embodied, "carbon": want.All.Grams + want.SCI.Embodied} {
		sum := 0.0
		for _, child := range got.Tree.Children {
			sum += child.Aggregated[name]
		}
		if !(is > 0) || math.Abs(sum-is) > 1e-9*is {
			t.Errorf("%s: %v by the framework, %v by the report\n%s", name, sum, is, text)
		}
	}
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
