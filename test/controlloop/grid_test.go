package controlloop

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/carbon/fakegrid"
	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/test/simkube"
)

// fakeToken is what the grid asks for.
const fakeToken = "only-for-tests"

// gridURL is where the grid of a bed answers.
const (
	gridHost = "grid.invalid"
	gridURL  = "https://" + gridHost
)

// grid are the providers of carbon data of a bed, which serve weathered climatology of a few zones.
type grid struct {
	*fakegrid.Server
	bed    *bed
	replay *v1alpha1.Replay
}

func newGrid(b *bed) *grid {
	b.t.Helper()
	epoch := time.Now().Truncate(time.Second)
	tl, err := timegrid.NewTimeline(epoch, gridStart, factor)
	b.must(err)
	series := map[string]*carbon.Series{}
	for _, zone := range []string{"DE", "GB", "US-CAL-CISO"} {
		usual, err := climatology.Series(zone, gridStart.AddDate(0, 0, -70), gridStart.AddDate(0, 0, 30))
		b.must(err)
		samples := make([]carbon.Sample, usual.Len())
		for i := range samples {
			samples[i] = usual.Sample(i)
			samples[i].Value *= units.CarbonIntensity(1 + 0.3*math.Sin(float64(i)/31))
		}
		series[zone], err = carbon.NewSeries(carbon.Provenance{Zone: zone}, samples)
		b.must(err)
	}
	return &grid{
		Server: fakegrid.New(fakegrid.Options{Zones: series, Timeline: tl, Token: fakeToken, ForecastError: 0.1}),
		bed:    b, replay: &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Epoch: &metav1.Time{Time: epoch}, Factor: factor},
	}
}

// secret creates a Secret with the token of the grid, which may be sent to the grid.
func (g *grid) secret(name string) {
	g.bed.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "lull-system", Annotations: map[string]string{v1alpha1.AnnotationProviderHosts: gridHost}},
		Data:       map[string][]byte{"token": []byte(fakeToken)},
	})
}

// controller starts a controller that asks the grid.
func (g *grid) controller(changes ...func(*controller.Options)) *simkube.Program {
	p := &provider{grid: g.Server, seed: g.bed.Seed, count: map[string]uint64{}}
	program := g.bed.Controller(append(changes, func(o *controller.Options) {
		o.Fetch = func(c *fetch.Client) { c.Transport, c.Jitter = p, p.jitter }
	})...)
	p.dead = program.Dead
	return program
}

// provider is the connection of a controller to the grid. How long a call takes depends on what it asks for and on how often
// it was asked for.
type provider struct {
	grid http.Handler
	seed uint64
	dead func() bool

	mu    sync.Mutex
	count map[string]uint64
}

func (p *provider) draw(what string, n uint64) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what))
	return rand.New(rand.NewPCG(p.seed^h.Sum64(), n)).Float64()
}

// jitter is that of fetch.Client.
func (p *provider) jitter(url string, try int) float64 { return p.draw(url, uint64(try)) }

// RoundTrip implements http.RoundTripper.
func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	what := req.URL.String()
	p.mu.Lock()
	p.count[what]++
	n := p.count[what]
	p.mu.Unlock()
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-time.After(time.Duration((1 + 99*p.draw(what, n)) * float64(time.Millisecond))):
	}
	if p.dead() {
		return nil, fmt.Errorf("the process was killed (a fault of the model)")
	}
	arrived := req.Clone(req.Context())
	arrived.Header = http.Header{}
	for name, values := range req.Header { // a server reads names of headers in any case
		arrived.Header[http.CanonicalHeaderKey(name)] = values
	}
	w := httptest.NewRecorder()
	p.grid.ServeHTTP(w, arrived)
	return w.Result(), nil
}

// electricityMaps is a source of the grid.
func electricityMaps(secret string) v1alpha1.GridZoneSource {
	return v1alpha1.GridZoneSource{ElectricityMaps: &v1alpha1.ElectricityMapsSource{Endpoint: gridURL, TokenSecret: v1alpha1.SecretKey{Name: secret, Key: "token"}}}
}

// gridZone reads a GridZone.
func (b *bed) gridZone(name string) *v1alpha1.GridZone {
	b.t.Helper()
	var zone v1alpha1.GridZone
	b.must(b.Client.Get(b.Context(), client.ObjectKey{Name: name}, &zone))
	return &zone
}

func is(zone *v1alpha1.GridZone, condition string) bool {
	return meta.IsStatusConditionTrue(zone.Status.Conditions, condition)
}

// hourlyData are eight days of hours, each as row writes it, with an intensity of 100 to 330.
func hourlyData(row func(at string, intensity int) string) string {
	rows := make([]string, 24*8)
	for h := range rows {
		rows[h] = row(gridStart.Add(time.Duration(h-24)*time.Hour).Format(time.RFC3339), 100+h%24*10)
	}
	return strings.Join(rows, "")
}

// TestEverySourceLive: a GridZone of each source becomes ready, with a forecast and its error bars; secrets are read by
// reference.
func TestEverySourceLive(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		g := newGrid(b)
		g.secret("grid")
		g.controller(func(o *controller.Options) { o.CacheDir = t.TempDir() })
		secret := v1alpha1.SecretKey{Name: "grid", Key: "token"}
		const endpoint v1alpha1.Endpoint = gridURL
		list := hourlyData(func(at string, intensity int) string {
			return fmt.Sprintf(`,{"Location":"de","Timestamp":"%s","Duration":60,"Value":%d}`, at, intensity)
		})
		b.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "carbon-aware", Namespace: "lull-system"}, BinaryData: map[string][]byte{"data": []byte("[" + list[1:] + "]")}})
		file := filepath.Join(t.TempDir(), "s.csv")
		b.must(os.WriteFile(file, []byte("time,intensity_gco2eq_per_kwh\n"+hourlyData(func(at string, intensity int) string {
			return fmt.Sprintf("%s,%d\n", at, intensity)
		})), 0o600))
		v4 := electricityMaps("grid")
		v4.ElectricityMaps.Version = "v4"
		cases := []struct {
			name  string
			spec  v1alpha1.GridZoneSpec
			basis string
		}{
			{"em-v3", v1alpha1.GridZoneSpec{Zone: "DE", Source: electricityMaps("grid")}, "LiveForecast"},
			{"em-v4", v1alpha1.GridZoneSpec{
				CloudRegion: "aws/eu-central-1", Source: v4,
				Weather: &v1alpha1.WeatherSource{OpenMeteo: v1alpha1.OpenMeteoSource{Endpoint: endpoint, Latitude: 50.1, Longitude: 8.7}},
			}, "LiveForecast"},
			{"watttime", v1alpha1.GridZoneSpec{Zone: "US-CAL-CISO", Signal: v1alpha1.SignalMarginal, Source: v1alpha1.GridZoneSource{WattTime: &v1alpha1.WattTimeSource{Endpoint: endpoint, Region: "CAISO_NORTH", Username: "lull", PasswordSecret: secret}}}, "LiveForecast"},
			{"uk", v1alpha1.GridZoneSpec{Zone: "GB", Source: v1alpha1.GridZoneSource{UKCarbonIntensity: &v1alpha1.UKCarbonIntensitySource{Endpoint: endpoint}}}, "LiveForecast"},
			{"entsoe", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{EntsoE: &v1alpha1.EntsoESource{Endpoint: endpoint, Domain: "10Y1001A1001A82H", TokenSecret: secret}}}, "LiveForecast"},
			{"eia", v1alpha1.GridZoneSpec{Zone: "US-CAL-CISO", Source: v1alpha1.GridZoneSource{EIA: &v1alpha1.EIASource{Endpoint: endpoint, Respondent: "CISO", KeySecret: secret}}}, "OwnForecast"},
			{"sdk", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{CarbonAwareSDK: &v1alpha1.CarbonAwareSDKSource{Endpoint: endpoint, Location: "germanywestcentral"}}}, "LiveForecast"},
			{"prometheus", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{Prometheus: &v1alpha1.PrometheusSource{Endpoint: endpoint, Query: `ci{zone="DE"}`, ForecastQuery: `forecast{zone="DE"}`, TokenSecret: &secret}}}, "LiveForecast"},
			{"sdk-exporter", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{CarbonAwareConfigMap: &v1alpha1.CarbonAwareConfigMapSource{Namespace: "lull-system", Name: "carbon-aware", Location: "de"}}}, "LiveForecast"},
			{"file", v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{File: &v1alpha1.FileSource{Path: file}}}, "LiveForecast"},
		}
		for _, tc := range cases {
			tc.spec.Replay = g.replay
			b.Create(&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "src-" + tc.name}, Spec: tc.spec})
		}
		began := time.Now()
		for _, tc := range cases {
			var last *v1alpha1.GridZone
			b.Until(tc.name+" to be ready", func() bool {
				last = b.gridZone("src-" + tc.name)
				return is(last, "Ready") && !is(last, "Degraded") && !is(last, "Stale") && last.Status.Basis == tc.basis && last.Status.Intensity != nil
			})
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%s was ready after %v", tc.name, took)
			}
			if n := len(last.Status.Forecast); n != 48 || last.Status.Age == "" || last.Status.Zone == "" || last.Status.Trend == "" {
				t.Errorf("%s: %d hours, age %q, zone %q, trend %q", tc.name, n, last.Status.Age, last.Status.Zone, last.Status.Trend)
			}
			recorded := tc.name == "file" || tc.name == "sdk-exporter" // stands for the truth
			if p := last.Status.Forecast[30]; !recorded && (p.Low == nil || p.High == nil || *p.Low >= p.Intensity || *p.High <= p.Intensity) {
				t.Errorf("%s: no error bars: %+v", tc.name, p)
			}
		}
	})
}

// TestMissingSecretIsNamed: what is usual is known all the same, and the status names what is missing without showing anything; the
// secret that comes later is used.
func TestMissingSecretIsNamed(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		g := newGrid(b)
		g.controller()
		b.Create(&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "no-secret"}, Spec: v1alpha1.GridZoneSpec{Zone: "DE", Source: electricityMaps("late"), Replay: g.replay}})
		b.Until("the zone to fall back", func() bool {
			z := b.gridZone("no-secret")
			c := meta.FindStatusCondition(z.Status.Conditions, "Ready")
			return c != nil && c.Status == "False" && strings.Contains(c.Message, "spec.source.electricityMaps.tokenSecret: secret lull-system/late") &&
				z.Status.Basis == "Climatology" && is(z, "Degraded") && is(z, "Stale")
		})
		// The clock of the replay runs without the source.
		if z, now := b.gridZone("no-secret"), b.gridTime(time.Now()); z.Status.GridTime == nil || z.Status.GridTime.Before(&metav1.Time{Time: gridStart}) || z.Status.GridTime.After(now.Add(minute)) {
			t.Errorf("the time of the zone is %v, want between %v and %v", z.Status.GridTime, gridStart, now)
		}
		g.secret("late")
		came := time.Now()
		b.Until("the zone to use the secret", func() bool {
			z := b.gridZone("no-secret")
			return is(z, "Ready") && !is(z, "Degraded") && z.Status.Basis == "LiveForecast"
		})
		if took := time.Since(came); took > 65*time.Second {
			t.Errorf("the zone used the secret after %v, want at most a minute, an hour of the series", took)
		}
	})
}

// exported are the metrics as they are served. Programs that ran before in this process count in them.
func exported(t *testing.T) string {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestProviderOutageLosesNoDeadline: a day without the provider, the controller killed in the middle of it. Jobs go on and no deadline is
// missed; status and metrics tell the truth; afterwards all is as before.
func TestProviderOutageLosesNoDeadline(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Zone = "outage" }, func(b *bed) {
		g := newGrid(b)
		g.secret("grid")
		dir := t.TempDir()
		cached := func(o *controller.Options) { o.CacheDir = dir }
		first := g.controller(cached)
		b.Create(&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "outage"}, Spec: v1alpha1.GridZoneSpec{
			Zone: "DE", Source: electricityMaps("grid"), Replay: g.replay,
			Refresh: &metav1.Duration{Duration: time.Hour}, StaleAfter: &metav1.Duration{Duration: 4 * time.Hour},
		}})
		b.Until("the zone to be ready", func() bool { return is(b.gridZone("outage"), "Ready") })
		jobs := 0
		hours := func(n int) {
			for range n {
				if jobs < 30 {
					j := b.job(fmt.Sprintf("job-%d", jobs), map[string]string{v1alpha1.AnnotationRuntime: "4h", v1alpha1.AnnotationMaxDelay: "24h"})
					j.Spec.Template.Annotations[simkube.RunTime] = "4h"
					b.Create(j)
					jobs++
				}
				b.Run(time.Hour / factor)
			}
		}
		zoneIs := func(when, basis string, stale, degraded bool) *v1alpha1.GridZone {
			t.Helper()
			z := b.gridZone("outage")
			if z.Status.Basis != basis || is(z, "Stale") != stale || is(z, "Degraded") != degraded || z.Status.Intensity == nil || len(z.Status.Forecast) != 48 {
				t.Errorf("%s: %+v", when, z.Status)
			}
			text := exported(t)
			one := map[bool]int{true: 1}
			for _, line := range []string{
				fmt.Sprintf(`lull_zone_stale{zone="outage"} %d`, one[stale]), fmt.Sprintf(`lull_zone_degraded{zone="outage"} %d`, one[degraded]),
				fmt.Sprintf(`lull_zone_basis{basis=%q,zone="outage"} 1`, basis),
			} {
				if !strings.Contains(text, line+"\n") {
					t.Errorf("%s: metrics lack %s", when, line)
				}
			}
			return z
		}
		zoneIs("before the outage", "LiveForecast", false, false)
		hours(4)
		b.must(g.SetFaults(fakegrid.Fault{Kind: fakegrid.FaultError}))
		began := time.Now()
		hours(8)
		z := zoneIs("eight hours into the outage", "CachedForecast", true, true)
		if c := meta.FindStatusCondition(z.Status.Conditions, "Degraded"); c == nil || !strings.Contains(c.Message, "500") {
			t.Errorf("the status does not say why: %+v", c)
		}
		if !strings.Contains(exported(t), `host="grid.invalid",status="500"`) {
			t.Error("metrics lack the failed requests")
		}
		first.Kill()
		metrics.Stale.Reset() // as in a new process
		metrics.Degraded.Reset()
		metrics.Basis.Reset()
		b.Run(2 * time.Hour / factor)
		g.controller(cached)
		b.Until("the restarted controller to know the zone", func() bool {
			return strings.Contains(exported(t), `lull_zone_basis{basis="CachedForecast",zone="outage"} 1`)
		})
		hours(24 - int(time.Since(began)/(time.Hour/factor)))
		zoneIs("at the end of the outage", "CachedForecast", true, true)
		b.must(g.SetFaults())
		ended := time.Now()
		b.Until("the zone to recover", func() bool {
			z := b.gridZone("outage")
			return z.Status.Basis == "LiveForecast" && !is(z, "Stale") && !is(z, "Degraded")
		})
		if took := time.Since(ended); took > 2*time.Hour/factor {
			t.Errorf("the zone recovered after %v, want the next refresh", took)
		}
		zoneIs("after the outage", "LiveForecast", false, false)
		waited, cachedDecisions := 0, 0
		for i := range jobs {
			name := fmt.Sprintf("job-%d", i)
			b.Until(name+" to finish", func() bool { return b.finished(name) })
			j := b.get(name)
			if took := j.Status.CompletionTime.Sub(j.CreationTimestamp.Time) * factor; took > 28*time.Hour { // delay and run time
				t.Errorf("%s missed its deadline: %v", name, took)
			}
			if j.Status.StartTime.Sub(j.CreationTimestamp.Time)*factor > 2*time.Hour {
				waited++
			}
			if strings.Contains(j.Annotations[v1alpha1.AnnotationDecision], "CachedForecast") {
				cachedDecisions++
			}
		}
		t.Logf("%d Jobs, of which %d waited and %d were decided on the older forecast", jobs, waited, cachedDecisions)
		if jobs < 26 || waited < jobs/4 || cachedDecisions == 0 {
			t.Errorf("%d of %d Jobs waited, %d were decided on the older forecast: Lull did not plan without its provider", waited, jobs, cachedDecisions)
		}
	})
}
