package fakegrid

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sunAt is the irradiance that was recorded at a place; false where nothing was.
func (s *Server) sunAt(latitude, longitude float64, at time.Time) (float64, bool) {
	for _, w := range s.Weather {
		if k := int(at.Sub(w.Start) / time.Hour); w.Latitude == latitude && w.Longitude == longitude && !at.Before(w.Start) && k < len(w.Irradiance) {
			return w.Irradiance[k], true
		}
	}
	return 0, false
}

// serveOpenMeteo makes a weather that fits, of one place or of a list. It serves the last and the coming days, and days by date.
func (s *Server) serveOpenMeteo(r *http.Request, f Fault) answer {
	q := r.URL.Query()
	refused := document(map[string]any{"error": true, "reason": "Parameters out of range"})
	from, to, ok := s.weatherDays(q.Get, f)
	latitudes, longitudes := strings.Split(q.Get("latitude"), ","), strings.Split(q.Get("longitude"), ",")
	if !ok || len(latitudes) != len(longitudes) {
		return refused
	}
	var list []any
	for i := range latitudes {
		latitude, err1 := strconv.ParseFloat(latitudes[i], 64)
		longitude, err2 := strconv.ParseFloat(longitudes[i], 64)
		if err1 != nil || err2 != nil || math.Abs(latitude) > 90 {
			return refused
		}
		list = append(list, s.weatherOf(latitude, longitude, from, to, f, strings.Split(q.Get("hourly"), ",")))
	}
	if len(list) == 1 {
		return document(list[0])
	}
	return document(list)
}

// weatherDays are the days that a query asks for.
func (s *Server) weatherDays(get func(string) string, f Fault) (from, to time.Time, ok bool) {
	today := s.clock(f).UTC().Truncate(24 * time.Hour)
	if get("start_date") != "" {
		from, err1 := time.Parse(time.DateOnly, get("start_date"))
		to, err2 := time.Parse(time.DateOnly, get("end_date"))
		return from, to.AddDate(0, 0, 1), err1 == nil && err2 == nil && !to.Before(from) && get("past_days") == "" && !to.After(today.AddDate(0, 0, 16))
	}
	past, err1 := strconv.Atoi(get("past_days"))
	ahead, err2 := strconv.Atoi(get("forecast_days"))
	return today.AddDate(0, 0, -past), today.AddDate(0, 0, ahead), err1 == nil && err2 == nil && past <= 92 && ahead <= 16
}

// weatherOf is the weather of a place: the sun of the hour and latitude (where none was
// recorded), and the more wind the cleaner the first zone is.
func (s *Server) weatherOf(latitude, longitude float64, from, to time.Time, f Fault, variables []string) map[string]any {
	zone, _ := s.zoneNamed(func(string) bool { return true })
	times, sun, wind, warm := []string{}, []any{}, []any{}, []any{}
	for i, at := 0, from; at.Before(to); i, at = i+1, at.Add(time.Hour) {
		if f.Kind == FaultGaps && i%5 == 0 {
			continue
		}
		noon := math.Cos((float64(at.Hour()) + longitude/15 - 12) / 12 * math.Pi)
		intensity := 300.0
		if series := s.Zones[zone]; series != nil {
			if x, ok := series.At(at); ok {
				intensity = float64(x.Value)
			}
		}
		times = append(times, at.Format("2006-01-02T15:04"))
		irradiance, known := s.sunAt(latitude, longitude, at)
		if !known {
			irradiance = 900 * math.Max(0, noon) * math.Cos(latitude*math.Pi/180)
		}
		sun = append(sun, math.Round(irradiance))
		wind = append(wind, math.Round(max(0, 15-intensity/40)*10)/10)
		warm = append(warm, math.Round((12+8*noon)*10)/10)
		if f.Kind == FaultNulls && i%4 == 0 {
			sun[len(sun)-1], wind[len(wind)-1] = nil, nil
		}
	}
	if f.Kind == FaultEmpty {
		times, sun, wind, warm = []string{}, []any{}, []any{}, []any{}
	}
	known := map[string][]any{"shortwave_radiation": sun, "wind_speed_10m": wind, "temperature_2m": warm}
	unit := map[string]string{"shortwave_radiation": "W/m²", "wind_speed_10m": "m/s", "temperature_2m": "°C"}
	if f.Kind == FaultUnits {
		unit["wind_speed_10m"] = "km/h"
	}
	units, hourly := map[string]string{}, map[string]any{"time": times}
	for _, name := range variables {
		of, _, _ := strings.Cut(name, "_previous_day") // what had been forecast is what came
		units[name], hourly[name] = unit[of], known[of]
	}
	return map[string]any{"latitude": latitude, "longitude": longitude, "hourly_units": units, "hourly": hourly}
}
