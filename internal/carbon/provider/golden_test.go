package provider

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// golden are small answers written by hand after the documentation of each
// provider, and what they mean.
var golden = map[string]struct {
	text string
	// want lists "time value" with " estimated" where so; decode gives it.
	want   []string
	decode func(body []byte) ([]carbon.Sample, error)
}{
	"Electricity Maps v3 latest": {
		text:   `{"zone":"DE","carbonIntensity":302,"datetime":"2018-04-25T18:00:00.000Z","updatedAt":"2018-04-25T18:07:01.000Z","emissionFactorType":"lifecycle","isEstimated":true,"estimationMethod":"TIME_SLICER_AVERAGE"}`,
		want:   []string{"2018-04-25T18:00 302 estimated"},
		decode: electricityMaps,
	},
	"Electricity Maps v3 history": {
		text:   `{"zone":"DE","history":[{"carbonIntensity":298.5,"datetime":"2018-04-25T17:00:00.000Z"},{"carbonIntensity":null,"datetime":"2018-04-25T18:00:00.000Z"},{"carbonIntensity":300,"datetime":"2018-04-25T19:00:00.000Z"}]}`,
		want:   []string{"2018-04-25T17:00 298.5", "2018-04-25T19:00 300"},
		decode: electricityMaps,
	},
	"Electricity Maps v3 past-range": {
		text:   `{"zone":"DE","data":[{"zone":"DE","carbonIntensity":233,"datetime":"2019-05-21T21:00:00.000Z","updatedAt":"2019-05-22T21:00:00.000Z"},{"zone":"DE","carbonIntensity":239,"datetime":"2019-05-21T22:00:00.000Z"}]}`,
		want:   []string{"2019-05-21T21:00 233", "2019-05-21T22:00 239"},
		decode: electricityMaps,
	},
	"Electricity Maps v3 forecast": {
		text:   `{"zone":"DE","forecast":[{"carbonIntensity":326,"datetime":"2018-11-26T17:00:00.000Z"},{"carbonIntensity":297,"datetime":"2018-11-26T18:00:00.000Z"}],"updatedAt":"2018-11-26T17:25:24.685Z"}`,
		want:   []string{"2018-11-26T17:00 326", "2018-11-26T18:00 297"},
		decode: electricityMaps,
	},
	"Electricity Maps v4": {
		text:   `{"zone":"DE","temporalGranularity":"hourly","unit":"gCO2eq/kWh","data":[{"datetime":"2025-07-01T10:00:00.000Z","value":150,"isEstimated":false}]}`,
		want:   []string{"2025-07-01T10:00 150"},
		decode: electricityMaps,
	},
	"WattTime forecast": {
		text:   `{"data":[{"point_time":"2022-07-15T00:00:00+00:00","value":1000},{"point_time":"2022-07-15T00:05:00+00:00","value":870.5}],"meta":{"data_point_period_seconds":300,"region":"CAISO_NORTH","warnings":[{"type":"EXAMPLE","message":"x"}],"signal_type":"co2_moer","model":{"date":"2023-03-01"},"units":"lbs_co2_per_mwh","generated_at_period_seconds":300,"generated_at":"2022-07-15T00:00:00+00:00"}}`,
		want:   []string{"2022-07-15T00:00 453.592", "2022-07-15T00:05 394.852"},
		decode: wattTime,
	},
	"UK national": {
		text:   `{"data":[{"from":"2018-01-20T12:00Z","to":"2018-01-20T12:30Z","intensity":{"forecast":266,"actual":263,"index":"moderate"}},{"from":"2018-01-20T12:30Z","to":"2018-01-20T13:00Z","intensity":{"forecast":270,"actual":null,"index":"moderate"}}]}`,
		want:   []string{"2018-01-20T12:00 263", "2018-01-20T12:30 270 estimated"},
		decode: func(b []byte) ([]carbon.Sample, error) { return decodeUKCarbonIntensity(b, 0, carbon.Provenance{}) },
	},
	"UK regional": {
		text:   `{"data":{"regionid":3,"dnoregion":"Electricity North West","shortname":"North West England","data":[{"from":"2018-05-15T12:00Z","to":"2018-05-15T12:30Z","intensity":{"forecast":166,"index":"low"},"generationmix":[{"fuel":"gas","perc":43.6}]}]}}`,
		want:   []string{"2018-05-15T12:00 166 estimated"},
		decode: func(b []byte) ([]carbon.Sample, error) { return decodeUKCarbonIntensity(b, 3, carbon.Provenance{}) },
	},
	"ENTSO-E": {
		// Coal 100 MW in quarter hours 1 and 2, then 300 (curve A03 leaves out what
		// repeats); wind 900 MW all the hour, as one hourly value; pumping counts not.
		text: `<?xml version="1.0" encoding="UTF-8"?>
<GL_MarketDocument xmlns="urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0">
<mRID>x</mRID><type>A75</type>
<TimeSeries><mRID>1</mRID><inBiddingZone_Domain.mRID codingScheme="A01">10Y1001A1001A82H</inBiddingZone_Domain.mRID><quantity_Measure_Unit.name>MAW</quantity_Measure_Unit.name><curveType>A03</curveType><MktPSRType><psrType>B05</psrType></MktPSRType>
<Period><timeInterval><start>2023-08-23T22:00Z</start><end>2023-08-23T23:00Z</end></timeInterval><resolution>PT15M</resolution><Point><position>1</position><quantity>100</quantity></Point><Point><position>3</position><quantity>300</quantity></Point></Period></TimeSeries>
<TimeSeries><mRID>2</mRID><inBiddingZone_Domain.mRID codingScheme="A01">10Y1001A1001A82H</inBiddingZone_Domain.mRID><curveType>A01</curveType><MktPSRType><psrType>B19</psrType></MktPSRType>
<Period><timeInterval><start>2023-08-23T22:00Z</start><end>2023-08-23T23:00Z</end></timeInterval><resolution>PT60M</resolution><Point><position>1</position><quantity>900</quantity></Point></Period></TimeSeries>
<TimeSeries><mRID>3</mRID><outBiddingZone_Domain.mRID codingScheme="A01">10Y1001A1001A82H</outBiddingZone_Domain.mRID><curveType>A01</curveType><MktPSRType><psrType>B10</psrType></MktPSRType>
<Period><timeInterval><start>2023-08-23T22:00Z</start><end>2023-08-23T23:00Z</end></timeInterval><resolution>PT60M</resolution><Point><position>1</position><quantity>5000</quantity></Point></Period></TimeSeries>
</GL_MarketDocument>`,
		// (100*1001 + 900*12) / 1000 = 110.9; (300*1001 + 900*12) / 1200 = 259.25
		want: []string{"2023-08-23T22:00 110.9 estimated", "2023-08-23T22:15 110.9 estimated", "2023-08-23T22:30 259.25 estimated", "2023-08-23T22:45 259.25 estimated"},
		decode: func(b []byte) ([]carbon.Sample, error) {
			into := mixes{}
			err := decodeEntsoE(b, into)
			if err != nil {
				return nil, err
			}
			return mixSamples(into, entsoeFactors)
		},
	},
	"EIA-930": {
		// (100*1001 + 300*469 + 600*16) / 1000 = 250.4; storage and negative sun count not.
		text:   `{"response":{"total":"5","dateFormat":"YYYY-MM-DD\"T\"HH24","frequency":"hourly","data":[{"period":"2026-01-01T00","respondent":"CISO","respondent-name":"California Independent System Operator","fueltype":"COL","type-name":"Coal","value":"100","value-units":"megawatthours"},{"period":"2026-01-01T00","respondent":"CISO","fueltype":"NG","value":300,"value-units":"megawatthours"},{"period":"2026-01-01T00","respondent":"CISO","fueltype":"NUC","value":"600","value-units":"megawatthours"},{"period":"2026-01-01T00","respondent":"CISO","fueltype":"SUN","value":"-25","value-units":"megawatthours"},{"period":"2026-01-01T00","respondent":"CISO","fueltype":"BAT","value":"900","value-units":"megawatthours"}]},"apiVersion":"2.1.8"}`,
		want:   []string{"2026-01-01T00:00 250.4 estimated"},
		decode: eiaSamples,
	},
	"Carbon Aware SDK emissions": {
		text: `[{"location":"PJM_ROANOKE","time":"2022-07-18T00:00:00+00:00","rating":545,"duration":"00:05:00"}]`,
		want: []string{"2022-07-18T00:00 545"},
		decode: func(b []byte) ([]carbon.Sample, error) {
			return DecodeCarbonAwareList(b, "eastus", carbon.Provenance{})
		},
	},
	"Carbon Aware SDK exporter": {
		text: `[{"Location":"eastus","Timestamp":"2022-07-18T00:00:00Z","Duration":5,"Value":545.5},{"Location":"eastus","Timestamp":"2022-07-18T00:05:00Z","Duration":5,"Value":540}]`,
		want: []string{"2022-07-18T00:00 545.5", "2022-07-18T00:05 540"},
		decode: func(b []byte) ([]carbon.Sample, error) {
			return DecodeCarbonAwareList(b, "eastus", carbon.Provenance{})
		},
	},
	"Carbon Aware SDK forecast": {
		text: `[{"generatedAt":"2022-07-18T00:00:00+00:00","location":"eastus","dataStartAt":"2022-07-18T00:00:00+00:00","windowSize":5,"optimalDataPoints":[],"forecastData":[{"location":"PJM_ROANOKE","timestamp":"2022-07-18T00:00:00+00:00","duration":5,"value":532.02}],"requestedAt":"2022-07-18T00:01:00+00:00"}]`,
		want: []string{"2022-07-18T00:00 532.02"},
		decode: func(b []byte) ([]carbon.Sample, error) {
			return decodeCarbonAwareForecast(b, "eastus", carbon.Provenance{})
		},
	},
	"Prometheus range": {
		text:   `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"grid_intensity_carbon_average","zone":"DE"},"values":[[1435781430,"350.5"],[1435782330,"NaN"],[1435783230.5,"340"]]}]}}`,
		want:   []string{"2015-07-01T20:10 350.5", "2015-07-01T20:40 340"},
		decode: func(b []byte) ([]carbon.Sample, error) { return decodePrometheusRange(b, carbon.Provenance{}) },
	},
	"Prometheus forecast": {
		text:   `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"zone":"DE","forecast_time":"1435784400"},"value":[1435781430,"330"]},{"metric":{"zone":"DE","forecast_time":"2015-07-01T22:00:00Z"},"value":[1435781430,"320"]}]}}`,
		want:   []string{"2015-07-01T21:00 330", "2015-07-01T22:00 320"},
		decode: func(b []byte) ([]carbon.Sample, error) { return decodePrometheusForecast(b, carbon.Provenance{}) },
	},
}

func electricityMaps(b []byte) ([]carbon.Sample, error) {
	return decodeElectricityMaps(b, "DE", carbon.Provenance{Zone: "DE", Factor: carbon.Lifecycle})
}

func wattTime(b []byte) ([]carbon.Sample, error) {
	return decodeWattTime(b, "CAISO_NORTH", "co2_moer", carbon.Provenance{})
}

func eiaSamples(b []byte) ([]carbon.Sample, error) {
	into := mixes{}
	_, _, err := decodeEIA(b, "CISO", into)
	s, valueErr := mixSamples(into, eiaFactors)
	return s, errors.Join(err, valueErr)
}

func TestGolden(t *testing.T) {
	for name, g := range golden {
		s, err := g.decode([]byte(g.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, x := range s {
			line := fmt.Sprintf("%s %g", x.From.Format("2006-01-02T15:04"), math.Round(float64(x.Value)*1000)/1000)
			if x.Estimated {
				line += " estimated"
			}
			got = append(got, line)
		}
		if strings.Join(got, "\n") != strings.Join(g.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(g.want, "\n"))
		}
	}
}

func TestIssueTimes(t *testing.T) {
	for name, want := range map[string]string{
		"Electricity Maps v3 forecast": "2018-11-26T17:25:24Z", "WattTime forecast": "2022-07-15T00:00:00Z", "Carbon Aware SDK forecast": "2022-07-18T00:00:00Z",
	} {
		s, err := golden[name].decode([]byte(golden[name].text))
		if err != nil || s[0].Of.IssuedAt.Format(time.RFC3339) != want {
			t.Errorf("%s: issued %v, %v; want %s", name, s[0].Of.IssuedAt, err, want)
		}
	}
}

// TestUndocumentedAnswerIsRefused: what is not as documented is an error that names the field, the
// value and what is accepted.
func TestUndocumentedAnswerIsRefused(t *testing.T) {
	em := golden["Electricity Maps v3 history"].text
	wt := golden["WattTime forecast"].text
	for want, got := range map[string]func() ([]carbon.Sample, error){
		`zone: "FR"; accepted: "DE"`: func() ([]carbon.Sample, error) { return electricityMaps([]byte(strings.Replace(em, "DE", "FR", 1))) },
		`history[0].datetime: unexpected`: func() ([]carbon.Sample, error) {
			return electricityMaps([]byte(strings.Replace(em, "2018-04-25T17", "25 April", 1)))
		},
		`history[0].carbonIntensity: 298500`: func() ([]carbon.Sample, error) {
			return electricityMaps([]byte(strings.Replace(em, "298.5", "298500", 1)))
		},
		`"<html>"; accepted: JSON`:            func() ([]carbon.Sample, error) { return electricityMaps([]byte("<html>")) },
		`empty; accepted: JSON`:               func() ([]carbon.Sample, error) { return electricityMaps(nil) },
		`neither datetime, history, data nor`: func() ([]carbon.Sample, error) { return electricityMaps([]byte(`{"zone":"DE"}`)) },
		`emissionFactorType: "direct"`: func() ([]carbon.Sample, error) {
			return electricityMaps([]byte(`{"zone":"DE","emissionFactorType":"direct"}`))
		},
		`meta.units: "kg"`: func() ([]carbon.Sample, error) {
			return wattTime([]byte(strings.Replace(wt, "lbs_co2_per_mwh", "kg", 1)))
		},
		`meta.signal_type: "co2_aoer"`: func() ([]carbon.Sample, error) {
			return wattTime([]byte(strings.Replace(wt, "co2_moer", "co2_aoer", 1)))
		},
		`meta.region: "X"`: func() ([]carbon.Sample, error) { return wattTime([]byte(strings.Replace(wt, "CAISO_NORTH", "X", 1))) },
		`regionid: 3; accepted: 5`: func() ([]carbon.Sample, error) {
			return decodeUKCarbonIntensity([]byte(golden["UK regional"].text), 5, carbon.Provenance{})
		},
		`no data: 999 No matching data found`: func() ([]carbon.Sample, error) {
			err := decodeEntsoE([]byte(`<Acknowledgement_MarketDocument><Reason><code>999</code><text>No matching data found</text></Reason></Acknowledgement_MarketDocument>`), mixes{})
			return nil, err
		},
		`resolution: "P1Y"`: func() ([]carbon.Sample, error) {
			err := decodeEntsoE([]byte(strings.Replace(golden["ENTSO-E"].text, "PT60M", "P1Y", 1)), mixes{})
			return nil, err
		},
		`position 99`: func() ([]carbon.Sample, error) {
			err := decodeEntsoE([]byte(strings.Replace(golden["ENTSO-E"].text, "<position>3<", "<position>99<", 1)), mixes{})
			return nil, err
		},
		`value-units: "kilowatthours"`: func() ([]carbon.Sample, error) {
			return eiaSamples([]byte(strings.Replace(golden["EIA-930"].text, "megawatthours", "kilowatthours", 1)))
		},
		`respondent: "CISO"; accepted: "PJM"`: func() ([]carbon.Sample, error) {
			_, _, err := decodeEIA([]byte(golden["EIA-930"].text), "PJM", mixes{})
			return nil, err
		},
		`2 series; accepted: a query that gives one`: func() ([]carbon.Sample, error) {
			return decodePrometheusRange([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{},{}]}}`), carbon.Provenance{})
		},
		`no label forecast_time`: func() ([]carbon.Sample, error) {
			return decodePrometheusForecast([]byte(`{"status":"success","data":{"resultType":"vector","result":[{}]}}`), carbon.Provenance{})
		},
		`status "error": "bad query"`: func() ([]carbon.Sample, error) {
			return decodePrometheusRange([]byte(`{"status":"error","error":"bad query"}`), carbon.Provenance{})
		},
		`hourly_units.wind_speed_10m: "km/h"; accepted: m/s`: func() ([]carbon.Sample, error) {
			_, err := decodeOpenMeteo([]byte(`{"hourly_units":{"shortwave_radiation":"W/m²","wind_speed_10m":"km/h","temperature_2m":"°C"},"hourly":{"time":["2024-01-01T00:00"],"shortwave_radiation":[0],"wind_speed_10m":[1],"temperature_2m":[2]}}`), 1, "")
			return nil, err
		},
		`0 forecasts`: func() ([]carbon.Sample, error) {
			return decodeCarbonAwareForecast([]byte(`[]`), "x", carbon.Provenance{})
		},
	} {
		s, err := got()
		if !errors.Is(err, ErrWire) || !strings.Contains(err.Error(), want) {
			t.Errorf("want ErrWire with %q, got %v", want, err)
		}
		if strings.Contains(want, "298500") && len(s) != 1 {
			t.Errorf("%d samples beside an impossible one, want the other", len(s))
		}
	}
}

// TestMergedSamplesKeepTheBestValue: samples are "from-to:value" in quarter hours.
func TestMergedSamplesKeepTheBestValue(t *testing.T) {
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	mk := func(text string) (out []carbon.Sample) {
		for _, part := range strings.Fields(text) {
			from, to, value := 0, 0, 0
			if _, err := fmt.Sscanf(part, "%d-%d:%d", &from, &to, &value); err != nil {
				t.Fatal(err)
			}
			out = append(out, carbon.Sample{From: at.Add(time.Duration(from) * 15 * time.Minute), To: at.Add(time.Duration(to) * 15 * time.Minute), Value: units.CarbonIntensity(value)})
		}
		return out
	}
	for _, tc := range []struct{ older, newer, want string }{
		{"", "4-8:2", "4-8:2"},
		{"4-8:1", "", "4-8:1"},
		{"0-4:1 4-8:1 8-12:1", "4-8:2", "0-4:1 4-8:2 8-12:1"},
		{"0-4:1 4-8:1", "8-12:2 12-16:2", "0-4:1 4-8:1 8-12:2 12-16:2"},
		{"20-24:1 24-28:1", "0-4:2 20-24:2", "0-4:2 20-24:2 24-28:1"},
		{"0-4:1 16-20:1", "8-12:2", "0-4:1 8-12:2 16-20:1"},
		// The resolution changes: what is not covered stays.
		{"0-4:1 4-8:1", "4-5:2 5-6:2", "0-4:1 4-5:2 5-6:2 6-8:1"},
		{"0-4:1 4-8:1", "6-7:2 7-8:2 8-9:2", "0-4:1 4-6:1 6-7:2 7-8:2 8-9:2"},
		{"0-1:1 1-2:1 2-3:1 3-4:1 4-5:1", "0-4:2", "0-4:2 4-5:1"},
		{"0-4:1", "1-2:2", "0-1:1 1-2:2 2-4:1"},
		{"0-4:1 4-8:1", "2-6:2", "0-2:1 2-6:2 6-8:1"},
	} {
		var got []string
		quarter := func(x time.Time) int { return int(x.Sub(at) / (15 * time.Minute)) }
		for _, x := range Merge(mk(tc.older), mk(tc.newer)) {
			got = append(got, fmt.Sprintf("%d-%d:%g", quarter(x.From), quarter(x.To), float64(x.Value)))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s + %s: %v, want %s", tc.older, tc.newer, got, tc.want)
		}
	}
}
