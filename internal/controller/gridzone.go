package controller

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/metrics"
	"lull.dev/lull/internal/source"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights, generated into config/rbac/role.yaml.
//
// +kubebuilder:rbac:groups=lull.dev,resources=gridzones,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=gridzones/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get

// GridZoneReconciler keeps Zones and the status of GridZones up to date.
type GridZoneReconciler struct {
	Client client.Client
	Loader *source.Loader
	Zones  *Zones
	Clock  clock.Clock

	// failing is since when a zone that never had a series cannot be read. One
	// worker reconciles zones, so it needs no lock.
	failing map[string]time.Time
}

const (
	// refresh is the longest time between two looks at a source.
	refresh = time.Minute
	// soonest keeps a fast replay from writing the status all the time.
	soonest = time.Second
	// patience is how long a source that has not been read yet may fail before
	// its zone counts as one without data, and Jobs run: an API server or a volume
	// that is slow to come up after a restart must not open every hold.
	patience = 15 * time.Second
	// defaultStaleAfter is the default of spec.staleAfter.
	defaultStaleAfter = 2 * time.Hour
	// forecastHours bounds the forecast in the status.
	forecastHours = 48
	// trendHours and trendShare define when an intensity rises or falls.
	trendHours = 3
	trendShare = 0.05
)

// SetupWithManager registers the reconciler. Changes of the status alone do not
// wake it.
func (r *GridZoneReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.GridZone{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

// Reconcile reads the source of a zone and states what it found.
func (r *GridZoneReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var zone v1alpha1.GridZone
	if err := r.Client.Get(ctx, req.NamespacedName, &zone); err != nil {
		if apierrors.IsNotFound(err) {
			r.Zones.Delete(req.Name)
			delete(r.failing, req.Name)
			metrics.Intensity.DeleteLabelValues(req.Name)
			metrics.Stale.DeleteLabelValues(req.Name)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	known, _ := r.Zones.Get(zone.Name)
	series, timeline := known.Series, known.Timeline // stay in use, and grow stale, while they cannot be read
	err := r.read(ctx, &zone, &series, &timeline)
	if err != nil {
		log.FromContext(ctx).Error(err, "Read carbon source", "zone", zone.Name)
	}
	if !r.patient(zone.Name, err, series, now) {
		r.Zones.Set(zone.Name, Zone{Series: series, Timeline: timeline})
	}

	before := zone.DeepCopy()
	fillStatus(&zone, series, timeline, now, err)
	setMetrics(&zone)
	if !reflect.DeepEqual(before.Status, zone.Status) {
		if err := r.Client.Status().Patch(ctx, &zone, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	after := r.next(series, timeline, now)
	if series == nil {
		after = soonest
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// read replaces the clock and the series of a zone, each if it can be read.
func (r *GridZoneReconciler) read(ctx context.Context, zone *v1alpha1.GridZone, series **carbon.Series, timeline *timegrid.Timeline) error {
	tl, err := timelineOf(zone)
	if err != nil {
		return err
	}
	*timeline = tl
	s, err := r.Loader.Load(ctx, zone)
	if err != nil {
		return err
	}
	*series = s
	return nil
}

// patient reports whether to wait a little before the zone counts as one
// without data.
func (r *GridZoneReconciler) patient(name string, err error, series *carbon.Series, now time.Time) bool {
	if err == nil || series != nil {
		delete(r.failing, name)
		return false
	}
	if r.failing == nil {
		r.failing = map[string]time.Time{}
	}
	since, ok := r.failing[name]
	if !ok {
		since, r.failing[name] = now, now
	}
	return now.Sub(since) < patience
}

// timelineOf returns the clock of a zone.
func timelineOf(zone *v1alpha1.GridZone) (timegrid.Timeline, error) {
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

// next is when to look again: at the next change of the intensity, at the
// latest after refresh.
func (r *GridZoneReconciler) next(series *carbon.Series, tl timegrid.Timeline, now time.Time) time.Duration {
	wait := refresh
	if series != nil {
		if sample, ok := series.At(tl.ToGrid(now)); ok {
			wait = min(wait, tl.ToWall(sample.To).Sub(now))
		}
	}
	return max(wait, soonest)
}

// fillStatus states what is known at now. loadErr is why the source could not
// be read, if so; series may then still be an earlier one.
func fillStatus(zone *v1alpha1.GridZone, series *carbon.Series, tl timegrid.Timeline, now time.Time, loadErr error) {
	s := &zone.Status
	s.ObservedGeneration = zone.Generation
	at := tl.ToGrid(now)
	gridTime := metav1.NewTime(at.Truncate(time.Second))
	s.GridTime = &gridTime
	s.Intensity, s.Trend, s.Source, s.IssuedAt, s.ValidUntil, s.Forecast = nil, "", "", nil, nil, nil

	condition(&s.Conditions, v1alpha1.ConditionReady, loadErr == nil, "SourceRead", "SourceUnreadable", errText(loadErr), zone.Generation)
	if series == nil {
		condition(&s.Conditions, v1alpha1.ConditionStale, true, "NoData", "", "nothing has been read from the source", zone.Generation)
		return
	}
	s.Source = series.Source
	if !series.IssuedAt.IsZero() {
		t := metav1.NewTime(series.IssuedAt)
		s.IssuedAt = &t
	}
	end := metav1.NewTime(series.End())
	s.ValidUntil = &end
	if sample, ok := series.At(at); ok {
		v := round(float64(sample.Value))
		s.Intensity = &v
	}
	staleAfter := defaultStaleAfter
	if d := zone.Spec.StaleAfter; d != nil {
		staleAfter = d.Duration
	}
	overdue := at.Sub(series.End())
	stale := overdue > staleAfter || at.Before(series.Start())
	condition(&s.Conditions, v1alpha1.ConditionStale, stale, "SeriesEnded", "Current",
		fmt.Sprintf("the series covers %s to %s; it is %s", series.Start().UTC().Format(time.RFC3339), series.End().UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339)), zone.Generation)
	s.Forecast = forecast(series, at)
	s.Trend = trend(series, at)
}

// forecast lists the hours to come, as far as the series goes.
func forecast(series *carbon.Series, at time.Time) []v1alpha1.ForecastPoint {
	var out []v1alpha1.ForecastPoint
	from := at.Truncate(time.Hour)
	for h := range forecastHours {
		t := from.Add(time.Duration(h) * time.Hour)
		mean, covered := series.Mean(t, t.Add(time.Hour))
		if covered > 0 {
			out = append(out, v1alpha1.ForecastPoint{Time: metav1.NewTime(t), Intensity: round(float64(mean))})
		}
	}
	return out
}

func trend(series *carbon.Series, at time.Time) v1alpha1.Trend {
	sample, ok := series.At(at)
	ahead, covered := series.Mean(at, at.Add(trendHours*time.Hour))
	if !ok || covered == 0 {
		return ""
	}
	switch change := float64(ahead - sample.Value); {
	case change > trendShare*float64(sample.Value):
		return v1alpha1.TrendRising
	case change < -trendShare*float64(sample.Value):
		return v1alpha1.TrendFalling
	}
	return v1alpha1.TrendSteady
}

func setMetrics(zone *v1alpha1.GridZone) {
	if zone.Status.Intensity != nil {
		metrics.Intensity.WithLabelValues(zone.Name).Set(*zone.Status.Intensity)
	} else {
		metrics.Intensity.DeleteLabelValues(zone.Name)
	}
	stale := 0.0
	if meta.IsStatusConditionTrue(zone.Status.Conditions, v1alpha1.ConditionStale) {
		stale = 1
	}
	metrics.Stale.WithLabelValues(zone.Name).Set(stale)
}

// condition sets a condition with the reason for its being true or false.
func condition(conditions *[]metav1.Condition, kind string, is bool, whenTrue, whenFalse, message string, generation int64) {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: whenFalse, Message: message, ObservedGeneration: generation}
	if is {
		c.Status, c.Reason = metav1.ConditionTrue, whenTrue
	}
	meta.SetStatusCondition(conditions, c)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// round keeps three decimals, as the sources give them.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }
