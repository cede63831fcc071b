package carbon

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const head = "time,intensity_gco2eq_per_kwh\n"

func TestReadCSV(t *testing.T) {
	s, err := ReadCSV(strings.NewReader(head+`2023-11-14T11:00:00Z,100
2023-11-14T11:30:00Z,200
2023-11-14T12:00:00Z,
2023-11-14T13:30:00+01:00,50.5
`), Provenance{Zone: "DE", Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Len() != 3 || s.Zone != "DE" {
		t.Fatalf("%d samples of %q, want 3 of DE", s.Len(), s.Zone)
	}
	if got := s.Sample(0); got.To.Sub(got.From) != 30*time.Minute {
		t.Errorf("step %v, want the usual distance, 30 min", got.To.Sub(got.From))
	}
	if _, ok := s.At(t0.Add(70 * time.Minute)); ok {
		t.Error("an empty value is no gap")
	}
	if x, ok := s.At(t0.Add(95 * time.Minute)); !ok || x.Value != 50.5 {
		t.Errorf("a time with an offset was misread: %v %v", x, ok)
	}
}

// TestReadCSVSteps: one stray row does not change the step of the others, and the step of a
// file may change.
func TestReadCSVSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		rows  []string
		want  []time.Duration // of each sample
		total time.Duration
	}{
		"a stray row":            {[]string{"11:00", "12:00", "13:00", "13:30", "14:00", "15:00"}, []time.Duration{60, 60, 30, 30, 60, 60}, 5 * time.Hour},
		"a stray row at the end": {[]string{"11:00", "12:00", "13:00", "13:10"}, []time.Duration{60, 60, 10, 60}, 190 * time.Minute},
		"a gap":                  {[]string{"11:00", "12:00", "15:00", "16:00"}, []time.Duration{60, 60, 60, 60}, 4 * time.Hour},
		"half hours with gaps":   {[]string{"11:00", "11:30", "13:00", "13:30", "16:00"}, []time.Duration{30, 30, 30, 30, 30}, 150 * time.Minute},
		"as many of each":        {[]string{"11:00", "11:30", "12:30"}, []time.Duration{30, 30, 30}, 90 * time.Minute},
		"a change":               {[]string{"08:00", "09:00", "10:00", "10:15", "10:30", "10:45"}, []time.Duration{60, 60, 15, 15, 15, 15}, 3 * time.Hour},
		"a single row":           {[]string{"11:00"}, []time.Duration{60}, time.Hour},
	} {
		text := head
		for _, at := range tc.rows {
			text += "2023-11-14T" + at + ":00Z,100\n"
		}
		s, err := ReadCSV(strings.NewReader(text), Provenance{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, want := range tc.want {
			if x := s.Sample(i); x.To.Sub(x.From) != want*time.Minute {
				t.Errorf("%s: sample %d is valid for %v, want %v", name, i, x.To.Sub(x.From), want*time.Minute)
			}
		}
		if _, covered := s.Mean(s.Start(), s.End()); covered != tc.total {
			t.Errorf("%s: %v covered, want %v", name, covered, tc.total)
		}
	}
}

func TestReadCSVErrorsNameLineAndValue(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty file":    {"", "empty"},
		"header only":   {head, "no rows; accepted: at least one row with a time and an intensity"},
		"wrong header":  {"when,much\n1,2\n", "when,much"},
		"bad time":      {head + "yesterday,5\n", `line 2: time: "yesterday"`},
		"NaN":           {head + "2023-11-14T11:00:00Z,NaN\n", `line 2: intensity_gco2eq_per_kwh: "NaN"`},
		"infinite":      {head + "2023-11-14T11:00:00Z,+Inf\n", `"+Inf"`},
		"negative":      {head + "2023-11-14T11:00:00Z,-3\n", `"-3"`},
		"words":         {head + "2023-11-14T11:00:00Z,low\n", `"low"`},
		"unsorted":      {head + "2023-11-14T12:00:00Z,1\n2023-11-14T11:00:00Z,1\n", "line 3"},
		"UTF-16":        {"\xff\xfet\x00i\x00", "UTF-16, as older PowerShell writes with >; accepted: UTF-8"},
		"gzip":          {"\x1f\x8b\x08", ".gz"},
		"NUL":           {head + "2023-11-14T11:00:00Z,1\x00\n", "line 2: NUL (U+0000); accepted: plain text in UTF-8"},
		"semicolons":    {strings.ReplaceAll(head, ",", ";") + "2023-11-14T12:00:00Z;1\n", "the columns are separated by semicolons; accepted: commas"},
		"column short":  {head + "2023-11-14T12:00:00Z\n", "line 2: 1 fields; accepted: 2"},
		"estimated odd": {"time,intensity_gco2eq_per_kwh,estimated\n2023-11-14T12:00:00Z,1,perhaps\n", `"perhaps"`},
	} {
		_, err := ReadCSV(strings.NewReader(tc.text), Provenance{})
		if !errors.Is(err, ErrSeries) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want ErrSeries naming %q", name, err, tc.want)
		}
	}
}

// TestRepeatedRowsAreCombined: rows of one time are combined by the rule for answers of providers, in CSV and in JSON.
func TestRepeatedRowsAreCombined(t *testing.T) {
	type row struct {
		time, value string
		estimated   bool
	}
	const a, sameAsA, b = "2023-11-14T11:00:00Z", "2023-11-14T12:00:00+01:00", "2023-11-14T12:00:00Z"
	for name, tc := range map[string]struct {
		rows []row
		want string
	}{
		"equal rows":       {[]row{{a, "1", false}, {a, "1", false}, {b, "2", false}}, "11:00 60 1, 12:00 60 2"},
		"a revision":       {[]row{{a, "1", false}, {a, "3", false}, {b, "2", false}}, "11:00 60 3, 12:00 60 2"},
		"nothing later":    {[]row{{a, "1", false}, {a, "", false}, {b, "2", false}}, "11:00 60 1, 12:00 60 2"},
		"nothing first":    {[]row{{a, "", false}, {a, "1", true}, {b, "2", false}}, "11:00 60 1, 12:00 60 2"},
		"an estimate late": {[]row{{a, "1", false}, {sameAsA, "3", true}, {b, "2", false}}, "11:00 60 1, 12:00 60 2"},
		"a measured late":  {[]row{{a, "3", true}, {sameAsA, "1", false}, {b, "2", false}}, "11:00 60 1, 12:00 60 2"},
	} {
		csv, entries := strings.TrimSuffix(head, "\n")+",estimated\n", []string{"null"}
		for _, r := range tc.rows {
			csv += fmt.Sprintf("%s,%s,%v\n", r.time, r.value, r.estimated)
			entries = append(entries, fmt.Sprintf(`{"time":%q,"value":%s,"estimated":%v}`, r.time, cmp.Or(r.value, "null"), r.estimated))
		}
		for form, read := range map[string]func() (*Series, error){
			"CSV": func() (*Series, error) { return ReadCSV(strings.NewReader(csv), Provenance{}) },
			"JSON": func() (*Series, error) {
				return ReadJSON(strings.NewReader(`{"data":[`+strings.Join(entries, ",")+`]}`), Provenance{})
			},
		} {
			s, err := read()
			if err != nil {
				t.Errorf("%s, %s: %v", name, form, err)
				continue
			}
			var got []string
			for i := range s.Len() {
				x := s.Sample(i)
				got = append(got, fmt.Sprintf("%s %g %g", x.From.UTC().Format("15:04"), x.To.Sub(x.From).Minutes(), float64(x.Value)))
			}
			if strings.Join(got, ", ") != tc.want {
				t.Errorf("%s, %s: %s, want %s", name, form, got, tc.want)
			}
		}
	}
}

// TestReadByteOrderMark: the tools of Windows write one, before a quote too.
func TestReadByteOrderMark(t *testing.T) {
	if _, err := ReadCSV(strings.NewReader("\ufeff\"time\",\"intensity_gco2eq_per_kwh\"\r\n\"2023-11-14T11:00:00Z\",\"1\"\r\n"), Provenance{}); err != nil {
		t.Error(err)
	}
	if _, err := ReadJSON(strings.NewReader("\ufeff"+`{"data":[{"time":"2023-11-14T11:00:00Z","value":1}]}`), Provenance{}); err != nil {
		t.Error(err)
	}
}

func TestReadJSON(t *testing.T) {
	s, err := ReadJSON(strings.NewReader(`{"zone": "GB", "signal": "marginal", "factor": "direct", "source": "x",
 "issued": "2023-11-14T10:55:00Z", "data": [
 {"time": "2023-11-14T11:00:00Z", "value": 100, "estimated": true},
 {"time": "2023-11-14T12:00:00Z", "value": null},
 {"time": "2023-11-14T13:00:00Z", "value": 0}]}`), Provenance{Zone: "DE", Signal: Average})
	if err != nil {
		t.Fatal(err)
	}
	if s.Zone != "GB" || s.Signal != Marginal || s.Factor != Direct || s.IssuedAt.IsZero() {
		t.Errorf("provenance %+v: what the file states must win", s.Provenance)
	}
	if s.Len() != 2 || !s.Sample(0).Estimated {
		t.Errorf("%d samples, want 2 with a gap between", s.Len())
	}
}

func TestReadJSONRejects(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"not JSON":      {"<html>", "invalid"},
		"empty":         {`{"data": []}`, "no rows"},
		"unknown field": {`{"zones": "DE", "data": []}`, `"zones"`},
		"trailing":      {`{"data": [{"time": "2023-11-14T11:00:00Z", "value": 1}]} {}`, "more data"},
		"bad time":      {`{"data": [{"time": "11:00", "value": 1}]}`, `data[0].time: "11:00"`},
		"negative":      {`{"data": [{"time": "2023-11-14T11:00:00Z", "value": -1}]}`, "data[0].value: -1"},
		"signal":        {`{"signal": "mean", "data": []}`, `"mean"`},
		"factor":        {`{"factor": "scope2", "data": []}`, `"scope2"`},
		"issued":        {`{"issued": "now", "data": []}`, `"now"`},
		"unsorted":      {`{"data": [{"time": "2023-11-14T12:00:00Z", "value": 1}, {"time": "2023-11-14T11:00:00Z", "value": 1}]}`, "entry 1"},
	} {
		_, err := ReadJSON(strings.NewReader(tc.text), Provenance{})
		if !errors.Is(err, ErrSeries) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want ErrSeries naming %q", name, err, tc.want)
		}
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add(head + "2023-11-14T11:00:00Z,100\n2023-11-14T12:00:00Z,\n")
	f.Add(head + "2023-11-14T11:00:00Z,NaN\n")
	f.Add(portal2025 + portalRows("DE"))
	f.Add(portal2023 + portalRows("DE"))
	f.Add("\ufefftime,intensity_gco2eq_per_kwh,estimated\n2023-11-14T11:00:00Z,1,true\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadCSV(strings.NewReader(text), Provenance{})
		checkRead(t, s, err)
	})
}

func FuzzReadJSON(f *testing.F) {
	f.Add(`{"zone": "DE", "data": [{"time": "2023-11-14T11:00:00Z", "value": 322.5}]}`)
	f.Add(`{"data": [{"time": "0001-01-01T00:00:00Z", "value": 1}, {"time": "9999-01-01T00:00:00Z", "value": null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadJSON(strings.NewReader(text), Provenance{})
		checkRead(t, s, err)
	})
}

// checkRead: a reader either refuses with ErrSeries or returns a series whose
// samples are valid and in order.
func checkRead(t *testing.T, s *Series, err error) {
	if err != nil {
		if !errors.Is(err, ErrSeries) {
			t.Fatalf("error of another kind: %v", err)
		}
		return
	}
	for i := range s.Len() {
		x := s.Sample(i)
		if !x.Value.Valid() || !x.To.After(x.From) || (i > 0 && x.From.Before(s.Sample(i-1).To)) {
			t.Fatalf("invalid sample %d: %+v", i, x)
		}
	}
}

// TestReadRefusesImpossibleIntensities: one such value would make every sum that it enters infinite.
func TestReadRefusesImpossibleIntensities(t *testing.T) {
	for _, value := range []string{"1.7e308", "3001", "NaN", "-1"} {
		if _, err := ReadCSV(strings.NewReader("time,intensity_gco2eq_per_kwh\n2026-03-01T00:00:00Z,"+value+"\n"), Provenance{}); !errors.Is(err, ErrSeries) || !strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), "accepted: 0 to 3000 gCO2eq/kWh") {
			t.Errorf("CSV, %s: %v", value, err)
		}
	}
	if _, err := ReadJSON(strings.NewReader(`{"data":[{"time":"2026-03-01T00:00:00Z","value":1.7e308}]}`), Provenance{}); !errors.Is(err, ErrSeries) || !strings.Contains(err.Error(), "data[0].value: 1.7e+308; accepted: 0 to 3000 gCO2eq/kWh") {
		t.Errorf("JSON: %v", err)
	}
}
