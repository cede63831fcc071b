package kinds

import (
	"encoding/json"
	"strconv"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// Patch is a JSON patch (RFC 6902) of one object, made from the object as it was read. It
// takes effect on that version of the object only.
type Patch struct {
	obj map[string]any
	ops []operation
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// absent is the value of a test that succeeds where there is nothing.
var absent = json.RawMessage("null")

// NewPatch begins a patch of an object: the API server answers with a conflict where the
// object has changed since.
func NewPatch(obj map[string]any) *Patch {
	p := &Patch{obj: obj}
	if m, ok := obj["metadata"].(map[string]any); ok {
		if v, ok := m["resourceVersion"].(string); ok {
			p.ops = append(p.ops, operation{"replace", "/metadata/resourceVersion", v})
		}
	}
	return p
}

// Empty reports whether the patch would change nothing.
func (p *Patch) Empty() bool { return len(p.ops) <= 1 }

// MarshalJSON returns the operations.
func (p *Patch) MarshalJSON() ([]byte, error) { return json.Marshal(p.ops) }

// set sets the value at a path, making the maps that lead there. A cache may hold less of the object than
// there is: the API server refuses the patch where it has something in the place of such a map.
func (p *Patch) set(at path, value any) {
	for n := 1; n < len(at); n++ {
		if _, ok := at[:n].get(p.obj); !ok && at[n-1].index < 0 && !p.made(at.pointer(n)) {
			p.ops = append(p.ops, operation{"test", at.pointer(n), absent}, operation{"add", at.pointer(n), map[string]any{}})
		}
	}
	p.ops = append(p.ops, operation{"add", at.pointer(len(at)), value})
}

func (p *Patch) made(pointer string) bool {
	for _, o := range p.ops {
		if o.Path == pointer {
			return true
		}
	}
	return false
}

func annotationPath(name string) path {
	return path{{key: "metadata", index: -1}, {key: "annotations", index: -1}, {key: name, index: -1}}
}

// Annotate sets annotations; an empty value removes one.
func (p *Patch) Annotate(name, value string) {
	at := annotationPath(name)
	old, has := at.get(p.obj)
	switch {
	case value == "" && has:
		p.ops = append(p.ops, operation{Op: "remove", Path: at.pointer(3)})
	case value != "" && old != value:
		p.set(at, value)
	}
}

// Hold keeps the object from running.
func (k *Kind) Hold(p *Patch) {
	switch {
	case k.Spec.Hold.Zero:
		p.Annotate(v1alpha1.AnnotationWorkers, strconv.Itoa(max(1, k.replicas.number(p.obj, 1))))
		p.set(k.replicas, 0)
	case k.Spec.Hold.Suspend != "" && queueOf(p.obj) == "": // in a queue, its Workload is set inactive
		p.set(k.suspend, true)
	}
}

// Release lets the object run, at the given number of workers; 0 leaves it as it is.
func (k *Kind) Release(p *Patch, workers int) {
	switch {
	case k.Spec.Hold.Gate:
		if i := gateOf(p.obj); i >= 0 {
			p.ops = append(p.ops, operation{Op: "remove", Path: "/spec/schedulingGates/" + strconv.Itoa(i)})
		}
	case k.Spec.Hold.Zero:
		if workers == 0 {
			workers = HeldWorkers(p.obj)
		}
		p.Annotate(v1alpha1.AnnotationWorkers, "")
	case queueOf(p.obj) != "": // Kueue itself lets it run
		p.Annotate(kueue.AnnotationGates, kueue.Without(annotation(p.obj, kueue.AnnotationGates), v1alpha1.Gate))
	default:
		p.set(k.suspend, false)
	}
	if workers > 0 {
		k.Scale(p, workers)
	}
}

func annotation(obj map[string]any, name string) string {
	return annotationPath(name).text(obj)
}

func inTandem(obj map[string]any) bool { return annotation(obj, v1alpha1.AnnotationTandem) == "true" }

// HeldWorkers is the number of workers of an object that is held at none.
func HeldWorkers(obj map[string]any) int {
	if n, err := strconv.Atoi(annotation(obj, v1alpha1.AnnotationWorkers)); err == nil && n > 0 {
		return n
	}
	return 1
}

// Scale sets the number of workers of a kind that has any.
func (k *Kind) Scale(p *Patch, workers int) {
	if !k.Elastic() {
		return
	}
	old := k.replicas.number(p.obj, 1)
	if old == workers {
		return
	}
	for _, t := range k.tandem {
		if old > 0 && inTandem(p.obj) && t.number(p.obj, -1) == old {
			p.set(t, workers)
		}
	}
	p.set(k.replicas, workers)
}

// Set makes an object that is still to be created one that runs at once with the given number
// of workers.
func (k *Kind) Set(obj map[string]any, workers int) {
	if len(k.suspend) > 0 {
		k.suspend.put(obj, false)
	}
	if k.Elastic() {
		for _, t := range k.tandem {
			if inTandem(obj) && t.number(obj, -1) == k.replicas.number(obj, 1) {
				t.put(obj, int64(workers))
			}
		}
		k.replicas.put(obj, int64(workers))
	}
}

// gateOf is the place of Lull's scheduling gate in a Pod; -1 where it has none.
func gateOf(obj map[string]any) int {
	spec, _ := obj["spec"].(map[string]any)
	gates, _ := spec["schedulingGates"].([]any)
	for i, g := range gates {
		if g, ok := g.(map[string]any); ok && g["name"] == v1alpha1.Gate {
			return i
		}
	}
	return -1
}
