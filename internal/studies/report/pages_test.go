package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// wellFormed parses the pictures of a page as XML.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	for _, part := range strings.Split(page, "<svg")[1:] {
		picture, _, ok := strings.Cut(part, "</svg>")
		if !ok {
			t.Fatal("a picture does not end")
		}
		dec := xml.NewDecoder(strings.NewReader("<svg" + picture + "</svg>"))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a picture is not well formed: %v", err)
			}
		}
	}
	for _, bad := range []string{"NaN", "Inf", "<script", "http://", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

func TestForecastPage(t *testing.T) {
	from := time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)
	for _, hours := range []int{1, 48, 336} {
		p := Forecast{Title: "Zone <script>x</script>"}
		for h := range hours {
			basis := "LiveForecast"
			if h > 24 {
				basis = "OwnForecast"
			}
			p.Hours = append(p.Hours, ForecastHour{Time: from.Add(time.Duration(h) * time.Hour), Low: 50, Value: 100 + float64(h%24), High: 200, Basis: basis, Source: "a & b"})
		}
		var b bytes.Buffer
		if err := WriteForecast(&b, p); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, b.String())
		if want := min(hours/25+1, 2); strings.Count(b.String(), "<li>") != want {
			t.Errorf("%d hours: %d lines on what they rest on, want %d", hours, strings.Count(b.String(), "<li>"), want)
		}
	}
	if err := WriteForecast(io.Discard, Forecast{}); err == nil {
		t.Error("a page of nothing")
	}
}

func TestBacktestPage(t *testing.T) {
	b := Backtest{Title: "t", Agnostic: 30, Rows: []BacktestRow{
		{Name: "<b>bold</b>", Live: true, Regret: 5, Leads: []float64{1, 2, 3}}, {Name: "foresight", Leads: []float64{0, 0, 0}},
	}}
	var out bytes.Buffer
	if err := WriteBacktest(&out, b); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, out.String())
	if strings.Contains(out.String(), "<b>bold") || !strings.Contains(out.String(), "starting at once") {
		t.Errorf("page:\n%s", out.String())
	}
}

// TestChartsAreWellFormed: pictures of lines, stairs, points, names and dates are well formed, on
// their own as well, whatever the values.
func TestChartsAreWellFormed(t *testing.T) {
	from := time.Date(2023, 5, 10, 7, 0, 0, 0, time.UTC)
	d := Document{Title: "A & b", Sections: []Section{{Head: []string{"x"}, Rows: [][]string{{"1 < 2"}}, Notes: []string{"n"}}}}
	for _, c := range []Chart{
		{Title: "none"},
		{Title: "one", Series: []Series{{Name: "a", X: []float64{3}, Y: []float64{-4}}}},
		{Title: "lines <b>", XUnit: " h", YUnit: " %", Series: []Series{{Name: "a<", X: []float64{0, 1, 5}, Y: []float64{0, -10, 1e6}}, {Name: "b", X: []float64{0, 5}, Y: []float64{1, 1}, Stairs: true}}},
		{Title: "dates", From: from, Series: []Series{{Name: "a", X: []float64{0, 8760}, Y: []float64{1, 2}}}},
		{Title: "day", From: from, Series: []Series{{Name: "a", X: []float64{0, 20}, Y: []float64{1, 2}}}},
		{Title: "points", XNames: []string{"DE", "S&E"}, Series: []Series{{Name: "p", Points: true, X: []float64{0, 1}, Y: []float64{1, 2}, Labels: []string{"l<"}}}},
	} {
		d.Sections = append(d.Sections, Section{Title: c.Title, Picture: c.SVG()})
		wellFormed(t, "<svg"+strings.Replace(c.Standalone(), `<svg xmlns="http://www.w3.org/2000/svg"`, "", 1))
	}
	var b bytes.Buffer
	if err := WriteDocument(&b, d); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	if !strings.Contains(b.String(), "2023-05-10 12:00") && !strings.Contains(b.String(), "2023-05-10 18:00") {
		t.Error("the picture of a day lacks its hours")
	}
	if x, y := Thin([]float64{1, 2, 3, 4, 5}, 2); len(x) != 2 || y[0] != 2 || y[1] != 4.5 {
		t.Errorf("thinned to %v %v", x, y)
	}
	if x, y := CDF([]float64{1, 2, 3, 4}, 2); x[len(x)-1] != 4 || y[len(y)-1] != 1 {
		t.Errorf("distribution %v %v", x, y)
	}
}
