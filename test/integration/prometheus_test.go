//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/child"
)

// startPrometheus runs the real Prometheus, which scrapes one target every second and goes by files
// of rules, and returns its address.
func startPrometheus(t *testing.T, target string, rules ...string) string {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v (make deps installs it)", err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	files, err := json.Marshal(append([]string{}, rules...))
	must(t, err)
	must(t, os.WriteFile(config, []byte(fmt.Sprintf("global: {evaluation_interval: 1s}\nrule_files: %s\nscrape_configs:\n- job_name: exporters\n  scrape_interval: 1s\n  honor_labels: true\n  static_configs: [{targets: [%q]}]\n", files, target)), 0o600))
	address := freeAddress(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	defer log.Close()
	cmd := exec.Command(binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, child.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of Prometheus:\n%s", text)
		}
	})
	url := "http://" + address
	bed{t: t}.eventually("Prometheus to be ready", func() bool {
		res, err := http.Get(url + "/-/ready")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return url
}

// ask asks the API of Prometheus.
func ask(t *testing.T, url string, into any) {
	t.Helper()
	res, err := http.Get(url)
	must(t, err)
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	must(t, json.NewDecoder(res.Body).Decode(&answer))
	if answer.Status != "success" {
		t.Fatalf("%s: %s", url, answer.Error)
	}
	must(t, json.Unmarshal(answer.Data, into))
}

// TestPrometheusScrapesTheController: a real Prometheus scrapes the real controller; it loads the alerts of "lull alerts",
// and every query of the dashboard is one, with values where this cluster has what it is about.
func TestPrometheusScrapesTheController(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "lull.yaml")
	must(t, os.WriteFile(rules, []byte(command(t, "alerts")), 0o600))
	metrics := freeAddress(t)
	url := startPrometheus(t, metrics, rules)
	startController(t, "--metrics-bind-address", metrics, "--ledger", filepath.Join(t.TempDir(), "ledger.db"))
	b := newBed(t, []float64{100, 400}, nil)
	for i := range 4 {
		b.submit(b.job(fmt.Sprint("job-", i), map[string]string{v1alpha1.AnnotationMaxDelay: "6h"}))
	}
	b.eventually("all to be done, and measured", func() bool {
		var result struct{ Result []any }
		ask(t, url+"/api/v1/query?query="+neturl.QueryEscape(`sum(lull_emissions_gco2eq_total) > 0`), &result)
		return len(result.Result) > 0 && b.get("job-0").Status.Succeeded > 0 && b.get("job-3").Status.Succeeded > 0
	})

	var loaded struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	b.eventually("the alerts to be evaluated", func() bool {
		ask(t, url+"/api/v1/rules", &loaded)
		return len(loaded.Groups) == 1 && loaded.Groups[0].Rules[0].Health != "unknown"
	})
	if of := loaded.Groups[0].Rules; len(of) < 14 {
		t.Errorf("%d alerts", len(of))
	}
	for _, r := range loaded.Groups[0].Rules {
		if r.Health != "ok" || r.LastError != "" {
			t.Errorf("alert %s: %s %s", r.Name, r.Health, r.LastError)
		}
	}

	text, err := os.ReadFile("../../charts/lull/files/dashboards/lull.json")
	must(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(text, &dashboard))
	// Of this there is nothing in this cluster.
	absent := []string{"Forecast error", "Requests to providers", "Time until providers", "Capacity curves", "Clusters reachable", "Services", "Extender"}
	queries := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			expr := strings.NewReplacer("$namespace", ".*", "$zone", ".*", "$__range", "5m", "$__rate_interval", "30s").Replace(target.Expr)
			var result struct{ Result []any }
			find := func() bool {
				ask(t, url+"/api/v1/query?query="+neturl.QueryEscape(expr), &result)
				return len(result.Result) > 0
			}
			is := slices.ContainsFunc(absent, func(title string) bool { return strings.HasPrefix(p.Title, title) })
			if is {
				if find() {
					t.Errorf("%s: %d series of %s", p.Title, len(result.Result), expr)
				}
				continue
			}
			b.eventually(p.Title+": "+expr, find) // a rate takes two scrapes
		}
	}
	t.Logf("%d alerts, %d queries", len(loaded.Groups[0].Rules), queries)
}

// TestPrometheusMeasuresPowerAndProgress: with a real Prometheus that scrapes what Kepler and a workload would
// export, the plan knows the workload's progress by its query and its energy by measurement.
func TestPrometheusMeasuresPowerAndProgress(t *testing.T) {
	b := newBed(t, []float64{100}, nil)
	const watts = 50.0 // a pod, where the model says 3.5
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var pods corev1.PodList
		if err := env.client.List(r.Context(), &pods, client.InNamespace(b.ns)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "# TYPE kepler_pod_cpu_watts gauge\n# TYPE job_done_ratio gauge")
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Status.Phase != corev1.PodRunning || p.Status.StartTime == nil {
				continue
			}
			for zone, share := range map[string]float64{"package": 0.8, "core": 0.5, "dram": 0.2} {
				fmt.Fprintf(w, "kepler_pod_cpu_watts{pod_namespace=%q,pod_name=%q,zone=%q} %g\n", p.Namespace, p.Name, zone, share*watts)
			}
			// It needs twice the 48 h (192 s) that it states.
			done := math.Min(1, time.Since(p.Status.StartTime.Time).Seconds()/(2*192))
			fmt.Fprintf(w, "job_done_ratio{namespace=%q,job=%q} %g\n", p.Namespace, p.Labels["batch.kubernetes.io/job-name"], done)
		}
	}))
	defer exporter.Close()
	url := startPrometheus(t, strings.TrimPrefix(exporter.URL, "http://"))
	startController(t, "--prometheus", url, "--prometheus-interval", "1s")
	j := b.job("measured", map[string]string{
		v1alpha1.AnnotationRuntime: "48h", v1alpha1.AnnotationMaxDelay: "0s", v1alpha1.AnnotationInterruptible: "true",
		v1alpha1.AnnotationProgressQuery: `job_done_ratio{namespace="$namespace",job="$name"}`,
	})
	j.Spec.Template.Annotations["lab.lull.dev/runtime"] = "96h"
	b.submit(j)
	var s v1alpha1.CarbonPlanStatus
	b.eventually("a plan that knows by Prometheus that the work is slower", func() bool {
		s = b.plan("job-measured").Status
		return s.ProgressSource == "prometheus" && s.EnergySource == "kepler" && s.Trigger != nil && s.Trigger.Reason == "ProgressDeviates"
	})
	t.Logf("progress %v, trigger %s, %v kWh of which %v measured", s.Progress, s.Trigger.Message, s.EnergyKWh, s.MeasuredKWh)
	if !strings.Contains(s.Trigger.Message, "(prometheus)") || s.MeasuredKWh <= 0 || s.MeasuredKWh > s.EnergyKWh {
		t.Errorf("plan %+v", s)
	}
	// What was modelled before the first measurement is little: the power is the measured one.
	started := b.get("measured").Status.StartTime.Time
	hours := s.CountedAt.Time.Sub(b.gridTime(started)).Hours()
	if drawn := 1000 * s.EnergyKWh / hours; drawn < 0.5*watts || drawn > 1.1*watts {
		t.Errorf("%.1f W over %.1f h, want about %v", drawn, hours, watts)
	}
	if got := command(t, "explain", "job/measured", "-n", b.ns); !strings.Contains(got, "(by kepler)") || !strings.Contains(got, "(by prometheus)") {
		t.Errorf("explained:\n%s", got)
	}
	must(t, env.client.Delete(context.Background(), b.get("measured")))
}
