package cli

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"lull.dev/lull/internal/base/ical"
	"lull.dev/lull/pkg/bestwindow"
	"lull.dev/lull/pkg/carbon"
)

// write prints the window in a format.
func (w *bestTime) write(out io.Writer, format string) error {
	switch format {
	case formatJSON, formatYAML:
		return writeStructured(out, format, w.json())
	case "ical":
		_, err := io.WriteString(out, w.event().Calendar())
		return err
	case "sbatch":
		_, err := fmt.Fprintln(out, w.sbatch())
		return err
	case "at":
		_, err := fmt.Fprintln(out, w.atTime())
		return err
	}
	_, err := io.WriteString(out, w.text())
	return err
}

// whenJSON is the window as JSON. Shares are from 0 to 1; what is not known is left out.
type whenJSON struct {
	Zone              string            `json:"zone"`
	Signal            carbon.Signal     `json:"signal"`
	Factor            carbon.Factor     `json:"factor"`
	Now               time.Time         `json:"now"`
	Start             time.Time         `json:"start"`
	End               time.Time         `json:"end"`
	LatestStart       time.Time         `json:"latestStart"`
	Reason            bestwindow.Reason `json:"reason"`
	Message           string            `json:"message"`
	MinSaving         float64           `json:"minSaving"`
	Unit              string            `json:"unit"`
	IntensityNow      *float64          `json:"intensityNow,omitempty"`
	IntensityThen     *float64          `json:"intensityThen,omitempty"`
	IntensityThenLow  *float64          `json:"intensityThenLow,omitempty"`
	IntensityThenHigh *float64          `json:"intensityThenHigh,omitempty"`
	ExpectedSaving    *float64          `json:"expectedSaving,omitempty"`
	BestStart         *time.Time        `json:"bestStart,omitempty"`
	BestSaving        *float64          `json:"bestSaving,omitempty"`
	Basis             carbon.Basis      `json:"basis,omitempty"`
	Source            string            `json:"source,omitempty"`
}

func (w *bestTime) json() whenJSON {
	second := func(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
	out := whenJSON{
		Zone: w.cfg.Zone, Signal: w.cfg.Signal, Factor: w.cfg.Factor, Now: second(w.now), Start: second(w.Start), End: second(w.End),
		LatestStart: second(w.LatestStart), Reason: w.Reason, Message: w.message(), MinSaving: w.minSaving, Unit: "gCO2eq/kWh",
	}
	out.Basis, out.Source = w.basis()
	if !w.known() {
		return out
	}
	number := func(v, scale float64) *float64 { v = math.Round(v*scale) / scale; return &v }
	low, high := w.quantiles()
	out.IntensityNow, out.IntensityThen = number(float64(w.MeanNow), 10), number(float64(w.Mean), 10)
	out.IntensityThenLow, out.IntensityThenHigh = number(float64(low), 10), number(float64(high), 10)
	out.ExpectedSaving, out.BestSaving = number(w.Saving(), 1e4), number(w.BestSaving(), 1e4)
	best := second(w.Best.From)
	out.BestStart = &best
	return out
}

// event is the window for a calendar.
func (w *bestTime) event() ical.Event {
	id := sha256.Sum256(fmt.Append(nil, w.cfg.Key, w.Start.UnixNano(), w.length, w.within))
	e := ical.Event{
		UID: fmt.Sprintf("%x@lull.dev", id[:12]), Stamp: w.now, Start: w.Start, End: w.End,
		Summary:     "Clean electricity in " + w.cfg.Zone + ": run of " + roughly(w.length),
		Description: sentence(w.message()),
	}
	if from := w.basisText(); from != "" {
		e.Description += "\nFrom " + from
	}
	return e
}

// sbatch is the start as sbatch --begin takes it: in local time, by the second.
func (w *bestTime) sbatch() string {
	if !w.Start.After(w.now) {
		return "now"
	}
	return w.Start.In(w.now.Location()).Format("2006-01-02T15:04:05")
}

// atTime is the start as at -t takes it: in local time, by the minute. What at runs in the present minute counts as past, so a
// start now is the next minute.
func (w *bestTime) atTime() string {
	start := w.Start.In(w.now.Location()).Truncate(time.Minute)
	if !start.After(w.now) {
		start = start.Add(time.Minute)
	}
	return start.Format("200601021504")
}

// text is the window for people.
func (w *bestTime) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %s emissions\n%s\n", w.cfg.Zone, w.cfg.Signal, w.cfg.Factor, sentence(w.message()))
	if w.outlook.Expected == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s\n", w.drawing())
	if w.known() {
		low, high := w.quantiles()
		end := clockText(w.End, w.now)
		if at := w.End.In(w.now.Location()); at.YearDay() == w.Start.In(w.now.Location()).YearDay() {
			end = at.Format("15:04")
		}
		fmt.Fprintf(&b, "  window  %s to %s\n", clockText(w.Start, w.now), end)
		fmt.Fprintf(&b, "  range   %s to %s (10 %% to 90 %%)\n", strings.TrimSuffix(intensityText(low), " gCO2eq/kWh"), intensityText(high))
	}
	fmt.Fprintf(&b, "  latest  a start at %s ends in time\n", clockText(w.LatestStart, w.now))
	if from := w.basisText(); from != "" {
		fmt.Fprintf(&b, "  from    %s\n", from)
	}
	return b.String()
}

// sameWeekday is the time after which a day of the week and a time of day name two times.
const sameWeekday = 6 * 24 * time.Hour

// cells is how many bars a drawing has at most.
const cells = 48

// drawing is the intensity until the latest end as bars, with marks below the window.
func (w *bestTime) drawing() string {
	step := max(w.within/cells, time.Second)
	n := int(w.within / step)
	values, known := make([]float64, n), []float64(nil)
	for i := range values {
		from := w.now.Add(time.Duration(i) * step)
		mean, covered := w.outlook.Expected.Mean(from, from.Add(step))
		values[i] = float64(mean)
		if covered == 0 {
			values[i] = math.NaN()
		} else {
			known = append(known, values[i])
		}
	}
	var bars, marks strings.Builder
	for i, v := range values {
		from := w.now.Add(time.Duration(i) * step)
		if math.IsNaN(v) {
			bars.WriteByte(' ')
		} else {
			bars.WriteString(sparkline([]float64{v}, known))
		}
		middle, begins := from.Add(step/2), !w.Start.Before(from) && w.Start.Before(from.Add(step))
		if !middle.Before(w.Start) && middle.Before(w.End) || begins && w.length < step {
			marks.WriteByte('^')
		} else {
			marks.WriteByte(' ')
		}
	}
	layout := "Mon 15:04"
	if w.within >= sameWeekday {
		layout = "Mon 2006-01-02 15:04"
	}
	label := w.now.Format(layout)
	return "  " + label + " " + bars.String() + " " + w.now.Add(w.within).Format(layout) + "\n  " +
		strings.TrimRight(strings.Repeat(" ", len(label)+1)+marks.String(), " ")
}

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }
