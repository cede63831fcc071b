package kube

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/zones"
)

// maxFileBytes bounds a file; a ConfigMap is bounded by Kubernetes at 1 MiB.
const maxFileBytes = 128 << 20

// ZoneReader turns GridZones into what package source works with, and reads the
// ConfigMaps, files and Secrets that they name. It is safe for concurrent use.
type ZoneReader struct {
	// Reader reads ConfigMaps and Secrets from the API server.
	Reader client.Reader
	// Namespace is where Secrets are: the controller's own.
	Namespace string
	// Namespaces are those that ConfigMaps may be in, beside the controller's own; none for all.
	Namespaces []string

	mu     sync.Mutex
	loaded map[string]loaded // by zone name
}

type loaded struct {
	version string
	series  *carbon.Series
}

// ZoneTimeline returns the clock of a zone.
func ZoneTimeline(zone *v1alpha1.GridZone) (timegrid.Timeline, error) {
	replay := zone.Spec.Replay
	if replay == nil {
		return timegrid.Timeline{}, nil
	}
	epoch := zone.CreationTimestamp.Time
	if replay.Epoch != nil {
		epoch = replay.Epoch.Time
	}
	tl, err := timegrid.NewTimeline(epoch, replay.Start.Time, float64(max(1, replay.Factor)))
	if err != nil {
		return tl, fmt.Errorf("spec.replay: %w", err)
	}
	return tl, nil
}

// GridZoneName is the grid zone, also where a cloud region names it.
func GridZoneName(zone *v1alpha1.GridZone) (string, error) {
	if zone.Spec.CloudRegion == "" {
		return zone.Spec.Zone, nil
	}
	name, err := zones.OfRegion(zone.Spec.CloudRegion)
	if err != nil {
		return "", fmt.Errorf("spec.cloudRegion: %w", err)
	}
	return name, nil
}

// Config says what the zone's feed is about. Errors name the field; those of a
// Secret never show its content. With an error about the source all the rest is
// returned.
func (z *ZoneReader) Config(ctx context.Context, zone *v1alpha1.GridZone) (source.Config, error) {
	tl, err := ZoneTimeline(zone)
	if err != nil {
		return source.Config{}, err
	}
	name, err := GridZoneName(zone)
	if err != nil {
		return source.Config{}, err
	}
	cfg := source.Config{Zone: name, Signal: carbon.Average, Factor: factorOf(zone), Timeline: tl}
	if zone.Spec.Signal == v1alpha1.SignalMarginal {
		cfg.Signal = carbon.Marginal
	}
	cfg.Refresh, cfg.Horizon, cfg.StaleAfter = stated(zone.Spec.Refresh, 0, 24*time.Hour), stated(zone.Spec.Horizon, 0, 336*time.Hour), stated(zone.Spec.StaleAfter, 0, 720*time.Hour)
	if f := zone.Spec.Fallback; f != nil {
		cfg.Constant = &source.Constant{Value: f.Intensity, Low: f.Intensity / 3, High: f.Intensity * 2}
		if f.Low != nil {
			cfg.Constant.Low = *f.Low
		}
		if f.High != nil {
			cfg.Constant.High = *f.High
		}
	}
	if w := zone.Spec.Weather; w != nil {
		weather := Weather(w)
		cfg.Weather = &weather
	}
	if cfg.Provider, err = z.provider(ctx, zone, cfg); err != nil {
		cfg.Provider = nil
		return cfg, err
	}
	cfg.Key = key(zone, cfg)
	return cfg, nil
}

// key names what feeds may share: everything that changes the numbers.
func key(zone *v1alpha1.GridZone, cfg source.Config) string {
	parts := []string{cfg.Zone, string(cfg.Signal), string(cfg.Factor)}
	if p := cfg.Provider; p != nil {
		parts = append(parts, p.Name(), p.Provenance().Zone, p.Provenance().Source)
		parts = append(parts, p.Identity()...)
	} else {
		parts = append(parts, "zone "+zone.Name)
	}
	if w := cfg.Weather; w != nil {
		text := fmt.Sprint("weather ", w.Endpoint)
		for i, p := range w.Places {
			if i > 0 { // with one place, the key is that of earlier versions
				text += ";"
			}
			text += fmt.Sprint(p.Latitude, p.Longitude)
		}
		if history := zone.Spec.Weather.OpenMeteo.HistoryEndpoint; history != "" {
			text += ";" + string(history)
		}
		parts = append(parts, text)
	}
	if !cfg.Timeline.Identity() {
		parts = append(parts, fmt.Sprint("replay ", cfg.Timeline.Wall.UnixNano(), cfg.Timeline.Grid.UnixNano(), cfg.Timeline.Factor))
	}
	return strings.Join(parts, "\x1f")
}

// DurationOf is a duration, or what stands for one that is not set.
func DurationOf(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}

// factorOf is what the zone states, else what its source publishes.
func factorOf(zone *v1alpha1.GridZone) carbon.Factor {
	switch zone.Spec.Factor {
	case v1alpha1.FactorDirect:
		return carbon.Direct
	case v1alpha1.FactorLifecycle:
		return carbon.Lifecycle
	}
	if zone.Spec.Source.UKCarbonIntensity != nil || zone.Spec.Source.WattTime != nil {
		return carbon.Direct
	}
	return carbon.Lifecycle
}

// Weather says whom to ask for the weather, and about which places.
func Weather(w *v1alpha1.WeatherSource) provider.OpenMeteo {
	out := provider.OpenMeteo{
		Endpoint: endpoint(w.OpenMeteo.Endpoint, provider.OpenMeteoEndpoint),
		Places:   []provider.Place{{Latitude: w.OpenMeteo.Latitude, Longitude: w.OpenMeteo.Longitude}},
	}
	out.HistoryEndpoint = endpoint(w.OpenMeteo.HistoryEndpoint, out.Endpoint)
	if out.HistoryEndpoint == provider.OpenMeteoEndpoint {
		out.HistoryEndpoint = provider.OpenMeteoHistoryEndpoint // the other one gives the last 92 days only
	}
	for _, p := range w.OpenMeteo.MorePlaces {
		out.Places = append(out.Places, provider.Place(p))
	}
	return out
}

func endpoint(set v1alpha1.Endpoint, standard string) string {
	if set == "" {
		return standard
	}
	return string(set)
}

// provider is nil for series that are read from a ConfigMap or a file.
func (z *ZoneReader) provider(ctx context.Context, zone *v1alpha1.GridZone, cfg source.Config) (provider.Provider, error) {
	s := zone.Spec.Source
	switch {
	case s.ElectricityMaps != nil:
		if hint := zones.Hint(cfg.Zone); hint != "" {
			return nil, fmt.Errorf("spec.zone: %q; accepted: a zone as Electricity Maps names it%s", cfg.Zone, hint)
		}
		address := endpoint(s.ElectricityMaps.Endpoint, provider.ElectricityMapsEndpoint)
		token, err := z.secret(ctx, "spec.source.electricityMaps.tokenSecret", &s.ElectricityMaps.TokenSecret, address)
		version := s.ElectricityMaps.Version
		if version == "" {
			version = "v3"
		}
		return provider.ElectricityMaps{
			Endpoint: address, Version: version, Zone: cfg.Zone, Factor: cfg.Factor,
			DisableEstimations: s.ElectricityMaps.DisableEstimations, Token: token,
		}, err
	case s.WattTime != nil:
		address := endpoint(s.WattTime.Endpoint, provider.WattTimeEndpoint)
		password, err := z.secret(ctx, "spec.source.wattTime.passwordSecret", &s.WattTime.PasswordSecret, address)
		signal := s.WattTime.SignalType
		if signal == "" {
			signal = "co2_moer"
		}
		return &provider.WattTime{
			Endpoint: address, Region: s.WattTime.Region, SignalType: signal,
			Username: s.WattTime.Username, Password: password,
		}, err
	case s.UKCarbonIntensity != nil:
		if cfg.Zone != "GB" && !strings.HasPrefix(cfg.Zone, "GB-") { // it would get the intensity of Great Britain
			return nil, fmt.Errorf("spec.zone: %q; accepted for ukCarbonIntensity: GB, or GB-NAME for one of its regions", cfg.Zone)
		}
		return provider.UKCarbonIntensity{Endpoint: endpoint(s.UKCarbonIntensity.Endpoint, provider.UKCarbonIntensityEndpoint), Region: int(s.UKCarbonIntensity.RegionID)}, nil
	case s.EntsoE != nil:
		address := endpoint(s.EntsoE.Endpoint, provider.EntsoEEndpoint)
		token, err := z.secret(ctx, "spec.source.entsoE.tokenSecret", &s.EntsoE.TokenSecret, address)
		return provider.EntsoE{Endpoint: address, Domain: s.EntsoE.Domain, Zone: cfg.Zone, Token: token}, err
	case s.EIA != nil:
		address := endpoint(s.EIA.Endpoint, provider.EIAEndpoint)
		key, err := z.secret(ctx, "spec.source.eia.keySecret", &s.EIA.KeySecret, address)
		return provider.EIA{Endpoint: address, Respondent: s.EIA.Respondent, Key: key}, err
	case s.CarbonAwareSDK != nil:
		return provider.CarbonAwareSDK{Endpoint: string(s.CarbonAwareSDK.Endpoint), Location: s.CarbonAwareSDK.Location, Signal: cfg.Signal, Factor: cfg.Factor}, nil
	case s.Prometheus != nil:
		token, err := z.secret(ctx, "spec.source.prometheus.tokenSecret", s.Prometheus.TokenSecret, string(s.Prometheus.Endpoint))
		return provider.Prometheus{
			Endpoint: string(s.Prometheus.Endpoint), Query: s.Prometheus.Query, ForecastQuery: s.Prometheus.ForecastQuery, Zone: cfg.Zone,
			Signal: cfg.Signal, Factor: cfg.Factor, Token: token,
		}, err
	}
	return nil, nil
}

// secret reads a key of a Secret in the controller's namespace that is to be sent to an endpoint; nothing for nil. The Secret must
// name the host of the endpoint (AnnotationProviderHosts): else whoever may create a GridZone could have any Secret of that
// namespace sent to any host.
func (z *ZoneReader) secret(ctx context.Context, field string, ref *v1alpha1.SecretKey, address string) (string, error) {
	if ref == nil {
		return "", nil
	}
	failed := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: secret %s/%s%w", source.ErrSource, field, z.Namespace, ref.Name, fmt.Errorf(format, args...))
	}
	var s corev1.Secret
	if err := z.Reader.Get(ctx, client.ObjectKey{Namespace: z.Namespace, Name: ref.Name}, &s); err != nil {
		return "", failed(": %w", err)
	}
	to, err := url.Parse(address)
	if err != nil {
		return "", failed(": %w", err)
	}
	if hosts := s.Annotations[v1alpha1.AnnotationProviderHosts]; !slices.ContainsFunc(strings.Split(hosts, ","), func(h string) bool {
		return to.Host != "" && strings.EqualFold(strings.TrimSpace(h), to.Host)
	}) {
		return "", failed(" may not be sent to %s: annotation %s: %q; accepted: the hosts it may be sent to, separated by commas",
			to.Host, v1alpha1.AnnotationProviderHosts, hosts)
	}
	value, ok := s.Data[ref.Key]
	if text := strings.TrimSpace(string(value)); ok && text != "" {
		return text, nil
	}
	return "", failed(" has no key %q, or it is empty", ref.Key)
}

// Series reads the series of a zone that is kept in a ConfigMap or a file, again
// only when that has changed. Errors wrap source.ErrSource, name the source and,
// for a text that is no series, what is wrong with it.
func (z *ZoneReader) Series(ctx context.Context, zone *v1alpha1.GridZone) (*carbon.Series, error) {
	src := zone.Spec.Source
	switch {
	case src.ConfigMap != nil:
		return z.configMap(ctx, zone, client.ObjectKey{Namespace: src.ConfigMap.Namespace, Name: src.ConfigMap.Name}, src.ConfigMap.Key, func(text, name string) (*carbon.Series, error) {
			return source.Read(strings.NewReader(text), src.ConfigMap.Key, Provenance(zone, name))
		})
	case src.CarbonAwareConfigMap != nil:
		key := src.CarbonAwareConfigMap.Key
		if key == "" {
			key = "data"
		}
		return z.configMap(ctx, zone, client.ObjectKey{Namespace: src.CarbonAwareConfigMap.Namespace, Name: src.CarbonAwareConfigMap.Name}, key, func(text, name string) (*carbon.Series, error) {
			p := Provenance(zone, name)
			samples, err := provider.DecodeCarbonAwareList([]byte(text), src.CarbonAwareConfigMap.Location, p)
			if err != nil {
				return nil, err
			}
			return carbon.NewSeries(p, samples)
		})
	case src.File != nil:
		return z.file(zone, src.File.Path)
	}
	return nil, fmt.Errorf("%w: spec.source: empty; accepted: one source", source.ErrSource)
}

func (z *ZoneReader) configMap(ctx context.Context, zone *v1alpha1.GridZone, ref client.ObjectKey, key string, parse func(text, name string) (*carbon.Series, error)) (*carbon.Series, error) {
	name := fmt.Sprintf("configmap %s/%s, key %s", ref.Namespace, ref.Name, key)
	if len(z.Namespaces) > 0 && ref.Namespace != z.Namespace && !slices.Contains(z.Namespaces, ref.Namespace) {
		return nil, fmt.Errorf("%w: %s: namespace %q is not one that Lull is installed for; accepted: %s", source.ErrSource, name, ref.Namespace, strings.Join(append([]string{z.Namespace}, z.Namespaces...), ", "))
	}
	var cm corev1.ConfigMap
	if err := z.Reader.Get(ctx, ref, &cm); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", source.ErrSource, name, err)
	}
	text, ok := cm.Data[key]
	if !ok {
		binary, ok := cm.BinaryData[key]
		if !ok {
			return nil, fmt.Errorf("%w: %s: no such key", source.ErrSource, name)
		}
		text = string(binary)
	}
	version := fmt.Sprintf("%s %s %d", cm.UID, cm.ResourceVersion, zone.Generation)
	return z.cached(zone.Name, name, version, func() (*carbon.Series, error) { return parse(text, name) })
}

func (z *ZoneReader) file(zone *v1alpha1.GridZone, path string) (*carbon.Series, error) {
	name := "file " + path
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", source.ErrSource, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%w: %s: accepted: a regular file of at most %d MiB", source.ErrSource, name, maxFileBytes>>20)
	}
	version := fmt.Sprintf("%s %d %d", info.ModTime(), info.Size(), zone.Generation)
	return z.cached(zone.Name, name, version, func() (*carbon.Series, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return source.Read(io.LimitReader(f, maxFileBytes), path, Provenance(zone, name))
	})
}

// cached parses a series unless the same version is loaded already.
func (z *ZoneReader) cached(zone, name, version string, parse func() (*carbon.Series, error)) (*carbon.Series, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if e, ok := z.loaded[zone]; ok && e.version == version {
		return e.series, nil
	}
	series, err := parse()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", source.ErrSource, name, err)
	}
	if z.loaded == nil {
		z.loaded = map[string]loaded{}
	}
	z.loaded[zone] = loaded{version, series}
	return series, nil
}

// Provenance is what a zone states of its numbers.
func Provenance(zone *v1alpha1.GridZone, name string) carbon.Provenance {
	signal := carbon.Average
	if zone.Spec.Signal == v1alpha1.SignalMarginal {
		signal = carbon.Marginal
	}
	return carbon.Provenance{Zone: zone.Spec.Zone, Signal: signal, Factor: factorOf(zone), Source: name}
}

// forecastHours bounds the forecast in a status.
const forecastHours = 48

// Hours lists the hours to come, as far as they are known.
func Hours(o carbon.Outlook, at time.Time) []v1alpha1.ForecastPoint {
	var out []v1alpha1.ForecastPoint
	from := at.Truncate(time.Hour)
	for h := range forecastHours {
		t := from.Add(time.Duration(h) * time.Hour)
		mean, covered := o.Expected.Mean(t, t.Add(time.Hour))
		if covered == 0 {
			continue
		}
		p := v1alpha1.ForecastPoint{Time: metav1.NewTime(t), Intensity: thousandths(float64(mean))}
		low, _ := o.Low.Mean(t, t.Add(time.Hour))
		high, _ := o.High.Mean(t, t.Add(time.Hour))
		if l, h := thousandths(float64(low)), thousandths(float64(high)); l != p.Intensity || h != p.Intensity {
			p.Low, p.High = &l, &h
		}
		out = append(out, p)
	}
	return out
}

// thousandths keeps three decimals, as the sources give them.
func thousandths(v float64) float64 { return math.Round(v*1000) / 1000 }
