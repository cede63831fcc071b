// Package meter asks a Prometheus for what the API server does not tell: how much power
// pods draw, as Kepler and the DCGM exporter measure it, and how far workloads are that
// name a query for their progress. It asks in the background; what it knows is read from
// memory.
package meter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/cluster/kube"
)

const (
	// stale is how old a measured power may be.
	stale = 5 * time.Minute
	// mostQueries bounds the queries for progress that are asked in one round, mostOfNamespace
	// those of one namespace, atATime those in flight, patience each of them.
	mostQueries     = 2000
	mostOfNamespace = 200
	atATime         = 8
	patience        = 10 * time.Second
)

// Meter asks one Prometheus. Create it with New.
type Meter struct {
	endpoint, tokenFile string
	interval            time.Duration
	get                 provider.Getter
	clock               clock.Clock

	mu       sync.Mutex
	wanted   map[types.NamespacedName]map[types.UID]string // queries by policy and workload
	progress map[types.UID]kube.Reading
	power    podPowers
	powerAt  time.Time
	round    int               // how often progress was asked for
	told     map[string]string // the last problem of each query, to tell each once
}

// New returns a meter of the Prometheus at an address, e.g. http://prometheus.monitoring:9090,
// which is asked every interval, with the bearer token in a file where one is named.
func New(endpoint, tokenFile string, interval time.Duration, get provider.Getter, c clock.Clock) *Meter {
	return &Meter{
		endpoint: strings.TrimRight(endpoint, "/"), tokenFile: tokenFile, interval: interval, get: get, clock: c,
		wanted: map[types.NamespacedName]map[types.UID]string{}, progress: map[types.UID]kube.Reading{}, told: map[string]string{},
	}
}

// Start asks until ctx ends.
func (m *Meter) Start(ctx context.Context) error {
	for {
		m.ask(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-m.clock.After(m.interval):
		}
	}
}

// Want says which workloads a policy has; those that name a query are asked about.
func (m *Meter) Want(policy types.NamespacedName, workloads []*kube.Workload) {
	now := map[types.UID]string{}
	for _, w := range workloads {
		if query := kube.ProgressQuery(w); query != "" && !w.Facts.Finished {
			now[w.UID()] = query
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.wanted[policy] {
		if now[uid] == "" {
			delete(m.progress, uid)
			delete(m.told, string(uid))
		}
	}
	if len(now) == 0 {
		delete(m.wanted, policy)
		return
	}
	m.wanted[policy] = now
}

// Progress implements kube.Measured.
func (m *Meter) Progress(uid types.UID) (kube.Reading, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.progress[uid]
	return r, ok
}

// Power implements kube.Measured.
func (m *Meter) Power(namespace, pod string) kube.PodPower {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.clock.Since(m.powerAt) > stale {
		return kube.PodPower{}
	}
	return m.power[types.NamespacedName{Namespace: namespace, Name: pod}]
}

// Measure asks for the power of some pods of a namespace now.
func (m *Meter) Measure(ctx context.Context, namespace string, pods []string) ([]kube.PodPower, error) {
	token, err := m.token()
	if err != nil {
		return nil, err
	}
	if err := m.askPower(ctx, token); err != nil {
		return nil, err
	}
	out := make([]kube.PodPower, len(pods))
	for i, name := range pods {
		out[i] = m.Power(namespace, name)
	}
	return out, nil
}

// ask runs one round of queries.
func (m *Meter) ask(ctx context.Context) {
	token, err := m.token()
	m.tell(ctx, ofToken, err)
	if err != nil {
		return
	}
	m.tell(ctx, ofPower, m.askPower(ctx, token))
	m.askProgress(ctx, token)
}

func (m *Meter) token() (string, error) {
	if m.tokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(m.tokenFile)
	return strings.TrimSpace(string(text)), err
}

func (m *Meter) query(ctx context.Context, token, query string) ([]provider.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return provider.Prometheus{Endpoint: m.endpoint, Query: query, Token: token}.Instant(ctx, m.get)
}

// askPower asks all exporters. Where one cannot be asked, what was measured last counts until
// it is stale.
func (m *Meter) askPower(ctx context.Context, token string) error {
	power := podPowers{}
	var errs []error
	for _, e := range exporters {
		samples, err := m.query(ctx, token, e.query)
		errs = append(errs, err)
		e.add(power, e.name, samples)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.mu.Lock()
	m.power, m.powerAt = power, m.clock.Now()
	m.mu.Unlock()
	return nil
}

// queries returns the queries for progress of a round by workload, and the workloads that are asked about: in turns where there are more than a
// namespace, or all of them, may have.
func (m *Meter) queries(ctx context.Context) (queries map[types.UID]string, uids []types.UID) {
	queries = map[types.UID]string{}
	namespaces := map[string][]types.UID{}
	m.mu.Lock()
	for policy, of := range m.wanted {
		maps.Copy(queries, of)
		namespaces[policy.Namespace] = slices.AppendSeq(namespaces[policy.Namespace], maps.Keys(of))
	}
	round := m.round
	m.round++
	m.forget(queries, namespaces)
	m.mu.Unlock()
	for namespace, all := range namespaces {
		slices.Sort(all)
		var err error
		if len(all) > mostOfNamespace {
			err = fmt.Errorf("%d workloads of namespace %s have a query for their progress; accepted: %d", len(all), namespace, mostOfNamespace)
			all = inTurn(all, mostOfNamespace, round)
		}
		m.tell(ctx, ofNamespace+namespace, err)
		uids = append(uids, all...)
	}
	slices.Sort(uids)
	var err error
	if len(uids) > mostQueries {
		err = fmt.Errorf("%d workloads have a query for their progress; accepted: %d at a time", len(uids), mostQueries)
		uids = inTurn(uids, mostQueries, round)
	}
	m.tell(ctx, ofProgress, err)
	return queries, uids
}

// inTurn returns n of more workloads, in each round the ones that follow those of the round before.
func inTurn(all []types.UID, n, round int) []types.UID {
	first := int(int64(round) * int64(n) % int64(len(all)))
	return slices.Concat(all[first:], all[:first])[:n]
}

func (m *Meter) askProgress(ctx context.Context, token string) {
	queries, uids := m.queries(ctx)
	var group errgroup.Group
	group.SetLimit(atATime)
	for _, uid := range uids {
		group.Go(func() error {
			samples, err := m.query(ctx, token, queries[uid])
			var r kube.Reading
			if err == nil {
				r, err = reading(samples)
			}
			m.tell(ctx, string(uid), err)
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, of := range m.wanted { // it may have gone meanwhile
				if _, still := of[uid]; still && err == nil {
					m.progress[uid] = r
				}
			}
			return nil
		})
	}
	_ = group.Wait() // none of them returns an error
}

// reading is the one value that a query for progress gives.
func reading(samples []provider.Sample) (kube.Reading, error) {
	if len(samples) != 1 {
		return kube.Reading{}, fmt.Errorf("%d series; accepted: a query that gives one", len(samples))
	}
	s := samples[0]
	if !(s.Value >= 0 && s.Value <= 1.0001) {
		return kube.Reading{}, fmt.Errorf("progress %v; accepted: 0 to 1, the share of the work that is done", s.Value)
	}
	return kube.Reading{Share: math.Min(1, s.Value), At: s.At}, nil
}

// What a problem is about, if it is not a workload. ofNamespace stands before the name of a namespace.
const (
	ofToken     = "token"
	ofPower     = "power"
	ofProgress  = "progress"
	ofNamespace = "progress of "
)

// forget drops the problems of workloads and namespaces that have no query any more. The caller holds mu.
func (m *Meter) forget(queries map[types.UID]string, namespaces map[string][]types.UID) {
	maps.DeleteFunc(m.told, func(what, _ string) bool {
		switch what {
		case ofToken, ofPower, ofProgress:
			return false
		}
		if namespace, is := strings.CutPrefix(what, ofNamespace); is {
			return namespaces[namespace] == nil
		}
		return queries[types.UID(what)] == ""
	})
}

// tell logs a problem when it is new.
func (m *Meter) tell(ctx context.Context, what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	m.mu.Lock()
	before := m.told[what]
	if text == "" {
		delete(m.told, what)
	} else {
		m.told[what] = text
	}
	m.mu.Unlock()
	if text != before && text != "" {
		log.FromContext(ctx).Info("Failed to read from Prometheus", "about", what, "problem", text)
	}
}
