package provider

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// openMeteoText is what the service answers about a place: two hours. The second one has gaps.
func openMeteoText(start, wind string) string {
	return `{"latitude":52.52,"longitude":13.42,"generationtime_ms":0.1,"utc_offset_seconds":0,"timezone":"GMT","timezone_abbreviation":"GMT","elevation":38,
"hourly_units":{"time":"iso8601","shortwave_radiation":"W/m²","wind_speed_10m":"m/s","temperature_2m":"°C"},
"hourly":{"time":["` + start + `T00:00","` + start + `T01:00"],"shortwave_radiation":[0,null],"wind_speed_10m":` + wind + `,"temperature_2m":[-1.5,999]}}`
}

func TestOpenMeteo(t *testing.T) {
	w, err := decodeOpenMeteo([]byte(openMeteoText("2024-01-01", "[3.2,4]")), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	if !w.Start.Equal(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)) || w.Wind[1] != 4 || !math.IsNaN(w.Irradiance[1]) || !math.IsNaN(w.Temperature[1]) || w.Temperature[0] != -1.5 {
		t.Errorf("%+v", w)
	}
}

// TestOpenMeteoOfPlaces: the weather of several places is the mean over those that know it. An answer about other places,
// or about other hours of one of them, is refused.
func TestOpenMeteoOfPlaces(t *testing.T) {
	list := func(texts ...string) []byte { return []byte("[" + strings.Join(texts, ",") + "]") }
	w, err := decodeOpenMeteo(list(openMeteoText("2024-01-01", "[3,4]"), openMeteoText("2024-01-01", "[5,null]"), openMeteoText("2024-01-01", "[10,8]")), 3, "")
	if err != nil || len(w.Wind) != 2 || w.Wind[0] != 6 || w.Wind[1] != 6 || w.Temperature[0] != -1.5 || !math.IsNaN(w.Irradiance[1]) {
		t.Errorf("%+v, %v", w, err)
	}
	one := openMeteoText("2024-01-01", "[3,4]")
	for want, body := range map[string][]byte{
		"1 places; accepted: 2":   []byte(one),
		"3 places; accepted: 2":   list(one, one, one),
		"0 places; accepted: 2":   []byte("[]"),
		"place 2: 2 hours from":   list(one, openMeteoText("2024-01-02", "[3,4]")),
		"place 2: hourly.wind":    list(one, openMeteoText("2024-01-01", `["calm",4]`)),
		"place 2: unexpected":     list(one, openMeteoText("2024-01-01", "[4]")),
		"Cannot initialize":       []byte(`{"error":true,"reason":"Cannot initialize WeatherVariable from invalid String value x"}`),
		`place 1: unexpected ans`: []byte(`[{},{}]`),
	} {
		if _, err := decodeOpenMeteo(body, 2, ""); !errors.Is(err, ErrWire) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestOpenMeteoListTakesLittleMemory: an answer about millions of places takes about the memory of its text.
func TestOpenMeteoListTakesLittleMemory(t *testing.T) {
	for _, place := range []string{"{}", "null", `{"error":true}`} {
		body := []byte("[" + strings.Repeat(place+",", openMeteoBytes/(len(place)+1)-1) + place + "]")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeOpenMeteo(body, 2, "")
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrWire) || took > openMeteoBytes {
			t.Errorf("%s: %d bytes for an answer of %d, %v", place, took, len(body), err)
		}
	}
}

// addresses is a Getter that keeps what is asked for and answers with one text.
type addresses struct {
	asked []string
	text  string
}

func (a *addresses) Get(_ context.Context, r fetch.Request) (fetch.Response, error) {
	a.asked = append(a.asked, r.URL)
	return fetch.Response{Body: []byte(a.text)}, nil
}

// TestOpenMeteoAsksOnce: all places are in one request. Places that do not exist, or too many, are refused without one.
func TestOpenMeteoAsksOnce(t *testing.T) {
	get := &addresses{text: "[" + openMeteoText("2024-01-01", "[3,4]") + "," + openMeteoText("2024-01-01", "[3,4]") + "]"}
	m := OpenMeteo{Endpoint: "http://127.0.0.1", Places: []Place{{52.5, 13.4}, {-48, 9.25}}}
	if _, err := m.Fetch(context.Background(), get, 1, 2, 0); err != nil || len(get.asked) != 1 ||
		!strings.Contains(get.asked[0], "latitude=52.5%2C-48&longitude=13.4%2C9.25") {
		t.Errorf("%v, %v", get.asked, err)
	}
	for want, places := range map[string][]Place{
		"places: 0; accepted: 1 to 10":              nil,
		"places: 11; accepted: 1 to 10":             make([]Place, 11),
		"places[1]: latitude 91, longitude 0":       {{}, {91, 0}},
		"places[0]: latitude 0, longitude -180.5":   {{0, -180.5}},
		"places[0]: latitude NaN, longitude 0; acc": {{math.NaN(), 0}},
	} {
		m.Places = places
		if _, err := m.Fetch(context.Background(), get, 1, 2, 0); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if len(get.asked) != 1 {
		t.Errorf("asked %v", get.asked)
	}
}

// TestOpenMeteoOfThePast: what had been forecast stands over what was analysed, which stands in where nothing had been forecast.
func TestOpenMeteoOfThePast(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	days := carbon.Interval{From: at, To: at.AddDate(0, 0, 1)}
	hours := func(first string, rest string) string { return "[" + first + strings.Repeat(","+rest, 23) + "]" }
	times := []string{}
	for i := range 24 {
		times = append(times, at.Add(time.Duration(i)*time.Hour).Format(`"2006-01-02T15:04"`))
	}
	answer := func(sunUnit, wind, lead string) string {
		return `{"latitude":52.52,"longitude":13.42,"hourly_units":{"time":"iso8601","shortwave_radiation":"W/m²","wind_speed_10m":"m/s","temperature_2m":"°C",
"shortwave_radiation_previous_day3":"` + sunUnit + `","wind_speed_10m_previous_day3":"m/s","temperature_2m_previous_day3":"°C"},"hourly":{"time":[` + strings.Join(times, ",") + `],
"shortwave_radiation":` + hours("100", "200") + `,"wind_speed_10m":` + wind + `,"temperature_2m":` + hours("1", "2") + `,
"shortwave_radiation_previous_day3":` + hours("null", "null") + `,"wind_speed_10m_previous_day3":` + lead + `,"temperature_2m_previous_day3":` + hours("3", "null") + `}}`
	}
	get := &addresses{text: answer("undefined", hours("5", "6"), hours("7", "8"))}
	m := OpenMeteo{Endpoint: "http://127.0.0.1:1", HistoryEndpoint: "http://127.0.0.1:2", Places: []Place{{52.5, 13.4}}}
	w, kept, err := m.Past(context.Background(), get, days, time.Hour)
	if err != nil || kept || !w.Start.Equal(at) || w.Wind[0] != 7 || w.Wind[23] != 8 || w.Irradiance[0] != 100 || w.Temperature[0] != 3 || w.Temperature[1] != 2 {
		t.Errorf("%+v, %v, %v", w, kept, err)
	}
	if q := get.asked[0]; !strings.HasPrefix(q, "http://127.0.0.1:2/v1/forecast?end_date=2024-01-01&") || !strings.Contains(q, "start_date=2024-01-01") || strings.Contains(q, "past_days") {
		t.Errorf("asked %s", q)
	}
	for want, tc := range map[string]struct {
		text string
		days carbon.Interval
	}{
		"24 hours from 2024-01-01T00:00:00Z; accepted: 48": {get.text, carbon.Interval{From: at, To: at.AddDate(0, 0, 2)}},
		"24 hours from 2024-01-01T00:00:00Z; accepted: 24": {get.text, carbon.Interval{From: at.AddDate(0, 0, 1), To: at.AddDate(0, 0, 2)}},
		`_previous_day3: "kW"; accepted: W/m²`:             {answer("kW", hours("5", "6"), hours("7", "8")), days},
		"hourly.wind_speed_10m_previous_day3: 1 values":    {answer("W/m²", hours("5", "6"), "[7]"), days},
	} {
		get.text = tc.text
		if _, _, err := m.Past(context.Background(), get, tc.days, 0); !errors.Is(err, ErrWire) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	none := strings.NewReplacer(hours("100", "200"), hours("null", "null"), hours("1", "2"), hours("null", "null"), hours("3", "null"), hours("null", "null"))
	get.text = none.Replace(answer("W/m²", hours("null", "null"), hours("null", "null")))
	if _, _, err := m.Past(context.Background(), get, days, 0); !errors.Is(err, ErrNoData) {
		t.Errorf("of no weather: %v", err)
	}
}
