//go:build integration

package integration

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
)

// evil are providers that answer as they like.
type evil struct {
	*httptest.Server
	keys  atomic.Int64 // requests that had a key
	asked atomic.Int64
}

const providerKey = "the-key-of-the-provider"

func newEvil(t *testing.T, answer http.HandlerFunc) *evil {
	e := &evil{}
	ended := make(chan struct{})
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.asked.Add(1)
		if text := fmt.Sprint(r.Header, r.URL); strings.Contains(text, providerKey) {
			e.keys.Add(1)
		}
		answer(w, r)
	}))
	t.Cleanup(func() { close(ended); e.CloseClientConnections(); e.Close() })
	return e
}

// zone makes a zone of the attacker that is removed with the test; the API server may refuse it.
func (s *siege) zone(t *testing.T, name string, source v1alpha1.GridZoneSource) error {
	t.Helper()
	z := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.GridZoneSpec{Zone: "GB", Source: source, Refresh: &metav1.Duration{Duration: time.Minute}}}
	t.Cleanup(func() { _ = env.client.Delete(context.Background(), z) })
	return env.client.Create(context.Background(), z)
}

// readZone waits until the controller has read a zone, or has given up: each request is bounded in size and time.
func (s *siege) readZone(t *testing.T, name string) (z v1alpha1.GridZone, text string) {
	t.Helper()
	b := s.tenant
	b.t = t
	b.eventually("the status of zone "+name, func() bool {
		must(t, env.client.Get(context.Background(), client.ObjectKey{Name: name}, &z))
		ready := meta.FindStatusCondition(z.Status.Conditions, "Ready")
		return ready != nil && ready.Reason != "Reading"
	})
	bytes, err := json.Marshal(z.Status)
	must(t, err)
	return z, string(bytes)
}

// byZones: zones that are endless, slow, false, or curious.
func (s *siege) byZones() {
	ctx := context.Background()
	s.attack("a key for a host of the author", func(t *testing.T) {
		listens := newEvil(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
		redirects := newEvil(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, listens.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		host, _ := strings.CutPrefix(listens.URL, "http://")
		allowed, _ := strings.CutPrefix(redirects.URL, "http://")
		for name, hosts := range map[string]string{"none": "", "all": "*", "other": "api.electricitymaps.com", "allowed": allowed, "local": "localhost,localhost:x"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "attack-" + name, Namespace: charts.Namespace}, StringData: map[string]string{"token": providerKey}}
			if name != "none" {
				secret.Annotations = map[string]string{"lull.dev/provider-hosts": hosts}
			}
			must(t, env.client.Create(ctx, secret))
			t.Cleanup(func() { _ = env.client.Delete(ctx, secret) })
		}
		n := 0
		for _, secret := range []string{"none", "all", "other", "allowed", "local"} {
			endpoints := []string{listens.URL, "http://localhost:x@" + host, "http://localhost:" + host[strings.Index(host, ":")+1:] + "@" + host, "http://api.electricitymaps.com@" + host, "http://" + allowed + "@" + host, "http://" + allowed + "#@" + host}
			if secret == "allowed" {
				endpoints = append(endpoints, redirects.URL)
			}
			for _, endpoint := range endpoints {
				n++
				name := fmt.Sprintf("attack-key-%d", n)
				if err := s.zone(t, name, v1alpha1.GridZoneSource{ElectricityMaps: &v1alpha1.ElectricityMapsSource{Endpoint: v1alpha1.Endpoint(endpoint), TokenSecret: v1alpha1.SecretKey{Name: "attack-" + secret, Key: "token"}}}); err != nil {
					t.Logf("%s: refused", endpoint)
					continue
				}
				_, text := s.readZone(t, name)
				if strings.Contains(text, providerKey) {
					t.Errorf("the status has the key: %s", text)
				}
			}
		}
		if n := listens.keys.Load(); n != 0 {
			t.Errorf("the key came %d times to a host that its Secret does not name", n)
		}
		if redirects.keys.Load() == 0 {
			t.Errorf("the key never came to the host that its Secret names")
		}
	})
	s.attack("answers without an end", func(t *testing.T) {
		stop := make(chan struct{})
		t.Cleanup(func() { close(stop) })
		zeros := make([]byte, 1<<20)
		sources := map[string]*evil{
			"bomb": newEvil(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				for range 20000 {
					if _, err := z.Write(zeros); err != nil {
						return
					}
				}
			}),
			"endless": newEvil(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(`{"data":"`))
				for {
					if _, err := w.Write(zeros); err != nil {
						return
					}
				}
			}),
			"deep": newEvil(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("[", 8<<20)) }),
			"slow": newEvil(t, func(w http.ResponseWriter, r *http.Request) {
				for {
					select {
					case <-stop:
						return
					case <-r.Context().Done():
						return
					case <-time.After(time.Second):
						_, _ = w.Write([]byte(" "))
						w.(http.Flusher).Flush()
					}
				}
			}),
			"silent": newEvil(t, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-stop:
				case <-r.Context().Done():
				}
			}),
			"around": newEvil(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path+"/more", http.StatusFound)
			}),
			"headers": newEvil(t, func(w http.ResponseWriter, r *http.Request) {
				for i := range 100000 {
					w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
				}
			}),
			"later": newEvil(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "99999999999999")
				w.WriteHeader(http.StatusTooManyRequests)
			}),
		}
		for name, e := range sources {
			must(t, s.zone(t, "attack-uk-"+name, v1alpha1.GridZoneSource{UKCarbonIntensity: &v1alpha1.UKCarbonIntensitySource{Endpoint: v1alpha1.Endpoint(e.URL)}}))
			must(t, s.zone(t, "attack-prometheus-"+name, v1alpha1.GridZoneSource{Prometheus: &v1alpha1.PrometheusSource{Endpoint: v1alpha1.Endpoint(e.URL), Query: "x"}}))
		}
		for i := range 16 {
			for _, name := range []string{"silent", "endless"} {
				must(t, s.zone(t, fmt.Sprintf("attack-%s-%d", name, i), v1alpha1.GridZoneSource{UKCarbonIntensity: &v1alpha1.UKCarbonIntensitySource{Endpoint: v1alpha1.Endpoint(sources[name].URL)}}))
			}
		}
		begun := time.Now()
		other := newStandingBed(t, dirtyThenClean(), nil)
		other.eventually("a zone of others to be read meanwhile", func() bool {
			var z v1alpha1.GridZone
			must(t, env.client.Get(ctx, client.ObjectKey{Name: other.zone}, &z))
			return z.Status.Intensity != nil
		})
		t.Logf("read after %v", time.Since(begun).Round(time.Second))
		s.unharmed(t)
		for name := range sources {
			for _, kind := range []string{"attack-uk-", "attack-prometheus-"} {
				if z, text := s.readZone(t, kind+name); z.Status.Intensity != nil && fmt.Sprint(z.Status.Basis) != "Climatology" {
					t.Errorf("%s%s: it has an intensity of the source: %s", kind, name, text)
				} else {
					t.Logf("%s%s: %s", kind, name, text[:min(len(text), 400)])
				}
			}
		}
	})
	s.attack("series that lie, and texts that are none", func(t *testing.T) {
		row := func(at time.Time, v string) string { return at.UTC().Format(time.RFC3339) + "," + v + "\n" }
		now := time.Now().Truncate(time.Hour)
		const header = "time,intensity_gco2eq_per_kwh\n"
		long := header
		for i := range 28000 {
			long += row(now.Add(time.Duration(i)*time.Second), "5")
		}
		series := map[string]string{
			"nan": header + row(now, "NaN") + row(now.Add(time.Hour), "+Inf"), "negative": header + row(now, "-500") + row(now.Add(time.Hour), "-1"),
			"huge": header + row(now, "1e308") + row(now.Add(time.Hour), "1e308"), "years": header + row(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), "5") + row(time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), "5"),
			"future": header + row(now.AddDate(50, 0, 0), "5") + row(now.AddDate(50, 0, 1), "5"), "same": header + row(now, "5") + row(now, "900") + row(now, "5"),
			"backwards": header + row(now.Add(time.Hour), "5") + row(now, "900"), "seconds": long, "empty": "", "secret": "user,of-the-database\npassword,hunter2\n",
		}
		data := map[string]string{}
		for name, text := range series {
			data[name+".csv"] = text
		}
		must(t, env.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lies", Namespace: s.tenant.ns}, Data: data}))
		for name := range series {
			must(t, s.zone(t, "attack-lie-"+name, v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: s.tenant.ns, Name: "lies", Key: name + ".csv"}}))
			z, text := s.readZone(t, "attack-lie-"+name)
			t.Logf("%s: %s", name, text[:min(len(text), 500)])
			if strings.Contains(text, "hunter2") { // docs/security.md: no more than one entry of a ConfigMap is quoted
				t.Errorf("%s: the status quotes what it has read", name)
			}
			if z.Status.Intensity != nil && (*z.Status.Intensity < 0 || *z.Status.Intensity > 3000) {
				t.Errorf("%s: %v gCO2eq/kWh", name, *z.Status.Intensity)
			}
			for _, f := range z.Status.Forecast {
				if f.Intensity < 0 || f.Intensity > 3000 {
					t.Errorf("%s: %v gCO2eq/kWh is forecast", name, f.Intensity)
					break
				}
			}
		}
	})
	s.attack("metadata of the instance", func(t *testing.T) {
		for i, endpoint := range []string{
			"http://169.254.169.254", "http://[::ffff:169.254.169.254]", "http://[fe80::1]", "http://[fd00:ec2::254]", "http://2852039166", "http://0xa9fea9fe", "http://169.254.43518", "http://[64:ff9b::a9fe:a9fe]",
		} {
			name := fmt.Sprintf("attack-metadata-%d", i)
			if err := s.zone(t, name, v1alpha1.GridZoneSource{UKCarbonIntensity: &v1alpha1.UKCarbonIntensitySource{Endpoint: v1alpha1.Endpoint(endpoint)}}); err != nil {
				t.Logf("%s: %v", endpoint, err)
				continue
			}
			_, text := s.readZone(t, name)
			t.Logf("%s: %s", endpoint, text[:min(len(text), 600)])
			if i < 4 && !strings.Contains(text, "link-local") && !strings.Contains(text, "metadata") {
				t.Errorf("%s: nothing says that it is refused", endpoint)
			}
		}
	})
}
