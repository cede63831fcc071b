package provider

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
)

// openMeteoText is what the service answers about a place: two hours, of which the second is not known in full.
func openMeteoText(start, wind string) string {
	return `{"latitude":52.52,"longitude":13.42,"generationtime_ms":0.1,"utc_offset_seconds":0,"timezone":"GMT","timezone_abbreviation":"GMT","elevation":38,
"hourly_units":{"time":"iso8601","shortwave_radiation":"W/m²","wind_speed_10m":"m/s","temperature_2m":"°C"},
"hourly":{"time":["` + start + `T00:00","` + start + `T01:00"],"shortwave_radiation":[0,null],"wind_speed_10m":` + wind + `,"temperature_2m":[-1.5,999]}}`
}

func TestOpenMeteo(t *testing.T) {
	w, err := decodeOpenMeteo([]byte(openMeteoText("2024-01-01", "[3.2,4]")), 1)
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
	w, err := decodeOpenMeteo(list(openMeteoText("2024-01-01", "[3,4]"), openMeteoText("2024-01-01", "[5,null]"), openMeteoText("2024-01-01", "[10,8]")), 3)
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
		if _, err := decodeOpenMeteo(body, 2); !errors.Is(err, ErrWire) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
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
