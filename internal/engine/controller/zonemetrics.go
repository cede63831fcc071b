package controller

import (
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/metrics"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/pkg/carbon"
)

// bases are all values of the label basis.
var bases = []carbon.Basis{carbon.LiveForecast, carbon.CachedForecast, carbon.OwnForecast, carbon.Climatology, carbon.Constant}

// setMetrics states the same as the status.
func setMetrics(zone *v1alpha1.GridZone, o source.Outlook, at time.Time) {
	name := zone.Name
	if zone.Status.Intensity != nil {
		metrics.Intensity.WithLabelValues(name).Set(*zone.Status.Intensity)
	} else {
		metrics.Intensity.DeleteLabelValues(name)
	}
	metrics.Stale.WithLabelValues(name).Set(one(o.Stale || o.Expected == nil))
	metrics.Degraded.WithLabelValues(name).Set(one(o.Degraded || o.Expected == nil))
	for _, b := range bases {
		metrics.Basis.WithLabelValues(name, string(b)).Set(one(o.Basis == b))
	}
	if o.Newest.IsZero() {
		metrics.Age.DeleteLabelValues(name)
	} else {
		metrics.Age.WithLabelValues(name).Set(max(0, at.Sub(o.Newest).Seconds()))
	}
	if o.Scored > 0 {
		metrics.ForecastError.WithLabelValues(name).Set(o.MAPE)
	} else {
		metrics.ForecastError.DeleteLabelValues(name)
	}
	metrics.Revisions.WithLabelValues(name).Set(float64(o.Revisions))
	if o.Expected == nil {
		metrics.Band.DeleteLabelValues(name)
		return
	}
	day := at.Add(24 * time.Hour)
	low, _ := o.Low.Mean(at, day)
	high, _ := o.High.Mean(at, day)
	if mean, _ := o.Expected.Mean(at, day); mean > 0 {
		metrics.Band.WithLabelValues(name).Set(float64((high - low) / mean))
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func forgetMetrics(name string) {
	metrics.Intensity.DeleteLabelValues(name)
	metrics.Stale.DeleteLabelValues(name)
	metrics.Degraded.DeleteLabelValues(name)
	metrics.Age.DeleteLabelValues(name)
	metrics.ForecastError.DeleteLabelValues(name)
	metrics.Revisions.DeleteLabelValues(name)
	metrics.Band.DeleteLabelValues(name)
	for _, b := range bases {
		metrics.Basis.DeleteLabelValues(name, string(b))
	}
}
