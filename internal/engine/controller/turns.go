package controller

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// policiesAtOnce is how many policies are decided and carried out at a time, policiesOfNamespace how many of one namespace: a
	// tenant whose admission webhooks are slow leaves room for the others.
	policiesAtOnce, policiesOfNamespace = 16, 4
	// turnWindow is how long requests for turns are collected before the next turns are given, so that their order does not
	// depend on which of several goroutines is the fastest.
	turnWindow = 100 * time.Microsecond
)

// claim is capacity that a decision plans with, by a name. Two claims to the same capacity conflict unless both are shared.
type claim struct {
	capacity string
	shared   bool
}

func conflict(a, b []claim) bool {
	for _, x := range a {
		for _, y := range b {
			if x.capacity == y.capacity && (!x.shared || !y.shared) {
				return true
			}
		}
	}
	return false
}

// turns says which policies are decided now. Policies whose claims conflict have their turns one after the other: first the
// policy whose last turn is the longest ago (of a new policy: its request), then by name. Policies whose claims do not conflict have their turns at the same
// time, up to a number.
//
// A policy that waits blocks those that come after it and claim the same capacity, but each that was there before may overtake it
// once. So nobody waits for a slow policy with which it shares nothing only because a third policy shares something with both, and
// nobody waits for good.
//
// No goroutine waits for a turn: begin returns at once, and enqueue is called when the turn has come. It is safe for
// concurrent use.
type turns struct {
	atOnce, ofNamespace int
	enqueue             func(types.NamespacedName)

	mu sync.Mutex
	// has are the policies whose turn it is, with the claims that they still hold.
	has     map[types.NamespacedName][]claim
	waiting map[types.NamespacedName]request
	// last numbers the last turns of policies, count the last turn of all.
	last  map[types.NamespacedName]uint64
	count uint64
	// due says that the next turns are about to be given.
	due bool
}

// request is a request for a turn, and the number of the last turn when it was made.
type request struct {
	claims []claim
	since  uint64
}

func newTurns(atOnce, ofNamespace int) *turns {
	return &turns{
		atOnce: atOnce, ofNamespace: ofNamespace, has: map[types.NamespacedName][]claim{},
		waiting: map[types.NamespacedName]request{}, last: map[types.NamespacedName]uint64{},
	}
}

// begin reports whether it is the turn of a policy with these claims. If it is not, the policy is enqueued when it is.
func (t *turns) begin(policy types.NamespacedName, claims []claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	held, has := t.has[policy]
	if has && slices.Equal(held, claims) {
		return true
	}
	delete(t.has, policy) // it was given for other claims
	r, waits := t.waiting[policy]
	if !waits {
		r.since = t.count
	}
	r.claims = claims
	t.waiting[policy] = r
	t.plan()
	return false
}

// release gives up the claims of a policy, and keeps its turn.
func (t *turns) release(policy types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, has := t.has[policy]; has {
		t.has[policy] = nil
		t.plan()
	}
}

// end ends the turn of a policy, if it has one.
func (t *turns) end(policy types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.has, policy)
	t.plan()
}

// forget drops what is known of a policy that is gone.
func (t *turns) forget(policy types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, policy)
}

// plan has the next turns given soon.
func (t *turns) plan() {
	if !t.due && len(t.waiting) > 0 {
		t.due = true
		time.AfterFunc(turnWindow, t.give)
	}
}

// give gives turns to those who may have them.
//
// Complexity: O(n log n + n x turns at once x claims), if n policies wait; O(n^2 x claims) if claims of several kinds conflict.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = false
	order := slices.SortedFunc(maps.Keys(t.waiting), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(t.rank(a), t.rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	ofNamespace := map[string]int{}
	for p := range t.has {
		ofNamespace[p.Namespace]++
	}
	var blocked []request
	for _, p := range order {
		if len(t.has) >= t.atOnce {
			break
		}
		if ofNamespace[p.Namespace] >= t.ofNamespace {
			continue
		}
		r := t.waiting[p]
		if t.claimed(r.claims) || slices.ContainsFunc(blocked, func(b request) bool { return t.rank(p) > 2*b.since && conflict(b.claims, r.claims) }) {
			blocked = append(blocked, r)
			continue
		}
		delete(t.waiting, p)
		t.has[p] = r.claims
		ofNamespace[p.Namespace]++
		t.count++
		t.last[p] = t.count
		t.enqueue(p)
	}
}

// rank orders policies that wait: by twice the number of their last turn. A policy without one ranks just before the policy that had
// the last turn when it asked, so that whoever makes new policies all the time overtakes nobody with them for good.
func (t *turns) rank(policy types.NamespacedName) uint64 {
	if last, had := t.last[policy]; had {
		return 2 * last
	}
	return max(1, 2*t.waiting[policy].since) - 1
}

// claimed reports whether claims conflict with those of a policy whose turn it is.
func (t *turns) claimed(claims []claim) bool {
	for _, held := range t.has {
		if conflict(held, claims) {
			return true
		}
	}
	return false
}
