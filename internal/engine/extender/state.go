package extender

import (
	"math"
	"path"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/timegrid"
)

// State is what is known of the cluster, the zones and the policies. It is fed by watches and
// asked by requests, at the same time.
type State struct {
	Clock clock.PassiveClock
	// System is the namespace of Lull itself, in which no Pod is governed unless the file names it.
	System string
	// MaxDelay is for how long a Pod may wait at most, whatever its policy says; 0 for any time.
	MaxDelay time.Duration

	mu       sync.RWMutex
	classes  []class
	fallback *rule
	rules    map[types.NamespacedName]*rule
	byName   map[string][]*rule // by namespace, in the order of their names
	zones    map[string]*zone
	nodes    map[string]*node
	powers   powers
	pods     map[types.UID]placed
	on       map[string]map[types.UID]bool // the Pods of each node, also of one that is not known
	let      map[types.UID]placed          // passed, and not yet seen on a node
	// capacity is that of all nodes that take Pods, used what is asked for on them.
	capacity, used map[string]float64
	load           history
	recounted      time.Time
}

// placed is what a Pod asks for, and where.
type placed struct {
	node    string
	request map[string]float64
	daemon  bool
	at      time.Time
}

// node is a node as it is counted.
type node struct {
	name     string
	offers   bool
	capacity map[string]float64
	labels   labels.Set
	pods     int // but for those of DaemonSets
	power    uint32
}

// zone is the intensity of a GridZone by the hour, of the hours that have passed as it was last
// expected.
type zone struct {
	timeline timegrid.Timeline
	paused   bool
	region   string            // of a cloud, by which nodes are known to stand in it
	hours    map[int64]float64 // by hours since 1970, grid time
}

// remembered is how many hours of a zone are kept: those of the longest wait, which bounds a time frame.
const remembered = 14 * 24

// NewState returns what knows nothing yet but its configuration, which has been read by
// ReadConfiguration.
func NewState(c Configuration, clk clock.PassiveClock) (*State, error) {
	s := &State{
		Clock: clk, System: kinds.DefaultNamespace, rules: map[types.NamespacedName]*rule{}, byName: map[string][]*rule{}, zones: map[string]*zone{}, nodes: map[string]*node{},
		pods: map[types.UID]placed{}, on: map[string]map[types.UID]bool{}, let: map[types.UID]placed{}, capacity: map[string]float64{}, used: map[string]float64{},
		powers: newPowers(),
	}
	var err error
	if c.Default != nil {
		if s.fallback, err = c.Default.rule(); err != nil {
			return nil, err
		}
	}
	for i := range c.Nodes {
		class, err := c.Nodes[i].class()
		if err != nil {
			return nil, err
		}
		s.classes = append(s.classes, class)
	}
	return s, nil
}

// SetPolicy takes a CarbonPolicy in; one that is not for the extender is left out. The error says
// why a policy for it cannot be carried out: its Pods pass.
func (s *State) SetPolicy(p *v1alpha1.CarbonPolicy) error {
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if p.Spec.Via != v1alpha1.ViaExtender || !p.DeletionTimestamp.IsZero() {
		s.DeletePolicy(key)
		return nil
	}
	r, err := ruleOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rules, key)
	if err == nil {
		s.rules[key] = r
	}
	s.sortRules(key.Namespace)
	return err
}

// DeletePolicy forgets a CarbonPolicy.
func (s *State) DeletePolicy(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rules, key)
	s.sortRules(key.Namespace)
}

func (s *State) sortRules(namespace string) {
	var of []*rule
	for key, r := range s.rules {
		if key.Namespace == namespace {
			of = append(of, r)
		}
	}
	slices.SortFunc(of, func(a, b *rule) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	if s.byName[namespace] = of; len(of) == 0 {
		delete(s.byName, namespace)
	}
}

// SetZone takes in what a GridZone says of the hours to come. One that is stale or knows nothing
// keeps nobody waiting.
func (s *State) SetZone(z *v1alpha1.GridZone) {
	timeline, err := kube.ZoneTimeline(z)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || meta.IsStatusConditionTrue(z.Status.Conditions, v1alpha1.ConditionStale) || len(z.Status.Forecast) == 0 {
		delete(s.zones, z.Name)
		return
	}
	old := s.zones[z.Name]
	now := &zone{timeline: timeline, paused: z.Spec.Paused, region: path.Base(z.Spec.CloudRegion), hours: make(map[int64]float64, remembered)}
	first := hourOf(z.Status.Forecast[0].Time.Time)
	if old != nil && old.timeline == timeline {
		for h, v := range old.hours {
			if h < first && h >= first-remembered {
				now.hours[h] = v
			}
		}
	}
	for _, p := range z.Status.Forecast {
		now.hours[hourOf(p.Time.Time)] = p.Intensity
	}
	s.zones[z.Name] = now
}

// DeleteZone forgets a GridZone.
func (s *State) DeleteZone(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.zones, name)
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// SetNode takes a node in.
func (s *State) SetNode(n *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.nodes[n.Name]
	now := &node{name: n.Name, offers: kube.Offers(n), capacity: kube.Amounts(n.Status.Allocatable), labels: n.Labels}
	now.power = s.powers.add(s.powerOf(now))
	if old != nil {
		s.leave(old)
	}
	s.nodes[n.Name] = now
	s.powers.set(now.name, now.power, false)
	s.count(now, 1)
	for uid := range s.on[n.Name] {
		s.use(s.pods[uid], 1)
	}
}

// leave takes a node out of the sums, with its Pods. Complexity: O(Pods of the node).
func (s *State) leave(n *node) {
	for uid := range s.on[n.name] {
		s.use(s.pods[uid], -1)
	}
	s.count(n, -1)
	delete(s.nodes, n.name)
}

// DeleteNode forgets a node.
func (s *State) DeleteNode(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[name]; n != nil {
		s.leave(n)
		s.powers.remove(name)
	}
}

func (s *State) count(n *node, sign float64) {
	if n.offers {
		add(s.capacity, n.capacity, sign)
	}
}

// recount sums what is offered and used anew: sums of many changes round.
func (s *State) recount() {
	clear(s.used)
	clear(s.capacity)
	for _, n := range s.nodes {
		s.count(n, 1)
	}
	for _, n := range s.nodes {
		s.add(n, -n.pods)
	}
	for _, p := range s.pods {
		s.use(p, 1)
	}
	for _, p := range s.let {
		add(s.used, p.request, 1)
	}
}

func (s *State) use(p placed, sign int) {
	if n := s.nodes[p.node]; n != nil {
		if !p.daemon {
			s.add(n, sign)
		}
		if n.offers {
			add(s.used, p.request, float64(sign))
		}
	}
}

// add counts Pods on a node.
func (s *State) add(n *node, pods int) {
	before := n.pods > 0
	n.pods += pods
	if now := n.pods > 0; now != before {
		s.powers.set(n.name, n.power, now)
	}
}

// powerOf is what a node takes by the first class that selects it, and where it stands.
func (s *State) powerOf(n *node) power {
	of := class{NodeSpec: NodeSpec{PUE: 1}}
	for i := range s.classes {
		if s.classes[i].selector.Matches(n.labels) {
			of = s.classes[i]
			break
		}
	}
	watts := map[string]float64{cpu: wattsPerCPU * of.PUE}
	for r, v := range of.WattsPerUnit {
		watts[r] = v * of.PUE
	}
	if cores := n.capacity[cpu]; of.MaxWatts > 0 && cores > 0 {
		watts[cpu] = (of.MaxWatts - of.IdleWatts) / cores * of.PUE
	}
	return power{zone: of.Zone, region: n.labels[corev1.LabelTopologyRegion], watts: watts, idle: of.IdleWatts * of.PUE}
}

const cpu = string(corev1.ResourceCPU)

func add(to, what map[string]float64, sign float64) {
	for r, q := range what {
		to[r] += sign * q
	}
}

// SetPod takes a Pod in: what it asks for counts while it is on a node and has not ended.
func (s *State) SetPod(p *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !kube.OnNode(p) {
		return
	}
	s.forget(p.UID)
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	owner := metav1.GetControllerOf(p)
	now := placed{node: p.Spec.NodeName, request: kube.Requests(p), daemon: owner != nil && owner.Kind == "DaemonSet"}
	s.pods[p.UID] = now
	if s.on[now.node] == nil {
		s.on[now.node] = map[types.UID]bool{}
	}
	s.on[now.node][p.UID] = true
	s.use(now, 1)
}

// DeletePod forgets a Pod.
func (s *State) DeletePod(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(uid)
}

func (s *State) forget(uid types.UID) {
	if old, known := s.pods[uid]; known {
		s.use(old, -1)
		delete(s.pods, uid)
		if delete(s.on[old.node], uid); len(s.on[old.node]) == 0 {
			delete(s.on, old.node)
		}
	}
	if old, known := s.let[uid]; known {
		add(s.used, old.request, -1)
		delete(s.let, uid)
	}
}

// expire forgets Pods that passed and have not been seen on a node since: the scheduler found no
// node for them.
func (s *State) expire(now time.Time) {
	for uid, p := range s.let {
		if now.Sub(p.at) > letFor {
			add(s.used, p.request, -1)
			delete(s.let, uid)
		}
	}
}

// letFor is how long a Pod that has passed counts as used before it is seen on a node. So Pods that
// pass in one moment do not all take the same room.
const letFor = 5 * time.Second

// Observe notes the load of this moment; to be called every so often.
func (s *State) Observe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	s.expire(now)
	if now.Sub(s.recounted) >= recountEvery {
		s.recount()
		s.recounted = now
	}
	share := 0.0
	for r, c := range s.capacity {
		if c > 0 {
			share = math.Max(share, s.used[r]/c)
		}
	}
	s.load.add(now, share)
}

// recountEvery bounds how far rounding can take the sums.
const recountEvery = time.Hour
