package cli

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/zones"
)

// config is what the feed is about.
func (o forecastOptions) config() (cfg source.Config, err error) {
	zone, code := o.zone, ""
	if zone == "" {
		return cfg, errors.New("--zone: missing; accepted: a grid zone, e.g. DE, or a region, e.g. aws/eu-central-1")
	}
	if z, c, ok := strings.Cut(zone, "="); ok {
		zone, code = z, c
	}
	if strings.Contains(zone, "/") {
		if zone, err = zones.OfRegion(zone); err != nil {
			return cfg, fmt.Errorf("--zone: %w", err)
		}
	}
	if err := o.checkEndpoint(); err != nil {
		return cfg, err
	}
	// Other sources name zones in their own way, and of a file it is a label.
	if hint := zones.Hint(zone); hint != "" && (o.source == "climatology" || strings.HasPrefix(o.source, "electricityMaps")) {
		return cfg, fmt.Errorf("--zone: %q; accepted: a grid zone, e.g. DE, or a region, e.g. aws/eu-central-1%s", o.zone, hint)
	}
	cfg = source.Config{Key: "cli " + o.source + " " + zone + " " + o.endpoint, Zone: zone, Signal: carbon.Average, Factor: carbon.Lifecycle, Horizon: o.horizon, Timeline: timegrid.Timeline{}}
	switch o.signal {
	case "", "average":
	case "marginal":
		cfg.Signal = carbon.Marginal
	default:
		return cfg, fmt.Errorf("--signal: %q; accepted: average or marginal", o.signal)
	}
	if !math.IsNaN(o.constant) {
		cfg.Constant = &source.Constant{Value: o.constant, Low: o.constant / 3, High: o.constant * 2}
	}
	if math.IsNaN(o.latitude) != math.IsNaN(o.longitude) {
		return cfg, errors.New("--latitude and --longitude: one without the other")
	}
	if !math.IsNaN(o.latitude) {
		cfg.Weather = &provider.OpenMeteo{Endpoint: o.address(provider.OpenMeteoEndpoint), HistoryEndpoint: o.address(provider.OpenMeteoHistoryEndpoint), Places: []provider.Place{{Latitude: o.latitude, Longitude: o.longitude}}}
	}
	return cfg, o.setProvider(&cfg, zone, code)
}

// setProvider chooses the provider that the flags name, and what its values are. code is how the provider calls the zone.
func (o forecastOptions) setProvider(cfg *source.Config, zone, code string) error {
	secret, err := o.secret()
	if err != nil {
		return err
	}
	switch o.source {
	case "climatology":
		if cfg.Signal == carbon.Marginal && cfg.Constant == nil {
			return errors.New("--signal: marginal; accepted without --source: average, or --fallback")
		}
	case "electricityMaps", "electricityMaps-v4":
		version := "v3"
		if strings.HasSuffix(o.source, "-v4") {
			version = "v4"
		}
		cfg.Provider = provider.ElectricityMaps{Endpoint: o.address(provider.ElectricityMapsEndpoint), Version: version, Zone: zone, Factor: cfg.Factor, Token: secret}
	case "wattTime":
		signal := "co2_moer"
		if o.signal == "average" {
			signal = "co2_aoer"
		} else {
			cfg.Signal = carbon.Marginal
		}
		cfg.Factor = carbon.Direct
		cfg.Provider = &provider.WattTime{Endpoint: o.address(provider.WattTimeEndpoint), Region: zone, SignalType: signal, Username: o.user, Password: secret}
	case "ukCarbonIntensity":
		if zone != "GB" { // it would get the intensity of Great Britain
			return fmt.Errorf("--zone: %q; accepted for ukCarbonIntensity: GB", o.zone)
		}
		cfg.Factor = carbon.Direct
		cfg.Provider = provider.UKCarbonIntensity{Endpoint: o.address(provider.UKCarbonIntensityEndpoint)}
	case "entsoE":
		if code == "" {
			return fmt.Errorf("--zone: %q; accepted for entsoE: ZONE=EIC, e.g. DE=10Y1001A1001A82H", o.zone)
		}
		cfg.Provider = provider.EntsoE{Endpoint: o.address(provider.EntsoEEndpoint), Domain: code, Zone: zone, Token: secret}
	case "eia":
		cfg.Provider = provider.EIA{Endpoint: o.address(provider.EIAEndpoint), Respondent: zone, Key: secret}
	case "carbonAwareSDK":
		if o.endpoint == "" || o.location == "" {
			return errors.New("carbonAwareSDK: --endpoint and --location are needed")
		}
		cfg.Provider = provider.CarbonAwareSDK{Endpoint: o.endpoint, Location: o.location, Signal: cfg.Signal, Factor: cfg.Factor}
	case "prometheus":
		if o.endpoint == "" || o.query == "" {
			return errors.New("prometheus: --endpoint and --query are needed")
		}
		cfg.Provider = provider.Prometheus{Endpoint: o.endpoint, Query: o.query, Zone: zone, Signal: cfg.Signal, Factor: cfg.Factor, Token: secret}
	default:
		if !o.isFile() {
			return fmt.Errorf("--source: %q; accepted: %s%s", o.source, acceptedSources(), sourceHint(o.source))
		}
		if why := notAFile(o.source); why != "" {
			return fmt.Errorf("--source: %q: %s; accepted: %s", o.source, why, acceptedSources())
		}
	}
	return nil
}
