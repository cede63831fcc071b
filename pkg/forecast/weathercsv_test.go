package forecast

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestReadWeather(t *testing.T) {
	text := "time,direct_gco2eq_per_kwh,coal,plant_mw,wind_speed_ms,temperature_k,dewpoint_c,dswrf_wm2,precipitation_mm\n" +
		"2023-01-01T00:00:00Z,300,1,2,5,273.15,-2,0,0\n" +
		"2023-01-01T02:00:00+01:00,,,3,,274.15,-1,10,0.5\n" +
		"2023-01-01T03:00:00Z,310,4,5,6,275.15,0,20,0\n"
	f, err := ReadWeather(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	if !f.Start.Equal(start) || !reflect.DeepEqual(f.Sources, []string{"coal", "plant"}) {
		t.Errorf("start %v, sources %v", f.Start, f.Sources)
	}
	w, err := f.On(History{Start: start.Add(-time.Hour), Step: time.Hour}, 6)
	if err != nil {
		t.Fatal(err)
	}
	nan := math.NaN()
	for name, c := range map[string]struct{ got, want []float64 }{
		"intensity":   {f.Intensities["direct_gco2eq_per_kwh"], []float64{300, nan, nan, 310}},
		"wind":        {w.Wind, []float64{nan, 5, nan, nan, 6, nan}},
		"temperature": {w.Temperature, []float64{nan, 0, 1, nan, 2, nan}},
		"dew point":   {w.DewPoint, []float64{nan, -2, -1, nan, 0, nan}},
		"irradiance":  {w.Irradiance, []float64{nan, 0, 10, nan, 20, nan}},
		"coal":        {w.Generation[0], []float64{nan, 1, nan, nan, 4, nan}},
	} {
		if !same(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if _, err := f.On(History{Start: start.Add(time.Minute), Step: time.Hour}, 6); !errors.Is(err, ErrWeather) {
		t.Errorf("a history within an hour: %v", err)
	}
}

func TestReadWeatherErrors(t *testing.T) {
	const header = "time,wind_speed_ms,coal\n"
	for text, want := range map[string]string{
		"":                                    "header",
		"time,coal\n":                         "no column of weather",
		"wind_speed_ms\n1\n":                  "no column time",
		"time,wind\n":                         "no column of weather",
		"time,windspeed\n":                    `column "windspeed"`,
		"time,temperature_k,temperature_c\n":  `"temperature_k" and "temperature_c" state the same`,
		"time,wind_speed_ms,coal,coal_mw\n":   `"coal" and "coal_mw" state the same`,
		"time" + strings.Repeat(",coal", 64):  "65 columns; accepted: at most 64",
		header:                                "no rows",
		header + "2023-01-01,1,2\n":           `line 2: time: "2023-01-01"`,
		header + "2023-01-01T00:30:00Z,1,2\n": "line 2: time",
		header + "2023-01-01T00:00:00Z,1,2\n2023-01-01T00:00:00Z,1,2\n": "line 3: time: 2023-01-01T00:00:00Z is not after",
		header + "2023-01-01T00:00:00Z,1,2\n9023-01-01T00:00:00Z,1,2\n": "line 3: time: 9023",
		header + "2023-01-01T00:00:00Z,151,2\n":                         `line 2: wind_speed_ms: "151"; accepted: a number from 0 to 150`,
		header + "2023-01-01T00:00:00Z,NaN,2\n":                         `line 2: wind_speed_ms: "NaN"`,
		header + "2023-01-01T00:00:00Z,,x\n":                            `line 2: coal: "x"`,
		header + "2023-01-01T00:00:00Z,1\n":                             "wrong number of fields",
	} {
		if _, err := ReadWeather(strings.NewReader(text)); !errors.Is(err, ErrWeather) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzReadWeather(f *testing.F) {
	f.Add("time,wind_speed_ms,coal\n2023-01-01T00:00:00Z,1,2\n")
	f.Add("time,temperature_k\n2023-01-01T00:00:00Z,\n2023-01-03T00:00:00Z,280\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ReadWeather(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrWeather) {
				t.Fatal(err)
			}
			return
		}
		if !file.Weather.known() {
			t.Fatal("a file without weather was accepted")
		}
		for _, c := range file.Weather.columns() {
			for _, v := range c {
				if math.IsInf(v, 0) || v < -100 || v > 2000 {
					t.Fatalf("value %v was accepted", v)
				}
			}
		}
	})
}
