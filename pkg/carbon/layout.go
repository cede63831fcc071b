package carbon

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeColumn and valueColumn are the columns a CSV series must have; the layout
// is that of Electricity Maps' exports as Lull's data sets keep them.
const (
	timeColumn      = "time"
	valueColumn     = "intensity_gco2eq_per_kwh"
	estimatedColumn = "estimated"
)

// Columns of the files that the portal of Electricity Maps offers for download, in lower
// case: the spelling has changed over the years. An intensity column begins with portalValue
// and ends with its factor.
const (
	portalTime      = "datetime (utc)"
	portalValue     = "carbon intensity gco"
	portalZone      = "zone id"
	portalEstimated = "data estimated"
)

// portalFactors are the ends of the names of intensity columns.
var portalFactors = map[string]Factor{"(life cycle)": Lifecycle, "(lca)": Lifecycle, "(direct)": Direct}

// layout says where the columns of a CSV series are; -1 where there is none.
type layout struct {
	time, value, estimated, zone int
	names                        []string // of the columns, for errors
	times                        []string // accepted layouts of a time
}

// layoutOf finds the layout that a header has. A file of the portal states what its numbers are: p takes it over.
func layoutOf(header []string, p *Provenance) (layout, error) {
	l := layout{time: -1, value: -1, estimated: -1, zone: -1, times: []string{time.RFC3339}}
	for i, name := range header {
		name = strings.TrimSpace(name)
		l.names = append(l.names, name)
		switch name {
		case timeColumn:
			l.time = i
		case valueColumn:
			l.value = i
		case estimatedColumn:
			l.estimated = i
		}
		if strings.ToLower(name) == portalTime {
			return portalLayout(header, p)
		}
	}
	if (l.time < 0 || l.value < 0) && strings.Contains(header[0], ";") {
		return l, fmt.Errorf("%w: line 1: header %q: the columns are separated by semicolons; accepted: commas", ErrSeries, clip(header[0]))
	}
	if l.time < 0 || l.value < 0 {
		return l, fmt.Errorf("%w: line 1: header %q; accepted: columns %q and %q, or those of a download from the portal of Electricity Maps", ErrSeries, clip(strings.Join(header, ",")), timeColumn, valueColumn)
	}
	return l, nil
}

// portalLayout is that of a file of the portal. p.Factor picks the column; if it is not stated, that is the life-cycle one,
// or the only one.
func portalLayout(header []string, p *Provenance) (layout, error) {
	l := layout{time: -1, value: -1, estimated: -1, zone: -1, times: []string{"2006-01-02 15:04:05", "2006-01-02 15:04", time.RFC3339, "2006-01-02 15:04:05Z07:00"}}
	columns := map[Factor]int{}
	var offered []string
	for i, name := range header {
		name = strings.TrimSpace(name)
		l.names = append(l.names, name)
		lower := strings.ToLower(name)
		switch {
		case lower == portalTime:
			l.time = i
		case lower == portalZone:
			l.zone = i
		case lower == portalEstimated:
			l.estimated = i
		case strings.HasPrefix(lower, portalValue):
			for end, factor := range portalFactors {
				if strings.HasSuffix(lower, end) {
					columns[factor] = i
					offered = append(offered, strconv.Quote(name))
				}
			}
		}
	}
	want := p.Factor
	if want == "" {
		want = Lifecycle
		if _, there := columns[Lifecycle]; !there && len(columns) > 0 {
			want = Direct
		}
	}
	at, there := columns[want]
	if !there {
		if len(offered) == 0 {
			return l, fmt.Errorf("%w: line 1: a file of Electricity Maps without a column of intensities; accepted: one that begins with \"Carbon intensity gCO₂eq/kWh\" and ends with \"(Life cycle)\", \"(LCA)\" or \"(direct)\"", ErrSeries)
		}
		return l, fmt.Errorf("%w: line 1: a file of Electricity Maps without %s intensities, which are asked for; it has %s", ErrSeries, want, strings.Join(offered, ", "))
	}
	l.value = at
	p.Signal, p.Factor = Average, want
	return l, nil
}

// row reads one line. A file of the portal is about one zone, that of p if it is stated.
func (l *layout) row(record []string, line int, p *Provenance) (point, error) {
	pt := point{where: line}
	var err error
	if pt.at, err = l.parseTime(record[l.time]); err != nil {
		return pt, fmt.Errorf("%w: line %d: %s: %w", ErrSeries, line, l.names[l.time], err)
	}
	if pt.value, pt.gap, err = parseValue(record[l.value]); err != nil {
		return pt, fmt.Errorf("%w: line %d: %s: %w", ErrSeries, line, l.names[l.value], err)
	}
	if l.zone >= 0 {
		switch zone := strings.TrimSpace(record[l.zone]); {
		case p.Zone == "":
			p.Zone = zone
		case zone != p.Zone:
			return pt, fmt.Errorf("%w: line %d: %s: %q; accepted: %q, one zone and that which is asked for", ErrSeries, line, l.names[l.zone], clip(zone), p.Zone)
		}
	}
	if l.estimated >= 0 {
		text := strings.TrimSpace(record[l.estimated])
		if l.zone >= 0 && text == "" { // the portal leaves it empty where there is no value
			return pt, nil
		}
		if pt.estimated, err = strconv.ParseBool(text); err != nil {
			return pt, fmt.Errorf("%w: line %d: %s: %q; accepted: true or false", ErrSeries, line, l.names[l.estimated], clip(record[l.estimated]))
		}
	}
	return pt, nil
}

// parseTime reads a time in one of the layouts; the error says what is accepted.
func (l *layout) parseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, form := range l.times {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	if l.times[0] == time.RFC3339 {
		return time.Time{}, fmt.Errorf("%q; accepted: RFC 3339, e.g. 2023-11-14T11:00:00Z", clip(text))
	}
	return time.Time{}, fmt.Errorf("%q; accepted: UTC, e.g. 2023-11-14 11:00:00", clip(text))
}
