package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

func TestCapacityIsExplainedFromItsStatus(t *testing.T) {
	hour := func(h int) metav1.Time { return metav1.NewTime(time.Date(2026, 10, 3, h, 0, 0, 0, time.UTC)) }
	slot, learned := hour(14), hour(2)
	c := &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
	c.Spec.Resource, c.Spec.Maximum = "cpu", "150"
	c.Spec.Method.CarbonFlex = &v1alpha1.CarbonFlexMethod{}
	text := func() string {
		var out strings.Builder
		if err := explainCapacity(&out, c); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := text(); got != "the controller has not reconciled batch yet: is it running?\n" {
		t.Error(got)
	}
	c.Status = v1alpha1.CapacityCurveStatus{
		Slot: &slot, Capacity: 62, Wanted: 58, Floor: 62, Used: 40, Waiting: 30, Reason: "Floor", Message: "the mean of the cases (2)",
		Ahead: []v1alpha1.CapacityPoint{{From: hour(15), Capacity: 80}},
		CarbonFlex: &v1alpha1.CarbonFlexStatus{
			LearnedAt: &learned, Jobs: 700, Cases: 1344, Delayed: 0.021, Rho: 0.7,
			State:   &v1alpha1.CapacityState{Intensity: 210, Gradient: -12, Rank: 0.25, Elasticity: 0.8, Workloads: []int32{1, 2, 3}},
			Matches: []v1alpha1.CapacityMatch{{At: hour(13), Capacity: 58, Distance: 0.4}},
		},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: "EditedByHand", Message: "left alone"}},
	}
	want := `62 of 150 cpu from 2026-10-03 14:00: what may not wait needs it
carbonFlex wants 58: the mean of the cases (2)
floor 62; used 40; waiting 30
learned at 2026-10-03 02:00 from 700 workloads: 1344 cases
now: 210 gCO2eq/kWh (-12), rank 0.25 of the day ahead; workloads by allowed delay 1, 2, 3, elasticity 0.80; 2.1 % without slack left
hours alike       cpu  distance
2026-10-03 13:00  58   0.40
wanted next: 15:00 80
EditedByHand: left alone
`
	if got := text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	c.Spec.Mode = v1alpha1.ModeShadow
	if !strings.Contains(text(), "shadow: nothing is set") {
		t.Error("shadow is not told")
	}
	for name, m := range map[string]v1alpha1.CapacityMethod{"vcc": {VCC: &v1alpha1.VCCMethod{}}, "planned": {Planned: &v1alpha1.PlannedMethod{}}, "schedule": {}} {
		if methodName(&m) != name {
			t.Errorf("%s is called %s", name, methodName(&m))
		}
	}
}
