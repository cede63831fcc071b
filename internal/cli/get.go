package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/units"
)

func newGetCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "get",
		Short: "List policies, zones, workloads or planners",
		Long: `Get lists objects as kubectl get does, and adds columns computed from several objects: what the plans of
a policy emit and save, until when a workload waits, and why. "lull explain" shows more of one workload.`,
	}, newGetPoliciesCommand(), newGetZonesCommand(), newGetWorkloadsCommand(), newGetPlannersCommand())
}

// writeFound writes what lull get has found: all, or only what has a name. It is an error if nothing has it.
func writeFound[T any](cmd *cobra.Command, format string, columns []column[T], rows []T, args []string, name func(*T) string) error {
	kind := cmd.Name()
	if len(args) == 0 {
		if len(rows) == 0 && !structured(format) {
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "No %s found.\n", kind)
			return err
		}
		return writeRows(cmd.OutOrStdout(), format, columns, rows)
	}
	found := slices.DeleteFunc(slices.Clone(rows), func(r T) bool { return !named(name(&r), args[0]) })
	if len(found) == 0 {
		var names []string
		for i := range rows {
			names = append(names, name(&rows[i]))
		}
		const most = 20
		if len(names) > most {
			names = append(names[:most], "...")
		}
		return fmt.Errorf("NAME: %q; accepted: one of the %s: %s", args[0], kind, cmp.Or(strings.Join(names, ", "), "there are none"))
	}
	if structured(format) && len(found) == 1 {
		return writeStructured(cmd.OutOrStdout(), format, &found[0])
	}
	return writeRows(cmd.OutOrStdout(), format, columns, found)
}

// named reports whether something is called so: by its name, or, if that is KIND/NAME, by what follows the slash.
func named(name, called string) bool {
	return strings.EqualFold(name, called) || strings.HasSuffix(name, "/"+called)
}

// readiness is the condition Ready.
type readiness struct {
	Ready   metav1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

func readinessOf(conditions []metav1.Condition) readiness {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if c == nil {
		return readiness{Ready: metav1.ConditionUnknown}
	}
	return readiness{c.Status, c.Reason, c.Message}
}

// text is the readiness in a table.
func (r readiness) text() string {
	switch {
	case r.Ready == metav1.ConditionTrue:
		return "yes"
	case r.Reason == "" && r.Message == "":
		return "unknown"
	}
	const most = 60
	text := r.Message
	if len(text) > most {
		text = text[:most] + "..."
	}
	return "no: " + text
}

// zoneRow is what lull says of a GridZone.
type zoneRow struct {
	Name       string         `json:"name"`
	Zone       string         `json:"zone,omitempty"`
	Intensity  *float64       `json:"intensity,omitempty"`
	Trend      v1alpha1.Trend `json:"trend,omitempty"`
	Basis      string         `json:"basis,omitempty"`
	Source     string         `json:"source,omitempty"`
	Age        string         `json:"age,omitempty"`
	ValidUntil *metav1.Time   `json:"validUntil,omitempty"`
	Paused     bool           `json:"paused"`
	readiness
}

var zoneColumns = []column[zoneRow]{
	{head: "INTENSITY", cell: func(r *zoneRow) string {
		if r.Intensity == nil {
			return "unknown"
		}
		return units.CarbonIntensity(*r.Intensity).String()
	}},
	{head: "TREND", cell: func(r *zoneRow) string { return string(r.Trend) }},
	{head: "BASIS", cell: func(r *zoneRow) string { return r.Basis }},
	{head: "READY", cell: func(r *zoneRow) string { return r.text() }},
	{head: "PAUSED", cell: func(r *zoneRow) string { return yes(r.Paused) }},
	{head: "GRID ZONE", cell: func(r *zoneRow) string { return r.Zone }, wide: true},
	{head: "SOURCE", cell: func(r *zoneRow) string { return r.Source }, wide: true},
	{head: "AGE", cell: func(r *zoneRow) string { return r.Age }, wide: true},
	{head: "VALID UNTIL", cell: func(r *zoneRow) string { return timeCell(r.ValidUntil) }, wide: true},
}

// timeCell is a time in a table, as kubectl writes it.
func timeCell(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func zoneRows(ctx context.Context, c client.Client) ([]zoneRow, error) {
	var zones v1alpha1.GridZoneList
	if err := c.List(ctx, &zones); err != nil {
		return nil, fmt.Errorf("list GridZones: %w", err)
	}
	rows := make([]zoneRow, len(zones.Items))
	for i := range zones.Items {
		z := &zones.Items[i]
		rows[i] = zoneRow{z.Name, z.Status.Zone, z.Status.Intensity, z.Status.Trend, z.Status.Basis, z.Status.Source, z.Status.Age, z.Status.ValidUntil, z.Spec.Paused, readinessOf(z.Status.Conditions)}
	}
	slices.SortFunc(rows, func(a, b zoneRow) int { return cmp.Compare(a.Name, b.Name) })
	return rows, nil
}

func newGetZonesCommand() *cobra.Command {
	var f clusterFlags
	format := ""
	cmd := &cobra.Command{
		Use:     "zones [NAME]",
		Aliases: []string{"zone", "gridzones", "gridzone"},
		Short:   "List the GridZones with their intensity and its basis",
		Example: `  lull get zones
  lull get zones de -o yaml`,
		Args: takes(0, 1, "at most the name of one GridZone"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			rows, err := zoneRows(cmd.Context(), c)
			if err != nil {
				return err
			}
			columns := append([]column[zoneRow]{{head: "NAME", cell: zoneName}}, zoneColumns...)
			return writeFound(cmd, format, columns, rows, args, zoneName)
		},
	}
	f.registerKubeconfig(cmd)
	tableFlag(cmd.Flags(), &format)
	return cmd
}

func zoneName(r *zoneRow) string { return r.Name }
