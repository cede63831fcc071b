package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

func newKindsCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "kinds [NAME]",
		Short: "List the kinds of workloads that Lull knows, or show what it knows of one",
		Long: `Kinds lists the built-in kinds of workloads. With a name it prints the facts as a
WorkloadKind. To add a kind, write a file of this form.`,
		Example: `  lull kinds
  lull kinds MPIJob`,
		Args: takes(0, 1, "at most one kind"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			list := kinds.Builtin()
			if len(args) == 1 {
				var err error
				if list, err = kinds.Named(args); err != nil {
					return err
				}
				if !cmd.Flags().Changed("output") {
					format = formatYAML
				}
				if structured(format) {
					w := v1alpha1.WorkloadKind{Spec: list[0].Spec}
					w.APIVersion, w.Kind, w.Name = v1alpha1.GroupVersion.String(), "WorkloadKind", strings.TrimSuffix(w.Spec.Resource+"."+w.Spec.Group, ".")
					return writeStructured(out, format, w)
				}
			}
			return writeRows(out, format, kindColumns, kindRows(list))
		},
	}
	tableFlag(cmd.Flags(), &format)
	return cmd
}

// kindRow is a kind of workloads.
type kindRow struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	HeldBy     string `json:"heldBy"`
	Scales     bool   `json:"scales"`
	Pauses     bool   `json:"pauses"`
	Ends       bool   `json:"ends"`
	ByDefault  bool   `json:"byDefault"`
}

var kindColumns = []column[kindRow]{
	{head: "KIND", cell: func(r *kindRow) string { return r.Kind }},
	{head: "API", cell: func(r *kindRow) string { return r.APIVersion }},
	{head: "HELD BY", cell: func(r *kindRow) string { return r.HeldBy }},
	{head: "SCALES", cell: func(r *kindRow) string { return yes(r.Scales) }},
	{head: "PAUSES", cell: func(r *kindRow) string { return yes(r.Pauses) }},
	{head: "ENDS", cell: func(r *kindRow) string { return yes(r.Ends) }},
	{head: "BY DEFAULT", cell: func(r *kindRow) string { return yes(r.ByDefault) }},
}

func kindRows(list []*kinds.Kind) (rows []kindRow) {
	for _, k := range list {
		held := string(k.Spec.Hold.Suspend)
		switch {
		case k.Spec.Hold.Gate:
			held = "scheduling gate"
		case k.Spec.Hold.Zero:
			held = "no workers"
		}
		rows = append(rows, kindRow{
			k.Name, strings.TrimPrefix(k.Spec.Group+"/"+k.Spec.Version, "/"), held, k.Elastic(), k.Pausable(), k.Ends(), slices.Contains(kinds.DefaultNames, k.Name),
		})
	}
	return rows
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
