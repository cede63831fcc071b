package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startFakegrid serves the climatology as if it happened now.
func startFakegrid(t *testing.T, o fakegridOptions) string {
	t.Helper()
	if o.factor == 0 {
		o.factor = 1
	}
	server, err := newFakegrid(o, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	return s.URL
}

// TestForecastOfEverySource: the command asks each provider and prints the same
// forms for all.
func TestForecastOfEverySource(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := startFakegrid(t, fakegridOptions{tokenFile: token, forecastError: 0.1})
	for _, tc := range []struct {
		source, zone, extra, signal, basis string
	}{
		{"electricityMaps", "aws/eu-central-1", "", "average", "LiveForecast"},
		{"electricityMaps-v4", "DE", "", "average", "LiveForecast"},
		{"wattTime", "US-CAL-CISO", "--user=me", "marginal", "LiveForecast"},
		{"ukCarbonIntensity", "GB", "", "average", "LiveForecast"},
		{"entsoE", "DE=10Y1001A1001A82H", "", "average", "LiveForecast"},
		{"eia", "CISO", "", "average", "OwnForecast"},
		{"carbonAwareSDK", "DE", "--location=germanywestcentral", "average", "LiveForecast"},
		{"prometheus", "DE", `--query=ci{zone="DE"}`, "average", "OwnForecast"},
		{"climatology", "DE", "", "average", "Climatology"},
	} {
		args := []string{"forecast", "--zone", tc.zone, "--source", tc.source, "--endpoint", url, "--credential-file", token, "--horizon", "30h"}
		if tc.extra != "" {
			args = append(args, tc.extra)
		}
		status, stdout, stderr := runMain(append(args, "-o", "json")...)
		if status != exitOK || stderr != "" {
			t.Errorf("%s: status %d: %s", tc.source, status, stderr)
			continue
		}
		var out struct {
			Signal, Basis string
			Hours         []forecastHour
		}
		if err := json.Unmarshal([]byte(stdout), &out); err != nil {
			t.Fatal(err)
		}
		if out.Signal != tc.signal || out.Basis != tc.basis || len(out.Hours) < 30 {
			t.Errorf("%s: %s, %s, %d hours", tc.source, out.Signal, out.Basis, len(out.Hours))
		}
		for _, h := range out.Hours {
			if h.Low > h.Value || h.Value > h.High || h.Basis == "" {
				t.Errorf("%s: %+v", tc.source, h)
				break
			}
		}
		if _, text, _ := runMain(args...); !strings.Contains(text, "▁") || !strings.Contains(text, tc.basis) || strings.Contains(text, "hush") {
			t.Errorf("%s:\n%s", tc.source, text)
		}
	}
	if _, text, _ := runMain("forecast", "--zone", "DE", "-o", "csv", "--horizon", "5h"); strings.Count(text, "\n") < 6 || !strings.HasPrefix(text, "time,intensity_gco2eq_per_kwh,") {
		t.Errorf("csv:\n%s", text)
	}
	if _, text, _ := runMain("forecast", "--zone", "DE", "-o", "html"); !strings.Contains(text, "<svg") || !strings.Contains(text, "Climatology") {
		t.Errorf("html of %d bytes", len(text))
	}
}

// TestForecastOfAFile sees only what lies before the time of the forecast.
func TestForecastOfAFile(t *testing.T) {
	file := trace(t, "a.csv", time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), 40)
	status, text, stderr := runMain("forecast", "--zone", "DE", "--source", file, "--at", "2023-02-01", "--horizon", "24h", "-o", "json")
	if status != exitOK || !strings.Contains(text, `"basis": "OwnForecast"`) || strings.Contains(text, `"LiveForecast"`) {
		t.Errorf("status %d: %s%s", status, stderr, text)
	}
	status, text, _ = runMain("forecast", "--zone", "XX", "--source", "electricityMaps", "--endpoint", "http://127.0.0.1:1", "--fallback", "400", "--horizon", "2h")
	if status != exitOK || !strings.Contains(text, "Constant") {
		t.Errorf("without anything but a constant: status %d:\n%s", status, text)
	}
}

func TestForecastErrors(t *testing.T) {
	file := trace(t, "a.csv", time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), 20)
	for want, args := range map[string][]string{
		"--zone: missing":                {},
		`--zone: unknown cloud region`:   {"--zone", "aws/moon-1"},
		`--source: "tea leaves"`:         {"--zone", "DE", "--source", "tea leaves"},
		"--horizon: 10m0s":               {"--zone", "DE", "--horizon", "10m"},
		`--output: "pdf"`:                {"--zone", "DE", "-o", "pdf"},
		`--at: "noon"`:                   {"--zone", "DE", "--at", "noon"},
		`--signal: "both"`:               {"--zone", "DE", "--signal", "both"},
		"--fallback: -1":                 {"--zone", "DE", "--fallback", "-1"},
		"one without the other":          {"--zone", "DE", "--latitude", "5"},
		"accepted for entsoE":            {"--zone", "DE", "--source", "entsoE"},
		"--credential-file":              {"--zone", "DE", "--credential-file", "/absent"},
		"has nothing before":             {"--zone", "DE", "--source", file, "--at", "2020-01-01"},
		"nothing is known of XX":         {"--zone", "XX"},
		"publishes average intensities,": {"--zone", "DE", "--source", "electricityMaps", "--signal", "marginal", "--endpoint", "http://127.0.0.1:1"},
		"--endpoint and --query":         {"--zone", "DE", "--source", "prometheus"},
	} {
		if status, _, stderr := runMain(append([]string{"forecast"}, args...)...); status != exitError || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q; want 1 and %q", args, status, stderr, want)
		}
	}
	if _, text, _ := runMain("forecast", "regions"); !strings.Contains(text, "aws/eu-central-1") || !strings.Contains(text, "US-MIDA-PJM") {
		t.Errorf("regions:\n%s", text)
	}
}

// TestFakegridServes: faults over HTTP, and the clock of a replay.
func TestFakegridServes(t *testing.T) {
	const factor = 3600
	first, begun := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC), time.Now()
	url := startFakegrid(t, fakegridOptions{start: "2023-05-10", factor: factor, faults: []string{"500:eia"}})
	get := func(path string) (int, string) {
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	_, clock := get("/-/clock")
	last := first.Add(factor * time.Since(begun))
	if at, err := time.Parse(time.RFC3339, strings.TrimSpace(clock)); err != nil || at.Before(first) || at.After(last) {
		t.Errorf("clock %q, %v; want from %v to %v", clock, err, first, last)
	}
	if _, faults := get("/-/faults"); !strings.Contains(faults, `"kind":"500"`) {
		t.Errorf("faults %q", faults)
	}
	put := func(body string) (int, string) {
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodPut, url+"/-/faults", strings.NewReader(body))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	if status, text := put(`[{"kind":"gremlins"}]`); status != 400 || !strings.Contains(text, `faults[0].kind: "gremlins"; accepted: 429`) {
		t.Errorf("%d: %s", status, text)
	}
	if status, _ := put(`[{"kind":"403","provider":"ukCarbonIntensity"}]`); status != 200 {
		t.Errorf("status %d", status)
	}
	if status, _ := get("/intensity/2023-05-10T00:00Z/fw48h"); status != 403 {
		t.Errorf("status %d, want the fault", status)
	}
	for want, o := range map[string]fakegridOptions{
		"--factor":             {start: "2023-05-10", factor: -1},
		`--start: "never"`:     {start: "never", factor: 1},
		`--epoch: "x"`:         {epoch: "x", factor: 1},
		"--trace":              {traces: map[string]string{"DE": "/absent.csv"}, factor: 1},
		"--forecast-error: 7":  {forecastError: 7, factor: 1},
		`--fault: faults[0]`:   {faults: []string{"x"}, factor: 1},
		"--token-file":         {tokenFile: "/absent", factor: 1},
		`provider: "nobody"; `: {faults: []string{"500:nobody"}, factor: 1},
	} {
		if _, err := newFakegrid(o, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestBacktestWritesEachFormat: the machine-readable form, the page, and recorded
// forecasts beside the forecasters.
func TestBacktestWritesEachFormat(t *testing.T) {
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	file := trace(t, "a.csv", start, 30)
	_, text, _ := runMain("forecast", "backtest", file, "-o", "json", "--zone", "DE")
	var results []backtestResult
	if err := json.Unmarshal([]byte(text), &results); err != nil || len(results) != 10 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if _, text, _ = runMain("forecast", "backtest", file, "-o", "html"); !strings.Contains(text, "Holt-Winters") || strings.Count(text, "<svg") != 2 {
		t.Errorf("a page of %d bytes", len(text))
	}
	var b strings.Builder
	b.WriteString("issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh\n")
	for day := range 30 {
		issued := start.AddDate(0, 0, day)
		for h := range 48 {
			at := issued.Add(time.Duration(h) * time.Hour)
			v := 100 + 10*at.Hour()
			b.WriteString(issued.Format(time.RFC3339) + "," + at.Format(time.RFC3339) + "," + strconv.Itoa(v-5) + "," + strconv.Itoa(v) + "\n")
		}
	}
	recorded := filepath.Join(t.TempDir(), "r.csv")
	if err := os.WriteFile(recorded, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	status, text, stderr := runMain("forecast", "backtest", "--recorded", recorded)
	if status != exitOK || !strings.Contains(text, "-5.0  1.00  0.00 %") {
		t.Errorf("status %d: %s%s", status, stderr, text)
	}
}
