package kube

import (
	"testing"

	"lull.dev/lull/pkg/power"
)

// TestDrawnTellsTheModelsPart checks how much of the power of two pods with a GPU each is the model's: what nobody
// measures, with the PUE.
func TestDrawnTellsTheModelsPart(t *testing.T) {
	model := power.PerUnit{Watts: map[string]float64{"cpu": 10, "nvidia.com/gpu": 300}, PUE: 1.5}
	request := map[string]float64{"cpu": 4, "nvidia.com/gpu": 1}
	for name, x := range map[string]struct {
		cpu, gpu        string
		watts, modelled float64
		source          string
	}{
		"nothing": {"", "", 0, 0, ""},
		"CPUs":    {"kepler", "", 1.5 * 2 * (50 + 300), 1.5 * 2 * 300, "kepler+model"},
		"GPUs":    {"", "dcgm", 1.5 * 2 * (40 + 200), 1.5 * 2 * 40, "model+dcgm"},
		"both":    {"kepler", "dcgm", 1.5 * 2 * (50 + 200), 0, "kepler+dcgm"},
	} {
		c := podCount{running: 2}
		c.cpu.add(50, x.cpu)
		c.gpu.add(200, x.gpu)
		if watts, modelled, source := c.drawn(request, model); watts != x.watts || modelled != x.modelled || source != x.source {
			t.Errorf("%s: %v W, %v of the model, by %q; want %v, %v, %q", name, watts, modelled, source, x.watts, x.modelled, x.source)
		}
	}
}
