//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/fakegrid"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
)

// fakeToken is what the fake grid asks for, and the Secret holds.
const fakeToken = "only-for-tests"

// startGrid serves weathered climatology of a few zones at the tests' speed and
// returns the server, its address and how zones replay it.
func startGrid(t *testing.T, speed int64) (*fakegrid.Server, string, *v1alpha1.Replay) {
	t.Helper()
	ctx := context.Background()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "grid", Namespace: "lull-system"}, StringData: map[string]string{"token": fakeToken}}
	if err := env.client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	epoch := time.Now().Truncate(time.Second)
	tl, err := timegrid.NewTimeline(epoch, gridStart, float64(speed))
	must(t, err)
	series := map[string]*carbon.Series{}
	for _, zone := range []string{"DE", "GB", "US-CAL-CISO"} {
		usual, err := climatology.Series(zone, gridStart.AddDate(0, 0, -70), gridStart.AddDate(0, 0, 30))
		must(t, err)
		samples := make([]carbon.Sample, usual.Len())
		for i := range samples {
			samples[i] = usual.Sample(i)
			samples[i].Value *= units.CarbonIntensity(1 + 0.3*math.Sin(float64(i)/31))
		}
		series[zone], err = carbon.NewSeries(carbon.Provenance{Zone: zone}, samples)
		must(t, err)
	}
	grid := fakegrid.New(fakegrid.Options{Zones: series, Timeline: tl, Token: fakeToken, ForecastError: 0.1})
	server := httptest.NewServer(grid)
	t.Cleanup(server.Close)
	return grid, server.URL, &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Epoch: &metav1.Time{Time: epoch}, Factor: speed}
}

// electricityMaps is a source of the fake grid.
func electricityMaps(url string) v1alpha1.GridZoneSource {
	return v1alpha1.GridZoneSource{ElectricityMaps: &v1alpha1.ElectricityMapsSource{Endpoint: v1alpha1.Endpoint(url), TokenSecret: v1alpha1.SecretKey{Name: "grid", Key: "token"}}}
}

func createZone(t *testing.T, name string, spec v1alpha1.GridZoneSpec) {
	t.Helper()
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	must(t, env.client.Create(context.Background(), zone))
	t.Cleanup(func() { _ = env.client.Delete(context.Background(), zone) })
}

func getZone(t *testing.T, name string) *v1alpha1.GridZone {
	t.Helper()
	var zone v1alpha1.GridZone
	must(t, env.client.Get(context.Background(), client.ObjectKey{Name: name}, &zone))
	return &zone
}

func is(zone *v1alpha1.GridZone, kind string) bool {
	return meta.IsStatusConditionTrue(zone.Status.Conditions, kind)
}

// TestEverySourceLive: a GridZone of each source becomes ready, with a forecast
// and its error bars; secrets are read by reference; kubectl shows it all.
func TestEverySourceLive(t *testing.T) {
	_, url, replay := startGrid(t, 60)
	startController(t, "--cache-dir", t.TempDir())
	secret := v1alpha1.SecretKey{Name: "grid", Key: "token"}
	at := v1alpha1.Endpoint(url)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "carbon-aware", Namespace: "lull-system"}, BinaryData: map[string][]byte{"data": carbonAwareList()}}
	must(t, env.client.Create(context.Background(), cm))
	t.Cleanup(func() { _ = env.client.Delete(context.Background(), cm) })
	file := filepath.Join(t.TempDir(), "s.csv")
	must(t, os.WriteFile(file, []byte("time,intensity_gco2eq_per_kwh\n2023-05-09T00:00:00Z,100\n2023-05-09T01:00:00Z,110\n"+longCSV()), 0o600))
	cases := []struct {
		name  string
		spec  v1alpha1.GridZoneSpec
		basis string
	}{
		{"em-v3", v1alpha1.GridZoneSpec{Zone: "DE", Source: electricityMaps(url)}, "LiveForecast"},
		{"em-v4", v1alpha1.GridZoneSpec{CloudRegion: "aws/eu-central-1", Source: v1alpha1.GridZoneSource{ElectricityMaps: &v1alpha1.ElectricityMapsSource{Endpoint: at, Version: "v4", TokenSecret: secret}},
			Weather: &v1alpha1.WeatherSource{OpenMeteo: v1alpha1.OpenMeteoSource{Endpoint: at, Latitude: 50.1, Longitude: 8.7}}}, "LiveForecast"},
		{"watttime", v1alpha1.GridZoneSpec{Zone: "US-CAL-CISO", Signal: v1alpha1.SignalMarginal, Source: v1alpha1.GridZoneSource{WattTime: &v1alpha1.WattTimeSource{Endpoint: at, Region: "CAISO_NORTH", Username: "lull", PasswordSecret: secret}}}, "LiveForecast"},
		{"uk", v1alpha1.GridZoneSpec{Zone: "GB", Source: v1alpha1.GridZoneSource{UKCarbonIntensity: &v1alpha1.UKCarbonIntensitySource{Endpoint: at}}}, "LiveForecast"},
		{"entsoe", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{EntsoE: &v1alpha1.EntsoESource{Endpoint: at, Domain: "10Y1001A1001A82H", TokenSecret: secret}}}, "LiveForecast"},
		{"eia", v1alpha1.GridZoneSpec{Zone: "US-CAL-CISO", Source: v1alpha1.GridZoneSource{EIA: &v1alpha1.EIASource{Endpoint: at, Respondent: "CISO", KeySecret: secret}}}, "OwnForecast"},
		{"sdk", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{CarbonAwareSDK: &v1alpha1.CarbonAwareSDKSource{Endpoint: at, Location: "germanywestcentral"}}}, "LiveForecast"},
		{"prometheus", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{Prometheus: &v1alpha1.PrometheusSource{Endpoint: at, Query: `ci{zone="DE"}`, ForecastQuery: `forecast{zone="DE"}`, TokenSecret: &secret}}}, "LiveForecast"},
		{"sdk-exporter", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{CarbonAwareConfigMap: &v1alpha1.CarbonAwareConfigMapSource{Namespace: "lull-system", Name: "carbon-aware", Location: "de"}}}, "LiveForecast"},
		{"file", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{File: &v1alpha1.FileSource{Path: file}}}, "LiveForecast"},
	}
	for _, tc := range cases {
		tc.spec.Replay = replay
		createZone(t, "src-"+tc.name, tc.spec)
	}
	for _, tc := range cases {
		var last *v1alpha1.GridZone
		bed{t: t}.eventually(tc.name+" to be ready", func() bool {
			last = getZone(t, "src-"+tc.name)
			return is(last, "Ready") && !is(last, "Degraded") && !is(last, "Stale") && last.Status.Basis == tc.basis && last.Status.Intensity != nil
		})
		if n := len(last.Status.Forecast); n != 48 || last.Status.Age == "" || last.Status.Zone == "" || last.Status.Trend == "" {
			t.Errorf("%s: %d hours, age %q, zone %q, trend %q", tc.name, n, last.Status.Age, last.Status.Zone, last.Status.Trend)
		}
		recorded := tc.name == "file" || tc.name == "sdk-exporter" // stands for the truth
		if p := last.Status.Forecast[30]; !recorded && (p.Low == nil || p.High == nil || *p.Low >= p.Intensity || *p.High <= p.Intensity) {
			t.Errorf("%s: no error bars: %+v", tc.name, p)
		}
	}
	columns := printerColumns(t)
	for _, want := range []string{"Zone", "gCO2eq/kWh", "Trend", "Basis", "Age", "Error %", "Ready", "Stale", "Degraded", "Source"} {
		if !slices.Contains(columns, want) {
			t.Errorf("kubectl get gridzones has no column %q: %q", want, columns)
		}
	}
}

// printerColumns are the columns that the API server has kubectl print.
func printerColumns(t *testing.T) []string {
	t.Helper()
	c, err := rest.HTTPClientFor(env.config)
	must(t, err)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, env.config.Host+"/apis/lull.dev/v1alpha1/gridzones", nil)
	must(t, err)
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	res, err := c.Do(req)
	must(t, err)
	defer res.Body.Close()
	var table metav1.Table
	must(t, json.NewDecoder(res.Body).Decode(&table))
	var out []string
	for _, column := range table.ColumnDefinitions {
		out = append(out, column.Name)
	}
	return out
}

// TestMissingSecret: what is usual is known all the same, and the status names
// what is missing without showing anything; the secret that comes later is used.
func TestMissingSecret(t *testing.T) {
	_, url, replay := startGrid(t, 60)
	startController(t)
	source := electricityMaps(url)
	source.ElectricityMaps.TokenSecret.Name = "late"
	createZone(t, "no-secret", v1alpha1.GridZoneSpec{Zone: "DE", Source: source, Replay: replay})
	bed{t: t}.eventually("the zone to fall back", func() bool {
		z := getZone(t, "no-secret")
		c := meta.FindStatusCondition(z.Status.Conditions, "Ready")
		return c != nil && c.Status == "False" && strings.Contains(c.Message, "spec.source.electricityMaps.tokenSecret: secret lull-system/late") &&
			z.Status.Basis == "Climatology" && is(z, "Degraded") && is(z, "Stale") &&
			z.Status.GridTime.Sub(gridStart).Abs() < 24*time.Hour // the clock of the replay runs without the source
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: "lull-system"}, StringData: map[string]string{"token": fakeToken}}
	must(t, env.client.Create(context.Background(), secret))
	t.Cleanup(func() { _ = env.client.Delete(context.Background(), secret) })
	bed{t: t}.eventually("the zone to use the secret", func() bool {
		z := getZone(t, "no-secret")
		return is(z, "Ready") && !is(z, "Degraded") && z.Status.Basis == "LiveForecast"
	})
}

// TestProviderOutage: a day without the provider, the controller killed in the
// middle of it. Jobs go on and no deadline is missed; status and metrics tell the
// truth; afterwards all is as before.
func TestProviderOutage(t *testing.T) {
	const speed = 3600 // an hour in a second; a pod of the lab's "1h" runs four of them
	grid, url, replay := startGrid(t, speed)
	dir, address := t.TempDir(), freeAddress(t)
	flags := []string{"--cache-dir", dir, "--metrics-bind-address", address}
	first := startController(t, flags...)
	hour := &metav1.Duration{Duration: time.Hour}
	createZone(t, "outage", v1alpha1.GridZoneSpec{
		Zone: "DE", Source: electricityMaps(url), Replay: replay, Refresh: hour, StaleAfter: &metav1.Duration{Duration: 4 * time.Hour},
	})
	b := newBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Zone = "outage"
		p.Spec.StartMargin = &metav1.Duration{Duration: 8 * time.Hour}
	})
	b.eventually("the zone to be ready", func() bool { return is(getZone(t, "outage"), "Ready") })
	metrics := func() string {
		_, text := get(t, "http://"+address+"/metrics")
		return text
	}
	jobs := 0
	submit := func() {
		job := b.job(fmt.Sprintf("job-%d", jobs), map[string]string{v1alpha1.AnnotationRuntime: "4h", v1alpha1.AnnotationMaxDelay: "24h"})
		b.submit(job)
		jobs++
	}
	tick := func(hours int) {
		for range hours {
			if jobs < 30 {
				submit()
			}
			time.Sleep(time.Second)
		}
	}
	zone := getZone(t, "outage")
	if zone.Status.Basis != "LiveForecast" || is(zone, "Stale") || is(zone, "Degraded") {
		t.Errorf("before the outage: %+v", zone.Status)
	}
	tick(4)
	must(t, grid.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultError}))
	begin := time.Now()
	tick(8)
	zone = getZone(t, "outage")
	if zone.Status.Basis != "CachedForecast" || !is(zone, "Stale") || !is(zone, "Degraded") || zone.Status.Intensity == nil || len(zone.Status.Forecast) != 48 {
		t.Errorf("eight hours into the outage: %+v", zone.Status)
	}
	if c := meta.FindStatusCondition(zone.Status.Conditions, "Degraded"); c == nil || !strings.Contains(c.Message, "500") {
		t.Errorf("the status does not say why: %+v", c)
	}
	text := metrics()
	for _, line := range []string{`lull_zone_stale{zone="outage"} 1`, `lull_zone_degraded{zone="outage"} 1`, `lull_zone_basis{basis="CachedForecast",zone="outage"} 1`, `status="500"`} {
		if !strings.Contains(text, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	must(t, first.Process.Kill())
	_ = first.Wait()
	time.Sleep(2 * time.Second)
	startController(t, flags...)
	b.eventually("the restarted controller to know the zone", func() bool {
		return strings.Contains(metricsOrNone(address), `lull_zone_basis{basis="CachedForecast",zone="outage"} 1`)
	})
	tick(max(0, 24-int(time.Since(begin).Seconds())))
	zone = getZone(t, "outage")
	if zone.Status.Basis != "CachedForecast" || !is(zone, "Stale") || !is(zone, "Degraded") {
		t.Errorf("at the end of the outage: %+v", zone.Status)
	}
	must(t, grid.SetFaults())
	b.eventually("the zone to recover", func() bool {
		z := getZone(t, "outage")
		return z.Status.Basis == "LiveForecast" && !is(z, "Stale") && !is(z, "Degraded")
	})
	b.eventually("the metrics to recover", func() bool {
		text := metrics()
		return strings.Contains(text, `lull_zone_stale{zone="outage"} 0`) && strings.Contains(text, `lull_zone_degraded{zone="outage"} 0`)
	})
	waited, estimated := 0, 0
	for i := range jobs {
		name := fmt.Sprintf("job-%d", i)
		b.eventually(name+" to finish", func() bool { return b.finished(name) })
		job := b.get(name)
		// 24 h of delay and 4 h of run time are 28 s.
		if took := job.Status.CompletionTime.Sub(job.CreationTimestamp.Time); took > 28*time.Second {
			t.Errorf("%s missed its deadline: %v", name, took)
		}
		if job.Status.StartTime.Sub(job.CreationTimestamp.Time) > 2*time.Second {
			waited++
		}
		if strings.Contains(job.Annotations[v1alpha1.AnnotationDecision], "CachedForecast") {
			estimated++
		}
	}
	if waited < jobs/4 || estimated == 0 {
		t.Errorf("%d of %d Jobs waited, %d were decided on the older forecast: Lull went blind", waited, jobs, estimated)
	}
}

func metricsOrNone(address string) string {
	res, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return string(text)
}

func longCSV() string {
	var b strings.Builder
	for h := 2; h < 24*8; h++ {
		fmt.Fprintf(&b, "%s,%d\n", time.Date(2023, 5, 9, 0, 0, 0, 0, time.UTC).Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 100+h%24*10)
	}
	return b.String()
}

func carbonAwareList() []byte {
	var rows []string
	for h := range 24 * 8 {
		rows = append(rows, fmt.Sprintf(`{"Location":"de","Timestamp":"%s","Duration":60,"Value":%d}`, time.Date(2023, 5, 9, 0, 0, 0, 0, time.UTC).Add(time.Duration(h)*time.Hour).Format(time.RFC3339), 100+h%24*10))
	}
	return []byte("[" + strings.Join(rows, ",") + "]")
}
