package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// Access rights, generated into charts/lull/files/rbac/controller.yaml.
//
// +kubebuilder:rbac:groups=lull.dev,resources=gridzones,verbs=get;list;watch
// +kubebuilder:rbac:groups=lull.dev,resources=gridzones/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups="",namespace=lull-system,resources=secrets,verbs=get

// GridZoneReconciler keeps Zones and the status of GridZones up to date. It
// never waits for a provider: refreshes run beside it and wake it when done.
type GridZoneReconciler struct {
	Client client.Client
	Reader *kube.ZoneReader
	Feeds  *source.Feeds
	Zones  *Zones
	Clock  clock.Clock

	refreshed chan event.GenericEvent

	mu sync.Mutex
	// seen is since when a zone is known that nothing has been read of.
	seen map[string]time.Time
	// gone is since when (wall time) a zone is deleted.
	gone map[string]time.Time
	// busy are the feeds that are being refreshed.
	busy map[*source.Feed]bool
}

const (
	// look is the longest time between two looks at a zone.
	look = time.Minute
	// soonest keeps a fast replay from writing the status all the time.
	soonest = time.Second
	// withoutData is the time between two looks at a zone without data: its ConfigMap may be created late.
	withoutData = 5 * time.Second
	// patience is how long to wait for the first answer about a zone before Jobs
	// are decided without it: an API server, a volume or a provider that is slow
	// after a restart must not open every hold.
	patience = 15 * time.Second
	// refreshTimeout bounds a refresh with all its requests.
	refreshTimeout = 2 * time.Minute
	// trendHours and trendShare define when an intensity rises or falls.
	trendHours = 3
	trendShare = 0.05
)

// SetupWithManager registers the reconciler. Changes of the status alone do not
// wake it.
func (r *GridZoneReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.refreshed = make(chan event.GenericEvent, 64)
	r.gone = map[string]time.Time{}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.GridZone{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(ctrlsource.Channel(r.refreshed, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// Reconcile states what is known of a zone and sees to it that more is asked.
func (r *GridZoneReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var zone v1alpha1.GridZone
	if err := r.Client.Get(ctx, req.NamespacedName, &zone); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{RequeueAfter: r.zoneGone(req.Name)}, nil
		}
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	r.mu.Lock()
	delete(r.gone, zone.Name)
	r.mu.Unlock()
	known, _ := r.Zones.Get(zone.Name)
	timeline := known.Timeline // stays while the new one cannot be read
	feed, cfg, err := r.feed(ctx, &zone)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to read the carbon source", "zone", zone.Name)
	}
	if cfg.Zone != "" { // read as far as the clock, whatever the source does
		timeline = cfg.Timeline
	}
	at := timeline.ToGrid(now)
	var o source.Outlook
	if feed != nil {
		if cfg.Provider != nil {
			r.refresh(ctx, feed, zone.Name, at)
		}
		o = feed.Outlook(at, cfg)
	}
	waiting := r.patient(zone.Name, feed, now)
	if waiting {
		o = source.Outlook{Why: "waiting for the first answer", Err: o.Err}
	} else {
		r.Zones.Set(zone.Name, Zone{Outlook: o.Outlook, Timeline: timeline, Paused: zone.Spec.Paused, Beside: zone.Spec.Beside})
	}

	before := zone.DeepCopy()
	fillStatus(&zone, o, cfg, timeline, now, err)
	setMetrics(&zone, o, at)
	if _, err := kube.PatchStatus(ctx, r.Client, &zone, before); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{RequeueAfter: next(feed, o, waiting, timeline, now)}, nil
}

// feed returns the feed of a zone, configured as the zone says now; the one it
// had while that cannot be read, and one of what is usual where it never could.
func (r *GridZoneReconciler) feed(ctx context.Context, zone *v1alpha1.GridZone) (*source.Feed, source.Config, error) {
	cfg, err := r.Reader.Config(ctx, zone)
	if err == nil {
		var feed *source.Feed
		if feed, err = r.Feeds.Feed(zone.Name, cfg); err == nil {
			if cfg.Provider == nil {
				var series *carbon.Series
				series, err = r.Reader.Series(ctx, zone)
				feed.SetSeries(series, err)
			}
			return feed, cfg, err
		}
	}
	if feed, ok := r.Feeds.Current(zone.Name); ok {
		return feed, cfg, err
	}
	if cfg.Zone == "" {
		return nil, cfg, err
	}
	// What is usual is known all the same.
	cfg.Provider, cfg.Key = nil, "without source "+zone.Name
	feed, other := r.Feeds.Feed(zone.Name, cfg)
	if other != nil {
		return nil, cfg, errors.Join(err, other)
	}
	feed.SetSeries(nil, err)
	return feed, cfg, err
}

// refresh asks the provider beside the reconciler, if that is due and not under
// way.
func (r *GridZoneReconciler) refresh(ctx context.Context, feed *source.Feed, name string, at time.Time) {
	if feed.Due(at) > 0 { // not under r.mu: an outlook of the feed may keep Due waiting for seconds
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[feed] {
		return
	}
	if r.busy == nil {
		r.busy = map[*source.Feed]bool{}
	}
	r.busy[feed] = true
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		if err := feed.Refresh(ctx, at); err != nil {
			log.FromContext(ctx).Info("Refresh of a carbon source failed", "zone", name, "error", err.Error())
		}
		r.mu.Lock()
		delete(r.busy, feed)
		r.mu.Unlock()
		r.refreshed <- event.GenericEvent{Object: &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}()
}

// zoneGone forgets a deleted zone, unless it may be about to come back: it returns for how long to wait then, and
// policies decide by what is known of the zone.
func (r *GridZoneReconciler) zoneGone(name string) time.Duration {
	now := r.Clock.Now()
	r.mu.Lock()
	since, seen := r.gone[name]
	if !seen {
		since = now
		r.gone[name] = now
	}
	r.mu.Unlock()
	if grace := replaceGrace - now.Sub(since); grace > 0 {
		return grace
	}
	r.forget(name)
	return 0
}

func (r *GridZoneReconciler) forget(name string) {
	r.Zones.Delete(name)
	r.Feeds.Forget(name)
	r.mu.Lock()
	delete(r.seen, name)
	delete(r.gone, name)
	r.mu.Unlock()
	forgetMetrics(name)
}

// patient reports whether to wait a little for the first answer.
func (r *GridZoneReconciler) patient(name string, feed *source.Feed, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if feed != nil && feed.Known() {
		delete(r.seen, name)
		return false
	}
	if r.seen == nil {
		r.seen = map[string]time.Time{}
	}
	since, ok := r.seen[name]
	if !ok {
		since, r.seen[name] = now, now
	}
	return now.Sub(since) < patience
}

// next is when to look again: at the next change of the intensity, when the
// provider is to be asked, at the latest after look. A zone without data
// is read again after soonest while its first answer is waited for, then after withoutData.
func next(feed *source.Feed, o source.Outlook, waiting bool, tl timegrid.Timeline, now time.Time) time.Duration {
	switch {
	case waiting:
		return soonest
	case o.Expected == nil:
		return withoutData
	}
	wait := look
	at := tl.ToGrid(now)
	if sample, ok := o.Expected.At(at); ok {
		wait = min(wait, tl.ToWall(sample.To).Sub(now))
	}
	if due := feed.Due(at); due > 0 {
		wait = min(wait, tl.WallDuration(due))
	}
	return max(wait, soonest)
}

// fillStatus states what is known at now; err is why the specification cannot be
// carried out, if so.
func fillStatus(zone *v1alpha1.GridZone, o source.Outlook, cfg source.Config, tl timegrid.Timeline, now time.Time, err error) {
	s := &zone.Status
	at := tl.ToGrid(now)
	gridTime := metav1.NewTime(at.Truncate(time.Second))
	old := *s
	*s = v1alpha1.GridZoneStatus{ObservedGeneration: zone.Generation, GridTime: &gridTime, Conditions: old.Conditions, Zone: old.Zone, Factor: old.Factor}
	if err == nil {
		s.Zone = cfg.Zone
		s.Factor = v1alpha1.FactorLifecycle
		if cfg.Factor == carbon.Direct {
			s.Factor = v1alpha1.FactorDirect
		}
	}
	if err == nil && o.Newest.IsZero() {
		err = o.Err // nothing was ever read
	}
	reading := err == nil && o.Newest.IsZero()
	switch {
	case reading:
		condition(&s.Conditions, v1alpha1.ConditionReady, false, "", "Reading", o.Why, zone.Generation)
	default:
		condition(&s.Conditions, v1alpha1.ConditionReady, err == nil, "SourceRead", "SourceUnreadable", errText(err), zone.Generation)
	}
	if o.Expected == nil {
		if old.GridTime != nil { // the time alone is no news
			if since := now.Sub(tl.ToWall(old.GridTime.Time)); since >= 0 && since < look {
				s.GridTime = old.GridTime
			}
		}
		condition(&s.Conditions, v1alpha1.ConditionStale, true, "NoData", "", "nothing is known of this zone", zone.Generation)
		condition(&s.Conditions, v1alpha1.ConditionDegraded, true, "NoData", "", "nothing is known of this zone", zone.Generation)
		return
	}
	s.Basis, s.Source, s.IssuedAt = string(o.Basis), o.Source, timeOf(o.IssuedAt)
	end := metav1.NewTime(o.Expected.End())
	s.ValidUntil = &end
	if sample, ok := o.Expected.At(at); ok {
		v := round(float64(sample.Value))
		s.Intensity = &v
	}
	s.Age = age(at.Sub(o.Newest), o.Newest.IsZero())
	if o.Scored > 0 {
		s.Accuracy = &v1alpha1.Accuracy{MeanError: math.Round(1000*o.MAPE) / 10, Values: int64(o.Scored)}
	}
	newest := "never"
	if !o.Newest.IsZero() {
		newest = o.Newest.UTC().Format(time.RFC3339)
	}
	condition(&s.Conditions, v1alpha1.ConditionStale, o.Stale, "TooOld", "Current", "newest information: "+newest, zone.Generation)
	condition(&s.Conditions, v1alpha1.ConditionDegraded, o.Degraded, string(o.Basis), "AsConfigured", clipped(o.Why, mostMessage), zone.Generation)
	s.Forecast = kube.Hours(o.Outlook, at)
	s.Trend = trend(o.Expected, at)
}

// mostMessage bounds the message of a condition, in bytes: it holds at most 32 KiB, people read less.
const mostMessage = 1000

// clipped returns at most the first bytes of a text, without a part of a character.
func clipped(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func timeOf(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	t := metav1.NewTime(at.Truncate(time.Second))
	return &t
}

// age in words; coarse, so that it does not change with every look.
func age(d time.Duration, never bool) string {
	switch {
	case never:
		return ""
	case d < time.Minute:
		return "0m"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
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
	return clipped(err.Error(), mostMessage)
}

// round keeps three decimals, as the sources give them.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }
