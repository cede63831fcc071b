// Package autoscale says what the nodes of a cluster can become: by the limits of Karpenter's NodePools, by the sizes of
// cluster-autoscaler's node groups, and by what a CarbonPolicy states.
package autoscale

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// Access rights, generated into charts/lull/files/rbac/autoscaling.yaml.
//
// +kubebuilder:rbac:groups=karpenter.sh,resources=nodepools,verbs=list
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=configmaps,resourceNames=cluster-autoscaler-status,verbs=get

const (
	// refresh is how often objects are read, within how long, and wanted is how long they are read after the last policy has asked for them.
	refresh, within, wanted = 30 * time.Second, 10 * time.Second, 5 * time.Minute
)

// Seen is what was read last. It is not to be modified.
type Seen struct {
	// Pools are the NodePools by name, Groups the node groups; PoolsErr and GroupsErr say why they could not be read.
	Pools               map[string]Pool
	Groups              map[string]Group
	PoolsErr, GroupsErr error
}

// Store keeps in memory what policies ask for, so that no decision waits for the API server. It is safe for concurrent use.
type Store struct {
	reader client.Reader
	clock  clock.Clock
	// asked has an entry if something is wanted that has not been read.
	asked chan struct{}

	mu     sync.Mutex
	seen   Seen
	pools  want
	groups want
}

// want is when something was last asked for, and whether it was read.
type want struct {
	at   time.Time
	read bool
}

// NewStore returns a store that reads from an API server.
func NewStore(reader client.Reader, c clock.Clock) *Store {
	return &Store{reader: reader, clock: c, asked: make(chan struct{}, 1)}
}

// Get returns what a policy asks for; false if it has not been read yet.
func (s *Store) Get(spec *v1alpha1.AutoscalingSpec) (Seen, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := true
	ask := func(w *want, asks bool) {
		if asks {
			w.at = s.clock.Now()
			ready = ready && w.read
		}
	}
	ask(&s.pools, spec.Karpenter != nil)
	ask(&s.groups, spec.ClusterAutoscaler != nil)
	if !ready {
		select {
		case s.asked <- struct{}{}:
		default:
		}
	}
	return s.seen, ready
}

// Start implements manager.Runnable: it reads what is asked for until ctx ends.
func (s *Store) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.asked:
		case <-time.After(refresh):
		}
		s.update(ctx)
	}
}

func (s *Store) update(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	now := s.clock.Now()
	s.mu.Lock()
	next, pools, groups := s.seen, now.Sub(s.pools.at) < wanted, now.Sub(s.groups.at) < wanted
	s.mu.Unlock()
	if pools {
		next.Pools, next.PoolsErr = readPools(ctx, s.reader)
	}
	if groups {
		next.Groups, next.GroupsErr = readGroups(ctx, s.reader, now)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.pools.read, s.groups.read = next, pools, groups
}
