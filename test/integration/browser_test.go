//go:build integration && browser

package integration

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestBrowser: each page at two widths in a real Chromium: nothing on the console, nothing from elsewhere,
// headings, names and contrast for all, by keyboard, and new workloads without a reload. Screenshots go to
// LULL_SCREENSHOTS, where it is set.
func TestBrowser(t *testing.T) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	startController(t, "--ledger", database)
	b := newBed(t, []float64{500, 100, 100, 500, 500, 500}, nil)
	b.capacityCurve(v1alpha1.CapacityCurveSpec{
		Target:   v1alpha1.CapacityTarget{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/os": "linux"}}},
		Policies: []v1alpha1.PolicyReference{{Namespace: b.ns, Name: "clean"}}, Mode: v1alpha1.ModeShadow,
		Maximum: resource.MustParse("32"), Method: v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{}},
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
	must(t, cmd.Start())
	done := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "ready":
			b.submit(b.job("late", map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
		case line == "done":
			done = true
		default:
			t.Error(line)
		}
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Errorf("the browser: %v", err)
	}
	if shots, err := filepath.Glob(filepath.Join(folder, "*.png")); err != nil || len(shots) != 10 {
		t.Errorf("%d screenshots, %v", len(shots), err)
	}
}
