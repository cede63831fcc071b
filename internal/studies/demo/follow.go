package demo

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/timegrid"
)

// A Deployment follows the sun between three clusters over two days: the heliotropic scheduler of
// James and Schien (Section V), live.

// sunnyPlaces are where the clusters stand.
var sunnyPlaces = []struct {
	name, zone, recorded string
	latitude, longitude  float64
}{
	{"berlin", "DE", "berlin", 52.52, 13.4},
	{"san-francisco", "US-CAL-CISO", "san_francisco", 37.77, -122.42},
	{"sydney", "AU-SA", "sydney", -33.87, 151.21},
}

// followStart is where the recorded irradiance of these places begins.
var followStart = time.Date(2022, 6, 10, 0, 0, 0, 0, time.UTC)

// stayed is a time at a place.
type stayed struct {
	cluster string
	from    time.Time // of the series
}

// followRun is a run of the demo.
type followRun struct {
	Options
	sun      [][]float64 // W/m2 of each place by the hour from a day before followStart; nil where none was recorded
	timeline timegrid.Timeline

	mu        sync.Mutex
	available map[string]int32 // replicas by cluster
	settled   bool
	gaps      int // times at which no replica was available
	changed   []stayed
}

// Follow runs the demo. It returns an error wrapping ErrDemo where the service had a moment without a
// ready replica, or did not go around.
func Follow(ctx context.Context, o Options) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &followRun{Options: o, available: map[string]int32{}}
	if err := r.readSun(); err != nil {
		return err
	}
	dir, leave, err := o.folder()
	if err != nil {
		return err
	}
	defer leave(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Fprintf(o.Out, "A Deployment follows the sun between %d clusters over two days, %d times as fast: %s.\n", len(sunnyPlaces), o.Factor, (span / time.Duration(o.Factor)).Round(time.Second))
	st, err := Raise(ctx, dir, Setup{Lab: o.Lab, Nodes: 1, CPUs: 16, Spokes: len(sunnyPlaces), Factor: o.Factor})
	if err != nil {
		return err
	}
	defer st.Stop()
	epoch := time.Now().Truncate(time.Second).Add(6 * time.Second)
	if r.timeline, err = timegrid.NewTimeline(epoch, followStart, float64(o.Factor)); err != nil {
		return err
	}
	weather, err := r.weatherFlags(dir)
	if err != nil {
		return err
	}
	grid, err := runGrid(ctx, dir, st.self, o, followStart, epoch, weather...)
	if err != nil {
		return err
	}
	st.children = append(st.children, grid.child)
	if err := r.setUp(ctx, st, grid.url, epoch); err != nil {
		return errors.Join(err, st.Ended())
	}
	for i := range st.Spokes {
		if err := r.watchReplicas(ctx, &st.Spokes[i], sunnyPlaces[i].name); err != nil {
			return err
		}
	}
	if err := r.play(ctx, st); err != nil {
		return err
	}
	return r.conclude(ctx, st)
}

// readSun reads the recorded irradiance, where the evaluation data is there.
func (r *followRun) readSun() error {
	data := EvaluationData()
	file := filepath.Join(data, "weather", "solcast", "global_2022.csv")
	err := source.WithFile(file, func(in io.Reader) error {
		rows, err := csv.NewReader(in).ReadAll()
		if err != nil {
			return err
		}
		first := followStart.Add(-24 * time.Hour)
		r.sun = make([][]float64, len(sunnyPlaces))
		for i, place := range sunnyPlaces {
			column := slices.Index(rows[0], place.recorded)
			if column < 0 {
				return fmt.Errorf("no column %q", place.recorded)
			}
			hours := make([]float64, 6*24)
			for _, row := range rows[1:] {
				at, err := time.Parse(time.RFC3339, row[0])
				if err != nil {
					return err
				}
				k := int(math.Floor(at.Sub(first).Hours()))
				if k < 0 || k >= len(hours) {
					continue
				}
				v, err := strconv.ParseFloat(row[column], 64)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", place.recorded, row[0], err)
				}
				hours[k] += 1000 * v / 12 // of a panel of 1 kW/m2, in steps of five minutes
			}
			r.sun[i] = hours
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(r.Out, "No recorded irradiance in %s: the sun of a clear sky.\n", data)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// weatherFlags hands the recorded irradiance to the fake weather service.
func (r *followRun) weatherFlags(dir string) ([]string, error) {
	var flags []string
	for i, place := range sunnyPlaces {
		if r.sun == nil {
			break
		}
		var b strings.Builder
		b.WriteString("time,irradiance_w_m2\n")
		for h, v := range r.sun[i] {
			fmt.Fprintf(&b, "%s,%.1f\n", followStart.Add(time.Duration(h-24)*time.Hour).Format(time.RFC3339), v)
		}
		file := filepath.Join(dir, place.name+".csv")
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			return nil, err
		}
		flags = append(flags, "--weather", fmt.Sprintf("%g:%g:%s", place.latitude, place.longitude, file))
	}
	return flags, nil
}

// setUp makes zones, clusters and the Follow.
func (r *followRun) setUp(ctx context.Context, st *Stage, url string, epoch time.Time) error {
	if err := st.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	names := make([]string, len(sunnyPlaces))
	for i, place := range sunnyPlaces {
		names[i] = place.name
		if err := followAccount(ctx, st.Spokes[i].Client); err != nil {
			return fmt.Errorf("cluster %s: %w", place.name, err)
		}
		series, err := climatology.Series(place.zone, followStart.Add(-24*time.Hour), followStart.Add(5*24*time.Hour))
		if err != nil {
			return err
		}
		for _, obj := range r.place(place.name, place.zone, st.Spokes[i].Name, series, epoch, v1alpha1.OpenMeteoSource{
			Endpoint: v1alpha1.Endpoint(url), Latitude: place.latitude, Longitude: place.longitude,
		}) {
			if err := st.Client.Create(ctx, obj); err != nil {
				return fmt.Errorf("create %s: %w", obj.GetName(), err)
			}
		}
	}
	if err := poll(ctx, "the clusters and their weather to be known", func() bool {
		for _, name := range names {
			var cc v1alpha1.ComputeCluster
			if st.Client.Get(ctx, client.ObjectKey{Name: name}, &cc) != nil || !meta.IsStatusConditionFalse(cc.Status.Conditions, v1alpha1.ConditionStale) || cc.Status.Temperature == nil {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	return st.Client.Create(ctx, followedService(names))
}

// place is a zone and its cluster.
func (r *followRun) place(name, zone, spoke string, series *carbon.Series, epoch time.Time, weather v1alpha1.OpenMeteoSource) []client.Object {
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: map[string]string{"series.csv": seriesCSV(series, followStart.Add(-24*time.Hour), followStart.Add(5*24*time.Hour))}},
		&v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.GridZoneSpec{
			Zone:   zone,
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: namespace, Name: name, Key: "series.csv"}},
			Replay: &v1alpha1.Replay{Start: metav1.NewTime(followStart), Factor: r.Factor, Epoch: &metav1.Time{Time: epoch}},
		}},
		&v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ComputeClusterSpec{
			Zone: name, Access: v1alpha1.ClusterAccess{MultiKueueCluster: spoke}, Refresh: &metav1.Duration{Duration: 2 * time.Second},
			Weather: &v1alpha1.WeatherSource{OpenMeteo: weather}, Follow: &v1alpha1.FollowAccess{Namespaces: []string{namespace}},
		}},
	}
}

// followAccount makes the namespace on a cluster, and the account as which the service is placed there.
func followAccount(ctx context.Context, c client.Client) error {
	account := metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.DefaultFollowAccount}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.RoleBinding{
			ObjectMeta: account, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		},
	} {
		if err := c.Create(ctx, obj); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

// followedService is a Deployment of two replicas that follows the sun.
func followedService(clusters []string) *v1alpha1.Follow {
	two := int32(2)
	labels := map[string]string{"app": "sunny"}
	return &v1alpha1.Follow{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sunny"},
		Spec: v1alpha1.FollowSpec{
			Clusters: clusters, Rank: v1alpha1.FollowRank{Expression: "irradiance"},
			Manifests: []k8sruntime.RawExtension{{Object: &appsv1.Deployment{
				TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: "sunny"},
				Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{
						Name: "api", Image: "example.invalid/api", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
					}}},
				}},
			}}},
		},
	}
}

// watchReplicas follows the Deployment on a cluster.
func (r *followRun) watchReplicas(ctx context.Context, spoke *Spoke, name string) error {
	informers, err := cache.New(spoke.Config, cache.Options{Scheme: spoke.Client.Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return err
	}
	informer, err := informers.GetInformer(ctx, &appsv1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	see := func(obj any, gone bool) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		d, ok := obj.(*appsv1.Deployment)
		if !ok {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		now := d.Status.AvailableReplicas
		if gone || d.DeletionTimestamp != nil {
			now = 0
		}
		r.available[name] = now
		sum := int32(0)
		for _, n := range r.available {
			sum += n
		}
		if r.settled && sum == 0 {
			r.gaps++
		}
		r.settled = r.settled || sum > 0
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { see(o, false) }, UpdateFunc: func(_, o any) { see(o, false) }, DeleteFunc: func(o any) { see(o, true) },
	}); err != nil {
		return err
	}
	go func() { _ = informers.Start(ctx) }()
	return nil
}

// play waits until two days have passed, and notes where the service is.
func (r *followRun) play(ctx context.Context, st *Stage) error {
	end := r.timeline.ToWall(followStart.Add(span))
	for time.Now().Before(end) {
		if err := st.Ended(); err != nil {
			return err
		}
		var f v1alpha1.Follow
		if err := st.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "sunny"}, &f); err != nil {
			return err
		}
		if at := f.Status.Cluster; at != "" && (len(r.changed) == 0 || r.changed[len(r.changed)-1].cluster != at) {
			r.changed = append(r.changed, stayed{at, f.Status.SettledAt.Time})
			fmt.Fprintf(r.Out, "  %s  %s\n", f.Status.SettledAt.UTC().Format("Mon 15:04"), at)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// where is the index of the place at a time.
func (r *followRun) where(at time.Time) int {
	for i := len(r.changed) - 1; i >= 0; i-- {
		if !r.changed[i].from.After(at) {
			for k, place := range sunnyPlaces {
				if place.name == r.changed[i].cluster {
					return k
				}
			}
		}
	}
	return -1
}

// conclude writes the report and judges.
func (r *followRun) conclude(ctx context.Context, st *Stage) error {
	var f v1alpha1.Follow
	if err := st.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "sunny"}, &f); err != nil {
		return err
	}
	place := report.Series{Name: "place (1 " + sunnyPlaces[0].name + ", 2 " + sunnyPlaces[1].name + ", 3 " + sunnyPlaces[2].name + ")", Stairs: true}
	chart := report.Chart{Title: "Where the service was, and the sun of each place (kW/m2)", From: followStart}
	got, best := 0.0, 0.0
	lines := make([]report.Series, len(sunnyPlaces))
	for h := range int(span.Hours()) {
		at := r.where(followStart.Add(time.Duration(h)*time.Hour + 30*time.Minute))
		place.X, place.Y = append(place.X, float64(h)), append(place.Y, float64(at+1))
		if r.sun == nil {
			continue
		}
		most := 0.0
		for k := range sunnyPlaces {
			v := r.sun[k][24+h]
			most = max(most, v)
			lines[k].Name, lines[k].X, lines[k].Y = "sun of "+sunnyPlaces[k].name, append(lines[k].X, float64(h)), append(lines[k].Y, v/1000)
		}
		best += most
		if at >= 0 {
			got += r.sun[at][24+h]
		}
	}
	chart.Series = []report.Series{place}
	rows := [][]string{{"moves", fmt.Sprint(f.Status.Moves)}, {"times without a ready replica", fmt.Sprint(r.gaps)}}
	if r.sun != nil {
		chart.Series = append(chart.Series, lines...)
		rows = append(rows, []string{"irradiance of the best place that was used", fmt.Sprintf("%.1f %%", 100*got/best)})
	}
	fmt.Fprintln(r.Out)
	for _, row := range rows {
		fmt.Fprintf(r.Out, "%s: %s\n", row[0], row[1])
	}
	doc := report.Document{
		Title: "A service that follows the sun, live",
		Intro: fmt.Sprintf("A Deployment of two replicas on the one of three clusters with the most sun, moved make before break, over two days from %s, %d times as fast.", followStart.Format("2 January 2006"), r.Factor),
		Sections: []report.Section{{Title: "Two days", Head: []string{"", ""}, Rows: rows, Picture: chart.SVG(), Notes: []string{
			"Ready replicas: as the API servers of the three clusters told them, change by change.",
		}}},
	}
	if err := r.writeReport(doc); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "report: %s\n", r.Report)
	around := map[string]bool{}
	for _, x := range r.changed {
		around[x.cluster] = true
	}
	switch {
	case r.gaps > 0:
		return fmt.Errorf("%w: %d times no replica was ready", ErrDemo, r.gaps)
	case len(around) < len(sunnyPlaces):
		return fmt.Errorf("%w: it was on %d of %d clusters", ErrDemo, len(around), len(sunnyPlaces))
	}
	return nil
}
