//go:build integration

package integration

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// TestCommandsOfTheCapacityPageAreAccepted: what docs/capacity.md prints is accepted.
func TestCommandsOfTheCapacityPageAreAccepted(t *testing.T) {
	for _, text := range manifestsIn(t, "capacity.md", "CapacityCurve") {
		var c v1alpha1.CapacityCurve
		must(t, yaml.UnmarshalStrict([]byte(text), &c))
		if err := env.client.Create(context.Background(), &c, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// TestCapacityCurvesAreChecked: what makes no sense is refused with a message that names the field.
func TestCapacityCurvesAreChecked(t *testing.T) {
	schedule := v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "16:00", To: "24:00", Capacity: v1alpha1.Amount("1")}}}
	queue := v1alpha1.CapacityTarget{ClusterQueue: "q"}
	ten, four := v1alpha1.Amount("10"), v1alpha1.Amount("4")
	for name, x := range map[string]struct {
		spec v1alpha1.CapacityCurveSpec
		want string
	}{
		"no maximum":         {v1alpha1.CapacityCurveSpec{Target: queue, Method: schedule}, "spec.maximum"},
		"minimum above":      {v1alpha1.CapacityCurveSpec{Target: queue, Method: schedule, Maximum: four, Minimum: &ten}, "minimum: accepted: 0 to maximum"},
		"takes forever":      {v1alpha1.CapacityCurveSpec{Target: queue, Method: schedule, Maximum: "1e-2000000000", Minimum: &ten}, "spec.maximum"},
		"beyond all":         {v1alpha1.CapacityCurveSpec{Target: queue, Method: schedule, Maximum: "2E"}, "at most 1E"},
		"no target":          {v1alpha1.CapacityCurveSpec{Method: schedule, Maximum: ten}, "spec.target"},
		"two targets":        {v1alpha1.CapacityCurveSpec{Target: v1alpha1.CapacityTarget{ClusterQueue: "a", NodePool: "b"}, Method: schedule, Maximum: ten}, "spec.target"},
		"no method":          {v1alpha1.CapacityCurveSpec{Target: queue, Maximum: ten}, "spec.method"},
		"nobody to plan for": {v1alpha1.CapacityCurveSpec{Target: queue, Maximum: ten, Method: v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{}}}, "policies: accepted"},
		"no time of day":     {v1alpha1.CapacityCurveSpec{Target: queue, Maximum: ten, Method: v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "25:00", To: "26:00"}}}}, "from"},
	} {
		x.spec.Zone = "x"
		err := env.client.Create(context.Background(), &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "checked"}, Spec: x.spec}, client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v; want %q", name, err, x.want)
		}
	}
	ctx := context.Background()
	made := &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "targeted"}, Spec: v1alpha1.CapacityCurveSpec{Target: queue, Method: schedule, Maximum: ten, Zone: "x"}}
	must(t, env.client.Create(ctx, made))
	t.Cleanup(func() { _ = env.client.Delete(ctx, made) })
	other := made.DeepCopy()
	other.Spec.Target = v1alpha1.CapacityTarget{NodePool: "other"}
	if err := env.client.Patch(ctx, other, client.MergeFrom(made)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "the target that it was made with") {
		t.Errorf("another target: %v", err)
	}
}
