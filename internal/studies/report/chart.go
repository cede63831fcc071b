package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// Series is a line or a set of points of a chart; X ascends for lines.
type Series struct {
	Name string
	X, Y []float64
	// Stairs draws steps, Points marks instead of a line.
	Stairs, Points bool
	// Labels of points, by index.
	Labels []string
	// Faint draws a thin grey line, for a series that is one of many. A series without a name has no entry in the key.
	Faint bool
}

// line is the style of the i-th series.
func (s *Series) line(i int, width float64) string {
	if s.Faint {
		return fmt.Sprintf(`style="stroke:#8b969d;stroke-opacity:.45" stroke-width="%.1f"`, width*0.45)
	}
	return fmt.Sprintf(`style="stroke:%s" stroke-width="%.1f"%s`, hue(i), width, dash(i))
}

// Chart is a picture of values over values.
type Chart struct {
	Title string // what a screen reader says
	// XUnit and YUnit follow the labels of the axes.
	XUnit, YUnit string
	// From, where set, makes X hours since a time and labels dates.
	From   time.Time
	Series []Series
	Height float64 // of the area, 220 where 0
	// XNames label whole X values, for categories.
	XNames []string
}

// bounds are the ranges of both axes.
func (c *Chart) bounds() (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), math.Inf(-1), 0, 0
	for _, s := range c.Series {
		for i := range s.X {
			x0, x1 = math.Min(x0, s.X[i]), math.Max(x1, s.X[i])
			y0, y1 = math.Min(y0, s.Y[i]), math.Max(y1, s.Y[i])
		}
	}
	for _, s := range c.Series {
		if s.Points && len(s.Labels) > 0 && x1 > x0 {
			x1 += (x1 - x0) * 0.1 // room for the labels
			break
		}
	}
	if len(c.XNames) > 0 {
		x0, x1 = -0.5, float64(len(c.XNames))-0.5
	}
	if !(x1 > x0) {
		x0, x1 = x0-0.5, x0+0.5
		if math.IsInf(x0, 0) {
			x0, x1 = 0, 1
		}
	}
	if y0 < 0 {
		y0 = -niceCeil(-y0)
	}
	y1 = niceCeil(y1)
	return x0, x1, y0, y1
}

// SVG draws the chart with its key.
func (c Chart) SVG() template.HTML {
	const top, bottom = 14.0, 26.0
	height := c.Height
	if height == 0 {
		height = 220
	}
	x0, x1, y0, y1 := c.bounds()
	x := func(v float64) float64 { return left + (v-x0)/(x1-x0)*(width-left-right) }
	y := func(v float64) float64 { return top + height*(1-(v-y0)/(y1-y0)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, width, top+height+bottom, template.HTMLEscapeString(c.Title))
	for i := range 5 {
		v := y0 + (y1-y0)*float64(i)/4
		fmt.Fprintf(&b, `<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s%s</text>`,
			left, y(v), width-right, y(v), left-6, y(v)+4, short(v), template.HTMLEscapeString(c.YUnit))
	}
	c.xLabels(&b, x, x0, x1, top+height+16)
	for _, faint := range []bool{true, false} { // behind the others
		for i := range c.Series {
			if c.Series[i].Faint == faint {
				c.series(&b, i, x, y)
			}
		}
	}
	b.WriteString("</svg>")
	b.WriteString(c.key())
	return template.HTML(b.String()) // names are escaped, the rest is numbers and fixed text
}

func (c *Chart) series(b *strings.Builder, i int, x, y func(float64) float64) {
	s := &c.Series[i]
	if s.Points {
		c.points(b, i, *s, x, y)
		return
	}
	fmt.Fprintf(b, `<path fill="none" %s d="`, s.line(i, 1.8))
	for k := range s.X {
		switch {
		case k == 0:
			fmt.Fprintf(b, "M%.1f %.1f", x(s.X[k]), y(s.Y[k]))
		case s.Stairs:
			fmt.Fprintf(b, "H%.1fV%.1f", x(s.X[k]), y(s.Y[k]))
		default:
			fmt.Fprintf(b, "L%.1f %.1f", x(s.X[k]), y(s.Y[k]))
		}
	}
	b.WriteString(`"/>`)
}

func (c *Chart) points(b *strings.Builder, i int, s Series, x, y func(float64) float64) {
	for k := range s.X {
		label := ""
		if k < len(s.Labels) {
			label = s.Labels[k]
		}
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4.5" style="fill:%s"><title>%s</title></circle>`, x(s.X[k]), y(s.Y[k]), hue(i), template.HTMLEscapeString(s.Name+" "+label))
		if label != "" {
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`, x(s.X[k])+7, y(s.Y[k])+4, template.HTMLEscapeString(label))
		}
	}
}

// xLabels are dates, names or numbers below the picture.
func (c *Chart) xLabels(b *strings.Builder, x func(float64) float64, x0, x1, at float64) {
	label := func(v float64, text string) {
		anchor := "middle"
		if v >= x1 && len(c.XNames) == 0 {
			anchor = "end" // inside of the picture
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x(v), at, anchor, template.HTMLEscapeString(text))
	}
	if len(c.XNames) > 0 {
		for i, name := range c.XNames {
			label(float64(i), name)
		}
		return
	}
	const marks = 9
	if !c.From.IsZero() {
		every := 6 * time.Hour
		for x1-x0 > marks*every.Hours() {
			every *= 2
		}
		from := c.From.Add(time.Duration(x0 * float64(time.Hour)))
		for t := from.Truncate(every); ; t = t.Add(every) {
			v := t.Sub(c.From).Hours()
			if v > x1 {
				return
			}
			if v < x0 {
				continue
			}
			format := "2006-01-02"
			if every < 24*time.Hour {
				format = "2006-01-02 15:04"
			}
			label(v, t.UTC().Format(format))
		}
	}
	step := niceCeil((x1 - x0) / marks)
	for v := math.Ceil(x0/step) * step; v <= x1+step*1e-9; v += step {
		label(v, short(v)+c.XUnit)
	}
}

// short is a number with three digits.
func short(v float64) string {
	if math.Abs(v) < 1e-9 {
		return "0"
	}
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// key names the series.
func (c *Chart) key() string {
	var b strings.Builder
	b.WriteString("<figcaption>")
	for i, s := range c.Series {
		if s.Name == "" {
			continue
		}
		line := "solid"
		if dash(i) != "" {
			line = "dashed"
		}
		fmt.Fprintf(&b, `<span class="key" style="border:0;border-top:3px %s %s"></span>%s`, line, hue(i), template.HTMLEscapeString(s.Name))
	}
	b.WriteString("</figcaption>")
	return b.String()
}

// Thin keeps at most n values of a series, each the mean of those it stands for.
func Thin(values []float64, n int) (x, y []float64) {
	each := max(1, (len(values)+n-1)/n)
	for from := 0; from < len(values); from += each {
		part := values[from:min(from+each, len(values))]
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		x, y = append(x, float64(from)), append(y, sum/float64(len(part)))
	}
	return x, y
}

// CDF is the share of values that are no larger, at up to n of them.
func CDF(sorted []float64, n int) (x, y []float64) {
	each := max(1, len(sorted)/n)
	for i := 0; i < len(sorted); i += each {
		x, y = append(x, sorted[i]), append(y, float64(i+1)/float64(len(sorted)))
	}
	if len(sorted) > 0 {
		x, y = append(x, sorted[len(sorted)-1]), append(y, 1)
	}
	return x, y
}

// Standalone draws the chart as a file of its own, with the key inside, readable on
// light and dark grounds.
func (c Chart) Standalone() string {
	svg := string(c.SVG())
	end := strings.Index(svg, "</svg>")
	height := c.Height
	if height == 0 {
		height = 220
	}
	const extra, entry = 22.0, 8.0
	total := 14 + height + 26 + extra
	var key strings.Builder
	x := left
	for i, s := range c.Series {
		if s.Name == "" {
			continue
		}
		fmt.Fprintf(&key, `<line x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f" %s/><text x="%.0f" y="%.0f">%s</text>`,
			x, total-10, x+18, total-10, s.line(i, 3), x+23, total-6, template.HTMLEscapeString(s.Name))
		x += 36 + entry*float64(len(s.Name))
	}
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f"><style>text{font:11px system-ui,sans-serif;fill:#7a8790}.axis{stroke:#8b969d;stroke-opacity:.45}</style>`, width, total)
	return head + svg[strings.Index(svg, ">")+1:end] + key.String() + "</svg>\n"
}
