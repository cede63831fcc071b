package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// plannerRow is a planner.
type plannerRow struct {
	Name       string         `json:"name"`
	Policies   bool           `json:"policies"` // whether a CarbonPolicy may name it
	Source     string         `json:"source"`
	Parameters []parameterRow `json:"parameters"`
}

type parameterRow struct {
	Name string `json:"name"`
	Help string `json:"help"`
}

func plannerRows() (rows []plannerRow) {
	policies := PolicyPlanners()
	for _, m := range methods {
		r := plannerRow{Name: m.name, Policies: slices.Contains(policies, m.name), Source: m.source, Parameters: []parameterRow{}}
		for _, p := range m.parameters {
			r.Parameters = append(r.Parameters, parameterRow{p.name, p.help})
		}
		rows = append(rows, r)
	}
	return rows
}

func newGetPlannersCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:     "planners [NAME]",
		Aliases: []string{"planner"},
		Short:   "List the planners with their parameters and sources",
		Example: `  lull get planners
  lull get planners joint -o yaml`,
		Args: takes(0, 1, "at most the name of one planner"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := func(r *plannerRow) string { return r.Name }
			return writeFound(cmd, format, []column[plannerRow]{
				{head: "NAME", cell: name},
				{head: "IN POLICIES", cell: func(r *plannerRow) string { return yes(r.Policies) }},
				{head: "PARAMETERS", cell: func(r *plannerRow) string {
					var names []string
					for _, p := range r.Parameters {
						names = append(names, p.Name)
					}
					return strings.Join(names, ",")
				}},
				{head: "SOURCE", cell: func(r *plannerRow) string { return r.Source }, wide: true},
			}, plannerRows(), args, name)
		},
	}
	tableFlag(cmd.Flags(), &format)
	return cmd
}
