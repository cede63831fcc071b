package services

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/internal/fleet/hub"
	"lull.dev/lull/internal/fleet/rank"
	"lull.dev/lull/pkg/plan/follow"
)

// choice is what there is to choose from.
type choice struct {
	// now is the time of the series.
	now     time.Time
	planner follow.Planner
	// places are what is known of the clusters; order is the best first, of those that may be
	// ranked. left says which could not and why.
	places   map[string]follow.Place
	clusters map[string]hub.Cluster
	order    []string
	left     string
	// due is how long (wall) until the clusters are ranked again.
	due time.Duration
}

// errWaiting says that too little is known yet.
var errWaiting = errors.New("state of the clusters not read yet")

// atFirst is how long a new service waits for clusters that have not been looked at.
const atFirst = 30 * time.Second

// look ranks the clusters as they are now.
func (s *service) look() (*choice, error) {
	spec := &s.f.Spec
	params := follow.Params{
		Every: kube.DurationOf(spec.Every, 30*time.Minute), Dwell: kube.DurationOf(spec.Dwell, time.Hour), Stay: kube.DurationOf(spec.Stay, 0), Threshold: spec.Threshold,
	}
	if spec.Rank.Equal != nil {
		params.Equal = *spec.Rank.Equal
	}
	if text := spec.Rank.Expression; text != "" {
		score, err := rank.Expression(text, []string{follow.Temperature, "irradiance", "wind"})
		if err != nil {
			return nil, fmt.Errorf("spec.rank.expression: %w", err)
		}
		params.Score = score
	}
	planner, err := follow.New(params)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	timeline, ok := s.timelineOf()
	if !ok {
		return nil, errWaiting
	}
	c := &choice{now: timeline.ToGrid(s.now), planner: planner, places: map[string]follow.Place{}, clusters: map[string]hub.Cluster{}}
	var may []follow.Place
	var left []string
	// Where it is comes first: another place must be better, not as good.
	names := slices.Clone(spec.Clusters)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(bit(b == s.f.Status.Cluster), bit(a == s.f.Status.Cluster)) })
	for _, name := range names {
		place, err := s.place(c, name)
		if err == nil {
			_, err = planner.Rank([]follow.Place{place})
		}
		if errors.Is(err, errWaiting) {
			return nil, err
		}
		if err != nil {
			left = append(left, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		may = append(may, place)
	}
	if len(left) > 0 {
		c.left = "not ranked: " + strings.Join(left, "; ")
	}
	order, err := planner.Rank(may)
	if err != nil {
		return nil, err
	}
	for _, i := range order {
		c.order = append(c.order, may[i].Name)
	}
	c.due = settledAgain
	if st := &s.f.Status; st.RankedAt != nil && st.SettledAt != nil {
		next := st.RankedAt.Add(params.Every)
		if stay := st.SettledAt.Add(params.Dwell); stay.After(next) {
			next = stay
		}
		c.due = max(0, timeline.WallDuration(next.Sub(c.now)))
	}
	return c, nil
}

// place is what is known of a cluster; the error says why it cannot be ranked.
func (s *service) place(c *choice, name string) (follow.Place, error) {
	cluster, ok := s.Clusters.Get(name)
	if !ok {
		if s.f.Status.Cluster == "" && s.now.Sub(s.f.CreationTimestamp.Time) < atFirst {
			return follow.Place{}, errWaiting
		}
		return follow.Place{}, errors.New("no ComputeCluster of that name has been read")
	}
	c.clusters[name] = cluster
	if err := allowed(cluster.Follow, name, s.f.Namespace, s.objects); err != nil {
		return follow.Place{}, err
	}
	outlook, timeline, looked := s.Zone(cluster.Zone)
	if !looked {
		return follow.Place{}, fmt.Errorf("its zone %s has not been read", cluster.Zone)
	}
	at := timeline.ToGrid(s.now)
	place := follow.Place{Name: name, Intensity: math.NaN(), Signals: cluster.Signals(at)}
	if outlook.Expected != nil {
		if sample, ok := outlook.Expected.At(at); ok {
			place.Intensity = float64(sample.Value)
		}
	}
	c.places[name] = place
	if math.IsNaN(place.Intensity) && s.f.Spec.Rank.Expression == "" {
		return place, errors.New("the intensity of its zone is not known")
	}
	return place, nil
}

// decide begins a move where there is reason for one.
func (s *service) decide(c *choice) bool {
	st := &s.f.Status
	here, known := c.clusters[st.Cluster]
	if !known && st.Cluster != "" {
		// Not looked at since the controller started, unless the specification has left it.
		if slices.Contains(s.f.Spec.Clusters, st.Cluster) {
			return false
		}
	}
	must := st.Cluster == "" || !known || !here.Answers || allowed(here.Follow, st.Cluster, s.f.Namespace, s.objects) != nil
	var settled, ranked time.Time
	if st.SettledAt != nil {
		settled = st.SettledAt.Time
	}
	if st.RankedAt != nil {
		ranked = st.RankedAt.Time
	}
	if !must && !c.planner.Due(c.now, ranked, settled) {
		return false
	}
	at := metav1.NewTime(c.now.Truncate(time.Second))
	st.RankedAt = &at
	for _, name := range c.order {
		if name == st.Cluster && !must {
			return false // it is at the best place that takes it
		}
		cluster := c.clusters[name]
		if name == st.Cluster || !cluster.Answers && !cluster.Provision || s.refused(name) {
			continue
		}
		if !must && !s.worth(c, name) {
			return false
		}
		since := metav1.NewTime(s.now)
		st.Next, st.NextSince, st.State = name, &since, v1alpha1.FollowApplying
		s.note(corev1.EventTypeNormal, "Moving", fmt.Sprintf("to %s (%s)", name, s.why(c, name)))
		return true
	}
	if must && st.Cluster == "" {
		st.State = v1alpha1.FollowPending
	}
	return false
}

func (s *service) refused(name string) bool {
	return slices.ContainsFunc(s.f.Status.Refused, func(r v1alpha1.FollowRefusal) bool { return r.Cluster == name })
}

// worth reports whether a move from here to another cluster pays.
func (s *service) worth(c *choice, to string) bool {
	use := requests(s.objects)
	// kilowatts of the service there, PUE included
	power := func(name string) float64 {
		model := c.clusters[name].Power
		if w := s.f.Spec.Watts; w != nil {
			return *w * model.PUE / 1000
		}
		return float64(model.Of(use)) / 1000
	}
	a := s.f.Status.Cluster
	computeA, computeB := power(a), power(to)
	if computeA == 0 && computeB == 0 {
		computeA, computeB = c.clusters[a].Power.PUE, c.clusters[to].Power.PUE // a kilowatt, as nothing is known
	}
	return c.planner.Worth(follow.Move{
		ComputeA: computeA, ComputeB: computeB, RampB: s.f.Spec.RampUpKWh * c.clusters[to].Power.PUE, Transfer: s.f.Spec.TransferKWh,
		IntensityA: c.places[a].Intensity, IntensityB: c.places[to].Intensity,
	})
}

// why says what speaks for a cluster.
func (s *service) why(c *choice, to string) string {
	here, there := c.places[s.f.Status.Cluster], c.places[to]
	if text := s.f.Spec.Rank.Expression; text != "" {
		return "the best by " + text
	}
	if s.f.Status.Cluster == "" {
		return fmt.Sprintf("%.0f gCO2eq/kWh", there.Intensity)
	}
	return fmt.Sprintf("%.0f gCO2eq/kWh, %s has %.0f", there.Intensity, s.f.Status.Cluster, here.Intensity)
}

func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}
