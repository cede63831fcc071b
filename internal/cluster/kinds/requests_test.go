package kinds

import (
	"testing"
)

// TestQuantitiesThatTakeForever: nothing stops for a pod template with a quantity like 1e-2000000000; such a pod counts as one that
// asks for nothing.
func TestQuantitiesThatTakeForever(t *testing.T) {
	template := func(cpu string) map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "1e3", "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}}}}
	}
	for cpu, want := range map[string]float64{
		"1e-2000000000": AssumedCPU, "+1E-30000000": AssumedCPU, ".5e0002000000000": AssumedCPU, "1e+2000000000": AssumedCPU, "2e1": 20, "2E": 2e18, "1500m": 1.5, "1e-3": 0.001,
	} {
		if got := requests(template(cpu))["cpu"]; got != want {
			t.Errorf("%s: %v CPUs; want %v", cpu, got, want)
		}
	}
}
