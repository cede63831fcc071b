package provider

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
)

// behaviour is a row of the table of docs/providers.md: what is said of a provider, and how it answers. Texts are checked
// against what it does, or made of the constants that it uses.
type behaviour struct {
	name string
	// steps says what states the interval of a value. change is an answer of two hours and three quarters of an hour, all 5.
	steps  string
	change func() ([]carbon.Sample, error)
	// estimates says which values are estimates. both is an answer of a measured value (if there are any) and an estimate.
	estimates string
	both      func() ([]carbon.Sample, error)
	wantBoth  string // of each sample: e if it is an estimate
	// twice is an answer that says a value of 5 and none for one time, and 5, 6 for another.
	twice func() ([]carbon.Sample, error)
	// unlike the others: what twice gives.
	wantTwice string
	provider  Provider
	span      time.Duration
	quota     fetch.Quota
}

const (
	uk = `{"from":"2023-08-23T%sZ","to":"2023-08-23T%sZ","intensity":{%s}}`
	em = `{"datetime":"2023-08-23T%s:00Z","carbonIntensity":%s,"isEstimated":%s}`
	wt = `{"data":[%s],"meta":{"region":"CAISO_NORTH","signal_type":"co2_moer","units":"lbs_co2_per_mwh","data_point_period_seconds":%d}}`
	wp = `{"point_time":"2023-08-23T%s:00Z","value":%s}`
	ca = `{"location":"x","time":"2023-08-23T%s:00Z","value":%s,"duration":%d}`
	pr = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`
)

// list joins formatted parts; each of args has the arguments of one.
func list(format string, args ...[]any) string {
	var out []string
	for _, a := range args {
		out = append(out, fmt.Sprintf(format, a...))
	}
	return strings.Join(out, ",")
}

func ukAnswer(format string, args ...[]any) ([]carbon.Sample, error) {
	return decodeUKCarbonIntensity([]byte(`{"data":[`+list(format, args...)+`]}`), 0, carbon.Provenance{})
}

func emAnswer(args ...[]any) ([]carbon.Sample, error) {
	return electricityMaps([]byte(`{"zone":"DE","history":[` + list(em, args...) + `]}`))
}

func wtAnswer(seconds int, args ...[]any) ([]carbon.Sample, error) {
	return wattTime([]byte(fmt.Sprintf(wt, list(wp, args...), seconds)))
}

func caAnswer(args ...[]any) ([]carbon.Sample, error) {
	return DecodeCarbonAwareList([]byte(`[`+list(ca, args...)+`]`), "x", carbon.Provenance{})
}

func prAnswer(values string) ([]carbon.Sample, error) {
	return decodePrometheusRange([]byte(fmt.Sprintf(pr, values)), carbon.Provenance{})
}

// eiaAnswer has a row for each of "hour fuel value".
func eiaAnswer(rows ...string) ([]carbon.Sample, error) {
	var out []string
	for _, r := range rows {
		f := strings.Fields(r)
		out = append(out, fmt.Sprintf(`{"period":"2023-08-23T%s","respondent":"CISO","fueltype":%q,"value":%s}`, f[0], f[1], f[2]))
	}
	return eiaSamples([]byte(fmt.Sprintf(`{"response":{"total":%d,"data":[%s]}}`, len(out), strings.Join(out, ","))))
}

// entsoeAnswer has a series for each part.
func entsoeAnswer(parts ...string) ([]carbon.Sample, error) {
	into := mixes{}
	if err := decodeEntsoE([]byte("<GL_MarketDocument>"+strings.Join(parts, "")+"</GL_MarketDocument>"), into); err != nil {
		return nil, err
	}
	return mixSamples(into, entsoeFactors)
}

// later is series, from 2023-08-23T02:00Z on.
func later(text string) string {
	return strings.NewReplacer("<start>2023-08-23T00:00Z", "<start>2023-08-23T02:00Z").Replace(text)
}

func table() []behaviour {
	return []behaviour{
		{
			name: "electricityMaps", steps: "`temporalGranularity`, else from the rows", provider: ElectricityMaps{Version: "v3"}, span: pastRange,
			change: func() ([]carbon.Sample, error) {
				return emAnswer([]any{"00:00", "5", "false"}, []any{"01:00", "5", "false"}, []any{"02:00", "5", "false"}, []any{"02:15", "5", "false"}, []any{"02:30", "5", "false"})
			},
			estimates: "`isEstimated`", wantBoth: "-e",
			both: func() ([]carbon.Sample, error) {
				return emAnswer([]any{"00:00", "5", "false"}, []any{"01:00", "5", "true"})
			},
			twice: func() ([]carbon.Sample, error) {
				return emAnswer([]any{"00:00", "5", "false"}, []any{"01:00", "5", "false"}, []any{"00:00", "null", "false"}, []any{"01:00", "6", "false"})
			},
		},
		{
			name: "wattTime", steps: "`data_point_period_seconds`, else from the rows", provider: &WattTime{}, span: wattTimeSpan, quota: wattTimeQuota,
			change: func() ([]carbon.Sample, error) {
				return wtAnswer(0, []any{"00:00", "5"}, []any{"01:00", "5"}, []any{"02:00", "5"}, []any{"02:15", "5"}, []any{"02:30", "5"})
			},
			estimates: "none stated", wantBoth: "--",
			both: func() ([]carbon.Sample, error) { return wtAnswer(3600, []any{"00:00", "5"}, []any{"01:00", "5"}) },
			twice: func() ([]carbon.Sample, error) {
				return wtAnswer(3600, []any{"00:00", "11.0231"}, []any{"01:00", "5"}, []any{"00:00", "null"}, []any{"01:00", "13.2277"})
			},
		},
		{
			name: "ukCarbonIntensity", steps: "`from`, `to`", provider: UKCarbonIntensity{}, span: ukSpan,
			change: func() ([]carbon.Sample, error) {
				return ukAnswer(uk, []any{"00:00", "01:00", `"actual":5`}, []any{"01:00", "02:00", `"actual":5`}, []any{"02:00", "02:15", `"actual":5`}, []any{"02:15", "02:30", `"actual":5`}, []any{"02:30", "02:45", `"actual":5`})
			},
			estimates: "half hours without `actual`: `forecast`; all of a region", wantBoth: "-e",
			both: func() ([]carbon.Sample, error) {
				return ukAnswer(uk, []any{"00:00", "01:00", `"actual":5,"forecast":6`}, []any{"01:00", "02:00", `"actual":null,"forecast":6`})
			},
			twice: func() ([]carbon.Sample, error) {
				return ukAnswer(uk, []any{"00:00", "01:00", `"actual":5`}, []any{"01:00", "02:00", `"actual":5`}, []any{"00:00", "01:00", ``}, []any{"01:00", "02:00", `"actual":6`})
			},
		},
		{
			name: "entsoE", steps: "`resolution` of each period; slots lie between the ends of all types", provider: EntsoE{}, span: entsoeSpan, quota: entsoeQuota,
			change: func() ([]carbon.Sample, error) {
				return entsoeAnswer(series("B04", "PT60M", 2, 5, 5), later(series("B04", "PT15M", 3, 5, 5, 5)))
			},
			estimates: "all: computed from the mix", wantBoth: "ee",
			both: func() ([]carbon.Sample, error) { return entsoeAnswer(series("B04", "PT60M", 2, 5, 5)) },
			twice: func() ([]carbon.Sample, error) {
				return entsoeAnswer(series("B04", "PT60M", 2, 1, 1), series("B19", "PT60M", 2, 1, 1), series("B04", "PT60M", 2, 1, 1))
			},
			wantTwice: "00:00 60 240.5, 01:00 60 240.5", // (469 + 12) / 2, as if it was said once
		},
		{
			name: "eia", steps: "an hour", provider: EIA{}, span: eiaSpan,
			estimates: "all: computed from the mix", wantBoth: "ee",
			both: func() ([]carbon.Sample, error) { return eiaAnswer("00 NG 1", "01 NG 1") },
			twice: func() ([]carbon.Sample, error) {
				return eiaAnswer("00 NG 1", "00 WND 1", "01 NG 1", "01 WND 1", "00 NG null", "01 NG 1")
			},
			wantTwice: "00:00 60 240.5, 01:00 60 240.5",
		},
		{
			name: "carbonAwareSDK", steps: "`duration`, else from the rows", provider: CarbonAwareSDK{}, span: carbonAwareSpan,
			change: func() ([]carbon.Sample, error) {
				return caAnswer([]any{"00:00", "5", 60}, []any{"01:00", "5", 60}, []any{"02:00", "5", 15}, []any{"02:15", "5", 15}, []any{"02:30", "5", 15})
			},
			estimates: "none stated", wantBoth: "--",
			both: func() ([]carbon.Sample, error) { return caAnswer([]any{"00:00", "5", 60}, []any{"01:00", "5", 60}) },
			twice: func() ([]carbon.Sample, error) {
				return caAnswer([]any{"00:00", "5", 60}, []any{"01:00", "5", 60}, []any{"00:00", "null", 60}, []any{"01:00", "6", 60})
			},
		},
		{
			name: "prometheus", steps: fmt.Sprintf("%g minutes, as asked for; of `forecastQuery` from the rows", prometheusStep.Minutes()), provider: Prometheus{}, span: prometheusSpan,
			estimates: "none stated", wantBoth: "--",
			both: func() ([]carbon.Sample, error) { return prAnswer(`[1692748800,"5"],[1692752400,"5"]`) },
			twice: func() ([]carbon.Sample, error) {
				return prAnswer(`[1692748800,"5"],[1692752400,"5"],[1692748800,"NaN"],[1692752400,"6"]`)
			},
			wantTwice: "00:00 15 5, 01:00 15 6",
		},
	}
}

func inWords(n float64) string { return map[float64]string{2: "two", 3: "three"}[n] }

// TestTable checks what docs/providers.md says of each provider, and that it says it. LULL_UPDATE=1 writes it anew.
func TestTable(t *testing.T) {
	const change = "00:00 60, 01:00 60, 02:00 15, 02:15 15, 02:30 15"
	var text strings.Builder
	text.WriteString("| source | a value is valid for | estimates | forecast | history is asked for in spans of | limits |\n|---|---|---|---|---|---|\n")
	for _, b := range table() {
		if b.name != b.provider.Name() {
			t.Errorf("%s: is %s", b.name, b.provider.Name())
		}
		if b.change != nil {
			s, err := b.change()
			var got []string
			for _, x := range s {
				got = append(got, fmt.Sprintf("%s %g", x.From.Format("15:04"), x.To.Sub(x.From).Minutes()))
			}
			if err != nil || strings.Join(got, ", ") != change {
				t.Errorf("%s: steps: %v, %v; want %s", b.name, got, err, change)
			}
		}
		both, err := b.both()
		got := ""
		for _, x := range both {
			got += map[bool]string{true: "e", false: "-"}[x.Estimated]
		}
		if err != nil || got != b.wantBoth {
			t.Errorf("%s: estimates: %q, %v; want %q", b.name, got, err, b.wantBoth)
		}
		want := b.wantTwice
		if want == "" {
			want = "00:00 60 5, 01:00 60 6"
		}
		if got := intervals(b.twice()); got != want {
			t.Errorf("%s: said twice: %s, want %s", b.name, got, want)
		}
		forecast, limits := "yes", "Retry-After"
		if !b.provider.Forecasts() {
			forecast = "none"
		}
		if b.name == "prometheus" {
			forecast = "with `forecastQuery`"
		}
		if b.quota.Requests > 0 {
			limits = fmt.Sprintf("%d in %g min, %s", b.quota.Requests, b.quota.Per.Minutes(), limits)
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %.4g days | %s |\n", b.name, b.steps, b.estimates, forecast, b.span.Hours()/24, limits)
	}
	const page, from, to = "../../../docs/providers.md", "<!-- made by TestTable of internal/carbon/provider -->\n", "<!-- end -->"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(old), from)
	was, tail, ok2 := strings.Cut(rest, to)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q with %q after it", page, from, to)
	}
	for _, said := range []string{
		fmt.Sprintf("a fuel that the zone reported in %g %% of its hours", 100*usualShare), fmt.Sprintf("older than %s days", inWords(settledAfter.Hours()/24)), fmt.Sprintf("After %s failures in succession", inWords(mostFailures)),
	} {
		if !strings.Contains(string(old), said) {
			t.Errorf("%s does not say %q", page, said)
		}
	}
	if was == text.String() {
		return
	}
	if os.Getenv("LULL_UPDATE") == "" {
		t.Fatalf("%s differs from what providers do (LULL_UPDATE=1 go test -run TestTable writes it):\n%s\nwant\n%s", page, was, text.String())
	}
	if err := os.WriteFile(page, []byte(head+from+text.String()+to+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}
