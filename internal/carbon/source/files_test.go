package source_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lull.dev/lull/internal/carbon/source"
)

// TestFilesThatOverlap: a measured value stands over an estimated one, that over a forecast; of equals the later file's.
func TestFilesThatOverlap(t *testing.T) {
	const header = "time,intensity_gco2eq_per_kwh,estimated\n"
	csv := func(rows ...string) string { // "HH value estimated"
		var b strings.Builder
		b.WriteString(header)
		for _, r := range rows {
			var hour, value int
			var estimated bool
			if _, err := fmt.Sscan(r, &hour, &value, &estimated); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "2024-03-01T%02d:00:00Z,%d,%v\n", hour, value, estimated)
		}
		return b.String()
	}
	// The hour from 10:00 was over when this was published, those from 11:00 and 12:00 lay ahead.
	const forecast = `{"issued": "2024-03-01T11:00:00Z", "data": [{"time": "2024-03-01T10:00:00Z", "value": 40},
		{"time": "2024-03-01T11:00:00Z", "value": 41}, {"time": "2024-03-01T12:00:00Z", "value": 42}]}`
	for _, tc := range []struct {
		name  string
		files []string // a name's end and the content
		want  string
	}{
		{"one after the other", []string{".csv", csv("10 1 false", "11 2 false"), ".csv", csv("12 3 false")}, "10:1 11:2 12:3"},
		{"in the wrong order", []string{".csv", csv("12 3 false"), ".csv", csv("10 1 false", "11 2 false")}, "10:1 11:2 12:3"},
		{"equals: the later file", []string{".csv", csv("10 1 false", "11 2 false"), ".csv", csv("11 9 false", "12 3 false")}, "10:1 11:9 12:3"},
		{"the same file twice", []string{".csv", csv("10 1 false", "11 2 true"), ".csv", csv("10 1 false", "11 2 true")}, "10:1 11:2~"},
		{"measured over estimated", []string{".csv", csv("10 1 false", "11 2 true"), ".csv", csv("10 8 true", "11 9 false")}, "10:1 11:9"},
		{"estimated over forecast", []string{".csv", csv("10 1 true", "11 2 true"), ".json", forecast}, "10:40 11:2~ 12:42"},
		{"forecast first", []string{".json", forecast, ".csv", csv("11 2 true", "12 3 false")}, "10:40 11:2~ 12:3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var files []string
			for i := 0; i < len(tc.files); i += 2 {
				file := filepath.Join(t.TempDir(), fmt.Sprint(i)+tc.files[i])
				if err := os.WriteFile(file, []byte(tc.files[i+1]), 0o600); err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
			s, err := source.ReadFiles(files...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range s.Len() {
				x := s.Sample(i)
				text := fmt.Sprintf("%d:%v", x.From.Hour(), float64(x.Value))
				if x.Estimated {
					text += "~"
				}
				got = append(got, text)
			}
			if got := strings.Join(got, " "); got != tc.want {
				t.Errorf("%s; want %s", got, tc.want)
			}
		})
	}
}

// TestFilesOfAnotherZone: files that speak of different things make no series.
func TestFilesOfAnotherZone(t *testing.T) {
	const data = `"data": [{"time": "2024-03-01T10:00:00Z", "value": 40}]}`
	const plain = "time,intensity_gco2eq_per_kwh\n2024-03-01T09:00:00Z,1\n"
	for name, tc := range map[string]struct{ first, second, want string }{
		"zone":   {`{"zone": "DE", ` + data, `{"zone": "FR", ` + data, `zone: "FR"; accepted: "DE", that of `},
		"signal": {`{"signal": "average", ` + data, `{"signal": "marginal", ` + data, `signal: "marginal"; accepted: "average", that of `},
		"factor": {`{"factor": "direct", ` + data, `{"factor": "lifecycle", ` + data, `factor: "lifecycle"; accepted: "direct", that of `},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var files []string
			for name, text := range map[string]string{"a.json": tc.first, "b.csv": plain, "c.json": tc.second} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"a.json", "b.csv", "c.json"} { // the one between states nothing
				files = append(files, filepath.Join(dir, name))
			}
			_, err := source.ReadFiles(files...)
			if err == nil || !strings.Contains(err.Error(), tc.want+files[0]) || !strings.HasPrefix(err.Error(), files[2]) {
				t.Errorf("%v; want %s: ... %s%s", err, files[2], tc.want, files[0])
			}
		})
	}
}
