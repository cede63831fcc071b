package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// OpenMeteo asks Open-Meteo for the weather of places, which drives forecasts
// of intensity and rankings by sun, wind or temperature.
//
// Documentation: https://open-meteo.com/en/docs.
type OpenMeteo struct {
	Endpoint string // e.g. https://api.open-meteo.com
	// HistoryEndpoint is asked for forecasts of the past, e.g. https://previous-runs-api.open-meteo.com.
	HistoryEndpoint string
	// Places are 1 to MostPlaces; the weather is the mean over them.
	Places []Place
}

// Place is a place on Earth, in degrees.
type Place struct{ Latitude, Longitude float64 }

// MostPlaces is how many places an OpenMeteo may have.
const MostPlaces = 10

// OpenMeteoEndpoint and OpenMeteoHistoryEndpoint are where the public service answers.
const (
	OpenMeteoEndpoint        = "https://api.open-meteo.com"
	OpenMeteoHistoryEndpoint = "https://previous-runs-api.open-meteo.com"
)

// Weather is hourly weather; NaN where unknown. All slices have one length.
type Weather struct {
	Start time.Time
	// Irradiance is global horizontal, W/m2; Wind at 10 m, m/s; Temperature at 2
	// m, degrees Celsius.
	Irradiance, Wind, Temperature []float64
}

// openMeteoPast and openMeteoAhead are the most days that the service gives.
const (
	openMeteoPast  = 92
	openMeteoAhead = 16
)

// openMeteoBytes bounds an answer: 108 days of ten places take about 1 MiB.
const openMeteoBytes = 4 << 20

// The variables of the service.
const (
	openMeteoSun  = "shortwave_radiation"
	openMeteoWind = "wind_speed_10m"
	openMeteoWarm = "temperature_2m"
	// openMeteoLead ends the name of a variable as it was forecast three days before: the error of a forecast of the weather
	// that forecasts of the intensity learn from should be that of the coming days.
	openMeteoLead = "_previous_day3"
)

// openMeteoQuota leaves room for several zones that begin at the same time: a month of ten places counts as 14 of the 600 calls that
// the free service answers in a minute.
var openMeteoQuota = fetch.Quota{Requests: 60, Per: time.Minute}

// Fetch returns the weather of the given days before today and ahead. It returns ErrConfig
// for places that it cannot ask about.
func (m OpenMeteo) Fetch(ctx context.Context, get Getter, past, ahead int, fresh time.Duration) (Weather, error) {
	query, err := m.query("")
	if err != nil {
		return Weather{}, err
	}
	query.Set("past_days", strconv.Itoa(min(openMeteoPast, max(0, past))))
	query.Set("forecast_days", strconv.Itoa(min(openMeteoAhead, max(1, ahead))))
	res, err := get.Get(ctx, fetch.Request{URL: m.Endpoint + "/v1/forecast?" + query.Encode(), Fresh: fresh, MaxBytes: openMeteoBytes})
	if err != nil {
		return Weather{}, err
	}
	return decodeOpenMeteo(res.Body, len(m.Places), "")
}

// Past returns the weather of whole days of the past as it had been forecast three days before, or, where the service does not know
// that, as it was analysed; kept says that no bytes came over the network for it. Errors are those of Fetch, and ErrNoData if the
// service knows nothing of these days.
func (m OpenMeteo) Past(ctx context.Context, get Getter, days carbon.Interval, fresh time.Duration) (w Weather, kept bool, err error) {
	query, err := m.query(openMeteoLead)
	if err != nil {
		return w, false, err
	}
	query.Set("start_date", days.From.UTC().Format(time.DateOnly))
	query.Set("end_date", days.To.Add(-1).UTC().Format(time.DateOnly))
	res, err := get.Get(ctx, fetch.Request{URL: m.HistoryEndpoint + "/v1/forecast?" + query.Encode(), Fresh: fresh, Quota: openMeteoQuota, MaxBytes: openMeteoBytes})
	if err != nil {
		return w, false, err
	}
	if w, err = decodeOpenMeteo(res.Body, len(m.Places), openMeteoLead); err != nil {
		return Weather{}, false, err
	}
	if hours := int(days.To.Sub(days.From) / time.Hour); !w.Start.Equal(days.From) || len(w.Wind) != hours {
		return Weather{}, false, fmt.Errorf("%w: %d hours from %s; accepted: %d from %s, those asked for", ErrWire, len(w.Wind), stamp(w.Start), hours, stamp(days.From))
	}
	if !slices.ContainsFunc(slices.Concat(w.Wind, w.Irradiance, w.Temperature), finite) {
		return Weather{}, false, fmt.Errorf("%w: %w: no weather from %s to %s", ErrWire, ErrNoData, stamp(days.From), stamp(days.To))
	}
	return w, res.Kept, nil
}

// query is what all requests have in common. With a lead, variables are asked for with it as well.
func (m OpenMeteo) query(lead string) (url.Values, error) {
	if n := len(m.Places); n == 0 || n > MostPlaces {
		return nil, fmt.Errorf("%w: places: %d; accepted: 1 to %d", ErrConfig, n, MostPlaces)
	}
	var latitudes, longitudes []string
	for i, p := range m.Places {
		if !(math.Abs(p.Latitude) <= 90) || !(math.Abs(p.Longitude) <= 180) {
			return nil, fmt.Errorf("%w: places[%d]: latitude %v, longitude %v; accepted: -90 to 90, -180 to 180", ErrConfig, i, p.Latitude, p.Longitude)
		}
		latitudes = append(latitudes, strconv.FormatFloat(p.Latitude, 'f', -1, 64))
		longitudes = append(longitudes, strconv.FormatFloat(p.Longitude, 'f', -1, 64))
	}
	variables := []string{openMeteoSun, openMeteoWind, openMeteoWarm}
	if lead != "" {
		for _, name := range variables[:3:3] {
			variables = append(variables, name+lead)
		}
	}
	return url.Values{
		"latitude": {strings.Join(latitudes, ",")}, "longitude": {strings.Join(longitudes, ",")},
		"hourly": {strings.Join(variables, ",")}, "wind_speed_unit": {"ms"}, "timezone": {"GMT"},
	}, nil
}

// openMeteoPlace is the weather of a place on the wire.
type openMeteoPlace struct {
	Error  bool                       `json:"error"`
	Reason string                     `json:"reason"`
	Units  map[string]string          `json:"hourly_units"`
	Hourly map[string]json.RawMessage `json:"hourly"`
}

// decodeOpenMeteo reads the weather of a number of places, the mean over those that know a
// value. The service answers with a list if there is more than one. With a lead, the variables with it stand over those without.
func decodeOpenMeteo(body []byte, places int, lead string) (Weather, error) {
	// An array, since a hostile list of millions takes 80 times its text; decode skips what does not fit.
	var some [MostPlaces + 1]*openMeteoPlace
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		err = decode(body, &some)
	} else {
		err = decode(body, &some[0])
	}
	if err != nil {
		return Weather{}, err
	}
	list := some[:]
	if end := slices.Index(list, nil); end >= 0 {
		list = list[:end]
	}
	if len(list) == 0 || len(list) != places && !list[0].Error {
		return Weather{}, fmt.Errorf("%w: %d places; accepted: %d, those asked for", ErrWire, len(list), places)
	}
	all := make([]Weather, len(list))
	for i, x := range list {
		var err error
		if all[i], err = x.weather(lead); err != nil {
			return Weather{}, fmt.Errorf("place %d: %w", i+1, err)
		}
		if !all[i].Start.Equal(all[0].Start) || len(all[i].Wind) != len(all[0].Wind) {
			return Weather{}, fmt.Errorf("%w: place %d: %d hours from %s; accepted: %d from %s, as of the first place", ErrWire, i+1,
				len(all[i].Wind), stamp(all[i].Start), len(all[0].Wind), stamp(all[0].Start))
		}
	}
	mean := func(column func(Weather) []float64) []float64 {
		out := make([]float64, len(all[0].Wind))
		for i := range out {
			sum, n := 0.0, 0.0
			for _, w := range all {
				if v := column(w)[i]; !math.IsNaN(v) {
					sum, n = sum+v, n+1
				}
			}
			out[i] = sum / n // NaN if no place knows it
		}
		return out
	}
	return Weather{
		Start:      all[0].Start,
		Irradiance: mean(func(w Weather) []float64 { return w.Irradiance }), Wind: mean(func(w Weather) []float64 { return w.Wind }),
		Temperature: mean(func(w Weather) []float64 { return w.Temperature }),
	}, nil
}

// weather reads a place.
func (x openMeteoPlace) weather(lead string) (w Weather, err error) {
	if x.Error {
		return w, fmt.Errorf("%w: %q", ErrWire, clip(x.Reason))
	}
	var n int
	if w.Start, n, err = x.times(); err != nil {
		return w, err
	}
	for _, c := range []struct {
		name, unit  string
		least, most float64
		into        *[]float64
	}{
		{openMeteoSun, "W/m²", 0, 2000, &w.Irradiance}, {openMeteoWind, "m/s", 0, 150, &w.Wind}, {openMeteoWarm, "°C", -90, 70, &w.Temperature},
	} {
		if *c.into, err = x.column(c.name, c.unit, n, c.least, c.most); err != nil {
			return w, err
		}
		if lead == "" {
			continue
		}
		forecast, err := x.column(c.name+lead, c.unit, n, c.least, c.most)
		if err != nil {
			return w, err
		}
		for i, v := range forecast {
			if finite(v) {
				(*c.into)[i] = v
			}
		}
	}
	return w, nil
}

// times reads when the hours begin, one after the other.
func (x openMeteoPlace) times() (start time.Time, n int, err error) {
	var times []string
	if raw := x.Hourly["time"]; raw != nil {
		if err := decode(raw, &times); err != nil {
			return start, 0, fmt.Errorf("hourly.time: %w", err)
		}
	}
	if n = len(times); n == 0 || n > maxPoints {
		return start, 0, fmt.Errorf("%w: hourly.time: %d values; accepted: 1 to %d", ErrWire, n, maxPoints)
	}
	for i, text := range times {
		at, err := parseTime(text)
		if err != nil {
			return start, 0, fmt.Errorf("hourly.time[%d]: %w", i, err)
		}
		if i == 0 {
			start = at
		} else if !at.Equal(start.Add(time.Duration(i) * time.Hour)) {
			return start, 0, fmt.Errorf("%w: hourly.time[%d]: %s; accepted: an hour after the one ahead", ErrWire, i, clip(text))
		}
	}
	return start, n, nil
}

// openMeteoUndefined is the unit of a variable without any value.
const openMeteoUndefined = "undefined"

// column reads n values of a variable. What no weather has is unknown.
func (x openMeteoPlace) column(name, unit string, n int, least, most float64) ([]float64, error) {
	if has := x.Units[name]; has != unit && has != openMeteoUndefined {
		return nil, fmt.Errorf("%w: hourly_units.%s: %q; accepted: %s", ErrWire, name, clip(has), unit)
	}
	var values []*float64
	if raw := x.Hourly[name]; raw != nil {
		if err := decode(raw, &values); err != nil {
			return nil, fmt.Errorf("hourly.%s: %w", name, err)
		}
	}
	if len(values) != n {
		return nil, fmt.Errorf("%w: hourly.%s: %d values; accepted: %d, as many as times", ErrWire, name, len(values), n)
	}
	out := make([]float64, n)
	for i, v := range values {
		out[i] = orNaN(v, least, most)
		if x.Units[name] == openMeteoUndefined {
			out[i] = math.NaN()
		}
	}
	return out, nil
}

// orNaN is NaN for null and for what no weather has.
func orNaN(v *float64, least, most float64) float64 {
	if v == nil || *v < least || *v > most {
		return math.NaN()
	}
	return *v
}
