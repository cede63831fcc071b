//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestKubectlShowsZoneColumns: kubectl shows what matters of a GridZone.
func TestKubectlShowsZoneColumns(t *testing.T) {
	columns := printerColumns(t)
	for _, want := range []string{"Zone", "gCO2eq/kWh", "Trend", "Basis", "Age", "Error %", "Ready", "Stale", "Degraded", "Source"} {
		if !slices.Contains(columns, want) {
			t.Errorf("kubectl get gridzones has no column %q: %q", want, columns)
		}
	}
}

// printerColumns are the columns that the API server has kubectl print.
func printerColumns(t *testing.T) []string {
	t.Helper()
	c, err := rest.HTTPClientFor(env.config)
	must(t, err)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, env.config.Host+"/apis/lull.dev/v1alpha1/gridzones", nil)
	must(t, err)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	res, err := c.Do(req)
	must(t, err)
	defer res.Body.Close()
	var table metav1.Table
	must(t, json.NewDecoder(res.Body).Decode(&table))
	var out []string
	for _, column := range table.ColumnDefinitions {
		out = append(out, column.Name)
	}
	return out
}
