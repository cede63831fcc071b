package fakegrid

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/zones"
)

// number is a value, or null.
func (v value) number(decimals int) any {
	if v.null {
		return nil
	}
	scale := math.Pow(10, float64(decimals))
	return math.Round(v.v*scale) / scale
}

func parse(text string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z", "2006-01-02T15"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

func (s *Server) serveElectricityMaps(r *http.Request, f Fault) answer {
	q, v4 := r.URL.Query(), strings.HasPrefix(r.URL.Path, "/v4/")
	if !s.authorised(r.Header.Get("auth-token")) {
		return problem(http.StatusUnauthorized, "Invalid auth-token")
	}
	zone := q.Get("zone")
	if _, ok := s.Zones[zone]; !ok {
		return problem(http.StatusNotFound, "Zone %q does not exist", zone)
	}
	now := s.now()
	points := func(values []value) []map[string]any {
		out := make([]map[string]any, 0, len(values))
		for _, x := range values {
			name := "carbonIntensity"
			if v4 {
				name = "value"
			}
			out = append(out, map[string]any{"zone": zone, name: x.number(2), "datetime": rfc3339(x.at), "isEstimated": x.estimated, "emissionFactorType": q.Get("emissionFactorType")})
		}
		return out
	}
	list := func(name string, values []value) answer {
		if v4 {
			name = "data"
		}
		return document(map[string]any{"zone": zone, name: points(values), "updatedAt": rfc3339(s.clock(f))})
	}
	switch r.PathValue("what") {
	case "latest":
		values := s.recorded(zone, now.Add(-3*time.Hour), now, f)
		if len(values) == 0 {
			return problem(http.StatusNotFound, "No recent data for zone %q", zone)
		}
		one := points(values[len(values)-1:])[0]
		one["updatedAt"] = rfc3339(s.clock(f))
		return document(one)
	case "history":
		return list("history", s.recorded(zone, now.Add(-24*time.Hour), now, f))
	case "past-range":
		from, to := parse(q.Get("start")), parse(q.Get("end"))
		if to.Sub(from) > 10*24*time.Hour || !to.After(from) {
			return problem(http.StatusBadRequest, "start and end must be at most 10 days apart")
		}
		return list("data", s.recorded(zone, from, to, f))
	case "forecast":
		hours, err := strconv.Atoi(q.Get("horizonHours"))
		if err != nil || (hours != 6 && hours != 24 && hours != 48 && hours != 72) {
			return problem(http.StatusBadRequest, "horizonHours must be 6, 24, 48 or 72")
		}
		return list("forecast", s.forecast(zone, now, now.Truncate(time.Hour), time.Duration(hours)*time.Hour, f))
	}
	return problem(http.StatusNotFound, "no such path")
}

// wattTimeToken is how long a token is good, in time of the series.
const wattTimeToken = 30 * time.Minute

func (s *Server) serveLogin(r *http.Request, _ Fault) answer {
	user, password, ok := r.BasicAuth()
	if !ok || user == "" || !s.authorised(password) {
		return problem(http.StatusForbidden, "wrong user or password")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s-%d", user, len(s.tokens)))
	s.tokens[token] = s.now().Add(wattTimeToken)
	return document(map[string]string{"token": token})
}

// poundsPerMegawattHour converts gCO2/kWh.
const poundsPerMegawattHour = 1 / 0.45359237

// wattTimeRegions names the regions that differ from the end of a zone's name.
var wattTimeRegions = map[string]string{"CAISO_NORTH": "US-CAL-CISO"}

func (s *Server) serveWattTime(r *http.Request, f Fault) answer {
	q := r.URL.Query()
	s.mu.Lock()
	until, ok := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	s.mu.Unlock()
	if !ok || s.now().After(until) {
		return problem(http.StatusUnauthorized, "token expired")
	}
	region := q.Get("region")
	zone, ok := s.zoneNamed(func(zone string) bool { return zone == region || zone == wattTimeRegions[region] })
	if !ok {
		return problem(http.StatusBadRequest, "region %q is not known", region)
	}
	now := s.now()
	var values []value
	if strings.HasSuffix(r.URL.Path, "historical") {
		from, to := parse(q.Get("start")), parse(q.Get("end"))
		if to.Sub(from) > 32*24*time.Hour {
			return problem(http.StatusBadRequest, "at most 32 days")
		}
		values = s.recorded(zone, from, to, f)
	} else {
		hours, err := strconv.Atoi(q.Get("horizon_hours"))
		if err != nil || hours < 0 || hours > 72 {
			return problem(http.StatusBadRequest, "horizon_hours must be 0 to 72")
		}
		values = s.forecast(zone, now, now.Truncate(5*time.Minute), time.Duration(hours)*time.Hour, f)
	}
	unit := "lbs_co2_per_mwh"
	if f.Kind == FaultUnits {
		unit = "kg_co2_per_mwh"
	}
	data, seconds := []map[string]any{}, 3600
	for _, x := range values {
		x.v *= poundsPerMegawattHour
		seconds = int(x.end.Sub(x.at).Seconds())
		data = append(data, map[string]any{"point_time": rfc3339(x.at), "value": x.number(3)})
	}
	return document(map[string]any{"data": data, "meta": map[string]any{
		"region": region, "signal_type": q.Get("signal_type"), "units": unit, "generated_at": rfc3339(s.clock(f)), "warnings": []string{}, "data_point_period_seconds": seconds,
	}})
}

func (s *Server) serveUK(r *http.Request, f Fault) answer {
	if _, ok := s.Zones["GB"]; !ok {
		return problem(http.StatusBadRequest, "no series of GB")
	}
	now, from, span := s.now(), parse(r.PathValue("from")), r.PathValue("to")
	regional := r.PathValue("region") != ""
	halves := func(values []value, actual bool) []map[string]any {
		out := []map[string]any{}
		for _, x := range values {
			for at := x.at; at.Before(x.end); at = at.Add(30 * time.Minute) {
				intensity := map[string]any{"forecast": x.number(0), "index": "moderate"}
				if !regional {
					intensity["actual"] = nil
					if actual {
						intensity["actual"] = x.number(0)
					}
				}
				if x.null {
					intensity["forecast"] = nil
				}
				out = append(out, map[string]any{
					"from": at.UTC().Format("2006-01-02T15:04Z"), "to": at.Add(30 * time.Minute).UTC().Format("2006-01-02T15:04Z"), "intensity": intensity,
				})
			}
		}
		return out
	}
	var data []map[string]any
	if span == "fw48h" {
		data = halves(s.forecast("GB", now, from, 48*time.Hour, f), false)
	} else {
		to := parse(span)
		if to.Sub(from) > 14*24*time.Hour || from.IsZero() {
			return problem(http.StatusBadRequest, "at most 14 days")
		}
		data = halves(s.recorded("GB", from, to, f), true)
	}
	if regional {
		region, _ := strconv.Atoi(r.PathValue("region"))
		return document(map[string]any{"data": map[string]any{"regionid": region, "shortname": "Region", "data": data}})
	}
	return document(map[string]any{"data": data})
}

// eiaZone finds the zone of a balancing authority: US-CAL-CISO is CISO.
func (s *Server) eiaZone(respondent string) (string, bool) {
	return s.zoneNamed(func(zone string) bool {
		return respondent != "" && (zone == respondent || strings.HasSuffix(zone, "-"+respondent))
	})
}

func (s *Server) serveEIA(r *http.Request, f Fault) answer {
	q := r.URL.Query()
	if !s.authorised(q.Get("api_key")) {
		return problem(http.StatusForbidden, "API_KEY_INVALID")
	}
	respondent := q.Get("facets[respondent][]")
	zone, ok := s.eiaZone(respondent)
	if !ok {
		return problem(http.StatusBadRequest, "no respondent %q", respondent)
	}
	offset, _ := strconv.Atoi(q.Get("offset"))
	length, _ := strconv.Atoi(q.Get("length"))
	unit := "megawatthours"
	if f.Kind == FaultUnits {
		unit = "kilowatthours"
	}
	var rows []map[string]any
	for _, x := range s.recorded(zone, parse(q.Get("start")), parse(q.Get("end")), f) {
		if f.Kind == FaultUnits {
			x.v /= 1000
		}
		coal := coalShare(x.v)
		for fuel, share := range map[string]float64{"COL": coal, "WND": 1 - coal} {
			row := map[string]any{"period": x.at.UTC().Format("2006-01-02T15"), "respondent": respondent, "fueltype": fuel, "value": strconv.FormatFloat(math.Round(share*1e7)/1e3, 'f', -1, 64), "value-units": unit}
			if x.null {
				row["value"] = nil
			}
			rows = append(rows, row)
		}
	}
	total := len(rows)
	rows = rows[min(offset, total):]
	rows = rows[:min(len(rows), max(1, min(length, 5000)))]
	return document(map[string]any{"response": map[string]any{"total": strconv.Itoa(total), "data": rows}})
}

// coalShare is the share of coal in a mix of coal and wind of an intensity.
func coalShare(intensity float64) float64 { return min(1, max(0, (intensity-12)/(1001-12))) }

func (s *Server) serveCarbonAware(r *http.Request, f Fault) answer {
	q := r.URL.Query()
	location := q.Get("location")
	zone, ok := s.zoneNamed(func(zone string) bool {
		if zone == location {
			return true
		}
		for _, cloud := range []string{"azure", "aws", "gcp"} {
			if of, err := zones.OfRegion(cloud + "/" + location); err == nil && of == zone {
				return true
			}
		}
		return false
	})
	if !ok {
		return problem(http.StatusBadRequest, "location %q is not known", location)
	}
	now := s.now()
	if strings.HasSuffix(r.URL.Path, "bylocations") {
		out := []map[string]any{}
		for _, x := range s.recorded(zone, parse(q.Get("time")), parse(q.Get("toTime")), f) {
			out = append(out, map[string]any{"location": zone, "time": rfc3339(x.at), "rating": x.number(2), "duration": duration(x.end.Sub(x.at))})
		}
		return document(out)
	}
	data := []map[string]any{}
	for _, x := range s.forecast(zone, now, now.Truncate(time.Hour), 24*time.Hour, f) {
		data = append(data, map[string]any{"location": zone, "timestamp": rfc3339(x.at), "value": x.number(2), "duration": int(x.end.Sub(x.at).Minutes())})
	}
	return document([]map[string]any{{"generatedAt": rfc3339(s.clock(f)), "location": location, "forecastData": data}})
}

func duration(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// zoneLabel finds the zone that a query selects.
var zoneLabel = regexp.MustCompile(`zone="([^"]+)"`)

func (s *Server) servePrometheus(r *http.Request, f Fault) answer {
	q := r.URL.Query()
	if s.Token != "" && !s.authorised(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
		return problem(http.StatusUnauthorized, "unauthorized")
	}
	match := zoneLabel.FindStringSubmatch(q.Get("query"))
	if match == nil {
		return problem(http.StatusBadRequest, `the query must select zone="..."`)
	}
	zone := match[1]
	if _, ok := s.Zones[zone]; !ok {
		return document(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{}}})
	}
	if strings.HasSuffix(r.URL.Path, "query") {
		now := s.now()
		result := []map[string]any{}
		for _, x := range s.forecast(zone, now, now.Truncate(time.Hour), 48*time.Hour, f) {
			if x.null {
				x.v = math.NaN()
			}
			result = append(result, map[string]any{"metric": map[string]string{"zone": zone, "forecast_time": rfc3339(x.at)}, "value": []any{now.Unix(), text(x.v)}})
		}
		return document(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
	}
	start, _ := strconv.ParseInt(q.Get("start"), 10, 64)
	end, _ := strconv.ParseInt(q.Get("end"), 10, 64)
	step, _ := strconv.ParseInt(q.Get("step"), 10, 64)
	if step <= 0 || (end-start)/step > 11000 {
		return document(map[string]any{"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution of 11,000 points"})
	}
	values := [][]any{}
	for _, x := range s.recorded(zone, time.Unix(start, 0), time.Unix(end+step, 0), f) {
		// A gauge keeps its value between two scrapes.
		for at := x.at; at.Before(x.end) && at.Unix() <= end+3*3600; at = at.Add(time.Duration(step) * time.Second) {
			if x.null {
				continue // a scrape that failed leaves no point
			}
			values = append(values, []any{at.Unix(), text(x.v)})
		}
	}
	result := []any{}
	if len(values) > 0 {
		result = append(result, map[string]any{"metric": map[string]string{"zone": zone}, "values": values})
	}
	return document(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
}

func text(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
