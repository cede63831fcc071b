package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
)

// ForecastHour is an hour of an outlook, gCO2eq/kWh; Low and High are the 10 %
// and 90 % quantiles.
type ForecastHour struct {
	Time             time.Time
	Low, Value, High float64
	Basis, Source    string
}

// Forecast is the content of the page of an outlook.
type Forecast struct {
	Title, Intro string
	Hours        []ForecastHour
}

//go:embed forecast.html
var forecastText string

var forecastPage = parse("forecast", forecastText)

// WriteForecast renders the page.
func WriteForecast(w io.Writer, f Forecast) error {
	if len(f.Hours) == 0 {
		return fmt.Errorf("report: hours: none; accepted: at least one")
	}
	return forecastPage.Execute(w, struct {
		Forecast
		Chart   template.HTML
		Sources []string
	}{f, forecastChart(f), sources(f.Hours)})
}

// sources says which hours rest on what.
func sources(hours []ForecastHour) []string {
	var out []string
	for i := 0; i < len(hours); {
		j := i
		for j < len(hours) && hours[j].Basis == hours[i].Basis && hours[j].Source == hours[i].Source {
			j++
		}
		out = append(out, fmt.Sprintf("%s to %s: %s, %s", hours[i].Time.UTC().Format("2006-01-02 15:04"), hours[j-1].Time.Add(time.Hour).UTC().Format("2006-01-02 15:04"), hours[i].Basis, hours[i].Source))
		i = j
	}
	return out
}

// forecastChart draws the expected intensity as a staircase over its band.
func forecastChart(f Forecast) template.HTML {
	const top, height = 14.0, 300.0
	p := Page{From: f.Hours[0].Time, To: f.Hours[len(f.Hours)-1].Time.Add(time.Hour)}
	most := 0.0
	for _, h := range f.Hours {
		most = math.Max(most, h.High)
	}
	most = niceCeil(most)
	y := scaleY(top, height, most)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="Expected carbon intensity with its 10 and 90 percent quantiles">`, width, top+height+26)
	if hours := p.To.Sub(p.From).Hours(); hours <= 72 {
		p.timeAxis(&b, top, top+height)
	} else {
		p.dayAxis(&b, top, top+height)
	}
	valueAxis(&b, y, most, "")
	var up, down, line strings.Builder
	for i, h := range f.Hours {
		x1, x2 := p.scaleX(h.Time), p.scaleX(h.Time.Add(time.Hour))
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&up, "%s%.1f %.1fL%.1f %.1f", command, x1, y(h.High), x2, y(h.High))
		fmt.Fprintf(&line, "%s%.1f %.1fL%.1f %.1f", command, x1, y(h.Value), x2, y(h.Value))
	}
	for i := len(f.Hours) - 1; i >= 0; i-- {
		h := f.Hours[i]
		fmt.Fprintf(&down, "L%.1f %.1fL%.1f %.1f", p.scaleX(h.Time.Add(time.Hour)), y(h.Low), p.scaleX(h.Time), y(h.Low))
	}
	fmt.Fprintf(&b, `<path class="band" d="%s%sZ"/><path class="intensity" d="%s"/></svg>`, up.String(), down.String(), line.String())
	return template.HTML(b.String()) // numbers and fixed text only
}

// dayAxis draws a line and a label for every day.
func (p Page) dayAxis(b *strings.Builder, top, bottom float64) {
	for t := p.From.UTC().Truncate(24 * time.Hour); !t.After(p.To); t = t.AddDate(0, 0, 1) {
		if t.Before(p.From) {
			continue
		}
		x := p.scaleX(t)
		fmt.Fprintf(b, `<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`,
			x, top, x, bottom, x, bottom+14, t.Format("01-02"))
	}
}
