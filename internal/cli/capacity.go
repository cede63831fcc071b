package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

func newCapacityCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Explain how much of a cluster may be used, and why",
	}
	var f clusterFlags
	format := ""
	explain := &cobra.Command{
		Use:   "explain CURVE",
		Short: "Explain the capacity of a CapacityCurve: what its method wants, what bounds it, and which past hours it uses",
		Example: `  lull capacity explain batch
  kubectl get capacitycurves`,
		Args: takes(1, 1, "the name of a CapacityCurve"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			var curve v1alpha1.CapacityCurve
			if err := c.Get(cmd.Context(), client.ObjectKey{Name: args[0]}, &curve); err != nil {
				return err
			}
			if structured(format) {
				return writeStructured(cmd.OutOrStdout(), format, &curve)
			}
			return explainCapacity(cmd.OutOrStdout(), &curve)
		},
	}
	f.registerKubeconfig(explain)
	textFlag(explain.Flags(), &format)
	return group(cmd, explain)
}

// bindings say what a capacity is determined by.
var bindings = map[string]string{
	"Maximum": "no more than the maximum",
	"Floor":   "what may not wait needs it",
	"Ramp":    "as far as the ramp goes from the slot before",
	"Minimum": "no less than the minimum",
	"Wanted":  "as the method wants it",
}

func explainCapacity(out io.Writer, c *v1alpha1.CapacityCurve) error {
	st, unit := &c.Status, c.Spec.Resource
	if st.Slot == nil {
		fmt.Fprintf(out, "the controller has not reconciled %s yet: is it running?\n", c.Name)
		return nil
	}
	fmt.Fprintf(out, "%g of %s %s from %s: %s\n", st.Capacity, c.Spec.Maximum, unit, st.Slot.UTC().Format("2006-01-02 15:04"), bindings[st.Reason])
	fmt.Fprintf(out, "%s wants %g: %s\n", methodName(&c.Spec.Method), st.Wanted, st.Message)
	fmt.Fprintf(out, "floor %g; used %g; waiting %g\n", st.Floor, st.Used, st.Waiting)
	if f := st.CarbonFlex; f != nil {
		if err := explainFlex(out, f, unit); err != nil {
			return err
		}
	}
	if len(st.Ahead) > 0 {
		var next []string
		for _, p := range st.Ahead[:min(8, len(st.Ahead))] {
			next = append(next, fmt.Sprintf("%s %g", p.From.UTC().Format("15:04"), p.Capacity))
		}
		fmt.Fprintf(out, "wanted next: %s\n", strings.Join(next, ", "))
	}
	if c.Spec.Mode == v1alpha1.ModeShadow {
		fmt.Fprintln(out, "shadow: nothing is set")
	}
	if ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Message != "" {
		fmt.Fprintf(out, "%s: %s\n", ready.Reason, ready.Message)
	}
	return nil
}

func explainFlex(out io.Writer, f *v1alpha1.CarbonFlexStatus, unit string) error {
	if f.LearnedAt == nil {
		fmt.Fprintln(out, "nothing has been learned yet")
	} else {
		fmt.Fprintf(out, "learned at %s from %d workloads: %d cases\n", f.LearnedAt.UTC().Format("2006-01-02 15:04"), f.Jobs, f.Cases)
	}
	if s := f.State; s != nil {
		fmt.Fprintf(out, "now: %g gCO2eq/kWh (%s), rank %.2f of the day ahead; workloads by allowed delay %s, elasticity %.2f; %.1f %% without slack left\n",
			s.Intensity, units.Number("%+g", s.Gradient), s.Rank, counts(s.Workloads), s.Elasticity, 100*f.Delayed)
	}
	if len(f.Matches) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "hours alike\t%s\tdistance\n", unit)
	for _, m := range f.Matches {
		fmt.Fprintf(w, "%s\t%g\t%.2f\n", m.At.UTC().Format("2006-01-02 15:04"), m.Capacity, m.Distance)
	}
	return w.Flush()
}

// counts lists numbers.
func counts(list []int32) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, ", ")
}

func methodName(m *v1alpha1.CapacityMethod) string {
	switch {
	case m.CarbonFlex != nil:
		return "carbonFlex"
	case m.VCC != nil:
		return "vcc"
	case m.Planned != nil:
		return "planned"
	}
	return "schedule"
}
