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

// ErrWeather marks a file of weather that cannot be read.
var ErrWeather = errors.New("invalid weather")

// WeatherFile is hourly weather as a file states it, and intensities if the file has
// them.
type WeatherFile struct {
	Start   time.Time
	Weather Weather
	// Sources names the columns of Weather.Generation.
	Sources []string
	// Intensities are by column name, gCO2eq/kWh; NaN marks a gap.
	Intensities map[string][]float64
}

// weatherColumn says how a column is read.
type weatherColumn struct {
	least, most, offset float64
	into                func(*WeatherFile) *[]float64
}

const celsius = -273.15 // kelvin to degrees Celsius

var weatherColumns = map[string]weatherColumn{
	"wind_speed_ms":    {0, 150, 0, func(f *WeatherFile) *[]float64 { return &f.Weather.Wind }},
	"temperature_c":    {-90, 70, 0, func(f *WeatherFile) *[]float64 { return &f.Weather.Temperature }},
	"temperature_k":    {180, 345, celsius, func(f *WeatherFile) *[]float64 { return &f.Weather.Temperature }},
	"dewpoint_c":       {-100, 70, 0, func(f *WeatherFile) *[]float64 { return &f.Weather.DewPoint }},
	"dewpoint_k":       {170, 345, celsius, func(f *WeatherFile) *[]float64 { return &f.Weather.DewPoint }},
	"irradiance_w_m2":  {0, 2000, 0, func(f *WeatherFile) *[]float64 { return &f.Weather.Irradiance }},
	"dswrf_wm2":        {0, 2000, 0, func(f *WeatherFile) *[]float64 { return &f.Weather.Irradiance }},
	"precipitation_mm": {0, 1e6, 0, nil},
}

// generationColumns are sources that may stand without the ending _mw.
var generationColumns = []string{"biomass", "coal", "geothermal", "hydro", "nat_gas", "nuclear", "oil", "other", "solar", "unknown", "wind"}

const (
	weatherAccepted = "time, wind_speed_ms, temperature_c or _k, dewpoint_c or _k, irradiance_w_m2 or dswrf_wm2, precipitation_mm, " +
		"generation (biomass, coal, geothermal, hydro, nat_gas, nuclear, oil, other, solar, unknown, wind, or a name that ends in _mw), " +
		"intensities (names that end in _gco2eq_per_kwh)"
	intensityEnding = "_gco2eq_per_kwh"
	mostGeneration  = 1e7 // MW
	mostIntensity   = 1e5 // gCO2eq/kWh
	mostColumns     = 64  // a gap takes memory in each
)

// ReadWeather reads hourly weather from CSV with a header. The column time is RFC 3339,
// on whole hours, in ascending order; rows may be missing. An empty cell is a gap. The
// other columns are those of weatherColumns, generation in MW and intensities in
// gCO2eq/kWh. Precipitation is checked and left out.
//
// ReadWeather returns an error that wraps ErrWeather and names the line, the column and
// what is accepted. Complexity: O(rows * columns + hours).
func ReadWeather(r io.Reader) (*WeatherFile, error) {
	text, err := units.PlainText(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWeather, err)
	}
	rows := csv.NewReader(text)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w; accepted: columns %s", ErrWeather, units.ReadError(err), weatherAccepted)
	}
	header = slices.Clone(header) // the reader uses it again
	out := &WeatherFile{Intensities: map[string][]float64{}}
	columns, timeAt, err := weatherHeader(header)
	if err != nil {
		return nil, fmt.Errorf("%w: line 1: %w", ErrWeather, err)
	}
	values := make([][]float64, len(header))
	for n := 0; ; n++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrWeather, err)
		}
		line, _ := rows.FieldPos(0)
		if err := out.row(row, header, columns, values, timeAt); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrWeather, line, err)
		}
	}
	if out.Start.IsZero() {
		return nil, fmt.Errorf("%w: no rows", ErrWeather)
	}
	out.store(header, columns, values)
	return out, nil
}

// weatherHeader finds how each column is read, and the one with the time.
func weatherHeader(header []string) (columns []weatherColumn, timeAt int, err error) {
	if len(header) > mostColumns {
		return nil, 0, fmt.Errorf("%d columns; accepted: at most %d", len(header), mostColumns)
	}
	timeAt = -1
	columns = make([]weatherColumn, len(header))
	weather, read := false, map[string]string{}
	for j, name := range header {
		c, known := weatherColumns[name]
		what := name
		switch {
		case name == "time":
			timeAt = j
		case known:
			columns[j] = c
			what, _, _ = strings.Cut(name, "_")
			if what == "dswrf" {
				what = "irradiance"
			}
			weather = weather || c.into != nil
		case slices.Contains(generationColumns, name) || strings.HasSuffix(name, "_mw"):
			columns[j] = weatherColumn{least: -mostGeneration, most: mostGeneration}
			what = "generation by " + strings.TrimSuffix(name, "_mw")
		case strings.HasSuffix(name, intensityEnding):
			columns[j] = weatherColumn{most: mostIntensity}
		default:
			return nil, 0, fmt.Errorf("column %q; accepted: %s", name, weatherAccepted)
		}
		if other, ok := read[what]; ok {
			return nil, 0, fmt.Errorf("columns %q and %q state the same; accepted: one of them", other, name)
		}
		read[what] = name
	}
	switch {
	case timeAt < 0:
		return nil, 0, fmt.Errorf("no column time; accepted: %s", weatherAccepted)
	case !weather:
		return nil, 0, fmt.Errorf("no column of weather; accepted: %s", weatherAccepted)
	}
	return columns, timeAt, nil
}

// row adds a row to values, after gaps for the hours since the row ahead.
func (f *WeatherFile) row(row, header []string, columns []weatherColumn, values [][]float64, timeAt int) error {
	at, err := time.Parse(time.RFC3339, row[timeAt])
	if err != nil || !at.Equal(at.Truncate(time.Hour)) {
		return fmt.Errorf("time: %q; accepted: a whole hour in RFC 3339, e.g. 2023-11-14T11:00:00Z", row[timeAt])
	}
	if f.Start.IsZero() {
		f.Start = at.UTC()
	}
	n := len(values[timeAt])
	slot := at.Sub(f.Start) / time.Hour
	if slot < time.Duration(n) {
		return fmt.Errorf("time: %s is not after the row ahead; accepted: ascending times, each once", row[timeAt])
	}
	if slot >= maxRecorded {
		return fmt.Errorf("time: %s is %d hours after the first row; accepted: at most %d", row[timeAt], slot, maxRecorded)
	}
	for j, text := range row {
		for range int(slot) - n {
			values[j] = append(values[j], math.NaN())
		}
		v := math.NaN()
		if j != timeAt && text != "" {
			c := columns[j]
			v, err = strconv.ParseFloat(text, 64)
			if err != nil || !(v >= c.least && v <= c.most) {
				return fmt.Errorf("%s: %q; accepted: a number from %g to %g, or nothing if it is unknown", header[j], text, c.least, c.most)
			}
			v += c.offset
		}
		values[j] = append(values[j], v)
	}
	return nil
}

func (f *WeatherFile) store(header []string, columns []weatherColumn, values [][]float64) {
	for j, name := range header {
		_, known := weatherColumns[name]
		switch {
		case name == "time":
		case known && columns[j].into != nil:
			*columns[j].into(f) = values[j]
		case known:
		case strings.HasSuffix(name, intensityEnding):
			f.Intensities[name] = values[j]
		default:
			f.Weather.Generation = append(f.Weather.Generation, values[j])
			f.Sources = append(f.Sources, strings.TrimSuffix(name, "_mw"))
		}
	}
}

// On puts the weather on n slots of a history from its start. Hours that the file does
// not have are gaps. It returns an error if the history is not hourly, or begins within
// an hour.
func (f *WeatherFile) On(h History, n int) (*Weather, error) {
	since := h.Start.Sub(f.Start)
	if h.Step != time.Hour || since%time.Hour != 0 {
		return nil, fmt.Errorf("%w: a history of steps of %v from %s; accepted: whole hours", ErrWeather, h.Step, h.Start.Format(time.RFC3339))
	}
	shift := int(since / time.Hour)
	move := func(column []float64) []float64 {
		if column == nil {
			return nil
		}
		out := nans(n)
		for i := range out {
			if j := i + shift; j >= 0 && j < len(column) {
				out[i] = column[j]
			}
		}
		return out
	}
	w := f.Weather
	out := &Weather{Wind: move(w.Wind), Temperature: move(w.Temperature), DewPoint: move(w.DewPoint), Irradiance: move(w.Irradiance), Horizon: w.Horizon}
	for _, g := range w.Generation {
		out.Generation = append(out.Generation, move(g))
	}
	return out, nil
}
