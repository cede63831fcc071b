package reproduce

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/internal/studies/report"
)

// Found is an experiment with what came of it.
type Found struct {
	Paper string   `json:"paper"`
	ID    string   `json:"experiment"`
	Title string   `json:"title"`
	Setup string   `json:"setup"`
	Rows  []Row    `json:"rows"`
	Notes []string `json:"notes,omitempty"`

	charts []report.Chart
}

// FoundOf joins both.
func FoundOf(x *Experiment, r *Result) Found {
	return Found{Paper: x.Paper, ID: x.ID, Title: x.Title, Setup: x.Setup, Rows: r.Rows, Notes: r.Notes, charts: r.Charts}
}

// Document is the page of all tables and pictures.
func Document(list []Found) report.Document {
	d := report.Document{Title: "The papers' experiments", Intro: intro}
	for i := range list {
		f := &list[i]
		s := report.Section{Title: f.Paper + " " + f.ID + ": " + f.Title, Text: f.Setup, Head: Head, Notes: f.Notes}
		for r := range f.Rows {
			s.Rows = append(s.Rows, f.Rows[r].Cells())
		}
		if len(f.charts) > 0 {
			s.Picture = f.charts[0].SVG()
		}
		d.Sections = append(d.Sections, s)
		for _, c := range f.charts[min(1, len(f.charts)):] {
			d.Sections = append(d.Sections, report.Section{Picture: c.SVG()})
		}
	}
	return d
}

const intro = "The tables show the results of the experiments of five published systems. The column \"paper\" is what the paper states, \"here\" is the published method as implemented in Lull, \"others\" is an independent reproduction on the same data, and \"joint\" is Lull's own planner on the same data. The last section has experiments of Lull's own. Savings are in percent of the baseline's emissions. A difference is \"here\" minus \"paper\". joint plans in the slots of the experiment, as the published methods do; outside these experiments Lull refines its plans within slots. A change of 1e-9 in its search moves its figures by up to 0.7 points (azure-100k): smaller differences between two versions mean nothing."

// WriteMarkdown writes the tables, and the pictures as files in the folder
// reproduction below dir.
func WriteMarkdown(w io.Writer, list []Found, dir string) error {
	pictures := filepath.Join(dir, "reproduction")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The papers' experiments\n\nFor readers of the five papers: the result of each of their experiments in Lull, next to the figure of the paper.\n\n`lull reproduce all --markdown docs/reproduction.md --json docs/reproduction.json` writes this page; do not edit it.\n\n%s\n", intro)
	paper := ""
	for i := range list {
		f := &list[i]
		if f.Paper != paper {
			paper = f.Paper
			fmt.Fprintf(&b, "\n## %s\n", paper)
		}
		fmt.Fprintf(&b, "\n### %s: %s\n\n%s\n\n| %s |\n|%s\n", f.ID, f.Title, f.Setup, strings.Join(Head, " | "), strings.Repeat("---|", len(Head)))
		for r := range f.Rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(f.Rows[r].Cells(), " | "))
		}
		for _, n := range f.Notes {
			fmt.Fprintf(&b, "\n- %s", n)
		}
		if len(f.Notes) > 0 {
			b.WriteString("\n")
		}
		for k := range f.charts {
			name := fmt.Sprintf("%s-%s-%d.svg", f.Paper, f.ID, k+1)
			if err := outfile.WriteFile(filepath.Join(pictures, name), []byte(f.charts[k].Standalone())); err != nil {
				return err
			}
			fmt.Fprintf(&b, "\n![%s](reproduction/%s)\n", f.charts[k].Title, name)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
