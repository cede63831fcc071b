package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// TestOddElementsCostOnlyThemselves: an element of a list that is null says nothing, a number may be a string, and what cannot be read costs
// itself and no other.
func TestOddElementsCostOnlyThemselves(t *testing.T) {
	const from, next, last = `"2023-08-23T00:00:00Z"`, `"2023-08-23T01:00:00Z"`, `"2023-08-23T02:00:00Z"`
	em := func(list string) ([]carbon.Sample, error) {
		return electricityMaps([]byte(`{"zone":"DE","history":[` + list + `]}`))
	}
	sandbox := func(list string) ([]carbon.Sample, error) {
		return electricityMaps([]byte(`{"zone":"DE","_disclaimer":"This data contains randomised values. Contact us to access real data.","history":[` + list + `]}`))
	}
	owned := func(list string) ([]carbon.Sample, error) {
		return electricityMaps([]byte(`{"zone":"DE","_disclaimer":"This data is the exclusive property of Electricity Maps and/or related parties.","history":[` + list + `]}`))
	}
	wt := func(list string) ([]carbon.Sample, error) {
		return decodeWattTime([]byte(`{"data":[`+list+`],"meta":{"region":"r","signal_type":"s","units":"lbs_co2_per_mwh","data_point_period_seconds":"3600"}}`), "r", "s", carbon.Provenance{})
	}
	uk := func(list string) ([]carbon.Sample, error) {
		return decodeUKCarbonIntensity([]byte(`{"data":[`+list+`]}`), 0, carbon.Provenance{})
	}
	region := func(list string) ([]carbon.Sample, error) {
		return decodeUKCarbonIntensity([]byte(`{"data":[`+list+`]}`), 3, carbon.Provenance{})
	}
	ca := func(list string) ([]carbon.Sample, error) {
		return DecodeCarbonAwareList([]byte(`[`+list+`]`), "x", carbon.Provenance{})
	}
	caForecast := func(list string) ([]carbon.Sample, error) {
		return decodeCarbonAwareForecast([]byte(`[`+list+`]`), "x", carbon.Provenance{})
	}
	eia := func(list string) ([]carbon.Sample, error) {
		return eiaSamples([]byte(`{"response":{"total":"9","data":[` + list + `]}}`))
	}
	row := func(at, fuel, value string) string {
		return `{"period":` + strings.Replace(at, ":00:00Z", "", 1) + `,"respondent":"CISO","fueltype":"` + fuel + `","value":` + value + `}`
	}
	emAt := func(at, value string) string { return `{"datetime":` + at + `,"carbonIntensity":` + value + `}` }
	wtAt := func(at, value string) string { return `{"point_time":` + at + `,"value":` + value + `}` }
	ukAt := func(at, to, value string) string {
		return `{"from":` + at + `,"to":` + to + `,"intensity":{"forecast":9,"actual":` + value + `}}`
	}
	caAt := func(at, value string) string {
		return `{"location":"x","time":` + at + `,"duration":60,"value":` + value + `}`
	}
	for name, tc := range map[string]struct {
		decode func(string) ([]carbon.Sample, error)
		list   string
		want   string // samples
		fault  string // part of the error, if there is one
	}{
		"Electricity Maps, null":       {em, emAt(from, "5") + ",null," + emAt(next, "7"), "00:00 60 5, 01:00 60 7", ""},
		"Electricity Maps, string":     {em, emAt(from, `"5"`) + "," + emAt(next, `""`), "00:00 60 5", ""},
		"Electricity Maps, words":      {em, emAt(from, `"low"`) + "," + emAt(next, "6"), "01:00 60 6", `history[0].carbonIntensity: "low"; accepted: a number or null`},
		"Electricity Maps, no time":    {em, emAt(`"soon"`, "5") + "," + emAt(next, "6") + "," + emAt("null", "5"), "01:00 60 6", `history[0].datetime: unexpected answer: time "soon"; accepted: RFC 3339 between 1970 and 2200 (and 1 more)`},
		"WattTime, null":               {wt, "null," + wtAt(from, "0"), "00:00 60 0", ""},
		"WattTime, string":             {wt, wtAt(from, `"0.0"`), "00:00 60 0", ""},
		"WattTime, no time":            {wt, wtAt(from, "0") + "," + wtAt(`""`, "0"), "00:00 60 0", "data[1].point_time"},
		"Electricity Maps, owned":      {owned, emAt(from, "5"), "00:00 60 5", ""},
		"Electricity Maps, sandbox":    {sandbox, emAt(from, "5"), "", "random"},
		"UK, null":                     {uk, "null," + ukAt(from, next, "5"), "00:00 60 5", ""},
		"UK, no actual value":          {uk, ukAt(from, next, "null"), "00:00 60 9", ""},
		"UK, string":                   {uk, ukAt(from, next, `"5"`), "00:00 60 5", ""},
		"UK, reversed":                 {uk, ukAt(next, from, "5") + "," + ukAt(next, last, "6"), "01:00 60 6", "data[0].to"},
		"UK region, null":              {region, `null,{"regionid":3,"data":[null,` + ukAt(from, next, "5") + `]}`, "00:00 60 5", ""},
		"Carbon Aware, null":           {ca, "null," + caAt(from, "5"), "00:00 60 5", ""},
		"Carbon Aware, NaN":            {ca, caAt(from, `"NaN"`) + "," + caAt(next, `"5"`), "01:00 60 5", `[0].value: "NaN"`},
		"Carbon Aware forecast, null":  {caForecast, `null,{"generatedAt":` + from + `,"forecastData":[null,` + caAt(from, "5") + `]}`, "00:00 60 5", ""},
		"EIA, null":                    {eia, row(from, "NG", "10") + ",null," + row(next, "NG", "10"), "00:00 60 469, 01:00 60 469", ""},
		"EIA, an empty value":          {eia, row(from, "NG", "10") + "," + row(next, "NG", `""`), "00:00 60 469", ""},
		"EIA, a value in words":        {eia, row(from, "NG", "10") + "," + row(next, "NG", "10") + "," + row(next, "SUN", `"NA"`), "00:00 60 469", `data[2].value`},
		"EIA, no period":               {eia, row(from, "NG", "10") + "," + row(`"now"`, "NG", `10`), "00:00 60 469", `data[1].period`},
		"EIA, in words and as a value": {eia, row(from, "NG", `"NA"`) + "," + row(from, "NG", "10") + "," + row(from, "NG", `"NA"`), "00:00 60 469", `data[0].value`},
	} {
		s, err := tc.decode(tc.list)
		if got := intervals(s, nil); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if tc.fault == "" && err != nil || tc.fault != "" && (!errors.Is(err, ErrWire) || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("%s: error %v, want %q", name, err, tc.fault)
		}
	}
}

// TestOddPrometheusValueIsAGap: a value that is null or not finite is a gap, one that cannot be read too, and the error names it.
func TestOddPrometheusValueIsAGap(t *testing.T) {
	for _, tc := range []struct{ value, fault string }{
		{"null", ""}, {`"NaN"`, ""}, {`"+Inf"`, ""}, {`"-Inf"`, ""}, {`"n/e"`, "n/e"}, {"{}", "cannot unmarshal"},
	} {
		for kind, decode := range map[string]func() ([]carbon.Sample, error){
			"values[1]": func() ([]carbon.Sample, error) {
				return decodePrometheusRange([]byte(fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[900,"100"],[1800,%s],[2700,"300"],null]}]}}`, tc.value)), carbon.Provenance{})
			},
			"result[1]": func() ([]carbon.Sample, error) {
				return decodePrometheusForecast([]byte(fmt.Sprintf(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"forecast_time":"900"},"value":[1,"100"]},
					{"metric":{"forecast_time":"1800"},"value":[1,%s]},{"metric":{"forecast_time":"2700"},"value":[1,"300"]}]}}`, tc.value)), carbon.Provenance{})
			},
		} {
			s, err := decode()
			if len(s) != 2 || s[0].Value != 100 || s[1].Value != 300 || !s[0].To.Before(s[1].From) {
				t.Errorf("%s: %s: %v", kind, tc.value, s)
			}
			if (tc.fault == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), tc.fault) || !strings.Contains(err.Error(), kind)) {
				t.Errorf("%s: %s: error %v, want %q", kind, tc.value, err, tc.fault)
			}
		}
	}
	// An element of another form, and one that does not say its time, cost themselves.
	for _, tc := range []struct{ element, fault string }{
		{`"soon"`, `values[1]: unexpected answer: "soon"; accepted: [seconds, "value"]`}, {`{"t":1800}`, "values[1]"}, {`7`, "values[1]"},
	} {
		s, err := decodePrometheusRange([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[900,"100"],`+tc.element+`,[2700,"300"]]}]}}`), carbon.Provenance{})
		if len(s) != 2 || !errors.Is(err, ErrWire) || !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %v, error %v", tc.element, s, err)
		}
	}
	for element, fault := range map[string]string{
		`{"metric":{},"value":[1,"200"]}`:                   "unexpected answer: result[1]: no label forecast_time",
		`{"value":[1,"200"]}`:                               "unexpected answer: result[1]: no label forecast_time",
		`{"metric":{"forecast_time":"1800"},"value":"200"}`: "result[1].value: unexpected answer: ",
		`{"metric":{"forecast_time":"1800"}}`:               "", // a gap, as null
	} {
		s, err := decodePrometheusForecast([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"forecast_time":"900"},"value":[1,"100"]},`+
			element+`,{"metric":{"forecast_time":"2700"},"value":[1,"300"]}]}}`), carbon.Provenance{})
		if len(s) != 2 || (err != nil) != (fault != "") || err != nil && (!errors.Is(err, ErrWire) || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s: %v, error %v", element, s, err)
		}
	}
	_, err := decodePrometheusRange([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[null,"100"]]}]}}`), carbon.Provenance{})
	if !errors.Is(err, ErrWire) || !strings.Contains(err.Error(), "time null") {
		t.Errorf("a value without a time: %v", err)
	}
}

// TestEmptyAnswersSayNoData: 204 of the Carbon Aware SDK and {} of UK Carbon Intensity say that there is no data: they are no outage.
func TestEmptyAnswersSayNoData(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	a, err := CarbonAwareSDK{Endpoint: server.URL, Location: "x"}.Fetch(context.Background(), &fetch.Client{}, Query{Now: now, Since: now.Add(-100 * 24 * time.Hour)})
	if !errors.Is(err, ErrNoData) || len(a.Bad) != 7 || !errors.Is(a.Bad[6].Err, ErrNoData) {
		t.Errorf("204: %v, %v", err, a.Bad)
	}
	for _, region := range []int{0, 3} {
		if _, err := decodeUKCarbonIntensity([]byte("{}"), region, carbon.Provenance{}); !errors.Is(err, ErrNoData) {
			t.Errorf("{} of region %d: %v", region, err)
		}
	}
}

// TestOddQuantityIsNoZero: a quantity of ENTSO-E that is missing or cannot be read is not a zero. It costs the slots that it is about.
func TestOddQuantityIsNoZero(t *testing.T) {
	gas, wind := series("B04", "PT60M", 3, 1000, 1000, 1000), series("B19", "PT60M", 3, 1000, 1000, 1000)
	second := "<position>2</position><quantity>1000</quantity>"
	for name, tc := range map[string]struct {
		series, want, fault string
	}{
		"as it should be":    {gas, "00:00 60 240.5, 01:00 60 240.5, 02:00 60 240.5", ""},
		"no quantity":        {strings.Replace(gas, second, "<position>2</position>", 1), "00:00 60 240.5, 02:00 60 240.5", ""},
		"an empty one":       {strings.Replace(gas, second, "<position>2</position><quantity> </quantity>", 1), "00:00 60 240.5, 02:00 60 240.5", ""},
		"a word":             {strings.Replace(gas, second, "<position>2</position><quantity>n/e</quantity>", 1), "00:00 60 240.5, 02:00 60 240.5", `TimeSeries[0].Period[0]: unexpected answer: Point: position 2: quantity: "n/e"; accepted: a number`},
		"an empty one, A03":  {strings.NewReplacer("A01", "A03", "1000</quantity></Point><Point><position>2</position><quantity>1000", "1000</quantity></Point><Point><position>2</position><quantity>").Replace(gas), "00:00 60 240.5, 02:00 60 240.5", ""},
		"and said elsewhere": {gas + strings.Replace(gas, second, "<position>2</position><quantity></quantity>", 1), "00:00 60 240.5, 01:00 60 240.5, 02:00 60 240.5", ""},
		"another resolution": {strings.Replace(gas, "PT60M", "P1D", 1) + strings.ReplaceAll(gas+wind, "-23T", "-24T"), "00:00 60 240.5, 01:00 60 240.5, 02:00 60 240.5", `resolution: "P1D"; accepted: PT15M, PT30M, PT60M`},
		"an empty period":    {strings.Replace(gas, "<end>2023-08-23T03", "<end>2023-08-23T00", 1) + gas, "00:00 60 240.5, 01:00 60 240.5, 02:00 60 240.5", "timeInterval: end"},
		"a position too far": {strings.Replace(gas, "<position>2<", "<position>4<", 1) + strings.ReplaceAll(gas+wind, "-23T", "-24T"), "00:00 60 240.5, 01:00 60 240.5, 02:00 60 240.5", "position 4; accepted: positions 1 to 3"},
	} {
		into := mixes{}
		err := decodeEntsoE([]byte("<GL_MarketDocument>"+tc.series+wind+"</GL_MarketDocument>"), into)
		s, valueErr := mixSamples(into, entsoeFactors)
		if got := intervals(s, valueErr); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if tc.fault == "" && err != nil || tc.fault != "" && (!errors.Is(err, ErrWire) || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("%s: error %v, want %q", name, err, tc.fault)
		}
	}
}
