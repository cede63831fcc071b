package cli

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// weatherFile writes n days of hourly intensities that wind drives, and the wind.
func weatherFile(t *testing.T, start time.Time, n int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("time,direct_gco2eq_per_kwh,lifecycle_gco2eq_per_kwh,wind_speed_ms\n")
	rng, wind := rand.New(rand.NewPCG(1, 2)), 5.0
	for h := range 24 * n {
		wind = math.Min(16, math.Max(0, wind+0.1*(5-wind)+0.6*rng.NormFloat64()))
		fmt.Fprintf(&text, "%s,%.1f,%.1f,%.3f\n", start.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 500-30*wind, 540-30*wind, wind)
	}
	file := filepath.Join(t.TempDir(), "weather.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestBacktestWithWeather: with the wind, forecasts are made by the day for four days, and
// those that know it err less. The intensities come from the file of weather or from a trace.
func TestBacktestWithWeather(t *testing.T) {
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	file := weatherFile(t, start, 100)
	for _, args := range [][]string{
		{"--weather", file, "--factor", "direct", "--from", "2023-04-01"},
		{trace(t, "a.csv", start, 100), "--weather", file, "--from", "2023-04-01"},
	} {
		var stdout, stderr bytes.Buffer
		if status := Main(append([]string{"forecast", "backtest"}, args...), strings.NewReader(""), &stdout, &stderr); status != exitOK {
			t.Fatalf("%v: status %d: %s", args, status, stderr.String())
		}
		for _, want := range []string{"ridge regression with weather", "blend with weather", "By day ahead", "day 4", "96 h"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%v: %q is missing:\n%s", args, want, stdout.String())
			}
		}
		if args[0] == "--weather" {
			mape := map[string]float64{}
			for _, line := range strings.Split(stdout.String(), "\n") {
				name := strings.TrimSpace(line[strings.LastIndex(line, "  ")+1:])
				if _, seen := mape[name]; !seen {
					var v float64
					_, _ = fmt.Sscan(line, &v)
					mape[name] = v
				}
			}
			if with, without := mape["blend with weather"], mape["blend"]; with == 0 || with > 0.5*without {
				t.Errorf("MAPE %v %% with weather, %v %% without:\n%s", with, without, stdout.String())
			}
		}
	}
}

func TestBacktestWithWeatherErrors(t *testing.T) {
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	file, series := weatherFile(t, start, 30), trace(t, "a.csv", start.AddDate(1, 0, 0), 20)
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("time,wind_speed_ms\n2023-01-01T00:00:00Z,fast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"no such file":                         {"--weather", "absent.csv"},
		`line 2: wind_speed_ms: "fast"`:        {"--weather", bad},
		`--factor: "marginal"`:                 {"--weather", file, "--factor", "marginal"},
		"accepted: with --weather":             {series, "--factor", "direct"},
		"accepted: no traces with it":          {series, "--weather", file, "--factor", "direct"},
		"accepted: without --weather":          {"--recorded", file, "--weather", file},
		"--weather-horizon: 30m0s":             {"--weather", file, "--weather-horizon", "30m"},
		"knows nothing of 2024-01-01T00:00:00": {series, "--weather", file},
		"no column lifecycle_gco2eq_per_kwh":   {"--weather", withoutIntensities(t)},
	} {
		var stdout, stderr bytes.Buffer
		if status := Main(append([]string{"forecast", "backtest"}, args...), strings.NewReader(""), &stdout, &stderr); status != exitError || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: status %d, %q; want 1 and %q", args, status, stderr.String(), want)
		}
	}
}

func withoutIntensities(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "wind.csv")
	if err := os.WriteFile(file, []byte("time,wind_speed_ms\n2023-01-01T00:00:00Z,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
