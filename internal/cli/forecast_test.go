package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// trace writes a periodic series of n days and returns its file.
func trace(t *testing.T, name string, start time.Time, n int) string {
	t.Helper()
	text := "time,intensity_gco2eq_per_kwh\n"
	for h := range 24 * n {
		text += fmt.Sprintf("%s,%d\n", start.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 100+10*(h%24))
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestBacktestCommand(t *testing.T) {
	start := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	first, second := trace(t, "a.csv", start, 20), trace(t, "b.csv", start.AddDate(0, 0, 20), 20)
	var stdout, stderr bytes.Buffer
	if status := Main([]string{"forecast", "backtest", first, second, "--from", "2023-01-21"}, strings.NewReader(""), &stdout, &stderr); status != exitOK {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	for _, line := range strings.Split(stdout.String(), "\n") {
		exact := strings.Contains(line, "same hour") || strings.Contains(line, "(Piontek, past") || strings.Contains(line, "perfect")
		if exact && !strings.HasPrefix(strings.TrimSpace(line), "0.0 %") {
			t.Errorf("a periodic series is not predicted exactly: %s", line)
		}
	}
	for _, want := range []string{"blend", "Holt-Winters", "ridge", "starting at once", "24 h"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is missing:\n%s", want, stdout.String())
		}
	}
}

func TestBacktestCommandErrors(t *testing.T) {
	file := trace(t, "a.csv", time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), 20)
	for want, args := range map[string][]string{
		"no such file":      {"absent.csv"},
		`--from: "soon"`:    {file, "--from", "soon"},
		"--lead: 1h30m0s":   {file, "--lead", "90m"},
		"do not fit":        {file, "--lead", "240h"},
		"nothing to replay": {},
		`--output: "pdf"`:   {file, "-o", "pdf"},
		`--zone: "XX"`:      {file, "--zone", "XX"},
		"invalid recorded":  {"--recorded", file},
		"no other traces":   {file, "--recorded", file},
	} {
		var stdout, stderr bytes.Buffer
		if status := Main(append([]string{"forecast", "backtest"}, args...), strings.NewReader(""), &stdout, &stderr); status != exitError || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: status %d, %q; want 1 and %q", args, status, stderr.String(), want)
		}
	}
}
