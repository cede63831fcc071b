package provider

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
)

// OpenMeteo asks Open-Meteo for the weather of a place, which drives forecasts
// of intensity and rankings by sun, wind or temperature.
//
// Documentation: https://open-meteo.com/en/docs.
type OpenMeteo struct {
	Endpoint            string // e.g. https://api.open-meteo.com
	Latitude, Longitude float64
}

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

// Fetch returns the weather of the given days before today and ahead.
func (m OpenMeteo) Fetch(ctx context.Context, get Getter, past, ahead int, fresh time.Duration) (Weather, error) {
	query := url.Values{
		"latitude": {strconv.FormatFloat(m.Latitude, 'f', -1, 64)}, "longitude": {strconv.FormatFloat(m.Longitude, 'f', -1, 64)},
		"hourly": {"shortwave_radiation,wind_speed_10m,temperature_2m"}, "wind_speed_unit": {"ms"}, "timezone": {"GMT"},
		"past_days": {strconv.Itoa(min(openMeteoPast, max(0, past)))}, "forecast_days": {strconv.Itoa(min(openMeteoAhead, max(1, ahead)))},
	}
	res, err := get.Get(ctx, fetch.Request{URL: m.Endpoint + "/v1/forecast?" + query.Encode(), Fresh: fresh})
	if err != nil {
		return Weather{}, err
	}
	return decodeOpenMeteo(res.Body)
}

func decodeOpenMeteo(body []byte) (Weather, error) {
	var in struct {
		Error  bool   `json:"error"`
		Reason string `json:"reason"`
		Units  struct {
			Irradiance  string `json:"shortwave_radiation"`
			Wind        string `json:"wind_speed_10m"`
			Temperature string `json:"temperature_2m"`
		} `json:"hourly_units"`
		Hourly struct {
			Time        []string   `json:"time"`
			Irradiance  []*float64 `json:"shortwave_radiation"`
			Wind        []*float64 `json:"wind_speed_10m"`
			Temperature []*float64 `json:"temperature_2m"`
		} `json:"hourly"`
	}
	if err := decode(body, &in); err != nil {
		return Weather{}, err
	}
	n := len(in.Hourly.Time)
	switch {
	case in.Error:
		return Weather{}, fmt.Errorf("%w: %q", ErrWire, clip(in.Reason))
	case in.Units.Irradiance != "W/m²" || in.Units.Wind != "m/s" || in.Units.Temperature != "°C":
		return Weather{}, fmt.Errorf("%w: hourly_units: %q, %q, %q; accepted: W/m², m/s, °C", ErrWire, clip(in.Units.Irradiance), clip(in.Units.Wind), clip(in.Units.Temperature))
	case n == 0 || n > maxPoints || len(in.Hourly.Irradiance) != n || len(in.Hourly.Wind) != n || len(in.Hourly.Temperature) != n:
		return Weather{}, fmt.Errorf("%w: hourly: %d times, %d, %d and %d values; accepted: equal numbers, at least one", ErrWire, n, len(in.Hourly.Irradiance), len(in.Hourly.Wind), len(in.Hourly.Temperature))
	}
	w := Weather{Irradiance: make([]float64, n), Wind: make([]float64, n), Temperature: make([]float64, n)}
	for i, text := range in.Hourly.Time {
		at, err := parseTime(text)
		if err != nil {
			return Weather{}, fmt.Errorf("hourly.time[%d]: %w", i, err)
		}
		if i == 0 {
			w.Start = at
		} else if !at.Equal(w.Start.Add(time.Duration(i) * time.Hour)) {
			return Weather{}, fmt.Errorf("%w: hourly.time[%d]: %s; accepted: an hour after the one ahead", ErrWire, i, text)
		}
		w.Irradiance[i], w.Wind[i], w.Temperature[i] = orNaN(in.Hourly.Irradiance[i], 0, 2000), orNaN(in.Hourly.Wind[i], 0, 150), orNaN(in.Hourly.Temperature[i], -90, 70)
	}
	return w, nil
}

// orNaN is NaN for null and for what no weather has.
func orNaN(v *float64, least, most float64) float64 {
	if v == nil || *v < least || *v > most {
		return math.NaN()
	}
	return *v
}
