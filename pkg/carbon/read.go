package carbon

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/units"
)

// Bounds on what a reader accepts, against inputs that would exhaust memory:
// about ten years of five-minute samples.
const (
	maxSamples   = 1_100_000
	maxReadBytes = 128 << 20
)

// ReadCSV reads a series of the layout
//
//	time,intensity_gco2eq_per_kwh[,estimated]
//	2023-11-14T11:00:00Z,322.5
//
// Times are RFC 3339, name the start of a row's interval and ascend. For how long a row
// is valid follows from the rows beside it, as Steps states: the step of a file may change, and
// missing rows, as an empty value, leave a gap. A single row is valid for an hour.
// Of rows in succession with one time, a value stands over none, a measured one over an
// estimated one, else the later one.
// Estimated is "true" or "false". Further columns are ignored.
//
// Files as the portal of Electricity Maps offers them for download are read too, of all
// years; they have an average intensity for each factor. p.Factor picks the column: if it is not
// stated, the life-cycle one, or the only one. The file must be about p.Zone, if that is stated.
//
// Errors wrap ErrSeries and name the line, the column and the value.
func ReadCSV(r io.Reader, p Provenance) (*Series, error) {
	bounded := &io.LimitedReader{R: r, N: maxReadBytes + 1}
	text, err := units.PlainText(bounded)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSeries, err)
	}
	rows := csv.NewReader(text)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: the file is empty; accepted: a header line with %q and %q", ErrSeries, timeColumn, valueColumn)
		}
		return nil, fmt.Errorf("%w: %w", ErrSeries, err)
	}
	columns, err := layoutOf(header, &p)
	if err != nil {
		return nil, err
	}
	var points []point
	for {
		record, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			var at *csv.ParseError
			if errors.Is(err, csv.ErrFieldCount) && errors.As(err, &at) {
				return nil, fmt.Errorf("%w: line %d: %d fields; accepted: %d, as in the header", ErrSeries, at.Line, len(record), rows.FieldsPerRecord)
			}
			return nil, fmt.Errorf("%w: %w", ErrSeries, err)
		}
		line, _ := rows.FieldPos(0)
		pt, err := columns.row(record, line, &p)
		if err != nil {
			return nil, err
		}
		if points = append(points, pt); len(points) > maxSamples {
			return nil, fmt.Errorf("%w: line %d: more than %d rows", ErrSeries, line, maxSamples)
		}
	}
	if bounded.N == 0 {
		return nil, fmt.Errorf("%w: larger than %d MiB", ErrSeries, maxReadBytes>>20)
	}
	return fromPoints(p, points, "line")
}

// jsonSeries is the JSON form of a series.
type jsonSeries struct {
	Zone   string `json:"zone"`
	Signal Signal `json:"signal"`
	Factor Factor `json:"factor"`
	Source string `json:"source"`
	Issued string `json:"issued"`
	Data   []*struct {
		Time      string   `json:"time"`
		Value     *float64 `json:"value"`
		Estimated bool     `json:"estimated"`
	} `json:"data"`
}

// ReadJSON reads a series of the layout
//
//	{"zone": "DE", "signal": "average", "factor": "lifecycle", "source": "...",
//	 "issued": "2023-11-14T10:55:00Z",
//	 "data": [{"time": "2023-11-14T11:00:00Z", "value": 322.5, "estimated": false}]}
//
// A null value is a gap, a null entry says nothing; intervals and entries of one time are as for ReadCSV. What the file states
// overrides p; zone, signal, factor, source and issued are optional. Unknown
// fields are an error. Errors wrap ErrSeries and name the entry.
func ReadJSON(r io.Reader, p Provenance) (*Series, error) {
	bounded := &io.LimitedReader{R: r, N: maxReadBytes + 1}
	text, err := units.PlainText(bounded)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSeries, err)
	}
	dec := json.NewDecoder(text)
	dec.DisallowUnknownFields()
	var in jsonSeries
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSeries, units.ReadError(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more data after the JSON object", ErrSeries)
	}
	if len(in.Data) > maxSamples {
		return nil, fmt.Errorf("%w: data: more than %d entries", ErrSeries, maxSamples)
	}
	if in.Zone != "" {
		p.Zone = in.Zone
	}
	if in.Source != "" {
		p.Source = in.Source
	}
	switch in.Signal {
	case "":
	case Average, Marginal:
		p.Signal = in.Signal
	default:
		return nil, fmt.Errorf("%w: signal: %q; accepted: %q or %q", ErrSeries, clip(string(in.Signal)), Average, Marginal)
	}
	switch in.Factor {
	case "":
	case Lifecycle, Direct:
		p.Factor = in.Factor
	default:
		return nil, fmt.Errorf("%w: factor: %q; accepted: %q or %q", ErrSeries, clip(string(in.Factor)), Lifecycle, Direct)
	}
	if in.Issued != "" {
		at, err := time.Parse(time.RFC3339, in.Issued)
		if err != nil {
			return nil, fmt.Errorf("%w: issued: %q; accepted: RFC 3339", ErrSeries, clip(in.Issued))
		}
		p.IssuedAt = at
	}
	points := make([]point, 0, len(in.Data))
	for i, d := range in.Data {
		if d == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, d.Time)
		if err != nil {
			return nil, fmt.Errorf("%w: data[%d].time: %q; accepted: RFC 3339", ErrSeries, i, clip(d.Time))
		}
		pt := point{where: i, at: at, estimated: d.Estimated, gap: d.Value == nil}
		if d.Value != nil {
			pt.value = units.CarbonIntensity(*d.Value)
			if !pt.value.Valid() {
				return nil, fmt.Errorf("%w: data[%d].value: %v; accepted: 0 to %v gCO2eq/kWh, or null for a gap", ErrSeries, i, *d.Value, float64(units.MaxCarbonIntensity))
			}
		}
		points = append(points, pt)
	}
	return fromPoints(p, points, "data entry")
}

// point is a row of a file: the start of a step, or a stated gap.
type point struct {
	where     int // line or index, for errors
	at        time.Time
	value     units.CarbonIntensity
	gap       bool
	estimated bool
}

// rank says how far to trust the point.
func (pt point) rank() Rank { return RankOf(pt.gap, pt.estimated) }

// fromPoints turns points into samples.
func fromPoints(p Provenance, points []point, unit string) (*Series, error) {
	if len(points) == 0 {
		return nil, fmt.Errorf("%w: no rows; accepted: at least one row with a time and an intensity", ErrSeries)
	}
	distinct := points[:0]
	for _, pt := range points {
		n := len(distinct)
		switch {
		case n == 0 || pt.at.After(distinct[n-1].at):
			distinct = append(distinct, pt)
		case !pt.at.Equal(distinct[n-1].at):
			return nil, fmt.Errorf("%w: %s %d: time %s lies before %s of the row ahead; accepted: ascending times",
				ErrSeries, unit, pt.where, pt.at.Format(time.RFC3339), distinct[n-1].at.Format(time.RFC3339))
		case !distinct[n-1].rank().StandsOver(pt.rank()):
			distinct[n-1] = pt
		}
	}
	points = distinct
	starts := make([]time.Time, len(points))
	for i, pt := range points {
		starts[i] = pt.at
	}
	samples := make([]Sample, 0, len(points))
	for i, step := range Steps(starts, time.Hour) {
		if pt := points[i]; !pt.gap {
			samples = append(samples, Sample{From: pt.at, To: pt.at.Add(step), Value: pt.value, Estimated: pt.estimated})
		}
	}
	return NewSeries(p, samples)
}

// parseValue reads an intensity; an empty cell is a gap.
func parseValue(text string) (v units.CarbonIntensity, gap bool, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, true, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	v = units.CarbonIntensity(f)
	if err != nil || !v.Valid() {
		return 0, false, fmt.Errorf("%q; accepted: 0 to %v gCO2eq/kWh, or nothing for a gap", clip(text), float64(units.MaxCarbonIntensity))
	}
	return v, false, nil
}

// clip shortens a text for an error message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
