package kinds

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// mapForm and listForm are what sameBut writes of the fields of a map and of the items of a list.
var (
	mapForm  = regexp.MustCompile(`^(.*)\.all\(f, f in (\[.*?\]) \|\| (.*)\[\?f\] == .*\[\?f\]\) && .*\.all\(f, f in .*\)$`)
	listForm = regexp.MustCompile(`^.* == .* \|\| (.*)\.size\(\) == (.*)\.size\(\) && .*\.size\(\) <= 100 && .* 10 \* t \+ u in (\[.*?\]) .*$`)
)

// twoVariables is an expression of sameBut as Lull wrote it before it supported Kubernetes 1.32, with a comprehension of two variables.
func twoVariables(t *testing.T, e string) string {
	t.Helper()
	if m := listForm.FindStringSubmatch(e); m != nil {
		return fmt.Sprintf("%[1]s.all(f, v, f in %[3]s || %[2]s[?f] == optional.of(v)) && %[1]s.size() == %[2]s.size()", m[1], m[2], m[3])
	}
	if m := mapForm.FindStringSubmatch(e); m != nil {
		return fmt.Sprintf("%[1]s.all(f, v, f in %[2]s || %[3]s[?f] == optional.of(v)) && %[3]s.all(f, f in %[2]s || f in %[1]s)", m[1], m[2], m[3])
	}
	t.Fatalf("%s is of no known form", e)
	return ""
}

// drawn is a random value: of maps and lists, with few names, so that two of them are often alike.
func drawn(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case depth > 0 && n < 2:
		return drawnMap(r, depth)
	case depth > 0 && n < 4:
		var l []any
		for range r.IntN(4) {
			l = append(l, drawn(r, depth-1))
		}
		return l
	case n == 4:
		return "text"
	}
	return int64(r.IntN(2))
}

// drawnMap is a random map.
func drawnMap(r *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for range r.IntN(4) {
		m[[]string{"suspend", "replicas", "x", "y"}[r.IntN(4)]] = drawn(r, depth-1)
	}
	return m
}

// TestBoundWithoutTwoVariables: what bounds the controller's account allows and refuses the same as with comprehensions of two variables, of which the meaning
// is plain and which Kubernetes 1.32 has not: for the changes of
// TestBound, and for random objects with fields of the types that their schemas say. (If a field is of another type, it is refused.)
func TestBoundWithoutTwoVariables(t *testing.T) {
	env, err := cel.NewEnv(cel.OptionalTypes(), ext.TwoVarComprehensions(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	compile := func(e string) cel.Program {
		ast, issues := env.Compile(e)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", e, issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	r := rand.New(rand.NewPCG(1, 1))
	alike, lists := map[bool]int{}, 0
	for _, k := range Builtin() {
		ignored := append(k.changed(), path{{key: "status", index: -1}})
		obj := fullObject(t, k)
		changes := otherwise(t, obj)
		for _, e := range sameBut(nil, ignored) {
			now, before := compile(e), compile(twoVariables(t, e))
			if strings.Contains(e, "10 * t") {
				lists++
			}
			compare := func(what string, old, object any) {
				vars := map[string]any{"object": object, "oldObject": old}
				a, _, errA := now.Eval(vars)
				b, _, errB := before.Eval(vars)
				got, want := errA == nil && a.Value() == true, errB == nil && b.Value() == true
				if got != want {
					t.Errorf("%s: %s: %v (%v), with two variables %v (%v)\nold %v\nnew %v\n%s", k.Name, what, got, errA, want, errB, old, object, e)
				}
				alike[got]++
			}
			for where, changed := range changes {
				compare(where, obj, changed)
			}
			for range 300 {
				old, object := map[string]any{}, map[string]any{}
				for _, m := range []map[string]any{old, object} {
					groups := []any{}
					for range r.IntN(4) {
						groups = append(groups, drawnMap(r, 2))
					}
					replicas := drawnMap(r, 2)
					replicas["Worker"] = drawnMap(r, 2)
					m["spec"] = map[string]any{"workerGroupSpecs": groups, "runPolicy": drawnMap(r, 2), "suspend": drawn(r, 0), "pytorchReplicaSpecs": replicas, "x": drawn(r, 2)}
					for field := range m["spec"].(map[string]any) {
						if r.IntN(5) == 0 {
							delete(m["spec"].(map[string]any), field)
						}
					}
				}
				for field, value := range old["spec"].(map[string]any) {
					if r.IntN(3) > 0 {
						object["spec"].(map[string]any)[field] = value
					}
				}
				compare("random", old, object)
			}
		}
	}
	if lists == 0 || alike[true] < 1000 || alike[false] < 1000 {
		t.Errorf("%d expressions of lists, allowed and refused: %v", lists, alike)
	}
}
