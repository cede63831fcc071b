package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/carbonflex"
	"lull.dev/lull/pkg/plan/vcc"
)

// defaultData is where evaluation data lies beside a checkout.
const defaultData = "../shared/data"

func newReproduceCommand() *cobra.Command {
	var data, jsonFile, htmlFile, markdown, format string
	cmd := &cobra.Command{
		Use:   "reproduce [all | PAPER [EXPERIMENT]]",
		Short: "Run the experiments of the published systems and compare",
		Long: `Reproduce runs experiments of the five published systems that Lull unifies. It compares the
results with the figures of the papers, with those of an independent reproduction
("others"), and with planner joint on the same data. Papers: ` + strings.Join(reproduce.Papers, ", ") + `.
Experiments of Lull's own: ` + reproduce.Own + `.
Without arguments it lists the experiments there are.

It needs their data (carbon, job and scaling traces): --data, else LULL_DATA, else
` + defaultData + `. Every figure names its seeds, years and traces.`,
		Example: `  lull reproduce
  lull reproduce carbonscaler fig12
  lull reproduce caspian --html caspian.html
  lull reproduce all --markdown docs/reproduction.md --json docs/reproduction.json`,
		Args: takes(0, 2, "nothing, all, or PAPER and maybe EXPERIMENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listExperiments(cmd.OutOrStdout(), format)
			}
			id := ""
			if len(args) > 1 {
				id = args[1]
			}
			list, err := reproduce.Select(args[0], id)
			if err != nil {
				return err
			}
			env := NewReproduction(cmp.Or(data, os.Getenv("LULL_DATA"), defaultData))
			if err := env.Check(); err != nil {
				return err
			}
			tables := cmd.OutOrStdout()
			if structured(format) {
				tables = io.Discard
			}
			found, err := runExperiments(cmd.Context(), env, list, tables, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			for file, write := range map[string]func(io.Writer) error{
				htmlFile: func(w io.Writer) error { return report.WriteDocument(w, reproduce.Document(found)) },
				jsonFile: func(w io.Writer) error {
					enc := json.NewEncoder(w)
					enc.SetIndent("", " ")
					return enc.Encode(found)
				},
				markdown: func(w io.Writer) error {
					return reproduce.WriteMarkdown(w, found, filepath.Dir(markdown))
				},
			} {
				if file == "" {
					continue
				}
				var text bytes.Buffer
				if err := write(&text); err != nil {
					return err
				}
				if err := writeOut(file, text.Bytes(), cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			if structured(format) {
				return writeStructured(cmd.OutOrStdout(), format, found)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "folder of the traces (default: LULL_DATA, else "+defaultData+")")
	cmd.Flags().StringVar(&htmlFile, "html", "", "file for the report with pictures (HTML)")
	cmd.Flags().StringVar(&jsonFile, "json", "", "file for all figures (JSON)")
	cmd.Flags().StringVar(&markdown, "markdown", "", "file for the tables (Markdown), with pictures in a folder beside it")
	tableFlag(cmd.Flags(), &format)
	return cmd
}

// listExperiments lists the experiments there are.
func listExperiments(out io.Writer, format string) error {
	var rows []experimentRow
	for _, x := range reproduce.All() {
		rows = append(rows, experimentRow{x.Paper, x.ID, x.Title})
	}
	return writeRows(out, format, []column[experimentRow]{
		{head: "PAPER", cell: func(r *experimentRow) string { return r.Paper }},
		{head: "EXPERIMENT", cell: func(r *experimentRow) string { return r.ID }},
		{head: "WHAT", cell: func(r *experimentRow) string { return r.Title }},
	}, rows)
}

// experimentRow is an experiment there is.
type experimentRow struct {
	Paper string `json:"paper"`
	ID    string `json:"experiment"`
	Title string `json:"title"`
}

// NewReproduction is what experiments work with, on data in a folder.
func NewReproduction(data string) *reproduce.Env {
	return &reproduce.Env{
		Data: data,
		Planner: func(name string, parameters map[string]string) (plan.Planner, error) {
			p, err := newPlanner(name, parameters, []string{reproduce.CriticalClass}, true)
			if err != nil {
				return nil, err
			}
			return plan.InSlots{Planner: p}, nil // all methods plan in the slots of the experiment
		},
		Learn: func(ctx context.Context, history []*plan.Problem) (plan.Planner, error) {
			params := carbonflex.Params{Knowledge: carbonflex.NewKnowledge(0)}
			for _, p := range history {
				cases, err := carbonflex.Learn(ctx, p, learnShifts...)
				if err != nil {
					return nil, err
				}
				if err := params.Knowledge.Add(cases...); err != nil {
					return nil, err
				}
			}
			return carbonflex.New(params)
		},
		VCC: func(expected func(day int) float64) (plan.Planner, error) {
			return vcc.New(vcc.Params{Expected: expected})
		},
	}
}

// runExperiments runs them one after the other and prints each table.
func runExperiments(ctx context.Context, env *reproduce.Env, list []reproduce.Experiment, stdout, stderr io.Writer) ([]reproduce.Found, error) {
	var out []reproduce.Found
	for i := range list {
		x := &list[i]
		b := newBar(stderr, x.Name())
		env.Progress = b.set
		res, err := x.Run(ctx, env)
		b.close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.Name(), err)
		}
		fmt.Fprintf(stdout, "%s: %s\n%s\n", x.Name(), x.Title, x.Setup)
		tw := tabwriter.NewWriter(stdout, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, strings.Join(reproduce.Head, "\t"))
		for r := range res.Rows {
			fmt.Fprintln(tw, strings.Join(res.Rows[r].Cells(), "\t"))
		}
		if err := tw.Flush(); err != nil {
			return nil, err
		}
		for _, note := range res.Notes {
			fmt.Fprintln(stdout, note)
		}
		fmt.Fprintln(stdout)
		out = append(out, reproduce.FoundOf(x, res))
	}
	return out, nil
}
