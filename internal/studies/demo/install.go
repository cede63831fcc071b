package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/carbon"
)

// Install applies Lull's manifests for some kinds of workloads (as
// `lull manifests | kubectl apply -f -` does) and waits until the custom resources are served.
func Install(ctx context.Context, c client.Client, of []*kinds.Kind, o charts.Options) error {
	manifests, err := charts.Manifests(of, o)
	if err != nil {
		return err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return waitServed(ctx, c)
		}
		if err != nil {
			return err
		}
		var obj unstructured.Unstructured
		if err := yaml.Unmarshal(text, &obj.Object); err != nil {
			return err
		}
		if len(obj.Object) == 0 {
			continue
		}
		if obj.GetKind() == "MutatingAdmissionPolicy" {
			if err := waitServed(ctx, c); err != nil {
				return err
			}
		}
		config := client.ApplyConfigurationFromUnstructured(&obj)
		if err := c.Apply(ctx, config, client.FieldOwner("lull-install"), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}

func waitServed(ctx context.Context, c client.Client) error {
	return poll(ctx, "the custom resources to be served", func() bool {
		return c.List(ctx, &v1alpha1.CarbonPolicyList{}) == nil && c.List(ctx, &v1alpha1.GridZoneList{}) == nil
	})
}

// poll waits for a condition, at most as long as a slow machine takes.
func poll(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// seriesCSV writes the part of a series that the replay needs.
func seriesCSV(s *carbon.Series, from, to time.Time) string {
	var b bytes.Buffer
	b.WriteString("time,intensity_gco2eq_per_kwh\n")
	for i := range s.Len() {
		if x := s.Sample(i); x.To.After(from) && x.From.Before(to) {
			fmt.Fprintf(&b, "%s,%.3f\n", x.From.UTC().Format(time.RFC3339), float64(x.Value))
		}
	}
	return b.String()
}

const zoneName = "demo"

// setUp creates what the demo's Jobs need: namespace, priority class, policy,
// and waits until Jobs are held at admission. The zone comes later: its creation
// starts the clock.
func setUp(ctx context.Context, c client.Client, o Options, series string) error {
	// Critical Jobs are scheduled first but do not evict others: lost work would
	// have to be done again.
	never := corev1.PreemptNever
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: criticalClass}, Value: 1000, PreemptionPolicy: &never},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: namespace}, Data: map[string]string{"series.csv": series}},
		&v1alpha1.CarbonPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: namespace},
			Spec: v1alpha1.CarbonPolicySpec{
				Selector: metav1.LabelSelector{MatchLabels: map[string]string{jobLabel: "true"}},
				Zone:     zoneName, Planner: v1alpha1.PlannerSpec{Name: o.Planner, Parameters: o.Parameters},
				CriticalPriorityClasses: []string{criticalClass},
				Slot:                    &metav1.Duration{Duration: o.slot()}, StartMargin: &metav1.Duration{Duration: margin},
				Power: v1alpha1.PowerSpec{WattsPerUnit: map[string]float64{"cpu": wattsPerCPU}, PUE: pue},
			},
		},
	}
	if o.Elastic {
		for i := range elasticProfiles {
			objects = append(objects, elasticProfiles[i].object(namespace))
		}
	}
	for _, obj := range objects {
		if err := c.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	if err := poll(ctx, "the namespace to accept pods", func() bool {
		return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}) == nil
	}); err != nil {
		return err
	}
	return poll(ctx, "the admission policy to hold Jobs", func() bool {
		probe := spec{name: "probe", slack: time.Hour, length: time.Hour, estimate: time.Hour, cpus: 1, chunks: 1}.job()
		return c.Create(ctx, probe, client.DryRunAll) == nil && probe.Spec.Suspend != nil && *probe.Spec.Suspend
	})
}

// createZone starts the replay now and waits until the controller has read it.
func createZone(ctx context.Context, c client.Client, o Options, from time.Time, grid *liveGrid) (epoch time.Time, err error) {
	zone := &v1alpha1.GridZone{
		ObjectMeta: metav1.ObjectMeta{Name: zoneName},
		Spec: v1alpha1.GridZoneSpec{
			Zone:   o.Zone,
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: namespace, Name: "series", Key: "series.csv"}},
		},
	}
	replay := &v1alpha1.Replay{Start: metav1.NewTime(from), Factor: o.Factor}
	if grid != nil {
		if zone, err = liveZone(ctx, c, o, grid); err != nil {
			return epoch, err
		}
		replay.Epoch = &metav1.Time{Time: grid.epoch}
	}
	zone.Spec.Replay = replay
	if err := c.Create(ctx, zone); err != nil {
		return epoch, fmt.Errorf("create GridZone: %w", err)
	}
	err = poll(ctx, "the controller to read the zone", func() bool {
		if err := c.Get(ctx, client.ObjectKeyFromObject(zone), zone); err != nil {
			return false
		}
		return meta.IsStatusConditionTrue(zone.Status.Conditions, v1alpha1.ConditionReady)
	})
	if grid != nil {
		return grid.epoch, err
	}
	return zone.CreationTimestamp.Time, err
}
