// Package report renders what happened as one self-contained HTML page with
// pictures: no scripts, nothing loaded from elsewhere.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"lull.dev/lull/pkg/carbon"
)

// Bar is one run of a job.
type Bar struct {
	From, To time.Time
	CPUs     float64
}

// Job is a row of the Gantt chart.
type Job struct {
	Name     string
	Note     string // e.g. "critical", "interruptible"
	Arrival  time.Time
	Deadline time.Time // zero for none
	Observed []Bar     // as it ran
	Baseline []Bar     // as it would have run if started when submitted
}

// Row is a line of the summary table.
type Row struct{ Name, Observed, Baseline string }

// Page is the content of a report.
type Page struct {
	Title, Intro string
	// Observed and Baseline name the two columns and curves.
	ObservedName, BaselineName string
	Rows                       []Row
	Notes                      []string
	From, To                   time.Time
	Intensity                  *carbon.Series
	Jobs                       []Job
	Capacity                   float64 // CPUs of the cluster
	// Stairs are pictures of the workers of elastic jobs.
	Stairs []Figure
}

// Figure is a picture with its title.
type Figure struct {
	Title   string
	Picture template.HTML
}

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

//go:embed head.html
var headText string

// style is the look that all pages share.
func style() template.CSS { return template.CSS(styleText) }

// parse reads a page; it begins with the head that all share.
func parse(name, text string) *template.Template {
	t := template.New(name).Funcs(template.FuncMap{"style": style, "cell": cell})
	template.Must(t.New("head.html").Parse(headText))
	return template.Must(t.Parse(text))
}

var page = parse("page", pageText)

// Write renders the page.
func Write(w io.Writer, p Page) error {
	if !p.To.After(p.From) {
		return fmt.Errorf("report: to: %s does not lie after from: %s", p.To, p.From)
	}
	return page.Execute(w, struct {
		Page
		Curves, Gantt template.HTML
	}{p, curves(p), gantt(p)})
}
