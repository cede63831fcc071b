package controlloop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/pkg/plan"
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
		program, watchdog := w.Controller(), w.Watchdog()
		w.Run(time.Minute)
		scrape("both")
		program.Kill()
		w.Run(time.Minute)
		scrape("watchdog only")
		watchdog.Kill()
		scrape("none")
		program = w.Controller()
		w.Run(time.Minute)
		scrape("controller only")
		program.Kill()
	})
	for name, fires := range map[string][]string{"both": {}, "watchdog only": {"LullDown"}, "controller only": {"LullFailsafeDown"}, "none": {"LullDown", "LullFailsafeDown"}} {
		samples := []map[string]any{}
		for _, alert := range fires {
			samples = append(samples, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
		}
		firing(t, name, scraped[name], `count by (alertname) (ALERTS{alertstate="firing", alertname=~"Lull(Failsafe)?Down"})`, "30m", samples)
	}
}

// hangingPlanner ends with the world, whatever its caller does.
type hangingPlanner struct{ world context.Context } //nolint:containedctx // see above

func (p hangingPlanner) Plan(context.Context, *plan.Problem) (plan.Result, error) {
	<-p.world.Done()
	return plan.Result{}, p.world.Err()
}

// TestStalledPoliciesFireAlerts: the loop of a policy hangs in its first decision, and another policy never gets its turn. The alert of both fires. It does not
// while they are decided.
func TestStalledPoliciesFireAlerts(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		var scraped []map[string]string
		names := []string{fmt.Sprintf("first-%v", hangs), fmt.Sprintf("second-%v", hangs)}
		inWorld(t, func(w *simkube.World) {
			for _, ns := range names {
				newBed(w, ns, dirtyThenClean(), nil).submit("job", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
			}
			w.Controller(func(o *controller.Options) {
				build := o.Planner
				o.Planner = func(name string, parameters map[string]string, critical []string) (plan.Planner, error) {
					if hangs {
						return hangingPlanner{w.Context()}, nil
					}
					return build(name, parameters, critical)
				}
			})
			w.Run(10 * time.Minute)
			scraped = series(t)
		})
		want := []map[string]any{}
		if hangs {
			for _, ns := range names {
				want = append(want, map[string]any{"labels": fmt.Sprintf("{namespace=%q}", ns), "value": 1})
			}
		}
		// The series are constant, so that after ten minutes the alert fires in any case.
		firing(t, fmt.Sprint(names), scraped, fmt.Sprintf(`count by (namespace) (ALERTS{alertstate="firing", alertname="LullPolicyStalled", namespace=~"%s"})`, strings.Join(names, "|")), "6m", want)
	}
}

// series are all metrics of this process whose names begin with lull_, as promtool reads them: constant for an hour. promtool counts time from
// 0, and timestamps are given as seconds from now.
func series(t *testing.T) (out []map[string]string) {
	t.Helper()
	now := time.Now().Unix()
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
				value := m.GetGauge().GetValue()
				if strings.HasSuffix(f.GetName(), "_timestamp_seconds") {
					value -= float64(now)
				}
				add("", value)
			case m.GetCounter() != nil:
				add("", m.GetCounter().GetValue())
			case m.GetHistogram() != nil:
				add("_count", float64(m.GetHistogram().GetSampleCount()))
			}
		}
	}
	return out
}

// firing checks what an expression returns after some time.
func firing(t *testing.T, name string, input []map[string]string, expr, after string, samples []map[string]any) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	rules, err := filepath.Abs(child.Reads(t, alertRules))
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": []any{map[string]any{
		"interval": "1m", "input_series": input, "promql_expr_test": []any{map[string]any{
			"expr": expr, "eval_time": after, "exp_samples": samples,
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
