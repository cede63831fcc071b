package report

import (
	"fmt"
	"html/template"
	"math"
	"sort"
	"strings"
	"time"
)

// Measures of the pictures, in SVG units.
const (
	width, left, right = 1040.0, 62.0, 24.0
	curveTop           = 14.0
	curveHeight        = 150.0
	curveGap           = 34.0
	rowHeight          = 13.0
)

// scaleX maps a time to a horizontal position, cut to the picture.
func (p Page) scaleX(t time.Time) float64 {
	share := float64(t.Sub(p.From)) / float64(p.To.Sub(p.From))
	return left + math.Min(1, math.Max(0, share))*(width-left-right)
}

// step is one change of a staircase.
type step struct {
	at    time.Time
	value float64
}

// usage is the CPUs in use over time.
func usage(jobs []Job, bars func(Job) []Bar) []step {
	change := map[time.Time]float64{}
	for _, j := range jobs {
		for _, b := range bars(j) {
			change[b.From] += b.CPUs
			change[b.To] -= b.CPUs
		}
	}
	times := make([]time.Time, 0, len(change))
	for t := range change {
		times = append(times, t)
	}
	sort.Slice(times, func(a, b int) bool { return times[a].Before(times[b]) })
	var out []step
	sum := 0.0
	for _, t := range times {
		sum += change[t]
		out = append(out, step{t, math.Max(0, sum)})
	}
	return out
}

// niceCeil rounds up to 1, 2, 2.5 or 5 times a power of ten.
func niceCeil(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if v <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}

// staircase is the SVG path of steps, from zero at the start of the picture.
func (p Page) staircase(steps []step, y func(float64) float64, closed bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%.1f %.1f", p.scaleX(p.From), y(0))
	last := 0.0
	for _, s := range steps {
		fmt.Fprintf(&b, "L%.1f %.1fL%.1f %.1f", p.scaleX(s.at), y(last), p.scaleX(s.at), y(s.value))
		last = s.value
	}
	fmt.Fprintf(&b, "L%.1f %.1f", p.scaleX(p.To), y(last))
	if closed {
		fmt.Fprintf(&b, "L%.1f %.1fZ", p.scaleX(p.To), y(0))
	}
	return b.String()
}

// timeAxis draws a line and a label every six hours, or as many more as fit.
func (p Page) timeAxis(b *strings.Builder, top, bottom float64) {
	const most = 16
	every := 6 * time.Hour
	for p.To.Sub(p.From) > most*every {
		every *= 2
	}
	for t := p.From.Truncate(every); !t.After(p.To); t = t.Add(every) {
		if t.Before(p.From) {
			continue
		}
		x := p.scaleX(t)
		label := t.UTC().Format("15:04")
		if t.UTC().Hour() == 0 {
			label = t.UTC().Format("01-02")
		}
		fmt.Fprintf(b, `<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`,
			x, top, x, bottom, x, bottom+14, label)
	}
}

// valueAxis draws lines and labels at zero, half and full scale.
func valueAxis(b *strings.Builder, y func(float64) float64, full float64, unit string) {
	for _, share := range []float64{0, 0.5, 1} {
		v := share * full
		fmt.Fprintf(b, `<line class="axis" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%g%s</text>`,
			left, y(v), width-right, y(v), left-6, y(v)+4, v, unit)
	}
}

func scaleY(top, height, full float64) func(float64) float64 {
	return func(v float64) float64 { return top + height*(1-math.Min(1, v/full)) }
}

// curves draws the intensity above the CPUs in use.
func curves(p Page) template.HTML {
	var b strings.Builder
	height := curveTop + 2*curveHeight + curveGap + 22
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="Carbon intensity and CPUs in use over time">`, width, height)
	peak := 0.0
	var intensity []step
	for i := range p.Intensity.Len() {
		s := p.Intensity.Sample(i)
		if s.To.After(p.From) && s.From.Before(p.To) {
			intensity = append(intensity, step{s.From, float64(s.Value)})
			peak = math.Max(peak, float64(s.Value))
		}
	}
	full := niceCeil(peak)
	y := scaleY(curveTop, curveHeight, full)
	p.timeAxis(&b, curveTop, curveTop+curveHeight)
	valueAxis(&b, y, full, "")
	for i, s := range intensity {
		command, end := "L", p.To
		if i == 0 {
			fmt.Fprint(&b, `<path class="intensity" d="`)
			command = "M"
		}
		if i+1 < len(intensity) {
			end = intensity[i+1].at
		}
		fmt.Fprintf(&b, "%s%.1f %.1fL%.1f %.1f", command, p.scaleX(s.at), y(s.value), p.scaleX(end), y(s.value))
	}
	if len(intensity) > 0 {
		b.WriteString(`"/>`)
	}
	observed := usage(p.Jobs, func(j Job) []Bar { return j.Observed })
	baseline := usage(p.Jobs, func(j Job) []Bar { return j.Baseline })
	most := p.Capacity
	for _, s := range append(append([]step(nil), observed...), baseline...) {
		most = math.Max(most, s.value)
	}
	top := curveTop + curveHeight + curveGap
	full = niceCeil(most)
	y = scaleY(top, curveHeight, full)
	p.timeAxis(&b, top, top+curveHeight)
	valueAxis(&b, y, full, " CPU")
	fmt.Fprintf(&b, `<path class="area" d="%s"/><path class="load observed" d="%s"/><path class="load baseline" d="%s"/></svg>`,
		p.staircase(observed, y, true), p.staircase(observed, y, false), p.staircase(baseline, y, false))
	return template.HTML(b.String()) // numbers and fixed text only
}

// gantt draws a row for each job.
func gantt(p Page) template.HTML {
	var b strings.Builder
	bottom := 6 + rowHeight*float64(len(p.Jobs))
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="When each job waited and ran">`, width, bottom+20)
	p.timeAxis(&b, 4, bottom)
	for i, j := range p.Jobs {
		y := 6 + rowHeight*float64(i)
		fmt.Fprintf(&b, `<g><title>%s</title>`, template.HTMLEscapeString(j.Name+" "+j.Note))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left-6, y+9, template.HTMLEscapeString(j.Name))
		if len(j.Observed) > 0 {
			last := j.Observed[len(j.Observed)-1]
			p.rect(&b, "wait", j.Arrival, last.From, y+4, rowHeight-9)
		}
		for _, bar := range j.Baseline {
			p.rect(&b, "ghost", bar.From, bar.To, y+1, rowHeight-3)
		}
		for _, bar := range j.Observed {
			p.rect(&b, "bar", bar.From, bar.To, y+2.5, rowHeight-6)
		}
		if !j.Deadline.IsZero() && j.Deadline.Before(p.To) {
			x := p.scaleX(j.Deadline)
			fmt.Fprintf(&b, `<line class="deadline" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, y+1, x, y+rowHeight-2)
		}
		b.WriteString("</g>")
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // names are escaped above, the rest is numbers
}

func (p Page) rect(b *strings.Builder, class string, from, to time.Time, y, height float64) {
	x1, x2 := p.scaleX(from), p.scaleX(to)
	if x2 > x1 {
		fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1.5"/>`, class, x1, y, x2-x1, height)
	}
}
