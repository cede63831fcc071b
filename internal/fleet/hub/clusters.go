// Package hub is what a hub does with its clusters: it keeps what is known of each
// ComputeCluster, and sends work to them through Kueue and MultiKueue.
package hub

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/fleet/spoke"
	"lull.dev/lull/pkg/power"
)

// Cluster is what is known of a cluster now.
type Cluster struct {
	Name, Zone string
	// MultiKueue is the MultiKueueCluster by which it is reached; empty where it is reached
	// by a Secret.
	MultiKueue string
	Power      power.PerUnit
	// Look is the last one, Usual the load that is usual.
	Look  spoke.Look
	Usual Usual
	// Usable says that the last look is young enough for work to be sent there.
	Usable bool
	// Answers says that it has answered lately; unlike Usable also while MultiKueue does without it.
	Answers bool
	// Provision says that it is made when it is wanted, Absent that it is not there.
	Provision, Absent bool
	// Follow says which Follows may place services there; nil for none.
	Follow *v1alpha1.FollowAccess
	// Weather of the place, as last read.
	Weather provider.Weather

	reach *spoke.Cluster
}

// Signals is the weather of the place at a time of its zone, as far as it is known: temperature
// (Celsius), irradiance (W/m2) and wind (m/s).
func (c *Cluster) Signals(grid time.Time) map[string]float64 {
	out := map[string]float64{}
	w := &c.Weather
	for name, values := range map[string][]float64{"temperature": w.Temperature, "irradiance": w.Irradiance, "wind": w.Wind} {
		if v := at(w.Start, values, grid); !math.IsNaN(v) {
			out[name] = v
		}
	}
	return out
}

// Objects applies objects of an owner on the cluster, in a namespace and as the service account there that the ComputeCluster
// names; an error while it is not reached.
func (c *Cluster) Objects(namespace, annotation string, owner types.UID) (spoke.Objects, error) {
	if c.reach == nil || !c.Answers {
		return spoke.Objects{}, fmt.Errorf("cluster %s does not answer", c.Name)
	}
	account := v1alpha1.DefaultFollowAccount
	if c.Follow != nil && c.Follow.ServiceAccount != "" {
		account = c.Follow.ServiceAccount
	}
	return c.reach.Objects(types.NamespacedName{Namespace: namespace, Name: account}, annotation, owner)
}

// Clusters keeps the clusters in memory, so that no decision waits for one. It is safe for
// concurrent use.
type Clusters struct {
	mu       sync.RWMutex
	clusters map[string]Cluster
}

// NewClusters returns an empty store.
func NewClusters() *Clusters { return &Clusters{clusters: map[string]Cluster{}} }

// Get returns a cluster; false where it has not been looked at yet.
func (c *Clusters) Get(name string) (Cluster, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out, ok := c.clusters[name]
	return out, ok
}

// HasCopy asks a MultiKueueCluster whether it has a copy of a Workload; known is false for one
// that has been lost, or that no ComputeCluster is of.
func (c *Clusters) HasCopy(ctx context.Context, multiKueue string, name types.NamespacedName) (there, known bool, err error) {
	cluster, ok := c.Get(c.Of(multiKueue))
	if !ok || cluster.reach == nil || !cluster.Usable {
		return false, false, nil
	}
	there, err = cluster.reach.HasCopy(ctx, name)
	return there, true, err
}

// Of is the name of the cluster of a MultiKueueCluster; that name itself where none is known.
func (c *Clusters) Of(multiKueue string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, cluster := range c.clusters {
		if cluster.MultiKueue == multiKueue {
			return name
		}
	}
	return multiKueue
}

// set replaces a cluster.
func (c *Clusters) set(cluster Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusters[cluster.Name] = cluster
}

// remove forgets a cluster.
func (c *Clusters) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clusters, name)
}

// Load is the load to expect in slots from a time on, by resource, as Usual.Ahead has it.
func (c *Cluster) Load(from time.Time, slot time.Duration, slots int) map[string][]float64 {
	return c.Usual.Ahead(c.Look.Load, c.Look.Capacity, from, slot, slots)
}

// at is a signal of the weather at a time; NaN where it is not known.
func at(start time.Time, values []float64, t time.Time) float64 {
	k := int(math.Floor(t.Sub(start).Hours()))
	if start.IsZero() || k < 0 || k >= len(values) {
		return math.NaN()
	}
	return values[k]
}
