package metrics

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/charts"
	"lull.dev/lull/test/child"
)

// TestAlertsAskForMetricsThatExist: the alerts and the dashboard ask for metrics that there are, and do what they say, by Prometheus' own tool.
func TestAlertsAskForMetricsThatExist(t *testing.T) {
	var known []string
	for _, c := range all {
		described := make(chan *prometheus.Desc, 10)
		c.Describe(described)
		close(described)
		for d := range described {
			known = append(known, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(d.String())[1])
		}
	}
	suffix := regexp.MustCompile(`_(count|sum|bucket)$`)
	dashboard, err := os.ReadFile("../../../charts/lull/files/dashboards/lull.json")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`\blull_\w+`).FindAllString(charts.Alerts+string(dashboard), -1)
	if len(asked) < 14 {
		t.Errorf("only %d metrics are asked for", len(asked))
	}
	for _, name := range asked {
		if !slices.Contains(known, name) && !slices.Contains(known, suffix.ReplaceAllString(name, "")) {
			t.Errorf("there is no metric %s", name)
		}
	}
	var object struct {
		Spec struct {
			Groups []struct{ Rules []map[string]any }
		}
	}
	if err := yaml.Unmarshal([]byte(charts.PrometheusRule("monitoring")), &object); err != nil || len(object.Spec.Groups) != 1 || len(object.Spec.Groups[0].Rules) < 14 {
		t.Errorf("PrometheusRule: %v, %+v", err, object)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	child.Reads(t, "testdata/alerts_test.yaml", "../../../charts/lull/files/alerts.yaml")
	cmd := exec.Command(promtool, "test", "rules", "alerts_test.yaml")
	cmd.Dir = "testdata"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
