package forecast

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/units"
)

// ErrRecorded marks a file of recorded forecasts that cannot be read.
var ErrRecorded = errors.New("invalid recorded forecasts")

// Issued is a forecast as it was published, with what came: Values[k] and
// Actual[k] are of the slot that begins k steps after the first one.
type Issued struct {
	At             time.Time
	Step           time.Duration
	Values, Actual []float64 // gCO2eq/kWh; Actual is NaN where unknown
}

// maxRecorded bounds the rows of a file: ten years of daily four-day forecasts
// of half hours.
const maxRecorded = 1_000_000

// ReadRecorded reads forecasts of the layout
//
//	issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh
//
// Rows of one issue time stand together, in order of time, a step apart; the first
// time is the issue time. The step is the same in the whole file. Forecasts below
// zero, which statistical models may publish, count as zero; an empty actual is
// unknown.
//
// ReadRecorded returns an error that wraps ErrRecorded and names the line and the
// value. Complexity: O(rows).
func ReadRecorded(r io.Reader) ([]Issued, error) {
	text, err := units.PlainText(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecorded, err)
	}
	rows := csv.NewReader(text)
	rows.ReuseRecord = true
	rows.FieldsPerRecord = 4
	header, err := rows.Read()
	const accepted = "issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh"
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w; accepted: %s", ErrRecorded, units.ReadError(err), accepted)
	}
	header = slices.Clone(header) // the reader uses it again
	if header[0] != "issued" || header[1] != "time" {
		return nil, fmt.Errorf("%w: header: %q; accepted: %s", ErrRecorded, strings.Join(header, ","), accepted)
	}
	var out []Issued
	for line := 2; ; line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRecorded, err)
		}
		if line > maxRecorded {
			return nil, fmt.Errorf("%w: more than %d rows", ErrRecorded, maxRecorded)
		}
		issued, err1 := time.Parse(time.RFC3339, row[0])
		at, err2 := time.Parse(time.RFC3339, row[1])
		value, err3 := strconv.ParseFloat(row[2], 64)
		actual, err4 := math.NaN(), error(nil)
		if row[3] != "" {
			actual, err4 = strconv.ParseFloat(row[3], 64)
		}
		for column, err := range []error{err1, err2} {
			if err != nil {
				return nil, fmt.Errorf("%w: line %d: %s: %q; accepted: RFC 3339, e.g. 2023-11-14T11:00:00Z", ErrRecorded, line, header[column], row[column])
			}
		}
		if err := errors.Join(err3, err4); err != nil {
			return nil, fmt.Errorf("%w: line %d: values %q and %q; accepted: finite numbers", ErrRecorded, line, row[2], row[3])
		}
		if math.IsNaN(value) || math.IsInf(value, 0) || math.IsInf(actual, 0) || actual < 0 {
			return nil, fmt.Errorf("%w: line %d: values %q and %q; accepted: finite numbers", ErrRecorded, line, row[2], row[3])
		}
		if out, err = addRow(out, issued, at, value, actual); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrRecorded, line, err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no rows", ErrRecorded)
	}
	return out, nil
}

// addRow adds a row to the last forecast, or to a new one if the issue time is another.
func addRow(out []Issued, issued, at time.Time, value, actual float64) ([]Issued, error) {
	n := len(out)
	if n == 0 || !out[n-1].At.Equal(issued) {
		if n > 0 && !issued.After(out[n-1].At) {
			return nil, fmt.Errorf("issued %s is not after the forecast ahead", issued.Format(time.RFC3339))
		}
		if !at.Equal(issued) {
			return nil, fmt.Errorf("time %s; accepted: %s, as the first time of a forecast is its issue time", at.Format(time.RFC3339), issued.Format(time.RFC3339))
		}
		out = append(out, Issued{At: issued, Values: []float64{math.Max(0, value)}, Actual: []float64{actual}})
		return out, nil
	}
	f := &out[n-1]
	last := f.At.Add(time.Duration(len(f.Values)-1) * f.Step)
	step := at.Sub(last)
	if step <= 0 || f.Step > 0 && step != f.Step {
		return nil, fmt.Errorf("time %s does not lie a step after %s", at.Format(time.RFC3339), last.Format(time.RFC3339))
	}
	if n > 1 && out[n-2].Step > 0 && step != out[n-2].Step {
		return nil, fmt.Errorf("time %s: a step of %v; accepted: %v, as in the forecast ahead", at.Format(time.RFC3339), step, out[n-2].Step)
	}
	f.Step = step
	f.Values, f.Actual = append(f.Values, math.Max(0, value)), append(f.Actual, actual)
	return out, nil
}

// BacktestRecorded scores published forecasts by what came, with the first lead
// slots of each.
//
// Errors: ErrHistory when none can be scored.
func BacktestRecorded(forecasts []Issued, lead, window int) (Scores, error) {
	if lead < 2 || window < 1 || window > lead {
		return Scores{}, fmt.Errorf("backtest: lead %d, window %d; accepted: a lead of at least 2 and no shorter than the window", lead, window)
	}
	s := NewScorer(lead, window)
	for _, f := range forecasts {
		if len(f.Values) < lead || hasGap(f.Actual[:lead]) {
			s.Skip()
			continue
		}
		s.Add(f.Values[:lead], nil, nil, f.Actual[:lead])
	}
	return s.Scores()
}

// Actuals joins what came after each forecast into one history; where forecasts
// overlap, the later one that knows the value counts. Gaps are NaN.
//
// Actuals returns an error that wraps ErrRecorded if there is no forecast, a step is
// missing or another, or a forecast is issued between two steps.
func Actuals(forecasts []Issued) (History, error) {
	if len(forecasts) == 0 {
		return History{}, fmt.Errorf("%w: no forecasts", ErrRecorded)
	}
	step := forecasts[0].Step
	start := forecasts[0].At
	last := forecasts[len(forecasts)-1]
	if step <= 0 {
		return History{}, fmt.Errorf("%w: a forecast of one value has no step", ErrRecorded)
	}
	if span := last.At.Sub(start); span/step > maxRecorded {
		return History{}, fmt.Errorf("%w: from %s to %s in steps of %v; accepted: at most %d steps", ErrRecorded, start, last.At, step, maxRecorded)
	}
	h := History{Start: start, Step: step, Values: nans(int(last.At.Sub(start)/step) + len(last.Actual))}
	for _, f := range forecasts {
		since := f.At.Sub(start)
		if since < 0 || since%step != 0 || len(f.Values) > 1 && f.Step != step {
			return History{}, fmt.Errorf("%w: issued %s, step %v; accepted: whole steps of %v after %s, with the same step", ErrRecorded, f.At.Format(time.RFC3339), f.Step, step, start.Format(time.RFC3339))
		}
		at := int(since / step)
		for k, v := range f.Actual {
			if at+k < len(h.Values) && !math.IsNaN(v) {
				h.Values[at+k] = v
			}
		}
	}
	return h, nil
}
