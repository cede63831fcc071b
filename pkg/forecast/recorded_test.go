package forecast_test

import (
	"errors"
	"strings"
	"testing"

	"lull.dev/lull/pkg/forecast"
)

// TestRecordedForecastsInOtherEncodingsAreRead: spreadsheets write a byte order mark, and PowerShell UTF-16.
func TestRecordedForecastsInOtherEncodingsAreRead(t *testing.T) {
	const text = "issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh\n2024-03-01T10:00:00Z,2024-03-01T10:00:00Z,1,2\n2024-03-01T10:00:00Z,2024-03-01T11:00:00Z,1,2\n"
	if issued, err := forecast.ReadRecorded(strings.NewReader("\ufeff" + text)); err != nil || len(issued) != 1 {
		t.Errorf("byte order mark: %v", err)
	}
	if _, err := forecast.ReadRecorded(strings.NewReader("issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh\n2023-01-01T00:00:00Z,\x00")); !errors.Is(err, forecast.ErrRecorded) || !strings.Contains(err.Error(), "line 2: NUL (U+0000); accepted: plain text in UTF-8") {
		t.Errorf("NUL: error %v", err)
	}
	if _, err := forecast.ReadRecorded(strings.NewReader("\xff\xfei\x00")); !errors.Is(err, forecast.ErrRecorded) || !strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("UTF-16: error %v", err)
	}
}
