package provider

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// series writes a TimeSeries of ENTSO-E from 2023-08-23T00:00Z on.
func series(psr, resolution string, hours int, values ...float64) string {
	points := ""
	for i, v := range values {
		points += fmt.Sprintf("<Point><position>%d</position><quantity>%g</quantity></Point>", i+1, v)
	}
	end := time.Date(2023, 8, 23, hours, 0, 0, 0, time.UTC).Format("2006-01-02T15:04Z")
	return fmt.Sprintf("<TimeSeries><curveType>A01</curveType><MktPSRType><psrType>%s</psrType></MktPSRType><Period><timeInterval><start>2023-08-23T00:00Z</start><end>%s</end></timeInterval><resolution>%s</resolution>%s</Period></TimeSeries>", psr, end, resolution, points)
}

func entsoeMixes(t *testing.T, parts ...string) mixes {
	t.Helper()
	into := mixes{}
	if err := decodeEntsoE([]byte("<GL_MarketDocument>"+strings.Join(parts, "")+"</GL_MarketDocument>"), into); err != nil {
		t.Fatal(err)
	}
	return into
}

// intervals writes samples as "hh:mm minutes value".
func intervals(s []carbon.Sample, err error) string {
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, x := range s {
		out = append(out, fmt.Sprintf("%s %g %g", x.From.Format("15:04"), x.To.Sub(x.From).Minutes(), math.Round(float64(x.Value)*10)/10))
	}
	return strings.Join(out, ", ")
}

// TestSamplesHaveTheStatedIntervals: samples have the intervals that the answer states, or those that its rows show.
func TestSamplesHaveTheStatedIntervals(t *testing.T) {
	rows := func(format, between string, minutes ...int) string {
		var out []string
		for i, m := range minutes {
			at := time.Date(2023, 8, 23, 0, m, 0, 0, time.UTC)
			length := 0
			if i+1 < len(minutes) {
				length = minutes[i+1] - m
			}
			text := strings.NewReplacer("FROM", at.Format(time.RFC3339), "TO", at.Add(time.Duration(length)*time.Minute).Format("2006-01-02T15:04Z"), "LENGTH", fmt.Sprint(length)).Replace(format)
			if length > 0 {
				out = append(out, text)
			}
		}
		return strings.Join(out, between)
	}
	change := []int{0, 60, 120, 135, 150, 165}
	const changed = "00:00 60 5, 01:00 60 5, 02:00 15 5, 02:15 15 5, 02:30 15 5"
	for name, tc := range map[string]struct{ got, want string }{
		"UK":                                       {intervals(decodeUKCarbonIntensity([]byte(`{"data":[`+rows(`{"from":"FROM","to":"TO","intensity":{"actual":5}}`, ",", change...)+`]}`), 0, carbon.Provenance{})), changed},
		"Carbon Aware":                             {intervals(DecodeCarbonAwareList([]byte(`[`+rows(`{"location":"x","time":"FROM","value":5,"duration":LENGTH}`, ",", change...)+`]`), "x", carbon.Provenance{})), changed},
		"Electricity Maps, starts alone":           {intervals(electricityMaps([]byte(`{"zone":"DE","history":[` + rows(`{"datetime":"FROM","carbonIntensity":5}`, ",", change...) + `]}`))), changed},
		"Electricity Maps, stated":                 {intervals(electricityMaps([]byte(`{"zone":"DE","temporalGranularity":"15_minutes","history":[{"datetime":"2023-08-23T00:00:00Z","value":5},{"datetime":"2023-08-23T01:00:00Z","value":5}]}`))), "00:00 15 5, 01:00 15 5"},
		"Electricity Maps, stated for each":        {intervals(electricityMaps([]byte(`{"zone":"DE","history":[{"datetime":"2023-08-23T00:00:00Z","value":5,"temporalGranularity":"hourly"},{"datetime":"2023-08-23T03:00:00Z","value":5,"temporalGranularity":"5_minutes"}]}`))), "00:00 60 5, 03:00 5 5"},
		"WattTime, missing points":                 {intervals(decodeWattTime([]byte(`{"data":[{"point_time":"2023-08-23T00:00:00Z","value":0},{"point_time":"2023-08-23T01:00:00Z","value":0}],"meta":{"region":"r","signal_type":"s","units":"lbs_co2_per_mwh","data_point_period_seconds":300}}`), "r", "s", carbon.Provenance{})), "00:00 5 0, 01:00 5 0"},
		"ENTSO-E, hourly and quarter-hourly types": {intervals(mixSamples(entsoeMixes(t, series("B04", "PT60M", 2, 1000, 1000), series("B19", "PT15M", 1, 0, 1000, 0, 1000)), entsoeFactors)), "00:00 15 469, 00:15 15 240.5, 00:30 15 469, 00:45 15 240.5, 01:00 60 469"},
		"ENTSO-E, hourly alone":                    {intervals(mixSamples(entsoeMixes(t, series("B04", "PT60M", 2, 1000, 1000)), entsoeFactors)), "00:00 60 469, 01:00 60 469"},
		"ENTSO-E, one type twice":                  {intervals(mixSamples(entsoeMixes(t, series("B04", "PT60M", 1, 1000), series("B19", "PT60M", 1, 1000), series("B04", "PT60M", 1, 3000)), entsoeFactors)), "00:00 60 354.8"},
		"ENTSO-E, one type in two resolutions":     {intervals(mixSamples(entsoeMixes(t, series("B04", "PT15M", 1, 1000, 1000, 1000, 1000), series("B19", "PT60M", 1, 1000), series("B04", "PT60M", 1, 3000)), entsoeFactors)), "00:00 15 240.5, 00:15 15 240.5, 00:30 15 240.5, 00:45 15 240.5"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, tc.got, tc.want)
		}
	}
}

// TestForecastSteps: A71 and A69 each have steps of their own; the forecast has the finer ones and their mean.
func TestForecastSteps(t *testing.T) {
	rest := map[int]float64{0: 469, 1: 469}
	sun := series("B16", "PT15M", 2, 0, 2000, 4000, 6000, 0, 0, 0, 0)
	quarters := "00:00 15 377.6, 00:15 15 293, 00:30 15 208.4, 00:45 15 123.8, 01:00 15 377.6, 01:15 15 377.6, 01:30 15 377.6, 01:45 15 377.6"
	for name, tc := range map[string]struct {
		total, weather []string
		want           string
	}{
		"total by the hour":         {[]string{series("", "PT60M", 2, 10000, 10000)}, []string{sun, series("B19", "PT60M", 2, 2000, 2000)}, quarters},
		"weather by the hour":       {[]string{series("", "PT30M", 1, 10000, 5000)}, []string{series("B19", "PT60M", 1, 2000)}, "00:00 30 377.6, 00:30 30 286.2"},
		"wind for the first hour":   {[]string{series("", "PT60M", 2, 10000, 10000)}, []string{sun, series("B19", "PT60M", 1, 2000)}, strings.Join(strings.SplitN(quarters, ", ", 5)[:4], ", ")},
		"total for the first hour":  {[]string{series("", "PT60M", 1, 10000)}, []string{series("B19", "PT60M", 2, 2000, 2000)}, "00:00 60 377.6"},
		"the same total said twice": {[]string{series("", "PT60M", 1, 10000), series("", "PT60M", 1, 10000)}, []string{series("B19", "PT60M", 1, 2000)}, "00:00 60 377.6"},
	} {
		points := entsoeForecast(entsoeMixes(t, tc.total...), entsoeMixes(t, tc.weather...), rest)
		if got := intervals(samples(points, time.Hour, carbon.Provenance{})); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
}

// TestMeasuredValueReplacesOthers: of values of one time in an answer, in any order, a value stands over none and a measured one
// over an estimated one; else the later one stands.
func TestMeasuredValueReplacesOthers(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		points []point
		want   string
	}{
		"a revision":          {[]point{{at: at, value: 1}, {at: at, value: 2}}, "00:00 60 2"},
		"a null later":        {[]point{{at: at, value: 1}, {at: at, gap: true}}, "00:00 60 1"},
		"a null first":        {[]point{{at: at, gap: true}, {at: at, value: 1}}, "00:00 60 1"},
		"an estimate later":   {[]point{{at: at, value: 1}, {at: at, value: 2, estimated: true}}, "00:00 60 1"},
		"an estimate first":   {[]point{{at: at, value: 2, estimated: true}, {at: at, value: 1}}, "00:00 60 1"},
		"pages in any order":  {[]point{{at: at.Add(time.Hour), value: 2}, {at: at, value: 1}, {at: at.Add(time.Hour), value: 2}}, "00:00 60 1, 01:00 60 2"},
		"two estimates of it": {[]point{{at: at, value: 2, estimated: true}, {at: at, value: 1, estimated: true}}, "00:00 60 1"},
	} {
		if got := intervals(samples(tc.points, time.Hour, carbon.Provenance{})); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// pages answers each request of EIA with one of its pages, by offset; an hour is split between two.
type pages struct {
	asked []string
	list  []string
}

func (p *pages) Get(_ context.Context, r fetch.Request) (fetch.Response, error) {
	u, err := url.Parse(r.URL)
	p.asked = append(p.asked, u.Query().Get("offset"))
	n := min(len(p.asked), len(p.list)) - 1
	return fetch.Response{Body: []byte(fmt.Sprintf(`{"response":{"total":5,"data":[%s]}}`, p.list[n]))}, err
}

// TestRowsOnTwoPagesCountOnce: rows of an hour that come twice, on pages in another order, count once; pages may be shorter than was asked for.
func TestRowsOnTwoPagesCountOnce(t *testing.T) {
	row := func(fuel string, value int) string {
		return fmt.Sprintf(`{"period":"2026-01-01T00","respondent":"CISO","fueltype":%q,"value":"%d"}`, fuel, value)
	}
	p := &pages{list: []string{row("NG", 1000) + "," + row("NUC", 1000), row("NG", 1000) + "," + row("WND", 1000), row("NUC", 2000)}}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := EIA{Respondent: "CISO"}.Fetch(context.Background(), p, Query{Since: at, Now: at.Add(time.Hour)})
	if got, want := intervals(a.Past, err), "00:00 60 128.3"; got != want { // (469 + 2*16 + 12) / 4
		t.Errorf("%s, want %s", got, want)
	}
	if got := strings.Join(p.asked, " "); got != "0 2 4" {
		t.Errorf("pages from %s, want 0 2 4", got)
	}
}

// TestPagesWithoutTotal: if an answer does not state how many rows there are, a full page is not the last one; a value that cannot
// be read does not end the pages.
func TestPagesWithoutTotal(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	page := func(from, n int, value string) []byte {
		rows := make([]string, n)
		for i := range rows {
			rows[i] = fmt.Sprintf(`{"period":%q,"respondent":"CISO","fueltype":"NG","value":%s}`, at.Add(time.Duration(from+i)*time.Hour).Format("2006-01-02T15"), value)
		}
		return []byte(`{"response":{"data":[` + strings.Join(rows, ",") + `]}}`)
	}
	rows, total, err := decodeEIA(page(0, eiaPage, `"1"`), "CISO", mixes{})
	if err != nil || rows != eiaPage || total <= eiaPage {
		t.Errorf("a full page: %d rows of %d, %v", rows, total, err)
	}
	if rows, total, err = decodeEIA(page(0, 3, `"1"`), "CISO", mixes{}); err != nil || rows < total {
		t.Errorf("a short page: %d rows of %d, %v", rows, total, err)
	}
	p := &pages{list: []string{`{"period":"2026-01-01T00","respondent":"CISO","fueltype":"NG","value":"x"},{"period":"2026-01-01T01","respondent":"CISO","fueltype":"NG","value":1}`,
		`{"period":"2026-01-01T02","respondent":"CISO","fueltype":"NG","value":1},{"period":"2026-01-01T03","respondent":"CISO","fueltype":"NG","value":1},null`}}
	a, err := EIA{Respondent: "CISO"}.Fetch(context.Background(), p, Query{Since: at, Now: at.Add(4 * time.Hour)})
	if got, want := intervals(a.Past, nil), "01:00 60 469, 02:00 60 469, 03:00 60 469"; got != want || err == nil || !strings.Contains(err.Error(), `page 1: data[0].value: unexpected answer: "x"`) {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
}

// TestLastIssuedForecastCounts: of several, the last one issued counts.
func TestLastIssuedForecastCounts(t *testing.T) {
	text := func(issued, value string) string {
		return `{"generatedAt":"2024-01-01T` + issued + `:00Z","location":"x","forecastData":[{"location":"x","timestamp":"2024-01-02T00:00:00Z","duration":60,"value":` + value + `}]}`
	}
	for _, list := range []string{text("06:00", "1") + "," + text("07:00", "2"), text("07:00", "2") + "," + text("06:00", "1")} {
		s, err := decodeCarbonAwareForecast([]byte("["+list+"]"), "x", carbon.Provenance{})
		if got := intervals(s, err); got != "00:00 60 2" || s[0].Of.IssuedAt.Hour() != 7 {
			t.Errorf("%s", got)
		}
	}
}

// TestRepeatedRegionIsCombined: a region that is there twice is combined.
func TestRepeatedRegionIsCombined(t *testing.T) {
	part := `{"regionid":3,"data":[{"from":"2018-05-15T%s","to":"2018-05-15T%s","intensity":{"forecast":%d}}]}`
	body := `{"data":[` + fmt.Sprintf(part, "12:30Z", "13:00Z", 2) + "," + fmt.Sprintf(part, "12:00Z", "12:30Z", 1) + "," + fmt.Sprintf(part, "12:30Z", "13:00Z", 3) + `]}`
	if got, want := intervals(decodeUKCarbonIntensity([]byte(body), 3, carbon.Provenance{})), "12:00 30 1, 12:30 30 3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
