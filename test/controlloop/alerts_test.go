package controlloop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/test/child"
	"lull.dev/lull/test/simkube"
)

const alertRules = "../../charts/lull/files/alerts.yaml"

// TestAlertsOfDeadPrograms: the alerts fire on what the programs themselves export, not on series that a test makes up.
func TestAlertsOfDeadPrograms(t *testing.T) {
	scraped := map[string][]map[string]string{}
	simkube.Test(t, 1, func(w *simkube.World) {
		w.Leaders = true
		scrape := func(name string) { scraped[name] = series(t) }
		controller, watchdog := w.Controller(), w.Watchdog()
		w.Run(time.Minute)
		scrape("both")
		controller.Kill()
		w.Run(time.Minute)
		scrape("watchdog only")
		watchdog.Kill()
		scrape("none")
		controller = w.Controller()
		w.Run(time.Minute)
		scrape("controller only")
		controller.Kill()
	})
	for name, fires := range map[string][]string{"both": {}, "watchdog only": {"LullDown"}, "controller only": {"LullFailsafeDown"}, "none": {"LullDown", "LullFailsafeDown"}} {
		firing(t, name, scraped[name], fires)
	}
}

// series are all metrics of this process whose names begin with lull_, as promtool reads them: constant for an hour.
func series(t *testing.T) (out []map[string]string) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "lull_") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			add := func(suffix string, value float64) {
				out = append(out, map[string]string{"series": f.GetName() + suffix + "{" + strings.Join(labels, ",") + "}", "values": fmt.Sprintf("%gx60", value)})
			}
			switch {
			case m.GetGauge() != nil:
				add("", m.GetGauge().GetValue())
			case m.GetCounter() != nil:
				add("", m.GetCounter().GetValue())
			case m.GetHistogram() != nil:
				add("_count", float64(m.GetHistogram().GetSampleCount()))
			}
		}
	}
	return out
}

// firing checks which of the two alerts of programs that do not lead fire half an hour later.
func firing(t *testing.T, name string, input []map[string]string, want []string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	rules, err := filepath.Abs(child.Reads(t, alertRules))
	if err != nil {
		t.Fatal(err)
	}
	samples := []map[string]any{}
	for _, alert := range want {
		samples = append(samples, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": []any{map[string]any{
		"interval": "1m", "input_series": input, "promql_expr_test": []any{map[string]any{
			"expr": `count by (alertname) (ALERTS{alertstate="firing", alertname=~"Lull(Failsafe)?Down"})`, "eval_time": "30m", "exp_samples": samples,
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}
