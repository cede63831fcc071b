package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

// BacktestRow is a forecaster in a backtest. MAPE, Regret and Leads (MAPE by
// lead time, one a slot) are in percent.
type BacktestRow struct {
	Name                          string
	Live                          bool // sees nothing but the past
	MAPE, MAE, Bias, Rank, Regret float64
	Leads                         []float64
}

// Backtest is the content of the page of a backtest.
type Backtest struct {
	Title, Intro string
	Rows         []BacktestRow
	Agnostic     float64 // regret of starting at once, percent
}

//go:embed backtest.html
var backtestText string

var backtestPage = parse("backtest", backtestText)

// WriteBacktest renders the page.
func WriteBacktest(w io.Writer, b Backtest) error {
	return backtestPage.Execute(w, struct {
		Backtest
		Bars, Lines template.HTML
	}{b, regretBars(b), leadLines(b)})
}

// hues colours the curves; beyond them colours repeat with another dash. Pages have
// brighter ones for a dark ground; pictures that stand alone have these.
var hues = []string{"#0b7a53", "#b4532a", "#3b6fb6", "#8a5a9e", "#8a7a1f", "#5b6770"}

// hue is the colour of curve i, for a style attribute.
func hue(i int) string { return fmt.Sprintf("var(--c%d,%s)", i%len(hues), hues[i%len(hues)]) }

func dash(i int) string {
	if i < len(hues) {
		return ""
	}
	return ` stroke-dasharray="6 3"`
}

// regretBars draws the regret of each live forecaster.
func regretBars(b Backtest) template.HTML {
	const row, label = 26.0, 280.0
	rows := make([]BacktestRow, 0, len(b.Rows)+1)
	for _, r := range b.Rows {
		if r.Live {
			rows = append(rows, r)
		}
	}
	rows = append(rows, BacktestRow{Name: "starting at once", Regret: b.Agnostic})
	most := 0.0
	for _, r := range rows {
		most = math.Max(most, r.Regret)
	}
	most = niceCeil(most)
	var s strings.Builder
	height := row*float64(len(rows)) + 10
	fmt.Fprintf(&s, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="Regret of each forecaster">`, width, height)
	for i, r := range rows {
		y := 4 + row*float64(i)
		w := r.Regret / most * (width - label - 80)
		fmt.Fprintf(&s, `<text x="%.0f" y="%.1f" text-anchor="end">%s</text><rect class="bar" x="%.0f" y="%.1f" width="%.1f" height="16" rx="2"/><text x="%.1f" y="%.1f">%.2f %%</text>`,
			label-8, y+14, template.HTMLEscapeString(r.Name), label, y+2, math.Max(1, w), label+w+8, y+14, r.Regret)
	}
	s.WriteString("</svg>")
	return template.HTML(s.String()) // names are escaped above, the rest is numbers
}

// leadLines draws the error of each live forecaster by lead time.
func leadLines(b Backtest) template.HTML {
	const top, height = 14.0, 260.0
	most, leads := 0.0, 2
	for _, r := range b.Rows {
		if r.Live {
			leads = max(leads, len(r.Leads))
			for _, v := range r.Leads {
				most = math.Max(most, v)
			}
		}
	}
	most = niceCeil(most)
	var s, keys strings.Builder
	y := scaleY(top, height, most)
	x := func(k int) float64 { return left + float64(k)/float64(leads-1)*(width-left-right) }
	n := 0
	fmt.Fprintf(&s, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="Error by lead time">`, width, top+height+26)
	valueAxis(&s, y, most, " %")
	for k := 0; k < leads; k += max(1, leads/8) {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="middle">%d h</text>`, x(k), top+height+16, k+1)
	}
	for _, r := range b.Rows {
		if !r.Live {
			continue
		}
		fmt.Fprintf(&s, `<path fill="none" style="stroke:%s" stroke-width="1.8"%s d="`, hue(n), dash(n))
		for k, v := range r.Leads {
			command := "L"
			if k == 0 {
				command = "M"
			}
			fmt.Fprintf(&s, "%s%.1f %.1f", command, x(k), y(v))
		}
		s.WriteString(`"/>`)
		line := "solid"
		if dash(n) != "" {
			line = "dashed"
		}
		fmt.Fprintf(&keys, `<span class="key" style="border:0;border-top:3px %s %s"></span>%s`, line, hue(n), template.HTMLEscapeString(r.Name))
		n++
	}
	fmt.Fprintf(&s, "</svg><figcaption>%s</figcaption>", keys.String())
	return template.HTML(s.String()) // names are escaped above, the rest is numbers and fixed colours
}
