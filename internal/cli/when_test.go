package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/bestwindow"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

func TestWhenJSON(t *testing.T) {
	t.Setenv(zoneVariable, "")
	status, stdout, stderr := runMain("when", "--within", "24h", "--length", "3h", "--zone", "DE", "--at", "2026-07-01T18:20:00Z", "-o", "json")
	if status != exitOK || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var got whenJSON
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 7, 1, 18, 20, 0, 0, time.UTC)
	if got.Reason != bestwindow.CleanerLater || !got.Now.Equal(now) || !got.LatestStart.Equal(now.Add(21*time.Hour)) ||
		got.End.Sub(got.Start) != 3*time.Hour || got.End.After(now.Add(24*time.Hour)) || got.Basis != carbon.Climatology || !strings.Contains(got.Source, "Electricity Maps") {
		t.Errorf("%s", stdout)
	}
	if *got.IntensityThenLow > *got.IntensityThen || *got.IntensityThen > *got.IntensityThenHigh || *got.ExpectedSaving < 0.2 || *got.ExpectedSaving != *got.BestSaving || got.MinSaving != 0.05 {
		t.Errorf("%s", stdout)
	}
}

// TestWhenOnEveryBasis: a provider, the environment for the zone, no data, too small a saving, no slack.
func TestWhenOnEveryBasis(t *testing.T) {
	t.Setenv(zoneVariable, "DE")
	url := startFakegrid(t, fakegridOptions{})
	dead := []string{"--source", "electricityMaps", "--endpoint", "http://127.0.0.1:1", "--zone", "XX"}
	const at = "--at=2026-07-01T18:20:00Z"
	for name, tc := range map[string]struct {
		args           []string
		want, warnings string
	}{
		"zone of the environment": {[]string{"--length", "3h", at}, "DE, average, lifecycle emissions\nStart Thu 2026-07-02", ""},
		"provider":                {[]string{"--length", "3h", "--min-saving", "0", "--source", "electricityMaps", "--endpoint", url}, "LiveForecast: ", ""},
		"no data":                 {append([]string{"--length", "3h"}, dead...), "Start now: the carbon intensity of XX is not known for the next 3h.", "lull: warning: get http://127.0.0.1:1/"},
		"fallback":                {append([]string{"--length", "3h", "--fallback", "300"}, dead...), "Start now: no start until", "lull: warning: "},
		"saving too small":        {[]string{"--length", "3h", "--min-saving", "90", at}, "which is less than --min-saving 90; ", ""},
		"no slack":                {[]string{"--length", "3h", "--within", "3h", at}, "Start now: --length takes all of --within.", ""},
		"ends the next day":       {[]string{"--length", "23h50m", at}, " UTC to Thu 2026-07-02 ", ""},
		"short, and marked":       {[]string{"--length", "10m", at}, "^\n", ""},
		"days of one week":        {[]string{"--length", "3h", "--within", "5d", at}, "\n  Wed 18:20 ", ""},
		"days of two weeks":       {[]string{"--length", "3h", "--within", "14d", at}, " Wed 2026-07-15 18:20\n", ""},
		"region":                  {[]string{"--length", "1d", "--within", "3d", "--zone", "aws/eu-central-1", at}, "DE, average", ""},
	} {
		status, stdout, stderr := runMain(append([]string{"when"}, tc.args...)...)
		if status != exitOK || !strings.Contains(stdout, tc.want) || !strings.HasPrefix(stderr, tc.warnings) || tc.warnings == "" && stderr != "" || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%s: status %d: %s%s; want %q, %q", name, status, stderr, stdout, tc.want, tc.warnings)
		}
	}
	for _, output := range []string{"json", "ical", "sbatch", "at"} { // without data
		status, stdout, _ := runMain(append([]string{"when", "--length", "1h", "-o", output}, dead...)...)
		if status != exitOK || stdout == "" || strings.Contains(stdout, "intensityNow") {
			t.Errorf("%s: status %d, %q", output, status, stdout)
		}
	}
}

func TestWhenErrors(t *testing.T) {
	t.Setenv(zoneVariable, "")
	for want, args := range map[string][]string{
		"--length: missing; accepted: ":                {},
		"--length: 0s; accepted: at least 1s":          {"--length", "0"},
		"--length: 5h; accepted: at most --within, 4h": {"--length", "5h", "--within", "4h"},
		"--within: 360h; accepted: 1s to 14d":          {"--length", "5h", "--within", "15d"},
		"--within: 0s; accepted: 1s to 14d":            {"--length", "5h", "--within", "0s"},
		"--zone: missing, and LULL_ZONE is not set":    {"--length", "5h"},
		"AU-SA, CA-ON, DE":                             {"--length", "5h", "--zone", "XX"},
		`--zone: "de"; accepted: a grid zone, e.g. DE, or a region, e.g. aws/eu-central-1; did you mean DE?`: {"--length", "5h", "--zone", "de"},
		"did you mean DE, in which aws/eu-central-1 lies?":                                                   {"--length", "5h", "--zone", "eu-central-1", "--source", "electricityMaps"},
		`--output: "pdf"; accepted: text, json, yaml, ical, sbatch or at`:                                    {"--length", "5h", "--zone", "DE", "-o", "pdf"},
		"--min-saving: 101; accepted: a number from 0 to 100":                                                {"--length", "5h", "--zone", "DE", "--min-saving", "101"},
		`--source: "tea leaves"`: {"--length", "5h", "--zone", "DE", "--source", "tea leaves"},
		`--at: "noon"`:           {"--length", "5h", "--zone", "DE", "--at", "noon"},
		// What can never work is a wrong flag, not a provider that is down.
		`--source: "ElectricityMaps"; accepted: `: {"--length", "5h", "--zone", "DE", "--source", "ElectricityMaps"},
		"; did you mean electricityMaps?":         {"--length", "5h", "--zone", "DE", "--source", "electricitymaps"},
		`--endpoint: "localhost:8080"; accepted: an http or https URL with a host, e.g. http://127.0.0.1:8080`: {"--length", "5h", "--zone", "DE", "--source", "electricityMaps", "--endpoint", "localhost:8080"},
		`--endpoint: "https://"; accepted: `:                             {"--length", "5h", "--zone", "DE", "--source", "electricityMaps", "--endpoint", "https://"},
		`--zone: "DE"; accepted for ukCarbonIntensity: GB`:               {"--length", "5h", "--zone", "DE", "--source", "ukCarbonIntensity"},
		`--zone: "aws/eu-central-1"; accepted for ukCarbonIntensity: GB`: {"--length", "5h", "--zone", "aws/eu-central-1", "--source", "ukCarbonIntensity"},
		"--signal: marginal; accepted without --source: average":         {"--length", "5h", "--zone", "DE", "--signal", "marginal"},
	} {
		status, _, stderr := runMain(append([]string{"when"}, args...)...)
		if status != exitError || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %q; want %q", args, status, stderr, want)
		}
		lacksGoWords(t, strings.Join(args, " "), stderr)
	}
}

// TestWhenTellsMissingFromUnreadableFiles: a file that is not there is a wrong flag. One that cannot be read, or that is old, is a source that fails: there
// is a result without it, with a warning.
func TestWhenTellsMissingFromUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const header = "time,intensity_gco2eq_per_kwh\n"
	hours := func(first time.Time) string {
		text := header
		for i := range 30 {
			text += first.UTC().Add(time.Duration(i)*time.Hour).Format("2006-01-02T15:04:05Z") + ",100\n"
		}
		return text
	}
	now := time.Now().Truncate(time.Hour)
	// Each runs from 30 hours before until its end.
	old, late, fresh := write("old.csv", hours(now.Add(-100*24*time.Hour))), write("late.csv", hours(now.Add(-35*time.Hour))), write("fresh.csv", hours(now.Add(-30*time.Hour)))
	if err := os.Mkdir(filepath.Join(dir, "folder.csv"), 0o700); err != nil {
		t.Fatal(err)
	}
	absent, broken := filepath.Join(dir, "absent.csv"), write("broken.csv", header+"yesterday,1\n")
	for _, tc := range []struct {
		file   string
		status int
		want   string // on standard error; "" for nothing
	}{
		{absent, exitError, fmt.Sprintf("--source: %q: no such file; accepted: climatology, ", absent)},
		{filepath.Join(broken, "x.csv"), exitError, ": not a directory; accepted: "},
		{dir + "/folder.csv", exitError, ": a folder; accepted: climatology, "},
		{broken, exitOK, "warning: " + broken},
		{old, exitOK, "warning: " + old + " ends at " + now.Add(-100*24*time.Hour+30*time.Hour).UTC().Format(time.RFC3339) + ", 98 days ago: it does not say how clean power is now"},
		{late, exitOK, "warning: " + late + " ends at "},
		{fresh, exitOK, ""},
	} {
		for _, command := range [][]string{{"when", "--length", "5h"}, {"run", "--within", "1m", "--length", "59s", "--min-saving", "100"}, {"forecast"}} {
			args := append(command, "--zone", "DE", "--source", tc.file)
			status := tc.status
			switch {
			case command[0] == "run":
				args = append(args, "--", "true")
			case command[0] == "forecast" && tc.file == broken: // that has to show
				status = exitError
			}
			got, _, stderr := runMain(args...)
			named := strings.Contains(stderr, strings.TrimPrefix(tc.want, "warning: "))
			if got != status || !named || tc.want == "" && strings.Contains(stderr, "warning") {
				t.Errorf("%v: status %d, %s; want %d, %s", args, got, stderr, status, tc.want)
			}
		}
	}
}

// TestWhenSaysHowToStateACredential: if a provider refuses a request without a credential, the warning says how to state one.
func TestWhenSaysHowToStateACredential(t *testing.T) {
	t.Setenv("LULL_CREDENTIAL", "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	for _, args := range [][]string{{"electricityMaps", "DE"}, {"entsoE", "DE=10Y1001A1001A82H"}, {"eia", "MISO"}, {"wattTime", "CAISO_NORTH", "--user", "u"}} {
		when := append([]string{"when", "--length", "3h", "--endpoint", server.URL, "--source", args[0], "--zone", args[1]}, args[2:]...)
		const want = "no credential is stated; accepted: --credential-file FILE, or LULL_CREDENTIAL in the environment"
		if status, _, stderr := runMain(when...); status != exitOK || strings.Count(stderr, want) != 1 {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
		t.Setenv("LULL_CREDENTIAL", "wrong")
		if status, _, stderr := runMain(when...); status != exitOK || strings.Contains(stderr, want) || !strings.Contains(stderr, "refused") {
			t.Errorf("%v, with a credential: status %d, %s", args, status, stderr)
		}
		t.Setenv("LULL_CREDENTIAL", "")
	}
}

// TestCancelledWhenGivesNoResult: Ctrl-C while a provider is asked ends the command, without a result.
func TestCancelledWhenGivesNoResult(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			continue
		}
		asked, done := make(chan struct{}, 8), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-done:
			}
		}))
		cmd := lullProcess(t, "when", "--length", "3h", "--source", "electricityMaps", "--endpoint", server.URL)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-asked
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if status := endedWith(cmd.Wait(), cmd); status != exitSignal+int(s) || stdout.Len() > 0 || stderr.String() != "lull: canceled ("+s.String()+")\n" {
			t.Errorf("%v: status %d: %s%s", s, status, stdout.String(), stderr.String())
		}
		close(done)
		server.Close()
	}
}

// best returns a window that starts after a delay, in a zone without a name for its time.
func best(t *testing.T, delay time.Duration) *bestTime {
	t.Helper()
	now := time.Date(2026, 11, 26, 20, 52, 30, 0, time.FixedZone("", 3600))
	samples := []carbon.Sample{{From: now.Add(-time.Hour), To: now.Add(48 * time.Hour), Value: 300}}
	if delay > 0 {
		samples = []carbon.Sample{{From: now.Add(-time.Hour), To: now.Add(delay), Value: 300}, {From: now.Add(delay), To: now.Add(48 * time.Hour), Value: 100}}
	}
	s, err := carbon.NewSeries(carbon.Provenance{Zone: "DE", Basis: carbon.Climatology, Source: "a test"}, samples)
	if err != nil {
		t.Fatal(err)
	}
	w := &bestTime{now: now, length: 3 * time.Hour, within: 24 * time.Hour, cfg: source.Config{Zone: "DE", Signal: carbon.Average, Factor: carbon.Lifecycle}}
	w.outlook = source.Outlook{Outlook: carbon.Outlook{Expected: s, Low: s, High: s}, Basis: carbon.Climatology, Source: "a test"}
	if w.Choice, err = bestwindow.Find(s, w.request()); err != nil || w.Start.Sub(now) != delay {
		t.Fatal(err, w.Start.Sub(now))
	}
	return w
}

// TestWhenForSchedulers: local times as sbatch and at take them, never one that is past.
func TestWhenForSchedulers(t *testing.T) {
	for delay, want := range map[time.Duration][2]string{
		0:                             {"now", "202611262053"},
		20 * time.Second:              {"2026-11-26T20:52:50", "202611262053"},
		30 * time.Second:              {"2026-11-26T20:53:00", "202611262053"},
		3*time.Hour + 40*time.Second:  {"2026-11-26T23:53:10", "202611262353"},
		13*time.Hour + 30*time.Second: {"2026-11-27T09:53:00", "202611270953"},
	} {
		if w := best(t, delay); w.sbatch() != want[0] || w.atTime() != want[1] {
			t.Errorf("%v: %s, %s; want %v", delay, w.sbatch(), w.atTime(), want)
		}
	}
}

func TestWhenText(t *testing.T) {
	const want = `DE, average, lifecycle emissions
Start Fri 2026-11-27 08:52 +0100, in 12h, to save 66.7 %: 100 gCO2eq/kWh over the run instead of 300 gCO2eq/kWh for a start now.

  Thu 20:52 ████████████████████████▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁ Fri 20:52
                                    ^^^^^^
  window  Fri 2026-11-27 08:52 +0100 to 11:52
  range   100 to 100 gCO2eq/kWh (10 % to 90 %)
  latest  a start at Fri 2026-11-27 17:52 +0100 ends in time
  from    Climatology: a test
`
	if got := best(t, 12*time.Hour).text(); got != want {
		t.Errorf("%s", got)
	}
}

func TestWhenCalendar(t *testing.T) {
	a, b := best(t, 12*time.Hour).event(), best(t, 13*time.Hour).event()
	text := a.Calendar()
	for _, want := range []string{"DTSTART:20261127T075230Z\r\n", "DTEND:20261127T105230Z\r\n", "SUMMARY:Clean electricity in DE: run of 3h\r\n", `\nFrom Climatology: a test`} {
		if !strings.Contains(strings.ReplaceAll(text, "\r\n ", ""), want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	if a.UID == b.UID || a.UID != best(t, 12*time.Hour).event().UID {
		t.Errorf("UIDs %s, %s", a.UID, b.UID)
	}
}

func TestIntensityText(t *testing.T) {
	for v, want := range map[units.CarbonIntensity]string{0: "0 gCO2eq/kWh", 26.18: "26.2 gCO2eq/kWh", 445.4: "445 gCO2eq/kWh", 1234: "1234 gCO2eq/kWh"} {
		if got := intensityText(v); got != want {
			t.Errorf("%v: %q, want %q", float64(v), got, want)
		}
	}
}
