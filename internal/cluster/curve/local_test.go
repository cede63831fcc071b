package curve

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// TestALocalCurveIsChecked as the API server checks a CapacityCurve: errors name the field.
func TestALocalCurveIsChecked(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(broken, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}
	two, minusOne := 2.0, -1.0
	for want, of := range map[string]struct {
		change func(*v1alpha1.CapacityCurveSpec)
		file   string
	}{
		"":                                  {func(*v1alpha1.CapacityCurveSpec) {}, filepath.Join(t.TempDir(), "none")},
		"maximum":                           {func(s *v1alpha1.CapacityCurveSpec) { s.Maximum = "x" }, ""},
		"minimum":                           {func(s *v1alpha1.CapacityCurveSpec) { v := v1alpha1.Amount("9"); s.Minimum = &v }, ""},
		"slot: 1s; accepted: 1m":            {func(s *v1alpha1.CapacityCurveSpec) { s.Slot = &metav1.Duration{Duration: time.Second} }, ""},
		"method: 0 methods":                 {func(s *v1alpha1.CapacityCurveSpec) { s.Method = v1alpha1.CapacityMethod{} }, ""},
		"method: 2 methods":                 {func(s *v1alpha1.CapacityCurveSpec) { s.Method.Planned = &v1alpha1.PlannedMethod{} }, ""},
		"method.carbonFlex.tolerance: 2":    {func(s *v1alpha1.CapacityCurveSpec) { s.Method.CarbonFlex = &v1alpha1.CarbonFlexMethod{Tolerance: &two} }, ""},
		"method.carbonFlex.neighbours: 101": {func(s *v1alpha1.CapacityCurveSpec) { s.Method.CarbonFlex = &v1alpha1.CarbonFlexMethod{Neighbours: 101} }, ""},
		"method.vcc.quantile: -1": {func(s *v1alpha1.CapacityCurveSpec) {
			s.Method = v1alpha1.CapacityMethod{VCC: &v1alpha1.VCCMethod{Quantile: &minusOne}}
		}, ""},
		"method.planned.reserve: 2": {func(s *v1alpha1.CapacityCurveSpec) {
			s.Method = v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{Reserve: &two}}
		}, ""},
		"method.schedule[0]: \"25:00\"": {func(s *v1alpha1.CapacityCurveSpec) {
			s.Method = v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "25:00", Capacity: "4"}}}
		}, ""},
		"method.schedule[0].capacity": {func(s *v1alpha1.CapacityCurveSpec) {
			s.Method = v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "09:00", Capacity: "40"}}}
		}, ""},
		"state: " + broken: {func(*v1alpha1.CapacityCurveSpec) {}, broken},
	} {
		spec := v1alpha1.CapacityCurveSpec{Resource: "cpu", Maximum: "8", Method: *good.DeepCopy()}
		of.change(&spec)
		if _, err := NewLocal("x", spec, of.file, slog.New(slog.DiscardHandler)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
