package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turnTable has the turns of policies that are named by their namespace and a number: "a/1".
type turnTable struct {
	*turns
	t      *testing.T
	claims map[string][]claim

	given []string
}

func newTurnTable(t *testing.T, atOnce, ofNamespace int) *turnTable {
	x := &turnTable{turns: newTurns(atOnce, ofNamespace), t: t, claims: map[string][]claim{}}
	x.enqueue = func(p types.NamespacedName) {
		x.given = append(x.given, p.String())
	}
	return x
}

func policyKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: name[:1], Name: name[2:]}
}

// asks has policies ask for turns with a claim to each capacity; one that ends in "*" is shared.
func (x *turnTable) asks(name string, capacities ...string) {
	x.t.Helper()
	var claims []claim
	for _, c := range capacities {
		claims = append(claims, claim{c[:1], len(c) > 1})
	}
	x.claims[name] = claims
	if x.begin(policyKey(name), claims) {
		x.t.Errorf("%s had its turn at once", name)
	}
}

// want checks who has been given turns since the last call, in this order, and that they may begin.
func (x *turnTable) want(names ...string) {
	x.t.Helper()
	time.Sleep(2 * turnWindow)
	synctest.Wait()
	if !slices.Equal(x.given, names) {
		x.t.Errorf("turns of %v; want %v", x.given, names)
	}
	for _, name := range x.given {
		if !x.begin(policyKey(name), x.claims[name]) {
			x.t.Errorf("%s may not begin", name)
		}
	}
	x.given = nil
}

func (x *turnTable) ends(names ...string) {
	for _, name := range names {
		x.end(policyKey(name))
	}
}

func inTurns(t *testing.T, atOnce, ofNamespace int, f func(x *turnTable)) {
	synctest.Test(t, func(t *testing.T) { f(newTurnTable(t, atOnce, ofNamespace)) })
}

func TestTurnsOfDisjointClaims(t *testing.T) {
	inTurns(t, 9, 9, func(x *turnTable) {
		x.asks("b/1", "B")
		x.asks("a/1", "A")
		x.asks("c/1", "C", "D")
		x.asks("d/1") // claims nothing
		x.want("a/1", "b/1", "c/1", "d/1")
	})
}

// TestTurnsOfSharedCapacity: one after the other, first who had no turn for the longest time, then by name, whoever asked first.
func TestTurnsOfSharedCapacity(t *testing.T) {
	inTurns(t, 9, 9, func(x *turnTable) {
		for _, name := range []string{"c/1", "b/1", "a/1"} {
			x.asks(name, "A")
		}
		x.want("a/1")
		x.ends("a/1")
		x.asks("a/1", "A")
		x.want("b/1")
		x.ends("b/1")
		x.want("c/1")
		x.want() // until it ends
		x.ends("c/1")
		x.want("a/1")
	})
}

// TestTurnsGiveUpClaims: a policy that carries its decision out keeps nobody from deciding, but cannot be decided itself.
func TestTurnsGiveUpClaims(t *testing.T) {
	inTurns(t, 9, 9, func(x *turnTable) {
		x.asks("a/1", "A")
		x.want("a/1")
		x.asks("b/1", "A")
		x.want()
		x.release(policyKey("a/1"))
		x.want("b/1")
		x.ends("a/1", "b/1")
		x.end(policyKey("c/1")) // never had one
		x.release(policyKey("c/1"))
		x.asks("c/1", "A")
		x.want("c/1")
	})
}

func TestTurnsOfSharedClaims(t *testing.T) {
	inTurns(t, 9, 9, func(x *turnTable) {
		x.asks("a/1", "A*", "B")
		x.asks("a/2", "A*", "C")
		x.asks("a/3", "A*", "C")
		x.asks("b/1", "A")
		x.want("a/1", "a/2")
		x.ends("a/1")
		x.want()
		x.ends("a/2")
		x.want("a/3")
		x.ends("a/3")
		x.want("b/1")
	})
}

// TestTurnsAreOvertakenOnce: who shares nothing with a slow policy does not wait for it because a third one does, but
// cannot keep the third one waiting either.
func TestTurnsAreOvertakenOnce(t *testing.T) {
	inTurns(t, 9, 9, func(x *turnTable) {
		x.asks("d/1", "B")
		x.want("d/1")
		x.ends("d/1")
		x.asks("a/1", "A")
		x.want("a/1")
		x.asks("b/1", "A", "B")
		x.asks("c/1", "B")
		x.want("c/1")
		x.asks("d/1", "B")
		x.ends("c/1")
		x.want("d/1")
		x.asks("c/1", "B")
		x.ends("d/1")
		x.want()
		x.ends("a/1")
		x.want("b/1")
		x.ends("b/1")
		x.want("c/1")
	})
}

// TestNewPoliciesOvertakeNobody: who makes a policy after the other, or makes one anew under its name, keeps nobody waiting.
func TestNewPoliciesOvertakeNobody(t *testing.T) {
	inTurns(t, 9, 9, func(x *turnTable) {
		x.asks("v/1", "A")
		x.want("v/1")
		x.asks("a/1", "A")
		x.ends("v/1")
		x.want("a/1")
		x.asks("v/1", "A")
		x.asks("a/2", "A")
		x.ends("a/1")
		x.forget(policyKey("a/1"))
		x.asks("a/1", "A")
		x.want("v/1")
	})
	// One that waits for two capacities is not kept waiting by ever new policies of one of them.
	inTurns(t, 9, 9, func(x *turnTable) {
		x.asks("s/1", "A")
		x.want("s/1")
		x.asks("v/1", "A", "B")
		x.want()
		x.asks("a/1", "B")
		x.want("a/1")
		x.asks("a/2", "B")
		x.ends("a/1", "s/1")
		x.want("v/1")
		x.ends("v/1")
		x.want("a/2")
	})
}

func TestTurnsAreBounded(t *testing.T) {
	inTurns(t, 3, 2, func(x *turnTable) {
		for _, name := range []string{"a/1", "a/2", "a/3", "b/1", "c/1"} {
			x.asks(name, name[2:]+"*")
		}
		x.want("a/1", "a/2", "b/1")
		x.ends("b/1")
		x.want("c/1")
		x.ends("a/2")
		x.want("a/3")
	})
}

// TestTurnOfOtherClaims: a policy that claims something else than when it asked asks anew.
func TestTurnOfOtherClaims(t *testing.T) {
	inTurns(t, 9, 9, func(x *turnTable) {
		x.asks("a/1", "A")
		time.Sleep(2 * turnWindow)
		synctest.Wait()
		x.given = nil
		x.asks("b/1", "A")
		x.asks("a/1", "B")
		x.want("b/1", "a/1")
		x.ends("a/1", "b/1")
		x.asks("a/1", "A")
		x.asks("b/1", "A")
		x.asks("a/1", "C") // while it waits
		x.want("b/1", "a/1")
	})
}

// TestTurnsAtRandom: conflicting claims are never held at the same time, and each policy has turns again and again.
func TestTurnsAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		x := newTurnTable(t, 5, 3)
		var names []string
		for i := range 24 {
			name := fmt.Sprintf("%c/%d", 'a'+i%4, i)
			var claims []string
			for _, c := range []string{"A", "B", "C", "D"} {
				switch rng.IntN(6) {
				case 0:
					claims = append(claims, c)
				case 1:
					claims = append(claims, c+"*")
				}
			}
			names = append(names, name)
			x.asks(name, claims...)
		}
		running, had := []string{}, map[string]int{}
		for range 20_000 {
			time.Sleep(2 * turnWindow)
			synctest.Wait()
			for _, name := range x.given {
				for _, other := range running {
					if conflict(x.claims[name], x.claims[other]) {
						t.Fatalf("%s and %s at the same time", name, other)
					}
				}
				had[name]++
				running = append(running, name)
			}
			x.given = nil
			if len(running) == 0 || len(running) > 5 {
				t.Fatalf("%d run", len(running))
			}
			i := rng.IntN(len(running))
			name := running[i]
			running = slices.Delete(running, i, i+1)
			x.ends(name)
			x.begin(policyKey(name), x.claims[name])
		}
		for _, name := range names {
			if had[name] < 100 {
				t.Errorf("%s %v had %d turns", name, x.claims[name], had[name])
			}
		}
	})
}
