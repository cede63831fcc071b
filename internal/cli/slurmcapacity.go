package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
	engine "lull.dev/lull/internal/engine/slurm"
)

// capacity builds what bounds the CPUs of the jobs, if the configuration states it, and checks that Slurm has the licences.
func (o *slurmController) capacity(ctx context.Context, c *slurm.Capacity, client slurm.Client, log *slog.Logger) (*engine.Capacity, error) {
	if c == nil {
		return nil, nil
	}
	spec := v1alpha1.CapacityCurveSpec{Resource: slurm.LicenceResource, Maximum: c.Maximum, Minimum: c.Minimum, Ramp: c.Ramp, Method: c.Method}
	if c.Slot != nil {
		spec.Slot = &metav1.Duration{Duration: time.Duration(*c.Slot)}
	}
	local, err := curve.NewLocal("slurm", spec, c.State, log)
	if err != nil {
		return nil, fmt.Errorf("--config %s: capacity: %w", o.slurmOptions.config, err)
	}
	if o.dryRun {
		local.ReadOnly()
	}
	total, err := client.Licences(ctx, c.Licence)
	if err != nil {
		return nil, fmt.Errorf("--config %s: capacity.licence: %q: %w; accepted: a licence of slurm.conf, as Licenses=%s:%d", o.slurmOptions.config, c.Licence, err, c.Licence, c.Most())
	}
	if total < c.Most() {
		return nil, fmt.Errorf("--config %s: capacity.maximum: %d; accepted: up to the %d licences %s of slurm.conf", o.slurmOptions.config, c.Most(), total, c.Licence)
	}
	return &engine.Capacity{Curve: local, Licence: c.Licence, Maximum: c.Most(), Total: total, Planner: o.planner == "carbonflex"}, nil
}
