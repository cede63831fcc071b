package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
)

const csv = "time,intensity_gco2eq_per_kwh\n2026-03-01T00:00:00Z,100\n2026-03-01T01:00:00Z,200\n"

func fileZone(path string) *v1alpha1.GridZone {
	return &v1alpha1.GridZone{
		ObjectMeta: metav1.ObjectMeta{Name: "z"},
		Spec:       v1alpha1.GridZoneSpec{Zone: "DE", Source: v1alpha1.GridZoneSource{File: &v1alpha1.FileSource{Path: path}}},
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFileIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "de.csv")
	write(t, path, csv)
	l := &ZoneReader{}
	first, err := l.Series(context.Background(), fileZone(path))
	if err != nil {
		t.Fatal(err)
	}
	if first.Len() != 2 || first.Zone != "DE" || first.Signal != carbon.Average || !strings.Contains(first.Source, path) {
		t.Errorf("series of %d with provenance %+v", first.Len(), first.Provenance)
	}
	if again, err := l.Series(context.Background(), fileZone(path)); err != nil || again != first {
		t.Errorf("an unchanged file was read again: %v", err)
	}
	write(t, path, csv+"2026-03-01T02:00:00Z,300\n")
	if changed, err := l.Series(context.Background(), fileZone(path)); err != nil || changed.Len() != 3 {
		t.Errorf("a changed file was not read: %v", err)
	}
}

func TestErrorsNameTheSource(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	write(t, bad, csv+"2026-03-01T02:00:00Z,-5\n")
	marginal := filepath.Join(dir, "marginal.json")
	write(t, marginal, `{"signal": "marginal", "data": [{"time": "2026-03-01T00:00:00Z", "value": 1}]}`)
	for want, zone := range map[string]*v1alpha1.GridZone{
		"no such file":                         fileZone(filepath.Join(dir, "absent.csv")),
		"line 4":                               fileZone(bad),
		"the series is marginal, the zone sta": fileZone(marginal),
		"a regular file":                       fileZone(dir),
		"spec.source: empty":                   {Spec: v1alpha1.GridZoneSpec{Zone: "DE"}},
	} {
		if _, err := (&ZoneReader{}).Series(context.Background(), zone); !errors.Is(err, source.ErrSource) || !strings.Contains(err.Error(), want) {
			t.Errorf("want ErrSource with %q, got %v", want, err)
		}
	}
	if _, err := source.Read(strings.NewReader(csv), "de.xml", carbon.Provenance{}); err == nil || !strings.Contains(err.Error(), ".csv or .json") {
		t.Errorf("another format: %v", err)
	}
}

// TestKeepsTheGeneration: a zone that changes its signal is read anew.
func TestKeepsTheGeneration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "de.csv")
	write(t, path, csv)
	l := &ZoneReader{}
	zone := fileZone(path)
	if _, err := l.Series(context.Background(), zone); err != nil {
		t.Fatal(err)
	}
	zone.Generation++
	zone.Spec.Signal = v1alpha1.SignalMarginal
	s, err := l.Series(context.Background(), zone)
	if err != nil || s.Signal != carbon.Marginal {
		t.Errorf("signal %v, %v; want marginal", s.Signal, err)
	}
}

// TestZoneOfGreatBritain: the source of Great Britain is refused for other zones, which would get its intensity. All else of the
// zone stands.
func TestZoneOfGreatBritain(t *testing.T) {
	for name, good := range map[string]bool{"GB": true, "GB-16": true, "DE": false, "UK": false, "GBX": false} {
		zone := &v1alpha1.GridZone{Spec: v1alpha1.GridZoneSpec{Zone: name, Source: v1alpha1.GridZoneSource{UKCarbonIntensity: &v1alpha1.UKCarbonIntensitySource{}}}}
		cfg, err := (&ZoneReader{}).Config(context.Background(), zone)
		if (err == nil) != good || (cfg.Provider != nil) != good || cfg.Zone != name || cfg.Factor != carbon.Direct {
			t.Errorf("%s: %+v, %v", name, cfg, err)
		}
		if !good && !strings.Contains(err.Error(), fmt.Sprintf("spec.zone: %q; accepted for ukCarbonIntensity: GB", name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWeatherOfAZone: all places of a zone are asked about. Feeds of other places are others; that of one place has the name that
// earlier versions gave it, so that an upgrade keeps what it knows.
func TestWeatherOfAZone(t *testing.T) {
	zone := fileZone("/x.csv")
	keyOf := func(more ...v1alpha1.Place) string {
		zone.Spec.Weather = &v1alpha1.WeatherSource{OpenMeteo: v1alpha1.OpenMeteoSource{Latitude: 50.1, Longitude: 8.7, MorePlaces: more}}
		cfg, err := (&ZoneReader{}).Config(context.Background(), zone)
		if err != nil || len(cfg.Weather.Places) != 1+len(more) || cfg.Weather.Endpoint != "https://api.open-meteo.com" {
			t.Errorf("%+v, %v", cfg.Weather, err)
		}
		return cfg.Key
	}
	one := keyOf()
	if !strings.HasSuffix(one, "\x1fweather https://api.open-meteo.com50.1 8.7") {
		t.Errorf("key %q", one)
	}
	if two, other := keyOf(v1alpha1.Place{Latitude: 8, Longitude: 9}), keyOf(v1alpha1.Place{Latitude: 8, Longitude: 19}); two == one || two == other {
		t.Errorf("keys %q, %q, %q", one, two, other)
	}
}

// TestZonesShareFeedsOfEqualSources: of each source that has an address, zones share a feed only if all fields are equal, except credentials. A provider that
// keeps something between requests hands it over to its successor.
func TestZonesShareFeedsOfEqualSources(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := &ZoneReader{Reader: fake.NewClientBuilder().WithScheme(scheme).Build(), Namespace: "lull-system"}
	const account = "Username"
	for f := range reflect.TypeFor[v1alpha1.GridZoneSource]().Fields() {
		of := f.Type.Elem()
		if _, remote := of.FieldByName("Endpoint"); !remote {
			continue
		}
		keyOf := func(change string) string {
			spec := reflect.New(of)
			for g := range of.Fields() {
				switch v := spec.Elem().FieldByName(g.Name); v.Kind() {
				case reflect.String:
					v.SetString("https://" + g.Name + ".example")
					if g.Name == change {
						v.SetString("https://other.example")
					}
				case reflect.Bool:
					v.SetBool(g.Name == change)
				case reflect.Int, reflect.Int32, reflect.Int64:
					if g.Name == change {
						v.SetInt(7)
					}
				}
			}
			zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: "z"}, Spec: v1alpha1.GridZoneSpec{Zone: "GB"}}
			reflect.ValueOf(&zone.Spec.Source).Elem().FieldByName(f.Name).Set(spec)
			cfg := source.Config{Zone: "GB", Signal: carbon.Average, Factor: carbon.Lifecycle}
			cfg.Provider, _ = reader.provider(context.Background(), zone, cfg) // without its Secret it comes with an error
			if cfg.Provider == nil {
				t.Fatalf("%s: no provider", f.Name)
			}
			if _, inherits := cfg.Provider.(provider.Inheritor); reflect.TypeOf(cfg.Provider).Kind() == reflect.Pointer && !inherits {
				t.Errorf("%s: a provider that keeps something hands nothing over", f.Name)
			}
			return key(zone, cfg)
		}
		same := keyOf("")
		if keyOf("") != same {
			t.Errorf("%s: equal sources have two feeds", f.Name)
		}
		for g := range of.Fields() {
			k := g.Type.Kind()
			credential := g.Name == account || k == reflect.Struct || k == reflect.Pointer // references to Secrets
			if got := keyOf(g.Name) != same; got == credential {
				t.Errorf("%s: another %s makes another feed: %v", f.Name, g.Name, got)
			}
		}
	}
}
